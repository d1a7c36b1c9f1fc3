/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator on plans made by hand, against times worked out by hand. */
#include "plan/report/simulate.h"
#include "tests/report/alike.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const char strings[] = "\0step\0update\0data\0pipe";
enum { STEP = 1, UPDATE = 6, DATA = 13, PIPE = 18 };

typedef struct Sample {
    DtPlanMeta meta;
    DtPlan plan;
    DtDevice device;
    DtCostModel model;
    DtArena *arena;
} Sample;

static const DtPlanMeshAxis mesh[] = {{.name = DATA, .size = 2}};
static const DtPlanGroup groups[] = {{.mask = 1, .size = 2, .queue = 1}};
static const DtPlanObjective objectives[] = {{.step = STEP, .update = UPDATE, .every = 1}};

static void open_sample(Sample *s)
{
    *s = (Sample){.meta = {.n_ranks = 2, .n_micro = 1, .events = 4},
                  .device = dt_device_new("test"),
                  .arena = dt_arena_new()};
    s->device.at[DT_COST_share].value = s->device.at[DT_COST_step].value =
        s->device.at[DT_COST_jitter].value = 0;
    s->model = (DtCostModel){.device = &s->device, .nodes = 1, .ranks_per_node = 8};
    s->plan = (DtPlan){.meta = &s->meta, .n_meta = 1, .mesh = mesh, .n_mesh = 1, .groups = groups,
                       .n_groups = 1, .objectives = objectives, .n_objectives = 1,
                       .strings = strings, .n_strings = sizeof strings};
}

static DtSimulation run(Sample *s, const double *seconds, bool slices)
{
    DtPrice *prices = DT_NEW_ARRAY(s->arena, DtPrice, s->plan.n_insts);
    for (uint32_t i = 0; i < s->plan.n_insts; i++)
        prices[i] = (DtPrice){.seconds = seconds[i], .time = DT_TIME_PRODUCTS,
                              .cost = DT_COST_KIND_PRODUCT};
    const DtSimulateOptions options = {.slices = slices};
    DtSimulation sim;
    dt_simulate(s->arena, &s->plan, &s->model, prices_alike(s->arena, &s->plan, prices), &options,
                &sim);
    return sim;
}

/* Simulates a stage that repeats `count` times: compute for 1 s, wait for the collective of the
 * previous iteration, start one; at the end it waits for the last one. */
static DtSimulation overlap(Sample *s, int count, double collective)
{
    static const DtPlanInst insts[] = {{.kind = DT_INST_GEMM},
                                       {.kind = DT_INST_WAIT, .event = 1},
                                       {.kind = DT_INST_ALL_REDUCE, .ref = 0, .event = 1},
                                       {.kind = DT_INST_WAIT, .event = 1}};
    static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 3},
                                        {.first_inst = 3, .n_insts = 1}};
    DtPlanSchedule *items = DT_NEW_ARRAY(s->arena, DtPlanSchedule, 4);
    items[0] = (DtPlanSchedule){.kind = DT_SCHED_LOOP, .reg = 1, .step = 1, .count = count};
    items[1] = (DtPlanSchedule){.kind = DT_SCHED_RUN, .body = 0};
    items[2] = (DtPlanSchedule){.kind = DT_SCHED_END};
    items[3] = (DtPlanSchedule){.kind = DT_SCHED_RUN, .body = 1};
    static const DtPlanEntry entries[] = {{.name = STEP, .count = 4, .stage = -1}};
    s->plan.insts = insts, s->plan.n_insts = 4, s->plan.bodies = bodies, s->plan.n_bodies = 2;
    s->plan.schedule = items, s->plan.n_schedule = 4, s->plan.entries = entries,
    s->plan.n_entries = 1;
    return run(s, (const double[]){1, 0, collective, 0}, false);
}

Test(simulate, what_repeats_is_left_out_and_counts)
{
    Sample s;
    open_sample(&s);
    const DtSimulation hidden = overlap(&s, 1000000, 0.6), not_all = overlap(&s, 1000, 2.5);
    cr_expect_float_eq(hidden.seconds, 1000000.6, 1e-3, "%f", hidden.seconds);
    cr_expect_float_eq(hidden.stages[0].exposed[0], 0.6, 1e-3, "%f", hidden.stages[0].exposed[0]);
    cr_expect_float_eq(hidden.stages[0].beside[0], 600000, 1e-1, "%f", hidden.stages[0].beside[0]);
    cr_expect_float_eq(not_all.seconds, 1 + 1000 * 2.5, 1e-6, "%f", not_all.seconds);
    cr_expect_float_eq(not_all.stages[0].time[DT_TIME_COLLECTIVES], 999 * 1.5 + 2.5, 1e-6);
    cr_expect(!hidden.estimated && !not_all.estimated);
    dt_arena_free(s.arena);
}

/* Of 8 iterations 2 do more than the others, and one of these contains a loop of which one
 * iteration does more. */
Test(simulate, whens_are_no_repetition)
{
    static const DtPlanInst insts[] = {{.kind = DT_INST_GEMM}, {.kind = DT_INST_GEMM}};
    static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 1},
                                        {.first_inst = 1, .n_insts = 1}};
    static const DtPlanSchedule items[] = {
        {.kind = DT_SCHED_LOOP, .reg = 0, .step = 1, .count = 8},
        {.kind = DT_SCHED_LOOP, .reg = 1, .first = 4, .step = -1, .count = 5},
        {.kind = DT_SCHED_RUN, .body = 0},
        {.kind = DT_SCHED_WHEN, .reg = 0, .first = 3, .count = 2, .body = 2},
        {.kind = DT_SCHED_WHEN, .reg = 1, .first = 0, .count = 1, .body = 1},
        {.kind = DT_SCHED_RUN, .body = 1},
        {.kind = DT_SCHED_END}, {.kind = DT_SCHED_END},
    };
    static const DtPlanEntry entries[] = {{.name = STEP, .count = 8, .stage = -1}};
    Sample s;
    open_sample(&s);
    s.plan.insts = insts, s.plan.n_insts = 2, s.plan.bodies = bodies, s.plan.n_bodies = 2;
    s.plan.schedule = items, s.plan.n_schedule = 8, s.plan.entries = entries, s.plan.n_entries = 1;
    const DtSimulation sim = run(&s, (const double[]){1, 100}, true);
    cr_expect_float_eq(sim.seconds, 8 * 5 + 2 * 100, 1e-9, "%f", sim.seconds);
    cr_expect_eq(sim.n_slices, 8, "a slice for each micro-batch, also those that were left out: %u",
                 sim.n_slices);
    cr_expect_float_eq(sim.slices[7].end, 240, 1e-9, "%f", sim.slices[7].end);
    cr_expect_float_eq(sim.slices[3].end - sim.slices[3].begin, 105, 1e-9);
    dt_arena_free(s.arena);
}

/* A collective beside a computation takes some of the multiprocessors: 1 s of the 3 s of computing
 * is slower. */
Test(simulate, computing_is_slower_beside_a_collective)
{
    static const DtPlanInst insts[] = {{.kind = DT_INST_ALL_REDUCE, .event = 1},
                                       {.kind = DT_INST_GEMM},
                                       {.kind = DT_INST_WAIT, .event = 1}};
    static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 3}};
    static const DtPlanSchedule items[] = {{.kind = DT_SCHED_RUN, .body = 0}};
    static const DtPlanEntry entries[] = {{.name = STEP, .count = 1, .stage = -1}};
    Sample s;
    open_sample(&s);
    s.device.at[DT_COST_share].value = 0.25;
    s.plan.insts = insts, s.plan.n_insts = 3, s.plan.bodies = bodies, s.plan.n_bodies = 1;
    s.plan.schedule = items, s.plan.n_schedule = 1, s.plan.entries = entries, s.plan.n_entries = 1;
    const DtSimulation sim = run(&s, (const double[]){1, 3, 0}, false);
    cr_expect_float_eq(sim.seconds, 3.25, 1e-9, "%f", sim.seconds);
    cr_expect_float_eq(sim.stages[0].time[DT_TIME_SLOWED], 0.25, 1e-9);
    dt_arena_free(s.arena);
}

/* Two stages and a channel with one slot. The first stage sends four messages; the second takes 3 s
 * for each. A message takes 0.5 s, and the first stage may be one message ahead. At the end both
 * stages run a collective together. */
Test(simulate, stages_wait_for_messages_slots_and_each_other)
{
    static const DtPlanMeshAxis axis[] = {{.name = PIPE, .size = 2}};
    static const DtPlanChannel channels[] = {{.from = 0, .to = 1, .slots = 1, .bytes = 4}};
    static const DtPlanInst insts[] = {{.kind = DT_INST_GEMM}, {.kind = DT_INST_SEND},
                                       {.kind = DT_INST_RECV}, {.kind = DT_INST_GEMM},
                                       {.kind = DT_INST_ALL_REDUCE}};
    static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 2},
                                        {.first_inst = 2, .n_insts = 2},
                                        {.first_inst = 4, .n_insts = 1}};
    static const DtPlanSchedule items[] = {
        {.kind = DT_SCHED_LOOP, .reg = 0, .step = 1, .count = 4}, {.kind = DT_SCHED_RUN, .body = 0},
        {.kind = DT_SCHED_END}, {.kind = DT_SCHED_RUN, .body = 2},
        {.kind = DT_SCHED_LOOP, .reg = 0, .step = 1, .count = 4}, {.kind = DT_SCHED_RUN, .body = 1},
        {.kind = DT_SCHED_END}, {.kind = DT_SCHED_RUN, .body = 2},
    };
    static const DtPlanEntry entries[] = {{.name = STEP, .first = 0, .count = 4, .stage = 0},
                                          {.name = STEP, .first = 4, .count = 4, .stage = 1}};
    Sample s;
    open_sample(&s);
    s.meta.pipeline = 1, s.meta.events = 0;
    s.plan.mesh = axis, s.plan.channels = channels, s.plan.n_channels = 1;
    s.plan.insts = insts, s.plan.n_insts = 5, s.plan.bodies = bodies, s.plan.n_bodies = 3;
    s.plan.schedule = items, s.plan.n_schedule = 8, s.plan.entries = entries, s.plan.n_entries = 2;
    const DtSimulation sim = run(&s, (const double[]){1, 0.5, 0, 3, 0.25}, true);
    /* sent at 1, 2 (the slot is free at 1.5), then when the slot is free again: at 4.5 and 7.5;
     * received at 1.5, 4.5, 7.5, 10.5 */
    cr_expect_float_eq(sim.seconds, 13.75, 1e-9, "%f", sim.seconds);
    cr_expect_float_eq(sim.stages[1].time[DT_TIME_BUBBLE], 1.5, 1e-9, "%f",
                       sim.stages[1].time[DT_TIME_BUBBLE]);
    cr_expect_float_eq(sim.stages[0].time[DT_TIME_BUBBLE], 13.5 - 4, 1e-9, "%f",
                       sim.stages[0].time[DT_TIME_BUBBLE]);
    cr_expect_float_eq(sim.stages[0].exposed[0], 0.25, 1e-9);
    cr_expect_eq(sim.n_flows, 4);
    cr_expect_eq(sim.busiest, 1);
    for (uint32_t i = 0; i < 2; i++) {
        double sum = 0;
        for (int t = 0; t < DT_TIMES; t++)
            sum += sim.stages[i].time[t];
        cr_expect_float_eq(sum, sim.seconds, 1e-9, "the parts of stage %u add up to %f", i, sum);
    }
    dt_arena_free(s.arena);
}

/* A message that both ends start: each computes meanwhile, and waits for the rest of the transfer.
 * If the sender does not start it, the other one waits for ever. */
Test(simulate, messages_that_are_started_go_on_beside_computing)
{
    static const DtPlanMeshAxis axis[] = {{.name = PIPE, .size = 2}};
    static const DtPlanChannel channels[] = {{.from = 0, .to = 1, .slots = 1, .bytes = 4,
                                              .direct = 1}};
    static const DtPlanInst insts[] = {{.kind = DT_INST_SEND, .event = 1}, {.kind = DT_INST_GEMM},
                                       {.kind = DT_INST_WAIT, .event = 1},
                                       {.kind = DT_INST_RECV, .event = 2}, {.kind = DT_INST_GEMM},
                                       {.kind = DT_INST_WAIT, .event = 2}, {.kind = DT_INST_GEMM}};
    static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 3},
                                        {.first_inst = 3, .n_insts = 4}};
    static const DtPlanSchedule items[] = {{.kind = DT_SCHED_RUN, .body = 0},
                                           {.kind = DT_SCHED_RUN, .body = 1}};
    static const DtPlanEntry entries[] = {{.name = STEP, .first = 0, .count = 1, .stage = 0},
                                          {.name = STEP, .first = 1, .count = 1, .stage = 1}};
    Sample s;
    open_sample(&s);
    s.meta.pipeline = 1;
    s.plan.mesh = axis, s.plan.channels = channels, s.plan.n_channels = 1;
    s.plan.insts = insts, s.plan.n_insts = 7, s.plan.bodies = bodies, s.plan.n_bodies = 2;
    s.plan.schedule = items, s.plan.n_schedule = 2, s.plan.entries = entries, s.plan.n_entries = 2;
    const DtSimulation hidden = run(&s, (const double[]){0.5, 1, 0, 0, 3, 0, 1}, false);
    cr_expect_float_eq(hidden.seconds, 4, 1e-9, "%f", hidden.seconds);
    cr_expect_float_eq(hidden.stages[0].time[DT_TIME_MESSAGES], 0, 1e-9);
    const DtSimulation late = run(&s, (const double[]){5, 1, 0, 0, 3, 0, 1}, false);
    cr_expect_float_eq(late.seconds, 6, 1e-9, "%f", late.seconds);
    cr_expect_float_eq(late.stages[0].time[DT_TIME_MESSAGES], 4, 1e-9);
    cr_expect_float_eq(late.stages[1].time[DT_TIME_BUBBLE], 2, 1e-9);
    cr_expect(!hidden.stuck && !late.stuck);
    s.plan.entries = entries + 1, s.plan.n_entries = 1;
    cr_expect(run(&s, (const double[]){5, 1, 0, 0, 3, 0, 1}, false).stuck);
    dt_arena_free(s.arena);
}
