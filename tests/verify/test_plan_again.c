/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of a plan that may be left out in part: addresses that no memory has keep a loop from that, and no sum of
 * theirs leaves 64 bits. */
#include "verify/plan_internal.h"

#include <criterion/criterion.h>

enum { AXIS_SIZE = 5, COUNT = 16 };

static DtPlanMeshAxis mesh[1] = {{.size = AXIS_SIZE}};
static DtPlanSchedule schedule[3];
static DtPlanBody body = {.first_inst = 0, .n_insts = 1};
static DtPlanInst inst = {.kind = DT_INST_COPY, .first_arg = 0, .n_args = 2};
static DtPlanArg args[2];
static DtPlan plan = {.schedule = schedule, .bodies = &body, .insts = &inst, .args = args, .mesh = mesh, .n_mesh = 1};

/* Whether the loop over a copy from args[0] to args[1] may be left out in part. */
static bool may(void)
{
    PlanWatched watched[3] = {0};
    PlanWalk walk = {.arena = dt_arena_new(), .plan = &plan, .loops = watched};
    static const DtPlanEntry entry;
    PlanAgain again;
    walk.at_entry = &entry;
    schedule[0] = (DtPlanSchedule){.kind = DT_SCHED_LOOP, .reg = 1, .step = 1, .count = COUNT};
    schedule[1] = (DtPlanSchedule){.kind = DT_SCHED_RUN};
    schedule[2] = (DtPlanSchedule){.kind = DT_SCHED_END};
    dt_certplan_watch(&walk, &again, 0, 2);
    dt_arena_free(walk.arena);
    return again.may;
}

static void ordinary(void)
{
    args[0] = (DtPlanArg){.kind = DT_ARG_ADDRESS, .base = 0, .bytes = 64, .reg = {0, 64}};
    args[1] = (DtPlanArg){.kind = DT_ARG_ADDRESS, .base = 4096, .bytes = 64, .reg = {0, 64}, .written = 1};
}

TestSuite(plan_again, .init = ordinary);

Test(plan_again, a_copy_whose_places_move_alike) { cr_assert(may()); }

Test(plan_again, a_coordinate_that_wraps_to_nothing)
{
    args[1].coord[0] = INT64_MAX / 2 + 1; /* times AXIS_SIZE - 1 it is 0 in 64 bits */
    cr_assert_not(may());
}

Test(plan_again, a_step_that_wraps)
{
    for (int i = 0; i < 2; i++)
        args[i].reg[1] = INT64_MAX / 2 + 65;
    cr_assert_not(may());
}

Test(plan_again, a_length_that_wraps)
{
    args[1].bytes = INT64_MAX;
    cr_assert_not(may());
}
