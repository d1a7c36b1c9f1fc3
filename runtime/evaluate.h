/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations on the held-out data (evaluate.c). */
#ifndef DT_RUNTIME_EVALUATE_H
#define DT_RUNTIME_EVALUATE_H

#include "runtime/train.h"

/* The first reader of held-out data; -1: there is none. */
int64_t dt_evaluate_reader(const DtPlan *plan);
/* Runs entry "eval" on one batch. */
bool dt_evaluate_batch(DtRun *run, int64_t batch);
/* Evaluates eval_steps batches or all held-out data, and writes the result to the log and standard
 * output. */
bool dt_evaluate_and_show(DtRun *run, int64_t steps);

#endif
