/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a formation, for hosts that do not find it in their own folder: each asks its parent
 * for it, piece by piece, so no node sends it more than 32 times. */
#include "runtime/cluster_internal.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 960, AT_ONCE = 64, FIRST = 1 << 20 };
_Static_assert((int)PIECE < (int)DT_MESSAGE_TEXT, "a piece is the text of a message");
static const uint64_t again_ns = 300000000u, MOST = 1ull << 40;

void dt_cluster_forget_plan(DtCluster *n)
{
    free(n->plan.got);
    n->plan = (DtClusterPlan){.at = NULL};
}

void dt_cluster_have_plan(DtCluster *n, const uint8_t *bytes, size_t len)
{
    dt_cluster_forget_plan(n);
    n->plan.at = bytes;
    n->plan.len = len;
    dt_agent_be_ready(&n->agent);
}

void dt_cluster_need_plan(DtCluster *n)
{
    dt_cluster_forget_plan(n);
    n->plan.asked_ns = 1;
}

const uint8_t *dt_cluster_fetched(const DtCluster *n, size_t *ret_len)
{
    *ret_len = n->plan.n_got;
    return n->plan.got;
}

/* Sends the child some pieces, from the offset on. A child asks again if nothing comes. */
static void serve(DtCluster *n, uint32_t child, uint64_t at)
{
    const DtClusterPlan *plan = &n->plan;
    for (int i = 0; i < AT_ONCE && plan->at && at < plan->len; i++) {
        DtMessage m = {.kind = DT_MESSAGE_PIECE, .token = at,
                       .ranks = (uint32_t)plan->len, .nodes = (uint32_t)(plan->len >> 32)};
        m.n_bytes = plan->len - at < PIECE ? (uint32_t)(plan->len - at) : PIECE;
        memcpy(m.text, plan->at + at, m.n_bytes);
        dt_agentlink_send(&n->links[child], &m);
        at += m.n_bytes;
    }
}

/* Memory grows with what has come, not with what the parent says. */
static void make_room(DtClusterPlan *plan, size_t bytes)
{
    if (bytes <= plan->room)
        return;
    size_t room = plan->room * 2 > FIRST ? plan->room * 2 : FIRST;
    room = room < plan->size ? room : plan->size;
    plan->got = realloc(plan->got, room);
    if (!plan->got)
        dt_arena_exhausted(room);
    plan->room = room;
}

static bool take_piece(DtClusterPlan *plan, const DtMessage *m)
{
    if (!plan->asked_ns) /* it has come already */
        return true;
    const uint64_t size = m->ranks | (uint64_t)m->nodes << 32;
    if (size == 0 || size > MOST || (plan->size > 0 && size != plan->size) || m->n_bytes == 0 ||
        m->n_bytes > size)
        return false;
    plan->size = size;
    if (m->token != plan->n_got) /* asked for twice */
        return true;
    if (m->n_bytes > plan->size - plan->n_got)
        return false;
    make_room(plan, plan->n_got + m->n_bytes);
    memcpy(plan->got + plan->n_got, m->text, m->n_bytes);
    plan->n_got += m->n_bytes;
    return true;
}

bool dt_cluster_hear_plan(DtCluster *n, uint32_t neighbour, const DtMessage *m)
{
    n->agent.at[neighbour].heard_ns = dt_now_ns();
    if (m->kind == DT_MESSAGE_NEED && neighbour > 0) {
        serve(n, neighbour, m->token);
        return true;
    }
    return m->kind == DT_MESSAGE_PIECE && neighbour == 0 && take_piece(&n->plan, m);
}

void dt_cluster_ask_plan(DtCluster *n, uint64_t now_ns)
{
    DtClusterPlan *plan = &n->plan;
    const DtMessage need = {.kind = DT_MESSAGE_NEED, .token = plan->n_got};
    const bool is_whole = plan->size > 0 && plan->n_got == plan->size;
    if (!plan->asked_ns || is_whole || !n->agent.at[0].is_there ||
        (plan->n_got < plan->asked && now_ns < plan->asked_ns + again_ns))
        return;
    plan->asked = plan->n_got + AT_ONCE * PIECE;
    plan->asked_ns = now_ns;
    dt_agentlink_send(&n->links[0], &need);
}
