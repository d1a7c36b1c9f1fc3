/* SPDX-License-Identifier: Apache-2.0 */
/* The reference for matrix products: obvious loops over strides, sums in double, f32, bf16
 * and f16. */
#include "runtime/gemm.h"

#include "base/half.h"

double dt_gemm_get(const void *matrix, int64_t at, uint32_t dtype)
{
    uint16_t bits = dtype == DT_PLAN_F32 ? 0 : ((const uint16_t *)matrix)[at];
    return dtype == DT_PLAN_F32   ? ((const float *)matrix)[at]
           : dtype == DT_PLAN_F16 ? dt_half_from_f16(bits)
                                  : dt_half_from_bf16(bits);
}

void dt_gemm_put(void *matrix, int64_t at, uint32_t dtype, float value)
{
    if (dtype == DT_PLAN_F32)
        ((float *)matrix)[at] = value;
    else
        ((uint16_t *)matrix)[at] =
            dtype == DT_PLAN_F16 ? dt_half_to_f16(value) : dt_half_to_bf16(value);
}

void dt_gemm_plain_run(const DtPlanGemm *g, const void *a, const void *b, void *c)
{
    dt_gemm_plain_join(g, a, b, c, NULL, NULL);
}

void dt_gemm_plain_join(const DtPlanGemm *g, const void *a, const void *b, void *c, void *vector,
                        void *matrix)
{
    DtGemmBatch at = dt_gemm_batch(g, g->n_batch);
    do {
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                int64_t to = at.c + i * g->c_row + j * g->c_col;
                double sum = g->accumulate ? dt_gemm_get(c, to, g->dtype_c) : 0;
                for (int64_t k = 0; k < g->k; k++)
                    sum += dt_gemm_get(a, at.a + i * g->a_row + k * g->a_col, g->dtype_a) *
                           dt_gemm_get(b, at.b + k * g->b_row + j * g->b_col, g->dtype_b);
                if (g->epilogue)
                    sum = dt_gemm_epilogue_of(g, sum, i, j, vector, matrix);
                dt_gemm_put(c, to, g->dtype_c, (float)sum);
            }
    } while (dt_gemm_batch_next(&at));
    dt_gemm_epilogue_sum(g, a, b, vector);
}
