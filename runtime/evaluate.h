/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations on the held-out data (evaluate.c). */
#ifndef DT_RUNTIME_EVALUATE_H
#define DT_RUNTIME_EVALUATE_H

#include "runtime/train.h"

/* The number of the first reader of held-out data; -1: there is none. */
int64_t dt_evaluate_reader(const DtPlan *plan);
/* Evaluates eval_steps batches or all held-out data. Returns the displayed values, the mean of each
 * METR record (run->sums), and the number of samples. coded: with weights as codes. */
bool dt_evaluate(DtRun *run, bool coded, DtShown *ret_shown, int64_t *ret_samples);
/* Evaluates in the same way, and writes the result to the log and to standard output. ret_loss: the
 * first loss; NULL: not wanted. */
bool dt_evaluate_and_show(DtRun *run, int64_t steps, double *ret_loss);
/* Evaluates with weights as they are and with weights as codes, and shows both. */
bool dt_evaluate_codes(DtRun *run, int64_t steps);

#endif
