/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of one value of a program in relation to an integer input's element at the same
 * place, the root (ranges.c): sets of the values that the element may have. Private to
 * ir/ranges*.c. */
#ifndef DT_IR_RANGES_FACT_H
#define DT_IR_RANGES_FACT_H

#include "ir/intset.h"
#include "ir/ir.h"

/* What is known of a value that is a sum over places, for a root without elements in `yes`. */
typedef enum DtSums {
    DT_SUMS_NOT, /* the value is no sum: `yes` is about the root's element at the same place */
    DT_SUMS_ZERO,
    DT_SUMS_BOUNDED /* the maximum of such a sum and a constant: a divisor that cannot be 0 */
} DtSums;

/* Facts about a value in relation to one root; the sets are of elements of that root. */
typedef struct DtFact {
    uint32_t root;
    bool exact;         /* the value always is the root's element plus shift */
    int64_t shift;
    DtIntSet is;        /* for these the value may be the root's element plus shift */
    DtIntSet yes, no;   /* for these it may differ from 0; for these it may be 0: of conditions */
    DtIntSet bad;       /* for these it depends on a value that was read out of range */
    DtSums sums;
    const DtOp *by;     /* the op whose index put elements into bad, and which of its indices */
    uint32_t index;
} DtFact;

/* The facts, in relation to that root, of a value of which nothing is known. */
DtFact dt_fact_nothing(uint32_t root);
/* Whether the facts are such facts, so that they need not be kept. */
bool dt_fact_says_nothing(const DtFact *fact);
/* Whether both are equal, apart from what bad elements come from; NULL equals NULL only. */
bool dt_fact_same(const DtFact *a, const DtFact *b);
/* Adds to fact->bad. by, index: the op and the number of its index that read out of range; fact
 * keeps those that came first. */
void dt_fact_add_bad(DtFact *fact, const DtIntSet *bad, const DtOp *by, uint32_t index);

/* Whether the value is a constant, perhaps cast or expanded, and which. */
bool dt_fact_constant(const DtValue *value, double *ret_number);

/* The facts of a map's result in relation to the root. in: facts of its operands; NULL, or in
 * relation to another root: nothing is known of that operand, except of a constant. */
DtFact dt_fact_map(const DtOp *op, DtFact *const *in, uint32_t root);

#endif
