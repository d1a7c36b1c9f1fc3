/* SPDX-License-Identifier: Apache-2.0 */
/* Which values an integer input may have (ranges.c). */
#ifndef DT_IR_RANGES_H
#define DT_IR_RANGES_H

#include "ir/intset.h"
#include "ir/ir.h"

typedef struct DtInputRange {
    DtIntSet allowed;    /* other values lead outside of an axis, without a condition on them */
    /* bounds for random values: lo .. hi - 1 are allowed and, if there are such values, inside
     * of every axis that they index; lo = hi: no axis bounds them */
    int64_t lo, hi;
    const char *axis;    /* the narrowest axis for which some value is not allowed; NULL: all values
                          * are allowed */
    int64_t extent;      /* the extent of that axis */
    DtSpan span;         /* the place of that index in the program */
} DtInputRange;

/* Values of the input of that name (interned), over all entries of a program as it was lowered. */
DtInputRange dt_ranges_input(const DtModule *module, const char *input);

/* A sum over samples that is 0 for every possible value of the input. */
typedef struct DtIdleSum {
    DtSpan span;     /* the place of the division, or of the loss that is such a sum */
    DtIntSet counts; /* only elements of the input with these values add anything */
    bool divides;    /* it is a divisor */
    bool is_bounded; /* .. which a `max` with a constant keeps from being 0 */
    bool of_loss;    /* a loss or a state depends on it; else a metric at most */
} DtIdleSum;

/* Finds such a sum in a program as it was lowered, if the input has only these values; first of all
 * one on which a loss depends. False: there is none. */
bool dt_ranges_idle(const DtModule *module, const char *input, const DtIntSet *values,
                    DtIdleSum *ret_idle);

#endif
