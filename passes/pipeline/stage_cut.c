/* SPDX-License-Identifier: Apache-2.0 */
/* Where a pipeline is cut. The program's forward part is a chain of items: what precedes the first
 * named loop, its iterations, what lies between, ..., the rest with the loss; cuts fall between
 * items. Their costs are counted in flops: contractions 2mnk, everything else a fixed number per
 * byte that it reads or writes, since such ops run at the speed of memory. Of all ways to cut, the
 * largest piece is made as cheap as can be: the least limit under which filling pieces one after
 * the other needs no more of them than there are is found by bisection.
 *   A model without loops is cut before named instances: a piece starts at the first op with that
 *   path. */
#include "passes/pipeline/stage.h"

#include <string.h>

#define FLOPS_PER_BYTE \
    50.0 /* what a processor computes while it moves a byte; only ratios of costs matter */

/* ---- what depends on what ---- */

bool *dt_stage_ancestors(DtArena *arena, const DtFunc *func, const bool *wanted)
{
    bool *ops = DT_NEW_ARRAY(arena, bool, func->ops.n + 1);
    bool *values = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        if (wanted[i])
            values[func->results.at[i]->id] = true;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out; k++)
            ops[i] = ops[i] || values[op->out[k]->id];
        for (uint32_t k = 0; ops[i] && k < op->n_in; k++)
            values[op->in[k]->id] = true;
    }
    return ops;
}

bool *dt_stage_forward_results(DtArena *arena, const DtEntryPoint *entry)
{
    bool *wanted = DT_NEW_ARRAY(arena, bool, entry->results.n + 1);
    for (uint32_t i = 0; i < entry->results.n; i++)
        wanted[i] =
            !entry->results.at[i].store || entry->results.at[i].store->kind != DT_STORE_GRAD;
    return wanted;
}

int32_t dt_stage_loop(const DtStager *s, const DtOp *op)
{
    for (uint32_t i = 0; op->kind == DT_OP_LOOP && i < s->loops.n; i++)
        if (s->loops.at[i].label == op->loop->label)
            return (int32_t)i;
    return -1;
}

/* ---- costs ---- */

static double bytes_of(const DtModule *module, const DtValue *value)
{
    return (double)dt_type_local_elements(value->type, &module->mesh) *
           (double)dt_dtype_size(value->type->dtype);
}

static double cost_of_func(const DtFunc *func);

static double cost_of_dot(const DtModule *module, const DtOp *op)
{
    double flops = 2 * (double)dt_type_local_elements(op->out[0]->type, &module->mesh);
    const DtType *x = op->in[0]->type;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const int axis = dt_type_find(x, op->axes[i]);
        flops *= axis < 0 ? 1 : (double)dt_type_local_extent(x, (uint32_t)axis, &module->mesh);
    }
    return flops;
}

static double cost_of(const DtModule *module, const DtOp *op)
{
    if (op->kind == DT_OP_LOOP)
        return (double)op->loop->count * cost_of_func(op->func);
    if (op->func)
        return cost_of_func(op->func);
    if (op->kind == DT_OP_DOT)
        return cost_of_dot(module, op);
    if (dt_op_info[op->kind].op_class == DT_CLASS_SOURCE)
        return 0;
    double bytes = 0;
    for (uint32_t i = 0; i < op->n_out; i++)
        bytes += bytes_of(module, op->out[i]);
    return bytes * FLOPS_PER_BYTE;
}

static double cost_of_func(const DtFunc *func)
{
    double cost = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        cost += cost_of(func->module, func->ops.at[i]);
    return cost;
}

/* ---- items ---- */

typedef struct Item {
    int32_t loop; /* -1: ops outside of named loops */
    int64_t iteration;
    uint32_t segment; /* loop -1: its number */
    double cost;
} Item;

typedef DT_VEC(Item) ItemList;

static bool is_named(const DtStager *s, const DtOp *op)
{
    for (uint32_t i = 0; op->kind == DT_OP_LOOP && i < s->line->n_loops; i++)
        if (s->line->loops[i] == op->loop->label || s->line->loops[i] == op->loop->axis)
            return true;
    return false;
}

static void add_loop(DtStager *s, const DtOp *op)
{
    DtStageLoop loop = {.label = op->loop->label, .axis = op->loop->axis, .count = op->loop->count};
    loop.lo = DT_NEW_ARRAY(s->arena, int64_t, s->pipeline->n_pieces);
    loop.hi = DT_NEW_ARRAY(s->arena, int64_t, s->pipeline->n_pieces);
    if (dt_stage_loop(s, op) >= 0) {
        DtDiag *diag = dt_stage_refuse(
            s, E0592, op->span,
            "cutting loop `%s`, which runs twice, into stages is not implemented yet", loop.label);
        dt_diag_help(diag, "one call runs it once: with `dim view = 2`, `f(stack[view](x, y))` in place of `f(x)` and "
                           "`f(y)`, then `[view = 0]` and `[view = 1]` of its result; or name another loop in the "
                           "`pipeline` line");
        return;
    }
    DT_PUSH(s->arena, s->loops, loop);
}

/* What an op between loops costs its piece: nothing if whoever reads it makes it again. again: per value, of the ops
 * before it; gets this one's. */
static double cost_between(const DtStager *s, const DtOp *op, uint8_t *again)
{
    const DtAgain own = dt_stage_again(op, again);
    for (uint32_t i = 0; i < op->n_out; i++)
        again[op->out[i]->id] = (uint8_t)own;
    return own == DT_AGAIN_NO ? cost_of(s->module, op) : 0;
}

/* The chain of the entry, and the loops; what lies outside of them is an item only if it costs
 * something. */
static void list_items(DtStager *s, const DtEntryPoint *entry, ItemList *ret_items)
{
    const DtFunc *func = entry->func;
    const bool *forward =
        dt_stage_ancestors(s->arena, func, dt_stage_forward_results(s->arena, entry));
    uint8_t *again = DT_NEW_ARRAY(s->arena, uint8_t, func->n_values + 1);
    double between = 0;
    for (uint32_t i = 0; i < func->ops.n && !s->failed; i++) {
        const DtOp *op = func->ops.at[i];
        const bool named = is_named(s, op);
        const double cost = named ? 0 : cost_between(s, op, again);
        if (!forward[i])
            continue;
        if (!named) {
            between += cost;
            continue;
        }
        if (between > 0)
            DT_PUSH(s->arena, *ret_items,
                    ((Item){.loop = -1, .segment = s->loops.n, .cost = between}));
        between = 0;
        add_loop(s, op);
        for (int64_t k = 0; k < op->loop->count; k++)
            DT_PUSH(s->arena, *ret_items,
                    ((Item){.loop = (int32_t)s->loops.n - 1,
                            .iteration = k,
                            .cost = cost_of_func(op->func)}));
    }
    if (between > 0)
        DT_PUSH(s->arena, *ret_items, ((Item){.loop = -1, .segment = s->loops.n, .cost = between}));
}

/* ---- cutting ---- */

/* Pieces of at most `limit` each, one item at least in each; first[g]: the first item of piece g.
 * False: more than n_pieces are needed. */
static bool fill(const ItemList *items, uint32_t n_pieces, double limit, uint32_t *first)
{
    uint32_t piece = 0;
    double cost = 0;
    first[0] = 0;
    for (uint32_t i = 0; i < items->n; i++) {
        const bool full = i > first[piece] && cost + items->at[i].cost > limit;
        const bool few = items->n - i <= n_pieces - 1 - piece; /* one for each piece that is left */
        if (full && piece + 1 == n_pieces)
            return false;
        if ((full || few) && i > first[piece]) {
            first[++piece] = i;
            cost = 0;
        }
        if (items->at[i].cost > limit)
            return false;
        cost += items->at[i].cost;
    }
    return true;
}

static void balance(const ItemList *items, uint32_t n_pieces, uint32_t *ret_first)
{
    double lo = 0, hi = 0;
    for (uint32_t i = 0; i < items->n; i++)
        hi += items->at[i].cost;
    for (int i = 0; i < 60; i++) {
        const double limit = (lo + hi) / 2;
        if (fill(items, n_pieces, limit, ret_first))
            hi = limit;
        else
            lo = limit;
    }
    fill(items, n_pieces, hi, ret_first);
}

/* cuts = (3, 6): before each so many iterations, counted through all loops. False after a diagnostic: nothing stands
 * before the loops, or behind them, that a cut there could part from them. */
static bool cut_at(DtStager *s, const ItemList *items, uint32_t *ret_first)
{
    int64_t iterations = 0;
    uint32_t piece = 0;
    for (uint32_t i = 0; i < items->n && piece < s->line->n_cuts; i++) {
        const bool is_iteration = items->at[i].loop >= 0;
        if (is_iteration && i > 0 && iterations == 0 && s->line->cuts[piece] == 0)
            ret_first[++piece] = i;
        iterations += is_iteration;
        if (is_iteration && i + 1 < items->n && piece < s->line->n_cuts && iterations == s->line->cuts[piece])
            ret_first[++piece] = i + 1;
    }
    if (piece < s->line->n_cuts)
        dt_stage_refuse(s, E0606, s->line->span, "a cut after %lld iterations leaves nothing %s it",
                        (long long)s->line->cuts[piece], s->line->cuts[piece] == 0 ? "before" : "behind");
    return piece == s->line->n_cuts;
}

static void set_pieces(DtStager *s, const ItemList *items, const uint32_t *first)
{
    uint32_t piece = 0, filled = 0;
    for (uint32_t i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        while (piece + 1 < s->pipeline->n_pieces && first[piece + 1] <= i)
            piece++;
        if (item->loop < 0) {
            for (; filled <= item->segment; filled++)
                s->segment_piece[filled] = piece;
            continue;
        }
        DtStageLoop *loop = &s->loops.at[item->loop];
        for (; filled <= (uint32_t)item->loop;
             filled++) /* nothing that costs stands before the loop */
            s->segment_piece[filled] = piece;
        if (loop->hi[piece] == 0)
            loop->lo[piece] = item->iteration;
        loop->hi[piece] = item->iteration + 1;
    }
    for (; filled <= s->loops.n; filled++)
        s->segment_piece[filled] = piece;
}

static bool has_room(DtStager *s, const ItemList *items)
{
    const uint32_t n = s->pipeline->n_pieces, p = s->pipeline->n_stages;
    if (items->n >= n)
        return true;
    DtDiag *diag =
        dt_stage_refuse(s, E0605, s->line->span,
                        "%u parts of the program cannot be cut into %u pieces", items->n, n);
    dt_diag_note(diag, "pieces are cut between the iterations of the named loops and at their "
                       "ends; none may be empty");
    if (items->n / p > 1)
        dt_diag_help(diag, "the largest `chunks` that works is %u", items->n / p);
    else
        dt_diag_help(diag, "at most %u stages", items->n / (n / p));
    return false;
}

bool dt_stage_cut(DtStager *s, const DtEntryPoint *entry)
{
    const uint32_t n = s->pipeline->n_pieces;
    ItemList items = {0};
    uint32_t *first = DT_NEW_ARRAY(s->arena, uint32_t, n + 1);
    if (s->line->n_named_cuts) { /* stage_ranges.c goes by the paths */
        s->segment_piece = DT_NEW_ARRAY(s->arena, uint32_t, 1);
        return true;
    }
    list_items(s, entry, &items);
    s->segment_piece = DT_NEW_ARRAY(s->arena, uint32_t, s->loops.n + 1);
    if (s->failed || !has_room(s, &items))
        return false;
    if (s->line->n_cuts && !cut_at(s, &items, first))
        return false;
    if (!s->line->n_cuts)
        balance(&items, n, first);
    set_pieces(s, &items, first);
    return true;
}
