/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that are cut into pipeline stages, as text: they read back, and what is wrong in them is
 * found. */
#include "texts.h"

#include "base/text.h"
#include "ir/irtext.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char two_stages[] =
    "mesh micro=4 time, pipe=2\n"
    "store 0 : param f32[h=1, e=2] path=h.g pattern=h.#.g loops=1 init=const(1, 0) stage=0 "
    "whole=2\n"
    "store 1 : param f32[h=1, e=2] path=h.g pattern=h.#.g loops=1 init=const(1, 0) stage=1 first=1 "
    "whole=2\n"
    "store 2 : saved f32[e=2] path=x pattern=x init=const(0, 0) stage=0 depth=2\n"
    "store 3 : channel f32[e=2] path=x pattern=x init=const(0, 0) of=2 stage=1 depth=1\n"
    "store 4 : grad f32[h=1, e=2] path=h.g pattern=h.#.g loops=1 init=const(0, 0) of=0 stage=0\n"
    "func f0 : entry {\n"
    "  %w.0 = param() : f32[h=1, e=2] text=h.g store=0\n"
    "  %1 = relabel(%w.0) : f32[e=2] relabel(h ->)\n"
    "  return %1\n"
    "}\n"
    "func f1 : entry {\n"
    "  %x.0 = param() : f32[e=2] text=x store=3\n"
    "  %1 = reduce[e](%x.0) : f32[]\n"
    "  return %1\n"
    "}\n"
    "func update : entry {\n"
    "  %g.0 = param() : f32[h=1, e=2] text=h.g store=4\n"
    "  %1 = all_reduce(%g.0) : f32[h=1, e=2] mesh={pipe} stages=(0, 1)\n"
    "  return %1\n"
    "}\n"
    "entry eval.f0 : f0 stage=0 {\n"
    "  result store=2\n"
    "}\n"
    "entry eval.f1 : f1 stage=1 {\n"
    "  result name=loss accumulate\n"
    "}\n"
    "entry update.0 : update stage=0 {\n"
    "  result store=4\n"
    "}\n"
    "pipeline \"1f1b\" mesh=pipe stages=(0, 1) micro=4 {\n"
    "  run eval {\n"
    "    piece 0 : f=eval.f0\n"
    "    piece 1 : f=eval.f1\n"
    "    channel 0 : 0 -> 1 slots=1 stores=(3)\n"
    "    stage 0 : \"0F0 0SEND_F0 (0F1 0SEND_F1)*2+1 0F3 0SEND_F3\"\n"
    "    stage 1 : \"(1RECV_F0 1F0)*4+1\"\n"
    "  }\n"
    "}\n";

/* Stages 1 and 2 are a class. */
static const char four_stages[] =
    "mesh micro=4 time, pipe=4\n"
    "store 0 : param f32[h=1, e=2] path=h.g pattern=h.#.g loops=1 init=const(1, 0) stage=0 "
    "whole=4\n"
    "store 1 : param f32[h=1, e=2] path=h.g pattern=h.#.g loops=1 init=const(1, 0) "
    "stage=1 to=2 first=1 step=1 whole=4\n"
    "store 2 : saved f32[e=2] path=y@0 pattern=y@0 init=const(0, 0) stage=0 depth=3\n"
    "store 3 : channel f32[e=2] path=x@1 pattern=x@1 init=const(0, 0) of=2 within=4 "
    "stage=1 to=2 depth=2 depths=(2 -1 2)\n"
    "store 4 : saved f32[e=2] path=y@1 pattern=y@1 init=const(0, 0) stage=1 to=2 depth=1\n"
    "store 5 : channel f32[e=2] path=x@3 pattern=x@3 init=const(0, 0) of=4 stage=3 depth=1\n"
    "func body : body {\n"
    "  arg %i.0 : i32[]\n"
    "  arg %x.1 : f32[e=2]\n"
    "  arg %g.2 : f32[e=2]\n"
    "  %3 = mul(%x.1, %g.2) : f32[e=2]\n"
    "  return %3\n"
    "}\n"
    "func f0 : entry {\n"
    "  %w.0 = param() : f32[h=1, e=2] text=h.g store=0\n"
    "  %1 = relabel(%w.0) : f32[e=2] relabel(h ->)\n"
    "  return %1\n"
    "}\n"
    "func f1 : entry {\n"
    "  %w.0 = param() : f32[h=1, e=2] text=h.g store=1\n"
    "  %x.1 = param() : f32[e=2] text=x@1 store=3\n"
    "  %2 = loop(%x.1, %w.0) : f32[e=2] func=body loop(label=h axis=h count=1 first=1 step=1 "
    "carried=1 stacked=1)\n"
    "  return %2\n"
    "}\n"
    "func f3 : entry {\n"
    "  %x.0 = param() : f32[e=2] text=x@3 store=5\n"
    "  %1 = reduce[e](%x.0) : f32[]\n"
    "  return %1\n"
    "}\n"
    "entry eval.f0 : f0 stage=0 {\n"
    "  result store=2\n"
    "}\n"
    "entry eval.f1 : f1 stage=1 to=2 {\n"
    "  result store=4\n"
    "}\n"
    "entry eval.f3 : f3 stage=3 {\n"
    "  result name=loss accumulate\n"
    "}\n"
    "pipeline \"1f1b\" mesh=pipe stages=(0, 1, 2, 3) micro=4 {\n"
    "  run eval {\n"
    "    piece 0 : f=eval.f0\n"
    "    piece 1 : f=eval.f1\n"
    "    piece 2 : f=eval.f1\n"
    "    piece 3 : f=eval.f3\n"
    "    channel 0 : 0 -> 1 slots=1 stores=(3)\n"
    "    channel 1 : 1 -> 2 slots=1 stores=(3)\n"
    "    channel 2 : 2 -> 3 slots=1 stores=(5)\n"
    "    stage 0 : \"(0F0 0SEND_F0)*4+1\"\n"
    "    stage 1 : \"(1RECV_F0 1F0 1SEND_F0)*4+1\"\n"
    "    stage 2 : \"(2RECV_F0 2F0 2SEND_F0)*4+1\"\n"
    "    stage 3 : \"(3RECV_F0 3F0)*4+1\"\n"
    "  }\n"
    "}\n";

static DtModule *read_module(DtArena *arena, const char *text)
{
    DtDiags *diags = dt_diag_new(arena);
    DtModule *module = dt_irtext_read(arena, diags, text, strlen(text));
    if (!module)
        dt_diag_print(diags, stderr, false);
    cr_assert(module);
    return module;
}

Test(pipeline, round_trip)
{
    const char *const texts[] = {two_stages, four_stages};
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        DtArena *arena = dt_arena_new();
        char *text = module_text(read_module(arena, texts[i]));
        cr_expect_str_eq(text, texts[i]);
        free(text);
        dt_arena_free(arena);
    }
}

Test(pipeline, classes_are_written_out)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = read_module(arena, four_stages);
    dt_pipeline_unfold(module);
    dt_verify_require(module, "writing out classes");
    char *text = module_text(module);
    static const char *const lines[] = {
        "path=h.g pattern=h.#.g loops=1 init=const(1, 0) stage=1 first=1 whole=4\n",
        "path=h.g pattern=h.#.g loops=1 init=const(1, 0) stage=2 first=2 whole=4\n",
        "store 4 : channel f32[e=2] path=x@1 pattern=x@1 init=const(0, 0) of=3 stage=1 depth=2\n",
        "store 5 : channel f32[e=2] path=x@2 pattern=x@2 init=const(0, 0) of=6 stage=2 depth=1\n",
        "store 7 : saved f32[e=2] path=y@2 pattern=y@2 init=const(0, 0) stage=2 depth=1\n",
        "store 8 : channel f32[e=2] path=x@3 pattern=x@3 init=const(0, 0) of=7 stage=3 depth=1\n",
        "entry eval.f2 : eval.f2 stage=2 {\n  result store=7\n",
        ("func eval.f2 : entry {\n  %w.0 = param() : f32[h=1, e=2] text=h.g store=2\n"
         "  %x.1 = param() : f32[e=2] text=x@2 store=5\n"),
        "count=1 first=2 carried=1",
        "piece 2 : f=eval.f2\n",
        "channel 1 : 1 -> 2 slots=1 stores=(5)\n"};
    for (size_t i = 0; i < DT_COUNT(lines); i++)
        cr_expect(strstr(text, lines[i]), "%s is not in\n%s", lines[i], text);
    cr_expect_null(strstr(text, " to="));
    free(text);
    dt_arena_free(arena);
}

Test(pipeline, walks_the_period)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, NULL, two_stages, sizeof two_stages - 1);
    cr_assert(module);
    const DtPipelineRun *run = &module->pipeline->runs.at[0];
    DtText text = {0};
    for (int64_t i = 0; i < dt_pipeline_count(&run->stages[0]); i++) {
        DtAction action = dt_pipeline_at(&run->stages[0], i);
        dt_pipeline_print_action(run, &action, &text);
        dt_text_add(&text, " ");
    }
    cr_expect_str_eq(text.at, "0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0F3 0SEND_F3 ");
    dt_text_free(&text);
    dt_arena_free(arena);
}

/* Repeated turns of a schedule are short in the text, both in the lists before and after the
 * period, and inside of it. */
Test(pipeline, rows_are_short)
{
    static const char *const texts[][2] = {
        {"[0F0 0SEND_F0]*4+1", NULL},
        {"0F0 0SEND_F0 [0F1 0SEND_F1]*3+1", "[0F0 0SEND_F0]*4+1"},
        {"0F0 0F1 0F2 0F3", NULL},
        {"0F0 0F1 0F2 0F3 0F4", "[0F0]*5+1"},
        {"[0F0]*9+1 ([0F9]*8+1 [0SEND_F0]*8+1)*4+8 [0SEND_F32]*9+1", NULL},
        {"[0F0 0F1 0SEND_F0]*5+2", NULL},
    };
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, NULL, two_stages, sizeof two_stages - 1);
    cr_assert(module);
    const DtPipelineRun *run = &module->pipeline->runs.at[0];
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        DtStageActions actions;
        const char *problem;
        DtText text = {0};
        cr_assert(dt_pipeline_read_actions(arena, run, texts[i][0], &actions, &problem), "%s: %s",
                  texts[i][0], problem);
        dt_pipeline_print_actions(run, &actions, &text);
        cr_expect_str_eq(text.at, texts[i][texts[i][1] ? 1 : 0]);
        dt_text_free(&text);
    }
    dt_arena_free(arena);
}

typedef struct Fault {
    const char *from, *to, *message;
} Fault;

static const Fault faults[] = {
    {"of=2 stage=1 depth=1", "of=2 stage=1", "has 0 slots"},
    {"of=2 stage=1 depth=1", "of=0 stage=1 depth=1", "no sent store"},
    {"of=2 stage=1 depth=1", "of=2 depth=1", "stands on stage -1"},
    {"of=2 stage=1 depth=1", "of=2 stage=0 depth=1", "receives from its own stage"},
    {"of=0 stage=0", "of=0 stage=1", "its parameter on 0"},
    {"stage=1 first=1 whole=2", "stage=1 first=2 whole=2", "iterations that its loop lacks"},
    {"stage=1 first=1 whole=2", "stage=0 whole=2", "two stores of one kind"},
    {"eval.f1 : f1 stage=1", "eval.f1 : f1 stage=0", "reads `x` of stage 1"},
    {"eval.f1 : f1 stage=1", "eval.f1 : f1 stage=7", "stands on stage 7"},
    {"{pipe} stages=(0, 1)", "{pipe} stages=(1)", "over stages that lack it"},
    {"{pipe} stages=(0, 1)", "{pipe} stages=(0, 2)", "or do not exist"},
    {"{pipe} stages=(0, 1)", "{micro} stages=(0, 1)", "or do not exist"},
    {"reduce[e](%x.0) : f32[]", "reduce[e](%x.0) : f32[] stages=(1)", "has pipeline stages"},
    {"micro=4 {", "micro=5 {", "runs piece 0 4 times, not 5"},
    {"micro=4 {", "micro=0 {", "an integer from 1"},
    {"stages=(0, 1) micro", "stages=(0, 2) micro", "an integer from 0"},
    {"stages=(0, 1) micro", "stages=(1, 0) micro", "has an entry of another stage"},
    {"mesh=pipe stages=(0, 1) micro", "mesh=none stages=(0, 1) micro", "unknown mesh axis"},
    {"piece 1 : f=eval.f1", "piece 1 : f=eval.f2", "does not exist"},
    {"piece 1 : f=eval.f1", "piece 1 :", "no forward entry"},
    {"0 -> 1 slots=1", "0 -> 1 slots=0", "an integer from 1"},
    {"stores=(3)", "stores=(2)", "a store that is not its"},
    {"(0F1 0SEND_F1)*2+1", "(0F1 0SEND_F1)*2+2", "out of order"},
    {"(0F1 0SEND_F1)*2+1", "(0F1 0SEND_F1)*0+1", "*count+step"},
    {"(0F1 0SEND_F1)*2+1", "0F1", "out of order"},
    {"0F3 0SEND_F3", "0F3", "an end of channel 0 3 times"},
    {"0F3 0SEND_F3", "0F3 1F3", "an action of piece 1"},
    {"0F3 0SEND_F3", "0F3 0SEND_B3", "a channel that the run lacks"},
    {"0F3 0SEND_F3", "0F3 0B3", "an entry that piece 0 lacks"},
    {"0F3 0SEND_F3", "0F3 0X3", "an action is F, B, W"},
    {"0F3 0SEND_F3", "0F3 0START_SEND_F3 0DONE_SEND_F3", "starts messages and is not direct"},
    {"0F3 0SEND_F3", "(0F3)*1+0", "one period"},
    {"0F3 0SEND_F3", "[0F3 0SEND_F3]*2+1", "runs piece 0 5 times"},
    {"0F3 0SEND_F3", "[0F3 0SEND_F3]*0+1", "after a `]` stands"},
    {"0F3 0SEND_F3", "[0F3 0SEND_F3]*9999999+1", "too long"},
    {"0F3 0SEND_F3", "[0F3]*4000000+1 [0F3]*4000000+1", "too long"},
    {"0F3 0SEND_F3", "[0F3 0SEND_F3", "do not match"},
    {"0F3 0SEND_F3", "0F3 0SEND_F3]*1+1", "do not match"},
    {"0F3 0SEND_F3", "[[0F3 0SEND_F3]*1+1]*1+1", "do not match"},
    {"(0F1 0SEND_F1)*2+1", "([0F1 0SEND_F1)*2+1", "do not match"},
};

static char *replaced(const char *in, const char *from, const char *to)
{
    const char *at = strstr(in, from);
    cr_assert(at, "%s", from);
    DtText text = {0};
    dt_text_add_n(&text, in, (size_t)(at - in));
    dt_text_add(&text, to);
    dt_text_add(&text, at + strlen(from));
    return text.at;
}

static void expect_fault(const char *in, const char *from, const char *to, const char *message)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    char *text = replaced(in, from, to);
    cr_expect_null(dt_irtext_read(arena, diags, text, strlen(text)), "%s", to);
    char *out = diags_text(diags);
    cr_expect(strstr(out, message), "%s -> %s\nwanted: %s\ngot: %s", from, to, message, out);
    free(out);
    free(text);
    dt_arena_free(arena);
}

Test(pipeline, faults_are_found)
{
    for (size_t i = 0; i < DT_COUNT(faults); i++)
        expect_fault(two_stages, faults[i].from, faults[i].to, faults[i].message);
}

static const Fault class_faults[] = {
    {"stage=1 to=2 first=1", "stage=1 first=1", "not one of a class"},
    {"first=1 step=1 whole=4", "first=1 step=3 whole=4", "not one of a class"},
    {"first=1 step=1 whole=4", "first=1 step=-2 whole=4", "not one of a class"},
    {"of=2 within=4 stage=1", "of=2 stage=1", "not one of a class"},
    {"of=2 within=4 stage=1", "of=2 within=2 stage=1", "not one of a class"},
    {"of=2 within=4 stage=1", "of=2 within=9 stage=1", "one that does not exist"},
    {"of=2 within=4 stage=1", "of=4 within=4 stage=1", "receives from its own stage"},
    {"of=4 stage=3 depth=1", "of=4 within=4 stage=3 depth=1", "not one of a class"},
    {"depths=(2 -1 2)", "depths=(2 -2 2)", "not one of a class"},
    {"depths=(2 -1 2)", "depths=(1 0 2)", "not one of a class"},
    {"depths=(2 -1 2)", "depths=(2 -1 3)", "an integer from 1 to 2"},
    {"depths=(2 -1 2)", "depths=(2 -1 1)", "expected `,`"},
    {"stage=1 to=2 depth=1", "stage=1 to=4 depth=1", "stands on stage 1"},
    {"stage=1 to=2 depth=1", "stage=1 to=0 depth=1", "an integer from 1"},
    {"eval.f1 : f1 stage=1 to=2", "eval.f1 : f1 stage=1", "of stage 1"},
    {"eval.f1 : f1 stage=1 to=2", "eval.f1 : f1 stage=1 to=3", "of stage 1"},
    {"piece 3 : f=eval.f3", "piece 3 : f=eval.f1", "an entry of another stage"},
    {"0 -> 1 slots=1 stores=(3)", "0 -> 1 slots=1 stores=(5)", "a store that is not its"},
};

Test(pipeline, faults_of_classes_are_found)
{
    for (size_t i = 0; i < DT_COUNT(class_faults); i++)
        expect_fault(four_stages, class_faults[i].from, class_faults[i].to,
                     class_faults[i].message);
}

Test(pipeline, sums_over_stages_need_a_pipeline)
{
    DtArena *arena = dt_arena_new();
    const char *end = strstr(two_stages, "pipeline \"");
    DtModule *module = dt_irtext_parse(arena, NULL, two_stages, (size_t)(end - two_stages));
    DtText problems = {0};
    cr_assert(module);
    cr_expect_not(dt_verify_module(module, &problems));
    cr_expect(strstr(problems.at, "over stages of no pipeline"), "%s", problems.at);
    dt_text_free(&problems);
    dt_arena_free(arena);
}
