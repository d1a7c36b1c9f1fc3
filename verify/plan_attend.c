/* SPDX-License-Identifier: Apache-2.0 */
/* Attention that a library may run instead of a kernel (plan.h, SDPA), proved of an instruction: its ops compute what
 * this file's own reading of the record says, of tensors that lie where the record says.
 *
 * What a query sees is followed by the intervals of plan_mask.c, for every query. Then the mask is known, and the ops
 * of a row are compared with softmax and its derivative by numbers, on all keys of some queries: they may be sums,
 * products, quotients, exponentials, maxima and sums along keys, few of which agree there to six digits and differ
 * elsewhere. Rounding of what lies between is no part of what they mean. */
#include "verify/plan_internal.h"
#include "verify/plan_number.h"

#include "plan/kinds.h"

#include <math.h>
#include <string.h>

enum { ROWS = 3, MOST_DEPTH = 12, MOST_ROWS = 65536 };

typedef struct Attends {
    PlanWalk *walk;
    const PlanAttend *p;
    const DtPlanSdpa *of;
    const char *queries, *keys, *elements; /* axes */
    double *z, *dp, *row; /* by key: scores, products of gradient and values; by part of the record: of the query */
    double dot;           /* of the query: the result times its gradient */
    double **number;      /* by op: of each key, or one */
    double *want_p, *want_ds, most, sum;
    int64_t first, last; /* keys that the query sees */
} Attends;

static bool is(const CertOp *op, const char *kind) { return strcmp(op->kind, kind) == 0; }

static bool has(const CertType *type, const char *axis) { return dt_certtext_axis(type, axis) != NULL; }

/* ---- axes ---- */

/* The only axis of one place that the other lacks, of that extent and stride; NULL: there is none, or another one. */
static const char *own_axis(const PlanPlace *x, const PlanPlace *y, int64_t extent, int64_t stride)
{
    const char *found = NULL;
    for (uint32_t d = 0; d < x->rank; d++)
        if (dt_certplan_axis(y, x->axis[d]) < 0 && x->extent[d] == extent && x->stride[d] == stride)
            found = found ? NULL : x->axis[d];
    return found;
}

/* Adjacent elements of both. */
static const char *element_axis(const PlanPlace *x, const PlanPlace *y, int64_t extent)
{
    for (uint32_t d = 0; d < x->rank; d++) {
        const int at = dt_certplan_axis(y, x->axis[d]);
        if (at >= 0 && x->extent[d] == extent && x->stride[d] == 1 && y->extent[at] == extent && y->stride[at] == 1)
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

/* ---- where tensors lie ---- */

static bool of_keys(uint32_t part)
{
    return part == DT_SDPA_K || part == DT_SDPA_V || part == DT_SDPA_DK || part == DT_SDPA_DV;
}

static bool of_rows(uint32_t part) { return part == DT_SDPA_MAX || part == DT_SDPA_SUM; }

/* The shared axes of q, those of keys first, each in the order of the products' result. */
static uint32_t shared_axes(const Attends *a, const CertType *scores, const char *ret_axis[CERT_RANK])
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

/* Index 1 of an axis, of whose later ones there are `behind` elements, is so far on: in heads, or in whole batches.
 */
static bool is_step(const DtPlanSdpa *s, uint32_t part, int64_t extent, int64_t behind, int64_t step)
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
        const int64_t extent = a->p->place[DT_SDPA_Q].extent[dt_certplan_axis(&a->p->place[DT_SDPA_Q], axis[i])];
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

/* ---- what a query sees ---- */

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
        if (first > last || dt_certplan_sees(a->walk, value, a->queries, a->keys, i, first, last) != 1 ||
            (first > 0 && dt_certplan_sees(a->walk, value, a->queries, a->keys, i, 0, first - 1) != 0) ||
            (last < s->keys - 1 &&
             dt_certplan_sees(a->walk, value, a->queries, a->keys, i, last + 1, s->keys - 1) != 0))
            return false;
    }
    return true;
}

/* Every choice among the ops is by the record's mask; and there is one, if something is hidden. */
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

typedef enum How { UNKNOWN, SAME, NEG, EXP, ADD, SUB, MUL, DIV, MAX, CHOOSE } How;

static How how_of(const CertOp *op)
{
    static const struct {
        const char *kind;
        uint32_t n_in;
        How how;
    } rows[] = {{"cast", 1, SAME}, {"stop", 1, SAME}, {"expand", 1, SAME}, {"relabel", 1, SAME}, {"neg", 1, NEG},
                {"exp", 1, EXP},   {"add", 2, ADD},   {"sub", 2, SUB},     {"mul", 2, MUL},      {"div", 2, DIV},
                {"max", 2, MAX},   {"where", 3, CHOOSE}};
    for (size_t i = 0; i < DT_COUNT(rows) && !op->n_relabels; i++)
        if (op->n_in == rows[i].n_in && is(op, rows[i].kind))
            return rows[i].how;
    return UNKNOWN;
}

static double apply(How how, double x, double y)
{
    switch (how) {
    case SAME: return x;
    case NEG: return -x;
    case EXP: return exp(x);
    case ADD: return x + y;
    case SUB: return x - y;
    case MUL: return x * y;
    case DIV: return x / y;
    case MAX: return dt_plannumber_most(x, y);
    default: return NAN;
    }
}

/* Made of numbers alone: by the function or by who calls it. */
static double constant(const PlanFrame *frame, uint32_t value, uint32_t depth)
{
    const CertOp *op = frame->maker[value];
    if (depth == 0 || (!op && (frame->kind != PLAN_CALL || value >= frame->op->n_in)))
        return NAN;
    if (!op)
        return constant(frame->outer, frame->op->in[value], depth - 1);
    if (is(op, "const"))
        return op->number;
    return apply(how_of(op), op->n_in ? constant(frame, op->in[0], depth - 1) : NAN,
                 op->n_in > 1 ? constant(frame, op->in[1], depth - 1) : NAN);
}

/* Whether two casts of values are of these. */
static const CertOp *uncast(const PlanFrame *frame, uint32_t *value)
{
    const CertOp *op = frame->maker[*value];
    while (op && is(op, "cast")) {
        *value = op->in[0];
        op = frame->maker[*value];
    }
    return op;
}

/* The sum over elements of the result times its gradient. */
static bool is_dot(const Attends *a, uint32_t value)
{
    const PlanFrame *frame = a->walk->frame;
    const CertOp *sum = frame->maker[value], *product = sum && is(sum, "reduce") ? frame->maker[sum->in[0]] : NULL;
    if (!product || !is(product, "mul") || sum->n_axes != 1 || sum->axes[0] != a->elements ||
        (sum->reduce && strcmp(sum->reduce, "sum") != 0))
        return false;
    uint32_t x = product->in[0], y = product->in[1];
    uncast(frame, &x);
    uncast(frame, &y);
    const uint32_t o = a->p->value[DT_SDPA_O], d_o = a->p->value[DT_SDPA_DO];
    return (x == o && y == d_o) || (x == d_o && y == o);
}

/* What keys have of a value. */
typedef struct Numbers {
    const double *at; /* NULL: all have `one`; NAN: nothing is known */
    int64_t step;
    double one;
} Numbers;

static double of(const Numbers *x, int64_t j) { return x->at ? x->at[x->step * j] : x->one; }

static Numbers numbers_of(const Attends *a, uint32_t value)
{
    for (uint32_t i = 0; i < a->p->n_ops; i++)
        if (a->p->ops[i]->first_out == value && a->number[i])
            return (Numbers){.at = a->number[i], .step = has(a->p->ops[i]->types[0], a->keys)};
    for (uint32_t part = DT_SDPA_MAX; part <= DT_SDPA_SUM && a->of->backward; part++)
        if (a->p->value[part] == value)
            return (Numbers){.one = a->row[part]};
    return (Numbers){.one = a->of->backward && is_dot(a, value) ? a->dot
                                                                : constant(a->walk->frame, value, MOST_DEPTH)};
}

static bool sees(const Attends *a, int64_t j) { return j >= a->first && j <= a->last; }

static void map(const Attends *a, const CertOp *op, double *ret, int64_t n)
{
    const How how = how_of(op);
    Numbers in[3] = {{.one = NAN}, {.one = NAN}, {.one = NAN}};
    for (uint32_t i = 0; i < op->n_in && how != UNKNOWN; i++)
        in[i] = numbers_of(a, op->in[i]);
    for (int64_t j = 0; j < n; j++)
        ret[j] = how == CHOOSE ? of(&in[sees(a, j) ? 1 : 2], j) : apply(how, of(&in[0], j), of(&in[1], j));
}

static double reduced(const Attends *a, const CertOp *op)
{
    const bool most = op->reduce && strcmp(op->reduce, "max") == 0;
    if (op->n_axes != 1 || op->axes[0] != a->keys || (op->reduce && !most && strcmp(op->reduce, "sum") != 0))
        return NAN;
    const Numbers x = numbers_of(a, op->in[0]);
    double all = of(&x, 0);
    for (int64_t j = 1; j < a->of->keys; j++)
        all = most ? dt_plannumber_most(all, of(&x, j)) : all + of(&x, j);
    return all;
}

static bool is_product(const CertOp *op, uint32_t x, uint32_t y, const char *axis)
{
    return is(op, "dot") && op->n_axes == 1 && op->axes[0] == axis &&
           ((op->in[0] == x && op->in[1] == y) || (op->in[0] == y && op->in[1] == x));
}

/* Products of scores are drawn; others, which are results, have no number. */
static void number(Attends *a, uint32_t at)
{
    const CertOp *op = a->p->ops[at];
    const uint32_t *v = a->p->value;
    const int64_t n = has(op->types[0], a->keys) ? a->of->keys : 1;
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
    double *to = DT_NEW_ARRAY(a->walk->scratch, double, n);
    if (is(op, "reduce") && n == 1)
        to[0] = reduced(a, op);
    else
        map(a, op, to, n);
    a->number[at] = to;
}

/* ---- softmax ---- */

static void draw(Attends *a, uint32_t row)
{
    const DtPlanSdpa *s = a->of;
    const int64_t n = s->keys;
    seen(s, row == 0 ? s->queries - 1 : row == 1 ? s->queries / 2 : s->queries / 3, &a->first, &a->last);
    a->most = -INFINITY;
    a->sum = 0;
    for (int64_t j = 0; j < n; j++) {
        a->z[j] = 2 * sin(7.0 * (double)(j % 8191) + 3 * row);
        a->dp[j] = 2 * cos(5.0 * (double)(j % 8191) + row);
        a->most = sees(a, j) ? fmax(a->most, s->scale * a->z[j]) : a->most;
    }
    for (int64_t j = 0; j < n; j++)
        a->sum += sees(a, j) ? exp(s->scale * a->z[j] - a->most) : 0;
    a->row[DT_SDPA_MAX] = s->backward ? 0.7 + row : a->most;
    a->row[DT_SDPA_SUM] = s->backward ? 1.9 + row : a->sum;
    a->dot = 0.3 - row;
    for (int64_t j = 0; j < n; j++) {
        a->want_p[j] = sees(a, j) ? exp(s->scale * a->z[j] - a->row[DT_SDPA_MAX]) / a->row[DT_SDPA_SUM] : 0;
        a->want_ds[j] = s->scale * a->want_p[j] * (a->dp[j] - a->dot);
    }
}

/* most: the largest of the row, beside which what is nearly 0 is compared. */
static bool near(double got, double want, double most)
{
    return dt_plannumber_near(got, want, fmax(fabs(want), 1e-3 * most));
}

static bool are(const Attends *a, uint32_t value, const double *want)
{
    const Numbers got = numbers_of(a, value);
    bool good = true;
    double most = 0;
    for (int64_t j = 0; j < a->of->keys; j++)
        most = fmax(most, fabs(want[j]));
    for (int64_t j = 0; j < a->of->keys && good; j++)
        good = near(of(&got, j), want[j], most);
    return good;
}

/* Over keys, or over queries and heads of queries that share one of keys. */
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

/* The result is the product of what has these numbers and that operand. */
static bool is_result(const Attends *a, uint32_t part, const double *want, uint32_t operand, const char *axis)
{
    const CertOp *op = a->walk->frame->maker[a->p->value[part]];
    if (!op || !is(op, "dot") || !is_over(a, op, axis))
        return false;
    const uint32_t v = a->p->value[operand];
    return (op->in[1] == v && are(a, op->in[0], want)) || (op->in[0] == v && are(a, op->in[1], want));
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
    const Numbers max = numbers_of(a, a->p->value[DT_SDPA_MAX]), sum = numbers_of(a, a->p->value[DT_SDPA_SUM]);
    return near(of(&max, 0), a->most, 1) && near(of(&sum, 0), a->sum, 1);
}

static const CertType *scores_of(const Attends *a)
{
    for (uint32_t i = 0; i < a->p->n_ops; i++)
        if (is_product(a->p->ops[i], a->p->value[DT_SDPA_Q], a->p->value[DT_SDPA_K], a->elements))
            return a->p->ops[i]->types[0];
    return NULL;
}

/* Rows and keys are looked at one by one; a block of attention has some of its rows only. */
static bool is_looked_at(const Attends *a)
{
    return !a->walk->tiles.open && a->of->queries <= MOST_ROWS && a->of->keys <= MOST_ROWS;
}

static bool is_proved(Attends *a)
{
    PlanWalk *walk = a->walk;
    const PlanAttend *p = a->p;
    const int64_t n = p->of->keys;
    const CertType *scores = is_looked_at(a) && find_axes(a) ? scores_of(a) : NULL;
    bool good = scores && all_lie(a, scores) && are_masks(a);
    if (!good)
        return false;
    a->z = DT_NEW_ARRAY(walk->scratch, double, n);
    a->dp = DT_NEW_ARRAY(walk->scratch, double, n);
    a->want_p = DT_NEW_ARRAY(walk->scratch, double, n);
    a->want_ds = DT_NEW_ARRAY(walk->scratch, double, n);
    a->row = DT_NEW_ARRAY(walk->scratch, double, DT_SDPA_PARTS);
    a->number = DT_NEW_ARRAY(walk->scratch, double *, p->n_ops + 1);
    for (uint32_t row = 0; row < ROWS && good; row++) {
        draw(a, row);
        for (uint32_t i = 0; i < p->n_ops; i++)
            number(a, i);
        good = has_results(a);
    }
    return good;
}

bool dt_certplan_attends(PlanWalk *walk, const PlanAttend *p)
{
    Attends attends = {.walk = walk, .p = p, .of = p->of};
    return is_proved(&attends) ||
           dt_certplan_fail(walk, "kernel %u is not the attention that its record of SDPA says", p->of->kernel);
}
