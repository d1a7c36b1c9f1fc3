/* SPDX-License-Identifier: Apache-2.0 */
/* Lists parameters and states of a stage, the tensors that belong to them, and their placement. All
 * with one pattern (h.#.w) are one row. */
#include "plan/report/tensors.h"

#include "base/arena.h"
#include "plan/kinds.h"

#include <stdlib.h>

/* A store in a bucket: the record has the bytes of all tensors in the bucket, in this rank's block
 * or in all blocks. */
const DtPlanPack *dt_tensors_shared(const DtPlan *plan, const DtPlanStore *store)
{
    const DtPlanPack *pack = store->pack ? &plan->packs[store->pack - 1] : NULL;
    double block = (double)dt_kinds_size(store->dtype) * (pack ? (double)pack->run : 0);
    for (uint32_t a = 0; a < store->n_loops; a++)
        block *= (double)plan->axes[store->first_axis + a].local;
    return pack && pack->n_split && (double)store->bytes <= block ? pack : NULL;
}

/* Returns the bytes of a store's elements on a rank; of a store in a bucket its mean share. */
static double bytes_of(const DtPlan *plan, const DtPlanStore *store)
{
    const DtPlanPack *pack = dt_tensors_shared(plan, store);
    double bytes = (double)dt_kinds_size(store->dtype);
    for (uint32_t a = 0; a < store->n_axes; a++)
        bytes *= (double)plan->axes[store->first_axis + a].local;
    for (uint32_t m = 0; pack && m < pack->n_split; m++)
        bytes /= plan->mesh[pack->split[m]].size;
    return bytes;
}

static void add_store(const DtPlan *plan, const DtPlanStore *store, DtTensor *tensor)
{
    const double bytes = bytes_of(plan, store);
    if (store->kind == DT_PLAN_PARAM || store->kind == DT_PLAN_STATE) {
        tensor->own += bytes;
        tensor->iterations += store->n_loops ? plan->axes[store->first_axis].local : 1;
    } else if (store->kind == DT_PLAN_GRAD || store->kind == DT_PLAN_NEXT) {
        tensor->gradients += bytes;
        tensor->gradient = tensor->gradient ? tensor->gradient : store;
    } else {
        tensor->kept += bytes;
        tensor->optimizer = tensor->optimizer ? tensor->optimizer : store;
    }
}

static double sum_of(const DtTensor *tensor)
{
    return tensor->own + tensor->gradients + tensor->kept;
}

static int by_bytes(const void *a, const void *b)
{
    const DtTensor *x = a, *y = b;
    if (sum_of(x) != sum_of(y))
        return sum_of(x) < sum_of(y) ? 1 : -1;
    return x->store < y->store ? -1 : x->store > y->store;
}

DtTensor *dt_tensors_of(const DtPlan *plan, uint32_t stage, uint32_t *ret_n)
{
    DtTensor *tensors = calloc(plan->n_stores + 1, sizeof *tensors);
    uint32_t n = 0;
    if (!tensors)
        dt_arena_exhausted((plan->n_stores + 1) * sizeof *tensors);
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i],
                          *of = store->of >= 0 ? &plan->stores[store->of] : store;
        uint32_t k = 0;
        if (!dt_plan_store_on(store, stage) || store->kind == DT_PLAN_SAVED ||
            store->kind == DT_PLAN_CHANNEL || store->kind == DT_PLAN_CACHE)
            continue;
        while (k < n && tensors[k].store->pattern != of->pattern)
            k++;
        if (k == n)
            tensors[n++].store = of;
        add_store(plan, store, &tensors[k]);
    }
    qsort(tensors, n, sizeof *tensors, by_bytes);
    *ret_n = n;
    return tensors;
}

void dt_tensors_placement(const DtPlan *plan, const DtPlanStore *store, DtText *text)
{
    dt_text_add(text, "[");
    for (uint32_t a = 0; a < store->n_axes; a++) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        dt_text_printf(text, "%s%s", a ? ", " : "", dt_plan_str(plan, axis->name));
        for (int m = 0; m < DT_PLAN_SPLITS && axis->split[m]; m++)
            dt_text_printf(text, "%s%s", m ? " " : " / ",
                           dt_plan_str(plan, plan->mesh[axis->split[m] - 1].name));
    }
    dt_text_add(text, "]");
    const DtPlanPack *pack = store->pack ? &plan->packs[store->pack - 1] : NULL;
    for (uint32_t m = 0; pack && m < pack->n_split; m++)
        dt_text_printf(text, "%s%s", m ? " " : " / ",
                       dt_plan_str(plan, plan->mesh[pack->split[m]].name));
}
