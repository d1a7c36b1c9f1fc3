/* SPDX-License-Identifier: Apache-2.0 */
/* Axis ops as index maps: reading the operand at an index that is a function of the result's index.
 * With i the result's index along each axis:
 *
 *   slice    operand[a] = lo + step i[a]           pad     operand[a] = (i[a] - lo) / step, exact
 *   window   operand[a] = stride i[a] + i[w] - lo  fold    operand[a] = (i[a] + lo - i[w]) / stride
 *   relabel  operand's indices are the digits of the row-major number that the new axes spell
 *   gather   operand[a] = value of the index       concat  whichever operand holds i[a]
 *
 * A read outside the operand gives the fill. */
#include "codegen/kernel_internal.h"

static const DtView *operand_view(DtKBuild *b, const DtValue *value)
{
    const DtView *view = b->in->view(b->in->context, value);
    if (!view)
        dt_kernel_fail(b, b->op, "the operand of an axis op must lie in memory");
    return view;
}

static int view_axis(DtKBuild *b, const DtView *view, const char *axis)
{
    for (uint32_t d = 0; d < view->rank; d++)
        if (view->axis[d] == axis)
            return (int)d;
    dt_kernel_fail(b, b->op, "the operand lacks an axis of the op");
}

static DtKIndex constant_index(int64_t base)
{
    return (DtKIndex){.base = base, .node = DT_KNONE, .bases = DT_KNONE};
}

/* Adds coef times the space's index along axis to the index. An axis that the space lacks has
 * extent 1 and adds nothing. */
static void add_term(DtKBuild *b, DtKIndex *index, const char *axis, int64_t coef)
{
    int at = dt_kernel_axis(b, axis);
    if (at >= 0)
        index->coef[at] += coef;
}

static void identities(DtKBuild *b, const DtView *view, const char *const *except,
                       uint32_t n_except, DtKIndex *ret_indices)
{
    for (uint32_t d = 0; d < view->rank; d++) {
        bool skip = false;
        for (uint32_t i = 0; i < n_except; i++)
            skip = skip || except[i] == view->axis[d];
        if (!skip)
            ret_indices[d] = dt_kernel_identity(b, view->axis[d]);
    }
}

static uint32_t slice(DtKBuild *b, const DtOp *op)
{
    const DtView *view = operand_view(b, op->in[0]);
    DtKIndex indices[DT_MAX_RANK];
    identities(b, view, op->axes, op->n_axes, indices);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        DtKIndex index = constant_index(op->ranges[i].lo);
        add_term(b, &index, op->axes[i], op->ranges[i].step);
        indices[view_axis(b, view, op->axes[i])] = index;
    }
    return dt_kernel_load(b, op->in[0], view, indices, 0);
}

static uint32_t pad(DtKBuild *b, const DtOp *op)
{
    const DtView *view = operand_view(b, op->in[0]);
    DtKIndex indices[DT_MAX_RANK];
    identities(b, view, op->axes, op->n_axes, indices);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int d = view_axis(b, view, op->axes[i]);
        DtKIndex index = constant_index(-op->ranges[i].lo);
        add_term(b, &index, op->axes[i], 1);
        index.div = op->ranges[i].step > 1 ? op->ranges[i].step : 0;
        index.exact = index.guard = true;
        index.extent = view->extent[d];
        indices[d] = index;
    }
    return dt_kernel_load(b, op->in[0], view, indices, op->number);
}

static uint32_t window(DtKBuild *b, const DtOp *op)
{
    const DtView *view = operand_view(b, op->in[0]);
    DtKIndex indices[DT_MAX_RANK];
    identities(b, view, op->axes, 1, indices);
    int d = view_axis(b, view, op->axes[0]);
    DtKIndex index = constant_index(-op->ranges[0].lo);
    add_term(b, &index, op->axes[0], op->ranges[0].step);
    add_term(b, &index, op->axes[1], 1);
    index.guard = op->ranges[0].lo > 0 || op->ranges[0].hi > 0;
    index.extent = view->extent[d];
    indices[d] = index;
    return dt_kernel_load(b, op->in[0], view, indices, op->number);
}

uint32_t dt_kernel_fold(DtKBuild *b, const DtOp *op)
{
    const DtView *view = operand_view(b, op->in[0]);
    DtKIndex indices[DT_MAX_RANK];
    identities(b, view, op->axes, 1, indices);
    int d = view_axis(b, view, op->axes[0]);
    DtKIndex index = constant_index(op->ranges[0].lo);
    add_term(b, &index, op->axes[0], 1);
    add_term(b, &index, op->axes[1], -1);
    index.div = op->ranges[0].step > 1 ? op->ranges[0].step : 0;
    index.exact = index.guard = true;
    index.extent = view->extent[d];
    indices[d] = index;
    return dt_kernel_load(b, op->in[0], view, indices, 0);
}

/* Returns the row-major number that the new axes of the relabel entry form, as an index that does
 * not belong to a dimension yet. */
static DtKIndex spelled(DtKBuild *b, const DtOp *op, const DtRelabel *entry)
{
    DtKIndex index = constant_index(0);
    const DtType *type = op->out[0]->type;
    int64_t stride = 1;
    for (uint32_t i = entry->n_to; i-- > 0;) {
        int d = dt_type_find(type, entry->to[i]);
        add_term(b, &index, entry->to[i], stride);
        stride *= dt_type_local_extent(type, (uint32_t)d, &b->in->module->mesh);
    }
    return index;
}

static uint32_t relabel(DtKBuild *b, const DtOp *op)
{
    const DtView *view = operand_view(b, op->in[0]);
    DtKIndex indices[DT_MAX_RANK];
    const char *named[DT_MAX_RANK];
    uint32_t n_named = 0;
    for (uint32_t e = 0; e < op->n_relabels; e++)
        for (uint32_t i = 0; i < op->relabels[e].n_from; i++)
            named[n_named++] = op->relabels[e].from[i];
    identities(b, view, named, n_named, indices);
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        const DtRelabel *entry = &op->relabels[e];
        DtKIndex number = spelled(b, op, entry);
        int64_t below = 1;
        for (uint32_t i = entry->n_from; i-- > 0;) {
            int d = view_axis(b, view, entry->from[i]);
            DtKIndex digit = number;
            digit.div = below > 1 ? below : 0;
            digit.mod = i > 0 ? view->extent[d] : 0;
            below *= view->extent[d];
            indices[d] = digit;
        }
    }
    return dt_kernel_load(b, op->in[0], view, indices, 0);
}

static uint32_t concat(DtKBuild *b, const DtOp *op)
{
    int at = dt_kernel_axis(b, op->axes[0]);
    DtKNode position = {.kind = DT_KNODE_IOTA, .dtype = DT_I32, .integer = DT_KNONE, .op = op};
    position.coef[at] = 1;
    position.axes = 1u << at;
    uint32_t here = dt_kernel_node(b, position), result = DT_KNONE;
    int64_t end = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtView *view = operand_view(b, op->in[i]);
        DtKIndex indices[DT_MAX_RANK];
        identities(b, view, op->axes, 1, indices);
        int d = view_axis(b, view, op->axes[0]);
        DtKIndex index = constant_index(-end);
        index.coef[at] = 1;
        index.guard = true;
        index.extent = view->extent[d];
        indices[d] = index;
        uint32_t piece = dt_kernel_load(b, op->in[i], view, indices, 0);
        if (i == 0) {
            result = piece;
        } else {
            uint32_t start = dt_kernel_number(b, DT_I32, (double)end);
            uint32_t before = dt_kernel_map(b, DT_OP_LT, DT_BOOL, 2, (uint32_t[]){here, start});
            result =
                dt_kernel_map(b, DT_OP_WHERE, view->dtype, 3, (uint32_t[]){before, result, piece});
        }
        end += view->extent[d];
    }
    return result;
}

static uint32_t gather(DtKBuild *b, const DtOp *op)
{
    const DtView *view = operand_view(b, op->in[0]);
    DtKIndex indices[DT_MAX_RANK];
    identities(b, view, op->axes, op->n_axes, indices);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int d = view_axis(b, view, op->axes[i]);
        DtKIndex index = constant_index(0);
        index.node = dt_kernel_value(b, op->in[i + 1]);
        index.guard = true;
        index.extent = view->extent[d];
        index.bases = dt_kernel_base(b, op->in[0]->type, op->axes[i]);
        indices[d] = index;
    }
    return dt_kernel_load(b, op->in[0], view, indices, 0);
}

uint32_t dt_kernel_index_map(DtKBuild *b, const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_RELABEL: /* reordering axes moves no elements */
        return op->n_relabels ? relabel(b, op) : dt_kernel_value(b, op->in[0]);
    case DT_OP_SLICE: return slice(b, op);
    case DT_OP_PAD: return pad(b, op);
    case DT_OP_WINDOW: return window(b, op);
    case DT_OP_CONCAT: return concat(b, op);
    case DT_OP_GATHER: return gather(b, op);
    default: dt_kernel_fail(b, op, "no kernel computes this op");
    }
}
