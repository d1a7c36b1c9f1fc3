/* SPDX-License-Identifier: Apache-2.0 */
/* --trial: a run for dtc --verify, which determines the initial values and the events, and compares
 * the values after each event (plan/trial.h). */
#ifndef DT_RUNTIME_TRIAL_H
#define DT_RUNTIME_TRIAL_H

#include "plan/trial.h"
#include "runtime/runtime.h"

typedef struct DtTrialRun DtTrialRun;

/* Maps the file of options->trial, in memory of the rank. Sets the number of steps to that of the
 * trial. */
bool dt_trial_open(DtRank *rank, DtTrialRun **ret_run);
void dt_trial_close(DtTrialRun *run);
/* Sets the initial values and the loss scale. */
bool dt_trial_begin(DtTrialRun *run);
/* The value that the trial uses for a scalar of the step. `value`: what the plan computes for
 * it. */
double dt_trial_scalar(const DtTrialRun *run, const char *name, double value);
/* Event number `at` of the script; NULL: there is none. Before a step: sets its number, the number
 * of updates so far, and the loss scale. */
const DtTrialEvent *dt_trial_next(DtTrialRun *run, uint32_t at);
/* The number of samples that synthetic held-out data have. */
int64_t dt_trial_held_out(const DtTrialRun *run);
/* Whether losses take turns; otherwise every step takes all of them. */
bool dt_trial_takes_turns(const DtTrialRun *run);
/* The numbers that an event has printed. */
typedef struct DtTrialPrinted {
    DtStepReport report; /* numbers of a step */
    DtShown shown;
    const double *means; /* means of an evaluation, by METR record; else NULL */
} DtTrialPrinted;
/* Writes the values of this rank after event `at` of the script, in turn with all others, and the
 * event's outcome. */
bool dt_trial_show(DtTrialRun *run, uint32_t at, const DtTrialPrinted *printed);

/* Called in the supervisor: it ends when the process that made the trial ends. */
void dt_trial_bind(const char *path);

#endif
