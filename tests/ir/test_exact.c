/* SPDX-License-Identifier: Apache-2.0 */
/* Exact numbers, with which the certificate compares values: the laws on which it relies. */
#include "ir/exact.h"

#include <criterion/criterion.h>
#include <math.h>

enum { DRAWS = 200 };

static DtExact of(double x) { return dt_exact_number(x); }

static DtExact two(DtOpKind kind, DtExact x, DtExact y) { return dt_exact_map(kind, x, y); }

static DtExact one(DtOpKind kind, DtExact x) { return dt_exact_map(kind, x, dt_exact_unknown); }

/* Doubles are rational numbers and exact, however small or large. */
Test(exact, numbers_are_those_of_doubles)
{
    static const double some[] = {0, 1, -1, 3, 0.1, -0.3, 1e300, -1e-300, 5e-324, 0x1p-1074,
                                  0x1.fffffffffffffp1023};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        for (size_t k = 0; k < sizeof some / sizeof some[0]; k++)
            cr_expect_eq(dt_exact_same(of(some[i]), of(some[k])), some[i] == some[k], "%g %g",
                         some[i], some[k]);
    cr_expect(dt_exact_same(two(DT_OP_MUL, of(0x1p-1074), two(DT_OP_MUL, of(0x1p1000), of(0x1p74))),
                            of(1)));
    cr_expect(dt_exact_same(two(DT_OP_DIV, of(7), of(-2)), of(-3.5)));
    cr_expect(dt_exact_same(two(DT_OP_SUB, of(0.5), of(0.75)), of(-0.25)));
    cr_expect(dt_exact_same(one(DT_OP_NEG, of(3)), of(-3)));
    cr_expect_not(dt_exact_same(two(DT_OP_ADD, of(0.1), of(0.2)), of(0.1 + 0.2)),
                  "a sum that was rounded");
    cr_expect_not(dt_exact_same(of(NAN), of(NAN)));
    cr_expect_not(dt_exact_same(of(INFINITY), of(INFINITY)));
}

Test(exact, laws)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        const DtExact x = dt_exact_draw(3 * i), y = dt_exact_draw(3 * i + 1),
                      z = dt_exact_draw(3 * i + 2);
        cr_expect(dt_exact_same(two(DT_OP_ADD, x, y), two(DT_OP_ADD, y, x)));
        cr_expect(dt_exact_same(two(DT_OP_SUB, two(DT_OP_ADD, x, y), y), x));
        cr_expect(dt_exact_same(two(DT_OP_DIV, two(DT_OP_MUL, x, y), y), x));
        cr_expect(dt_exact_same(two(DT_OP_MUL, x, two(DT_OP_ADD, y, z)),
                                two(DT_OP_ADD, two(DT_OP_MUL, x, y), two(DT_OP_MUL, x, z))));
        cr_expect(dt_exact_same(one(DT_OP_EXP, two(DT_OP_ADD, x, y)),
                                two(DT_OP_MUL, one(DT_OP_EXP, x), one(DT_OP_EXP, y))));
        cr_expect(dt_exact_same(one(DT_OP_EXP, one(DT_OP_NEG, x)),
                                two(DT_OP_DIV, of(1), one(DT_OP_EXP, x))));
        cr_expect(dt_exact_same(one(DT_OP_TANH, x), one(DT_OP_TANH, x)));
        cr_expect_not(dt_exact_same(one(DT_OP_TANH, x), one(DT_OP_TANH, y)));
        cr_expect_not(dt_exact_same(one(DT_OP_TANH, x), x));
        cr_expect_not(dt_exact_same(one(DT_OP_EXP, x), one(DT_OP_EXP, y)));
        cr_expect(dt_exact_same(dt_exact_max(x, y), dt_exact_max(y, x)));
        cr_expect(dt_exact_same(dt_exact_max(x, dt_exact_max(y, z)),
                                dt_exact_max(dt_exact_max(x, y), z)));
        cr_expect(dt_exact_same(dt_exact_max(x, y), x) || dt_exact_same(dt_exact_max(x, y), y));
    }
}

/* -inf is the lowest number, and only sums may have it as a term; an unknown number equals nothing,
 * not even itself. */
Test(exact, what_is_no_number)
{
    const DtExact x = dt_exact_draw(1);
    cr_expect(dt_exact_same(dt_exact_max(dt_exact_lowest, x), x));
    cr_expect(dt_exact_same(one(DT_OP_EXP, of(-INFINITY)), of(0)), "exp(-inf)");
    cr_expect(dt_exact_same(two(DT_OP_ADD, one(DT_OP_EXP, x), one(DT_OP_EXP, dt_exact_lowest)),
                            one(DT_OP_EXP, x)));
    const DtExact none[] = {
        two(DT_OP_MUL, dt_exact_lowest, x),
        two(DT_OP_DIV, x, of(0)),
        one(DT_OP_NEG, dt_exact_lowest),
        one(DT_OP_SQRT, x),
        two(DT_OP_ADD, x, dt_exact_unknown),
        one(DT_OP_EXP, one(DT_OP_EXP, x)),
        dt_exact_unknown,
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_expect_not(dt_exact_same(none[i], none[i]), "%zu", i);
}
