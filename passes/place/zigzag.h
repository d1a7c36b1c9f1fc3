/* SPDX-License-Identifier: Apache-2.0 */
/* Zigzag order: of an axis that n ranks, those of one mesh axis or of several, split into 2n blocks, rank i
 * has blocks i and 2n-1-i. Types, shape rules and the interpreters know the order; here is how the few ops
 * that must know it are done by ops that do not:
 *
 *   iota, shard          the rank's positions, or what x has there
 *   rng                  what is drawn for the whole axis, at the rank's positions
 *   all_gather           the gather of the parts one after the other, then put in order
 *   reduce_scatter       put in order of ranks, then reduced and scattered
 *   all_to_all           both
 *   gather, scatter_add  where the indices stand among the parts, looked up there */
#ifndef DT_PASSES_ZIGZAG_H
#define DT_PASSES_ZIGZAG_H

#include "ir/ir.h"

/* Whether op needs to know the order. */
bool dt_zigzag_is(const DtOp *op);
/* How many axes more than type dt_zigzag_expand gives to values of an op that has it as operand or result. */
uint32_t dt_zigzag_axes(const DtType *type);

/* A new function of op's operands to its result that does the same. */
DtFunc *dt_zigzag_expand(const DtOp *op, DtModule *module);

/* With n ranks: which of the 2n blocks the first, or else the second one of a rank is (the inverse
 * too: whose a block is); where element `at` of the rank's part stands along the axis. */
DtValue *dt_zigzag_block(DtBuilder *b, int64_t n, DtValue *rank, DtValue *is_first);
DtValue *dt_zigzag_position(DtBuilder *b, int64_t n, int64_t extent, DtValue *rank, DtValue *at);

#endif
