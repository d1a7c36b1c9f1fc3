/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion, reuse of memory and loops: random graphs and the known hazards, fused and unfused, against
 * the interpreter. All values are kept to quarters below 8 by `mod 8` after whatever could grow, so
 * that every sum is exact in any order and equality is to the bit. */
#include "bench.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AXES(...) DT_COUNT(((const char *[]){__VA_ARGS__})), ((const char *[]){__VA_ARGS__})

static const char *name(const char *axis) { return axis_of(axis, 1).name; }

/* ---- random graphs ---- */

enum { MAX_POOL = 80 };

typedef struct Pool {
    Bench *t;
    DtBuilder b;
    uint64_t random;
    uint32_t n, loops, depth;
    DtValue *at[MAX_POOL];
} Pool;

static const struct { const char *name; int64_t extent; } world[] = {{"a", 5}, {"b", 17}, {"c", 130}};

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

/* An axis of value that all its users know, or NULL. */
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
    if (kinds[k] == DT_OP_MUL) /* back to quarters */
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

/* Softmax without its functions: a row statistic that combines with the row again, twice. */
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
    case 0: /* every second element, and zeros between them again */
        x = dt_graph_slice(&p->b, x, axis, 1, 2, half);
        if (dice(p, 2))
            x = dt_graph_unary(&p->b, DT_OP_NEG, x);
        return dt_graph_pad(&p->b, x, axis, 1, n - 2 * half, 2, 2.5);
    case 1: return dt_graph_reorder(&p->b, x, reordered(x->type, (int)dice(p, 6)));
    case 2: { /* halves exchanged */
        DtValue *halves[2] = {dt_graph_slice(&p->b, x, axis, half, 1, n - half),
                              dt_graph_slice(&p->b, x, axis, 0, 1, half)};
        return dt_graph_concat(&p->b, axis, 2, halves);
    }
    case 3: { /* moving sum */
        DtRange range = {1, 1, 1, 3};
        const char *w = name("w");
        DtValue *window = dt_graph_window(&p->b, x, axis, w, range, 0.25);
        if (dice(p, 2))
            return bounded(p, dt_graph_fold(&p->b, window, axis, w, range, n));
        return bounded(p, dt_graph_reduce(&p->b, DT_REDUCE_SUM, window, 1, &w));
    }
    default: return bounded(p, dt_graph_scan(&p->b, x, 1, &axis, dice(p, 2)));
    }
}

/* Reads x along one axis at an index computed from another value, under a name of the world. */
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
    for (uint32_t i = 0; i < y->type->rank; i++) /* scatter wants an index with axes of x only */
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

/* A value of the pool with just the axes of type or fewer. */
static DtValue *pick_within(Pool *p, const DtType *type)
{
    for (int tries = 0; tries < 20; tries++) {
        DtValue *value = pick(p);
        if (is_part(value->type, type))
            return value;
    }
    return dt_graph_constant(&p->b, DT_F32, 1.25);
}

/* A loop over a random body: carried values that change, swap or stay, invariants, slices of a
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
        DtValue *arg = dt_graph_arg(body, operands[n]->type, i < loop.n_carried ? "carried" : "invariant");
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
    DtValue *parts[2] = {dt_graph_expand(&p->b, base, dt_type_plain(DT_F32, slice->rank + 1u, axes)), numbers};
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
            keep(&p, bounded(&p, input_of(&p, i == 3 ? 7 : 1 + dice(&p, 7), (int)dice(&p, 6), (int)i)));
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

/* DT_FUZZ=first,last runs those seeds instead. */
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
static DtOp *add_loop(Bench *t, DtFunc *body, bool reverse, uint32_t n_carried, uint32_t n_invariant,
                      uint32_t n_stacked, uint32_t n_stacked_out, DtValue *const *in)
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

static DtValue *mod8(DtBuilder *b, DtValue *x)
{
    return dt_graph_binary(b, DT_OP_MOD, x, dt_graph_constant(b, DT_F32, 8));
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
        DtValue *sum = mod8(&b, dt_graph_binary(&b, DT_OP_ADD, x[0], x[1]));
        DtValue *late = mod8(&b, dt_graph_binary(&b, DT_OP_ADD, sum, dt_graph_cast(&b, number, DT_F32)));
        DtValue *turned = dt_graph_reorder(&b, x[2], reordered(type, 1));
        DtValue *mixed = mod8(&b, dt_graph_binary(&b, DT_OP_SUB, dt_graph_reorder(&b, turned, type), x[3]));
        DtValue *results[6][5] = {{x[1], x[0], x[3], x[2], x[0]},      /* two swaps; what came in is kept */
                                  {x[1], x[2], x[3], x[0], sum},       /* a ring */
                                  {sum, x[0], late, mixed, x[0]},      /* a shift register */
                                  {sum, sum, sum, sum, sum},           /* one value to all */
                                  {x[0], late, x[0], x[2], x[1]},      /* one stays and is copied */
                                  {late, sum, mixed, x[2], mixed}};
        for (int i = 0; i < 5; i++)
            dt_graph_return(body, results[shape][i]);
        add_loop(t, body, shape & 1, 4, 0, 0, 1, in);
    }
    bench_check(t);
    bench_free(t);
}

/* A stacked result that is a carried value as it came in, its view, or an invariant. */
Test(fusion, stacked_results_see_the_value_before)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17"), *stack = type_of(DT_F32, "layer=4 a=3 b=17");
    DtValue *in[3] = {bench_random(t, type, 1), bench_random(t, type, 2), bench_random(t, stack, 3)};
    for (int reverse = 0; reverse < 2; reverse++) {
        DtBuilder b;
        DtFunc *body = new_body(t, &b);
        dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
        DtValue *x = dt_graph_arg(body, type, "x"), *fixed = dt_graph_arg(body, type, "fixed"),
                *w = dt_graph_arg(body, type, "w");
        DtValue *next = mod8(&b, dt_graph_binary(&b, DT_OP_ADD, dt_graph_binary(&b, DT_OP_MAX, x, fixed), w));
        dt_graph_return(body, next);
        dt_graph_return(body, x);
        dt_graph_return(body, dt_graph_slice(&b, x, name("b"), 1, 2, 7));
        dt_graph_return(body, w);
        dt_graph_return(body, fixed);
        dt_graph_return(body, next);
        dt_graph_return(body, dt_graph_reorder(&b, next, reordered(type, 1)));
        add_loop(t, body, reverse, 1, 1, 1, 6, in);
    }
    bench_check(t);
    bench_free(t);
}

/* The inner loop's stacked result wants the memory of a carried value that the inner loop reads. */
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
    const char *axes[] = {name("inner")};
    DtValue *all = dt_graph_reduce(&c, DT_REDUCE_SUM, whole, 1, axes);
    DtValue *next = mod8(&c, dt_graph_binary(&c, DT_OP_ADD, dt_graph_binary(&c, DT_OP_ADD, all, carry), slice));
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

/* Random numbers under two loops, in reverse too, see the iteration number of both. */
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
                       .axis = name("inner"),
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
    const DtRelabel turn[2] = {{1, 1, {name("a")}, {name("b")}, {17}}, {1, 1, {name("b")}, {name("a")}, {17}}};
    DtValue *in = bench_random(t, type_of(DT_F32, "a=17 k=17"), 1),
            *in2 = bench_random(t, type_of(DT_F32, "k=17 b=17"), 2);
    const char *b = name("b");
    for (int k = 0; k < 6; k++) {
        DtValue *x = mod8(&t->b, dt_graph_dot(&t->b, in, in2, AXES(name("k")), DT_F32, square));
        DtValue *turned = dt_graph_relabel(&t->b, x, 2, turn, NULL), *y;
        switch (k) {
        case 0: y = dt_graph_binary(&t->b, DT_OP_SUB, x, dt_graph_reorder(&t->b, turned, square)); break;
        case 1: y = dt_graph_pad(&t->b, dt_graph_slice(&t->b, x, b, 1, 1, 16), b, 0, 1, 1, 0); break;
        case 2: y = dt_graph_binary(&t->b, DT_OP_SUB, x, dt_graph_reduce(&t->b, DT_REDUCE_MAX, x, AXES(b))); break;
        case 3: y = dt_graph_scan(&t->b, x, AXES(b), true); break;
        case 4: {
            DtValue *index = dt_graph_cast(&t->b, dt_graph_unary(&t->b, DT_OP_ABS, x), DT_I32);
            y = dt_graph_binary(
                &t->b, DT_OP_ADD,
                dt_graph_gather(&t->b,
                                dt_graph_relabel(&t->b, x, 1, (DtRelabel[]){{1, 1, {b}, {name("v")}, {17}}}, NULL),
                                AXES(name("v")), &index),
                x);
            break;
        }
        default: y = dt_graph_dot(&t->b, x, turned, AXES(b), DT_F32, NULL);
        }
        bench_out(t, dt_graph_reorder(&t->b, mod8(&t->b, y), reordered(y->type, 1)), 0);
    }
    bench_check(t);
    bench_free(t);
}

/* Axes of one name and several extents: sums of squares of parts, added up. */
Test(fusion, one_name_several_extents)
{
    Bench *t = bench_new();
    DtValue *total = NULL;
    for (int k = 0; k < 4; k++) {
        DtValue *x = bench_random(t, type_of(DT_F32, k & 1 ? "a=5 b=17" : "b=17 a=5"), k);
        DtValue *part = dt_graph_slice(&t->b, x, name("a"), 0, 1, k + 1);
        DtValue *sum = mod8(&t->b, dt_graph_reduce(&t->b, DT_REDUCE_SUM, dt_graph_binary(&t->b, DT_OP_ADD, part, part),
                                                   AXES(name("a"), name("b"))));
        total = total ? dt_graph_binary(&t->b, DT_OP_ADD, total, sum) : sum;
    }
    bench_out(t, total, 0);
    bench_check(t);
    bench_free(t);
}

/* ---- calls that stay ---- */

/* A function called twice, whose results include an argument and one value twice. */
Test(fusion, calls_in_place)
{
    Bench *t = bench_new();
    const DtType *type = type_of(DT_F32, "a=3 b=17");
    DtFunc *func = dt_graph_func(t->module, "twice", DT_FUNC_FN);
    DtBuilder b = {.func = func};
    DtValue *x = dt_graph_arg(func, type, "x"), *y = dt_graph_arg(func, type, "y");
    DtValue *sum = mod8(&b, dt_graph_binary(&b, DT_OP_ADD, x, y));
    DtValue *most = dt_graph_reduce(&b, DT_REDUCE_MAX, sum, AXES(name("b")));
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

/* ---- what lies in memory at a time ---- */

/* The windows that one gradient of a convolution reads, and the gradient of windows that the other one makes: never
 * both. */
Test(fusion, gradients_of_a_convolution_share_memory)
{
    Bench *t = bench_new();
    const DtRange range = {.lo = 4, .hi = 4, .step = 1, .n = 9};
    DtValue *x = bench_random(t, type_of(DT_F32, "b=2 a=200 c=4"), 1),
            *dy = bench_random(t, type_of(DT_F32, "b=2 a=200 o=4"), 2);
    DtValue *w = bench_random(t, type_of(DT_F32, "k=9 c=4 o=4"), 3);
    const char *summed[] = {name("b"), name("a")};
    DtValue *back = dt_graph_dot(&t->b, dy, w, AXES(name("o")), DT_F32, NULL);
    DtValue *windows = dt_graph_window(&t->b, x, name("a"), name("k"), range, 0);
    bench_out(t, dt_graph_dot(&t->b, windows, dy, 2, summed, DT_F32, NULL), 0);
    bench_out(t, dt_graph_fold(&t->b, back, name("a"), name("k"), range, 200), 0);
    bench_check(t);
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    const DtPlanBuilder *plan = bench_plan(t, &options);
    const int64_t bytes = 2 * 200 * 4 * 9 * 4;
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->arenas.n; i++)
        most = plan->arenas.at[i].bytes > most ? plan->arenas.at[i].bytes : most;
    cr_expect(most >= bytes && most < 3 * bytes / 2, "%lld bytes, windows have %lld", (long long)most,
              (long long)bytes);
    bench_free(t);
}

/* ---- what is joined ---- */

static uint32_t kernels_named(const DtPlanBuilder *plan, const char *kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->kernels.n; i++)
        n += strcmp(plan->strings.at + plan->kernels.at[i].name, kind) == 0;
    return n;
}

/* Halves that one kernel makes of each other, as those of a rotary embedding, merged in another order than they lie in;
 * a product beside a kernel's result, along the outer, a middle and the last axis: all written where they belong. */
Test(fusion, parts_are_written_in_place)
{
    Bench *t = bench_new();
    DtValue *a = bench_random(t, type_of(DT_F32, "s=5 h=16"), 1), *b = bench_random(t, type_of(DT_F32, "s=5 h=16"), 2);
    const DtRelabel one = {.n_to = 1, .to = {name("two")}, .to_extent = {1}};
    const DtRelabel merge = {.n_from = 2, .n_to = 1, .from = {name("two"), name("h")}, .to = {name("head")},
                             .to_extent = {32}};
    DtValue *halves[2] = {mod8(&t->b, dt_graph_binary(&t->b, DT_OP_SUB, a, b)),
                          mod8(&t->b, dt_graph_binary(&t->b, DT_OP_ADD, a, b))};
    for (uint32_t i = 0; i < 2; i++)
        halves[i] = dt_graph_relabel(&t->b, halves[i], 1, &one, type_of(DT_F32, "s=5 h=16 two=1"));
    DtValue *pair = dt_graph_concat(&t->b, name("two"), 2, halves);
    bench_out(t, dt_graph_relabel(&t->b, pair, 1, &merge, type_of(DT_F32, "s=5 head=32")), 0);
    static const char *const axes[] = {"s", "h", "w"};
    for (uint32_t i = 0; i < DT_COUNT(axes); i++) {
        DtValue *x = bench_random(t, type_of(DT_F32, "s=5 h=16 e=4"), 3 + (int)i),
                *w = bench_random(t, type_of(DT_F32, "e=4 w=8"), 6 + (int)i),
                *y = bench_random(t, type_of(DT_F32, "s=5 h=16 w=8"), 9 + (int)i);
        DtValue *parts[2] = {dt_graph_dot(&t->b, x, w, AXES(name("e")), DT_F32, NULL),
                             mod8(&t->b, dt_graph_binary(&t->b, DT_OP_MUL, y, y))};
        DtValue *both = dt_graph_concat(&t->b, name(axes[i]), 2, parts);
        DtValue *v = bench_random(t, type_of(DT_F32, "w=8 o=3"), 12);
        bench_out(t, i < 2 ? dt_graph_dot(&t->b, both, v, AXES(name("w")), DT_F32, NULL) : both, 0);
    }
    bench_check(t);
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    const DtPlanBuilder *plan = bench_plan(t, &options);
    static const char *const copies[] = {"concat", "expand", "relabel"};
    for (uint32_t i = 0; i < DT_COUNT(copies); i++)
        cr_expect_eq(kernels_named(plan, copies[i]), 0, "a kernel `%s`", copies[i]);
    bench_free(t);
}

/* Inputs, what is a result too, and what is joined twice. */
Test(fusion, parts_that_others_read_are_copied)
{
    Bench *t = bench_new();
    DtValue *x = bench_random(t, type_of(DT_F32, "s=5 h=16"), 1);
    DtValue *y = mod8(&t->b, dt_graph_binary(&t->b, DT_OP_ADD, x, x));
    DtValue *z = mod8(&t->b, dt_graph_binary(&t->b, DT_OP_MUL, x, x));
    DtValue *parts[4] = {y, x, z, y};
    bench_out(t, dt_graph_concat(&t->b, name("h"), 4, parts), 0);
    bench_out(t, y, 0);
    bench_out(t, dt_graph_concat(&t->b, name("s"), 2, (DtValue *[]){x, x}), 0);
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

/* Logits, and two products of what a kernel makes of them. dense: they are a result, and what the kernel makes is one
 * long row to a third product. */
static void check_rows(DtDtype dtype, const char *vocab, uint32_t n_aligned, bool dense)
{
    Bench *t = bench_new();
    char type[32];
    snprintf(type, sizeof type, "e=8 v=%s", vocab);
    DtValue *x = bench_random(t, type_of(dtype, "b=2 s=5 e=8"), 1), *w = bench_random(t, type_of(dtype, type), 2);
    DtValue *logits = dt_graph_dot(&t->b, x, w, AXES(name("e")), DT_F32, NULL);
    DtValue *most = dt_graph_reduce(&t->b, DT_REDUCE_MAX, logits, AXES(name("v")));
    DtValue *z = dt_graph_cast(&t->b, mod8(&t->b, dt_graph_binary(&t->b, DT_OP_SUB, logits, most)), dtype);
    bench_out(t, dt_graph_dot(&t->b, z, w, AXES(name("v")), DT_F32, NULL), 0);
    bench_out(t, dt_graph_dot(&t->b, x, z, AXES(name("b"), name("s")), DT_F32, NULL), 0);
    snprintf(type, sizeof type, "b=2 s=5 v=%s", vocab);
    if (dense) {
        bench_out(t, logits, 0);
        bench_out(t, dt_graph_dot(&t->b, z, bench_random(t, type_of(dtype, type), 3),
                                  AXES(name("b"), name("s"), name("v")), DT_F32, NULL), 0);
    }
    bench_check(t);
    const DtCodegenOptions options = {.target = "cpu", .no_kernels = true};
    const int64_t elements = 16 / (int64_t)dt_dtype_size(dtype), n = atoi(vocab);
    cr_expect_eq(count_strides(bench_plan(t, &options), (n + elements - 1) / elements * elements), n_aligned);
    bench_free(t);
}

/* 1044 bytes of a token's logits take 1056, where products and kernels only touch them. */
Test(fusion, rows_of_products_are_aligned)
{
    check_rows(DT_F32, "261", 3, false);
    check_rows(DT_BF16, "517", 3, false);
    check_rows(DT_F32, "261", 0, true);
    check_rows(DT_F32, "255", 0, false); /* short */
}

/* ---- sums over rows ---- */

static uint32_t count_by_rows(const Bench *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->func->ops.n; i++)
        n += t->func->ops.at[i]->kind == DT_OP_FUSED && t->func->ops.at[i]->n_axes > 0;
    return n;
}

/* The gradients of a norm: that of its operand needs sums along rows, those of gain and shift are sums over them. One
 * kernel makes all three; widths: one lane and a rest, less than a lane; two inner axes. */
Test(fusion, gradients_of_a_norm_share_a_kernel)
{
    static const char *const shapes[] = {"a=5 b=3 c=130", "a=40 c=17", "b=2 a=33 c=64"};
    for (uint32_t s = 0; s < DT_COUNT(shapes); s++) {
        Bench *t = bench_new();
        const DtType *type = type_of(DT_F32, shapes[s]);
        const char *c = name("c"), *rows[2];
        uint32_t n_rows = 0;
        for (uint32_t i = 0; i + 1 < type->rank; i++)
            rows[n_rows++] = type->axes[i].name;
        DtValue *x = bench_random(t, type, 1), *dy = bench_random(t, type, 2);
        const DtAxis *last = &type->axes[type->rank - 1];
        DtValue *gain = bench_random(t, dt_type_plain(DT_F32, 1, last), 3);
        DtValue *squares = dt_graph_reduce(&t->b, DT_REDUCE_SUM, dt_graph_binary(&t->b, DT_OP_MUL, x, x), 1, &c);
        DtValue *one = dt_graph_constant(&t->b, DT_F32, 1);
        DtValue *scale = dt_graph_unary(&t->b, DT_OP_RSQRT, dt_graph_binary(&t->b, DT_OP_ADD, squares, one));
        DtValue *scaled = dt_graph_binary(&t->b, DT_OP_MUL, dt_graph_binary(&t->b, DT_OP_MUL, dy, gain), scale);
        DtValue *dot = dt_graph_reduce(&t->b, DT_REDUCE_SUM, dt_graph_binary(&t->b, DT_OP_MUL, scaled, x), 1, &c);
        DtValue *dx = dt_graph_binary(&t->b, DT_OP_SUB, scaled, dt_graph_binary(&t->b, DT_OP_MUL, x, dot));
        DtValue *by_gain = dt_graph_binary(&t->b, DT_OP_MUL, dy, dt_graph_binary(&t->b, DT_OP_MUL, x, scale));
        DtValue *dgain = dt_graph_reduce(&t->b, DT_REDUCE_SUM, by_gain, n_rows, rows);
        DtValue *most = dt_graph_reduce(&t->b, DT_REDUCE_MAX, dx, n_rows, rows);
        bench_out(t, dx, 512); /* a sum of 130 products, twice, in units of 2^-24 */
        bench_out(t, dt_graph_cast(&t->b, dgain, DT_BF16), 0x1p16);
        bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, most, gain), 512);
        bench_check(t);
        cr_expect_eq(count_by_rows(t), 1, "%s: %u kernels add up rows", shapes[s], count_by_rows(t));
        cr_expect_eq(t->func->ops.n, 4, "%s: %u ops are left of three sources and a kernel", shapes[s], t->func->ops.n);
        bench_free(t);
    }
}

/* What a row reads must not wait for a sum over all rows. */
Test(fusion, rows_do_not_read_sums_over_rows)
{
    Bench *t = bench_new();
    const char *a = name("a");
    DtValue *x = bench_random(t, type_of(DT_F32, "a=50 c=70"), 4);
    DtValue *u = dt_graph_unary(&t->b, DT_OP_ABS, x);
    DtValue *mean = dt_graph_reduce(&t->b, DT_REDUCE_SUM, u, 1, &a);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, u, mean), 64);
    bench_out(t, u, 0);
    bench_check(t);
    cr_expect_eq(count_by_rows(t), 1);
    bench_free(t);
}

/* A sum over rows reads what it adds up again, in the phase of that: nothing may lie over it by then. */
Test(fusion, late_sums_find_what_they_read)
{
    Bench *t = bench_new();
    const char *a = name("a"), *c = name("c"), *k = name("k");
    DtValue *p = bench_random(t, type_of(DT_F32, "a=40 k=4"), 3), *q = bench_random(t, type_of(DT_F32, "k=4 c=64"), 5);
    DtValue *x = dt_graph_dot(&t->b, p, q, 1, &k, DT_F32, NULL), *r = bench_random(t, type_of(DT_F32, "a=40 c=64"), 7);
    DtValue *y = dt_graph_binary(&t->b, DT_OP_ADD, x, r);
    DtValue *s = dt_graph_reduce(&t->b, DT_REDUCE_MAX, y, 1, &c);
    DtValue *h = dt_graph_binary(&t->b, DT_OP_SUB, y, s);
    bench_out(t, dt_graph_dot(&t->b, y, bench_random(t, type_of(DT_F32, "c=64 d=3"), 9), 1, &c, DT_F32, NULL), 0);
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, h, 1, &a), 64);
    bench_check(t);
    bench_free(t);
}

/* A kernel that goes through all points at once is not cut into rows of three. */
Test(fusion, short_rows_are_not_added_up)
{
    Bench *t = bench_new();
    const char *a = name("a");
    DtValue *u = dt_graph_unary(&t->b, DT_OP_ABS, bench_random(t, type_of(DT_F32, "a=50 c=3"), 7));
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_SUM, u, 1, &a), 64);
    bench_out(t, u, 0);
    bench_check(t);
    cr_expect_eq(count_by_rows(t), 0);
    bench_free(t);
}

/* Both gradients of f(gate) * up: nothing but what they read is common, which is read once. What only one of two such
 * kernels waits for would lie in memory longer, and they stay apart: p is gone when q is made. */
Test(fusion, readers_of_the_same_share_a_kernel)
{
    Bench *t = bench_new();
    const char *k = name("k");
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
    const char *c = name("c");
    bench_out(t, dt_graph_reduce(&t->b, DT_REDUCE_MAX, dt_graph_binary(&t->b, DT_OP_MUL, p, x), 1, &c), 0);
    DtValue *late = dt_graph_unary(&t->b, DT_OP_NEG, v);
    DtValue *q = dt_graph_dot(&t->b, w, late, 1, &k, DT_F32, NULL);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_ADD, q, x), 0);
    bench_check(t);
    cr_expect_eq(t->func->ops.n, 8, "three sources, two products, three kernels: %u", t->func->ops.n);
    bench_free(t);
}

/* scatter_add of one element a place is a choice: indices outside count nowhere. */
Test(fusion, one_hot_joins_its_readers)
{
    static const double at[] = {3, 0, 69, 70, -1, 12, 69};
    Bench *t = bench_new();
    DtAxis c = axis_of("c", 70), d = axis_of("d", 3);
    DtValue *x = bench_random(t, type_of(DT_F32, "a=7 c=70"), 5), *v = bench_random(t, type_of(DT_F32, "a=7"), 6);
    DtValue *index = bench_values(t, type_of(DT_I32, "a=7"), 7, at);
    DtValue *two[2] = {index, index};
    DtValue *hot = dt_graph_scatter_add(&t->b, v, 1, &c, &index, 0, NULL, NULL);
    bench_out(t, dt_graph_binary(&t->b, DT_OP_SUB, x, hot), 0);
    bench_out(t, dt_graph_scatter_add(&t->b, v, 2, (DtAxis[]){c, d}, two, 0, NULL, NULL), 0);
    bench_check(t);
    cr_expect_eq(t->func->ops.n, 5, "three sources, a kernel, and the one that stays alone: %u", t->func->ops.n);
    bench_free(t);
}
