/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a rank: the plan's arenas, the overheads of a device, and the stage with most of it
 * (memory.c). */
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

/* Names of kinds of arenas, for people: "parameters". */
extern const char *const dt_memory_kinds[DT_ARENA_KINDS];

/* Memory of one rank of a stage, in bytes. */
typedef struct DtMemory {
    uint32_t stage;
    int64_t arenas[DT_ARENA_KINDS];   /* by kind of arena, as laid out in the plan */
    /* the part of activations that micro-batches in a pipeline keep for their backward pass */
    int64_t in_flight;
    int64_t allocated;                /* arenas of a training run: all but those of "predict" */
    int64_t predict;                  /* additional bytes for "predict" */
    int64_t overheads[DT_OVERHEADS];  /* the overheads of a GPU */
    /* allocated bytes in pages of the device, plus overheads: the memory use that a GPU's tools
     * show */
    int64_t reserved;
} DtMemory;

/* The plan is for a GPU if it has launch records, or is_gpu. */
void dt_memory_stage(const DtPlan *plan, uint32_t stage, bool is_gpu, DtMemory *ret_memory);
/* The stage that needs most memory for training, the first one of equals. */
void dt_memory_worst(const DtPlan *plan, bool is_gpu, DtMemory *ret_memory);

/* The moment at which the temporaries of a rank of the stage need most memory in training; NULL:
 * the stage has none. */
const DtPlanPeak *dt_memory_peak(const DtPlan *plan, uint32_t stage);

/* Host memory that a run with checkpoints takes on each rank in addition to the memory of training:
 * its share of a copy of the state, from which files are written while training goes on
 * (runtime/saver.c). */
int64_t dt_memory_copy(const DtPlan *plan);

/* Host memory that rank 0 takes while it saves in the plain way (runtime/save.c): for a piece of a
 * tensor that it gathers from other ranks, or from a GPU, and for what one rank holds of it. At
 * most DT_SAVE_BYTES; twice the largest gathered tensor if that is less; 0: rank 0 holds all
 * tensors whole. */
enum { DT_SAVE_BYTES = 64 << 20 };
int64_t dt_memory_save(const DtPlan *plan, bool is_gpu);

/* The most bytes that a library for attention may need in addition (plan.h, SDPA). */
double dt_memory_attention(const DtPlan *plan);

/* Bytes that a rank moves in a step, the mean over ranks, if that library stores the gradients of
 * all scores and reads them once. A record whose workspace has no room for them has none. */
double dt_memory_scores(const DtPlan *plan);

#endif
