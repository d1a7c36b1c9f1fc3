/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: ops along an axis that every rank holds whole and whose positions are all evaluated:
 * slices, pads, windows and folds, concatenations, running sums, top-k. */
#include "verify/box_internal.h"

#include <stdlib.h>

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* The axis of that name, if every rank has all of its positions; else NULL. */
static const BoxAxis *whole_axis(const BoxShape *shape, const char *name)
{
    const BoxAxis *axis = dt_boxsmall_axis(shape, name);
    return axis && axis->local == axis->extent && axis->lens->unit == 1 && axis->lens->k == 1
               ? axis
               : NULL;
}

/* Iterates over the elements of a tensor, with the offset of the same element in another tensor:
 * over the axes that both have, except for the named axes. */
typedef struct Steps {
    uint32_t rank;
    int64_t at[CERT_RANK], extent[CERT_RANK], stride[CERT_RANK], offset;
} Steps;

/* Begins a walk over the elements of `over`, except along the named axes. False: another axis is
 * not in both tensors, or has a different length in them. */
static bool steps_of(const BoxShape *over, const BoxShape *other, uint32_t n,
                     const char *const *names, Steps *ret_steps)
{
    uint32_t met = 0;
    *ret_steps = (Steps){.rank = over->rank};
    for (uint32_t d = 0; d < over->rank; d++) {
        const BoxAxis *axis = &over->axes[d], *own = dt_boxsmall_axis(other, axis->name);
        bool named = false;
        for (uint32_t i = 0; i < n; i++)
            named = named || names[i] == axis->name;
        met += own && !named;
        ret_steps->extent[d] = axis->local;
        ret_steps->stride[d] = named || !own ? 0 : other->stride[own - other->axes];
        if (!named && (!own || own->local != axis->local))
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        met += dt_boxsmall_axis(other, names[i]) != NULL;
    return met == other->rank;
}

static bool next(Steps *s)
{
    for (uint32_t d = s->rank; d-- > 0;) {
        s->offset += s->stride[d];
        if (++s->at[d] < s->extent[d])
            return true;
        s->offset -= s->at[d] * s->stride[d];
        s->at[d] = 0;
    }
    return false;
}

static int place_of(const BoxShape *shape, const BoxAxis *axis)
{
    return (int)(axis - shape->axes);
}

/* Whether a number fits 32 bits, so that the product of two of them fits 64 bits. */
static bool is_small(int64_t x) { return x >= -INT32_MAX && x <= INT32_MAX; }

static bool small_range(const CertRange *r)
{
    return is_small(r->lo) && is_small(r->hi) && is_small(r->step) && is_small(r->n) &&
           r->step >= 1;
}

/* ---- slices and pads ---- */

/* One axis along which a slice or pad changes the positions. */
typedef struct Cut {
    int at; /* number of the axis in the result */
    int64_t extent, stride; /* stride in the operand */
    CertRange range;
} Cut;

static bool cuts_of(const CertOp *op, const BoxShape *from, const BoxShape *to, bool pads,
                    Cut *cuts)
{
    if (op->n_in != 1 || op->n_ranges != op->n_axes || from->is_float != to->is_float)
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const BoxAxis *x = whole_axis(from, op->axes[i]), *y = whole_axis(to, op->axes[i]);
        const CertRange *r = &op->ranges[i];
        if (!x || !y || !small_range(r))
            return false;
        const int64_t length = pads ? r->lo + r->hi + (x->local - 1) * r->step + 1 : r->n,
                      last = r->lo + (r->n - 1) * r->step;
        if (length != y->local || (!pads && (r->lo < 0 || last >= x->local)))
            return false;
        cuts[i] = (Cut){place_of(to, y), x->local, from->stride[place_of(from, x)], *r};
    }
    return true;
}

static bool slice(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const BoxShape *from = in[0]->shape, *to = out->shape;
    Cut cuts[CERT_RANK];
    Steps all;
    if (!cuts_of(op, from, to, false, cuts) || !steps_of(to, from, op->n_axes, op->axes, &all))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        DtResidue *y = out->at + rank * to->n;
        Steps s = all;
        do {
            int64_t offset = rank * from->n + s.offset;
            for (uint32_t i = 0; i < op->n_axes; i++)
                offset +=
                    (cuts[i].range.lo + cuts[i].range.step * s.at[cuts[i].at]) * cuts[i].stride;
            *y++ = in[0]->at[offset];
        } while (next(&s));
    }
    return true;
}

static bool pad(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const BoxShape *from = in[0]->shape, *to = out->shape;
    const DtResidue fill = dt_boxnumber_constant(b, to, op->number);
    Cut cuts[CERT_RANK];
    Steps all;
    if (!cuts_of(op, from, to, true, cuts) || !steps_of(to, from, op->n_axes, op->axes, &all))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        DtResidue *y = out->at + rank * to->n;
        Steps s = all;
        do {
            int64_t offset = rank * from->n + s.offset;
            bool inside = true;
            for (uint32_t i = 0; i < op->n_axes; i++) {
                const int64_t away = s.at[cuts[i].at] - cuts[i].range.lo, step = cuts[i].range.step;
                inside = inside && away >= 0 && away % step == 0 && away / step < cuts[i].extent;
                offset += inside ? away / step * cuts[i].stride : 0;
            }
            *y++ = inside ? in[0]->at[offset] : fill;
        } while (next(&s));
    }
    return true;
}

static bool concat(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const BoxShape *to = out->shape;
    const BoxAxis *joined = op->n_axes == 1 ? whole_axis(to, op->axes[0]) : NULL;
    int64_t start = 0;
    for (uint32_t i = 0; i < op->n_in && joined; i++) {
        const BoxShape *from = in[i]->shape;
        const BoxAxis *own = whole_axis(from, op->axes[0]);
        Steps all;
        if (!own || own->local > joined->local - start || from->is_float != to->is_float ||
            !steps_of(from, to, 1, op->axes, &all))
            return false;
        all.stride[place_of(from, own)] = to->stride[place_of(to, joined)];
        for (uint32_t rank = 0; rank < b->ranks; rank++) {
            DtResidue *y = out->at + rank * to->n + start * to->stride[place_of(to, joined)];
            const DtResidue *x = in[i]->at + rank * from->n;
            Steps s = all;
            do
                y[s.offset] = *x++;
            while (next(&s));
        }
        start += own->local;
    }
    return joined && op->n_in && start == joined->local;
}

/* ---- windows ---- */

/* A walk over the windowed tensor: (a, w) has position a * step + w - lo of the plain tensor. */
typedef struct Windows {
    Steps steps;
    CertRange range;
    int a, w;
    int64_t extent, stride; /* length of the plain axis */
} Windows;

static bool windows_of(const CertOp *op, const BoxShape *plain, const BoxShape *windowed,
                       Windows *ret_windows)
{
    if (op->n_in != 1 || op->n_axes != 2 || op->n_ranges != 1 ||
        plain->is_float != windowed->is_float || dt_boxsmall_axis(plain, op->axes[1]))
        return false;
    const BoxAxis *x = whole_axis(plain, op->axes[0]), *a = whole_axis(windowed, op->axes[0]),
                  *w = whole_axis(windowed, op->axes[1]);
    const CertRange *r = &op->ranges[0];
    if (!x || !a || !w || !small_range(r) || w->local != r->n ||
        a->local != (x->local + r->lo + r->hi - r->n) / r->step + 1 ||
        x->local + r->lo + r->hi < r->n)
        return false;
    *ret_windows = (Windows){.range = *r, .a = place_of(windowed, a), .w = place_of(windowed, w),
                             .extent = x->local, .stride = plain->stride[place_of(plain, x)]};
    return steps_of(windowed, plain, 2, op->axes, &ret_windows->steps);
}

/* Returns the offset of the plain element that the walk's place reads; -1: it is in the padding. */
static int64_t window_at(const Windows *windows, const Steps *s)
{
    const int64_t at =
        s->at[windows->a] * windows->range.step + s->at[windows->w] - windows->range.lo;
    return at < 0 || at >= windows->extent ? -1 : s->offset + at * windows->stride;
}

static bool window(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const DtResidue fill = dt_boxnumber_constant(b, out->shape, op->number);
    Windows windows;
    if (!windows_of(op, in[0]->shape, out->shape, &windows))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        const DtResidue *x = in[0]->at + rank * in[0]->shape->n;
        DtResidue *y = out->at + rank * out->shape->n;
        Steps s = windows.steps;
        do {
            const int64_t at = window_at(&windows, &s);
            *y++ = at < 0 ? fill : x[at];
        } while (next(&s));
    }
    return true;
}

static bool fold(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    Windows windows;
    if (!windows_of(op, out->shape, in[0]->shape, &windows))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        const DtResidue *x = in[0]->at + rank * in[0]->shape->n;
        DtResidue *y = out->at + rank * out->shape->n;
        Steps s = windows.steps;
        do {
            const int64_t at = window_at(&windows, &s);
            if (at >= 0)
                y[at] = dt_boxnumber_combine(b, BOX_SUM, out->shape, y[at], *x);
            x++;
        } while (next(&s));
    }
    return true;
}

/* ---- running sums, largest ones ---- */

/* Sets *ret_offsets to the offsets in x of all places of the named axes, the last axis fastest, and
 * returns their number. It returns 0 if x lacks an axis, or if some positions of one are not
 * evaluated. */
static int64_t offsets_of(Box *b, uint32_t n_names, const char *const *names, const BoxShape *x,
                          int64_t **ret_offsets)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < n_names; i++) {
        const BoxAxis *axis = whole_axis(x, names[i]);
        if (!axis)
            return 0;
        n *= axis->local;
    }
    int64_t *offsets = *ret_offsets = DT_NEW_ARRAY(b->scratch, int64_t, n);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = n_names, number = k; i-- > 0;) {
            const BoxAxis *axis = dt_boxsmall_axis(x, names[i]);
            offsets[k] += number % axis->local * x->stride[place_of(x, axis)];
            number /= axis->local;
        }
    return n;
}

/* Whether the walk's place has coordinate 0 along all named axes, so that each place of the other
 * axes counts once. */
static bool is_first(const BoxShape *shape, const Steps *s, uint32_t n, const char *const *names)
{
    for (uint32_t d = 0; d < s->rank; d++)
        for (uint32_t i = 0; i < n; i++)
            if (shape->axes[d].name == names[i] && s->at[d])
                return false;
    return true;
}

static int64_t own_offset(const BoxShape *shape, const Steps *s)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < s->rank; d++)
        offset += s->at[d] * shape->stride[d];
    return offset;
}

static bool scan(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const BoxShape *from = in[0]->shape, *to = out->shape;
    const bool reverse = dt_box_has_flag(op, "reverse");
    int64_t *x_at = NULL, *y_at = NULL;
    Steps all;
    const int64_t n = op->n_in == 1 ? offsets_of(b, op->n_axes, op->axes, from, &x_at) : 0;
    if (n == 0 || offsets_of(b, op->n_axes, op->axes, to, &y_at) != n ||
        from->is_float != to->is_float || !steps_of(to, from, op->n_axes, op->axes, &all))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        Steps s = all;
        do {
            if (!is_first(to, &s, op->n_axes, op->axes))
                continue;
            const DtResidue *x = in[0]->at + rank * from->n + s.offset;
            DtResidue *y = out->at + rank * to->n + own_offset(to, &s), sum = dt_residue_whole(0);
            for (int64_t i = 0; i < n; i++) {
                const int64_t k = reverse ? n - 1 - i : i;
                y[y_at[k]] = sum = dt_boxnumber_combine(b, BOX_SUM, to, sum, x[x_at[k]]);
            }
        } while (next(&s));
    }
    return true;
}

/* Returns the index of the largest of the n elements at x whose `taken` flag is not set. An
 * undefined element compares with nothing: if there is one, all results are undefined. */
static int64_t best_of(const Box *b, const BoxShape *shape, const DtResidue *x, const int64_t *at,
                       int64_t n, const bool *taken)
{
    int64_t best = -1;
    for (int64_t k = 0; k < n; k++) {
        const DtResidue now = x[at[k]];
        if (taken[k])
            continue;
        const bool larger =
            best >= 0 && (shape->is_float ? dt_residue_less(b->r, x[at[best]], now) &&
                                                !dt_residue_same(x[at[best]], now)
                                          : (int64_t)x[at[best]].p < (int64_t)now.p);
        best = best < 0 || larger ? k : best;
    }
    return best;
}

static bool is_known(const BoxShape *shape, DtResidue x)
{
    return shape->is_float ? x.p < DT_RESIDUE_ABSENT : x.q != DT_RESIDUE_NONE;
}

bool dt_boxaxis_topk(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *const *out)
{
    const BoxShape *from = in[0]->shape, *to = out[0]->shape, *index = out[1]->shape;
    int64_t *x_at = NULL, *y_at = NULL, *i_at = NULL;
    Steps all, places;
    if (op->n_in != 1 || op->n_axes != 2 || op->axes[0] == op->axes[1] ||
        from->is_float != to->is_float || index->is_float || index->is_bool ||
        dt_boxsmall_axis(from, op->axes[1]))
        return false;
    const int64_t n = offsets_of(b, 1, op->axes, from, &x_at),
                  m = offsets_of(b, 1, op->axes + 1, to, &y_at);
    if (n < m || m == 0 || offsets_of(b, 1, op->axes + 1, index, &i_at) != m ||
        !steps_of(to, from, 2, op->axes, &all) || !steps_of(to, index, 1, op->axes + 1, &places) ||
        !dt_boxsmall_afford(b, to->n, n))
        return false;
    bool *taken = DT_NEW_ARRAY(b->scratch, bool, n);
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        Steps s = all, p = places;
        do {
            if (!is_first(to, &s, 1, op->axes + 1))
                continue;
            const DtResidue *x = in[0]->at + rank * from->n + s.offset;
            DtResidue *y = out[0]->at + rank * to->n + own_offset(to, &s),
                      *i = out[1]->at + rank * index->n + p.offset, unknown = dt_residue_whole(0);
            memset(taken, 0, (size_t)n);
            for (int64_t k = 0; k < n; k++)
                unknown = is_known(from, x[x_at[k]]) ? unknown : x[x_at[k]];
            for (int64_t k = 0; k < m; k++) {
                const int64_t best = best_of(b, from, x, x_at, n, taken);
                const bool known = unknown.p < DT_RESIDUE_ABSENT;
                taken[best] = true;
                y[y_at[k]] = known ? x[x_at[best]] : unknown;
                i[i_at[k]] = known ? dt_residue_whole(best) : unknown;
            }
        } while (next(&p), next(&s));
    }
    return true;
}

DtBoxOp *dt_boxaxis_op(const CertOp *op)
{
    static const struct {
        const char *kind;
        DtBoxOp *run;
    } ops[] = {{"slice", slice}, {"pad", pad}, {"concat", concat}, {"window", window},
               {"fold", fold}, {"scan", scan}};
    for (size_t i = 0; i < DT_COUNT(ops); i++)
        if (is(ops[i].kind, op->kind))
            return ops[i].run;
    return NULL;
}
