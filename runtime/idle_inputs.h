/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that explain a loss that is not a number (idle_inputs.c). */
#ifndef DT_RUNTIME_IDLE_INPUTS_H
#define DT_RUNTIME_IDLE_INPUTS_H

#include "runtime/runtime.h"

/* Looks at samples first .. first + n - 1 of the training or held-out data. Adds to ret_why which
 * input has nothing to learn from in any of them, and what to do: "; no value of `labels` ..";
 * nothing if there is no such input, or the data cannot be read. */
void dt_idle_inputs(DtRank *rank, bool is_eval, int64_t first, int64_t n, DtText *ret_why);

#endif
