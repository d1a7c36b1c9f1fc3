/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several nodes that wait for each other (cluster_cycles.c): random waits, nodes in one
 * process, of which each knows those of its ranks. What nodes find is compared with a search that
 * sees all waits. */
#include "runtime/cluster_internal.h"
#include "runtime/spread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, RANKS = 3, ALL = MOST * RANKS };
static DtCluster *all[MOST];
static DtWatchSample samples[ALL];
static uint32_t nodes, ranks;
static uint64_t state = 3, n_sent;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void send_one(void *context, uint32_t neighbour, const DtMessage *m)
{
    const DtCluster *from = context;
    DtAgent *to = &all[from->agent.at[neighbour].node]->agent;
    uint8_t bytes[DT_MESSAGE_MOST];
    DtMessage got;
    n_sent += m->kind == DT_MESSAGE_CHAIN;
    cr_assert(dt_message_read(bytes, dt_message_write(m, bytes), &got) > 0);
    cr_assert(dt_agent_hear(to, dt_agent_neighbour(to, from->node), &got, dt_now_ns()));
}

static void begin(void)
{
    for (uint32_t i = 0; i < nodes; i++) {
        DtCluster *n = all[i] = calloc(1, sizeof *n);
        const DtStatus status = dt_cluster_take_place(n, nodes, i, ranks);
        cr_assert(dt_status_ok(&status));
        n->agent.send = send_one;
    }
    for (uint32_t i = nodes; i-- > 1;) {
        DtAgent *above = &all[dt_tree_parent(i)]->agent;
        dt_agent_meet(above, dt_agent_neighbour(above, i), "h", dt_now_ns());
        dt_agent_meet(&all[i]->agent, 0, "h", dt_now_ns());
    }
}

static void finish(void)
{
    for (uint32_t i = 0; i < nodes; i++) {
        free(all[i]->waiters);
        free(all[i]->stills);
        free(all[i]);
    }
}

static uint32_t node_of(uint32_t rank) { return dt_spread_node(ranks, nodes, rank); }

/* Whether the rank belongs to a cycle of waits that count, over several nodes. */
static bool is_in_cycle(uint32_t rank, const bool *counts)
{
    bool is_wide = false;
    uint32_t at = rank;
    for (uint32_t steps = 0; steps < ranks; steps++) {
        if (!counts[at] || samples[at].waits_for >= ranks)
            return false;
        is_wide = is_wide || node_of(at) != node_of(samples[at].waits_for);
        at = samples[at].waits_for;
        if (at == rank)
            return is_wide;
    }
    return false;
}

/* Lets nodes look for a while. Returns how many cycles they find, each of which must be one. */
static uint32_t look(const bool *looks, const bool *counts)
{
    uint32_t found = 0;
    uint64_t now_ns = dt_now_ns();
    for (int turn = 0; turn < 5 * RANKS; turn++) {
        now_ns += 100000000u;
        for (uint32_t r = 0; r < ranks; r++)
            samples[r].wait_looked_ns += looks[r];
        for (uint32_t i = 0; i < nodes; i++) {
            const uint32_t first = dt_spread_first(ranks, nodes, i);
            all[i]->chained_ns = 0;
            const DtWatchEvent event = dt_cluster_cycle(
                all[i], samples, first, dt_spread_count(ranks, nodes, i), now_ns);
            if (event.kind == DT_WATCH_NOTHING)
                continue;
            found++;
            cr_assert(event.kind == DT_WATCH_CYCLE && node_of(event.rank) == i);
            cr_assert(is_in_cycle(event.rank, counts), "rank %u is in no cycle", event.rank);
            cr_assert(samples[event.rank].waits_for == event.waiter && event.seconds >= 10);
        }
    }
    return found;
}

/* Draws the wait of each rank: for whom, since when, whether it looks, and in which state it is.
 * odds: one of so many does not count. */
static void draw_waits(uint32_t odds, bool *ret_looks, bool *ret_counts)
{
    const uint64_t now_ns = dt_now_ns();
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t fault = draw(odds) ? 4 : draw(4);
        ret_looks[r] = fault != 0;
        ret_counts[r] = fault == 4;
        samples[r] = (DtWatchSample){
            .alive = true,
            .state = fault == 1 ? 'T' : 'S',
            .waiting = fault != 2,
            .waits_for = draw(12) ? draw(ranks) : UINT32_MAX,
            .wait_began_ns = fault == 2 ? 0
                                        : now_ns - (fault == 3 ? 6000000000u : 10100000000u) -
                                              draw(2000000000u),
            .wait_looked_ns = now_ns};
    }
}

Test(cycles, random_waits, .timeout = 60)
{
    uint32_t n_cycles = 0, n_none = 0;
    for (int round = 0; round < 1500; round++) {
        bool looks[ALL], counts[ALL], is_there = false;
        nodes = 2 + draw(MOST - 1);
        ranks = nodes * (1 + draw(RANKS));
        begin();
        draw_waits(2 + draw(20), looks, counts);
        for (uint32_t r = 0; r < ranks; r++)
            is_there = is_there || is_in_cycle(r, counts);
        const uint32_t found = look(looks, counts);
        cr_assert_eq(found > 0, is_there, "round %d: %u found", round, found);
        n_cycles += is_there;
        n_none += !is_there;
        finish();
    }
    cr_assert(n_cycles > 200 && n_none > 200, "%u rounds with a cycle, %u without", n_cycles,
              n_none);
}

/* All wait, directly or not, for one rank that computes: nothing is found, and little is said. */
Test(cycles, all_wait_for_one)
{
    bool looks[ALL], counts[ALL];
    nodes = MOST, ranks = ALL;
    begin();
    draw_waits(UINT32_MAX, looks, counts);
    for (uint32_t r = 0; r < ranks; r++)
        samples[r].waits_for = r - (r > 0);
    samples[0].waiting = counts[0] = false;
    n_sent = 0;
    cr_assert_eq(look(looks, counts), 0);
    cr_assert(n_sent > 0 && n_sent <= 5 * RANKS * MOST * MOST * 3, "%llu messages",
              (unsigned long long)n_sent);
    finish();
}

/* A wait that begins anew in each look, since something comes, belongs to no cycle. */
Test(cycles, waits_in_which_something_comes)
{
    bool looks[ALL] = {false}, counts[ALL] = {false};
    nodes = 2, ranks = 2;
    begin();
    for (int turn = 0; turn < 20; turn++) {
        const uint64_t now_ns = dt_now_ns();
        for (uint32_t r = 0; r < 2; r++)
            samples[r] = (DtWatchSample){.alive = true, .state = 'S', .waiting = true,
                                         .waits_for = 1 - r,
                                         .wait_began_ns = now_ns - 20000000000u + (uint64_t)turn,
                                         .wait_looked_ns = now_ns + (uint64_t)turn};
        for (uint32_t i = 0; i < 2; i++) {
            all[i]->chained_ns = 0;
            cr_assert_eq(dt_cluster_cycle(all[i], samples, i, 1, now_ns).kind, DT_WATCH_NOTHING);
        }
    }
    counts[0] = counts[1] = looks[0] = looks[1] = true; /* from now on nothing comes */
    cr_assert_gt(look(looks, counts), 0);
    finish();
}
