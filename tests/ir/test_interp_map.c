/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar maps: every kind against values worked out by hand, corner cases, broadcasting in every
 * order. */
#include "interp_fixture.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>

typedef struct Unary {
    DtOpKind kind;
    DtDtype dtype;
    double x, want;
} Unary;

/* Irrational values are textbook constants, not calls of the same function. */
static const Unary unary_cases[] = {
    {DT_OP_NEG, DT_F32, 1.5, -1.5},
    {DT_OP_NEG, DT_F32, 0.0, -0.0},
    {DT_OP_NEG, DT_I32, 7, -7},
    {DT_OP_NEG, DT_I32, INT32_MIN, INT32_MIN},
    {DT_OP_ABS, DT_F32, -2.25, 2.25},
    {DT_OP_ABS, DT_F32, -0.0, 0.0},
    {DT_OP_ABS, DT_I32, -3, 3},
    {DT_OP_ABS, DT_I32, INT32_MIN, INT32_MIN},
    {DT_OP_FLOOR, DT_F32, 1.75, 1},
    {DT_OP_FLOOR, DT_F32, -1.25, -2},
    {DT_OP_EXP, DT_F32, 1, 2.718281828459045},
    {DT_OP_EXP, DT_F32, -INFINITY, 0},
    {DT_OP_EXP, DT_F32, 800, INFINITY},
    {DT_OP_LOG, DT_F32, 2, 0.6931471805599453},
    {DT_OP_LOG, DT_F32, 0, -INFINITY},
    {DT_OP_LOG, DT_F32, -1, NAN},
    {DT_OP_SQRT, DT_F32, 2, 1.4142135623730951},
    {DT_OP_SQRT, DT_F32, -1, NAN},
    {DT_OP_RSQRT, DT_F32, 4, 0.5},
    {DT_OP_RSQRT, DT_F32, 0, INFINITY},
    {DT_OP_SIN, DT_F32, 0.5235987755982988, 0.5},
    {DT_OP_COS, DT_F32, 1.0471975511965976, 0.5},
    {DT_OP_TANH, DT_F32, 0.5493061443340549, 0.5},
    {DT_OP_TANH, DT_F32, -1000, -1},
    {DT_OP_ERF, DT_F32, 0.4769362762044699, 0.5},
    {DT_OP_ERF, DT_F32, 1, 0.8427007929497149},
    {DT_OP_NOT, DT_BOOL, 0, 1},
    {DT_OP_NOT, DT_BOOL, 1, 0},
    {DT_OP_STOP, DT_F32, 3.25, 3.25},
    {DT_OP_STOP, DT_I32, -3, -3},
    {DT_OP_BIND, DT_F32, 3.25, 3.25},
};

Test(interp_map, unary)
{
    for (size_t i = 0; i < DT_COUNT(unary_cases); i++) {
        const Unary *c = &unary_cases[i];
        Fixture *f = fixture_new();
        double got = run(f, dt_graph_unary(&f->b, c->kind, arg_scalar(f, c->dtype, c->x)))->at[0];
        bool near = fabs(got - c->want) <= 1e-15 * fabs(c->want) && c->want != 0;
        cr_expect(same_number(got, c->want) || near, "%s(%.17g) is %.17g, not %.17g",
                  dt_op_info[c->kind].text, c->x, got, c->want);
        fixture_free(f);
    }
}

typedef struct Binary {
    DtOpKind kind;
    DtDtype dtype;
    double x, y, want;
} Binary;

static const Binary binary_cases[] = {
    {DT_OP_ADD, DT_F32, 1.5, 2.25, 3.75},
    {DT_OP_ADD, DT_I32, INT32_MAX, 1, INT32_MIN},
    {DT_OP_ADD, DT_I32, 5, -7, -2},
    {DT_OP_SUB, DT_F32, 1.5, 2.25, -0.75},
    {DT_OP_SUB, DT_I32, INT32_MIN, 1, INT32_MAX},
    {DT_OP_MUL, DT_F32, 1.5, -2, -3},
    {DT_OP_MUL, DT_I32, 65536, 65536, 0},
    {DT_OP_MUL, DT_I32, 2147483647, 2147483647,
     1}, /* (2^31 - 1)^2 = 2^62 - 2^32 + 1: not exact in a double */
    {DT_OP_MUL, DT_I32, -3, 7, -21},
    {DT_OP_DIV, DT_F32, 1, -4, -0.25},
    {DT_OP_DIV, DT_F32, -1, 0, -INFINITY},
    {DT_OP_DIV, DT_F32, 0, 0, NAN},
    {DT_OP_FLOORDIV, DT_I32, 7, 2, 3},
    {DT_OP_FLOORDIV, DT_I32, -7, 2, -4},
    {DT_OP_FLOORDIV, DT_I32, 7, -2, -4},
    {DT_OP_FLOORDIV, DT_I32, -7, -2, 3},
    {DT_OP_FLOORDIV, DT_I32, -8, 2, -4},
    {DT_OP_FLOORDIV, DT_I32, 7, 0, 0},
    {DT_OP_FLOORDIV, DT_I32, INT32_MIN, -1, INT32_MIN},
    {DT_OP_FLOORDIV, DT_F32, -7.5, 2, -4},
    {DT_OP_FLOORDIV, DT_F32, 1, 0, INFINITY},
    {DT_OP_MOD, DT_I32, 7, 2, 1},
    {DT_OP_MOD, DT_I32, -7, 2, 1},
    {DT_OP_MOD, DT_I32, 7, -2, -1},
    {DT_OP_MOD, DT_I32, -7, -2, -1},
    {DT_OP_MOD, DT_I32, 6, -2, 0},
    {DT_OP_MOD, DT_I32, 7, 0, 7},
    {DT_OP_MOD, DT_I32, INT32_MIN, -1, 0},
    {DT_OP_MOD, DT_F32, -7.5, 2, 0.5},
    {DT_OP_MOD, DT_F32, 7.5, -2, -0.5},
    {DT_OP_POW, DT_F32, 2, 0.5, 1.4142135623730951},
    {DT_OP_POW, DT_F32, 2, -3, 0.125},
    {DT_OP_MAX, DT_F32, 1, 2, 2},
    {DT_OP_MAX, DT_F32, 2, 1, 2},
    {DT_OP_MAX, DT_F32, NAN, 1, NAN},
    {DT_OP_MAX, DT_F32, 1, NAN, NAN},
    {DT_OP_MAX, DT_F32, 0.0, -0.0, -0.0},
    {DT_OP_MAX, DT_F32, -0.0, 0.0, 0.0},
    {DT_OP_MAX, DT_I32, -5, -6, -5},
    {DT_OP_MIN, DT_F32, 1, 2, 1},
    {DT_OP_MIN, DT_F32, NAN, -INFINITY, NAN},
    {DT_OP_MIN, DT_F32, -INFINITY, NAN, NAN},
    {DT_OP_MIN, DT_F32, -0.0, 0.0, 0.0},
    {DT_OP_MIN, DT_I32, -5, -6, -6},
    {DT_OP_LT, DT_F32, 1, 2, 1},
    {DT_OP_LT, DT_F32, 2, 2, 0},
    {DT_OP_LT, DT_F32, NAN, 2, 0},
    {DT_OP_LE, DT_F32, 2, 2, 1},
    {DT_OP_LE, DT_F32, 3, 2, 0},
    {DT_OP_LE, DT_F32, 2, NAN, 0},
    {DT_OP_EQ, DT_I32, 4, 4, 1},
    {DT_OP_EQ, DT_I32, 4, 5, 0},
    {DT_OP_EQ, DT_F32, 0.0, -0.0, 1},
    {DT_OP_EQ, DT_F32, NAN, NAN, 0},
    {DT_OP_NE, DT_F32, NAN, NAN, 1},
    {DT_OP_NE, DT_I32, 4, 4, 0},
    {DT_OP_AND, DT_BOOL, 1, 1, 1},
    {DT_OP_AND, DT_BOOL, 1, 0, 0},
    {DT_OP_AND, DT_BOOL, 0, 0, 0},
    {DT_OP_OR, DT_BOOL, 0, 0, 0},
    {DT_OP_OR, DT_BOOL, 0, 1, 1},
    {DT_OP_OR, DT_BOOL, 1, 1, 1},
};

Test(interp_map, binary)
{
    for (size_t i = 0; i < DT_COUNT(binary_cases); i++) {
        const Binary *c = &binary_cases[i];
        Fixture *f = fixture_new();
        DtValue *x = arg_scalar(f, c->dtype, c->x), *y = arg_scalar(f, c->dtype, c->y);
        double got = run(f, dt_graph_binary(&f->b, c->kind, x, y))->at[0];
        cr_expect(same_number(got, c->want), "%s(%.17g, %.17g) is %.17g, not %.17g",
                  dt_op_info[c->kind].text, c->x, c->y, got, c->want);
        fixture_free(f);
    }
}

/* Each map of the table of ops occurs in one of these lists, or in a test of its own below. */
Test(interp_map, every_map_is_tested)
{
    bool seen[DT_OP_COUNT] = {[DT_OP_CAST] = true, [DT_OP_WHERE] = true};
    for (size_t i = 0; i < DT_COUNT(unary_cases); i++)
        seen[unary_cases[i].kind] = true;
    for (size_t i = 0; i < DT_COUNT(binary_cases); i++)
        seen[binary_cases[i].kind] = true;
    for (int kind = 0; kind < DT_OP_COUNT; kind++)
        cr_expect(dt_op_info[kind].op_class != DT_CLASS_MAP || seen[kind], "%s",
                  dt_op_info[kind].text);
}

typedef struct Cast {
    DtDtype from, to;
    double x, want;
} Cast;

Test(interp_map, cast)
{
    static const Cast cases[] = {
        {DT_F32, DT_I32, 2.75, 2},        {DT_F32, DT_I32, -2.75, -2},
        {DT_F32, DT_I32, 3e9, INT32_MAX}, {DT_F32, DT_I32, -3e9, INT32_MIN},
        {DT_F32, DT_I32, NAN, 0},         {DT_F32, DT_BOOL, 0.25, 1},
        {DT_F32, DT_BOOL, -0.0, 0},       {DT_F32, DT_BOOL, NAN, 1},
        {DT_I32, DT_BOOL, -5, 1},         {DT_I32, DT_F32, 16777217, 16777217},
        {DT_BOOL, DT_F32, 1, 1},          {DT_BOOL, DT_I32, 1, 1},
        {DT_F32, DT_BF16, 1.001, 1.001},  {DT_I64, DT_I32, 4294967297.0, 1},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        Fixture *f = fixture_new();
        double got =
            run(f, dt_graph_cast(&f->b, arg_scalar(f, cases[i].from, cases[i].x), cases[i].to))
                ->at[0];
        cr_expect(same_number(got, cases[i].want), "case %zu: %.17g", i, got);
        fixture_free(f);
    }
}

/* With rounding, the results of ops are rounded to their dtypes; without, they keep all bits of a
 * double. */
Test(interp_map, rounds)
{
    for (int rounds = 0; rounds < 2; rounds++) {
        Fixture *f = fixture_new();
        f->interp.rounds = rounds;
        DtValue *x = arg_scalar(f, DT_F32, 1), *y = arg_scalar(f, DT_F32, 0x1p-30);
        DtValue *sum = dt_graph_binary(&f->b, DT_OP_ADD, x, y);
        cr_expect_eq(run(f, sum)->at[0], rounds ? 1 : 1 + 0x1p-30);
        DtValue *z = arg_scalar(f, DT_F32, 1 + 0x1p-8);
        cr_expect_eq(run(f, dt_graph_cast(&f->b, z, DT_BF16))->at[0], rounds ? 1 : 1 + 0x1p-8);
        DtValue *w = arg_scalar(f, DT_F32, 65520);
        cr_expect_eq(run(f, dt_graph_cast(&f->b, w, DT_F16))->at[0], rounds ? INFINITY : 65520);
        DtValue *i = arg_scalar(f, DT_I32, 16777217);
        cr_expect_eq(run(f, dt_graph_cast(&f->b, i, DT_F32))->at[0], rounds ? 16777216 : 16777217);
        cr_expect_eq(run(f, dt_graph_constant(&f->b, DT_F32, 0.1))->at[0],
                     rounds ? (double)0.1f : 0.1);
        fixture_free(f);
    }
}

/* No value of the branch that is not taken reaches the result. */
Test(interp_map, where_selects)
{
    Fixture *f = fixture_new();
    const DtType *flags = type_of(DT_BOOL, "b=3"), *numbers = type_of(DT_F32, "b=3");
    DtValue *c = arg_values(f, flags, (double[]){1, 0, 1});
    DtValue *x = arg_values(f, numbers, (double[]){1, NAN, -0.0});
    DtValue *y = arg_values(f, numbers, (double[]){NAN, 2, INFINITY});
    expect_values(run(f, dt_graph_where(&f->b, c, x, y)), (double[]){1, 2, -0.0}, 3);
    fixture_free(f);
}

/* x[b, s, e] - y[e, s] and x * z[s] in every order of x and y and of the result. */
Test(interp_map, broadcast_in_every_order)
{
    const DtType *x_type = type_of(DT_F32, "b=2 s=3 e=4"), *y_type = type_of(DT_F32, "s=3 e=4");
    for (int i = 0; i < 6 * 2 * 6; i++) {
        Fixture *f = fixture_new();
        DtValue *x = arg_random(f, reordered(x_type, i % 6), 1);
        DtValue *y = arg_random(f, reordered(y_type, i / 6 % 2), 2);
        const DtType *wish = reordered(x_type, i / 12);
        DtTensor *got = run(f, dt_graph_map(&f->b, DT_OP_SUB, 2, (DtValue *[]){x, y}, wish));
        cr_assert_eq(got->type, wish);
        for (int b = 0; b < 2; b++)
            for (int s = 0; s < 3; s++)
                for (int e = 0; e < 4; e++) {
                    Place at[] = {{"b", b}, {"s", s}, {"e", e}};
                    double want = element(f->args[0], 3, at) - element(f->args[1], 3, at);
                    cr_assert_eq(element(got, 3, at), want);
                }
        fixture_free(f);
    }
}

/* No single operand has all axes: an outer difference; a condition and branches of three different
 * shapes. */
Test(interp_map, outer_and_where_broadcast)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_random(f, type_of(DT_I32, "a=3"), 1),
            *y = arg_random(f, type_of(DT_I32, "b=4"), 2);
    DtValue *c = arg_random(f, type_of(DT_BOOL, "c=2 b=4"), 3);
    DtTensor *difference = run(f, dt_graph_binary(&f->b, DT_OP_SUB, x, y));
    DtTensor *chosen = run(f, dt_graph_where(&f->b, c, x, y));
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 4; b++) {
            double xa = f->args[0]->at[a], yb = f->args[1]->at[b];
            cr_assert_eq(AT(difference, P("a", a), P("b", b)), xa - yb);
            for (int k = 0; k < 2; k++) {
                double flag = AT(f->args[2], P("c", k), P("b", b));
                cr_assert_eq(AT(chosen, P("a", a), P("b", b), P("c", k)), flag != 0 ? xa : yb);
            }
        }
    fixture_free(f);
}

/* The result has the axis order of both operands if they agree. If they disagree, it is the order
 * of the operand with more axes, or of the first. */
Test(interp_map, order_of_axes)
{
    static const struct {
        const char *x, *y, *want;
    } rows[] = {
        {"dc", "bd", "bdc"}, {"bd", "dc", "bdc"},  {"d", "btd", "btd"}, {"btd", "d", "btd"},
        {"k", "q", "kq"},    {"btd", "pd", "btpd"}, {"ab", "ba", "ab"},  {"abc", "xcya", "xbcya"},
        {"ab", "cba", "cba"}, {"bt", "tk", "btk"},  {"tk", "bt", "btk"}, {"abc", "ycx", "abycx"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Fixture *f = fixture_new();
        DtValue *in[2];
        const char *const texts[] = {rows[i].x, rows[i].y};
        for (int k = 0; k < 2; k++) {
            DtAxis axes[8];
            uint32_t n = 0;
            for (; texts[k][n]; n++)
                axes[n] = (DtAxis){.name = dt_intern_printf("%c", texts[k][n]),
                                   .extent = 2 + texts[k][n] % 5};
            in[k] = dt_graph_arg(f->b.func, dt_type_plain(DT_F32, n, axes), NULL);
        }
        const DtType *type = dt_graph_binary(&f->b, DT_OP_MUL, in[0], in[1])->type;
        char order[9] = "";
        for (uint32_t a = 0; a < type->rank; a++)
            order[a] = type->axes[a].name[0];
        cr_expect_str_eq(order, rows[i].want, "%s and %s: %s", rows[i].x, rows[i].y, order);
        fixture_free(f);
    }
}
