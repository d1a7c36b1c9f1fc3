/* SPDX-License-Identifier: Apache-2.0 */
/* Values of "predict" in the derived entry: their types, the ops that are copied, what the body of
 * a loop reads from outside, states.
 *
 * A value that does not depend on what the model reads (a parameter, a mask of positions) is built
 * when it is read. With the time axis it is needed at the new positions only: ops on single
 * elements are copied with operands there, `iota` becomes the numbers of the new positions, and of
 * anything else these positions are gathered. */
#include "passes/decode/decode.h"

#include "base/intern.h"
#include "passes/loops.h"

#include <string.h>

void dt_decode_refuse(DtDecode *d, DtSpan span, const char *what)
{
    if (d->failed)
        return;
    d->failed = true;
    DtDiag *diag = dt_diag_report(d->module->diags, E0528, span,
                                  "this cannot be computed position by position: %s", what);
    if (d->call)
        dt_diag_label(diag, d->call->span, "in this call");
    if (d->context->train)
        dt_diag_label(diag, d->context->train->cached_span, "which this line asks for");
    dt_diag_help(diag, "without the line `generate` every token runs the whole model");
}

const char *dt_decode_join(const char *prefix, const char *name)
{
    if (!prefix || !*prefix)
        return name;
    return name && *name ? dt_intern_printf("%s.%s", prefix, name) : prefix;
}

bool dt_decode_is_past(const DtDecode *d, const char *axis)
{
    for (uint32_t i = 0; i < d->pasts.n; i++)
        if (d->pasts.at[i] == axis)
            return true;
    return false;
}

/* ---- types, ops ---- */

const DtType *dt_decode_type(const DtDecode *d, const DtType *type, const char *past, bool is_whole)
{
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    for (uint32_t i = 0; i < type->rank; i++) {
        const char *name = axes[i].name;
        if (name == d->samples)
            axes[i] = (DtAxis){.name = d->rows, .extent = d->n_rows};
        else if (!is_whole && (name == d->time || name == past))
            axes[i] = (DtAxis){.name = d->fresh, .extent = d->n_fresh};
        else if (!is_whole && dt_decode_is_slot(d, name))
            axes[i].extent = d->n_fresh;
    }
    return dt_type_plain(type->dtype, type->rank, axes);
}

/* The type with the axes of x that it lacks, as first ones. */
static const DtType *with_axes_of(const DtType *type, const DtType *x)
{
    DtAxis axes[2 * DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->rank; i++)
        if (dt_type_find(type, x->axes[i].name) < 0)
            axes[n++] = x->axes[i];
    for (uint32_t i = 0; i < type->rank; i++)
        axes[n++] = type->axes[i];
    return dt_type_plain(type->dtype, n, axes);
}

/* Gives the operands of a `concat` equal axes: what depends on a row's position has rows. */
static void level(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtValue **in)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        for (uint32_t k = 0; k < op->n_in; k++) {
            const int r = dt_type_find(in[k]->type, d->rows);
            if (r < 0 || dt_type_find(in[i]->type, d->rows) >= 0)
                continue;
            const DtType *row = dt_type_plain(DT_I32, 1, &in[k]->type->axes[r]);
            in[i] = dt_graph_expand(&s->b, in[i], with_axes_of(in[i]->type, row));
        }
}

DtOp *dt_decode_emit(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtValue *const *in,
                     const char *past, bool is_whole)
{
    DtArena *arena = d->module->arena;
    DtOp draft = *op;
    DtValue *outs = DT_NEW_ARRAY(arena, DtValue, op->n_out + 1), **out,
            **operands = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
    out = draft.out = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    if (op->n_in)
        memcpy(operands, in, op->n_in * sizeof in[0]);
    draft.caller = NULL;
    draft.aliases = NULL;
    s->b.span = op->span;
    s->b.path = dt_decode_join(s->prefix, op->path);
    if (op->kind == DT_OP_CONCAT)
        level(d, s, op, operands);
    for (uint32_t i = 0; i < op->n_out; i++) {
        outs[i] = *op->out[i];
        outs[i].type = dt_decode_type(d, op->out[i]->type, past, is_whole);
        if (op->kind == DT_OP_EXPAND)
            outs[i].type = with_axes_of(outs[i].type, operands[0]->type);
        out[i] = &outs[i];
    }
    const char *summed[DT_MAX_RANK];
    if (op->kind == DT_OP_SCATTER_ADD && !is_whole) {
        for (uint32_t i = 0; i < op->n_axes2; i++)
            summed[i] = op->axes2[i] == d->time ? d->fresh : op->axes2[i];
        draft.axes2 = summed;
    }
    return dt_graph_copy(&s->b, &draft, operands);
}

/* ---- what a body reads from outside ---- */

DtValue *dt_decode_take(DtDecode *d, DtDecodeScope *s, DtValue *outside, bool is_stacked)
{
    for (uint32_t i = 0; i < s->taken.n; i++)
        if (s->taken.at[i].outside == outside && s->taken.at[i].is_stacked == is_stacked)
            return s->taken.at[i].inside;
    const DtType *type = is_stacked ? dt_loops_slice(outside->type) : outside->type;
    DtValue *inside = dt_graph_arg(s->b.func, type, outside->name);
    DT_PUSH(d->module->arena, s->taken, ((DtDecodeTaken){outside, inside, is_stacked}));
    if (!is_stacked)
        dt_map_add_pointer(&d->taken, inside, outside);
    return inside;
}

DtValue *dt_decode_start(DtDecode *d, DtDecodeScope *s)
{
    if (!s->start) {
        s->start = dt_decode_take(d, s, dt_decode_start(d, s->outer), false);
        dt_map_add_pointer(&d->queries, s->start, s->start);
    }
    return s->start;
}

DtValue *dt_decode_count(DtDecode *d, DtDecodeScope *s)
{
    if (!s->count && !s->outer) { /* a step that takes one position takes it in every row */
        const DtAxis row = {.name = d->rows, .extent = d->n_rows};
        s->count = dt_graph_expand(&s->b, dt_graph_constant(&s->b, DT_I32, 1),
                                   dt_type_plain(DT_I32, 1, &row));
    }
    if (!s->count)
        s->count = dt_decode_take(d, s, dt_decode_count(d, s->outer), false);
    return s->count;
}

DtValue *dt_decode_query(DtDecode *d, DtDecodeScope *s)
{
    if (!s->query) {
        const DtAxis fresh = {.name = d->fresh, .extent = d->n_fresh};
        DtValue *start = dt_decode_start(d, s);
        s->query =
            dt_graph_binary(&s->b, DT_OP_ADD, start, dt_graph_iota(&s->b, fresh));
        dt_map_add_pointer(&d->queries, s->query, s->query);
    }
    return s->query;
}

DtValue *dt_decode_if_first(DtDecode *d, DtDecodeScope *s, DtValue *x, DtValue *y)
{
    DtValue *zero = dt_graph_constant(&s->b, DT_I32, 0);
    DtValue *is = dt_graph_binary(&s->b, DT_OP_EQ, dt_decode_start(d, s), zero);
    return dt_graph_map(&s->b, DT_OP_WHERE, 3, (DtValue *[]){is, x, y}, y->type);
}

/* ---- values ---- */

DtDecodeVal *dt_decode_made(DtDecodeScope *s, DtValue *now, const char *past)
{
    DtDecodeVal *v = DT_NEW(s->b.func->module->arena, DtDecodeVal);
    *v = (DtDecodeVal){.scope = s, .varies = true, .now = now, .past = past};
    return v;
}

DtValue *dt_decode_whole(DtDecode *d, DtDecodeVal *v)
{
    if (v->whole || v->varies)
        return v->whole;
    if (v->outside) {
        DtValue *outside = dt_decode_whole(d, v->outside);
        return v->whole = dt_decode_take(d, v->scope, outside, v->is_stacked);
    }
    DtValue **in = DT_NEW_ARRAY(d->module->arena, DtValue *, v->op->n_in + 1);
    for (uint32_t i = 0; i < v->op->n_in; i++)
        in[i] = dt_decode_whole(d, v->in[i]);
    const char *prefix = v->scope->prefix;
    v->scope->prefix = v->prefix;
    v->whole = dt_decode_emit(d, v->scope, v->op, in, NULL, true)->out[0];
    v->scope->prefix = prefix;
    return v->whole;
}

static bool has_time(const DtDecode *d, const DtType *type)
{
    return dt_type_find(type, d->time) >= 0;
}

/* The new positions of a value that does not vary, and whose op works on elements; NULL if all of
 * it has to be built. */
static DtValue *op_now(DtDecode *d, DtDecodeVal *v)
{
    const DtOp *op = v->op;
    if (op->kind == DT_OP_IOTA)
        return dt_decode_query(d, v->scope);
    if (!dt_op_is_pointwise(op->kind) || dt_op_info[op->kind].inputs < 0)
        return NULL;
    DtValue *in[4];
    bool is_made = op->kind == DT_OP_EXPAND; /* along the time axis, too */
    for (uint32_t i = 0; i < op->n_in; i++) {
        in[i] = dt_decode_now(d, v->in[i]);
        if (!in[i])
            return NULL;
        is_made = is_made || dt_type_find(in[i]->type, d->fresh) >= 0;
    }
    const char *prefix = v->scope->prefix;
    v->scope->prefix = v->prefix;
    DtValue *made = is_made ? dt_decode_emit(d, v->scope, op, in, NULL, false)->out[0] : NULL;
    v->scope->prefix = prefix;
    return made;
}

/* All positions of a renamed time axis: what the cache has, with the new positions in it. When a
 * text begins, all others become 0: what an earlier text left there may be infinite or NaN, which
 * no mask takes out of a sum of products. */
static DtValue *all_positions(DtDecode *d, DtDecodeVal *v)
{
    DtDecodeScope *s = v->scope;
    DtBuilder *b = &s->b;
    DtAxis axes[DT_MAX_RANK];
    const DtType *type = v->now->type;
    const DtAxis past = {.name = v->past, .extent = d->seq};
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[dt_type_find(type, d->fresh)] = past;
    type = dt_type_plain(type->dtype, type->rank, axes);
    DtDecodeState *state = dt_decode_state(d, s, type, v->now->name ? v->now->name : v->past);
    DtValue *at = dt_graph_iota(b, past), *is_new, *new;
    if (d->is_decode) {
        const DtRelabel drop = {.n_from = 1, .from = {d->fresh}};
        is_new = dt_graph_binary(b, DT_OP_EQ, at, dt_decode_start(d, s));
        new = dt_graph_relabel(b, v->now, 1, &drop, NULL);
    } else {
        DtValue *zero = dt_graph_constant(b, DT_I32, 0);
        DtValue *number = dt_graph_binary(b, DT_OP_SUB, at, dt_decode_start(d, s));
        is_new = dt_graph_binary(b, DT_OP_AND, dt_graph_binary(b, DT_OP_LE, zero, number),
                                 dt_graph_binary(b, DT_OP_LT, number, dt_decode_count(d, s)));
        new = dt_graph_gather(b, v->now, 1, &d->fresh, &number);
    }
    DtValue *first =
        dt_graph_binary(b, DT_OP_EQ, dt_decode_start(d, s), dt_graph_constant(b, DT_I32, 0));
    DtValue *none = dt_graph_constant(b, type->dtype, 0);
    DtValue *written = dt_graph_binary(b, DT_OP_OR, is_new, first);
    new = dt_graph_map(b, DT_OP_WHERE, 3, (DtValue *[]){is_new, new, none}, type);
    state->new = dt_graph_map(b, DT_OP_WHERE, 3, (DtValue *[]){written, new, state->old}, type);
    state->new->name = state->old->name;
    return state->new;
}

DtValue *dt_decode_now(DtDecode *d, DtDecodeVal *v)
{
    if (d->failed)
        return NULL;
    if (v->why_not || v->is_first) {
        dt_decode_refuse(d, v->scope->b.span,
                         v->why_not ? v->why_not : "it reads some positions in another way");
        return NULL;
    }
    if (v->past)
        return v->all ? v->all : (v->all = all_positions(d, v));
    if (v->now)
        return v->now;
    if (v->outside) {
        DtValue *outside = dt_decode_now(d, v->outside);
        return outside ? (v->now = dt_decode_take(d, v->scope, outside, v->is_stacked)) : NULL;
    }
    const DtType *type = v->whole ? v->whole->type : v->op->out[0]->type;
    if (!has_time(d, type))
        return v->now = dt_decode_whole(d, v);
    if (v->scope->is_timed) {
        dt_decode_refuse(d, v->scope->b.span, "a loop along the positions reads other positions");
        return NULL;
    }
    v->now = v->op ? op_now(d, v) : NULL;
    if (!v->now && !d->failed) {
        DtValue *query = dt_decode_query(d, v->scope);
        v->now = dt_graph_gather(&v->scope->b, dt_decode_whole(d, v), 1, &d->time, &query);
    }
    return v->now;
}

/* ---- states ---- */

static DtStore *find_store(const DtDecode *d, const char *path)
{
    for (uint32_t i = 0; i < d->module->stores.n; i++)
        if (d->module->stores.at[i]->kind == DT_STORE_CACHE &&
            d->module->stores.at[i]->path == path)
            return d->module->stores.at[i];
    return NULL;
}

static bool is_used(const DtDecode *d, const DtStore *store)
{
    for (uint32_t i = 0; i < d->top->states.n; i++)
        if (d->top->states.at[i]->store == store)
            return true;
    return false;
}

/* The store of this path. Both entries make their states in the same order, so that they have the
 * same stores. */
static DtStore *store_of(DtDecode *d, const DtType *type, const char *name, const char *pattern,
                         uint32_t n_loops)
{
    const char *path = dt_intern(name);
    DtStore *store = find_store(d, path);
    for (uint32_t i = 2; store && is_used(d, store); i++) {
        path = dt_intern_printf("%s.%u", name, i);
        store = find_store(d, path);
    }
    if (path != dt_intern(name))
        pattern = dt_intern_printf("%s%s", pattern, path + strlen(name));
    if (store)
        return store;
    store = DT_NEW(d->module->arena, DtStore);
    *store = (DtStore){.kind = DT_STORE_CACHE, .path = path, .pattern = pattern, .type = type,
                       .n_loops = (uint8_t)n_loops, .written_rank = type->rank,
                       .span = d->top->b.span, .stage = -1, .index = d->module->stores.n};
    DT_PUSH(d->module->arena, d->module->stores, store);
    return store;
}

static DtDecodeState *state_in(DtDecode *d, DtDecodeScope *s, const DtType *type, const char *name,
                               const char *pattern, uint32_t n_loops)
{
    DtDecodeState *state = DT_NEW(d->module->arena, DtDecodeState);
    if (s->outer) {
        const char *label = s->loop->label;
        state->outside = state_in(d, s->outer, dt_loops_stacked(s->loop, type),
                                  dt_intern_printf("%s.%s", label, name),
                                  dt_intern_printf("%s.#.%s", label, pattern), n_loops + 1);
        state->old = dt_decode_take(d, s, state->outside->old, true);
    } else {
        d->top->b.span = s->b.span;
        state->store = store_of(d, type, name, pattern, n_loops);
        state->old = dt_graph_source(&s->b, DT_OP_PARAM, type, NULL, state->store);
    }
    state->old->name = dt_intern(name);
    DT_PUSH(d->module->arena, s->states, state);
    return state;
}

DtDecodeState *dt_decode_state(DtDecode *d, DtDecodeScope *s, const DtType *type, const char *name)
{
    const char *path = dt_intern(dt_decode_join(s->b.path, name));
    return state_in(d, s, type, path, path, 0);
}
