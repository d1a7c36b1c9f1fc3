/* SPDX-License-Identifier: Apache-2.0 */
/* Bound values: where calls stood, for placement.
 *
 * Arguments and results of a layer or a model follow the `shard` lines, and so do those of a
 * function that a limited line names (`shard attend.heads on ...`). Inlining would lose where they
 * are, so it puts a `bind` op there, the identity, whose text is the place: for every call,
 * outermost first, the instance's label and the function's name.
 *
 *   %y = call linear.1 "wq"(%x, %w)   =>   %a = bind(%x) text=wq:linear
 *                                          %b = dot[embed](%a, %w)
 *                                          %y = bind(%b) text=wq:linear
 *
 * Cotangents of these values are bound in the same way. Parameters, saved values and new states are
 * not: they follow their stores, or what reads them. */
#include "passes/place/bound.h"

#include "base/intern.h"

#include <string.h>

static const DtFunc *primal_of(const DtFunc *func) { return func->primal ? func->primal : func; }

static bool is_named(const DtPassContext *context, const DtOp *call)
{
    const char *name = dt_graph_source_name(primal_of(call->func));
    for (uint32_t i = 0; i < context->parallel->shards.n; i++) {
        const DtShard *shard = &context->parallel->shards.at[i];
        if (shard->n_place == 0)
            continue;
        const char *last = shard->place[shard->n_place - 1];
        if (last == name || (call->text && strcmp(last, call->text) == 0))
            return true;
    }
    return false;
}

bool dt_bound_is_wanted(const DtPassContext *context, const DtOp *call)
{
    if (!context || !context->parallel)
        return false;
    DtFuncKind kind = primal_of(call->func)->kind;
    return kind == DT_FUNC_LAYER || kind == DT_FUNC_MODEL ||
           (kind == DT_FUNC_FN && is_named(context, call));
}

const char *dt_bound_place(const DtOp *call)
{
    const DtFunc *primal = primal_of(call->func);
    if (primal->kind == DT_FUNC_BODY)
        return "";
    const char *name = dt_graph_source_name(primal);
    return call->text && *call->text ? dt_intern_printf("%s:%s", call->text, name) : name;
}

/* Whether operand i is marked with a `bind` op, for lines that name the call. For functions in a
 * layer these are arguments; for a function with a backward part also saved values that are
 * arguments. */
bool dt_bound_input(const DtOp *call, uint32_t i)
{
    const DtFunc *func = call->func, *primal = primal_of(func);
    if (func->seeds.n == 0) /* a forward function: binds its arguments */
        return i < primal->n_args;
    if (i >= func->saved.n)
        return func->seeds.at[i - func->saved.n] < primal->n_returns;
    const DtSaved saved = func->saved.at[i];
    return primal->kind == DT_FUNC_FN &&
           saved.index < (saved.is_input ? primal->n_args : primal->n_returns);
}

bool dt_bound_result(const DtOp *call, uint32_t i)
{
    const DtFunc *func = call->func, *primal = primal_of(func);
    if (func->seeds.n == 0)
        return i < primal->n_returns;
    return i < func->wanted.n && func->wanted.at[i] < primal->n_args;
}

DtValue *dt_bound_value(DtFunc *func, const DtOp *call, DtValue *x)
{
    DtBuilder b = {.func = func, .span = call->span, .path = call->path};
    DtValue *bound = dt_graph_unary(&b, DT_OP_BIND, x);
    bound->op->text = dt_bound_place(call);
    bound->name = x->name;
    return bound;
}
