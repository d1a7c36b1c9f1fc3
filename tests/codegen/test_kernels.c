/* SPDX-License-Identifier: Apache-2.0 */
/* Every op of the table through the CPU back end, against the interpreter: several axis orders,
 * broadcasts, extents on both sides of the widths of rows and lanes (1, 3, 17, 64, 130, 200). One
 * plan per test, fused and unfused. */
#include "bench.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>

static const int64_t extents[] = {1, 3, 17, 64, 130, 200};

/* ---- maps ---- */

/* The tolerances of functions follow from their bounds in kernels/prelude.h. A relative error below
 * 2e-7 is 3.4 units of 2^-24, plus one unit for the rounding of the expected value; an error below
 * 3e-7 gives 5 + 1. */
static const struct { DtOpKind kind; double from, to, tolerance; } unary[] = {
    {DT_OP_NEG, -3, 3, 0}, {DT_OP_ABS, -3, 3, 0}, {DT_OP_FLOOR, -3, 3, 0}, {DT_OP_EXP, -20, 20, 5},
    {DT_OP_LOG, 1e-3, 50, 5}, {DT_OP_SQRT, 0, 50, 0}, {DT_OP_RSQRT, 0.01, 50, 3},
    {DT_OP_SIN, -50, 50, 5}, {DT_OP_COS, -50, 50, 5}, {DT_OP_TANH, -4, 4, 6}, {DT_OP_ERF, -4, 4, 5},
    {DT_OP_STOP, -3, 3, 0},
};

Test(kernels, unary_maps)
{
    Bench *t = bench_new();
    for (uint32_t i = 0; i < DT_COUNT(unary); i++)
        bench_out(t,
                  dt_graph_unary(
                      &t->b, unary[i].kind,
                      bench_sweep(t, type_of(DT_F32, "a=3 b=130"), unary[i].from, unary[i].to)),
                  unary[i].tolerance);
    static const double whole[] = {-2147483648.0, -2147483647, -65536, -3, -1, 0, 1, 7, 65536,
                                   2147483647};
    const DtType *type = type_of(DT_I32, "a=10");
    DtValue *x = bench_values(t, type, 10, whole);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_NEG, x), 0);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_ABS, x), 0);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_NOT, bench_random(t, type_of(DT_BOOL, "a=17"), 3)), 0);
    bench_check(t);
    bench_free(t);
}

/* An op that has no C text is refused, with and without machine code; it is not printed as
 * something else. */
Test(kernels, marks_are_refused, .signal = SIGABRT)
{
    Bench *t = bench_new();
    bench_out(t, dt_graph_unary(&t->b, DT_OP_BIND, bench_random(t, type_of(DT_F32, "a=3"), 1)), 0);
    bench_check(t);
}

/* Special values: infinities, NaN and signed zeros. Results below 2^-126 count as 0. */
Test(kernels, unary_maps_of_special_values)
{
    Bench *t = bench_new();
    const double values[] = {NAN,  INFINITY, -INFINITY, 0.0, -0.0, 1,   -1,    2e-38, -2e-38,
                             3e38, -3e38,    88.5,      89,  -87,  -88, 0.625, 1e-6};
    DtValue *x = bench_values(t, type_of(DT_F32, "a=17"), 17, values);
    for (uint32_t i = 0; i < DT_COUNT(unary); i++)
        if (unary[i].kind != DT_OP_SIN && unary[i].kind != DT_OP_COS)
            bench_out(t, dt_graph_unary(&t->b, unary[i].kind, x), unary[i].tolerance);
    const double angles[] = {NAN, 0.0, -0.0, 1e-6, 100.5, -1000.25, 1e6, 3e8, -2e9};
    DtValue *angle = bench_values(t, type_of(DT_F32, "a=9"), 9, angles);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_SIN, angle), 5);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_COS, angle), 5);
    bench_check(t);
    bench_free(t);
}

static const DtOpKind binary[] = {DT_OP_ADD, DT_OP_SUB, DT_OP_MUL, DT_OP_DIV, DT_OP_FLOORDIV,
                                  DT_OP_MOD, DT_OP_MAX, DT_OP_MIN, DT_OP_LT, DT_OP_LE, DT_OP_EQ,
                                  DT_OP_NE};

Test(kernels, binary_maps)
{
    Bench *t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "a=3 b=17 c=5"), 1),
            *y = bench_random(t, type_of(DT_F32, "c=5 a=3"), 2);
    DtValue *m = bench_random(t, type_of(DT_I32, "b=17 a=3"), 3),
            *n = bench_random(t, type_of(DT_I32, "a=3 b=17"), 4);
    for (uint32_t i = 0; i < DT_COUNT(binary); i++) {
        bench_out(t, dt_graph_binary(&t->b, binary[i], x, y), 0);
        bench_out(t, dt_graph_binary(&t->b, binary[i], y, x), 0);
        if (binary[i] != DT_OP_DIV)
            bench_out(t, dt_graph_binary(&t->b, binary[i], m, n), 0);
    }
    DtValue *p = bench_random(t, type_of(DT_BOOL, "b=17 a=3"), 5),
            *q = bench_random(t, type_of(DT_BOOL, "a=3"), 6);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_AND, p, q), 0);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_OR, p, q), 0);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_EQ, p, q), 0);
    bench_out(t, dt_graph_where(&t->b, p, x, y), 0);
    bench_out(t, dt_graph_where(&t->b, q, m, n), 0);
    bench_out(t,
              dt_graph_binary(&t->b, DT_OP_POW, bench_sweep(t, type_of(DT_F32, "a=130"), 0.01, 9),
                              bench_sweep(t, type_of(DT_F32, "b=9"), -4, 4)),
              4);
    bench_check(t);
    bench_free(t);
}

Test(kernels, binary_maps_of_special_values)
{
    Bench *t = bench_new();
    const double values[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 2.5, -7.75, 1e6};
    const double whole[] = {-2147483648.0, 2147483647, -7, -1, 0, 1, 3, 46341, -65536, 12};
    DtValue *x = bench_values(t, type_of(DT_F32, "a=10"), 10, values),
            *y = bench_values(t, type_of(DT_F32, "b=10"), 10, values);
    DtValue *m = bench_values(t, type_of(DT_I32, "a=10"), 10, whole),
            *n = bench_values(t, type_of(DT_I32, "b=10"), 10, whole);
    for (uint32_t i = 0; i < DT_COUNT(binary); i++) {
        bench_out(t, dt_graph_binary(&t->b, binary[i], x, y), 0);
        if (binary[i] != DT_OP_DIV)
            bench_out(t, dt_graph_binary(&t->b, binary[i], m, n), 0);
    }
    bench_check(t);
    bench_free(t);
}

Test(kernels, casts)
{
    Bench *t = bench_new();
    const double values[] = {NAN,   INFINITY,     -INFINITY,    0.0,           -0.0, 1.75,
                             -1.75, 2147483520.0, 2147483648.0, -2147483648.0, -3e9, 0.99};
    DtValue *x = bench_values(t, type_of(DT_F32, "a=12"), 12, values);
    DtValue *n = bench_random(t, type_of(DT_I32, "a=17"), 1),
            *p = bench_random(t, type_of(DT_BOOL, "a=17"), 2);
    const DtDtype dtypes[] = {DT_BOOL, DT_I32, DT_F32};
    for (uint32_t i = 0; i < 3; i++) {
        bench_out(t, dt_graph_cast(&t->b, x, dtypes[i]), 0);
        bench_out(t, dt_graph_cast(&t->b, n, dtypes[i]), 0);
        bench_out(t, dt_graph_cast(&t->b, p, dtypes[i]), 0);
    }
    const double large[] = {16777217, -16777217, 2147483647, 123456789};
    bench_out(t, dt_graph_cast(&t->b, bench_values(t, type_of(DT_I32, "a=4"), 4, large), DT_F32),
              0);
    bench_check(t);
    bench_free(t);
}

/* Both operands in every order of axes, the second one also with fewer axes; and scalars. */
Test(kernels, broadcast_orders)
{
    Bench *t = bench_new();
    const DtType *three = type_of(DT_F32, "a=3 b=17 c=64"), *two = type_of(DT_F32, "a=3 c=64");
    DtValue *scalar = bench_random(t, dt_type_scalar(DT_F32), 9),
            *one = bench_random(t, type_of(DT_F32, "b=17"), 8);
    for (int i = 0; i < 6; i++) {
        DtValue *x = bench_random(t, reordered(three, i), 1),
                *y = bench_random(t, reordered(two, i % 2), 2);
        DtValue *in[2] = {y, x};
        bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, x, y), 0);
        bench_out(t, dt_graph_map(&t->b, DT_OP_SUB, 2, in, reordered(three, 5 - i)), 0);
        bench_out(t, dt_graph_binary(&t->b, DT_OP_MUL, one, x), 0);
    }
    bench_out(t, dt_graph_binary(&t->b, DT_OP_ADD, scalar, scalar), 0);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_ADD, scalar, one), 0);
    for (uint32_t i = 0; i < DT_COUNT(extents); i++) {
        DtAxis axes[2] = {axis_of("a", extents[i]),
                          axis_of("b", extents[DT_COUNT(extents) - 1 - i])};
        bench_out(t,
                  dt_graph_binary(&t->b, DT_OP_MUL,
                                  bench_random(t, dt_type_plain(DT_F32, 2, axes), 1),
                                  bench_random(t, dt_type_plain(DT_F32, 1, axes + 1), 2)),
                  0);
    }
    bench_check(t);
    bench_free(t);
}

/* ---- sources ---- */

Test(kernels, sources)
{
    Bench *t = bench_new();
    DtValue *iota = dt_graph_iota(&t->b, axis_of("a", 130));
    bench_out(t, iota, 0);
    bench_out(t, dt_graph_constant(&t->b, DT_F32, 0.1), 0);
    bench_out(
        t, dt_graph_expand(&t->b, dt_graph_constant(&t->b, DT_I32, -7), type_of(DT_I32, "a=3 b=5")),
        0);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_LE, dt_graph_iota(&t->b, axis_of("b", 17)), iota), 0);
    for (int i = 0; i < 6; i++)
        bench_out(
            t, dt_graph_rng(&t->b, reordered(type_of(DT_F32, "b=3 a=17 c=5"), i), "dropout#0"), 0);
    bench_out(t, dt_graph_rng(&t->b, type_of(DT_F32, "a=200"), "dropout#1"), 0);
    bench_out(t, dt_graph_rng(&t->b, dt_type_scalar(DT_F32), "dropout#2"), 0);
    bench_check(t);
    bench_free(t);
}

/* One call of the generator gives four elements, if these are neighbours along the lanes or across
 * them (and the step along other axes is a multiple of four). Cases: the ends cut off a part of a
 * call; elements are not neighbours; each element has its own call. */
Test(kernels, draws)
{
    static const char *const types[] = {"c=3 b=150", "c=3 b=128", "b=8 a=70", "b=6 c=3 a=65",
                                        "b=9 a=40", "b=4 a=20 c=5", "c=8 b=12 a=100",
                                        "b=2 a=2 d=1 c=17"};
    Bench *t = bench_new();
    for (uint32_t i = 0; i < DT_COUNT(types); i++)
        for (int order = 0; order < 2; order++) {
            const DtType *type = reordered(type_of(DT_F32, types[i]), order);
            DtValue *x = dt_graph_rng(&t->b, type, "dropout#0"),
                    *one = dt_graph_rng(&t->b, type, "dropout#0");
            one->op->draws = 1;
            bench_out(t, x, 0);
            bench_out(t, one, 0);
            for (uint32_t a = 0; a < type->rank; a++) /* rows and columns */
                bench_out(t,
                          dt_graph_reduce(&t->b, DT_REDUCE_MAX, x, 1,
                                          (const char *[]){type->axes[a].name}),
                          0);
        }
    bench_check(t);
    bench_free(t);
}

/* ---- axis operations ---- */

static void relabels(Bench *t, DtValue *x, const DtType *type)
{
    const DtRelabel rename = {1, 1, {named("a")}, {named("z")}, {6}};
    const DtRelabel split = {1, 2, {named("b")}, {named("b1"), named("b2")}, {3, 5}};
    const DtRelabel merge = {2, 1, {named("b"), named("a")}, {named("m")}, {90}};
    const DtRelabel again = {2, 3, {named("a"), named("b")}, {named("u"), named("v"), named("w")},
                             {9, 2, 5}};
    const DtRelabel fresh = {0, 1, {0}, {named("one")}, {1}};
    const DtRelabel both[] = {rename, split};
    bench_out(t, dt_graph_relabel(&t->b, x, 1, &rename, NULL), 0);
    bench_out(t, dt_graph_relabel(&t->b, x, 1, &split, NULL), 0);
    bench_out(t, dt_graph_relabel(&t->b, x, 1, &merge, NULL), 0);
    bench_out(t, dt_graph_relabel(&t->b, x, 1, &again, NULL), 0);
    bench_out(t, dt_graph_relabel(&t->b, x, 2, both, NULL), 0);
    DtValue *one = dt_graph_relabel(&t->b, x, 1, &fresh, NULL);
    bench_out(t, one, 0);
    const DtRelabel drop = {1, 0, {named("one")}, {0}, {0}};
    bench_out(t, dt_graph_relabel(&t->b, one, 1, &drop, NULL), 0);
    bench_out(t, dt_graph_reorder(&t->b, x, reordered(type, 4)), 0);
    DtValue *far =
        dt_graph_slice(&t->b, dt_graph_reorder(&t->b, x, reordered(type, 3)), named("c"), 1, 2, 2);
    bench_out(t, dt_graph_relabel(&t->b, far, 1, &merge, NULL), 0);
}

Test(kernels, relabels)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=6 b=15 c=4");
    for (int i = 0; i < 6; i += 2)
        relabels(t, bench_random(t, reordered(type, i), 1), type);
    relabels(t, bench_random(t, type_of(DT_I32, "b=15 a=6 c=4"), 1),
             type_of(DT_I32, "a=6 b=15 c=4"));
    bench_check(t);
    bench_free(t);
}

Test(kernels, slices_pads_concats_expands)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17 c=64");
    for (int i = 0; i < 6; i++) {
        DtValue *x = bench_random(t, reordered(type, i), 1);
        DtValue *slice = dt_graph_slice(&t->b, x, named("b"), 2, 3, 5);
        bench_out(t, slice, 0);
        bench_out(t, dt_graph_slice(&t->b, slice, named("c"), 63, 1, 1), 0);
        bench_out(t, dt_graph_pad(&t->b, x, named("b"), 2, 3, 1, -1.5), 0);
        bench_out(t, dt_graph_pad(&t->b, slice, named("b"), 1, 0, 3, INFINITY), 0);
        bench_out(t, dt_graph_pad(&t->b, x, named("c"), 0, 66, 1, 0), 0);
        DtValue *y = bench_random(t, reordered(type_of(DT_F32, "a=3 b=2 c=64"), 5 - i), 2);
        DtValue *parts[3] = {y, x, slice};
        bench_out(t, dt_graph_concat(&t->b, named("b"), 3, parts), 0);
        bench_out(t,
                  dt_graph_expand(&t->b, y, reordered(type_of(DT_F32, "a=3 b=2 c=64 d=17"), 4 * i)),
                  0);
    }
    DtValue *p = bench_random(t, type_of(DT_BOOL, "a=17"), 1),
            *q[2] = {p, dt_graph_unary(&t->b, DT_OP_NOT, p)};
    bench_out(t, dt_graph_pad(&t->b, p, named("a"), 1, 2, 2, 1), 0);
    bench_out(t, dt_graph_concat(&t->b, named("a"), 2, q), 0);
    bench_out(
        t, dt_graph_pad(&t->b, dt_graph_iota(&t->b, axis_of("a", 17)), named("a"), 1, 1, 1, -1), 0);
    bench_check(t);
    bench_free(t);
}

static const DtRange ranges[] = {{0, 0, 1, 3}, {1, 1, 1, 3}, {2, 0, 1, 3}, {3, 3, 2, 7},
                                 {0, 0, 2, 2}, {0, 1, 3, 2}, {4, 4, 1, 1}};

Test(kernels, windows_and_folds)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=17 c=3 d=64");
    for (int i = 0; i < 6; i++) {
        DtValue *x = bench_random(t, reordered(type, i), 1);
        for (uint32_t r = 0; r < DT_COUNT(ranges); r++) {
            DtValue *window =
                dt_graph_window(&t->b, x, named("a"), named("w"), ranges[r], i & 1 ? -2.5 : 0);
            if (r % 3 == (uint32_t)i % 3)
                bench_out(t, window, 0);
            if (r % 3 == (uint32_t)(i + 1) % 3)
                bench_out(t, dt_graph_fold(&t->b, window, named("a"), named("w"), ranges[r], 17),
                          0);
            const DtType *rows = reordered(window->type, 4 * i + 3);
            if (r % 3 == (uint32_t)(i + 2) % 3)
                bench_out(t,
                          dt_graph_fold(&t->b, bench_random(t, rows, 2), named("a"), named("w"),
                                        ranges[r], 17),
                          0);
        }
    }
    bench_check(t);
    bench_free(t);
}

/* ---- contractions ---- */

Test(kernels, dots)
{
    Bench *t = bench_new();
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 1, 17}, {1, 130, 3}, {17, 64, 200},
                                       {130, 3, 64}, {64, 17, 1}};
    for (uint32_t i = 0; i < DT_COUNT(sizes); i++) {
        DtAxis m = axis_of("m", sizes[i][0]), n = axis_of("n", sizes[i][1]),
               k = axis_of("k", sizes[i][2]);
        DtAxis batch = axis_of("b", 3);
        const DtType *x = dt_type_plain(DT_F32, 3, (DtAxis[]){batch, m, k}),
                     *y = dt_type_plain(DT_F32, 2, (DtAxis[]){k, n});
        const DtType *z = dt_type_plain(DT_F32, 3, (DtAxis[]){n, batch, k}),
                     *w = dt_type_plain(DT_F32, 3, (DtAxis[]){m, batch, n});
        for (int j = 0; j < 6; j++) {
            DtValue *p = bench_random(t, reordered(x, j), 1),
                    *q = bench_random(t, reordered(y, j % 2), 2);
            DtValue *r = bench_random(t, reordered(z, (j + 2) % 6), 3);
            bench_out(t, dt_graph_dot(&t->b, p, q, AXES(named("k")), DT_F32, NULL), 0);
            bench_out(t, dt_graph_dot(&t->b, p, r, AXES(named("k")), DT_F32, reordered(w, j)), 0);
            bench_out(t, dt_graph_dot(&t->b, p, r, AXES(named("k"), named("b")), DT_F32, NULL), 0);
        }
    }
    bench_check(t);
    bench_free(t);
}

/* Operands that are views, outer products, scalar results, several summed axes, several rows. */
Test(kernels, dots_of_views)
{
    Bench *t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "b=5 s=17 e=24"), 1),
            *w = bench_random(t, type_of(DT_F32, "e=24 h=3 d=8"), 2);
    DtValue *q = dt_graph_dot(&t->b, x, w, AXES(named("e")), DT_F32, NULL);
    bench_out(t, q, 0);
    bench_out(
        t, dt_graph_dot(&t->b, x, w, AXES(named("e")), DT_F32, type_of(DT_F32, "h=3 b=5 d=8 s=17")),
        0);
    bench_out(t,
              dt_graph_dot(&t->b, dt_graph_slice(&t->b, x, named("s"), 1, 3, 5), w,
                           AXES(named("e")), DT_F32, NULL),
              0);
    bench_out(t,
              dt_graph_dot(&t->b, dt_graph_slice(&t->b, x, named("e"), 1, 2, 9),
                           dt_graph_slice(&t->b, w, named("e"), 0, 1, 9), AXES(named("e")), DT_F32,
                           NULL),
              0);
    DtValue *wide = dt_graph_expand(&t->b, w, type_of(DT_F32, "g=2 e=24 h=3 d=8"));
    bench_out(t, dt_graph_dot(&t->b, x, wide, AXES(named("e")), DT_F32, NULL), 0);
    bench_out(t, dt_graph_dot(&t->b, x, x, AXES(named("b"), named("s"), named("e")), DT_F32, NULL),
              0);
    bench_out(t, dt_graph_dot(&t->b, x, x, AXES(named("b"), named("e")), DT_F32, NULL), 0);
    DtValue *a = bench_random(t, type_of(DT_F32, "i=17"), 3),
            *c = bench_random(t, type_of(DT_F32, "j=3"), 4);
    bench_out(t, dt_graph_dot(&t->b, a, c, 0, NULL, DT_F32, NULL), 0);
    bench_out(t, dt_graph_dot(&t->b, a, a, AXES(named("i")), DT_F32, NULL), 0);
    bench_out(t,
              dt_graph_dot(&t->b, bench_random(t, type_of(DT_F32, "p=4 c=3 u=3 v=3"), 5),
                           bench_random(t, type_of(DT_F32, "v=3 u=3 o=7 c=3"), 6),
                           AXES(named("c"), named("u"), named("v")), DT_F32, NULL),
              0);
    const double inside[] = {1, INFINITY, 2}, outside[] = {1, 0, 1};
    bench_out(t,
              dt_graph_dot(&t->b, bench_values(t, type_of(DT_F32, "i=3"), 3, inside),
                           bench_values(t, type_of(DT_F32, "i=3"), 3, outside), AXES(named("i")),
                           DT_F32, NULL),
              0);
    bench_check(t);
    bench_free(t);
}

/* Returns the number of instructions of this kind in the fused plan of the last program. */
static uint32_t count_of(Bench *t, DtPlanInstKind kind)
{
    const DtCodegenOptions options = {.target = "cpu", .source = "bench.dsl", .source_folder = "",
                                      .compiler = "test", .no_kernels = true};
    DtPlanBuilder *plan = bench_plan(t, &options);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->insts.n; i++)
        n += plan->insts.at[i].kind == kind;
    return n;
}

/* The summed axes have another order in one operand than in the other, or are not contiguous in one
 * or both: then the library multiplies copies. Also in 16 bits, with axes that both operands keep,
 * and with results in any order. An unfused plan copies no operand. */
Test(kernels, dots_in_other_orders)
{
    static const DtDtype dtypes[] = {DT_F32, DT_BF16};
    for (uint32_t i = 0; i < DT_COUNT(dtypes); i++) {
        Bench *t = bench_new();
        const DtDtype dtype = dtypes[i];
        DtValue *x = bench_random(t, type_of(dtype, "b=4 s=5 i=17"), 1),
                *y = bench_random(t, type_of(dtype, "s=5 b=4 c=8"), 2),
                *last = bench_random(t, type_of(dtype, "i=17 b=4 s=5"), 3),
                *apart = bench_random(t, type_of(dtype, "b=4 g=3 s=5 h=6 i=17"), 4),
                *y_apart = bench_random(t, type_of(dtype, "s=5 o=2 b=4 c=8"), 5),
                *shares = bench_random(t, type_of(dtype, "b=4 h=6 s=5 c=8"), 6);
        const DtType *turned = type_of(dtype, "c=8 i=17"),
                     *mixed = type_of(dtype, "h=6 c=8 g=3 i=17");
        bench_out(t, dt_graph_dot(&t->b, x, y, AXES(named("b"), named("s")), dtype, NULL), 0);
        bench_out(t, dt_graph_dot(&t->b, y, x, AXES(named("s"), named("b")), dtype, turned), 0);
        bench_out(t, dt_graph_dot(&t->b, last, y, AXES(named("b"), named("s")), dtype, turned), 0);
        bench_out(t, dt_graph_dot(&t->b, apart, y, AXES(named("b"), named("s")), dtype, mixed), 0);
        bench_out(t, dt_graph_dot(&t->b, apart, y_apart, AXES(named("b"), named("s")), dtype, NULL),
                  0);
        bench_out(t, dt_graph_dot(&t->b, apart, shares, AXES(named("b"), named("s")), dtype, NULL),
                  0);
        bench_check(t);
        cr_expect_eq(count_of(t, DT_INST_GEMM), 6, "%s", dt_dtype_name(dtype));
        bench_free(t);
    }
}

Test(kernels, reductions)
{
    Bench *t = bench_new();
    for (uint32_t i = 0; i < DT_COUNT(extents); i++)
        for (uint32_t j = 0; j < DT_COUNT(extents); j += 2) {
            DtAxis axes[3] = {axis_of("a", extents[i]),
                              axis_of("b", extents[(i + j + 1) % DT_COUNT(extents)]),
                              axis_of("c", 3)};
            const DtType *type = dt_type_plain(DT_F32, 3, axes);
            DtValue *x = bench_random(t, reordered(type, (int)(i + j) % 6), 1);
            DtReduce kind = (DtReduce)((i + j) % 3);
            bench_out(t, dt_graph_reduce(&t->b, kind, x, AXES(named("a"))), 0);
            bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, x, AXES(named("c"), named("a"))), 0);
            bench_out(t,
                      dt_graph_reduce(&t->b, (DtReduce)((kind + 1) % 3), x,
                                      AXES(named("a"), named("b"), named("c"))),
                      0);
        }
    DtValue *n = bench_random(t, type_of(DT_I32, "a=17 b=130"), 2);
    for (int kind = 0; kind < 3; kind++) {
        bench_out(t, dt_graph_reduce(&t->b, (DtReduce)kind, n, AXES(named("a"))), 0);
        bench_out(t, dt_graph_reduce(&t->b, (DtReduce)kind, n, AXES(named("b"))), 0);
        const double odd[] = {3, NAN, -INFINITY, INFINITY, 0.5};
        bench_out(t,
                  dt_graph_reduce(&t->b, (DtReduce)kind,
                                  bench_values(t, type_of(DT_F32, "a=3 b=7"), 5, odd),
                                  AXES(named("b"))),
                  0);
        const double low[] = {-INFINITY};
        bench_out(t,
                  dt_graph_reduce(&t->b, (DtReduce)kind,
                                  bench_values(t, type_of(DT_F32, "a=3 b=130"), 1, low),
                                  AXES(named("b"))),
                  0);
    }
    bench_check(t);
    bench_free(t);
}

/* Axes so long that kernels read their trip counts from a variable (codegen/cpu/print.c), with a
 * rest after whole lanes. */
Test(kernels, reductions_of_long_axes)
{
    static const DtReduce reduces[] = {DT_REDUCE_SUM, DT_REDUCE_MAX, DT_REDUCE_MIN};
    Bench *t = bench_new();
    DtValue *row = bench_random(t, type_of(DT_F32, "b=70015"), 1),
            *rows = bench_random(t, type_of(DT_F32, "a=2 b=70015"), 2);
    for (uint32_t r = 0; r < DT_COUNT(reduces); r++) {
        bench_out(t, dt_graph_reduce(&t->b, reduces[r], row, AXES(named("b"))), 0);
        bench_out(t, dt_graph_reduce(&t->b, reduces[r], rows, AXES(named("b"))), 0);
        bench_out(t, dt_graph_reduce(&t->b, reduces[r], rows, AXES(named("a"))), 0);
    }
    bench_check(t);
    bench_free(t);
}

/* Sums that are divided into pieces: of columns, of rows over two axes, of a value that is computed
 * for each point. */
Test(kernels, reductions_in_pieces)
{
    static const DtReduce reduces[] = {DT_REDUCE_SUM, DT_REDUCE_MAX, DT_REDUCE_MIN};
    static const DtDtype dtypes[] = {DT_F32, DT_I32, DT_BF16, DT_F16};
    Bench *t = bench_new();
    for (uint32_t d = 0; d < DT_COUNT(dtypes); d++)
        for (uint32_t r = 0; r < DT_COUNT(reduces); r++) {
            DtValue *columns = bench_random(t, type_of(dtypes[d], "a=1037 b=70"), 1),
                    *two = bench_random(t, type_of(dtypes[d], "a=37 b=3 c=131"), 2);
            bench_out(t, dt_graph_reduce(&t->b, reduces[r], columns, AXES(named("a"))), 0);
            bench_out(t, dt_graph_reduce(&t->b, reduces[r], columns, AXES(named("a"), named("b"))),
                      0);
            bench_out(t, dt_graph_reduce(&t->b, reduces[r], two, AXES(named("a"), named("c"))), 0);
            bench_out(t, dt_graph_reduce(&t->b, reduces[r], two, AXES(named("a"), named("b"))), 0);
        }
    const double odd[] = {3, NAN, -INFINITY, INFINITY, 0.5};
    bench_out(t,
              dt_graph_reduce(&t->b, DT_REDUCE_MAX,
                              bench_values(t, type_of(DT_F32, "a=700 b=3"), 5, odd),
                              AXES(named("a"))),
              0);
    DtValue *draw = dt_graph_rng(&t->b, type_of(DT_F32, "a=701 b=17"), "dropout#0");
    for (uint32_t r = 0; r < DT_COUNT(reduces); r++) { /* each addition rounds once, so the
                                                        * tolerance is n units */
        bench_out(t, dt_graph_reduce(&t->b, reduces[r], draw, AXES(named("a"))),
                  reduces[r] ? 0 : 701);
        bench_out(t, dt_graph_reduce(&t->b, reduces[r], draw, AXES(named("a"), named("b"))),
                  reduces[r] ? 0 : 701 * 17);
    }
    bench_check(t);
    bench_free(t);
}

Test(kernels, scans)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=17 b=3 c=64"), *whole = type_of(DT_I32, "b=130 a=3");
    for (int i = 0; i < 6; i++) {
        DtValue *x = bench_random(t, reordered(type, i), 1);
        bench_out(t, dt_graph_scan(&t->b, x, AXES(named("a")), i & 1), 0);
        bench_out(t, dt_graph_scan(&t->b, x, AXES(named("c"), named("b")), i & 1), 0);
    }
    bench_out(t, dt_graph_scan(&t->b, bench_random(t, whole, 2), AXES(named("b")), false), 0);
    bench_out(
        t, dt_graph_scan(&t->b, bench_random(t, whole, 2), AXES(named("a"), named("b")), true), 0);
    bench_check(t);
    bench_free(t);
}

Test(kernels, topk)
{
    Bench *t = bench_new();
    const double odd[] = {1, NAN, 3, 3, -INFINITY, INFINITY, NAN, 3, 0.0, -0.0, 2};
    DtValue *inputs[] = {
        bench_random(t, type_of(DT_F32, "a=17 b=5"), 1),
        bench_random(t, type_of(DT_F32, "b=5 a=200"), 2),
        bench_values(t, type_of(DT_F32, "b=3 a=11"), 11, odd),
        bench_random(t, type_of(DT_I32, "a=64"), 3)};
    for (uint32_t i = 0; i < DT_COUNT(inputs); i++)
        for (int64_t k = 1; k < 8; k += 3) {
            DtValue *values, *indices;
            dt_graph_topk(&t->b, inputs[i], named("a"), axis_of("k", k), &values, &indices);
            bench_out(t, values, 0);
            bench_out(t, indices, 0);
        }
    bench_check(t);
    bench_free(t);
}

/* ---- indexing ---- */

Test(kernels, gathers_and_scatters)
{
    Bench *t = bench_new();
    const double at[] = {0, 16, 3, -1, 17, 3, 2147483647, -2147483648.0, 9};
    const double scalar[] = {2};
    for (int i = 0; i < 6; i++) {
        DtValue *x = bench_random(t, reordered(type_of(DT_F32, "v=17 e=64 b=3"), i), 1);
        DtValue *index = bench_values(t, type_of(DT_I32, i & 1 ? "s=5 u=3" : "s=5 b=3"), 9, at);
        DtValue *both[2] = {index,
                            bench_values(t, type_of(DT_I32, i & 1 ? "s=5" : "b=3 s=5"), 9, at)};
        DtValue *one = bench_values(t, dt_type_scalar(DT_I32), 1, scalar);
        bench_out(t, dt_graph_gather(&t->b, x, AXES(named("v")), &index), 0);
        bench_out(t, dt_graph_gather(&t->b, x, AXES(named("v"), named("e")), both), 0);
        bench_out(t, dt_graph_gather(&t->b, x, AXES(named("v")), &one), 0);
        DtAxis target = axis_of("t", 17), targets[2] = {target, axis_of("r", 6)};
        DtValue *y = bench_random(t, reordered(type_of(DT_F32, "s=5 b=3 e=17"), i), 2);
        if (!(i & 1)) {
            bench_out(t, dt_graph_scatter_add(&t->b, y, 1, &target, &index, AXES(named("s")), NULL),
                      0);
            bench_out(t,
                      dt_graph_scatter_add(&t->b, y, 1, &target, &index,
                                           AXES(named("b"), named("s")),
                                           type_of(DT_F32, "e=17 t=17")),
                      0);
            bench_out(t, dt_graph_scatter_add(&t->b, y, 2, targets, both, AXES(named("s")), NULL),
                      0);
        }
        bench_out(t, dt_graph_scatter_add(&t->b, y, 1, &target, &one, AXES(named("e")), NULL), 0);
    }
    DtValue *single = bench_random(t, dt_type_scalar(DT_F32), 3),
            *one = bench_values(t, dt_type_scalar(DT_I32), 1, scalar);
    DtAxis target = axis_of("t", 4);
    bench_out(t, dt_graph_scatter_add(&t->b, single, 1, &target, &one, 0, NULL, NULL), 0);
    bench_out(
        t,
        dt_graph_gather(&t->b, bench_random(t, type_of(DT_I32, "v=3"), 4), AXES(named("v")), &one),
        0);
    bench_check(t);
    bench_free(t);
}

/* ---- 16-bit floats ---- */

/* Compares kernels of 16-bit floats with the interpreter. Registers hold f32, so a chain of ops in
 * a kernel rounds once, while the interpreter rounds after every op. Results of at most three ops
 * differ by at most three times half the spacing: 2^-8 (bf16) and 2^-11 (f16). */
static void half_floats(Bench *t, DtDtype dtype)
{
    const double some = dtype == DT_BF16 ? 3 * 0x1p16 : 3 * 0x1p13;
    const DtType *type = type_of(dtype, "a=3 b=130"), *row = type_of(dtype, "b=130");
    DtValue *x = bench_random(t, type, 1), *y = bench_random(t, row, 2),
            *z = bench_random(t, type_of(DT_F32, "b=130 a=3"), 3);
    for (uint32_t i = 0; i < DT_COUNT(binary); i++)
        if (binary[i] != DT_OP_FLOORDIV && binary[i] != DT_OP_MOD)
            bench_out(t, dt_graph_binary(&t->b, binary[i], x, y),
                      binary[i] == DT_OP_MUL || binary[i] == DT_OP_DIV ? some : 0);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_TANH, x), some);
    bench_out(t, dt_graph_unary(&t->b, DT_OP_NEG, x), 0);
    bench_out(t, dt_graph_cast(&t->b, x, DT_F32), 0);
    bench_out(t, dt_graph_cast(&t->b, x, DT_I32), 0);
    bench_out(t, dt_graph_cast(&t->b, x, DT_BOOL), 0);
    bench_out(t, dt_graph_cast(&t->b, x, dtype == DT_F16 ? DT_BF16 : DT_F16), 0);
    bench_out(t,
              dt_graph_cast(
                  &t->b, dt_graph_binary(&t->b, DT_OP_DIV, z, dt_graph_constant(&t->b, DT_F32, 3)),
                  dtype),
              0);
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_MAX, x, AXES(named("b"))), 0);
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_MIN, x, AXES(named("a"))), 0);
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, x, AXES(named("a"))), some);
    bench_out(t, dt_graph_dot(&t->b, x, y, AXES(named("b")), DT_F32, NULL), 0);
    bench_out(t, dt_graph_reorder(&t->b, x, reordered(type, 1)), 0);
    bench_out(t, dt_graph_pad(&t->b, x, named("b"), 1, 2, 2, -1.5), 0);
    DtValue *parts[2] = {x, dt_graph_slice(&t->b, x, named("b"), 3, 1, 9)};
    bench_out(t, dt_graph_concat(&t->b, named("b"), 2, parts), 0);
    const double at[] = {2, 0, 2, 7, -1}; /* the elements of two rows */
    DtValue *index = bench_values(t, type_of(DT_I32, "s=5"), 5, at);
    bench_out(t, dt_graph_gather(&t->b, x, AXES(named("a")), &index), 0);
    DtAxis target = axis_of("t", 4);
    DtValue *rows = bench_random(t, type_of(dtype, "s=5 b=17"), 4);
    bench_out(t, dt_graph_scatter_add(&t->b, rows, 1, &target, &index, AXES(named("s")), NULL), 0);
    bench_out(t, dt_graph_where(&t->b, bench_random(t, type_of(DT_BOOL, "b=130"), 5), x, y), 0);
}

Test(kernels, sixteen_bit_floats)
{
    Bench *t = bench_new();
    half_floats(t, DT_BF16);
    half_floats(t, DT_F16);
    bench_check(t);
    bench_free(t);
}

/* ---- code that gcc 12.2 compiled wrongly ---- */

/* Loads of neighbouring elements in unrolled loops, all under a condition of the loop around them.
 * When the condition was compiled to a branch, gcc's vectoriser (-O3, x86-64-v3 and v4) made masked
 * loads with half the stride, which are wrong. Cases: sums under a condition, and loads that pads
 * guard; as many neighbours as are unrolled, fewer, and more. */
Test(kernels, conditions_around_unrolled_loops)
{
    Bench *t = bench_new();
    const char *choice[] = {named("c")};
    for (int64_t route = 2; route <= 16; route *= 2)
        for (int64_t n = 2; n <= 4; n += 2) {
            char text[64];
            snprintf(text, sizeof text, "a=4 b=8 c=%lld d=%lld", (long long)n, (long long)route);
            DtValue *x = bench_random(t, type_of(DT_F32, text), (int)(route + n));
            DtValue *before =
                dt_graph_binary(&t->b, DT_OP_LT, dt_graph_iota(&t->b, axis_of("b", 8)),
                                dt_graph_constant(&t->b, DT_I32, 5));
            DtValue *sum = dt_graph_reduce(&t->b, DT_REDUCE_SUM, x, 1, choice);
            bench_out(t, dt_graph_where(&t->b, before, sum, dt_graph_constant(&t->b, DT_F32, 0)),
                      0);
            DtValue *padded = dt_graph_pad(&t->b, x, named("b"), 1, 2, 1, 0);
            bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, padded, 1, choice), 0);
            DtValue *chosen =
                dt_graph_where(&t->b, before, x, dt_graph_constant(&t->b, DT_F32, 0.5));
            bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_MAX, chosen, 1, choice), 0);
        }
    bench_check(t);
    bench_free(t);
}
