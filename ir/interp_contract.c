/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: contractions (dot, reduce, scan, topk). Each splits an index space in two: the kept
 * axes, walked outside, and the axes that disappear (or are scanned), whose offsets are listed once
 * in row-major order of the op's list and then run through for every outer place. */
#include "ir/interp_eval.h"

#include <math.h>
#include <stdlib.h>

/* Returns a walk over the axes in the op's list, with their extents in type. */
static DtWalk listed_axes(const DtInterp *interp, const DtOp *op, const DtType *type)
{
    DtWalk walk = {0};
    for (uint32_t i = 0; i < op->n_axes; i++) {
        uint32_t axis = dt_interp_axis(interp, op, type, op->axes[i]);
        if (!dt_walk_add_axis(&walk, op->axes[i], type->axes[axis].extent))
            dt_interp_fail(interp, op, "too many axes");
    }
    return walk;
}

/* Lists the offsets in a tensor of this type of all places of the walk, row-major; returns them. */
static int64_t *listed_offsets(DtInterp *interp, const DtOp *op, DtWalk walk, const DtType *type)
{
    int64_t *offsets = DT_NEW_ARRAY(interp->arena, int64_t, dt_walk_places(&walk)), *to = offsets;
    int64_t strides[DT_WALK_AXES];
    for (uint32_t i = 0; i < walk.rank; i++) {
        uint32_t axis = dt_interp_axis(interp, op, type, walk.name[i]);
        if (type->axes[axis].extent != walk.extent[i])
            dt_interp_fail(interp, op, "axis `%s` has two extents", walk.name[i]);
        strides[i] = dt_walk_stride(type, axis);
    }
    do {
        *to++ = dt_walk_offset(&walk, strides);
    } while (dt_walk_next(&walk));
    return offsets;
}

static void refuse_listed_in_result(const DtInterp *interp, const DtOp *op, const DtType *result)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (dt_type_find(result, op->axes[i]) >= 0)
            dt_interp_fail(interp, op, "summed axis `%s` is in the result", op->axes[i]);
}

void dt_eval_dot(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    DtDtype dtype = out[0]->type->dtype;
    refuse_listed_in_result(interp, op, out[0]->type);
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL),
           summed = listed_axes(interp, op, in[0]->type);
    int64_t strides[2][DT_WALK_AXES], *offsets[2], terms = dt_walk_places(&summed);
    for (uint32_t i = 0; i < 2; i++) {
        dt_interp_strides(interp, op, &walk, in[i]->type, op->n_axes, op->axes, strides[i]);
        offsets[i] = listed_offsets(interp, op, summed, in[i]->type);
    }
    bool is_float = dt_dtype_is_float(dtype);
    double *result = out[0]->at;
    do {
        const double *x = in[0]->at + dt_walk_offset(&walk, strides[0]);
        const double *y = in[1]->at + dt_walk_offset(&walk, strides[1]);
        double sum = 0;
        for (int64_t k = 0; k < terms; k++) {
            double a = x[offsets[0][k]], b = y[offsets[1][k]];
            if (is_float)
                sum = dt_interp_partial(interp, dtype, sum + a * b);
            else
                sum = dt_interp_binary(DT_OP_ADD, dtype, sum,
                                       dt_interp_binary(DT_OP_MUL, dtype, a, b));
        }
        *result++ = sum;
    } while (dt_walk_next(&walk));
}

const DtOpKind dt_interp_combining[] = {
    [DT_REDUCE_SUM] = DT_OP_ADD, [DT_REDUCE_MAX] = DT_OP_MAX, [DT_REDUCE_MIN] = DT_OP_MIN};

static DtOpKind combining_op(const DtInterp *interp, const DtOp *op)
{
    if ((unsigned)op->reduce >= DT_COUNT(dt_interp_combining))
        dt_interp_fail(interp, op, "no reduction %d", (int)op->reduce);
    return dt_interp_combining[op->reduce];
}

void dt_eval_reduce(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    DtDtype dtype = out[0]->type->dtype;
    DtOpKind combine = combining_op(interp, op);
    refuse_listed_in_result(interp, op, out[0]->type);
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL),
           listed = listed_axes(interp, op, in[0]->type);
    int64_t strides[DT_WALK_AXES], terms = dt_walk_places(&listed);
    dt_interp_strides(interp, op, &walk, in[0]->type, op->n_axes, op->axes, strides);
    const int64_t *offsets = listed_offsets(interp, op, listed, in[0]->type);
    double *result = out[0]->at;
    do {
        const double *x = in[0]->at + dt_walk_offset(&walk, strides);
        double value = x[offsets[0]];
        for (int64_t k = 1; k < terms; k++)
            value = dt_interp_partial(interp, dtype,
                                      dt_interp_binary(combine, dtype, value, x[offsets[k]]));
        *result++ = value;
    } while (dt_walk_next(&walk));
}

/* Returns a walk over the axes of type that the op does not list. */
static DtWalk other_axes(const DtInterp *interp, const DtOp *op, const DtType *type)
{
    DtWalk walk = {0}, listed = listed_axes(interp, op, type);
    for (uint32_t i = 0; i < type->rank; i++)
        if (dt_walk_find(&listed, type->axes[i].name) < 0)
            dt_walk_add_axis(&walk, type->axes[i].name, type->axes[i].extent);
    return walk;
}

void dt_eval_scan(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *types[2] = {in[0]->type, out[0]->type};
    DtWalk walk = other_axes(interp, op, types[0]), listed = listed_axes(interp, op, types[0]);
    int64_t strides[2][DT_WALK_AXES], *offsets[2], terms = dt_walk_places(&listed);
    for (uint32_t i = 0; i < 2; i++) {
        dt_interp_strides(interp, op, &walk, types[i], op->n_axes, op->axes, strides[i]);
        offsets[i] = listed_offsets(interp, op, listed, types[i]);
    }
    do {
        const double *from = in[0]->at + dt_walk_offset(&walk, strides[0]);
        double *to = out[0]->at + dt_walk_offset(&walk, strides[1]), sum = 0;
        for (int64_t i = 0; i < terms; i++) {
            int64_t k = op->reverse ? terms - 1 - i : i;
            sum = dt_interp_binary(DT_OP_ADD, types[1]->dtype, sum, from[offsets[0][k]]);
            sum = dt_interp_partial(interp, types[1]->dtype, sum);
            to[offsets[1][k]] = sum;
        }
    } while (dt_walk_next(&walk));
}

typedef struct Candidate {
    double value;
    int64_t index;
} Candidate;

/* For qsort: orders candidates of topk: NaN first, then larger values, then lower indices. The
 * order is total, so any sort gives the same result. */
static int compare_candidates(const void *left, const void *right)
{
    const Candidate *a = left, *b = right;
    bool a_nan = isnan(a->value), b_nan = isnan(b->value);
    if (a_nan != b_nan)
        return a_nan ? -1 : 1;
    if (!a_nan && a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

void dt_eval_topk(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    if (op->n_axes != 2 || op->n_out != 2)
        dt_interp_fail(interp, op, "topk has axes a and c, and two results");
    const DtType *type = in[0]->type;
    uint32_t searched = dt_interp_axis(interp, op, type, op->axes[0]);
    int64_t n = type->axes[searched].extent, from_stride = dt_walk_stride(type, searched);
    DtWalk walk = {0};
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != searched)
            dt_walk_add_axis(&walk, type->axes[i].name, type->axes[i].extent);
    int64_t in_strides[DT_WALK_AXES], out_strides[2][DT_WALK_AXES], to_stride[2], kept = 0;
    dt_interp_strides(interp, op, &walk, type, 1, &op->axes[0], in_strides);
    for (uint32_t i = 0; i < 2; i++) {
        dt_interp_strides(interp, op, &walk, out[i]->type, 1, &op->axes[1], out_strides[i]);
        uint32_t c = dt_interp_axis(interp, op, out[i]->type, op->axes[1]);
        to_stride[i] = dt_walk_stride(out[i]->type, c);
        if (out[i]->type->axes[c].extent > n || (i == 1 && out[i]->type->axes[c].extent != kept))
            dt_interp_fail(interp, op, "more results than candidates");
        kept = out[i]->type->axes[c].extent;
    }
    Candidate *candidates = DT_NEW_ARRAY(interp->arena, Candidate, n);
    do {
        const double *from = in[0]->at + dt_walk_offset(&walk, in_strides);
        for (int64_t i = 0; i < n; i++)
            candidates[i] = (Candidate){from[i * from_stride], i};
        qsort(candidates, (size_t)n, sizeof candidates[0], compare_candidates);
        for (int64_t k = 0; k < kept; k++) {
            out[0]->at[dt_walk_offset(&walk, out_strides[0]) + k * to_stride[0]] =
                candidates[k].value;
            out[1]->at[dt_walk_offset(&walk, out_strides[1]) + k * to_stride[1]] =
                (double)candidates[k].index;
        }
    } while (dt_walk_next(&walk));
}
