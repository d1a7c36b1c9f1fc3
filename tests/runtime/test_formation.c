/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of an elastic run that find each other, are lost, and find each other anew: many in one
 * process, over sockets of this machine, each with the code of a supervisor and a plan of bytes.
 * And messages about plans and places that no node 0 sends. */
#include "runtime/cluster_internal.h"
#include "runtime/spread.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 40, SLOTS = 2, PLAN_BYTES = 200000 };
static const uint64_t LIMIT_NS = 20000000000u;
static DtPlanMeta meta;
static DtPlan plan = {.digest = 7, .meta = &meta, .strings = ""};
static DtRunOptions options[MOST];
static DtCluster *all[MOST];
static bool met[MOST];
static uint32_t seats, n_formed, n_fetched;
static uint64_t state = 11;
static uint8_t bytes[PLAN_BYTES];
static DtRoster roster;
static DtFormation formation;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static void start(uint32_t i)
{
    const DtStatus status =
        dt_cluster_begin(&options[i], &plan, 5, never, NULL, &roster, &all[i]);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    met[i] = false;
}

static void begin(uint32_t n, uint32_t spares)
{
    static char meet[32];
    uint16_t port;
    int fd;
    const DtStatus status = dt_socket_listen(0, &fd, &port);
    cr_assert(dt_status_ok(&status));
    close(fd);
    snprintf(meet, sizeof meet, "127.0.0.1:%u", port);
    signal(SIGPIPE, SIG_IGN);
    setenv("DTRUN_KEY", "a key of these tests", 1);
    seats = n;
    n_formed = n_fetched = 0;
    meta.n_ranks = (n - spares) * SLOTS;
    for (uint32_t i = 0; i < PLAN_BYTES; i++)
        bytes[i] = (uint8_t)draw(256);
    cr_assert(dt_roster_open(&roster, n, SLOTS, meta.n_ranks));
    formation.seats = calloc(n, sizeof *formation.seats);
    for (uint32_t i = 0; i < n; i++) {
        options[i] = (DtRunOptions){.nodes = n, .node = i, .meet = meet, .elastic = 1,
                                    .spares = spares};
        start(i);
    }
}

static void finish(void)
{
    for (uint32_t i = seats; i-- > 0;) {
        dt_cluster_part(all[i]);
        all[i] = NULL;
    }
    dt_roster_close(&roster);
    free(formation.seats);
}

/* Node 0 has the plan; every second host finds it, and the others get it from their parents. */
static void have_plan(uint32_t i)
{
    const uint8_t *got;
    size_t len;
    if (i % 2 == 0) {
        dt_cluster_have_plan(all[i], bytes, sizeof bytes);
        return;
    }
    got = dt_cluster_fetched(all[i], &len);
    if (!got) {
        dt_cluster_need_plan(all[i]);
        return;
    }
    cr_assert(len == sizeof bytes && memcmp(got, bytes, len) == 0);
    n_fetched++;
    dt_cluster_have_plan(all[i], bytes, sizeof bytes);
}

/* What a supervisor does. Once all have met, an attempt begins; one whose agent hears of a lost
 * node leaves the tree. */
static void advance(uint32_t i)
{
    DtCluster *n = all[i];
    DtAgent *a = &n->agent;
    const DtClusterRoute route = {.digest = 9, .has_saved = true};
    if (met[i] && a->has_lost) {
        met[i] = false;
        dt_cluster_regroup(n, dt_now_ns());
    }
    switch (dt_cluster_advance(n)) {
    case DT_TURN_GATHERED:
        cr_assert(dt_roster_choose(&roster, &formation));
        if (dt_cluster_form(n, &formation, &route)) {
            n_formed++;
            have_plan(0);
        }
        break;
    case DT_TURN_ROUTED:
    case DT_TURN_FETCHED: have_plan(i); break;
    case DT_TURN_MET:
        if (!met[i] && i == 0)
            dt_agent_begin(a, 1, 77);
        met[i] = true;
        break;
    case DT_TURN_FAILED: cr_assert_fail("host %u: %s", i, n->status.message);
    default: break;
    }
    if (a->has_start)
        dt_agent_begin(a, 1, a->start.token);
}

/* Until the tree has so many nodes, and an attempt has begun on all of them. */
static void until(uint32_t nodes)
{
    const uint64_t until_ns = dt_now_ns() + LIMIT_NS;
    for (bool good = false; !good;) {
        cr_assert_lt(dt_now_ns(), until_ns, "%u nodes do not find each other", nodes);
        usleep(1000);
        uint32_t n = 0;
        for (uint32_t i = 0; i < seats; i++) {
            if (!all[i])
                continue;
            advance(i);
            const DtAgent *a = &all[i]->agent;
            n += met[i] && !a->has_lost && a->nodes == nodes && a->attempt > a->base;
        }
        good = n == nodes;
    }
    cr_assert_eq(formation.nodes, nodes);
    for (uint32_t k = 0; k < nodes; k++) {
        const DtCluster *n = all[formation.seats[k]];
        cr_assert(n->node == k && n->agent.ranks == formation.ranks &&
                  n->agent.attempt == all[0]->agent.attempt);
    }
}

static void kill_host(uint32_t i)
{
    dt_cluster_part(all[i]);
    all[i] = NULL;
}

/* A spare takes the place of a host; then there are fewer; the lost ones come back. */
Test(formation, hosts_go_and_come, .timeout = 60)
{
    begin(5, 1);
    until(4);
    cr_assert(formation.ranks == 8 && n_fetched == 2); /* hosts 1 and 3 */
    kill_host(2);
    until(4);
    cr_assert(formation.ranks == 8 && formation.seats[3] == 4);
    kill_host(1);
    kill_host(4);
    until(2);
    cr_assert(formation.ranks == 4 && formation.seats[1] == 3);
    start(1);
    start(2);
    for (uint64_t until_ns = dt_now_ns() + LIMIT_NS;
         !roster.seats[1].is_there || !roster.seats[2].is_there;) {
        cr_assert_lt(dt_now_ns(), until_ns);
        for (uint32_t i = 0; i < seats; i++)
            if (all[i])
                advance(i);
    }
    for (uint32_t i = 0; i < seats; i++) /* as after a save */
        if (all[i] && met[i]) {
            met[i] = false;
            dt_cluster_regroup(all[i], dt_now_ns());
        }
    until(4);
    cr_assert(formation.ranks == 8 && formation.seats[1] == 1);
    finish();
}

/* Below an inner node that is lost, nodes find node 0 again; all get the plan. */
Test(formation, an_inner_node_is_lost, .timeout = 60)
{
    begin(MOST, 0);
    until(MOST);
    cr_assert_eq(n_fetched, MOST / 2);
    kill_host(1);
    until(MOST - 1);
    cr_assert_eq(formation.ranks, (MOST - 1) * SLOTS);
    finish();
}

/* Hosts are lost at any time, also while others find each other. */
Test(formation, hosts_are_lost_at_any_time, .timeout = 60)
{
    for (int round = 0; round < 3; round++) {
        uint32_t left = 8;
        begin(left, 0);
        until(left);
        while (left > 2) {
            const uint32_t host = 1 + draw(seats - 1);
            if (!all[host])
                continue;
            kill_host(host);
            left--;
            for (uint32_t turns = draw(60); turns > 0; turns--) {
                usleep(500);
                for (uint32_t i = 0; i < seats; i++)
                    if (all[i])
                        advance(i);
            }
        }
        until(left);
        finish();
    }
}

/* ---- messages that nobody should send ---- */

static DtMessage draw_message(void)
{
    static const uint32_t numbers[] = {0, 1, 2, 960, PLAN_BYTES, UINT32_MAX};
    DtMessage m = {.kind = 1 + draw(DT_MESSAGE_KINDS - 1), .node = numbers[draw(6)],
                   .attempt = numbers[draw(6)], .port = (uint16_t)draw(3), .flags = draw(32),
                   .nodes = numbers[draw(6)], .ranks = numbers[draw(6)], .form = draw(4),
                   .token = numbers[draw(6)], .n_bytes = draw(DT_MESSAGE_TEXT)};
    memset(m.text, 'x', draw(DT_MESSAGE_TEXT));
    return m;
}

/* Pieces of a plan, in any order and of any size: what comes out is no longer than was said. */
Test(formation, pieces_of_any_size)
{
    options[1] = (DtRunOptions){.nodes = 4, .node = 1, .elastic = 1};
    for (int round = 0; round < 2000; round++) {
        DtCluster n = {.options = &options[1], .seats = 4, .seat = 1, .is_elastic = true};
        for (int i = 0; i <= DT_TREE_DEGREE; i++)
            n.links[i].fd = -1;
        dt_agent_init(&n.agent, 4, 1, 8);
        dt_cluster_need_plan(&n);
        for (int i = 0; i < 50; i++) {
            DtMessage m = draw_message();
            m.kind = draw(2) ? DT_MESSAGE_PIECE : DT_MESSAGE_NEED;
            if (draw(2)) { /* one that may be the next */
                m.token = n.plan.n_got;
                m.ranks = n.plan.size ? (uint32_t)n.plan.size : 5000;
            }
            dt_cluster_hear_plan(&n, 0, &m);
            cr_assert(n.plan.n_got <= n.plan.size && n.plan.size <= 1ull << 40);
        }
        dt_cluster_forget_plan(&n);
    }
}

/* A plan of more than 4 GiB, of which the last pieces are asked for: each says the whole size, and
 * a child takes that, without memory for all of it. */
Test(formation, a_plan_of_many_bytes)
{
    const size_t len = ((size_t)5 << 30) + 17, at = len - 1000;
    void *large = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int ends[2];
    cr_assert(large != MAP_FAILED && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    static DtCluster n, child;
    n.options = child.options = &options[0];
    options[0] = (DtRunOptions){.nodes = 2};
    dt_agent_init(&n.agent, 2, 0, 8);
    dt_agent_init(&child.agent, 2, 1, 8);
    n.links[1].fd = ends[0];
    child.links[0].fd = ends[1];
    dt_cluster_have_plan(&n, large, len);
    DtMessage m = {.kind = DT_MESSAGE_NEED, .token = at};
    cr_assert(dt_cluster_hear_plan(&n, 1, &m));
    dt_agentlink_pump(&n.links[1]);
    dt_cluster_need_plan(&child);
    dt_agentlink_pump(&child.links[0]);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_gt(dt_agentlink_next(&child.links[0], &m), 0);
        cr_assert(m.kind == DT_MESSAGE_PIECE && m.token == at + i * 960);
        m.token = i * 960;
        cr_assert(dt_cluster_hear_plan(&child, 0, &m));
    }
    cr_assert(child.plan.size == len && child.plan.n_got == 1000);
    m.nodes = 0; /* another size */
    cr_assert_not(dt_cluster_hear_plan(&child, 0, &m));
    dt_cluster_forget_plan(&child);
    munmap(large, len);
    close(ends[0]);
    close(ends[1]);
}

/* Node 0 says anything: a host ends with a message, or takes a place that is in range. */
Test(formation, any_place, .timeout = 60)
{
    for (int round = 0; round < 300; round++) {
        begin(4, 1);
        DtCluster *n = all[2];
        n->stage = DT_STAGE_WAITS;
        n->links[0].fd = dup(0);
        for (int i = 0; i < 20 && n->stage == DT_STAGE_WAITS; i++) {
            const DtMessage m = draw_message();
            n->links[0].n_in = dt_message_write(&m, n->links[0].in);
            dt_cluster_step(n, dt_now_ns());
            n->heard_ns = dt_now_ns();
        }
        if (n->agent.n > 1 || n->agent.first == 0)
            cr_assert(n->node > 0 && n->node < n->nodes && n->nodes <= 4 &&
                      n->agent.ranks <= meta.n_ranks && n->agent.ranks >= n->nodes);
        finish();
    }
}
