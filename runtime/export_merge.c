/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters in an export: a weight w to which one can be added (ADPT in plan/plan.h) is written as
 * w + scale a b. The weight itself is gathered in pieces, as all parameters are. The two matrices
 * of its adapter are gathered whole, as f32: they are much smaller. Sums are in double. */
#include "runtime/export.h"

#include "runtime/rank.h"
#include "runtime/reduce.h"

#include "plan/kinds.h"

#include <string.h>

/* The parameter of a store, which may be its master copy or its average. */
static const DtPlanStore *param_of(const DtPlan *plan, const DtPlanStore *store)
{
    return store->kind == DT_PLAN_MASTER || store->kind == DT_PLAN_AVERAGE
               ? &plan->stores[store->of]
               : store;
}

/* Numbers of the iteration in each loop of the store. */
static void find_loops(const DtPlan *plan, const DtHome *home, int64_t ret_loops[DT_PLAN_MAX_RANK])
{
    int64_t left = home->iteration;
    for (uint32_t a = home->store->n_loops; a-- > 0;) {
        const DtPlanAxis *axis = &plan->axes[home->store->first_axis + a];
        ret_loops[a] = axis->first + left % axis->local;
        left /= axis->local;
    }
}

/* The tensor of the parameter with that path in the same iteration of its loops; -1: there is
 * none. */
static int64_t find_beside(const DtExportMerge *merge, DtPlanStr path, const DtHome *home)
{
    const DtPlan *plan = merge->rank->plan;
    int64_t loops[DT_PLAN_MAX_RANK], other[DT_PLAN_MAX_RANK];
    find_loops(plan, home, loops);
    for (uint32_t h = 0; h < merge->wanted->n; h++) {
        const DtHome *at = &merge->wanted->homes[h];
        if (at->store->n_loops != home->store->n_loops ||
            strcmp(dt_plan_str(plan, param_of(plan, at->store)->path), dt_plan_str(plan, path)))
            continue;
        find_loops(plan, at, other);
        if (memcmp(loops, other, home->store->n_loops * sizeof *loops) == 0)
            return h;
    }
    return -1;
}

static int64_t elements(const DtTensor *tensor)
{
    return tensor->bytes / dt_kinds_size(tensor->dtype);
}

/* Gathers a whole tensor, as f32. */
static bool gather(DtExportMerge *merge, int64_t number, float **ret_values)
{
    const DtTensor *tensor = &merge->wanted->tensors[number];
    const DtHome *home = &merge->wanted->homes[number];
    const int64_t n = elements(tensor), size = dt_kinds_size(tensor->dtype);
    float *values = dt_arena_alloc(merge->memory, (size_t)n * sizeof *values);
    *ret_values = values;
    for (DtPiece piece = {0, 0}; piece.first < n; piece.first += piece.n) {
        piece.n = n - piece.first < merge->most ? n - piece.first : merge->most;
        if (!dt_pack_gather(merge->rank, home->store, home->iteration, piece, merge->some,
                            merge->part))
            return false;
        if (tensor->dtype == DT_PLAN_F32)
            memcpy(values + piece.first, merge->part, (size_t)(piece.n * size));
        else
            dt_reduce_convert((char *)(values + piece.first), DT_PLAN_F32, merge->part,
                              tensor->dtype, piece.n);
    }
    return true;
}

/* The matrices' extents: those of w[from, to], a[from, r], b[r, to]. False: they do not fit. */
static bool find_extents(DtExportMerge *merge, const DtTensor *weight, const DtTensor *a,
                         const DtTensor *b)
{
    if (a->n_axes < 2 || b->n_axes < 2)
        return false;
    merge->r = b->extents[0];
    merge->to = elements(b) / merge->r;
    merge->from = elements(a) / merge->r;
    return a->extents[a->n_axes - 1] == merge->r && merge->from * merge->to == elements(weight) &&
           merge->from > 0;
}

const DtPlanAdapted *dt_exportmerge_record(const DtPlan *plan, const DtPlanNames *names,
                                           const char *path)
{
    for (uint32_t i = 0; i < plan->n_adapted; i++) {
        const DtPlanAdapted *adapted = &plan->adapted[i];
        const bool is_it = strcmp(dt_plan_str(plan, adapted->weight), path) == 0;
        if (is_it && !dt_exportlist_has(plan, names, adapted->a) &&
            !dt_exportlist_has(plan, names, adapted->b))
            return adapted;
    }
    return NULL;
}

DtStatus dt_exportmerge_enter(DtExportMerge *merge, uint32_t number)
{
    const DtPlan *plan = merge->rank->plan;
    const DtHome *home = &merge->wanted->homes[number];
    const char *path = dt_plan_str(plan, param_of(plan, home->store)->path);
    if (merge->home == home)
        return DT_OK;
    merge->home = home;
    merge->record = dt_exportmerge_record(plan, merge->names, path);
    if (merge->record == NULL)
        return DT_OK;
    const int64_t a = find_beside(merge, merge->record->a, home),
                  b = find_beside(merge, merge->record->b, home);
    if (a < 0 || b < 0 ||
        !find_extents(merge, &merge->wanted->tensors[number], &merge->wanted->tensors[a],
                      &merge->wanted->tensors[b]))
        return dt_status_fail(DT_EXIT_FAILED, "the plan is broken: `%.200s` has no such adapter",
                              path);
    if (merge->memory)
        dt_arena_free(merge->memory);
    merge->memory = dt_arena_new();
    if (gather(merge, a, &merge->a) && gather(merge, b, &merge->b))
        return DT_OK;
    return dt_rank_has_failed(merge->rank)
               ? merge->rank->failure
               : dt_status_fail(DT_EXIT_FAILED, "the run is being ended");
}

void dt_exportmerge_add(const DtExportMerge *merge, int64_t first, int64_t n, uint32_t dtype,
                        const char *from, float *ret_values)
{
    double sums[DT_EXPORT_BLOCK];
    if (dtype == DT_PLAN_F32)
        memcpy(ret_values, from, (size_t)n * sizeof *ret_values);
    else
        dt_reduce_convert((char *)ret_values, DT_PLAN_F32, from, dtype, n);
    for (int64_t done = 0, some; done < n; done += some) { /* of one row of w each */
        const int64_t row = (first + done) / merge->to, column = (first + done) % merge->to;
        some = n - done < merge->to - column ? n - done : merge->to - column;
        memset(sums, 0, (size_t)some * sizeof *sums);
        for (int64_t r = 0; r < merge->r; r++) {
            const double factor = (double)merge->a[row * merge->r + r];
            const float *of = merge->b + r * merge->to + column;
            for (int64_t i = 0; i < some; i++)
                sums[i] += factor * (double)of[i];
        }
        for (int64_t i = 0; i < some; i++)
            ret_values[done + i] =
                (float)((double)ret_values[done + i] + merge->record->scale * sums[i]);
    }
}

void dt_exportmerge_close(DtExportMerge *merge)
{
    if (merge->memory)
        dt_arena_free(merge->memory);
}
