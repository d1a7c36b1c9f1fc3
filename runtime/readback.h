/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars of an entry as soon as they are there. A device does instructions long after they were
 * begun. Who wants the loss of a step would wait for all of the step, and the device would then
 * have nothing to do until the update is begun. So behind each instruction that writes a scalar
 * that is looked at, a copy of it to the host is begun, and who wants it waits for the last of
 * these copies: the loss is there before gradients are, and the norm before the parameters are
 * updated. */
#ifndef DT_RUNTIME_READBACK_H
#define DT_RUNTIME_READBACK_H

#include "runtime/runtime.h"

/* For a device with cells, when a rank is loaded; sets rank->readback. */
void dt_readback_open(DtRank *rank);
/* Whether a scalar is to be copied to the host after the instruction. */
bool dt_readback_has(const DtRank *rank, uint32_t inst);
/* Starts that copy, after the instruction. */
void dt_readback_note(DtRank *rank, uint32_t inst);
/* Before an entry: scalars of its last run are forgotten. */
void dt_readback_begin(DtRank *rank, const char *entry);
/* The bytes of the scalar, if it was noted in the last run of its entry; else false. */
bool dt_readback_get(const DtRank *rank, const DtPlanMetric *metric, void *to, int64_t bytes);

#endif
