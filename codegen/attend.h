/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by attend.c, which emits attention in tiles, and attend_parts.c, which finds the parts of the function. */
#ifndef DT_CODEGEN_ATTEND_H
#define DT_CODEGEN_ATTEND_H

#include "codegen/emit.h"

/* What an op of the function is: see attend.c. TOTAL: an output that the region's kernel adds up. */
typedef enum DtTilePart {
    DT_TILE_BEFORE, DT_TILE_SCORE, DT_TILE_REGION, DT_TILE_TOTAL, DT_TILE_OUTPUT, DT_TILE_AFTER
} DtTilePart;

enum { DT_TILE_VALUES = 8 }; /* most that the products take, and most outputs; two each in practice */

/* A call while it is cut into tiles. */
typedef struct DtTiling {
    DtEmit *e;
    const DtOp *call;
    const DtFunc *func, *outside; /* the function, its caller */
    DtScope *scope;            /* of the function */
    DtTilePart *part;          /* by op position */
    uint32_t *position;        /* by value id */
    bool *leaves;              /* by op position: of the region, and its result leaves the block */
    const char *s, *t;
    const char *loops[4];      /* axes that become loops, and their local extents */
    int64_t counts[4];
    uint32_t n_loops;
    int64_t n_s, n_t;          /* local extents */
    bool masked;               /* reach: blocks may leave keys out */
    const DtValue *mask;       /* by which they do */
    const DtValue *masked_by;  /* what it hides counts for nothing; of it nothing else need be known */
    DtReach reach;
    DtTileWhy why;             /* with dt_tile_analyse false */
    DtValue **inlined;         /* by argument: the caller's cheap value, or NULL */
    bool numbered;             /* the region's text depends on the first query of the block */
    int64_t like_rows, like_keys; /* of the last block, and 1 + its region's kernel */
    uint32_t like;
    /* of the current block */
    int64_t at, rows, keys;
    DtValue **clone;           /* by value id: in the block's own function */
    DtValue **clone_outside;   /* the same of the caller's cheap values */
    DtPlace *cuts, *scores, *here; /* by value id: scores and region values; scores; what products look at */
} DtTiling;

static inline bool dt_tile_has(const DtValue *value, const char *axis) { return dt_type_find(value->type, axis) >= 0; }

static inline DtTilePart dt_tile_part(const DtTiling *g, const DtValue *value)
{
    if (value->op)
        return g->part[g->position[value->id]];
    return g->inlined[value->index] ? DT_TILE_REGION : DT_TILE_BEFORE;
}

/* Whether op number i is done by the region's kernel. */
static inline bool dt_tile_is_of_region(const DtTiling *g, uint32_t i)
{
    return g->part[i] == DT_TILE_REGION || g->part[i] == DT_TILE_TOTAL;
}

/* Whether it makes an output there; or anywhere. */
static inline bool dt_tile_is_left(const DtTiling *g, uint32_t i)
{
    return g->part[i] == DT_TILE_TOTAL || g->leaves[i];
}

static inline bool dt_tile_is_output(const DtTiling *g, uint32_t i)
{
    return g->part[i] == DT_TILE_OUTPUT || dt_tile_is_left(g, i);
}

/* Finds axes, parts and mask; false if the function has another shape. */
bool dt_tile_analyse(DtTiling *g);

/* attend_kernel.c: whether the target has a kernel for all of it (lint L0588 if only of other forms), and its launch.
 * All that comes before lies in memory. */
bool dt_attend_has_kernel(DtTiling *g);
void dt_attend_launch(DtTiling *g);

#endif
