/* SPDX-License-Identifier: Apache-2.0 */
/* Which products and kernels of attention backward computes again (again.c). */
#ifndef DT_REPORT_AGAIN_H
#define DT_REPORT_AGAIN_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

/* ret_again: by instruction, n_insts of them; in the arena what is needed to find them. False: there is none. */
bool dt_again_find(DtArena *arena, const DtPlan *plan, bool *ret_again);

#endif
