/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DT_RUNTIME_CODE_H
#define DT_RUNTIME_CODE_H

#include "runtime/runtime.h"

/* The plan's machine code of the processor, or what is compiled of its text for this one: rank->codes. */
DtStatus dt_code_load(DtRank *rank);
void dt_code_close(DtRank *rank);

#endif
