/* SPDX-License-Identifier: Apache-2.0 */
/* Activity: which values need a cotangent at all.
 *
 * A value is active if it is a float that depends on an active input through differentiable ops,
 * useful if a seeded result depends on it through active values. Exactly the values that are both
 * get a cotangent; so integers, masks, tables of angles and running maxima behind `stop` cost
 * nothing in the backward part. Values carried by a loop are followed round until nothing changes,
 * which takes at most one round per carried value. */
#include "passes/grad/diff.h"

#include <string.h>

static bool same_bits(const bool *a, const bool *b, uint32_t n)
{
    if (a == NULL || b == NULL)
        return a == b;
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

static const bool *copy_bits(DtArena *arena, const bool *bits, uint32_t n)
{
    if (bits == NULL)
        return NULL;
    bool *copy = DT_NEW_ARRAY(arena, bool, n + 1);
    if (n > 0)
        memcpy(copy, bits, n * sizeof *bits);
    return copy;
}

static bool *gather_bits(DtArena *arena, const bool *by_id, uint32_t n, DtValue *const *values)
{
    bool *bits = DT_NEW_ARRAY(arena, bool, n + 1);
    for (uint32_t i = 0; i < n; i++)
        bits[i] = by_id[values[i]->id];
    return bits;
}

static bool any(const bool *bits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (bits[i])
            return true;
    return false;
}

static void op_forward(DtDiff *diff, DtActivity *a, const DtOp *op)
{
    bool *in = gather_bits(diff->arena, a->active, op->n_in, op->in);
    if (!any(in, op->n_in) || dt_diff_handler(op->kind) == NULL)
        return;
    const bool *out = NULL;
    if (op->kind == DT_OP_CALL)
        out = dt_activity_of(diff, op->func, in, NULL)->active_out;
    else if (op->kind == DT_OP_LOOP)
        out = dt_activity_loop(diff, op, in, NULL).body->active_out;
    for (uint32_t i = 0; i < op->n_out; i++)
        a->active[op->out[i]->id] =
            dt_dtype_is_float(op->out[i]->type->dtype) && (out == NULL || out[i]);
}

static void op_backward(DtDiff *diff, DtActivity *a, const DtOp *op)
{
    bool *out = DT_NEW_ARRAY(diff->arena, bool, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++)
        out[i] = a->active[op->out[i]->id] && a->useful[op->out[i]->id];
    if (!any(out, op->n_out))
        return;
    bool *in = gather_bits(diff->arena, a->active, op->n_in, op->in);
    const bool *wanted = in;
    if (op->kind == DT_OP_CALL)
        wanted = dt_activity_of(diff, op->func, in, out)->wanted;
    else if (op->kind == DT_OP_LOOP)
        wanted =
            /* skips input 0 of the body, the iteration number */
            dt_activity_loop(diff, op, in, out).body->wanted + 1;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (wanted[i])
            a->useful[op->in[i]->id] = true;
}

/* Decides the activity of a function whose gradient the program states: each float result is taken
 * to depend on each active input. */
static void by_statement(DtActivity *a)
{
    bool active = false, useful = false;
    for (uint32_t i = 0; i < a->func->inputs.n; i++)
        active = active || a->active[a->func->inputs.at[i]->id];
    for (uint32_t i = 0; i < a->func->results.n; i++) {
        const DtValue *result = a->func->results.at[i];
        a->active[result->id] = a->active_out[i] = active && dt_dtype_is_float(result->type->dtype);
        useful = useful || (a->active_out[i] && a->seeded && a->seeded[i]);
    }
    for (uint32_t i = 0; i < a->func->inputs.n; i++)
        a->wanted[i] = useful && a->active[a->func->inputs.at[i]->id];
}

static DtActivity *analyse(DtDiff *diff, const DtFunc *func, const bool *active_in,
                           const bool *seeded)
{
    DtArena *arena = diff->arena;
    DtActivity *a = DT_NEW(arena, DtActivity);
    a->func = func;
    a->active_in = copy_bits(arena, active_in, func->inputs.n);
    a->seeded = copy_bits(arena, seeded, func->results.n);
    a->active = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    a->useful = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        a->active[func->inputs.at[i]->id] =
            active_in[i] && dt_dtype_is_float(func->inputs.at[i]->type->dtype);
    for (uint32_t i = 0; i < func->ops.n; i++)
        op_forward(diff, a, func->ops.at[i]);
    a->active_out = gather_bits(arena, a->active, func->results.n, func->results.at);
    for (uint32_t i = 0; seeded != NULL && i < func->results.n; i++)
        if (seeded[i])
            a->useful[func->results.at[i]->id] = true;
    for (uint32_t i = func->ops.n; seeded != NULL && i-- > 0;)
        op_backward(diff, a, func->ops.at[i]);
    a->wanted = DT_NEW_ARRAY(arena, bool, func->inputs.n + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        a->wanted[i] = a->active[func->inputs.at[i]->id] && a->useful[func->inputs.at[i]->id];
    if (func->gradient)
        by_statement(a);
    return a;
}

const DtActivity *dt_activity_of(DtDiff *diff, const DtFunc *func, const bool *active_in,
                                 const bool *seeded)
{
    for (DtActivity *a = diff->activities; a != NULL; a = a->next)
        if (a->func == func && same_bits(a->active_in, active_in, func->inputs.n) &&
            same_bits(a->seeded, seeded, func->results.n))
            return a;
    dt_graph_renumber((DtFunc *)func);
    DtActivity *a = analyse(diff, func, active_in, seeded);
    a->next = diff->activities;
    diff->activities = a;
    return a;
}

/* Forward: a carried value is active from the second iteration on if its last value was; backward:
 * it is seeded in all but the last iteration if the next one wants it. */
DtLoopActivity dt_activity_loop(DtDiff *diff, const DtOp *op, const bool *active_in,
                                const bool *seeded)
{
    const DtFunc *body = op->func;
    const uint32_t n = op->loop->n_carried;
    DtLoopActivity a = {0};
    a.active_in = DT_NEW_ARRAY(diff->arena, bool, body->inputs.n + 1);
    memcpy(a.active_in + 1, active_in, op->n_in * sizeof *active_in);
    for (bool changed = true; changed;) {
        changed = false;
        a.body = dt_activity_of(diff, body, a.active_in, NULL);
        for (uint32_t i = 0; i < n; i++)
            if (a.body->active_out[i] && !a.active_in[1 + i])
                a.active_in[1 + i] = changed = true;
    }
    if (seeded == NULL)
        return a;
    const bool *active_out = a.body->active_out;
    a.seeded = DT_NEW_ARRAY(diff->arena, bool, body->results.n + 1);
    for (uint32_t i = 0; i < op->n_out; i++)
        a.seeded[i] = seeded[i] && active_out[i];
    for (bool changed = true; changed;) {
        changed = false;
        a.body = dt_activity_of(diff, body, a.active_in, a.seeded);
        for (uint32_t i = 0; i < n; i++)
            if (a.body->wanted[1 + i] && active_out[i] && !a.seeded[i])
                a.seeded[i] = changed = true;
    }
    return a;
}
