/* SPDX-License-Identifier: Apache-2.0 */
/* Strides of values, and how view ops change them. */
#include "ir/view.h"

DtView dt_view_dense(const DtType *type, const DtMesh *mesh, uint32_t buffer)
{
    DtView view = {.buffer = buffer, .dtype = type->dtype, .rank = type->rank};
    int64_t stride = 1;
    for (uint32_t d = type->rank; d-- > 0;) {
        view.axis[d] = type->axes[d].name;
        view.extent[d] = dt_type_local_extent(type, d, mesh);
        view.stride[d] = stride;
        stride *= view.extent[d];
    }
    return view;
}

DtView dt_view_own(const DtValue *value, const DtMesh *mesh, uint32_t buffer)
{
    DtView view = dt_view_dense(value->type, mesh, buffer);
    const DtLies *lies = value->lies;
    int64_t stride = 1;
    for (uint32_t i = view.rank; lies && i-- > 0;) {
        const uint32_t d = lies->order[i];
        view.stride[d] = stride;
        stride = lies->row && i == lies->first ? lies->row : stride * view.extent[d];
    }
    return view;
}

bool dt_view_same_strides(const DtView *a, const DtView *b)
{
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->axis[d] != b->axis[d] ||
            (a->stride[d] != b->stride[d] && (a->extent[d] > 1 || b->extent[d] > 1)))
            return false;
    return a->rank == b->rank;
}

int64_t dt_view_span(const DtView *view)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < view->rank; d++)
        elements += (view->extent[d] - 1) * view->stride[d];
    return elements;
}

int dt_view_find(const DtView *view, const char *axis)
{
    for (uint32_t d = 0; d < view->rank; d++)
        if (view->axis[d] == axis)
            return (int)d;
    return -1;
}

int64_t dt_view_stride(const DtView *view, const char *axis)
{
    const int d = dt_view_find(view, axis);
    return d < 0 ? 0 : view->stride[d];
}

void dt_view_drop(DtView *view, uint32_t d)
{
    for (; d + 1 < view->rank; d++) {
        view->axis[d] = view->axis[d + 1];
        view->extent[d] = view->extent[d + 1];
        view->stride[d] = view->stride[d + 1];
    }
    view->rank--;
}

/* One side of a relabel: maps axes from the operand to the result or (back) from the result to the
 * operand. */
typedef struct Side {
    uint32_t n;
    const char *const *axis;
} Side;

static Side from_of(const DtRelabel *entry, bool back)
{
    return back ? (Side){entry->n_to, entry->to} : (Side){entry->n_from, entry->from};
}

/* Changes the axes of one relabel entry in `out`: digits of the row-major number over `from` become
 * digits over `to`. False: the `from` axes are no single strided run in memory. */
static bool relabel_entry(const DtType *type, const DtMesh *mesh, Side from, Side to,
                          const DtView *in, DtView *out)
{
    int64_t stride = 1, below = 1;
    for (uint32_t i = from.n; i-- > 0;) {
        int d = dt_view_find(in, from.axis[i]);
        if (i == from.n - 1)
            stride = in->stride[d];
        else if (in->extent[d] > 1 && in->stride[d] != stride * below)
            return false;
        below *= in->extent[d];
    }
    for (uint32_t i = to.n; i-- > 0;) {
        int t = dt_type_find(type, to.axis[i]);
        uint32_t d = out->rank++;
        out->axis[d] = to.axis[i];
        out->extent[d] = dt_type_local_extent(type, (uint32_t)t, mesh);
        out->stride[d] = stride;
        stride *= out->extent[d];
    }
    return true;
}

static bool is_relabelled(const DtOp *op, bool back, const char *axis)
{
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const Side from = from_of(&op->relabels[i], back);
        for (uint32_t j = 0; j < from.n; j++)
            if (from.axis[j] == axis)
                return true;
    }
    return false;
}

/* Puts the axes of a view in the order of type (which has the same ones). */
static void order_as(DtView *view, const DtType *type)
{
    const DtView copy = *view;
    for (uint32_t i = 0; i < type->rank; i++) {
        int d = dt_view_find(&copy, type->axes[i].name);
        view->axis[i] = copy.axis[d];
        view->extent[i] = copy.extent[d];
        view->stride[i] = copy.stride[d];
    }
}

static bool through_relabel(const DtOp *op, bool back, const DtMesh *mesh, DtView *view)
{
    const DtType *type = back ? op->in[0]->type : op->out[0]->type;
    const DtView in = *view;
    view->rank = 0;
    for (uint32_t d = 0; d < in.rank; d++)
        if (!is_relabelled(op, back, in.axis[d])) {
            view->axis[view->rank] = in.axis[d];
            view->extent[view->rank] = in.extent[d];
            view->stride[view->rank++] = in.stride[d];
        }
    for (uint32_t i = 0; i < op->n_relabels; i++)
        if (!relabel_entry(type, mesh, from_of(&op->relabels[i], back),
                           from_of(&op->relabels[i], !back), &in, view))
            return false;
    order_as(view, type);
    return true;
}

bool dt_view_behind(const DtOp *relabel, const DtMesh *mesh, DtView *view)
{
    const DtView result = *view;
    if (!through_relabel(relabel, true, mesh, view))
        return false;
    DtView there = *view;
    return through_relabel(relabel, false, mesh, &there) && dt_view_same_strides(&there, &result);
}

/* Returns the extent of operand i along the concat's axis. Its axes may be in another order than
 * the result's. */
static int64_t part_extent(const DtOp *concat, uint32_t i, const DtMesh *mesh)
{
    const DtType *type = concat->in[i]->type;
    return dt_type_local_extent(type, (uint32_t)dt_type_find(type, concat->axes[0]), mesh);
}

void dt_view_part(const DtOp *concat, uint32_t i, const DtMesh *mesh, DtView *view)
{
    const int d = dt_view_find(view, concat->axes[0]);
    for (uint32_t k = 0; k < i; k++)
        view->offset += part_extent(concat, k, mesh) * view->stride[d];
    view->extent[d] = part_extent(concat, i, mesh);
}

static void through_expand(const DtType *type, const DtMesh *mesh, DtView *view)
{
    for (uint32_t i = 0; i < type->rank; i++)
        if (dt_view_find(view, type->axes[i].name) < 0) {
            uint32_t d = view->rank++;
            view->axis[d] = type->axes[i].name;
            view->extent[d] = dt_type_local_extent(type, i, mesh);
            view->stride[d] = 0;
        }
    order_as(view, type);
}

void dt_view_in_bucket(const DtType *type, uint32_t kept, int64_t offset, const DtMesh *mesh,
                       DtView *view)
{
    int64_t stride = view->stride[view->rank - 1];
    view->offset += offset * stride;
    view->rank = type->rank;
    for (uint32_t i = type->rank; i-- > kept;) {
        view->axis[i] = type->axes[i].name;
        view->extent[i] = dt_type_local_extent(type, i, mesh);
        view->stride[i] = stride;
        stride *= view->extent[i];
    }
}

bool dt_view_through(const DtOp *op, const DtMesh *mesh, DtView *view)
{
    const DtType *type = op->out[0]->type;
    switch (op->kind) {
    case DT_OP_STOP: return true;
    case DT_OP_EXPAND:
    case DT_OP_TERMS: through_expand(type, mesh, view); return true; /* terms: one per rank */
    case DT_OP_RELABEL: return through_relabel(op, false, mesh, view);
    case DT_OP_SHARD:
        for (uint32_t i = 0; i < type->rank; i++)
            view->extent[dt_view_find(view, type->axes[i].name)] =
                dt_type_local_extent(type, i, mesh);
        return true;
    case DT_OP_UNPACK:
        dt_view_in_bucket(type, op->n_axes, (int64_t)op->number, mesh, view);
        return true;
    case DT_OP_SLICE:
        for (uint32_t i = 0; i < op->n_axes; i++) {
            int d = dt_view_find(view, op->axes[i]);
            view->offset += op->ranges[i].lo * view->stride[d];
            view->stride[d] *= op->ranges[i].step;
            view->extent[d] = op->ranges[i].n;
        }
        return true;
    default: return false;
    }
}
