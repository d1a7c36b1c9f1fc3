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
double dt_trial_lr(const DtTrialRun *run);
/* Shows what this rank holds after step number `step`, in turn with all others; evaluated: also what entry "eval"
 * leaves. */
bool dt_trial_show(DtTrialRun *run, int64_t step, bool evaluated);

/* In the supervisor: it ends with who made the trial. */
void dt_trial_bind(const char *path);

#endif
