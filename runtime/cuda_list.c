/* SPDX-License-Identifier: Apache-2.0 */
/* --gpus: the GPUs of this machine, how fast they copy, and the libraries that would be used. */
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

#include "base/cudalib.h"

enum { COPIES = 10 };
static const size_t LARGEST = (size_t)256 << 20; /* of a copy; more than caches hold */

/* Bytes read and written in a second; 0: the device does not do it. */
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
        if (i == 0) /* the first one is slower */
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

static DtStatus say_gpu(const DtCudaDriver *d, int number, FILE *out)
{
    DtCudaContext *context = NULL;
    int device = 0, major = 0, minor = 0;
    size_t left = 0, total = 0;
    char name[80] = "", has[32], free_bytes[32];
    int error = d->device(&device, number);
    if (error == 0)
        error = d->device_name(name, sizeof name, device);
    if (error == 0)
        error = d->device_attribute(&major, DT_CUDA_CAPABILITY_MAJOR, device);
    if (error == 0)
        error = d->device_attribute(&minor, DT_CUDA_CAPABILITY_MINOR, device);
    if (error == 0)
        error = d->retain(&context, device);
    if (error)
        return dt_status_fail(DT_EXIT_RETRY, "GPU %d cannot be used: %s", number, dt_cuda_driver_error(d, error));
    error = d->set_current(context);
    if (error == 0)
        error = d->memory_info(&left, &total);
    const double rate = error == 0 ? copy_rate(d, left / 8 < LARGEST ? left / 8 : LARGEST) : 0;
    d->release(device);
    if (error || rate == 0)
        return dt_status_fail(DT_EXIT_RETRY, "GPU %d, %s, cannot be used: %s", number, name,
                              error ? dt_cuda_driver_error(d, error) : "it copies nothing");
    fprintf(out, "GPU %d: %s, sm_%d%d, %s free of %s, copies at %.0f GB/s\n", number, name, major, minor,
            dt_text_bytes(free_bytes, (double)left), dt_text_bytes(has, (double)total), rate * 1e-9);
    return DT_OK;
}

static const char *say_library(DtArena *arena, const char *name, const char *const *versions, const char *use,
                               FILE *out)
{
    const DtCudaLib library = {name, versions, use};
    const char *path = NULL;
    DtStatus status = dt_cudalib_find(arena, &library, &path);
    fprintf(out, "lib%s: %s\n", name, dt_status_ok(&status) ? path : status.message);
    return path;
}

DtStatus dt_cuda_list(FILE *out)
{
    static const char *const of_cuda[] = {"13", "12", NULL}, *const of_nccl[] = {"2", NULL};
    DtArena *arena = dt_arena_new();
    DtCudaDriver driver;
    DtStatus status = dt_cuda_driver_open(arena, &driver);
    int n = 0;
    if (dt_status_ok(&status) && (driver.device_count(&n) != 0 || n == 0))
        status = dt_status_fail(DT_EXIT_FAILED, "this machine has a driver and no GPU");
    if (dt_status_ok(&status))
        fprintf(out, "driver: CUDA %d.%d\n", driver.version / 1000, driver.version % 1000 / 10);
    for (int i = 0; i < n && dt_status_ok(&status); i++)
        status = say_gpu(&driver, i, out);
    if (dt_status_ok(&status) &&
        !say_library(arena, "cublasLt", of_cuda, "package libcublas-13-0, or nvidia-cublas of PyPI", out))
        status = dt_status_fail(DT_EXIT_FAILED, "matrix products on a GPU need cuBLASLt");
    if (dt_status_ok(&status))
        say_library(arena, "nccl", of_nccl,
                    "package libnccl2, or nvidia-nccl-cu13 of PyPI; only plans of several ranks use it", out);
    if (dt_status_ok(&status))
        say_library(arena, "nvrtc", of_cuda,
                    "package cuda-nvrtc-13-0, or nvidia-cuda-nvrtc of PyPI; only dtc needs it", out);
    fflush(out);
    dt_arena_free(arena);
    return status;
}
