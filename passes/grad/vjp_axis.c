/* SPDX-License-Identifier: Apache-2.0 */
/* Cotangents of axis operations: each moves elements, so its transpose moves them back and adds
 * where one element went to several places.
 *
 *   slice <-> pad    concat -> slices    window <-> fold    expand -> sum    relabel -> relabel */
#include "passes/grad/diff.h"

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

void dt_vjp_slice(DtVjp *v)
{
    DtValue *g = v->cotangent[0];
    for (uint32_t i = 0; i < v->op->n_axes; i++) {
        const DtRange r = v->op->ranges[i];
        const int64_t extent = dt_type_extent(v->op->in[0]->type, v->op->axes[i]);
        g = dt_graph_pad(&v->b, g, v->op->axes[i], r.lo, extent - r.lo - (r.n - 1) * r.step - 1,
                         r.step, 0);
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

/* the caller sums over axes that expand added */
void dt_vjp_expand(DtVjp *v) { v->ret[0] = v->cotangent[0]; }

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
