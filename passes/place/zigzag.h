/* SPDX-License-Identifier: Apache-2.0 */
/* Zigzag order: an axis is split over n ranks, of one mesh axis or several, in 2n blocks, of
 * which rank i has blocks i and 2n-1-i (so that causal attention is balanced). Types, shape
 * rules and interpreters know the order. The few other ops that depend on it are replaced here
 * by ops that do not:
 *
 *   iota, shard          the rank's positions, or x at these
 *   rng                  the draw for the whole axis, at the rank's positions
 *   all_gather           the gather of the parts one after the other, then put in order
 *   reduce_scatter       put in order of ranks, then reduced and scattered
 *   all_to_all           both
 *   gather, scatter_add  looks indices up at their places among the parts */
#ifndef DT_PASSES_ZIGZAG_H
#define DT_PASSES_ZIGZAG_H

#include "ir/ir.h"

/* Whether op has to be rewritten because an axis of it is split in zigzag order. */
bool dt_zigzag_is(const DtOp *op);
/* Returns how many axes more than type the values may have that dt_zigzag_expand makes for an
 * operand or result of op. */
uint32_t dt_zigzag_axes(const DtType *type);

/* Builds a new function of op's operands that computes op's result with plain blocks. */
DtFunc *dt_zigzag_expand(const DtOp *op, DtModule *module);

/* block: with n ranks, which of the 2n blocks the first (is_first) or second one of a rank is;
 * also the inverse, whose block it is. position: where element `at` of the rank's part is along
 * the axis. */
DtValue *dt_zigzag_block(DtBuilder *b, int64_t n, DtValue *rank, DtValue *is_first);
DtValue *dt_zigzag_position(DtBuilder *b, int64_t n, int64_t extent, DtValue *rank, DtValue *at);

#endif
