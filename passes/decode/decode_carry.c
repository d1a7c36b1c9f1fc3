/* SPDX-License-Identifier: Apache-2.0 */
/* Ops along the time axis, for which the derived entry keeps a state:
 *
 *   cumsum[seq](x)                     the sum so far
 *   window[seq, w](x, k, pad = (k-1, 0)), x[seq = iota[seq] - k], x[seq = max(iota[seq] - k, 0)]
 *                                      the last positions: x is appended to them
 *   taps(x, k, 1, (k-1) d, 0, d)       the same for windows of elements that are d apart
 *   x[seq = 0]                         the first position
 *
 * Only the first `count` of the new positions change a state. */
#include "passes/decode/decode.h"

#include "base/intern.h"

#include <string.h>

bool dt_decode_is_timed(const DtDecode *d, const DtOp *op, DtDecodeVal *const *in)
{
    const DtLoop *loop = op->loop;
    for (uint32_t i = loop->n_carried + loop->n_invariant; i < op->n_in; i++)
        if (in[i]->varies && in[i]->past == loop->axis && loop->count == d->seq)
            return true;
    return false;
}

static const char *name_of(const DtOp *op, const DtValue *x)
{
    return op->out[0]->name ? op->out[0]->name : x->name ? x->name : dt_op_info[op->kind].text;
}

/* Which of the new positions are meant: bool[rows, new]. */
static DtValue *is_meant(DtDecode *d, DtDecodeScope *s)
{
    const DtAxis fresh = {.name = d->fresh, .extent = d->n_fresh};
    return dt_graph_binary(&s->b, DT_OP_LT, dt_graph_iota(&s->b, fresh), dt_decode_count(d, s));
}

DtDecodeVal *dt_decode_scan(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x,
                            bool is_local)
{
    DtBuilder *b = &s->b;
    DtValue *now = dt_decode_now(d, x), *meant = now;
    const char *axes[DT_MAX_RANK];
    if (op->reverse || op->axes[0] != d->time)
        dt_decode_refuse(d, op->span, "a running sum needs later positions");
    if (!now || d->failed)
        return NULL;
    for (uint32_t i = 0; i < op->n_axes; i++)
        axes[i] = op->axes[i] == d->time ? d->fresh : op->axes[i];
    if (is_local)
        return dt_decode_made(s, dt_graph_scan(b, now, op->n_axes, axes, false), NULL);
    DtValue *zero = dt_graph_constant(b, now->type->dtype, 0);
    if (!d->is_decode)
        meant = dt_graph_map(b, DT_OP_WHERE, 3, (DtValue *[]){is_meant(d, s), now, zero},
                             now->type);
    DtValue *sum = dt_graph_reduce(b, DT_REDUCE_SUM, meant, op->n_axes, axes);
    DtDecodeState *state = dt_decode_state(d, s, sum->type, name_of(op, now));
    DtValue *none = dt_graph_constant(b, sum->type->dtype, 0);
    DtValue *before = dt_decode_if_first(d, s, none, state->old);
    state->new = dt_graph_binary(b, DT_OP_ADD, before, sum);
    DtValue *here = dt_graph_scan(b, now, op->n_axes, axes, false);
    before = dt_graph_cast(b, before, here->type->dtype);
    return dt_decode_made(s, dt_graph_map(b, DT_OP_ADD, 2, (DtValue *[]){here, before}, here->type),
                          NULL);
}

/* The new positions after the last n of earlier ones; before the first one of a text there are
 * fills, or (repeats) the first one again. The state becomes the last n of all of them. */
static DtValue *with_last(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtValue *now, int64_t n,
                          double fill, bool repeats)
{
    DtBuilder *b = &s->b;
    const int at = dt_type_find(now->type, d->fresh);
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, now->type->axes, now->type->rank * sizeof axes[0]);
    axes[at].extent = n;
    const DtType *type = dt_type_plain(now->type->dtype, now->type->rank, axes);
    DtDecodeState *state = dt_decode_state(d, s, type, name_of(op, now));
    DtValue *filled = dt_graph_constant(b, type->dtype, fill);
    const DtRelabel drop = {.n_from = 1, .from = {d->fresh}};
    if (repeats)
        filled = dt_graph_relabel(b, dt_graph_slice(b, now, d->fresh, 0, 1, 1), 1, &drop, NULL);
    DtValue *last = dt_decode_if_first(d, s, filled, state->old);
    DtValue *all = dt_graph_concat(b, d->fresh, 2, (DtValue *[]){last, now});
    if (d->is_decode) {
        state->new = dt_graph_slice(b, all, d->fresh, 1, 1, n);
    } else {
        DtValue *from = dt_graph_binary(b, DT_OP_ADD, dt_decode_count(d, s),
                                        dt_graph_iota(b, axes[at]));
        state->new = dt_graph_reorder(b, dt_graph_gather(b, all, 1, &d->fresh, &from), type);
    }
    return all;
}

DtDecodeVal *dt_decode_window(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x)
{
    const DtRange *range = &op->ranges[0];
    if (range->hi || range->step != 1 || range->lo != range->n - 1 || op->axes[0] != d->time)
        dt_decode_refuse(d, op->span, "a window has later positions, or leaves some out");
    DtValue *now = dt_decode_now(d, x);
    if (!now || d->failed)
        return NULL;
    DtRange made = *range;
    if (range->n > 1)
        now = with_last(d, s, op, now, range->n - 1, op->number, false);
    made.lo = 0;
    return dt_decode_made(s, dt_graph_window(&s->b, now, d->fresh, op->axes[1], made, op->number),
                          NULL);
}

/* ---- windows with gaps ---- */

/* Finds the window that a call of the library's `taps` makes along the time axis, and the distance
 * of its elements. The function has cut the axis into that many phases, or drops the elements
 * between (lib/std.dsl). ret_window: with lo and hi in positions. */
static bool find_taps(const DtDecode *d, const DtFunc *func, DtRange *ret_window, int64_t *ret_step)
{
    const DtOp *window = NULL, *split = NULL;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool splits = op->kind == DT_OP_RELABEL && op->n_relabels == 1 &&
                            op->relabels[0].n_from == 1 && op->relabels[0].n_to == 2;
        window = op->kind == DT_OP_WINDOW && !window ? op : window;
        split = splits && !split ? op : split;
    }
    if (!window || !split)
        return false;
    DtRange *w = ret_window;
    *w = window->ranges[0];
    *ret_step = split->relabels[0].to_extent[1];
    if (split->relabels[0].from[0] == d->time) { /* windows of a phase */
        w->lo *= *ret_step;
        w->hi *= *ret_step;
        return true;
    }
    w->hi -= *ret_step - 1; /* after the last element there are others that are dropped */
    w->n /= *ret_step;
    return window->axes[0] == d->time;
}

DtDecodeVal *dt_decode_taps(DtDecode *d, DtDecodeScope *s, const DtOp *call, DtDecodeVal *x)
{
    const DtFunc *func = call->func;
    DtRange w;
    int64_t step;
    const DtType *type = call->out[0]->type;
    if (!func->library || strcmp(func->library, "taps") != 0 || !x->varies || x->past ||
        !find_taps(d, func, &w, &step))
        return NULL;
    if (w.hi || w.step != 1 || w.lo != (w.n - 1) * step)
        dt_decode_refuse(d, call->span, "a window has later positions, or leaves some out");
    DtValue *now = dt_decode_now(d, x);
    if (!now || d->failed)
        return NULL;
    const char *axis = NULL; /* of a window */
    for (uint32_t i = 0; i < type->rank; i++)
        if (dt_type_find(call->in[0]->type, type->axes[i].name) < 0)
            axis = type->axes[i].name;
    const DtRange all = {.step = 1, .n = w.lo + 1};
    now = with_last(d, s, call, now, w.lo, 0, false);
    now = dt_graph_window(&s->b, now, d->fresh, axis, all, 0);
    now = dt_graph_slice(&s->b, now, axis, 0, step, w.n);
    return dt_decode_made(s, dt_graph_reorder(&s->b, now, dt_decode_type(d, type, NULL, false)),
                          NULL);
}

/* The value itself, outside of loops. */
static const DtDecodeVal *outermost(const DtDecodeVal *v)
{
    while (v->outside && !v->is_stacked)
        v = v->outside;
    return v;
}

static bool is_zero(const DtDecodeVal *v)
{
    const DtOp *op = outermost(v)->op;
    return op && op->kind == DT_OP_CONST && op->number == 0;
}

/* Whether the value is iota[time] - *ret_back. */
static bool is_earlier(const DtDecode *d, const DtDecodeVal *v, int64_t *ret_back)
{
    v = outermost(v);
    const DtOp *op = v->op;
    *ret_back = 0;
    if (op && op->kind == DT_OP_IOTA)
        return op->axes[0] == d->time;
    if (!op || (op->kind != DT_OP_SUB && op->kind != DT_OP_ADD))
        return false;
    const DtDecodeVal *by = outermost(v->in[1]);
    if (!by->op || by->op->kind != DT_OP_CONST || !is_earlier(d, v->in[0], ret_back))
        return false;
    *ret_back += (int64_t)(op->kind == DT_OP_SUB ? by->op->number : -by->op->number);
    return true;
}

/* Whether the value is such a number, or the maximum of one and 0 (ret_repeats): the first position
 * in place of those before it. */
static bool is_earlier_or_first(const DtDecode *d, const DtDecodeVal *v, int64_t *ret_back,
                                bool *ret_repeats)
{
    v = outermost(v);
    *ret_repeats = v->op && v->op->kind == DT_OP_MAX;
    if (!*ret_repeats)
        return is_earlier(d, v, ret_back);
    return (is_zero(v->in[1]) && is_earlier(d, v->in[0], ret_back)) ||
           (is_zero(v->in[0]) && is_earlier(d, v->in[1], ret_back));
}

DtDecodeVal *dt_decode_shift(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x,
                             const DtDecodeVal *index)
{
    int64_t back;
    bool repeats = false;
    if (index->varies || !is_earlier_or_first(d, index, &back, &repeats) || back < 0)
        dt_decode_refuse(d, op->span, "it reads positions that no number of steps back gives");
    DtValue *now = dt_decode_now(d, x);
    if (!now || d->failed)
        return NULL;
    if (back > 0)
        now = dt_graph_slice(&s->b, with_last(d, s, op, now, back, 0, repeats), d->fresh, 0, 1,
                             d->n_fresh);
    return dt_decode_made(s, now, NULL);
}

DtDecodeVal *dt_decode_first(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x)
{
    DtBuilder *b = &s->b;
    const DtRelabel drop = {.n_from = 1, .from = {d->fresh}};
    if (op->n_axes != 1 || op->ranges[0].lo != 0 || op->ranges[0].n != 1)
        dt_decode_refuse(d, op->span, "it takes some of the positions");
    DtValue *now = dt_decode_now(d, x);
    if (!now || d->failed)
        return NULL;
    now = dt_graph_relabel(b, dt_graph_slice(b, now, d->fresh, 0, 1, 1), 1, &drop, NULL);
    DtDecodeState *state = dt_decode_state(d, s, now->type, name_of(op, now));
    state->new = dt_decode_if_first(d, s, now, state->old);
    DtDecodeVal *v = dt_decode_made(s, state->new, NULL);
    v->is_first = true;
    return v;
}
