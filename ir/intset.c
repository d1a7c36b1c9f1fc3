/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of integers as a few intervals (intset.h). */
#include "ir/intset.h"

#include <string.h>

const DtIntSet dt_intset_none = {0};
const DtIntSet dt_intset_all = {.n = 1, .lo = {INT64_MIN}, .hi = {INT64_MAX}};

/* Intervals in rising order that may touch or overlap, more than a set can have. */
typedef struct Pieces {
    uint32_t n;
    int64_t lo[2 * DT_INTSET_PIECES + 1], hi[2 * DT_INTSET_PIECES + 1];
} Pieces;

static void add(Pieces *p, int64_t lo, int64_t hi)
{
    if (lo >= hi)
        return;
    if (p->n && lo <= p->hi[p->n - 1]) {
        if (hi > p->hi[p->n - 1])
            p->hi[p->n - 1] = hi;
        return;
    }
    p->lo[p->n] = lo;
    p->hi[p->n++] = hi;
}

static void close_gap(Pieces *p, uint32_t before)
{
    const uint32_t after = --p->n - before;
    p->hi[before - 1] = p->hi[before];
    memmove(&p->lo[before], &p->lo[before + 1], after * sizeof p->lo[0]);
    memmove(&p->hi[before], &p->hi[before + 1], after * sizeof p->hi[0]);
}

static DtIntSet set_of(Pieces *p)
{
    while (p->n > DT_INTSET_PIECES) {
        uint32_t narrowest = 1;
        for (uint32_t i = 2; i < p->n; i++) /* there is a piece before and after the gap, so both
                                             * bounds are finite */
            if ((uint64_t)p->lo[i] - (uint64_t)p->hi[i - 1] <
                (uint64_t)p->lo[narrowest] - (uint64_t)p->hi[narrowest - 1])
                narrowest = i;
        close_gap(p, narrowest);
    }
    DtIntSet set = {.n = p->n};
    memcpy(set.lo, p->lo, p->n * sizeof p->lo[0]);
    memcpy(set.hi, p->hi, p->n * sizeof p->hi[0]);
    return set;
}

DtIntSet dt_intset_range(int64_t lo, int64_t hi)
{
    DtIntSet set = {.n = 1, .lo = {lo}, .hi = {hi}};
    return lo < hi ? set : dt_intset_none;
}

DtIntSet dt_intset_union(const DtIntSet *a, const DtIntSet *b)
{
    Pieces p = {0};
    for (uint32_t i = 0, k = 0; i < a->n || k < b->n;) {
        if (k == b->n || (i < a->n && a->lo[i] <= b->lo[k])) {
            add(&p, a->lo[i], a->hi[i]);
            i++;
        } else {
            add(&p, b->lo[k], b->hi[k]);
            k++;
        }
    }
    return set_of(&p);
}

DtIntSet dt_intset_common(const DtIntSet *a, const DtIntSet *b)
{
    Pieces p = {0};
    for (uint32_t i = 0, k = 0; i < a->n && k < b->n;) {
        int64_t lo = a->lo[i] > b->lo[k] ? a->lo[i] : b->lo[k];
        add(&p, lo, a->hi[i] < b->hi[k] ? a->hi[i] : b->hi[k]);
        if (a->hi[i] < b->hi[k])
            i++;
        else
            k++;
    }
    return set_of(&p);
}

DtIntSet dt_intset_others(const DtIntSet *a)
{
    Pieces p = {0};
    int64_t from = INT64_MIN;
    for (uint32_t i = 0; i < a->n; i++) {
        add(&p, from, a->lo[i]);
        from = a->hi[i];
    }
    add(&p, from, INT64_MAX);
    return set_of(&p);
}

static int64_t moved(int64_t bound, int64_t by)
{
    int64_t result;
    if (bound == INT64_MIN || bound == INT64_MAX)
        return bound;
    return !__builtin_add_overflow(bound, by, &result) ? result : by < 0 ? INT64_MIN : INT64_MAX;
}

DtIntSet dt_intset_shift(const DtIntSet *a, int64_t by)
{
    Pieces p = {0};
    for (uint32_t i = 0; i < a->n; i++)
        add(&p, moved(a->lo[i], by), moved(a->hi[i], by));
    return set_of(&p);
}

bool dt_intset_equal(const DtIntSet *a, const DtIntSet *b)
{
    return a->n == b->n && memcmp(a->lo, b->lo, a->n * sizeof a->lo[0]) == 0 &&
           memcmp(a->hi, b->hi, a->n * sizeof a->hi[0]) == 0;
}

bool dt_intset_within(const DtIntSet *a, const DtIntSet *b)
{
    DtIntSet common = dt_intset_common(a, b);
    return dt_intset_equal(&common, a);
}
