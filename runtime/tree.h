/* SPDX-License-Identifier: Apache-2.0 */
/* The tree over the nodes of a run: each node but node 0 has a parent, and at most 32 children. So
 * 4,096 nodes are three steps deep, and no node talks with more than 33 others. */
#ifndef DT_RUNTIME_TREE_H
#define DT_RUNTIME_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum { DT_TREE_DEGREE = 32 };

/* Of node > 0. */
static inline uint32_t dt_tree_parent(uint32_t node) { return (node - 1) / DT_TREE_DEGREE; }

static inline uint32_t dt_tree_first_child(uint32_t node) { return node * DT_TREE_DEGREE + 1; }

static inline uint32_t dt_tree_children(uint32_t nodes, uint32_t node)
{
    const uint64_t first = (uint64_t)node * DT_TREE_DEGREE + 1;
    if (first >= nodes)
        return 0;
    return nodes - first < DT_TREE_DEGREE ? (uint32_t)(nodes - first) : DT_TREE_DEGREE;
}

/* Which child of `node` has node `other` in its part of the tree, counted from 0; or -1: other is
 * not below it. */
static inline int64_t dt_tree_towards(uint32_t node, uint32_t other)
{
    while (other > node) {
        const uint32_t above = dt_tree_parent(other);
        if (above == node)
            return other - dt_tree_first_child(node);
        other = above;
    }
    return -1;
}

#endif
