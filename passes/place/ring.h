/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: a call of a function that streams (DtStream), or of its backward part, whose blocks of the axis stay
 * where they are, as keys and values of `attend` do:
 *
 *   %o = call[kseq](%q, %k, %v, %mask) : f32[batch, seq/context, ...] func=attend.2 mesh={context}
 *
 * with %k : [batch, kseq/context, ...] where attend.2 takes [batch, kseq, ...]. By its meaning such a call gathers,
 * over its mesh axes, the operands that have its axis in blocks where the function takes it whole; calls the
 * function; and reduces and scatters what results have that axis and are pending over all of the mesh axes, in the
 * same blocks, or that all ranks have alike. What ranks do is another thing with the same result: the blocks travel
 * from neighbour to neighbour, each rank meets one after the other, and the parts that they leave are merged. Over
 * several mesh axes all their ranks are one ring, in the order of the mesh, so that most steps are over its fastest
 * links; in which order the mesh axes split keys or queries does not matter. The pass `expand` puts these ops in the
 * place of the call. (After Liu et al., "Ring Attention with Blockwise Transformers", 2023; the merge of blocks is
 * that of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) */
#ifndef DT_PASSES_RING_H
#define DT_PASSES_RING_H

#include "ir/ir.h"

static inline bool dt_ring_is(const DtOp *op) { return op->kind == DT_OP_CALL && op->n_axes != 0; }

/* A ring call over the mesh axes of these bits; in: operands, those that travel in their blocks of
 * axis. */
DtOp *dt_ring_call(DtBuilder *b, DtFunc *func, const char *label, const char *axis, uint16_t mesh,
                   DtValue *const *in);

/* Whether the mesh axes of a ring are the major ones that split axis, or all, or none: then its parts are
 * blocks of what is left. */
bool dt_ring_is_major(const DtAxis *axis, uint16_t mesh);

/* Whether value is made of constants and positions by elementwise ops, by so few that it may be
 * made anew wherever it is read. One that several of them read counts for each. */
bool dt_ring_is_positional(const DtValue *value);

/* Why a call of func with operands of these types, in which axis is whole, cannot be a ring over
 * these mesh axes; NULL if it can. */
const char *dt_ring_refuses(const DtFunc *func, const char *axis, const DtType *const *types,
                            uint16_t mesh, DtArena *arena);

/* Whether the op does to blocks of an axis what it does to all of it, or sums over the axis. */
bool dt_ring_takes(const DtOp *op);

/* By number of the module's function: whether it is what a stream is made of, and so of the types that this has. */
const bool *dt_ring_functions(const DtModule *module);

/* That a function streams, without what only rings need of it. */
const DtStream *dt_ring_without_parts(DtArena *arena, const DtStream *stream);

/* The ops of a ring call: a new function of those operands in ret_in (room for all of the call's;
 * their number is its inputs.n) to the call's results. An operand made of positions and constants
 * only is made anew for every block, and not among them. */
DtFunc *dt_ring_expand(const DtOp *call, DtModule *module, DtValue **ret_in);

#endif
