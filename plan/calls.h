/* SPDX-License-Identifier: Apache-2.0 */
/* How the instructions of a plan call its kernels (calls.c). */
#ifndef DT_PLAN_CALLS_H
#define DT_PLAN_CALLS_H

#include "base/arena.h"
#include "base/hostrun.h"
#include "plan/plan.h"

/* One call of each kernel, and a second one where another instruction lays its arguments over each other in
 * another way. Units are those of CODE. Of the plan: META, MESH, KERN, ARGS, INST and strings. Symbols are the
 * plan's. */
void dt_calls_find(DtArena *arena, const DtPlan *plan, DtHostCall **ret_calls, uint32_t *ret_n);

#endif
