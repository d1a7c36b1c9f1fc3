/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: arithmetic by dtype: integers that wrap, sums and maxima, roundings. */
#include "verify/box_internal.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

int64_t dt_boxnumber_wrap(const char *dtype, int64_t x)
{
    if (is(dtype, "bool"))
        return x != 0;
    return is(dtype, "i64")   ? x
           : is(dtype, "u8")  ? (int64_t)(uint8_t)x
           : is(dtype, "u16") ? (int64_t)(uint16_t)x
           : is(dtype, "u32") ? (int64_t)(uint32_t)x
                              : (int64_t)(int32_t)(uint32_t)x;
}

/* ---- reductions ---- */

BoxReduce dt_boxnumber_reduction(const char *name)
{
    return !name || is(name, "sum") ? BOX_SUM : is(name, "max") ? BOX_MAX : BOX_MIN;
}

DtResidue dt_boxnumber_combine(const Box *b, BoxReduce reduce, const BoxShape *shape, DtResidue x,
                               DtResidue y)
{
    if (!shape->is_float && (dt_box_is_odd(x) || dt_box_is_odd(y)))
        return dt_box_odd_of(x, y);
    if (reduce == BOX_SUM)
        return shape->is_float
                   ? dt_residue_add(b->r, x, y)
                   : dt_residue_whole(dt_boxnumber_wrap(shape->type->dtype, (int64_t)(x.p + y.p)));
    const bool max = reduce == BOX_MAX;
    if (shape->is_float)
        return max ? dt_residue_max(b->r, x, y) : dt_residue_min(b->r, x, y);
    return ((int64_t)x.p > (int64_t)y.p) == max ? x : y;
}

DtResidue dt_boxnumber_times(const Box *b, const BoxShape *shape, DtResidue x, int64_t n,
                             DtResidue factor)
{
    if (n == 1)
        return x;
    if (shape->is_float && !dt_residue_is_symbol(x)) /* an infinity added n times is itself */
        return dt_residue_mul(b->r, x, factor);
    if (shape->is_float || dt_box_is_odd(x))
        return x;
    return dt_residue_whole(dt_boxnumber_wrap(shape->type->dtype, (int64_t)(x.p * (uint64_t)n)));
}

bool dt_boxnumber_narrows(const char *from, const char *to)
{
    return dt_cert_is_float(from) && dt_cert_is_float(to) && !is(from, to) && !is(to, "f64") &&
           !(is(to, "f32") && !is(from, "f64"));
}

/* ---- roundings ---- */

double dt_boxnumber_nearest(const char *dtype, double x)
{
    if (!dt_boxnumber_narrows("f64", dtype) || !isfinite(x))
        return x;
    int exponent;
    const double fraction = frexp(x, &exponent);
    const bool half = is(dtype, "f16");
    const int digits = is(dtype, "f32")    ? 24
                       : is(dtype, "bf16") ? 8
                       : exponent < -13    ? 24 + exponent
                                           : 11;
    const double near = ldexp(rint(ldexp(fraction, digits)), exponent - digits);
    return half && fabs(near) > 65504 ? copysign(INFINITY, x) : near;
}

DtResidue dt_boxnumber_constant(const Box *b, const BoxShape *shape, double x)
{
    if (shape->is_float)
        return dt_residue_number(b->r, dt_boxnumber_nearest(shape->type->dtype, x));
    return dt_box_is_whole(x) ? dt_residue_whole((int64_t)x)
                              : dt_residue_symbol(DT_RESIDUE_UNDEFINED);
}

/* Marks a residue as a number of the dtype: its second component becomes an unknown function of
 * the first. */
DtResidue dt_boxnumber_of_dtype(const Box *b, const char *dtype, DtResidue x)
{
    x.q = dt_residue_mix(dt_hash_text(dtype, b->r->hash), x.p) % b->r->q.m;
    return x;
}

/* x rounded to a dtype: an unknown function, except that constants in comparisons become the
 * nearest number, and that numbers of the dtype stay: 0, 1, rounded values, operands. */
DtResidue dt_boxnumber_rounded(const Box *b, const char *to, DtResidue x)
{
    if (dt_residue_is_symbol(x) || x.p == 0 || x.p == dt_residue_of_whole(b->r, 1).p ||
        x.q == dt_boxnumber_of_dtype(b, to, x).q)
        return x;
    for (uint32_t i = 0; i < b->r->n_known; i++)
        if (x.p == b->r->known_p[i])
            return dt_residue_like(
                dt_residue_number(b->r, dt_boxnumber_nearest(to, b->r->known[i])), x);
    return dt_boxnumber_of_dtype(b, to, dt_residue_function(b->r, to, x, x));
}

/* ---- how much is rounded ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool dt_boxnumber_is_exact(const Box *b, const CertOp *cast)
{
    for (uint32_t i = 0; i < b->exact.n; i++)
        if (b->exact.at[i] == cast)
            return true;
    return false;
}

/* Returns the counts for results with this dtype and these axes, new ones if there are none yet. */
static BoxRounded *rounded_of(Box *b, const BoxShape *made)
{
    BoxRounded one = {.to = made->type->dtype};
    uint32_t i = 0;
    for (uint32_t d = 0; d < made->rank; d++)
        if (strncmp(made->axes[d].name, "@ring", 5) != 0)
            one.axes[one.rank++] = made->axes[d].name;
    qsort(one.axes, one.rank, sizeof one.axes[0], by_name);
    while (i < b->rounded.n && (b->rounded.at[i].to != one.to ||
                                memcmp(b->rounded.at[i].axes, one.axes, sizeof one.axes) != 0))
        i++;
    if (i == b->rounded.n)
        DT_PUSH(b->scratch, b->rounded, one);
    return &b->rounded.at[i];
}

static void count_product(Box *b, const CertOp *op, const BoxShape *made)
{
    BoxRounded *one = rounded_of(b, made);
    bool known = false;
    for (uint32_t i = 0; i < b->products.n; i++)
        known = known || b->products.at[i] == op;
    if (!known)
        DT_PUSH(b->scratch, b->products, op);
    one->n_ops[b->second] += !known;
    one->products += b->second ? 0 : made->n;
}

/* Whether the op has cast this very tensor before, in this draw. Every step of a ring casts the
 * queries, for example; the results are the same numbers and count once. */
static bool is_cast_again(Box *b, const CertOp *op, const BoxTensor *x)
{
    for (uint32_t i = 0; i < b->roundings.n; i++)
        if (b->roundings.at[i].op == op && b->roundings.at[i].at == x->at)
            return true;
    DT_PUSH(b->scratch, b->roundings, ((BoxRounding){op, x->at}));
    return false;
}

bool dt_boxnumber_is_sum(const CertOp *op)
{
    return is(op->kind, "add") || (is(op->kind, "reduce") && op->reduce && is(op->reduce, "sum"));
}

bool dt_boxnumber_count(Box *b, const CertOp *op, BoxTensor *const *in, const BoxShape *made)
{
    const char *to = made->type->dtype;
    const bool few = dt_boxnumber_narrows("f32", to);
    bool narrows = false;
    for (uint32_t k = 0; k < op->n_in && !dt_boxnumber_is_exact(b, op); k++)
        narrows = narrows || dt_boxnumber_narrows(in[k]->shape->type->dtype, to);
    if (narrows && !is(op->kind, "cast"))
        return dt_box_fail(b, op, "`%s` makes numbers of fewer digits than it is made of",
                           op->kind);
    if (!b->counts)
        return true;
    if (narrows && b->second && is_cast_again(b, op, in[0]))
        return true;
    if (narrows)
        rounded_of(b, made)->n[b->second] += made->n;
    else if (few && is(op->kind, "dot"))
        count_product(b, op, made);
    else if (few && !b->second && dt_boxnumber_is_sum(op))
        rounded_of(b, made)->sums += made->n;
    return true;
}

/* Whether the second function casts at most as many numbers as the first function rounds by casts,
 * by sums, and by those products that the second one does not have. Reports a reason if it casts
 * more. */
bool dt_boxnumber_as_often(Box *b)
{
    for (uint32_t i = 0; i < b->rounded.n; i++) {
        const BoxRounded *one = &b->rounded.at[i];
        const int64_t ops = one->n_ops[0], left = ops > one->n_ops[1] ? ops - one->n_ops[1] : 0;
        if (one->n[1] > one->n[0] + one->sums + (left ? one->products * left / ops : 0))
            return dt_box_fail(b, NULL, "more numbers are rounded to %s", one->to);
    }
    return true;
}

/* ---- how often something is rounded ---- */

/* Returns a number that identifies the dtype if it has fewer digits than f32; else 0. */
static uint32_t number_of(const char *dtype)
{
    return dt_boxnumber_narrows("f32", dtype) ? (uint32_t)dt_hash_text(dtype, 0) | 1 : 0;
}

void dt_boxnumber_follow(const Box *b, BoxTensor *x, bool argument)
{
    const uint32_t number = number_of(x->shape->type->dtype);
    for (int64_t i = 0; x->shape->is_float && i < x->shape->n * b->ranks; i++) {
        DtResidue *one = &x->at[i];
        if (argument)
            *one = (DtResidue){.p = one->p, .q = one->q, .depth = one->p != 0, .dtype = number};
        else if (number && one->dtype != number)
            one->depth += one->depth != 0;
        one->dtype = number ? number : one->dtype;
    }
}

/* A ring of n ranks passes the result on n - 1 times. Adds n - 2 roundings, since the last one is
 * counted with the call. */
void dt_boxnumber_hop(const Box *b, BoxTensor *x, uint16_t mesh)
{
    const uint32_t number = number_of(x->shape->type->dtype);
    uint32_t ranks = 1;
    for (uint32_t m = 0; m < b->n_mesh; m++)
        ranks *= mesh >> m & 1 ? (uint32_t)b->size[m] : 1;
    for (int64_t i = 0; number && ranks > 2 && i < x->shape->n * b->ranks; i++)
        if (x->at[i].depth && x->at[i].dtype != number)
            x->at[i].depth += ranks - 2;
}
