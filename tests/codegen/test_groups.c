/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which ops share a kernel, and which values need no copy because they are computed directly
 * where they are needed. Results are compared with the interpreter's, as in test_fusion.c. */
#include "bench.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- joined values ---- */

static uint32_t kernels_named(const DtPlanBuilder *plan, const char *kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->kernels.n; i++)
        n += strcmp(plan->strings.at + plan->kernels.at[i].name, kind) == 0;
    return n;
}

/* Values that are written directly into the result of a concat. They are: halves that one kernel
 * computes from each other, as in a rotary embedding, and merged in another order than in memory;
 * and a product and a kernel's result, along the outer axis, one in the middle, and the last. */
Test(groups, parts_are_written_in_place)
{
    Bench *t = bench_new();
    DtValue *a = bench_random(t, type_of(DT_F32, "s=5 h=16"), 1),
            *b = bench_random(t, type_of(DT_F32, "s=5 h=16"), 2);
    const DtRelabel one = {.n_to = 1, .to = {named("two")}, .to_extent = {1}};
    const DtRelabel merge = {.n_from = 2, .n_to = 1, .from = {named("two"), named("h")},
                             .to = {named("head")}, .to_extent = {32}};
    DtValue *halves[2] = {bench_mod8(&t->b, dt_graph_binary(&t->b, DT_OP_SUB, a, b)),
                          bench_mod8(&t->b, dt_graph_binary(&t->b, DT_OP_ADD, a, b))};
    for (uint32_t i = 0; i < 2; i++)
        halves[i] = dt_graph_relabel(&t->b, halves[i], 1, &one, type_of(DT_F32, "s=5 h=16 two=1"));
    DtValue *pair = dt_graph_concat(&t->b, named("two"), 2, halves);
    bench_out(t, dt_graph_relabel(&t->b, pair, 1, &merge, type_of(DT_F32, "s=5 head=32")), 0);
    static const char *const axes[] = {"s", "h", "w"};
    for (uint32_t i = 0; i < DT_COUNT(axes); i++) {
        DtValue *x = bench_random(t, type_of(DT_F32, "s=5 h=16 e=4"), 3 + (int)i),
                *w = bench_random(t, type_of(DT_F32, "e=4 w=8"), 6 + (int)i),
                *y = bench_random(t, type_of(DT_F32, "s=5 h=16 w=8"), 9 + (int)i);
        DtValue *parts[2] = {dt_graph_dot(&t->b, x, w, AXES(named("e")), DT_F32, NULL),
                             bench_mod8(&t->b, dt_graph_binary(&t->b, DT_OP_MUL, y, y))};
        DtValue *both = dt_graph_concat(&t->b, named(axes[i]), 2, parts);
        DtValue *v = bench_random(t, type_of(DT_F32, "w=8 o=3"), 12);
        bench_out(t, i < 2 ? dt_graph_dot(&t->b, both, v, AXES(named("w")), DT_F32, NULL) : both,
                  0);
    }
    bench_check(t);
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    const DtPlanBuilder *plan = bench_plan(t, &options);
    static const char *const copies[] = {"concat", "expand", "relabel"};
    for (uint32_t i = 0; i < DT_COUNT(copies); i++)
        cr_expect_eq(kernels_named(plan, copies[i]), 0, "a kernel `%s`", copies[i]);
    bench_free(t);
}

/* Values that are copied into a concat: inputs, values that are results too, and values that occur
 * twice. */
Test(groups, parts_that_others_read_are_copied)
{
    Bench *t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "s=5 h=16"), 1);
    DtValue *y = bench_mod8(&t->b, dt_graph_binary(&t->b, DT_OP_ADD, x, x));
    DtValue *z = bench_mod8(&t->b, dt_graph_binary(&t->b, DT_OP_MUL, x, x));
    DtValue *parts[4] = {y, x, z, y};
    bench_out(t, dt_graph_concat(&t->b, named("h"), 4, parts), 0);
    bench_out(t, y, 0);
    bench_out(t, dt_graph_concat(&t->b, named("s"), 2, (DtValue *[]){x, x}), 0);
    bench_check(t);
    bench_free(t);
}

/* ---- rows with gaps ---- */

static uint32_t count_strides(const DtPlanBuilder *plan, int64_t stride)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->gemms.n; i++) {
        const DtPlanGemm *g = &plan->gemms.at[i];
        const int64_t strides[] = {g->a_row, g->a_col, g->b_row, g->b_col, g->c_row, g->c_col};
        for (uint32_t k = 0; k < DT_COUNT(strides); k++)
            n += strides[k] == stride;
    }
    return n;
}

/* Checks logits, and two products that read a kernel's function of them. dense: the logits are a
 * result, and the kernel's result is one long row of a third product. */
static void check_rows(DtDtype dtype, const char *vocab, uint32_t n_aligned, bool dense)
{
    Bench *t = bench_new();
    char type[32];
    snprintf(type, sizeof type, "e=8 v=%s", vocab);
    DtValue *x = bench_random(t, type_of(dtype, "b=2 s=5 e=8"), 1),
            *w = bench_random(t, type_of(dtype, type), 2);
    DtValue *logits = dt_graph_dot(&t->b, x, w, AXES(named("e")), DT_F32, NULL);
    DtValue *most = dt_graph_reduce(&t->b, DT_REDUCE_MAX, logits, AXES(named("v")));
    DtValue *z = dt_graph_cast(
        &t->b, bench_mod8(&t->b, dt_graph_binary(&t->b, DT_OP_SUB, logits, most)), dtype);
    bench_out(t, dt_graph_dot(&t->b, z, w, AXES(named("v")), DT_F32, NULL), 0);
    bench_out(t, dt_graph_dot(&t->b, x, z, AXES(named("b"), named("s")), DT_F32, NULL), 0);
    snprintf(type, sizeof type, "b=2 s=5 v=%s", vocab);
    if (dense) {
        bench_out(t, logits, 0);
        bench_out(t, dt_graph_dot(&t->b, z, bench_random(t, type_of(dtype, type), 3),
                                  AXES(named("b"), named("s"), named("v")), DT_F32, NULL), 0);
    }
    bench_check(t);
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    const int64_t elements = 16 / (int64_t)dt_dtype_size(dtype), n = atoi(vocab);
    cr_expect_eq(count_strides(bench_plan(t, &options), (n + elements - 1) / elements * elements),
                 n_aligned);
    bench_free(t);
}

/* The logits of a token have 1044 bytes. Each row gets 1056 bytes, if only products and kernels
 * read them. */
Test(groups, rows_of_products_are_aligned)
{
    check_rows(DT_F32, "261", 3, false);
    check_rows(DT_BF16, "517", 3, false);
    check_rows(DT_F32, "261", 0, true);
    check_rows(DT_F32, "255", 0, false); /* a short row is not padded */
}

/* ---- sums over rows ---- */

static uint32_t count_by_rows(const Bench *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->func->ops.n; i++)
        n += t->func->ops.at[i]->kind == DT_OP_FUSED && t->func->ops.at[i]->n_axes > 0;
    return n;
}

/* The gradients of a norm. The gradient of the operand needs sums along rows; those of gain and
 * shift are sums over rows. One kernel computes all three. Widths: one vector of lanes and a rest,
 * and less than one; two outer axes; and rows in more pieces than there are lanes. */
Test(groups, gradients_of_a_norm_share_a_kernel)
{
    static const char *const shapes[] = {"a=5 b=3 c=130", "a=40 c=17", "b=2 a=33 c=64",
                                         "a=300 c=70"};
    for (uint32_t s = 0; s < DT_COUNT(shapes); s++) {
        Bench *t = bench_new();
        const DtType *type = type_of(DT_F32, shapes[s]);
        const char *c = named("c"), *rows[2];
        uint32_t n_rows = 0;
        for (uint32_t i = 0; i + 1 < type->rank; i++)
            rows[n_rows++] = type->axes[i].name;
        DtValue *x = bench_random(t, type, 1), *dy = bench_random(t, type, 2);
        const DtAxis *last = &type->axes[type->rank - 1];
        DtValue *gain = bench_random(t, dt_type_plain(DT_F32, 1, last), 3);
        DtValue *squares =
            dt_graph_reduce(&t->b, DT_REDUCE_SUM, dt_graph_binary(&t->b, DT_OP_MUL, x, x), 1, &c);
        DtValue *one = dt_graph_constant(&t->b, DT_F32, 1);
        DtValue *scale =
            dt_graph_unary(&t->b, DT_OP_RSQRT, dt_graph_binary(&t->b, DT_OP_ADD, squares, one));
        DtValue *scaled =
            dt_graph_binary(&t->b, DT_OP_MUL, dt_graph_binary(&t->b, DT_OP_MUL, dy, gain), scale);
        DtValue *dot = dt_graph_reduce(&t->b, DT_REDUCE_SUM,
                                       dt_graph_binary(&t->b, DT_OP_MUL, scaled, x), 1, &c);
        DtValue *dx =
            dt_graph_binary(&t->b, DT_OP_SUB, scaled, dt_graph_binary(&t->b, DT_OP_MUL, x, dot));
        DtValue *by_gain =
            dt_graph_binary(&t->b, DT_OP_MUL, dy, dt_graph_binary(&t->b, DT_OP_MUL, x, scale));
        DtValue *dgain = dt_graph_reduce(&t->b, DT_REDUCE_SUM, by_gain, n_rows, rows);
        DtValue *most = dt_graph_reduce(&t->b, DT_REDUCE_MAX, dx, n_rows, rows);
        bench_out(t, dx, 512); /* two sums of 130 products; in units of 2^-24 */
        bench_out(t, dt_graph_cast(&t->b, dgain, DT_BF16), 0x1p16);
        bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, most, gain), 512);
        bench_check(t);
        cr_expect_eq(count_by_rows(t), 1, "%s: %u kernels add up rows", shapes[s],
                     count_by_rows(t));
        cr_expect_eq(t->func->ops.n, 4, "%s: %u ops are left of three sources and a kernel",
                     shapes[s], t->func->ops.n);
        bench_free(t);
    }
}

/* If a value of a row depends on a sum over all rows, both cannot be in one kernel. */
Test(groups, rows_do_not_read_sums_over_rows)
{
    Bench *t = bench_new();
    const char *a = named("a");
    DtValue *x = bench_random(t, type_of(DT_F32, "a=50 c=70"), 4);
    DtValue *u = dt_graph_unary(&t->b, DT_OP_ABS, x);
    DtValue *mean = dt_graph_reduce(&t->b, DT_REDUCE_SUM, u, 1, &a);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, u, mean), 64);
    bench_out(t, u, 0);
    bench_check(t);
    cr_expect_eq(count_by_rows(t), 1);
    bench_free(t);
}

/* A sum over rows reads its operands again in a later phase of the kernel: until then nothing may
 * overwrite them. */
Test(groups, late_sums_find_what_they_read)
{
    Bench *t = bench_new();
    const char *a = named("a"), *c = named("c"), *k = named("k");
    DtValue *p = bench_random(t, type_of(DT_F32, "a=40 k=4"), 3),
            *q = bench_random(t, type_of(DT_F32, "k=4 c=64"), 5);
    DtValue *x = dt_graph_dot(&t->b, p, q, 1, &k, DT_F32, NULL),
            *r = bench_random(t, type_of(DT_F32, "a=40 c=64"), 7);
    DtValue *y = dt_graph_binary(&t->b, DT_OP_ADD, x, r);
    DtValue *s = dt_graph_reduce(&t->b, DT_REDUCE_MAX, y, 1, &c);
    DtValue *h = dt_graph_binary(&t->b, DT_OP_SUB, y, s);
    bench_out(t,
              dt_graph_dot(&t->b, y, bench_random(t, type_of(DT_F32, "c=64 d=3"), 9), 1, &c, DT_F32,
                           NULL),
              0);
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, h, 1, &a), 64);
    bench_check(t);
    bench_free(t);
}

/* A kernel that can process all points at once is not divided into rows of three. */
Test(groups, short_rows_are_not_added_up)
{
    Bench *t = bench_new();
    const char *a = named("a");
    DtValue *u = dt_graph_unary(&t->b, DT_OP_ABS, bench_random(t, type_of(DT_F32, "a=50 c=3"), 7));
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, u, 1, &a), 64);
    bench_out(t, u, 0);
    bench_check(t);
    cr_expect_eq(count_by_rows(t), 0);
    bench_free(t);
}

/* The two gradients of f(gate) * up share only their operands, which one kernel could read once.
 * The gradients stay in separate kernels if a common kernel would keep values alive longer that
 * only one of them needs: here p is no longer needed when q is computed. */
Test(groups, readers_of_the_same_share_a_kernel)
{
    Bench *t = bench_new();
    const char *k = named("k");
    const DtType *type = type_of(DT_F32, "a=40 c=70");
    DtValue *dy = bench_random(t, type, 2), *up = bench_random(t, type, 3);
    DtValue *gate = bench_random(t, type_of(DT_F32, "c=70 a=40"), 5);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_MUL, dy, up), 0);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_MUL, dy, dt_graph_unary(&t->b, DT_OP_ABS, gate)), 0);
    bench_check(t);
    cr_expect_eq(t->func->ops.n, 4, "three sources and a kernel: %u", t->func->ops.n);
    bench_free(t);

    t = bench_new();
    DtValue *x = bench_random(t, type, 2), *w = bench_random(t, type_of(DT_F32, "a=40 k=4"), 3);
    DtValue *v = bench_random(t, type_of(DT_F32, "k=4 c=70"), 5);
    DtValue *p = dt_graph_dot(&t->b, w, v, 1, &k, DT_F32, NULL);
    const char *c = named("c");
    bench_out(t,
              dt_graph_reduce(&t->b, DT_REDUCE_MAX, dt_graph_binary(&t->b, DT_OP_MUL, p, x), 1, &c),
              0);
    DtValue *late = dt_graph_unary(&t->b, DT_OP_NEG, v);
    DtValue *q = dt_graph_dot(&t->b, w, late, 1, &k, DT_F32, NULL);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_ADD, q, x), 0);
    bench_check(t);
    cr_expect_eq(t->func->ops.n, 8, "three sources, two products, three kernels: %u",
                 t->func->ops.n);
    bench_free(t);
}

/* A scatter_add with one element for each place is computed as a selection; indices out of range
 * are dropped. */
Test(groups, one_hot_joins_its_readers)
{
    static const double at[] = {3, 0, 69, 70, -1, 12, 69};
    Bench *t = bench_new();
    DtAxis c = axis_of("c", 70), d = axis_of("d", 3);
    DtValue *x = bench_random(t, type_of(DT_F32, "a=7 c=70"), 5),
            *v = bench_random(t, type_of(DT_F32, "a=7"), 6);
    DtValue *index = bench_values(t, type_of(DT_I32, "a=7"), 7, at);
    DtValue *two[2] = {index, index};
    DtValue *hot = dt_graph_scatter_add(&t->b, v, 1, &c, &index, 0, NULL, NULL);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, x, hot), 0);
    bench_out(t, dt_graph_scatter_add(&t->b, v, 2, (DtAxis[]){c, d}, two, 0, NULL, NULL), 0);
    bench_check(t);
    cr_expect_eq(t->func->ops.n, 5, "three sources, a kernel, and the one that stays alone: %u",
                 t->func->ops.n);
    bench_free(t);
}
