/* SPDX-License-Identifier: Apache-2.0 */
/* Which ops share a kernel. Every op starts as a group of its own; in order, each is merged with
 * the groups of its operands, and then groups that read the same with each other, as long as the
 * union is still one loop nest, no path leaves the union and comes back, and bytes are saved: a
 * value that one group makes and the other reads need not be read (nor written, if no other group
 * reads it), and operands of both are read once. Two groups of which neither reads the other are
 * not merged if delaying the earlier one would need more memory; a weight's gradient that reads the
 * earlier one may be delayed with it. Then all merging is done a second time in another order:
 * first values with a single reader, then from the last op to the first, so that a whole update
 * waits for its norm. Of the two results, the one that moves fewer bytes is kept.
 *
 *   maps over the same axes                                 x * y + z
 *   an optimizer's step and what becomes of its results     where(ok, new, old), the rounded copy
 *   a reduction and what makes its operand                  sum[embed](u * u)
 *   what is computed per row from reductions, and what
 *   combines it with the row again                          u * rsqrt(s / n + eps) * gain
 *   sums over rows, added up one by one beside all that     the gradients of a bias, of a norm's
 *                                                           gain and shift
 *   what only reads the same operands                       both gradients of silu(gate) * up
 *   maps of few elements                                    the rounded gain
 *   an index map (gather, pad, window, concat) and its
 *   users: the map is a load; scatter_add that sums
 *   nothing: a choice                                       the gradient of cross-entropy
 *
 * A kernel of nothing but sums over rows, of values that it does not store, works column by column
 * instead. Views (renames, splits, slices) cost nothing and stay apart. */
#include "passes/lower/fuse_internal.h"

#include "base/bug.h"
#include "passes/passes.h"

#include <string.h>

enum {
    FEW = 16,  /* A map with so many times fewer elements than a kernel has points is recomputed per
                * point. */
    TRIES = 8, /* a group is tried with at most so many groups that read the same value */
};

static bool is_index_map(const DtOp *op)
{
    const DtOpInfo *info = &dt_op_info[op->kind];
    return info->data == DT_DATA_MOVE &&
           (info->op_class == DT_CLASS_AXIS || info->op_class == DT_CLASS_INDEX);
}

static bool is_fusable(const DtOp *op)
{
    if (op->n_out != 1 || dt_op_is_inline(op->out[0]))
        return false;
    return dt_op_is_pointwise(op->kind) || op->kind == DT_OP_RNG || op->kind == DT_OP_REDUCE ||
           is_index_map(op) || dt_op_is_one_hot(op);
}

/* Sets the inner axes of the group: for a reduction along rows the axes summed, for one along
 * columns the axes kept. */
static void start_reduction(DtFusion *f, DtFuseGroup *g, const DtOp *op)
{
    g->full = op->in[0]->type;
    g->rows = dt_fuse_listed(g->full->axes[g->full->rank - 1].name, op->axes, op->n_axes);
    g->columns = g->apart = !g->rows;
    g->inner = DT_NEW_ARRAY(f->arena, const char *, g->full->rank);
    for (uint32_t i = 0; i < g->full->rank; i++)
        if (dt_fuse_listed(g->full->axes[i].name, op->axes, op->n_axes) == g->rows)
            g->inner[g->n_inner++] = g->full->axes[i].name;
}

static void start(DtFusion *f, uint32_t i)
{
    const DtOp *op = f->func->ops.at[i];
    DtFuseGroup *g = &f->groups[i];
    f->group_of[i] = i;
    g->last = i;
    DT_PUSH(f->arena, g->ops, i);
    g->sum_known = f->known[i] == DT_FUSE_SUM_KNOWN;
    g->behind = f->known[i] == DT_FUSE_BEHIND;
    if (!is_fusable(op))
        return;
    g->full = op->out[0]->type;
    if (op->kind == DT_OP_REDUCE)
        start_reduction(f, g, op);
}

/* ---- legality ---- */

static bool same_inner(const DtFuseGroup *a, const DtFuseGroup *b)
{
    if (a->n_inner != b->n_inner)
        return false;
    for (uint32_t i = 0; i < a->n_inner; i++)
        if (!dt_fuse_listed(a->inner[i], b->inner, b->n_inner))
            return false;
    return true;
}

static bool reduces(const DtFuseGroup *g) { return g->rows || g->columns; }

/* Returns the index space of an op, over which its kernel loops: the type of what it reduces, or of
 * its result. */
static const DtType *space_of(const DtOp *op)
{
    return op->kind == DT_OP_REDUCE ? op->in[0]->type : op->out[0]->type;
}

/* Whether op is a map of few elements that no other group reads: the kernel recomputes it for each
 * point instead of storing it. */
static bool is_light(const DtFusion *f, const DtOp *op, const DtFuseGroup *joined, uint32_t a,
                     uint32_t b)
{
    const DtMesh *mesh = &f->func->module->mesh;
    const DtType *type = op->out[0]->type;
    if (!dt_op_is_pointwise(op->kind) || dt_op_is_dear(op->kind) ||
        dt_fuse_leaves(f, op->out[0], a, b))
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        int at = dt_type_find(joined->full, type->axes[i].name);
        if (at < 0 || !dt_type_same_axis(&type->axes[i], &joined->full->axes[at]))
            return false;
    }
    return dt_type_local_elements(type, mesh) * FEW <= dt_type_local_elements(joined->full, mesh);
}

/* The number of ops in the union. Equal ops count once, since the kernel computes them once
 * (codegen/kernel.c): a recomputed value and one that a derivative has are often equal. */
static uint32_t count_ops(DtFusion *f, uint32_t a, uint32_t b)
{
    const uint32_t n_both = f->groups[a].ops.n + f->groups[b].ops.n;
    uint32_t n = 0;
    if (n_both <= f->limits->kernel_ops)
        return n_both;
    f->n_seen++;
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < f->groups[side ? b : a].ops.n; i++) {
            const DtValue *value = f->func->ops.at[f->groups[side ? b : a].ops.at[i]]->out[0];
            const uint32_t id = f->equals[value->id] ? f->equals[value->id]->id : value->id;
            n += f->seen[id] != f->n_seen;
            f->seen[id] = f->n_seen;
        }
    return n;
}

/* Sets ret_union's index space: that of the group that reduces, or else the larger one. False if
 * the spaces of a and b do not fit. */
static bool spaces_fit(DtFusion *f, uint32_t a, uint32_t b, DtFuseGroup *ret_union)
{
    const DtFuseGroup *from = &f->groups[a], *to = &f->groups[b];
    if (!from->full || !to->full || count_ops(f, a, b) > f->limits->kernel_ops)
        return false;
    /* groups that need a known sum would wait for products */
    if ((from->sum_known && to->behind) || (from->behind && to->sum_known))
        return false;
    const bool first =
        reduces(from) == reduces(to) ? from->full->rank >= to->full->rank : reduces(from);
    *ret_union = first ? *from : *to;
    if (reduces(from) && reduces(to) &&
        (!same_inner(from, to) || !dt_fuse_has_axes(from->full, to, DT_FUSE_ALL)))
        return false;
    ret_union->rows = from->rows || to->rows;
    ret_union->columns = from->columns || to->columns;
    for (uint32_t side = 0; side < 2; side++) {
        const DtFuseGroup *g = side ? to : from;
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtOp *op = f->func->ops.at[g->ops.at[i]];
            const DtType *type = space_of(op);
            if (!dt_fuse_has_axes(type, ret_union, DT_FUSE_ALL) &&
                !(ret_union->rows && dt_fuse_has_axes(type, ret_union, DT_FUSE_OUTER)) &&
                !(ret_union->columns && dt_fuse_has_axes(type, ret_union, DT_FUSE_INNER)) &&
                !is_light(f, op, ret_union, a, b))
                return false;
        }
    }
    return true;
}

/* Whether the union's gathers and other ops that read elements at computed indices read values from
 * outside of it. A kernel has its own values only at its present index. */
static bool maps_read_outside(const DtFusion *f, uint32_t a, uint32_t b)
{
    for (uint32_t side = 0; side < 2; side++) {
        const DtFuseGroup *g = &f->groups[side ? b : a];
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtOp *op = f->func->ops.at[g->ops.at[i]];
            uint32_t n = op->kind == DT_OP_GATHER ? 1 : is_index_map(op) ? op->n_in : 0;
            for (uint32_t j = 0; j < n; j++)
                if (dt_fuse_in_union(f, f->position[op->in[j]->id], a, b))
                    return false;
        }
    }
    return true;
}

/* Whether all values of full size that the union computes stay inside of it: no other group reads
 * one, and none is a result. */
static bool is_closed(const DtFusion *f, const DtFuseGroup *joined, uint32_t a, uint32_t b)
{
    for (uint32_t side = 0; side < 2; side++) {
        const DtFuseGroup *g = &f->groups[side ? b : a];
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtValue *value = f->func->ops.at[g->ops.at[i]]->out[0];
            if (dt_fuse_has_axes(value->type, joined, DT_FUSE_ALL) &&
                dt_fuse_leaves(f, value, a, b))
                return false;
        }
    }
    return true;
}

static bool is_column_sum(const DtOp *op, const DtFuseGroup *joined)
{
    return op->kind == DT_OP_REDUCE && dt_fuse_has_axes(op->out[0]->type, joined, DT_FUSE_INNER);
}

static bool reads_after_rows(const DtFusion *f, const DtOp *op, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < op->n_in; k++) {
        const uint32_t position = f->position[op->in[k]->id];
        if (dt_fuse_in_union(f, position, a, b) && f->after_rows[position])
            return true;
    }
    return false;
}

/* Marks in f->after_rows the union's sums over rows and the values computed from them, which a
 * kernel knows only after its last row. */
static void mark_after_rows(const DtFusion *f, const DtFuseGroup *joined, uint32_t a, uint32_t b)
{
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < f->groups[side ? b : a].ops.n; i++) {
            const uint32_t position = f->groups[side ? b : a].ops.at[i];
            f->after_rows[position] = is_column_sum(f->func->ops.at[position], joined);
        }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t side = 0; side < 2; side++)
            for (uint32_t i = 0; i < f->groups[side ? b : a].ops.n; i++) {
                const uint32_t position = f->groups[side ? b : a].ops.at[i];
                if (f->after_rows[position] ||
                    !reads_after_rows(f, f->func->ops.at[position], a, b))
                    continue;
                f->after_rows[position] = more = true;
            }
    }
}

/* Whether a kernel can compute the union row by row: values known only after the last row are no
 * larger than a row, and no row reads them. Other values of the size of a row must be cheap, since
 * every row computes them again. */
static bool columns_are_after_rows(const DtFusion *f, const DtFuseGroup *joined, uint32_t a,
                                   uint32_t b)
{
    const DtMesh *mesh = &f->func->module->mesh;
    int64_t elements = 0;
    mark_after_rows(f, joined, a, b);
    for (uint32_t side = 0; side < 2; side++) {
        const DtFuseGroup *g = &f->groups[side ? b : a];
        for (uint32_t i = 0; i < g->ops.n; i++) {
            const DtOp *op = f->func->ops.at[g->ops.at[i]];
            const DtType *type = op->out[0]->type;
            const bool inner = dt_fuse_has_axes(type, joined, DT_FUSE_INNER);
            if (f->after_rows[g->ops.at[i]]
                    ? !inner || (op->kind == DT_OP_REDUCE && reads_after_rows(f, op, a, b))
                    : inner && !is_light(f, op, joined, a, b))
                return false;
            if (!is_column_sum(op, joined))
                continue;
            elements += dt_type_local_elements(type, mesh);
            if (dt_type_local_elements(type, mesh) < f->limits->row_sum_least)
                return false;
        }
    }
    return elements <= f->limits->row_sums_most;
}

/* Whether a kernel may take a whole row per step: rows are short; or there are so many that rows
 * alone give enough parallelism; or no value of full size is stored. */
static bool rows_fit(const DtFusion *f, const DtFuseGroup *joined, uint32_t a, uint32_t b)
{
    const DtMesh *mesh = &f->func->module->mesh;
    int64_t rows = 1, row = 1;
    for (uint32_t i = 0; i < joined->full->rank; i++)
        *(dt_fuse_listed(joined->full->axes[i].name, joined->inner, joined->n_inner) ? &row
                                                                                     : &rows) *=
            dt_type_local_extent(joined->full, i, mesh);
    return rows >= f->limits->few_rows || row <= f->limits->long_row || is_closed(f, joined, a, b);
}

/* Whether one kernel can do the union's reductions of columns, column by column (joined->apart is
 * set) or row by row. */
static bool columns_fit(const DtFusion *f, DtFuseGroup *joined, uint32_t a, uint32_t b)
{
    joined->apart = !joined->rows && is_closed(f, joined, a, b);
    return joined->apart || columns_are_after_rows(f, joined, a, b);
}

/* ---- merging ---- */

static void merge(DtFusion *f, uint32_t a, uint32_t b, DtFuseGroup joined)
{
    DtFuseGroup *to = &f->groups[a < b ? a : b], *from = &f->groups[a < b ? b : a];
    uint32_t keep = a < b ? a : b;
    joined.ops = to->ops;
    joined.last = to->last > from->last ? to->last : from->last;
    joined.beside = to->beside + from->beside;
    joined.sum_known = to->sum_known || from->sum_known;
    joined.behind = to->behind || from->behind;
    for (uint32_t i = 0; i < from->ops.n; i++) {
        DT_PUSH(f->arena, joined.ops, from->ops.at[i]);
        f->group_of[from->ops.at[i]] = keep;
    }
    *to = joined;
    memset(from, 0, sizeof *from);
    dt_fuse_joined(f, a, b, keep);
}

/* Whether groups a and b can be one kernel, which ret_joined describes. b must read a, or come
 * after it. */
static bool can_merge(DtFusion *f, uint32_t a, uint32_t b, DtFuseGroup *ret_joined)
{
    return spaces_fit(f, a, b, ret_joined) && maps_read_outside(f, a, b) &&
           (!ret_joined->columns || columns_fit(f, ret_joined, a, b)) &&
           (!ret_joined->rows || rows_fit(f, ret_joined, a, b)) && !dt_fuse_makes_cycle(f, a, b);
}

/* Whether the merge of groups a and b is possible and saves memory traffic; ret_joined describes
 * the kernel. b must read a, or come after it. */
static bool pays(DtFusion *f, uint32_t a, uint32_t b, DtFuseGroup *ret_joined)
{
    const int64_t saved = dt_fuse_saved(f, a, b);
    return saved > 0 && can_merge(f, a, b, ret_joined) && dt_fuse_alike(f, ret_joined, a, b, saved);
}

/* Merges the group of op number i with groups of its operands where that saves bytes. all: also
 * where other groups read the operand too. */
static void merge_operands(DtFusion *f, uint32_t i, bool all)
{
    const DtOp *op = f->func->ops.at[i];
    DtFuseGroup joined;
    for (uint32_t j = op->n_in; is_fusable(op) && j-- > 0;) {
        const uint32_t position = f->position[op->in[j]->id], b = f->group_of[i];
        if (position == UINT32_MAX || !is_fusable(f->func->ops.at[position]))
            continue;
        const uint32_t a = f->group_of[position];
        if (a != b && (all || !dt_fuse_leaves(f, op->in[j], a, b)) && pays(f, a, b, &joined))
            merge(f, a, b, joined);
    }
}

/* Whether values of this type have at least 1/DT_FUSE_LARGE of the elements over which the kernel
 * of g loops. */
static bool is_large(const DtFusion *f, const DtType *type, const DtFuseGroup *g)
{
    const DtMesh *mesh = &f->func->module->mesh;
    return g->full && dt_type_local_elements(type, mesh) * DT_FUSE_LARGE >=
                          dt_type_local_elements(g->full, mesh);
}

static void merge_if_it_pays(DtFusion *f, uint32_t a, uint32_t b)
{
    DtFuseGroup joined;
    if (f->label[a] > f->label[b]) {
        const uint32_t first = b;
        b = a, a = first;
    }
    int64_t beside;
    if (!pays(f, a, b, &joined) || dt_fuse_waits(f, a, b, &beside))
        return;
    merge(f, a, b, joined);
    f->groups[a < b ? a : b].beside += beside;
}

/* Merges groups that read the same value where that saves bytes: each with up to TRIES of the
 * readers just before it. */
static void merge_readers(DtFusion *f, const DtValue *value)
{
    const uint32_t *readers = f->readers + f->reader[value->id],
                   n = f->reader[value->id + 1] - f->reader[value->id];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t last = UINT32_MAX, tries = 0;
        for (uint32_t j = i; j-- > 0 && tries < TRIES;) {
            const uint32_t a = f->group_of[readers[j]], b = f->group_of[readers[i]];
            if (a == b || a == last)
                continue;
            last = a;
            tries++;
            if (is_large(f, value->type, &f->groups[a]) && is_large(f, value->type, &f->groups[b]))
                merge_if_it_pays(f, a, b);
        }
    }
}

/* ---- all ---- */

/* Fills f->readers, which lists for each value the ops that read it (once for each operand), and
 * marks the function's results. */
static void index_readers(DtFusion *f)
{
    const DtFunc *func = f->func;
    uint32_t n = 0;
    f->reader = DT_NEW_ARRAY(f->arena, uint32_t, func->n_values + 2);
    f->is_result = DT_NEW_ARRAY(f->arena, bool, func->n_values + 1);
    f->value = DT_NEW_ARRAY(f->arena, DtValue *, func->n_values + 1);
    f->seen = DT_NEW_ARRAY(f->arena, uint32_t, func->n_values + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        f->is_result[func->results.at[i]->id] = true;
    DtValue *value, *sum = NULL;
    f->sum = DT_NEW_ARRAY(f->arena, DtValue *, func->ops.n + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        f->sum[i] = func->ops.at[i]->stages ? sum : NULL;
        sum = func->ops.at[i]->stages ? func->ops.at[i]->out[0] : sum;
        for (uint32_t j = 0; (value = dt_fuse_awaited(f, i, j)); j++, n++)
            f->reader[value->id + 1]++, f->value[value->id] = value;
    }
    for (uint32_t v = 0; v < func->n_values; v++)
        f->reader[v + 1] += f->reader[v];
    f->readers = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    uint32_t *at = DT_NEW_ARRAY(f->arena, uint32_t, func->n_values + 1);
    memcpy(at, f->reader, func->n_values * sizeof *at);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; (value = dt_fuse_awaited(f, i, j)); j++)
            f->readers[at[value->id]++] = i;
}

/* Returns the axes over which the group sums row by row: its outer axes if it sums over rows, else
 * none (n is 0). */
static DtFuseRows rows_of(const DtFusion *f, const DtFuseGroup *g)
{
    DtFuseRows rows = {.product = g->product};
    if (!g->columns || g->apart)
        return rows;
    rows.axes = DT_NEW_ARRAY(f->func->module->arena, const char *, g->full->rank);
    for (uint32_t i = 0; i < g->full->rank; i++)
        if (!dt_fuse_listed(g->full->axes[i].name, g->inner, g->n_inner))
            rows.axes[rows.n++] = g->full->axes[i].name;
    return rows;
}

/* Makes a product and its epilogue one group, with which no other group is merged. Leaves them
 * apart if the first op after the product depends on it in another way, too. */
static void join_product(DtFusion *f, const DtFuseProduct *product)
{
    for (uint32_t i = 1; i < product->n; i++) {
        uint32_t a = f->group_of[product->ops[0]], b = f->group_of[product->ops[i]];
        if (f->label[a] > f->label[b]) {
            const uint32_t first = b;
            b = a, a = first;
        }
        if (dt_fuse_makes_cycle(f, a, b)) {
            if (i > 1)
                DT_BUG("what is done to a product goes through something else");
            return; /* the other operand of that op depends on the sum over stages */
        }
        merge(f, a, b, (DtFuseGroup){.product = product->text});
    }
}

/* Groups all ops. first: goes from the last op to the first, and merges with values that have one
 * reader before all others; else goes from the first op to the last. */
static void group(DtFusion *f, const DtFuseProduct *products, uint32_t n_products, bool first)
{
    const uint32_t n = f->func->ops.n;
    f->groups = DT_NEW_ARRAY(f->arena, DtFuseGroup, n + 1);
    f->group_of = DT_NEW_ARRAY(f->arena, uint32_t, n + 1);
    dt_fuse_begin_order(f);
    for (uint32_t i = 0; i < n; i++)
        start(f, i);
    for (uint32_t i = 0; i < n_products; i++)
        join_product(f, &products[i]);
    for (uint32_t i = 0; i < n && first; i++)
        merge_operands(f, i, false);
    for (uint32_t i = 0; i < n; i++)
        merge_operands(f, first ? n - 1 - i : i, true);
    dt_fuse_measure(f);
    for (uint32_t v = 0; v < f->func->n_values; v++)
        if (f->value[v] && !dt_op_is_inline(f->value[v]))
            merge_readers(f, f->value[v]);
    dt_fuse_recompute(f);
}

uint32_t dt_fuse_group(const DtFunc *func, const DtTargetLimits *limits, uint32_t epilogues,
                       int64_t spare, DtArena *scratch, uint32_t *ret_group, DtFuseRows *ret_rows,
                       DtFuseRecompute **ret_recomputed)
{
    uint32_t n = func->ops.n;
    DtFusion fusion = {.arena = scratch, .limits = limits, .func = func, .spare = spare},
             *f = &fusion;
    f->after_rows = DT_NEW_ARRAY(scratch, bool, n + 1);
    f->stamp = DT_NEW_ARRAY(scratch, uint32_t, n + 1);
    f->found = DT_NEW_ARRAY(scratch, uint32_t, n + 1);
    f->placed = DT_NEW_ARRAY(scratch, DtFusePlaced, n + 1);
    f->position = DT_NEW_ARRAY(scratch, uint32_t, func->n_values + 1);
    memset(f->position, 0xff, (func->n_values + 1) * sizeof *f->position);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < func->ops.at[i]->n_out; r++)
            f->position[func->ops.at[i]->out[r]->id] = i;
    f->equals = dt_cse_equals(func, scratch);
    index_readers(f);
    f->known = dt_fuse_known(f);
    DtFuseProduct *products;
    const uint32_t n_products = dt_epilogue_find(f, epilogues, &products);
    DtFusion other = *f;
    group(f, products, n_products, false);
    other.now = f->now, other.n_seen = f->n_seen;
    group(&other, products, n_products, true);
    if (dt_fuse_moved(&other) < dt_fuse_moved(f))
        f = &other;
    const uint32_t n_groups = dt_fuse_order(f, ret_group);
    for (uint32_t i = 0; i < n; i++)
        if (f->groups[i].ops.n > 0)
            ret_rows[ret_group[i]] = rows_of(f, &f->groups[i]);
    for (uint32_t v = 0; v < func->n_values; v++)
        for (DtFuseRecompute *item = ret_recomputed[v] = f->recomputed[v]; item; item = item->next)
            item->group = ret_group[item->group];
    return n_groups;
}
