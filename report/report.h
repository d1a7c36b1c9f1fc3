/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan costs, read off the plan itself: memory of a rank by kind, work and traffic of a step, kernels
 * by work, GEMMs by shape. */
#ifndef DT_REPORT_REPORT_H
#define DT_REPORT_REPORT_H

#include "base/text.h"
#include "plan/plan.h"

#include <stdbool.h>

/* Totals of one entry on one rank. */
typedef struct DtReportEntry {
    const char *name;
    int64_t runs[DT_INST_KINDS];    /* how often instructions of each kind run */
    double flops[DT_INST_KINDS];    /* kernels: as recorded; GEMM: 2 batch m n k */
    double received[DT_INST_KINDS]; /* bytes that arrive from other ranks */
} DtReportEntry;

/* entry: number of the entry. The plan must have passed dt_check_plan. */
void dt_report_entry(const DtPlan *plan, uint32_t entry, DtReportEntry *ret_entry);

/* How often each instruction of the plan runs in one entry; ret_runs has plan->n_insts numbers. */
void dt_report_runs(const DtPlan *plan, uint32_t entry, int64_t *ret_runs);

/* Whether other entries call it: a piece of a pipeline, which is counted there. */
bool dt_report_is_part(const DtPlan *plan, uint32_t entry);

double dt_report_gemm_flops(const DtPlanGemm *gemm);

const char *dt_report_kind(uint32_t inst_kind); /* "gemm" */

/* The schedule: what runs in which order, how often, from which line. */
void dt_report_schedule(const DtPlan *plan, DtText *ret_text);

void dt_report_text(const DtPlan *plan, DtText *ret_text);
void dt_report_json(const DtPlan *plan, DtText *ret_text);

#endif
