/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes received in steps, by group and channel (traffic.c). */
#ifndef DT_RUNTIME_TRAFFIC_H
#define DT_RUNTIME_TRAFFIC_H

#include "runtime/runtime.h"

void dt_traffic_open(DtTraffic *traffic, const DtRank *rank);
/* The two are called before and after a step and its update. */
void dt_traffic_begin(DtTraffic *traffic, const DtRank *rank);
void dt_traffic_end(DtTraffic *traffic, const DtRank *rank);
/* Collective over all ranks: sets the counts to the sums over all ranks. False after
 * dt_rank_fail. */
bool dt_traffic_join(DtTraffic *traffic, DtRank *rank);

/* The bytes received so far through the group or channel of the instruction; 0 for other
 * instructions. */
uint64_t dt_traffic_of(const DtRank *rank, const DtPlanInst *inst);

#endif
