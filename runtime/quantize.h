/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as codes (quantize.c). */
#ifndef DT_RUNTIME_QUANTIZE_H
#define DT_RUNTIME_QUANTIZE_H

#include "runtime/runtime.h"

/* The entry that evaluates with codes. */
#define DT_QUANTIZE_EVAL "eval@codes"

/* Computes codes and scales of the parameters that the plan reads so, and gives the memory of these
 * parameters back to the system where nothing else is in it. True without work if there are
 * none. */
bool dt_quantize_run(DtRank *rank);

#endif
