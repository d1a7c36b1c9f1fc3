/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 prints before the first training step and after the last one (banner.c). */
#ifndef DT_RUNTIME_BANNER_H
#define DT_RUNTIME_BANNER_H

#include "runtime/runtime.h"

enum { DT_BANNER_RECENT = 20 }; /* the summary shows the mean loss of this many last steps */

/* Sums over the steps of this run, for the summary. */
typedef struct DtRunTotals {
    int64_t steps;  /* finished in this run */
    double seconds; /* seconds that these steps took */
    double goodput; /* after the last of them */
    int64_t rows;   /* samples that these steps took */
    int64_t timed;  /* steps in timed_seconds: all but the first two, in which libraries start */
    double timed_seconds;
    int64_t timed_rows;
    /* By number of the loss in the plan. A loss that is taken in every n-th step only has fewer
     * values than there are steps. */
    struct DtLossTotals {
        int64_t n;                       /* number of values so far */
        double first;                    /* the first value */
        double recent[DT_BANNER_RECENT]; /* value number i is at i % DT_BANNER_RECENT */
    } losses[DT_PLAN_MAX_OBJECTIVES];
    DtShown eval; /* the last evaluation; n 0: there was none */
} DtRunTotals;

/* Prints the model, its parameters, the layout, the memory of a rank, the data with the steps of an
 * epoch, and what the run will do. The data readers must be open. False after dt_rank_fail. */
bool dt_banner_begin(DtRank *rank, DtProgress *progress, int64_t first_step);
void dt_banner_step(DtRunTotals *totals, const DtStepReport *report);
/* Prints losses, the mean rate, the files that the run wrote, and the command that continues the
 * training. is_saved: the folder of checkpoints contains one. */
void dt_banner_end(const DtRank *rank, DtProgress *progress, const DtRunTotals *totals,
                   bool is_saved);

#endif
