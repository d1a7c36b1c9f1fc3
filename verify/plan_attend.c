/* SPDX-License-Identifier: Apache-2.0 */
/* Attention that a library may compute instead of a kernel (plan.h, SDPA): proves that the ops of
 * an instruction compute what this file's own definition of the record says, on tensors with the
 * record's layouts.
 *
 * The keys that a query sees are found by the intervals of plan_mask.c, for every query. Then
 * the mask is known, and the ops of a row are compared with softmax and its derivative over
 * residues (plan_number.h): sums, products, quotients and exponentials, whose laws residues
 * obey; the maximum along keys; and two bounds, below. Constants are exact. Ops treat all keys
 * alike, so a few keys suffice if each represents a random number of keys: a result that depends
 * on a row's keys only through sums over keys and one key can be reproduced as long as there are
 * fewer sums than keys. Rounding of intermediate values is not part of an op's meaning: a value
 * may be kept wider (language.md, dtypes, rule 6). */
#include "verify/plan_internal.h"
#include "verify/plan_number.h"

#include "plan/kinds.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 2, SEEN = 12, KEYS = 16, MOST_DEPTH = 12, MOST_ROWS = 65536 };
/* Bounds that ops may apply to a row's maximum and sum without effect. The library is only right
 * for rows whose maximum is no less than the first; a row's sum is no less than the second, since
 * one of its terms is 1. */
static const double least_max = -1e30, least_sum = 1e-30;

typedef struct Attends {
    PlanWalk *walk;
    const PlanAttend *p;
    const DtPlanSdpa *of;
    const char *queries, *keys, *elements; /* names of axes */
    DtResidues *r;
    DtResidue scale;
    bool sees[KEYS];
    DtResidue z[KEYS], dp[KEYS], weight[KEYS]; /* by key: scores; products of gradient and values;
                                                * how many keys it stands for */
    DtResidue row[DT_SDPA_PARTS];              /* by part of the record: the number of the query */
    DtResidue dot;                             /* numbers of the query: the result times its
                                                * gradient */
    DtResidue **number;                        /* by op: its values, one per key, or one for all */
    DtResidue want_p[KEYS], want_ds[KEYS];
} Attends;

static bool is(const CertOp *op, const char *kind) { return strcmp(op->kind, kind) == 0; }

static bool has(const CertType *type, const char *axis)
{
    return dt_certtext_axis(type, axis) != NULL;
}

/* ---- axes ---- */

/* Returns the only axis that x has and y lacks, if its extent and stride are these; NULL if they
 * are not, or there are several. */
static const char *own_axis(const PlanPlace *x, const PlanPlace *y, int64_t extent, int64_t stride)
{
    const char *found = NULL;
    for (uint32_t d = 0; d < x->rank; d++)
        if (dt_certplan_axis(y, x->axis[d]) < 0 && x->extent[d] == extent && x->stride[d] == stride)
            found = found ? NULL : x->axis[d];
    return found;
}

/* Checks that elements of rows are adjacent in both tensors. */
static const char *element_axis(const PlanPlace *x, const PlanPlace *y, int64_t extent)
{
    for (uint32_t d = 0; d < x->rank; d++) {
        const int at = dt_certplan_axis(y, x->axis[d]);
        if (at >= 0 && x->extent[d] == extent && x->stride[d] == 1 && y->extent[at] == extent &&
            y->stride[at] == 1)
            return x->axis[d];
    }
    return NULL;
}

static bool find_axes(Attends *a)
{
    const PlanPlace *q = &a->p->place[DT_SDPA_Q], *k = &a->p->place[DT_SDPA_K];
    a->queries = own_axis(q, k, a->of->queries, a->of->of_row[DT_SDPA_Q]);
    a->keys = own_axis(k, q, a->of->keys, a->of->of_row[DT_SDPA_K]);
    a->elements = element_axis(q, k, a->of->head);
    return a->queries && a->keys && a->elements;
}

/* ---- the layout of tensors ---- */

static bool of_keys(uint32_t part)
{
    return part == DT_SDPA_K || part == DT_SDPA_V || part == DT_SDPA_DK || part == DT_SDPA_DV;
}

static bool of_rows(uint32_t part) { return part == DT_SDPA_MAX || part == DT_SDPA_SUM; }

/* Lists in ret_axis the axes that Q shares with other operands, first those that keys have too,
 * each list in the order of the scores' axes. Returns how many there are. */
static uint32_t shared_axes(const Attends *a, const CertType *scores,
                            const char *ret_axis[CERT_RANK])
{
    uint32_t n = 0;
    for (int apart = 0; apart < 2; apart++)
        for (uint32_t d = 0; d < scores->rank; d++) {
            const char *axis = scores->axes[d].name;
            const int at = dt_certplan_axis(&a->p->place[DT_SDPA_Q], axis);
            if (at >= 0 && axis != a->queries && a->p->place[DT_SDPA_Q].extent[at] > 1 &&
                (dt_certplan_axis(&a->p->place[DT_SDPA_K], axis) < 0) == apart)
                ret_axis[n++] = axis;
        }
    return n;
}

/* Whether `step` is the distance, in elements of this part, that the record gives to a step along
 * an axis of this extent: a number of heads, or of whole batches. behind: the number of elements of
 * the axes after it. */
static bool is_step(const DtPlanSdpa *s, uint32_t part, int64_t extent, int64_t behind,
                    int64_t step)
{
    const bool shares = of_keys(part);
    const int64_t share = shares ? s->heads / s->kv_heads : 1;
    if (behind % s->heads == 0)
        return step == s->of_batch[part] * (behind / s->heads);
    if (behind * extent > s->heads || s->heads % (behind * extent))
        return false;
    if (shares && behind * extent <= share)
        return step == 0;
    return behind % share == 0 && step == s->of_head[part] * (behind / share);
}

static bool lies(const Attends *a, uint32_t part, const char *const *axis, uint32_t n)
{
    const PlanPlace *place = &a->p->place[part];
    const DtPlanSdpa *s = a->of;
    int64_t behind = 1, elements = of_rows(part) ? 1 : s->head;
    for (uint32_t i = n; i-- > 0;) {
        const int64_t extent =
            a->p->place[DT_SDPA_Q].extent[dt_certplan_axis(&a->p->place[DT_SDPA_Q], axis[i])];
        if (!is_step(s, part, extent, behind, dt_certplan_stride(place, axis[i])))
            return false;
        elements *= dt_certplan_axis(place, axis[i]) >= 0 ? extent : 1;
        behind *= extent;
    }
    elements *= of_keys(part) ? s->keys : s->queries;
    for (uint32_t d = 0; d < place->rank; d++)
        elements /= place->extent[d] ? place->extent[d] : 1;
    return elements == 1 && behind == s->batch * s->heads && s->offset[part] == 0 &&
           dt_certplan_stride(place, of_keys(part) ? a->keys : a->queries) == s->of_row[part] &&
           (of_rows(part) || dt_certplan_stride(place, a->elements) == 1) &&
           strcmp(place->dtype, of_rows(part) ? "f32" : dt_kinds_name(s->dtype)) == 0;
}

static bool all_lie(const Attends *a, const CertType *scores)
{
    const char *axis[CERT_RANK];
    const uint32_t n = shared_axes(a, scores, axis);
    for (uint32_t part = 0; part < DT_SDPA_PARTS; part++)
        if (a->of->pointer[part] >= 0 && !lies(a, part, axis, n))
            return false;
    return true;
}

/* ---- the keys that a query sees ---- */

static void seen(const DtPlanSdpa *s, int64_t query, int64_t *ret_first, int64_t *ret_last)
{
    *ret_last = s->causal && query < s->keys ? query : s->keys - 1;
    *ret_first = s->window && query >= s->window ? query - s->window + 1 : 0;
}

static bool is_mask(Attends *a, uint32_t value)
{
    const DtPlanSdpa *s = a->of;
    for (int64_t i = 0; i < s->queries; i++) {
        int64_t first, last;
        seen(s, i, &first, &last);
        if (first > last ||
            dt_certplan_sees(a->walk, value, a->queries, a->keys, i, first, last) != 1 ||
            (first > 0 &&
             dt_certplan_sees(a->walk, value, a->queries, a->keys, i, 0, first - 1) != 0) ||
            (last < s->keys - 1 &&
             dt_certplan_sees(a->walk, value, a->queries, a->keys, i, last + 1, s->keys - 1) != 0))
            return false;
    }
    return true;
}

/* Whether every `where` among the ops uses the record's mask; and there is one, if the record hides
 * keys. */
static bool are_masks(Attends *a)
{
    uint32_t known = UINT32_MAX;
    for (uint32_t i = 0; i < a->p->n_ops; i++) {
        const CertOp *op = a->p->ops[i];
        if (!is(op, "where") || op->in[0] == known)
            continue;
        if (!is_mask(a, op->in[0]))
            return false;
        known = op->in[0];
    }
    return known != UINT32_MAX || (!a->of->causal && !a->of->window);
}

/* ---- numbers of a row ---- */

/* Whether the op's result has the same numbers as its operand: a cast between floats, a stop of
 * gradients, an expansion, or a reordering of axes. */
static bool is_same(const PlanFrame *frame, const CertOp *op)
{
    if (is(op, "cast"))
        return dt_plannumber_is_real(op->types[0]->dtype) &&
               dt_plannumber_is_real(dt_certplan_type(frame, op->in[0])->dtype);
    return op->n_in == 1 && !op->n_relabels &&
           (is(op, "stop") || is(op, "expand") || is(op, "relabel"));
}

/* Returns the op that makes a value, in the function or in its caller, and sets *frame to the frame
 * with it; NULL: not known. */
static const CertOp *maker_of(const PlanFrame **frame, uint32_t value)
{
    const CertOp *op = (*frame)->maker[value];
    while (!op && (*frame)->kind == PLAN_CALL && value < (*frame)->op->n_in) {
        value = (*frame)->op->in[value];
        *frame = (*frame)->outer;
        op = (*frame)->maker[value];
    }
    return op;
}

static bool is_literal(const PlanFrame *frame, uint32_t value, double *ret_number)
{
    const CertOp *op = maker_of(&frame, value);
    for (uint32_t depth = MOST_DEPTH; op && depth > 0 && is_same(frame, op); depth--)
        op = maker_of(&frame, op->in[0]);
    *ret_number = op && is(op, "const") ? op->number : NAN;
    return op && is(op, "const");
}

/* Returns the number of a value that is computed from constants alone, in the function or in its
 * caller; unknown if it is not. */
static DtResidue constant(const Attends *a, const PlanFrame *frame, uint32_t value, uint32_t depth)
{
    const CertOp *op = maker_of(&frame, value);
    if (depth == 0 || !op)
        return dt_plannumber_unknown;
    if (is(op, "const"))
        return dt_residue_number(a->r, op->number);
    if (is_same(frame, op))
        return constant(a, frame, op->in[0], depth - 1);
    if (op->n_in == 0 || op->n_in > 2 || op->n_relabels)
        return dt_plannumber_unknown;
    const DtResidue x = constant(a, frame, op->in[0], depth - 1);
    return dt_plannumber_map(a->r, op->kind, x,
                             op->n_in > 1 ? constant(a, frame, op->in[1], depth - 1) : x);
}

/* Follows a chain of casts between floats back to its beginning: sets *value to the value there and
 * returns the op that makes it. */
static const CertOp *uncast(const PlanFrame *frame, uint32_t *value)
{
    const CertOp *op = frame->maker[*value];
    while (op && is(op, "cast") && is_same(frame, op)) {
        *value = op->in[0];
        op = frame->maker[*value];
    }
    return op;
}

/* Whether the value is the sum over elements of the result times its gradient. */
static bool is_dot(const Attends *a, uint32_t value)
{
    const PlanFrame *frame = a->walk->frame;
    const CertOp *sum = frame->maker[value],
                 *product = sum && is(sum, "reduce") ? frame->maker[sum->in[0]] : NULL;
    if (!product || !is(product, "mul") || sum->n_axes != 1 || sum->axes[0] != a->elements ||
        (sum->reduce && strcmp(sum->reduce, "sum") != 0))
        return false;
    uint32_t x = product->in[0], y = product->in[1];
    uncast(frame, &x);
    uncast(frame, &y);
    const uint32_t o = a->p->value[DT_SDPA_O], d_o = a->p->value[DT_SDPA_DO];
    return (x == o && y == d_o) || (x == d_o && y == o);
}

/* The values of an operand for the keys: one for all of them, or one for each. */
typedef struct Numbers {
    const DtResidue *at;
    bool of_keys;
    DtResidue one;
} Numbers;

static DtResidue of(const Numbers *x, uint32_t j)
{
    return x->at ? x->at[x->of_keys ? j : 0] : x->one;
}

static Numbers numbers_of(const Attends *a, uint32_t value)
{
    for (uint32_t i = 0; i < a->p->n_ops; i++)
        if (a->p->ops[i]->first_out == value && a->number[i])
            return (Numbers){.at = a->number[i], .of_keys = has(a->p->ops[i]->types[0], a->keys)};
    for (uint32_t part = DT_SDPA_MAX; part <= DT_SDPA_SUM && a->of->backward; part++)
        if (a->p->value[part] == value)
            return (Numbers){.one = a->row[part]};
    return (Numbers){.one = a->of->backward && is_dot(a, value)
                                ? a->dot
                                : constant(a, a->walk->frame, value, MOST_DEPTH)};
}

/* Returns the number of max(x, c) for a row's maximum or sum x if the constant c is so small that
 * it changes nothing; otherwise unknown. */
static DtResidue bounded(const Attends *a, const CertOp *op)
{
    double bounds[2];
    const bool first = is_literal(a->walk->frame, op->in[0], &bounds[0]),
               second = is_literal(a->walk->frame, op->in[1], &bounds[1]);
    if (first == second || has(op->types[0], a->keys))
        return dt_plannumber_unknown;
    const Numbers row = numbers_of(a, op->in[first]);
    const DtResidue x = of(&row, 0);
    const double bound = bounds[second];
    const bool is_max = bound <= least_max && dt_plannumber_same(x, a->row[DT_SDPA_MAX]),
               is_sum = bound <= least_sum && dt_plannumber_same(x, a->row[DT_SDPA_SUM]);
    return is_max || is_sum ? x : dt_plannumber_unknown;
}

static DtResidue map(const Attends *a, const CertOp *op, const Numbers in[3], uint32_t j)
{
    if (is(op, "where") && op->n_in == 3)
        return of(&in[a->sees[j] ? 1 : 2], j);
    if (op->n_in == 0 || op->n_in > 2 || op->n_relabels)
        return dt_plannumber_unknown;
    const DtResidue x = of(&in[0], j);
    return is_same(a->walk->frame, op)
               ? x
               : dt_plannumber_map(a->r, op->kind, x, of(&in[op->n_in - 1], j));
}

static void maps(const Attends *a, const CertOp *op, DtResidue *ret, uint32_t n)
{
    Numbers in[3];
    if (is(op, "max") && op->n_in == 2) {
        for (uint32_t j = 0; j < n; j++)
            ret[j] = bounded(a, op);
        return;
    }
    for (uint32_t i = 0; i < 3; i++)
        in[i] = i < op->n_in ? numbers_of(a, op->in[i]) : (Numbers){.one = dt_plannumber_unknown};
    for (uint32_t j = 0; j < n; j++)
        ret[j] = map(a, op, in, j);
}

static DtResidue reduced(const Attends *a, const CertOp *op)
{
    const bool most = op->reduce && strcmp(op->reduce, "max") == 0;
    if (op->n_axes != 1 || op->axes[0] != a->keys ||
        (op->reduce && !most && strcmp(op->reduce, "sum") != 0))
        return dt_plannumber_unknown;
    const Numbers x = numbers_of(a, op->in[0]);
    DtResidue all = most ? dt_residue_symbol(DT_RESIDUE_LOWEST) : dt_residue_number(a->r, 0);
    for (uint32_t j = 0; j < KEYS; j++)
        all = most ? dt_residue_max(a->r, all, of(&x, j))
                   : dt_residue_add(a->r, all, dt_residue_mul(a->r, a->weight[j], of(&x, j)));
    return all;
}

static bool is_product(const CertOp *op, uint32_t x, uint32_t y, const char *axis)
{
    return is(op, "dot") && op->n_axes == 1 && op->axes[0] == axis &&
           ((op->in[0] == x && op->in[1] == y) || (op->in[0] == y && op->in[1] == x));
}

/* Computes the numbers of the result of op number `at`. A product of queries and keys is random; a
 * product that is a result of the instruction has none. */
static void number(Attends *a, uint32_t at)
{
    const CertOp *op = a->p->ops[at];
    const uint32_t *v = a->p->value;
    const uint32_t n = has(op->types[0], a->keys) ? KEYS : 1;
    a->number[at] = NULL;
    if (is(op, "dot")) {
        if (is_product(op, v[DT_SDPA_Q], v[DT_SDPA_K], a->elements))
            a->number[at] = a->z;
        else if (a->of->backward && is_product(op, v[DT_SDPA_DO], v[DT_SDPA_V], a->elements))
            a->number[at] = a->dp;
        return;
    }
    if (strcmp(op->types[0]->dtype, "bool") == 0 || has(op->types[0], a->elements))
        return;
    DtResidue *to = DT_NEW_ARRAY(a->walk->scratch, DtResidue, n);
    if (is(op, "reduce") && n == 1)
        to[0] = reduced(a, op);
    else
        maps(a, op, to, n);
    a->number[at] = to;
}

/* ---- softmax ---- */

static DtResidue plus(const Attends *a, DtResidue x, DtResidue y)
{
    return dt_residue_add(a->r, x, y);
}
static DtResidue times(const Attends *a, DtResidue x, DtResidue y)
{
    return dt_residue_mul(a->r, x, y);
}

/* Returns exp(scale z - the row's maximum) for key j; 0 if the query does not see the key. */
static DtResidue power(const Attends *a, uint32_t j)
{
    const DtResidue less = dt_residue_neg(a->r, a->row[DT_SDPA_MAX]);
    return a->sees[j] ? dt_residue_exp(a->r, plus(a, times(a, a->scale, a->z[j]), less))
                      : dt_residue_number(a->r, 0);
}

/* Sets a row's maximum and sum: forward from its scores, backward they are given. */
static void draw_row(Attends *a, uint64_t seed)
{
    DtResidue *max = &a->row[DT_SDPA_MAX], *sum = &a->row[DT_SDPA_SUM];
    *max = a->of->backward ? dt_residue_random(a->r, seed) : dt_residue_symbol(DT_RESIDUE_LOWEST);
    for (uint32_t j = 0; j < KEYS && !a->of->backward; j++)
        if (a->sees[j])
            *max = dt_residue_max(a->r, *max, times(a, a->scale, a->z[j]));
    *sum = a->of->backward ? dt_residue_random(a->r, seed + 1) : dt_residue_number(a->r, 0);
    for (uint32_t j = 0; j < KEYS && !a->of->backward; j++)
        *sum = plus(a, *sum, times(a, a->weight[j], power(a, j)));
    a->dot = dt_residue_random(a->r, seed + 2);
}

static void draw(Attends *a, uint64_t number)
{
    const uint64_t seed = number * 4 * KEYS;
    const bool hides = a->of->causal || a->of->window;
    dt_residue_draw(a->r, seed, 0);
    for (uint32_t j = 0; j < KEYS; j++) {
        a->sees[j] = j < SEEN || !hides;
        a->z[j] = dt_residue_random(a->r, seed + 3 * j);
        a->dp[j] = dt_residue_random(a->r, seed + 3 * j + 1);
        a->weight[j] = dt_residue_random(a->r, seed + 3 * j + 2);
    }
    draw_row(a, seed + 3 * KEYS);
    const DtResidue parts = dt_residue_inverse(a->r, a->row[DT_SDPA_SUM], true),
                    less = dt_residue_neg(a->r, a->dot);
    for (uint32_t j = 0; j < KEYS; j++) {
        a->want_p[j] = times(a, power(a, j), parts);
        a->want_ds[j] = times(a, a->scale, times(a, a->want_p[j], plus(a, a->dp[j], less)));
    }
}

static bool are(const Attends *a, uint32_t value, const DtResidue *want)
{
    const Numbers got = numbers_of(a, value);
    bool good = true;
    for (uint32_t j = 0; j < KEYS && good; j++)
        good = dt_plannumber_same(of(&got, j), want[j]);
    return good;
}

/* Whether the product sums over keys; or over queries, and over query heads that share one head of
 * keys. */
static bool is_over(const Attends *a, const CertOp *op, const char *axis)
{
    const PlanPlace *q = &a->p->place[DT_SDPA_Q], *k = &a->p->place[DT_SDPA_K];
    uint32_t n = 0, n_shared = 0;
    if (axis == a->keys)
        return op->n_axes == 1 && op->axes[0] == axis;
    for (uint32_t d = 0; d < q->rank; d++)
        n_shared += q->extent[d] > 1 && q->axis[d] != axis && dt_certplan_axis(k, q->axis[d]) < 0;
    bool has_axis = false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const int at = dt_certplan_axis(q, op->axes[i]);
        if (at < 0 || dt_certplan_axis(k, op->axes[i]) >= 0)
            return false;
        has_axis = has_axis || op->axes[i] == axis;
        n += q->extent[at] > 1 && op->axes[i] != axis;
    }
    return has_axis && n == n_shared;
}

/* Whether a result of the record is the product of this operand with the value that has the numbers
 * `want`, summed over this axis. */
static bool is_result(const Attends *a, uint32_t part, const DtResidue *want, uint32_t operand,
                      const char *axis)
{
    const CertOp *op = a->walk->frame->maker[a->p->value[part]];
    if (!op || !is(op, "dot") || !is_over(a, op, axis))
        return false;
    const uint32_t v = a->p->value[operand];
    return (op->in[1] == v && are(a, op->in[0], want)) ||
           (op->in[0] == v && are(a, op->in[1], want));
}

static bool has_results(const Attends *a)
{
    if (a->of->backward)
        return is_result(a, DT_SDPA_DQ, a->want_ds, DT_SDPA_K, a->keys) &&
               is_result(a, DT_SDPA_DK, a->want_ds, DT_SDPA_Q, a->queries) &&
               is_result(a, DT_SDPA_DV, a->want_p, DT_SDPA_DO, a->queries);
    if (!is_result(a, DT_SDPA_O, a->want_p, DT_SDPA_V, a->keys))
        return false;
    if (a->of->pointer[DT_SDPA_MAX] < 0)
        return true;
    const Numbers max = numbers_of(a, a->p->value[DT_SDPA_MAX]),
                  sum = numbers_of(a, a->p->value[DT_SDPA_SUM]);
    return dt_plannumber_same(of(&max, 0), a->row[DT_SDPA_MAX]) &&
           dt_plannumber_same(of(&sum, 0), a->row[DT_SDPA_SUM]);
}

static const CertType *scores_of(const Attends *a)
{
    for (uint32_t i = 0; i < a->p->n_ops; i++)
        if (is_product(a->p->ops[i], a->p->value[DT_SDPA_Q], a->p->value[DT_SDPA_K], a->elements))
            return a->p->ops[i]->types[0];
    return NULL;
}

/* Checks that residues may decide the comparison: no result combines rows, since a block of
 * attention has only some rows, and there are fewer sums over keys than keys. */
static bool is_looked_at(const Attends *a)
{
    uint32_t sums = 0;
    for (uint32_t i = 0; i < a->p->n_ops; i++)
        sums += is(a->p->ops[i], "reduce");
    return !a->walk->tiles.open && a->of->queries <= MOST_ROWS && a->of->keys <= MOST_ROWS &&
           sums + 2 < SEEN && dt_plannumber_is_low(a->p->ops, a->p->n_ops);
}

static bool is_softmax(Attends *a, DtResidue scale)
{
    bool good = true;
    a->scale = scale;
    for (uint32_t d = 0; d < DRAWS && good; d++) {
        draw(a, d);
        memset(a->number, 0, a->p->n_ops * sizeof a->number[0]);
        for (uint32_t i = 0; i < a->p->n_ops; i++)
            number(a, i);
        good = has_results(a);
    }
    return good;
}

/* Whether the ops are softmax with some reading of the scale: the record's number or, if that is 1
 * / c rounded to a double for a constant c of the ops, the exact 1 / c. */
static bool is_some_softmax(Attends *a)
{
    bool good = is_softmax(a, dt_residue_number(a->r, a->of->scale));
    for (uint32_t i = 0; i < a->p->n_ops; i++)
        for (uint32_t k = 0; k < a->p->ops[i]->n_in && !good; k++) {
            double c;
            if (is_literal(a->walk->frame, a->p->ops[i]->in[k], &c) && isfinite(c) && c != 0 &&
                1 / c == a->of->scale)
                good = is_softmax(a, dt_residue_inverse(a->r, dt_residue_number(a->r, c), true));
        }
    return good;
}

static bool is_proved(Attends *a)
{
    const CertType *scores = is_looked_at(a) && find_axes(a) ? scores_of(a) : NULL;
    a->r = dt_plannumber_begin(a->walk);
    if (!a->r || !scores || !all_lie(a, scores) || !are_masks(a))
        return false;
    a->number = DT_NEW_ARRAY(a->walk->scratch, DtResidue *, a->p->n_ops + 1);
    return is_some_softmax(a);
}

bool dt_certplan_attends(PlanWalk *walk, const PlanAttend *p)
{
    Attends attends = {.walk = walk, .p = p, .of = p->of};
    return is_proved(&attends) ||
           dt_certplan_fail(walk, "kernel %u is not the attention that its record of SDPA says",
                            p->of->kernel);
}
