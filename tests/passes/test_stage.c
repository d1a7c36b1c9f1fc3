/* SPDX-License-Identifier: Apache-2.0 */
/* Programs cut into pipeline stages compute what they compute in one piece: loss, every gradient,
 * updated parameters and moments, the norm, states, then eval and predict. */
#include "stage_driver.h"

#include "golden.h"
#include "gradcheck.h"
#include "tests/ir/texts.h"

#include "base/intern.h"
#include "tests/share.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#define GPT2 "examples/gpt2.dsl", "batch=2 seq=3 vocab=7 layers=4 embed=4 heads=2", 7, "h"
#define T5             \
    "examples/t5.dsl", \
        "batch=2 src=3 tgt=3 vocab=9 enc=3 dec=3 embed=4 heads=2 head=2 ffn=3 buckets=4", 9, "e d"

#define GPT2_FEW "examples/gpt2.dsl", "batch=2 seq=3 vocab=7 layers=2 embed=4 heads=2", 7, "h"
#define T5_FEW         \
    "examples/t5.dsl", \
        "batch=2 src=3 tgt=3 vocab=9 enc=1 dec=2 embed=4 heads=2 head=2 ffn=3 buckets=4", 9, "e d"
#define MOE                                                                                     \
    "examples/moe.dsl",                                                                         \
        "batch=2 seq=4 vocab=9 layers=4 pool=2 experts=4 embed=4 kv=1 group=2 head=2 ffn=3", 9, \
        "h"
#define BERT \
    "examples/bert.dsl", "batch=2 seq=3 vocab=9 layers=4 embed=4 heads=2 head=2 ffn=5", 2, "h"
#define SHARED "tests/passes/programs/shared_layer.dsl", "", 5, "h"
#define TOWERS "tests/passes/programs/towers.dsl", "", 5, "first.h second.h"
#define STATES \
    "tests/sweep/shared_states.dsl", "batch=4 pool=2 embed=3 ffn=4 layers=4 classes=3", 3, "h"
#define VGG    "examples/vgg16.dsl", "batch=1 side=32 c0=1 classes=3 fc=2", 3, "vgg16"

static const Layout layouts[] = {
    {GPT2, "1f1b", 2, 1, 4, {0}, {0}, false},
    {GPT2, "1f1b", 1, 1, 2, {0}, {0}, false},
    {GPT2, "1f1b", 4, 1, 1, {0}, {0}, true},
    {GPT2, "1f1b", 4, 1, 5, {0}, {0}, false},
    {GPT2, "gpipe", 3, 1, 4, {0}, {0}, false},
    {GPT2, "gpipe", 2, 1, 3, {1}, {0}, true},
    {GPT2, "interleaved_1f1b", 2, 2, 4, {0}, {0}, false},
    {GPT2, "interleaved_1f1b", 2, 2, 3, {1, 2, 3}, {0}, false},
    {GPT2, "interleaved_1f1b", 1, 3, 2, {0}, {0}, false},
    {GPT2, "zb_h1", 2, 1, 4, {0}, {0}, false},
    {GPT2, "zb_h1", 4, 1, 8, {0}, {0}, true},
    {GPT2, "zb_v", 2, 2, 4, {0}, {0}, false},
    {GPT2, "zb_v", 1, 2, 2, {0}, {0}, false},
    {GPT2, "dualpipe_v", 2, 2, 5, {0}, {0}, true},
    {T5, "1f1b", 2, 1, 3, {0}, {0}, false},
    {T5, "1f1b", 3, 1, 4, {0}, {0}, false},
    {T5, "gpipe", 3, 1, 2, {1, 4}, {0}, false},
    {T5, "interleaved_1f1b", 2, 2, 4, {0}, {0}, true},
    {T5, "interleaved_1f1b", 2, 3, 4, {0}, {0}, false},
    {T5, "zb_h1", 3, 1, 5, {3, 4}, {0}, false},
    {T5, "zb_v", 2, 2, 4, {0}, {0}, false},
    {T5, "dualpipe_v", 3, 2, 6, {0}, {0}, false},
    {MOE, "1f1b", 2, 1, 3, {0}, {0}, false},
    {MOE, "zb_h1", 3, 1, 5, {0}, {0}, false},
    {MOE, "interleaved_1f1b", 2, 2, 4, {0}, {0}, true},
    {BERT, "1f1b", 2, 1, 3, {0}, {0}, false},
    {BERT, "zb_v", 2, 2, 4, {0}, {0}, false},
    {VGG, "1f1b", 3, 1, 4, {0}, {"t.0", "f1"}, false},
    {VGG, "zb_h1", 2, 1, 3, {0}, {"s.1.c2"}, false},
    {VGG, "interleaved_1f1b", 2, 2, 2, {0}, {"s.1", "t.1.c2", "f2"}, false},
    {SHARED, "1f1b", 3, 1, 4, {0}, {0}, false},
    {SHARED, "zb_v", 2, 2, 4, {1, 2, 3}, {0}, false},
    {SHARED, "zb_h1", 2, 1, 3, {0}, {0}, false},
    {SHARED, "interleaved_1f1b", 2, 2, 2, {0}, {0}, false},
    {TOWERS, "1f1b", 2, 1, 3, {0}, {0}, false},
    {TOWERS, "zb_v", 2, 2, 4, {0}, {0}, false},
    {STATES, "1f1b", 4, 1, 4, {0}, {0}, false},
    {STATES, "zb_v", 2, 2, 4, {0}, {0}, false},
    {STATES, "interleaved_1f1b", 2, 2, 3, {1, 2, 3}, {0}, false},
    /* pieces without any iterations: the embedding, the head, the part between two loops */
    {GPT2_FEW, "1f1b", 4, 1, 5, {0}, {0}, false},
    {GPT2_FEW, "zb_h1", 4, 1, 8, {0}, {0}, true},
    {GPT2_FEW, "zb_v", 2, 2, 4, {0}, {0}, false},
    {GPT2_FEW, "dualpipe_v", 2, 2, 5, {0}, {0}, false},
    {GPT2_FEW, "interleaved_1f1b", 2, 2, 4, {-1, 1, 2}, {0}, true},
    {GPT2, "interleaved_1f1b", 2, 3, 4, {0}, {0}, false},
    {GPT2, "gpipe", 3, 1, 3, {-1, 2}, {0}, false},
    {GPT2, "1f1b", 3, 1, 3, {2, 4}, {0}, false},
    {T5_FEW, "zb_h1", 5, 1, 5, {0}, {0}, false},
    {T5_FEW, "interleaved_1f1b", 3, 2, 6, {0}, {0}, false},
    {STATES, "interleaved_1f1b", 2, 3, 4, {0}, {0}, false},
};

/* Expects each store to be read by at most one op of an entry "update": pass `zero` has a
 * collective for each op that reads a gradient. */
static void expect_one_read(const DtModule *module)
{
    for (uint32_t i = 0; i < module->entries.n; i++) {
        bool *is_read = calloc(module->stores.n + 1, sizeof *is_read);
        const DtFunc *func = module->entries.at[i].func;
        const bool updates = module->entries.at[i].kind == DT_ENTRY_UPDATE;
        for (uint32_t k = 0; updates && k < func->ops.n; k++) {
            const DtOp *op = func->ops.at[k];
            if (op->kind != DT_OP_PARAM)
                continue;
            cr_expect(!is_read[op->store->index], "%s reads %s twice", func->name, op->store->path);
            is_read[op->store->index] = true;
        }
        free(is_read);
    }
}

Test(stage, equals_the_program_in_one_piece, .timeout = 300)
{
    for (size_t i = 0; i < DT_COUNT(layouts); i++) {
        if (!share_has((unsigned)i))
            continue;
        Staged *p = stage_program(&layouts[i]);
        if (!p->cut)
            dt_diag_print(p->diags, stderr, false);
        cr_assert(p->cut);
        expect_one_read(p->cut);
        stage_compare(p);
        stage_free(p);
    }
}

/* Compares the result of the pass with an expected text. */
static void compare_golden(const char *name, const char *schedule)
{
    const Layout layout = {
        "tests/passes/programs/stage.dsl", "", 4, "h", schedule, 2, 1, 2, {0}, {0}, false};
    Staged *p = stage_program(&layout);
    DtText text = {0};
    cr_assert(p->cut);
    dt_irtext_print(p->cut, &text);
    golden_compare(name, &text);
    dt_text_free(&text);
    stage_compare(p);
    stage_free(p);
}

Test(stage, golden_1f1b) { compare_golden("passes/stage", "1f1b"); }
Test(stage, golden_zb_h1) { compare_golden("passes/stage_split", "zb_h1"); }

/* ---- where it is cut ---- */

/* The first iteration, and the number of iterations, that a stage has of a loop's parameter. */
static void expect_range(const Staged *p, const char *path, int32_t stage, int64_t first, int64_t n)
{
    for (uint32_t i = 0; i < p->cut->stores.n; i++) {
        const DtStore *s = p->cut->stores.at[i];
        if (s->kind != DT_STORE_PARAM || s->stage != stage || strcmp(s->path, path) != 0)
            continue;
        cr_expect_eq(s->first, first, "`%s` of stage %d begins at %lld", path, stage,
                     (long long)s->first);
        cr_expect_eq(s->type->axes[0].extent, n, "`%s` of stage %d has %lld iterations", path,
                     stage, (long long)s->type->axes[0].extent);
        return;
    }
    cr_expect_eq(n, 0, "stage %d has no `%s`", stage, path);
}

/* Returns how many iterations of a loop's parameter all pieces of a stage have. */
static int64_t iterations_on(const Staged *p, const char *path, int32_t stage)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < p->cut->stores.n; i++) {
        const DtStore *s = p->cut->stores.at[i];
        if (s->kind == DT_STORE_PARAM && stage >= s->stage &&
            stage <= s->stage + (int32_t)s->more && strcmp(s->path, path) == 0)
            n += s->type->axes[0].extent;
    }
    return n;
}

/* Checks which stages have a copy of the parameter. */
static void expect_stages(const Staged *p, const char *path, const char *stages)
{
    bool has[DT_STAGES_MOST] = {false};
    for (uint32_t i = 0; i < p->cut->stores.n; i++) {
        const DtStore *s = p->cut->stores.at[i];
        for (uint32_t k = 0;
             s->kind == DT_STORE_PARAM && strcmp(s->path, path) == 0 && k <= s->more; k++)
            has[(uint32_t)s->stage + k] = true;
    }
    const char *found = dt_stages_of(has, DT_STAGES_MOST);
    cr_expect(dt_stages_same(found, stages), "`%s` is on stages %s", path, found ? found : "none");
}

/* Cuts equalise the sums of a stage's pieces, not the pieces. If pieces were filled one after the
 * other, three stages with two pieces each would have 5, 6 and 4 iterations, and 3 and 6 there and
 * back. */
Test(stage, cuts_level_stages)
{
    static const struct { const char *dims, *schedule; uint32_t stages; int64_t most; } rows[] = {
        {"batch=2 seq=3 vocab=2 layers=15 embed=16 heads=2", "interleaved_1f1b", 3, 5},
        {"batch=2 seq=3 vocab=2 layers=9 embed=16 heads=2", "zb_v", 2, 5},
        {"batch=2 seq=3 vocab=2 layers=9 embed=16 heads=2", "dualpipe_v", 2, 5},
    };
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const Layout layout = {"examples/gpt2.dsl", rows[i].dims, 2, "h", rows[i].schedule,
                               rows[i].stages, 2, 2, {0}, {0}, false};
        Staged *p = stage_program(&layout);
        cr_assert(p->cut);
        for (uint32_t s = 0; s < rows[i].stages; s++) {
            const int64_t n = iterations_on(p, "h.mlp.up.w", (int32_t)s);
            cr_expect_leq(n, rows[i].most, "%s: %lld on stage %u", rows[i].schedule, (long long)n,
                          s);
        }
        stage_free(p);
    }
}

Test(stage, cuts_as_asked)
{
    const Layout layout = {T5, "1f1b", 3, 1, 2, {1, 5}, {0}, false};
    Staged *p = stage_program(&layout);
    cr_assert(p->cut);
    expect_range(p, "e.attention.wq.w", 0, 0, 1);
    expect_range(p, "e.attention.wq.w", 1, 1, 2);
    expect_range(p, "e.attention.wq.w", 2, 0, 0);
    expect_range(p, "d.self.wq.w", 0, 0, 0);
    expect_range(p, "d.self.wq.w", 1, 0, 2);
    expect_range(p, "d.self.wq.w", 2, 2, 1);
    stage_free(p);
}

Test(stage, cuts_before_the_first_iteration)
{
    const Layout layout = {GPT2, "1f1b", 4, 1, 2, {-1, 3, 4}, {0}, false};
    Staged *p = stage_program(&layout);
    cr_assert(p->cut);
    expect_range(p, "h.mlp.up.w", 0, 0, 0);
    expect_range(p, "h.mlp.up.w", 1, 0, 3);
    expect_range(p, "h.mlp.up.w", 2, 3, 1);
    expect_range(p, "h.mlp.up.w", 3, 0, 0);
    expect_stages(p, "wte", "0, 3"); /* the head's gradient, too, is computed from values that
                                      * return from stage 1 */
    expect_stages(p, "wpe", "0");
    stage_free(p);
}

/* Iterations of equal cost are distributed evenly; a head that costs as much as all of them gets a
 * stage of its own. */
Test(stage, cuts_by_cost)
{
    const Layout even = {"examples/gpt2.dsl",
                         "batch=2 seq=3 vocab=2 layers=8 embed=16 heads=2",
                         2,
                         "h",
                         "1f1b",
                         4,
                         1,
                         2,
                         {0},
                         {0},
                         false};
    const Layout heavy = {"examples/gpt2.dsl",
                          "batch=2 seq=64 vocab=2000 layers=2 embed=16 heads=2",
                          2,
                          "h",
                          "1f1b",
                          2,
                          1,
                          2,
                          {0},
                          {0},
                          false};
    Staged *p = stage_program(&even);
    cr_assert(p->cut);
    for (int32_t s = 0; s < 4; s++)
        expect_range(p, "h.mlp.up.w", s, 2 * s, 2);
    stage_free(p);
    p = stage_program(&heavy);
    cr_assert(p->cut);
    expect_range(p, "h.mlp.up.w", 0, 0, 2);
    expect_range(p, "h.mlp.up.w", 1, 0, 0);
    stage_free(p);
}

static void expect_refused(const Layout *layout, const char *message)
{
    Staged *p = stage_program(layout);
    char *out = diags_text(p->diags);
    cr_expect_null(p->cut);
    cr_expect_eq(dt_diag_errors(p->diags), 1);
    cr_expect(strstr(out, message), "%s", out);
    free(out);
    stage_free(p);
}

/* Only a mask precedes this loop, and every piece computes that mask itself. */
#define BARE "tests/passes/programs/bare_loop.dsl", "", 3, "h"

Test(stage, refusals)
{
    expect_refused(&(Layout){VGG, "1f1b", 3, 1, 2, {0}, {"f1", "t.0"}, false},
                   "not an instance behind the cuts");
    expect_refused(&(Layout){BARE, "1f1b", 5, 1, 2, {0}, {0}, false},
                   "4 parts of the program cannot be cut into 5");
    expect_refused(&(Layout){BARE, "1f1b", 3, 1, 2, {-1, 2}, {0}, false},
                   "a cut after 0 iterations leaves nothing before");
    const Layout fits = {BARE, "1f1b", 4, 1, 3, {0}, {0}, false};
    Staged *p = stage_program(&fits);
    cr_assert(p->cut);
    stage_compare(p);
    stage_free(p);
}

/* ---- programs that no source is known to make ---- */

/* A loop of two iterations, its backward loop, and between them ops that the test case adds. */
static const char a_module[] =
    "mesh pipe=2\n"
    "store 0 : param f32[h=2, e=2] path=h.w pattern=h.#.w loops=1 init=const(1, 0)\n"
    "store 1 : grad f32[h=2, e=2] path=h.w pattern=h.#.w loops=1 init=const(0, 0) of=0\n"
    "func step : body {\n"
    "  arg %%i.0 : i32[]\n"
    "  arg %%x.1 : f32[e=2]\n"
    "  arg %%w.2 : f32[e=2]\n"
    "  %%3 = mul(%%x.1, %%w.2) : f32[e=2]\n"
    "  return %%3, %%x.1\n"
    "}\n"
    "func back : body {\n"
    "  arg %%i.0 : i32[]\n"
    "  arg %%d.1 : f32[e=2]\n"
    "  arg %%w.2 : f32[e=2]\n"
    "  arg %%x.3 : f32[e=2]\n"
    "  %%4 = mul(%%d.1, %%w.2) : f32[e=2]\n"
    "  %%5 = mul(%%d.1, %%x.3) : f32[e=2]\n"
    "  return %%4, %%5\n"
    "}\n"
    "func grad : entry {\n"
    "  %%x.0 = input() : f32[e=2] text=x\n"
    "  %%v.1 = reduce[e](%%x.0) : f32[]\n"
    "  %%2 = mul(%%x.0, %%v.1) : f32[e=2]\n"
    "  %%w.3 = param() : f32[h=2, e=2] text=h.w store=0\n"
    "  %%y.4, %%5 = loop(%%2, %%w.3) : f32[e=2], f32[h=2, e=2] func=step loop(label=h axis=h "
    "count=2 carried=1 "
    "stacked=1 stacked_out=1)\n"
    "%s"
    "  %%loss.8 = add(%%6, %%7) : f32[]\n"
    "  %%9 = const() : f32[] number=1\n"
    "  %%10 = mul(%%9, %%%s) : f32[]\n"
    "  %%11 = expand(%%10) : f32[e=2]\n"
    "  %%12, %%13 = loop(%%11, %%w.3, %%5) : f32[e=2], f32[h=2, e=2] func=back loop(label=h axis=h "
    "count=2%s "
    "carried=1 stacked=2 stacked_out=1)\n"
    "  return %%loss.8, %%13\n"
    "}\n"
    "entry grad : grad {\n"
    "  result name=loss\n"
    "  result store=1\n"
    "}\n";

static const struct {
    const char *ops, *cotangent, *order, *message;
} refused[] = {{"  %6 = reduce[e](%y.4) : f32[]\n"
                "  %7 = const() : f32[] number=1\n",
                "7", " reverse", NULL},
               {"  %6 = reduce[e](%y.4) : f32[]\n" /* the cotangent depends only on a value of piece
                                                    * 0, so it is sent */
                "  %7 = const() : f32[] number=1\n",
                "v.1", " reverse", NULL},
               {"  %6 = reduce[e](%y.4) : f32[]\n"
                "  %7 = reduce[h, e](%w.3) : f32[]\n",
                "6", " reverse", "a parameter of loop `h`, which the pipeline cuts, outside of it"},
               {"  %6 = reduce[e](%y.4) : f32[]\n" /* the cotangent of each iteration depends on
                                                    * that of the previous one */
                "  %7 = const() : f32[] number=1\n",
                "7", "", "gradients go forwards (here to piece 1 from piece 0)"}};

Test(stage, refusals_of_modules)
{
    for (size_t i = 0; i < DT_COUNT(refused); i++) {
        DtArena *arena = dt_arena_new();
        DtDiags *diags = dt_diag_new(arena);
        char text[4000];
        snprintf(text, sizeof text, a_module, refused[i].ops, refused[i].cotangent,
                 refused[i].order);
        DtModule *module = dt_irtext_read(arena, diags, text, strlen(text));
        if (!module)
            dt_diag_print(diags, stderr, false);
        cr_assert(module);
        DtParallelConfig parallel = {.name = "test", .micro = 1, .mesh = module->mesh};
        const DtPipeline line = {.loops = {dt_intern("h")}, .n_loops = 1, .on = dt_intern("pipe"),
                                 .schedule = "1f1b", .chunks = 1};
        const DtPassContext context = {.parallel = &parallel};
        DT_PUSH(arena, parallel.pipelines, line);
        dt_pass_stage(module, &context);
        char *out = diags_text(diags);
        cr_expect(refused[i].message ? strstr(out, refused[i].message) != NULL
                                     : !*out && module->pipeline,
                  "case %zu: %s", i, out);
        free(out);
        dt_arena_free(arena);
    }
}
