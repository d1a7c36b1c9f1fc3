/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a run spread over its nodes: in order, each node has at least one, and numbers
 * differ by one at most. Nodes with one rank less come in between the others, the first one after
 * node 0. */
#ifndef DT_RUNTIME_SPREAD_H
#define DT_RUNTIME_SPREAD_H

#include <stdint.h>

/* The first rank of a node; of node number `nodes`: the number of ranks. */
static inline uint32_t dt_spread_first(uint32_t ranks, uint32_t nodes, uint32_t node)
{
    return (uint32_t)(((uint64_t)node * ranks + nodes - 1) / nodes);
}

/* How many ranks a node has. */
static inline uint32_t dt_spread_count(uint32_t ranks, uint32_t nodes, uint32_t node)
{
    return dt_spread_first(ranks, nodes, node + 1) - dt_spread_first(ranks, nodes, node);
}

/* The node of a rank. */
static inline uint32_t dt_spread_node(uint32_t ranks, uint32_t nodes, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * nodes / ranks);
}

#endif
