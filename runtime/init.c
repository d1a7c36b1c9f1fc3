/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters and states. Each element is drawn by itself: the key is the store's
 * (a hash of path and seed), the counter is the element's logical index, row-major over its axes
 * sorted by name, and the iteration of the loops that stack it. So every layout starts with the
 * same numbers, and a rank draws only its part. A parameter in 16 bits is its master copy, rounded.
 * Padding and moments are zero. */
#include "runtime/device.h"
#include "runtime/rank.h"

#include "base/half.h"
#include "base/philox.h"

#include <string.h>

/* The walk over the local elements of a store, in memory order. */
typedef struct Walk {
    uint32_t n;
    int64_t at[DT_PLAN_MAX_RANK], local[DT_PLAN_MAX_RANK];
    int64_t start[DT_PLAN_MAX_RANK], extent[DT_PLAN_MAX_RANK];
    int64_t weight[DT_PLAN_MAX_RANK]; /* of the axis in the element's index; 0 for loop axes */
} Walk;

static void walk_open(const DtRank *rank, const DtPlanStore *store, Walk *walk)
{
    const DtPlan *plan = rank->plan;
    const DtPlanAxis *axes = plan->axes + store->first_axis;
    *walk = (Walk){.n = store->n_axes};
    for (uint32_t a = 0; a < store->n_axes; a++) {
        walk->local[a] = axes[a].local;
        walk->extent[a] = axes[a].extent;
        walk->start[a] = dt_rank_axis_start(plan, rank->coord, &axes[a]);
        if (a < store->n_loops)
            continue;
        /* Row-major over names: the axes that sort behind this one lie inside it. */
        walk->weight[a] = 1;
        for (uint32_t b = store->n_loops; b < store->n_axes; b++)
            if (b != a &&
                strcmp(dt_plan_str(plan, axes[b].name), dt_plan_str(plan, axes[a].name)) > 0)
                walk->weight[a] *= axes[b].extent;
    }
}

static bool walk_next(Walk *walk)
{
    for (uint32_t a = walk->n; a-- > 0;) {
        if (++walk->at[a] < walk->local[a])
            return true;
        walk->at[a] = 0;
    }
    return false;
}

/* Index and iteration of the element the walk is at; false in the padding. */
static bool walk_index(const Walk *walk, const DtPlanStore *store, uint64_t *ret_element,
                       uint32_t *ret_iteration)
{
    uint64_t element = 0;
    uint32_t iteration = 0;
    for (uint32_t a = 0; a < walk->n; a++) {
        int64_t index = walk->start[a] + walk->at[a];
        if (index >= walk->extent[a])
            return false;
        if (a < store->n_loops)
            iteration = iteration * (uint32_t)walk->extent[a] + (uint32_t)index;
        element += (uint64_t)walk->weight[a] * (uint64_t)index;
    }
    *ret_element = element;
    *ret_iteration = iteration;
    return true;
}

static double draw(const DtPlanStore *store, uint64_t element, uint32_t iteration)
{
    if (store->init == DT_PLAN_CONST)
        return store->init_a;
    DtPhilox random = dt_philox(store->key, element, 0, iteration);
    return store->init == DT_PLAN_NORMAL
               ? store->init_a * dt_philox_normal(random)
               : store->init_a + (store->init_b - store->init_a) * dt_philox_uniform(random);
}

static void put(void *values, int64_t at, uint32_t dtype, double value)
{
    switch (dtype) {
    case DT_PLAN_BOOL:
    case DT_PLAN_U8: ((uint8_t *)values)[at] = (uint8_t)value; break;
    case DT_PLAN_U16: ((uint16_t *)values)[at] = (uint16_t)value; break;
    case DT_PLAN_U32: ((uint32_t *)values)[at] = (uint32_t)value; break;
    case DT_PLAN_I32: ((int32_t *)values)[at] = (int32_t)value; break;
    case DT_PLAN_I64: ((int64_t *)values)[at] = (int64_t)value; break;
    case DT_PLAN_BF16: ((uint16_t *)values)[at] = dt_half_to_bf16((float)value); break;
    case DT_PLAN_F16: ((uint16_t *)values)[at] = dt_half_to_f16((float)value); break;
    case DT_PLAN_F32: ((float *)values)[at] = (float)value; break;
    case DT_PLAN_F64: ((double *)values)[at] = value; break;
    default: break;
    }
}

void dt_init_store(const DtRank *rank, const DtPlanStore *store, void *ret_values)
{
    Walk walk;
    uint64_t element;
    uint32_t iteration;
    int64_t at = 0;
    DtStoreRange range = dt_pack_range(rank->plan, rank->coord, store);
    if (store->pack == 0) /* others share a bucket, which starts zeroed */
        memset(ret_values, 0, (size_t)store->bytes);
    if (store->init == DT_PLAN_CONST && store->init_a == 0)
        return;
    walk_open(rank, store, &walk);
    do {
        int64_t number = at % range.length - range.first;
        if (number >= 0 && number < range.n && walk_index(&walk, store, &element, &iteration))
            put(ret_values, at / range.length * range.stride + range.at + number, store->dtype,
                draw(store, element, iteration));
        at++;
    } while (walk_next(&walk));
}

bool dt_init_stores(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if ((store->kind != DT_PLAN_PARAM && store->kind != DT_PLAN_STATE &&
             store->kind != DT_PLAN_MASTER) ||
            !dt_plan_on_stage(store->stage, rank->stage))
            continue; /* arenas start zeroed */
        DtLent lent = dt_device_lend(rank, dt_device_place(rank, store->arena, store->offset, store->bytes));
        dt_init_store(rank, store, lent.at);
        dt_device_back(rank, &lent, true);
    }
    return true;
}
