/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several nodes that wait for each other. Each node knows the waits of its own ranks, so a
 * cycle is found by a message that follows them (Chandy, Misra and Haas, Distributed deadlock
 * detection, 1983): node A says "rank 3 waits, through others, for your rank 7"; the node of rank 7
 * follows the waits of its ranks, and says the same to the node of the rank at which they leave it.
 * If they lead back to rank 3, the waits are a cycle.
 *
 * A message between ranks may be under way, and then its receiver waits for a rank that has done
 * its part. So only a wait counts that is ten seconds old, in which nothing has come (a rank that
 * gets bytes of another host begins its wait anew, see dt_wire_turn), and which the rank has
 * looked at several times in the second half of them. A neighbour that is silent for so long would
 * be lost long since. */
#include "runtime/cluster_internal.h"

#include "runtime/spread.h"

static const uint64_t STILL_NS = 10000000000u, ASK_NS = 500000000u;
enum { LOOKS = 3, MS = 1000000 };

static void note(DtClusterStill *at, const DtWatchSample *s, uint64_t now_ns)
{
    const bool waits = s->alive && s->waiting && s->state != 'T' && s->state != 't';
    if (!waits || s->wait_began_ns != at->began_ns || s->waits_for != at->waits_for) {
        *at = (DtClusterStill){s->waits_for, waits ? s->wait_began_ns : 0, s->wait_looked_ns, 0};
    } else if (s->wait_looked_ns != at->looked_ns) {
        at->looked_ns = s->wait_looked_ns;
        at->looks += now_ns > at->began_ns + STILL_NS / 2;
    }
}

static bool is_still(const DtClusterStill *at, uint64_t now_ns)
{
    return at->began_ns > 0 && now_ns > at->began_ns + STILL_NS && at->looks >= LOOKS;
}

/* Follows the waits from rank `at` of this node. ms: since when all waits of the chain so far have
 * lasted. */
static void follow(DtCluster *n, uint32_t begin, uint32_t at, uint32_t ms, uint32_t hops,
                   uint64_t now_ns)
{
    const uint32_t first = dt_spread_first(n->agent.ranks, n->nodes, n->node),
                   n_here = dt_spread_count(n->agent.ranks, n->nodes, n->node);
    for (uint32_t steps = 0; steps < n_here; steps++) {
        const DtClusterStill *still = &n->stills[at - first];
        if (!is_still(still, now_ns) || still->waits_for >= n->agent.ranks)
            return;
        const uint64_t lasts = (now_ns - still->began_ns) / MS;
        ms = lasts < ms ? (uint32_t)lasts : ms;
        if (still->waits_for == begin) {
            if (hops > 0) /* else it is one within this node, which watch.c judges */
                n->cycle = (DtWatchEvent){DT_WATCH_CYCLE, at, begin, ms * 1e-3};
            return;
        }
        at = still->waits_for;
        if (at - first >= n_here) {
            if (hops < n->agent.ranks)
                dt_agent_chain(&n->agent, begin, at, ms, hops + 1);
            return;
        }
    }
}

void dt_cluster_note_chain(void *cluster, uint32_t rank, uint32_t other, uint32_t ms,
                           uint32_t hops)
{
    follow(cluster, rank, other, ms, hops, dt_now_ns());
}

DtWatchEvent dt_cluster_cycle(DtCluster *n, const DtWatchSample *samples, uint32_t first,
                              uint32_t n_here, uint64_t now_ns)
{
    const DtWatchEvent event = n->cycle;
    n->cycle = (DtWatchEvent){.kind = DT_WATCH_NOTHING, .waiter = UINT32_MAX};
    for (uint32_t i = 0; i < n_here; i++)
        note(&n->stills[i], &samples[first + i], now_ns);
    if (now_ns < n->chained_ns + ASK_NS)
        return event;
    n->chained_ns = now_ns;
    /* one rank at a time, in turn, so that a run in which all wait for one rank sends little */
    for (uint32_t i = 0; i < n_here; i++) {
        const uint32_t at = n->chained++ % n_here;
        if (!is_still(&n->stills[at], now_ns) || n->stills[at].waits_for - first < n_here)
            continue;
        follow(n, first + at, first + at, UINT32_MAX, 0, now_ns);
        break;
    }
    return event;
}
