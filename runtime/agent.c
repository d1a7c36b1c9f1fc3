/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/agent.h"

#include "base/status.h"
#include "runtime/spread.h"
#include "runtime/tree.h"

#include <stdio.h>
#include <string.h>

static const uint64_t LOOK_NS = 500000000u, PATIENCE_NS = 60000000000u;
static const uint32_t EVER = UINT32_MAX;
enum { PARENT = 0 };

void dt_agent_init(DtAgent *a, uint32_t nodes, uint32_t node, uint32_t ranks)
{
    const uint32_t children = dt_tree_children(nodes, node);
    *a = (DtAgent){.nodes = nodes, .node = node, .ranks = ranks, .is_ready = true,
                   .first = node == 0, .n = 1 + children};
    if (node > 0)
        a->at[PARENT].node = dt_tree_parent(node);
    for (uint32_t i = 0; i < children; i++)
        a->at[1 + i].node = dt_tree_first_child(node) + i;
}

uint32_t dt_agent_neighbour(const DtAgent *a, uint32_t node)
{
    for (uint32_t i = a->first; i < a->n; i++)
        if (a->at[i].node == node)
            return i;
    return a->n;
}

/* ---- sending ---- */

static void send_to(DtAgent *a, uint32_t neighbour, const DtMessage *m)
{
    if (a->at[neighbour].is_there)
        a->send(a->context, neighbour, m);
}

/* To all neighbours but one; from a->n on: to all. */
static void send_on(DtAgent *a, uint32_t but, const DtMessage *m)
{
    for (uint32_t i = a->first; i < a->n; i++)
        if (i != but)
            send_to(a, i, m);
}

static void send_down(DtAgent *a, const DtMessage *m)
{
    for (uint32_t i = 1; i < a->n; i++)
        send_to(a, i, m);
}

static DtMessage message(const DtAgent *a, DtMessageKind kind)
{
    DtMessage m = {.kind = kind, .node = a->node, .attempt = a->attempt};
    return m;
}

/* ---- parts of the tree ---- */

static bool is_child(uint32_t neighbour) { return neighbour != PARENT; }

bool dt_agent_has_joined(const DtAgent *a)
{
    for (uint32_t i = 1; i < a->n; i++)
        if (!a->at[i].has_joined)
            return false;
    return true;
}

static void tell_joined(DtAgent *a)
{
    const DtMessage m = message(a, DT_MESSAGE_JOINED);
    if (a->has_told_joined || !dt_agent_has_joined(a) || !a->at[PARENT].is_there || !a->is_ready)
        return;
    a->has_told_joined = true;
    send_to(a, PARENT, &m);
}

void dt_agent_be_ready(DtAgent *a)
{
    a->is_ready = true;
    tell_joined(a);
}

bool dt_agent_has_ended(const DtAgent *a)
{
    for (uint32_t i = 1; i < a->n; i++)
        if (a->at[i].is_there && !a->at[i].has_ended)
            return false;
    return a->are_ours_ended;
}

static void note_code(DtAgent *a, int32_t code)
{
    if (a->code == DT_EXIT_OK)
        a->code = code;
}

static void tell_ended(DtAgent *a, uint64_t now_ns)
{
    DtMessage m = message(a, DT_MESSAGE_ENDED);
    if (a->has_told_ended || !dt_agent_has_ended(a))
        return;
    a->has_told_ended = true;
    a->ended_ns = now_ns;
    m.code = a->code;
    if (a->node > 0)
        send_to(a, PARENT, &m);
}

/* ---- failures ---- */

static bool has_failed(const DtAgent *a) { return a->failed_until > a->attempt; }

/* Takes the first failure of an attempt, and hands it on. from: the neighbour that said it, or
 * a->n. */
static void take_failure(DtAgent *a, const DtMessage *m, uint32_t from, uint64_t now_ns)
{
    const bool is_lost = (m->flags & DT_MESSAGE_LOST) != 0, is_news = is_lost && !a->has_lost;
    const uint32_t until = is_lost ? EVER : m->attempt + 1;
    if (until <= a->attempt || (until <= a->failed_until && !is_news))
        return;
    if (!has_failed(a)) {
        a->failed_ns = now_ns;
        a->has_note = from < a->n;
        a->note = *m;
    }
    if (is_news) {
        a->has_lost = true;
        a->lost = *m;
    }
    a->failed_until = until;
    send_on(a, from, m);
}

void dt_agent_fail(DtAgent *a, int32_t code, uint32_t flags, const char *text, uint64_t now_ns)
{
    DtMessage m = message(a, DT_MESSAGE_FAILED);
    if (a->attempt == a->base || a->are_ours_ended) /* node 0 may have begun the next one already */
        m.attempt++;
    m.code = code > 0 && code < 256 ? code : DT_EXIT_RETRY;
    m.flags = flags;
    snprintf(m.text, sizeof m.text, "%s", text);
    take_failure(a, &m, a->n, now_ns);
}

/* Says to all that the node, neighbour number `from`, is gone. */
static void tell_lost(DtAgent *a, uint32_t node, const char *host, uint32_t from, const char *why,
                      uint64_t now_ns)
{
    DtMessage m = message(a, DT_MESSAGE_FAILED);
    const uint32_t first = dt_spread_first(a->ranks, a->nodes, node),
                   n = dt_spread_count(a->ranks, a->nodes, node);
    m.node = node;
    m.code = DT_EXIT_RETRY;
    m.flags = DT_MESSAGE_LOST;
    snprintf(m.text, sizeof m.text, "%s (%.60s, ranks %u to %u)", why, host, first, first + n - 1);
    take_failure(a, &m, from, now_ns);
    note_code(a, DT_EXIT_RETRY);
    tell_ended(a, now_ns);
}

void dt_agent_miss(DtAgent *a, uint32_t neighbour, const char *why, uint64_t now_ns)
{
    DtNeighbour *lost = &a->at[neighbour];
    lost->is_there = false;
    lost->is_lost = true;
    if (a->is_over && a->are_ours_ended) /* it may end before this one */
        return;
    tell_lost(a, lost->node, lost->host, neighbour, why, now_ns);
}

void dt_agent_lose(DtAgent *a, uint32_t neighbour, const char *why, uint64_t now_ns)
{
    if (a->at[neighbour].is_there)
        dt_agent_miss(a, neighbour, why, now_ns);
}

/* A neighbour leaves the tree, since a node is lost. Usually this one knows of that; if not, it
 * hears of it by this. */
static void take_leave(DtAgent *a, uint32_t neighbour, uint64_t now_ns)
{
    DtNeighbour *at = &a->at[neighbour];
    at->has_left = true;
    if (a->has_lost || a->is_over)
        at->is_there = false;
    else
        dt_agent_miss(a, neighbour, "it has left the others", now_ns);
}

/* ---- signals ---- */

static void take_stop(DtAgent *a, uint32_t from)
{
    const DtMessage m = message(a, DT_MESSAGE_STOP);
    if (a->has_stopped)
        return;
    a->has_stopped = true;
    a->has_stop_note = from < a->n;
    send_on(a, from, &m);
}

void dt_agent_stop(DtAgent *a) { take_stop(a, a->n); }

/* ---- waits ---- */

/* Takes it if the rank waited for is here, or hands it on towards that rank's node. False: there is
 * no such rank, or it comes from there. */
static bool take_wait(DtAgent *a, uint32_t from, const DtMessage *m)
{
    const uint32_t other = (uint32_t)m->token;
    if (m->node >= a->ranks || other >= a->ranks)
        return false;
    const uint32_t node = dt_spread_node(a->ranks, a->nodes, other);
    const int64_t child = dt_tree_towards(a->node, node);
    const uint32_t next = child < 0 ? PARENT : 1 + (uint32_t)child;
    if (node == a->node) {
        const uint32_t ms = (uint32_t)(m->token >> 32);
        if (m->attempt != a->attempt)
            return true;
        if (m->kind == DT_MESSAGE_WAIT && a->wait)
            a->wait(a->context, m->node, other, ms);
        if (m->kind == DT_MESSAGE_CHAIN && a->chain)
            a->chain(a->context, m->node, other, ms, m->ranks);
        return true;
    }
    if (next == from)
        return false;
    send_to(a, next, m);
    return true;
}

void dt_agent_wait(DtAgent *a, uint32_t rank, uint32_t other, uint32_t ms)
{
    DtMessage m = message(a, DT_MESSAGE_WAIT);
    m.node = rank;
    m.token = other | (uint64_t)ms << 32;
    take_wait(a, a->n, &m);
}

void dt_agent_chain(DtAgent *a, uint32_t rank, uint32_t other, uint32_t ms, uint32_t hops)
{
    DtMessage m = message(a, DT_MESSAGE_CHAIN);
    m.node = rank;
    m.ranks = hops;
    m.token = other | (uint64_t)ms << 32;
    take_wait(a, a->n, &m);
}

/* ---- attempts ---- */

/* Resets all that is of one attempt. */
static void enter(DtAgent *a, uint32_t attempt)
{
    a->attempt = attempt;
    a->code = DT_EXIT_OK;
    a->has_told_ended = a->are_ours_ended = false;
    if (a->has_lost)
        a->note = a->lost;
    a->has_note = a->has_lost || (a->has_note && has_failed(a));
    for (uint32_t i = 0; i < a->n; i++)
        a->at[i].has_ended = false;
}

void dt_agent_begin(DtAgent *a, uint16_t port, uint64_t token)
{
    if (a->node == 0)
        enter(a, a->attempt + 1);
    DtMessage m = message(a, DT_MESSAGE_START);
    m.port = port;
    m.token = token;
    a->has_start = false;
    send_down(a, &m);
}

void dt_agent_end(DtAgent *a, int32_t code, uint64_t now_ns)
{
    a->are_ours_ended = true;
    note_code(a, code);
    tell_ended(a, now_ns);
}

void dt_agent_conclude(DtAgent *a, int32_t code, uint32_t flags)
{
    DtMessage m = message(a, DT_MESSAGE_RESULT);
    m.code = code;
    m.flags = flags;
    a->is_over = (flags & DT_MESSAGE_AGAIN) == 0;
    send_down(a, &m);
}

/* ---- hearing ---- */

static bool hear_parent(DtAgent *a, const DtMessage *m)
{
    if (m->kind == DT_MESSAGE_START) {
        if (m->port == 0 || m->attempt != a->attempt + 1 || a->has_start)
            return false;
        enter(a, m->attempt);
        a->has_start = true;
        a->start = *m;
        return true;
    }
    if (m->kind != DT_MESSAGE_RESULT || m->attempt != a->attempt || a->has_result)
        return false;
    a->has_result = true;
    a->result = *m;
    a->is_over = (m->flags & DT_MESSAGE_AGAIN) == 0;
    send_down(a, m);
    return true;
}

static bool hear_child(DtAgent *a, uint32_t child, const DtMessage *m, uint64_t now_ns)
{
    DtNeighbour *from = &a->at[child];
    if (m->kind == DT_MESSAGE_JOINED && a->attempt == a->base && !from->has_joined) {
        from->has_joined = true;
        tell_joined(a);
        return true;
    }
    if (m->kind != DT_MESSAGE_ENDED || m->attempt > a->attempt || from->has_ended)
        return false;
    if (m->attempt < a->attempt) /* it was lost to that attempt, which has ended without it */
        return true;
    from->has_ended = true;
    note_code(a, m->code);
    tell_ended(a, now_ns);
    return true;
}

bool dt_agent_hear(DtAgent *a, uint32_t neighbour, const DtMessage *m, uint64_t now_ns)
{
    DtNeighbour *from = &a->at[neighbour];
    if (!from->is_there)
        return true;
    from->heard_ns = now_ns;
    switch (m->kind) {
    case DT_MESSAGE_BEAT: return true;
    case DT_MESSAGE_STOP: take_stop(a, neighbour); return true;
    case DT_MESSAGE_WAIT:
    case DT_MESSAGE_CHAIN: return take_wait(a, neighbour, m);
    case DT_MESSAGE_LEAVE: take_leave(a, neighbour, now_ns); return true;
    case DT_MESSAGE_FAILED:
        if (m->node >= a->nodes || (m->attempt > a->attempt + 1))
            return false;
        take_failure(a, m, neighbour, now_ns);
        return true;
    default:
        return is_child(neighbour) ? hear_child(a, neighbour, m, now_ns) : hear_parent(a, m);
    }
}

void dt_agent_meet(DtAgent *a, uint32_t neighbour, const char *host, uint64_t now_ns)
{
    DtNeighbour *at = &a->at[neighbour];
    at->is_there = true;
    at->heard_ns = now_ns;
    snprintf(at->host, sizeof at->host, "%s", host);
    if (a->looked_ns == 0)
        a->looked_ns = now_ns;
    tell_joined(a);
}

/* ---- time ---- */

/* Why a neighbour counts as lost; NULL: it does not. */
static const char *judge(const DtAgent *a, uint32_t neighbour, uint64_t now_ns)
{
    const DtNeighbour *at = &a->at[neighbour];
    if (now_ns > at->heard_ns + dt_agent_silence_ns)
        return "nothing was heard of it for 3.5 s: its dtrun is stopped, or the network to it has "
               "failed";
    if (is_child(neighbour) && has_failed(a) && !at->has_ended && a->attempt > a->base &&
        now_ns > a->failed_ns + PATIENCE_NS)
        return "it has not ended its ranks within 60 s after a failure";
    if (!is_child(neighbour) && a->has_told_ended && has_failed(a) && !a->has_result &&
        now_ns > a->ended_ns + 2 * PATIENCE_NS)
        return "it has not said how the run ended";
    return NULL;
}

void dt_agent_tick(DtAgent *a, uint64_t now_ns)
{
    const uint64_t since = a->looked_ns ? now_ns - a->looked_ns : 0,
                   gap = since > LOOK_NS ? since - LOOK_NS : 0;
    a->looked_ns = now_ns;
    if (now_ns >= a->beat_ns + dt_agent_beat_ns) {
        const DtMessage beat = message(a, DT_MESSAGE_BEAT);
        a->beat_ns = now_ns;
        send_on(a, a->n, &beat);
    }
    for (uint32_t i = a->first; i < a->n; i++) {
        a->at[i].heard_ns += gap;
        const char *why = a->at[i].is_there ? judge(a, i, now_ns) : NULL;
        if (why)
            dt_agent_lose(a, i, why, now_ns);
    }
}
