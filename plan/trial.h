/* SPDX-License-Identifier: Apache-2.0 */
/* A trial: the ranks of a plan begin with given values instead of their own, go through the events
 * that a script names (steps, evaluations, a save, a resume), and show their values after each.
 * `dtc --verify` provides and compares the values, `dtrun --trial FILE` runs. FILE is a piece of
 * memory that both map; its layout follows from the plan:
 *
 * DtTrial | initial values | per event: values, which bytes of them were shown, scalars, which of
 * these
 *
 * Values are logical tensors with all iterations of their loops, row-major, in the dtype of the
 * store: one for each kind and path in checkpoints, however ranks and stages share it. */
#ifndef DT_PLAN_TRIAL_H
#define DT_PLAN_TRIAL_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

#define DT_TRIAL_MAGIC "DTTRIAL3"
enum { DT_TRIAL_EVENTS = 24 };

/* The first rank whose copy of a value differs from the copies of earlier ranks. */
typedef struct DtTrialCopies {
    uint32_t found, event, rank, reserved;
    int64_t tensor, byte; /* tensor -1: scalar number `byte` */
} DtTrialCopies;

typedef enum DtTrialKind {
    DT_TRIAL_TRAIN,    /* one step of training */
    DT_TRIAL_EVALUATE, /* an evaluation of several batches of held-out data */
    DT_TRIAL_SAVE,     /* a checkpoint in the folder of --save */
    DT_TRIAL_RESUME    /* replaces all values and counts, then loads the newest checkpoint */
} DtTrialKind;

/* An event of the script, and the run after it. */
typedef struct DtTrialEvent {
    uint32_t kind;     /* DtTrialKind */
    uint32_t batches;  /* EVALUATE: number of batches; 0: all held-out data */
    /* TRAIN: number of the step, from 0; its data, random numbers and rates follow from it */
    int64_t number;
    double loss_scale; /* loss scale to set before the step; 0: unchanged */
    int64_t good;      /* likewise the number of good updates since the scale changed; -1:
                        * unchanged */
    /* written by rank 0 */
    double loss_scale_after;
    int64_t good_after;
    int64_t steps_after; /* finished steps */
    int64_t updates_after[DT_PLAN_MAX_OBJECTIVES]; /* updates applied, by number of the loss */
    uint32_t taken, skipped; /* bits by number of the loss: those taken, those skipped */
} DtTrialEvent;

typedef struct DtTrial {
    char magic[8];
    uint64_t digest;        /* digest of the plan */
    uint64_t bytes;         /* bytes of the whole memory */
    uint32_t events;
    int32_t owner;          /* the process that waits for the run; when it ends, the run does */
    double lr;              /* learning rate of all steps, in place of the plan's */
    uint32_t is_life;       /* not 0: the plan's own rates apply, and each loss is taken in its own
                             * steps */
    uint32_t reserved;
    int64_t held_out;       /* number of samples that synthetic held-out data have */
    DtTrialEvent script[DT_TRIAL_EVENTS];
    uint32_t began;         /* not 0: a rank has loaded everything and begins its first event */
    uint32_t done;          /* number of events that all ranks have shown */
    DtTrialCopies copies;
} DtTrial;

typedef struct DtTrialTensor {
    const DtPlanStore *store; /* number of a store that is part of the tensor */
    int64_t elements, bytes;
    int64_t at;               /* offset of the tensor in a set of values */
} DtTrialTensor;

typedef struct DtTrialLayout {
    DtTrialTensor *tensors;
    uint32_t n;
    int64_t *of_store;  /* by store: the number of its tensor, or -1 */
    int64_t values;     /* bytes of a set of values */
    /* bytes of the scalars: one double per METR record of the plan (unused for tensors; for an
     * evaluation, the mean over its samples), then one per SHOW record */
    int64_t scalars;
    uint64_t begin;     /* offset of the initial values */
    uint64_t bytes;
} DtTrialLayout;

/* plan: one with a record per stage (plan/stages.h). False: the memory would be too large. */
bool dt_trial_layout(DtArena *arena, const DtPlan *plan, uint32_t events,
                     DtTrialLayout *ret_layout);

/* Offsets of event number 0, 1 ... */
static inline uint64_t dt_trial_values(const DtTrialLayout *layout, uint32_t event)
{
    const uint64_t one = 2 * (uint64_t)layout->values + 2 * (uint64_t)layout->scalars;
    return layout->begin + (uint64_t)layout->values + event * one;
}
static inline uint64_t dt_trial_scalars(const DtTrialLayout *layout, uint32_t event)
{
    return dt_trial_values(layout, event) + 2 * (uint64_t)layout->values;
}

/* The number of the logical iteration that is iteration `local` of a stage's part of the store. */
int64_t dt_trial_iteration(const DtPlan *plan, const DtPlanStore *store, int64_t local);
/* The number of iterations of the store's loops on a stage. */
int64_t dt_trial_iterations(const DtPlan *plan, const DtPlanStore *store);

#endif
