/* SPDX-License-Identifier: Apache-2.0 */
/* Changing loops in place; see loops.h. */
#include "passes/loops.h"

#include <string.h>

/* ---- copies ---- */

DtFunc *dt_loops_copy_func(DtFunc *func)
{
    DtModule *module = func->module;
    DtFunc *copy = dt_graph_func(module, func->name, func->kind);
    DtBuilder b = {.func = copy};
    dt_graph_renumber(func);
    DtValue **map = DT_NEW_ARRAY(module->arena, DtValue *, func->n_values + 1);
    copy->library = func->library;
    copy->span = func->span;
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        DtValue *input = func->inputs.at[i];
        map[input->id] = i < func->n_args
                             ? dt_graph_arg_like(copy, input->type, input)
                             : dt_graph_param(copy, input->type, func->params.at[i - func->n_args]);
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = map[op->in[k]->id];
        b.span = op->span;
        b.path = op->path;
        DtOp *made = dt_graph_copy(&b, op, in);
        if (op->kind == DT_OP_LOOP)
            made->func = dt_loops_copy_func(op->func);
        for (uint32_t k = 0; k < op->n_out; k++)
            map[op->out[k]->id] = made->out[k];
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        DT_PUSH(module->arena, copy->results, map[func->results.at[i]->id]);
    copy->n_returns = func->n_returns;
    for (uint32_t i = 0; i < func->writes.n; i++)
        DT_PUSH(module->arena, copy->writes, func->writes.at[i]);
    return copy;
}

void dt_loops_own(DtModule *module)
{
    DT_VEC(DtFunc *) owned = {0};
    const uint32_t n_funcs = module->funcs.n; /* the copies of bodies are new, so no other loop
                                               * shares them */
    for (uint32_t f = 0; f < n_funcs; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->ops.n; i++) {
            DtOp *op = module->funcs.at[f]->ops.at[i];
            if (op->kind != DT_OP_LOOP)
                continue;
            bool taken = false;
            for (uint32_t k = 0; k < owned.n; k++)
                taken = taken || owned.at[k] == op->func;
            if (taken)
                op->func = dt_loops_copy_func(op->func);
            DT_PUSH(module->arena, owned, op->func);
        }
}

/* ---- types ---- */

const DtType *dt_loops_stacked(const DtLoop *loop, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK + 1] = {{.name = loop->axis, .extent = loop->count}};
    for (uint32_t i = 0; i < type->rank; i++)
        axes[1 + i] = type->axes[i];
    return dt_type_make(type->dtype, type->rank + 1u, axes, type->partial, (DtReduce)type->pending);
}

const DtType *dt_loops_slice(const DtType *stacked)
{
    return dt_type_make(stacked->dtype, stacked->rank - 1u, stacked->axes + 1, stacked->partial,
                        (DtReduce)stacked->pending);
}

/* ---- operands and results ---- */

static DtArena *arena_of(const DtOp *loop) { return loop->func->module->arena; }

static DtValue *insert_input(DtFunc *body, uint32_t at, const DtType *type, const char *name)
{
    DtValue *input = DT_NEW(body->module->arena, DtValue);
    *input = (DtValue){.type = type, .name = name, .id = body->n_values++};
    DT_PUSH(body->module->arena, body->inputs, input);
    for (uint32_t i = body->inputs.n - 1; i > at; i--)
        body->inputs.at[i] = body->inputs.at[i - 1];
    body->inputs.at[at] = input;
    for (uint32_t i = at; i < body->inputs.n; i++)
        body->inputs.at[i]->index = i;
    body->n_args++;
    return input;
}

DtValue *dt_loops_take(DtOp *op, DtValue *outside, bool is_stacked, const char *name)
{
    DtLoop *loop = op->loop;
    const uint32_t first = is_stacked ? loop->n_carried + loop->n_invariant : loop->n_carried;
    const uint32_t end = is_stacked ? op->n_in : loop->n_carried + loop->n_invariant;
    for (uint32_t i = first; i < end; i++)
        if (op->in[i] == outside)
            return op->func->inputs.at[1 + i];
    DtValue **in = DT_NEW_ARRAY(arena_of(op), DtValue *, op->n_in + 1);
    memcpy(in, op->in, end * sizeof *in);
    in[end] = outside;
    memcpy(in + end + 1, op->in + end, (op->n_in - end) * sizeof *in);
    op->in = in;
    op->n_in++;
    if (is_stacked)
        loop->n_stacked++;
    else
        loop->n_invariant++;
    return insert_input(op->func, 1 + end,
                        is_stacked ? dt_loops_slice(outside->type) : outside->type, name);
}

DtValue *dt_loops_hand_out(DtFunc *func, DtOp *op, DtValue *inside)
{
    DtFunc *body = op->func;
    for (uint32_t i = op->loop->n_carried; i < op->n_out; i++)
        if (body->results.at[i] == inside)
            return op->out[i];
    DtValue **out = DT_NEW_ARRAY(arena_of(op), DtValue *, op->n_out + 1);
    DtValue *value = DT_NEW(arena_of(op), DtValue);
    *value = (DtValue){.type = dt_loops_stacked(op->loop, inside->type),
                       .op = op,
                       .index = op->n_out,
                       .name = inside->name,
                       .id = func->n_values++};
    memcpy(out, op->out, op->n_out * sizeof *out);
    out[op->n_out++] = value;
    op->out = out;
    op->loop->n_stacked_out++;
    DT_PUSH(arena_of(op), body->results, inside);
    body->n_returns = body->results.n;
    body->writes.n = 0;
    return value;
}

/* ---- pruning ---- */

/* Removes the stacked results of the loop that no op reads, from the loop and from its body;
 * returns whether there were any. used: by id of values of the function that contains the loop. */
static bool prune_results(DtOp *op, const bool *used)
{
    DtFunc *body = op->func;
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (i >= op->loop->n_carried && !used[op->out[i]->id])
            continue;
        op->out[n] = op->out[i];
        op->out[n]->index = n;
        body->results.at[n++] = body->results.at[i];
    }
    const bool any = n < op->n_out;
    op->loop->n_stacked_out -= op->n_out - n;
    op->n_out = body->results.n = body->n_returns = n;
    body->writes.n = 0;
    return any;
}

static bool prune_operands(DtOp *op)
{
    DtFunc *body = op->func;
    DtLoop *loop = op->loop;
    const uint32_t n_whole = loop->n_carried + loop->n_invariant;
    bool *used = DT_NEW_ARRAY(arena_of(op), bool, body->n_values + 1);
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_in; k++)
            used[body->ops.at[i]->in[k]->id] = true;
    for (uint32_t i = 0; i < body->results.n; i++)
        used[body->results.at[i]->id] = true;
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        DtValue *input = body->inputs.at[1 + i];
        if (i >= loop->n_carried && !used[input->id]) {
            if (i < n_whole)
                loop->n_invariant--;
            else
                loop->n_stacked--;
            continue;
        }
        op->in[n] = op->in[i];
        body->inputs.at[1 + n] = input;
        input->index = 1 + n++;
    }
    const bool any = n < op->n_in;
    op->n_in = n;
    body->inputs.n = body->n_args = 1 + n;
    body->params.n = 0; /* inputs of the body are in the order of the loop's operands */
    return any;
}

void dt_loops_prune(DtFunc *func)
{
    for (bool changed = true; changed;) {
        changed = false;
        dt_graph_sweep(func);
        dt_graph_renumber(func);
        bool *used = DT_NEW_ARRAY(func->module->arena, bool, func->n_values + 1);
        for (uint32_t i = 0; i < func->results.n; i++)
            used[func->results.at[i]->id] = true;
        for (uint32_t i = func->ops.n; i-- > 0;) {
            DtOp *op = func->ops.at[i];
            if (op->kind == DT_OP_LOOP) {
                changed = prune_results(op, used) || changed;
                dt_loops_prune(op->func);
                changed = prune_operands(op) || changed;
            }
            for (uint32_t k = 0; k < op->n_in; k++)
                used[op->in[k]->id] = true;
        }
    }
}
