/* SPDX-License-Identifier: Apache-2.0 */
/* A product and what its library does besides (op `fused` with a text, epilogues.def), by how operands and results lie:
 * pass `memory` asks whether the library does it, code generation what it is. */
#ifndef DT_IR_JOINED_H
#define DT_IR_JOINED_H

#include "ir/product.h"

/* What is what in the op's function. */
typedef struct DtJoinedParts {
    const DtOp *dot;
    bool sums;                        /* an operand of it, over what the product sums itself: that is the vector */
    const DtValue *result;            /* C */
    const DtValue *vector, *matrix;   /* NULL, or as its row of epilogues.def says */
} DtJoinedParts;

DtJoinedParts dt_joined_parts(const DtOp *op);

typedef struct DtJoinedProduct {
    DtProduct product;
    int64_t matrix_row;               /* elements from one row of the matrix to the next; 0: there is none */
    bool of_a;                        /* what is summed is A */
} DtJoinedProduct;

/* views: by value id, of the function's inputs and results. False if the target's library does not do it as they lie:
 * rows of the vector's axes apart, a matrix that lies otherwise than C. */
bool dt_joined_find(const DtTargetLimits *limits, const DtJoinedParts *parts, const DtView *views,
                      DtJoinedProduct *ret_product);

#endif
