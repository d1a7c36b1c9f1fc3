/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of a tree without sockets: messages travel through a queue, and time is a number. All
 * histories end: with a common result, or with the lost node named to every node within 5 s. */
#include "base/status.h"
#include "runtime/agent.h"
#include "runtime/spread.h"
#include "runtime/tree.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 1100, RANKS = 8, ROOM = 1 << 16, TICK_MS = 100 };

typedef struct Sent {
    uint32_t from, to;
    DtMessage message;
} Sent;

static DtAgent *agents;
static bool *is_dead, *is_stopped;
static int32_t *named; /* by node: the node of the failure that it heard; -1: none */
static Sent *queue;
static uint64_t n_sent, n_taken, now_ns = 1000000000u, state = 5;
static uint32_t nodes;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void send_one(void *context, uint32_t neighbour, const DtMessage *message)
{
    const DtAgent *from = context;
    cr_assert_lt(n_sent - n_taken, ROOM);
    queue[n_sent++ % ROOM] = (Sent){from->node, from->at[neighbour].node, *message};
}

/* Delivers all messages, also those that these cause. */
static void deliver(void)
{
    while (n_taken < n_sent) {
        const Sent s = queue[n_taken++ % ROOM];
        DtAgent *to = &agents[s.to];
        if (!is_dead[s.to] && !is_stopped[s.to])
            cr_assert(dt_agent_hear(to, dt_agent_neighbour(to, s.from), &s.message, now_ns),
                      "%u does not take kind %d of %u", s.to, (int)s.message.kind, s.from);
    }
}

static void begin(uint32_t n)
{
    nodes = n;
    agents = calloc(n, sizeof *agents);
    is_dead = calloc(n, 1);
    is_stopped = calloc(n, 1);
    named = malloc(n * sizeof *named);
    queue = calloc(ROOM, sizeof *queue);
    for (uint32_t i = 0; i < n; i++) {
        dt_agent_init(&agents[i], n, i, n * RANKS);
        agents[i].send = send_one;
        agents[i].context = &agents[i];
        named[i] = -1;
    }
    for (uint32_t i = n; i-- > 1;) { /* the last come first */
        DtAgent *above = &agents[dt_tree_parent(i)];
        dt_agent_meet(above, dt_agent_neighbour(above, i), "h", now_ns);
        dt_agent_meet(&agents[i], 0, "h", now_ns);
    }
    deliver();
    cr_assert(dt_agent_has_joined(&agents[0]));
}

static void finish(void)
{
    free(agents);
    free(is_dead);
    free(is_stopped);
    free(named);
    free(queue);
    n_sent = n_taken = 0;
}

static void start_attempt(void)
{
    dt_agent_begin(&agents[0], 7, 9);
    for (uint32_t i = 0; i < nodes; i++) {
        deliver();
        if (i > 0 && !is_dead[i] && !is_stopped[i]) {
            cr_assert(agents[i].has_start && agents[i].start.token == 9, "%u", i);
            dt_agent_begin(&agents[i], 8, 9);
        }
    }
    deliver();
}

static bool takes_part(uint32_t node) { return !is_dead[node] && !is_stopped[node]; }

/* Lets time pass; nodes that hear of a failure end their ranks. */
static void pass(uint32_t ms)
{
    for (uint32_t t = 0; t < ms; t += TICK_MS) {
        now_ns += TICK_MS * 1000000u;
        deliver();
        for (uint32_t i = 0; i < nodes; i++) {
            DtAgent *a = &agents[i];
            if (!takes_part(i))
                continue;
            dt_agent_tick(a, now_ns);
            if (!a->has_note)
                continue;
            a->has_note = false;
            cr_assert_eq(named[i], -1, "%u hears of two failures", i);
            named[i] = (int32_t)a->note.node;
            dt_agent_end(a, a->note.code, now_ns);
        }
        deliver();
    }
}

/* A connection ends on both sides. */
static void kill_node(uint32_t node)
{
    const DtAgent *dead = &agents[node];
    is_dead[node] = true;
    for (uint32_t i = dead->first; i < dead->n; i++) {
        DtAgent *other = &agents[dead->at[i].node];
        if (takes_part(other->node))
            dt_agent_lose(other, dt_agent_neighbour(other, node), "it has gone", now_ns);
    }
}

Test(agent, an_attempt_ends_well)
{
    begin(NODES);
    for (int attempt = 0; attempt < 3; attempt++) {
        start_attempt();
        pass(500);
        for (uint32_t i = nodes; i-- > 0;) {
            cr_expect(!dt_agent_has_ended(&agents[0]));
            dt_agent_end(&agents[i], DT_EXIT_OK, now_ns);
            deliver();
        }
        cr_assert(dt_agent_has_ended(&agents[0]) && agents[0].code == DT_EXIT_OK);
        dt_agent_conclude(&agents[0], DT_EXIT_OK,
                          DT_MESSAGE_SAVED | (attempt < 2 ? DT_MESSAGE_AGAIN : 0u));
        deliver();
        for (uint32_t i = 1; i < nodes; i++) {
            cr_assert(agents[i].has_result && agents[i].result.code == DT_EXIT_OK);
            cr_assert_eq(agents[i].result.flags & DT_MESSAGE_AGAIN,
                         attempt < 2 ? DT_MESSAGE_AGAIN : 0u);
            agents[i].has_result = false;
        }
    }
    finish();
}

/* Every node hears of one failure, which is the same if there is one, and the code arrives. */
Test(agent, a_failure_reaches_all)
{
    begin(NODES);
    for (int round = 0; round < 20; round++) {
        const uint32_t a = draw(nodes), b = draw(nodes);
        start_attempt();
        dt_agent_fail(&agents[a], 7, 0, "rank 3 was ended", now_ns);
        dt_agent_end(&agents[a], 7, now_ns);
        if (round % 2 && b != a) { /* at the same time */
            dt_agent_fail(&agents[b], 9, 0, "rank 4 was ended", now_ns);
            dt_agent_end(&agents[b], 9, now_ns);
        }
        pass(1000);
        for (uint32_t i = 0; i < nodes; i++) {
            if (i != a && !(round % 2 && i == b))
                cr_assert(named[i] == (int32_t)a || (round % 2 && named[i] == (int32_t)b),
                          "%u heard of %d", i, named[i]);
            named[i] = -1;
        }
        cr_assert(dt_agent_has_ended(&agents[0]));
        cr_assert(agents[0].code == 7 || agents[0].code == 9);
        dt_agent_conclude(&agents[0], agents[0].code, DT_MESSAGE_AGAIN);
        deliver();
        for (uint32_t i = 1; i < nodes; i++)
            agents[i].has_result = false;
    }
    finish();
}

/* A node fails before it hears that an attempt has begun: the others hear of it in that attempt. */
Test(agent, a_failure_crosses_the_start)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        begin(40);
        for (int i = 0; i < attempt; i++) { /* attempts that ended, after which another begins */
            start_attempt();
            for (uint32_t k = nodes; k-- > 0;) {
                dt_agent_end(&agents[k], DT_EXIT_RETRY, now_ns);
                deliver();
            }
            dt_agent_conclude(&agents[0], DT_EXIT_RETRY, DT_MESSAGE_AGAIN);
            deliver();
            for (uint32_t k = 1; k < nodes; k++)
                agents[k].has_result = false;
        }
        dt_agent_begin(&agents[0], 7, 9); /* under way */
        dt_agent_fail(&agents[1], 4, 0, "no memory", now_ns);
        pass(500);
        for (uint32_t i = 0; i < nodes; i++)
            cr_expect_eq(named[i], i == 1 ? -1 : 1, "attempt %d: node %u", attempt, i);
        finish();
    }
}

/* A node is stopped, or ends, at the same time as another one fails or not: all that are connected
 * with node 0 end within 5 s, and so do those behind it. */
Test(agent, a_lost_node_is_named_in_5_s)
{
    for (int round = 0; round < 12; round++) {
        begin(NODES);
        start_attempt();
        pass(2000 + 100 * draw(10));
        const uint32_t lost = round == 0 ? 0 : round % 3 ? 1 + draw(40) : draw(nodes);
        if (round % 2)
            kill_node(lost);
        else
            is_stopped[lost] = true;
        const uint32_t failed = (lost + 1 + draw(nodes - 1)) % nodes;
        const bool fails = round % 4 == 3;
        if (fails) {
            dt_agent_fail(&agents[failed], 7, 0, "rank 3 was ended", now_ns);
            dt_agent_end(&agents[failed], 7, now_ns);
        }
        pass(5000);
        for (uint32_t i = 0; i < nodes; i++) {
            if (!takes_part(i) || (fails && i == failed))
                continue;
            cr_assert(named[i] >= 0, "round %d: node %u hears nothing of node %u", round, i, lost);
            if (!fails) /* it, or, on the side of its children, the same */
                cr_assert_eq(named[i], (int32_t)lost);
        }
        if (lost != 0) {
            cr_assert(dt_agent_has_ended(&agents[0]) && agents[0].has_lost);
            cr_assert_neq(agents[0].code, DT_EXIT_OK);
        }
        finish();
    }
}

/* A node that does not run for a minute, as the whole machine may, does not blame others. */
Test(agent, time_that_this_process_missed_does_not_count)
{
    begin(3);
    start_attempt();
    pass(1000);
    now_ns += 60000000000u;
    for (uint32_t i = 0; i < nodes; i++)
        dt_agent_tick(&agents[i], now_ns);
    pass(3000);
    for (uint32_t i = 0; i < nodes; i++)
        cr_expect_eq(named[i], -1, "%u", i);
    finish();
}

Test(agent, a_signal_reaches_node_0)
{
    begin(NODES);
    start_attempt();
    dt_agent_stop(&agents[nodes - 1]);
    deliver();
    cr_expect(agents[0].has_stop_note && agents[0].has_stopped);
    cr_expect(!agents[nodes - 1].has_stop_note);
    finish();
}

static uint32_t waits[4];

static void note_wait(void *context, uint32_t rank, uint32_t other, uint32_t ms)
{
    const DtAgent *at = context;
    waits[0]++;
    waits[1] = rank;
    waits[2] = other;
    waits[3] = ms;
    cr_assert_eq(at->node, other / RANKS);
}

/* Who waits for a rank is said to the node of that rank, and to no other. */
Test(agent, waits_reach_the_node_of_the_rank)
{
    begin(NODES);
    for (uint32_t i = 0; i < nodes; i++)
        agents[i].wait = note_wait;
    start_attempt();
    for (uint32_t i = 0; i < 500; i++) {
        const uint32_t rank = draw(nodes * RANKS), other = draw(nodes * RANKS);
        waits[0] = 0;
        dt_agent_wait(&agents[rank / RANKS], rank, other, 1000 + i);
        deliver();
        cr_assert(waits[0] == 1 && waits[1] == rank && waits[2] == other && waits[3] == 1000 + i);
    }
    finish();
}

/* Neighbours that send anything, in any order: nothing breaks, and no attempt ends well that
 * should not. */
Test(agent, messages_in_any_order)
{
    for (int round = 0; round < 200; round++) {
        begin(40);
        start_attempt();
        for (int i = 0; i < 300; i++) {
            DtAgent *a = &agents[draw(nodes)];
            const uint32_t from = a->first + draw(a->n - a->first);
            DtMessage m = {.kind = 1 + draw(DT_MESSAGE_KINDS - 1),
                           .node = draw(draw(2) ? 50 : 4000000000u),
                           .attempt = draw(4),
                           .code = (int32_t)draw(256),
                           .port = (uint16_t)draw(3),
                           .flags = draw(DT_MESSAGE_FLAGS + 1)};
            if (m.kind == DT_MESSAGE_FAILED && m.code == 0)
                m.code = 1;
            if (!dt_agent_hear(a, from, &m, now_ns))
                dt_agent_lose(a, from, "it talks nonsense", now_ns);
            n_taken = n_sent; /* what they send on is lost, too */
            if (draw(10) == 0)
                dt_agent_tick(a, now_ns += 1000000u * draw(2000));
            cr_assert(!a->are_ours_ended && !(a->node == 0 && dt_agent_has_ended(a)));
        }
        finish();
    }
}

/* Ranks follow each other, and numbers of ranks differ by one at most. */
Test(agent, ranks_of_nodes)
{
    for (uint32_t ranks = 1; ranks < 200; ranks++)
        for (uint32_t n = 1; n <= ranks; n++) {
            uint32_t rank = 0;
            for (uint32_t node = 0; node < n; node++) {
                const uint32_t count = dt_spread_count(ranks, n, node);
                cr_assert(count == ranks / n || (ranks % n && count == ranks / n + 1));
                cr_assert_eq(dt_spread_first(ranks, n, node), rank);
                for (uint32_t k = 0; k < count; k++, rank++)
                    cr_assert_eq(dt_spread_node(ranks, n, rank), node);
            }
            cr_assert_eq(rank, ranks);
        }
}

Test(agent, the_tree)
{
    for (uint32_t node = 1; node < 5000; node++) {
        const uint32_t above = dt_tree_parent(node);
        cr_assert(node >= dt_tree_first_child(above) &&
                  node - dt_tree_first_child(above) < dt_tree_children(5000, above));
        cr_assert_eq(dt_tree_towards(above, node), node - dt_tree_first_child(above));
        cr_assert(dt_tree_towards(0, node) >= 0 && dt_tree_towards(node, above) == -1);
    }
}
