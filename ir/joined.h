/* SPDX-License-Identifier: Apache-2.0 */
/* A product with an epilogue (op `fused` with a text, epilogues.def) in the layouts of its operands
 * and results: pass `memory` asks whether the library supports them, code generation how to call
 * it. */
#ifndef DT_IR_JOINED_H
#define DT_IR_JOINED_H

#include "ir/product.h"

/* The operands and results that the op's function has. */
typedef struct DtJoinedParts {
    const DtOp *dot;
    /* the epilogue sums an operand over the axis that the product sums; the sum is `vector` */
    bool sums;
    const DtValue *result;            /* the product's result, C */
    const DtValue *vector, *matrix;   /* NULL if the row of epilogues.def has none */
} DtJoinedParts;

DtJoinedParts dt_joined_parts(const DtOp *op);

typedef struct DtJoinedProduct {
    DtProduct product;
    /* elements from one row of the matrix to the next; 0: there is no matrix */
    int64_t matrix_row;
    bool of_a;                        /* the operand that is summed is A */
} DtJoinedProduct;

/* views: by value id, of the function's inputs and results. False if the target's library cannot
 * do it in these layouts: the axes of the vector are not contiguous, or the matrix has another
 * layout than C. */
bool dt_joined_find(const DtTargetLimits *limits, const DtJoinedParts *parts, const DtView *views,
                      DtJoinedProduct *ret_product);

#endif
