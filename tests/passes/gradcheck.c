/* SPDX-License-Identifier: Apache-2.0 */
#include "gradcheck.h"

#include "base/intern.h"
#include "ir/tangent.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* EXACT: the tolerance for roundings of doubles */
static const double STEP = 1e-5, TOLERANCE = 1e-6, EXACT = 1e-12;

/* ---- random numbers of the tests ---- */

static uint32_t next_random(unsigned *seed)
{
    uint64_t x = *seed * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull;
    x ^= x >> 31;
    x *= 0xBF58476D1CE4E5B9ull;
    *seed += 1;
    return (uint32_t)(x >> 32);
}

static double uniform(unsigned *seed) { return (double)next_random(seed) / 4294967296.0; }

void fill_lattice(DtTensor *tensor, double lo, double hi, unsigned *seed)
{
    const int64_t n = dt_type_elements(tensor->type);
    for (int64_t i = 0; i < n; i++)
        tensor->at[i] = lo + (hi - lo) * ((double)i + 0.37) / (double)n;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = next_random(seed) % (i + 1);
        const double t = tensor->at[i];
        tensor->at[i] = tensor->at[k];
        tensor->at[k] = t;
    }
}

/* ---- building ---- */

Check *check_new(void)
{
    DtArena *arena = dt_arena_new();
    Check *c = DT_NEW(arena, Check);
    c->arena = arena;
    c->module = dt_graph_module(arena, NULL);
    c->func = dt_graph_func(c->module, "f", DT_FUNC_LAYER);
    c->b.func = c->func;
    c->interp = (DtInterp){.arena = arena, .seed = 7, .step = 3, .path = ""};
    c->seed = 1;
    return c;
}

void check_free(Check *c) { dt_arena_free(c->arena); }

DtFunc *check_func(Check *c, const char *name, DtFuncKind kind)
{
    return c->b.func = dt_graph_func(c->module, name, kind);
}

void check_main(Check *c) { c->b.func = c->func; }

static DtValue *new_input(Check *c, DtDtype dtype, const char *axes)
{
    cr_assert(c->n < CHECK_INPUTS && c->b.func == c->func);
    const DtType *type = type_of(dtype, axes);
    c->in[c->n++] = dt_interp_tensor(c->arena, type);
    return dt_graph_arg(c->func, type, NULL);
}

DtValue *input(Check *c, const char *axes)
{
    DtValue *value = new_input(c, DT_F32, axes);
    fill_lattice(c->in[c->n - 1], -1.5, 1.5, &c->seed);
    return value;
}

DtValue *input_positive(Check *c, const char *axes)
{
    DtValue *value = new_input(c, DT_F32, axes);
    fill_lattice(c->in[c->n - 1], 0.3, 2, &c->seed);
    return value;
}

DtValue *input_param(Check *c, const char *axes, const char *path)
{
    cr_assert(c->n < CHECK_INPUTS && c->b.func == c->func);
    const DtType *type = type_of(DT_F32, axes);
    c->in[c->n] = dt_interp_tensor(c->arena, type);
    fill_lattice(c->in[c->n++], -1.5, 1.5, &c->seed);
    return dt_graph_param(c->func, type,
                          (DtFormalParam){.path = dt_intern(path), .pattern = dt_intern(path)});
}

DtValue *input_integers(Check *c, const char *axes, int lo, int hi)
{
    DtValue *value = new_input(c, DT_I32, axes);
    DtTensor *tensor = c->in[c->n - 1];
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        tensor->at[i] = lo + (int)(next_random(&c->seed) % (uint32_t)(hi - lo));
    return value;
}

DtValue *input_bool(Check *c, const char *axes)
{
    DtValue *value = new_input(c, DT_BOOL, axes);
    DtTensor *tensor = c->in[c->n - 1];
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        tensor->at[i] = next_random(&c->seed) % 2;
    return value;
}

/* ---- comparing ---- */

double dot_tensors(const DtTensor *a, const DtTensor *b)
{
    double sum = 0;
    cr_assert_eq(a->type, b->type, "types differ");
    for (int64_t i = 0; i < dt_type_elements(a->type); i++)
        sum += a->at[i] * b->at[i];
    return sum;
}

double max_difference(const DtTensor *a, const DtTensor *b)
{
    double worst = 0;
    cr_assert_eq(a->type, b->type, "types differ");
    for (int64_t i = 0; i < dt_type_elements(a->type); i++) {
        const double d = a->at[i] == b->at[i] ? 0 : fabs(a->at[i] - b->at[i]);
        if (isnan(d))
            return d; /* written so that a NaN fails, too: it is neither greater nor less */
        worst = d > worst ? d : worst;
    }
    return worst;
}

void expect_valid(const DtModule *module)
{
    DtText problems = {0};
    const bool valid = dt_verify_module(module, &problems);
    cr_assert(valid, "%s", problems.at);
    dt_text_free(&problems);
}

void backward_operands(const DtFunc *bwd, DtTensor *const *in, DtTensor *const *forward,
                       DtTensor *const *seeds, DtTensor **ret_operands)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < bwd->saved.n; i++) {
        const DtSaved saved = bwd->saved.at[i];
        ret_operands[n++] = saved.is_input ? in[saved.index] : forward[saved.index];
    }
    for (uint32_t i = 0; i < bwd->seeds.n; i++)
        ret_operands[n++] = seeds[i];
    cr_assert_eq(n, bwd->inputs.n);
}

void run_backward(DtInterp *interp, DtFunc *bwd, DtTensor *const *in, DtTensor *const *seeds,
                  DtTensor **ret_results, DtTensor **ret_cotangents)
{
    DtFunc *fwd = bwd->primal->fwd;
    DtTensor **forward = DT_NEW_ARRAY(interp->arena, DtTensor *, fwd->results.n + 1);
    DtTensor **operands = DT_NEW_ARRAY(interp->arena, DtTensor *, bwd->inputs.n + 1);
    dt_interp_run(interp, fwd, in, forward);
    for (uint32_t i = 0; i < bwd->primal->results.n; i++)
        ret_results[i] = forward[i];
    backward_operands(bwd, in, forward, seeds, operands);
    dt_interp_run(interp, bwd, operands, ret_cotangents);
}

typedef struct Quotient {
    DtInterp *interp;
    DtFunc *func, *bwd;
    DtTensor *const *in;
    DtTensor **seeds;
} Quotient;

/* Returns the product <seeds, f(in + step * direction)>. */
static double objective(const Quotient *q, DtTensor *const *direction, double step)
{
    DtTensor **moved = DT_NEW_ARRAY(q->interp->arena, DtTensor *, q->func->inputs.n + 1);
    DtTensor **out = DT_NEW_ARRAY(q->interp->arena, DtTensor *, q->func->results.n + 1);
    for (uint32_t i = 0; i < q->func->inputs.n; i++) {
        moved[i] = q->in[i];
        if (direction[i] == NULL)
            continue;
        moved[i] = dt_interp_tensor(q->interp->arena, q->in[i]->type);
        for (int64_t k = 0; k < dt_type_elements(q->in[i]->type); k++)
            moved[i]->at[k] = q->in[i]->at[k] + step * direction[i]->at[k];
    }
    dt_interp_run(q->interp, q->func, moved, out);
    double sum = 0;
    for (uint32_t i = 0; i < q->bwd->seeds.n; i++)
        sum += dot_tensors(q->seeds[i], out[q->bwd->seeds.at[i]]);
    return sum;
}

/* Returns <seeds, derivative of f at `in` along the direction>, by forward derivatives. */
static double forward(const Quotient *q, DtTensor *const *direction)
{
    DtTangents tangents = {.interp = q->interp};
    DtTensor **out = DT_NEW_ARRAY(q->interp->arena, DtTensor *, 2 * q->func->results.n + 1);
    DtTensor **moves = out + q->func->results.n;
    dt_tangent_run(&tangents, q->func, q->in, direction, out, moves);
    double sum = 0;
    for (uint32_t i = 0; i < q->bwd->seeds.n; i++)
        if (moves[q->bwd->seeds.at[i]])
            sum += dot_tensors(q->seeds[i], moves[q->bwd->seeds.at[i]]);
    return sum;
}

static void compare(const Quotient *q, DtTensor **cotangents, int only, unsigned *seed,
                    const char *name)
{
    DtTensor **direction = DT_NEW_ARRAY(q->interp->arena, DtTensor *, q->func->inputs.n + 1);
    double got = 0, scale = 1e-2;
    for (uint32_t i = 0; i < q->bwd->wanted.n; i++) {
        const uint32_t input_number = q->bwd->wanted.at[i];
        if (only >= 0 && (uint32_t)only != i)
            continue;
        DtTensor *d = dt_interp_tensor(q->interp->arena, q->in[input_number]->type);
        for (int64_t k = 0; k < dt_type_elements(d->type); k++)
            d->at[k] = 2 * uniform(seed) - 1;
        direction[input_number] = d;
        got += dot_tensors(cotangents[i], d);
    }
    const double want =
        (objective(q, direction, STEP) - objective(q, direction, -STEP)) / (2 * STEP);
    const double exact = forward(q, direction);
    scale = fmax(scale, fmax(fabs(got), fabs(want)));
    cr_assert(fabs(got - exact) <= EXACT * scale, "%s: input %d: backward %.17g, forward %.17g",
              name, only < 0 ? -1 : (int)q->bwd->wanted.at[only], got, exact);
    cr_assert(fabs(got - want) <= TOLERANCE * scale,
              "%s: input %d: backward %.12g, difference quotient %.12g", name,
              only < 0 ? -1 : (int)q->bwd->wanted.at[only], got, want);
}

DtFunc *check_function(DtInterp *interp, DtFunc *func, DtTensor *const *in, unsigned seed,
                       const char *name)
{
    DtFunc *bwd = dt_differentiate_func(func);
    cr_assert(bwd != NULL, "%s: nothing to differentiate", name);
    Quotient q = {.interp = interp, .func = func, .bwd = bwd, .in = in};
    q.seeds = DT_NEW_ARRAY(interp->arena, DtTensor *, bwd->seeds.n + 1);
    for (uint32_t i = 0; i < bwd->seeds.n; i++) {
        q.seeds[i] = dt_interp_tensor(interp->arena, func->results.at[bwd->seeds.at[i]]->type);
        for (int64_t k = 0; k < dt_type_elements(q.seeds[i]->type); k++)
            q.seeds[i]->at[k] = 2 * uniform(&seed) - 1;
    }
    DtTensor **plain = DT_NEW_ARRAY(interp->arena, DtTensor *, func->results.n + 1);
    DtTensor **results = DT_NEW_ARRAY(interp->arena, DtTensor *, func->results.n + 1);
    DtTensor **cotangents = DT_NEW_ARRAY(interp->arena, DtTensor *, bwd->results.n + 1);
    dt_interp_run(interp, func, in, plain);
    run_backward(interp, bwd, in, q.seeds, results, cotangents);
    for (uint32_t i = 0; i < func->results.n; i++)
        cr_assert(max_difference(plain[i], results[i]) == 0,
                  "%s: the forward part gives another result %u", name, i);
    for (int round = 0; round < 3; round++)
        compare(&q, cotangents, -1, &seed, name);
    for (uint32_t i = 0; i < bwd->wanted.n; i++)
        compare(&q, cotangents, (int)i, &seed, name);
    return bwd;
}

DtFunc *check_gradients(Check *c, uint32_t expect_wanted)
{
    DtFunc *bwd = check_function(&c->interp, c->func, c->in, c->seed, c->func->name);
    cr_assert_eq(bwd->wanted.n, expect_wanted, "%u inputs have cotangents, not %u", bwd->wanted.n,
                 expect_wanted);
    expect_valid(c->module);
    return bwd;
}
