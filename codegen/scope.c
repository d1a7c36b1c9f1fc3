/* SPDX-License-Identifier: Apache-2.0 */
/* A function that is emitted: where its values lie, where its results are wanted, and who reads what. */
#include "codegen/emit.h"

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

void dt_scope_want(DtScope *scope, uint32_t n, const DtWanted *wanted)
{
    DtValue *const *results = scope->func->results.at;
    for (uint32_t i = 0; i < n; i++)
        if (wanted[i].set && !scope->wanted[results[i]->id])
            scope->wanted[results[i]->id] = &wanted[i];
    for (uint32_t i = 0; i < n;
         i++) { /* what is added to holds more than the value that another result is, too */
        const DtWanted **slot = &scope->wanted[results[i]->id];
        if (*slot && *slot != &wanted[i] && (*slot)->accumulate)
            *slot = NULL;
    }
}

/* ---- who reads what ---- */

/* What is done is the only one that reads what was started. */
static bool is_view(const DtOp *op)
{
    return dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in == 1 && op->kind != DT_OP_DONE;
}

/* The value whose memory value may share. */
const DtValue *dt_scope_root(const DtValue *value)
{
    while (value->op && is_view(value->op))
        value = value->op->in[0];
    return value;
}

/* What the functions below answer, for all values at once. */
const DtRead *dt_scope_reads(DtEmit *e, const DtValue *value)
{
    DtScope *scope = e->scope;
    const DtFunc *func = scope->func;
    if (scope->reads)
        return &scope->reads[value->id];
    DtRead *reads = scope->reads = DT_NEW_ARRAY(e->scratch, DtRead, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++) {
            const DtValue *in = func->ops.at[i]->in[j];
            reads[in->id].n++;
            reads[dt_scope_root(in)->id].last = i;
            if (func->ops.at[i]->kind != DT_OP_DONE)
                continue;
            reads[in->id].done = i;
            if (in->op->starts) /* until then it reads */
                reads[dt_scope_root(in->op->in[0])->id].held = i;
        }
    for (uint32_t i = 0; i < func->results.n; i++) {
        if (scope->early && scope->early[i])
            continue;
        reads[func->results.at[i]->id].is_result = true;
        reads[dt_scope_root(func->results.at[i])->id].last = UINT32_MAX;
    }
    return &reads[value->id];
}

/* Position of the last op that reads the memory of value, or up to which what was started does; UINT32_MAX if a result
 * of the function is that memory. */
uint32_t dt_scope_last_read(DtEmit *e, const DtValue *value)
{
    const DtRead *read = dt_scope_reads(e, value);
    return read->last > read->held ? read->last : read->held;
}

DtOp *dt_scope_done(DtEmit *e, const DtOp *start)
{
    const uint32_t done = dt_scope_reads(e, start->out[0])->done;
    return done ? e->scope->func->ops.at[done] : NULL;
}

void dt_scope_keep(DtEmit *e, const DtValue *value)
{
    dt_scope_reads(e, value);
    e->scope->reads[dt_scope_root(value)->id].last = UINT32_MAX;
}

uint32_t dt_scope_uses(DtEmit *e, const DtValue *value) { return dt_scope_reads(e, value)->n; }
