/* SPDX-License-Identifier: Apache-2.0 */
/* Strided blocks: what members of a group exchange, where it lies (plan.h, BLOK). */
#ifndef DT_RUNTIME_BLOCKS_H
#define DT_RUNTIME_BLOCKS_H

#include "runtime/runtime.h"

/* The blocks of every BLOK record as this rank sees them. */
DtRankBlocks *dt_blocks_resolve(const DtRank *rank);

/* Copies the block at `from` to `to`, each with its own strides; element: bytes of one. */
void dt_blocks_copy(const DtRankBlocks *blocks, int64_t element, char *to, const char *from);

/* The reduction of the blocks at from[0], from[1], ... (n of them) in that order, to `to`, where one of them may lie.
 * scratch: room for n. */
void dt_blocks_reduce(const DtRankBlocks *blocks, DtPlanDtype dtype, DtPlanReduce reduce, char *to,
                      const void *const *from, uint32_t n, const void **scratch);

#endif
