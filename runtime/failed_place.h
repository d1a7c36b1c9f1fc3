/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DT_RUNTIME_FAILED_PLACE_H
#define DT_RUNTIME_FAILED_PLACE_H

#include "runtime/runtime.h"

/* Appends "in step 12, instruction 4 (all-reduce)", line and path of the model; or nothing, if the
 * content of a file ended the run and no step has begun. slot: that of the rank. predicts: the run
 * has results instead of training. is_watched: the supervisor found the failure, not the rank. */
void dt_failedplace_add(DtText *text, const DtPlan *plan, const DtSlot *slot, bool predicts,
                        bool is_watched);

#endif
