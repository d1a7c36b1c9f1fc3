/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a stage keeps per micro-batch in flight (SAVED and CHANNEL stores, ir/pipeline.h).
 *
 * A store has `depth` slots, of which micro-batch m uses number m mod depth: an address base +
 * register x stride, where the schedule sets the register. A stage has two such registers in a
 * run, so depths above 1 form two groups; a third depth is rounded up to a larger one, which is
 * correct since micro-batches in flight are consecutive. Memory is laid out slot by slot, each
 * group in an arena of its own: so addresses do not depend on the depth, and stages with the
 * same work share their bodies. Runs ("grad", "eval", "predict") overlap each other. */
#include "codegen/emit.h"

#include "ir/pipeline.h"

/* The stores that a stage keeps for micro-batches in flight, in the order in which they are
 * found. */
typedef struct Stores {
    const DtStore **at;
    uint32_t n, cap;
    bool *listed; /* by index */
} Stores;

static void add_store(const DtEmit *e, Stores *stores, const DtStore *store)
{
    if (!store || (store->kind != DT_STORE_SAVED && store->kind != DT_STORE_CHANNEL) ||
        stores->listed[store->index])
        return;
    stores->listed[store->index] = true;
    DT_PUSH(e->scratch, *stores, store);
}

static void add_entry(const DtEmit *e, Stores *stores, int32_t number)
{
    if (number < 0)
        return;
    const DtEntryPoint *entry = &e->module->entries.at[number];
    for (uint32_t i = 0; i < entry->func->ops.n; i++)
        add_store(e, stores, entry->func->ops.at[i]->store);
    for (uint32_t i = 0; i < entry->results.n; i++)
        add_store(e, stores, entry->results.at[i].store);
}

/* Lists the stores that the stage keeps for micro-batches in flight in a run. */
static Stores list_stores(const DtEmit *e, const DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    Stores stores = {.listed = DT_NEW_ARRAY(e->scratch, bool, e->module->stores.n + 1)};
    for (uint32_t g = 0; g < pipeline->n_pieces; g++) {
        if (pipeline->stage_of[g] != (uint32_t)e->stage)
            continue;
        add_entry(e, &stores, run->pieces[g].f);
        add_entry(e, &stores, run->pieces[g].b);
        add_entry(e, &stores, run->pieces[g].w);
    }
    for (uint32_t c = 0; c < run->channels.n; c++) {
        const DtChannel *channel = &run->channels.at[c];
        for (uint32_t i = 0; i < channel->stores.n; i++) {
            if (channel->to == (uint32_t)e->stage)
                add_store(e, &stores, channel->stores.at[i]);
            if (channel->from == (uint32_t)e->stage)
                add_store(e, &stores, dt_pipeline_source(channel, channel->stores.at[i]));
        }
    }
    return stores;
}

/* The group with the fewest slots that has at least `depth`. */
static uint32_t group_of(const DtSlots *slots, int64_t depth)
{
    uint32_t best = DT_PLAN_N_SLOTS;
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        if (slots->depth[g] >= depth &&
            (best == DT_PLAN_N_SLOTS || slots->depth[g] < slots->depth[best]))
            best = g;
    return best;
}

/* bytes: of one slot of all stores of that depth */
typedef struct Depth { int64_t depth, bytes; } Depth;
typedef DT_VEC(Depth) Depths;

/* In the order in which they are met; a store of one slot needs no register. */
static Depths list_depths(const DtEmit *e, const Stores *stores)
{
    Depths depths = {0};
    for (uint32_t i = 0; i < stores->n; i++) {
        const int64_t depth = dt_pipeline_depth(stores->at[i], e->stage);
        uint32_t k = 0;
        while (k < depths.n && depths.at[k].depth != depth)
            k++;
        if (depth > 1 && k == depths.n)
            DT_PUSH(e->scratch, depths, ((Depth){.depth = depth}));
        if (depth > 1)
            depths.at[k].bytes += dt_place_aligned(dt_place_bytes(e, stores->at[i]->type));
    }
    return depths;
}

/* Two depths that all others are rounded up to: the largest, and the one with which least memory is
 * needed. */
static void choose_depths(const DtEmit *e, const Stores *stores, DtSlots *slots)
{
    const Depths depths = list_depths(e, stores);
    int64_t most = 0, least = INT64_MAX;
    for (uint32_t i = 0; i < depths.n; i++)
        most = depths.at[i].depth > most ? depths.at[i].depth : most;
    slots->depth[0] = most;
    for (uint32_t k = 0; k < depths.n; k++) {
        const int64_t other = depths.at[k].depth;
        int64_t bytes = 0;
        for (uint32_t i = 0; i < depths.n; i++)
            bytes += depths.at[i].bytes * (depths.at[i].depth <= other ? other : most);
        if (other < most && bytes < least) {
            least = bytes;
            slots->depth[1] = other;
        }
    }
}

void dt_slots_place(DtEmit *e, const DtPipelineRun *run, DtSlots *ret_slots)
{
    DtSlots *slots = ret_slots;
    Stores stores = list_stores(e, run);
    *slots = (DtSlots){.single = 0};
    choose_depths(e, &stores, slots);
    for (uint32_t i = 0; i < stores.n; i++) {
        const DtStore *store = stores.at[i];
        int64_t bytes = dt_place_bytes(e, store->type);
        int64_t depth = dt_pipeline_depth(store, e->stage);
        uint32_t group = depth <= 1 ? DT_PLAN_N_SLOTS : group_of(slots, depth);
        int64_t *end = group < DT_PLAN_N_SLOTS ? &slots->bytes[group] : &slots->single;
        DtBuffer buffer = {.name = store->path, .bytes = bytes, .fixed = true, .offset = *end,
                           .first = UINT32_MAX};
        buffer.arena = DT_ARENA_KINDS + (group < DT_PLAN_N_SLOTS ? group : 0);
        DT_PUSH(e->arena, e->buffers, buffer);
        e->stores[store->index] = dt_place_dense(e, store->type, e->buffers.n - 1);
        *end += dt_place_aligned(bytes);
    }
    for (uint32_t i = 0; i < stores.n; i++) {
        const DtStore *store = stores.at[i];
        DtPlace *place = &e->stores[store->index];
        int64_t depth = dt_pipeline_depth(store, e->stage);
        if (depth <= 1)
            continue;
        uint32_t group = group_of(slots, depth);
        place->reg[DT_PLAN_REG_SLOTS + group] = slots->bytes[group];
        e->buffers.at[place->view.buffer].offset += group == 0 ? slots->single : 0;
    }
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++) {
        int64_t bytes = slots->depth[g] * slots->bytes[g] + (g == 0 ? slots->single : 0);
        if (bytes > e->arena_bytes[DT_ARENA_KINDS + g])
            e->arena_bytes[DT_ARENA_KINDS + g] = bytes;
    }
    dt_arena_reset(e->scratch);
}
