/* SPDX-License-Identifier: Apache-2.0 */
/* Relays: loops of which each rank runs a part of the iterations. So ranks share the blocks of a
 * scan. In the IR
 *
 *   %last, %before = call[seq.64.blocks](%start, %part) : f32[d], f32[seq.64.blocks=32/t, d]
 *   func=relay mesh={t}
 *
 * is a ring call (ring.h). Its meaning: stacked operands are gathered, the function, which is the
 * loop alone, runs all iterations, and each rank keeps its own iterations of stacked results. What
 * ranks really do: each runs its own iterations, once it has received the carried values of the
 * rank before it. One such value crosses per rank, not one per iteration. The pass `expand`
 * replaces the call by these ops. */
#ifndef DT_PASSES_RELAY_H
#define DT_PASSES_RELAY_H

#include "ir/ir.h"

/* Whether a ring call is a relay: a loop that each rank runs over its own iterations, after the
 * rank before it. */
bool dt_relay_is(const DtOp *op);

/* Whether the loop, which is not placed yet, can become a relay. */
bool dt_relay_takes(const DtOp *loop);

/* Builds a new function that computes the relay's results with ops and exchanges. ret_in: its
 * operands, some of the call's. */
DtFunc *dt_relay_expand(const DtOp *call, DtModule *module, DtValue **ret_in);

#endif
