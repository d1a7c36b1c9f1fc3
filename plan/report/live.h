/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a stage's memory for temporaries is live, over the time of a step (live.c). */
#ifndef DT_REPORT_LIVE_H
#define DT_REPORT_LIVE_H

#include "plan/report/summary.h"

/* from this time on: bytes */
typedef struct DtLivePoint { double time; int64_t bytes; } DtLivePoint;

/* For one rank of a stage, in the arena: a point per instruction of a step and its update. The
 * summary must have been made with slices. work: a budget, reduced by one for each instruction
 * and iteration; 0 points if it does not suffice. */
uint32_t dt_live_of(DtArena *arena, const DtSummary *summary, uint32_t stage, int64_t *work,
                    DtLivePoint **ret_points);

#endif
