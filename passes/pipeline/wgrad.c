/* SPDX-License-Identifier: Apache-2.0 */
/* A backward function in two parts, so that a schedule may compute the gradients of parameters
 * later.
 *
 * Purpose: bwd_x computes the cotangents of arguments, bwd_w those of parameters, from what bwd_x
 * leaves it.
 *
 *   func f.bwd(%x, %w, %h, %dy)     func f.bwd_x(%x, %w, %h, %dy)     func f.bwd_w(%x, %dh)
 *     %dh = mul(%dy, cos(%h))         %dh = mul(%dy, cos(%h))
 *     %dx = dot[f](%dh, %w)           %dx = dot[f](%dh, %w)
 *     %dw = dot[b](%dh, %x)                                             %dw = dot[b](%dh, %x)
 *     return %dx, %dw                 return %dx, %x, %dh               return %dw
 *
 * What argument cotangents depend on is *early*, the rest *delayed*. Values that delayed ops read
 * and that are inputs or early cross over: they are results of bwd_x after the argument cotangents,
 * and the inputs of bwd_w, in order. Inputs cross without copy. Views, constants and wider copies
 * that both parts read are made in both. A loop with early and delayed results becomes two: the
 * early one also gives, stacked, what crosses inside its body; carried values follow the part that
 * computes them; invariants and stacked operands are given to both.
 *
 * Requires: a bwd function; a call in it is early or delayed as a whole, which suits those of
 * functions that stream. Establishes: primal->bwd_x, bwd_w. Breaks: nothing. */
#include "passes/passes.h"

#include "base/intern.h"

#include <string.h>

typedef enum Part { PART_DEAD, PART_EARLY, PART_DELAYED, PART_BOTH, PART_SPLIT } Part;

typedef struct Slice Slice;

/* A value that the delayed part takes from the early one: a value of the function or, if `value` is
 * NULL, extra result number `extra` of the early half of the loop that is op number `op`. */
typedef struct Cross {
    const DtValue *value;
    uint32_t op, extra;
} Cross;

struct Slice {
    DtArena *arena;
    DtFunc *func;
    const DtLoop *loop; /* func is its body, else NULL */
    const bool *early_result, *delayed_result;
    bool *early, *delayed; /* per value id: some early (delayed) op or result reads it */
    Part *part;         /* per op */
    Slice **sub;        /* per op: of a split loop's body */
    DT_VEC(Cross) cross;
    /* by value id: the same value in the early, in the delayed function */
    DtValue **value[2];  /* by op: the extra results of a split loop */
    DtValue ***extra[2]; /* per op: the extras of a split loop */
};

/* ---- deciding ---- */

/* Whether both parts can compute the op at no cost. A widening cast is computed by the reader, so
 * that the narrow value crosses. */
static bool is_free(const DtOp *op)
{
    const bool widens = op->kind == DT_OP_CAST && dt_dtype_size(op->out[0]->type->dtype) >
                                                      dt_dtype_size(op->in[0]->type->dtype);
    return widens || op->kind == DT_OP_CONST || op->kind == DT_OP_IOTA ||
           (dt_op_info[op->kind].data == DT_DATA_VIEW && op->kind != DT_OP_PARAM);
}

static Slice *slice(DtArena *arena, DtFunc *func, const DtLoop *loop, const bool *early_result,
                    const bool *delayed_result);

/* Splits a loop's body into an early and a delayed half. A result is early if it is needed early
 * outside of the loop; carried values are in the halves that read them. */
static Slice *slice_loop(Slice *s, const DtOp *op)
{
    const uint32_t n = op->n_out;
    bool *early = DT_NEW_ARRAY(s->arena, bool, n + 1),
         *delayed = DT_NEW_ARRAY(s->arena, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        early[i] = s->early[op->out[i]->id];
        delayed[i] = !early[i] && s->delayed[op->out[i]->id];
    }
    for (;;) {
        bool changed = false;
        Slice *sub = slice(s->arena, op->func, op->loop, early, delayed);
        for (uint32_t i = 0; i < op->loop->n_carried; i++) {
            const uint32_t id = op->func->inputs.at[1 + i]->id;
            if (sub->early[id] && !early[i])
                early[i] = changed = true;
            if (sub->delayed[id] && !early[i] && !delayed[i])
                delayed[i] = changed = true;
            delayed[i] = delayed[i] && !early[i];
        }
        if (!changed)
            return sub;
    }
}

static bool any_of(const bool *by_id, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (by_id[op->out[i]->id])
            return true;
    return false;
}

static void demand(bool *by_id, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        by_id[op->in[i]->id] = true;
}

/* Marks the operands of a split loop as needed early, delayed or both, by the halves of the loop
 * that read them. */
static void demand_of_loop(Slice *s, const DtOp *op, const Slice *sub)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t id = op->func->inputs.at[1 + i]->id;
        const bool carried = i < op->loop->n_carried;
        if (carried ? sub->early_result[i] : sub->early[id])
            s->early[op->in[i]->id] = true;
        if (carried ? sub->delayed_result[i] : sub->delayed[id])
            s->delayed[op->in[i]->id] = true;
    }
}

static void slice_op(Slice *s, uint32_t index)
{
    const DtOp *op = s->func->ops.at[index];
    const bool early = any_of(s->early, op), delayed = any_of(s->delayed, op);
    if (op->kind == DT_OP_LOOP && early) {
        Slice *sub = s->sub[index] = slice_loop(s, op);
        s->part[index] = PART_SPLIT;
        demand_of_loop(s, op, sub);
        return;
    }
    const bool both = early && delayed && is_free(op);
    s->part[index] = both ? PART_BOTH : early ? PART_EARLY : delayed ? PART_DELAYED : PART_DEAD;
    if (early)
        demand(s->early, op);
    if (both || (delayed && !early))
        demand(s->delayed, op);
}

/* Whether the value is an input of a loop's body that both halves of the loop get as operand, since
 * it is not carried. */
static bool is_given(const Slice *s, const DtValue *input)
{
    return s->loop != NULL && (input->index == 0 || input->index > s->loop->n_carried);
}

static void find_cross(Slice *s)
{
    for (uint32_t i = 0; i < s->func->inputs.n; i++) {
        const DtValue *input = s->func->inputs.at[i];
        const bool delayed_carried =
            s->loop != NULL && i >= 1 && i <= s->loop->n_carried && s->delayed_result[i - 1];
        if (s->delayed[input->id] && !is_given(s, input) && !delayed_carried)
            DT_PUSH(s->arena, s->cross, ((Cross){.value = input}));
    }
    for (uint32_t i = 0; i < s->func->ops.n; i++) {
        const DtOp *op = s->func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out; k++) {
            const DtValue *out = op->out[k];
            const bool early = s->part[i] == PART_SPLIT ? s->sub[i]->early_result[k]
                                                        : s->part[i] == PART_EARLY;
            if (early && s->delayed[out->id])
                DT_PUSH(s->arena, s->cross, ((Cross){.value = out}));
        }
        for (uint32_t k = 0; s->part[i] == PART_SPLIT && k < s->sub[i]->cross.n; k++)
            DT_PUSH(s->arena, s->cross, ((Cross){.op = i, .extra = k}));
    }
}

static Slice *slice(DtArena *arena, DtFunc *func, const DtLoop *loop, const bool *early_result,
                    const bool *delayed_result)
{
    dt_graph_renumber(func);
    Slice *s = DT_NEW(arena, Slice);
    *s = (Slice){.arena = arena, .func = func, .loop = loop};
    bool *early = DT_NEW_ARRAY(arena, bool, func->results.n + 1),
         *delayed = DT_NEW_ARRAY(arena, bool, func->results.n + 1);
    memcpy(early, early_result, func->results.n * sizeof *early);
    memcpy(delayed, delayed_result, func->results.n * sizeof *delayed);
    s->early_result = early;
    s->delayed_result = delayed;
    s->early = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    s->delayed = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    s->part = DT_NEW_ARRAY(arena, Part, func->ops.n + 1);
    s->sub = DT_NEW_ARRAY(arena, Slice *, func->ops.n + 1);
    for (uint32_t i = 0; i < func->results.n; i++) {
        if (early[i])
            s->early[func->results.at[i]->id] = true;
        if (delayed[i])
            s->delayed[func->results.at[i]->id] = true;
    }
    for (uint32_t i = func->ops.n; i-- > 0;)
        slice_op(s, i);
    find_cross(s);
    for (int half = 0; half < 2; half++) {
        s->value[half] = DT_NEW_ARRAY(arena, DtValue *, func->n_values + 1);
        s->extra[half] = DT_NEW_ARRAY(arena, DtValue **, func->ops.n + 1);
    }
    return s;
}

/* ---- building ---- */

enum { EARLY, DELAYED };

static DtFunc *build(Slice *s, int half, const char *name);

/* Returns the name that an axis, called like the loop's, of a crossing value has outside of the
 * loop's body, where the value is stacked along the loop's axis. */
static const char *outer_name(const DtLoop *loop)
{
    return dt_intern_printf("%s.across", loop->axis);
}

static DtValue **crossing_place(Slice *s, const Cross *cross, int half)
{
    return cross->value != NULL ? &s->value[half][cross->value->id]
                                : &s->extra[half][cross->op][cross->extra];
}

static bool takes(const Slice *s, int half, const DtValue *input)
{
    const uint32_t i = input->index;
    if (s->loop == NULL)
        return half == EARLY;
    if (i == 0)
        return true;
    if (i <= s->loop->n_carried)
        return half == EARLY ? s->early_result[i - 1] : s->delayed_result[i - 1];
    return half == EARLY ? s->early[input->id] : s->delayed[input->id];
}

static DtOp *build_loop(Slice *s, int half, DtBuilder *b, uint32_t index)
{
    const DtOp *op = s->func->ops.at[index];
    Slice *sub = s->sub[index];
    const bool *result = half == EARLY ? sub->early_result : sub->delayed_result;
    DtLoop loop = *op->loop;
    DT_VEC(DtValue *) in = {0};
    loop.n_carried = loop.n_invariant = loop.n_stacked = loop.n_stacked_out = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!takes(sub, half, op->func->inputs.at[1 + i]))
            continue;
        DT_PUSH(s->arena, in, s->value[half][op->in[i]->id]);
        if (i < op->loop->n_carried)
            loop.n_carried++;
        else if (i < op->loop->n_carried + op->loop->n_invariant)
            loop.n_invariant++;
        else
            loop.n_stacked++;
    }
    for (uint32_t i = 0; half == DELAYED && i < sub->cross.n; i++, loop.n_stacked++)
        DT_PUSH(s->arena, in, s->extra[DELAYED][index][i]);
    for (uint32_t i = op->loop->n_carried; i < op->n_out; i++)
        loop.n_stacked_out += result[i];
    if (half == EARLY)
        loop.n_stacked_out += sub->cross.n;
    DtFunc *body = build(sub, half, op->func->name);
    DtOp *made = dt_graph_loop(b, body, loop, in.at);
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (result[i])
            s->value[half][op->out[i]->id] = made->out[n++];
    for (uint32_t i = 0; half == EARLY && i < sub->cross.n; i++)
        s->extra[EARLY][index][i] = made->out[n++];
    return made;
}

static void build_ops(Slice *s, int half, DtFunc *func)
{
    DtBuilder b = {.func = func};
    for (uint32_t i = 0; i < s->func->ops.n; i++) {
        const DtOp *op = s->func->ops.at[i];
        b.span = op->span;
        b.path = op->path;
        if (s->part[i] == PART_SPLIT) {
            bool any = half == EARLY;
            for (uint32_t k = 0; k < op->n_out; k++)
                any = any || s->sub[i]->delayed_result[k];
            if (any)
                build_loop(s, half, &b, i);
            continue;
        }
        if (s->part[i] != PART_BOTH && s->part[i] != (half == EARLY ? PART_EARLY : PART_DELAYED))
            continue;
        DtValue **in = DT_NEW_ARRAY(s->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = s->value[half][op->in[k]->id];
        const DtOp *copy = dt_graph_copy(&b, op, in);
        for (uint32_t k = 0; k < op->n_out; k++)
            s->value[half][op->out[k]->id] = copy->out[k];
    }
}

/* Adds an input for each crossing value to the delayed function. Inside a loop's body, an axis with
 * the loop's name has another name there. */
static void take_cross(Slice *s, DtFunc *func)
{
    DtBuilder b = {.func = func, .span = s->func->span};
    const uint32_t n = s->cross.n;
    DtValue **in = DT_NEW_ARRAY(s->arena, DtValue *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const DtValue *from = *crossing_place(s, &s->cross.at[i], EARLY);
        const DtType *type = from->type;
        DtAxis axes[DT_MAX_RANK];
        for (uint32_t k = 0; k < type->rank; k++) {
            axes[k] = type->axes[k];
            if (s->loop != NULL && axes[k].name == s->loop->axis)
                axes[k].name = outer_name(s->loop);
        }
        in[i] = dt_graph_arg(
            func,
            dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending),
            from->name);
    }
    for (uint32_t i = 0; i < n; i++) {
        const DtType *type = (*crossing_place(s, &s->cross.at[i], EARLY))->type;
        if (s->loop != NULL)
            in[i] = dt_graph_rename(&b, in[i], outer_name(s->loop), s->loop->axis, type);
        *crossing_place(s, &s->cross.at[i], DELAYED) = in[i];
    }
}

static void give_cross(Slice *s, DtFunc *func)
{
    DtBuilder b = {.func = func, .span = s->func->span};
    for (uint32_t i = 0; i < s->cross.n; i++) {
        DtValue *value = *crossing_place(s, &s->cross.at[i], EARLY);
        if (s->loop != NULL)
            value = dt_graph_rename(&b, value, s->loop->axis, outer_name(s->loop), NULL);
        dt_graph_return(func, value);
    }
}

static DtFunc *build(Slice *s, int half, const char *name)
{
    DtFunc *func = dt_graph_func(
        s->func->module, dt_intern_printf("%s_%c", name, half == EARLY ? 'x' : 'w'), s->func->kind);
    const bool *result = half == EARLY ? s->early_result : s->delayed_result;
    func->span = s->func->span;
    func->primal = s->func->primal;
    for (uint32_t i = 0; i < s->func->ops.n; i++)
        if (s->part[i] == PART_SPLIT)
            s->extra[half][i] = DT_NEW_ARRAY(s->arena, DtValue *, s->sub[i]->cross.n + 1);
    for (uint32_t i = 0; i < s->func->inputs.n; i++) {
        const DtValue *input = s->func->inputs.at[i];
        if (takes(s, half, input))
            s->value[half][input->id] = dt_graph_arg_like(func, input->type, input);
    }
    if (half == DELAYED)
        take_cross(s, func);
    build_ops(s, half, func);
    for (uint32_t i = 0; i < s->func->results.n; i++)
        if (result[i])
            dt_graph_return(func, s->value[half][s->func->results.at[i]->id]);
    if (half == EARLY)
        give_cross(s, func);
    dt_graph_renumber(func);
    return func;
}

void dt_wgrad_func(DtFunc *bwd, const bool *is_weight)
{
    DtArena *arena = bwd->module->arena;
    bool *early = DT_NEW_ARRAY(arena, bool, bwd->results.n + 1),
         *delayed = DT_NEW_ARRAY(arena, bool, bwd->results.n + 1);
    for (uint32_t i = 0; i < bwd->results.n; i++) {
        delayed[i] = is_weight[bwd->wanted.at[i]];
        early[i] = !delayed[i];
    }
    Slice *s = slice(arena, bwd, NULL, early, delayed);
    bwd->primal->bwd_x = build(s, EARLY, bwd->name);
    bwd->primal->bwd_w = build(s, DELAYED, bwd->name);
}
