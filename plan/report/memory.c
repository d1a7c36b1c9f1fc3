/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a rank. A plan's arenas are all that a rank allocates for the program, once, before the
 * first step; a GPU rounds each up to pages and adds what context, communicators and libraries
 * take. */
#include "plan/report/memory.h"

#include "plan/kinds.h"
#include "plan/report/report.h"

#include <string.h>

const DtOverheadRow dt_memory_overheads[DT_OVERHEADS] = {
#define DT_OVERHEAD(id, mib, within, name, source) {mib##LL << 20, name, source},
#include "plan/report/overheads.def"
#undef DT_OVERHEAD
};

const char *const dt_memory_kinds[DT_ARENA_KINDS] = {
    [DT_ARENA_PARAMS] = "parameters",   [DT_ARENA_GRADS] = "gradients",
    [DT_ARENA_OPTIMIZER] = "optimizer", [DT_ARENA_ACTIVATIONS] = "activations",
    [DT_ARENA_INPUTS] = "inputs",       [DT_ARENA_SCALARS] = "scalars",
    [DT_ARENA_WORKSPACE] = "workspace", [DT_ARENA_PREDICT] = "predict",
    [DT_ARENA_PREDICTED] = "predicted", [DT_ARENA_INSTEAD] = "instead",
    [DT_ARENA_CACHE] = "cache",
};

/* ---- sizes ---- */

enum { PAGE = 2 << 20 }; /* pages of a GPU's allocations */

static int64_t in_pages(int64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* Returns the number of communicators: one of all ranks, and one for each set of mesh axes that
 * collectives use. */
static int64_t communicators(const DtPlan *plan)
{
    int64_t n = plan->meta->n_ranks > 1;
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        bool repeated = plan->groups[g].size < 2 || plan->groups[g].size == plan->meta->n_ranks;
        for (uint32_t k = 0; k < g; k++)
            repeated = repeated || plan->groups[k].mask == plan->groups[g].mask;
        n += !repeated;
    }
    return n;
}

static int64_t launch_workspace(const DtPlan *plan)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        most = plan->launches[i].workspace > most ? plan->launches[i].workspace : most;
    return (int64_t)most;
}

void dt_memory_stage(const DtPlan *plan, uint32_t stage, bool is_gpu, DtMemory *ret_memory)
{
    DtMemory *m = ret_memory;
    *m = (DtMemory){.stage = stage};
    for (uint32_t i = 0; i < plan->n_arenas; i++) {
        const int64_t bytes = dt_plan_arena_bytes(plan, i, stage);
        const uint32_t kind = plan->arenas[i].kind;
        const bool is_usual = dt_plan_is_usual(kind);
        m->in_flight += kind == DT_ARENA_ACTIVATIONS && i >= DT_ARENA_KINDS ? bytes : 0;
        m->arenas[kind] += bytes;
        m->predict += dt_plan_predicts(kind) ? bytes : 0;
        m->allocated += is_usual ? bytes : 0;
        m->reserved += !is_usual ? 0 : is_gpu ? in_pages(bytes) : bytes;
    }
    if (!is_gpu)
        return;
    m->overheads[DT_OVERHEAD_CONTEXT] = dt_memory_overheads[DT_OVERHEAD_CONTEXT].bytes;
    m->overheads[DT_OVERHEAD_COMMUNICATOR] =
        dt_memory_overheads[DT_OVERHEAD_COMMUNICATOR].bytes * communicators(plan);
    m->overheads[DT_OVERHEAD_PRODUCTS] =
        launch_workspace(plan) +
        (plan->n_gemms ? dt_memory_overheads[DT_OVERHEAD_PRODUCTS].bytes : 0);
    for (int i = 0; i < DT_OVERHEADS; i++)
        m->reserved += m->overheads[i];
}

/* Whether rank 0 holds all elements of the store's tensors, without padding. */
static bool is_whole(const DtPlan *plan, const DtPlanStore *store)
{
    bool whole = store->stage <= 0 && store->more == 0;
    for (uint32_t a = store->n_loops; a < store->n_axes; a++) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        whole = whole && axis->local == axis->extent;
    }
    return whole && (store->pack == 0 || plan->packs[store->pack - 1].n_split == 0);
}

/* Whether checkpoints have the store's tensors, and no record before it has the same ones. */
static bool is_saved(const DtPlan *plan, uint32_t number)
{
    const DtPlanStore *store = &plan->stores[number];
    for (uint32_t s = 0; s < plan->n_stores && store->kind == DT_PLAN_PARAM; s++)
        if (plan->stores[s].kind == DT_PLAN_MASTER && plan->stores[s].of == (int32_t)number)
            return false; /* the master copy is saved */
    for (uint32_t s = 0; s < number && plan->meta->pipeline; s++) {
        const DtPlanStore *other = &plan->stores[s];
        bool equal = other->kind == store->kind && other->n_loops == store->n_loops &&
                     strcmp(dt_plan_str(plan, other->path), dt_plan_str(plan, store->path)) == 0;
        for (uint32_t a = 0; equal && a < store->n_loops; a++)
            equal =
                plan->axes[other->first_axis + a].first == plan->axes[store->first_axis + a].first;
        if (equal)
            return false; /* stages that use one parameter have a record each */
    }
    return store->saved;
}

int64_t dt_memory_copy(const DtPlan *plan)
{
    double bytes = 0;
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *store = &plan->stores[s];
        double all = (double)dt_kinds_size(store->dtype) * (1.0 + store->more);
        for (uint32_t a = 0; a < store->n_axes; a++) {
            const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
            all *= (double)(a < store->n_loops ? axis->local : axis->extent);
        }
        bytes += is_saved(plan, s) ? all : 0;
    }
    return (int64_t)(bytes / plan->meta->n_ranks);
}

int64_t dt_memory_save(const DtPlan *plan, bool is_gpu)
{
    int64_t most = 0;
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *store = &plan->stores[s];
        int64_t bytes = dt_kinds_size(store->dtype);
        for (uint32_t a = store->n_loops; a < store->n_axes; a++)
            bytes *= plan->axes[store->first_axis + a].extent;
        if (store->saved && bytes > most && (is_gpu || !is_whole(plan, store)))
            most = bytes;
    }
    return 2 * most < DT_SAVE_BYTES ? 2 * most : DT_SAVE_BYTES;
}

double dt_memory_attention(const DtPlan *plan)
{
    double most = 0;
    for (uint32_t i = 0; i < plan->n_sdpas; i++) { /* two numbers for each row */
        const DtPlanSdpa *s = &plan->sdpas[i];
        const double bytes =
            (double)s->workspace + 8.0 * (double)s->batch * (double)s->heads * (double)s->queries;
        most = bytes > most ? bytes : most;
    }
    return most;
}

typedef struct Scores {
    const DtPlan *plan;
    double bytes; /* summed over all ranks */
} Scores;

/* Returns the bytes of the gradients of all scores, in whole tiles. */
static double scores_of(const DtPlanSdpa *s)
{
    enum { ROWS = 64, COLUMNS = 128 };
    const int64_t rows = (s->queries + ROWS - 1) / ROWS * ROWS,
                  columns = (s->keys + COLUMNS - 1) / COLUMNS * COLUMNS;
    return (double)dt_kinds_size(s->dtype) * (double)(s->batch * s->heads) * (double)rows *
           (double)columns;
}

static void add_scores(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    Scores *scores = context;
    for (uint32_t i = 0; inst->kind == DT_INST_KERNEL && i < scores->plan->n_sdpas; i++) {
        const DtPlanSdpa *s = &scores->plan->sdpas[i];
        if (s->kernel == inst->ref && s->backward && (double)s->workspace >= scores_of(s))
            scores->bytes += 2 * scores_of(s) * (double)runs * ranks;
    }
}

double dt_memory_scores(const DtPlan *plan)
{
    Scores scores = {.plan = plan};
    dt_report_visit_step(plan, add_scores, &scores);
    return scores.bytes / plan->meta->n_ranks;
}

void dt_memory_worst(const DtPlan *plan, bool is_gpu, DtMemory *ret_memory)
{
    dt_memory_stage(plan, 0, is_gpu, ret_memory);
    for (uint32_t s = 1; s < dt_plan_stages(plan); s++) {
        DtMemory other;
        dt_memory_stage(plan, s, is_gpu, &other);
        if (other.allocated > ret_memory->allocated)
            *ret_memory = other;
    }
}

/* ---- the peak ---- */

/* Whether the entry calls entry number `called`. Entries of pieces are called by those of a stage,
 * so only the latter count. */
static bool calls(const DtPlan *plan, const DtPlanEntry *entry, uint32_t called)
{
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++)
        if (plan->schedule[i].kind == DT_SCHED_CALL && plan->schedule[i].body == called)
            return true;
    return false;
}

const DtPlanPeak *dt_memory_peak(const DtPlan *plan, uint32_t stage)
{
    const DtPlanPeak *most = NULL;
    for (uint32_t i = 0; i < plan->n_peaks; i++) {
        const DtPlanPeak *peak = &plan->peaks[i];
        bool runs = dt_plan_on_stage(plan->entries[peak->entry].stage, stage);
        for (uint32_t e = peak->entry + 1; !runs && e < plan->n_entries; e++)
            runs = dt_plan_on_stage(plan->entries[e].stage, stage) &&
                   calls(plan, &plan->entries[e], peak->entry);
        if (runs && (!most || peak->live > most->live))
            most = peak;
    }
    return most;
}
