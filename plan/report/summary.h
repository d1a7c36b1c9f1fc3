/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that all forms of a report print, computed once (summary.c). */
#ifndef DT_REPORT_SUMMARY_H
#define DT_REPORT_SUMMARY_H

#include "plan/report/memory.h"
#include "plan/report/report.h"
#include "plan/report/simulate.h"

/* Returns the text of a line of a source file, which ends at a newline or NUL; NULL: the line is
 * not known. */
typedef const char *DtReportSource(void *context, const char *file, uint32_t line);

/* A possible change of a run, and the time of a step with it. */
typedef struct DtReportChange {
    const char *text;
    double seconds;      /* the time of a step with the change */
    bool bound;          /* the time is a lower bound; false: it was simulated */
} DtReportChange;

enum { DT_REPORT_CHANGES = 3 };

typedef struct DtSummary {
    const DtPlan *plan;
    DtMemory worst;      /* the stage with most memory */
    double have;         /* bytes of memory of its device; 0: not known */
    bool is_gpu;
    /* the rest is valid only if the device is known */
    bool stuck; /* its stages wait for each other for ever: no step ends */
    bool has_time;
    DtCostModel model;
    DtPrices prices;
    /* by instruction: mean seconds over the stages that run it in a step and its update */
    const double *seconds;
    const char *devices; /* devices of all ranks: "96 h100-sxm" (nodes.h) */
    DtSimulation sim;
    uint32_t dtype;      /* dtype of most products */
    double peak;         /* FLOP/s of a rank for products of that dtype, the mean over ranks */
    /* operations of a step over all ranks, with recomputation; of attention all scores count */
    double flops;
    /* those of the serial program; equal to `flops` if the plan does not record them */
    double model_flops;
    double mfu, hfu;     /* 0..1 */
    /* fraction of the step in which stages wait for others, the mean over stages */
    double bubble;
    /* by instruction: it is a product or attention that recomputes a value which was not saved;
     * NULL: none is. recomputed_flops: operations of these in a step over all ranks */
    const bool *recomputed; double recomputed_flops;
    /* the most helpful change first */
    DtReportChange changes[DT_REPORT_CHANGES]; uint32_t n_changes;
    /* what follows is given by options: */
    double tokens, price; /* tokens of a run; money for an hour of a device; 0: not given */
    DtReportSource *source; void *source_context;
} DtSummary;

typedef struct DtReportOptions {
    bool slices, insts;  /* instructions of which the simulation keeps slices */
    uint32_t most_slices; /* the most slices; 0: as many as a trace may have */
    double tokens, price;
    DtReportSource *source; void *source_context; /* NULL: source lines are not shown */
} DtReportOptions;

/* In the arena; it refers to the plan, which must outlive it. model NULL: taken from the plan's
 * records of the device, if it has any. */
void dt_summary_make(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                     const DtReportOptions *options, DtSummary *ret_summary);

/* Appends the definition of a number in reports (terms.def, times.def, overheads.def), as
 * paragraphs; false: there is none of that name. */
bool dt_summary_explain(const char *name, DtText *ret_text);

#endif
