/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of two kinds, on plans made by hand: the devices of stages, the prices of instructions
 * there, memory, peaks. */
#include "plan/kinds.h"
#include "plan/report/nodes.h"
#include "plan/report/simulate.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const char strings[] = "\0step\0update\0data\0pipe";
enum { STEP = 1, UPDATE = 6, DATA = 13, PIPE = 18 };

static const DtPlanObjective objectives[] = {{.step = STEP, .update = UPDATE, .every = 1}};
static const DtPlanMeshAxis pipe_first[] = {{.name = PIPE, .size = 3}, {.name = DATA, .size = 2}};
static const DtPlanMeshAxis pipe_last[] = {{.name = DATA, .size = 2}, {.name = PIPE, .size = 3}};

typedef struct Sample {
    DtPlanMeta meta;
    DtPlan plan;
    DtDevice fast, slow;
    DtCostModel model;
    DtArena *arena;
} Sample;

static DtDevice device_of(const char *name, double speed, double bytes)
{
    DtDevice device = dt_device_new(name);
    device.units = 100;
    device.flops[DT_COST_F32] = speed * 1e12;
    device.memory_rate = 1e12;
    device.memory_bytes = bytes;
    device.link = (DtCostLink){100e9, 1e-6};
    device.nic = (DtCostLink){speed * 1e9, 1e-6};
    device.at[DT_COST_share].value = device.at[DT_COST_step].value =
        device.at[DT_COST_jitter].value = 0;
    return device;
}

/* Makes a plan on three nodes of two ranks: a fast node comes first, then two slow ones. */
static void open_sample(Sample *s)
{
    *s = (Sample){.meta = {.n_ranks = 6, .n_micro = 1, .pipeline = 1},
                  .fast = device_of("fast", 40, 100e6), .slow = device_of("slow", 10, 50e6),
                  .arena = dt_arena_new()};
    s->model = (DtCostModel){.device = &s->fast, .nodes = 3, .ranks_per_node = 2, .n_kinds = 2,
                             .kinds = {{&s->fast, 1}, {&s->slow, 2}}};
    s->plan = (DtPlan){.meta = &s->meta, .n_meta = 1, .mesh = pipe_first, .n_mesh = 2,
                       .objectives = objectives, .n_objectives = 1, .strings = strings,
                       .n_strings = sizeof strings};
}

Test(nodes, stages_are_on_consecutive_nodes)
{
    Sample s;
    open_sample(&s);
    const uint32_t first[] = {1, 2, 2}, last[] = {3, 3, 2};
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_eq(dt_nodes_of(&s.plan, &s.model, i), first[i], "stage %u", i);
    cr_expect_str_eq(dt_nodes_say(s.arena, &s.plan, &s.model), "2 fast and 4 slow");
    cr_expect_float_eq(dt_price_peak(&s.plan, &s.model, DT_PLAN_F32), 20e12, 1);
    s.plan.mesh = pipe_last, s.meta.pipeline = 2;
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_eq(dt_nodes_of(&s.plan, &s.model, i), last[i], "stage %u of replicas", i);
    cr_expect_str_eq(dt_nodes_say_stage(s.arena, &s.plan, &s.model, 0), "fast and slow");
    s.meta.pipeline = 0;
    cr_expect_eq(dt_nodes_of(&s.plan, &s.model, 0), 3, "without a pipeline");
    dt_arena_free(s.arena);
}

/* A message from a fast stage to a slow one takes as long as the slow one's network card needs; so
 * does a collective of all stages. */
Test(nodes, instructions_are_priced_on_their_stage)
{
    static const DtPlanGemm gemms[] = {{.m = 4096, .n = 4096, .k = 4096, .a_row = 4096, .a_col = 1,
                                        .b_row = 4096, .b_col = 1, .dtype_a = DT_PLAN_F32,
                                        .dtype_b = DT_PLAN_F32, .dtype_c = DT_PLAN_F32}};
    static const DtPlanChannel channels[] = {{.from = 0, .to = 1, .slots = 1},
                                             {.from = 1, .to = 2, .slots = 1}};
    static const DtPlanGroup groups[] = {{.mask = 1, .size = 3, .queue = 1},
                                         {.mask = 2, .size = 2, .queue = 2}};
    static const DtPlanInst insts[] = {{.kind = DT_INST_GEMM},
                                       {.kind = DT_INST_SEND, .count = 1 << 22,
                                        .dtype = DT_PLAN_F32},
                                       {.kind = DT_INST_ALL_REDUCE, .count = 1 << 22,
                                        .dtype = DT_PLAN_F32},
                                       {.kind = DT_INST_ALL_REDUCE, .ref = 1, .count = 1 << 22,
                                        .dtype = DT_PLAN_F32}};
    Sample s;
    open_sample(&s);
    s.plan.gemms = gemms, s.plan.n_gemms = 1, s.plan.channels = channels, s.plan.n_channels = 2;
    s.plan.groups = groups, s.plan.n_groups = 2, s.plan.insts = insts, s.plan.n_insts = 4;
    const DtPrices prices = dt_price_plan(s.arena, &s.plan, &s.model);
    double alone[2][4];
    for (uint32_t k = 0; k < 2; k++) {
        const DtCostModel one = dt_cost_on(&s.model, k);
        for (uint32_t i = 0; i < 4; i++)
            alone[k][i] = dt_price_plan(s.arena, &s.plan, &one)[0][i].seconds;
    }
    cr_expect_gt(alone[1][0], 3 * alone[0][0], "the product takes %g and %g s", alone[0][0],
                 alone[1][0]);
    cr_expect_gt(alone[1][1], 3 * alone[0][1], "the message takes %g and %g s", alone[0][1],
                 alone[1][1]);
    for (uint32_t stage = 0; stage < 3; stage++) {
        cr_expect_eq(prices[stage][0].seconds, alone[stage > 0][0]);
        cr_expect_eq(prices[stage][1].seconds, alone[1][1], "a message to a slow stage");
        cr_expect_eq(prices[stage][2].seconds, alone[1][2], "a collective of all stages");
        cr_expect_eq(prices[stage][3].seconds, alone[stage > 0][3]);
    }
    cr_expect_eq(prices[1], prices[2], "stages of one kind have one array");
    dt_arena_free(s.arena);
}

/* Both stages run the same entry, and the second stage takes longer on its device: repeated work is
 * recorded for each stage separately. */
Test(nodes, stages_that_do_the_same_take_their_own_time)
{
    static const DtPlanInst insts[] = {{.kind = DT_INST_GEMM}};
    static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 1}};
    static const DtPlanSchedule items[] = {{.kind = DT_SCHED_RUN, .body = 0},
                                           {.kind = DT_SCHED_LOOP, .step = 1, .count = 5},
                                           {.kind = DT_SCHED_CALL, .body = 1},
                                           {.kind = DT_SCHED_END}};
    static const DtPlanEntry entries[] = {{.name = STEP, .first = 1, .count = 3, .stage = -1},
                                          {.name = DATA, .first = 0, .count = 1, .stage = -1}};
    const DtPrice fast = {.seconds = 1, .time = DT_TIME_PRODUCTS},
                  slow = {.seconds = 3, .time = DT_TIME_PRODUCTS};
    const DtPrice *const prices[] = {&fast, &slow, &slow};
    const DtSimulateOptions options = {.slices = false};
    Sample s;
    DtSimulation sim;
    open_sample(&s);
    s.plan.insts = insts, s.plan.n_insts = 1, s.plan.bodies = bodies, s.plan.n_bodies = 1;
    s.plan.schedule = items, s.plan.n_schedule = 4, s.plan.entries = entries, s.plan.n_entries = 2;
    dt_simulate(s.arena, &s.plan, &s.model, prices, &options, &sim);
    cr_expect_float_eq(sim.seconds, 15, 1e-9, "%f", sim.seconds);
    cr_expect_float_eq(sim.stages[0].time[DT_TIME_PRODUCTS], 5, 1e-9);
    cr_expect_float_eq(sim.stages[0].time[DT_TIME_BUBBLE], 10, 1e-9);
    cr_expect_float_eq(sim.stages[2].time[DT_TIME_PRODUCTS], 15, 1e-9);
    dt_arena_free(s.arena);
}

/* 60 MB of a device's 100 MB are a smaller share than 40 MB of 50 MB. */
Test(nodes, least_room_is_a_share_of_the_device)
{
    static const DtPlanArena arenas[] = {{.kind = DT_ARENA_PARAMS}};
    static const DtPlanArenaSize sizes[] = {{.bytes = 60000000}, {.bytes = 30000000},
                                            {.bytes = 40000000}};
    Sample s;
    DtMemory memory;
    open_sample(&s);
    s.plan.arenas = arenas, s.plan.n_arenas = 1, s.plan.sizes = sizes, s.plan.n_sizes = 3;
    cr_expect_eq(dt_nodes_worst(&s.plan, &s.model, false, &memory), &s.slow);
    cr_expect_eq(memory.stage, 2);
    cr_expect_float_eq(dt_cost_larger(&s.model, 2), 2, 1e-12);
    cr_expect_float_eq(dt_cost_larger(&s.model, 1), 1, 1e-12);
    s.model.n_kinds = 0;
    cr_expect_eq(dt_nodes_worst(&s.plan, &s.model, false, &memory), &s.fast);
    cr_expect_eq(memory.stage, 0);
    dt_arena_free(s.arena);
}
