/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the library for matrix products. If the chosen library cannot compute a record (16-bit
 * operands for which it has no fast code, or strides that it does not support), the operands are
 * copied to tiles in f32 (gemm_wide.c). With --gemm=plain all products run in plain loops, which
 * are slow. The log says how many products do. */
#include "runtime/gemm_wide.h"

#include <string.h>

const char *const dt_gemm_names[DT_GEMM_KINDS] = {
    [DT_GEMM_ONEDNN] = "onednn", [DT_GEMM_OPENBLAS] = "openblas", [DT_GEMM_PLAIN] = "plain"};

static DtStatus open_one(DtArena *memory, const DtGemmOps *ops, uint32_t n_products, DtGemms *gemms)
{
    DtGemmLibrary *library = NULL;
    DtStatus status = ops->open(memory, n_products, &library);
    if (!dt_status_ok(&status))
        return status;
    gemms->ops = ops;
    gemms->library = library;
    return DT_OK;
}

static DtStatus open_library(DtArena *memory, const DtPlan *plan, DtGemmKind kind, DtGemms *gemms)
{
    const uint32_t n = 3 * plan->n_gemms;
    if (kind == DT_GEMM_OPENBLAS)
        return open_one(memory, &dt_gemm_openblas, n, gemms);
    DtStatus first = open_one(memory, &dt_gemm_onednn, n, gemms);
    if (kind == DT_GEMM_ONEDNN || (gemms->library && gemms->ops->suits(gemms->library)))
        return first;
    DtGemms other = {.plan = plan};
    DtStatus status = open_one(memory, &dt_gemm_openblas, n, &other);
    if (dt_status_ok(&status)) {
        dt_gemm_close(gemms);
        *gemms = other;
        return DT_OK;
    }
    if (gemms->library)
        return DT_OK;
    return dt_status_fail(
        DT_EXIT_FAILED,
        "no library for matrix products: %.150s; %.150s; or choose the slow plain loops with "
        "--gemm=plain",
        first.message, status.message);
}

static void prepare_all(DtGemms *gemms, DtArena *memory)
{
    uint32_t n = gemms->plan->n_gemms;
    gemms->ways = DT_NEW_ARRAY(memory, uint8_t, n);
    gemms->numbers = DT_NEW_ARRAY(memory, uint32_t, n);
    gemms->inner = DT_NEW_ARRAY(memory, DtPlanGemm, n);
    gemms->wide = dt_gemm_wide_new(memory, gemms->ops, gemms->library, n, n);
    for (uint32_t i = 0; i < n; i++) {
        const DtPlanGemm *g = &gemms->inner[i];
        gemms->inner[i] = dt_gemm_epilogue_inner(&gemms->plan->gemms[i]);
        if (gemms->ops->prepare(gemms->library, i, g))
            gemms->ways[i] = DT_GEMM_BY_LIBRARY;
        else if (dt_gemm_wide_prepare(gemms->wide, memory, g, &gemms->numbers[i]))
            gemms->ways[i] = DT_GEMM_BY_TILES;
        gemms->n_plain += gemms->ways[i] == DT_GEMM_BY_LOOPS;
    }
    dt_gemm_wide_ready(gemms->wide, memory);
}

DtStatus dt_gemm_open(const DtPlan *plan, DtArena *memory, DtGemmKind kind, DtGemms *ret_gemms)
{
    DtGemms gemms = {.plan = plan};
    for (uint32_t i = 0; i < plan->n_gemms; i++) {
        const uint32_t dtypes[3] = {plan->gemms[i].dtype_a, plan->gemms[i].dtype_b,
                                    plan->gemms[i].dtype_c};
        for (int d = 0; d < 3; d++)
            if (dtypes[d] != DT_PLAN_F32 && dtypes[d] != DT_PLAN_BF16 && dtypes[d] != DT_PLAN_F16)
                return dt_status_fail(
                    DT_EXIT_FAILED,
                    "the plan multiplies %s matrices; the CPU multiplies f32, bf16 and f16",
                    dt_kinds_name(dtypes[d]));
    }
    if (kind != DT_GEMM_PLAIN && plan->n_gemms > 0) {
        DtStatus status = open_library(memory, plan, kind, &gemms);
        if (!dt_status_ok(&status))
            return status;
        prepare_all(&gemms, memory);
    }
    *ret_gemms = gemms;
    return DT_OK;
}

bool dt_gemm_run(const DtGemms *gemms, uint32_t index, const void *a, const void *b, void *c)
{
    DtGemmWay way = gemms->ways ? (DtGemmWay)gemms->ways[index] : DT_GEMM_BY_LOOPS;
    if (way == DT_GEMM_BY_LIBRARY)
        return gemms->ops->run(gemms->library, index, a, b, c);
    if (way == DT_GEMM_BY_TILES)
        return dt_gemm_wide_run(gemms->wide, gemms->numbers[index], a, b, c);
    dt_gemm_plain_run(&gemms->plan->gemms[index], a, b, c);
    return true;
}

bool dt_gemm_join(const DtGemms *gemms, uint32_t index, const void *a, const void *b, void *c,
                  void *vector, void *matrix)
{
    const DtPlanGemm *g = &gemms->plan->gemms[index];
    if (!g->epilogue)
        return dt_gemm_run(gemms, index, a, b, c);
    if (!gemms->ways || gemms->ways[index] == DT_GEMM_BY_LOOPS) {
        dt_gemm_plain_join(g, a, b, c, vector, matrix);
        return true;
    }
    dt_gemm_epilogue_begin(g, c, matrix);
    if (!dt_gemm_run(gemms, index, a, b, c))
        return false;
    dt_gemm_epilogue_end(g, a, b, c, vector, matrix);
    return true;
}

uint64_t dt_gemm_workspace(const DtGemms *gemms)
{
    return gemms->library ? gemms->ops->workspace(gemms->library) + dt_gemm_wide_bytes(gemms->wide)
                          : 0;
}

void dt_gemm_close(DtGemms *gemms)
{
    if (gemms->library)
        gemms->ops->close(gemms->library);
    *gemms = (DtGemms){0};
}
