/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's side of the meetings of an elastic run: turns, in each of which the cluster does
 * what it can and says what the supervisor must do. */
#include "runtime/cluster_internal.h"

#include "runtime/say.h"

#include <unistd.h>

/* limit_ns: since node 0 was heard; more than dt_agent_silence_ns, after which it is lost */
static const uint64_t limit_ns = 4700000000u, short_ns = 1000000000u;

DtStatus dt_cluster_begin(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                          bool (*is_over)(void *context), void *context, DtRoster *roster,
                          DtCluster **ret_cluster)
{
    const DtStatus status = dt_cluster_open(options, plan, words, is_over, context, ret_cluster);
    if (*ret_cluster && (*ret_cluster)->seat == 0)
        (*ret_cluster)->roster = roster;
    return status;
}

/* How long this node tries to connect with node 0 again: all end within 5 s after that is lost. */
static uint64_t find_limit(const DtCluster *n, uint64_t now_ns)
{
    const DtAgent *a = &n->agent;
    uint64_t heard_ns = now_ns;
    if (n->stage == DT_STAGE_WAITS)
        heard_ns = n->heard_ns;
    else if (a->n > 0 && a->at[0].node == 0)
        heard_ns = a->at[0].heard_ns;
    else if (a->has_lost && a->lost.node == 0)
        heard_ns = now_ns - dt_agent_silence_ns;
    return heard_ns + limit_ns > now_ns + short_ns ? heard_ns + limit_ns : now_ns + short_ns;
}

void dt_cluster_regroup(DtCluster *n, uint64_t now_ns)
{
    if (n->seat == 0) /* others may have gone at the same time */
        dt_cluster_pump(n, now_ns);
    n->was_stopped = n->was_stopped || n->agent.has_stopped;
    n->attempts = n->agent.attempt;
    n->has_route = false;
    n->until_ns = n->seat > 0 ? find_limit(n, now_ns) : 0;
    dt_cluster_forget_plan(n);
    if (n->seat == 0)
        dt_cluster_gather_again(n, now_ns);
    const DtMessage leave = {.kind = DT_MESSAGE_LEAVE};
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++) {
        dt_agentlink_send(&n->links[i], &leave);
        dt_agentlink_close(&n->links[i]);
    }
    if (n->greeting.fd >= 0)
        close(n->greeting.fd);
    n->greeting.fd = -1;
    n->agent = (DtAgent){.first = 1, .n = 1, .attempt = n->attempts};
    n->began_ns = now_ns;
    n->is_said = true;
    if (n->seat == 0)
        return;
    n->stage = DT_STAGE_CONNECTS;
    n->node = n->seat;
    n->goal = n->meet;
    n->try_ns = now_ns;
    n->refused_ns = 0;
    n->tries = 0;
}

bool dt_cluster_ask_stop(DtCluster *n)
{
    const DtMessage m = {.kind = DT_MESSAGE_STOP};
    if (n->stage != DT_STAGE_WAITS)
        return false;
    dt_agentlink_send(&n->links[0], &m);
    return true;
}

void dt_cluster_set_code(DtCluster *n, int code) { n->code = code; }

/* A message of the stage for the supervisor. */
static DtClusterTurn turn_of(DtCluster *n)
{
    if (n->has_route) {
        n->has_route = false;
        return DT_TURN_ROUTED;
    }
    if (n->plan.size > 0 && n->plan.n_got == n->plan.size && n->plan.asked_ns) {
        n->plan.asked_ns = 0;
        return DT_TURN_FETCHED;
    }
    switch (n->stage) {
    case DT_STAGE_GATHERED: return DT_TURN_GATHERED;
    case DT_STAGE_MET: return DT_TURN_MET;
    case DT_STAGE_OVER: return DT_TURN_OVER;
    case DT_STAGE_FAILED: return DT_TURN_FAILED;
    default: return DT_TURN_WAITS;
    }
}

DtClusterTurn dt_cluster_turn(DtCluster *n)
{
    dt_cluster_sleep(n);
    return dt_cluster_advance(n);
}

DtClusterTurn dt_cluster_advance(DtCluster *n)
{
    dt_cluster_step(n, dt_now_ns());
    if (n->stage == DT_STAGE_BROKEN) {
        if (n->agent.has_lost)
            dt_say("node %u: %s", n->agent.lost.node, n->agent.lost.text);
        dt_cluster_regroup(n, dt_now_ns());
    }
    return turn_of(n);
}

DtClusterRoute dt_cluster_route(const DtCluster *n)
{
    const DtMessage *m = &n->route;
    return (DtClusterRoute){.nodes = m->nodes, .node = m->node, .ranks = m->ranks,
                            .attempts = m->attempt, .digest = m->token,
                            .has_saved = (m->flags & DT_MESSAGE_SAVED) != 0};
}

DtStatus dt_cluster_why(const DtCluster *n, int *ret_code)
{
    *ret_code = n->stage == DT_STAGE_OVER ? n->code : n->status.code;
    return n->status;
}
