/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as codes, before the model predicts: entry "quantize" makes them of the parameters that
 * were loaded. Nothing reads those parameters afterwards: such a run neither trains nor saves. */
#include "runtime/quantize.h"

#include "plan/kinds.h"
#include "runtime/device.h"

#include <sys/mman.h>
#include <unistd.h>

/* Gives whole pages of the parameter's memory back. Returns their bytes; 0: the memory is a
 * device's, shared with other ranks, or a bucket's. */
static int64_t release(DtRank *rank, const DtPlanStore *param)
{
    if (!rank->device_ops->is_host || rank->plan->arenas[param->arena].shared || param->pack)
        return 0;
    const uintptr_t at = (uintptr_t)(rank->arenas[param->arena].at + (uint64_t)param->offset),
                    page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (at + page - 1) / page * page,
                    last = (at + (uintptr_t)param->bytes) / page * page;
    if (last <= first)
        return 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return madvise((void *)first, last - first, MADV_DONTNEED) ? 0 : (int64_t)(last - first);
}

/* Bytes of the store's elements on this rank; of a parameter in a bucket, with all ranks' parts. */
static int64_t bytes_of(const DtPlan *plan, const DtPlanStore *store)
{
    int64_t bytes = dt_kinds_size(store->dtype);
    for (uint32_t a = 0; a < store->n_axes; a++)
        bytes *= plan->axes[store->first_axis + a].local;
    return bytes;
}

static void say(const DtRank *rank, int64_t weights, int64_t codes, int64_t released, uint32_t n)
{
    char of_weights[32], of_codes[32], given[32];
    if (rank->rank != 0 || rank->options->quiet)
        return;
    dt_text_bytes(of_weights, (double)weights);
    dt_text_bytes(of_codes, (double)codes);
    dt_text_bytes(given, (double)released);
    fprintf(stderr,
            "dtrun: %u parameters are codes: %s in place of %s on a rank; %s given back\n", n,
            of_codes, of_weights, given);
}

bool dt_quantize_run(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    int64_t weights = 0, codes = 0, released = 0;
    uint32_t n = 0;
    if (!dt_exec_has(rank, "quantize"))
        return true;
    if (!dt_exec_entry(rank, "quantize"))
        return false;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if (store->kind != DT_PLAN_CODES && store->kind != DT_PLAN_SCALES)
            continue;
        codes += store->bytes;
        if (store->kind == DT_PLAN_SCALES)
            continue;
        n++;
        weights += bytes_of(plan, &plan->stores[store->of]);
        for (uint32_t k = 0; dt_run_predicts(rank->options) && k < plan->n_stores; k++)
            if ((int32_t)k == store->of ||
                (plan->stores[k].kind == DT_PLAN_AVERAGE && plan->stores[k].of == store->of))
                released += release(rank, &plan->stores[k]);
    }
    say(rank, weights, codes, released, n);
    return true;
}
