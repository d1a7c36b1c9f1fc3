/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the times measured by `dtrun PLAN --trace FILE` with the simulation (measured.c). */
#ifndef DT_REPORT_MEASURED_H
#define DT_REPORT_MEASURED_H

#include "base/status.h"
#include "plan/report/summary.h"

/* One instruction; zeros: it is not in the trace. */
typedef struct DtMeasuredInst {
    double seconds; /* the median of its runs */
    double runs;    /* in a step of one rank, on average */
} DtMeasuredInst;

typedef struct DtMeasured {
    DtMeasuredInst *insts; /* by instruction of the plan */
    uint32_t n_steps, n_ranks; /* steps and ranks that are completely in the trace */
    /* seconds: the median over steps, without the first one if there are others */
    double step;
} DtMeasured;

/* Reads a trace of this plan; fails with DT_EXIT_IO if it does not exist or is of another plan. */
DtStatus dt_measured_read(DtArena *arena, const char *path, const DtPlan *plan,
                          DtMeasured *ret_measured);

/* Seconds of a step by purpose, measured and predicted, and the instructions with the largest
 * errors. */
void dt_measured_report(DtArena *arena, const DtSummary *summary, const DtMeasured *measured,
                        DtText *ret_text);

#endif
