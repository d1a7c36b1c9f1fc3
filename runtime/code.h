/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DT_RUNTIME_CODE_H
#define DT_RUNTIME_CODE_H

#include "runtime/runtime.h"

/* Loads the plan's machine code, or compiles the C text in the plan for this processor. Sets
 * rank->codes. */
DtStatus dt_code_load(DtRank *rank);
void dt_code_close(DtRank *rank);

#endif
