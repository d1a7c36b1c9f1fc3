/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a stage's memory for temporaries holds something that is read later, while a step runs (live.c). */
#ifndef DT_REPORT_LIVE_H
#define DT_REPORT_LIVE_H

#include "plan/report/summary.h"

typedef struct DtLivePoint { double time; int64_t bytes; } DtLivePoint; /* from that time on */

/* Of one rank of a stage, in the arena: a point for each instruction of a step and its update. The summary must have
 * been made with slices. Work: takes a unit for each instruction and iteration; 0 points if that is more than what is
 * left. */
uint32_t dt_live_of(DtArena *arena, const DtSummary *summary, uint32_t stage, int64_t *work, DtLivePoint **ret_points);

#endif
