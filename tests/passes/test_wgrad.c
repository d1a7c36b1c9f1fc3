/* SPDX-License-Identifier: Apache-2.0 */
/* bwd_x followed by bwd_w gives exactly what bwd gives; and each part does only its own work. */
#include "gradcheck.h"

#include "base/intern.h"

#include <criterion/criterion.h>

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

static uint32_t count(const DtFunc *func, DtOpKind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        n += func->ops.at[i]->kind == kind;
        if (func->ops.at[i]->kind == DT_OP_LOOP)
            n += count(func->ops.at[i]->func, kind);
    }
    return n;
}

/* Splits bwd, and runs both versions on random cotangents. */
static void check_split(Check *c, const bool *is_weight)
{
    DtFunc *bwd = dt_differentiate_func(c->func), *fwd = c->func->fwd;
    DtTensor *forward[32], *operands[64], *seeds[8], *whole[32], *x[64], *w[32];
    unsigned seed = 99;
    for (uint32_t i = 0; i < bwd->seeds.n; i++) {
        seeds[i] = dt_interp_tensor(c->arena, c->func->results.at[bwd->seeds.at[i]]->type);
        fill_lattice(seeds[i], -1, 1, &seed);
    }
    dt_interp_run(&c->interp, fwd, c->in, forward);
    backward_operands(bwd, c->in, forward, seeds, operands);
    dt_interp_run(&c->interp, bwd, operands, whole);
    dt_inline_calls(bwd, NULL);
    dt_wgrad_func(bwd, is_weight);
    expect_valid(c->module);
    const DtFunc *bwd_x = c->func->bwd_x, *bwd_w = c->func->bwd_w;
    cr_assert(bwd_x != NULL && bwd_w != NULL);
    dt_interp_run(&c->interp, bwd_x, operands, x);
    uint32_t n_x = 0, n_w = 0;
    for (uint32_t i = 0; i < bwd->wanted.n; i++)
        n_x += !is_weight[bwd->wanted.at[i]];
    cr_assert_eq(bwd_x->results.n, n_x + bwd_w->inputs.n, "what crosses is not what bwd_w takes");
    dt_interp_run(&c->interp, bwd_w, x + n_x, w);
    n_x = 0;
    for (uint32_t i = 0; i < bwd->wanted.n; i++) {
        const DtTensor *got = is_weight[bwd->wanted.at[i]] ? w[n_w++] : x[n_x++];
        cr_expect(max_difference(whole[i], got) == 0, "cotangent of input %u differs",
                  bwd->wanted.at[i]);
    }
    cr_expect_eq(count(bwd_x, DT_OP_DOT) + count(bwd_w, DT_OP_DOT), count(bwd, DT_OP_DOT),
                 "a dot is computed twice");
}

/* x @ w1 -> tanh -> @ w2, in calls of one layer. */
Test(split, two_layers)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "dense", DT_FUNC_LAYER);
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "b=3 e=4"), "x"),
            *w = dt_graph_arg(f, type_of(DT_F32, "e=4 f=4"), "w");
    dt_graph_return(
        f, renamed(&c->b, dt_graph_unary(&c->b, DT_OP_TANH, matmul(&c->b, x, w, dt_intern("e"))),
                   "f", "e"));
    check_main(c);
    DtValue *in = input(c, "b=3 e=4"), *w1 = input(c, "e=4 f=4"), *w2 = input(c, "e=4 f=4");
    DtValue *h = dt_graph_call(&c->b, f, "one", (DtValue *[]){in, w1})->out[0];
    dt_graph_return(c->func, dt_graph_call(&c->b, f, "two", (DtValue *[]){h, w2})->out[0]);
    check_split(c, (bool[]){false, true, true});
    cr_expect_eq(count(c->func->bwd_x, DT_OP_DOT), 2);
    cr_expect_eq(count(c->func->bwd_w, DT_OP_DOT), 2);
    check_free(c);
}

/* A residual loop with a stacked weight, and a shared weight whose gradient is a carried sum. */
Test(split, loop)
{
    Check *c = check_new();
    DtFunc *f = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(f, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(f, type_of(DT_F32, "b=2 e=3"), "x"),
            *s = dt_graph_arg(f, type_of(DT_F32, "e=3"), "s");
    DtValue *w = dt_graph_arg(f, type_of(DT_F32, "e=3 f=3"), "w");
    DtValue *y = dt_graph_unary(&c->b, DT_OP_TANH, matmul(&c->b, x, w, dt_intern("e")));
    y = dt_graph_binary(&c->b, DT_OP_MUL, renamed(&c->b, y, "f", "e"), s);
    dt_graph_return(f, dt_graph_binary(&c->b, DT_OP_ADD, x, y));
    check_main(c);
    DtValue *x0 = input(c, "b=2 e=3"), *s0 = input(c, "e=3"), *w0 = input(c, "h=4 e=3 f=3");
    DtLoop loop = {.label = dt_intern("h"),
                   .axis = dt_intern("h"),
                   .count = 4,
                   .n_carried = 1,
                   .n_invariant = 1,
                   .n_stacked = 1};
    dt_graph_return(c->func, dt_graph_loop(&c->b, f, loop, (DtValue *[]){x0, s0, w0})->out[0]);
    check_split(c, (bool[]){false, true, true});
    cr_expect_eq(count(c->func->bwd_x, DT_OP_LOOP), 1);
    cr_expect_eq(count(c->func->bwd_w, DT_OP_LOOP), 1);
    cr_expect_eq(count(c->func->bwd_w, DT_OP_TANH), 0);
    cr_expect_eq(count(c->func->bwd_x, DT_OP_DOT), 1);
    check_free(c);
}

/* Nested loops, a value that both parts need and that has the loop's axis, and an invariant that is
 * known early. */
Test(split, nested_loops)
{
    Check *c = check_new();
    const DtType *type = type_of(DT_F32, "h=3 e=3");
    DtFunc *inner = check_func(c, "g.body", DT_FUNC_BODY);
    dt_graph_arg(inner, dt_type_scalar(DT_I32), "k");
    DtValue *x = dt_graph_arg(inner, type, "x"),
            *s = dt_graph_arg(inner, type_of(DT_F32, "e=3"), "s");
    DtValue *w = dt_graph_arg(inner, type_of(DT_F32, "e=3 f=3"), "w");
    DtValue *y = dt_graph_unary(&c->b, DT_OP_SIN, matmul(&c->b, x, w, dt_intern("e")));
    dt_graph_return(inner, dt_graph_binary(&c->b, DT_OP_MUL, renamed(&c->b, y, "f", "e"), s));
    DtFunc *outer = check_func(c, "h.body", DT_FUNC_BODY);
    dt_graph_arg(outer, dt_type_scalar(DT_I32), "i");
    DtValue *u = dt_graph_arg(outer, type, "u"),
            *t = dt_graph_arg(outer, type_of(DT_F32, "e=3"), "t");
    DtValue *ws = dt_graph_arg(outer, type_of(DT_F32, "g=2 e=3 f=3"), "ws");
    DtLoop loop = {.label = dt_intern("g"),
                   .axis = dt_intern("g"),
                   .count = 2,
                   .n_carried = 1,
                   .n_invariant = 1,
                   .n_stacked = 1};
    DtValue *z = dt_graph_loop(&c->b, inner, loop, (DtValue *[]){u, t, ws})->out[0];
    dt_graph_return(outer, dt_graph_binary(&c->b, DT_OP_ADD, z, u));
    check_main(c);
    DtValue *x0 = input(c, "h=3 e=3"), *t0 = input(c, "e=3"), *w0 = input(c, "h=3 g=2 e=3 f=3");
    loop = (DtLoop){.label = dt_intern("h"),
                    .axis = dt_intern("h"),
                    .count = 3,
                    .n_carried = 1,
                    .n_invariant = 1,
                    .n_stacked = 1};
    dt_graph_return(c->func, dt_graph_loop(&c->b, outer, loop, (DtValue *[]){x0, t0, w0})->out[0]);
    check_split(c, (bool[]){false, false, true});
    check_free(c);
}

/* A value is passed between the parts in its narrow dtype; both parts compute the wider copy. */
Test(split, wider_copy)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=3 e=4"), *w = input(c, "b=3 e=4");
    dt_graph_return(c->func,
                    dt_graph_cast(&c->b, dt_graph_binary(&c->b, DT_OP_MUL, x, w), DT_BF16));
    check_split(c, (bool[]){false, true});
    cr_expect_eq(count(c->func->bwd_x, DT_OP_CAST), 1);
    cr_expect_eq(count(c->func->bwd_w, DT_OP_CAST), 1);
    uint32_t narrow = 0;
    for (uint32_t i = 0; i < c->func->bwd_w->inputs.n; i++)
        narrow += c->func->bwd_w->inputs.at[i]->type->dtype == DT_BF16;
    cr_expect_eq(narrow, 1, "%u inputs of the late part are in bf16", narrow);
    check_free(c);
}

/* A function with only weights, and one with only arguments. */
Test(split, one_part_only)
{
    for (int weight = 0; weight < 2; weight++) {
        Check *c = check_new();
        DtValue *x = input(c, "b=3 e=4"), *w = input(c, "e=4 f=4");
        dt_graph_return(c->func,
                        dt_graph_unary(&c->b, DT_OP_TANH, matmul(&c->b, x, w, dt_intern("e"))));
        check_split(c, (bool[]){weight, weight});
        cr_expect_eq(count(weight ? c->func->bwd_x : c->func->bwd_w, DT_OP_DOT), 0);
        check_free(c);
    }
}
