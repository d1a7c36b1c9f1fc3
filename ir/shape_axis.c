/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of the axis operations: relabel, slice, pad, concat, expand, window, fold. All are
 * linear, so pending sums pass through them. Where elements of an axis meet or move across it,
 * that axis must be whole; elsewhere splits pass through. */
#include "ir/shape.h"

#include <string.h>

static const char *op_name(const DtShape *s) { return dt_op_info[s->op->kind].text; }

static bool needs_whole(DtShape *s, const DtAxis *axis)
{
    if (axis->n_split)
        return dt_shape_fail(s, "`%s` needs axis `%s` whole, and it is split", op_name(s),
                             axis->name);
    return true;
}

/* Returns the number of t's axis of that name; -1 after a reason. */
static int find(DtShape *s, const DtShapeType *t, const char *axis)
{
    int i = axis ? dt_shape_find(t, axis) : -1;
    if (i < 0)
        dt_shape_fail(s, "`%s` names axis `%s`, which its operand %s does not have", op_name(s),
                      axis ? axis : "?", dt_shape_text(s, s->op->in[0]->type));
    return i;
}

/* Checks that the fill is 0 if a sum is pending: each rank would add it. */
static bool fill_fits(DtShape *s)
{
    const DtType *x = s->op->in[0]->type;
    if (x->partial && (s->op->number != 0 || x->pending != DT_REDUCE_SUM))
        return dt_shape_complete(s, 0);
    if (x->dtype == DT_BOOL && s->op->number != 0 && s->op->number != 1)
        return dt_shape_fail(s, "`%s` fills bool with %g", op_name(s), s->op->number);
    if (!dt_dtype_is_float(x->dtype) && x->dtype != DT_BOOL &&
        !(s->op->number >= INT32_MIN && s->op->number <= INT32_MAX &&
          s->op->number == (double)(int64_t)s->op->number))
        return dt_shape_fail(s, "`%s` fills integers with %g", op_name(s), s->op->number);
    return true;
}

/* ---- relabel ---- */

static bool check_entry(DtShape *s, const DtRelabel *r)
{
    if (r->n_from > DT_COUNT(r->from) || r->n_to > DT_COUNT(r->to))
        return dt_shape_fail(s, "a `relabel` entry has more than 4 axes on one side");
    if (r->n_from + r->n_to == 0)
        return dt_shape_fail(s, "a `relabel` entry is empty");
    for (uint32_t i = 0; i < r->n_from + r->n_to; i++) {
        if (!(i < r->n_from ? r->from[i] : r->to[i - r->n_from]))
            return dt_shape_fail(s, "a `relabel` entry has an axis without name");
    }
    return true;
}

static int64_t mesh_size(const DtShape *s, uint32_t m)
{
    return s->mesh && m < s->mesh->n ? s->mesh->axes[m].size : 1;
}

/* Returns the axis of that name in the wish for the result; NULL: there is none. */
static const DtAxis *wished_axis(DtShape *s, const char *name)
{
    const DtType *wish = dt_shape_wish(s, 0);
    const int at = wish ? dt_type_find(wish, name) : -1;
    return at >= 0 ? &wish->axes[at] : NULL;
}

/* "@ring", "@ring.a" */
static bool counts_parts(const char *name)
{
    return strncmp(name, "@ring", 5) == 0 && (name[5] == 0 || name[5] == '.');
}

/* a/m.n~ -> (@ring/m.n, a): the parts of the ranks of the first mesh axes, as many as the wish says
 * or else as have so many ranks, also where the parts are no blocks of a (passes/place/ring.h). In
 * zigzag order what is left is in zigzag order itself: with n = n1 n2 ranks, the blocks i n2 + k
 * and 2n-1 - (i n2 + k), k < n2, are the blocks k and 2 n2-1 - k of what rank i of n1 would have,
 * blocks i and 2 n1-1 - i. Names with @ are the compiler's. */
static bool take_parts(DtShape *s, const DtAxis *from, DtAxis *to)
{
    const DtAxis *wished = wished_axis(s, to[0].name);
    int64_t ranks = 1;
    uint32_t n = 0;
    if (from->n_split == 0)
        return true;
    while (n < from->n_split && (wished ? n < wished->n_split : n == 0 || ranks < to[0].extent))
        ranks *= mesh_size(s, from->split[n++]);
    if (to[0].extent != ranks)
        return dt_shape_fail(s, "`relabel` takes `%s` apart otherwise than ranks have it",
                             from->name);
    to[0].n_split = (uint8_t)n;
    memcpy(to[0].split, from->split, n);
    to[1].n_split = (uint8_t)(from->n_split - n);
    memcpy(to[1].split, from->split + n, to[1].n_split);
    to[1].zigzag = from->zigzag;
    return true;
}

/* (@ring/m.n, a) -> a/m.n~: the other way round. Where no split is left in a the wish says whether
 * in zigzag order. */
static bool join_parts(DtShape *s, const DtAxis *from, DtAxis *to)
{
    const DtAxis *wished = wished_axis(s, to->name);
    if (from[0].n_split + from[1].n_split > DT_MAX_SPLIT || (from[1].n_split && !from[0].n_split))
        return dt_shape_fail(s, "`relabel` joins parts of `%s` that are split themselves",
                             to->name);
    to->n_split = (uint8_t)(from[0].n_split + from[1].n_split);
    memcpy(to->split, from[0].split, from[0].n_split);
    memcpy(to->split + from[0].n_split, from[1].split, from[1].n_split);
    to->zigzag = from[1].n_split ? from[1].zigzag : wished ? wished->zigzag : 0;
    return true;
}

/* Lists the mesh axes that split the `from` axes in *ret. An axis may be split after others only if
 * each rank has one element of those. Then each rank's part is one block of the merged axis. False
 * after a reason. */
static bool merge_splits(DtShape *s, const DtAxis *from, uint32_t n_from, DtAxis *ret)
{
    bool open = false;
    *ret = (DtAxis){.name = from[0].name};
    for (uint32_t i = 0; i < n_from; i++) {
        int64_t left = from[i].extent;
        if (from[i].n_split && (open || ret->n_split + from[i].n_split > DT_MAX_SPLIT))
            return dt_shape_fail(s, "`relabel` merges `%s`, which is split and not the major axis",
                                 from[i].name);
        for (uint32_t k = 0; k < from[i].n_split; k++) {
            ret->name = from[i].name;
            ret->zigzag = from[i].zigzag;
            ret->split[ret->n_split++] = from[i].split[k];
            left /= mesh_size(s, from[i].split[k]);
        }
        open = open || left > 1;
    }
    return true;
}

/* Distributes the mesh axes that split the merged axis over the `to` axes: to the first one while
 * they divide it, then to the next. False after a reason. */
static bool hand_splits(DtShape *s, const DtAxis *from, uint32_t n_from, DtAxis *to, uint32_t n_to)
{
    DtAxis x;
    if (n_from + n_to == 3 && counts_parts(n_to == 2 ? to[0].name : from[0].name))
        return n_to == 2 ? take_parts(s, from, to) : join_parts(s, from, to);
    if (!merge_splits(s, from, n_from, &x))
        return false;
    if (x.n_split && x.zigzag && n_from + n_to > 2)
        return dt_shape_fail(s, "`relabel` splits or merges `%s`, which is split in zigzag order",
                             x.name);
    uint32_t at = 0;
    int64_t left = n_to ? to[0].extent : 1;
    for (uint32_t i = 0; i < x.n_split; i++) {
        int64_t size = mesh_size(s, x.split[i]);
        while (n_from + n_to > 2 && at + 1 < n_to && left == 1 && size > 1)
            left = to[++at].extent;
        if (at == n_to || (n_from + n_to > 2 && left % size != 0))
            return dt_shape_fail(s, "`relabel` cannot hand the split of `%s` to its new axes",
                                 x.name);
        to[at].split[to[at].n_split++] = x.split[i];
        to[at].zigzag = x.zigzag;
        left /= size;
    }
    return true;
}

/* Number of the entry that takes axis name, -1 if none does, -2 after a reason if it is taken
 * twice. */
static int entry_of(DtShape *s, const char *name)
{
    int found = -1;
    for (uint32_t e = 0; e < s->op->n_relabels; e++) {
        for (uint32_t i = 0; i < s->op->relabels[e].n_from; i++) {
            if (s->op->relabels[e].from[i] != name)
                continue;
            if (found >= 0) {
                dt_shape_fail(s, "`relabel` takes axis `%s` twice", name);
                return -2;
            }
            found = (int)e;
        }
    }
    return found;
}

/* Fills `to` with the `to` axes of one entry, with extents and splits. False after a reason. */
static bool entry_axes(DtShape *s, const DtRelabel *r, const DtShapeType *x, DtAxis to[4])
{
    DtAxis from[4];
    int64_t before = 1, after = 1;
    for (uint32_t i = 0; i < r->n_from; i++) {
        int k = find(s, x, r->from[i]);
        if (k < 0 || entry_of(s, r->from[i]) == -2)
            return false;
        from[i] = x->axes[k];
        before *= from[i].extent;
    }
    for (uint32_t i = 0; i < r->n_to; i++) {
        to[i] = (DtAxis){.name = r->to[i], .extent = r->to_extent[i]};
        if (to[i].extent < 1 || __builtin_mul_overflow(after, to[i].extent, &after))
            return dt_shape_fail(s, "`relabel` gives axis `%s` no valid extent", to[i].name);
    }
    if (before != after)
        return dt_shape_fail(s, "`relabel` turns %lld elements along its axes into %lld",
                             (long long)before, (long long)after);
    return r->n_from == 0 || hand_splits(s, from, r->n_from, to, r->n_to);
}

static bool add_all(DtShape *s, DtShapeType *t, const DtAxis *axes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!dt_shape_add(s, t, &axes[i]))
            return false;
    }
    return true;
}

/* Result: the to axes stand where the first from axis stood; new axes come last. */
bool dt_shape_relabel(DtShape *s)
{
    DtAxis to[2 * DT_MAX_RANK][4];
    DtShapeType x, t = {.dtype = s->op->in[0]->type->dtype};
    dt_shape_start(&x, s->op->in[0]->type);
    const DtRelabel *entries = s->op->relabels;
    if (s->op->n_relabels > DT_COUNT(to))
        return dt_shape_fail(s, "`relabel` has more than %zu entries", DT_COUNT(to));
    for (uint32_t e = 0; e < s->op->n_relabels; e++) {
        if (!check_entry(s, &entries[e]) || !entry_axes(s, &entries[e], &x, to[e]))
            return false;
    }
    for (uint32_t i = 0; i < x.rank; i++) {
        int e = entry_of(s, x.axes[i].name);
        if (e == -1 && !dt_shape_add(s, &t, &x.axes[i]))
            return false;
        if (e >= 0 && entries[e].from[0] == x.axes[i].name &&
            !add_all(s, &t, to[e], entries[e].n_to))
            return false;
    }
    for (uint32_t e = 0; e < s->op->n_relabels; e++) {
        if (entries[e].n_from == 0 && !add_all(s, &t, to[e], entries[e].n_to))
            return false;
    }
    return dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}

/* ---- slice, pad ---- */

static bool check_axes_differ(DtShape *s)
{
    for (uint32_t i = 0; i < s->op->n_axes; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (s->op->axes[i] == s->op->axes[k])
                return dt_shape_fail(s, "`%s` names axis `%s` twice", op_name(s), s->op->axes[i]);
        }
    }
    return s->op->n_axes == 0 || s->op->ranges ? true
                                               : dt_shape_fail(s, "`%s` has no ranges", op_name(s));
}

static bool slice_axis(DtShape *s, DtAxis *axis, const DtRange *r)
{
    int64_t last;
    if (r->lo < 0 || r->step < 1 || r->n < 1 || __builtin_mul_overflow(r->n - 1, r->step, &last) ||
        __builtin_add_overflow(last, r->lo, &last) || last >= axis->extent)
        return dt_shape_fail(
            s, "`slice` takes %lld elements from %lld by %lld of axis `%s`, which has %lld",
            (long long)r->n, (long long)r->lo, (long long)r->step, axis->name,
            (long long)axis->extent);
    if (r->n != axis->extent && !needs_whole(s, axis))
        return false;
    axis->extent = r->n;
    return true;
}

/* Result: the operand with other extents. */
bool dt_shape_slice(DtShape *s)
{
    DtShapeType t;
    dt_shape_start(&t, s->op->in[0]->type);
    if (!check_axes_differ(s))
        return false;
    for (uint32_t i = 0; i < s->op->n_axes; i++) {
        int k = find(s, &t, s->op->axes[i]);
        if (k < 0 || !slice_axis(s, &t.axes[k], &s->op->ranges[i]))
            return false;
    }
    return dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}

static bool pad_axis(DtShape *s, DtAxis *axis, const DtRange *r)
{
    int64_t extent;
    if (r->lo < 0 || r->hi < 0 || r->step < 1 ||
        __builtin_mul_overflow(axis->extent - 1, r->step, &extent) ||
        __builtin_add_overflow(extent, 1, &extent) ||
        __builtin_add_overflow(extent, r->lo, &extent) ||
        __builtin_add_overflow(extent, r->hi, &extent))
        return dt_shape_fail(s, "`pad` of axis `%s` by %lld and %lld, step %lld, is not possible",
                             axis->name, (long long)r->lo, (long long)r->hi, (long long)r->step);
    if (extent != axis->extent && !needs_whole(s, axis))
        return false;
    axis->extent = extent;
    return true;
}

/* Result: the operand with other extents. */
bool dt_shape_pad(DtShape *s)
{
    DtShapeType t;
    dt_shape_start(&t, s->op->in[0]->type);
    if (!check_axes_differ(s) || !fill_fits(s))
        return false;
    for (uint32_t i = 0; i < s->op->n_axes; i++) {
        int k = find(s, &t, s->op->axes[i]);
        if (k < 0 || !pad_axis(s, &t.axes[k], &s->op->ranges[i]))
            return false;
    }
    return dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}

/* ---- concat, expand ---- */

/* Adds the extent of operand i to that of axis number k of t; checks that all other axes are
 * equal. */
static bool concat_operand(DtShape *s, DtShapeType *t, uint32_t k, uint32_t i)
{
    const DtType *x = s->op->in[i]->type;
    const char *name = t->axes[k].name;
    if (x->dtype != t->dtype)
        return dt_shape_fail(s, "`concat` of different dtypes: %s", dt_shape_text(s, x));
    int own = dt_type_find(x, name);
    if (own < 0 || x->rank != t->rank)
        return dt_shape_fail(s, "`concat` along `%s`: operand %u has other axes: %s", name, i,
                             dt_shape_text(s, x));
    if (!needs_whole(s, &x->axes[own]))
        return false;
    for (uint32_t a = 0; a < t->rank; a++) {
        int b = dt_type_find(x, t->axes[a].name);
        if (b < 0 || (a != k && !dt_type_same_axis(&t->axes[a], &x->axes[b])))
            return dt_shape_fail(s, "`concat` along `%s`: operand %u differs in axis `%s`: %s",
                                 name, i, t->axes[a].name, dt_shape_text(s, x));
    }
    if (i > 0 && __builtin_add_overflow(t->axes[k].extent, x->axes[own].extent, &t->axes[k].extent))
        return dt_shape_fail(s, "`concat` along `%s` is too long", name);
    return true;
}

/* Result: the order of operand 0; the extents along axes[0] add up. */
bool dt_shape_concat(DtShape *s)
{
    DtShapeType t;
    if (s->op->n_in == 0 || s->op->n_axes != 1)
        return dt_shape_fail(s, "`concat` needs operands and one axis");
    dt_shape_start(&t, s->op->in[0]->type);
    int k = find(s, &t, s->op->axes[0]);
    if (k < 0)
        return false;
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        if (!concat_operand(s, &t, (uint32_t)k, i))
            return false;
    }
    return dt_shape_linear(s, &t, 0, s->op->n_in) && dt_shape_finish(s, 0, &t);
}

/* Result: the axes of the wish; those that the operand has are the operand's. */
bool dt_shape_expand(DtShape *s)
{
    const DtType *x = s->op->in[0]->type, *wish = dt_shape_wish(s, 0);
    if (!wish)
        return dt_shape_fail(s, "`expand` needs a result type");
    DtShapeType t;
    dt_shape_start(&t, wish);
    t.dtype = x->dtype;
    for (uint32_t i = 0; i < x->rank; i++) {
        int k = find(s, &t, x->axes[i].name);
        if (k < 0 || t.axes[k].extent != x->axes[i].extent) {
            s->reason.len = 0;
            return dt_shape_fail(s, "`expand` of %s to %s loses axis `%s` or changes its extent",
                                 dt_shape_text(s, x), dt_shape_text(s, wish), x->axes[i].name);
        }
        t.axes[k] = x->axes[i];
    }
    return dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}

/* Result: the axes of the wish. The mesh axes that split the new axis, one term for each rank, are
 * those over which the operand's sum is no longer pending; without a split the operand is whole. */
bool dt_shape_terms(DtShape *s)
{
    const DtType *x = s->op->in[0]->type, *wish = dt_shape_wish(s, 0);
    DtShapeType t;
    if (!wish || s->op->n_axes != 1 || dt_type_find(x, s->op->axes[0]) >= 0)
        return dt_shape_fail(s, "`terms` needs a result type with a new axis");
    const int w = dt_type_find(wish, s->op->axes[0]);
    if (w < 0 || wish->rank != x->rank + 1)
        return dt_shape_fail(s, "`terms` of %s: %s has another axis", dt_shape_text(s, x),
                             dt_shape_text(s, wish));
    const uint16_t bits = dt_shape_split_bits(&wish->axes[w]);
    if ((x->partial & bits) != bits || (x->partial && x->pending != DT_REDUCE_SUM) ||
        (bits && dt_type_local_extent(wish, (uint32_t)w, s->mesh) != 1) ||
        (bits == 0 && s->mesh && s->mesh->n > 0))
        return dt_shape_fail(s, "`terms` along `%s` needs a sum that is pending over its ranks",
                             s->op->axes[0]);
    dt_shape_start(&t, wish);
    t.dtype = x->dtype;
    for (uint32_t i = 0; i < x->rank; i++) {
        const int k = find(s, &t, x->axes[i].name);
        if (k < 0 || t.axes[k].extent != x->axes[i].extent)
            return dt_shape_fail(s, "`terms` of %s to %s changes an axis", dt_shape_text(s, x),
                                 dt_shape_text(s, wish));
        t.axes[k] = x->axes[i];
    }
    t.partial = x->partial & (uint16_t)~bits;
    t.pending = t.partial ? DT_REDUCE_SUM : t.pending;
    return dt_shape_finish(s, 0, &t);
}

/* ---- window, fold ---- */

static bool check_window(DtShape *s)
{
    const DtOp *op = s->op;
    if (op->n_axes != 2 || !op->ranges || !op->axes[0] || !op->axes[1])
        return dt_shape_fail(s, "`%s` needs two axes and a range", op_name(s));
    const DtRange *r = &op->ranges[0];
    if (r->lo < 0 || r->hi < 0 || r->step < 1 || r->n < 1)
        return dt_shape_fail(
            s, "`%s`: padding %lld and %lld, stride %lld, length %lld are not possible", op_name(s),
            (long long)r->lo, (long long)r->hi, (long long)r->step, (long long)r->n);
    return true;
}

/* Returns the number of windows over an axis of this extent; -1: not even one fits, or the padding
 * overflows. */
static int64_t windows(int64_t extent, const DtRange *r)
{
    int64_t room;
    if (__builtin_add_overflow(extent, r->lo, &room) ||
        __builtin_add_overflow(room, r->hi, &room) || room < r->n)
        return -1;
    return (room - r->n) / r->step + 1;
}

/* Result: axes[0] has the number of windows, axes[1] (last) their length. */
bool dt_shape_window(DtShape *s)
{
    DtShapeType t;
    dt_shape_start(&t, s->op->in[0]->type);
    if (!check_window(s) || !fill_fits(s))
        return false;
    int k = find(s, &t, s->op->axes[0]);
    if (k < 0 || !needs_whole(s, &t.axes[k]))
        return false;
    int64_t n = windows(t.axes[k].extent, &s->op->ranges[0]);
    if (n < 1)
        return dt_shape_fail(
            s, "`window` of length %lld does not fit axis `%s` of %lld with its padding",
            (long long)s->op->ranges[0].n, t.axes[k].name, (long long)t.axes[k].extent);
    t.axes[k].extent = n;
    DtAxis w = {.name = s->op->axes[1], .extent = s->op->ranges[0].n};
    return dt_shape_add(s, &t, &w) && dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}

/* Result: axes[1] goes, axes[0] has the extent of the wish, over which `window` would give the
 * operand. */
bool dt_shape_fold(DtShape *s)
{
    const DtType *wish = dt_shape_wish(s, 0);
    DtShapeType t;
    dt_shape_start(&t, s->op->in[0]->type);
    if (!check_window(s))
        return false;
    int w = find(s, &t, s->op->axes[1]), k = w < 0 ? -1 : find(s, &t, s->op->axes[0]);
    if (k < 0 || !needs_whole(s, &t.axes[k]) || !needs_whole(s, &t.axes[w]))
        return false;
    int64_t extent = wish ? dt_type_extent(wish, s->op->axes[0]) : -1;
    if (extent < 1 || k == w || t.axes[w].extent != s->op->ranges[0].n ||
        windows(extent, &s->op->ranges[0]) != t.axes[k].extent)
        return dt_shape_fail(s, "`fold` of %s to %lld elements of `%s` is no transposed window",
                             dt_shape_text(s, s->op->in[0]->type), (long long)extent,
                             s->op->axes[0]);
    if (!dt_shape_is_number(t.dtype))
        return dt_shape_fail(s, "`fold` does not add %s", dt_dtype_name(t.dtype));
    if (s->op->in[0]->type->partial && s->op->in[0]->type->pending != DT_REDUCE_SUM)
        return dt_shape_complete(s, 0);
    t.axes[k].extent = extent;
    dt_shape_remove(&t, (uint32_t)w);
    return dt_shape_linear(s, &t, 0, 1) && dt_shape_finish(s, 0, &t);
}
