/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DT_TESTS_ALIKE_H
#define DT_TESTS_ALIKE_H

#include "plan/report/price.h"

/* Uses the same prices for all stages. */
static inline DtPrices prices_alike(DtArena *arena, const DtPlan *plan, const DtPrice *prices)
{
    const DtPrice **by_stage = DT_NEW_ARRAY(arena, const DtPrice *, dt_plan_stages(plan));
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++)
        by_stage[s] = prices;
    return by_stage;
}

#endif
