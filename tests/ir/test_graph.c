/* SPDX-License-Identifier: Apache-2.0 */
/* The builder: default and requested axis orders of results, spans and paths, copies of ops,
 * removal of unused ops, and what it refuses. */
#include "sample.h"

#include "base/intern.h"
#include "ir/irtext.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__})

typedef struct Fixture {
    DtArena *arena;
    DtModule *module;
    DtBuilder b;
    DtValue *x, *y, *v, *i; /* f32[a=3, b=4], f32[b=4, c=5], f32[b=4], i32[k=2] */
} Fixture;

static Fixture start(void)
{
    Fixture f = {.arena = dt_arena_new()};
    f.module = dt_graph_module(f.arena, NULL);
    f.b.func = dt_graph_func(f.module, "f", DT_FUNC_FN);
    DtAxis a = sample_axis("a", 3), b = sample_axis("b", 4), c = sample_axis("c", 5),
           k = sample_axis("k", 2);
    f.x = dt_graph_arg(f.b.func, sample_type(DT_F32, 2, (DtAxis[]){a, b}), "x");
    f.y = dt_graph_arg(f.b.func, sample_type(DT_F32, 2, (DtAxis[]){b, c}), "y");
    f.v = dt_graph_arg(f.b.func, sample_type(DT_F32, 1, &b), "v");
    f.i = dt_graph_arg(f.b.func, sample_type(DT_I32, 1, &k), "i");
    return f;
}

/* Ends a test; also checks that the function is valid. */
static void stop(Fixture *f)
{
    DtText problems = {0};
    cr_expect(dt_verify_module(f->module, &problems), "%s", problems.at);
    dt_text_free(&problems);
    dt_arena_free(f->arena);
}

static void expect(const DtValue *value, const char *wanted)
{
    DtText text = {0};
    dt_type_print_extents(value->type, NULL, &text);
    cr_expect_str_eq(text.at, wanted);
    dt_text_free(&text);
}

Test(graph, default_orders)
{
    Fixture f = start();
    DtBuilder *b = &f.b;
    expect(dt_graph_binary(b, DT_OP_ADD, f.v, f.x), "f32[a=3, b=4]");
    /* the order that both operands have */
    expect(dt_graph_binary(b, DT_OP_ADD, f.y, f.x), "f32[a=3, b=4, c=5]");
    expect(dt_graph_binary(b, DT_OP_LT, f.x, f.v), "bool[a=3, b=4]");
    expect(dt_graph_cast(b, f.x, DT_I32), "i32[a=3, b=4]");
    expect(dt_graph_dot(b, f.x, f.y, 1, NAMES("b"), DT_F32, NULL), "f32[a=3, c=5]");
    expect(dt_graph_dot(b, f.y, f.x, 0, NULL, DT_F32, NULL), "f32[b=4, c=5, a=3]");
    expect(dt_graph_reduce(b, DT_REDUCE_SUM, f.x, 1, NAMES("a")), "f32[b=4]");
    expect(dt_graph_scan(b, f.x, 1, NAMES("b"), false), "f32[a=3, b=4]");
    expect(dt_graph_gather(b, f.x, 1, NAMES("a"), &f.i), "f32[k=2, b=4]");
    expect(dt_graph_gather(b, f.y, 1, NAMES("c"), &f.i), "f32[b=4, k=2]");
    expect(dt_graph_gather(b, f.x, 2, NAMES("a", "b"), (DtValue *[]){f.i, f.i}), "f32[k=2]");
    DtAxis e = sample_axis("e", 9), g = sample_axis("g", 7);
    DtValue *at = dt_graph_cast(b, f.v, DT_I32);
    expect(dt_graph_scatter_add(b, f.x, 1, &e, &at, 1, NAMES("b"), NULL), "f32[a=3, e=9]");
    expect(dt_graph_scatter_add(b, f.y, 2, (DtAxis[]){e, g}, (DtValue *[]){at, at}, 1, NAMES("b"),
                                NULL),
           "f32[e=9, g=7, c=5]");
    expect(dt_graph_scatter_add(b, f.v, 1, &e, &at, 0, NULL, NULL), "f32[b=4, e=9]");
    expect(dt_graph_window(b, f.x, "a", "w", (DtRange){1, 1, 1, 3}, 0), "f32[a=3, b=4, w=3]");
    expect(dt_graph_concat(b, "a", 2, (DtValue *[]){f.x, f.x}), "f32[a=6, b=4]");
    expect(dt_graph_pad(b, f.x, "a", 1, 0, 2, 0), "f32[a=6, b=4]");
    expect(dt_graph_slice(b, f.x, "b", 1, 1, 3), "f32[a=3, b=3]");
    DtValue *values, *indices;
    dt_graph_topk(b, f.x, "a", sample_axis("t", 2), &values, &indices);
    expect(values, "f32[t=2, b=4]");
    expect(indices, "i32[t=2, b=4]");
    DtRelabel split = {1, 2, {"a"}, {"g", "p"}, {3, 1}}, fresh = {0, 1, {0}, {"n"}, {1}};
    expect(dt_graph_relabel(b, f.x, 2, (DtRelabel[]){split, fresh}, NULL),
           "f32[g=3, p=1, b=4, n=1]");
    DtRelabel merge = {2, 1, {"b", "a"}, {"m"}, {0}};
    expect(dt_graph_relabel(b, f.x, 1, &merge, NULL), "f32[m=12]");
    stop(&f);
}

Test(graph, wishes)
{
    Fixture f = start();
    DtBuilder *b = &f.b;
    DtAxis a = sample_axis("a", 3), bb = sample_axis("b", 4), c = sample_axis("c", 5);
    const DtType *ba = sample_type(DT_F32, 2, (DtAxis[]){bb, a}),
                 *ca = sample_type(DT_F32, 2, (DtAxis[]){c, a});
    expect(dt_graph_map(b, DT_OP_ADD, 2, (DtValue *[]){f.x, f.v}, ba), "f32[b=4, a=3]");
    expect(dt_graph_dot(b, f.x, f.y, 1, NAMES("b"), DT_F32, ca), "f32[c=5, a=3]");
    expect(dt_graph_relabel(b, f.x, 0, NULL, ba), "f32[b=4, a=3]");
    cr_expect_eq(dt_graph_reorder(b, f.x, f.x->type), f.x);
    expect(dt_graph_reorder(b, f.x, ba), "f32[b=4, a=3]");
    cr_expect_eq(dt_graph_expand(b, f.x, f.x->type), f.x);
    expect(dt_graph_expand(b, f.v, ba), "f32[b=4, a=3]");
    cr_expect_eq(dt_graph_cast(b, f.x, DT_F32), f.x);
    stop(&f);
}

Test(graph, dot_and_sum_dtypes)
{
    Fixture f = start();
    DtValue *x = dt_graph_cast(&f.b, f.x, DT_BF16), *y = dt_graph_cast(&f.b, f.y, DT_BF16);
    expect(dt_graph_dot(&f.b, x, y, 1, NAMES("b"), DT_BF16, NULL), "bf16[a=3, c=5]");
    expect(dt_graph_dot(&f.b, x, y, 1, NAMES("b"), DT_F32, NULL), "f32[a=3, c=5]");
    expect(dt_graph_reduce(&f.b, DT_REDUCE_SUM, x, 1, NAMES("a")), "f32[b=4]");
    expect(dt_graph_reduce(&f.b, DT_REDUCE_MIN, x, 1, NAMES("a")), "bf16[b=4]");
    stop(&f);
}

Test(graph, spans_paths_names)
{
    Fixture f = start();
    f.b.span = (DtSpan){1, 10, 20};
    f.b.path = dt_intern("h.mlp");
    DtValue *value = dt_graph_unary(&f.b, DT_OP_EXP, f.x);
    cr_expect_eq(value->op->span.lo, 10);
    cr_expect_eq(value->op->path, f.b.path);
    cr_expect_eq(value->index, 0);
    cr_expect_str_eq(dt_graph_func(f.module, "f", DT_FUNC_FN)->name, "f.1");
    cr_expect_str_eq(dt_graph_func(f.module, "f", DT_FUNC_FN)->name, "f.2");
    cr_expect_eq(dt_graph_find(f.module, "f"), f.b.func);
    cr_expect_null(dt_graph_find(f.module, "g"));
    DtFunc *g = dt_graph_func(f.module, "g", DT_FUNC_LAYER);
    DtFormalParam param = {.path = dt_intern("h.up.w"), .pattern = dt_intern("h.up.w")};
    cr_expect_str_eq(dt_graph_param(g, f.x->type, param)->name, "w");
    stop(&f);
}

/* The builder copies its arguments, so the caller may change them afterwards. */
Test(graph, arguments_are_copied)
{
    Fixture f = start();
    const char *axes[] = {"b"};
    DtValue *in[] = {f.x, f.v};
    DtValue *sum = dt_graph_map(&f.b, DT_OP_ADD, 2, in, NULL),
            *dot = dt_graph_dot(&f.b, f.x, f.y, 1, axes, DT_F32, NULL);
    in[0] = NULL;
    axes[0] = "none";
    cr_expect_eq(sum->op->in[0], f.x);
    cr_expect_eq(dot->op->axes[0], dt_intern("b"));
    stop(&f);
}

/* Copies all ops of the sample's layer. The copy must print the same text, except for memory
 * attributes, which belong to the original op. */
Test(graph, copies)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = sample_module(arena);
    for (uint32_t n = module->funcs.n, i = 0; i < n; i++) {
        DtFunc *func = module->funcs.at[i], *copy = dt_graph_func(module, "copy", func->kind);
        DtValue **map = DT_NEW_ARRAY(arena, DtValue *, func->n_values);
        for (uint32_t k = 0; k < func->inputs.n; k++) {
            DtValue *x = func->inputs.at[k];
            map[x->id] = k < func->n_args
                             ? dt_graph_arg(copy, x->type, x->name)
                             : dt_graph_param(copy, x->type, func->params.at[k - func->n_args]);
        }
        for (uint32_t k = 0; k < func->ops.n; k++) {
            const DtOp *op = func->ops.at[k];
            DtBuilder b = {.func = copy, .span = op->span, .path = op->path};
            DtValue **in = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
            for (uint32_t j = 0; j < op->n_in; j++)
                in[j] = map[op->in[j]->id];
            DtOp *made = dt_graph_copy(&b, op, in);
            for (uint32_t j = 0; j < op->n_out; j++) {
                map[op->out[j]->id] = made->out[j];
                cr_expect_null(made->out[j]->over);
                cr_expect_null(made->out[j]->lies);
                op->out[j]->over = NULL;
                op->out[j]->lies = NULL;
            }
            DtText one = {0}, two = {0};
            dt_irtext_print_op(func, op, &one);
            dt_irtext_print_op(copy, made, &two);
            cr_expect_str_eq(two.at, one.at);
            dt_text_free(&one);
            dt_text_free(&two);
        }
    }
    dt_arena_free(arena);
}

/* A copy whose operand is split carries the split on, and sums become pending. */
Test(graph, copies_follow_their_operands)
{
    Fixture f = start();
    f.module->mesh = (DtMesh){1, {{dt_intern("data"), 2, false}}};
    DtValue *e = dt_graph_map(&f.b, DT_OP_EXP, 1, &f.x, NULL);
    DtValue *sum = dt_graph_reduce(&f.b, DT_REDUCE_SUM, e, 1, NAMES("b"));
    DtFunc *g = dt_graph_func(f.module, "g", DT_FUNC_FN);
    DtBuilder b = {.func = g};
    DtAxis axes[] = {sample_axis("a", 3), sample_split("b", 4, 0)};
    DtValue *x = dt_graph_arg(g, sample_type(DT_F32, 2, axes), "x");
    DtValue *split = dt_graph_copy(&b, e->op, &x)->out[0];
    expect(split, "f32[a=3, b=4/0]");
    expect(dt_graph_copy(&b, sum->op, &split)->out[0], "f32[a=3]{sum 0}");
    stop(&f);
}

Test(graph, sweep_and_renumber)
{
    Fixture f = start();
    DtValue *dead = dt_graph_unary(&f.b, DT_OP_EXP, f.x),
            *live = dt_graph_unary(&f.b, DT_OP_LOG, f.x);
    dt_graph_unary(&f.b, DT_OP_SIN, dead);
    dt_graph_return(f.b.func, dt_graph_unary(&f.b, DT_OP_COS, live));
    cr_expect_eq(dt_graph_sweep(f.b.func), 2);
    cr_expect_eq(f.b.func->ops.n, 2);
    cr_expect_eq(f.b.func->ops.at[0]->kind, DT_OP_LOG);
    cr_expect_eq(f.b.func->ops.at[1]->kind, DT_OP_COS);
    cr_expect_eq(dt_graph_sweep(f.b.func), 0);
    cr_expect_eq(f.b.func->n_values, 8);
    dt_graph_renumber(f.b.func);
    cr_expect_eq(f.b.func->n_values, 6);
    cr_expect_eq(live->id, 4);
    DtFunc *empty = dt_graph_func(f.module, "empty", DT_FUNC_FN);
    cr_expect_eq(dt_graph_sweep(empty), 0);
    stop(&f);
}

/* An op that the shape rules refuse ends the process. */
Test(graph, broken_ops_abort, .signal = SIGABRT)
{
    Fixture f = start();
    dt_graph_binary(&f.b, DT_OP_ADD, f.x, f.i);
}

Test(graph, wishes_with_other_axes_abort, .signal = SIGABRT)
{
    Fixture f = start();
    dt_graph_map(&f.b, DT_OP_EXP, 1, &f.x, f.v->type);
}

Test(graph, missing_operands_abort, .signal = SIGABRT)
{
    Fixture f = start();
    dt_graph_unary(&f.b, DT_OP_EXP, NULL);
}

Test(graph, late_arguments_abort, .signal = SIGABRT)
{
    Fixture f = start();
    DtFormalParam param = {.path = dt_intern("w"), .pattern = dt_intern("w")};
    dt_graph_param(f.b.func, f.x->type, param);
    dt_graph_arg(f.b.func, f.x->type, "late");
}

Test(graph, writes_to_parameters_abort, .signal = SIGABRT)
{
    Fixture f = start();
    DtFormalParam param = {.path = dt_intern("w"), .pattern = dt_intern("w")};
    dt_graph_write(f.b.func, 0, dt_graph_param(f.b.func, f.x->type, param));
}
