/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: kernels are functions of the plan's code units, products go to a library. */
#include "runtime/code.h"
#include "runtime/gemm.h"

#include <dlfcn.h>
#include <string.h>

typedef void Kernel(char *const *pointers, const int64_t *integers);

struct DtDeviceState {
    DtRank *rank;
    Kernel **kernels;
    DtGemms gemms;
};

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
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        const char *symbol = dt_plan_str(plan, plan->kernels[i].symbol);
        *(void **)&state->kernels[i] = dlsym(rank->codes[plan->kernels[i].code], symbol);
        if (state->kernels[i] == NULL)
            return dt_status_fail(DT_EXIT_FAILED, "code unit %u of the plan lacks kernel `%s`",
                                  plan->kernels[i].code, symbol);
    }
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

static void run_kernel(DtDeviceState *state, uint32_t kernel, uint32_t n_pointers, const DtDeviceAt *pointers,
                       const int64_t *integers)
{
    char *at[256];
    for (uint32_t i = 0; i < n_pointers; i++)
        at[i] = real(pointers[i]);
    state->kernels[kernel](at, integers);
}

static bool run_gemm(DtDeviceState *state, uint32_t gemm, const DtDeviceAt at[DT_GEMM_OPERANDS])
{
    return dt_gemm_join(&state->gemms, gemm, real(at[DT_GEMM_A]), real(at[DT_GEMM_B]), real(at[DT_GEMM_C]),
                        real(at[DT_GEMM_VECTOR]), real(at[DT_GEMM_MATRIX]));
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
