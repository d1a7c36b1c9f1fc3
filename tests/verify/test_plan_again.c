/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of a plan whose iterations the certificate may skip in part. An address that no memory has
 * prevents this, and no sum of addresses may overflow 64 bits. */
#include "verify/plan_internal.h"

#include <criterion/criterion.h>

enum { AXIS_SIZE = 5, COUNT = 16 };

static DtPlanMeshAxis mesh[1] = {{.size = AXIS_SIZE}};
static DtPlanSchedule schedule[3];
static DtPlanBody body = {.first_inst = 0, .n_insts = 1};
static DtPlanInst inst = {.kind = DT_INST_COPY, .first_arg = 0, .n_args = 2};
static DtPlanArg args[2];
static DtPlanMeta meta;
static DtPlan plan = {.meta = &meta, .schedule = schedule, .bodies = &body, .insts = &inst,
                      .args = args, .mesh = mesh, .n_mesh = 1};

/* Whether the certificate may skip iterations of a loop over a copy from args[0] to args[1]. */
static bool may(void)
{
    PlanWatched watched[3] = {0};
    PlanWalk walk = {.arena = dt_arena_new(), .plan = &plan, .loops = watched};
    static const DtPlanEntry entry;
    PlanRepeat again;
    walk.at_entry = &entry;
    dt_certplan_watch(&walk, &again, 0, 2);
    dt_arena_free(walk.arena);
    return again.may;
}

static void ordinary(void)
{
    schedule[0] = (DtPlanSchedule){.kind = DT_SCHED_LOOP, .reg = 1, .step = 1, .count = COUNT};
    schedule[1] = (DtPlanSchedule){.kind = DT_SCHED_RUN};
    schedule[2] = (DtPlanSchedule){.kind = DT_SCHED_END};
    args[0] = (DtPlanArg){.kind = DT_ARG_ADDRESS, .base = 0, .bytes = 64, .reg = {0, 64}};
    args[1] = (DtPlanArg){.kind = DT_ARG_ADDRESS, .base = 4096, .bytes = 64, .reg = {0, 64},
                          .written = 1};
}

/* Returns how many iterations of such a loop are skipped while a collective from one place to the
 * other is in progress. */
static int64_t left_out(const DtPlanArg *to, const DtPlanArg *from)
{
    PlanWatched watched[3] = {0};
    uint64_t added[DT_COUNT(args)] = {0};
    PlanWalk walk = {.arena = dt_arena_new(), .plan = &plan, .loops = watched, .added = added};
    static const DtPlanEntry entry;
    PlanRepeat again;
    int64_t left = 0;
    walk.scratch = dt_arena_child(walk.arena);
    walk.at_entry = &entry;
    dt_certplan_watch(&walk, &again, 0, 2);
    for (int64_t t = 0; t < 3 && !left; t++) {
        walk.reg[1] = t;
        dt_certplan_turn(&walk, &again);
        PlanStarted started = {.to_arg = to, .from_arg = from, .stamp = ++walk.clock};
        dt_certplan_arg(&walk, to, &started.to);
        dt_certplan_arg(&walk, from, &started.from);
        walk.started.n = 0;
        DT_PUSH(walk.arena, walk.started, started);
        left = dt_certplan_repeats(&walk, &again, t);
    }
    dt_arena_free(walk.scratch);
    dt_arena_free(walk.arena);
    return left;
}

TestSuite(plan_again, .init = ordinary);

/* The operation that the last skipped iteration would have started reads another place than the one
 * that was started by the last iteration that ran. */
Test(plan_again, what_is_on_its_way_reads_where_the_iteration_says)
{
    const DtPlanArg to = {.kind = DT_ARG_ADDRESS, .base = 8192, .bytes = 64, .written = 1},
                    still = {.kind = DT_ARG_ADDRESS, .base = 12288, .bytes = 64};
    DtPlanArg moves = still, goes = to;
    moves.reg[1] = goes.reg[1] = 64;
    cr_assert_gt(left_out(&to, &still), 0);
    cr_assert_eq(left_out(&to, &moves), 0);
    cr_assert_eq(left_out(&goes, &still), 0);
}

Test(plan_again, a_copy_whose_places_move_alike) { cr_assert(may()); }

Test(plan_again, a_coordinate_that_wraps_to_nothing)
{
    args[1].coord[0] = INT64_MAX / 2 + 1; /* times AXIS_SIZE - 1 it overflows to 0 in 64 bits */
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
