/* SPDX-License-Identifier: Apache-2.0 */
/* Products with which libraries are tested: shapes, transpositions, batches, strides, broadcasts,
 * adding. */
#ifndef DT_TESTS_GEMM_CASES_H
#define DT_TESTS_GEMM_CASES_H

#include "plan/kinds.h"
#include "plan/plan.h"

#define F32 .dtype_a = DT_PLAN_F32, .dtype_b = DT_PLAN_F32, .dtype_c = DT_PLAN_F32

enum { GEMM_CASES = 14 };
extern const DtPlanGemm gemm_cases[GEMM_CASES];

/* A product of f32 with batch axes in any order of memory, some of which an operand lacks. */
DtPlanGemm gemm_draw(uint32_t *seed);

/* A product with an epilogue, of these dtypes; if the epilogue has a matrix, its rows have a
 * distance of their own. */
DtPlanGemm gemm_draw_joined(uint32_t *seed, DtPlanEpilogue epilogue, uint32_t dtype,
                            uint32_t dtype_c);
/* The number of elements of A, B, C, and of the epilogue's vector and matrix. */
void gemm_extents(const DtPlanGemm *g, int64_t ret_extents[5]);

/* The number of elements from an operand's first to its last one in memory. */
int64_t gemm_extent(const DtPlanGemm *g, int64_t rows, int64_t row, int64_t cols, int64_t col,
                    const int64_t *batch);

/* n numbers between -1 and 1, in memory of exactly that size, so that the address sanitizer notices
 * reads after the end. */
float *gemm_numbers(int64_t n, uint32_t seed);

#endif
