/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of integers that comparisons with constants make: a few intervals. */
#ifndef DT_IR_INTSET_H
#define DT_IR_INTSET_H

#include <stdbool.h>
#include <stdint.h>

enum { DT_INTSET_PIECES = 4 };

/* A set of n intervals lo <= x < hi in rising order, with gaps between them. INT64_MIN and
 * INT64_MAX: no bound. A set with more intervals is enlarged by its narrowest gaps. */
typedef struct DtIntSet {
    uint32_t n;
    int64_t lo[DT_INTSET_PIECES], hi[DT_INTSET_PIECES];
} DtIntSet;

extern const DtIntSet dt_intset_none, dt_intset_all;

DtIntSet dt_intset_range(int64_t lo, int64_t hi); /* empty if lo >= hi */
DtIntSet dt_intset_union(const DtIntSet *a, const DtIntSet *b);
DtIntSet dt_intset_common(const DtIntSet *a, const DtIntSet *b);
DtIntSet dt_intset_others(const DtIntSet *a); /* all integers that are not in a */
DtIntSet dt_intset_shift(const DtIntSet *a, int64_t by);
bool dt_intset_equal(const DtIntSet *a, const DtIntSet *b);
bool dt_intset_within(const DtIntSet *a, const DtIntSet *b); /* every element of a is in b */

#endif
