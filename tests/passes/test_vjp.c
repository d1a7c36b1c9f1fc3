/* SPDX-License-Identifier: Apache-2.0 */
/* The derivative of every op that has one, against central differences and forward derivatives;
 * what the language says about corners, exactly.
 *
 * Not over residues, as the certificate compares programs: a difference quotient has no residue, so
 * only forward derivatives (ir/tangent.h) could be compared there, and rules of log, erf, sin, pow,
 * and of what is decided by order, would still need numbers. Numbers tell a wrong rule as well: it
 * is off by a factor or a term, at operands that nobody fitted to it, and no rule has a constant
 * that decides far away (the bounds are those of double precision). */
#include "gradcheck.h"

#include "base/intern.h"
#include "ir/tangent.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

/* ---- maps ---- */

typedef struct MapCase {
    DtOpKind kind;
    bool positive;
} MapCase;

static MapCase unary_cases[] = {{DT_OP_NEG, false}, {DT_OP_ABS, false}, {DT_OP_EXP, false},
                                {DT_OP_LOG, true},  {DT_OP_SQRT, true}, {DT_OP_RSQRT, true},
                                {DT_OP_SIN, false}, {DT_OP_COS, false}, {DT_OP_TANH, false},
                                {DT_OP_ERF, false}};
static MapCase binary_cases[] = {{DT_OP_ADD, false}, {DT_OP_SUB, false}, {DT_OP_MUL, false},
                                 {DT_OP_DIV, true},  {DT_OP_POW, true},  {DT_OP_MAX, false},
                                 {DT_OP_MIN, false}};

ParameterizedTestParameters(vjp, unary)
{
    return cr_make_param_array(MapCase, unary_cases, DT_COUNT(unary_cases));
}

ParameterizedTest(MapCase *p, vjp, unary)
{
    Check *c = check_new();
    DtValue *x = p->positive ? input_positive(c, "a=3 b=4") : input(c, "a=3 b=4");
    dt_graph_return(c->func, dt_graph_unary(&c->b, p->kind, x));
    check_gradients(c, 1);
    check_free(c);
}

/* Operands with equal axes, with axes in another order, and each with an axis that the other lacks.
 * */
ParameterizedTestParameters(vjp, binary)
{
    return cr_make_param_array(MapCase, binary_cases, DT_COUNT(binary_cases));
}

ParameterizedTest(MapCase *p, vjp, binary)
{
    static const char *const axes[][2] = {{"a=3 b=4", "a=3 b=4"}, {"a=3 b=4", "b=4 a=3"},
                                          {"a=3 b=4", "b=4"},     {"b=4", "a=3 b=4"},
                                          {"a=3 b=2", "b=2 d=4"}, {"a=5", ""}};
    for (size_t i = 0; i < DT_COUNT(axes); i++) {
        Check *c = check_new();
        DtValue *x = p->positive ? input_positive(c, axes[i][0]) : input(c, axes[i][0]);
        DtValue *y = p->positive ? input_positive(c, axes[i][1]) : input(c, axes[i][1]);
        if (p->kind == DT_OP_MAX || p->kind == DT_OP_MIN) /* otherwise both lattices would have
                                                           * equal points */
            for (int64_t k = 0; k < dt_type_elements(y->type); k++)
                c->in[1]->at[k] += 0.01;
        dt_graph_return(c->func, dt_graph_binary(&c->b, p->kind, x, y));
        check_gradients(c, 2);
        check_free(c);
    }
}

Test(vjp, where)
{
    Check *c = check_new();
    DtValue *condition = input_bool(c, "b=4 a=3"), *x = input(c, "a=3"), *y = input(c, "a=3 b=4");
    dt_graph_return(c->func, dt_graph_where(&c->b, condition, x, y));
    check_gradients(c, 2);
    check_free(c);
}

Test(vjp, same_operand_twice)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=3 b=4");
    DtValue *y = dt_graph_binary(&c->b, DT_OP_MUL, x, x);
    dt_graph_return(c->func,
                    dt_graph_binary(&c->b, DT_OP_SUB, y, dt_graph_unary(&c->b, DT_OP_SIN, x)));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, cast_and_integers)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=3"), *i = input_integers(c, "a=3 b=2", -4, 4);
    DtValue *wide = dt_graph_cast(&c->b, x, DT_BF16), *f = dt_graph_cast(&c->b, i, DT_BF16);
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, wide, f));
    check_gradients(c, 1);
    check_free(c);
}

/* ---- axis operations ---- */

Test(vjp, relabel)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=4 b=6 d=1");
    const char *a = dt_intern("a"), *b = dt_intern("b"), *d = dt_intern("d");
    DtRelabel entries[] = {
        {.n_from = 1, .n_to = 2, .from = {b}, .to = {a, dt_intern("n")}, .to_extent = {2, 3}},
        {.n_from = 1, .n_to = 1, .from = {a}, .to = {b}, .to_extent = {4}},
        {.n_from = 1, .n_to = 0, .from = {d}},
        {.n_from = 0, .n_to = 1, .to = {dt_intern("one")}, .to_extent = {1}},
    };
    DtValue *y = dt_graph_relabel(&c->b, x, 4, entries, type_of(DT_F32, "n=3 b=4 one=1 a=2"));
    DtRelabel merge = {.n_from = 2,
                       .n_to = 1,
                       .from = {dt_intern("n"), b},
                       .to = {dt_intern("m")},
                       .to_extent = {12}};
    dt_graph_return(c->func, dt_graph_relabel(&c->b, y, 1, &merge, NULL));
    check_gradients(c, 1);
    check_free(c);
}

ParameterizedTestParameters(vjp, slice)
{
    static DtRange cases[] = {{.lo = 0, .step = 1, .n = 7},
                              {.lo = 2, .step = 1, .n = 3},
                              {.lo = 1, .step = 2, .n = 3},
                              {.lo = 1, .step = 5, .n = 2}};
    return cr_make_param_array(DtRange, cases, DT_COUNT(cases));
}

ParameterizedTest(DtRange *r, vjp, slice)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=2 a=7");
    dt_graph_return(c->func, dt_graph_slice(&c->b, x, dt_intern("a"), r->lo, r->step, r->n));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, pad)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=3 b=2");
    dt_graph_return(c->func, dt_graph_pad(&c->b, x, dt_intern("a"), 2, 1, 3, 7.5));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, concat)
{
    Check *c = check_new();
    DtValue *in[] = {input(c, "a=3 b=2"), input(c, "b=2 a=1"), input(c, "a=2 b=2")};
    dt_graph_return(c->func, dt_graph_concat(&c->b, dt_intern("a"), 3, in));
    check_gradients(c, 3);
    check_free(c);
}

Test(vjp, expand)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=3 b=2");
    dt_graph_return(c->func, dt_graph_expand(&c->b, x, type_of(DT_F32, "b=2 n=4 a=3")));
    check_gradients(c, 1);
    check_free(c);
}

/* Slices of x: the cotangents are pads. If the slices cover the axis, the pads become a
 * concatenation and need not be added up. */
typedef struct Parts {
    DtRange at[4];
    uint32_t n, n_concats, n_pads; /* ops of this kind in the backward function */
    bool whole;                    /* x also has another reader */
} Parts;

ParameterizedTestParameters(vjp, parts)
{
    static Parts cases[] = {
        {{{.lo = 0, .step = 1, .n = 3}, {.lo = 3, .step = 1, .n = 4}}, 2, 1, 0, false},
        {{{.lo = 3, .step = 1, .n = 4}, {.lo = 0, .step = 1, .n = 3}}, 2, 1, 0, true},
        {{{.lo = 3, .step = 1, .n = 2}, {.lo = 5, .step = 1, .n = 2}, {.lo = 0, .step = 1, .n = 3}},
         3, 1, 0, true},
        {{{.lo = 0, .step = 1, .n = 3}, {.lo = 2, .step = 1, .n = 5}}, 2, 0, 2,
         false}, /* one element is in two slices */
        {{{.lo = 0, .step = 1, .n = 3}, {.lo = 4, .step = 1, .n = 3}}, 2, 0, 2,
         true},  /* one element is in no slice */
        {{{.lo = 0, .step = 2, .n = 4}, {.lo = 1, .step = 2, .n = 3}}, 2, 0, 2,
         false}, /* every second element */
        {{{.lo = 0, .step = 1, .n = 3}, {.lo = 3, .step = 1, .n = 4}, {.lo = 0, .step = 1, .n = 3}},
         3, 1, 1, false},
        {{{.lo = 0, .step = 1, .n = 7}}, 1, 0, 1, true}};
    return cr_make_param_array(Parts, cases, DT_COUNT(cases));
}

static uint32_t count_ops(const DtFunc *func, DtOpKind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        n += func->ops.at[i]->kind == kind;
    return n;
}

ParameterizedTest(Parts *p, vjp, parts)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=2 a=7");
    if (p->whole)
        dt_graph_return(c->func, dt_graph_unary(&c->b, DT_OP_SIN, x));
    for (uint32_t i = 0; i < p->n; i++) {
        DtValue *part =
            dt_graph_slice(&c->b, x, dt_intern("a"), p->at[i].lo, p->at[i].step, p->at[i].n);
        dt_graph_return(c->func, dt_graph_unary(&c->b, DT_OP_SIN, part));
    }
    check_gradients(c, 1);
    cr_expect_eq(count_ops(c->func->bwd, DT_OP_CONCAT), p->n_concats);
    cr_expect_eq(count_ops(c->func->bwd, DT_OP_PAD), p->n_pads);
    check_free(c);
}

ParameterizedTestParameters(vjp, window_and_fold)
{
    static DtRange cases[] = {{.lo = 0, .hi = 0, .step = 1, .n = 3},
                              {.lo = 1, .hi = 1, .step = 1, .n = 3},
                              {.lo = 2, .hi = 0, .step = 2, .n = 3},
                              {.lo = 0, .hi = 1, .step = 3, .n = 2}};
    return cr_make_param_array(DtRange, cases, DT_COUNT(cases));
}

ParameterizedTest(DtRange *r, vjp, window_and_fold)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=7 b=2");
    const char *a = dt_intern("a"), *w = dt_intern("w");
    DtValue *windows = dt_graph_window(&c->b, x, a, w, *r, 0.5);
    DtValue *squares = dt_graph_binary(&c->b, DT_OP_MUL, windows, windows);
    dt_graph_return(c->func, windows);
    dt_graph_return(c->func, dt_graph_fold(&c->b, squares, a, w, *r, 7));
    check_gradients(c, 1);
    check_free(c);
}

/* ---- contractions ---- */

typedef struct DotCase {
    const char *x, *y;
    uint32_t n;
    const char *axes[2];
} DotCase;

Test(vjp, dot)
{
    static const DotCase cases[] = {
        {"m=2 k=3", "k=3 n=4", 1, {"k"}},
        {"m=2 k=3 p=2", "p=2 n=4 k=3", 2, {"p", "k"}},
        {"b=2 m=2 k=3", "k=3 b=2 n=4", 1, {"k"}},
        {"m=2 k=3", "k=3", 1, {"k"}},
        {"k=3", "n=2 k=3", 1, {"k"}},
        {"k=3", "k=3", 1, {"k"}},
        {"b=2 k=3", "k=3 b=2", 1, {"k"}},
        {"m=3 b=2", "n=2 b=2", 0, {NULL}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        Check *c = check_new();
        const char *axes[2];
        DtValue *x = input(c, cases[i].x), *y = input(c, cases[i].y);
        for (uint32_t k = 0; k < cases[i].n; k++)
            axes[k] = dt_intern(cases[i].axes[k]);
        dt_graph_return(c->func, dt_graph_dot(&c->b, x, y, cases[i].n, axes, DT_F32, NULL));
        check_gradients(c, 2);
        check_free(c);
    }
}

ParameterizedTestParameters(vjp, reduce)
{
    static DtReduce cases[] = {DT_REDUCE_SUM, DT_REDUCE_MAX, DT_REDUCE_MIN};
    return cr_make_param_array(DtReduce, cases, DT_COUNT(cases));
}

ParameterizedTest(DtReduce *kind, vjp, reduce)
{
    static const char *const axes[][2] = {{"a", NULL}, {"d", "a"}};
    for (uint32_t n = 1; n <= 2; n++) {
        Check *c = check_new();
        DtValue *x = input(c, "a=3 b=2 d=4");
        const char *names[2];
        for (uint32_t i = 0; i < n; i++)
            names[i] = dt_intern(axes[n - 1][i]);
        dt_graph_return(c->func, dt_graph_reduce(&c->b, *kind, x, n, names));
        check_gradients(c, 1);
        check_free(c);
    }
}

Test(vjp, scan)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        Check *c = check_new();
        DtValue *x = input(c, "a=3 b=2 d=4");
        const char *names[2] = {dt_intern("d"), dt_intern("a")};
        DtValue *y = dt_graph_scan(&c->b, x, 2, names, reverse);
        dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, y, y));
        check_gradients(c, 1);
        check_free(c);
    }
}

Test(vjp, topk)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=3 a=6 d=2"), *values, *indices;
    dt_graph_topk(&c->b, x, dt_intern("a"), axis_of("c", 2), &values, &indices);
    dt_graph_return(c->func, values);
    dt_graph_return(c->func, indices);
    const DtFunc *bwd = check_gradients(c, 1);
    cr_assert_eq(bwd->seeds.n, 1, "indices have no cotangent");
    check_free(c);
}

/* In 16 bits: a dot and a sum with f32 results, a dot with a 16-bit result, and a map. Cotangents
 * have the dtype of their primal values. */
Test(vjp, sixteen_bits)
{
    Check *c = check_new();
    const char *k = dt_intern("k");
    DtValue *x = dt_graph_cast(&c->b, input(c, "m=2 k=3"), DT_BF16),
            *w = dt_graph_cast(&c->b, input(c, "k=3 n=2"), DT_BF16);
    DtValue *wide = dt_graph_dot(&c->b, x, w, 1, &k, DT_F32, NULL),
            *narrow = dt_graph_dot(&c->b, x, w, 1, &k, DT_BF16, NULL);
    DtValue *sum =
        dt_graph_reduce(&c->b, DT_REDUCE_SUM, dt_graph_binary(&c->b, DT_OP_MUL, x, w), 1, &k);
    cr_assert(wide->type->dtype == DT_F32 && narrow->type->dtype == DT_BF16 &&
              sum->type->dtype == DT_F32);
    dt_graph_return(c->func, wide);
    dt_graph_return(c->func, narrow);
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, sum, wide));
    dt_graph_return(c->func, dt_graph_reduce(&c->b, DT_REDUCE_MAX, x, 1, &k));
    check_gradients(c, 2);
    check_free(c);
}

/* ---- indexing ---- */

Test(vjp, gather)
{
    Check *c = check_new();
    DtValue *table = input(c, "v=5 e=3"),
            *ids = input_integers(c, "b=2 s=4", -1, 7); /* some indices are out of range */
    const char *v = dt_intern("v");
    dt_graph_return(c->func, dt_graph_gather(&c->b, table, 1, &v, &ids));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, gather_aligned_and_joint)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=3 v=5 e=2 w=2");
    DtValue *index[] = {input_integers(c, "s=4 b=3", 0, 5), input_integers(c, "b=3", 0, 2)};
    const char *axes[] = {dt_intern("v"), dt_intern("w")};
    dt_graph_return(c->func, dt_graph_gather(&c->b, x, 2, axes, index));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, gather_whose_index_has_the_indexed_axis)
{
    Check *c = check_new();
    DtValue *x = input(c, "v=5 e=2"), *index = input_integers(c, "v=5 e=2", 0, 5);
    const char *v = dt_intern("v");
    dt_graph_return(c->func, dt_graph_gather(&c->b, x, 1, &v, &index));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, gather_of_a_scalar_place)
{
    Check *c = check_new();
    DtValue *x = input(c, "e=2 v=5"), *index = input_integers(c, "", 0, 5);
    const char *v = dt_intern("v");
    dt_graph_return(c->func, dt_graph_gather(&c->b, x, 1, &v, &index));
    check_gradients(c, 1);
    check_free(c);
}

Test(vjp, scatter_add)
{
    Check *c = check_new();
    DtValue *x = input(c, "b=2 s=5 e=3");
    DtValue *index[] = {input_integers(c, "b=2 s=5", -1, 3), input_integers(c, "s=5", 0, 2)};
    DtAxis targets[] = {axis_of("p", 3), axis_of("q", 2)};
    const char *s = dt_intern("s");
    dt_graph_return(c->func, dt_graph_scatter_add(&c->b, x, 2, targets, index, 1, &s, NULL));
    check_gradients(c, 1);
    check_free(c);
}

/* The index does not depend on a summed axis: all elements along it are added to one place. */
Test(vjp, scatter_add_constant_along_a_summed_axis)
{
    Check *c = check_new();
    DtValue *x = input(c, "s=5 n=2 e=3"), *index = input_integers(c, "s=5", 0, 4);
    DtAxis target = axis_of("p", 4);
    const char *summed[] = {dt_intern("s"), dt_intern("n")};
    dt_graph_return(c->func, dt_graph_scatter_add(&c->b, x, 1, &target, &index, 2, summed, NULL));
    check_gradients(c, 1);
    check_free(c);
}

/* ---- the table of ops ---- */

static const char *const gradients[DT_OP_COUNT] = {
#define DT_OP(NAME, text, inputs, class, shape, gradient, ...) [DT_OP_##NAME] = #gradient,
#include "ir/ops.def"
#undef DT_OP
};

/* Returns the square of the result of an op on x[a, b], for ops that are not maps of one or two
 * floats; NULL: the test has no case for the op. */
static DtValue *made_by(Check *c, DtOpKind kind)
{
    const char *a = dt_intern("a"), *w = dt_intern("w");
    DtValue *x = input(c, "a=4 b=3"), *values, *indices;
    DtBuilder *b = &c->b;
    switch (kind) {
    case DT_OP_WHERE:
        return dt_graph_where(b, input_bool(c, "a=4"), x, dt_graph_unary(b, DT_OP_SIN, x));
    case DT_OP_CAST: return dt_graph_cast(b, x, DT_BF16);
    case DT_OP_RELABEL: return dt_graph_rename(b, x, a, w, NULL);
    case DT_OP_SLICE: return dt_graph_slice(b, x, a, 1, 2, 2);
    case DT_OP_PAD: return dt_graph_pad(b, x, a, 1, 2, 2, 3);
    case DT_OP_CONCAT:
        return dt_graph_concat(b, a, 2, (DtValue *[]){x, dt_graph_unary(b, DT_OP_SIN, x)});
    case DT_OP_EXPAND: return dt_graph_expand(b, x, type_of(DT_F32, "w=2 a=4 b=3"));
    case DT_OP_WINDOW:
        return dt_graph_window(b, x, a, w, (DtRange){.lo = 1, .hi = 1, .step = 1, .n = 3}, 2);
    case DT_OP_FOLD:
        return dt_graph_fold(b, x, a, dt_intern("b"),
                             (DtRange){.lo = 1, .hi = 1, .step = 1, .n = 3}, 4);
    case DT_OP_DOT: return dt_graph_dot(b, x, dt_graph_unary(b, DT_OP_SIN, x), 1, &a, DT_F32, NULL);
    case DT_OP_REDUCE: return dt_graph_reduce(b, DT_REDUCE_MAX, x, 1, &a);
    case DT_OP_SCAN: return dt_graph_scan(b, x, 1, &a, false);
    case DT_OP_TOPK: dt_graph_topk(b, x, a, axis_of("w", 2), &values, &indices); return values;
    case DT_OP_GATHER:
        indices = input_integers(c, "w=5", -1, 6);
        return dt_graph_gather(b, x, 1, &a, &indices);
    case DT_OP_SCATTER_ADD: {
        DtAxis target = axis_of("w", 3);
        indices = input_integers(c, "a=4", -1, 4);
        return dt_graph_scatter_add(b, x, 1, &target, &indices, 1, &a, NULL);
    }
    case DT_OP_CALL: {
        DtFunc *func = check_func(c, "g", DT_FUNC_LAYER);
        dt_graph_return(func, dt_graph_unary(&c->b, DT_OP_SIN, dt_graph_arg(func, x->type, NULL)));
        check_main(c);
        return dt_graph_call(&c->b, func, "g", &x)->out[0];
    }
    case DT_OP_LOOP: { /* x as a carried value, an invariant, and a stacked operand; the body
                        * returns the sine of the slice */
        DtFunc *body = check_func(c, "h", DT_FUNC_BODY);
        const char *rows = dt_intern("b");
        dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
        DtValue *carried = dt_graph_arg(body, type_of(DT_F32, "b=3"), NULL),
                *still = dt_graph_arg(body, x->type, NULL);
        DtValue *slice =
            dt_graph_unary(&c->b, DT_OP_SIN, dt_graph_arg(body, type_of(DT_F32, "b=3"), NULL));
        DtValue *sum = dt_graph_reduce(&c->b, DT_REDUCE_SUM, still, 1, &rows);
        DtValue *all = dt_graph_reduce(&c->b, DT_REDUCE_SUM, sum, 1, &a);
        carried =
            dt_graph_binary(&c->b, DT_OP_MUL, dt_graph_unary(&c->b, DT_OP_SIN, carried), slice);
        dt_graph_return(body, dt_graph_binary(&c->b, DT_OP_ADD, carried, all));
        dt_graph_return(body, slice);
        check_main(c);
        const DtLoop loop = {.label = "h", .axis = a, .count = 4, .n_carried = 1, .n_invariant = 1,
                             .n_stacked = 1, .n_stacked_out = 1};
        DtValue *in[] = {dt_graph_slice(&c->b, x, a, 0, 1, 1), x, x};
        in[0] = dt_graph_reduce(&c->b, DT_REDUCE_SUM, in[0], 1, &a);
        const DtOp *made = dt_graph_loop(&c->b, body, loop, in);
        return dt_graph_binary(&c->b, DT_OP_MUL, made->out[1], made->out[0]);
    }
    default: return NULL;
    }
}

static bool has_map_case(DtOpKind kind)
{
    for (size_t i = 0; i < DT_COUNT(unary_cases); i++)
        if (unary_cases[i].kind == kind)
            return true;
    for (size_t i = 0; i < DT_COUNT(binary_cases); i++)
        if (binary_cases[i].kind == kind)
            return true;
    return false;
}

/* Each row of the table of ops with a derivative has a case, which is compared with forward
 * derivatives and with differences. Every other op of a serial program has at least a forward
 * rule; `terms` needs a sum that is pending over ranks, which a serial program does not have. */
Test(ops, every_derivative_has_a_case)
{
    for (int kind = 0; kind < DT_OP_COUNT; kind++) {
        const char *name = dt_op_info[kind].text;
        if (strcmp(gradients[kind], "none") == 0 || has_map_case((DtOpKind)kind))
            continue;
        Check *c = check_new();
        DtValue *y = made_by(c, (DtOpKind)kind);
        cr_expect(y != NULL, "`%s` has a derivative in ops.def, and no case here", name);
        if (y != NULL) {
            dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, y, y));
            check_gradients(c, 1);
        }
        check_free(c);
    }
}

Test(ops, every_op_of_a_serial_program_has_a_forward_rule)
{
    for (int kind = 0; kind < DT_OP_COUNT; kind++) {
        const bool serial = dt_op_info[kind].op_class != DT_CLASS_COMM && kind != DT_OP_TERMS &&
                            kind != DT_OP_PACK && kind != DT_OP_UNPACK &&
                            !(dt_op_info[kind].traits & DT_TRAIT_LOWERED);
        cr_expect_eq(dt_tangent_has_rule((DtOpKind)kind), serial, "`%s`: see ir/tangent.c",
                     dt_op_info[kind].text);
    }
}

/* ---- corners ---- */

/* Returns the cotangents of f at these input values (in memory order), if the cotangents of its
 * results are 1. */
static DtTensor **cotangents_at(Check *c, const double *values)
{
    DtFunc *bwd = dt_differentiate_func(c->func);
    cr_assert(bwd != NULL);
    for (uint32_t i = 0; i < c->n; i++)
        for (int64_t k = 0; k < dt_type_elements(c->in[i]->type); k++)
            c->in[i]->at[k] = *values++;
    DtTensor **seeds = DT_NEW_ARRAY(c->arena, DtTensor *, bwd->seeds.n + 1);
    for (uint32_t i = 0; i < bwd->seeds.n; i++) {
        seeds[i] = dt_interp_tensor(c->arena, c->func->results.at[bwd->seeds.at[i]]->type);
        for (int64_t k = 0; k < dt_type_elements(seeds[i]->type); k++)
            seeds[i]->at[k] = 1;
    }
    DtTensor **results = DT_NEW_ARRAY(c->arena, DtTensor *, c->func->results.n + 1);
    DtTensor **cotangents = DT_NEW_ARRAY(c->arena, DtTensor *, bwd->results.n + 1);
    run_backward(&c->interp, bwd, c->in, seeds, results, cotangents);
    return cotangents;
}

static void expect(const DtTensor *tensor, int n, const double *values)
{
    for (int i = 0; i < n; i++)
        cr_expect(tensor->at[i] == values[i], "element %d is %g, not %g", i, tensor->at[i],
                  values[i]);
}

Test(corners, abs_has_slope_0_at_0)
{
    Check *c = check_new();
    dt_graph_return(c->func, dt_graph_unary(&c->b, DT_OP_ABS, input(c, "a=3")));
    expect(cotangents_at(c, (double[]){-2, 0, 3})[0], 3, (double[]){-1, 0, 1});
    check_free(c);
}

Test(corners, max_and_min_go_to_the_second_when_equal)
{
    for (int i = 0; i < 2; i++) {
        Check *c = check_new();
        DtValue *x = input(c, "a=3"), *y = input(c, "a=3");
        dt_graph_return(c->func, dt_graph_binary(&c->b, i == 0 ? DT_OP_MAX : DT_OP_MIN, x, y));
        DtTensor **got = cotangents_at(c, (double[]){1, 2, 3, 1, 3, 2});
        expect(got[0], 3, i == 0 ? (double[]){0, 0, 1} : (double[]){0, 1, 0});
        expect(got[1], 3, i == 0 ? (double[]){1, 1, 0} : (double[]){1, 0, 1});
        check_free(c);
    }
}

Test(corners, reductions_go_to_the_first_equal_element)
{
    for (int i = 0; i < 2; i++) {
        Check *c = check_new();
        const char *axes[] = {dt_intern("d"), dt_intern("a")}; /* d is the outer axis */
        DtValue *x = input(c, "a=2 b=2 d=2");
        dt_graph_return(c->func,
                        dt_graph_reduce(&c->b, i == 0 ? DT_REDUCE_MAX : DT_REDUCE_MIN, x, 2, axes));
        /* b = 0: a0d0 1, a0d1 5, a1d0 5, a1d1 5: the first maximum in order (d, a) is d0 a1 */
        const double sign = i == 0 ? 1 : -1;
        const double at[] = {sign * 1, sign * 5, sign * 2, sign * 2,
                             sign * 5, sign * 5, sign * 2, sign * 2};
        expect(cotangents_at(c, at)[0], 8, (double[]){0, 0, 1, 0, 1, 0, 0, 0});
        check_free(c);
    }
}

/* The branch not taken gets 0 even where the cotangent is infinite. */
Test(corners, where_selects)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=2"), *y = input(c, "a=2");
    DtValue *zero = dt_graph_constant(&c->b, DT_F32, 0);
    DtValue *chosen = dt_graph_where(&c->b, dt_graph_binary(&c->b, DT_OP_LT, zero, x), x, y);
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_MUL, chosen,
                                             dt_graph_constant(&c->b, DT_F32, INFINITY)));
    DtTensor **got = cotangents_at(c, (double[]){-1, 2, 3, 4});
    expect(got[0], 2, (double[]){0, INFINITY});
    expect(got[1], 2, (double[]){INFINITY, 0});
    check_free(c);
}

Test(corners, stop_and_decisions_have_no_gradient)
{
    Check *c = check_new();
    DtValue *x = input(c, "a=2"), *y = input(c, "a=2");
    DtValue *stopped = dt_graph_unary(&c->b, DT_OP_STOP, x);
    DtValue *floor = dt_graph_unary(&c->b, DT_OP_FLOOR, x);
    DtValue *mod = dt_graph_binary(&c->b, DT_OP_MOD, x, y);
    DtValue *whole = dt_graph_cast(&c->b, dt_graph_cast(&c->b, x, DT_I32), DT_F32);
    DtValue *sum = dt_graph_binary(&c->b, DT_OP_ADD, stopped, floor);
    sum = dt_graph_binary(&c->b, DT_OP_ADD, sum, dt_graph_binary(&c->b, DT_OP_ADD, mod, whole));
    dt_graph_return(c->func, sum);
    cr_expect(dt_differentiate_func(c->func) == NULL);
    DtValue *product = dt_graph_binary(&c->b, DT_OP_MUL, sum, y);
    dt_graph_return(c->func, product);
    DtFunc *bwd = dt_differentiate_func(c->func);
    cr_assert(bwd != NULL);
    cr_expect(bwd->wanted.n == 1 && bwd->wanted.at[0] == 1);
    cr_expect(bwd->seeds.n == 1 && bwd->seeds.at[0] == 1);
    check_free(c);
}

/* softmax of a row in which everything is masked: all zeros and no gradient, not NaN */
Test(corners, fully_masked_softmax)
{
    Check *c = check_new();
    const char *a = dt_intern("a");
    DtValue *x = input(c, "a=3"), *never = dt_graph_constant(&c->b, DT_BOOL, 0);
    DtValue *z = dt_graph_where(&c->b, never, x, dt_graph_constant(&c->b, DT_F32, -INFINITY));
    DtValue *top = dt_graph_reduce(&c->b, DT_REDUCE_MAX, z, 1, &a);
    top = dt_graph_unary(
        &c->b, DT_OP_STOP,
        dt_graph_binary(&c->b, DT_OP_MAX, top, dt_graph_constant(&c->b, DT_F32, -1e30)));
    DtValue *e = dt_graph_unary(&c->b, DT_OP_EXP, dt_graph_binary(&c->b, DT_OP_SUB, z, top));
    DtValue *sum = dt_graph_reduce(&c->b, DT_REDUCE_SUM, e, 1, &a);
    sum = dt_graph_binary(&c->b, DT_OP_MAX, sum, dt_graph_constant(&c->b, DT_F32, 1e-30));
    dt_graph_return(c->func, dt_graph_binary(&c->b, DT_OP_DIV, e, sum));
    expect(cotangents_at(c, (double[]){1, 2, 3})[0], 3, (double[]){0, 0, 0});
    check_free(c);
}
