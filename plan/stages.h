/* SPDX-License-Identifier: Apache-2.0 */
/* Expands records of a plan that hold for several stages. */
#ifndef DT_PLAN_STAGES_H
#define DT_PLAN_STAGES_H

#include "base/arena.h"
#include "plan/plan.h"

/* The checked plan with one STOR record per stage, in the arena; the plan itself if no record
 * holds for several stages. */
const DtPlan *dt_stages_expand(DtArena *arena, const DtPlan *plan);

#endif
