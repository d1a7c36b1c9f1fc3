/* SPDX-License-Identifier: Apache-2.0 */
/* Contractions as strided batched matrix products, for given layouts of operands and result. Pass
 * `memory` asks which operands must be copied first; code generation asks for the product. */
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

/* If dt_product_of returns false: finds which operands to copy, with the fewest elements, and the
 * layouts of the copies (offset 0, no buffer), so that it returns true. Bit i: operand i. 0: no
 * copies help, or they cost more than they save (DtTargetLimits.copy_pays). */
uint32_t dt_product_straighten(const DtTargetLimits *limits, const DtOp *op,
                               const DtView operands[2], const DtView *c, DtView ret_copies[2]);

#endif
