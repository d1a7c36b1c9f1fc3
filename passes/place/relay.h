/* SPDX-License-Identifier: Apache-2.0 */
/* Relays: a loop whose ranks have parts of its axis, as the blocks of a scan are shared. By its meaning
 *
 *   %last, %before = call[seq.64.blocks](%start, %part) : f32[d], f32[seq.64.blocks=32/t, d] func=relay mesh={t}
 *
 * is a ring call (ring.h): what is stacked is gathered, the function, which is the loop alone, goes along all of it,
 * and each rank keeps its iterations of what is stacked behind. What ranks do is go through their own iterations,
 * once they are told what the ranks before them carry: one such value per rank crosses, not one per iteration. The
 * pass `expand` puts these ops in the place of the call. */
#ifndef DT_PASSES_RELAY_H
#define DT_PASSES_RELAY_H

#include "ir/ir.h"

/* Whether a ring call is one of these. */
bool dt_relay_is(const DtOp *op);

/* Whether the loop, which is not placed yet, can be one. */
bool dt_relay_takes(const DtOp *loop);

/* The ops of a relay: a new function of the call's operands (in ret_in) to its results. */
DtFunc *dt_relay_expand(const DtOp *call, DtModule *module, DtValue **ret_in);

#endif
