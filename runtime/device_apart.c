/* SPDX-License-Identifier: Apache-2.0 */
/* A CPU device with memory of its own, for tests: instructions run as on `cpu`, but at addresses
 * that host code, other ranks included, can neither read nor write: their highest bit is set, so
 * that using one ends the process at once. With it tests show without a GPU that only
 * instructions, put and get touch device memory. */
#include "runtime/runtime.h"

#include <string.h>

static const uint64_t mark = (uint64_t)1 << 63;

static DtDeviceAt near(DtDeviceAt at) { return (DtDeviceAt){at.at & ~mark}; }

static void *real(DtDeviceAt at)
{
    return (void *)(uintptr_t)near(at).at; // NOLINT(performance-no-int-to-ptr)
}

static DtStatus open_apart(DtRank *rank, DtDeviceState **ret_state)
{
    return dt_device_cpu.open(rank, ret_state);
}

static void close_apart(DtDeviceState *state) { dt_device_cpu.close(state); }

static DtDeviceAt address(char *mapped) { return (DtDeviceAt){(uint64_t)(uintptr_t)mapped | mark}; }

static void run_kernel(DtDeviceState *state, const DtPlanInst *inst, uint32_t n_pointers,
                       const DtDeviceAt *pointers, const int64_t *integers)
{
    DtDeviceAt at[256];
    for (uint32_t i = 0; i < n_pointers; i++)
        at[i] = near(pointers[i]);
    dt_device_cpu.kernel(state, inst, n_pointers, at, integers);
}

static bool run_gemm(DtDeviceState *state, uint32_t gemm, const DtDeviceAt at[DT_GEMM_OPERANDS])
{
    DtDeviceAt there[DT_GEMM_OPERANDS];
    for (uint32_t k = 0; k < DT_GEMM_OPERANDS; k++)
        there[k] = near(at[k]);
    return dt_device_cpu.gemm(state, gemm, there);
}

static void copy(DtDeviceState *state, DtDeviceAt to, DtDeviceAt from, int64_t bytes)
{
    dt_device_cpu.copy(state, near(to), near(from), bytes);
}

static void zero(DtDeviceState *state, DtDeviceAt to, int64_t bytes)
{
    dt_device_cpu.zero(state, near(to), bytes);
}

static void put(DtDeviceState *state, DtDeviceAt to, const void *from, int64_t bytes)
{
    (void)state;
    memcpy(real(to), from, (size_t)bytes);
}

static void get(DtDeviceState *state, void *to, DtDeviceAt from, int64_t bytes)
{
    (void)state;
    memcpy(to, real(from), (size_t)bytes);
}

const DtDeviceOps dt_device_apart = {.name = "apart",
                                     .open = open_apart,
                                     .close = close_apart,
                                     .address = address,
                                     .kernel = run_kernel,
                                     .gemm = run_gemm,
                                     .copy = copy,
                                     .zero = zero,
                                     .put = put,
                                     .get = get};
