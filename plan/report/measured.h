/* SPDX-License-Identifier: Apache-2.0 */
/* What `dtrun PLAN --trace FILE` measured beside what the simulation says (measured.c). */
#ifndef DT_REPORT_MEASURED_H
#define DT_REPORT_MEASURED_H

#include "base/status.h"
#include "plan/report/summary.h"

/* One instruction; zeros: the trace does not have it. */
typedef struct DtMeasuredInst {
    double seconds; /* the median of its runs */
    double runs;    /* in a step of one rank, the mean */
} DtMeasuredInst;

typedef struct DtMeasured {
    DtMeasuredInst *insts; /* by instruction of the plan */
    uint32_t n_steps, n_ranks; /* of which all is in the trace */
    double step;           /* seconds: the median over steps, but for the first if there are others */
} DtMeasured;

/* Of a trace of this plan; fails with DT_EXIT_IO if there is none, or it is of another plan. */
DtStatus dt_measured_read(DtArena *arena, const char *path, const DtPlan *plan, DtMeasured *ret_measured);

/* Seconds of a step by what they go to, measured and predicted, and the instructions that are farthest off. */
void dt_measured_report(DtArena *arena, const DtSummary *summary, const DtMeasured *measured, DtText *ret_text);

#endif
