/* SPDX-License-Identifier: Apache-2.0 */
/* Reads back scalars of an entry as soon as the device has computed them. A device runs
 * instructions long after they were started. If the host waited for the whole step to read the
 * loss, the device would have nothing to do until the host started the update. So after each
 * instruction that writes a scalar which the host needs, a copy of the scalar to the host is
 * started, and the host waits for the last of these copies only. It thus has the loss before the
 * gradients are computed, and the norm before the parameters are updated. */
#ifndef DT_RUNTIME_READBACK_H
#define DT_RUNTIME_READBACK_H

#include "runtime/runtime.h"

/* Called when a rank is loaded, for a device with cells; sets rank->readback. */
void dt_readback_open(DtRank *rank);
/* Whether the instruction writes a scalar that must be copied to the host. */
bool dt_readback_has(const DtRank *rank, uint32_t inst);
/* Starts this copy, after the instruction. */
void dt_readback_note(DtRank *rank, uint32_t inst);
/* Called before an entry: forgets scalars of its last run. */
void dt_readback_begin(DtRank *rank, const char *entry);
/* Reads the bytes of the scalar if it was copied in the last run of its entry; else returns
 * false. */
bool dt_readback_get(const DtRank *rank, const DtPlanMetric *metric, void *to, int64_t bytes);

#endif
