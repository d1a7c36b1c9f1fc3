/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that generate text position by position, derived from entry "predict".
 *
 * Purpose: "predict" computes all positions of a window. For the next token only one more position
 * is new: all that it needs of earlier ones was computed before. The pass adds two entries: both
 * take tokens at new positions, and compute the model's result at the last one.
 *
 *   prefill   `chunk` positions of each row, of which the first `count` are meant
 *   decode    one position of each row
 *
 *   %x = input tokens [batch, seq]           =>  %x = input decode.tokens [batch.rows, seq.new]
 *   %k = dot[embed](%x', %wk)                    %k = dot[embed](%x', %wk)
 *                                                %c = param "h.attention.k" (cache)
 *   %a = relabel(%k) seq -> kseq                 %n = where(iota[kseq] == %start, %k, %c)
 *   %z = dot[head](%q, %a)                       %z = dot[head](%q, %n)       %n goes to the cache
 *
 * Ops are copied to types in which the time axis (the second one of the first input) has the new
 * positions only. Where values of several positions meet, the entries keep a state (a store CACHE):
 *
 *   a renamed time axis               all positions: the keys and values of attention
 *   windows, `x[seq = iota[seq] - 1]` the last positions (decode_carry.c)
 *   running sums, loops along it      what is carried
 *
 * Everything else that would mix positions is refused (E0528), and so is attention that may see
 * later ones (decode_hidden.c). Each row begins where input `start` says: 0 begins a new text.
 * Calls are inlined. A function that scans in blocks is computed by its `return`, position by
 * position.
 *
 * Requires: a verified serial module with entry "predict"; a line `generate` in the train block.
 * Establishes: entries "prefill" and "decode". Breaks: nothing. */
#include "passes/decode/decode.h"

#include "base/intern.h"
#include "passes/loops.h"
#include "passes/place/bound.h"

#include <string.h>

static void walk(DtDecode *d, DtDecodeScope *s, DtFunc *func, DtDecodeVal **map,
                 DtDecodeVal **ret_results);

static DtArena *arena_of(const DtDecode *d) { return d->module->arena; }

static DtDecodeVal *fixed(DtDecode *d, DtDecodeScope *s, DtDecodeVal v)
{
    DtDecodeVal *made = DT_NEW(arena_of(d), DtDecodeVal);
    *made = v;
    made->scope = s;
    made->prefix = s->prefix;
    return made;
}

/* ---- renamed axes ---- */

static bool names(const char *const *at, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (at[i] == name)
            return true;
    return false;
}

/* A renamed axis that is the time axis again: the new positions of a value that has all. */
static DtValue *back_to_time(DtDecode *d, DtDecodeScope *s, DtValue *x, const DtRelabel *entry)
{
    if (dt_type_find(x->type, d->fresh) >= 0) { /* each position has a row of it */
        dt_decode_refuse(d, s->b.span, "it exchanges two axes of positions");
        return NULL;
    }
    DtValue *query = dt_decode_query(d, s);
    return dt_graph_gather(&s->b, x, 1, &entry->from[0], &query);
}

static DtDecodeVal *relabel(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x)
{
    /* the axis that `now` has as new positions, before and after */
    const char *axis = x->past ? x->past : d->time, *after = axis;
    const bool is_first = x->is_first;
    const bool has = !is_first && dt_type_find(op->in[0]->type, axis) >= 0;
    DtValue *now = x->past || is_first ? x->now : dt_decode_now(d, x);
    DtRelabel *kept = DT_NEW_ARRAY(arena_of(d), DtRelabel, op->n_relabels + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_relabels && now; i++) {
        const DtRelabel *entry = &op->relabels[i];
        const bool single = entry->n_from == 1 && entry->n_to == 1;
        const bool here = names(entry->from, entry->n_from, is_first ? d->time : axis);
        if (is_first && here && entry->n_from == 1 && entry->n_to == 0) {
            x = dt_decode_made(s, now, NULL);
        } else if (has && here && single && entry->to[0] == d->time) {
            after = d->time;
        } else if (has && here && single) {
            after = entry->to[0];
            if (!dt_decode_is_past(d, after))
                DT_PUSH(arena_of(d), d->pasts, after);
        } else if (single && entry->to[0] == d->time && dt_decode_is_past(d, entry->from[0])) {
            now = back_to_time(d, s, now, entry);
        } else if (here || names(entry->to, entry->n_to, d->time) ||
                   names(entry->from, entry->n_from, d->samples) ||
                   names(entry->to, entry->n_to, d->samples)) {
            dt_decode_refuse(d, op->span, "it splits or merges the axis of positions or samples");
        } else {
            kept[n++] = *entry;
        }
        for (uint32_t k = 0; k < entry->n_from && !has; k++)
            if (dt_decode_is_past(d, entry->from[k]) && !(single && entry->to[0] == d->time))
                dt_decode_refuse(d, op->span, "it renames an axis of earlier positions again");
    }
    if (d->failed || !now)
        return NULL;
    DtOp draft = *op;
    draft.relabels = kept;
    draft.n_relabels = n;
    const char *past = has && after != d->time ? after : NULL;
    DtValue *made = dt_decode_emit(d, s, &draft, &now, past, false)->out[0];
    if (!made->name)
        made->name = now->name;
    DtDecodeVal *v = dt_decode_made(s, made, past);
    v->is_first = x->is_first;
    return v;
}

/* ---- other ops ---- */

static bool has_axis(const DtOp *op, const char *axis)
{
    return names(op->axes, op->n_axes, axis) || names(op->axes2, op->n_axes2, axis);
}

/* Checks an op along axes that hold earlier positions, given its operands. */
static bool check_pasts(DtDecode *d, const DtOp *op, DtValue *const *in)
{
    for (uint32_t i = 0; i < d->pasts.n; i++) {
        const char *axis = d->pasts.at[i];
        if (!has_axis(op, axis))
            continue;
        if (op->kind != DT_OP_DOT && op->kind != DT_OP_REDUCE)
            dt_decode_refuse(d, op->span, "it looks for something among all positions");
        else if (dt_decode_sees_later(d, axis, op->n_in, in))
            dt_decode_refuse(d, op->span,
                             "a position may see later ones: no mask `iota[..] <= iota[..]` "
                             "between both axes hides them");
    }
    return !d->failed;
}

/* Whether the op works along this axis, renames it, or takes an iteration for each element. */
static bool works_on(const DtOp *op, const char *axis)
{
    bool found = has_axis(op, axis) || (op->kind == DT_OP_LOOP && op->loop->axis == axis);
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const DtRelabel *r = &op->relabels[i];
        found = found || names(r->from, r->n_from, axis) || names(r->to, r->n_to, axis);
    }
    return found;
}

/* Whether the result may depend on the slots that tokens have: the op works along slots, or along
 * experts, of which others have other tokens in the same slot, or reads something that is not made
 * of tokens and differs from slot to slot. */
static bool uses_slots(const DtDecode *d, const DtOp *op, DtDecodeVal *const *in)
{
    for (uint32_t i = 0; i < d->slots.n; i++) {
        const DtDecodeSlots *slots = &d->slots.at[i];
        bool reads = false, has_other = false;
        for (uint32_t k = 0; k < op->n_in; k++) {
            const bool has = dt_type_find(op->in[k]->type, slots->slot) >= 0;
            reads = reads || has;
            has_other = has_other || (has && !in[k]->varies);
        }
        if (has_other || (reads && (works_on(op, slots->slot) || works_on(op, slots->experts))))
            return true;
    }
    return false;
}

/* An op on values at the new positions, copied. */
static void copy_op(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal **in,
                    DtDecodeVal **map)
{
    DtValue **now = DT_NEW_ARRAY(arena_of(d), DtValue *, op->n_in + 1);
    const bool moves = dt_map_find_pointer(&d->moves, op) != NULL;
    if (has_axis(op, d->samples))
        dt_decode_refuse(d, op->span, "it mixes samples");
    for (uint32_t i = 0; i < op->n_in && !d->failed; i++) {
        const bool is_table = op->kind == DT_OP_GATHER && i == 0 && !in[0]->varies;
        const bool is_index = op->kind == DT_OP_GATHER && i > 0;
        if (has_axis(op, d->time) && !is_table && !is_index && !moves)
            dt_decode_refuse(d, op->span, "it mixes positions");
        now[i] = is_table && has_axis(op, d->time) ? dt_decode_whole(d, in[i])
                                                   : dt_decode_now(d, in[i]);
    }
    if (d->failed || !check_pasts(d, op, now))
        return;
    const DtOp *made = dt_decode_emit(d, s, op, now, NULL, false);
    for (uint32_t i = 0; i < op->n_out; i++)
        map[op->out[i]->id] = dt_decode_made(s, made->out[i], NULL);
}

/* An op along the time axis for which the entry keeps a state; NULL: it is none. */
static DtDecodeVal *carry_op(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal **in)
{
    if (!in[0]->varies || !names(op->axes, op->n_axes, d->time) || in[0]->past)
        return NULL;
    switch (op->kind) {
    case DT_OP_SCAN:
        return dt_decode_scan(d, s, op, in[0], dt_decode_is_queue(d, d->func, op));
    case DT_OP_WINDOW: return dt_decode_window(d, s, op, in[0]);
    case DT_OP_SLICE: return dt_decode_first(d, s, op, in[0]);
    case DT_OP_GATHER: return op->n_axes == 1 ? dt_decode_shift(d, s, op, in[0], in[1]) : NULL;
    default: return NULL;
    }
}

/* ---- loops ---- */

/* What the body has for an operand of the loop. */
static DtDecodeVal *operand(DtDecode *d, DtDecodeScope *body, DtDecodeVal *outside, bool is_stacked)
{
    if (!outside->varies)
        return fixed(d, body, (DtDecodeVal){.outside = outside, .is_stacked = is_stacked});
    DtValue *now = dt_decode_now(d, outside);
    return now ? dt_decode_made(body, dt_decode_take(d, body, now, is_stacked), NULL) : NULL;
}

/* Puts the inputs of a body in the order of a loop's operands, which it returns. */
static DtValue **order_inputs(DtDecode *d, DtDecodeScope *body, uint32_t n_carried, DtValue **init,
                              DtLoop *loop)
{
    DtFunc *func = body->b.func;
    const uint32_t n = n_carried + body->taken.n;
    DtValue **in = DT_NEW_ARRAY(arena_of(d), DtValue *, n + 1);
    uint32_t at = n_carried;
    memcpy(in, init, n_carried * sizeof in[0]);
    for (uint32_t stacked = 0; stacked < 2; stacked++) {
        for (uint32_t i = 0; i < body->taken.n; i++) {
            const DtDecodeTaken *taken = &body->taken.at[i];
            if (taken->is_stacked != stacked)
                continue;
            in[at] = taken->outside;
            func->inputs.at[1 + at] = taken->inside;
            taken->inside->index = 1 + at++;
        }
        loop->n_invariant = stacked ? loop->n_invariant : at - n_carried;
    }
    loop->n_carried = n_carried;
    loop->n_stacked = n - n_carried - loop->n_invariant;
    return in;
}

/* Returns the value with the axes of `type` in its order; NULL: it has others. */
static DtValue *like(DtDecodeScope *s, DtValue *value, const DtType *type)
{
    if (value->type->dtype != type->dtype)
        return NULL;
    for (uint32_t i = 0; i < value->type->rank; i++)
        if (dt_type_find(type, value->type->axes[i].name) < 0)
            return NULL;
    return dt_graph_reorder(&s->b, dt_graph_expand(&s->b, value, type), type);
}

/* The carried values of a loop: what the first iteration gets, and the body's inputs for them. */
typedef struct Carried {
    uint32_t n;
    DtValue **init;
    DtValue **inside;
    DtDecodeState **state; /* of a loop along the time axis */
} Carried;

static bool begin_carried(DtDecode *d, DtDecodeScope *body, const DtOp *op, DtDecodeVal **in,
                          Carried *ret)
{
    DtDecodeScope *s = body->outer;
    DtArena *arena = arena_of(d);
    *ret = (Carried){.n = op->loop->n_carried,
                     .init = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1),
                     .inside = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1),
                     .state = DT_NEW_ARRAY(arena, DtDecodeState *, op->n_in + 1)};
    for (uint32_t i = 0; i < ret->n; i++) {
        DtValue *init = dt_decode_now(d, in[i]);
        if (!init)
            return false;
        if (body->is_timed && !s->is_timed) {
            const char *name = op->out[i]->name ? op->out[i]->name : op->loop->label;
            const DtType *type = dt_decode_type(d, op->out[i]->type, NULL, false);
            ret->state[i] = dt_decode_state(d, s, type, name);
            init = dt_decode_if_first(d, s, init, ret->state[i]->old);
        }
        ret->init[i] = init;
        ret->inside[i] = dt_graph_arg(body->b.func, init->type, op->func->inputs.at[1 + i]->name);
    }
    return true;
}

/* The body's result for a carried value. Positions that are not meant change nothing. */
static bool carry(DtDecode *d, DtDecodeScope *body, const DtOp *op, const Carried *carried,
                  uint32_t i, DtDecodeVal *result)
{
    DtValue *now = dt_decode_now(d, result), *old = carried->inside[i];
    now = now ? like(body, now, old->type) : NULL;
    if (!now) {
        dt_decode_refuse(d, op->span, "an iteration hands on a value of another form");
        return false;
    }
    if (carried->state[i] && !d->is_decode) {
        DtValue *turn = body->b.func->inputs.at[0];
        DtValue *meant = dt_graph_binary(&body->b, DT_OP_LT, turn, dt_decode_count(d, body));
        now = dt_graph_map(&body->b, DT_OP_WHERE, 3, (DtValue *[]){meant, now, old}, old->type);
    }
    dt_graph_return(body->b.func, now);
    return true;
}

/* A stacked operand of a loop along the time axis, with this axis first. */
static DtDecodeVal *of_position(DtDecode *d, DtDecodeScope *body, DtDecodeVal *x)
{
    DtDecodeScope *s = body->outer;
    DtValue *now = x->now;
    if (!x->varies) { /* a loop's axis is renamed, so that it is not the time axis here */
        DtValue *query = dt_decode_query(d, s);
        now = dt_graph_gather(&s->b, dt_decode_whole(d, x), 1, &body->loop->axis, &query);
    }
    DtAxis axes[DT_MAX_RANK];
    const DtType *type = now->type;
    uint32_t n = 1;
    for (uint32_t i = 0; i < type->rank; i++)
        axes[type->axes[i].name == d->fresh ? 0 : n++] = type->axes[i];
    now = dt_graph_reorder(&s->b, now, dt_type_plain(type->dtype, type->rank, axes));
    return dt_decode_made(body, dt_decode_take(d, body, now, true), NULL);
}

static DtDecodeVal **begin_body(DtDecode *d, DtDecodeScope *body, const DtOp *op, DtDecodeVal **in,
                                bool is_timed, const Carried *carried)
{
    const DtLoop *loop = op->loop;
    const DtFunc *func = op->func;
    DtDecodeVal **map = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, func->n_values + 1);
    DtValue *turn = body->b.func->inputs.at[0];
    DtDecodeVal *number = fixed(d, body, (DtDecodeVal){.whole = turn, .now = turn});
    if (is_timed)
        number = dt_decode_made(
            body, dt_graph_binary(&body->b, DT_OP_ADD, turn, dt_decode_start(d, body)), NULL);
    map[func->inputs.at[0]->id] = number;
    for (uint32_t i = 0; i < op->n_in && !d->failed; i++) {
        const bool is_stacked = i >= loop->n_carried + loop->n_invariant;
        map[func->inputs.at[1 + i]->id] =
            i < loop->n_carried      ? dt_decode_made(body, carried->inside[i], NULL)
            : is_stacked && is_timed ? of_position(d, body, in[i])
                                     : operand(d, body, in[i], is_stacked);
    }
    return map;
}

/* The results of the new loop as values, and as new states. */
static void end_loop(DtDecode *d, DtDecodeScope *body, const DtOp *op, const DtOp *made,
                     const Carried *carried, bool is_timed, DtDecodeVal **map)
{
    DtDecodeScope *s = body->outer;
    for (uint32_t i = 0; i < op->n_out; i++) {
        DtDecodeVal *v = dt_decode_made(s, made->out[i], NULL);
        made->out[i]->name = op->out[i]->name;
        if (is_timed && i < carried->n && carried->state[i]) {
            carried->state[i]->new = made->out[i];
            v->why_not = "it reads what a loop along the positions has at the end";
        } else if (is_timed && i >= carried->n) {
            v->past = op->loop->axis;
            if (!dt_decode_is_past(d, v->past))
                DT_PUSH(arena_of(d), d->pasts, v->past);
        }
        map[op->out[i]->id] = v;
    }
    for (uint32_t i = 0; i < body->states.n; i++)
        body->states.at[i]->outside->new = made->out[op->n_out + i];
}

static void walk_loop(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal **in,
                      DtDecodeVal **map)
{
    const bool is_timed = dt_decode_is_timed(d, op, in);
    DtLoop loop = *op->loop;
    DtDecodeScope body = {.outer = s, .is_timed = s->is_timed || is_timed, .prefix = "",
                          .place = s->place};
    loop.label = dt_decode_join(s->prefix, loop.label);
    if (is_timed) {
        if (loop.reverse || loop.count != d->seq)
            dt_decode_refuse(d, op->span, "a loop goes along the positions backwards, or along "
                                          "some of them");
        loop.count = d->n_fresh;
    }
    body.loop = &loop;
    body.b.func = dt_graph_func(d->module, dt_intern_printf("%s.%s", s->b.func->name, loop.label),
                                DT_FUNC_BODY);
    body.b.func->span = op->func->span;
    body.b.span = op->span;
    Carried carried;
    dt_graph_arg(body.b.func, dt_type_scalar(DT_I32), op->func->inputs.at[0]->name);
    if (d->failed || !begin_carried(d, &body, op, in, &carried))
        return;
    DtDecodeVal **inner = begin_body(d, &body, op, in, is_timed, &carried);
    loop.axis = is_timed ? d->fresh : loop.axis;
    DtDecodeVal **results = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, op->n_out + 1);
    if (!d->failed)
        walk(d, &body, op->func, inner, results);
    for (uint32_t i = 0; i < op->n_out && !d->failed; i++) {
        DtValue *now = i < carried.n ? NULL : dt_decode_now(d, results[i]);
        if (now)
            dt_graph_return(body.b.func, now);
        else if (i < carried.n)
            carry(d, &body, op, &carried, i, results[i]);
    }
    if (d->failed)
        return;
    for (uint32_t i = 0; i < body.states.n; i++)
        dt_graph_return(body.b.func, body.states.at[i]->new);
    DtValue **operands = order_inputs(d, &body, carried.n, carried.init, &loop);
    loop.n_stacked_out = op->n_out - carried.n + body.states.n;
    s->b.span = op->span;
    s->b.path = dt_decode_join(s->prefix, op->path);
    end_loop(d, &body, op, dt_graph_loop(&s->b, body.b.func, loop, operands), &carried, is_timed,
             map);
}

/* ---- calls ---- */

/* Marks an argument or result of a call, as pass `inline` does. */
static DtDecodeVal *bind(DtDecode *d, DtDecodeScope *s, const DtOp *call, DtDecodeVal *v)
{
    if (!v || !v->varies || v->past || v->why_not || v->is_first)
        return v;
    DtValue *now = dt_decode_now(d, v);
    if (!now)
        return v;
    DtValue *bound = dt_bound_value(s->b.func, call, now);
    bound->op->path = dt_decode_join(s->prefix, call->path);
    bound->op->text = dt_decode_join(s->place, bound->op->text);
    return dt_decode_made(s, bound, NULL);
}

static void walk_call(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal **in,
                      DtDecodeVal **map)
{
    DtFunc *func = op->func->meant ? op->func->meant : op->func;
    const char *prefix = s->prefix, *place = s->place;
    const DtOp *caller = d->call;
    const bool bound = dt_bound_is_wanted(d->context, op);
    DtDecodeVal **inner = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, func->n_values + 1);
    DtDecodeVal **results = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, func->results.n + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        inner[func->inputs.at[i]->id] =
            bound && dt_bound_input(op, i) ? bind(d, s, op, in[i]) : in[i];
    s->prefix = dt_decode_join(dt_decode_join(prefix, op->path), op->text);
    s->place = bound ? dt_decode_join(place, dt_bound_place(op)) : place;
    d->call = op;
    walk(d, s, func, inner, results);
    d->call = caller;
    s->prefix = prefix;
    s->place = place;
    for (uint32_t i = 0; i < op->n_out && !d->failed; i++) {
        DtDecodeVal *v = bound && dt_bound_result(op, i) ? bind(d, s, op, results[i]) : results[i];
        if (v->varies && v->now && op->out[i]->name)
            v->now->name = op->out[i]->name;
        map[op->out[i]->id] = v;
    }
}

/* ---- sources ---- */

static DtDecodeVal *input(DtDecode *d, DtDecodeScope *s, const DtOp *op)
{
    s->b.span = op->span;
    s->b.path = NULL;
    const DtType *type = dt_decode_type(d, op->out[0]->type, NULL, false);
    const char *name = dt_intern_printf("%s:%s", d->entry.name, op->text);
    DtValue *value = dt_graph_source(&s->b, DT_OP_INPUT, type, name, NULL);
    value->name = op->out[0]->name;
    return dt_decode_made(s, value, NULL);
}

static DtValue *row_input(DtDecode *d, const char *what)
{
    const DtAxis row = {.name = d->rows, .extent = d->n_rows};
    const char *name = dt_intern_printf("%s:%s", d->entry.name, what);
    return dt_graph_source(&d->top->b, DT_OP_INPUT, dt_type_plain(DT_I32, 1, &row), name, NULL);
}

static void walk_op(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal **map)
{
    DtDecodeVal **in = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, op->n_in + 1);
    bool varies = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        in[i] = map[op->in[i]->id];
        varies = varies || in[i]->varies;
    }
    s->b.span = op->span;
    s->b.path = dt_decode_join(s->prefix, op->path);
    const bool is_source = op->kind == DT_OP_PARAM || op->kind == DT_OP_IOTA;
    if (is_source && dt_type_find(op->out[0]->type, d->samples) >= 0)
        dt_decode_refuse(d, op->span, "it depends on the row of the batch that a sample is in");
    const bool moves = op->kind == DT_OP_CALL || dt_map_find_pointer(&d->moves, op) != NULL;
    if (varies && !moves && uses_slots(d, op, in))
        dt_decode_refuse(d, op->span, "what experts compute depends on the slot of a token");
    if (op->kind == DT_OP_INPUT) {
        map[op->out[0]->id] = input(d, s, op);
    } else if (op->kind == DT_OP_RNG) {
        dt_decode_refuse(d, op->span, "it draws random numbers");
    } else if (op->kind == DT_OP_CALL) {
        DtDecodeVal *taps = op->n_in == 1 ? dt_decode_taps(d, s, op, in[0]) : NULL;
        if (taps)
            map[op->out[0]->id] = taps;
        else if (!d->failed)
            walk_call(d, s, op, in, map);
    } else if (op->kind == DT_OP_LOOP) {
        walk_loop(d, s, op, in, map);
    } else if (!varies && op->n_out == 1) {
        map[op->out[0]->id] = fixed(d, s, (DtDecodeVal){.op = op, .in = in});
    } else if (op->kind == DT_OP_RELABEL) {
        map[op->out[0]->id] = relabel(d, s, op, in[0]);
    } else {
        DtDecodeVal *carried = varies ? carry_op(d, s, op, in) : NULL;
        if (carried)
            map[op->out[0]->id] = carried;
        else if (!d->failed)
            copy_op(d, s, op, in, map);
    }
}

/* Builds the ops of a function of "predict". map: by value id, its inputs. */
static void walk(DtDecode *d, DtDecodeScope *s, DtFunc *func, DtDecodeVal **map,
                 DtDecodeVal **ret_results)
{
    for (uint32_t i = 0; i < func->ops.n && !d->failed; i++) {
        d->func = func;
        walk_op(d, s, func->ops.at[i], map);
    }
    for (uint32_t i = 0; i < func->results.n && !d->failed; i++)
        ret_results[i] = map[func->results.at[i]->id];
}

/* ---- entries ---- */

static void give(DtDecode *d, DtValue *value, DtEntryResult result)
{
    dt_graph_return(d->top->b.func, value);
    DT_PUSH(arena_of(d), d->entry.results, result);
}

/* Whether the first result of "predict" is a float[samples, positions, classes], as generating
 * needs. */
static bool has_logits(DtDecode *d, const DtValue *result)
{
    const DtType *type = result->type;
    const bool good = type->rank == 3 && dt_dtype_is_float(type->dtype) &&
                      dt_type_find(type, d->time) >= 0 && dt_type_find(type, d->samples) >= 0;
    if (!good)
        dt_decode_refuse(d, d->predict->func->span,
                         "the model's first result is not a float[batch, seq, vocab], with the "
                         "axes of its first input");
    return good;
}

static void derive(DtDecode *d, DtEntryKind kind, int64_t n_fresh)
{
    DtFunc *predict = d->predict->func;
    DtDecodeScope top = {.prefix = "", .place = ""};
    d->entry = dt_entry_new(kind, NULL, DT_PART_WHOLE, -1);
    d->top = &top;
    d->n_fresh = n_fresh;
    d->is_decode = kind == DT_ENTRY_DECODE;
    d->taken = d->queries = d->moves = (DtMap){.arena = arena_of(d)};
    top.b.func = dt_graph_func(d->module, d->entry.name, DT_FUNC_ENTRY);
    top.b.func->span = top.b.span = predict->span;
    top.start = row_input(d, "start");
    top.count = kind == DT_ENTRY_PREFILL ? row_input(d, "count") : NULL;
    dt_map_add_pointer(&d->queries, top.start, top.start);
    DtDecodeVal **map = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, predict->n_values + 1);
    DtDecodeVal **results = DT_NEW_ARRAY(arena_of(d), DtDecodeVal *, predict->results.n + 1);
    walk(d, &top, predict, map, results);
    if (d->failed || !has_logits(d, predict->results.at[0]))
        return;
    DtValue *now = dt_decode_now(d, results[0]);
    if (!now)
        return;
    give(d, dt_decode_last(d, now), (DtEntryResult){.name = d->predict->results.at[0].name});
    for (uint32_t i = 0; i < top.states.n; i++)
        give(d, top.states.at[i]->new, (DtEntryResult){.store = top.states.at[i]->store});
    d->entry.func = top.b.func;
    dt_loops_prune(top.b.func);
    DT_PUSH(arena_of(d), d->module->entries, d->entry);
}

/* The axes of the model's first input: i32[samples, positions]. */
static bool find_axes(DtDecode *d)
{
    const DtTrainConfig *train = d->context->train;
    const DtReader *reader = train->readers.n ? &train->readers.at[0] : NULL;
    const DtFunc *func = d->predict->func;
    for (uint32_t i = 0; reader && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const DtType *type = op->out[0]->type;
        if (op->kind != DT_OP_INPUT || op->text != reader->inputs[0] || type->rank != 2 ||
            type->dtype != DT_I32)
            continue;
        d->samples = type->axes[0].name;
        d->time = type->axes[1].name;
        d->seq = type->axes[1].extent;
        d->rows = dt_intern_printf("%s.rows", d->samples);
        d->fresh = dt_intern_printf("%s.new", d->time);
        return true;
    }
    dt_decode_refuse(d, func->span, "the first input is not i32[batch, seq]");
    return false;
}

/* Whether the layout allows the entries. */
static bool may_derive(const DtModule *module, const DtPassContext *context)
{
    if (!context->parallel || !context->parallel->pipelines.n)
        return true;
    DtDiag *diag = dt_diag_report(module->diags, E0592, context->train->cached_span,
                                  "generating with a cache in a `pipeline` is not implemented yet");
    dt_diag_help(diag, "leave the line out; a plan for another layout, or for one rank "
                       "(`--parallel none`), may have it, and resumes the same checkpoints");
    return false;
}

bool dt_pass_decode(DtModule *module, const DtPassContext *context)
{
    const DtEntryPoint *predict = dt_entry_whole(module, DT_ENTRY_PREDICT, NULL);
    if (!context->train || !context->train->cached_rows || !predict)
        return false;
    const DtEntryPoint of = *predict; /* `entries` grows */
    DtDecode d = {.module = module, .context = context, .predict = &of,
                  .n_rows = context->train->cached_rows};
    const uint32_t n_funcs = module->funcs.n, n_stores = module->stores.n,
                   n_entries = module->entries.n;
    if (!may_derive(module, context) || !find_axes(&d))
        return false;
    const int64_t chunk = context->train->cached_chunk;
    derive(&d, DT_ENTRY_PREFILL, chunk < d.seq ? chunk : d.seq);
    if (!d.failed)
        derive(&d, DT_ENTRY_DECODE, 1);
    if (d.failed) {
        module->funcs.n = n_funcs;
        module->stores.n = n_stores;
        module->entries.n = n_entries;
    }
    return !d.failed;
}
