/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's own kernels on a GPU. A plan may contain machine code for several kinds of GPU; each
 * kernel is loaded from the code that suits this GPU best. With --rebuild, its text is compiled for
 * this GPU first. A kernel with two launches is two functions: the first leaves values in a
 * workspace, from which the second computes the result. */
#include "runtime/cuda_kernels.h"

#include "base/gpucode.h"
#include "base/nvrtc.h"

#include <string.h>

struct DtCudaKernels {
    const DtRank *rank;
    const DtCudaDriver *driver;
    DtCudaStream *stream;
    DtCudaTarget target;
    DtCudaModule **modules;     /* by code unit; NULL: its code is for another target */
    DtCudaFunction **functions; /* by kernel */
    DtCudaFunction **finishes;  /* the functions of the second launch, for kernels with two
                                 * launches; else NULL */
    uint64_t workspace;         /* memory that holds values between the two launches */
};

/* ---- loading ---- */

/* Returns the CODE record of the unit whose code runs best on this GPU; UINT32_MAX: there is
 * none. */
static uint32_t code_for(const DtCudaKernels *kernels, uint32_t unit)
{
    const DtPlan *plan = kernels->rank->plan;
    uint32_t best = UINT32_MAX;
    int most = 0;
    for (uint32_t c = unit;
         c < plan->n_codes && plan->codes[c].source == plan->codes[unit].source &&
         plan->codes[c].source_len == plan->codes[unit].source_len;
         c++) {
        const int value = plan->codes[c].binary_len
                              ? dt_gpucode_suits(dt_plan_str(plan, plan->codes[c].target),
                                                 kernels->target.major, kernels->target.minor)
                              : 0;
        best = value > most ? c : best;
        most = value > most ? value : most;
    }
    return best;
}

static DtStatus no_code(const DtCudaKernels *kernels)
{
    const DtPlan *plan = kernels->rank->plan;
    const char *target = dt_gpucode_for(kernels->target.major, kernels->target.minor);
    char name[80] = "";
    DtText targets = {0};
    kernels->driver->device_name(name, sizeof name, kernels->target.device);
    for (uint32_t c = 0; c < plan->n_codes; c++) {
        const char *has = dt_plan_str(plan, plan->codes[c].target);
        if (plan->codes[c].binary_len && (!targets.len || !strstr(targets.at, has)))
            dt_text_printf(&targets, "%s%s", targets.len ? ", " : "", has);
    }
    const DtStatus status = dt_status_fail(
        DT_EXIT_FAILED, "the plan has code for %.200s, and none for this %s (sm_%d%d)%s%s%s",
        targets.len ? targets.at : "no target", name, kernels->target.major, kernels->target.minor,
        target ? ": compile it with --target=" : ", which dtc knows no target for",
        target ? target : "", target ? ", or run it with --rebuild where NVRTC is" : "");
    dt_text_free(&targets);
    return status;
}

/* The number of threads of a block, from DT_KERNEL(symbol, blocks, threads, ..) in the kernel's
 * text; 0: the text does not contain it. */
static uint32_t threads_of(const DtPlan *plan, uint32_t kernel, const char *symbol)
{
    const DtPlanCode *code = &plan->codes[plan->kernels[kernel].code];
    const char *text = (const char *)plan->blob + code->source;
    char begin[300], rest[64] = "";
    long long blocks;
    uint32_t threads = 0;
    const int len = snprintf(begin, sizeof begin, "DT_KERNEL(%s, ", symbol);
    const char *at =
        len < (int)sizeof begin ? memmem(text, code->source_len, begin, (size_t)len) : NULL;
    if (!at)
        return 0;
    const size_t left = (size_t)(text + code->source_len - at) - (size_t)len;
    memcpy(rest, at + len, left < sizeof rest - 1 ? left : sizeof rest - 1);
    return sscanf(rest, "%lld, %u,", &blocks, &threads) == 2 ? threads : 0;
}

/* Returns the CODE record that a kernel uses on this GPU. With --rebuild that is the first record
 * of its code unit, which contains the text. */
static uint32_t code_of(const DtCudaKernels *kernels, const DtPlanKernel *kernel)
{
    return kernels->rank->options->rebuild ? kernel->code : code_for(kernels, kernel->code);
}

/* Compiles the text of a code unit on this machine by NVRTC, for this GPU. The result is kept in
 * the cache (base/nvrtc.h). */
static DtStatus rebuild(const DtCudaKernels *kernels, uint32_t code, const void **ret_image)
{
    const DtRank *rank = kernels->rank;
    const DtPlanCode *unit = &rank->plan->codes[code];
    const char *target = dt_gpucode_for(kernels->target.major, kernels->target.minor);
    DtNvrtcResult result;
    if (!target)
        return no_code(kernels);
    const char *text = dt_arena_strndup(rank->memory, (const char *)rank->plan->blob + unit->source,
                                        unit->source_len);
    const DtStatus status =
        dt_nvrtc_build(rank->memory, text, target, kernels->driver->version / 1000, &result);
    *ret_image = result.cubin;
    if (dt_status_ok(&status))
        return DT_OK;
    return dt_status_fail(status.code, "the plan's kernels cannot be compiled for this GPU: %.400s",
                          status.message);
}

/* Returns the error for code that the driver does not load. A newer compiler may have made it in a
 * format that an older driver does not know. */
static DtStatus refused(const DtCudaKernels *kernels, uint32_t code, int error)
{
    const DtPlan *plan = kernels->rank->plan;
    const char *compiler = dt_plan_str(plan, plan->codes[code].compiler);
    const int version = kernels->driver->version;
    int major = 0;
    DtText text = {0};
    dt_text_printf(&text, "code unit %u cannot be loaded: %s", code,
                   dt_cuda_driver_error(kernels->driver, error));
    if (!kernels->rank->options->rebuild && sscanf(compiler, "NVRTC %d", &major) == 1 &&
        major > version / 1000)
        dt_text_printf(
            &text,
            ". %s made it, and the driver knows CUDA %d.%d: compile the plan where NVRTC %d is "
            "(libnvrtc.so.%d), run it with --rebuild where that is, or update the driver",
            compiler, version / 1000, version % 1000 / 10, version / 1000, version / 1000);
    const DtStatus status = dt_status_fail(DT_EXIT_FAILED, "%s", text.at);
    dt_text_free(&text);
    return status;
}

static DtStatus load_module(DtCudaKernels *kernels, uint32_t code)
{
    const DtPlan *plan = kernels->rank->plan;
    const void *image = plan->blob + plan->codes[code].binary;
    DtStatus status = DT_OK;
    if (kernels->modules[code])
        return status;
    if (kernels->rank->options->rebuild)
        status = rebuild(kernels, code, &image);
    const int error =
        dt_status_ok(&status) ? kernels->driver->module_load(&kernels->modules[code], image) : 0;
    return error == 0 ? status : refused(kernels, code, error);
}

static DtStatus load_kernels(DtCudaKernels *kernels)
{
    const DtPlan *plan = kernels->rank->plan;
    const DtCudaDriver *d = kernels->driver;
    int most = 0;
    const int unknown = d->device_attribute(&most, DT_CUDA_SHARED_BYTES, kernels->target.device);
    if (unknown)
        return dt_status_fail(DT_EXIT_FAILED, "the GPU does not say what its blocks have: %s",
                              dt_cuda_driver_error(d, unknown));
    kernels->modules = DT_NEW_ARRAY(kernels->rank->memory, DtCudaModule *, plan->n_codes + 1);
    kernels->functions = DT_NEW_ARRAY(kernels->rank->memory, DtCudaFunction *, plan->n_kernels + 1);
    kernels->finishes = DT_NEW_ARRAY(kernels->rank->memory, DtCudaFunction *, plan->n_kernels + 1);
    for (uint32_t k = 0; k < plan->n_kernels; k++) {
        const bool finishes = plan->launches[k].finish > 0;
        const char *name = dt_plan_str(plan, plan->kernels[k].symbol);
        const char *symbol =
            finishes ? dt_arena_printf(kernels->rank->memory, "%s" DT_PLAN_PIECES, name) : name;
        const uint32_t code = code_of(kernels, &plan->kernels[k]),
                       threads = threads_of(plan, k, symbol);
        if (code == UINT32_MAX)
            return no_code(kernels);
        if (threads && threads != plan->launches[k].threads)
            return dt_status_fail(
                DT_EXIT_FAILED,
                "kernel `%.60s` has blocks of %u threads, and the plan starts it with %u", symbol,
                threads, plan->launches[k].threads);
        const DtStatus status = load_module(kernels, code);
        if (!dt_status_ok(&status))
            return status;
        int error = d->module_function(&kernels->functions[k], kernels->modules[code], symbol);
        if (error == 0 && finishes) {
            symbol = dt_arena_printf(kernels->rank->memory, "%s" DT_PLAN_FINISH, name);
            error = d->module_function(&kernels->finishes[k], kernels->modules[code], symbol);
        }
        if (error == 0 && plan->launches[k].shared > (uint32_t)most)
            return dt_status_fail(
                DT_EXIT_FAILED,
                "kernel `%.60s` wants %u bytes of memory that a block's threads share, and this "
                "GPU (sm_%d%d) has %d",
                symbol, plan->launches[k].shared, kernels->target.major, kernels->target.minor,
                most);
        if (error == 0 && plan->launches[k].shared > 0)
            error = d->function_set(kernels->functions[k], DT_CUDA_FUNCTION_SHARED,
                                    (int)plan->launches[k].shared);
        if (error)
            return dt_status_fail(DT_EXIT_FAILED,
                                  "kernel `%.60s` of code unit %u cannot be loaded: %s", symbol,
                                  code, dt_cuda_driver_error(d, error));
    }
    return DT_OK;
}

DtStatus dt_cuda_kernels_open(const DtRank *rank, const DtCudaDriver *driver, DtCudaStream *stream,
                              DtCudaTarget target, DtCudaKernels **ret_kernels)
{
    DtCudaKernels *kernels = DT_NEW(rank->memory, DtCudaKernels);
    *kernels = (DtCudaKernels){.rank = rank, .driver = driver, .stream = stream, .target = target};
    *ret_kernels = kernels;
    return load_kernels(kernels);
}

void dt_cuda_kernels_close(DtCudaKernels *kernels)
{
    for (uint32_t i = 0; kernels->modules && i < kernels->rank->plan->n_codes; i++)
        if (kernels->modules[i])
            kernels->driver->module_free(kernels->modules[i]);
}

DtStatus dt_cuda_kernels_beside(const DtCudaKernels *kernels, uint32_t kernel, const char *suffix,
                                DtCudaFunction **ret_function)
{
    const DtPlan *plan = kernels->rank->plan;
    const DtPlanKernel *record = &plan->kernels[kernel];
    const char *symbol =
        dt_arena_printf(kernels->rank->memory, "%s%s", dt_plan_str(plan, record->symbol), suffix);
    const int error = kernels->driver->module_function(
        ret_function, kernels->modules[code_of(kernels, record)], symbol);
    return error == 0 ? DT_OK
                      : dt_status_fail(DT_EXIT_FAILED, "kernel `%.60s` cannot be loaded: %s",
                                       symbol, dt_cuda_driver_error(kernels->driver, error));
}

/* ---- starting ---- */

uint64_t dt_cuda_kernels_bytes(const DtPlan *plan)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        most = plan->launches[i].workspace > most ? plan->launches[i].workspace : most;
    return most;
}

void dt_cuda_kernels_place(DtCudaKernels *kernels, uint64_t workspace)
{
    kernels->workspace = workspace;
}

int dt_cuda_kernels_start(const DtCudaKernels *kernels, uint32_t kernel, uint32_t n_pointers,
                          const DtDeviceAt *pointers, const int64_t *integers)
{
    const DtCudaDriver *d = kernels->driver;
    const DtPlanLaunch *launch = &kernels->rank->plan->launches[kernel];
    const uint32_t n_integers = kernels->rank->plan->kernels[kernel].n_integers;
    /* one struct with the kernel's pointers and integers, at most 256 of each, and the workspace;
     * if there is only one of these values, the struct has one member */
    uint64_t arguments[513];
    void *parameters[] = {arguments};
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_pointers; i++)
        arguments[n++] = pointers[i].at;
    if (launch->finish)
        arguments[n++] = kernels->workspace;
    n += n == 0;
    for (uint32_t i = 0; i < n_integers; i++)
        arguments[n++] = (uint64_t)integers[i];
    int error = d->launch(kernels->functions[kernel], launch->blocks, 1, 1, launch->threads, 1, 1,
                          launch->shared, kernels->stream, parameters, NULL);
    if (error == 0 && launch->finish)
        error = d->launch(kernels->finishes[kernel], launch->finish, 1, 1, launch->threads, 1, 1, 0,
                          kernels->stream, parameters, NULL);
    return error;
}
