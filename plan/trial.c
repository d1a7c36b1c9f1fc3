/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets in the memory of a trial. */
#include "plan/trial.h"

#include "plan/kinds.h"

#include <string.h>

enum { ALIGNED = 64 };

static bool is_shown(const DtPlanStore *store)
{
    const uint32_t kinds = 1u << DT_PLAN_PARAM | 1u << DT_PLAN_STATE | 1u << DT_PLAN_MASTER |
                           1u << DT_PLAN_MOMENT1 | 1u << DT_PLAN_MOMENT2 | 1u << DT_PLAN_MOMENT3 |
                           1u << DT_PLAN_MOMENT4 | 1u << DT_PLAN_AVERAGE;
    return store->saved && store->kind < DT_PLAN_STORES && (kinds >> store->kind & 1);
}

static int64_t find(const DtPlan *plan, const DtTrialLayout *layout, const DtPlanStore *store)
{
    for (uint32_t i = 0; i < layout->n; i++)
        if (layout->tensors[i].store->kind == store->kind &&
            layout->tensors[i].store->dtype == store->dtype &&
            strcmp(dt_plan_str(plan, layout->tensors[i].store->path),
                   dt_plan_str(plan, store->path)) == 0)
            return i;
    return -1;
}

/* Stores of one kind and path are parts of one tensor, so their logical extents must agree. */
static bool same_extents(const DtPlan *plan, const DtPlanStore *x, const DtPlanStore *y)
{
    bool same = x->n_axes == y->n_axes && x->n_loops == y->n_loops;
    for (uint32_t a = 0; same && a < x->n_axes; a++)
        same = plan->axes[x->first_axis + a].extent == plan->axes[y->first_axis + a].extent;
    return same;
}

static bool add_tensor(const DtPlan *plan, const DtPlanStore *store, DtTrialLayout *layout)
{
    DtTrialTensor tensor = {.store = store, .elements = 1, .at = layout->values};
    for (uint32_t a = 0; a < store->n_axes; a++)
        if (__builtin_mul_overflow(tensor.elements, plan->axes[store->first_axis + a].extent,
                                   &tensor.elements))
            return false;
    if (__builtin_mul_overflow(tensor.elements, dt_kinds_size(store->dtype), &tensor.bytes) ||
        __builtin_add_overflow(layout->values, tensor.bytes, &layout->values) ||
        __builtin_add_overflow(layout->values, ALIGNED - 1, &layout->values))
        return false;
    layout->values -= layout->values % ALIGNED;
    layout->tensors[layout->n++] = tensor;
    return true;
}

bool dt_trial_layout(DtArena *arena, const DtPlan *plan, uint32_t events, DtTrialLayout *ret_layout)
{
    DtTrialLayout layout = {.tensors = DT_NEW_ARRAY(arena, DtTrialTensor, plan->n_stores + 1u),
                            .of_store = DT_NEW_ARRAY(arena, int64_t, plan->n_stores + 1u),
                            .scalars = ((int64_t)plan->n_metrics + plan->n_shows) * 8,
                            .begin = (sizeof(DtTrial) + ALIGNED - 1) / ALIGNED * ALIGNED};
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        layout.of_store[s] = -1;
        if (!is_shown(&plan->stores[s]))
            continue;
        layout.of_store[s] = find(plan, &layout, &plan->stores[s]);
        if (layout.of_store[s] >= 0) {
            if (!same_extents(plan, layout.tensors[layout.of_store[s]].store, &plan->stores[s]))
                return false;
            continue;
        }
        layout.of_store[s] = layout.n;
        if (!add_tensor(plan, &plan->stores[s], &layout))
            return false;
    }
    if (events > DT_TRIAL_EVENTS ||
        layout.values > INT64_MAX / (4 * DT_TRIAL_EVENTS) - layout.scalars)
        return false;
    layout.bytes = dt_trial_values(&layout, events);
    *ret_layout = layout;
    return true;
}

int64_t dt_trial_iterations(const DtPlan *plan, const DtPlanStore *store)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < store->n_loops; a++)
        n *= plan->axes[store->first_axis + a].local;
    return n;
}

int64_t dt_trial_iteration(const DtPlan *plan, const DtPlanStore *store, int64_t local)
{
    int64_t number = 0, weight = 1;
    for (uint32_t a = store->n_loops; a-- > 0;) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        number += weight * (axis->first + local % axis->local);
        weight *= axis->extent;
        local /= axis->local;
    }
    return number;
}
