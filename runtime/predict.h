/* SPDX-License-Identifier: Apache-2.0 */
/* The model's results for files of inputs (`dtrun --predict NAME=FILE --out FILE`, predict.c). */
#ifndef DT_RUNTIME_PREDICT_H
#define DT_RUNTIME_PREDICT_H

#include "base/text.h"
#include "runtime/runtime.h"

/* Before ranks start: whether the files fit the inputs that the model reads, and its results can be
 * written. Notes are those of dt_data_look. */
DtStatus dt_predict_check(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes);
/* Whether this rank has elements of the result that no rank with smaller coordinates has. */
bool dt_predict_gives(const DtRank *rank, const DtPlanMetric *metric);
/* Writes the results. False after a failure. ret_stopped: a signal ended it before, and nothing is
 * written. */
bool dt_predict_run(DtRank *rank, bool *ret_stopped);

#endif
