/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of stages as text: the text of a set of flags reads back as the same flags, and a text in
 * any other form is refused. */
#include "base/stages.h"

#include <criterion/criterion.h>
#include <string.h>

Test(stages, texts)
{
    bool has[DT_STAGES_MOST] = {false};
    cr_assert_null(dt_stages_of(has, DT_STAGES_MOST));
    cr_assert_eq(dt_stages_count(NULL), 0);
    has[0] = has[2] = has[3] = has[5] = has[6] = has[7] = has[1023] = true;
    cr_assert_str_eq(dt_stages_of(has, DT_STAGES_MOST), "0, 2, 3, 5 to 7, 1023");
    cr_assert_str_eq(dt_stages_range(4, 0), "4");
    cr_assert_str_eq(dt_stages_range(4, 1), "4, 5");
    cr_assert_str_eq(dt_stages_range(0, 1023), "0 to 1023");
    cr_assert(dt_stages_same(NULL, "") && dt_stages_same("1", "1") && !dt_stages_same("1", NULL));
}

/* Random arrays of flags, from a fixed seed, are written as ranges and compared with what is read
 * back. */
Test(stages, members_are_those_of_the_flags)
{
    uint64_t state = 7;
    for (int round = 0; round < 200; round++) {
        const uint32_t n = 1 + round * 5 % 70;
        bool has[70] = {false};
        uint32_t members = 0;
        for (uint32_t i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            has[i] = (state >> 40) % (round % 2 ? 2 : 6) != 0;
            members += has[i];
        }
        const char *set = dt_stages_of(has, n);
        cr_assert_eq(dt_stages_count(set), members);
        cr_assert(dt_stages_is_valid(set, n));
        for (uint32_t i = 0; i < 70; i++)
            cr_assert_eq(dt_stages_has(set, i), has[i], "%u of {%s}", i, set ? set : "");
        for (uint32_t first = 0; first < n; first++)
            for (uint32_t more = 0, all = 1; first + more < n && more < 9; more++) {
                all = all && has[first + more];
                cr_assert_eq(dt_stages_has_all(set, first, more), all, "%u and %u more of {%s}",
                             first, more, set ? set : "");
            }
    }
}

Test(stages, other_texts_are_no_sets)
{
    static const char *const wrong[] = {"1, 0", "0,1", "0, 0", "0, 1, 2", "0 to 1", "3 to 2", "8",
                                        "-1", "00", "0 ", "0, ", "0 to", "4294967296", "0 to 9",
                                        "x", " 0", "18446744073709551616"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect(!dt_stages_is_valid(wrong[i], 8), "%s", wrong[i]);
    cr_expect(dt_stages_is_valid("0 to 7", 8) && dt_stages_is_valid(NULL, 8) &&
              dt_stages_is_valid("7", 8));
    cr_expect(!dt_stages_is_valid("0", DT_STAGES_MOST + 1));
}
