/* SPDX-License-Identifier: Apache-2.0 */
/* Expands stores of several stages to one record per stage, for code that goes through the
 * stores of all ranks, as the runtime does. A record `stage s, more n` becomes n + 1 records, in
 * which the loop axes begin `step` later each. */
#include "plan/stages.h"

#include <string.h>

typedef struct Axes {
    uint32_t at, n_axes, more; /* n_axes 0: not expanded yet */
} Axes;

typedef struct Stages {
    DtArena *arena;
    const DtPlan *plan;
    DtPlan *to;
    uint32_t *first; /* by store: the number of its first record */
    Axes *axes;      /* by axis record: the axes that replace it, stage by stage */
} Stages;

static uint64_t count_stores(const DtPlan *plan)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < plan->n_stores; i++)
        n += plan->stores[i].more + 1;
    return n;
}

/* Copies the axes of a store for all of its stages to `to`, unless another store of the same stages
 * has done so; returns the number of the first one. */
static uint32_t axes_of(Stages *s, const DtPlanStore *store, DtPlanAxis *to)
{
    if (store->n_axes == 0)
        return store->first_axis;
    Axes *known = &s->axes[store->first_axis];
    if (known->n_axes == store->n_axes && known->more == store->more)
        return known->at;
    *known = (Axes){s->to->n_axes, store->n_axes, store->more};
    for (uint32_t k = 0; k <= store->more; k++)
        for (uint32_t a = 0; a < store->n_axes; a++) {
            DtPlanAxis *axis = &to[s->to->n_axes++];
            *axis = s->plan->axes[store->first_axis + a];
            axis->first += (int64_t)k * axis->step;
            axis->step = 0;
        }
    return known->at;
}

/* Returns the most axis records that can result: no two stores share axes. */
static uint64_t count_axes(const DtPlan *plan)
{
    uint64_t n = plan->n_axes;
    for (uint32_t i = 0; i < plan->n_stores; i++)
        n += plan->stores[i].more ? (plan->stores[i].more + 1u) * plan->stores[i].n_axes : 0u;
    return n;
}

const DtPlan *dt_stages_expand(DtArena *arena, const DtPlan *plan)
{
    const uint64_t n = count_stores(plan);
    if (n == plan->n_stores)
        return plan;
    Stages s = {.arena = arena, .plan = plan, .to = DT_NEW(arena, DtPlan)};
    DtPlanStore *stores = DT_NEW_ARRAY(arena, DtPlanStore, n);
    DtPlanAxis *axes = DT_NEW_ARRAY(arena, DtPlanAxis, count_axes(plan));
    s.first = DT_NEW_ARRAY(arena, uint32_t, plan->n_stores);
    s.axes = DT_NEW_ARRAY(arena, Axes, plan->n_axes + 1);
    *s.to = *plan;
    memcpy(axes, plan->axes, plan->n_axes * sizeof *axes);
    s.to->n_stores = 0;
    for (uint32_t i = 1; i < plan->n_stores; i++)
        s.first[i] = s.first[i - 1] + plan->stores[i - 1].more + 1;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        const uint32_t first_axis = store->more ? axes_of(&s, store, axes) : store->first_axis;
        for (uint32_t k = 0; k <= store->more; k++) {
            DtPlanStore *copy = &stores[s.to->n_stores++];
            *copy = *store;
            copy->more = 0;
            copy->stage += (int32_t)k;
            copy->first_axis = first_axis + (store->more ? k * store->n_axes : 0);
            if (store->of >= 0)
                copy->of = (int32_t)(s.first[store->of] + k);
        }
    }
    s.to->stores = stores;
    s.to->axes = axes;
    return s.to;
}
