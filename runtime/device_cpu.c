/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: kernels are functions of the plan's code units, or are interpreted; products
 * go to a library. */
#include "kir/kir.h"
#include "runtime/code.h"
#include "runtime/gemm.h"

#include <dlfcn.h>
#include <string.h>

typedef void Kernel(char *const *pointers, const int64_t *integers);

struct DtDeviceState {
    DtRank *rank;
    Kernel **kernels;
    DtKirKernel **interpreted; /* by kernel: one of both is set */
    DtGemms gemms;
};

static bool find_kernel(DtDeviceState *state, uint32_t number)
{
    const DtRank *rank = state->rank;
    const DtPlanKernel *kernel = &rank->plan->kernels[number];
    const char *symbol = dt_plan_str(rank->plan, kernel->symbol);
    if (!rank->codes[kernel->code]) {
        DtKirKernel *found = dt_kir_find(rank->images[kernel->code], symbol);
        state->interpreted[number] = found;
        return found && dt_kir_pointers(found) == kernel->n_pointers &&
               dt_kir_integers(found) == kernel->n_integers;
    }
    *(void **)&state->kernels[number] = dlsym(rank->codes[kernel->code], symbol);
    return state->kernels[number] != NULL;
}

static DtStatus open_device(DtRank *rank, DtDeviceState **ret_state)
{
    const DtPlan *plan = rank->plan;
    DtDeviceState *state = DT_NEW(rank->memory, DtDeviceState);
    *ret_state = state;
    state->rank = rank;
    DtStatus status = dt_code_load(rank);
    if (!dt_status_ok(&status))
        return status;
    state->kernels = DT_NEW_ARRAY(rank->memory, Kernel *, plan->n_kernels + 1);
    state->interpreted = DT_NEW_ARRAY(rank->memory, DtKirKernel *, plan->n_kernels + 1);
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        if (!find_kernel(state, i))
            return dt_status_fail(DT_EXIT_FAILED, "code unit %u of the plan lacks kernel `%s`",
                                  plan->kernels[i].code,
                                  dt_plan_str(plan, plan->kernels[i].symbol));
    status = dt_gemm_open(plan, rank->memory, rank->options->gemm, &state->gemms);
    if (!dt_status_ok(&status))
        return status;
    rank->memory_bytes += dt_gemm_workspace(&state->gemms);
    rank->gemm_library = state->gemms.ops ? state->gemms.ops->name : "plain";
    rank->n_plain_gemms = state->gemms.ops ? state->gemms.n_plain : plan->n_gemms;
    return DT_OK;
}

static void close_device(DtDeviceState *state)
{
    dt_gemm_close(&state->gemms);
    dt_code_close(state->rank);
}

static char *real(DtDeviceAt at)
{
    return (char *)(uintptr_t)at.at; // NOLINT(performance-no-int-to-ptr)
}

/* Interprets a kernel. The interpreter only lets it access the memory of its arguments. */
static void interpret(DtDeviceState *state, const DtPlanInst *inst, uint32_t n_pointers,
                      char *const *at, const int64_t *integers)
{
    const DtPlan *plan = state->rank->plan;
    DtKirRange ranges[256];
    for (uint32_t i = 0; i < n_pointers; i++)
        ranges[i] = (DtKirRange){0, plan->args[inst->first_arg + i].bytes};
    const DtKirCall call = {.pointers = at, .integers = integers, .ranges = ranges};
    if (!dt_kir_run(state->interpreted[inst->ref], &call))
        dt_rank_fail(state->rank, DT_EXIT_FAILED,
                     "kernel `%.60s` touches memory outside of its arguments",
                     dt_plan_str(plan, plan->kernels[inst->ref].symbol));
}

static void run_kernel(DtDeviceState *state, const DtPlanInst *inst, uint32_t n_pointers,
                       const DtDeviceAt *pointers, const int64_t *integers)
{
    char *at[256];
    for (uint32_t i = 0; i < n_pointers; i++)
        at[i] = real(pointers[i]);
    if (state->interpreted[inst->ref])
        interpret(state, inst, n_pointers, at, integers);
    else
        state->kernels[inst->ref](at, integers);
}

static bool run_gemm(DtDeviceState *state, uint32_t gemm, const DtDeviceAt at[DT_GEMM_OPERANDS])
{
    return dt_gemm_join(&state->gemms, gemm, real(at[DT_GEMM_A]), real(at[DT_GEMM_B]),
                        real(at[DT_GEMM_C]), real(at[DT_GEMM_VECTOR]), real(at[DT_GEMM_MATRIX]));
}

static void copy(DtDeviceState *state, DtDeviceAt to, DtDeviceAt from, int64_t bytes)
{
    (void)state;
    memmove(real(to), real(from), (size_t)bytes);
}

static void zero(DtDeviceState *state, DtDeviceAt to, int64_t bytes)
{
    (void)state;
    memset(real(to), 0, (size_t)bytes);
}

const DtDeviceOps dt_device_cpu = {.name = "cpu",
                                   .is_host = true,
                                   .open = open_device,
                                   .close = close_device,
                                   .kernel = run_kernel,
                                   .gemm = run_gemm,
                                   .copy = copy,
                                   .zero = zero};
