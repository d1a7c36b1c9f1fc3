/* SPDX-License-Identifier: Apache-2.0 */
/* tile: how the points of a kernel fall to blocks and threads (tile.c). */
#ifndef DT_CODEGEN_CUDA_TILE_H
#define DT_CODEGEN_CUDA_TILE_H

#include "codegen/kernel.h"

typedef enum DtHold {
    DT_HOLD_NOTHING,    /* loads are made anew in each phase; sums are in memory of the block */
    DT_HOLD_REGISTERS,  /* a thread has its elements of the row, all at once, in registers */
    DT_HOLD_BLOCK       /* a thread keeps the elements that it has loaded, and its sums, in
                         * memory of the block */
} DtHold;

typedef struct DtTile {
    uint32_t threads;   /* of a block */
    uint32_t lanes;     /* of each reduction along a row; 0: there is none */
    uint32_t group;     /* neighbouring threads that share an item; 1: each thread has its own
                         * item; */
                        /* more than a warp: the whole block */
    DtHold hold;        /* where threads keep the elements of a row that they have loaded, and
                         * add up over rows */
    /* neighbouring elements of the last axis that a thread has: lanes of a row, or points */
    uint32_t vector;
    /* a thread handles so many neighbours along rows_axis in turn: 4 for draws, else 1 */
    uint32_t rows, rows_axis;
    uint32_t free;      /* bits: axes of the space that number the items; each item loops over the
                         * other axes */
    int64_t items;      /* rows, columns, or points */
    int64_t pieces;     /* number of pieces of each item, each computed by a thread or a group of
                         * threads; else 1 */
    /* the most reductions of a phase, which is how many values each warp leaves for the others */
    uint32_t slots;
    /* bytes of a block's memory before its sums over rows, and before rows that it keeps */
    uint32_t sums_at, held_at;
    uint32_t shared;    /* bytes of shared memory, including lists of points */
    /* sums by index: how many places along the indexed axes a block has; 0: a thread has all places
     * of its item */
    int64_t places;
    double each;        /* number of elements that a thread processes for its item */
    int64_t blocks;     /* of a launch: with one item for each group, or as many as a launch may
                         * have */
} DtTile;

void dt_tile_order(DtKernel *kernel); /* DtTargetRow.order */
/* Bytes of shared memory for a row of a load, if the block holds it. each: neighbouring elements of
 * a thread. */
int64_t dt_tile_held_bytes(const DtKernel *kernel, uint32_t load, uint32_t each);
/* uses: dt_rows_uses, or NULL. */
DtTile dt_tile_of(const DtKernel *kernel, const bool *live, const uint32_t *uses);
int64_t dt_tile_blocks(int64_t items, uint32_t at_once); /* blocks for so many items, if a block
                                                          * processes at_once of them at a time */

#endif
