/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a run over several nodes: which ranks a node has, and what contradicts itself. */
#include "runtime/cluster.h"
#include "runtime/socket.h"
#include "runtime/spread.h"

uint32_t dt_cluster_ranks(const DtRunOptions *options, const DtPlan *plan)
{
    const uint32_t ranks = plan->meta->n_ranks, hosts = dt_cluster_hosts(options);
    return dt_spread_count(ranks, hosts, (uint32_t)options->node % hosts);
}

uint32_t dt_cluster_first(const DtRunOptions *options, const DtPlan *plan)
{
    const uint32_t hosts = dt_cluster_hosts(options);
    return dt_spread_first(plan->meta->n_ranks, hosts, (uint32_t)options->node % hosts);
}

bool dt_cluster_is_here(const DtRank *rank, uint32_t other)
{
    const uint32_t first = dt_cluster_first(rank->options, rank->plan);
    return other >= first && other - first < dt_cluster_ranks(rank->options, rank->plan);
}

DtRankGroup dt_cluster_here(const DtRank *rank, const DtRankGroup *group)
{
    DtRankGroup here = *group;
    uint32_t first = 0, end = group->size;
    if (!rank->options || !dt_cluster_several(rank->options))
        return here;
    while (first < end && !dt_cluster_is_here(rank, group->ranks[first]))
        first++;
    while (end > first && !dt_cluster_is_here(rank, group->ranks[end - 1]))
        end--;
    here.ranks = group->ranks + first;
    here.size = end - first;
    here.me = group->me - first;
    return here;
}

DtStatus dt_cluster_check(const DtRunOptions *options, const DtPlan *plan)
{
    const long long nodes = options->nodes, ranks = plan->meta->n_ranks;
    DtMeet meet;
    if (nodes == 0 && (options->node > 0 || options->meet))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--node and --meet are of a run over several machines: how many is "
                              "said by --nodes");
    if (options->spares > 0 && options->spares >= nodes)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--spares %lld of %lld machines leaves none for ranks",
                              (long long)options->spares, nodes > 1 ? nodes : 1);
    if (nodes <= 1 && options->node == 0)
        return DT_OK;
    if (nodes - options->spares > ranks)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--nodes %lld: the plan has %lld ranks, and each node needs one",
                              nodes, ranks);
    if (options->node < 0 || options->node >= nodes)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--nodes %lld needs --node I on each machine, from 0 to %lld", nodes,
                              nodes - 1);
    if (!options->meet)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--nodes %lld needs --meet HOST:PORT, the same on each machine: node 0's "
            "address and a free port there",
            nodes);
    if (ranks % dt_cluster_hosts(options))
        return dt_status_fail(
            DT_EXIT_USAGE,
            "the plan has %lld ranks, which are not the same number on each of %u nodes",
            ranks, dt_cluster_hosts(options));
    if (dt_run_predicts(options) && plan->n_channels)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--%s with a pipeline needs all stages on one machine: compile the model without a "
            "pipeline for it",
            options->generate        ? "generate"
            : options->prompts       ? "prompts"
            : options->n_predict > 0 ? "predict"
                                     : "reference");
    return dt_socket_parse(options->meet, &meet);
}
