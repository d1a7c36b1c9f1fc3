/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of buckets. `pack` writes the local elements of several tensors (row-major, in memory
 * order) one behind the other, per place of the kept leading axes, and zeros after them up to the
 * bucket's extent; `unpack` is one tensor of a bucket again:
 *
 *   pack[layers](f32[layers, a=4/tp, b=2], f32[layers, c=6/tp])
 *     : f32[layers, @split=2/tp, @bucket=7]   2 + 2 + 3
 *   unpack[layers](that) number=4                               : f32[layers, c=6/tp]
 *
 * Axis `@split` has one place per rank of the mesh axes that split the operands (all by the same
 * ones, in any order) and is split by them; it is absent if there are none. So both ops are local,
 * and a bucket is an ordinary value of one flat axis per rank, which further mesh axes may split.
 * Kept axes may be split, too, in the same way in a bucket and its members: each rank then has the
 * buckets of some places. */
#include "base/intern.h"
#include "ir/shape.h"

#include <string.h>

/* Returns the bit set of the mesh axes that split the axes after the kept ones. */
static uint16_t all_splits(const DtShape *s, const DtType *type)
{
    uint16_t bits = 0;
    for (uint32_t i = s->op->n_axes; i < type->rank; i++)
        bits |= dt_shape_split_bits(&type->axes[i]);
    return bits;
}

/* Checks that the type begins with the op's axes. */
static bool keeps(DtShape *s, const DtType *type)
{
    for (uint32_t i = 0; i < s->op->n_axes; i++)
        if (i >= type->rank || type->axes[i].name != s->op->axes[i])
            return dt_shape_fail(s, "`%s` keeps axis `%s`, which does not lead in %s",
                                 dt_op_info[s->op->kind].text, s->op->axes[i],
                                 dt_shape_text(s, type));
    return true;
}

static bool are_split_alike(const DtAxis *a, const DtAxis *b)
{
    return a->extent == b->extent && a->n_split == b->n_split && a->zigzag == b->zigzag &&
           memcmp(a->split, b->split, a->n_split * sizeof a->split[0]) == 0;
}

/* Returns how many local elements a tensor has for each place of the kept axes; -1 on overflow. */
static int64_t length(const DtShape *s, const DtType *type)
{
    static const DtMesh none;
    int64_t n = 1;
    for (uint32_t i = s->op->n_axes; i < type->rank; i++)
        if (__builtin_mul_overflow(n, dt_type_local_extent(type, i, s->mesh ? s->mesh : &none), &n))
            return -1;
    return n;
}

/* Appends the axes @split and @bucket of a bucket for tensors like type. False after a reason. */
static bool add_bucket(DtShape *s, DtShapeType *t, const DtType *type, int64_t extent)
{
    DtAxis split = {.name = dt_intern("@split"), .extent = 1};
    DtAxis bucket = {.name = dt_intern("@bucket"), .extent = extent};
    uint16_t bits = all_splits(s, type);
    for (uint8_t m = 0; m < DT_MAX_MESH && s->mesh; m++) {
        if (!(bits >> m & 1))
            continue;
        if (split.n_split == DT_MAX_SPLIT)
            return dt_shape_fail(s, "a bucket is split over more than %d mesh axes", DT_MAX_SPLIT);
        split.split[split.n_split++] = m;
        split.extent *= s->mesh->axes[m].size;
    }
    return (!split.n_split || dt_shape_add(s, t, &split)) && dt_shape_add(s, t, &bucket);
}

/* Result: kept axes, @split, @bucket; the wish gives the extent of @bucket. */
bool dt_shape_pack(DtShape *s)
{
    const DtOp *op = s->op;
    if (op->n_in == 0)
        return dt_shape_fail(s, "`pack` of nothing");
    const DtType *first = op->in[0]->type, *wish = dt_shape_wish(s, 0);
    int64_t total = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtType *type = op->in[i]->type;
        if (!keeps(s, type))
            return false;
        bool alike = type->dtype == first->dtype && all_splits(s, type) == all_splits(s, first);
        for (uint32_t a = 0; a < op->n_axes; a++)
            alike = alike && are_split_alike(&type->axes[a], &first->axes[a]);
        int64_t n = length(s, type);
        if (!alike || n < 0 || __builtin_add_overflow(total, n, &total))
            return dt_shape_fail(s, "`pack` of %s beside %s", dt_shape_text(s, type),
                                 dt_shape_text(s, first));
    }
    DtShapeType t = {.dtype = first->dtype};
    for (uint32_t a = 0; a < op->n_axes; a++)
        if (!dt_shape_add(s, &t, &first->axes[a]))
            return false;
    bool sized = wish && wish->rank && wish->axes[wish->rank - 1].name == dt_intern("@bucket");
    int64_t extent = sized ? wish->axes[wish->rank - 1].extent : total;
    if (extent < total)
        return dt_shape_fail(s, "a bucket of %lld elements for %lld", (long long)extent,
                             (long long)total);
    if (!add_bucket(s, &t, first, extent) || !dt_shape_linear(s, &t, 0, op->n_in))
        return false;
    const char *problem = dt_type_check(t.dtype, t.rank, t.axes, t.partial, t.pending);
    if (problem)
        return dt_shape_fail(s, "`pack`: %s", problem);
    return dt_shape_finish(s, 0, &t);
}

/* Result: the wish, with the operand's pending reduction. */
bool dt_shape_unpack(DtShape *s)
{
    const DtType *x = s->op->in[0]->type, *y = dt_shape_wish(s, 0);
    if (!y)
        return dt_shape_fail(s, "`unpack` needs a result type");
    DtShapeType t = {.dtype = x->dtype, .partial = x->partial, .pending = (DtReduce)x->pending};
    if (!keeps(s, x) || !keeps(s, y))
        return false;
    for (uint32_t a = 0; a < s->op->n_axes; a++)
        if (!dt_shape_add(s, &t, &y->axes[a]))
            return false;
    const DtAxis *bucket = x->rank ? &x->axes[x->rank - 1] : NULL;
    if (!bucket || bucket->name != dt_intern("@bucket") || bucket->n_split ||
        !add_bucket(s, &t, y, bucket->extent))
        return dt_shape_fail(s, "`unpack` of %s, which is no whole bucket", dt_shape_text(s, x));
    const char *problem = dt_type_check(t.dtype, t.rank, t.axes, t.partial, t.pending);
    if (problem || dt_type_make(t.dtype, t.rank, t.axes, t.partial, t.pending) != x)
        return dt_shape_fail(s, "`unpack` of %s, which is no bucket of tensors like %s",
                             dt_shape_text(s, x), dt_shape_text(s, y));
    int64_t n = length(s, y);
    double offset = s->op->number;
    if (n < 0 || !(offset >= 0) || offset != (double)(int64_t)offset ||
        offset + (double)n > (double)bucket->extent)
        return dt_shape_fail(s, "`unpack` of %lld elements from element %.17g of %lld",
                             (long long)n, offset, (long long)bucket->extent);
    if (dt_type_check(y->dtype, y->rank, y->axes, x->partial, (DtReduce)x->pending) ||
        y->dtype != x->dtype)
        return dt_shape_fail(s, "`unpack` of %s cannot be %s", dt_shape_text(s, x),
                             dt_shape_text(s, y));
    s->out[0] = dt_type_make(y->dtype, y->rank, y->axes, x->partial, (DtReduce)x->pending);
    return true;
}
