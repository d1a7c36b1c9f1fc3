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

/* The late sum that it is, or the `done` of, whose term is wanted where the result is; NULL: it is none. */
static const DtOp *late_of(const DtValue *result)
{
    const DtOp *op = result->op;
    if (op && op->kind == DT_OP_DONE)
        op = op->in[0]->op;
    return op && op->late ? op : NULL;
}

/* What a result shows with its axes renamed and in another order, and nothing else does; NULL: there is none. */
static const DtValue *turned_by(const DtFunc *func, const DtValue *result)
{
    const DtOp *op = result->op;
    const DtValue *shown = op && op->kind == DT_OP_RELABEL ? op->in[0] : NULL;
    uint32_t uses = 0;
    if (!shown || !shown->op || shown->type->rank != result->type->rank || dt_op_is_inline(shown))
        return NULL;
    for (uint32_t i = 0; i < op->n_relabels; i++)
        if (op->relabels[i].n_from != 1 || op->relabels[i].n_to != 1)
            return NULL;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++)
            uses += func->ops.at[i]->in[j] == shown || func->ops.at[i]->in[j] == result;
    for (uint32_t i = 0; i < func->results.n; i++)
        uses += func->results.at[i] == shown || func->results.at[i] == result;
    return uses == 2 ? shown : NULL; /* the relabel and the result */
}

/* The result's name of an axis of what it shows. */
static const char *renamed(const DtOp *relabel, const char *axis)
{
    for (uint32_t i = 0; i < relabel->n_relabels; i++)
        if (relabel->relabels[i].from[0] == axis)
            return relabel->relabels[i].to[0];
    return axis;
}

/* A value that a result shows lies where the result is wanted, so that nothing is copied. */
static void want_turned(DtEmit *e, DtScope *scope, const DtValue *result, const DtWanted *wanted)
{
    const DtValue *shown = wanted->set && !wanted->accumulate && !wanted->old ? turned_by(scope->func, result) : NULL;
    if (!shown || scope->wanted[shown->id])
        return;
    DtWanted *turned = DT_NEW(e->scratch, DtWanted);
    *turned = *wanted;
    for (uint32_t d = 0; d < shown->type->rank; d++) {
        const int at = dt_view_find(&wanted->place.view, renamed(result->op, shown->type->axes[d].name));
        if (at < 0)
            return;
        turned->place.view.axis[d] = shown->type->axes[d].name;
        turned->place.view.extent[d] = wanted->place.view.extent[at];
        turned->place.view.stride[d] = wanted->place.view.stride[at];
    }
    scope->wanted[shown->id] = turned;
}

void dt_scope_want(DtEmit *e, DtScope *scope, uint32_t n, const DtWanted *wanted)
{
    DtValue *const *results = scope->func->results.at;
    for (uint32_t i = 0; i < n; i++)
        want_turned(e, scope, results[i], &wanted[i]);
    for (uint32_t i = 0; i < n; i++) {
        if (wanted[i].set && !scope->wanted[results[i]->id])
            scope->wanted[results[i]->id] = &wanted[i];
        const DtOp *late = late_of(results[i]);
        if (wanted[i].set && late)
            scope->wanted[late->in[0]->id] = &wanted[i];
    }
    for (uint32_t i = 0; i < n;
         i++) { /* what is added to holds more than the value that another result is, too */
        const DtWanted **slot = &scope->wanted[results[i]->id];
        if (*slot && *slot != &wanted[i] && (*slot)->accumulate)
            *slot = NULL;
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
            read->n += !func->ops.at[i]->late; /* that is in the result's memory */
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
        if (scope->func->results.at[i] == value && !(scope->early && scope->early[i]))
            return true;
    return false;
}
