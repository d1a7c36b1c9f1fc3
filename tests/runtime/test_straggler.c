/* SPDX-License-Identifier: Apache-2.0 */
/* The rule by which slow ranks are named, on windows of made up times. */
#include "runtime/straggler.h"

#include "base/arena.h"
#include "base/philox.h"

#include <criterion/criterion.h>

enum { MOST = 64 };

static DtArena *memory;
static void setup(void) { memory = dt_arena_new(); }
static void teardown(void) { dt_arena_free(memory); }
TestSuite(straggler, .init = setup, .fini = teardown);

static double random_of(uint64_t n) { return dt_philox_uniform(dt_philox(1, n, 0, 0)); }

/* Runs windows in which rank `slow` runs at that share of the others' speed, whose times vary by
 * `noise`; every stage-th rank does the same work. Returns how many ranks were named; ret_rank: the
 * last of them. */
static uint32_t run(uint32_t n, uint32_t stages, uint32_t slow, double speed, double noise,
                    uint32_t windows, uint32_t *ret_rank)
{
    uint32_t team[MOST], named = 0;
    double own[MOST];
    bool now[MOST];
    for (uint32_t r = 0; r < n; r++)
        team[r] = r % stages;
    DtStragglerRule *rule = dt_straggler_rule(memory, n, team, 0);
    for (uint32_t w = 0; w < windows; w++) {
        for (uint32_t r = 0; r < n; r++) {
            const double work = 0.2 * (1 + team[r]);
            own[r] = work * (1 + noise * random_of(w * MOST + r));
            own[r] /= r == slow && w >= 3 ? speed : 1; /* it is slow from the fourth window on */
        }
        dt_straggler_window(rule, own, 10, 0.25 * (1 + stages), now);
        for (uint32_t r = 0; r < n; r++)
            if (now[r]) {
                named++;
                *ret_rank = r;
            }
    }
    return named;
}

Test(straggler, half_speed_is_named_once)
{
    static const uint32_t sizes[][2] = {{2, 1}, {3, 1}, {4, 1}, {4, 2}, {4, 4}, {8, 2}, {64, 8}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t slow = 0; slow < sizes[i][0]; slow++) {
            uint32_t rank = MOST;
            const uint32_t n = run(sizes[i][0], sizes[i][1], slow, 0.5, 0.1, 40, &rank);
            cr_assert_eq(n, 1, "%u ranks, %u stages, rank %u: %u named", sizes[i][0], sizes[i][1],
                         slow, n);
            cr_assert_eq(rank, slow);
        }
}

Test(straggler, nearly_full_speed_is_never_named)
{
    uint32_t rank;
    for (uint32_t n = 2; n <= 8; n++)
        for (uint32_t stages = 1; stages <= n; stages++)
            cr_assert_eq(run(n, stages, n - 1, 0.95, 0.2, 1000, &rank), 0);
}

/* A pause in one window, however long, names nobody, nor do pauses in every fifth window. */
Test(straggler, pauses_are_not_slowness)
{
    const uint32_t team[2] = {0, 0};
    bool named[2];
    DtStragglerRule *rule = dt_straggler_rule(memory, 2, team, 0);
    for (uint32_t w = 0; w < 100; w++) {
        const double own[2] = {1, w % 5 == 0 ? 1 : 500};
        dt_straggler_window(rule, own, 10, 1, named);
        cr_assert(!named[0] && !named[1]);
    }
}

/* A rank that must be slow for ten seconds, and is slow for nine of each ten, is not. */
Test(straggler, slow_for_long)
{
    const uint32_t team[4] = {0, 0, 0, 0};
    bool named[4];
    uint32_t n = 0;
    DtStragglerRule *rule = dt_straggler_rule(memory, 4, team, 10);
    for (uint32_t w = 0; w < 100; w++) {
        const double own[4] = {1, 1, 1, w % 10 == 0 ? 1 : 2};
        dt_straggler_window(rule, own, 10, 1, named);
        cr_assert(!named[0] && !named[1] && !named[2] && !named[3]);
    }
    for (uint32_t w = 0; w < 20; w++) {
        const double own[4] = {1, 1, 1, 2};
        dt_straggler_window(rule, own, 10, 1, named);
        cr_expect_eq(named[3], w == 0, "window %u", w); /* the tenth in a row */
        n += named[3];
    }
    cr_expect_eq(n, 1);
}

/* Every rank of a large run computes the rule, so its cost must not grow with the square. */
Test(straggler, many_ranks_cost_little, .timeout = 30)
{
    enum { RANKS = 40000, SLOW = 12345 };
    uint32_t *team = DT_NEW_ARRAY(memory, uint32_t, RANKS);
    double *own = DT_NEW_ARRAY(memory, double, RANKS);
    bool *now = DT_NEW_ARRAY(memory, bool, RANKS);
    uint32_t named = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        team[r] = r % 4;
        own[r] = 0.2 * (1 + team[r]) * (r == SLOW ? 2 : 1);
    }
    DtStragglerRule *rule = dt_straggler_rule(memory, RANKS, team, 0);
    for (uint32_t w = 0; w < 10; w++) {
        dt_straggler_window(rule, own, 10, 1, now);
        for (uint32_t r = 0; r < RANKS; r++)
            named += now[r] && r == SLOW ? 1 : now[r] ? 100 : 0;
    }
    cr_expect_eq(named, 1, "%u", named);
}
