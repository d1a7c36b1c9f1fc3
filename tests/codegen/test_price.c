/* SPDX-License-Identifier: Apache-2.0 */
/* The price of a kernel in its record (codegen/kernel_price.c), for loops whose work can be counted
 * by hand. bench/calibrated.py compares prices with measured times. */
#include "bench.h"

#include <criterion/criterion.h>

typedef struct Sums { double flops, special; uint32_t kernels; } Sums;

static Sums sums_of(Bench *t, DtValue *result)
{
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    Sums sums = {0};
    bench_out(t, result, 64);
    bench_check(t);
    const DtPlanBuilder *plan = bench_plan(t, &options);
    for (uint32_t i = 0; i < plan->kernels.n; i++) {
        sums.flops += plan->kernels.at[i].flops;
        sums.special += plan->kernels.at[i].special;
    }
    sums.kernels = plan->kernels.n;
    return sums;
}

/* Checks a kernel's price: each result needs this many costly functions, in the units of
 * codegen/kernel_price.c, and its other costs are small. */
static void expect(Sums sums, double units, double beside)
{
    cr_expect_eq(sums.kernels, 1);
    cr_expect(sums.special >= units && sums.special <= units + beside, "%g, not %g .. %g",
              sums.special, units, units + beside);
}

enum { ROWS = 128, COLUMNS = 64, ALL = ROWS * COLUMNS };
static const double little = 0.3 * ALL;

Test(price, functions_by_their_instructions)
{
    Bench *t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "s=128 h=64"), 1);
    const Sums one = sums_of(t, dt_graph_unary(&t->b, DT_OP_EXP, x));
    expect(one, 0.53 * ALL, little);
    bench_free(t);
    t = bench_new();
    x = bench_random(t, type_of(DT_F32, "s=128 h=64"), 1);
    const Sums two = sums_of(t, dt_graph_unary(&t->b, DT_OP_SIN, x));
    expect(two, 1.4 * ALL, little);
    cr_expect_eq(one.flops, two.flops);
    bench_free(t);
}

static Sums with_cosine_of(Bench *t, DtAxis axis)
{
    DtValue *x = bench_random(t, type_of(DT_F32, "s=128 h=64"), 1);
    DtValue *at = dt_graph_cast(&t->b, dt_graph_iota(&t->b, axis), DT_F32);
    return sums_of(t, dt_graph_binary(&t->b, DT_OP_ADD, x, dt_graph_unary(&t->b, DT_OP_COS, at)));
}

/* A cosine of the column is computed inside of the loop over rows. A cosine of the row is computed
 * once for each row, with an instruction of eight lanes for one number. */
Test(price, what_lies_inside_of_a_loop_is_made_again)
{
    Bench *t = bench_new();
    expect(with_cosine_of(t, axis_of("h", COLUMNS)), 1.4 * ALL, little);
    bench_free(t);
    t = bench_new();
    expect(with_cosine_of(t, axis_of("s", ROWS)), 1.4 * 8 * ROWS, little);
    bench_free(t);
}

/* If the rows of one of two operands are in the other order, that operand is read element by
 * element. */
Test(price, strides_are_dear)
{
    Bench *t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "s=128 h=64"), 1);
    DtValue *y = bench_random(t, type_of(DT_F32, "s=128 h=64"), 2);
    const Sums beside = sums_of(t, dt_graph_binary(&t->b, DT_OP_ADD, x, y));
    expect(beside, 0, little);
    bench_free(t);
    t = bench_new();
    x = bench_random(t, type_of(DT_F32, "s=128 h=64"), 1),
    y = bench_random(t, type_of(DT_F32, "h=64 s=128"), 2);
    const Sums across = sums_of(t, dt_graph_binary(&t->b, DT_OP_ADD, x, y));
    expect(across, 2 * ALL, little);
    cr_expect_eq(across.flops, ALL);
    bench_free(t);
}

/* Rows of three take as many instructions as rows of eight. */
Test(price, short_rows_waste_lanes)
{
    Bench *t = bench_new();
    const Sums whole = sums_of(
        t, dt_graph_unary(&t->b, DT_OP_EXP, bench_random(t, type_of(DT_F32, "s=128 h=8"), 1)));
    bench_free(t);
    t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "s=128 h=3"), 1),
            *y = bench_random(t, type_of(DT_F32, "s=128"), 2);
    const Sums part =
        sums_of(t, dt_graph_unary(&t->b, DT_OP_EXP, dt_graph_binary(&t->b, DT_OP_ADD, x, y)));
    cr_expect(part.special >= whole.special - 64, "%g, of whole rows %g", part.special,
              whole.special);
    bench_free(t);
}
