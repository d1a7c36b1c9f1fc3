/* SPDX-License-Identifier: Apache-2.0 */
/* The reference for matrix products: obvious loops over strides, sums in double. */
#include "runtime/gemm.h"

static void product(const DtPlanGemm *g, const float *a, const float *b, float *c)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += (double)a[i * g->a_row + k * g->a_col] * b[k * g->b_row + j * g->b_col];
            float *to = &c[i * g->c_row + j * g->c_col];
            *to = (float)(g->accumulate ? *to + sum : sum);
        }
}

void dt_gemm_plain_run(const DtPlanGemm *gemm, const void *a, const void *b, void *c)
{
    int64_t at[DT_PLAN_MAX_BATCH] = {0};
    for (;;) {
        int64_t from_a = 0, from_b = 0, from_c = 0;
        for (uint32_t d = 0; d < gemm->n_batch; d++) {
            from_a += at[d] * gemm->a_batch[d];
            from_b += at[d] * gemm->b_batch[d];
            from_c += at[d] * gemm->c_batch[d];
        }
        product(gemm, (const float *)a + from_a, (const float *)b + from_b, (float *)c + from_c);
        uint32_t d = gemm->n_batch;
        while (d > 0 && ++at[d - 1] == gemm->batch[d - 1])
            at[--d] = 0;
        if (d == 0)
            return;
    }
}
