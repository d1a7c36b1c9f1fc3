/* SPDX-License-Identifier: Apache-2.0 */
/* --trial: a run whose beginning and events somebody else chose, and who looks at its values after
 * each event (plan/trial.h). */
#ifndef DT_RUNTIME_TRIAL_H
#define DT_RUNTIME_TRIAL_H

#include "plan/trial.h"
#include "runtime/runtime.h"

typedef struct DtTrialRun DtTrialRun;

/* Maps the file of options->trial; in rank->memory. The number of steps is the trial's. */
bool dt_trial_open(DtRank *rank, DtTrialRun **ret_run);
void dt_trial_close(DtTrialRun *run);
/* Values to begin with, and the loss scale. */
bool dt_trial_begin(DtTrialRun *run);
/* The trial's value for a scalar of the step, whose value by the plan is `value`. */
double dt_trial_scalar(const DtTrialRun *run, const char *name, double value);
/* Event `at` of the script; NULL: there is no such event. Before a step: its number, updates so
 * far, loss scale. */
const DtTrialEvent *dt_trial_next(DtTrialRun *run, uint32_t at);
/* Number of samples that synthetic held-out data have. */
int64_t dt_trial_held_out(const DtTrialRun *run);
/* Whether losses take their turns; else every step takes all. */
bool dt_trial_takes_turns(const DtTrialRun *run);
/* Numbers that an event has printed. */
typedef struct DtTrialPrinted {
    DtStepReport report; /* of a step */
    DtShown shown;
    const double *means; /* of an evaluation, by METR record; else NULL */
} DtTrialPrinted;
/* Writes the values of this rank after event `at` of the script, in turn with all others, and the
 * event's outcome. */
bool dt_trial_show(DtTrialRun *run, uint32_t at, const DtTrialPrinted *printed);

/* In the supervisor: it ends with who made the trial. */
void dt_trial_bind(const char *path);

#endif
