/* SPDX-License-Identifier: Apache-2.0 */
/* What all forms of a report print, worked out once (summary.c). */
#ifndef DT_REPORT_SUMMARY_H
#define DT_REPORT_SUMMARY_H

#include "plan/report/memory.h"
#include "plan/report/report.h"
#include "plan/report/simulate.h"

/* A line of a source file, up to its end or a newline; NULL: it is not known. */
typedef const char *DtReportSource(void *context, const char *file, uint32_t line);

/* A change of the run and what the step would take with it. */
typedef struct DtReportChange {
    const char *text;
    double seconds;      /* of a step then */
    bool bound;          /* no step is shorter for that alone; else as simulated */
} DtReportChange;

enum { DT_REPORT_CHANGES = 3 };

typedef struct DtSummary {
    const DtPlan *plan;
    DtMemory worst;      /* the stage with most memory */
    double have;         /* bytes of its device; 0: not known */
    bool is_gpu;
    /* below: only if the device is known */
    bool stuck; /* its stages wait for each other for ever: no step ends */
    bool has_time;
    DtCostModel model;
    DtPrices prices;
    const double *seconds; /* by instruction: the mean over the stages that run it in a step and its update */
    const char *devices; /* of all ranks: "96 h100-sxm" (nodes.h) */
    DtSimulation sim;
    uint32_t dtype;      /* of most products */
    double peak;         /* FLOP/s of a rank in products of that dtype, the mean over ranks */
    double flops;        /* of a step over all ranks, with what is computed again; of attention all scores count */
    double model_flops;  /* of the serial program; flops, if the plan does not say */
    double mfu, hfu;     /* 0..1 */
    double bubble;       /* the mean over stages of the share of the step that they wait for others */
    const bool *again; double again_flops; /* by instruction: it computes again what was not kept, such products and
                          * attention; NULL: none does. Their operations of a step over all ranks */
    DtReportChange changes[DT_REPORT_CHANGES]; uint32_t n_changes; /* what helps most first */
    /* asked for */
    double tokens, price; /* of a run; money for an hour of a device; 0: not asked */
    DtReportSource *source; void *source_context;
} DtSummary;

typedef struct DtReportOptions {
    bool slices, insts;  /* the simulation keeps them */
    uint32_t most_slices; /* so many; 0: as many as a trace may have */
    double tokens, price;
    DtReportSource *source; void *source_context; /* NULL: no source is shown */
} DtReportOptions;

/* In the arena, and of the plan, which must outlive it. model NULL: of the plan's records of the device, if it has
 * any. */
void dt_summary_make(DtArena *arena, const DtPlan *plan, const DtCostModel *model, const DtReportOptions *options,
                     DtSummary *ret_summary);

/* The definition of a number of reports (terms.def, times.def, overheads.def), as paragraphs; false: there is none of
 * that name. */
bool dt_summary_explain(const char *name, DtText *ret_text);

#endif
