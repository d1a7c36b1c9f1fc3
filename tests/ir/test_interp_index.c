/* SPDX-License-Identifier: Apache-2.0 */
/* gather and scatter_add: alignment by name, joint indices, out-of-range indices, the index that
 * has the axis it indexes, and that the two are transposes of each other. */
#include "interp_fixture.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>

/* Embedding: table[vocab, embed] at ids[b, s]. Ids below 0 and from 5 on read 0. */
Test(interp_index, lookup_with_indices_out_of_range)
{
    double ids[] = {0, 4, -1, 5, 2, 2147483647};
    for (int i = 0; i < 2; i++) {
        Fixture *f = fixture_new();
        DtValue *table = arg_random(f, reordered(type_of(DT_F32, "vocab=5 embed=3"), i), 1);
        DtValue *index = arg_values(f, type_of(DT_I32, "b=2 s=3"), ids);
        const char *axes[] = {dt_intern("vocab")};
        DtTensor *got = run(f, dt_graph_gather(&f->b, table, 1, axes, &index));
        for (int n = 0; n < 6; n++)
            for (int e = 0; e < 3; e++) {
                bool inside = ids[n] >= 0 && ids[n] < 5;
                double want = inside ? AT(f->args[0], P("vocab", (int)ids[n]), P("embed", e)) : 0;
                cr_assert_eq(AT(got, P("b", n / 3), P("s", n % 3), P("embed", e)), want);
            }
        fixture_free(f);
    }
}

/* logits[b, s, vocab] at labels[b, s]: b and s are aligned, not multiplied out. */
Test(interp_index, aligned_axes)
{
    const DtType *type = type_of(DT_F32, "b=2 s=2 vocab=3");
    double labels[] = {2, 0, 1, 2};
    for (int i = 0; i < 6; i++) {
        Fixture *f = fixture_new();
        DtValue *logits = arg_random(f, reordered(type, i), 1);
        DtValue *index = arg_values(f, type_of(DT_I32, "b=2 s=2"), labels);
        const char *axes[] = {dt_intern("vocab")};
        DtTensor *got = run(f, dt_graph_gather(&f->b, logits, 1, axes, &index));
        cr_assert_eq(got->type->rank, 2);
        for (int n = 0; n < 4; n++) {
            double want = AT(f->args[0], P("b", n / 2), P("s", n % 2), P("vocab", (int)labels[n]));
            cr_assert_eq(AT(got, P("b", n / 2), P("s", n % 2)), want);
        }
        fixture_free(f);
    }
}

/* Looks up two axes at once, element by element; one index has an axis that the other lacks. */
Test(interp_index, joint_indices)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "p=3 c=2 q=4"), 1);
    double is[] = {0, 2, 3}, js[] = {3, 1, 0, 2, -1, 1};
    DtValue *index[] = {arg_values(f, type_of(DT_I32, "n=3"), is),
                        arg_values(f, type_of(DT_I32, "m=2 n=3"), js)};
    const char *axes[] = {dt_intern("p"), dt_intern("q")};
    DtTensor *got = run(f, dt_graph_gather(&f->b, x, 2, axes, index));
    cr_assert_eq(got->type->rank, 3);
    for (int n = 0; n < 3; n++)
        for (int m = 0; m < 2; m++)
            for (int c = 0; c < 2; c++) {
                int i = (int)is[n], j = (int)js[m * 3 + n];
                bool inside = i < 3 && j >= 0;
                double want = inside ? AT(f->args[0], P("p", i), P("q", j), P("c", c)) : 0;
                cr_assert_eq(AT(got, P("n", n), P("m", m), P("c", c)), want);
            }
    fixture_free(f);
}

/* x[a = i], where i itself has the axis a: a permutation along a, which differs from row to row. */
Test(interp_index, index_over_its_own_axis)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_F32, "a=3 b=2"), 1);
    double at[] = {2, 0, 1, 1, 2, 0};
    DtValue *index = arg_values(f, type_of(DT_I32, "b=2 a=3"), at);
    const char *axes[] = {dt_intern("a")};
    DtTensor *got = run(f, dt_graph_gather(&f->b, x, 1, axes, &index));
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 2; b++)
            cr_assert_eq(AT(got, P("a", a), P("b", b)),
                         AT(f->args[0], P("a", (int)at[b * 3 + a]), P("b", b)));
    fixture_free(f);
}

/* A scalar index selects and drops the axis. */
Test(interp_index, select)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "a=3 b=2"), (double[]){1, 2, 3, 4, 5, 6});
    DtValue *index = dt_graph_constant(&f->b, DT_I32, 1);
    const char *axes[] = {dt_intern("a")};
    expect_values(run(f, dt_graph_gather(&f->b, x, 1, axes, &index)), (double[]){3, 4}, 2);
    fixture_free(f);
}

/* Duplicates add up, and indices out of range are dropped. */
Test(interp_index, scatter_by_hand)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "n=5"), (double[]){1, 2, 4, 8, 16});
    DtValue *index = arg_values(f, type_of(DT_I32, "n=5"), (double[]){1, -1, 1, 3, 0});
    DtAxis target = axis_of("p", 3);
    const char *summed[] = {dt_intern("n")};
    DtValue *got = dt_graph_scatter_add(&f->b, x, 1, &target, &index, 1, summed, NULL);
    expect_values(run(f, got), (double[]){16, 5, 0}, 3);
    fixture_free(f);
}

/* Expert dispatch: x[t, e] to (expert, slot) = (i[t], j[t]), in every order of x. */
Test(interp_index, scatter_to_two_axes)
{
    double is[] = {0, 1, 1, 0}, js[] = {0, 1, 0, 7};
    for (int k = 0; k < 2; k++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, reordered(type_of(DT_F32, "t=4 e=3"), k), 1);
        DtValue *index[] = {arg_values(f, type_of(DT_I32, "t=4"), is),
                            arg_values(f, type_of(DT_I32, "t=4"), js)};
        DtAxis targets[] = {axis_of("expert", 2), axis_of("slot", 2)};
        const char *summed[] = {dt_intern("t")};
        DtTensor *got = run(f, dt_graph_scatter_add(&f->b, x, 2, targets, index, 1, summed, NULL));
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                for (int e = 0; e < 3; e++) {
                    double want = 0;
                    for (int t = 0; t < 4; t++)
                        if (is[t] == i && js[t] == j)
                            want += AT(f->args[0], P("t", t), P("e", e));
                    cr_assert_eq(AT(got, P("expert", i), P("slot", j), P("e", e)), want);
                }
        fixture_free(f);
    }
}

static double product_sum(const DtTensor *a, const DtTensor *b)
{
    cr_assert_eq(a->type, b->type);
    double sum = 0;
    for (int64_t i = 0; i < dt_type_elements(a->type); i++)
        sum += a->at[i] * b->at[i];
    return sum;
}

/* <gather(x, i), g> = <x, scatter_add(g, i)> for a lookup with an aligned axis and an index that
 * has the axis it indexes; a quarter of the indices is out of range. Sums of multiples of 1/16:
 * exact. */
Test(interp_index, scatter_is_the_transpose_of_gather)
{
    for (int seed = 0; seed < 20; seed++) {
        Fixture *f = fixture_new();
        const DtType *x_type = type_of(DT_F32, "a=16 b=2 e=3"),
                     *i_type = type_of(DT_I32, "b=2 a=5");
        DtValue *x = arg_random(f, x_type, seed), *index = arg_random(f, i_type, 100 + seed);
        const char *axes[] = {dt_intern("a")};
        DtValue *taken = dt_graph_gather(&f->b, x, 1, axes, &index);
        DtValue *g = arg_random(f, taken->type, 200 + seed);
        DtAxis target = axis_of("a", 16);
        DtValue *spread = dt_graph_scatter_add(&f->b, g, 1, &target, &index, 1, axes, x_type);
        DtTensor *got = run(f, taken), *back = run(f, spread);
        cr_assert_eq(product_sum(got, f->args[2]), product_sum(f->args[0], back));
        fixture_free(f);
    }
}
