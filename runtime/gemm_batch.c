/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the products of a record, one after the other, for all libraries. */
#include "runtime/gemm_wide.h"

DtGemmBatch dt_gemm_batch(const DtPlanGemm *gemm, uint32_t n)
{
    return (DtGemmBatch){.gemm = gemm, .n = n};
}

bool dt_gemm_batch_next(DtGemmBatch *batch)
{
    const DtPlanGemm *g = batch->gemm;
    for (uint32_t d = batch->n; d-- > 0;) {
        const bool more = ++batch->at[d] < g->batch[d];
        const int64_t steps = more ? 1 : 1 - g->batch[d];
        batch->a += steps * g->a_batch[d];
        batch->b += steps * g->b_batch[d];
        batch->c += steps * g->c_batch[d];
        if (more)
            return true;
        batch->at[d] = 0;
    }
    return false;
}
