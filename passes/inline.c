/* SPDX-License-Identifier: Apache-2.0 */
/* Inlining.
 *
 * Purpose: replaces calls by the ops of their functions, so that later passes see entries and loop
 * bodies only.
 *
 *   %y = call mlp "mlp"(%x, %w)      =>    %h = dot[embed](%x, %w)    path mlp
 *                                          %y = tanh(%h)              path mlp
 *
 * Where a call stood that placement must know of, `bind` ops remain (bound.c).
 *
 * A call of a function that streams stays. Names keep their context: the label of a call becomes a
 * prefix of the paths of ops, of the sites of random draws, and of the labels of loops and of calls
 * that stay. Every op remembers the calls that it came through (DtOp.caller), and the name that a
 * call's result had becomes one more name of the value (DtOp.aliases): `remat` is written in terms
 * of both.
 *
 * Requires: a verified module. Establishes: only functions that an entry reaches are left; the only
 * calls left are of functions that stream. Breaks: DtFunc.primal may name a function that is no
 * longer in the module. */
#include "passes/place/bound.h"

#include "base/intern.h"
#include "ir/map.h"

#include <string.h>

typedef struct Inliner {
    const DtPassContext *context;
    DtArena *arena;
    DtMap done; /* functions */
} Inliner;

static const char *join(const char *prefix, const char *name)
{
    if (prefix == NULL || *prefix == 0)
        return name;
    if (name == NULL || *name == 0)
        return prefix;
    return dt_intern_printf("%s.%s", prefix, name);
}

bool dt_inline_keeps(const DtPassContext *context, const DtFunc *func)
{
    return func->stream != NULL && !(context && context->inline_streams);
}

/* Prefixes the path and the labels of an op, copied from the callee, with those of the call. */
static void relocate(Inliner *inliner, DtOp *op, const DtOp *call)
{
    const char *label = call->text;
    if (op->kind == DT_OP_BIND)
        op->text = join(dt_bound_place(call), op->text);
    if (label == NULL || *label == 0)
        return;
    if (op->kind == DT_OP_RNG || op->kind == DT_OP_CALL)
        op->text = join(label, op->text);
    if (op->kind == DT_OP_LOOP) {
        DtLoop *loop = DT_NEW(inliner->arena, DtLoop);
        *loop = *op->loop;
        loop->label = join(label, loop->label);
        op->loop = loop;
    }
}

static const DtCaller *new_caller(Inliner *inliner, const DtOp *call, const DtCaller *outer)
{
    DtCaller *caller = DT_NEW(inliner->arena, DtCaller);
    *caller = (DtCaller){.outer = outer,
                         .label = call->text,
                         .func = dt_graph_source_name(call->func),
                         .span = call->span};
    return caller;
}

/* The records of callers (DtCaller) of the callee's ops. Each gets a new record, with the inlined
 * call as its outermost caller. */
typedef struct Callers {
    const DtCaller *call;
    DtMap outside; /* by the callee's record: the new one */
} Callers;

static const DtCaller *caller_outside(Inliner *inliner, Callers *callers, const DtCaller *inside)
{
    if (inside == NULL)
        return callers->call;
    DtCaller *copy = dt_map_find_pointer(&callers->outside, inside);
    if (copy != NULL)
        return copy;
    copy = DT_NEW(inliner->arena, DtCaller);
    *copy = *inside;
    copy->outer = caller_outside(inliner, callers, inside->outer);
    dt_map_add_pointer(&callers->outside, inside, copy);
    return copy;
}

static void add_alias(Inliner *inliner, DtOp *op, uint32_t out, const char *name,
                      const DtCaller *caller)
{
    DtAlias *alias = DT_NEW(inliner->arena, DtAlias);
    *alias = (DtAlias){.next = op->aliases, .caller = caller, .name = name, .out = out};
    op->aliases = alias;
}

static void move_names(Inliner *inliner, Callers *callers, DtOp *copy, const DtOp *op)
{
    copy->caller = caller_outside(inliner, callers, op->caller);
    copy->aliases = NULL;
    for (const DtAlias *a = op->aliases; a != NULL; a = a->next)
        add_alias(inliner, copy, a->out, a->name, caller_outside(inliner, callers, a->caller));
}

/* Appends copies of the callee's ops to func, in place of the call. ret_results: the values of the
 * callee's results there. */
static void splice(Inliner *inliner, DtFunc *func, const DtOp *call, DtValue **ret_results)
{
    DtFunc *callee = call->func;
    DtValue **map = DT_NEW_ARRAY(inliner->arena, DtValue *, callee->n_values + 1);
    const char *prefix = join(call->path, call->text);
    const bool bound = dt_bound_is_wanted(inliner->context, call);
    DtBuilder b = {.func = func};
    Callers callers = {.call = new_caller(inliner, call, call->caller),
                       .outside.arena = inliner->arena};
    for (uint32_t i = 0; i < callee->inputs.n; i++)
        map[callee->inputs.at[i]->id] = bound && dt_bound_input(call, i)
                                            ? dt_bound_value(func, call, call->in[i])
                                            : call->in[i];
    for (uint32_t i = 0; i < callee->ops.n; i++) {
        const DtOp *op = callee->ops.at[i];
        DtValue **in = DT_NEW_ARRAY(inliner->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = map[op->in[k]->id];
        b.span = op->span;
        b.path = join(prefix, op->path);
        DtOp *copy = dt_graph_copy(&b, op, in);
        relocate(inliner, copy, call);
        move_names(inliner, &callers, copy, op);
        for (uint32_t k = 0; k < op->n_out; k++) {
            copy->out[k]->name = op->out[k]->name;
            map[op->out[k]->id] = copy->out[k];
        }
    }
    for (uint32_t i = 0; i < callee->results.n; i++) {
        DtValue *result = map[callee->results.at[i]->id];
        if (result->op != NULL && call->out[i]->name != NULL)
            add_alias(inliner, result->op, result->index, call->out[i]->name, call->caller);
        ret_results[i] =
            bound && dt_bound_result(call, i) ? dt_bound_value(func, call, result) : result;
    }
}

/* Appends the call to func as it is, between `bind` ops that mark its arguments and results as
 * such, for the lines that name them. map: by value id, what later ops read instead. */
static void keep_call(Inliner *inliner, DtFunc *func, DtOp *call, DtValue **map)
{
    const bool bound = dt_bound_is_wanted(inliner->context, call);
    for (uint32_t i = 0; bound && i < call->n_in; i++)
        if (dt_bound_input(call, i))
            call->in[i] = dt_bound_value(func, call, call->in[i]);
    if (call->caller == NULL)
        call->caller = new_caller(inliner, call, NULL);
    DT_PUSH(inliner->arena, func->ops, call);
    for (uint32_t i = 0; bound && i < call->n_out; i++)
        if (dt_bound_result(call, i))
            map[call->out[i]->id] = dt_bound_value(func, call, call->out[i]);
}

/* Replaces each call in func by the callee's ops; func's own ops stay the same objects. */
static void inline_ops(Inliner *inliner, DtFunc *func)
{
    DtValue **map = DT_NEW_ARRAY(inliner->arena, DtValue *, func->n_values + 1);
    const uint32_t n_old = func->n_values, n_ops = func->ops.n;
    DtOp **ops = func->ops.at;
    func->ops.at = NULL;
    func->ops.n = func->ops.cap = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        DtOp *op = ops[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            if (op->in[k]->id < n_old && map[op->in[k]->id] != NULL)
                op->in[k] = map[op->in[k]->id];
        if (op->kind != DT_OP_CALL) {
            DT_PUSH(inliner->arena, func->ops, op);
            continue;
        }
        if (dt_inline_keeps(inliner->context, op->func)) {
            keep_call(inliner, func, op, map);
            continue;
        }
        DtValue **results = DT_NEW_ARRAY(inliner->arena, DtValue *, op->n_out + 1);
        splice(inliner, func, op, results);
        for (uint32_t k = 0; k < op->n_out; k++)
            map[op->out[k]->id] = results[k];
    }
    for (uint32_t i = 0; i < func->results.n; i++) {
        const uint32_t id = func->results.at[i]->id;
        if (id < n_old && map[id] != NULL)
            func->results.at[i] = map[id];
    }
}

static void inline_func(Inliner *inliner, DtFunc *func)
{
    if (dt_map_find_pointer(&inliner->done, func) != NULL)
        return;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->func != NULL)
            inline_func(inliner, func->ops.at[i]->func);
    DtFunc *const streamed[] = {func->stream ? func->stream->part : NULL,
                                func->stream ? func->stream->merge : NULL,
                                func->stream ? func->stream->finish : NULL};
    for (uint32_t i = 0; i < DT_COUNT(streamed); i++)
        if (streamed[i] != NULL)
            inline_func(inliner, streamed[i]);
    bool any = false;
    for (uint32_t i = 0; i < func->ops.n; i++)
        any = any || func->ops.at[i]->kind == DT_OP_CALL;
    dt_graph_renumber(func);
    if (any) {
        inline_ops(inliner, func);
        dt_graph_sweep(func);
        dt_graph_renumber(func);
    }
    dt_map_add_pointer(&inliner->done, func, func);
}

void dt_inline_calls(DtFunc *func, const DtPassContext *context)
{
    Inliner inliner = {.context = context, .arena = func->module->arena,
                       .done.arena = func->module->arena};
    inline_func(&inliner, func);
}

typedef struct Reached {
    DT_VEC(DtFunc *) at; /* callees before callers */
    DtMap known;
} Reached;

static void mark(DtFunc *func, Reached *reached)
{
    if (dt_map_find_pointer(&reached->known, func) != NULL)
        return;
    DtFunc *const streamed[] = {func->stream ? func->stream->part : NULL,
                                func->stream ? func->stream->merge : NULL,
                                func->stream ? func->stream->finish : NULL};
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->func != NULL)
            mark(func->ops.at[i]->func, reached);
    if (func->fused)
        mark(func->fused, reached);
    for (uint32_t i = 0; i < DT_COUNT(streamed); i++)
        if (streamed[i] != NULL)
            mark(streamed[i], reached);
    dt_map_add_pointer(&reached->known, func, func);
    DT_PUSH(reached->known.arena, reached->at, func);
}

void dt_inline_drop(DtModule *module)
{
    Reached reached = {.known.arena = module->arena};
    for (uint32_t i = 0; i < module->entries.n; i++)
        mark(module->entries.at[i].func, &reached);
    module->funcs.at = reached.at.at;
    module->funcs.n = reached.at.n;
    module->funcs.cap = reached.at.cap;
    for (uint32_t i = 0; i < reached.at.n; i++) {
        DtFunc *func = reached.at.at[i];
        func->fwd = dt_map_find_pointer(&reached.known, func->fwd);
        func->bwd = dt_map_find_pointer(&reached.known, func->bwd);
        func->bwd_x = dt_map_find_pointer(&reached.known, func->bwd_x);
        func->bwd_w = dt_map_find_pointer(&reached.known, func->bwd_w);
    }
}

bool dt_pass_inline(DtModule *module, const DtPassContext *context)
{
    Inliner inliner = {.context = context, .arena = module->arena, .done.arena = module->arena};
    for (uint32_t i = 0; i < module->entries.n; i++)
        inline_func(&inliner, module->entries.at[i].func);
    dt_inline_drop(module);
    return true;
}
