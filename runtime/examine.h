/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank and which instruction first had a value that is not finite (examine.c). */
#ifndef DT_RUNTIME_EXAMINE_H
#define DT_RUNTIME_EXAMINE_H

#include "runtime/runtime.h"

/* Before an exchange: notes if the rank is about to give others a value that is not finite, and is
 * the first such of the step. Only for devices whose memory the host can read. */
void dt_examine_given(DtRank *rank, const DtPlanInst *inst, DtPlaceAt from);

/* From open to close, each instruction is examined: the first that makes a value which is not
 * finite from operands that all are becomes rank->first_bad. */
void dt_examine_open(DtRank *rank);
void dt_examine_close(DtRank *rank);
/* Called before and after an instruction with its n addresses. */
void dt_examine_before(DtRank *rank, uint32_t inst, uint32_t n, const DtPlaceAt *places);
void dt_examine_after(DtRank *rank, uint32_t inst, uint32_t n, const DtPlaceAt *places);

#endif
