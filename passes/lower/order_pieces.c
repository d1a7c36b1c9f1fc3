/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers ahead in a pipeline: the last loop of a piece gathers for the first loop of the piece
 * that its stage runs next, in the same micro-batch or another. The next piece depends on the place
 * in the schedule. So an entry gets *twins*: one for each piece that may follow, and one more for
 * the first action of a run, which finds no gathers in the ring. Actions name the twin that they
 * call.
 *
 * The ring buffer is a store of the stage, one for each run. All gathers ahead on a stage must have
 * the same distance, in one chain per entry; otherwise each entry has a ring buffer of its own. So
 * does each entry of "predict", where one micro-batch alone goes through the pieces. */
#include "passes/lower/order.h"

#include "base/intern.h"

#include <string.h>

/* One version of an entry, for actions that have the same next prefetching entry after them. */
typedef struct Twin {
    int32_t next;               /* the entry that runs next on the stage; -1: none */
    uint32_t next_piece, kind;  /* the piece and phase of that entry, as in DtAheadOf */
    bool goes_on;
} Twin;

typedef struct Entry {
    DtOrderChain *chain; /* the entry's chain; NULL: it gathers nothing ahead, or cannot share a
                          * ring buffer */
    DtStore *ringbuf;
    DT_VEC(Twin) twins;
} Entry;

typedef struct Pieces {
    DtModule *module;
    const DtPipelineSchedule *pipeline;
    Entry *entries;      /* by entry of the module */
    DtPipelineRun *run;  /* the stage being processed */
    uint32_t stage;
} Pieces;

/* ---- ring buffers ---- */

static bool is_on(const DtEntryPoint *entry, const DtStore *store)
{
    return store->stage == entry->stage && store->more == entry->more;
}

/* Returns the number of the entry of that kind (F, B or W) for a piece; -1 if the piece has none,
 * or is on another stage. */
static int32_t entry_here(const Pieces *p, uint32_t piece, uint32_t kind)
{
    return p->pipeline->stage_of[piece] == p->stage
               ? dt_pipeline_entry(&p->run->pieces[piece], kind)
               : -1;
}

static bool can_share(Pieces *p, DtOrderChain *ret_all)
{
    *ret_all = (DtOrderChain){0};
    for (uint32_t i = 0; i < p->pipeline->n_pieces * 3; i++) {
        const int32_t number = entry_here(p, i / 3, i % 3);
        bool whole;
        if (number < 0 || !dt_order_uses(p->module->entries.at[number].func))
            continue;
        const DtOrderChain *chain = p->entries[number].chain;
        if (!chain)
            chain = dt_order_chains(p->module->arena, p->module->entries.at[number].func, &whole);
        else
            whole = true;
        if (!whole || (ret_all->ahead && ret_all->ahead != chain->ahead))
            return false;
        p->entries[number].chain = (DtOrderChain *)(uintptr_t)chain;
        ret_all->ahead = chain->ahead;
        ret_all->bytes = chain->bytes > ret_all->bytes ? chain->bytes : ret_all->bytes;
        ret_all->splits |= chain->splits;
    }
    return ret_all->ahead > 0;
}

/* Returns the store of the ring buffer that entries of the stage, or of its class of equal stages,
 * share in the run; makes it at the first call. */
static DtStore *ringbuf_of(Pieces *p, const DtEntryPoint *entry, const DtOrderChain *all)
{
    DtModule *module = p->module;
    const char *path = dt_intern_printf("%s.@ringbuf", dt_entry_kind_name(p->run->kind));
    for (uint32_t i = module->stores.n; i-- > 0 && module->stores.at[i]->kind == DT_STORE_RINGBUF;)
        if (module->stores.at[i]->path == path && is_on(entry, module->stores.at[i]))
            return module->stores.at[i];
    DtStore *store = DT_NEW(module->arena, DtStore);
    *store = (DtStore){.kind = DT_STORE_RINGBUF, .index = module->stores.n, .path = path,
                       .pattern = path, .stage = entry->stage, .more = entry->more,
                       .span = entry->func->span,
                       .type = dt_order_ring(module, all->ahead + 1, all->bytes, all->splits)};
    DT_PUSH(module->arena, module->stores, store);
    return store;
}

/* Sets the ring buffer that the stage's prefetching entries share in the run. If they cannot share
 * one, returns false, and each keeps its gathers to itself. */
static bool find_rings(Pieces *p)
{
    DtOrderChain all;
    const bool shares = can_share(p, &all);
    for (uint32_t i = 0; i < p->pipeline->n_pieces * 3; i++) {
        const int32_t number = entry_here(p, i / 3, i % 3);
        if (number < 0 || !p->entries[number].chain)
            continue;
        if (shares)
            p->entries[number].ringbuf = ringbuf_of(p, &p->module->entries.at[number], &all);
        else
            p->entries[number].chain = NULL;
    }
    return shares;
}

/* ---- the next action with gathers ---- */

/* The number of the entry that an action calls, if it shares a ring buffer; else -1. */
static int32_t sharer(const Pieces *p, const DtAction *action)
{
    const bool moves = action->kind == DT_ACTION_SEND || action->kind == DT_ACTION_RECV;
    const int32_t number =
        moves ? -1 : dt_pipeline_entry(&p->run->pieces[action->unit], action->kind);
    return number >= 0 && p->entries[number].chain ? number : -1;
}

/* Returns the first action whose entry gathers ahead; NULL if there is none. */
static DtAction *first_of(const Pieces *p, const DtActions *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (sharer(p, &list->at[i]) >= 0)
            return &list->at[i];
    return NULL;
}

static void append(const Pieces *p, DtActions *list, const DtActions *more, int64_t later)
{
    for (uint32_t i = 0; i < more->n; i++) {
        DtAction action = more->at[i];
        action.micro += later;
        DT_PUSH(p->module->arena, *list, action);
    }
}

/* A copy of the stage's actions in which the first and last repetition of the period can name other
 * twins. The first one becomes part of the prologue if no action before it gathers. The last one
 * becomes part of the epilogue if the actions after it do not begin as the period does. */
static DtStageActions list_turns(const Pieces *p, const DtStageActions *all)
{
    DtStageActions list = {.count = all->count, .step = all->step};
    append(p, &list.prologue, &all->prologue, 0);
    append(p, &list.period, &all->period, 0);
    const DtAction *begin = first_of(p, &list.period), *then = first_of(p, &all->epilogue);
    if (list.count > 0 && begin && !first_of(p, &list.prologue)) {
        append(p, &list.prologue, &list.period, 0);
        for (uint32_t i = 0; i < list.period.n; i++)
            list.period.at[i].micro += list.step;
        list.count--;
    }
    if (list.count > 0 && begin && (!then || !dt_pipeline_same(begin, then)))
        append(p, &list.epilogue, &list.period, --list.count * list.step);
    append(p, &list.epilogue, &all->epilogue, 0);
    if (list.count == 0)
        list.period.n = 0;
    return list;
}

/* Returns how many pieces of the stage before this one have an entry of this kind. */
static uint32_t place_of(const Pieces *p, uint32_t piece, uint32_t kind)
{
    uint32_t place = 0;
    for (uint32_t g = 0; g < piece; g++)
        place += entry_here(p, g, kind) >= 0;
    return place;
}

static uint32_t twin_of(Pieces *p, int32_t number, Twin twin)
{
    Entry *entry = &p->entries[number];
    for (uint32_t i = 0; i < entry->twins.n; i++)
        if (entry->twins.at[i].next == twin.next && entry->twins.at[i].goes_on == twin.goes_on)
            return i;
    DT_PUSH(p->module->arena, entry->twins, twin);
    return entry->twins.n - 1;
}

/* Chooses the version (twin) of its entry that each action calls, from the last action to the
 * first. next: the first later action that gathers; its kind is DT_ACTION_KINDS if there is none.
 * first: the action before which no gathers are in the ring buffer. */
static void name_twins(Pieces *p, DtActions *list, DtAction *next, const DtAction *first)
{
    for (uint32_t i = list->n; i-- > 0;) {
        DtAction *action = &list->at[i];
        const int32_t number = sharer(p, action);
        if (number < 0)
            continue;
        Twin twin = {.next = -1, .goes_on = action != first};
        if (next->kind != DT_ACTION_KINDS)
            twin = (Twin){sharer(p, next), place_of(p, next->unit, next->kind), next->kind,
                          action != first};
        action->twin = twin_of(p, number, twin);
        *next = *action;
    }
}

static void order_stage(Pieces *p)
{
    DtStageActions *actions = &p->run->stages[p->stage];
    if (!find_rings(p))
        return;
    if (p->run->kind == DT_ENTRY_PREDICT) {
        for (uint32_t i = 0; i < p->pipeline->n_pieces * 3; i++) {
            const int32_t number = entry_here(p, i / 3, i % 3);
            if (number >= 0 && p->entries[number].chain)
                twin_of(p, number, (Twin){.next = -1});
        }
        return;
    }
    DtStageActions list = list_turns(p, actions);
    const DtAction *first = first_of(p, &list.prologue), *begin = first_of(p, &list.period);
    DtAction next = {.kind = DT_ACTION_KINDS};
    if (!first)
        first = first_of(p, &list.epilogue); /* then no action of the period gathers */
    name_twins(p, &list.epilogue, &next, first);
    if (begin)
        next = *begin;
    name_twins(p, &list.period, &next, first);
    name_twins(p, &list.prologue, &next, first);
    *actions = list;
}

/* ---- twins ---- */

static DtFunc *copy_func(const DtFunc *func, const char *name, const DtOrderChain *chain,
                         DtOrderChain *ret_chain)
{
    DtArena *arena = func->module->arena;
    DtFunc *copy = dt_graph_func(func->module, name, func->kind);
    DtValue **map = DT_NEW_ARRAY(arena, DtValue *, func->n_values + 1);
    uint32_t number = 0;
    copy->span = func->span;
    *ret_chain = (DtOrderChain){.ahead = chain->ahead, .bytes = chain->bytes,
                                .splits = chain->splits};
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = dt_order_copy_op(copy, func->ops.at[i], map);
        if (number == chain->loops.n || chain->loops.at[number].op != func->ops.at[i])
            continue;
        DtOrderLoop loop = chain->loops.at[number++];
        loop.op = op;
        loop.in = op->in;
        DT_PUSH(arena, ret_chain->loops, loop);
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        dt_graph_return(copy, map[func->results.at[i]->id]);
    return copy;
}

static void write_twin(Pieces *p, int32_t number, const Twin *twin, DtFunc *func,
                       DtOrderChain *chain)
{
    const Entry *entry = &p->entries[number];
    const DtOrderHanded handed = {
        .store = entry->ringbuf,
        .goes_on = twin->goes_on,
        .piece = twin->next_piece,
        .kind = twin->kind,
        .next = twin->next < 0 ? NULL : &p->entries[twin->next].chain->loops.at[0]};
    dt_order_write(func, chain, &handed);
}

/* Adds a copy of the entry to the module for each of its versions (twins) but the first, and
 * rewrites each version for what runs after it. The entry itself becomes the first. */
static void write_forms(Pieces *p, int32_t number, DtPieceEntries *of, uint32_t kind)
{
    DtModule *module = p->module;
    const Entry *entry = &p->entries[number];
    DtFunc *func = module->entries.at[number].func;
    const DtEntryResult result = {.store = entry->ringbuf};
    for (uint32_t i = 1; i < entry->twins.n; i++) {
        DtEntryPoint twin = module->entries.at[number];
        DtOrderChain chain;
        twin.twin = i;
        dt_entry_set(&twin, twin.kind, twin.part, twin.number);
        twin.func = copy_func(func, twin.name, entry->chain, &chain);
        memset(&twin.results, 0, sizeof twin.results);
        for (uint32_t k = 0; k < module->entries.at[number].results.n; k++)
            DT_PUSH(module->arena, twin.results, module->entries.at[number].results.at[k]);
        DT_PUSH(module->arena, twin.results, result);
        write_twin(p, number, &entry->twins.at[i], twin.func, &chain);
        DT_PUSH(module->arena, of->twins[kind], (int32_t)module->entries.n);
        DT_PUSH(module->arena, module->entries, twin);
    }
    DtOrderChain chain = *entry->chain;
    DT_PUSH(module->arena, module->entries.at[number].results, result);
    write_twin(p, number, &entry->twins.at[0], func, &chain);
}

/* Writes the versions (twins) of a piece's entry, and lists them in the piece. If another piece of
 * its class has the same entry, takes those. */
static void write_piece(Pieces *p, uint32_t piece, uint32_t kind, bool *done)
{
    DtPieceEntries *entries = &p->run->pieces[piece];
    const int32_t number = dt_pipeline_entry(entries, kind);
    if (number < 0 || !p->entries[number].chain)
        return;
    for (uint32_t g = 0; done[number] && g < piece; g++)
        if (dt_pipeline_entry(&p->run->pieces[g], kind) == number) {
            for (uint32_t i = 0; i < p->run->pieces[g].twins[kind].n; i++)
                DT_PUSH(p->module->arena, entries->twins[kind],
                        p->run->pieces[g].twins[kind].at[i]);
            return;
        }
    done[number] = true;
    write_forms(p, number, entries, kind);
}

void dt_order_pieces(DtModule *module, bool *done)
{
    Pieces pieces = {.module = module, .pipeline = module->pipeline}, *p = &pieces;
    p->entries = DT_NEW_ARRAY(module->arena, Entry, module->entries.n + 1);
    for (uint32_t r = 0; r < p->pipeline->runs.n; r++) {
        p->run = &module->pipeline->runs.at[r];
        DtStageActions *own = DT_NEW_ARRAY(module->arena, DtStageActions, p->pipeline->n_stages);
        /* several runs may share the entry */
        memcpy(own, p->run->stages, p->pipeline->n_stages * sizeof *own);
        p->run->stages = own;
        for (p->stage = 0; p->stage < p->pipeline->n_stages; p->stage++)
            order_stage(p);
    }
    for (uint32_t r = 0; r < p->pipeline->runs.n; r++) {
        p->run = &module->pipeline->runs.at[r];
        for (uint32_t g = 0; g < p->pipeline->n_pieces; g++)
            for (uint32_t kind = DT_ACTION_F; kind <= DT_ACTION_W; kind++)
                write_piece(p, g, kind, done);
    }
}
