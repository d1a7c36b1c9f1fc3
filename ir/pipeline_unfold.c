/* SPDX-License-Identifier: Apache-2.0 */
/* Writes classes of pipeline stages out, stage by stage: this defines what a class means. Users are
 * the interpreter of all ranks, and tests.
 *
 *   store 4 : param .. path=h.w stage=1 to=2 first=1 step=1    h.w of stage 1 from 1, of stage 2
 *                                                              from 2
 *   entry grad.f1 : f stage=1 to=2                         =>  grad.f1, grad.f2
 *
 * A store or entry of a single stage keeps its place in its list; one of a class is replaced by one
 * for each stage. Copies of a parameter are sorted by stages, then by iterations, as if they had
 * been made stage by stage. */
#include "ir/pipeline.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

typedef struct Expander {
    DtModule *module;
    DtPipelineSchedule *pipeline;
    DtStore ***copies; /* by old index of a store: its copy on each stage of its class */
    DtStore **of;      /* by old index of a store: its old `of` */
} Expander;

/* ---- stores ---- */

static bool has_slots(const DtStore *store)
{
    return store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL;
}

/* Returns the copy of the store for the stage that is k after the first one of its class; for k = 0
 * the store itself. */
static DtStore *copy_store(const Expander *x, DtStore *store, uint32_t k)
{
    if (k == 0)
        return store;
    DtStore *copy = DT_NEW(x->module->arena, DtStore);
    *copy = *store;
    copy->stage = store->stage + (int32_t)k;
    copy->first += (int64_t)k * store->first_step;
    copy->depth = dt_pipeline_depth(store, copy->stage);
    if (has_slots(store))
        copy->path = copy->pattern =
            dt_pipeline_slot_path(x->pipeline, store->path, (uint32_t)copy->stage);
    return copy;
}

/* Returns the store that a copy on the stage that is k after the first one of its class links to
 * (as `of`, or as bucket); NULL: none. */
static DtStore *link_on(const Expander *x, const DtStore *to, uint32_t k)
{
    return to ? x->copies[to->index][to->more ? k : 0] : NULL;
}

static void link_copies(const Expander *x, const DtStore *store)
{
    const DtStore was = *store; /* the object becomes the first of its copies */
    for (uint32_t k = was.more + 1; k-- > 0;) {
        DtStore *copy = x->copies[was.index][k];
        if (was.kind != DT_STORE_CHANNEL) /* expand_channel sets the `of` of these */
            copy->of = link_on(x, was.of, k);
        copy->bucket = link_on(x, was.bucket, k);
    }
}

typedef struct Placed {
    DtStore *store;
    uint32_t number;
} Placed;

static int by_stage(const void *a, const void *b)
{
    const Placed *x = a, *y = b;
    if (x->store->stage != y->store->stage)
        return x->store->stage < y->store->stage ? -1 : 1;
    if (x->store->first != y->store->first)
        return x->store->first < y->store->first ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Appends to `placed` the stores from number `from` on that are copies of one parameter, or the one
 * store there. Returns the number after them. */
static uint32_t add_stores(const Expander *x, DtStore *const *old, uint32_t n, uint32_t from,
                           Placed *placed)
{
    uint32_t end = from + 1, n_placed = 0;
    while (end < n && !has_slots(old[from]) && old[end]->kind == old[from]->kind &&
           old[end]->path == old[from]->path)
        end++;
    for (uint32_t i = from; i < end; i++)
        for (uint32_t k = 0; k <= old[i]->more; k++, n_placed++)
            placed[n_placed] = (Placed){x->copies[i][k], n_placed};
    qsort(placed, n_placed, sizeof *placed, by_stage);
    for (uint32_t i = 0; i < n_placed; i++)
        DT_PUSH(x->module->arena, x->module->stores, placed[i].store);
    return end;
}

static void expand_stores(Expander *x)
{
    DtModule *module = x->module;
    const uint32_t n = module->stores.n;
    uint32_t total = 0;
    DtStore **old = module->stores.at;
    x->copies = DT_NEW_ARRAY(module->arena, DtStore **, n + 1);
    x->of = DT_NEW_ARRAY(module->arena, DtStore *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        x->of[i] = old[i]->of;
        x->copies[i] = DT_NEW_ARRAY(module->arena, DtStore *, old[i]->more + 1);
        for (uint32_t k = 0; k <= old[i]->more; k++)
            x->copies[i][k] = copy_store(x, old[i], k);
        total += old[i]->more + 1;
    }
    for (uint32_t i = 0; i < n; i++)
        link_copies(x, old[i]);
    module->stores.at = NULL;
    module->stores.n = module->stores.cap = 0;
    Placed *placed = DT_NEW_ARRAY(module->arena, Placed, total + 1);
    for (uint32_t i = 0; i < n;)
        i = add_stores(x, old, n, i, placed);
}

/* ---- channels ---- */

static void expand_channel(const Expander *x, DtChannel *channel)
{
    DtChannel made = *channel;
    made.stores.at = NULL;
    made.stores.n = made.stores.cap = 0;
    for (uint32_t i = 0; i < channel->stores.n; i++) {
        DtStore was = *channel->stores.at[i], *store = channel->stores.at[i];
        was.of = x->of[store->index]; /* another channel may have changed `of` already */
        const DtStore *from = dt_pipeline_source(channel, &was);
        DtStore *to = x->copies[store->index][channel->to - (uint32_t)store->stage];
        to->of = x->copies[from->index][channel->from - (uint32_t)from->stage];
        DT_PUSH(x->module->arena, made.stores, to);
    }
    *channel = made;
}

/* ---- entries ---- */

static DtOp *copy_op(const Expander *x, const DtOp *op, DtValue **map, uint32_t k)
{
    DtArena *arena = x->module->arena;
    DtOp *copy = dt_graph_clone(arena, op, map);
    if (op->store)
        copy->store = link_on(x, op->store, k);
    if (op->store && has_slots(op->store))
        copy->text = copy->store->path;
    if (op->loop && op->loop->first_step) {
        copy->loop = DT_NEW(arena, DtLoop);
        *copy->loop = *op->loop;
        copy->loop->first += (int64_t)k * op->loop->first_step;
        copy->loop->first_step = 0;
    }
    return copy;
}

/* Returns a copy of the entry's function, which has no inputs, for the stage k after the first
 * one. */
static DtFunc *copy_func(const Expander *x, const DtFunc *func, const char *name, uint32_t k)
{
    DtFunc *copy = DT_NEW(x->module->arena, DtFunc);
    DtValue **map = DT_NEW_ARRAY(x->module->arena, DtValue *, func->n_values + 1);
    *copy = (DtFunc){.module = x->module,
                     .name = name,
                     .kind = func->kind,
                     .library = func->library,
                     .span = func->span,
                     .n_returns = func->n_returns,
                     .n_values = func->n_values,
                     .frame = func->frame};
    for (uint32_t i = 0; i < func->ops.n; i++)
        DT_PUSH(x->module->arena, copy->ops, copy_op(x, func->ops.at[i], map, k));
    for (uint32_t i = 0; i < func->results.n; i++)
        DT_PUSH(x->module->arena, copy->results, map[func->results.at[i]->id]);
    DT_PUSH(x->module->arena, x->module->funcs, copy);
    return copy;
}

/* Removes the steps of loops from the function, which now is that of the first stage alone. */
static void end_steps(DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->loop)
            func->ops.at[i]->loop->first_step = 0;
}

static DtEntryPoint copy_entry(const Expander *x, const DtEntryPoint *entry, uint32_t k)
{
    const int32_t stage = entry->stage + (int32_t)k; /* an entry of a piece gets its number later */
    DtEntryPoint copy = {.twin = entry->twin};
    dt_entry_set(&copy, entry->kind, entry->part, stage);
    copy.stage = stage;
    copy.func = copy_func(x, entry->func, copy.name, k);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        DtEntryResult result = entry->results.at[i];
        result.store = link_on(x, result.store, k);
        DT_PUSH(x->module->arena, copy.results, result);
    }
    return copy;
}

/* Replaces the module's entries by one for each stage of their classes, in order. ret_first[i]
 * becomes the new number of the first copy of entry i. */
static void expand_entries(Expander *x, uint32_t *ret_first)
{
    DtModule *module = x->module;
    const DtEntryPoint *old = module->entries.at;
    const uint32_t n = module->entries.n;
    module->entries.at = NULL;
    module->entries.n = module->entries.cap = 0;
    for (uint32_t i = 0; i < n; i++) {
        ret_first[i] = module->entries.n;
        DT_PUSH(module->arena, module->entries, old[i]);
        for (uint32_t k = 1; k <= old[i].more; k++)
            DT_PUSH(module->arena, module->entries, copy_entry(x, &old[i], k));
        if (old[i].more)
            end_steps(old[i].func);
        module->entries.at[ret_first[i]].more = 0;
    }
}

/* *number is an entry before unfolding (negative: none). Replaces it by the number of the copy for
 * the piece's stage, and names that copy after the piece. */
static void rename_entry(const Expander *x, const DtPipelineRun *run, uint32_t piece,
                         DtEntryPart part, const uint32_t *first, int32_t *number)
{
    if (*number < 0)
        return;
    const uint32_t at = first[*number];
    const int32_t stage = (int32_t)x->pipeline->stage_of[piece];
    *number = (int32_t)at + stage - x->module->entries.at[at].stage;
    DtEntryPoint *entry = &x->module->entries.at[*number];
    dt_entry_set(entry, run->kind, part, (int32_t)piece);
    entry->func->name = entry->name;
}

static void expand_run(Expander *x, DtPipelineRun *run, const uint32_t *first)
{
    for (uint32_t g = 0; g < x->pipeline->n_pieces; g++) {
        rename_entry(x, run, g, DT_PART_F, first, &run->pieces[g].f);
        rename_entry(x, run, g, DT_PART_B, first, &run->pieces[g].b);
        rename_entry(x, run, g, DT_PART_W, first, &run->pieces[g].w);
        for (uint32_t k = 0; k < DT_COUNT(run->pieces[g].twins); k++)
            for (uint32_t i = 0; i < run->pieces[g].twins[k].n; i++)
                rename_entry(x, run, g, DT_PART_F + k, first, &run->pieces[g].twins[k].at[i]);
    }
    for (uint32_t i = 0; i < run->channels.n; i++)
        expand_channel(x, &run->channels.at[i]);
}

/* ---- the module ---- */

static bool has_classes(const DtModule *module)
{
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].more)
            return true;
    return false;
}

void dt_pipeline_unfold(DtModule *module)
{
    if (!module->pipeline || !has_classes(module))
        return;
    Expander x = {.module = module, .pipeline = module->pipeline};
    uint32_t *first = DT_NEW_ARRAY(module->arena, uint32_t, module->entries.n + 1);
    expand_stores(&x);
    expand_entries(&x, first);
    for (uint32_t i = 0; i < x.pipeline->runs.n; i++)
        expand_run(&x, &x.pipeline->runs.at[i], first);
    for (uint32_t i = 0; i < module->stores.n; i++) { /* no store or entry has a class any more */
        DtStore *store = module->stores.at[i];
        store->index = i;
        store->more = 0;
        store->first_step = 0;
        store->depths = NULL;
        store->within = NULL;
    }
}
