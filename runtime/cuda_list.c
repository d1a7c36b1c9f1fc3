/* SPDX-License-Identifier: Apache-2.0 */
/* --gpus: prints the GPUs of this machine, how fast they copy, and the libraries that a run would
 * use. With --json it prints what dtc calibrate needs. */
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

#include "base/cudalib.h"

#include <jansson.h>

enum { COPIES = 10 };
static const size_t LARGEST = (size_t)256 << 20; /* bytes of a timed copy; more than caches hold */

/* Returns the bytes that copies on the device read and write in a second; 0: it cannot copy. */
static double copy_rate(const DtCudaDriver *d, size_t bytes)
{
    uint64_t from = 0, to = 0;
    DtCudaStream *stream = NULL;
    DtCudaEvent *begin = NULL, *end = NULL;
    float ms = 0;
    bool good = bytes > 0 && d->alloc(&from, bytes) == 0 && d->alloc(&to, bytes) == 0 &&
                d->stream_new(&stream, DT_CUDA_STREAM_ALONE) == 0 && d->event_new(&begin, 0) == 0 &&
                d->event_new(&end, 0) == 0 && d->set_bytes(from, 0x5a, bytes, stream) == 0;
    for (int i = 0; good && i <= COPIES; i++) {
        good = d->copy(to, from, bytes, stream) == 0;
        if (i == 0) /* the first copy is slower and is not timed */
            good = good && d->event_record(begin, stream) == 0;
    }
    good = good && d->event_record(end, stream) == 0 && d->stream_wait(stream) == 0 &&
           d->event_elapsed(&ms, begin, end) == 0 && ms > 0;
    if (begin)
        d->event_free(begin);
    if (end)
        d->event_free(end);
    if (stream)
        d->stream_free(stream);
    if (from)
        d->free(from);
    if (to)
        d->free(to);
    return good ? 2.0 * COPIES * (double)bytes / ((double)ms * 1e-3) : 0;
}

typedef struct Gpu {
    char name[80];
    int major, minor, multiprocessors, cache; /* cache: bytes of the second-level cache */
    size_t left, total;
    double rate; /* rate of copies, in bytes/s */
} Gpu;

static DtStatus look_at(const DtCudaDriver *d, int number, Gpu *ret_gpu)
{
    DtCudaContext *context = NULL;
    int device = 0;
    Gpu *g = ret_gpu;
    *g = (Gpu){0};
    const struct { int *value, attribute; } wanted[] = {{&g->major, DT_CUDA_CAPABILITY_MAJOR},
                                                        {&g->minor, DT_CUDA_CAPABILITY_MINOR},
                                                        {&g->multiprocessors,
                                                         DT_CUDA_MULTIPROCESSORS},
                                                        {&g->cache, DT_CUDA_CACHE_BYTES}};
    int error = d->device(&device, number);
    if (error == 0)
        error = d->device_name(g->name, sizeof g->name, device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && error == 0; i++)
        error = d->device_attribute(wanted[i].value, wanted[i].attribute, device);
    if (error == 0)
        error = d->retain(&context, device);
    if (error)
        return dt_status_fail(DT_EXIT_RETRY, "GPU %d cannot be used: %s", number,
                              dt_cuda_driver_error(d, error));
    error = d->set_current(context);
    if (error == 0)
        error = d->memory_info(&g->left, &g->total);
    g->rate = error == 0 ? copy_rate(d, g->left / 8 < LARGEST ? g->left / 8 : LARGEST) : 0;
    d->release(device);
    return error || g->rate == 0
               ? dt_status_fail(DT_EXIT_RETRY, "GPU %d, %s, cannot be used: %s", number, g->name,
                                error ? dt_cuda_driver_error(d, error) : "it copies nothing")
               : DT_OK;
}

static void say_gpu(const Gpu *g, int number, FILE *out)
{
    char has[32], free_bytes[32];
    fprintf(out, "GPU %d: %s, sm_%d%d, %d multiprocessors, %s free of %s, copies at %.0f GB/s\n",
            number, g->name, g->major, g->minor, g->multiprocessors,
            dt_text_bytes(free_bytes, (double)g->left), dt_text_bytes(has, (double)g->total),
            g->rate * 1e-9);
}

/* Sizes in bytes, rates in bytes/s. */
static json_t *json_of(const Gpu *g)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:f}", "name", g->name, "capability",
                     10 * g->major + g->minor, "multiprocessors", g->multiprocessors, "cache",
                     g->cache, "free", (json_int_t)g->left, "memory", (json_int_t)g->total,
                     "copies", g->rate);
}

static DtStatus list(const DtCudaDriver *driver, int n, bool json, FILE *out)
{
    DtStatus status = DT_OK;
    json_t *all = json_array();
    for (int i = 0; i < n && dt_status_ok(&status); i++) {
        Gpu gpu;
        status = look_at(driver, i, &gpu);
        if (dt_status_ok(&status) && json)
            json_array_append_new(all, json_of(&gpu));
        else if (dt_status_ok(&status))
            say_gpu(&gpu, i, out);
    }
    if (dt_status_ok(&status) && json) {
        json_dumpf(all, out, JSON_COMPACT);
        fputc('\n', out);
    }
    json_decref(all);
    return status;
}

static const char *say_library(DtArena *arena, const char *name, const char *const *versions,
                               const char *use, FILE *out)
{
    const DtCudaLib library = {name, versions, use};
    const char *path = NULL;
    DtStatus status = dt_cudalib_find(arena, &library, &path);
    fprintf(out, "lib%s: %s\n", name, dt_status_ok(&status) ? path : status.message);
    return path;
}

static DtStatus say_libraries(DtArena *arena, const DtCudaDriver *driver, FILE *out)
{
    static const char *const of_cuda[] = {"13", "12", NULL}, *const of_nccl[] = {"2", NULL},
                             *const of_cudnn[] = {"9", NULL};
    if (!say_library(arena, "cublasLt", dt_cuda_driver_libraries(driver),
                     "package libcublas-13-0, or nvidia-cublas of PyPI", out))
        return dt_status_fail(DT_EXIT_FAILED, "matrix products on a GPU need cuBLASLt");
    say_library(arena, "nccl", of_nccl,
                "package libnccl2, or nvidia-nccl-cu13 of PyPI; only plans of several ranks use it",
                out);
    say_library(
        arena, "cudnn", of_cudnn,
        "package cudnn9-cuda-13, or nvidia-cudnn-cu13 of PyPI; plans have kernels for who lacks it",
        out);
    say_library(arena, "nvrtc", of_cuda,
                "package cuda-nvrtc-13-0, or nvidia-cuda-nvrtc of PyPI; only dtc needs it", out);
    return DT_OK;
}

DtStatus dt_cuda_count(int *ret_n)
{
    DtArena *arena = dt_arena_new();
    DtCudaDriver driver;
    DtStatus status = dt_cuda_driver_open(arena, &driver);
    *ret_n = 0;
    if (dt_status_ok(&status) && driver.device_count(ret_n) != 0)
        status = dt_status_fail(DT_EXIT_FAILED, "this machine has a driver and no GPU");
    dt_arena_free(arena);
    return status;
}

DtStatus dt_cuda_list(bool json, FILE *out)
{
    DtArena *arena = dt_arena_new();
    DtCudaDriver driver;
    DtStatus status = dt_cuda_driver_open(arena, &driver);
    int n = 0;
    if (dt_status_ok(&status) && (driver.device_count(&n) != 0 || n == 0))
        status = dt_status_fail(DT_EXIT_FAILED, "this machine has a driver and no GPU");
    if (dt_status_ok(&status) && !json)
        fprintf(out, "driver: CUDA %d.%d\n", driver.version / 1000, driver.version % 1000 / 10);
    if (dt_status_ok(&status))
        status = list(&driver, n, json, out);
    if (dt_status_ok(&status) && !json)
        status = say_libraries(arena, &driver, out);
    fflush(out);
    dt_arena_free(arena);
    return status;
}
