/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the library for matrix products. A record that the chosen library cannot do (strides of
 * a kind it lacks) runs in the plain loops; how many do is in the log, since they are slow. */
#include "runtime/gemm.h"

#include <string.h>

static DtStatus open_library(DtArena *memory, const DtPlan *plan, DtGemmKind kind, DtGemms *gemms)
{
    DtStatus status = DT_OK, first = DT_OK;
    gemms->ops = kind == DT_GEMM_OPENBLAS ? &dt_gemm_openblas : &dt_gemm_onednn;
    status = gemms->ops->open(memory, plan->n_gemms, &gemms->library);
    if (dt_status_ok(&status) || kind != DT_GEMM_DEFAULT)
        return status;
    first = status;
    gemms->ops = &dt_gemm_openblas;
    status = gemms->ops->open(memory, plan->n_gemms, &gemms->library);
    if (dt_status_ok(&status))
        return status;
    return dt_status_fail(
        DT_EXIT_FAILED,
        "no library for matrix products: %.150s; %.150s; or choose the slow plain "
        "loops with --gemm=plain",
        first.message, status.message);
}

DtStatus dt_gemm_open(const DtPlan *plan, DtArena *memory, DtGemmKind kind, DtGemms *ret_gemms)
{
    DtGemms gemms = {.plan = plan};
    for (uint32_t i = 0; i < plan->n_gemms; i++) {
        const uint32_t dtypes[3] = {plan->gemms[i].dtype_a, plan->gemms[i].dtype_b,
                                    plan->gemms[i].dtype_c};
        for (int d = 0; d < 3; d++)
            if (dtypes[d] != DT_PLAN_F32 && dtypes[d] != DT_PLAN_BF16)
                return dt_status_fail(
                    DT_EXIT_FAILED,
                    "the plan multiplies %s matrices; the CPU multiplies f32 and bf16",
                    dt_kinds_name(dtypes[d]));
    }
    if (kind != DT_GEMM_PLAIN && plan->n_gemms > 0) {
        DtStatus status = open_library(memory, plan, kind, &gemms);
        if (!dt_status_ok(&status))
            return status;
        gemms.prepared = DT_NEW_ARRAY(memory, bool, plan->n_gemms);
        for (uint32_t i = 0; i < plan->n_gemms; i++) {
            gemms.prepared[i] = gemms.ops->prepare(gemms.library, i, &plan->gemms[i]);
            gemms.n_plain += !gemms.prepared[i];
        }
    }
    *ret_gemms = gemms;
    return DT_OK;
}

bool dt_gemm_run(const DtGemms *gemms, uint32_t index, const void *a, const void *b, void *c)
{
    if (gemms->prepared && gemms->prepared[index])
        return gemms->ops->run(gemms->library, index, a, b, c);
    dt_gemm_plain_run(&gemms->plan->gemms[index], a, b, c);
    return true;
}

uint64_t dt_gemm_workspace(const DtGemms *gemms)
{
    return gemms->library ? gemms->ops->workspace(gemms->library) : 0;
}

void dt_gemm_close(DtGemms *gemms)
{
    if (gemms->library)
        gemms->ops->close(gemms->library);
    *gemms = (DtGemms){0};
}
