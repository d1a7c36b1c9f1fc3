/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion: which ops share a kernel. Every op starts as a group of its own; in order, each is merged with the
 * groups of its operands as long as the union is still one loop nest and no path leaves the union and comes
 * back:
 *
 *   maps over the same axes                                 x * y + z
 *   an optimizer's step and what becomes of its results     where(ok, new, old), the rounded copy
 *   a reduction and what makes its operand                  sum[embed](u * u)
 *   what is computed per row from reductions, and what
 *   combines it with the row again                          u * rsqrt(s / n + eps) * gain
 *   an index map (gather, pad, window, concat) and its users: the map is a load
 *
 * A reduction whose operand runs in memory along an axis that stays (a column sum, such as the gradient of a
 * bias) is fused with its producers only if nobody else wants them, since its loop nest stores no full-size
 * value. Views (renames, splits, slices) cost nothing and stay apart. With --unfused every op is alone: the
 * slow reference. */
#include "passes/fuse.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GROUP = 48 }; /* ops: bounds the registers and pointers of a kernel */

typedef struct Group {
    DT_VEC(uint32_t) ops;      /* positions in the function, ascending */
    const DtType *full;        /* a type with the axes of the whole space; NULL: cannot be fused */
    bool reduces, column;
    const char **inner;        /* axes summed away */
    uint32_t n_inner;
    uint32_t last;             /* largest position */
    uint32_t due;              /* what is due first comes first, once it can */
} Group;

typedef struct Placed {
    uint64_t label;
    uint32_t group;
} Placed;

typedef struct Fusion {
    DtArena *arena;
    const DtFunc *func;
    Group *groups;             /* by position of the first op; merged ones are empty */
    uint32_t *group_of;        /* by position */
    uint32_t *position;        /* by value id: position of the op that makes it; UINT32_MAX: an input */
    uint32_t *reader, *readers; /* value id v is read by ops readers[reader[v] .. reader[v + 1]] */
    bool *is_result;           /* by value id */
    uint32_t *tree, *below;    /* by position: number in the tree of latest operands, and how many are below */
    uint32_t *next, *before;   /* by group: a list in an order in which each comes after what it reads; its head is */
    uint64_t *label;           /* the number of ops. Ascending along the list */
    uint32_t *stamp, now;      /* by group: visited in search number */
    uint32_t *found, n_found;  /* by the last search */
    Placed *placed;
} Fusion;

static bool is_index_map(const DtOp *op)
{
    const DtOpInfo *info = &dt_op_info[op->kind];
    return info->data == DT_DATA_MOVE && (info->op_class == DT_CLASS_AXIS || info->op_class == DT_CLASS_INDEX);
}

static bool is_fusable(const DtOp *op)
{
    if ((op->n_out != 1 && op->kind != DT_OP_UPDATE) || dt_op_is_inline(op->out[0]))
        return false;
    return dt_op_is_pointwise(op->kind) || op->kind == DT_OP_RNG || op->kind == DT_OP_REDUCE ||
           op->kind == DT_OP_UPDATE || is_index_map(op);
}

static bool listed(const char *axis, const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == axis)
            return true;
    return false;
}

/* Whether type has just the axes of full, or (outer) just those that are not summed away. */
static bool has_axes(const DtType *type, const Group *g, bool outer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->full->rank; i++) {
        if (outer && listed(g->full->axes[i].name, g->inner, g->n_inner))
            continue;
        int at = dt_type_find(type, g->full->axes[i].name);
        if (at < 0 || !dt_type_same_axis(&type->axes[at], &g->full->axes[i]))
            return false; /* slices and pads change an extent but not the name */
        n++;
    }
    return n == type->rank;
}

static void start(Fusion *f, uint32_t i)
{
    const DtOp *op = f->func->ops.at[i];
    Group *g = &f->groups[i];
    f->group_of[i] = i;
    g->last = i;
    DT_PUSH(f->arena, g->ops, i);
    if (!is_fusable(op))
        return;
    g->full = op->out[0]->type;
    if (op->kind != DT_OP_REDUCE)
        return;
    g->full = op->in[0]->type;
    g->reduces = true;
    g->inner = op->axes;
    g->n_inner = op->n_axes;
    g->column = !listed(g->full->axes[g->full->rank - 1].name, g->inner, g->n_inner);
}

/* ---- legality ---- */

static bool same_inner(const Group *a, const Group *b)
{
    if (a->n_inner != b->n_inner)
        return false;
    for (uint32_t i = 0; i < a->n_inner; i++)
        if (!listed(a->inner[i], b->inner, b->n_inner))
            return false;
    return true;
}

/* The union's space: that of whichever reduces, or the common one. */
static bool spaces_fit(const Fusion *f, const Group *a, const Group *b, Group *ret_union)
{
    *ret_union = a->reduces || !b->reduces ? *a : *b;
    if (!a->full || !b->full || a->ops.n + b->ops.n > MAX_GROUP)
        return false;
    if (a->reduces && b->reduces && (!same_inner(a, b) || !has_axes(a->full, b, false) || a->column != b->column))
        return false;
    for (uint32_t side = 0; side < 2; side++) {
        const Group *g = side ? b : a;
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtOp *op = f->func->ops.at[g->ops.at[i]];
            const DtType *type = op->kind == DT_OP_REDUCE ? op->in[0]->type : op->out[0]->type;
            if (op->kind == DT_OP_UPDATE && ret_union->reduces)
                return false; /* elements are updated independently of each other */
            if (!has_axes(type, ret_union, false) && !(ret_union->reduces && has_axes(type, ret_union, true)))
                return false;
        }
    }
    return true;
}

static bool in_union(const Fusion *f, uint32_t position, uint32_t a, uint32_t b)
{
    return position != UINT32_MAX && (f->group_of[position] == a || f->group_of[position] == b);
}

/* An index map reads its operand from memory at other indices, so that must come from outside. */
static bool maps_read_outside(const Fusion *f, uint32_t a, uint32_t b)
{
    for (uint32_t side = 0; side < 2; side++) {
        const Group *g = &f->groups[side ? b : a];
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtOp *op = f->func->ops.at[g->ops.at[i]];
            uint32_t n = op->kind == DT_OP_GATHER ? 1 : is_index_map(op) ? op->n_in : 0;
            for (uint32_t j = 0; j < n; j++)
                if (in_union(f, f->position[op->in[j]->id], a, b))
                    return false;
        }
    }
    return true;
}

static bool is_wanted_outside(const Fusion *f, const DtValue *value, uint32_t a, uint32_t b)
{
    bool wanted = f->is_result[value->id];
    for (uint32_t i = f->reader[value->id]; !wanted && i < f->reader[value->id + 1]; i++)
        wanted = !in_union(f, f->readers[i], a, b);
    return wanted;
}

/* In a column sum no value of full size is wanted outside. */
static bool column_is_closed(const Fusion *f, const Group *joined, uint32_t a, uint32_t b)
{
    for (uint32_t side = 0; side < 2; side++) {
        const Group *g = &f->groups[side ? b : a];
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtValue *value = f->func->ops.at[g->ops.at[i]]->out[0];
            if (has_axes(value->type, joined, false) && is_wanted_outside(f, value, a, b))
                return false;
        }
    }
    return true;
}

/* ---- cycles ----
 * Groups are kept in an order in which each comes after all that it reads (a list whose members have ascending labels),
 * and a search looks at those between the two only. Most paths are long: forward, and back as derivatives. Those are
 * seen without a search, since a tree in which each op hangs on its latest operand has them. */

/* Numbers the tree's nodes so that those below an op are the numbers from its own up to the end of its range. */
static void number_tree(Fusion *f)
{
    const uint32_t n = f->func->ops.n, none = UINT32_MAX;
    uint32_t *parent = DT_NEW_ARRAY(f->arena, uint32_t, n + 1), *used = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
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

/* Whether one of b's operands outside a and b hangs below an op of a. */
static bool hangs_below(const Fusion *f, uint32_t a, uint32_t b)
{
    const Group *above = &f->groups[a], *group = &f->groups[b];
    for (uint32_t i = 0; i < group->ops.n; i++) {
        const DtOp *op = f->func->ops.at[group->ops.at[i]];
        for (uint32_t j = 0; j < op->n_in; j++) {
            const uint32_t position = f->position[op->in[j]->id];
            if (position == UINT32_MAX || in_union(f, position, a, b))
                continue;
            for (uint32_t k = 0; k < above->ops.n; k++)
                if (f->tree[position] - f->tree[above->ops.at[k]] < f->below[above->ops.at[k]])
                    return true;
        }
    }
    return false;
}

/* Adds the groups that g reads from and that come after a, but b, to those that are to be searched; true: it reads
 * a. */
static bool add_sources(Fusion *f, uint32_t g, uint32_t a, uint32_t b)
{
    const Group *group = &f->groups[g];
    for (uint32_t i = 0; i < group->ops.n; i++) {
        const DtOp *op = f->func->ops.at[group->ops.at[i]];
        for (uint32_t j = 0; j < op->n_in; j++) {
            const uint32_t position = f->position[op->in[j]->id];
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

/* Whether a path from a, which b reads, leads to b through another group; else found has all between them that b
 * depends on. */
static bool makes_cycle(Fusion *f, uint32_t a, uint32_t b)
{
    f->now++;
    f->n_found = 0;
    if (hangs_below(f, a, b) || add_sources(f, b, a, b))
        return true;
    for (uint32_t i = 0; i < f->n_found; i++)
        if (add_sources(f, f->found[i], a, b))
            return true;
    return false;
}

static void number_all(Fusion *f)
{
    uint64_t label = 0;
    for (uint32_t g = f->next[f->func->ops.n]; g != f->func->ops.n; g = f->next[g])
        f->label[g] = label += UINT64_C(1) << 40;
}

static void begin_order(Fusion *f)
{
    const uint32_t n = f->func->ops.n; /* also the list's head */
    f->label = DT_NEW_ARRAY(f->arena, uint64_t, n + 1);
    f->next = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    f->before = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i <= n; i++) {
        f->next[i] = i == n ? 0 : i + 1;
        f->before[i] = i == 0 ? n : i - 1;
    }
    number_all(f);
}

static void take_out(Fusion *f, uint32_t g)
{
    f->next[f->before[g]] = f->next[g];
    f->before[f->next[g]] = f->before[g];
}

/* b stands where a stood. */
static void take_place(Fusion *f, uint32_t b, uint32_t a)
{
    f->next[b] = f->next[a];
    f->before[b] = f->before[a];
    f->label[b] = f->label[a];
    f->next[f->before[b]] = f->before[f->next[b]] = b;
}

static int by_label(const void *x, const void *y)
{
    const Placed *a = x, *b = y;
    return a->label < b->label ? -1 : a->label > b->label;
}

/* What b depends on behind a goes before a, in its order. */
static void reorder(Fusion *f, uint32_t a)
{
    Placed *placed = f->placed;
    for (uint32_t i = 0; i < f->n_found; i++)
        placed[i] = (Placed){f->label[f->found[i]], f->found[i]};
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

/* b reads a. */
static void try_merge(Fusion *f, uint32_t a, uint32_t b)
{
    Group joined;
    if (a == b || !spaces_fit(f, &f->groups[a], &f->groups[b], &joined) || !maps_read_outside(f, a, b))
        return;
    if ((joined.column && !column_is_closed(f, &joined, a, b)) || makes_cycle(f, a, b))
        return;
    Group *to = &f->groups[a < b ? a : b], *from = &f->groups[a < b ? b : a];
    uint32_t keep = a < b ? a : b;
    joined.ops = to->ops;
    joined.last = to->last > from->last ? to->last : from->last;
    for (uint32_t i = 0; i < from->ops.n; i++) {
        DT_PUSH(f->arena, joined.ops, from->ops.at[i]);
        f->group_of[from->ops.at[i]] = keep;
    }
    *to = joined;
    memset(from, 0, sizeof *from);
    reorder(f, a);
    take_out(f, b);
    if (keep == b)
        take_place(f, b, a);
}

/* ---- order ---- */

/* The groups that may come next, as a heap: the one that is due first is on top. */
typedef struct Ready {
    const Group *groups;
    uint32_t *at, n;
} Ready;

static void push_ready(Ready *r, uint32_t g)
{
    uint32_t i = r->n++;
    for (; i > 0 && r->groups[r->at[(i - 1) / 2]].due > r->groups[g].due; i = (i - 1) / 2)
        r->at[i] = r->at[(i - 1) / 2];
    r->at[i] = g;
}

static uint32_t pop_ready(Ready *r)
{
    uint32_t top = r->at[0], g = r->at[--r->n], i = 0;
    for (uint32_t child; (child = 2 * i + 1) < r->n; i = child) {
        if (child + 1 < r->n && r->groups[r->at[child + 1]].due < r->groups[r->at[child]].due)
            child++;
        if (r->groups[r->at[child]].due >= r->groups[g].due)
            break;
        r->at[i] = r->at[child];
    }
    r->at[i] = g;
    return top;
}

/* Reads of values that other groups make, one for each operand: into ret_count[group]. */
static void count_waits(const Fusion *f, uint32_t *ret_count)
{
    for (uint32_t i = 0; i < f->func->ops.n; i++)
        for (uint32_t j = 0; j < f->func->ops.at[i]->n_in; j++) {
            uint32_t position = f->position[f->func->ops.at[i]->in[j]->id];
            if (position != UINT32_MAX && f->group_of[position] != f->group_of[i])
                ret_count[f->group_of[i]]++;
        }
}

/* Whether the op is a product that is much larger than its operands: the windows' gradient of a convolution. */
static bool swells(const Fusion *f, const DtOp *op)
{
    if (op->kind != DT_OP_DOT)
        return false;
    const DtMesh *mesh = &f->func->module->mesh;
    const int64_t operands = dt_fuse_bytes(op->in[0]->type, mesh) + dt_fuse_bytes(op->in[1]->type, mesh);
    return dt_fuse_bytes(op->out[0]->type, mesh) > 2 * operands;
}

/* A group is due where its last op stands; a product that is larger than what it is made of not before what reads
 * it first, so that the windows that the other gradient of a convolution reads are gone by then. */
static uint32_t due(const Fusion *f, const Group *group)
{
    const DtOp *op = f->func->ops.at[group->ops.at[0]];
    uint32_t first = UINT32_MAX;
    if (group->ops.n > 1 || !swells(f, op))
        return 2 * group->last + 1;
    for (uint32_t k = f->reader[op->out[0]->id]; k < f->reader[op->out[0]->id + 1]; k++) {
        const uint32_t last = f->groups[f->group_of[f->readers[k]]].last;
        first = last < first ? last : first;
    }
    return first == UINT32_MAX ? 2 * group->last + 1 : 2 * first;
}

/* Numbers the groups so that each comes after what it reads; among those that may come, the one that is due
 * first. */
static uint32_t order(Fusion *f, uint32_t *ret_group)
{
    uint32_t n = f->func->ops.n, done = 0;
    uint32_t *waits = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    Ready ready = {.groups = f->groups, .at = DT_NEW_ARRAY(f->arena, uint32_t, n + 1)};
    count_waits(f, waits);
    for (uint32_t g = 0; g < n; g++)
        if (f->groups[g].ops.n > 0)
            f->groups[g].due = due(f, &f->groups[g]);
    for (uint32_t g = 0; g < n; g++)
        if (f->groups[g].ops.n > 0 && waits[g] == 0)
            push_ready(&ready, g);
    while (ready.n > 0) {
        uint32_t best = pop_ready(&ready);
        for (uint32_t i = 0; i < f->groups[best].ops.n; i++) {
            const DtOp *op = f->func->ops.at[f->groups[best].ops.at[i]];
            ret_group[f->groups[best].ops.at[i]] = done;
            for (uint32_t r = 0; r < op->n_out; r++)
                for (uint32_t k = f->reader[op->out[r]->id]; k < f->reader[op->out[r]->id + 1]; k++) {
                    uint32_t reader = f->group_of[f->readers[k]];
                    if (reader != best && --waits[reader] == 0)
                        push_ready(&ready, reader);
                }
        }
        done++;
    }
    return done;
}

/* Fills reader and readers, one entry for each operand. */
static void index_readers(Fusion *f)
{
    const DtFunc *func = f->func;
    uint32_t n = 0;
    f->reader = DT_NEW_ARRAY(f->arena, uint32_t, func->n_values + 2);
    f->is_result = DT_NEW_ARRAY(f->arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        f->is_result[func->results.at[i]->id] = true;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++, n++)
            f->reader[func->ops.at[i]->in[j]->id + 1]++;
    for (uint32_t v = 0; v < func->n_values; v++)
        f->reader[v + 1] += f->reader[v];
    f->readers = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    uint32_t *at = DT_NEW_ARRAY(f->arena, uint32_t, func->n_values + 1);
    memcpy(at, f->reader, func->n_values * sizeof *at);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++)
            f->readers[at[func->ops.at[i]->in[j]->id]++] = i;
}

uint32_t dt_fuse_group(const DtFunc *func, DtArena *scratch, uint32_t *ret_group)
{
    uint32_t n = func->ops.n;
    Fusion fusion = {.arena = scratch, .func = func}, *f = &fusion;
    f->groups = DT_NEW_ARRAY(scratch, Group, n + 1);
    f->group_of = DT_NEW_ARRAY(scratch, uint32_t, n + 1);
    f->stamp = DT_NEW_ARRAY(scratch, uint32_t, n + 1);
    f->found = DT_NEW_ARRAY(scratch, uint32_t, n + 1);
    f->placed = DT_NEW_ARRAY(scratch, Placed, n + 1);
    f->position = DT_NEW_ARRAY(scratch, uint32_t, func->n_values + 1);
    memset(f->position, 0xff, (func->n_values + 1) * sizeof *f->position);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < func->ops.at[i]->n_out; r++)
            f->position[func->ops.at[i]->out[r]->id] = i;
    index_readers(f);
    number_tree(f);
    begin_order(f);
    for (uint32_t i = 0; i < n; i++)
        start(f, i);
    for (uint32_t i = 0; i < n; i++) {
        const DtOp *op = func->ops.at[i];
        if (!is_fusable(op))
            continue;
        for (uint32_t j = op->n_in; j-- > 0;) {
            uint32_t position = f->position[op->in[j]->id];
            if (position != UINT32_MAX && is_fusable(func->ops.at[position]))
                try_merge(f, f->group_of[position], f->group_of[i]);
        }
    }
    return order(f, ret_group);
}
