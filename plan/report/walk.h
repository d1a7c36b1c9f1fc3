/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions that a rank of a stage runs, in order, with the memory that each reads and
 * writes (walk.c). */
#ifndef DT_REPORT_WALK_H
#define DT_REPORT_WALK_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

/* A range of bytes; addresses of different arenas are far apart. kind: DtPlanArenaKind. */
typedef struct DtWalkRange { int64_t from, to; uint8_t kind; bool read, written; } DtWalkRange;
/* an instruction, and its ranges */
typedef struct DtWalkRun { uint32_t inst, first, n; } DtWalkRun;

typedef struct DtWalk {
    /* members that the caller fills: */
    DtArena *arena;
    const DtPlan *plan;
    uint32_t stage;
    int64_t most_turns;    /* most iterations of each loop; 0: all */
    /* a budget, reduced by one for each instruction and iteration; the walk ends when it is
     * spent */
    int64_t work;
    /* Called before and after a called entry, or an iteration of a loop, at nesting `depth`;
     * NULL: not called. */
    void (*enter)(struct DtWalk *walk, uint32_t item, int64_t turn, uint32_t depth);
    void (*leave)(struct DtWalk *walk, uint32_t item, int64_t turn, uint32_t depth);
    void *context;
    /* results: */
    DT_VEC(DtWalkRun) runs;
    DT_VEC(DtWalkRange) ranges;
    /* state: */
    int64_t reg[DT_PLAN_REGS], *base; /* base: address by arena */
} DtWalk;

/* Appends the items that the stage's entry of that name runs. The plan must have passed
 * dt_check_plan. */
void dt_walk_entry(DtWalk *walk, DtPlanStr name);

#endif
