/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a report against numbers worked out by hand. */
#include "plan/report/text.h"

#include "plan/kinds.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Two ranks. "step": 4 micro-batches, each: body 0 (kernel, gemm), 3 layers of body 1 (gemm); then
 * body 2 (all_reduce of 1000 f32, all_gather of 100 i32). */
static const char strings[] = "\0step\0data\0m.dsl\0cpu-v3\0k0\0h.wq";
enum { STEP = 1, DATA = 6, SOURCE = 11, TARGET = 17, KERNEL = 24, PATH = 27 };

static const DtPlanMeta meta = {.source = SOURCE, .target = TARGET, .n_ranks = 2, .n_micro = 4,
                                .batch = 64, .parameters = 1234};
static const DtPlanMeshAxis mesh[] = {{.name = DATA, .size = 2}};
static const DtPlanGroup groups[] = {{.mask = 1, .size = 2}, {.mask = 3, .size = 8}};
static const DtPlanArena arenas[] = {{.kind = DT_ARENA_PARAMS, .bytes = 4096},
                                     {.kind = DT_ARENA_ACTIVATIONS, .bytes = 1000},
                                     {.kind = DT_ARENA_ACTIVATIONS, .bytes = 24}};
static const DtPlanKernel kernels[] = {{.name = KERNEL, .flops = 50, .bytes = 7}};
static const DtPlanGemm gemms[] = {{.n_batch = 2, .batch = {2, 3}, .m = 4, .n = 5, .k = 6},
                                   {.m = 10, .n = 10, .k = 10}};
static const DtPlanInst insts[] = {
    {.kind = DT_INST_KERNEL},
    {.kind = DT_INST_GEMM, .ref = 0},
    {.kind = DT_INST_GEMM, .ref = 1, .span = 1},
    {.kind = DT_INST_ALL_REDUCE, .ref = 0, .dtype = DT_PLAN_F32, .count = 1000},
    {.kind = DT_INST_ALL_GATHER, .ref = 1, .dtype = DT_PLAN_I32, .count = 100},
};
static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 2},
                                    {.first_inst = 2, .n_insts = 1},
                                    {.first_inst = 3, .n_insts = 2}};
static const DtPlanSchedule schedule[] = {
    {.kind = DT_SCHED_LOOP, .count = 4}, {.kind = DT_SCHED_RUN, .body = 0},
    {.kind = DT_SCHED_LOOP, .count = 3}, {.kind = DT_SCHED_RUN, .body = 1},
    {.kind = DT_SCHED_END},              {.kind = DT_SCHED_END},
    {.kind = DT_SCHED_RUN, .body = 2},
};
static const DtPlanEntry entries[] = {{.name = STEP, .first = 0, .count = 7}};
static const DtPlanObjective objectives[] = {{.step = STEP, .update = STEP, .every = 1}};
static const DtPlanSpan spans[] = {{0}, {.file = SOURCE, .path = PATH, .line = 9}};

static DtPlan sample(void)
{
    return (DtPlan){.meta = &meta, .n_meta = 1, .mesh = mesh, .n_mesh = 1, .groups = groups,
                    .n_groups = 2, .arenas = arenas, .n_arenas = 3, .kernels = kernels,
                    .n_kernels = 1, .gemms = gemms, .n_gemms = 2, .insts = insts, .n_insts = 5,
                    .bodies = bodies, .n_bodies = 3, .schedule = schedule, .n_schedule = 7,
                    .entries = entries, .n_entries = 1, .objectives = objectives, .n_objectives = 1,
                    .spans = spans, .n_spans = 2, .strings = strings, .n_strings = sizeof strings};
}

Test(report, runs_multiply_through_loops)
{
    DtPlan plan = sample();
    int64_t runs[5];
    dt_report_runs(&plan, 0, runs);
    const int64_t wanted[5] = {4, 4, 12, 1, 1};
    for (int i = 0; i < 5; i++)
        cr_expect_eq(runs[i], wanted[i], "instruction %d runs %lld times", i, (long long)runs[i]);
}

/* Only those iterations of a loop count that a guard lets run, with the iterations of loops inside
 * of them. */
Test(report, guards_count_some_iterations)
{
    static const DtPlanSchedule items[] = {
        {.kind = DT_SCHED_LOOP, .reg = 1, .first = 6, .step = -2, .count = 4}, /* 6, 4, 2, 0 */
        {.kind = DT_SCHED_LOOP, .reg = 2, .step = 1, .count = 5},
        {.kind = DT_SCHED_WHEN, .reg = 1, .first = 1, .count = 4, .body = 2}, /* 4, 2 */
        {.kind = DT_SCHED_SET, .reg = 7, .body = 1, .step = 1, .count = 2},
        {.kind = DT_SCHED_RUN, .body = 0},
        {.kind = DT_SCHED_WHEN, .reg = 2, .first = 3, .count = 9, .body = 1}, /* 3, 4 */
        {.kind = DT_SCHED_RUN, .body = 1},
        {.kind = DT_SCHED_WHEN, .reg = 2, .count = 1, .body = 2},                /* 0, */
        {.kind = DT_SCHED_WHEN, .reg = 1, .first = 2, .count = 3, .body = 1}, /* and of that 4, 2 */
        {.kind = DT_SCHED_RUN, .body = 2},
        {.kind = DT_SCHED_RUN, .body = 2},
        {.kind = DT_SCHED_END}, {.kind = DT_SCHED_END},
    };
    static const DtPlanEntry entry = {.name = STEP, .count = DT_COUNT(items)};
    DtPlan plan = sample();
    DtText order = {0};
    int64_t runs[5];
    plan.schedule = items, plan.n_schedule = DT_COUNT(items), plan.entries = &entry;
    dt_report_runs(&plan, 0, runs);
    const int64_t wanted[5] = {10, 10, 8, 22, 22};
    for (int i = 0; i < 5; i++)
        cr_expect_eq(runs[i], wanted[i], "instruction %d runs %lld times", i, (long long)runs[i]);
    plan.n_spans = 0, plan.n_kernels = 0;
    dt_report_schedule(&plan, &order);
    cr_expect(strstr(order.at, "      if 1 <= r1 < 5:\n        r7 = (r1) mod 2\n") &&
                  strstr(order.at, "      if 3 <= r2 < 12:\n") &&
                  strstr(order.at, "      if 0 <= r2 < 1:\n        if 2 <= r1 < 5:\n          "),
              "%s", order.at);
    dt_text_free(&order);
}

Test(report, work_and_traffic)
{
    DtPlan plan = sample();
    DtReportEntry e;
    dt_report_entry(&plan, 0, &e);
    cr_expect_str_eq(e.name, "step");
    cr_expect_eq(e.flops[DT_INST_KERNEL], 200);
    cr_expect_eq(e.flops[DT_INST_GEMM], 4 * 2.0 * 2 * 3 * 4 * 5 * 6 + 12 * 2000.0);
    cr_expect_eq(e.received[DT_INST_ALL_REDUCE], 4000); /* 2 v (n-1)/n with v = 4000, n = 2 */
    cr_expect_eq(e.received[DT_INST_ALL_GATHER], 2800); /* 7 other parts of 400 bytes */
}

/* Closed forms, of all members: 2 v (n-1), v (n-1), v (n-1), v (n-1)/n and v for a tensor of v
 * bytes. */
Test(report, closed_forms_of_collectives)
{
    enum { RANKS = 4, ELEMENTS = 64, V = 4 * ELEMENTS };
    static const DtPlanGroup four = {.mask = 1, .size = RANKS};
    static const struct { uint16_t kind; int64_t count; double members; } cases[] = {
        {DT_INST_ALL_REDUCE, ELEMENTS, 2 * V * (RANKS - 1)},
        {DT_INST_ALL_GATHER, ELEMENTS / RANKS, V * (RANKS - 1)},
        {DT_INST_REDUCE_SCATTER, ELEMENTS / RANKS, V * (RANKS - 1)},
        {DT_INST_ALL_TO_ALL, ELEMENTS / RANKS / RANKS, V * (RANKS - 1) / RANKS},
        {DT_INST_SHIFT, ELEMENTS / RANKS, V},
        {DT_INST_SHIFT_BACK, ELEMENTS / RANKS, V},
    };
    DtPlan plan = sample();
    plan.groups = &four;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DtPlanInst inst = {.kind = cases[i].kind, .dtype = DT_PLAN_F32, .count = cases[i].count};
        cr_expect_eq(dt_report_members(&plan, &inst), cases[i].members, "kind %u", inst.kind);
        cr_expect_eq(dt_report_received(&plan, &inst), cases[i].members / RANKS, "kind %u",
                     inst.kind);
    }
}

Test(report, traffic_of_groups)
{
    DtPlan plan = sample();
    DtReportTraffic sums[2], channels[1];
    dt_report_traffic(&plan, sums, channels);
    cr_expect_eq(sums[0].runs, 1);
    cr_expect_eq(sums[0].received, 8000); /* both ranks together */
    cr_expect_eq(sums[1].received, 5600);
}

Test(report, text)
{
    DtPlan plan = sample();
    DtText text = {0};
    dt_report_details(&plan, &text);
    cr_expect(strstr(
        text.at,
        "m.dsl for cpu-v3: 2 ranks (data = 2), batch of 64 in 4 micro-batches, 1234 parameters"));
    cr_expect(strstr(text.at, "activations                1024 B"), "%s", text.at);
    cr_expect(strstr(text.at, "total                      5120 B"), "%s", text.at);
    cr_expect(strstr(text.at, "m.dsl:9 h.wq"), "%s", text.at);
    dt_text_free(&text);
}

Test(report, json)
{
    DtPlan plan = sample();
    DtText text = {0};
    DtArena *arena = dt_arena_new();
    DtSummary summary;
    dt_summary_make(arena, &plan, NULL, &(DtReportOptions){.tokens = 0}, &summary);
    dt_json_report(&summary, &text);
    json_t *root = json_loads(text.at, 0, NULL);
    cr_assert_not_null(root, "%s", text.at);
    const json_t *stages = json_object_get(json_object_get(root, "memory"), "stages");
    cr_expect_eq(json_array_size(stages), 1);
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(stages, 0), "total")), 5120);
    cr_expect(json_is_null(json_object_get(root, "time")), "the plan names no device");
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(root, "mesh"), "data")), 2);
    const json_t *entry = json_array_get(json_object_get(root, "entries"), 0);
    cr_expect_eq(json_array_size(json_object_get(entry, "instructions")), 4);
    /* the row with the most */
    const json_t *products = json_object_get(root, "gemms"), *gemm = json_array_get(products, 0);
    cr_expect_eq(json_array_size(products), 2);
    cr_expect_eq(json_integer_value(json_object_get(gemm, "runs")), 12);
    cr_expect_eq(json_integer_value(json_object_get(gemm, "m")), 10);
    cr_expect_eq(json_real_value(json_object_get(gemm, "flops")), 12 * 2000.0);
    cr_expect_eq(json_integer_value(json_object_get(gemm, "line")), 9);
    cr_expect_str_eq(json_string_value(json_object_get(gemm, "path")), "h.wq");
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(products, 1), "batch")), 6);
    const json_t *kernel = json_array_get(json_object_get(root, "kernels"), 0);
    cr_expect_eq(json_integer_value(json_object_get(kernel, "runs")), 4);
    cr_expect_eq(json_real_value(json_object_get(kernel, "bytes")), 28);
    cr_expect_null(json_object_get(kernel, "line"), "it has no place");
    json_decref(root);
    dt_text_free(&text);
    dt_arena_free(arena);
}

/* A kernel for two targets, which spills registers for one of them; other kernels for the first
 * target alone. */
Test(report, registers_by_target)
{
    static const char more[] = "sm_80\0sm_90a\0gelu"; /* strings are appended after the names of the
                                                       * sample */
    char names[1024];
    DtPlan plan = sample();
    const DtPlanStr at = plan.n_strings;
    cr_assert(at + sizeof more <= sizeof names);
    memcpy(names, plan.strings, at);
    memcpy(names + at, more, sizeof more);
    const DtPlanMeta gpu = {.source = at + 13, .target = at, .n_ranks = 1, .n_micro = 1};
    const DtPlanKernel two[] = {{.name = at + 13}, {.name = at + 13, .span = 1}};
    static const DtPlanLaunch launches[2] = {{.blocks = 1, .threads = 32},
                                             {.blocks = 1, .threads = 32}};
    const DtPlanCode codes[] = {{.target = at}, {.target = at + 6}};
    static const DtPlanRegisters registers[] = {{0, 0, 40, 0}, {0, 1, 44, 0}, {1, 0, 255, 8}};
    plan.meta = &gpu, plan.strings = names, plan.n_strings = at + sizeof more;
    plan.kernels = two, plan.n_kernels = 2, plan.launches = launches, plan.n_launches = 2;
    plan.codes = codes, plan.n_codes = 2, plan.registers = registers, plan.n_registers = 3;
    DtReportCode code;
    cr_assert(dt_report_code(&plan, 0, &code));
    cr_expect_str_eq(code.target, "sm_80");
    cr_expect(code.kernels == 2 && code.registers == 255);
    cr_expect(code.spilling == 1 && code.worst == 1 && code.spilled == 8);
    cr_assert(dt_report_code(&plan, 1, &code));
    cr_expect_str_eq(code.target, "sm_90a");
    cr_expect(code.kernels == 1 && code.registers == 44 && !code.spilling && !code.spilled);
    cr_expect_not(dt_report_code(&plan, 2, &code));
    DtArena *arena = dt_arena_new();
    DtSummary summary;
    DtText text = {0}, details = {0}, json = {0};
    dt_summary_make(arena, &plan, NULL, &(DtReportOptions){.tokens = 0}, &summary);
    dt_text_report(&summary, &text);
    cr_expect(
        strstr(
            text.at,
            "code            sm_80: 2 kernels, at most 255 registers a thread, 1 of them spills; "
            "most 8 bytes:"),
        "%s", text.at);
    cr_expect(
        strstr(text.at,
               "                sm_90a: 1 kernels, at most 44 registers a thread, none spills\n"),
        "%s", text.at);
    dt_report_details(&plan, &details);
    cr_expect(strstr(details.at, "  sm_80 40 registers, sm_90a 44 registers\n"), "%s", details.at);
    dt_json_report(&summary, &json);
    json_t *root = json_loads(json.at, 0, NULL);
    const json_t *list = json_object_get(root, "code"),
                 *kernel = json_array_get(json_object_get(root, "kernels"), 0);
    cr_expect_eq(json_array_size(list), 2);
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(list, 0), "spilling")), 1);
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(list, 1), "registers")), 44);
    cr_expect_eq(json_array_size(json_object_get(kernel, "code")), 2);
    json_decref(root);
    text.len = 0;
    plan.n_registers = 0; /* there is no code for this target */
    dt_text_report(&summary, &text);
    cr_expect(strstr(text.at, "code            none: "), "%s", text.at);
    dt_text_free(&text);
    dt_text_free(&details);
    dt_text_free(&json);
    dt_arena_free(arena);
}

/* Two stages: each calls its part four times; their memory differs. */
Test(report, parts_count_where_they_are_called)
{
    /* records of the sample that name something else are empty here */
    static const char names[200] = "\0step\0piece\0pipe";
    static const DtPlanMeta two = {.n_ranks = 2, .n_micro = 4, .pipeline = 1};
    static const DtPlanMeshAxis axis[] = {{.name = 12, .size = 2}};
    static const DtPlanArenaSize sizes[] = {{100}, {0}, {0}, {60}, {0}, {0}};
    static const DtPlanSchedule items[] = {
        {.kind = DT_SCHED_RUN, .body = 0},
        {.kind = DT_SCHED_LOOP, .reg = 7, .count = 4},
        {.kind = DT_SCHED_SET, .reg = 0, .body = 7, .step = 1, .first = 1},
        {.kind = DT_SCHED_SET, .reg = 5, .body = 7, .step = 1, .first = 1, .count = 2},
        {.kind = DT_SCHED_CALL, .body = 0}, {.kind = DT_SCHED_END},
    };
    static const DtPlanEntry parts[] = {{.name = 6, .first = 0, .count = 1, .stage = -1},
                                        {.name = 1, .first = 1, .count = 5, .stage = 0},
                                        {.name = 1, .first = 1, .count = 5, .stage = 1}};
    DtPlan plan = sample();
    DtText text = {0}, order = {0};
    int64_t runs[5];
    plan.meta = &two, plan.mesh = axis, plan.strings = names, plan.n_strings = sizeof names;
    plan.sizes = sizes, plan.n_sizes = 6, plan.schedule = items, plan.n_schedule = 6;
    plan.entries = parts, plan.n_entries = 3;
    plan.n_spans = 0, plan.n_kernels = 0;
    dt_report_runs(&plan, 1, runs);
    cr_expect_eq(runs[0], 4);
    cr_expect(dt_report_is_part(&plan, 0) && !dt_report_is_part(&plan, 1));
    dt_report_details(&plan, &text);
    cr_expect(strstr(text.at, "memory of one rank of stage 1"), "%s", text.at);
    cr_expect(strstr(text.at, "step, on one rank of stages 0 to 1"), "%s", text.at);
    cr_expect_null(strstr(text.at, "piece"), "%s", text.at);
    dt_report_schedule(&plan, &order);
    cr_expect(strstr(order.at, "step, stage 1\n  4 times"), "%s", order.at);
    cr_expect(strstr(order.at, "    r0 = r7 + 1\n    r5 = (r7 + 1) mod 2\n    piece\n"), "%s",
              order.at);
    dt_text_free(&text);
    dt_text_free(&order);
}
