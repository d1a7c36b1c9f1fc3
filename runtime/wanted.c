/* SPDX-License-Identifier: Apache-2.0 */
/* The stores of a plan as logical tensors, one per iteration of the loops that stack a store: what
 * checkpoints save and load (checkpoint.c), and what an import fills (import.c). */
#include "runtime/checkpoint.h"

#include "base/text.h"
#include "plan/kinds.h"
#include "runtime/rank.h"

#include <string.h>

/* The store whose rounding a parameter is, or NULL. */
static const DtPlanStore *master_of(const DtPlan *plan, const DtPlanStore *param)
{
    for (uint32_t s = 0; param->kind == DT_PLAN_PARAM && s < plan->n_stores; s++)
        if (plan->stores[s].kind == DT_PLAN_MASTER && plan->stores[s].of >= 0 &&
            &plan->stores[plan->stores[s].of] == param)
            return &plan->stores[s];
    return NULL;
}

static bool is_moment(const DtPlanStore *store)
{
    return store->kind >= DT_PLAN_MOMENT1 && store->kind <= DT_PLAN_MOMENT4;
}

/* Whether each replica has its own of the store. */
static bool has_replicas(const DtPlan *plan, const DtPlanStore *store)
{
    for (uint32_t a = 0; a < store->n_axes; a++)
        if (strcmp(dt_plan_str(plan, plan->axes[store->first_axis + a].name), "@replica") == 0)
            return true;
    return false;
}

bool dt_wanted_is_mean(const DtPlan *plan, const DtPlanStore *store)
{
    return store->kind == DT_PLAN_AVERAGE && store->of >= 0 &&
           has_replicas(plan, &plan->stores[store->of]);
}

static bool belongs(const DtPlan *plan, const DtPlanStore *store, DtSavedFile file)
{
    const bool trained = (store->kind == DT_PLAN_PARAM && master_of(plan, store) == NULL) ||
                         store->kind == DT_PLAN_MASTER || store->kind == DT_PLAN_STATE;
    const bool model =
        dt_wanted_is_mean(plan, store) || (trained && !has_replicas(plan, store));
    const bool optimizer = trained || is_moment(store) || store->kind == DT_PLAN_AVERAGE;
    return store->saved && (file == DT_SAVED_MODEL ? model : optimizer && !model);
}

static int64_t iterations_of(const DtPlan *plan, const DtPlanStore *store)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < store->n_loops; a++)
        n *= plan->axes[store->first_axis + a].local;
    return n;
}

/* The pattern with each # replaced by the number of the iteration of that loop. NULL: more or fewer
 * of them than loops. */
static const char *tensor_name(DtArena *memory, const DtPlan *plan, const DtPlanStore *store,
                               int64_t iteration)
{
    int64_t index[DT_PLAN_MAX_RANK];
    uint32_t loop = 0;
    DtText name = {0};
    for (uint32_t a = store->n_loops; a-- > 0;) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        index[a] = axis->first + iteration % axis->local;
        iteration /= axis->local;
    }
    if (has_replicas(plan, store))
        dt_text_add(&name, DT_REPLICA_PREFIX);
    if (is_moment(store))
        dt_text_printf(&name, "moment%d.", 1 + (int)store->kind - DT_PLAN_MOMENT1);
    if (store->kind == DT_PLAN_AVERAGE && !dt_wanted_is_mean(plan, store))
        dt_text_add(&name, DT_AVERAGE_PREFIX);
    for (const char *at = dt_plan_str(plan, store->pattern); *at; at++)
        if (*at != '#')
            dt_text_add_n(&name, at, 1);
        else if (loop++ < store->n_loops)
            dt_text_printf(&name, "%lld", (long long)index[loop - 1]);
    char *copy =
        loop == store->n_loops && name.len ? dt_arena_strndup(memory, name.at, name.len) : NULL;
    dt_text_free(&name);
    return copy;
}

/* Whether two stores are the same logical tensors. */
static bool same_axes(const DtPlan *plan, const DtPlanStore *x, const DtPlanStore *y)
{
    bool equal = x->n_axes == y->n_axes && x->n_loops == y->n_loops;
    for (uint32_t a = 0; equal && a < x->n_axes; a++)
        equal = plan->axes[x->first_axis + a].extent == plan->axes[y->first_axis + a].extent &&
                (a >= x->n_loops ||
                 plan->axes[x->first_axis + a].local == plan->axes[y->first_axis + a].local);
    return equal;
}

static DtStatus add_store(const DtPlan *plan, DtWanted *wanted, DtArena *memory,
                          const DtPlanStore *store)
{
    const DtPlanAxis *axes = plan->axes + store->first_axis;
    DtTensor tensor = {.dtype = store->dtype, .n_axes = store->n_axes - store->n_loops};
    for (uint32_t a = 0; a < tensor.n_axes; a++)
        tensor.extents[a] = axes[store->n_loops + a].extent;
    tensor.bytes = dt_safetensors_bytes(tensor.dtype, tensor.extents, tensor.n_axes);
    if (tensor.bytes < 0 ||
        (store->kind == DT_PLAN_MASTER && !same_axes(plan, store, &plan->stores[store->of])))
        return dt_status_fail(DT_EXIT_FAILED,
                              "the plan is broken: `%.200s` has a shape that cannot be",
                              dt_plan_str(plan, store->path));
    for (int64_t i = 0; i < iterations_of(plan, store); i++) {
        tensor.name = tensor_name(memory, plan, store, i);
        if (tensor.name == NULL)
            return dt_status_fail(
                DT_EXIT_FAILED, "the plan is broken: `%.200s` with %u loops is called `%.200s`",
                dt_plan_str(plan, store->path), store->n_loops, dt_plan_str(plan, store->pattern));
        wanted->homes[wanted->n] = (DtHome){store, i};
        wanted->tensors[wanted->n++] = tensor;
    }
    return DT_OK;
}

/* Whether two records are of the same tensors: stages that share a parameter have one each. */
static bool same_tensors(const DtPlan *plan, const DtPlanStore *x, const DtPlanStore *y)
{
    bool equal = x->kind == y->kind && x->n_loops == y->n_loops &&
                 strcmp(dt_plan_str(plan, x->path), dt_plan_str(plan, y->path)) == 0;
    for (uint32_t a = 0; equal && a < x->n_loops; a++)
        equal = plan->axes[x->first_axis + a].first == plan->axes[y->first_axis + a].first;
    return equal;
}

const DtPlanStore *dt_wanted_on_stage(const DtPlan *plan, const DtPlanStore *store, uint32_t stage)
{
    if (dt_plan_on_stage(store->stage, stage))
        return store;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        if (dt_plan_on_stage(plan->stores[s].stage, stage) &&
            same_tensors(plan, store, &plan->stores[s]))
            return &plan->stores[s];
    return NULL;
}

/* Whether another record of the same tensors counts instead: that of this stage, else the first. */
static bool is_copy(const DtPlan *plan, uint32_t stage, uint32_t number)
{
    const DtPlanStore *store = &plan->stores[number];
    bool here = dt_plan_on_stage(store->stage, stage);
    for (uint32_t s = 0; plan->meta->pipeline && s < plan->n_stores; s++) {
        const DtPlanStore *other = &plan->stores[s];
        const bool equal = s != number && same_tensors(plan, store, other);
        bool there = dt_plan_on_stage(other->stage, stage);
        if (equal && (there != here ? there : s < number))
            return true;
    }
    return false;
}

DtStatus dt_wanted_of_stage(const DtPlan *plan, uint32_t stage, DtArena *memory, DtSavedFile file,
                            DtWanted *ret_wanted)
{
    int64_t n = 0;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        n += belongs(plan, &plan->stores[s], file) ? iterations_of(plan, &plan->stores[s]) : 0;
    *ret_wanted = (DtWanted){.tensors = DT_NEW_ARRAY(memory, DtTensor, n + 1),
                             .homes = DT_NEW_ARRAY(memory, DtHome, n + 1)};
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        if (!belongs(plan, &plan->stores[s], file) || is_copy(plan, stage, s))
            continue;
        DtStatus status = add_store(plan, ret_wanted, memory, &plan->stores[s]);
        if (!dt_status_ok(&status))
            return status;
    }
    return DT_OK;
}

DtStatus dt_wanted_list(DtRank *rank, DtArena *memory, DtSavedFile file, DtWanted *ret_wanted)
{
    DtStatus status = dt_wanted_of_stage(rank->plan, rank->stage, memory, file, ret_wanted);
    ret_wanted->rank = rank;
    return status;
}

static bool is_over_updates(const DtPlan *plan, uint32_t store)
{
    return plan->stores[store].kind == DT_PLAN_AVERAGE &&
           !dt_wanted_is_mean(plan, &plan->stores[store]);
}

DtStatus dt_wanted_averages(DtRank *rank, DtArena *memory, DtWanted *wanted)
{
    const DtPlan *plan = rank->plan;
    const uint32_t first = wanted->n;
    int64_t n = first;
    DtStatus status = DT_OK;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        n += is_over_updates(plan, s) ? iterations_of(plan, &plan->stores[s]) : 0;
    DtTensor *tensors = DT_NEW_ARRAY(memory, DtTensor, n + 1);
    DtHome *homes = DT_NEW_ARRAY(memory, DtHome, n + 1);
    if (first > 0) {
        memcpy(tensors, wanted->tensors, first * sizeof *tensors);
        memcpy(homes, wanted->homes, first * sizeof *homes);
    }
    wanted->tensors = tensors;
    wanted->homes = homes;
    for (uint32_t s = 0; s < plan->n_stores && dt_status_ok(&status); s++)
        if (is_over_updates(plan, s) && !is_copy(plan, rank->stage, s))
            status = add_store(plan, wanted, memory, &plan->stores[s]);
    for (uint32_t i = first; i < wanted->n; i++)
        wanted->tensors[i].name += strlen(DT_AVERAGE_PREFIX);
    return status;
}

/* Whether one of n floats is infinite or no number: all bits of its exponent are set. */
bool dt_wanted_is_spoilt(uint32_t dtype, const void *at, int64_t n)
{
    const uint32_t mask = dtype == DT_PLAN_F32    ? 0x7f800000u
                          : dtype == DT_PLAN_BF16 ? 0x7f80u
                                                  : 0x7c00u;
    uint32_t any = 0;
    for (int64_t i = 0; i < n && dtype == DT_PLAN_F32; i++)
        any |= (((const uint32_t *)at)[i] & mask) == mask;
    for (int64_t i = 0; i < n && dtype != DT_PLAN_F32; i++)
        any |= (((const uint16_t *)at)[i] & mask) == mask;
    return any != 0;
}
