/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a stage runs, one instruction after the other, with the memory that each reads and writes (walk.c). */
#ifndef DT_REPORT_WALK_H
#define DT_REPORT_WALK_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

/* Arenas lie behind each other, none next to another one. kind: DtPlanArenaKind. */
typedef struct DtWalkRange { int64_t from, to; uint8_t kind; bool read, written; } DtWalkRange;
typedef struct DtWalkRun { uint32_t inst, first, n; } DtWalkRun; /* and its ranges */

typedef struct DtWalk {
    /* to be filled in */
    DtArena *arena;
    const DtPlan *plan;
    uint32_t stage;
    int64_t most_turns;    /* of each loop; 0: all */
    int64_t work;          /* a unit for each run and iteration; the walk ends where there is none left */
    /* Before and after a called entry, or a turn of a loop, inside of `depth` others; NULL: not asked for. */
    void (*enter)(struct DtWalk *walk, uint32_t item, int64_t turn, uint32_t depth);
    void (*leave)(struct DtWalk *walk, uint32_t item, int64_t turn, uint32_t depth);
    void *context;
    /* what is found */
    DT_VEC(DtWalkRun) runs;
    DT_VEC(DtWalkRange) ranges;
    /* as it goes */
    int64_t reg[DT_PLAN_REGS], *base; /* base: by arena */
} DtWalk;

/* Adds what the stage's entry of that name runs. The plan must have passed dt_check_plan. */
void dt_walk_entry(DtWalk *walk, DtPlanStr name);

#endif
