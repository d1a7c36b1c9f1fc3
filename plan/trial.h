/* SPDX-License-Identifier: Apache-2.0 */
/* A trial: the ranks of a plan begin with given values instead of their own, take the steps that a
 * script names, and show their values after each step. `dtc --verify` provides and compares the
 * values, `dtrun --trial FILE` runs. FILE is a piece of memory that both map; its layout follows
 * from the plan:
 *
 * DtTrial | initial values | per step: values, which bytes of them were shown, scalars, which of
 * these
 *
 * Values are logical tensors with all iterations of their loops, row-major, in the dtype of the
 * store: one for each kind and path in checkpoints, however ranks and stages share it. */
#ifndef DT_PLAN_TRIAL_H
#define DT_PLAN_TRIAL_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

#define DT_TRIAL_MAGIC "DTTRIAL2"
enum { DT_TRIAL_STEPS = 16 };

/* The first rank whose copy of a value differs from the copies of earlier ranks. */
typedef struct DtTrialCopies {
    uint32_t found, step, rank, reserved;
    int64_t tensor, byte; /* tensor -1: scalar number `byte` */
} DtTrialCopies;

/* A step of the script, and how it went. */
typedef struct DtTrialStep {
    int64_t number;    /* of the step, from 0: data, random numbers and rates follow from it */
    double loss_scale; /* set before the step; 0: as the step before has left it */
    int64_t good;      /* likewise the good updates since the scale changed; -1: as they are */
    /* written by rank 0 */
    double loss_scale_after;
    int64_t good_after;
    uint32_t taken, skipped; /* bits by number of the loss */
} DtTrialStep;

typedef struct DtTrial {
    char magic[8];
    uint64_t digest;        /* of the plan */
    uint64_t bytes;         /* of all */
    uint32_t steps;
    int32_t owner;          /* the process that waits for the run, which ends with it */
    double lr;              /* of all steps, in place of the plan's */
    uint32_t is_life;       /* not 0: rates are the plan's own, and losses take their turns */
    uint32_t reserved;
    DtTrialStep script[DT_TRIAL_STEPS];
    uint32_t began;         /* not 0: a rank has loaded everything and begins */
    uint32_t done;          /* number of steps that all ranks have shown */
    DtTrialCopies copies;
} DtTrial;

typedef struct DtTrialTensor {
    const DtPlanStore *store; /* one of the stores that are parts of it */
    int64_t elements, bytes;
    int64_t at;               /* offset in a set of values */
} DtTrialTensor;

typedef struct DtTrialLayout {
    DtTrialTensor *tensors;
    uint32_t n;
    int64_t *of_store;  /* by store: its tensor, or -1 */
    int64_t values;     /* bytes of a set */
    /* bytes of the scalars, one double per metric of the plan (unused for metrics that are
     * tensors) */
    int64_t scalars;
    uint64_t begin;     /* offset of the initial values */
    uint64_t bytes;
} DtTrialLayout;

/* plan: with one record per stage (plan/stages.h). False: too large. */
bool dt_trial_layout(DtArena *arena, const DtPlan *plan, uint32_t steps, DtTrialLayout *ret_layout);

/* Offsets of step 0, 1 ... */
static inline uint64_t dt_trial_values(const DtTrialLayout *layout, uint32_t step)
{
    const uint64_t one = 2 * (uint64_t)layout->values + 2 * (uint64_t)layout->scalars;
    return layout->begin + (uint64_t)layout->values + step * one;
}
static inline uint64_t dt_trial_scalars(const DtTrialLayout *layout, uint32_t step)
{
    return dt_trial_values(layout, step) + 2 * (uint64_t)layout->values;
}

/* Number of the logical iteration for iteration `local` of a stage's part of the store. */
int64_t dt_trial_iteration(const DtPlan *plan, const DtPlanStore *store, int64_t local);
/* Number of iterations of the store's loops on a stage. */
int64_t dt_trial_iterations(const DtPlan *plan, const DtPlanStore *store);

#endif
