/* SPDX-License-Identifier: Apache-2.0 */
/* Placement of small programs. The exchanges of a training step are compared as text:
 * tests/golden/place/NAME.txt (DT_BLESS=1 rewrites them). For known layouts (Megatron's
 * half-layers, experts) the number of exchanges must be the published one. Every placed program
 * must compute what the serial program does. */
#include "golden.h"

#include "passes/check/judge.h"
#include "passes/passes.h"

#include "base/intern.h"
#include "ir/irtext.h"
#include "passes/place/ring.h"
#include "tests/share.h"
#include "tests/type_text.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

typedef struct Layout {
    char file[16], name[16];
} Layout;


static DtLowerOptions options_of(DtArena *arena, const char *file, const char *name)
{
    return (DtLowerOptions){.path = dt_arena_printf(arena, "tests/passes/programs/%s.dsl", file),
                            .library = "lib",
                            .parallel = name,
                            .synthetic = true};
}

/* Runs the passes up to placement. */
static DtModule *placed(DtArena *arena, const char *file, const char *name)
{
    DtDiags *diags = dt_diag_new(arena);
    DtLowerOptions options = options_of(arena, file, name);
    DtProgram *program = dt_lower(arena, diags, &options);
    cr_assert(program != NULL);
    const DtPassContext context = {.train = program->train,
                                   .parallel = program->parallel,
                                   .cluster = program->cluster,};
    for (uint32_t i = 0; i < dt_n_passes; i++) {
        dt_passes[i].run(program->module, &context);
        if (strcmp(dt_passes[i].name, "place") == 0)
            break;
    }
    if (dt_diag_errors(diags))
        dt_diag_print(diags, stderr, false);
    cr_assert_eq(dt_diag_errors(diags), 0);
    return program->module;
}

/* ---- exchanges ---- */

static bool is_exchange(const DtOp *op)
{
    return (dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->kind != DT_OP_SHARD) ||
           dt_ring_is(op);
}

static void print_values(const DtMesh *mesh, uint32_t n, DtValue *const *values, DtText *text)
{
    for (uint32_t i = 0; i < n; i++) {
        dt_text_add(text, i ? ", " : "");
        print_placement(values[i]->type, mesh, text);
    }
}

static void print_func(const DtMesh *mesh, const DtFunc *func, int depth, DtText *text)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_LOOP) {
            dt_text_printf(text, "%*s%s %s, carried: ", 2 * depth, "",
                           op->loop->reverse ? "loop backwards" : "loop", op->loop->label);
            print_values(mesh, op->loop->n_carried, op->in, text);
            dt_text_add(text, "\n");
            print_func(mesh, op->func, depth + 1, text);
        }
        if (!is_exchange(op))
            continue;
        dt_text_printf(text, "%*s%s%s", 2 * depth, "",
                       dt_ring_is(op) ? "ring" : dt_op_info[op->kind].text,
                       op->reverse ? " reverse" : "");
        for (uint32_t m = 0; m < mesh->n; m++)
            if (op->mesh >> m & 1)
                dt_text_printf(text, " %s", mesh->axes[m].name);
        dt_text_add(text, ": ");
        print_values(mesh, dt_ring_is(op) ? op->n_in : 1, op->in, text);
        dt_text_add(text, " -> ");
        print_values(mesh, op->n_out, op->out, text);
        dt_text_printf(text, "    %s%s%s\n", op->text, op->path ? ", " : "",
                       op->path ? op->path : "");
    }
}

static const DtEntryPoint *entry(const DtModule *module, const char *name)
{
    const DtEntryPoint *found = dt_entry_named(module, name);
    cr_assert(found, "no entry %s", name);
    return found;
}

static void print_module(const DtModule *module, DtText *text)
{
    static const char *const entries[] = {"grad", "update"};
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->kind != DT_STORE_PARAM)
            continue;
        dt_text_printf(text, "%s: ", store->path);
        print_placement(store->type, &module->mesh, text);
        dt_text_add(text, "\n");
    }
    for (size_t e = 0; e < DT_COUNT(entries); e++) {
        dt_text_printf(text, "\n%s\n", entries[e]);
        print_func(&module->mesh, entry(module, entries[e])->func, 1, text);
    }
    const DtEntryPoint *grad = entry(module, "grad");
    dt_text_add(text, "\nat the end of the step\n");
    for (uint32_t i = 0; i < grad->results.n; i++) {
        if (grad->func->results.at[i]->type->partial == 0)
            continue;
        const DtStore *store = grad->results.at[i].store;
        dt_text_printf(text, "  %s: ", store ? store->path : grad->results.at[i].name);
        print_values(&module->mesh, 1, &grad->func->results.at[i], text);
        dt_text_add(text, "\n");
    }
}

static void compare_text(const char *name, const DtText *text)
{
    char path[150];
    snprintf(path, sizeof path, "place/%s", name);
    golden_compare(path, text);
}

static void judge(const Layout *layout)
{
    DtArena *arena = dt_arena_new();
    DtLowerOptions options = options_of(arena, layout->file, layout->name);
    const DtJudgeProgram task = {
        .options = &options, .steps = 2, .as_it_is = true};
    DtDiags *diags = dt_diag_new(arena);
    DtJudgement judgement = {0};
    DtText shrunk = {0};
    cr_expect_eq(dt_judge_program(arena, diags, &task, &judgement, &shrunk), DT_JUDGE_EQUAL, "%s",
                 judgement.problem.at);
    dt_text_free(&judgement.problem);
    dt_text_free(&shrunk);
    dt_arena_free(arena);
}

ParameterizedTestParameters(place, layouts)
{
    static Layout cases[] = {
        {"layouts", "data"},    {"layouts", "tensor"},     {"layouts", "sequence"},
        {"layouts", "two_d"},   {"layouts", "gathered"},   {"layouts", "keys"},
        {"layouts", "ulysses"}, {"layouts", "vocabulary"}, {"layouts", "everything"},
        {"experts", "experts"}, {"experts", "groups"},     {"beside", "beside"},
        {"layouts", "padded"},  {"windows", "rows"},       {"layouts", "ring"},
        {"layouts", "zigzag"},  {"layouts", "ring_axes"},
        {"layouts", "zigzag_axes"},
    };
    return cr_make_param_array(Layout, cases, DT_COUNT(cases));
}

ParameterizedTest(Layout *layout, place, layouts)
{
    DtArena *arena = dt_arena_new();
    const DtModule *module = placed(arena, layout->file, layout->name);
    DtText text = {0};
    print_module(module, &text);
    compare_text(layout->name, &text);
    dt_text_free(&text);
    dt_arena_free(arena);
    judge(layout);
}

/* The result is the same under every split. */
ParameterizedTestParameters(place, zoo)
{
    static Layout cases[] = {
        {"zoo", "batches"}, {"zoo", "positions"}, {"zoo", "keys"}, {"zoo", "widths"},
        {"zoo", "groups"}, {"zoo", "places"}, {"chain", "chain"}, {"zoo", "merged"},
        {"windows", "columns"}, {"windows", "tiles"}, {"residual", "z3"}, {"residual", "pp"},
        {"residual", "mixed"}, {"rings", "ring"}, {"rings", "ring_of_four"},
        {"rings", "ring_beside"}, {"rings", "ring_of_axes"}, {"rings", "ring_and_gather"},
        {"rings", "ring_of_heads"}, {"rings", "zigzag_of_axes"}, {"rings", "zigzag"},
        {"rings", "zigzag_ring"}, {"rings", "zigzag_beside"}, {"masks", "ring"},
        {"masks", "zigzag"}, {"nested", "zero1"}, {"nested", "zero3"}, {"nested", "ahead"},
    };
    return cr_make_param_array(Layout, cases, share_keep(cases, DT_COUNT(cases), sizeof cases[0]));
}

ParameterizedTest(Layout *layout, place, zoo) { judge(layout); }

/* ---- how often ---- */

/* Returns the number of exchanges of a kind in the bodies of loops that run in this direction. */
static uint32_t count(const DtFunc *func, DtOpKind kind, bool reverse)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_LOOP || op->loop->reverse != reverse)
            continue;
        for (uint32_t k = 0; k < op->func->ops.n; k++)
            n += op->func->ops.at[k]->kind == kind;
    }
    return n;
}

typedef struct Counts {
    uint32_t all_reduce, all_gather, reduce_scatter, all_to_all;
} Counts;

static void expect_counts(const char *file, const char *name, bool reverse, Counts want)
{
    DtArena *arena = dt_arena_new();
    const DtFunc *grad = entry(placed(arena, file, name), "grad")->func;
    const char *way = reverse ? "backward" : "forward";
    cr_expect_eq(count(grad, DT_OP_ALL_REDUCE, reverse), want.all_reduce, "%s %s: all_reduce", name,
                 way);
    cr_expect_eq(count(grad, DT_OP_ALL_GATHER, reverse), want.all_gather, "%s %s: all_gather", name,
                 way);
    cr_expect_eq(count(grad, DT_OP_REDUCE_SCATTER, reverse), want.reduce_scatter,
                 "%s %s: reduce_scatter", name, way);
    cr_expect_eq(count(grad, DT_OP_ALL_TO_ALL, reverse), want.all_to_all, "%s %s: all_to_all", name,
                 way);
    dt_arena_free(arena);
}

/* One all_reduce for each half-layer in each direction. With sequence parallelism a gather and a
 * reduce_scatter instead, and in the backward pass also the gathers of the forward pass again. Data
 * parallelism exchanges nothing before the end. */
Test(place, megatron)
{
    expect_counts("layouts", "data", false, (Counts){0});
    expect_counts("layouts", "data", true, (Counts){0});
    expect_counts("layouts", "tensor", false, (Counts){.all_reduce = 2});
    expect_counts("layouts", "tensor", true, (Counts){.all_reduce = 2});
    expect_counts("layouts", "sequence", false, (Counts){.all_gather = 2, .reduce_scatter = 2});
    expect_counts("layouts", "sequence", true, (Counts){.all_gather = 4, .reduce_scatter = 2});
}

/* A sum of several pending terms is completed only once, biases included. */
Test(place, beside)
{
    expect_counts("beside", "beside", false, (Counts){.all_gather = 1, .reduce_scatter = 1});
}

/* all_to_all of q, k, v and the result, of their cotangents, and of the result again in the
 * backward pass; or gathers of k and v alone. */
Test(place, contexts)
{
    expect_counts("layouts", "ulysses", false, (Counts){.all_to_all = 4});
    expect_counts("layouts", "ulysses", true, (Counts){.all_to_all = 5});
    expect_counts("layouts", "gathered", false, (Counts){.all_gather = 2});
    expect_counts("layouts", "keys", false, (Counts){.all_gather = 2});
}

/* In the forward and in the backward pass, blocks travel once around the ring. */
Test(place, rounds)
{
    static const char *const layouts[] = {"ring_of_four", "zigzag_ring", "ring_of_axes",
                                          "ring_turned", "zigzag_of_axes"};
    for (uint32_t i = 0; i < DT_COUNT(layouts); i++) {
        DtArena *arena = dt_arena_new();
        DtModule *module = placed(arena, "rings", layouts[i]);
        uint32_t calls = 0, rounds = 0;
        for (uint32_t f = 0; f < module->funcs.n; f++)
            for (uint32_t k = 0; k < module->funcs.at[f]->ops.n; k++) {
                const DtOp *op = module->funcs.at[f]->ops.at[k];
                calls += dt_ring_is(op);
            }
        dt_pass_expand(module, NULL);
        for (uint32_t f = 0; f < module->funcs.n; f++)
            for (uint32_t k = 0; k < module->funcs.at[f]->ops.n; k++) {
                const DtOp *op = module->funcs.at[f]->ops.at[k];
                rounds += op->kind == DT_OP_LOOP && strcmp(op->loop->label, "ring") == 0;
            }
        cr_expect(calls > 10);
        cr_expect_eq(rounds, calls, "%s: %u rounds of %u calls", layouts[i], rounds, calls);
        dt_arena_free(arena);
    }
}

/* Tokens are sent to the experts and back. */
Test(place, experts)
{
    expect_counts("experts", "experts", false, (Counts){.all_to_all = 2});
    expect_counts("experts", "experts", true, (Counts){.all_to_all = 2});
}
