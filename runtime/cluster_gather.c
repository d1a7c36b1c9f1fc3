/* SPDX-License-Identifier: Apache-2.0 */
/* Node 0 and the hosts of a run, before they are a tree. When all have come, or enough of an
 * elastic run, node 0 chooses which of them take part (dt_cluster_form) and sends each the address
 * of its parent. It keeps the connections of its own children, and of those that take no part:
 * these wait until the run needs them, and both sides say each second that they live. */
#include "runtime/cluster_internal.h"

#include "runtime/say.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t say_after_ns = 5000000000u, come_ns = 1800000000000u,
                      spares_ns = 5000000000u, again_ns = 3000000000u, look_ns = 100000000u,
                      alive_ns = 1500000000u,
                      refuser_ns = 2000000000u, part_ns = 1500000000u;

/* ---- hosts that have come ---- */

static void send_now(int fd, const DtMessage *m)
{
    DtAgentLink link = {.fd = -1};
    dt_agentlink_open(&link, fd);
    dt_agentlink_send(&link, m); /* it is short: the system takes it all */
    free(link.out);
}

static bool come(DtCluster *n, const DtNewcomer *one, uint64_t now_ns)
{
    const uint32_t seat = one->hello.node;
    DtGathered *g = &n->gathered[seat];
    g->link = calloc(1, sizeof *g->link);
    if (!g->link) {
        close(one->fd);
        return false;
    }
    dt_agentlink_open(g->link, one->fd);
    g->heard_ns = n->came_ns = now_ns;
    g->port = (uint16_t)one->hello.port;
    memcpy(g->address, one->from, sizeof g->address);
    memcpy(g->host, one->hello.facts.host, sizeof g->host);
    n->n_gathered++;
    if (n->roster && g->is_expected) /* its slots are those that it had */
        n->roster->seats[seat].is_there = true;
    else if (n->roster)
        dt_roster_come(n->roster, seat);
    return true;
}

static void go(DtCluster *n, uint32_t seat)
{
    DtGathered *g = &n->gathered[seat];
    dt_agentlink_close(g->link);
    free(g->link);
    g->link = NULL;
    g->is_expected = false;
    n->n_gathered--;
    if (n->roster)
        dt_roster_go(n->roster, seat);
}

/* Hears one that waits. False: it has gone. */
static bool hear_one(DtCluster *n, DtGathered *g, uint64_t now_ns)
{
    DtMessage m;
    const bool lives = dt_agentlink_pump(g->link);
    int got;
    while ((got = dt_agentlink_next(g->link, &m)) > 0) {
        g->heard_ns = now_ns;
        if (m.kind == DT_MESSAGE_STOP && n->stage == DT_STAGE_MET) {
            dt_agent_stop(&n->agent);
            n->agent.has_stop_note = true;
        } else if (m.kind == DT_MESSAGE_STOP)
            n->was_stopped = true;
    }
    return lives && got == 0 && now_ns < g->heard_ns + dt_agent_silence_ns;
}

/* Time in which this process itself did not run does not count against others. */
static uint64_t find_gap(DtCluster *n, uint64_t now_ns)
{
    const uint64_t since = n->waited_ns ? now_ns - n->waited_ns : 0;
    n->waited_ns = now_ns;
    return since > 5 * look_ns ? since - look_ns : 0;
}

static void hear_all(DtCluster *n, uint64_t now_ns)
{
    const DtMessage beat = {.kind = DT_MESSAGE_BEAT};
    const bool beats = now_ns >= n->beat_ns + dt_agent_beat_ns;
    const uint64_t gap = find_gap(n, now_ns);
    if (beats)
        n->beat_ns = now_ns;
    for (uint32_t i = 1; i < n->seats; i++) {
        DtGathered *g = &n->gathered[i];
        if (!g->link)
            continue;
        g->heard_ns += gap;
        if (beats)
            dt_agentlink_send(g->link, &beat);
        if (hear_one(n, g, now_ns))
            continue;
        if (n->stage == DT_STAGE_MET)
            dt_say("host %s, which waited, has gone", g->host);
        go(n, i);
    }
}

void dt_cluster_hear_waiting(DtCluster *n, uint64_t now_ns)
{
    if (n->gathered && now_ns >= n->waited_ns + look_ns)
        hear_all(n, now_ns);
}

/* ---- newcomers ---- */

typedef enum Verdict { TAKES, REFUSES, LATER } Verdict;

/* What becomes of a host of the present formation that comes anew: its agent was started again, or
 * has lost its parent; or somebody has started a second one. It waits until the tree says that the
 * member is lost. A second one of a member that lives waits until the run ends, unless it is a
 * child of this node, which knows that the first one lives and refuses it. */
static Verdict judge_member(DtCluster *n, uint32_t seat, uint64_t now_ns)
{
    DtAgent *a = &n->agent;
    if (a->has_lost)
        return LATER; /* until this node gathers again */
    for (uint32_t i = a->first; i < a->n; i++) {
        const DtNeighbour *at = &a->at[i];
        if (n->gathered[seat].node != at->node || !at->is_there)
            continue;
        return now_ns < at->heard_ns + alive_ns && !dt_socket_has_gone(n->links[i].fd) ? REFUSES
                                                                                       : LATER;
    }
    return LATER;
}

static Verdict judge(DtCluster *n, uint32_t seat, uint64_t now_ns)
{
    DtGathered *g = &n->gathered[seat];
    if (g->link && dt_socket_has_gone(g->link->fd))
        go(n, seat);
    if (g->link)
        return REFUSES;
    return g->is_member ? judge_member(n, seat, now_ns) : TAKES;
}

static void take_refuser(DtCluster *n, const DtNewcomer *one, uint64_t now_ns)
{
    dt_agentlink_close(&n->refuser);
    dt_agentlink_open(&n->refuser, one->fd);
    n->refuser_ns = now_ns;
    n->refusal.node = one->hello.node;
}

void dt_cluster_take_at_root(DtCluster *n, DtNewcomer *one, uint64_t now_ns)
{
    const uint32_t seat = one->hello.node;
    const bool is_agent = one->hello.role == DT_ROLE_AGENT,
               is_another = seat > 0 && seat < n->seats;
    Verdict verdict = TAKES;
    if (is_agent && is_another && n->stage != DT_STAGE_REFUSES)
        verdict = judge(n, seat, now_ns);
    if (verdict == LATER) {
        dt_newcomers_hold(n->newcomers, one);
        return;
    }
    if (!dt_cluster_answer(n, one, verdict == REFUSES))
        return;
    if (n->stage == DT_STAGE_REFUSES) {
        DtGathered *g = &n->gathered[seat];
        send_now(one->fd, &n->refusal);
        n->n_gathered += !g->is_told;
        g->is_told = true;
        close(one->fd);
    } else if (!is_agent)
        take_refuser(n, one, now_ns);
    else if (come(n, one, now_ns) && n->stage == DT_STAGE_MET)
        dt_say("host %s has come and waits", n->gathered[seat].host);
}

/* ---- hosts that cannot start ---- */

void dt_cluster_begin_refusal(DtCluster *n, uint64_t now_ns)
{
    n->stage = DT_STAGE_REFUSES;
    n->began_ns = now_ns;
    for (uint32_t i = 1; i < n->seats; i++) {
        DtGathered *g = &n->gathered[i];
        g->is_told = g->link || i == n->refusal.node;
        if (!g->link)
            continue;
        dt_agentlink_send(g->link, &n->refusal);
        go(n, i);
    }
    n->n_gathered = 1; /* counts the hosts that know why the run does not start: this one does */
    for (uint32_t i = 1; i < n->seats; i++)
        n->n_gathered += n->gathered[i].is_told;
}

/* Hears one that cannot start. If the run has begun, it goes on without it. */
static void hear_refuser(DtCluster *n, uint64_t now_ns)
{
    DtMessage m;
    const uint32_t node = n->refusal.node;
    if (n->refuser.fd < 0)
        return;
    const bool lives = dt_agentlink_pump(&n->refuser);
    const int got = dt_agentlink_next(&n->refuser, &m);
    if (got == 0 && lives && now_ns < n->refuser_ns + refuser_ns)
        return;
    dt_agentlink_close(&n->refuser);
    if (got <= 0 || m.kind != DT_MESSAGE_FAILED)
        return;
    if (n->form > 0) {
        dt_say("the host that was started with --node %u cannot take part: %s", node, m.text);
        return;
    }
    n->refusal = m;
    n->refusal.node = node;
    dt_cluster_begin_refusal(n, now_ns);
}

/* ---- gathering ---- */

static void say_who_is_missing(DtCluster *n)
{
    enum { MOST = 20 };
    DtText who = {0};
    const uint32_t missing = n->seats - 1 - n->n_gathered;
    uint32_t said = 0;
    for (uint32_t i = 1; i < n->seats && said < MOST; i++)
        if (!n->gathered[i].link)
            dt_text_printf(&who, "%s%u", said++ ? ", " : "", i);
    dt_say("waits for node %s%s of %u, which are to be started with --meet %.200s, too", who.at,
           missing > said ? ", .." : "", n->seats, n->options->meet);
    dt_text_free(&who);
}

static void say_who_stays_away(const DtCluster *n)
{
    for (uint32_t i = 1; i < n->seats; i++)
        if (n->gathered[i].is_expected && !n->gathered[i].link)
            dt_say("host %s has not come again within %d s: it is left out", n->gathered[i].host,
                   (int)(again_ns / 1000000000u));
}

/* Whether all have come that should, or, where some may be missing, no other one is likely to come
 * soon. */
static bool is_complete(const DtCluster *n, uint64_t now_ns)
{
    const uint32_t spares = (uint32_t)n->options->spares;
    if (n->form == 0)
        return n->n_gathered == n->seats - 1 ||
               (spares > 0 && n->n_gathered + spares >= n->seats - 1 &&
                now_ns > n->came_ns + spares_ns);
    if (now_ns > n->until_ns)
        return true;
    for (uint32_t i = 1; i < n->seats; i++)
        if (n->gathered[i].is_expected && !n->gathered[i].link)
            return false;
    return true;
}

void dt_cluster_gather(DtCluster *n, uint64_t now_ns)
{
    hear_refuser(n, now_ns);
    if (n->stage != DT_STAGE_GATHERS)
        return;
    if (is_complete(n, now_ns)) {
        hear_all(n, now_ns); /* of some the connections may have ended meanwhile */
        if (is_complete(n, now_ns)) {
            say_who_stays_away(n);
            dt_agentlink_close(&n->refuser); /* nobody would read it: polls would end at once */
            n->stage = DT_STAGE_GATHERED;
            return;
        }
    }
    dt_cluster_hear_waiting(n, now_ns);
    if (n->form > 0)
        return;
    if (!n->is_said && now_ns > n->began_ns + say_after_ns) {
        say_who_is_missing(n);
        n->is_said = true;
    }
    if (now_ns > n->began_ns + come_ns)
        dt_cluster_fail(n, dt_status_fail(DT_EXIT_RETRY,
                                          "%u of %u nodes have not come within %d minutes",
                                          n->seats - 1 - n->n_gathered, n->seats - 1,
                                          (int)(come_ns / 60000000000u)));
}

void dt_cluster_gather_again(DtCluster *n, uint64_t now_ns)
{
    const DtAgent *a = &n->agent;
    for (uint32_t i = 1; i < n->seats; i++) {
        DtGathered *g = &n->gathered[i];
        bool is_lost = a->has_lost && a->lost.node == g->node;
        for (uint32_t k = a->first; k < a->n; k++)
            if (a->at[k].node == g->node)
                is_lost = (is_lost || a->at[k].is_lost) && !a->at[k].has_left;
        if (!g->is_member)
            continue;
        g->is_member = false;
        g->is_expected = !is_lost;
        dt_roster_go(n->roster, i);
    }
    n->stage = DT_STAGE_GATHERS;
    n->until_ns = now_ns + again_ns;
}

/* ---- forming ---- */

/* Sends the node its place. A child of node 0 stays connected. */
static void send_route(DtCluster *n, const DtFormation *f, uint32_t node, const DtMessage *route,
                       uint64_t now_ns)
{
    DtGathered *g = &n->gathered[f->seats[node]];
    const uint32_t parent = dt_tree_parent(node);
    DtMessage m = *route;
    m.node = node;
    if (parent > 0) {
        m.port = n->gathered[f->seats[parent]].port;
        snprintf(m.text, sizeof m.text, "%s", n->gathered[f->seats[parent]].address);
    }
    dt_agentlink_send(g->link, &m);
    if (parent == 0) {
        n->links[node] = *g->link;
        dt_agent_meet(&n->agent, node, g->host, now_ns);
    } else
        dt_agentlink_close(g->link);
    free(g->link);
    g->link = NULL;
    g->is_member = true;
    g->node = node;
    n->n_gathered--;
}

bool dt_cluster_form(DtCluster *n, const DtFormation *f, const DtClusterRoute *route)
{
    const uint64_t now_ns = dt_now_ns();
    for (uint32_t node = 1; node < f->nodes; node++)
        if (!n->gathered[f->seats[node]].link)
            return false;
    const DtStatus status = dt_cluster_take_place(n, f->nodes, 0, f->ranks);
    if (!dt_status_ok(&status)) {
        dt_cluster_fail(n, status);
        return true;
    }
    const DtMessage m = {.kind = DT_MESSAGE_ROUTE, .nodes = f->nodes, .ranks = f->ranks,
                         .form = ++n->form, .attempt = n->attempts, .token = route->digest,
                         .flags = route->has_saved ? DT_MESSAGE_SAVED : 0u};
    n->route = m;
    for (uint32_t i = 0; i < n->seats; i++)
        n->gathered[i].is_expected = false;
    for (uint32_t node = 1; node < f->nodes; node++)
        send_route(n, f, node, &m, now_ns);
    n->stage = DT_STAGE_JOINS;
    n->routed_ns = now_ns;
    return true;
}

/* ---- the end ---- */

static DtMessage result_of(const DtCluster *n)
{
    return (DtMessage){.kind = DT_MESSAGE_RESULT, .code = n->code};
}

/* Tells hosts that come to gather anew, since another host was lost. */
static void tell_who_comes(DtCluster *n)
{
    const DtMessage m = result_of(n);
    const uint64_t until_ns = dt_now_ns() + part_ns;
    DtNewcomer one;
    while (dt_now_ns() < until_ns) {
        struct pollfd look = {.fd = dt_newcomers_fd(n->newcomers), .events = POLLIN};
        poll(&look, 1, 50);
        dt_newcomers_look(n->newcomers, dt_now_ns());
        while (dt_newcomers_take(n->newcomers, &one))
            if (dt_cluster_answer(n, &one, false)) {
                send_now(one.fd, &m);
                close(one.fd);
            }
    }
}

void dt_cluster_tell_waiting(DtCluster *n)
{
    const DtMessage m = result_of(n);
    for (uint32_t i = 1; i < n->seats; i++)
        if (n->gathered[i].link) {
            dt_agentlink_send(n->gathered[i].link, &m);
            go(n, i);
        }
    if (n->is_elastic && n->newcomers && n->form > 0 &&
        (n->agent.has_lost || n->stage == DT_STAGE_GATHERS))
        tell_who_comes(n);
}
