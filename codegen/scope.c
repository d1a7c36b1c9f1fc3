/* SPDX-License-Identifier: Apache-2.0 */
/* The function being emitted: the places of its values, where its results are wanted, and who
 * reads what. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "ir/frame.h"

DtScope *dt_scope_new(DtEmit *e, const DtFunc *func, const DtLoop *loop, const char *path)
{
    DtScope *scope = DT_NEW(e->scratch, DtScope);
    scope->parent = e->scope;
    scope->func = func;
    scope->loop = loop;
    scope->path = path;
    scope->reg = e->scope ? e->scope->reg + (loop != NULL) : 0;
    scope->places = DT_NEW_ARRAY(e->scratch, DtPlace, func->n_values + 1);
    scope->wanted = DT_NEW_ARRAY(e->scratch, const DtWanted *, func->n_values + 1);
    scope->number = dt_note_numbers(e, func);
    return scope;
}

DtScope *dt_scope_run(DtEmit *e, const DtOp *op, const char *path)
{
    const DtScope *outer = e->scope;
    DtScope *scope = dt_scope_new(e, op->func, op->loop, path);
    scope->op = op;
    scope->framed = outer->framed && dt_frame_has(op);
    scope->base = outer->base + op->base;
    return scope;
}

/* For a result that is a late sum, or a `done` of one: the late sum, whose terms are added where
 * the result is wanted. Else NULL. */
static const DtOp *late_of(const DtValue *result)
{
    const DtOp *op = result->op;
    if (op && op->kind == DT_OP_DONE)
        op = op->in[0]->op;
    return op && op->late ? op : NULL;
}

void dt_scope_want(DtScope *scope, uint32_t n, const DtWanted *wanted)
{
    DtValue *const *results = scope->func->results.at;
    for (uint32_t i = 0; i < n; i++) {
        if (dt_graph_is_slotted(scope->func, results[i]))
            continue;
        if (wanted[i].set && !scope->wanted[results[i]->id])
            scope->wanted[results[i]->id] = &wanted[i];
        const DtOp *late = late_of(results[i]);
        if (wanted[i].set && late)
            scope->wanted[late->in[0]->id] = &wanted[i];
    }
    for (uint32_t i = 0; i < n;
         i++) { /* a value that is also accumulated elsewhere: that memory holds older terms too */
        const DtWanted **slot = &scope->wanted[results[i]->id];
        if (*slot && *slot != &wanted[i] && (*slot)->accumulate)
            *slot = NULL;
    }
}

void dt_scope_check(DtEmit *e, uint32_t n, const DtWanted *wanted)
{
    const DtFunc *func = e->scope->func;
    for (uint32_t i = 0; i < n; i++) {
        const DtValue *value = func->results.at[i];
        const DtPlace *place = dt_place_find(e, value);
        if (wanted[i].set && !dt_graph_is_slotted(func, value) &&
            (!place || !dt_place_same(place, &wanted[i].place) ||
             (wanted[i].accumulate && e->scope->wanted[value->id])))
            DT_BUG("result %u of `%s` is not where it belongs", i, func->name);
    }
}

static const DtRead *read_of(DtEmit *e, const DtValue *value)
{
    const DtFunc *func = e->scope->func;
    DtRead *reads = e->scope->reads;
    if (reads)
        return &reads[value->id];
    reads = e->scope->reads = DT_NEW_ARRAY(e->scratch, DtRead, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++) {
            DtRead *read = &reads[func->ops.at[i]->in[j]->id];
            read->n += !func->ops.at[i]->late; /* a late sum reads the result's own memory */
            if (func->ops.at[i]->kind == DT_OP_DONE)
                read->done = func->ops.at[i];
        }
    return &reads[value->id];
}

uint32_t dt_scope_reads(DtEmit *e, const DtValue *value) { return read_of(e, value)->n; }

const DtOp *dt_scope_done(DtEmit *e, const DtValue *started) { return read_of(e, started)->done; }

bool dt_scope_is_result(const DtEmit *e, const DtValue *value)
{
    const DtScope *scope = e->scope;
    for (uint32_t i = 0; i < scope->func->results.n; i++)
        if (scope->func->results.at[i] == value)
            return true;
    return false;
}
