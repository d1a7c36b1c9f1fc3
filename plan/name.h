/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the name of an entry, of a plan or of the program that it was made from: the run that
 * it belongs to, and its part of that run.
 *
 *   step  grad  update  eval  quantize         all of a run; with several losses step@critic,
 *         predict  prefill  decode  mix        update@critic; eval@codes with weights as codes;
 *                                              mix@3, the exchange of number 3; mix@average
 *   grad.prologue                              the part that depends on the data alone
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
    DT_PLAN_PREFILL,
    DT_PLAN_DECODE,
    DT_PLAN_QUANTIZE,
    DT_PLAN_MIX,
    DT_PLAN_NO_RUN
} DtPlanRun;
typedef enum DtPlanPart {
    DT_PLAN_WHOLE,
    DT_PLAN_PROLOGUE,
    DT_PLAN_F,
    DT_PLAN_B,
    DT_PLAN_W
} DtPlanPart;

typedef struct DtPlanName {
    DtPlanRun run;         /* NO_RUN: the name has another form */
    DtPlanPart part;
    int32_t number;        /* number of the piece or of the stage; -1: none */
    int32_t twin;          /* number of the form of a piece's entry; 0: the first one */
    const char *objective; /* name of the loss: n_objective characters of the name; 0 without one */
    uint32_t n_objective;
} DtPlanName;

DtPlanName dt_plan_name(const char *name);
/* The name of the entry that mixes replicas in that way, of so many. */
enum { DT_PLAN_MIX_NAME = 24 };
void dt_plan_name_mix(int64_t ways, int64_t way, char ret_name[DT_PLAN_MIX_NAME]);
/* Whether the run computes results for what the runtime writes into its inputs. */
static inline bool dt_plan_run_predicts(DtPlanRun run)
{
    return run == DT_PLAN_PREDICT || run == DT_PLAN_PREFILL || run == DT_PLAN_DECODE;
}
/* Whether the run stores what later steps read, after all reads of its step. */
static inline bool dt_plan_run_updates(DtPlanRun run)
{
    return run == DT_PLAN_UPDATE || run == DT_PLAN_QUANTIZE || run == DT_PLAN_MIX;
}
/* Whether both belong to the same run, of one loss. */
bool dt_plan_name_same_run(const DtPlanName *a, const DtPlanName *b);
/* Whether the entry is only a part of a run. */
bool dt_plan_name_is_part(const DtPlanName *name);

#endif
