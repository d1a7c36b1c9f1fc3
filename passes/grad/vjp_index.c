/* SPDX-License-Identifier: Apache-2.0 */
/* Cotangents of indexing: gather and scatter_add are each other's transpose; an index out of range
 * reads 0 and scatters nothing in both. */
#include "passes/grad/diff.h"

#include "base/intern.h"

/* The rows that were read get their cotangents added: every axis of an index that x keeps is
 * aligned, every other one is summed away. An index may itself have an axis called like an indexed
 * one: it is renamed. */
void dt_vjp_gather(DtVjp *v)
{
    const DtOp *op = v->op;
    const DtType *type = op->in[0]->type;
    DtArena *arena = v->reverse->diff->arena;
    DtValue *g = v->cotangent[0];
    DtValue **index = DT_NEW_ARRAY(arena, DtValue *, op->n_axes);
    DtAxis *targets = DT_NEW_ARRAY(arena, DtAxis, op->n_axes);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        index[i] = dt_diff_in(v, 1 + i);
        targets[i] = (DtAxis){.name = op->axes[i], .extent = dt_type_extent(type, op->axes[i])};
    }
    for (uint32_t k = 0; k < op->n_axes; k++) {
        const char *fresh = dt_intern_printf("%s.at", op->axes[k]);
        g = dt_graph_rename(&v->b, g, op->axes[k], fresh, NULL);
        for (uint32_t i = 0; i < op->n_axes; i++)
            index[i] = dt_graph_rename(&v->b, index[i], op->axes[k], fresh, NULL);
    }
    const char *summed[DT_MAX_RANK];
    uint32_t n_summed = 0;
    for (uint32_t i = 0; i < g->type->rank; i++) {
        const char *name = g->type->axes[i].name;
        if (dt_type_find(type, name) < 0)
            summed[n_summed++] = name;
    }
    v->ret[0] = dt_graph_scatter_add(&v->b, g, op->n_axes, targets, index, n_summed, summed, type);
}

void dt_vjp_scatter_add(DtVjp *v)
{
    const DtOp *op = v->op;
    DtValue **index = DT_NEW_ARRAY(v->reverse->diff->arena, DtValue *, op->n_axes);
    for (uint32_t i = 0; i < op->n_axes; i++)
        index[i] = dt_diff_in(v, 1 + i);
    v->ret[0] = dt_graph_gather(&v->b, v->cotangent[0], op->n_axes, op->axes, index);
}
