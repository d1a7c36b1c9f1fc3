/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion, reuse of memory and loops: random graphs and the known hazards, fused and unfused,
 * against the interpreter. All values are kept to quarters below 8 by `mod 8` after whatever could
 * grow, so that every sum is exact in any order and equality is to the bit. */
#include "bench.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random graphs ---- */

enum { MAX_POOL = 80 };

typedef struct Pool {
    Bench *t;
    DtBuilder b;
    uint64_t random;
    uint32_t n, loops, depth;
    DtValue *at[MAX_POOL];
} Pool;

static const struct { const char *name; int64_t extent; } world[] = {{"a", 5}, {"b", 17},
                                                                     {"c", 130}};

static uint32_t dice(Pool *p, uint32_t n)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 33) % n;
}

static DtValue *pick(Pool *p) { return p->at[dice(p, p->n)]; }

static void keep(Pool *p, DtValue *value)
{
    if (p->n < MAX_POOL)
        p->at[p->n++] = value;
}

static DtValue *bounded(Pool *p, DtValue *x)
{
    return dt_graph_binary(&p->b, DT_OP_MOD, x, dt_graph_constant(&p->b, DT_F32, 8));
}

/* Returns an axis of the value that all its readers know, or NULL. */
static const char *some_axis(Pool *p, const DtValue *value)
{
    return value->type->rank ? value->type->axes[dice(p, value->type->rank)].name : NULL;
}

static DtValue *random_map(Pool *p)
{
    static const DtOpKind kinds[] = {DT_OP_ADD, DT_OP_SUB, DT_OP_MAX, DT_OP_MIN, DT_OP_MUL};
    static const DtOpKind singles[] = {DT_OP_NEG, DT_OP_ABS, DT_OP_FLOOR, DT_OP_STOP};
    DtValue *x = pick(p), *y = pick(p);
    uint32_t k = dice(p, DT_COUNT(kinds) + DT_COUNT(singles) + 1);
    if (k < DT_COUNT(singles))
        return dt_graph_unary(&p->b, singles[k], x);
    k -= DT_COUNT(singles);
    if (k == DT_COUNT(kinds))
        return dt_graph_where(&p->b, dt_graph_binary(&p->b, DT_OP_LT, x, y), y, pick(p));
    DtValue *z = dt_graph_binary(&p->b, kinds[k], x, y);
    if (kinds[k] == DT_OP_MUL) /* back to quarters below 8 */
        z = dt_graph_binary(&p->b, DT_OP_DIV, dt_graph_unary(&p->b, DT_OP_FLOOR, bounded(p, z)),
                            dt_graph_constant(&p->b, DT_F32, 4));
    return bounded(p, z);
}

static DtValue *random_reduce(Pool *p)
{
    DtValue *x = pick(p);
    const char *axes[3];
    uint32_t n = 0, kind = dice(p, 3);
    for (uint32_t i = 0; i < x->type->rank; i++)
        if (dice(p, 2))
            axes[n++] = x->type->axes[i].name;
    if (n == 0)
        return NULL;
    DtValue *sum = dt_graph_reduce(&p->b, (DtReduce)kind, x, n, axes);
    return kind == DT_REDUCE_SUM ? bounded(p, sum) : sum;
}

/* Softmax written out: a statistic of each row is combined with the row again, twice. */
static DtValue *random_row(Pool *p)
{
    DtValue *x = pick(p);
    const char *axis = some_axis(p, x);
    if (!axis)
        return NULL;
    DtValue *most = dt_graph_reduce(&p->b, DT_REDUCE_MAX, x, 1, &axis);
    DtValue *low = dt_graph_binary(&p->b, DT_OP_SUB, x, most);
    DtValue *sum = bounded(p, dt_graph_reduce(&p->b, DT_REDUCE_SUM, low, 1, &axis));
    if (dice(p, 2))
        keep(p, sum);
    return bounded(p, dt_graph_binary(&p->b, DT_OP_ADD, low, sum));
}

static DtValue *random_axis_op(Pool *p)
{
    DtValue *x = pick(p);
    const char *axis = some_axis(p, x);
    if (!axis)
        return dt_graph_expand(&p->b, x, type_of(DT_F32, "c=130 a=5"));
    int64_t n = dt_type_extent(x->type, axis), half = (n - 1) / 2;
    switch (dice(p, 5)) {
    case 0: /* takes every second element, then pads these again with 2.5 between them */
        x = dt_graph_slice(&p->b, x, axis, 1, 2, half);
        if (dice(p, 2))
            x = dt_graph_unary(&p->b, DT_OP_NEG, x);
        return dt_graph_pad(&p->b, x, axis, 1, n - 2 * half, 2, 2.5);
    case 1: return dt_graph_reorder(&p->b, x, reordered(x->type, (int)dice(p, 6)));
    case 2: { /* the two halves are exchanged */
        DtValue *halves[2] = {dt_graph_slice(&p->b, x, axis, half, 1, n - half),
                              dt_graph_slice(&p->b, x, axis, 0, 1, half)};
        return dt_graph_concat(&p->b, axis, 2, halves);
    }
    case 3: { /* moving sum */
        DtRange range = {1, 1, 1, 3};
        const char *w = named("w");
        DtValue *window = dt_graph_window(&p->b, x, axis, w, range, 0.25);
        if (dice(p, 2))
            return bounded(p, dt_graph_fold(&p->b, window, axis, w, range, n));
        return bounded(p, dt_graph_reduce(&p->b, DT_REDUCE_SUM, window, 1, &w));
    }
    default: return bounded(p, dt_graph_scan(&p->b, x, 1, &axis, dice(p, 2)));
    }
}

/* Reads x along one axis at an index that is computed from another value. */
static DtValue *random_gather(Pool *p)
{
    DtValue *x = pick(p), *y = pick(p);
    const char *axis = some_axis(p, x);
    if (!axis || dt_type_find(y->type, axis) >= 0)
        return NULL;
    DtValue *index = dt_graph_cast(&p->b, y, DT_I32);
    if (dice(p, 2))
        return dt_graph_gather(&p->b, x, 1, &axis, &index);
    DtAxis target = axis_of("t", 9);
    for (uint32_t i = 0; i < y->type->rank; i++) /* the index of a scatter may only have axes of
                                                  * x */
        if (dt_type_find(x->type, y->type->axes[i].name) < 0)
            return NULL;
    DtValue *sums = dt_graph_scatter_add(&p->b, x, 1, &target, &index, 1, &axis, NULL);
    return bounded(p, dt_graph_reduce(&p->b, DT_REDUCE_MAX, sums, 1, &target.name));
}

static DtValue *random_dot(Pool *p)
{
    DtValue *x = pick(p), *y = pick(p);
    const char *axis = some_axis(p, x);
    if (!axis || dt_type_find(y->type, axis) < 0)
        return NULL;
    DtValue *z = dt_graph_dot(&p->b, x, y, 1, &axis, DT_F32, NULL);
    z = dt_graph_binary(&p->b, DT_OP_DIV, dt_graph_unary(&p->b, DT_OP_FLOOR, bounded(p, z)),
                        dt_graph_constant(&p->b, DT_F32, 4));
    return z;
}

static void random_ops(Pool *p, uint32_t n);

static bool is_part(const DtType *part, const DtType *of)
{
    for (uint32_t i = 0; i < part->rank; i++)
        if (dt_type_find(of, part->axes[i].name) < 0)
            return false;
    return true;
}

/* Returns a value from the pool that has only the axes of the type, or fewer. */
static DtValue *pick_within(Pool *p, const DtType *type)
{
    for (int tries = 0; tries < 20; tries++) {
        DtValue *value = pick(p);
        if (is_part(value->type, type))
            return value;
    }
    return dt_graph_constant(&p->b, DT_F32, 1.25);
}

/* Adds a loop over a random body: carried values that change, swap or stay, invariants, slices of a
 * stacked operand, stacked results that may be a carried value as it came in. */
static DtValue *random_loop(Pool *p)
{
    DtAxis axis = axis_of(dt_arena_printf(p->t->arena, "L%u", p->depth), 3);
    DtFunc *body = dt_graph_func(p->t->module, "body", DT_FUNC_BODY);
    Pool in = {.t = p->t, .b = {.func = body}, .random = p->random, .depth = p->depth + 1};
    DtLoop loop = {.label = dt_intern_printf("h%u", p->loops++),
                   .axis = axis.name,
                   .count = axis.extent,
                   .reverse = dice(p, 2),
                   .n_carried = 2 + dice(p, 2),
                   .n_invariant = 2,
                   .n_stacked = 1};
    DtValue *operands[8], *carried[4];
    uint32_t n = 0;
    DtValue *number = dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
    for (uint32_t i = 0; i < loop.n_carried + loop.n_invariant; i++) {
        operands[n] = i == 1 && dice(p, 2) ? operands[0] : pick(p);
        DtValue *arg =
            dt_graph_arg(body, operands[n]->type, i < loop.n_carried ? "carried" : "invariant");
        if (i < loop.n_carried)
            carried[i] = arg;
        keep(&in, arg);
        n++;
    }
    DtValue *base = pick(p);
    const DtType *slice = base->type;
    DtAxis axes[DT_MAX_RANK] = {axis};
    memcpy(axes + 1, slice->axes, slice->rank * sizeof axes[0]);
    DtValue *numbers = dt_graph_cast(&p->b, dt_graph_iota(&p->b, axis), DT_F32);
    DtValue *parts[2] = {
        dt_graph_expand(&p->b, base, dt_type_plain(DT_F32, slice->rank + 1u, axes)), numbers};
    operands[n++] = dt_graph_map(&p->b, DT_OP_MAX, 2, parts, parts[0]->type);
    keep(&in, dt_graph_arg(body, slice, "stacked"));
    keep(&in, bounded(&in, dt_graph_cast(&in.b, number, DT_F32)));
    random_ops(&in, 4 + dice(p, 4));
    uint32_t shape = dice(p, 3);
    for (uint32_t i = 0; i < loop.n_carried; i++) {
        DtValue *next;
        uint32_t other = (i + 1) % loop.n_carried;
        if (shape == 0 && carried[other]->type == carried[i]->type)
            next = carried[other];
        else if (shape == 1 && i == 1)
            next = carried[i];
        else {
            DtValue *both[2] = {pick_within(&in, carried[i]->type), carried[i]};
            DtValue *sum[2] = {dt_graph_map(&in.b, DT_OP_ADD, 2, both, carried[i]->type),
                               dt_graph_constant(&in.b, DT_F32, 8)};
            next = dt_graph_map(&in.b, DT_OP_MOD, 2, sum, carried[i]->type);
        }
        dt_graph_return(body, next);
    }
    loop.n_stacked_out = 1 + dice(p, 2);
    for (uint32_t i = 0; i < loop.n_stacked_out; i++)
        dt_graph_return(body, i == 0 && dice(p, 2) ? carried[0] : pick(&in));
    DtOp *op = dt_graph_loop(&p->b, body, loop, operands);
    dt_graph_renumber(body);
    for (uint32_t i = 0; i < loop.n_carried; i++)
        keep(p, op->out[i]);
    for (uint32_t i = 0; i < loop.n_stacked_out; i++)
        keep(p, dt_graph_reduce(&p->b, DT_REDUCE_MAX, op->out[loop.n_carried + i], 1, &axis.name));
    return NULL;
}

static void random_ops(Pool *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = dice(p, 20);
        DtValue *value = k < 8     ? random_map(p)
                         : k < 10  ? random_reduce(p)
                         : k < 12  ? random_row(p)
                         : k < 15  ? random_axis_op(p)
                         : k < 16  ? random_gather(p)
                         : k < 18  ? random_dot(p)
                         : p->depth < 2 && n > 5 ? random_loop(p)
                                   : random_map(p);
        if (value)
            keep(p, value);
    }
}

static DtValue *input_of(Pool *p, uint32_t bits, int order, int seed)
{
    DtAxis axes[3];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (bits >> i & 1)
            axes[n++] = axis_of(world[i].name, world[i].extent);
    return bench_random(p->t, reordered(dt_type_plain(DT_F32, n, axes), order), seed);
}

static void random_graphs(uint32_t seed, uint32_t n_graphs, uint32_t n_ops)
{
    Bench *t = bench_new();
    for (uint32_t g = 0; g < n_graphs; g++) {
        Pool p = {.t = t, .b = t->b, .random = seed * 1000003u + g, .loops = 100 * g};
        for (uint32_t i = 0; i < 4; i++)
            keep(&p,
                 bounded(&p, input_of(&p, i == 3 ? 7 : 1 + dice(&p, 7), (int)dice(&p, 6), (int)i)));
        random_ops(&p, n_ops);
        for (uint32_t i = 4; i < p.n; i++)
            if (i + 3 >= p.n || dice(&p, 5) == 0)
                bench_out(t, p.at[i], 0);
    }
    bench_check(t);
    bench_free(t);
}

Test(fusion, random_graphs_1) { random_graphs(1, 6, 16); }
Test(fusion, random_graphs_2) { random_graphs(2, 6, 16); }
Test(fusion, random_graphs_3) { random_graphs(3, 6, 16); }
Test(fusion, random_graphs_4) { random_graphs(4, 3, 30); }

/* The environment variable DT_FUZZ=first,last selects those seeds instead. */
Test(fusion, random_graphs_5)
{
    unsigned first = 5, last = 5;
    const char *range = getenv("DT_FUZZ");
    if (range)
        cr_assert_eq(sscanf(range, "%u,%u", &first, &last), 2);
    for (unsigned seed = first; seed <= last; seed++) {
        if (range)
            fprintf(stderr, "seed %u\n", seed);
        random_graphs(seed, 4, 24);
    }
}

/* ---- loops ---- */

/* Adds a loop with the given body function; operands as DtLoop says. */
static DtOp *add_loop(Bench *t, DtFunc *body, bool reverse, uint32_t n_carried,
                      uint32_t n_invariant, uint32_t n_stacked, uint32_t n_stacked_out,
                      DtValue *const *in)
{
    DtLoop loop = {.label = dt_intern("h"),
                   .axis = dt_intern("layer"),
                   .count = 4,
                   .reverse = reverse,
                   .n_carried = n_carried,
                   .n_invariant = n_invariant,
                   .n_stacked = n_stacked,
                   .n_stacked_out = n_stacked_out};
    DtOp *op = dt_graph_loop(&t->b, body, loop, in);
    dt_graph_renumber(body);
    for (uint32_t i = 0; i < op->n_out; i++)
        bench_out(t, op->out[i], 0);
    return op;
}

static DtFunc *new_body(Bench *t, DtBuilder *ret_b)
{
    DtFunc *body = dt_graph_func(t->module, "body", DT_FUNC_BODY);
    *ret_b = (DtBuilder){.func = body};
    return body;
}

Test(fusion, carried_values_swap_shift_and_stay)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17");
    DtValue *in[4];
    for (int i = 0; i < 4; i++)
        in[i] = bench_random(t, type, i);
    for (int shape = 0; shape < 6; shape++) {
        DtBuilder b;
        DtFunc *body = new_body(t, &b);
        DtValue *number = dt_graph_arg(body, dt_type_scalar(DT_I32), "i"), *x[4];
        for (int i = 0; i < 4; i++)
            x[i] = dt_graph_arg(body, type, dt_arena_printf(t->arena, "x%d", i));
        DtValue *sum = bench_mod8(&b, dt_graph_binary(&b, DT_OP_ADD, x[0], x[1]));
        DtValue *late =
            bench_mod8(&b, dt_graph_binary(&b, DT_OP_ADD, sum, dt_graph_cast(&b, number, DT_F32)));
        DtValue *turned = dt_graph_reorder(&b, x[2], reordered(type, 1));
        DtValue *mixed = bench_mod8(
            &b, dt_graph_binary(&b, DT_OP_SUB, dt_graph_reorder(&b, turned, type), x[3]));
        /* two swaps; the carried values are also results of the entry */
        DtValue *results[6][5] = {{x[1], x[0], x[3], x[2], x[0]},
                                  /* a cyclic exchange of three values */
                                  {x[1], x[2], x[3], x[0], sum},
                                  {sum, x[0], late, mixed, x[0]},      /* a shift register */
                                  /* one value becomes the next value of all */
                                  {sum, sum, sum, sum, sum},
                                  /* one value stays, and is copied to another */
                                  {x[0], late, x[0], x[2], x[1]},
                                  {late, sum, mixed, x[2], mixed}};
        for (int i = 0; i < 5; i++)
            dt_graph_return(body, results[shape][i]);
        add_loop(t, body, shape & 1, 4, 0, 0, 1, in);
    }
    bench_check(t);
    bench_free(t);
}

/* A stacked result that is a carried value at the start of the iteration, a view of that, or an
 * invariant. */
Test(fusion, stacked_results_see_the_value_before)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17"), *stack = type_of(DT_F32, "layer=4 a=3 b=17");
    DtValue *in[3] = {bench_random(t, type, 1), bench_random(t, type, 2),
                      bench_random(t, stack, 3)};
    for (int reverse = 0; reverse < 2; reverse++) {
        DtBuilder b;
        DtFunc *body = new_body(t, &b);
        dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
        DtValue *x = dt_graph_arg(body, type, "x"), *fixed = dt_graph_arg(body, type, "fixed"),
                *w = dt_graph_arg(body, type, "w");
        DtValue *next = bench_mod8(
            &b, dt_graph_binary(&b, DT_OP_ADD, dt_graph_binary(&b, DT_OP_MAX, x, fixed), w));
        dt_graph_return(body, next);
        dt_graph_return(body, x);
        dt_graph_return(body, dt_graph_slice(&b, x, named("b"), 1, 2, 7));
        dt_graph_return(body, w);
        dt_graph_return(body, fixed);
        dt_graph_return(body, next);
        dt_graph_return(body, dt_graph_reorder(&b, next, reordered(type, 1)));
        add_loop(t, body, reverse, 1, 1, 1, 6, in);
    }
    bench_check(t);
    bench_free(t);
}

/* The inner loop's stacked result could use the memory of a carried value that the inner loop still
 * reads. */
Test(fusion, inner_loop_reads_what_its_result_replaces)
{
    Bench *t = bench_new();
    const DtType *row = type_of(DT_F32, "b=17"), *type = type_of(DT_F32, "inner=3 b=17");
    DtBuilder b, c;
    DtFunc *outer = new_body(t, &b), *inner = new_body(t, &c);
    dt_graph_arg(outer, dt_type_scalar(DT_I32), "i");
    DtValue *x = dt_graph_arg(outer, type, "x"), *h = dt_graph_arg(outer, row, "h");
    dt_graph_arg(inner, dt_type_scalar(DT_I32), "j");
    DtValue *carry = dt_graph_arg(inner, row, "carry"), *whole = dt_graph_arg(inner, type, "whole");
    DtValue *slice = dt_graph_arg(inner, row, "slice");
    const char *axes[] = {named("inner")};
    DtValue *all = dt_graph_reduce(&c, DT_REDUCE_SUM, whole, 1, axes);
    DtValue *next = bench_mod8(
        &c, dt_graph_binary(&c, DT_OP_ADD, dt_graph_binary(&c, DT_OP_ADD, all, carry), slice));
    dt_graph_return(inner, next);
    dt_graph_return(inner, next);
    DtLoop loop = {.label = dt_intern("g"),
                   .axis = axes[0],
                   .count = 3,
                   .n_carried = 1,
                   .n_invariant = 1,
                   .n_stacked = 1,
                   .n_stacked_out = 1};
    DtValue *operands[] = {h, x, x};
    DtOp *op = dt_graph_loop(&b, inner, loop, operands);
    dt_graph_renumber(inner);
    dt_graph_return(outer, op->out[1]);
    dt_graph_return(outer, op->out[0]);
    DtValue *in[] = {bench_random(t, type, 1), bench_random(t, row, 2)};
    add_loop(t, outer, false, 2, 0, 0, 0, in);
    bench_check(t);
    bench_free(t);
}

/* Random numbers inside two nested loops, also in reverse, depend on the iteration numbers of both
 * loops. */
Test(fusion, random_numbers_in_loops)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17");
    for (int reverse = 0; reverse < 2; reverse++) {
        DtBuilder b, c;
        DtFunc *outer = new_body(t, &b), *inner = new_body(t, &c);
        dt_graph_arg(outer, dt_type_scalar(DT_I32), "i");
        DtValue *x = dt_graph_arg(outer, type, "x");
        dt_graph_arg(inner, dt_type_scalar(DT_I32), "j");
        DtValue *y = dt_graph_arg(inner, type, "y");
        DtValue *noise = dt_graph_rng(&c, type, "dropout#0");
        dt_graph_return(inner, dt_graph_binary(&c, DT_OP_MAX, y, noise));
        dt_graph_return(inner, noise);
        DtLoop loop = {.label = dt_intern("g"),
                       .axis = named("inner"),
                       .count = 3,
                       .n_carried = 1,
                       .n_stacked_out = 1,
                       .reverse = !reverse};
        DtOp *op = dt_graph_loop(&b, inner, loop, &x);
        dt_graph_renumber(inner);
        dt_graph_return(outer, op->out[0]);
        dt_graph_return(outer, op->out[1]);
        DtValue *in[] = {bench_random(t, type, 1)};
        add_loop(t, outer, reverse, 1, 0, 0, 1, in);
    }
    bench_check(t);
    bench_free(t);
}

/* ---- memory of operands that die ---- */

Test(fusion, dying_operands_read_elsewhere)
{
    Bench *t = bench_new();
    const DtType *square = type_of(DT_F32, "a=17 b=17");
    const DtRelabel turn[2] = {{1, 1, {named("a")}, {named("b")}, {17}},
                               {1, 1, {named("b")}, {named("a")}, {17}}};
    DtValue *in = bench_random(t, type_of(DT_F32, "a=17 k=17"), 1),
            *in2 = bench_random(t, type_of(DT_F32, "k=17 b=17"), 2);
    const char *b = named("b");
    for (int k = 0; k < 6; k++) {
        DtValue *x =
            bench_mod8(&t->b, dt_graph_dot(&t->b, in, in2, AXES(named("k")), DT_F32, square));
        DtValue *turned = dt_graph_relabel(&t->b, x, 2, turn, NULL), *y;
        switch (k) {
        case 0:
            y = dt_graph_binary(&t->b, DT_OP_SUB, x, dt_graph_reorder(&t->b, turned, square));
            break;
        case 1:
            y = dt_graph_pad(&t->b, dt_graph_slice(&t->b, x, b, 1, 1, 16), b, 0, 1, 1, 0);
            break;
        case 2:
            y = dt_graph_binary(&t->b, DT_OP_SUB, x,
                                dt_graph_reduce(&t->b, DT_REDUCE_MAX, x, AXES(b)));
            break;
        case 3: y = dt_graph_scan(&t->b, x, AXES(b), true); break;
        case 4: {
            DtValue *index = dt_graph_cast(&t->b, dt_graph_unary(&t->b, DT_OP_ABS, x), DT_I32);
            y = dt_graph_binary(
                &t->b, DT_OP_ADD,
                dt_graph_gather(&t->b,
                                dt_graph_relabel(&t->b, x, 1,
                                                 (DtRelabel[]){{1, 1, {b}, {named("v")}, {17}}},
                                                 NULL),
                                AXES(named("v")), &index),
                x);
            break;
        }
        default: y = dt_graph_dot(&t->b, x, turned, AXES(b), DT_F32, NULL);
        }
        bench_out(t, dt_graph_reorder(&t->b, bench_mod8(&t->b, y), reordered(y->type, 1)), 0);
    }
    bench_check(t);
    bench_free(t);
}

/* Several axes have the same name and different extents: sums of squares of parts are added up. */
Test(fusion, one_name_several_extents)
{
    Bench *t = bench_new();
    DtValue *total = NULL;
    for (int k = 0; k < 4; k++) {
        DtValue *x = bench_random(t, type_of(DT_F32, k & 1 ? "a=5 b=17" : "b=17 a=5"), k);
        DtValue *part = dt_graph_slice(&t->b, x, named("a"), 0, 1, k + 1);
        DtValue *twice = dt_graph_binary(&t->b, DT_OP_ADD, part, part);
        DtValue *sum = bench_mod8(&t->b, dt_graph_reduce(&t->b, DT_REDUCE_SUM, twice,
                                                   AXES(named("a"), named("b"))));
        total = total ? dt_graph_binary(&t->b, DT_OP_ADD, total, sum) : sum;
    }
    bench_out(t, total, 0);
    bench_check(t);
    bench_free(t);
}

/* ---- calls that stay ---- */

/* A function is called twice. Its results include an argument, and one value twice. */
Test(fusion, calls_in_place)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17");
    DtFunc *func = dt_graph_func(t->module, "twice", DT_FUNC_FN);
    DtBuilder b = {.func = func};
    DtValue *x = dt_graph_arg(func, type, "x"), *y = dt_graph_arg(func, type, "y");
    DtValue *sum = bench_mod8(&b, dt_graph_binary(&b, DT_OP_ADD, x, y));
    DtValue *most = dt_graph_reduce(&b, DT_REDUCE_MAX, sum, AXES(named("b")));
    dt_graph_return(func, dt_graph_binary(&b, DT_OP_SUB, sum, most));
    dt_graph_return(func, sum);
    dt_graph_return(func, x);
    dt_graph_return(func, sum);
    dt_graph_return(func, dt_graph_reorder(&b, x, reordered(type, 1)));
    dt_graph_renumber(func);
    DtValue *in[2] = {bench_random(t, type, 1), bench_random(t, type, 2)};
    DtOp *first = dt_graph_call(&t->b, func, "one", in),
         *second = dt_graph_call(&t->b, func, "two", (DtValue *[]){first->out[0], first->out[2]});
    for (uint32_t i = 0; i < 5; i++) {
        bench_out(t, first->out[i], 0);
        bench_out(t, second->out[i], 0);
    }
    bench_check(t);
    bench_free(t);
}

/* ---- live memory ---- */

/* The windows that one gradient of a convolution reads, and the gradient with respect to windows
 * that the other gradient computes, are never both in memory. */
Test(fusion, gradients_of_a_convolution_share_memory)
{
    Bench *t = bench_new();
    const DtRange range = {.lo = 4, .hi = 4, .step = 1, .n = 9};
    DtValue *x = bench_random(t, type_of(DT_F32, "b=2 a=200 c=4"), 1),
            *dy = bench_random(t, type_of(DT_F32, "b=2 a=200 o=4"), 2);
    DtValue *w = bench_random(t, type_of(DT_F32, "k=9 c=4 o=4"), 3);
    const char *summed[] = {named("b"), named("a")};
    DtValue *back = dt_graph_dot(&t->b, dy, w, AXES(named("o")), DT_F32, NULL);
    DtValue *windows = dt_graph_window(&t->b, x, named("a"), named("k"), range, 0);
    bench_out(t, dt_graph_dot(&t->b, windows, dy, 2, summed, DT_F32, NULL), 0);
    bench_out(t, dt_graph_fold(&t->b, back, named("a"), named("k"), range, 200), 0);
    bench_check(t);
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    const DtPlanBuilder *plan = bench_plan(t, &options);
    const int64_t bytes = 2 * 200 * 4 * 9 * 4;
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->arenas.n; i++)
        most = plan->arenas.at[i].bytes > most ? plan->arenas.at[i].bytes : most;
    cr_expect(most >= bytes && most < 3 * bytes / 2, "%lld bytes, windows have %lld",
              (long long)most, (long long)bytes);
    bench_free(t);
}
