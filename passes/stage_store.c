/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of a staged module: copies of parameters, states, gradients and moments on the stages that use them, and
 * the slots of values that pieces leave for later (SAVED) or receive (CHANNEL). Until dt_stage_settle_stores a
 * copy's `of` is not set, and the index of a slot is its place in DtStager.slots. */
#include "passes/stage.h"

#include <string.h>

static const DtStore *owner_of(const DtStore *store) { return store->of ? store->of : store; }

DtStore *dt_stage_find_copy(const DtStager *s, const DtStore *from, uint32_t stage, int32_t range)
{
    for (uint32_t i = 0; i < s->copies.n; i++) {
        const DtStageCopy *copy = &s->copies.at[i];
        if (copy->from == from && copy->store->stage == (int32_t)stage && copy->range == range)
            return copy->store;
    }
    return NULL;
}

/* The store's type with the iterations of one piece. */
static void cut_store(const DtStageLoop *loop, uint32_t piece, DtStore *store)
{
    DtAxis axes[DT_MAX_RANK];
    const DtType *type = store->type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[0].extent = loop->hi[piece] - loop->lo[piece];
    store->type = dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
    store->first = loop->lo[piece];
    store->whole = axes[0].extent == loop->count ? 0 : loop->count;
}

DtStore *dt_stage_copy(DtStager *s, const DtStore *from, uint32_t stage, uint32_t piece)
{
    const int32_t loop = s->loop_of[owner_of(from)->index];
    const int32_t range = loop < 0 ? -1 : (int32_t)piece;
    DtStore *store = dt_stage_find_copy(s, from, stage, range);
    if (store)
        return store;
    store = DT_NEW(s->arena, DtStore);
    *store = *from;
    store->stage = (int32_t)stage;
    if (loop >= 0)
        cut_store(&s->loops.at[loop], piece, store);
    DT_PUSH(s->arena, s->copies, ((DtStageCopy){from, store, range}));
    if (from->of)
        dt_stage_copy(s, from->of, stage, piece);
    return store;
}

DtStore *dt_stage_slot(DtStager *s, DtStoreKind kind, const char *path, const DtType *type, uint32_t stage, DtStore *of)
{
    DtStore *store = DT_NEW(s->arena, DtStore);
    *store = (DtStore){.kind = kind, .path = path, .pattern = path, .type = type, .of = of, .stage = (int32_t)stage,
                       .depth = 1, .index = s->slots.n};
    DT_PUSH(s->arena, s->slots, store);
    return store;
}

static void add(DtStager *s, DtStore *store)
{
    store->index = s->module->stores.n;
    DT_PUSH(s->arena, s->module->stores, store);
}

/* In the order of the stores that they are copies of, then by stages and pieces; slots behind them. */
void dt_stage_settle_stores(DtStager *s)
{
    const uint32_t n = s->module->stores.n, n_pieces = s->pipeline->n_pieces;
    DtStore **old = s->module->stores.at;
    for (uint32_t i = 0; i < s->copies.n; i++) {
        const DtStageCopy *copy = &s->copies.at[i];
        if (copy->from->of)
            copy->store->of = dt_stage_find_copy(s, copy->from->of, (uint32_t)copy->store->stage, copy->range);
    }
    s->module->stores.at = NULL;
    s->module->stores.n = s->module->stores.cap = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t stage = 0; stage < s->pipeline->n_stages; stage++)
            for (int32_t range = -1; range < (int32_t)n_pieces; range++) {
                const bool cut = s->loop_of[owner_of(old[i])->index] >= 0;
                if (cut != (range >= 0) || (cut && dt_stage_of(s, (uint32_t)range) != stage))
                    continue;
                DtStore *store = dt_stage_find_copy(s, old[i], stage, range);
                if (store)
                    add(s, store);
            }
    for (uint32_t i = 0; i < s->slots.n; i++)
        add(s, s->slots.at[i]);
}
