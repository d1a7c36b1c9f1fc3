/* SPDX-License-Identifier: Apache-2.0 */
/* Cotangents of axis operations: each moves elements, so its transpose moves them back and adds
 * where one element went to several places.
 *
 *   slice <-> pad    concat -> slices    window <-> fold    expand -> sum    relabel -> relabel */
#include "passes/diff.h"

#include "base/intern.h"

void dt_vjp_relabel(DtVjp *v)
{
    const DtOp *op = v->op;
    const DtType *type = op->in[0]->type;
    DtRelabel *back = DT_NEW_ARRAY(v->reverse->diff->arena, DtRelabel, op->n_relabels + 1);
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const DtRelabel *r = &op->relabels[i];
        back[i].n_from = r->n_to;
        back[i].n_to = r->n_from;
        for (uint32_t k = 0; k < r->n_to; k++)
            back[i].from[k] = r->to[k];
        for (uint32_t k = 0; k < r->n_from; k++) {
            back[i].to[k] = r->from[k];
            back[i].to_extent[k] = dt_type_extent(type, r->from[k]);
        }
    }
    v->ret[0] = dt_graph_relabel(&v->b, v->cotangent[0], op->n_relabels, back, type);
}

/* A slice that runs backwards or stands still: its elements are added to where they came from. */
static DtValue *slice_scatter(DtVjp *v, DtValue *g, const char *axis, DtRange range, int64_t extent)
{
    const char *from = dt_intern_printf("%s.from", axis);
    g = dt_graph_rename(&v->b, g, axis, from, NULL);
    DtValue *at = dt_graph_iota(&v->b, (DtAxis){.name = from, .extent = range.n});
    at =
        dt_graph_binary(&v->b, DT_OP_MUL, at, dt_graph_constant(&v->b, DT_I32, (double)range.step));
    at = dt_graph_binary(&v->b, DT_OP_ADD, at, dt_graph_constant(&v->b, DT_I32, (double)range.lo));
    DtAxis target = {.name = axis, .extent = extent};
    return dt_graph_scatter_add(&v->b, g, 1, &target, &at, 1, &from, NULL);
}

void dt_vjp_slice(DtVjp *v)
{
    DtValue *g = v->cotangent[0];
    for (uint32_t i = 0; i < v->op->n_axes; i++) {
        const DtRange r = v->op->ranges[i];
        const int64_t extent = dt_type_extent(v->op->in[0]->type, v->op->axes[i]);
        if (r.step > 0)
            g = dt_graph_pad(&v->b, g, v->op->axes[i], r.lo, extent - r.lo - (r.n - 1) * r.step - 1,
                             r.step, 0);
        else
            g = slice_scatter(v, g, v->op->axes[i], r, extent);
    }
    v->ret[0] = g;
}

void dt_vjp_pad(DtVjp *v)
{
    DtValue *g = v->cotangent[0];
    for (uint32_t i = 0; i < v->op->n_axes; i++) {
        const DtRange r = v->op->ranges[i];
        const int64_t extent = dt_type_extent(v->op->in[0]->type, v->op->axes[i]);
        g = dt_graph_slice(&v->b, g, v->op->axes[i], r.lo, r.step, extent);
    }
    v->ret[0] = g;
}

void dt_vjp_concat(DtVjp *v)
{
    const char *axis = v->op->axes[0];
    int64_t lo = 0;
    for (uint32_t i = 0; i < v->op->n_in; i++) {
        const int64_t n = dt_type_extent(v->op->in[i]->type, axis);
        if (v->active[i])
            v->ret[i] = dt_graph_slice(&v->b, v->cotangent[0], axis, lo, 1, n);
        lo += n;
    }
}

void dt_vjp_expand(DtVjp *v) { v->ret[0] = v->cotangent[0]; } /* the driver sums the new axes */

void dt_vjp_window(DtVjp *v)
{
    const char *axis = v->op->axes[0], *w = v->op->axes[1];
    v->ret[0] = dt_graph_fold(&v->b, v->cotangent[0], axis, w, v->op->ranges[0],
                              dt_type_extent(v->op->in[0]->type, axis));
}

void dt_vjp_fold(DtVjp *v)
{
    v->ret[0] = dt_graph_window(&v->b, v->cotangent[0], v->op->axes[0], v->op->axes[1],
                                v->op->ranges[0], 0);
}
