/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of intervals against sets of bits, over all pairs of sets of eight integers. */
#include "ir/intset.h"

#include <criterion/criterion.h>

enum { N = 8 }; /* at most four pieces */

static DtIntSet set_of(uint32_t bits)
{
    DtIntSet set = dt_intset_none;
    for (int i = 0; i < N; i++)
        if (bits >> i & 1) {
            DtIntSet one = dt_intset_range(i, i + 1);
            set = dt_intset_union(&set, &one);
        }
    return set;
}

static bool holds(const DtIntSet *set, int64_t x)
{
    bool found = false;
    for (uint32_t i = 0; i < set->n; i++) {
        cr_assert_lt(set->lo[i], set->hi[i]);
        cr_assert(i == 0 || set->lo[i] > set->hi[i - 1], "pieces in order, with gaps");
        found |= x >= set->lo[i] && x < set->hi[i];
    }
    return found;
}

static void same(const DtIntSet *set, uint32_t bits, const char *what)
{
    for (int i = 0; i < N; i++)
        cr_assert_eq(holds(set, i), bits >> i & 1, "%s: %d", what, i);
    cr_assert(!holds(set, N) && !holds(set, -1), "%s", what);
}

Test(intset, is_what_sets_of_bits_are)
{
    for (uint32_t a = 0; a < 1 << N; a++)
        for (uint32_t b = 0; b < 1 << N; b++) {
            DtIntSet x = set_of(a), y = set_of(b), both = dt_intset_common(&x, &y),
                     either = dt_intset_union(&x, &y);
            same(&both, a & b, "common");
            same(&either, a | b, "union");
            cr_assert_eq(dt_intset_equal(&x, &y), a == b);
            cr_assert_eq(dt_intset_within(&x, &y), (a & ~b) == 0);
        }
}

Test(intset, others_and_shifts)
{
    for (uint32_t a = 0; a < 1 << N; a++) {
        DtIntSet x = set_of(a), moved = dt_intset_shift(&x, 1000),
                 back = dt_intset_shift(&moved, -1000);
        cr_assert(dt_intset_equal(&x, &back));
        cr_assert_eq(moved.n ? moved.lo[0] : 0, x.n ? x.lo[0] + 1000 : 0);
        if (x.n == DT_INTSET_PIECES)
            continue; /* in other cases the result has five pieces */
        DtIntSet others = dt_intset_others(&x);
        for (int i = -1; i <= N; i++)
            cr_assert_eq(holds(&others, i), i < 0 || i >= N || !(a >> i & 1));
        others = dt_intset_others(&others);
        cr_assert(dt_intset_equal(&x, &others));
    }
    DtIntSet all = dt_intset_shift(&dt_intset_all, 5), none = dt_intset_others(&all);
    cr_assert(dt_intset_equal(&all, &dt_intset_all));
    cr_assert_eq(none.n, 0);
}

Test(intset, too_many_pieces_close_the_narrowest_gap)
{
    DtIntSet set = dt_intset_none;
    for (int i = 0; i < 5; i++) {
        DtIntSet one = dt_intset_range(10 * i + (i == 3 ? -2 : 0), 10 * i + 1);
        set = dt_intset_union(&set, &one);
    }
    cr_assert_eq(set.n, 4);
    cr_assert(holds(&set, 25), "between 21 and 28");
    cr_assert(!holds(&set, 15) && !holds(&set, 35));
}
