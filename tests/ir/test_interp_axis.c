/* SPDX-License-Identifier: Apache-2.0 */
/* Axis ops against formulas over named coordinates, in every order of the operand's axes. */
#include "interp_fixture.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>

static DtRelabel entry(const char *from, const char *from2, const char *to, int64_t extent,
                       const char *to2, int64_t extent2)
{
    DtRelabel e = {0};
    const char *old[] = {from, from2}, *new[] = {to, to2};
    int64_t extents[] = {extent, extent2};
    for (int i = 0; i < 2 && old[i]; i++)
        e.from[e.n_from++] = dt_intern(old[i]);
    for (int i = 0; i < 2 && new[i]; i++) {
        e.to[e.n_to] = dt_intern(new[i]);
        e.to_extent[e.n_to++] = extents[i];
    }
    return e;
}

/* x[h -> (g, p), (s, e) -> m]: split and merge row-major, first name major. */
Test(interp_axis, split_and_merge)
{
    const DtType *type = type_of(DT_F32, "h=6 s=2 e=3"), *wish = type_of(DT_F32, "p=3 m=6 g=2");
    for (int i = 0; i < 6 * 6; i++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, reordered(type, i % 6), 1);
        DtRelabel entries[] = {entry("h", NULL, "g", 2, "p", 3), entry("s", "e", "m", 6, NULL, 0)};
        DtTensor *got = run(f, dt_graph_relabel(&f->b, x, 2, entries, reordered(wish, i / 6)));
        for (int h = 0; h < 6; h++)
            for (int s = 0; s < 2; s++)
                for (int e = 0; e < 3; e++)
                    cr_assert_eq(AT(got, P("g", h / 3), P("p", h % 3), P("m", s * 3 + e)),
                                 AT(f->args[0], P("h", h), P("s", s), P("e", e)));
        fixture_free(f);
    }
}

/* x[a -> b, b -> a] swaps; an entry without new names drops an axis of extent 1, one without old
 * makes one. */
Test(interp_axis, swap_drop_add)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=2 one=1 b=3 c=2"), 1);
    DtRelabel entries[] = {entry("a", NULL, "b", 2, NULL, 0), entry("b", NULL, "a", 3, NULL, 0),
                           entry("one", NULL, NULL, 0, NULL, 0),
                           entry(NULL, NULL, "new", 1, NULL, 0)};
    DtTensor *got = run(f, dt_graph_relabel(&f->b, x, 4, entries, NULL));
    cr_assert_eq(got->type->rank, 4);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 2; c++)
                cr_assert_eq(AT(got, P("b", a), P("a", b), P("c", c), P("new", 0)),
                             AT(f->args[0], P("a", a), P("b", b), P("c", c), P("one", 0)));
    fixture_free(f);
}

/* (g, p) -> (q, r): three rows of four become two rows of six. */
Test(interp_axis, merge_and_split_in_one)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "p=4 g=3"), 1);
    DtRelabel entries[] = {entry("g", "p", "q", 2, "r", 6)};
    DtTensor *got = run(f, dt_graph_relabel(&f->b, x, 1, entries, type_of(DT_F32, "r=6 q=2")));
    for (int n = 0; n < 12; n++)
        cr_assert_eq(AT(got, P("q", n / 6), P("r", n % 6)),
                     AT(f->args[0], P("g", n / 4), P("p", n % 4)));
    fixture_free(f);
}

Test(interp_axis, reorder)
{
    const DtType *type = type_of(DT_F32, "a=2 b=3 c=2 d=2");
    for (int i = 0; i < 24; i++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, type, 1);
        DtTensor *got = run(f, dt_graph_reorder(&f->b, x, reordered(type, i)));
        for (int n = 0; n < 24; n++) {
            Place at[] = {{"a", n & 1}, {"b", n / 8}, {"c", n >> 1 & 1}, {"d", n >> 2 & 1}};
            cr_assert_eq(element(got, 4, at), element(f->args[0], 4, at));
        }
        fixture_free(f);
    }
}

Test(interp_axis, slice_with_step)
{
    for (int i = 0; i < 2; i++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, reordered(type_of(DT_F32, "a=7 b=2"), i), 1);
        DtTensor *got = run(f, dt_graph_slice(&f->b, x, dt_intern("a"), 1, 2, 3));
        cr_assert_eq(dt_type_extent(got->type, dt_intern("a")), 3);
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 2; b++)
                cr_assert_eq(AT(got, P("a", a), P("b", b)),
                             AT(f->args[0], P("a", 1 + 2 * a), P("b", b)));
        fixture_free(f);
    }
}

/* [1 2 3] with 2 before, 1 after and one between: - - 1 - 2 - 3 - */
Test(interp_axis, pad_with_step)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "a=3"), (double[]){1, 2, 3});
    expect_values(run(f, dt_graph_pad(&f->b, x, dt_intern("a"), 2, 1, 2, -9)),
                  (double[]){-9, -9, 1, -9, 2, -9, 3, -9}, 8);
    fixture_free(f);
}

Test(interp_axis, pad_in_every_order)
{
    for (int i = 0; i < 2; i++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, reordered(type_of(DT_F32, "a=2 b=3"), i), 1);
        DtTensor *got = run(f, dt_graph_pad(&f->b, x, dt_intern("b"), 1, 2, 1, 100));
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 6; b++) {
                double want = b >= 1 && b < 4 ? AT(f->args[0], P("a", a), P("b", b - 1)) : 100;
                cr_assert_eq(AT(got, P("a", a), P("b", b)), want);
            }
        fixture_free(f);
    }
}

/* slice undoes pad: its transpose. */
Test(interp_axis, slice_of_pad)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=4 b=2"), 1);
    DtValue *padded = dt_graph_pad(&f->b, x, dt_intern("a"), 3, 2, 3, 5);
    DtTensor *got = run(f, dt_graph_slice(&f->b, padded, dt_intern("a"), 3, 3, 4));
    expect_values(got, f->args[0]->at, 8);
    fixture_free(f);
}

Test(interp_axis, concat_of_three)
{
    for (int i = 0; i < 8; i++) {
        Fixture *f = fixture_new();
        DtValue *x[] = {arg_random(f, reordered(type_of(DT_F32, "a=2 b=2"), i & 1), 1),
                        arg_random(f, reordered(type_of(DT_F32, "a=1 b=2"), i >> 1 & 1), 2),
                        arg_random(f, reordered(type_of(DT_F32, "a=3 b=2"), i >> 2), 3)};
        DtTensor *got = run(f, dt_graph_concat(&f->b, dt_intern("a"), 3, x));
        for (int a = 0; a < 6; a++)
            for (int b = 0; b < 2; b++) {
                int part = a < 2 ? 0 : a < 3 ? 1 : 2, start = (int[]){0, 2, 3}[part];
                cr_assert_eq(AT(got, P("a", a), P("b", b)),
                             AT(f->args[part], P("a", a - start), P("b", b)));
            }
        fixture_free(f);
    }
}

Test(interp_axis, expand)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=2 b=3"), 1);
    DtTensor *got = run(f, dt_graph_expand(&f->b, x, type_of(DT_F32, "b=3 n=4 a=2")));
    for (int n = 0; n < 24; n++) {
        Place at[] = {{"a", n & 1}, {"b", n / 8}, {"n", n >> 1 & 3}};
        cr_assert_eq(element(got, 3, at), element(f->args[0], 3, at));
    }
    fixture_free(f);
}

/* Terms are shares of the operand, unequal ones, that add up to it. */
Test(interp_axis, terms)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=2 b=3"), 1);
    DtTensor *got =
        run(f, dt_graph_terms(&f->b, x, dt_intern("w"), type_of(DT_F32, "a=2 w=4 b=3")));
    for (int n = 0; n < 6; n++) {
        double sum = 0, last = 0;
        for (int w = 0; w < 4; w++) {
            const double term = AT(got, P("a", n / 3), P("w", w), P("b", n % 3));
            cr_assert(w == 0 || term != last);
            sum += last = term;
        }
        cr_assert_float_eq(sum, AT(f->args[0], P("a", n / 3), P("b", n % 3)), 1e-15);
    }
    fixture_free(f);
}

/* Each element once, that of a neighbour or of a partner, who gets this one. */
Test(interp_axis, partner)
{
    for (int number = 0; number < 6; number++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, type_of(DT_F32, "a=2 w=5 b=3"), 1);
        DtTensor *got = run(f, dt_graph_partner(&f->b, x, dt_intern("w"), false, number, 0));
        for (int n = 0; n < 30; n++) {
            const int w = n / 3 % 5,
                      from = number == 0 ? (w + 4) % 5 : (number - 1 - w + 5) % 5;
            cr_assert_eq(AT(got, P("a", n / 15), P("w", w), P("b", n % 3)),
                         AT(f->args[0], P("a", n / 15), P("w", from), P("b", n % 3)));
        }
        fixture_free(f);
    }
}

/* Length 7, windows of 3, stride 2, padding 1 before and 2 after: floor((7 + 3 - 3) / 2) + 1 = 4
 * windows. */
Test(interp_axis, window_and_fold)
{
    DtRange range = {.lo = 1, .hi = 2, .step = 2, .n = 3};
    for (int i = 0; i < 2; i++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, reordered(type_of(DT_F32, "a=7 c=2"), i), 1);
        DtValue *windows = dt_graph_window(&f->b, x, dt_intern("a"), dt_intern("w"), range, -50);
        DtTensor *got = run(f, windows);
        cr_assert_eq(dt_type_extent(got->type, dt_intern("a")), 4);
        DtTensor *folded =
            run(f, dt_graph_fold(&f->b, windows, dt_intern("a"), dt_intern("w"), range, 7));
        for (int c = 0; c < 2; c++) {
            double sums[7] = {0};
            for (int a = 0; a < 4; a++)
                for (int w = 0; w < 3; w++) {
                    int position = 2 * a + w - 1;
                    bool inside = position >= 0 && position < 7;
                    double want = inside ? AT(f->args[0], P("a", position), P("c", c)) : -50;
                    cr_assert_eq(AT(got, P("a", a), P("w", w), P("c", c)), want);
                    if (inside)
                        sums[position] += want;
                }
            for (int a = 0; a < 7; a++)
                cr_assert_eq(AT(folded, P("a", a), P("c", c)), sums[a]);
        }
        fixture_free(f);
    }
}

Test(interp_axis, iota_and_constant)
{
    Fixture *f = fixture_new();
    expect_values(run(f, dt_graph_iota(&f->b, axis_of("a", 4))), (double[]){0, 1, 2, 3}, 4);
    expect_values(run(f, dt_graph_constant(&f->b, DT_I32, -7)), (double[]){-7}, 1);
    expect_values(run(f, dt_graph_constant(&f->b, DT_F32, -INFINITY)), (double[]){-INFINITY}, 1);
    fixture_free(f);
}
