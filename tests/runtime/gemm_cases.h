/* SPDX-License-Identifier: Apache-2.0 */
/* Products that libraries are tried with: shapes, transpositions, batches, strides, broadcasts,
 * adding. */
#ifndef DT_TESTS_GEMM_CASES_H
#define DT_TESTS_GEMM_CASES_H

#include "plan/kinds.h"
#include "plan/plan.h"

#define F32 .dtype_a = DT_PLAN_F32, .dtype_b = DT_PLAN_F32, .dtype_c = DT_PLAN_F32

enum { GEMM_CASES = 14 };
extern const DtPlanGemm gemm_cases[GEMM_CASES];

/* One of f32 with batches in any order of memory, some of them missing in an operand. */
DtPlanGemm gemm_draw(uint32_t *seed);

/* One with an epilogue, of these dtypes; its matrix, if it has one, in rows of their own
 * distance. */
DtPlanGemm gemm_draw_joined(uint32_t *seed, DtPlanEpilogue epilogue, uint32_t dtype,
                            uint32_t dtype_c);
/* Elements of A, B, C, and the epilogue's vector and matrix. */
void gemm_extents(const DtPlanGemm *g, int64_t ret_extents[5]);

/* Elements from an operand's first to its last. */
int64_t gemm_extent(const DtPlanGemm *g, int64_t rows, int64_t row, int64_t cols, int64_t col,
                    const int64_t *batch);

/* n numbers between -1 and 1, exactly sized, so that the address sanitizer sees reads behind the
 * end. */
float *gemm_numbers(int64_t n, uint32_t seed);

#endif
