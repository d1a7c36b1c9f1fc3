/* SPDX-License-Identifier: Apache-2.0 */
/* Dependences between groups.
 *
 * Groups are in a list in which each comes after the groups that it reads, with ascending
 * labels, and a search visits only the groups between the two. Most dependences are long paths,
 * forward and back through derivatives. These are found without a search: a tree in which each
 * op is a child of its latest operand contains them. */
#include "passes/lower/fuse_internal.h"

#include <stdlib.h>

/* Numbers the tree's nodes so that those below an op are the numbers from its own up to the end of
 * its range. */
static void number_tree(DtFusion *f)
{
    const uint32_t n = f->func->ops.n, none = UINT32_MAX;
    uint32_t *parent = DT_NEW_ARRAY(f->arena, uint32_t, n + 1),
             *used = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    uint32_t roots = 0;
    f->tree = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    f->below = DT_NEW_ARRAY(f->arena, uint32_t, n + 1); /* of the op itself and those below */
    for (uint32_t i = 0; i < n; i++) {
        parent[i] = none;
        for (uint32_t j = 0; j < f->func->ops.at[i]->n_in; j++) {
            const uint32_t position = f->position[f->func->ops.at[i]->in[j]->id];
            if (position != none && (parent[i] == none || position > parent[i]))
                parent[i] = position;
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        f->below[i]++;
        if (parent[i] != none)
            f->below[parent[i]] += f->below[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *from = parent[i] == none ? &roots : &used[parent[i]];
        f->tree[i] = (parent[i] == none ? 0 : f->tree[parent[i]] + 1) + *from;
        *from += f->below[i];
    }
}

/* Whether b reads, through an op outside of a and b, an op of a: it reads an op that is below an op
 * of a in the tree of latest operands. */
static bool hangs_below(const DtFusion *f, uint32_t a, uint32_t b)
{
    const DtFuseGroup *above = &f->groups[a], *group = &f->groups[b];
    for (uint32_t i = 0; i < group->ops.n; i++) {
        const DtOp *op = f->func->ops.at[group->ops.at[i]];
        for (uint32_t j = 0; j < op->n_in; j++) {
            const uint32_t position = f->position[op->in[j]->id];
            if (position == UINT32_MAX || dt_fuse_in_union(f, position, a, b))
                continue;
            for (uint32_t k = 0; k < above->ops.n; k++)
                if (f->tree[position] - f->tree[above->ops.at[k]] < f->below[above->ops.at[k]])
                    return true;
        }
    }
    return false;
}

/* Adds the groups that g reads from, and that are after a in the list, to the groups to search (b
 * is left out); true: g reads a. */
static bool add_sources(DtFusion *f, uint32_t g, uint32_t a, uint32_t b)
{
    const DtFuseGroup *group = &f->groups[g];
    for (uint32_t i = 0; i < group->ops.n; i++) {
        const DtValue *value;
        for (uint32_t j = 0; (value = dt_fuse_awaited(f, group->ops.at[i], j)); j++) {
            const uint32_t position = f->position[value->id];
            const uint32_t source = position == UINT32_MAX ? b : f->group_of[position];
            if (source == a && g != b)
                return true;
            if (source == b || f->stamp[source] == f->now || f->label[source] <= f->label[a])
                continue;
            f->stamp[source] = f->now;
            f->found[f->n_found++] = source;
        }
    }
    return false;
}

bool dt_fuse_makes_cycle(DtFusion *f, uint32_t a, uint32_t b)
{
    return hangs_below(f, a, b) || dt_fuse_depends(f, a, b, f->func->ops.n);
}

bool dt_fuse_depends(DtFusion *f, uint32_t a, uint32_t b, uint32_t but)
{
    f->stamp[but] = ++f->now;
    f->n_found = 0;
    bool does = add_sources(f, b, a, b);
    for (uint32_t i = 0; i < f->n_found && !does; i++)
        does = add_sources(f, f->found[i], a, b);
    return does;
}

static void number_all(DtFusion *f)
{
    uint64_t label = 0;
    for (uint32_t g = f->next[f->func->ops.n]; g != f->func->ops.n; g = f->next[g])
        f->label[g] = label += UINT64_C(1) << 40;
}

void dt_fuse_begin_order(DtFusion *f)
{
    const uint32_t n = f->func->ops.n; /* the list's head is entry number n */
    number_tree(f);
    f->label = DT_NEW_ARRAY(f->arena, uint64_t, n + 1);
    f->next = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    f->before = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i <= n; i++) {
        f->next[i] = i == n ? 0 : i + 1;
        f->before[i] = i == 0 ? n : i - 1;
    }
    number_all(f);
}

static void take_out(DtFusion *f, uint32_t g)
{
    f->next[f->before[g]] = f->next[g];
    f->before[f->next[g]] = f->before[g];
}

/* Puts b into the list of groups in the place of a, which leaves it. */
static void take_place(DtFusion *f, uint32_t b, uint32_t a)
{
    f->next[b] = f->next[a];
    f->before[b] = f->before[a];
    f->label[b] = f->label[a];
    f->next[f->before[b]] = f->before[f->next[b]] = b;
}

static int by_label(const void *x, const void *y)
{
    const DtFusePlaced *a = x, *b = y;
    return a->label < b->label ? -1 : a->label > b->label;
}

/* Moves the groups that the last search found between a and b, which b depends on, before a in the
 * list, in their order. */
static void reorder(DtFusion *f, uint32_t a)
{
    DtFusePlaced *placed = f->placed;
    for (uint32_t i = 0; i < f->n_found; i++)
        placed[i] = (DtFusePlaced){f->label[f->found[i]], f->found[i]};
    qsort(placed, f->n_found, sizeof *placed, by_label);
    for (uint32_t i = 0; i < f->n_found; i++) {
        const uint32_t g = placed[i].group, last = f->before[a];
        const uint64_t from = last == f->func->ops.n ? 0 : f->label[last];
        take_out(f, g);
        f->next[g] = a;
        f->before[g] = last;
        f->next[last] = f->before[a] = g;
        f->label[g] = from + (f->label[a] - from) / (f->n_found - i + 1);
        if (f->label[g] == from)
            number_all(f);
    }
}

void dt_fuse_joined(DtFusion *f, uint32_t a, uint32_t b, uint32_t keep)
{
    reorder(f, a);
    take_out(f, b);
    if (keep == b)
        take_place(f, b, a);
}
