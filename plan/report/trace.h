/* SPDX-License-Identifier: Apache-2.0 */
/* Trace events for Perfetto and chrome://tracing (trace.c): of a simulated step, for `dtc
 * --report=trace`, and for `dtrun --trace`, which puts measured ones next to them. */
#ifndef DT_REPORT_TRACE_H
#define DT_REPORT_TRACE_H

#include "base/text.h"
#include "plan/report/simulate.h"

/* Appends a JSON string. */
void dt_trace_string(DtText *text, const char *string);

/* The name of an instruction in traces: the kernel's name, "gemm 8x32x16", "all_reduce". */
enum { DT_INST_NAME = 300 };
void dt_trace_name(const DtPlan *plan, const DtPlanInst *inst, char ret_name[DT_INST_NAME]);

/* Appends `,"predicted":SECONDS` with all digits; nothing for instructions that cost nothing by
 * themselves. */
void dt_trace_price(const DtPrice *price, DtText *text);

/* Number of queues of a stage, queue 0 included, and their names: "compute", "collectives over
 * data". */
enum { DT_TRACE_QUEUE = 128 };
uint32_t dt_trace_queues(const DtPlan *plan);
void dt_trace_queue(const DtPlan *plan, uint32_t queue, char ret_name[DT_TRACE_QUEUE]);

/* A simulation with slices, and the tracks for one of its stages. */
typedef struct DtTraceStage {
    const DtPlan *plan;
    const DtPrice *prices;
    const DtSimulation *sim;
    uint32_t stage;
    uint32_t process, track; /* number of its process, and that of its first track */
    uint32_t order;          /* number of tracks above it in the process */
    double begin;            /* start of the step on the trace's clock, in seconds */
    const char *prefix;      /* names of tracks */
} DtTraceStage;

/* How many track numbers a stage uses at most: dt_trace_stage uses some of track .. track + n -
 * 1. */
uint32_t dt_trace_tracks(const DtPlan *plan);

/* Appends the names of its tracks, then its slices, each event after a comma: pieces,
 * computation, collectives by queue, messages by destination. Their category is "predicted",
 * then the kind. */
void dt_trace_stage(const DtTraceStage *stage, DtText *ret_text);

#endif
