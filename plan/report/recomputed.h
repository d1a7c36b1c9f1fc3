/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the products and attention kernels that the backward pass recomputes (recomputed.c). */
#ifndef DT_REPORT_RECOMPUTED_H
#define DT_REPORT_RECOMPUTED_H

#include "base/arena.h"
#include "plan/plan.h"

#include <stdbool.h>

/* ret_again: by instruction, n_insts of them. False: nothing is recomputed. */
bool dt_recomputed_find(DtArena *arena, const DtPlan *plan, bool *ret_recomputed);

#endif
