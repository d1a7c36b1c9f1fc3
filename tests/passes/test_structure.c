/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives through calls and loops: against central differences, and what is saved and carried.
 * */
#include "gradcheck.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

static DtValue *matmul(DtBuilder *b, DtValue *x, DtValue *w, const char *axis)
{
    return dt_graph_dot(b, x, w, 1, &axis, DT_F32, NULL);
}

static DtValue *renamed(DtBuilder *b, DtValue *x, const char *from, const char *to)
{
    DtRelabel entry = {.n_from = 1, .n_to = 1, .from = {dt_intern(from)}, .to = {dt_intern(to)}};
    entry.to_extent[0] = dt_type_extent(x->type, entry.from[0]);
    return dt_graph_relabel(b, x, 1, &entry, NULL);
}

static DtFormalParam formal(const char *path)
{
    return (DtFormalParam){.path = dt_intern(path), .pattern = dt_intern(path)};
}

/* Makes the layer dense(x[b, e], w[e, f], b0[f]) = tanh(x @e w + b0). */
static DtFunc *dense(Check *c)
{
    DtFunc *f = check_func(c, "dense", DT_FUNC_LAYER);
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "b=3 e=4"), "x");
    DtValue *w = dt_graph_param(f, type_of(DT_F32, "e=4 f=4"), formal("w"));
    DtValue *b0 = dt_graph_param(f, type_of(DT_F32, "f=4"), formal("b0"));
    DtValue *h = dt_graph_binary(&c->b, DT_OP_ADD, matmul(&c->b, x, w, dt_intern("e")), b0);
    dt_graph_return(f, dt_graph_unary(&c->b, DT_OP_TANH, h));
    check_main(c);
    return f;
}

Test(calls, one_function_many_times)
{
    Check *c = check_new();
    DtFunc *f = dense(c);
    DtValue *x = input(c, "b=3 e=4"), *w = input(c, "e=4 f=4"), *b0 = input(c, "f=4"),
            *w2 = input(c, "e=4 f=4");
    DtValue *y = x;
    for (int i = 0; i < 3; i++) { /* w is used twice, w2 once: the cotangents of w are added up */
        DtOp *call = dt_graph_call(&c->b, f, "d", (DtValue *[]){y, i == 1 ? w2 : w, b0});
        y = renamed(&c->b, call->out[0], "f", "e");
    }
    dt_graph_return(c->func, y);
    const DtFunc *bwd = check_gradients(c, 4);
    const DtFunc *callee = f->bwd;
    cr_assert(callee != NULL);
    /* saved values: x and w themselves, and the result of tanh, which is a result of the function
     * anyway, so nothing is copied */
    cr_expect_eq(f->fwd, f, "the forward part of `dense` saves more than its result");
    cr_expect_eq(callee->saved.n, 3);
    cr_expect(callee->saved.at[0].is_input && callee->saved.at[1].is_input &&
              !callee->saved.at[2].is_input);
    uint32_t calls = 0;
    for (uint32_t i = 0; i < bwd->ops.n; i++)
        calls += bwd->ops.at[i]->kind == DT_OP_CALL;
    cr_expect_eq(calls, 3);
    check_free(c);
}

/* A function with an integer result and a float result, of which only one is used; and a float
 * argument without a gradient. */
Test(calls, inactive_arguments_and_results)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "pick", DT_FUNC_FN);
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "a=5"), "x"),
            *s = dt_graph_arg(f, type_of(DT_F32, "a=5"), "s");
    DtValue *values, *indices;
    dt_graph_topk(&c->b, x, dt_intern("a"), axis_of("c", 2), &values, &indices);
    dt_graph_return(f, values);
    dt_graph_return(f, indices);
    dt_graph_return(f, dt_graph_unary(&c->b, DT_OP_SIN, s));
    check_main(c);
    DtValue *a = input(c, "a=5"), *b = input(c, "a=5"), *table = input(c, "a=5");
    DtOp *call = dt_graph_call(&c->b, f, "pick", (DtValue *[]){a, b});
    const char *axis = dt_intern("a");
    DtValue *read = dt_graph_gather(&c->b, table, 1, &axis, &call->out[1]);
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, call->out[0], read));
    check_gradients(c, 2); /* b is only used for the result that is not used */
    cr_expect_eq(f->bwd->wanted.n, 1);
    cr_expect_eq(f->bwd->seeds.n, 1);
    check_free(c);
}

/* ---- loops ---- */

/* Makes a loop's body: x' = x + tanh(x @e w) * s with x carried, s invariant, w stacked; stacked
 * result: the sum of x'. */
static DtFunc *residual_body(Check *c)
{
    DtFunc *f = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(f, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "b=2 e=3"), "x");
    DtValue *s = dt_graph_arg(f, type_of(DT_F32, "e=3"), "s");
    DtValue *w = dt_graph_arg(f, type_of(DT_F32, "e=3 f=3"), "w");
    DtValue *y = dt_graph_unary(&c->b, DT_OP_TANH, matmul(&c->b, x, w, dt_intern("e")));
    y = dt_graph_binary(&c->b, DT_OP_MUL, renamed(&c->b, y, "f", "e"), s);
    DtValue *next = dt_graph_binary(&c->b, DT_OP_ADD, x, y);
    const char *axes[] = {dt_intern("e"), dt_intern("b")};
    dt_graph_return(f, next);
    dt_graph_return(f, dt_graph_reduce(&c->b, DT_REDUCE_SUM, next, 2, axes));
    check_main(c);
    return f;
}

static DtLoop loop_of(int64_t count, uint32_t carried, uint32_t invariant, uint32_t stacked,
                      uint32_t stacked_out)
{
    return (DtLoop){.label = dt_intern("h"),
                    .axis = dt_intern("h"),
                    .count = count,
                    .n_carried = carried,
                    .n_invariant = invariant,
                    .n_stacked = stacked,
                    .n_stacked_out = stacked_out};
}

static const DtOp *only_loop(const DtFunc *func)
{
    const DtOp *found = NULL;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_LOOP) {
            cr_assert(found == NULL, "more than one loop");
            found = func->ops.at[i];
        }
    cr_assert(found != NULL, "no loop");
    return found;
}

ParameterizedTestParameters(loops, residual)
{
    static int cases[] = {0, 1};
    return cr_make_param_array(int, cases, DT_COUNT(cases));
}

ParameterizedTest(int *reverse, loops, residual)
{
    Check *c = check_new();
    DtFunc *body = residual_body(c);
    DtValue *x = input(c, "b=2 e=3"), *s = input(c, "e=3"), *w = input(c, "h=4 e=3 f=3");
    DtLoop loop = loop_of(4, 1, 1, 1, 1);
    loop.reverse = *reverse != 0;
    DtOp *op = dt_graph_loop(&c->b, body, loop, (DtValue *[]){x, s, w});
    dt_graph_return(c->func, op->out[0]);
    dt_graph_return(c->func, op->out[1]);
    const DtFunc *bwd = check_gradients(c, 3);
    const DtOp *back = only_loop(bwd);
    cr_expect_eq(back->loop->reverse, !loop.reverse);
    cr_expect_eq(back->loop->n_carried, 2, "the cotangent of x and the sum for s");
    cr_expect_eq(back->loop->n_invariant, 1, "s");
    cr_expect_eq(back->loop->n_stacked_out, 1, "the cotangent of w");
    const DtOp *forward = only_loop(c->func->fwd);
    cr_expect_eq(forward->loop->n_stacked_out, 3, "the sum, x, and the dot");
    check_free(c);
}

/* A shared parameter: the same value invariant in the loop, used before and after it. */
Test(loops, shared_parameter)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(f, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "b=2 e=3"), "x");
    DtValue *w = dt_graph_arg(f, type_of(DT_F32, "e=3 f=3"), "w");
    DtValue *y = dt_graph_unary(&c->b, DT_OP_SIN, matmul(&c->b, x, w, dt_intern("e")));
    dt_graph_return(f, renamed(&c->b, y, "f", "e"));
    check_main(c);
    DtValue *x0 = input(c, "b=2 e=3"), *w0 = input_param(c, "e=3 f=3", "w");
    DtValue *start = renamed(&c->b, matmul(&c->b, x0, w0, dt_intern("e")), "f", "e");
    DtOp *op = dt_graph_loop(&c->b, f, loop_of(3, 1, 1, 0, 0), (DtValue *[]){start, w0});
    dt_graph_return(c->func, matmul(&c->b, op->out[0], w0, dt_intern("e")));
    check_gradients(c, 2);
    check_free(c);
}

/* Carried values: one has no gradient at first and gets one later, one never gets one, one is
 * overwritten by a constant, and one is an integer. */
Test(loops, activity_goes_round)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "h.body", DT_FUNC_BODY);
    const DtType *type = type_of(DT_F32, "e=3");
    DtValue *i = dt_graph_arg(f, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(f, type, "x"), *late = dt_graph_arg(f, type, "late");
    DtValue *never = dt_graph_arg(f, type, "never"), *reset = dt_graph_arg(f, type, "reset");
    DtValue *count = dt_graph_arg(f, dt_type_scalar(DT_I32), "count");
    DtValue *one = dt_graph_constant(&c->b, DT_F32, 1);
    DtValue *t = dt_graph_cast(&c->b, i, DT_F32);
    DtValue *next =
        dt_graph_binary(&c->b, DT_OP_ADD, dt_graph_binary(&c->b, DT_OP_MUL, x, late), reset);
    next = dt_graph_binary(&c->b, DT_OP_MUL, next, dt_graph_binary(&c->b, DT_OP_ADD, never, t));
    dt_graph_return(f, next);
    dt_graph_return(f, dt_graph_unary(&c->b, DT_OP_SIN, x));
    dt_graph_return(
        f, dt_graph_binary(&c->b, DT_OP_MUL, never, dt_graph_constant(&c->b, DT_F32, 0.5)));
    dt_graph_return(f, dt_graph_expand(&c->b, one, type));
    dt_graph_return(f, dt_graph_binary(&c->b, DT_OP_ADD, count, i));
    check_main(c);
    DtValue *x0 = input(c, "e=3"), *reset0 = input(c, "e=3");
    DtValue *half = dt_graph_expand(&c->b, dt_graph_constant(&c->b, DT_F32, 0.5), type);
    DtValue *zero = dt_graph_constant(&c->b, DT_I32, 0);
    DtOp *op = dt_graph_loop(&c->b, f, loop_of(4, 5, 0, 0, 0),
                             (DtValue *[]){x0, half, half, reset0, zero});
    DtValue *n = dt_graph_cast(&c->b, op->out[4], DT_F32);
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, op->out[0], n));
    dt_graph_return(c->func, op->out[2]);
    const DtFunc *bwd = check_gradients(c, 2);
    cr_expect_eq(only_loop(bwd)->loop->n_carried, 3, "x, late, reset");
    check_free(c);
}

/* Nested loops with parameters stacked twice, and the iteration numbers read in both parts. */
Test(loops, nested)
{
    Check *c = check_new();
    const DtType *type = type_of(DT_F32, "e=3");
    DtFunc *inner = check_func(c, "g.body", DT_FUNC_BODY);
    DtValue *k = dt_graph_arg(inner, dt_type_scalar(DT_I32), "k");
    DtValue *x = dt_graph_arg(inner, type, "x"), *w = dt_graph_arg(inner, type, "w");
    DtValue *kf = dt_graph_cast(&c->b, k, DT_F32);
    DtValue *y = dt_graph_unary(&c->b, DT_OP_SIN, dt_graph_binary(&c->b, DT_OP_MUL, x, w));
    dt_graph_return(inner,
                    dt_graph_binary(&c->b, DT_OP_ADD, y, dt_graph_binary(&c->b, DT_OP_MUL, x, kf)));
    DtFunc *outer = check_func(c, "h.body", DT_FUNC_BODY);
    DtValue *i = dt_graph_arg(outer, dt_type_scalar(DT_I32), "i");
    DtValue *u = dt_graph_arg(outer, type, "u"),
            *ws = dt_graph_arg(outer, type_of(DT_F32, "g=2 e=3"), "ws");
    DtLoop loop = loop_of(2, 1, 0, 1, 0);
    loop.label = loop.axis = dt_intern("g");
    DtValue *z = dt_graph_loop(&c->b, inner, loop, (DtValue *[]){u, ws})->out[0];
    dt_graph_return(outer, dt_graph_binary(&c->b, DT_OP_MUL, z, dt_graph_cast(&c->b, i, DT_F32)));
    dt_graph_return(outer, dt_graph_unary(&c->b, DT_OP_EXP, z));
    check_main(c);
    DtValue *x0 = input(c, "e=3"), *w0 = input(c, "h=3 g=2 e=3");
    DtOp *op = dt_graph_loop(&c->b, outer, loop_of(3, 1, 0, 1, 1), (DtValue *[]){x0, w0});
    dt_graph_return(c->func, op->out[0]);
    dt_graph_return(c->func, op->out[1]);
    check_gradients(c, 2);
    check_free(c);
}

/* A recurrence over the positions of a sequence: the loop's axis has the same name as an axis of
 * the saved values. */
Test(loops, axis_of_the_loop_in_saved_values)
{
    Check *c = check_new();
    const DtType *state = type_of(DT_F32, "h=3 e=2");
    DtFunc *f = check_func(c, "h.body", DT_FUNC_BODY);
    DtValue *i = dt_graph_arg(f, dt_type_scalar(DT_I32), "i");
    DtValue *y = dt_graph_arg(f, state, "y"), *x = dt_graph_arg(f, state, "x");
    const char *h = dt_intern("h");
    DtValue *row = dt_graph_gather(&c->b, x, 1, &h, &i);
    DtValue *here = dt_graph_binary(&c->b, DT_OP_EQ, dt_graph_iota(&c->b, axis_of("h", 3)), i);
    DtValue *moved = dt_graph_binary(&c->b, DT_OP_MUL, dt_graph_unary(&c->b, DT_OP_SIN, y), row);
    dt_graph_return(f, dt_graph_where(&c->b, here, moved, y));
    check_main(c);
    DtValue *y0 = input(c, "h=3 e=2"), *x0 = input(c, "h=3 e=2");
    dt_graph_return(c->func,
                    dt_graph_loop(&c->b, f, loop_of(3, 1, 1, 0, 0), (DtValue *[]){y0, x0})->out[0]);
    check_gradients(c, 2);
    check_free(c);
}

/* Dropout inside a layer inside a loop: the draw repeats in the backward part, so that it is not
 * saved. */
Test(loops, random_draws_repeat)
{
    Check *c = check_new();
    const DtType *type = type_of(DT_F32, "b=4 e=3");
    DtFunc *layer = check_func(c, "noisy", DT_FUNC_LAYER);
    DtValue *x = dt_graph_arg(layer, type, "x");
    DtValue *draw = dt_graph_rng(&c->b, type, "dropout#0");
    DtValue *keep = dt_graph_binary(&c->b, DT_OP_LT, dt_graph_constant(&c->b, DT_F32, 0.4), draw);
    DtValue *kept = dt_graph_where(&c->b, keep, x, dt_graph_constant(&c->b, DT_F32, 0));
    dt_graph_return(layer,
                    dt_graph_binary(&c->b, DT_OP_DIV, kept, dt_graph_constant(&c->b, DT_F32, 0.6)));
    DtFunc *body = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
    DtValue *y = dt_graph_arg(body, type, "y"),
            *w = dt_graph_arg(body, type_of(DT_F32, "e=3 f=3"), "w");
    DtValue *z = dt_graph_call(&c->b, layer, "drop", &y)->out[0];
    z = matmul(&c->b, z, w, dt_intern("e"));
    dt_graph_return(body, renamed(&c->b, dt_graph_unary(&c->b, DT_OP_SIN, z), "f", "e"));
    check_main(c);
    DtValue *y0 = input(c, "b=4 e=3"), *w0 = input(c, "h=3 e=3 f=3");
    dt_graph_return(
        c->func, dt_graph_loop(&c->b, body, loop_of(3, 1, 0, 1, 0), (DtValue *[]){y0, w0})->out[0]);
    check_gradients(c, 2);
    cr_expect_eq(layer->fwd, layer, "the draw was saved");
    check_free(c);
}

/* ---- saved values ---- */

/* gelu(x @e w + b): only the product is saved. Bias, scaling and everything inside of gelu is
 * recomputed. */
Test(saved, maps_of_a_saved_value)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=2 e=3"), *w = input(c, "e=3 f=4"), *b0 = input(c, "f=4");
    DtValue *u = dt_graph_binary(&c->b, DT_OP_ADD, matmul(&c->b, x, w, dt_intern("e")), b0);
    DtValue *erf =
        dt_graph_unary(&c->b, DT_OP_ERF,
                       dt_graph_binary(&c->b, DT_OP_MUL, u, dt_graph_constant(&c->b, DT_F32, 0.7)));
    DtValue *gate = dt_graph_binary(&c->b, DT_OP_ADD, erf, dt_graph_constant(&c->b, DT_F32, 1));
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, u, gate));
    const DtFunc *bwd = check_gradients(c, 3);
    cr_expect_eq(bwd->saved.n, 4, "x, w, b0 and the product");
    cr_expect_eq(c->func->fwd->results.n, 2);
    cr_expect_eq(c->func->fwd->results.at[1]->op->kind, DT_OP_DOT);
    check_free(c);
}

/* A gate like silu: g, u and the product of both are read by dots; the product is recomputed from g
 * and u. */
Test(saved, derived_from_other_saved_values)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=2 e=3"), *w1 = input(c, "e=3 f=4"), *w3 = input(c, "e=3 f=4"),
            *w2 = input(c, "f=4 e=3");
    DtValue *g = matmul(&c->b, x, w1, dt_intern("e")), *u = matmul(&c->b, x, w3, dt_intern("e"));
    DtValue *p = dt_graph_binary(&c->b, DT_OP_MUL, dt_graph_unary(&c->b, DT_OP_TANH, g), u);
    dt_graph_return(c->func, matmul(&c->b, p, w2, dt_intern("f")));
    const DtFunc *bwd = check_gradients(c, 4);
    cr_expect_eq(bwd->saved.n, 6, "x, w1, w3, w2, g, u");
    cr_expect_eq(c->func->fwd->results.n, 3);
    check_free(c);
}

/* A function in the library's table saves only its inputs, whatever it computes. */
Test(saved, library_function_as_a_whole)
{
    static const struct {
        const char *name;
        uint32_t n_saved;
    } cases[] = {{"softmax", 1}, {"lse", 1}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        Check *c = check_new();
        c->func->library = dt_intern(cases[i].name);
        const char *a = dt_intern("a");
        DtValue *x = input(c, "b=2 a=4");
        DtValue *top =
            dt_graph_unary(&c->b, DT_OP_STOP, dt_graph_reduce(&c->b, DT_REDUCE_MAX, x, 1, &a));
        DtValue *e = dt_graph_unary(&c->b, DT_OP_EXP, dt_graph_binary(&c->b, DT_OP_SUB, x, top));
        DtValue *sum = dt_graph_reduce(&c->b, DT_REDUCE_SUM, e, 1, &a);
        dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_DIV, e, sum));
        const DtFunc *bwd = check_gradients(c, 1);
        cr_expect_eq(bwd->saved.n, cases[i].n_saved);
        cr_expect_eq(c->func->fwd, c->func);
        cr_expect_str_eq(bwd->library, i == 0 ? "softmax.bwd" : "lse.bwd");
        check_free(c);
    }
}
