/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom between nodes. A rank is judged on its own node (watch.c), which therefore
 * hears which ranks of other nodes wait for it. */
#include "runtime/cluster_internal.h"

#include "runtime/spread.h"
#include "runtime/watch.h"

static const uint64_t LONG_NS = 300000000u, TELL_NS = 500000000u, SAME_NS = 1500000000u,
                      FRESH_NS = 2500000000u;

/* It is one wait if it began at about the same time: messages take different times. */
void dt_cluster_note_wait(void *cluster, uint32_t rank, uint32_t other, uint32_t ms)
{
    DtCluster *n = cluster;
    DtClusterWaiter *at =
        &n->waiters[other - dt_spread_first(n->agent.ranks, n->nodes, n->node)];
    const uint64_t now_ns = dt_now_ns(), age_ns = ms * 1000000ull,
                   began_ns = age_ns < now_ns ? now_ns - age_ns : 1;
    const bool is_same = at->heard_ns > 0 && at->rank == rank &&
                         began_ns < at->began_ns + SAME_NS && at->began_ns < began_ns + SAME_NS;
    *at = (DtClusterWaiter){rank, is_same ? at->began_ns : began_ns, now_ns};
}

/* Whether the rank has waited long for a rank of another node. */
static bool waits_far(const DtCluster *n, const DtWatchSample *s, uint32_t first, uint32_t n_here,
                      uint64_t now_ns)
{
    const bool is_far = s->waits_for - first >= n_here &&
                        s->waits_for < n->agent.ranks;
    return s->alive && s->waiting && is_far && now_ns > s->wait_began_ns + LONG_NS &&
           now_ns - s->wait_began_ns < UINT32_MAX * 1000000ull;
}

/* Tells the nodes of ranks that ranks here wait for, of one waiter for each. */
static void tell(DtCluster *n, const DtWatchSample *samples, uint32_t first, uint32_t n_here,
                 uint64_t now_ns)
{
    for (uint32_t r = first; r < first + n_here; r++) {
        const DtWatchSample *s = &samples[r];
        bool is_told = !waits_far(n, s, first, n_here, now_ns);
        for (uint32_t k = first; k < r && !is_told; k++)
            is_told = samples[k].waits_for == s->waits_for &&
                      waits_far(n, &samples[k], first, n_here, now_ns);
        if (!is_told)
            dt_agent_wait(&n->agent, r, s->waits_for,
                          (uint32_t)((now_ns - s->wait_began_ns) / 1000000u));
    }
}

void dt_cluster_share_waits(DtCluster *n, DtWatchSample *samples, uint32_t first, uint32_t n_here)
{
    const uint64_t now_ns = dt_now_ns();
    if (now_ns > n->told_ns + TELL_NS) {
        n->told_ns = now_ns;
        tell(n, samples, first, n_here, now_ns);
    }
    for (uint32_t i = 0; i < n_here; i++) {
        const DtClusterWaiter *at = &n->waiters[i];
        if (at->heard_ns > 0 && now_ns < at->heard_ns + FRESH_NS && at->rank - first >= n_here)
            samples[at->rank] = (DtWatchSample){.alive = true,
                                                .is_elsewhere = true,
                                                .state = 'S',
                                                .waiting = true,
                                                .waits_for = first + i,
                                                .wait_began_ns = at->began_ns,
                                                .wait_looked_ns = at->heard_ns,
                                                .phase = DT_PHASE_RUNNING};
    }
}
