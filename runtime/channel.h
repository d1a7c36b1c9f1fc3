/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the stages of a pipeline, over the mapping of local ranks (channel.c). */
#ifndef DT_RUNTIME_CHANNEL_H
#define DT_RUNTIME_CHANNEL_H

#include "runtime/runtime.h"

typedef struct DtChannels DtChannels;

/* Bytes of all channels of the plan in the mapping, a multiple of 64; saturates far above the
 * memory of any machine. */
uint64_t dt_channel_bytes(const DtPlan *plan);

/* The channels as this rank uses them; area: dt_channel_bytes of them, zeroed at start, aligned to
 * 64. In the rank's memory. */
DtChannels *dt_channel_open(DtRank *rank, char *area);

/* As DtCommOps.send and .recv. */
bool dt_channel_send(DtChannels *channels, uint32_t channel, DtPlaceAt buffer, int64_t bytes,
                     int64_t tag);
bool dt_channel_recv(DtChannels *channels, uint32_t channel, DtPlaceAt buffer, int64_t bytes,
                     int64_t tag);
uint64_t dt_channel_received(const DtChannels *channels, uint32_t channel);

#endif
