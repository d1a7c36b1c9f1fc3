/* SPDX-License-Identifier: Apache-2.0 */
/* Programs cut into pipeline stages compute what they compute in one piece: loss, every gradient,
 * updated parameters and moments, the norm, states, then eval and predict. */
#include "stage_driver.h"

#include "golden.h"
#include "gradcheck.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#define GPT2 "examples/gpt2.dsl", "batch=2 seq=3 vocab=7 layers=4 embed=4 heads=2", 7, "h"
#define T5             \
    "examples/t5.dsl", \
        "batch=2 src=3 tgt=3 vocab=9 enc=3 dec=3 embed=4 heads=2 head=2 ffn=3 buckets=4", 9, "e d"

#define MOE                                                                                     \
    "examples/moe.dsl",                                                                         \
        "batch=2 seq=4 vocab=9 layers=4 pool=2 experts=4 embed=4 kv=1 group=2 head=2 ffn=3", 9, \
        "h"
#define BERT \
    "examples/bert.dsl", "batch=2 seq=3 vocab=9 layers=4 embed=4 heads=2 head=2 ffn=5", 2, "h"
#define SHARED "tests/passes/programs/shared_layer.dsl", "", 5, "h"
#define TOWERS "tests/passes/programs/towers.dsl", "", 5, "first.h second.h"
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
};

Test(stage, equals_the_program_in_one_piece, .timeout = 300)
{
    for (size_t i = 0; i < DT_COUNT(layouts); i++) {
        Staged *p = stage_program(&layouts[i]);
        if (!p->cut)
            dt_diag_print(p->diags, stderr, false);
        cr_assert(p->cut);
        stage_compare(p);
        stage_free(p);
    }
}

/* What the pass makes, as text. */
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

/* First iteration and number of iterations that a stage has of a loop's parameter. */
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

/* Iterations that cost alike are shared out evenly; a head that costs as much as they do has a
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

Test(stage, refusals)
{
    const Layout order = {VGG, "1f1b", 3, 1, 2, {0}, {"f1", "t.0"}, false};
    Staged *p = stage_program(&order);
    cr_expect_null(p->cut);
    cr_expect_eq(dt_diag_errors(p->diags), 1);
    stage_free(p);
}
