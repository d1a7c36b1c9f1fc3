/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes received in steps, by group and channel (traffic.c). */
#ifndef DT_RUNTIME_TRAFFIC_H
#define DT_RUNTIME_TRAFFIC_H

#include "runtime/runtime.h"

void dt_traffic_open(DtTraffic *traffic, const DtRank *rank);
/* Around a step and its update. */
void dt_traffic_begin(DtTraffic *traffic, const DtRank *rank);
void dt_traffic_end(DtTraffic *traffic, const DtRank *rank);
/* Collective over all ranks: the sums become those of all. False after dt_rank_fail. */
bool dt_traffic_join(DtTraffic *traffic, DtRank *rank);

/* Bytes received so far on the group or channel of the instruction; 0 for others. */
uint64_t dt_traffic_of(const DtRank *rank, const DtPlanInst *inst);

#endif
