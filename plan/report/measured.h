/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the times measured by `dtrun PLAN --trace FILE` with the simulation (measured.c). */
#ifndef DT_REPORT_MEASURED_H
#define DT_REPORT_MEASURED_H

#include "base/status.h"
#include "plan/report/summary.h"

/* One instruction; all zeros: the trace lacks it. */
typedef struct DtMeasuredInst {
    double seconds; /* median time of its runs */
    double runs;    /* average over the runs in a step of one rank */
} DtMeasuredInst;

typedef struct DtMeasured {
    DtMeasuredInst *insts; /* by instruction of the plan */
    uint32_t n_steps, n_ranks; /* steps and ranks that are completely in the trace */
    /* seconds: the median over steps, without the first one if there are others */
    double step;
} DtMeasured;

/* Reads the trace of a run of this plan; fails with DT_EXIT_IO if the file does not exist or is of
 * another plan. */
DtStatus dt_measured_read(DtArena *arena, const char *path, const DtPlan *plan,
                          DtMeasured *ret_measured);

/* Seconds of a step by purpose, measured and predicted, and the instructions with the largest
 * errors. */
void dt_measured_report(DtArena *arena, const DtSummary *summary, const DtMeasured *measured,
                        DtText *ret_text);

#endif
