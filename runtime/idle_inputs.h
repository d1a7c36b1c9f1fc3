/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that explain a loss that is not a number (idle_inputs.c). */
#ifndef DT_RUNTIME_IDLE_INPUTS_H
#define DT_RUNTIME_IDLE_INPUTS_H

#include "runtime/runtime.h"

/* Looks at samples first .. first + n - 1 of the training or held-out data. If an input has no
 * valid value in any of them, adds to ret_why which input that is, and what to do: "; no value of
 * `labels` ..". Adds nothing if there is no such input, or if the data cannot be read. */
void dt_idle_inputs(DtRank *rank, bool is_eval, int64_t first, int64_t n, DtText *ret_why);

#endif
