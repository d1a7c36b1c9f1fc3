/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of a staged module: copies of parameters, states, gradients and moments on the stages that
 * use them, and the slots of values that pieces leave for later (SAVED) or receive (CHANNEL). Until
 * dt_stage_settle_stores a copy's `of` is not set, and the index of a slot is its place in
 * DtStager.slots. */
#include "passes/pipeline/stage.h"

#include <stdlib.h>
#include <string.h>

static const DtStore *owner_of(const DtStore *store) { return store->of ? store->of : store; }

DtStageCopy *dt_stage_find_copy(const DtStager *s, const DtStore *from, uint32_t stage,
                                int32_t range)
{
    const DtStageCopies *copies = &s->copies[from->index];
    const uint32_t n = copies->n, likely = range < 0 || (uint32_t)range < n
                                               ? (uint32_t)(range < 0 ? 0 : range)
                                               : n - 1;
    for (uint32_t k = 0; k < n; k++) { /* copies are made in the order of pieces: begins the search
                                        * close to the right one */
        DtStageCopy *copy = &copies->at[(likely + n - k) % n];
        if (copy->store->stage == (int32_t)stage && copy->range == range)
            return copy;
    }
    return NULL;
}

/* Cuts the store to the iterations of one piece: sets its type, its first iteration, and the number
 * of all iterations. */
static void cut_store(const DtStager *s, const DtStageLoop *loop, uint32_t piece, DtStore *store)
{
    DtAxis axes[DT_MAX_RANK];
    const DtType *type = store->type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[0].extent = loop->hi[piece] - loop->lo[piece];
    store->type =
        dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
    store->first = loop->lo[piece];
    store->first_step = dt_stage_step(s, loop, piece);
    store->whole = axes[0].extent == loop->count ? 0 : loop->count;
}

DtStore *dt_stage_copy(DtStager *s, const DtStore *from, uint32_t stage, uint32_t piece)
{
    const int32_t loop = s->loop_of[owner_of(from)->index];
    const int32_t range = loop < 0 ? -1 : (int32_t)piece;
    const DtStageCopy *copy = dt_stage_find_copy(s, from, stage, range);
    if (copy)
        return copy->store;
    DtStore *store = DT_NEW(s->arena, DtStore);
    *store = *from;
    store->stage = (int32_t)stage;
    if (loop >= 0)
        cut_store(s, &s->loops.at[loop], piece, store);
    else
        dt_stage_differ(s, stage); /* the store would be on the first stage of the class only */
    DT_PUSH(s->arena, s->copies[from->index], ((DtStageCopy){store, range, NULL}));
    if (from->of)
        dt_stage_copy(s, from->of, stage, piece);
    return store;
}

DtStore *dt_stage_slot(DtStager *s, DtStoreKind kind, const char *path, const DtType *type,
                       uint32_t stage, DtStore *of)
{
    DtStore *store = DT_NEW(s->arena, DtStore);
    *store = (DtStore){.kind = kind,
                       .path = path,
                       .pattern = path,
                       .type = type,
                       .of = of,
                       .stage = (int32_t)stage,
                       .depth = 1,
                       .index = s->slots.n};
    DT_PUSH(s->arena, s->slots, store);
    return store;
}

static void add(DtStager *s, DtStore *store)
{
    store->index = s->module->stores.n;
    DT_PUSH(s->arena, s->module->stores, store);
}

static int by_place(const void *a, const void *b)
{
    const DtStageCopy *x = a, *y = b;
    return x->store->stage != y->store->stage ? (x->store->stage < y->store->stage ? -1 : 1)
                                              : (x->range > y->range) - (x->range < y->range);
}

/* Sorts stores by the stores that they are copies of, then by stages and pieces, with slots after
 * them. */
void dt_stage_settle_stores(DtStager *s)
{
    const uint32_t n = s->module->stores.n;
    DtStore **old = s->module->stores.at;
    s->module->stores.at = NULL;
    s->module->stores.n = s->module->stores.cap = 0;
    for (uint32_t i = 0; i < n; i++) {
        DtStageCopies *copies = &s->copies[i];
        if (copies->n > 1)
            qsort(copies->at, copies->n, sizeof copies->at[0], by_place);
        for (uint32_t k = 0; k < copies->n; k++) {
            DtStore *store = copies->at[k].store;
            if (old[i]->of)
                store->of =
                    dt_stage_find_copy(s, old[i]->of, (uint32_t)store->stage, copies->at[k].range)
                        ->store;
            add(s, store);
        }
    }
    for (uint32_t i = 0; i < s->slots.n; i++)
        add(s, s->slots.at[i]);
}
