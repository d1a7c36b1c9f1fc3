/* SPDX-License-Identifier: Apache-2.0 */
/* A program like dtrun for tests of the supervisor: the real supervisor, communicator, schedule and
 * training loop, on a plan made by hand, whose only work (a `zero`) does what a scenario wants in
 * step 4 on rank 1.
 *
 *   run_ranks SCENARIO RANKS [RESTARTS [TIMEOUT [STEPS]]]
 *
 * It prints "pid N" for every rank and "ACT" when the scenario acts. */
#include "ranks.h"

#include "runtime/train.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ACT_STEP = 3, /* the step, counted from 0 */ ACT_RANK = 1 };

static Ranks all;
static DtRun run;
static const char *scenario;
static double seconds; /* seconds of scenario `busy` */

/* ---- work ---- */

static void tell(const char *format, long number)
{
    char text[64];
    int n = snprintf(text, sizeof text, format, number);
    if (write(STDOUT_FILENO, text, (size_t)n) != n)
        _exit(9);
}

static void compute(uint64_t ns)
{
    uint64_t began = dt_now_ns();
    for (volatile uint64_t i = 0; dt_now_ns() - began < ns; i++)
        ;
}

static void sleep_forever(void)
{
    for (;;)
        pause();
}

static void look_forever(void)
{
    for (;;)
        usleep(1000);
}

/* The other ranks wait for rank 1 in the all-reduce. */
static void wait_for_rank_2(void)
{
    while (!dt_rank_aborted(&run.rank)) {
        dt_shared_wait(run.rank.slot, 2, dt_now_ns());
        usleep(20000);
    }
}

static void act(void)
{
    tell("ACT\n", 0);
    if (strcmp(scenario, "killed") == 0 || strcmp(scenario, "restart") == 0)
        raise(SIGKILL);
    else if (strcmp(scenario, "crash") == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        raise(SIGABRT);
    } else if (strcmp(scenario, "exit") == 0)
        _exit(3);
    else if (strcmp(scenario, "stopped") == 0)
        raise(SIGSTOP);
    else if (strcmp(scenario, "idle") == 0)
        sleep_forever();
    else if (strcmp(scenario, "looks") == 0)
        look_forever();
    else if (strcmp(scenario, "cycle") == 0)
        wait_for_rank_2();
    else if (strcmp(scenario, "slow") == 0)
        compute(5000000000u);
    else if (strcmp(scenario, "endless") == 0)
        compute(60000000000u);
    else if (strcmp(scenario, "fails") == 0)
        dt_rank_fail(&run.rank, DT_EXIT_IO, "the disk is full of leaves");
}

static void work(DtDeviceState *state, DtDeviceAt to, int64_t bytes)
{
    static uint64_t began;
    (void)state, (void)to, (void)bytes;
    if (strcmp(scenario, "busy") == 0) {
        began = began ? began : dt_now_ns();
        compute(((uint64_t)run.rank.rank * 7 + (uint64_t)run.rank.step * 3) % 20 * 2000000);
        if (run.rank.rank == 0 && (double)(dt_now_ns() - began) > seconds * 1e9)
            atomic_store(&run.rank.shared->stop, 1);
        return;
    }
    if (run.rank.step == ACT_STEP && run.rank.rank == ACT_RANK && run.rank.shared->attempt == 0)
        act();
    else
        compute(2000000);
}

/* ---- the plan ---- */

static const char strings[] = "\0step\0update\0model.dsl\0h.0.mix\0mix(x)\0loss";
enum { STR_STEP = 1, STR_UPDATE = 6, STR_FILE = 13, STR_PATH = 23, STR_TEXT = 31, STR_LOSS = 38 };

static const DtPlanArg args[] = {
    {.kind = DT_ARG_ADDRESS, .arena = RANKS_SHARED, .bytes = 4096, .written = 1}};
static const DtPlanInst insts[] = {
    {.kind = DT_INST_ZERO, .n_args = 1, .count = 4096, .span = 1},
    {.kind = DT_INST_ALL_REDUCE, .n_args = 1, .count = 1024, .dtype = DT_PLAN_F32, .span = 1},
    {.kind = DT_INST_ALL_REDUCE, .n_args = 1, .count = 1, .dtype = DT_PLAN_F32}};
static const DtPlanBody bodies[] = {{.first_inst = 0, .n_insts = 2},
                                    {.first_inst = 2, .n_insts = 1}};
static const DtPlanSchedule schedule[] = {{.kind = DT_SCHED_RUN, .body = 0},
                                          {.kind = DT_SCHED_RUN, .body = 1}};
static const DtPlanEntry entries[] = {{.name = STR_STEP, .first = 0, .count = 1},
                                      {.name = STR_UPDATE, .first = 1, .count = 1}};
static const DtPlanObjective objectives[] = {
    {.loss = STR_LOSS, .step = STR_STEP, .update = STR_UPDATE, .every = 1}};
static const DtPlanSpan spans[] = {
    {0}, {.file = STR_FILE, .path = STR_PATH, .text = STR_TEXT, .line = 5, .column = 3}};

static void make_plan(uint32_t n_ranks, int64_t steps)
{
    DtPlan *plan = &all.plan;
    ranks_plan(&all, n_ranks);
    plan->n_mesh = 1; /* one group of all ranks, one stage */
    plan->n_channels = all.meta.pipeline = 0;
    all.mesh[0].size = n_ranks;
    all.groups[0] = (DtPlanGroup){.mask = 1, .size = n_ranks};
    all.arenas[RANKS_SHARED].bytes = all.arenas[RANKS_PRIVATE].bytes = 4096;
    all.meta.steps = steps;
    plan->n_groups = 1;
    plan->args = args, plan->n_args = DT_COUNT(args);
    plan->insts = insts, plan->n_insts = DT_COUNT(insts);
    plan->bodies = bodies, plan->n_bodies = DT_COUNT(bodies);
    plan->schedule = schedule, plan->n_schedule = DT_COUNT(schedule);
    plan->entries = entries, plan->n_entries = DT_COUNT(entries);
    plan->objectives = objectives, plan->n_objectives = DT_COUNT(objectives);
    plan->spans = spans, plan->n_spans = DT_COUNT(spans);
    plan->strings = strings, plan->n_strings = sizeof strings;
    plan->digest = 42;
}

/* ---- the two roles ---- */

static int be_rank(uint32_t rank, int fd)
{
    static DtDeviceOps device;
    dt_supervisor_bind(fd);
    if (strcmp(scenario, "digest") == 0 && rank == ACT_RANK)
        all.plan.digest = 43;
    DtStatus status = dt_load_rank(&all.options, &all.plan, rank, fd, &run.rank);
    if (!dt_status_ok(&status))
        return status.code;
    tell("pid %ld\n", (long)getpid());
    device = *run.rank.device_ops;
    device.zero = work;
    run.rank.device_ops = &device;
    int code = dt_train_loaded(&run);
    dt_load_close(&run.rank);
    if (strcmp(scenario, "stays") == 0 && rank == ACT_RANK)
        sleep_forever();
    return code;
}

int main(int argc, char **argv)
{
    int at = argc > 4 && strcmp(argv[1], "--rank") == 0 ? 4 : 0;
    if (argc < at + 3)
        return DT_EXIT_USAGE;
    scenario = argv[at + 1];
    all.options = (DtRunOptions){.steps = -1, .plan_path = "plan"};
    all.options.restarts = argc > at + 3 ? atoi(argv[at + 3]) : 0;
    all.options.timeout = argc > at + 4 ? atof(argv[at + 4]) : 0;
    seconds = argc > at + 6 ? atof(argv[at + 6]) : 0;
    make_plan((uint32_t)atoi(argv[at + 2]), argc > at + 5 ? atoi(argv[at + 5]) : 10);
    if (at > 0)
        return be_rank((uint32_t)atoi(argv[2]), atoi(argv[4]));
    return dt_supervisor_run(&all.options, &all.plan, argc, argv, NULL);
}
