/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of an entry are sums of one term per sample (samples.c). */
#ifndef DT_IR_SAMPLES_H
#define DT_IR_SAMPLES_H

#include "ir/ir.h"

/* How a value of an entry without placement depends on the samples of the batch. JOINT: it depends
 * on several samples together, or the rules cannot tell. SUM: one term per sample, plus terms that
 * no sample changes. */
typedef enum DtSampled {
    DT_SAMPLED_WHOLE,
    DT_SAMPLED_SUM,
    DT_SAMPLED_EACH,
    DT_SAMPLED_JOINT
} DtSampled;
/* A DtSampled for each value of the entry, by its id. ret_draws: the entry draws random numbers, so
 * a sample's term also depends on its place in the batch. */
const uint8_t *dt_samples_of(const DtFunc *entry, DtArena *arena, bool *ret_draws);
/* Whether each result of the entry (losses, metrics) is complete on each rank or a sum over
 * samples, and the entry draws no random numbers. */
bool dt_samples_add_up(const DtFunc *entry);

#endif
