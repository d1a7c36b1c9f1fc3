/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters and states matter (live.c). */
#ifndef DT_IR_LIVE_H
#define DT_IR_LIVE_H

#include "ir/ir.h"

/* By number of the store: whether a loss, a metric or a new value of a state depends on it; in a
 * module without losses whether a prediction does. */
bool *dt_live_stores(const DtModule *module, DtArena *arena);

#endif
