/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: a call of a streaming function (DtStream), or of its backward part, in which the
 * blocks of the axis stay on their ranks, like keys and values of `attend`:
 *
 *   %o = call[kseq](%q, %k, %v, %mask) : f32[batch, seq/context, ...] func=attend.2 mesh={context}
 *
 * with %k : [batch, kseq/context, ...] where attend.2 takes [batch, kseq, ...]. The meaning of
 * such a call: it gathers, over its mesh axes, the operands whose axis is in blocks; calls the
 * function; and reduce-scatters results with that axis, which are pending over the mesh axes,
 * into the same blocks (other results are equal on all ranks). What ranks really do has the same
 * result: blocks travel from neighbour to neighbour, each rank processes one after the other,
 * and their parts are merged. With several mesh axes all their ranks form one ring in the order
 * of the mesh, so that most steps use its fastest links; the order in which the mesh axes split
 * keys or queries does not matter. The pass `expand` replaces the call by these ops. (After Liu
 * et al., "Ring Attention with Blockwise Transformers", 2023; the merge of blocks is that of
 * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) */
#ifndef DT_PASSES_RING_H
#define DT_PASSES_RING_H

#include "ir/ir.h"

static inline bool dt_ring_is(const DtOp *op) { return op->kind == DT_OP_CALL && op->n_axes != 0; }

/* Builds a ring call over the mesh axes of these bits. in: operands; those that travel are in
 * blocks of axis. */
DtOp *dt_ring_call(DtBuilder *b, DtFunc *func, const char *label, const char *axis, uint16_t mesh,
                   DtValue *const *in);

/* Whether the mesh axes of a ring come first among those that split axis (or are all of them, or
 * none). Then the axis' parts are blocks of what the others leave. */
bool dt_ring_is_major(const DtAxis *axis, uint16_t mesh);

/* Whether value is made of constants and positions by so few elementwise ops that it may be
 * recomputed wherever it is read. An op counts once for each of its readers. */
bool dt_ring_is_positional(const DtValue *value);

/* Why a call of func with operands of these types, in which axis is whole, cannot be a ring over
 * these mesh axes; NULL if it can. */
const char *dt_ring_refuses(const DtFunc *func, const char *axis, const DtType *const *types,
                            uint16_t mesh, DtArena *arena);

/* Whether the op can be done block by block along an axis, or sums over it. */
bool dt_ring_takes(const DtOp *op);

/* Returns, by number of the module's function, whether the function is the part, merge or finish of
 * a streaming function. */
const bool *dt_ring_functions(const DtModule *module);

/* Returns a copy of the stream without the clauses that only rings need. */
const DtStream *dt_ring_without_parts(DtArena *arena, const DtStream *stream);

/* Builds a new function that computes the ring call's results with ops and exchanges. ret_in: its
 * operands (room for all of the call's; inputs.n are set). Operands made of positions and constants
 * are left out, since each block computes them again. */
DtFunc *dt_ring_expand(const DtOp *call, DtModule *module, DtValue **ret_in);

#endif
