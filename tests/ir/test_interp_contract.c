/* SPDX-License-Identifier: Apache-2.0 */
/* dot, reduce, scan and topk against loops over named coordinates, in every order of axes. Random
 * elements are small multiples of 1/4, so sums of them and of their products are exact in any
 * order. */
#include "interp_fixture.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>

/* Attention scores: q[b, h, s, d] @d k[b, h, t, d]: b, h batch axes. */
Test(interp_contract, dot_with_batch_axes_in_every_order)
{
    const DtType *q_type = type_of(DT_F32, "b=2 h=2 s=3 d=4"),
                 *k_type = type_of(DT_F32, "b=2 h=2 t=2 d=4");
    const DtType *wish = type_of(DT_F32, "b=2 h=2 s=3 t=2");
    for (int i = 0; i < 24; i++) {
        Fixture *f = fixture_new();
        DtValue *q = arg_random(f, reordered(q_type, i), 1),
                *k = arg_random(f, reordered(k_type, i * 7 % 24), 2);
        const char *axes[] = {dt_intern("d")};
        DtTensor *got =
            run(f, dt_graph_dot(&f->b, q, k, 1, axes, DT_F32, reordered(wish, i * 11 % 24)));
        for (int n = 0; n < 24; n++) {
            int b = n & 1, h = n >> 1 & 1, t = n >> 2 & 1, s = n / 8;
            double want = 0;
            for (int d = 0; d < 4; d++)
                want += AT(f->args[0], P("b", b), P("h", h), P("s", s), P("d", d)) *
                        AT(f->args[1], P("b", b), P("h", h), P("t", t), P("d", d));
            cr_assert_eq(AT(got, P("b", b), P("h", h), P("s", s), P("t", t)), want);
        }
        fixture_free(f);
    }
}

/* o @(heads, head) w: two summed axes, which the operands have in different orders. */
Test(interp_contract, dot_over_two_axes)
{
    Fixture *f = fixture_new();
    DtValue *o = arg_random(f, type_of(DT_F32, "h=2 s=3 d=4"), 1);
    DtValue *w = arg_random(f, type_of(DT_F32, "d=4 e=5 h=2"), 2);
    const char *axes[] = {dt_intern("h"), dt_intern("d")};
    DtTensor *got = run(f, dt_graph_dot(&f->b, o, w, 2, axes, DT_F32, NULL));
    for (int s = 0; s < 3; s++)
        for (int e = 0; e < 5; e++) {
            double want = 0;
            for (int h = 0; h < 2; h++)
                for (int d = 0; d < 4; d++)
                    want += AT(f->args[0], P("h", h), P("s", s), P("d", d)) *
                            AT(f->args[1], P("h", h), P("e", e), P("d", d));
            cr_assert_eq(AT(got, P("s", s), P("e", e)), want);
        }
    fixture_free(f);
}

/* A product with a scalar result, and one that sums over nothing (a product with broadcasting). */
Test(interp_contract, dot_to_scalar)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "a=3"), (double[]){1, 2, 3});
    DtValue *y = arg_values(f, type_of(DT_F32, "a=3"), (double[]){4, -5, 6});
    const char *axes[] = {dt_intern("a")};
    expect_values(run(f, dt_graph_dot(&f->b, x, y, 1, axes, DT_F32, NULL)), (double[]){12}, 1);
    fixture_free(f);
}

Test(interp_contract, dot_rounds_once_at_the_end)
{
    Fixture *f = fixture_new();
    f->interp.rounds = true;
    DtValue *x = arg_values(f, type_of(DT_F32, "a=3"), (double[]){1, 0x1p-25, 0x1p-25});
    DtValue *y = arg_values(f, type_of(DT_F32, "a=3"), (double[]){1, 1.5, 1.5});
    const char *axes[] = {dt_intern("a")};
    DtTensor *got = run(f, dt_graph_dot(&f->b, x, y, 1, axes, DT_F32, NULL));
    cr_assert_eq(got->at[0], 1 + 0x1p-23); /* each term alone would be lost by rounding */
    fixture_free(f);
}

static double fold(DtReduce kind, double a, double b)
{
    return kind == DT_REDUCE_SUM ? a + b : kind == DT_REDUCE_MAX ? fmax(a, b) : fmin(a, b);
}

Test(interp_contract, reduce_in_every_order)
{
    const DtType *type = type_of(DT_F32, "a=3 b=2 c=4");
    for (int i = 0; i < 6 * 3; i++) {
        Fixture *f = fixture_new();
        DtReduce kind = (DtReduce)(i / 6);
        DtValue *x = arg_random(f, reordered(type, i % 6), 1);
        const char *one[] = {dt_intern("b")}, *two[] = {dt_intern("c"), dt_intern("a")};
        DtTensor *over_b = run(f, dt_graph_reduce(&f->b, kind, x, 1, one));
        DtTensor *over_ca = run(f, dt_graph_reduce(&f->b, kind, x, 2, two));
        for (int b = 0; b < 2; b++) {
            double want = kind == DT_REDUCE_SUM ? 0 : kind == DT_REDUCE_MAX ? -INFINITY : INFINITY;
            for (int a = 0; a < 3; a++)
                for (int c = 0; c < 4; c++)
                    want = fold(kind, want, AT(f->args[0], P("a", a), P("b", b), P("c", c)));
            cr_assert_eq(AT(over_ca, P("b", b)), want);
        }
        for (int a = 0; a < 3; a++)
            for (int c = 0; c < 4; c++)
                cr_assert_eq(AT(over_b, P("a", a), P("c", c)),
                             fold(kind, AT(f->args[0], P("a", a), P("b", 0), P("c", c)),
                                  AT(f->args[0], P("a", a), P("b", 1), P("c", c))));
        fixture_free(f);
    }
}

Test(interp_contract, reduce_corners)
{
    Fixture *f = fixture_new();
    const char *axes[] = {dt_intern("a")};
    DtValue *nan = arg_values(f, type_of(DT_F32, "a=3"), (double[]){1, NAN, 3});
    DtValue *low = arg_values(f, type_of(DT_F32, "a=2"), (double[]){-INFINITY, -INFINITY});
    DtValue *wide = arg_values(f, type_of(DT_I32, "a=3"), (double[]){INT32_MAX, 1, 1});
    cr_expect(isnan(run(f, dt_graph_reduce(&f->b, DT_REDUCE_MAX, nan, 1, axes))->at[0]));
    cr_expect(isnan(run(f, dt_graph_reduce(&f->b, DT_REDUCE_MIN, nan, 1, axes))->at[0]));
    cr_expect_eq(run(f, dt_graph_reduce(&f->b, DT_REDUCE_MAX, low, 1, axes))->at[0], -INFINITY);
    cr_expect_eq(run(f, dt_graph_reduce(&f->b, DT_REDUCE_SUM, wide, 1, axes))->at[0],
                 (double)INT32_MIN + 1);
    fixture_free(f);
}

/* Inclusive, over (b, a) with a fastest, forwards and backwards. */
Test(interp_contract, scan_in_every_order)
{
    const DtType *type = type_of(DT_F32, "a=3 b=2 c=2");
    for (int i = 0; i < 12; i++) {
        Fixture *f = fixture_new();
        bool reverse = i >= 6;
        DtValue *x = arg_random(f, reordered(type, i % 6), 1);
        const char *axes[] = {dt_intern("b"), dt_intern("a")};
        DtTensor *got = run(f, dt_graph_scan(&f->b, x, 2, axes, reverse));
        cr_assert_eq(got->type, x->type);
        for (int c = 0; c < 2; c++)
            for (int n = 0; n < 6; n++) {
                double want = 0;
                for (int m = reverse ? n : 0; m <= (reverse ? 5 : n); m++)
                    want += AT(f->args[0], P("b", m / 3), P("a", m % 3), P("c", c));
                cr_assert_eq(AT(got, P("b", n / 3), P("a", n % 3), P("c", c)), want);
            }
        fixture_free(f);
    }
}

Test(interp_contract, scan_by_hand)
{
    Fixture *f = fixture_new();
    const char *axes[] = {dt_intern("a")};
    DtValue *x = arg_values(f, type_of(DT_I32, "a=4"), (double[]){1, 2, 3, 4});
    expect_values(run(f, dt_graph_scan(&f->b, x, 1, axes, false)), (double[]){1, 3, 6, 10}, 4);
    expect_values(run(f, dt_graph_scan(&f->b, x, 1, axes, true)), (double[]){10, 9, 7, 4}, 4);
    fixture_free(f);
}

/* Sorted, ties to the lower index, NaN first; 0 and -0 tie. */
Test(interp_contract, topk_by_hand)
{
    Fixture *f = fixture_new();
    DtValue *values, *indices;
    double x[] = {1, 5, 2, 5, NAN, -1, -0.0, 0.0, NAN};
    DtValue *v = arg_values(f, type_of(DT_F32, "a=9"), x);
    dt_graph_topk(&f->b, v, dt_intern("a"), axis_of("c", 8), &values, &indices);
    expect_values(run(f, indices), (double[]){4, 8, 1, 3, 2, 0, 6, 7}, 8);
    expect_values(run(f, values), (double[]){NAN, NAN, 5, 5, 2, 1, -0.0, 0.0}, 8);
    fixture_free(f);
}

/* In every order of axes: the k-th value is the one that exactly k others beat (they are larger, or
 * equal with a lower index). */
Test(interp_contract, topk_in_every_order)
{
    const DtType *type = type_of(DT_F32, "b=2 a=9 s=3");
    for (int i = 0; i < 6; i++) {
        Fixture *f = fixture_new();
        DtValue *values, *indices, *x = arg_random(f, reordered(type, i), 1);
        dt_graph_topk(&f->b, x, dt_intern("a"), axis_of("c", 4), &values, &indices);
        DtTensor *got_values = run(f, values), *got_indices = run(f, indices);
        cr_assert_eq(got_indices->type->dtype, DT_I32);
        int found = 0;
        for (int n = 0; n < 2 * 3 * 9; n++) {
            int b = n & 1, s = n / 2 % 3, a = n / 6, beaten_by = 0;
            double value = AT(f->args[0], P("b", b), P("s", s), P("a", a));
            for (int other = 0; other < 9; other++) {
                double y = AT(f->args[0], P("b", b), P("s", s), P("a", other));
                beaten_by += y > value || (y == value && other < a);
            }
            if (beaten_by >= 4)
                continue;
            found++;
            cr_assert_eq(AT(got_values, P("b", b), P("s", s), P("c", beaten_by)), value);
            cr_assert_eq(AT(got_indices, P("b", b), P("s", s), P("c", beaten_by)), a);
        }
        cr_assert_eq(found, 2 * 3 * 4);
        fixture_free(f);
    }
}
