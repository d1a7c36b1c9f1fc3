/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: gather and scatter_add. Axes of the same name in operand, indices and result are
 * walked together ("aligned"); an indexed axis takes its coordinate from the index tensor instead.
 * The index may itself have an axis with the name of the axis it indexes. */
#include "ir/interp_eval.h"

/* One indexed axis: the index at the current position, and the axis' stride in the tensor. */
typedef struct Indexed {
    const double *index;
    int64_t strides[DT_WALK_AXES]; /* strides in the index tensor */
    int64_t extent, stride;        /* stride along the axis in the indexed tensor */
} Indexed;

static Indexed *indexed_axes(DtInterp *interp, const DtOp *op, DtTensor *const *in,
                             const DtWalk *walk, const DtType *addressed)
{
    if (op->n_in != op->n_axes + 1)
        dt_interp_fail(interp, op, "%u indices for %u axes", op->n_in - 1, op->n_axes);
    Indexed *indexed = DT_NEW_ARRAY(interp->arena, Indexed, op->n_axes + 1);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        uint32_t axis = dt_interp_axis(interp, op, addressed, op->axes[i]);
        indexed[i].index = in[i + 1]->at;
        indexed[i].extent = addressed->axes[axis].extent;
        indexed[i].stride = dt_walk_stride(addressed, axis);
        dt_interp_strides(interp, op, walk, in[i + 1]->type, 0, NULL, indexed[i].strides);
    }
    return indexed;
}

/* Returns the offset that the indices give at the walk's present place; -1: one of them is out of
 * range. */
static int64_t indexed_offset(const Indexed *indexed, uint32_t n, const DtWalk *walk)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        double index = indexed[i].index[dt_walk_offset(walk, indexed[i].strides)];
        if (!(index >= 0 && index < (double)indexed[i].extent))
            return -1;
        offset += (int64_t)index * indexed[i].stride;
    }
    return offset;
}

void dt_eval_gather(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *type = in[0]->type;
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL);
    const Indexed *indexed = indexed_axes(interp, op, in, &walk, type);
    int64_t strides[DT_WALK_AXES];
    dt_interp_strides(interp, op, &walk, type, op->n_axes, op->axes, strides);
    double *result = out[0]->at;
    do {
        int64_t offset = indexed_offset(indexed, op->n_axes, &walk);
        *result++ = offset < 0 ? 0 : in[0]->at[offset + dt_walk_offset(&walk, strides)];
    } while (dt_walk_next(&walk));
}

/* Adds the elements of x to the result. The walk is over the axes of x, then those that only
 * indices have. Each axis of the walk is in the result or is summed (axes2); a summed axis may have
 * the name of a target axis. */
void dt_eval_scatter_add(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *type = out[0]->type;
    DtWalk walk = dt_interp_walk(interp, op, in[0]->type, NULL);
    for (uint32_t i = 1; i < op->n_in; i++)
        if (!dt_walk_add(&walk, in[i]->type))
            dt_interp_fail(interp, op, "index %u and x differ in an extent", i - 1);
    const Indexed *indexed = indexed_axes(interp, op, in, &walk, type);
    int64_t strides[DT_WALK_AXES], x_strides[DT_WALK_AXES];
    dt_interp_strides(interp, op, &walk, type, op->n_axes, op->axes, strides);
    dt_interp_strides(interp, op, &walk, in[0]->type, 0, NULL, x_strides);
    for (uint32_t i = 0; i < walk.rank; i++) {
        bool summed = false, target = false;
        for (uint32_t k = 0; k < op->n_axes2; k++)
            summed |= op->axes2[k] == walk.name[i];
        for (uint32_t k = 0; k < op->n_axes; k++)
            target |= op->axes[k] == walk.name[i];
        if (summed != (target || dt_type_find(type, walk.name[i]) < 0))
            dt_interp_fail(interp, op, "axis `%s` must be either summed away or in the result",
                           walk.name[i]);
    }
    do {
        int64_t offset = indexed_offset(indexed, op->n_axes, &walk);
        if (offset < 0)
            continue;
        double *to = &out[0]->at[offset + dt_walk_offset(&walk, strides)];
        *to = dt_interp_binary(DT_OP_ADD, type->dtype, *to,
                               in[0]->at[dt_walk_offset(&walk, x_strides)]);
        *to = dt_interp_partial(interp, type->dtype, *to);
    } while (dt_walk_next(&walk));
}
