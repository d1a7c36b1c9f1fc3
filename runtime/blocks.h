/* SPDX-License-Identifier: Apache-2.0 */
/* Strided blocks: the layout of data that members of a group exchange (plan.h, BLOK). */
#ifndef DT_RUNTIME_BLOCKS_H
#define DT_RUNTIME_BLOCKS_H

#include "runtime/runtime.h"

/* Returns the blocks of every BLOK record (the layout of an exchange) as this rank sees them. */
DtRankBlocks *dt_blocks_resolve(const DtRank *rank);

/* Sets ret_strides to the strides of a contiguous block with these extents. */
void dt_blocks_set_dense(const DtRankBlocks *blocks, int64_t *ret_strides);

/* Copies the block at `from` to `to`, each with its own strides; element: bytes of one. */
void dt_blocks_copy(const DtRankBlocks *blocks, int64_t element, char *to, const char *from);

/* Copies n elements of the block from number `first` on (row-major), between the block at
 * `strided`, whose strides are `strides`, and contiguous memory. */
void dt_blocks_pack(const DtRankBlocks *blocks, const int64_t *strides, int64_t element,
                    char *dense, const char *strided, int64_t first, int64_t n);
void dt_blocks_unpack(const DtRankBlocks *blocks, const int64_t *strides, int64_t element,
                      char *strided, const char *dense, int64_t first, int64_t n);

/* A walk over a block in copies of rows: each is `rows` times `run` adjacent elements, which begin
 * at elements `to` and `from` and are to_row and from_row elements apart. */
typedef struct DtBlockWalk {
    const DtRankBlocks *blocks;
    uint32_t n_outer; /* the outer dimensions */
    int64_t run, rows, to_row, from_row;
    int64_t to, from;
    int64_t at[DT_PLAN_BLOCK_DIMS];
} DtBlockWalk;
DtBlockWalk dt_blocks_rows(const DtRankBlocks *blocks);
bool dt_blocks_next(DtBlockWalk *walk); /* false: there are no more copies */

/* Reduces n blocks at from[0], from[1], ... in this order into `to`, which may be one of them.
 * scratch: memory for n blocks. */
void dt_blocks_reduce(const DtRankBlocks *blocks, DtPlanDtype dtype, DtPlanReduce reduce, char *to,
                      const void *const *from, uint32_t n, const void **scratch);

#endif
