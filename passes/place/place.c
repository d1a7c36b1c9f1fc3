/* SPDX-License-Identifier: Apache-2.0 */
/* Place: gives every value its placement on the mesh, and inserts the conversions between
 * placements.
 *
 *     mesh data = 2, tensor = 2; shard ffn on tensor; shard seq on tensor; shard batch on data
 *
 *     %n                             : f32[batch/data, seq/tensor, embed]
 *     %h = dot[embed](%n, %up)       %g = all_gather[tensor](%n) : f32[batch/data, seq, embed]
 *                                    %h = dot[embed](%g, %up) : f32[batch/data, seq, ffn/tensor]
 *     %y = dot[ffn](%h, %down)   ->  %y = dot[ffn](%h, %down) : f32[batch/data, seq, embed]{sum}
 *     %z = bind(%y)                  %z = reduce_scatter[tensor](%y)
 *     %x' = add(%x, %z)              %x' = add(%x, %z) : f32[batch/data, seq/tensor, embed]
 *
 * Parameters, states, arguments and results of layers (`bind`) and what loops carry follow the
 * `shard` lines (place_rule.c). Other values take what their op's local rule (ir/shape.c) gives;
 * where the rule refuses the operands, they are converted in the cheapest way (place_choose.c,
 * place_convert.c), op by op in program order, looking ahead to the result's rule placement. A sum
 * over a split axis stays pending through linear ops; it is completed into the rule placement of
 * its value. Micro-batches are a split of the batch over time, its major-most one: the only
 * communication over it is the final sum of the entry's results (place_lazy.c). Whatever is chosen,
 * the verifier's local rules make the placed module mean what the serial one means; the choice only
 * costs bytes.
 *
 * Requires: calls inlined but library calls; `bind` ops; no placement. Establishes: types carry
 * splits and pending sums, those of stores too (loop axes never split); module->mesh; no `bind`.
 * The gradient of a parameter is its entry's result with its sums pending, which end with the step.
 * Breaks: nothing. */
#include "passes/place/place_internal.h"

#include "base/intern.h"
#include "ir/shape.h"
#include "passes/loops.h"
#include "passes/place/ring.h"
#include "passes/place/zigzag.h"

#include <string.h>

/* ---- scopes ---- */

typedef struct Work {
    DtPlaceScope s;
    const DtFunc *func;
    DtValue **map;  /* by id of the old values */
    uint32_t *uses; /* by id of the old values: how often ops and results read it */
    bool *later;    /* by id of the old values: an inner sum of a chain of `+`, placed together with
                     * the last sum */
} Work;

static void begin(Work *w, DtPlacer *p, const DtFunc *func, const DtType *const *types,
                  const bool *lazy, const char *place)
{
    DtFunc *copy = dt_graph_func(p->module, func->name, func->kind);
    *w = (Work){.s = {.p = p, .b = {.func = copy}, .lazy = lazy, .place = place}, .func = func};
    w->map = DT_NEW_ARRAY(p->module->arena, DtValue *, func->n_values + 1);
    w->uses = DT_NEW_ARRAY(p->module->arena, uint32_t, func->n_values + 1);
    copy->library = func->library;
    copy->stream = func->stream;
    copy->span = func->span;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            w->uses[func->ops.at[i]->in[k]->id]++;
    for (uint32_t i = 0; i < func->results.n; i++)
        w->uses[func->results.at[i]->id]++;
    w->s.uses = w->uses;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        w->map[func->inputs.at[i]->id] =
            i < func->n_args ? dt_graph_arg_like(copy, types[i], func->inputs.at[i])
                             : dt_graph_param(copy, types[i], func->params.at[i - func->n_args]);
}

/* Marks sums that nothing but another sum reads as inner sums of a chain of `+` (w->later), which
 * are placed together with the last sum. */
static void find_chains(Work *w)
{
    const DtFunc *func = w->func;
    w->later = DT_NEW_ARRAY(w->s.p->module->arena, bool, func->n_values + 1);
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        const bool passes =
            op->kind == DT_OP_ADD || (op->kind == DT_OP_BIND && w->later[op->out[0]->id]);
        for (uint32_t k = 0; passes && k < op->n_in; k++) {
            const DtOp *inner = op->in[k]->op;
            if (inner && (inner->kind == DT_OP_ADD || inner->kind == DT_OP_BIND) &&
                w->uses[op->in[k]->id] == 1)
                w->later[op->in[k]->id] = true;
        }
    }
}

static DtFunc *finish(Work *w)
{
    DtFunc *copy = w->s.b.func;
    copy->n_returns = w->func->n_returns;
    copy->writes.n = 0;
    for (uint32_t i = 0; i < w->func->writes.n; i++)
        DT_PUSH(w->s.p->module->arena, copy->writes, w->func->writes.at[i]);
    dt_graph_sweep(copy);
    return copy;
}

/* The type with its pending reduction over these mesh axes instead of its own. */
static const DtType *pending_over(const DtPlacer *p, const DtType *type, uint16_t bits,
                                  DtReduce reduce)
{
    for (uint32_t m = 0; m < p->module->mesh.n; m++)
        if (bits >> m & 1)
            type = dt_placerule_with(p, type, m, DT_PLACE_WHOLE);
    return dt_type_make(type->dtype, type->rank, type->axes, bits, reduce);
}

/* Returns the type that the value will have once its sums are complete, split as `rule` says; sums
 * over the mesh axes in `keep` stay pending. */
static const DtType *settled(DtPlaceScope *s, const DtValue *value, const DtType *rule,
                             uint16_t keep)
{
    return pending_over(s->p, rule, value->type->partial & keep, (DtReduce)value->type->pending);
}

/* ---- ops ---- */

static bool is_made_of_positions(DtPlaceScope *s, const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_IOTA:
    case DT_OP_CONST:
    case DT_OP_RNG: return true;
    default: break;
    }
    if (!dt_op_is_pointwise(op->kind))
        return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!dt_placeconvert_info(s, op->in[i])->is_free)
            return false;
    return true;
}

/* Copies op with placed operands; its results get the types that its shape rule derives, as close
 * to the preferred ones as possible. */
static DtOp *copy_op(DtPlaceScope *s, const DtOp *op, DtValue **in)
{
    DtArena *arena = s->p->module->arena;
    const DtType **types = DT_NEW_ARRAY(arena, const DtType *, op->n_in + 1);
    DtValue **wished = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        types[i] = in[i]->type;
    for (uint32_t i = 0; i < op->n_out; i++) {
        wished[i] = DT_NEW(arena, DtValue);
        *wished[i] = *op->out[i];
        wished[i]->type = dt_placechoose_wish(s->p, s->like, op, i, types);
    }
    DtOp draft = *op;
    draft.out = wished; /* results of these types are what the copy should have */
    DtOp *copy = dt_graph_copy(&s->b, &draft, in);
    for (uint32_t i = 0; i < copy->n_out; i++) {
        copy->out[i]->name = op->out[i]->name;
        dt_placeconvert_info(s, copy->out[i])->is_free = is_made_of_positions(s, copy);
        dt_placerule_learn(s->p, op, copy->out[i]->type);
    }
    return copy;
}

static const char *place_in(const DtPlaceScope *s, const char *place)
{
    return !*s->place ? place : !*place ? s->place : dt_intern_printf("%s.%s", s->place, place);
}

/* Converts a bound value to its rule placement on all mesh axes over which it has no pending sum;
 * records that placement for the other mesh axes, for when the sum is completed. In an update,
 * where values are bound that ranks exchange, it completes the sum. */
static DtValue *place_bind(DtPlaceScope *s, const DtOp *op, DtValue *x)
{
    const char *place = place_in(s, op->text);
    const DtType *rule = dt_placerule_of(s->p, x->type, place, 0);
    s->why = dt_intern_printf("argument or result of `%s`", place);
    const uint16_t keep = s->p->lazy ? 0 : UINT16_MAX;
    DtValue *bound = dt_placeconvert_to(s, x, settled(s, x, rule, keep));
    if (bound->type->partial && dt_placerule_is_limited(s->p, place))
        dt_placeconvert_info(s, bound)->bound = rule;
    return bound;
}

static void place_source(DtPlaceScope *s, const DtOp *op, DtValue **map)
{
    const DtType *type = op->out[0]->type;
    if (op->kind == DT_OP_PARAM)
        type = op->store->type;
    else
        type = dt_placerule_of(s->p, type, NULL, 0);
    for (uint32_t d = 1; op->kind == DT_OP_INPUT && d < type->rank;
         d++) /* readers deliver whole rows: only the first axis stays split */
        for (uint32_t m = 0; m < s->p->module->mesh.n; m++)
            if (dt_placerule_state(type, m) == (int)d)
                type = dt_placerule_with(s->p, type, m, DT_PLACE_WHOLE);
    DtValue *value = dt_graph_source(&s->b, op->kind, type, op->text, op->store);
    value->name = op->out[0]->name;
    map[op->out[0]->id] = value;
}

/* ---- calls and loops ---- */

static bool place_ops(Work *w);

/* Places a called function for operands of these types, once for each list of types; NULL after a
 * diagnostic. No sum stays pending inside a library function. */
static DtFunc *place_called(DtPlacer *p, const DtFunc *func, const DtType **types, bool is_ring)
{
    for (uint32_t i = 0; i < p->made.n; i++)
        if (p->made.at[i].from == func && p->made.at[i].is_ring == is_ring &&
            memcmp(p->made.at[i].types, types, func->inputs.n * sizeof *types) == 0)
            return p->made.at[i].to;
    Work w;
    const DtPlaceLike like = {types, func->inputs.n};
    begin(&w, p, func, types, DT_NEW_ARRAY(p->module->arena, bool, func->n_values + 1), "");
    w.s.like = &like;
    w.s.is_ring = is_ring;
    if (!place_ops(&w))
        return NULL;
    for (uint32_t i = 0; i < func->results.n; i++)
        dt_graph_return(w.s.b.func, w.map[func->results.at[i]->id]);
    DtFunc *made = finish(&w);
    DT_PUSH(p->module->arena, p->made, ((DtPlaceMade){func, types, is_ring, made}));
    return made;
}

static DtOp *place_call(DtPlaceScope *s, const DtOp *op, DtValue **in, const DtPlaceRing *ring)
{
    const DtType **types = DT_NEW_ARRAY(s->p->module->arena, const DtType *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        types[i] = ring->axis ? ring->types[i] : in[i]->type;
    DtFunc *func = place_called(s->p, op->func, types, ring->axis != NULL);
    if (!func)
        return NULL;
    return ring->axis ? dt_ring_call(&s->b, func, op->text, ring->axis, ring->mesh, in)
                      : dt_graph_call(&s->b, func, op->text, in);
}

/* Returns the copy of value that the loop saves for its backward part: a copy that an all_to_all
 * moved to where it is used, if it takes no more memory on a rank; else the value. */
static DtValue *saved_copy(DtPlaceScope *s, DtValue *value)
{
    if (value->type->partial)
        return value;
    for (DtValue *copy = dt_placeconvert_info(s, value)->next; copy != value;
         copy = dt_placeconvert_info(s, copy)->next)
        if (copy->op && copy->op->kind == DT_OP_ALL_TO_ALL && !copy->type->partial &&
            dt_type_local_elements(copy->type, &s->p->module->mesh) <=
                dt_type_local_elements(value->type, &s->p->module->mesh))
            return copy;
    return value;
}

/* Places a loop's body for inputs of these types. NULL after a diagnostic; or if carried results
 * are pending over more mesh axes than the inputs, and then types has those. */
static DtFunc *place_body(DtPlaceScope *outer, const DtOp *op, const DtType **types,
                          const bool *lazy, const bool *waits)
{
    DtPlacer *p = outer->p;
    const DtFunc *func = op->func;
    bool stable = true;
    Work w;
    begin(&w, p, func, types, lazy, place_in(outer, op->loop->label));
    if (!place_ops(&w))
        return NULL;
    for (uint32_t i = 0; i < func->results.n; i++) {
        DtValue *value = w.map[func->results.at[i]->id];
        const bool carried = i < op->loop->n_carried;
        uint16_t keep = waits[i] ? UINT16_MAX : p->time;
        w.s.why = carried ? "carried by the loop" : "complete behind the loop";
        w.s.b.span = op->span;
        w.s.b.path = NULL;
        const DtType *state =
            i < func->n_returns ? NULL : types[func->n_args + func->writes.at[i - func->n_returns]];
        uint16_t more =
            carried ? value->type->partial & keep & (uint16_t)~types[1 + i]->partial : 0;
        if (more) {
            types[1 + i] = pending_over(p, dt_placerule_of(p, value->type, NULL, 0),
                                        more | types[1 + i]->partial, DT_REDUCE_SUM);
            stable = false;
        } else if (carried) {
            value = dt_placeconvert_to(&w.s, value, types[1 + i]);
        /* a state's next value is placed like the state; its sum may stay pending until the end of
         * the step */
        } else if (state) {
            value = dt_placeconvert_to(
                &w.s, value,
                settled(&w.s, value, state, keep & (uint16_t)~dt_placerule_bits(state)));
        } else if (value->type->partial & (uint16_t)~keep) {
            value = dt_placeconvert_to(
                &w.s, value, settled(&w.s, value, dt_placeconvert_rule(&w.s, value), keep));
        } else {
            value = saved_copy(&w.s, value);
        }
        dt_graph_return(w.s.b.func, value);
    }
    return stable ? finish(&w) : NULL;
}

/* Takes the mark in `waits` from carried values that the body does more with than add to them.
 * Returns, by value id of the body, which sums may stay pending then. */
static const bool *what_waits(const DtOp *op, bool *waits, DtArena *arena)
{
    for (;;) {
        const bool *lazy = dt_placelazy_of(op->func, waits, arena);
        bool stable = true;
        for (uint32_t i = 0; i < op->loop->n_carried; i++)
            if (waits[i] && !lazy[op->func->inputs.at[1 + i]->id])
                waits[i] = stable = false;
        if (stable)
            return lazy;
    }
}

/* Gathers a value that every iteration reads, once before the loop, on mesh axes that split it now
 * but not in its rule placement. */
static DtValue *unsplit(DtPlaceScope *s, DtValue *value, const DtType *rule)
{
    const DtType *type = value->type;
    for (uint32_t m = 0; m < s->p->module->mesh.n; m++)
        if (!(s->p->time >> m & 1) && dt_placerule_state(type, m) >= 0 &&
            dt_placerule_state(rule, m) == DT_PLACE_WHOLE)
            type = dt_placerule_with(s->p, type, m, DT_PLACE_WHOLE);
    return dt_placeconvert_to(s, value, type);
}

/* Returns the type of a stacked operand of a loop with the loop's axis whole, since every rank runs
 * all iterations. */
static const DtType *in_order(DtPlaceScope *s, const DtType *type)
{
    for (uint32_t m = 0; m < s->p->module->mesh.n; m++)
        if (dt_placerule_state(type, m) == 0 && !(s->p->time >> m & 1))
            type = dt_placerule_with(s->p, type, m, DT_PLACE_WHOLE);
    return type;
}

/* Converts a loop's stacked operand to a type in which the loop's axis is whole. False after a
 * diagnostic if micro-batches split that axis. */
static bool put_in_order(DtPlaceScope *s, const DtOp *op, DtValue **value)
{
    for (uint32_t m = 0; m < s->p->module->mesh.n; m++)
        if (s->p->time >> m & 1 && dt_placerule_state((*value)->type, m) == 0)
            return dt_placerefuse_samples(s->p, op);
    *value = dt_placeconvert_to(s, *value, in_order(s, (*value)->type));
    return true;
}

/* Places a loop. A carried value has one type in all iterations; its sum may be pending over ranks
 * if the body only adds to it, or over time. Mesh axes over which a result is pending are added to
 * the type until it no longer changes. */
static DtOp *place_loop(DtPlaceScope *s, const DtOp *op, DtValue **in)
{
    DtPlacer *p = s->p;
    DtArena *arena = p->module->arena;
    const DtLoop *loop = op->loop;
    const DtType **types = DT_NEW_ARRAY(arena, const DtType *, op->n_in + 2);
    bool *waits = DT_NEW_ARRAY(arena, bool, op->func->results.n + 1);
    for (uint32_t i = 0; i < op->func->results.n; i++)
        waits[i] = i < loop->n_carried || s->lazy[op->out[i]->id];
    const bool *lazy = what_waits(op, waits, arena);
    const uint16_t relay = dt_placerelay_find(s, op, in);
    types[0] = op->func->inputs.at[0]->type;
    s->why = "input of the loop";
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtType *rule = dt_placeconvert_rule(s, in[i]);
        uint16_t keep = i < loop->n_carried && waits[i] ? (uint16_t)~relay : p->time;
        if (i >= loop->n_carried && i < loop->n_carried + loop->n_invariant)
            in[i] = unsplit(s, in[i], rule);
        if (i >= loop->n_carried + loop->n_invariant && !relay) {
            if (!put_in_order(s, op, &in[i]))
                return NULL;
            rule = in_order(s, rule);
        }
        if (i < loop->n_carried || in[i]->type->partial & (uint16_t)~keep)
            in[i] = dt_placeconvert_to(s, in[i], settled(s, in[i], rule, keep));
        types[1 + i] = i < loop->n_carried + loop->n_invariant
                           ? in[i]->type
                           : dt_loops_slice(in[i]->type);
    }
    DtFunc *body = NULL;
    while (!body && !p->failed) {
        uint32_t n = p->module->funcs.n, n_made = p->made.n;
        body = place_body(s, op, types, lazy, waits);
        if (!body) { /* the failed attempt's functions and conversions are removed */
            p->module->funcs.n = n;
            p->made.n = n_made;
        }
    }
    if (p->failed)
        return NULL;
    for (uint32_t i = 0; i < loop->n_carried; i++)
        in[i] = dt_placeconvert_to(s, in[i], types[1 + i]);
    return relay ? dt_placerelay_make(s, op, body, relay, in)
                 : dt_graph_loop(&s->b, body, *loop, in);
}

/* Places a `partner`: its axis stays split, one element on each rank. */
static DtOp *place_partner(DtPlaceScope *s, const DtOp *op, DtValue **in)
{
    const DtType *type = dt_placeconvert_rule(s, in[0]);
    in[0] = dt_placeconvert_to(s, in[0], settled(s, in[0], type, s->p->time));
    type = in[0]->type;
    DtOp draft = *op;
    draft.mesh = dt_shape_split_bits(&type->axes[dt_type_find(type, op->axes[0])]);
    return dt_graph_copy(&s->b, &draft, in);
}

static DtOp *place_op(DtPlaceScope *s, const DtOp *op, DtValue **in)
{
    DtOp *made;
    DtPlaceRing ring;
    s->why = dt_intern_printf("operand of `%s`", dt_op_info[op->kind].text);
    dt_placelazy_meet_sums(s, in, op->n_in);
    if (op->kind == DT_OP_LOOP)
        made = place_loop(s, op, in);
    else if (op->kind == DT_OP_PARTNER)
        made = place_partner(s, op, in);
    else if (!dt_placechoose_operands(s, op, in, &ring))
        made = NULL;
    else if (op->n_in && dt_placehalo_is(op, in[0]->type))
        made = dt_placehalo_make(s, op, in[0]);
    else
        made = op->kind == DT_OP_CALL ? place_call(s, op, in, &ring) : copy_op(s, op, in);
    for (uint32_t i = 0; made && i < made->n_out; i++) {
        made->out[i]->name = op->out[i]->name;
        made->out[i]->means = op->out[i]->means;
    }
    return made;
}

static bool widens(const DtOp *op)
{
    return op->kind == DT_OP_CAST &&
           dt_dtype_size(op->out[0]->type->dtype) > dt_dtype_size(op->in[0]->type->dtype);
}

/* Returns operand i of op. A sum over ranks that has several readers, not all of which can use it
 * pending, is completed once, before the first one. A sum that a cast is about to widen is
 * completed before, in its own dtype. */
static DtValue *operand(Work *w, const DtOp *op, uint32_t i)
{
    const DtValue *old = op->in[i];
    DtValue *value = w->map[old->id];
    uint16_t over = value->type->partial & (uint16_t)~w->s.p->time;
    if (!over || w->s.p->lazy || w->s.lazy[old->id] || value->type->pending != DT_REDUCE_SUM ||
        (w->uses[old->id] < 2 && (!widens(op) || w->s.is_ring)))
        return value;
    return dt_placeconvert_to(
        &w->s, value, settled(&w->s, value, dt_placeconvert_rule(&w->s, value), w->s.p->time));
}

static void place_one(Work *w, const DtOp *op);

/* Places the inner sums of a chain on which value depends and that were put off, in their order. */
static void place_now(Work *w, const DtValue *value)
{
    if (!w->later[value->id] || w->map[value->id])
        return;
    for (uint32_t i = 0; i < value->op->n_in; i++)
        place_now(w, value->op->in[i]);
    if (!w->s.p->failed)
        place_one(w, value->op);
}

typedef struct Chain {
    const DtValue *terms[16];
    uint32_t n;
} Chain;

static bool find_terms(const Work *w, const DtValue *value, Chain *chain)
{
    bool ok = true;
    if (w->later[value->id]) {
        for (uint32_t i = 0; i < value->op->n_in; i++)
            ok = ok && find_terms(w, value->op->in[i], chain);
        return ok;
    }
    if (chain->n == DT_COUNT(chain->terms))
        return false;
    chain->terms[chain->n++] = value;
    return true;
}

/* The terms of a chain of `+` that are pending over the same mesh axes (bits), and their sum. */
typedef struct Group {
    uint16_t bits;
    uint32_t n;
    DtValue *sum;
    const DtValue *old; /* sum: the first term, then the sum */
} Group;

static uint32_t find_groups(const Work *w, const Chain *chain, Group *groups)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < chain->n; i++) {
        uint16_t bits = w->map[chain->terms[i]->id]->type->partial & (uint16_t)~w->s.p->time;
        uint32_t g = 0;
        while (g < n && groups[g].bits != bits)
            g++;
        if (g == n)
            groups[n++] = (Group){.bits = bits};
        groups[g].n++;
    }
    return n;
}

static void add_term(Work *w, const DtOp *op, Group *group, DtValue *value, const DtValue *old)
{
    DtValue *in[2] = {group->sum, value},
            *from[2] = {(DtValue *)(uintptr_t)group->old, (DtValue *)(uintptr_t)old};
    DtOp draft = *op;
    draft.in = from;
    DtOp *made = group->sum && value ? place_op(&w->s, &draft, in) : NULL;
    if (made)
        made->recomputed = op->recomputed;
    group->sum = made ? made->out[0] : value;
    group->old = made ? op->out[0] : old;
}

/* Places a chain such as `x + a + b` with a and b pending: a and b are added, the sum is completed
 * once, and x is added to it. */
static void place_chain(Work *w, const DtOp *op, const Chain *chain, uint32_t n_groups,
                        Group *groups)
{
    Group all = {0};
    for (uint32_t i = 0; i < chain->n && !w->s.p->failed; i++)
        for (uint32_t g = 0; g < n_groups; g++)
            if (groups[g].bits ==
                (w->map[chain->terms[i]->id]->type->partial & (uint16_t)~w->s.p->time)) {
                add_term(w, op, &groups[g], w->map[chain->terms[i]->id], chain->terms[i]);
                break;
            }
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t g = 0; g < n_groups && !w->s.p->failed; g++)
            if ((groups[g].bits == 0) == (pass == 1))
                add_term(w, op, &all, groups[g].sum, groups[g].old);
    w->map[op->out[0]->id] = all.sum;
}

/* Whether op is the last sum of a chain of `+` in which several terms are pending over the same
 * mesh axes and others are not; such a chain is placed here. */
static bool is_chain(Work *w, const DtOp *op)
{
    Chain chain = {.n = 0};
    Group groups[DT_COUNT(chain.terms)];
    bool several = false;
    if (op->kind != DT_OP_ADD || w->s.p->lazy ||
        !(w->later[op->in[0]->id] || w->later[op->in[1]->id]))
        return false;
    if (!find_terms(w, op->in[0], &chain) || !find_terms(w, op->in[1], &chain))
        return false;
    uint32_t n = find_groups(w, &chain, groups);
    for (uint32_t g = 0; g < n; g++)
        several = several || (groups[g].bits && groups[g].n > 1);
    if (n < 2 || !several)
        return false;
    place_chain(w, op, &chain, n, groups);
    return true;
}

static void place_one(Work *w, const DtOp *op)
{
    DtPlacer *p = w->s.p;
    DtValue **in = DT_NEW_ARRAY(p->module->arena, DtValue *, op->n_in + 1);
    w->s.b.span = op->span;
    w->s.b.path = op->path;
    w->s.op = op;
    for (uint32_t j = 0; j < op->n_in; j++)
        in[j] = operand(w, op, j);
    if (op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT) {
        place_source(&w->s, op, w->map);
        return;
    }
    if (op->kind == DT_OP_BIND) {
        DtValue *bound = w->map[op->out[0]->id] = place_bind(&w->s, op, in[0]);
        if (op->recomputed && bound && bound->op && bound->index < 32)
            bound->op->recomputed |= 1u << bound->index;
        return;
    }
    DtOp *placed = place_op(&w->s, op, in);
    if (placed)
        placed->recomputed = op->recomputed;
    for (uint32_t j = 0; placed && j < op->n_out; j++)
        w->map[op->out[j]->id] = placed->out[j];
}

static bool place_ops(Work *w)
{
    find_chains(w);
    for (uint32_t i = 0; i < w->func->ops.n && !w->s.p->failed; i++) {
        const DtOp *op = w->func->ops.at[i];
        if (op->n_out == 1 && w->later[op->out[0]->id])
            continue;
        w->s.b.span = op->span;
        w->s.b.path = op->path;
        if (is_chain(w, op))
            continue;
        for (uint32_t k = 0; k < op->n_in && !w->s.p->failed; k++)
            place_now(w, op->in[k]);
        if (!w->s.p->failed)
            place_one(w, op);
    }
    return !w->s.p->failed;
}

/* ---- entries ---- */

static bool is_sample_axis(const DtFunc *func, const char *axis)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_INPUT && op->out[0]->type->rank &&
            op->out[0]->type->axes[0].name == axis)
            return true;
    }
    return false;
}

/* Returns the type in which the entry gives out a value: its rule placement, but whole on all axes
 * except that of samples. */
static const DtType *output_type(DtPlaceScope *s, const DtFunc *func, const DtValue *value)
{
    const DtType *type = settled(s, value, dt_placeconvert_rule(s, value), s->p->time);
    for (uint32_t m = 0; m < s->p->module->mesh.n; m++) {
        int d = dt_placerule_state(type, m);
        if (d >= 0 && !is_sample_axis(func, type->axes[d].name))
            type = dt_placerule_with(s->p, type, m, DT_PLACE_WHOLE);
    }
    return type;
}

/* Returns the op that computed value; for the result of a loop, the op in the loop's body. */
static const DtOp *origin(const DtValue *value)
{
    while (value->op && value->op->kind == DT_OP_LOOP)
        value = value->op->func->results.at[value->index];
    return value->op;
}

/* Converts result i of the entry to its final placement, and returns it. Gradients and states stay
 * pending until the end of the step. */
static DtValue *settle_result(Work *w, DtEntryPoint *entry, uint32_t i)
{
    DtPlacer *p = w->s.p;
    DtEntryResult *result = &entry->results.at[i];
    DtValue *value = w->map[w->func->results.at[i]->id];
    bool is_grad = result->store && result->store->kind == DT_STORE_GRAD;
    bool is_update = dt_entry_updates(entry->kind);
    w->s.b.span = value->op ? value->op->span : w->func->span;
    w->s.b.path = NULL;
    w->s.why = result->store ? dt_intern_printf("`%s` is stored", result->store->path) : "result";
    if (value->type->partial && value->type->pending != DT_REDUCE_SUM &&
        (value->type->partial & p->time)) {
        return dt_placelazy_before_all(&w->s, value,
                                       origin(value)); /* sums that are pending at the end are
                                                        * added up here */
    }
    if (is_grad && (result->store->type->partial & (uint16_t)~value->type->partial))
        value = dt_placelazy_keep_first(
            &w->s, value, result->store->type->partial & (uint16_t)~value->type->partial);
    if (result->store) {
        /* sums that the entry itself completes */
        const bool whole = is_update || dt_entry_predicts(entry->kind);
        uint16_t keep = whole || value->type->pending != DT_REDUCE_SUM ? 0 : UINT16_MAX;
        keep &= (uint16_t)~dt_placerule_bits(result->store->type);
        if (is_grad && result->store->type->partial) /* only `compress` completes them */
            keep &= result->store->type->partial;
        value = dt_placeconvert_to(&w->s, value,
                                   settled(&w->s, value, result->store->type, keep | p->time));
    } else if (dt_entry_predicts(entry->kind)) {
        value = dt_placeconvert_to(&w->s, value, output_type(&w->s, w->func, value));
    }
    if (is_grad && p->time && !(value->type->partial & p->time))
        value = dt_placelazy_keep_first(&w->s, value,
                                        p->time); /* each micro-batch has the whole value, so only
                                                   * one may add it */
    if (!is_update)
        result->accumulate = (value->type->partial & p->time) != 0 || (is_grad && !p->time);
    return value;
}

static bool place_entry(DtPlacer *p, DtEntryPoint *entry)
{
    const DtFunc *func = entry->func;
    bool *waits = DT_NEW_ARRAY(p->module->arena, bool, func->results.n + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        waits[i] = entry->kind == DT_ENTRY_GRAD || entry->kind == DT_ENTRY_LOSS ||
                   entry->kind == DT_ENTRY_EVAL;
    /* sums in an update are small; an optimizer marks the tensors that it needs whole */
    p->lazy = entry->kind == DT_ENTRY_UPDATE;
    Work w;
    begin(&w, p, func, NULL, dt_placelazy_of(func, waits, p->module->arena), "");
    p->top = w.s.b.func;
    if (!place_ops(&w))
        return false;
    for (uint32_t i = 0; i < func->results.n; i++) {
        DtValue *value = settle_result(&w, entry, i);
        if (!value)
            return false;
        dt_graph_return(p->top, value);
    }
    entry->func = finish(&w);
    dt_placelazy_finish(p, entry);
    return !p->failed;
}

/* Gives all stores (parameters with their gradients and moments, and states) the types that the
 * lines say. With a `compress` line sums of gradients stay pending over its ranks. */
static void place_stores(DtPlacer *p)
{
    const DtCompress *compress = &p->context->parallel->compress;
    uint16_t terms = 0;
    for (uint32_t i = 0; compress->function && i < compress->n_on; i++)
        terms |= (uint16_t)(1u << dt_mesh_find(&p->module->mesh, compress->on[i]));
    for (uint32_t i = 0; i < p->module->stores.n; i++) {
        DtStore *store = p->module->stores.at[i];
        store->type = dt_placerule_stored(
            p, dt_placerule_of(p, store->type, store->path, store->n_loops));
        if (store->kind == DT_STORE_GRAD && terms && !(dt_placerule_bits(store->type) & terms))
            store->type = dt_type_make(store->type->dtype, store->type->rank, store->type->axes,
                                       terms, DT_REDUCE_SUM);
    }
}

/* ---- the pass ---- */

/* After a diagnostic: restores the functions of entries and the types of stores, and removes the
 * mesh, so that the module can be verified and later passes have nothing to do. */
static void undo(DtModule *module, uint32_t n_funcs, DtFunc **entries, const DtType **types)
{
    module->mesh.n = 0;
    module->funcs.n = n_funcs;
    for (uint32_t i = 0; i < module->entries.n; i++)
        module->entries.at[i].func = entries[i];
    for (uint32_t i = 0; i < module->stores.n; i++)
        module->stores.at[i]->type = types[i];
}

static bool place_entries(DtPlacer *p)
{
    for (uint32_t i = 0; i < p->module->entries.n; i++)
        if (!place_entry(p, &p->module->entries.at[i]))
            return false;
    return true;
}

/* Returns the type of an operand or result of op that has too many axes for pass `expand` to add
 * the axes of ranks; NULL if there is none. */
static const DtType *without_room(const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_in + op->n_out; i++) {
        const DtType *type = (i < op->n_in ? op->in[i] : op->out[i - op->n_in])->type;
        if (type->rank + dt_zigzag_axes(type) > DT_MAX_RANK)
            return type;
    }
    return NULL;
}

/* Checks that pass `expand` can add axes for the ranks to each op along an axis in zigzag order.
 * Reports a diagnostic and returns false if one has no room for them. */
static bool check_zigzag(DtPlacer *p)
{
    for (uint32_t f = 0; f < p->module->funcs.n; f++) {
        const DtFunc *func = p->module->funcs.at[f];
        for (uint32_t i = 0; i < func->ops.n; i++) {
            const DtOp *op = func->ops.at[i];
            const DtType *full = dt_zigzag_is(op) ? without_room(op) : NULL;
            if (!full)
                continue;
            DtDiag *diag = dt_placerefuse_at(
                p, E0592, op->span,
                dt_arena_printf(p->module->arena,
                                "the zigzag order of a value with %d axes is not implemented yet",
                                full->rank));
            dt_diag_help(diag, "leave `order = zigzag` out, or make one axis of two");
            return false;
        }
    }
    return true;
}

bool dt_pass_place(DtModule *module, const DtPassContext *context)
{
    DtPlacer place = {.module = module, .context = context}, *p = &place;
    if (!context->parallel)
        return false;
    if (!dt_placerule_read(p, context->parallel)) {
        module->mesh.n = 0;
        return true;
    }
    uint32_t n_funcs = module->funcs.n;
    DtFunc **entries = DT_NEW_ARRAY(module->arena, DtFunc *, module->entries.n + 1);
    const DtType **types = DT_NEW_ARRAY(module->arena, const DtType *, module->stores.n + 1);
    for (uint32_t i = 0; i < module->entries.n; i++)
        entries[i] = module->entries.at[i].func;
    for (uint32_t i = 0; i < module->stores.n; i++)
        types[i] = module->stores.at[i]->type;
    place_stores(p);
    if (!place_entries(p) || !dt_placerule_check_fits(p) || !check_zigzag(p)) {
        undo(module, n_funcs, entries, types);
        return true;
    }
    for (uint32_t i = 0; i < p->more.n; i++)
        DT_PUSH(module->arena, module->entries, p->more.at[i]);
    dt_placerule_check_used(p);
    dt_placelint_check(p);
    dt_placeringless_check(p);
    dt_inline_drop(module);
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (!dt_graph_find(module, dt_intern(module->entries.at[i].name)))
            module->entries.at[i].func->name = dt_intern(module->entries.at[i].name);
    return true;
}
