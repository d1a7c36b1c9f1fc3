/* SPDX-License-Identifier: Apache-2.0 */
/* Contractions as strided batched matrix products, given the layouts of operands and result:
 * pass `memory` asks which operands must be copied for that, code generation for the product
 * itself. */
#ifndef DT_IR_PRODUCT_H
#define DT_IR_PRODUCT_H

#include "ir/target.h"
#include "ir/view.h"

enum { DT_PRODUCT_BATCH = 4 };

/* C[b.., m, n] (+)= A[b.., m, k] B[b.., k, n], all strided in elements. */
typedef struct DtProduct {
    bool swapped;     /* A is the second operand, B the first */
    uint32_t n_batch;
    int64_t m, n, k;
    int64_t batch[DT_PRODUCT_BATCH];
    int64_t a_batch[DT_PRODUCT_BATCH], b_batch[DT_PRODUCT_BATCH], c_batch[DT_PRODUCT_BATCH];
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
} DtProduct;

/* The contraction of views a and b into c; false if no library of the target supports these
 * layouts. */
bool dt_product_find(const DtTargetLimits *limits, const DtOp *op, const DtView *a, const DtView *b,
                     const DtView *c, DtProduct *ret_product);

/* If that is false: which operands are to be copied, as few elements as suffice, and how the copies
 * lie (offset 0, no buffer), so that it is true; bit i: operand i. 0: none does, or it does not pay
 * (DtTargetLimits.copy_pays). */
uint32_t dt_product_straighten(const DtTargetLimits *limits, const DtOp *op,
                               const DtView operands[2], const DtView *c, DtView ret_copies[2]);

#endif
