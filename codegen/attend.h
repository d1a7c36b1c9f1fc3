/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by attend.c, which emits attention in tiles, and attend_parts.c, which finds the parts of
 * the function. */
#ifndef DT_CODEGEN_ATTEND_H
#define DT_CODEGEN_ATTEND_H

#include "codegen/emit.h"

/* The role of an op in the streaming function: see attend.c. TOTAL: an output that the region's
 * kernel accumulates. */
typedef enum DtTilePart {
    DT_TILE_BEFORE, DT_TILE_SCORE, DT_TILE_REGION, DT_TILE_TOTAL, DT_TILE_OUTPUT, DT_TILE_AFTER
} DtTilePart;

enum { DT_TILE_VALUES = 8 }; /* most values in products, and most outputs; two each in practice */

/* A call while it is cut into tiles. */
typedef struct DtTiling {
    DtEmit *e;
    const DtOp *call;
    const DtFunc *func, *outside; /* the function, its caller */
    DtScope *scope;            /* scope of the function */
    DtTilePart *part;          /* by op position */
    uint32_t *position;        /* by value id */
    /* by op position: it is in the region, and later ops read its result outside the block */
    bool *leaves;
    const char *s, *t;
    const char *loops[4];      /* axes that become loops, and their local extents */
    int64_t counts[4];
    uint32_t n_loops;
    int64_t n_s, n_t;          /* local extents */
    bool masked;               /* `reach` is valid: blocks may leave out keys */
    const DtValue *mask;       /* the mask that hides them */
    const DtValue *masked_by;  /* the value whose mask hides scores that do not change the result */
    DtVisible reach;
    DtTileWhy why;             /* why dt_tile_analyse returned false */
    /* by argument: the caller's value if it is cheap enough to compute again in the kernel, or
     * NULL */
    DtValue **inlined;
    /* the text of the region's kernel depends on the first query of the block */
    bool numbered;
    int64_t like_rows, like_keys; /* rows of the last block that was emitted, and */
    uint32_t like; /* 1 + number of its kernel */
    /* of the current block */
    int64_t at, rows, keys;
    DtValue **clone;           /* by value id: its clone in the block's own function */
    DtValue **clone_outside;   /* the same for cheap values of the caller */
    /* by value id: scores and region values; scores; operands of products */
    DtPlace *cuts, *scores, *here;
} DtTiling;

static inline bool dt_tile_has(const DtValue *value, const char *axis)
{
    return dt_type_find(value->type, axis) >= 0;
}

static inline DtTilePart dt_tile_part(const DtTiling *g, const DtValue *value)
{
    if (value->op)
        return g->part[g->position[value->id]];
    return g->inlined[value->index] ? DT_TILE_REGION : DT_TILE_BEFORE;
}

/* Whether the region's kernel computes op number i. */
static inline bool dt_tile_is_of_region(const DtTiling *g, uint32_t i)
{
    return g->part[i] == DT_TILE_REGION || g->part[i] == DT_TILE_TOTAL;
}

/* is_left: whether the region's kernel stores op i's result; is_output: whether any instruction of
 * the block does. */
static inline bool dt_tile_is_left(const DtTiling *g, uint32_t i)
{
    return g->part[i] == DT_TILE_TOTAL || g->leaves[i];
}

static inline bool dt_tile_is_output(const DtTiling *g, uint32_t i)
{
    return g->part[i] == DT_TILE_OUTPUT || dt_tile_is_left(g, i);
}

/* Finds axes, roles and mask; false if the function has no such roles. */
bool dt_tile_analyse(DtTiling *g);

/* attend_kernel.c: whether the target has a kernel for the whole function (lint L0588 if it has
 * kernels only for other functions); emits its launch. All operands must be in memory. */
bool dt_attend_has_kernel(DtTiling *g);
void dt_attend_launch(DtTiling *g);

#endif
