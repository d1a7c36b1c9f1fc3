/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a rank: what the plan lays out, what stands beside it on a device, where it is largest (memory.c). */
#ifndef DT_REPORT_MEMORY_H
#define DT_REPORT_MEMORY_H

#include "plan/plan.h"

#include <stdbool.h>

typedef enum DtOverhead {
#define DT_OVERHEAD(id, mib, within, name, source) DT_OVERHEAD_##id,
#include "plan/report/overheads.def"
#undef DT_OVERHEAD
    DT_OVERHEADS
} DtOverhead;

typedef struct DtOverheadRow {
    int64_t bytes;
    const char *name, *source;
} DtOverheadRow;
extern const DtOverheadRow dt_memory_overheads[DT_OVERHEADS];

/* Names of arena kinds for people: "parameters". */
extern const char *const dt_memory_kinds[DT_ARENA_KINDS];

/* Of one rank of a stage, in bytes. */
typedef struct DtMemory {
    uint32_t stage;
    int64_t arenas[DT_ARENA_KINDS];   /* by kind, as the plan lays them out */
    int64_t in_flight;                /* of activations: what micro-batches in a pipeline keep for their backward */
    int64_t allocated;                /* arenas of a run that trains: all but those of "predict" */
    int64_t predict;                  /* what "predict" would need besides */
    int64_t overheads[DT_OVERHEADS];  /* on a GPU */
    int64_t reserved;                 /* allocated, in pages of the device, and overheads: what a GPU shows as taken */
} DtMemory;

/* Whether the plan is for a GPU says n_launches, or is_gpu. */
void dt_memory_stage(const DtPlan *plan, uint32_t stage, bool is_gpu, DtMemory *ret_memory);
/* The stage that needs most to train, the first of equal ones. */
void dt_memory_worst(const DtPlan *plan, bool is_gpu, DtMemory *ret_memory);

/* Where temporaries of a rank of the stage need most memory in training; NULL: there are none. */
const DtPlanPeak *dt_memory_peak(const DtPlan *plan, uint32_t stage);

/* Bytes that a library for attention may want beside all that, at most (plan.h, SDPA). */
double dt_memory_attention(const DtPlan *plan);

#endif
