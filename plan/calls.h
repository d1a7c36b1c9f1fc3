/* SPDX-License-Identifier: Apache-2.0 */
/* How the instructions of a plan call its kernels (calls.c), for compiling the kernels' units. */
#ifndef DT_PLAN_CALLS_H
#define DT_PLAN_CALLS_H

#include "base/arena.h"
#include "base/hostrun.h"
#include "plan/plan.h"

/* The distinct calls of each kernel: a second one only if another instruction overlaps its
 * arguments differently. Units are those of CODE. Of the plan only META, MESH, KERN, ARGS, INST
 * and strings are used. Symbols are the plan's. */
void dt_calls_find(DtArena *arena, const DtPlan *plan, DtHostCall **ret_calls, uint32_t *ret_n);

#endif
