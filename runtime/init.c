/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters and states. Each element is drawn by itself: the key is the store's
 * (a hash of path and seed), the counter is the element's logical index, row-major over its axes
 * sorted by name, and the iteration of the loops that stack it. So every layout starts with the
 * same numbers, a rank draws only its part, and its threads share that. A parameter in 16 bits is
 * its master copy, rounded. Padding and moments are zero. */
#include "runtime/device.h"
#include "runtime/rank.h"

#include "base/apart.h"
#include "base/half.h"
#include "base/philox.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { MOST_THREADS = 64, ENOUGH = 1 << 16 /* elements for a thread of their own */ };

/* Walks over the local elements of a store, in memory order. */
typedef struct Walk {
    uint32_t n;
    int64_t at[DT_PLAN_MAX_RANK], local[DT_PLAN_MAX_RANK];
    int64_t start[DT_PLAN_MAX_RANK], extent[DT_PLAN_MAX_RANK];
    int64_t weight[DT_PLAN_MAX_RANK]; /* what one step along the axis adds to the element's index; 0
                                       * for loop axes */
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
        /* The index is row-major over the sorted names: axes whose names sort later are inner
         * ones. */
        walk->weight[a] = 1;
        for (uint32_t b = store->n_loops; b < store->n_axes; b++)
            if (b != a &&
                strcmp(dt_plan_str(plan, axes[b].name), dt_plan_str(plan, axes[a].name)) > 0)
                walk->weight[a] *= axes[b].extent;
    }
}

static void walk_next(Walk *walk)
{
    for (uint32_t a = walk->n; a-- > 0; walk->at[a] = 0)
        if (++walk->at[a] < walk->local[a])
            return;
}

/* Sets index and iteration of the current element; false if it is padding. */
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

/* ---- a store, by several threads ---- */

/* A part of the work: draws `n` of the elements that the rank has of a store, from number `first`
 * on, in the order of its memory. */
typedef struct Part {
    const DtRank *rank;
    const DtPlanStore *store;
    void *values;
    int64_t first, n;
} Part;

static void walk_to(Walk *walk, int64_t number)
{
    for (uint32_t a = walk->n; a-- > 0; number /= walk->local[a])
        walk->at[a] = number % walk->local[a];
}

static void *draw_part(void *data)
{
    const Part *part = data;
    const DtPlanStore *store = part->store;
    const DtStoreRange range = dt_pack_range(part->rank->plan, part->rank->coord, store);
    Walk walk;
    uint64_t element;
    uint32_t iteration;
    walk_open(part->rank, store, &walk);
    for (int64_t at = part->first; at < part->first + part->n; at++, walk_next(&walk)) {
        const int64_t loop = at / range.n, number = at % range.n;
        if (at == part->first || number == 0) /* what a bucket's other ranks have is left out */
            walk_to(&walk, loop * range.length + range.first + number);
        if (walk_index(&walk, store, &element, &iteration))
            put(part->values, loop * range.stride + range.at + number, store->dtype,
                draw(store, element, iteration));
    }
    return NULL;
}

/* The number of elements that the rank has of the store, in all iterations of its loops. */
static int64_t elements_of(const DtRank *rank, const DtPlanStore *store)
{
    int64_t n = dt_pack_range(rank->plan, rank->coord, store).n;
    for (uint32_t a = 0; a < store->n_loops; a++)
        n *= rank->plan->axes[store->first_axis + a].local;
    return n;
}

/* Draws initial values in several threads. The ranks of this machine share its processors. If a
 * thread cannot be started, this thread draws its part. The threads block signals, so that these
 * reach the thread that runs the rank. */
static void draw_parts(Part *parts, uint32_t n)
{
    pthread_t threads[MOST_THREADS];
    bool runs[MOST_THREADS] = {false};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 1; i < n; i++)
        runs[i] = pthread_create(&threads[i], NULL, draw_part, &parts[i]) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (uint32_t i = 0; i < n; i++)
        if (!runs[i])
            draw_part(&parts[i]);
    for (uint32_t i = 1; i < n; i++)
        if (runs[i])
            pthread_join(threads[i], NULL);
}

void dt_init_store(const DtRank *rank, const DtPlanStore *store, void *ret_values)
{
    const uint32_t ranks = rank->local.size ? rank->local.size : 1,
                   processors = dt_apart_processors() / ranks;
    const int64_t elements = elements_of(rank, store), worth = elements / ENOUGH;
    const int64_t most = processors < MOST_THREADS ? processors : MOST_THREADS;
    const int64_t n = worth < 1 || most < 1 ? 1 : worth < most ? worth : most;
    Part parts[MOST_THREADS];
    if (store->pack == 0) /* other parameters are in the same bucket, whose memory is zeroed at
                           * start; so padding is zero */
        memset(ret_values, 0, (size_t)store->bytes);
    if (store->init == DT_PLAN_CONST && store->init_a == 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = elements / n * i, end = i + 1 < n ? first + elements / n : elements;
        parts[i] = (Part){rank, store, ret_values, first, end - first};
    }
    draw_parts(parts, (uint32_t)n);
}

bool dt_init_others(DtRank *rank, DtInitSkips skips, const void *context)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if ((store->kind != DT_PLAN_PARAM && store->kind != DT_PLAN_STATE &&
             store->kind != DT_PLAN_MASTER && store->kind != DT_PLAN_AVERAGE) ||
            !dt_plan_on_stage(store->stage, rank->stage))
            continue; /* the memory of arenas is zeroed at start */
        if (skips && skips(context, rank, store))
            continue;
        DtLent lent =
            dt_device_lend(rank, dt_device_place(rank, store->arena, store->offset, store->bytes));
        dt_init_store(rank, store, lent.at);
        dt_device_back(rank, &lent, true);
    }
    return true;
}

bool dt_init_stores(DtRank *rank)
{
    return dt_init_others(rank, NULL, NULL);
}

void dt_init_zero(DtRank *rank)
{
    for (uint32_t i = 0; i < rank->plan->n_stores; i++) {
        const DtPlanStore *store = &rank->plan->stores[i];
        if (store->kind < DT_PLAN_MOMENT1 || store->kind > DT_PLAN_MOMENT4 ||
            !dt_plan_on_stage(store->stage, rank->stage))
            continue;
        DtLent lent = dt_device_lend_new(
            rank, dt_device_place(rank, store->arena, store->offset, store->bytes));
        memset(lent.at, 0, (size_t)store->bytes);
        dt_device_back(rank, &lent, true);
    }
}
