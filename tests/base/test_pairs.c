/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of pairs: partners have each other, all meet once, and who is alone is so once. */
#include "base/pairs.h"

#include <criterion/criterion.h>

Test(pairs, all_meet_once)
{
    for (int64_t n = 1; n < 40; n++)
        for (int64_t i = 0; i < n; i++) {
            int meets[40] = {0};
            for (int64_t round = 0; round < dt_pairs_rounds(n); round++) {
                const int64_t j = dt_pairs_partner(n, round, i);
                cr_assert(j >= 0 && j < n && dt_pairs_partner(n, round, j) == i);
                meets[j]++;
            }
            for (int64_t j = 0; j < n; j++)
                cr_assert_eq(meets[j], i != j || n % 2, "%d of %d and %d", (int)n, (int)i, (int)j);
        }
}

Test(pairs, rounds_are_drawn_alike)
{
    int drawn[7] = {0};
    for (int64_t step = 0; step < 7000; step++)
        drawn[dt_pairs_draw(5, step, 7)]++;
    for (int i = 0; i < 7; i++)
        cr_assert(drawn[i] > 850 && drawn[i] < 1150, "%d", drawn[i]);
    cr_assert_eq(dt_pairs_draw(5, 3, 1), 0);
}
