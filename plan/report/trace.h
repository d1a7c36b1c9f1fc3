/* SPDX-License-Identifier: Apache-2.0 */
/* Trace events as Perfetto and chrome://tracing read them (trace.c): of a simulated step, for `dtc --report=trace`, and
 * for `dtrun --trace`, which has measured ones beside them. */
#ifndef DT_REPORT_TRACE_H
#define DT_REPORT_TRACE_H

#include "base/text.h"
#include "plan/report/simulate.h"

/* A string of JSON. */
void dt_trace_string(DtText *text, const char *string);

/* What an instruction is called: the kernel's name, "gemm 8x32x16", "all_reduce". */
enum { DT_INST_NAME = 300 };
void dt_trace_name(const DtPlan *plan, const DtPlanInst *inst, char ret_name[DT_INST_NAME]);

/* `,"predicted":SECONDS` with all digits; nothing for what costs nothing by itself. */
void dt_trace_price(const DtPrice *price, DtText *text);

/* How many queues a stage has, queue 0 with them, and what they are called: "compute", "collectives over data". */
enum { DT_TRACE_QUEUE = 128 };
uint32_t dt_trace_queues(const DtPlan *plan);
void dt_trace_queue(const DtPlan *plan, uint32_t queue, char ret_name[DT_TRACE_QUEUE]);

/* A simulation that kept slices, and where one of its stages is drawn. */
typedef struct DtTraceStage {
    const DtPlan *plan;
    const DtPrice *prices;
    const DtSimulation *sim;
    uint32_t stage;
    uint32_t process, track; /* numbers: of its process, of its first track */
    uint32_t order;          /* so many tracks of the process are above */
    double begin;            /* seconds on the trace's clock when the step begins */
    const char *prefix;      /* of names of tracks */
} DtTraceStage;

/* How many numbers of tracks a stage has: dt_trace_stage uses some of track .. track + these - 1. */
uint32_t dt_trace_tracks(const DtPlan *plan);

/* Names of its tracks, then its slices, each event behind a comma: pieces, what is computed, collectives by queue,
 * messages by where they go. Their category is "predicted", then what they are. */
void dt_trace_stage(const DtTraceStage *stage, DtText *ret_text);

#endif
