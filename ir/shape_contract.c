/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of contractions and indexing: dot, reduce, scan, topk, gather, scatter_add.
 * Summing a split axis away leaves a reduction pending over the mesh axes that split it. */
#include "ir/shape.h"

#include <string.h>

static const char *op_name(const DtShape *s) { return dt_op_info[s->op->kind].text; }

static bool names_differ(DtShape *s, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!names[i])
            return dt_shape_fail(s, "`%s` has an axis without name", op_name(s));
        for (uint32_t k = 0; k < i; k++) {
            if (names[i] == names[k])
                return dt_shape_fail(s, "`%s` names axis `%s` twice", op_name(s), names[i]);
        }
    }
    return true;
}

static bool is_in(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (names[i] == name)
            return true;
    }
    return false;
}

static bool missing(DtShape *s, const char *axis, const DtType *type)
{
    return dt_shape_fail(s, "`%s` names axis `%s`, which %s does not have", op_name(s), axis,
                         dt_shape_text(s, type));
}

/* Removes axis name from t; a reduction over the mesh axes that split it becomes pending. False
 * after a reason. */
static bool sum_away(DtShape *s, DtShapeType *t, const char *name, DtReduce kind)
{
    int k = dt_shape_find(t, name);
    if (k < 0)
        return missing(s, name, s->op->in[0]->type);
    uint16_t bits = dt_shape_split_bits(&t->axes[k]);
    if (bits && t->partial && t->pending != kind)
        return dt_shape_fail(s, "`%s` would mix two kinds of pending reduction", op_name(s));
    if (bits)
        t->pending = kind;
    t->partial |= bits;
    dt_shape_remove(t, (uint32_t)k);
    return true;
}

/* ---- dot ---- */

static bool dot_dtype(DtShape *s, DtDtype *ret_dtype)
{
    const DtType *x = s->op->in[0]->type, *y = s->op->in[1]->type, *wish = dt_shape_wish(s, 0);
    if (x->dtype != y->dtype || !dt_dtype_is_float(x->dtype))
        return dt_shape_fail(s, "`dot` needs two operands of one float dtype and got %s and %s",
                             dt_shape_text(s, x), dt_shape_text(s, y));
    *ret_dtype = wish ? wish->dtype : x->dtype;
    if (*ret_dtype != x->dtype && *ret_dtype != DT_F32)
        return dt_shape_fail(s, "`dot` of %s gives %s or f32, not %s", dt_dtype_name(x->dtype),
                             dt_dtype_name(x->dtype), dt_dtype_name(*ret_dtype));
    return true;
}

/* Result: x's remaining axes, then y's new ones; the dtype of the wish (that of the operands, or
 * f32). */
bool dt_shape_dot(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *x = op->in[0]->type, *y = op->in[1]->type;
    DtShapeType t;
    DtDtype dtype = DT_F32;
    if (!dot_dtype(s, &dtype) || !names_differ(s, op->axes, op->n_axes))
        return false;
    dt_shape_start(&t, x);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        if (dt_type_find(x, op->axes[i]) < 0 || dt_type_find(y, op->axes[i]) < 0)
            return missing(s, op->axes[i], dt_type_find(x, op->axes[i]) < 0 ? x : y);
        const DtAxis *a = &x->axes[dt_type_find(x, op->axes[i])],
                     *b = &y->axes[dt_type_find(y, op->axes[i])];
        if (!dt_type_same_axis(a, b))
            return dt_shape_fail(s,
                                 "`dot` over `%s`, which is not alike in both operands: %s and %s",
                                 a->name, dt_shape_text(s, x), dt_shape_text(s, y));
    }
    if (!dt_shape_multilinear(s, &t))
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int k = dt_shape_find(&t, op->axes[i]);
        if (t.partial & dt_shape_split_bits(&t.axes[k]))
            return dt_shape_fail(s, "`dot` over `%s`, split over a mesh axis whose sum is pending",
                                 op->axes[i]);
        if (!sum_away(s, &t, op->axes[i], DT_REDUCE_SUM))
            return false;
    }
    for (uint32_t i = 0; i < y->rank; i++) {
        int k = dt_shape_find(&t, y->axes[i].name);
        if (is_in(op->axes, op->n_axes, y->axes[i].name))
            continue;
        if (k < 0 && !dt_shape_add(s, &t, &y->axes[i]))
            return false;
        if (k >= 0 && !dt_type_same_axis(&t.axes[k], &y->axes[i]))
            return dt_shape_fail(s, "axis `%s` is not alike in both operands of `dot`: %s and %s",
                                 y->axes[i].name, dt_shape_text(s, x), dt_shape_text(s, y));
    }
    t.dtype = dtype;
    return dt_shape_finish(s, 0, &t);
}

/* ---- reduce, scan, topk ---- */

/* Result: the remaining axes. Sums of 16-bit floats are f32; otherwise the dtype stays. */
bool dt_shape_reduce(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *x = op->in[0]->type;
    DtShapeType t;
    if ((unsigned)op->reduce > DT_REDUCE_MIN || !names_differ(s, op->axes, op->n_axes))
        return s->reason.len ? false : dt_shape_fail(s, "`reduce` has no known kind");
    if (!dt_shape_is_number(x->dtype))
        return dt_shape_fail(s, "`reduce` does not take %s", dt_dtype_name(x->dtype));
    if (x->partial && x->pending != op->reduce)
        return dt_shape_fail(s, "`reduce` of another kind than the pending reduction of %s",
                             dt_shape_text(s, x));
    dt_shape_start(&t, x);
    if (!dt_shape_linear(s, &t, 0, 1))
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        if (!sum_away(s, &t, op->axes[i], op->reduce))
            return false;
    }
    if (op->reduce == DT_REDUCE_SUM && (t.dtype == DT_F16 || t.dtype == DT_BF16))
        t.dtype = DT_F32;
    return dt_shape_finish(s, 0, &t);
}

/* Result: the operand's type. */
bool dt_shape_scan(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *x = op->in[0]->type;
    DtShapeType t;
    dt_shape_start(&t, x);
    if (!dt_shape_is_number(x->dtype))
        return dt_shape_fail(s, "`scan` does not take %s", dt_dtype_name(x->dtype));
    if (op->n_axes == 0)
        return dt_shape_fail(s, "`scan` names no axis");
    if (!names_differ(s, op->axes, op->n_axes))
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int k = dt_shape_find(&t, op->axes[i]);
        if (k < 0)
            return missing(s, op->axes[i], x);
        if (t.axes[k].n_split)
            return dt_shape_fail(s, "`scan` needs axis `%s` whole, and it is split", op->axes[i]);
    }
    if (x->partial && x->pending != DT_REDUCE_SUM)
        return dt_shape_complete(s, 0);
    return dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}

/* Returns the extent of axes[1] in the wish; 0: there is no wish for it. */
static int64_t topk_extent(const DtShape *s)
{
    const DtType *wish = dt_shape_wish(s, 0);
    int64_t extent = wish ? dt_type_extent(wish, s->op->axes[1]) : -1;
    return extent < 0 ? 0 : extent;
}

/* Results: axes[0] is replaced by axes[1], whose extent is that of the wish; the second result
 * is i32. */
bool dt_shape_topk(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *x = op->in[0]->type;
    DtShapeType t;
    dt_shape_start(&t, x);
    if (op->n_axes != 2 || !op->axes[0] || !op->axes[1])
        return dt_shape_fail(s, "`topk` needs two axes");
    if (!dt_shape_is_number(x->dtype))
        return dt_shape_fail(s, "`topk` does not take %s", dt_dtype_name(x->dtype));
    int k = dt_shape_find(&t, op->axes[0]);
    if (k < 0)
        return missing(s, op->axes[0], x);
    DtAxis c = {.name = op->axes[1], .extent = topk_extent(s)};
    if (c.extent < 1 || c.extent > t.axes[k].extent || t.axes[k].extent > INT32_MAX)
        return dt_shape_fail(s, "`topk` of %lld among %lld of axis `%s`", (long long)c.extent,
                             (long long)t.axes[k].extent, op->axes[0]);
    if (t.axes[k].n_split)
        return dt_shape_fail(s, "`topk` needs axis `%s` whole, and it is split", op->axes[0]);
    dt_shape_remove(&t, (uint32_t)k);
    if (!dt_shape_insert(s, &t, (uint32_t)k, &c) || !dt_shape_complete(s, 0) ||
        !dt_shape_finish(s, 0, &t))
        return false;
    t.dtype = DT_I32;
    return dt_shape_finish(s, 1, &t);
}

/* ---- gather, scatter_add ---- */

static bool check_indices(DtShape *s)
{
    const DtOp *op = s->op;
    if (op->n_axes == 0 || op->n_in != op->n_axes + 1)
        return dt_shape_fail(s, "`%s` needs one index for each of its axes", op_name(s));
    if (!names_differ(s, op->axes, op->n_axes))
        return false;
    for (uint32_t i = 1; i < op->n_in; i++) {
        if (op->in[i]->type->dtype != DT_I32)
            return dt_shape_fail(s, "index %u of `%s` is %s, not i32", i - 1, op_name(s),
                                 dt_shape_text(s, op->in[i]->type));
        if (!dt_shape_complete(s, i))
            return false;
    }
    return true;
}

/* Checks that axes of the indices that x keeps are equal there; adds the others to fresh. */
static bool gather_index_axes(DtShape *s, const DtShapeType *kept, DtShapeType *fresh)
{
    for (uint32_t i = 1; i < s->op->n_in; i++) {
        const DtType *index = s->op->in[i]->type;
        DtShapeType rest = {.dtype = DT_I32};
        for (uint32_t a = 0; a < index->rank; a++) {
            const DtAxis *axis = &index->axes[a];
            int k = dt_shape_find(kept, axis->name), f = dt_shape_find(fresh, axis->name);
            const DtAxis *other = k >= 0 ? &kept->axes[k] : f >= 0 ? &fresh->axes[f] : NULL;
            if (other && !dt_type_same_axis(other, axis))
                return dt_shape_fail(s,
                                     "axis `%s` of index %u of `gather` is not alike elsewhere: %s",
                                     axis->name, i - 1, dt_shape_text(s, index));
            if (!other && !dt_shape_add(s, &rest, axis))
                return false;
        }
        for (uint32_t a = 0; a < rest.rank; a++) {
            if (!dt_shape_add(s, fresh, &rest.axes[a]))
                return false;
        }
    }
    return true;
}

/* Result: the first indexed axis is replaced by the new axes of the indices, the others go. A
 * split indexed axis leaves a sum pending: each rank reads 0 for what it does not hold. */
bool dt_shape_gather(DtShape *s)
{
    const DtOp *op = s->op;
    DtShapeType t, fresh = {.dtype = DT_I32};
    if (op->n_in == 0 || !check_indices(s))
        return s->reason.len ? false : dt_shape_fail(s, "`gather` has no operand");
    dt_shape_start(&t, op->in[0]->type);
    if (!dt_shape_linear(s, &t, 0, 1))
        return false;
    uint32_t first = DT_MAX_RANK;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int k = dt_type_find(op->in[0]->type, op->axes[i]);
        if (k < 0)
            return missing(s, op->axes[i], op->in[0]->type);
        first = (uint32_t)k < first ? (uint32_t)k : first;
    }
    uint32_t at = first; /* no indexed axis stands before the first one */
    for (uint32_t i = 0; i < op->n_axes; i++) {
        if (!sum_away(s, &t, op->axes[i], DT_REDUCE_SUM))
            return false;
    }
    if (!gather_index_axes(s, &t, &fresh))
        return false;
    for (uint32_t i = 0; i < fresh.rank; i++) {
        if (!dt_shape_insert(s, &t, at + i, &fresh.axes[i]))
            return false;
    }
    return dt_shape_finish(s, 0, &t);
}

/* Sums axes2 away from t. *ret_at becomes the place of the first of them, or the end. */
static bool scatter_sum(DtShape *s, DtShapeType *t, uint32_t *ret_at)
{
    const DtOp *op = s->op;
    uint32_t first = DT_MAX_RANK;
    if (!names_differ(s, op->axes2, op->n_axes2))
        return false;
    for (uint32_t i = 0; i < op->n_axes2; i++) {
        int k = dt_type_find(op->in[0]->type, op->axes2[i]);
        if (k < 0)
            return missing(s, op->axes2[i], op->in[0]->type);
        first = (uint32_t)k < first ? (uint32_t)k : first;
        if (!sum_away(s, t, op->axes2[i], DT_REDUCE_SUM))
            return false;
    }
    *ret_at = first < t->rank ? first : t->rank;
    return true;
}

/* Result: x's axes with the first summed axis (the end, if none is) replaced by the target axes,
 * whose extents and splits are those of the wish. Indices have axes of x only. A sum of 16-bit
 * floats may be f32. */
bool dt_shape_scatter_add(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *wish = dt_shape_wish(s, 0);
    DtShapeType t, x;
    if (op->n_in == 0 || !check_indices(s))
        return s->reason.len ? false : dt_shape_fail(s, "`scatter_add` has no operand");
    if (!wish)
        return dt_shape_fail(s, "`scatter_add` needs a result type");
    if (!dt_shape_is_number(op->in[0]->type->dtype))
        return dt_shape_fail(s, "`scatter_add` does not add %s",
                             dt_dtype_name(op->in[0]->type->dtype));
    if (op->in[0]->type->partial && op->in[0]->type->pending != DT_REDUCE_SUM)
        return dt_shape_complete(s, 0);
    dt_shape_start(&x, op->in[0]->type);
    for (uint32_t i = 1; i < op->n_in; i++) {
        if (!dt_shape_merge(s, &x, op->in[i]->type))
            return false;
    }
    if (x.rank != op->in[0]->type->rank)
        return dt_shape_fail(s, "an index of `scatter_add` has axis `%s`, which %s does not have",
                             x.axes[x.rank - 1].name, dt_shape_text(s, op->in[0]->type));
    uint32_t at = 0;
    dt_shape_start(&t, op->in[0]->type);
    if (!dt_shape_linear(s, &t, 0, 1) || !scatter_sum(s, &t, &at))
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int k = dt_type_find(wish, op->axes[i]);
        if (k < 0)
            return missing(s, op->axes[i], wish);
        if (!dt_shape_insert(s, &t, at + i, &wish->axes[k]))
            return false;
    }
    if (op->n_axes2 && wish->dtype == DT_F32 && dt_dtype_is_float(t.dtype))
        t.dtype = DT_F32;
    return dt_shape_finish(s, 0, &t);
}
