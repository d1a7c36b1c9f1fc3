/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a plan that hold for several stages, stage by stage. */
#ifndef DT_PLAN_STAGES_H
#define DT_PLAN_STAGES_H

#include "base/arena.h"
#include "plan/plan.h"

/* The checked plan with one STOR record per stage, in the arena; the plan itself if it has no
 * others. */
const DtPlan *dt_stages_expand(DtArena *arena, const DtPlan *plan);

#endif
