/* SPDX-License-Identifier: Apache-2.0 */
/* What the name of an entry says, of a plan or of the program that it was made of: which of its runs it belongs to, and
 * which part of that it is.
 *
 *   step  grad  update  eval  predict          all of it; of one of several losses step@critic, update@critic
 *   grad.prologue                              what the data alone decide
 *   update.2  grad.prologue.2                  of stage 2
 *   grad.f3  grad.b3  grad.w3  grad.f3.1       of piece 3; another form of it */
#ifndef DT_PLAN_NAME_H
#define DT_PLAN_NAME_H

#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum DtPlanRun {
    DT_PLAN_LOSS,
    DT_PLAN_STEP,
    DT_PLAN_UPDATE,
    DT_PLAN_EVAL,
    DT_PLAN_PREDICT,
    DT_PLAN_NO_RUN
} DtPlanRun;
typedef enum DtPlanPart { DT_PLAN_WHOLE, DT_PLAN_PROLOGUE, DT_PLAN_F, DT_PLAN_B, DT_PLAN_W } DtPlanPart;

typedef struct DtPlanName {
    DtPlanRun run;         /* NO_RUN: the name says nothing of this */
    DtPlanPart part;
    int32_t number;        /* of the piece, of the stage; -1: none */
    int32_t form;          /* 0: the first */
    const char *objective; /* in the name, n_objective characters of it; none: 0 */
    uint32_t n_objective;
} DtPlanName;

DtPlanName dt_plan_name(const char *name);
/* Of the same run: of one loss. */
bool dt_plan_name_same_run(const DtPlanName *a, const DtPlanName *b);
/* Less than all of a run. */
bool dt_plan_name_is_part(const DtPlanName *name);

#endif
