/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisors of a run's nodes while ranks run, from the start of an attempt to its end: what
 * agent.c decides, with connections. */
#include "runtime/cluster_internal.h"

#include "runtime/key.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const uint64_t say_after_ns = 5000000000u;
enum { LOOK_MS = 100 };

/* ---- connections ---- */

static nfds_t add(struct pollfd *polls, nfds_t at, int fd, short events)
{
    if (fd < 0)
        return at;
    polls[at] = (struct pollfd){.fd = fd, .events = events};
    return at + 1;
}

nfds_t dt_cluster_polls(const DtCluster *n, struct pollfd *ret_polls)
{
    nfds_t at = 0;
    if (n->newcomers)
        at = add(ret_polls, at, dt_newcomers_fd(n->newcomers), POLLIN);
    at = add(ret_polls, at, n->greeting.fd, dt_greeting_events(&n->greeting));
    at = add(ret_polls, at, n->refuser.fd, POLLIN);
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++)
        at = add(ret_polls, at, n->links[i].fd,
                 (short)(n->links[i].n_out > 0 ? POLLIN | POLLOUT : POLLIN));
    return at;
}

void dt_cluster_sleep(const DtCluster *n)
{
    struct pollfd polls[DT_CLUSTER_POLLS];
    poll(polls, dt_cluster_polls(n, polls), LOOK_MS);
}

/* Hears one neighbour. False: its connection is broken, or it talks nonsense. */
static bool hear_neighbour(DtCluster *n, uint32_t neighbour, uint64_t now_ns)
{
    DtAgentLink *link = &n->links[neighbour];
    for (;;) {
        DtMessage m;
        const bool lives = dt_agentlink_pump(link), is_full = link->n_in == sizeof link->in;
        int got;
        while ((got = dt_agentlink_next(link, &m)) > 0) {
            const bool of_plan = m.kind == DT_MESSAGE_NEED || m.kind == DT_MESSAGE_PIECE;
            if (!(of_plan ? dt_cluster_hear_plan(n, neighbour, &m)
                          : dt_agent_hear(&n->agent, neighbour, &m, now_ns)))
                return false;
        }
        if (!lives || got < 0 || !is_full)
            return lives && got == 0;
    }
}

void dt_cluster_pump(DtCluster *n, uint64_t now_ns)
{
    for (uint32_t i = n->agent.first; i < n->agent.n; i++) {
        const bool is_there = n->agent.at[i].is_there;
        if (is_there && !hear_neighbour(n, i, now_ns))
            dt_agent_lose(&n->agent, i, "it has gone: its dtrun has ended, or the network to it",
                          now_ns);
    }
    dt_agent_tick(&n->agent, now_ns);
    for (uint32_t i = n->agent.first; i < n->agent.n; i++)
        if (n->agent.at[i].is_lost)
            dt_agentlink_close(&n->links[i]);
}

/* ---- start ---- */

/* Waits until node 0 begins an attempt, or cannot. */
static DtStatus wait_for_start(DtCluster *n)
{
    const uint64_t began = dt_now_ns();
    bool is_said = false;
    while (!n->agent.has_start && !n->agent.has_note) {
        dt_cluster_sleep(n);
        dt_cluster_step(n, dt_now_ns());
        if (n->is_over(n->context))
            return dt_status_fail(DT_EXIT_INTERRUPTED,
                                  "stopped while it waited for the other nodes");
        if (!is_said && dt_now_ns() - began > say_after_ns) {
            dt_text_say(stderr, "dtrun: waits until all nodes are there");
            is_said = true;
        }
    }
    if (n->agent.has_start)
        return DT_OK;
    n->agent.has_note = false;
    return dt_cluster_status_of(&n->agent.note);
}

static DtStatus draw(uint64_t *ret_token)
{
    return getrandom(ret_token, sizeof *ret_token, 0) == (ssize_t)sizeof *ret_token
               ? DT_OK
               : dt_status_fail(DT_EXIT_RETRY, "no random number for the nodes: %s",
                                strerror(errno));
}

/* Opens the socket on which the head of this node waits for those of its children. */
static DtStatus listen_for_heads(const DtCluster *n, DtShared *shared, uint16_t *ret_port)
{
    int fd;
    *ret_port = 1; /* nobody is told */
    if (dt_tree_children(n->nodes, n->node) == 0)
        return DT_OK;
    const DtStatus status = dt_socket_listen(0, &fd, ret_port);
    if (dt_status_ok(&status))
        shared->meet_fd = fd;
    return status;
}

DtStatus dt_cluster_start(DtCluster *n, DtShared *shared)
{
    uint64_t token = 0;
    uint16_t port;
    DtStatus status = DT_OK;
    shared->meet_fd = -1;
    dt_cluster_step(n, dt_now_ns());
    if (n->node > 0) {
        status = wait_for_start(n);
        token = n->agent.start.token;
    } else if (n->agent.has_note) {
        n->agent.has_note = false;
        status = dt_cluster_status_of(&n->agent.note);
    } else
        status = draw(&token);
    if (dt_status_ok(&status))
        status = listen_for_heads(n, shared, &port);
    if (!dt_status_ok(&status))
        return status;
    shared->meet_port = n->agent.start.port;
    snprintf(shared->meet_host, sizeof shared->meet_host, "%s", n->goal.host);
    dt_key_derive(n->key, "heads", token, shared->meet_key);
    dt_agent_begin(&n->agent, port, token);
    return DT_OK;
}

/* ---- news ---- */

void dt_cluster_tell(DtCluster *n, DtClusterNews news, int32_t code, bool lost_rank,
                     const char *text)
{
    if (news == DT_CLUSTER_STOP)
        dt_agent_stop(&n->agent);
    else
        dt_agent_fail(&n->agent, code, lost_rank ? DT_MESSAGE_RANK : 0, text, dt_now_ns());
}

DtClusterNote dt_cluster_hear(DtCluster *n)
{
    DtAgent *a = &n->agent;
    DtClusterNote note = {.news = DT_CLUSTER_NOTHING};
    dt_cluster_step(n, dt_now_ns());
    if (a->has_note) {
        a->has_note = false;
        note = (DtClusterNote){.news = DT_CLUSTER_FAILED, .node = a->note.node,
                               .code = a->note.code,
                               .lost_rank = (a->note.flags & DT_MESSAGE_RANK) != 0};
        snprintf(note.text, sizeof note.text, "%s", a->note.text);
    } else if (a->has_stop_note) {
        a->has_stop_note = false;
        note.news = DT_CLUSTER_STOP;
    }
    return note;
}

/* ---- the end of an attempt ---- */

bool dt_cluster_is_whole(const DtCluster *n) { return !n->agent.has_lost; }

bool dt_cluster_was_stopped(const DtCluster *n)
{
    return n->agent.has_stopped || n->was_stopped;
}

int dt_cluster_collect(DtCluster *n, int code)
{
    dt_agent_end(&n->agent, code, dt_now_ns());
    if (n->node != 0)
        return code;
    while (!dt_agent_has_ended(&n->agent) && !(n->is_elastic && n->agent.has_lost)) {
        dt_cluster_sleep(n);
        dt_cluster_step(n, dt_now_ns());
        if (n->is_over(n->context))
            return code == DT_EXIT_OK ? DT_EXIT_INTERRUPTED : code;
    }
    return code == DT_EXIT_OK ? n->agent.code : code;
}

bool dt_cluster_agree(DtCluster *n, DtClusterEnd *end)
{
    DtAgent *a = &n->agent;
    if (n->node == 0) {
        dt_agent_conclude(a, end->code,
                          (end->has_saved ? DT_MESSAGE_SAVED : 0u) |
                              (end->again ? DT_MESSAGE_AGAIN : 0u) |
                              (end->forms ? DT_MESSAGE_FORM : 0u));
        n->code = end->code;
        return true;
    }
    while (!a->has_result) {
        dt_cluster_sleep(n);
        dt_cluster_step(n, dt_now_ns());
        if (!a->has_result && n->is_elastic && a->has_lost) {
            end->forms = true;
            return true;
        }
        if (!a->has_result && (!a->at[0].is_there || n->is_over(n->context)))
            return false;
    }
    a->has_result = false;
    *end = (DtClusterEnd){.code = a->result.code,
                          .has_saved = (a->result.flags & DT_MESSAGE_SAVED) != 0,
                          .again = (a->result.flags & DT_MESSAGE_AGAIN) != 0,
                          .forms = (a->result.flags & DT_MESSAGE_FORM) != 0};
    return true;
}
