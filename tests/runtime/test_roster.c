/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts and how many ranks go on: each choice is possible and no better one is, by trying all
 * ways to leave hosts out. */
#include "runtime/roster.h"
#include "runtime/spread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SEATS = 6 };
static uint64_t state = 3;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static int descending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static uint32_t slots_of(const DtRoster *r, uint32_t seat)
{
    return r->seats[seat].is_there ? r->seats[seat].slots : 0;
}

/* Whether some hosts can have the ranks: the largest shares go to the hosts with most slots, and
 * to node 0. */
static bool is_possible(const DtRoster *r, uint32_t ranks, uint32_t nodes)
{
    uint32_t others[MOST_SEATS], shares[MOST_SEATS];
    if (nodes > r->n || nodes > ranks || slots_of(r, 0) < dt_spread_count(ranks, nodes, 0))
        return false;
    for (uint32_t i = 1; i < r->n; i++)
        others[i - 1] = slots_of(r, i);
    for (uint32_t i = 1; i < nodes; i++)
        shares[i - 1] = dt_spread_count(ranks, nodes, i);
    qsort(others, r->n - 1, sizeof *others, descending);
    qsort(shares, nodes - 1, sizeof *shares, descending);
    for (uint32_t i = 0; i + 1 < nodes; i++)
        if (others[i] < shares[i])
            return false;
    return true;
}

static void check_choice(DtRoster *r, DtFormation *f)
{
    uint32_t most = 0, fewest = 0;
    for (uint32_t ranks = 1; ranks <= r->ceiling; ranks++)
        for (uint32_t n = r->n; n > 0; n--)
            if (ranks % r->multiple == 0 && ranks >= r->least && !r->is_bad[ranks] &&
                is_possible(r, ranks, n)) {
                most = ranks;
                fewest = n;
            }
    if (!dt_roster_choose(r, f)) {
        cr_assert_eq(most, 0, "%u ranks on %u hosts are possible", most, fewest);
        return;
    }
    cr_assert(f->ranks == most && f->nodes == fewest, "%u ranks on %u hosts, not %u on %u",
              f->ranks, f->nodes, most, fewest);
    bool seen[MOST_SEATS] = {false};
    for (uint32_t i = 0; i < f->nodes; i++) {
        const uint32_t seat = f->seats[i];
        cr_assert(seat < r->n && !seen[seat] && (seat == 0) == (i == 0));
        cr_assert_geq(slots_of(r, seat), dt_spread_count(f->ranks, f->nodes, i));
        seen[seat] = true;
    }
}

Test(roster, no_choice_is_better)
{
    uint32_t seats[MOST_SEATS];
    DtFormation f = {.seats = seats};
    for (int round = 0; round < 20000; round++) {
        DtRoster r;
        const uint32_t n = 1 + draw(MOST_SEATS), slots = 1 + draw(5), spares = draw(n),
                       most = (n - spares) * slots;
        cr_assert(dt_roster_open(&r, n, slots, most));
        r.multiple = 1 + draw(3);
        r.least = 1 + draw(most);
        for (uint32_t i = 0; i < n; i++) {
            if (draw(4))
                dt_roster_come(&r, i);
            if (draw(3) == 0)
                r.seats[i].slots = draw(slots + 1);
        }
        if (draw(3) == 0)
            r.is_bad[1 + draw(most)] = true;
        if (draw(3) == 0)
            r.ceiling = draw(most + 1);
        check_choice(&r, &f);
        dt_roster_close(&r);
    }
}

static void expect(const DtFormation *f, uint32_t ranks, uint32_t nodes, const char *seats)
{
    char got[MOST_SEATS + 1] = "";
    for (uint32_t i = 0; i < f->nodes; i++)
        got[i] = (char)('0' + f->seats[i]);
    cr_assert(f->ranks == ranks && f->nodes == nodes && strcmp(got, seats) == 0,
              "%u ranks on %s, not %u on %s", f->ranks, got, ranks, seats);
}

/* Four hosts of two ranks and a spare: hosts and ranks are lost, and come back. */
Test(roster, a_history)
{
    uint32_t seats[MOST_SEATS], room[MOST_SEATS];
    DtFormation f = {.seats = seats}, other = {.seats = room};
    DtRoster r;
    cr_assert(dt_roster_open(&r, 5, 2, 8));
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 2, 1, "0");
    for (uint32_t i = 1; i < 5; i++)
        dt_roster_come(&r, i);
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 8, 4, "0123"); /* the spare waits */
    cr_expect_eq(dt_roster_without_one(&r, &other), 8);
    dt_roster_go(&r, 2);
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 8, 4, "0134"); /* it takes the place of the lost host */
    cr_expect_eq(dt_roster_without_one(&r, &other), 6);
    dt_roster_go(&r, 1);
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 6, 3, "034");
    dt_roster_lose_rank(&r, &f, 1);
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 5, 3, "043"); /* host 3 has one rank */
    dt_roster_go(&r, 4);
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 3, 2, "03");
    dt_roster_come(&r, 4);
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 5, 3, "043");
    dt_roster_come(&r, 3); /* its agent was started again */
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 6, 3, "034");
    r.is_bad[6] = true; /* no plan for six */
    cr_assert(dt_roster_choose(&r, &f));
    expect(&f, 5, 3, "034");
    dt_roster_close(&r);
}

/* Ranks of node 0 are lost, one after the other: there are fewer each time, and an end. */
Test(roster, node_0_loses_ranks)
{
    uint32_t seats[MOST_SEATS];
    DtFormation f = {.seats = seats};
    DtRoster r;
    cr_assert(dt_roster_open(&r, 3, 2, 6));
    dt_roster_come(&r, 1);
    dt_roster_come(&r, 2);
    cr_assert(dt_roster_choose(&r, &f));
    for (uint32_t ranks = 6; ranks > 1; ranks = f.ranks) {
        dt_roster_lose_rank(&r, &f, 0);
        cr_assert(dt_roster_choose(&r, &f));
        cr_assert_lt(f.ranks, ranks);
    }
    dt_roster_lose_rank(&r, &f, 0);
    cr_expect(!dt_roster_choose(&r, &f));
    dt_roster_close(&r);
}
