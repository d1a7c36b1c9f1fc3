/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the function with the wrong gradient. Each function with a backward one is tested alone,
 * on random operands, as the gradients of the program are (derivative.c): the change of its
 * results along a direction, by forward derivatives, against the inner product of the direction
 * with the result of its backward function for random cotangents. The innermost wrong function
 * is named: it calls no wrong one. This only locates an error that was found, since random
 * operands may be ones that the program never has. Custom gradients are tested in this way on
 * every compile (cli/gradients.c), and two functions that should compute the same are run alone
 * (cli/tried.c). */
#include "passes/check/internal.h"

#include "base/philox.h"
#include "ir/tangent.h"

#include <math.h>

enum { DRAW = 79 };
static const double tolerance = 1e-8, sure = 1e-5;

typedef struct Alone {
    DtArena *arena;
    uint64_t seed;
    uint32_t step, n_drawn;
    double lo, hi;     /* the range of float operands */
    double ones;       /* the share of booleans and integers that are 1 (the others are 0) */
    const bool *moves; /* by input: the direction moves it; NULL: it moves all inputs */
} Alone;

/* A random tensor: floats between lo and hi; integers and booleans are 0 or 1. */
static DtTensor *drawn(Alone *a, const DtType *type, double lo, double hi)
{
    DtTensor *tensor = dt_interp_tensor(a->arena, type);
    const uint64_t key = ++a->n_drawn;
    for (int64_t i = 0; i < dt_type_elements(type); i++) {
        const double u = dt_philox_uniform(dt_philox(key, (uint64_t)i, DRAW, 0));
        tensor->at[i] = dt_dtype_is_float(type->dtype) ? lo + (hi - lo) * u : u < a->ones;
    }
    return tensor;
}

static double inner(const DtTensor *x, const DtTensor *y)
{
    double sum = 0;
    for (int64_t i = 0; x && y && i < dt_type_elements(x->type); i++)
        sum += x->at[i] * y->at[i];
    return sum;
}

/* The inner product of the cotangents with the forward derivative of func(in) along the
 * direction. */
static double forwards(Alone *a, DtInterp *interp, const DtFunc *func, DtTensor *const *in,
                       DtTensor *const *along, DtTensor *const *cotangents)
{
    DtTangents tangents = {.interp = interp};
    DtTensor **out = DT_NEW_ARRAY(a->arena, DtTensor *, 2 * func->results.n + 1),
             **moves = out + func->results.n;
    double sum = 0;
    dt_tangent_run(&tangents, func, in, along, out, moves);
    for (uint32_t i = 0; i < func->bwd->seeds.n; i++)
        sum += inner(cotangents[i], moves[func->bwd->seeds.at[i]]);
    return sum;
}

/* The inner product of the direction with the results of func's backward function for the
 * cotangents. */
static double backwards(Alone *a, DtInterp *interp, const DtFunc *func, DtTensor *const *in,
                        DtTensor *const *along, DtTensor *const *cotangents)
{
    const DtFunc *fwd = func->fwd, *bwd = func->bwd;
    DtTensor **kept = DT_NEW_ARRAY(a->arena, DtTensor *, fwd->results.n + 1);
    DtTensor **given = DT_NEW_ARRAY(a->arena, DtTensor *, bwd->inputs.n + 1);
    DtTensor **made = DT_NEW_ARRAY(a->arena, DtTensor *, bwd->results.n + 1);
    double sum = 0;
    dt_interp_run(interp, fwd, in, kept);
    for (uint32_t i = 0; i < bwd->inputs.n; i++)
        given[i] = i >= bwd->saved.n              ? cotangents[i - bwd->saved.n]
                   : bwd->saved.at[i].is_input ? in[bwd->saved.at[i].index]
                                               : kept[bwd->saved.at[i].index];
    dt_interp_run(interp, bwd, given, made);
    for (uint32_t i = 0; i < bwd->wanted.n; i++)
        sum += inner(made[i], along[bwd->wanted.at[i]]);
    return sum;
}

/* Compares the derivative along one random direction, forward and backward. */
static void try_alone(Alone *a, const DtFunc *func, double *ret_forward, double *ret_backward)
{
    DtInterp interp = {.arena = a->arena, .seed = a->seed, .step = a->step, .path = ""};
    DtTensor **in = DT_NEW_ARRAY(a->arena, DtTensor *, 2 * func->inputs.n + 1),
             **along = in + func->inputs.n;
    DtTensor **cotangents = DT_NEW_ARRAY(a->arena, DtTensor *, func->bwd->seeds.n + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        in[i] = drawn(a, func->inputs.at[i]->type, a->lo, a->hi);
    for (uint32_t i = 0; i < func->bwd->wanted.n; i++) {
        const uint32_t input = func->bwd->wanted.at[i];
        if (!a->moves || a->moves[input])
            along[input] = drawn(a, func->inputs.at[input]->type, -1, 1);
    }
    for (uint32_t i = 0; i < func->bwd->seeds.n; i++)
        cotangents[i] = drawn(a, func->results.at[func->bwd->seeds.at[i]]->type, -1, 1);
    *ret_forward = forwards(a, &interp, func, in, along, cotangents);
    *ret_backward = backwards(a, &interp, func, in, along, cotangents);
}

static bool is_right(Alone *a, const DtFunc *func)
{
    double x, y;
    try_alone(a, func, &x, &y);
    return !(fabs(x - y) > tolerance * fmax(1, fmax(fabs(x), fabs(y))));
}

/* Whether the function, or one that it calls, states a surrogate gradient, which differs from the
 * forward derivative on purpose. */
static bool has_surrogate(const DtFunc *func)
{
    bool has = func->gradient && func->gradient->is_surrogate;
    for (uint32_t i = 0; !has && i < func->ops.n; i++)
        has = func->ops.at[i]->func && has_surrogate(func->ops.at[i]->func);
    return has;
}

static bool is_wrong(DtJudge *j, const DtFunc *func)
{
    if (!func || !func->bwd || !func->fwd || func->bwd->primal != func)
        return false;
    /* the function before differentiation, with the gradients that it states */
    const DtFunc *before = dt_graph_find(j->of->loss, func->name);
    if (before && has_surrogate(before))
        return false;
    Alone alone = {.arena = dt_arena_new(), .seed = j->seed, .step = j->step, .lo = 0.3, .hi = 1.3,
                   .ones = 0.5};
    const bool right = is_right(&alone, func);
    dt_arena_free(alone.arena);
    return !right;
}

/* Returns a function that func calls or loops over and whose own backward function is wrong; or
 * NULL. */
static const DtFunc *wrong_callee(DtJudge *j, const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (is_wrong(j, func->ops.at[i]->func))
            return func->ops.at[i]->func;
    return NULL;
}

const DtFunc *dt_judge_wrong_function(DtJudge *j)
{
    const DtFunc *found = NULL;
    for (uint32_t i = 0; !found && i < j->of->serial->funcs.n; i++)
        found = is_wrong(j, j->of->serial->funcs.at[i]) ? j->of->serial->funcs.at[i] : NULL;
    for (const DtFunc *next = found; next; next = wrong_callee(j, next))
        found = next;
    return found;
}

/* ---- custom gradients ---- */

/* Estimates how many multiplications, and elements moved or added, evaluating func takes. */
static double work_of(const DtFunc *func)
{
    double work = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        double here = op->func ? work_of(op->func) : 0;
        for (uint32_t k = 0; k < op->n_out; k++)
            here += (double)dt_type_elements(op->out[k]->type);
        for (uint32_t k = 0; op->kind == DT_OP_DOT && k < op->n_axes; k++)
            here *=
                (double)op->in[0]->type->axes[dt_type_find(op->in[0]->type, op->axes[k])].extent;
        for (uint32_t k = 0; op->kind == DT_OP_REDUCE && k < op->n_in; k++)
            here += (double)dt_type_elements(op->in[k]->type);
        work += here * (op->kind == DT_OP_LOOP ? (double)op->loop->count : 1);
    }
    return work;
}

/* ranges from which operands are drawn */
static const double ends[][2] = {{0.3, 1.3}, {-1.3, 1.3}, {-4, 4}};

bool dt_judge_refutes(const DtFunc *func, const bool *moves, double most)
{
    const double work = work_of(func) + work_of(func->fwd) + work_of(func->bwd);
    bool wrong = false;
    for (size_t i = 0; i < DT_COUNT(ends) && !wrong && work <= most; i++) {
        Alone alone = {.arena = dt_arena_new(), .n_drawn = (uint32_t)i << 16, .lo = ends[i][0],
                       .hi = ends[i][1], .ones = 0.5, .moves = moves};
        double x, y;
        try_alone(&alone, func, &x, &y);
        wrong = isfinite(x) && isfinite(y) && fabs(x - y) > sure * fmax(1, fmax(fabs(x), fabs(y)));
        dt_arena_free(alone.arena);
    }
    return wrong;
}

/* ---- two functions ---- */

/* Compares two tensors element by element, allowing roundings of the largest element or of 1; sets
 * ret_finite if any element was finite. */
static bool are_alike(const DtTensor *x, const DtTensor *y, bool *ret_finite)
{
    const int64_t n = dt_type_elements(x->type);
    double largest = 1;
    bool same = true;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x->at[i]))
            largest = fmax(largest, fabs(x->at[i]));
    for (int64_t i = 0; i < n; i++) {
        const bool finite = isfinite(x->at[i]);
        same = same && finite == (bool)isfinite(y->at[i]) &&
               (!finite || fabs(x->at[i] - y->at[i]) <= tolerance * largest);
        *ret_finite = *ret_finite || finite;
    }
    return same;
}

static bool try_both(Alone *a, const DtFunc *x, const DtFunc *y, bool *ret_finite)
{
    DtInterp interp = {.arena = a->arena, .path = ""};
    DtTensor **in = DT_NEW_ARRAY(a->arena, DtTensor *, x->inputs.n + 2 * x->results.n + 1),
             **of_x = in + x->inputs.n, **of_y = of_x + x->results.n;
    bool same = true;
    for (uint32_t i = 0; i < x->inputs.n; i++)
        in[i] = drawn(a, x->inputs.at[i]->type, a->lo, a->hi);
    dt_interp_run(&interp, x, in, of_x);
    dt_interp_run(&interp, y, in, of_y);
    for (uint32_t i = 0; i < x->results.n; i++)
        same = are_alike(of_x[i], of_y[i], ret_finite) && same;
    return same;
}

DtJudgeAlike dt_judge_alike(const DtFunc *x, const DtFunc *y, double most)
{
    static const double ones[] = {0.5, 1, 0}; /* shares of ones in masks, including all and none */
    bool same = true, finite = false;
    if (work_of(x) + work_of(y) > most)
        return DT_JUDGE_NOT_TRIED;
    for (size_t i = 0; same && i < DT_COUNT(ends) * DT_COUNT(ones); i++) {
        const double *range = ends[i / DT_COUNT(ones)];
        Alone alone = {.arena = dt_arena_new(), .n_drawn = (uint32_t)i << 16, .lo = range[0],
                       .hi = range[1], .ones = ones[i % DT_COUNT(ones)]};
        same = try_both(&alone, x, y, &finite);
        dt_arena_free(alone.arena);
    }
    return !same ? DT_JUDGE_UNLIKE : finite ? DT_JUDGE_ALIKE : DT_JUDGE_NOT_TRIED;
}
