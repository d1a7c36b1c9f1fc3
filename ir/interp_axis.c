/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: ops that move elements along axes and compute nothing (fold adds). Each visits every
 * place of its result and works out which element of the operand stands there; `fold` and `concat`
 * visit the places of their operands. Every computed position is checked against its axis. */
#include "ir/interp_eval.h"

#include "base/pairs.h"

/* ---- relabel ---- */

static int64_t coordinate(const DtInterp *interp, const DtOp *op, const DtWalk *walk,
                          const char *axis)
{
    int place = dt_walk_find(walk, axis);
    if (place < 0)
        dt_interp_fail(interp, op, "the result has no axis `%s`", axis);
    return walk->at[place];
}

/* Returns what the axes of one relabel entry add to the offset in the operand: takes the row-major
 * number of the place in the `to` axes apart, row-major over the `from` axes. */
static int64_t entry_offset(const DtInterp *interp, const DtOp *op, const DtRelabel *entry,
                            const DtWalk *walk, const DtType *operand)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < entry->n_to; i++)
        number = number * entry->to_extent[i] + coordinate(interp, op, walk, entry->to[i]);
    int64_t offset = 0;
    for (uint32_t i = entry->n_from; i-- > 0;) {
        uint32_t axis = dt_interp_axis(interp, op, operand, entry->from[i]);
        int64_t extent = operand->axes[axis].extent;
        offset += number % extent * dt_walk_stride(operand, axis);
        number /= extent;
    }
    if (number != 0)
        dt_interp_fail(interp, op, "an entry's new axes have more elements than its old ones");
    return offset;
}

/* Lists the old names of all entries in *ret_old, and the new names in *ret_new. */
static void entry_names(const DtInterp *interp, const DtOp *op, DtWalk *ret_old, DtWalk *ret_new)
{
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const DtRelabel *entry = &op->relabels[i];
        if (entry->n_from > DT_COUNT(entry->from) || entry->n_to > DT_COUNT(entry->to))
            dt_interp_fail(interp, op, "an entry with too many names");
        for (uint32_t k = 0; k < entry->n_from; k++)
            dt_walk_add_axis(ret_old, entry->from[k], 1);
        for (uint32_t k = 0; k < entry->n_to; k++)
            dt_walk_add_axis(ret_new, entry->to[k], 1);
    }
}

void dt_eval_relabel(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *type = in[0]->type;
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL), old = {0}, new = {0};
    entry_names(interp, op, &old, &new);
    /* strides of the axes that pass through; entries handle an axis whose name is both old and
     * new */
    int64_t strides[DT_WALK_AXES];
    dt_interp_strides(interp, op, &walk, type, old.rank, old.name, strides);
    if (dt_type_elements(type) != dt_type_elements(out[0]->type) ||
        type->rank - old.rank + new.rank != out[0]->type->rank)
        dt_interp_fail(interp, op,
                       "the entries do not lead from the operand's axes to the result's");
    double *result = out[0]->at;
    do {
        int64_t offset = dt_walk_offset(&walk, strides);
        for (uint32_t i = 0; i < op->n_relabels; i++)
            offset += entry_offset(interp, op, &op->relabels[i], &walk, type);
        if (offset >= dt_type_elements(type))
            dt_interp_fail(interp, op, "an axis is named twice");
        *result++ = in[0]->at[offset];
    } while (dt_walk_next(&walk));
}

/* ---- slice, pad, concat, expand ---- */

/* How a walk moves in a tensor: strides for each axis of the walk; and, for each axis of op->axes,
 * its place in the walk, its extent and its stride. */
typedef struct Moved {
    int64_t strides[DT_WALK_AXES]; /* strides along the axes that are not in op->axes; 0 along
                                    * those */
    uint32_t n;
    int place[DT_MAX_RANK];
    int64_t extent[DT_MAX_RANK], stride[DT_MAX_RANK];
} Moved;

static Moved moved_axes(const DtInterp *interp, const DtOp *op, const DtWalk *walk,
                        const DtType *type, uint32_t n)
{
    Moved moved = {.n = n};
    if (n > DT_MAX_RANK)
        dt_interp_fail(interp, op, "more axes than a tensor can have");
    dt_interp_strides(interp, op, walk, type, n, op->axes, moved.strides);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t axis = dt_interp_axis(interp, op, type, op->axes[i]);
        moved.place[i] = dt_walk_find(walk, op->axes[i]);
        if (moved.place[i] < 0)
            dt_interp_fail(interp, op, "the other side has no axis `%s`", op->axes[i]);
        moved.extent[i] = type->axes[axis].extent;
        moved.stride[i] = dt_walk_stride(type, axis);
    }
    return moved;
}

void dt_eval_slice(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL);
    Moved moved = moved_axes(interp, op, &walk, in[0]->type, op->n_axes);
    double *result = out[0]->at;
    do {
        int64_t offset = dt_walk_offset(&walk, moved.strides);
        for (uint32_t i = 0; i < moved.n; i++) {
            int64_t position = op->ranges[i].lo + op->ranges[i].step * walk.at[moved.place[i]];
            if (position < 0 || position >= moved.extent[i])
                dt_interp_fail(interp, op, "element %lld of `%s` is outside", (long long)position,
                               op->axes[i]);
            offset += position * moved.stride[i];
        }
        *result++ = in[0]->at[offset];
    } while (dt_walk_next(&walk));
}

void dt_eval_pad(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL);
    Moved moved = moved_axes(interp, op, &walk, in[0]->type, op->n_axes);
    double *result = out[0]->at;
    do {
        int64_t offset = dt_walk_offset(&walk, moved.strides);
        bool inside = true;
        for (uint32_t i = 0; i < moved.n; i++) {
            int64_t step = op->ranges[i].step,
                    distance = walk.at[moved.place[i]] - op->ranges[i].lo;
            if (step < 1)
                dt_interp_fail(interp, op, "a step of %lld", (long long)step);
            inside = inside && distance >= 0 && distance % step == 0 &&
                     distance / step < moved.extent[i];
            offset += inside ? distance / step * moved.stride[i] : 0;
        }
        *result++ = inside ? in[0]->at[offset] : op->number;
    } while (dt_walk_next(&walk));
}

void dt_eval_concat(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *type = out[0]->type;
    if (op->n_axes != 1)
        dt_interp_fail(interp, op, "concat has one axis");
    const char *axis = op->axes[0];
    uint32_t joined = dt_interp_axis(interp, op, type, axis);
    int64_t start = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        DtWalk walk = dt_interp_walk(interp, op, in[i]->type, NULL);
        int64_t extent = in[i]->type->axes[dt_interp_axis(interp, op, in[i]->type, axis)].extent;
        if (start + extent > type->axes[joined].extent)
            dt_interp_fail(interp, op, "the operands are longer than the result");
        int64_t strides[DT_WALK_AXES];
        dt_interp_strides(interp, op, &walk, type, 1, &axis, strides);
        strides[dt_walk_find(&walk, axis)] = dt_walk_stride(type, joined);
        double *to = out[0]->at + start * dt_walk_stride(type, joined);
        const double *from = in[i]->at;
        do {
            to[dt_walk_offset(&walk, strides)] = *from++;
        } while (dt_walk_next(&walk));
        start += extent;
    }
    if (start != type->axes[joined].extent)
        dt_interp_fail(interp, op, "the operands are shorter than the result");
}

void dt_eval_expand(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    dt_interp_spread(interp, op, in[0], out[0]);
}

double dt_interp_share(int64_t term, int64_t n)
{
    return 2 * (double)(term + 1) / (double)(n * (n + 1));
}

/* Any terms will do. The interpreters take shares of the sum, unequal ones. */
void dt_eval_terms(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const uint32_t axis = dt_interp_axis(interp, op, out[0]->type, op->axes[0]);
    const int64_t n = out[0]->type->axes[axis].extent;
    dt_interp_spread(interp, op, in[0], out[0]);
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL);
    double *at = out[0]->at;
    do
        *at++ *= dt_interp_share(walk.at[axis], n);
    while (dt_walk_next(&walk));
}

/* ---- windows ---- */

/* A window op and its transpose relate an element of `a` in the plain tensor to (a, w) in the
 * windowed one: plain position = a * stride + w - padding before. The walk is over the windowed
 * tensor. */
typedef struct Windows {
    DtWalk walk;
    int64_t strides[DT_WALK_AXES]; /* strides in the plain tensor, 0 along a */
    int a, w;
    int64_t extent, stride; /* extent and stride of a in the plain tensor */
    DtRange range;
} Windows;

static Windows windows_of(const DtInterp *interp, const DtOp *op, const DtType *plain,
                          const DtType *windowed)
{
    if (op->n_axes != 2 || op->axes[0] == op->axes[1] || dt_type_find(plain, op->axes[1]) >= 0)
        dt_interp_fail(interp, op, "the axes must be a and a new w");
    Windows windows = {.walk = dt_interp_walk(interp, op, windowed, NULL), .range = op->ranges[0]};
    dt_interp_strides(interp, op, &windows.walk, plain, 1, op->axes, windows.strides);
    windows.a = (int)dt_interp_axis(interp, op, windowed, op->axes[0]);
    windows.w = (int)dt_interp_axis(interp, op, windowed, op->axes[1]);
    uint32_t axis = dt_interp_axis(interp, op, plain, op->axes[0]);
    windows.extent = plain->axes[axis].extent;
    windows.stride = dt_walk_stride(plain, axis);
    return windows;
}

/* Returns the offset in the plain tensor of the element at the walk's present place; -1: it is
 * padding. */
static int64_t windows_offset(const Windows *windows)
{
    const int64_t *at = windows->walk.at;
    int64_t position = at[windows->a] * windows->range.step + at[windows->w] - windows->range.lo;
    if (position < 0 || position >= windows->extent)
        return -1;
    return dt_walk_offset(&windows->walk, windows->strides) + position * windows->stride;
}

void dt_eval_window(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    Windows windows = windows_of(interp, op, in[0]->type, out[0]->type);
    double *result = out[0]->at;
    do {
        int64_t offset = windows_offset(&windows);
        *result++ = offset < 0 ? op->number : in[0]->at[offset];
    } while (dt_walk_next(&windows.walk));
}

void dt_eval_fold(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    Windows windows = windows_of(interp, op, out[0]->type, in[0]->type);
    const double *from = in[0]->at;
    DtDtype dtype = out[0]->type->dtype;
    do {
        int64_t offset = windows_offset(&windows);
        if (offset >= 0)
            out[0]->at[offset] = dt_interp_partial(
                interp, dtype, dt_interp_binary(DT_OP_ADD, dtype, out[0]->at[offset], *from));
        from++;
    } while (dt_walk_next(&windows.walk));
}

void dt_eval_partner(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *type = out[0]->type;
    const uint32_t axis = dt_interp_axis(interp, op, type, op->axes[0]);
    const int64_t n = type->axes[axis].extent;
    int64_t inner = 1;
    for (uint32_t a = axis + 1; a < type->rank; a++)
        inner *= type->axes[a].extent;
    for (int64_t i = 0; i < dt_type_elements(type); i++) {
        const int64_t at = i / inner % n, from = dt_interp_partner(op, n, at);
        out[0]->at[i] = in[0]->at[i + (from - at) * inner];
    }
}

int64_t dt_interp_partner(const DtOp *op, int64_t n, int64_t i)
{
    return op->number > 0 ? dt_pairs_partner(n, (int64_t)op->number - 1, i)
                          : (i + (op->reverse ? 1 : n - 1)) % n;
}
