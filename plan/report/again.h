/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the products and attention kernels that the backward pass recomputes (again.c). */
#ifndef DT_REPORT_AGAIN_H
#define DT_REPORT_AGAIN_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

/* ret_again: by instruction, n_insts of them. False: nothing is recomputed. */
bool dt_again_find(DtArena *arena, const DtPlan *plan, bool *ret_again);

#endif
