/* SPDX-License-Identifier: Apache-2.0 */
/* --trial: a run whose beginning somebody else chose, and who looks at every step (plan/trial.h). */
#ifndef DT_RUNTIME_TRIAL_H
#define DT_RUNTIME_TRIAL_H

#include "runtime/runtime.h"

typedef struct DtTrialRun DtTrialRun;

/* Maps the file of options->trial; in rank->memory. The number of steps is the trial's. */
bool dt_trial_open(DtRank *rank, DtTrialRun **ret_run);
void dt_trial_close(DtTrialRun *run);
/* Values to begin with, and the loss scale. */
bool dt_trial_begin(DtTrialRun *run);
/* What the trial wants of a scalar of the step that the plan computes as `value`. */
double dt_trial_scalar(const DtTrialRun *run, const char *name, double value);
/* Before step `at` of the script: number of the step, updates so far, loss scale. False: there is
 * no such step. */
bool dt_trial_next(DtTrialRun *run, uint32_t at);
/* Whether losses take their turns; else every step takes all. */
bool dt_trial_takes_turns(const DtTrialRun *run);
/* Shows what this rank holds after step `at` of the script, in turn with all others, and how the
 * step went; evaluated: also what entry "eval" leaves. */
bool dt_trial_show(DtTrialRun *run, uint32_t at, const DtStepReport *report, bool evaluated);

/* In the supervisor: it ends with who made the trial. */
void dt_trial_bind(const char *path);

#endif
