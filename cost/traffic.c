/* SPDX-License-Identifier: Apache-2.0 */
/* Communication between devices: collectives and messages. */
#include "cost/cost.h"

#include <math.h>

DtCostLink dt_cost_link(const DtCostModel *model, bool crosses_nodes)
{
    const DtCostLink own = crosses_nodes ? model->nic : model->link;
    const DtCostLink devices = crosses_nodes ? model->device->nic : model->device->link;
    return own.bytes_per_second > 0 ? own : devices;
}

/* Returns how many bytes a second a rank of the group sends: inside a node at the rate of its link;
 * across nodes the ranks on a node share the network cards that belong to them. */
static double bus_of(const DtCostModel *model, const DtCostCollective *op)
{
    const double inside =
        dt_cost_constant(model, DT_COST_link) * dt_cost_link(model, false).bytes_per_second;
    if (op->nodes <= 1)
        return inside;
    const double per_node = (double)(op->per_node > 0 ? op->per_node : 1);
    const double rails = dt_cost_constant(model, DT_COST_net) *
                         dt_cost_link(model, true).bytes_per_second * per_node;
    return per_node > 1 && inside > 0 ? fmin(rails, inside) : rails;
}

/* Returns the share of the whole tensor's bytes that a rank sends in a ring of n, and sets
 * *ret_steps to the number of steps. */
static double ring_share(DtCostCollectiveKind kind, double n, double *ret_steps)
{
    *ret_steps = kind == DT_COST_ALL_REDUCE ? 2 * (n - 1) : n - 1;
    return kind == DT_COST_ALL_REDUCE  ? 2 * (n - 1) / n
           : kind == DT_COST_BROADCAST ? 1
                                       : (n - 1) / n;
}

double dt_cost_collective(const DtCostModel *model, DtCostCollective op)
{
    if (op.ranks <= 1)
        return 0;
    const bool crosses = op.nodes > 1;
    const double bus = fmax(bus_of(model, &op), 1), n = (double)op.ranks;
    double steps;
    const double share = ring_share(op.kind, n, &steps);
    const double start = dt_cost_constant(model, crosses ? DT_COST_net_start : DT_COST_link_start);
    const double hop =
        fmax(dt_cost_constant(model, DT_COST_hop), dt_cost_link(model, crosses).seconds);
    const double ring = steps * hop + share * op.bytes / bus;
    if (op.kind != DT_COST_ALL_REDUCE && op.kind != DT_COST_BROADCAST)
        return start + ring;
    /* along a tree, which an all_reduce goes up and down again */
    const double depth = ceil(log2(n)), way = op.kind == DT_COST_ALL_REDUCE ? 2 : 1;
    return start + fmin(ring, way * (depth * hop + op.bytes / bus));
}

double dt_cost_message(const DtCostModel *model, double bytes, bool crosses_nodes)
{
    const DtCostLink link = dt_cost_link(model, crosses_nodes);
    const double rate = dt_cost_constant(model, DT_COST_message) * fmax(link.bytes_per_second, 1);
    return dt_cost_constant(model, DT_COST_message_start) + link.seconds + bytes / rate;
}

double dt_cost_beside(const DtCostModel *model, double compute, double communication)
{
    return fmax(compute + dt_cost_constant(model, DT_COST_share) * fmin(compute, communication),
                communication);
}
