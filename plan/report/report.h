/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan costs, read off the plan itself: memory of a rank by kind, work and traffic of a
 * step, kernels by work, GEMMs by shape. */
#ifndef DT_REPORT_REPORT_H
#define DT_REPORT_REPORT_H

#include "base/text.h"
#include "plan/plan.h"

#include <stdbool.h>

/* Totals of one entry on one rank. */
typedef struct DtReportEntry {
    const char *name;
    int64_t runs[DT_INST_KINDS];    /* how often instructions of each kind run */
    double flops[DT_INST_KINDS];    /* as recorded for kernels; 2 batch m n k for a GEMM */
    double received[DT_INST_KINDS]; /* bytes that arrive from other ranks */
} DtReportEntry;

/* entry: number of the entry. The plan must have passed dt_check_plan. */
void dt_report_entry(const DtPlan *plan, uint32_t entry, DtReportEntry *ret_entry);

/* How often each instruction of the plan runs in one entry; ret_runs has plan->n_insts numbers. */
void dt_report_runs(const DtPlan *plan, uint32_t entry, int64_t *ret_runs);

/* Adds, for each RUN of the schedule, how often it runs in the entry and in the entries that this
 * calls; runs has plan->n_schedule numbers. */
void dt_report_add_items(const DtPlan *plan, uint32_t entry, int64_t *runs);

/* Whether other entries call it: a piece of a pipeline, which is counted there. */
bool dt_report_is_part(const DtPlan *plan, uint32_t entry);

/* Calls visit once for every instruction of each entry of a step and its update: how often it runs
 * in the entry, and on how many ranks the entry runs. */
typedef void DtReportVisit(void *context, const DtPlanInst *inst, int64_t runs, double ranks);
void dt_report_visit_step(const DtPlan *plan, DtReportVisit *visit, void *context);

/* The same for entry number `way` of those in which replicas exchange parameters; false: there is
 * none. */
bool dt_report_visit_mix(const DtPlan *plan, int64_t way, DtReportVisit *visit, void *context);
/* The part of such an entry in each step, on average. */
double dt_report_mix_share(const DtPlan *plan);

/* Whether it moves data in a group: inst->ref is that of the group. */
bool dt_report_is_collective(const DtPlanInst *inst);

/* Bytes that one rank receives when the instruction runs once, the mean over members: with v the
 * bytes of the whole tensor and n ranks, 2 v (n-1)/n for an all_reduce, v (n-1)/n for all_gather
 * and reduce_scatter, v (n-1)/n^2 for an all_to_all. */
double dt_report_received(const DtPlan *plan, const DtPlanInst *inst);
/* The same summed over all members: a whole number. */
double dt_report_members(const DtPlan *plan, const DtPlanInst *inst);

/* Whether the first input of training holds token ids: several integers per sample, from a sampler
 * of tokens or used as an index. Integers that are only computed with, such as the pixels of an
 * image, are no tokens. */
bool dt_report_has_tokens(const DtPlan *plan);
/* Items of a step and their name: tokens if it has them, else samples. */
double dt_report_items(const DtPlan *plan);
const char *dt_report_item(const DtPlan *plan);

/* Traffic of a group or channel in one step and its update. */
typedef struct DtReportTraffic {
    int64_t runs;    /* number of operations of one rank */
    int64_t beside;  /* how many of these are asynchronous */
    double received; /* bytes that all ranks receive, with the exchanges of replicas */
    double mixed;    /* those of exchanges of replicas: the mean over steps */
} DtReportTraffic;
void dt_report_traffic(const DtPlan *plan, DtReportTraffic *ret_groups,
                       DtReportTraffic *ret_channels);

/* Appends " gpt2.dsl:21 h.attention", if the span is known, and a newline. */
void dt_report_place(const DtPlan *plan, uint32_t span, DtText *text);

/* Registers and spills of the plan's code for one GPU target: number of kernels, most registers
 * of a thread, number of kernels that spill, and the one that spills most. i: number of the
 * target; false: there are no more. */
typedef struct DtReportCode {
    const char *target;
    uint32_t kernels, registers, spilling, worst, spilled;
} DtReportCode;
bool dt_report_code(const DtPlan *plan, uint32_t i, DtReportCode *ret_code);
/* Finds the records of REGS of a kernel; ret_n of them. */
const DtPlanRegisters *dt_report_registers(const DtPlan *plan, uint32_t kernel, uint32_t *ret_n);

double dt_report_gemm_flops(const DtPlanGemm *gemm);

/* Prints the schedule: its items in order, with counts and source lines. */
void dt_report_schedule(const DtPlan *plan, DtText *ret_text);

/* Prints memory, entries, traffic, products and kernels, the 12 heaviest of each: many screens. */
void dt_report_details(const DtPlan *plan, DtText *ret_text);

#endif
