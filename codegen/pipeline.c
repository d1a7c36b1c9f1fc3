/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that are cut into pipeline stages (ir/pipeline.h): for each stage its memory, its pieces
 * as entries of the plan, and schedules that call them. Slots of micro-batches in flight: slots.c.
 *
 * Schedules. The actions of a stage become SET (micro-batch and slots), CALL of a piece, and RUN of
 * a body that sends or receives. Actions that repeat with micro-batches that advance evenly become
 * a loop.
 *
 * Each twin of a piece's entry that a stage calls becomes an entry of the plan.
 *
 * Named scalars (the loss) have one place on all stages and are added over them at the end, so that
 * every rank can read them. */
#include "codegen/emit.h"

#include "base/hash.h"
#include "base/intern.h"
#include "ir/pipeline.h"
#include "plan/notes.h"

#include <stdio.h>
#include <string.h>

typedef struct Named {
    const char *entry, *name;
    const DtType *type;
    DtPlace place;
} Named;

/* An entry that was emitted. Where the entry of another stage has an equal key, its instructions
 * are repeated. */
typedef struct Emitted {
    uint64_t hash;
    DtText key;
    uint32_t entry;      /* of the plan */
    int64_t temporaries; /* bytes */
    double flops;        /* flops of a step on all ranks that run the entry */
} Emitted;

typedef DT_VEC(const DtStore *) Stores;

/* The results of all pieces of the stage in a run, each place once, as if one function computed
 * them: those that begin at zero, and those that a sum over ranks completes at the end. */
typedef struct Results {
    DtFunc func;
    DtEntryPoint entry;
    DT_VEC(DtWanted) wanted;
} Results;

struct DtPipelineEmit {
    DT_VEC(Emitted) emitted;
    DT_VEC(Named) named;
    int64_t *bytes;      /* the size of each arena of each stage: [stage * DT_EMIT_ARENAS +
                          * arena] */
    uint32_t *channels;  /* by channel of the run: the first of its channels in the plan */
    uint32_t *events;    /* by channel of the plan, for its receiving and its sending end: 1 + the
                          * event of messages there; 0: none yet */
    bool *is_called;     /* by entry of the module: whether the stage calls it in the run */
    uint32_t *called;    /* by entry of the module: its number in the plan */
    DtSlots slots;
    Stores *stores;      /* by stage: the stores that it has, except those with slots */
    DtWanted *wanted;      /* by result of the current entry */
    int64_t class_bytes[DT_EMIT_ARENAS]; /* bytes of the stores that all stages of the class have */
    Results results;       /* the results of the run being emitted */
};

/* Whether the store is on the stage being emitted; true without a pipeline. */
static bool is_here(const DtEmit *e, const DtStore *store)
{
    return !e->module->pipeline || dt_pipeline_on(store->stage, store->more, e->stage);
}

int64_t dt_pipeline_arena(const DtEmit *e, uint32_t arena, uint32_t stage)
{
    bool common = arena == DT_ARENA_INPUTS || arena == DT_ARENA_SCALARS;
    return common ? e->arena_bytes[arena] : e->pipeline->bytes[stage * DT_EMIT_ARENAS + arena];
}

static const char *plan_name(const DtPipelineRun *run)
{
    return run->kind == DT_ENTRY_GRAD ? "step" : dt_entry_kind_name(run->kind);
}

/* Whether the plan gets this run: "eval" is left out if there is no held-out data. */
static bool is_wanted(const DtEmit *e, const DtPipelineRun *run)
{
    return run->kind != DT_ENTRY_EVAL || (e->program->train && e->program->train->eval_readers.n);
}

/* ---- named results ---- */

DtPlace dt_pipeline_named(DtEmit *e, const char *entry, const char *name, const DtType *type)
{
    for (uint32_t i = 0; i < e->pipeline->named.n; i++) {
        const Named *known = &e->pipeline->named.at[i];
        if (strcmp(known->entry, entry) == 0 && known->name == name)
            return known->place;
    }
    /* only "predict" has results that are tensors */
    DtPlanArenaKind arena = type->rank ? DT_ARENA_PREDICTED : DT_ARENA_SCALARS;
    uint32_t buffer = dt_place_fixed(e, name, arena, dt_place_bytes(e, type));
    Named named = {entry, name, type, dt_place_dense(e, type, buffer)};
    DT_PUSH(e->arena, e->pipeline->named, named);
    dt_entry_metric(e, name, entry, type, buffer);
    return named.place;
}

/* ---- channels ---- */

/* A message transfers one store: a channel of the run becomes one channel of the plan per store. */
static uint32_t *add_channels(DtEmit *e, const DtPipelineRun *run)
{
    uint32_t *first = DT_NEW_ARRAY(e->arena, uint32_t, run->channels.n + 1);
    for (uint32_t c = 0; c < run->channels.n; c++) {
        const DtChannel *channel = &run->channels.at[c];
        first[c] = e->plan->channels.n;
        for (uint32_t i = 0; i < channel->stores.n; i++) {
            const DtStore *store = channel->stores.at[i];
            const char *name = dt_pipeline_slot_path(e->module->pipeline, store->path, channel->to);
            DtPlanChannel record = {.name = dt_write_str(e->plan, name), .from = channel->from,
                                    .to = channel->to, .slots = (uint32_t)channel->slots,
                                    .bytes = dt_place_bytes(e, store->type), .direct = run->direct,
                                    .span = dt_finish_span(e, store->span, NULL, store->path)};
            DT_PUSH(e->plan->arena, e->plan->channels, record);
        }
    }
    return first;
}

static void set_text(DtEmit *e, const DtStore *store)
{
    DtItem *item = &e->items.at[e->items.n - 1];
    item->span = store->span;
    item->text = store->path;
}

static void emit_done(DtEmit *e, const DtPipelineRun *run, const DtAction *action)
{
    const DtChannel *channel = &run->channels.at[action->unit];
    for (uint32_t i = 0; i < channel->stores.n; i++) {
        const uint32_t number = e->pipeline->channels[action->unit] + i;
        dt_inst_add(e, DT_INST_WAIT, 0, 0, NULL, NULL);
        dt_exchange_message(e,
                            &e->pipeline->events[2 * number + dt_pipeline_is_send(action->kind)]);
        set_text(e, channel->stores.at[i]);
    }
}

static void emit_transfer(DtEmit *e, const DtPipelineRun *run, const DtAction *action)
{
    const DtChannel *channel = &run->channels.at[action->unit];
    const bool sends = dt_pipeline_is_send(action->kind),
               starts = action->kind >= DT_ACTION_START_SEND;
    for (uint32_t i = 0; i < channel->stores.n; i++) {
        const DtStore *to = channel->stores.at[i],
                      *store = sends ? dt_pipeline_source(channel, to) : to;
        DtEArg args[2] = {dt_place_arg(e, &e->stores[store->index], !sends),
                          {.kind = DT_ARG_INTEGER, .reg = {1}}};
        const uint32_t number = e->pipeline->channels[action->unit] + i;
        dt_inst_add(e, sends ? DT_INST_SEND : DT_INST_RECV, number, 2, args, NULL);
        if (starts)
            dt_exchange_message(e, &e->pipeline->events[2 * number + sends]);
        DtItem *item = &e->items.at[e->items.n - 1];
        item->inst.dtype = (uint16_t)store->type->dtype;
        item->inst.count = dt_type_local_elements(store->type, &e->module->mesh);
        set_text(e, to);
        dt_note_store(e, DT_NOTE_MOVE, to);
    }
}

/* ---- schedules ---- */

/* What registers for micro-batch and slots contain, if that is known: micro-batch first + step x
 * the counter of the innermost loop (plus, inside a period, the counter of the period). */
typedef struct Flow {
    bool in_period, known;
    int64_t first, step;
} Flow;

static void push_item(DtEmit *e, DtItemKind kind, DtPlanSchedule item)
{
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = kind, .loop = item}));
}

static void set_micro(DtEmit *e, Flow *flow, int64_t first, int64_t step)
{
    const DtSlots *slots = &e->pipeline->slots;
    DtPlanSchedule item = {.kind = DT_SCHED_SET, .body = step ? DT_PLAN_REG_REPEAT : 0,
                           .first = first, .step = step,
                           .plus = flow->in_period ? DT_PLAN_REG_PERIOD : 0};
    if (flow->known && flow->first == first && flow->step == step)
        return;
    *flow = (Flow){flow->in_period, true, first, step};
    push_item(e, DT_ITEM_SCHED, item);
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++) {
        if (slots->depth[g] == 0)
            continue;
        item.reg = DT_PLAN_REG_SLOTS + g;
        item.count = slots->depth[g];
        push_item(e, DT_ITEM_SCHED, item);
    }
}

static void emit_action(DtEmit *e, const DtPipelineRun *run, const DtAction *action, int64_t step,
                        Flow *flow)
{
    if (action->kind == DT_ACTION_DONE_SEND || action->kind == DT_ACTION_DONE_RECV) {
        emit_done(e, run, action);
        return;
    }
    set_micro(e, flow, action->micro, step);
    if (action->kind > DT_ACTION_W) {
        emit_transfer(e, run, action);
        return;
    }
    DtPlanSchedule call = {.kind = DT_SCHED_CALL,
                           .body = e->pipeline->called[dt_pipeline_called(run, action)]};
    push_item(e, DT_ITEM_SCHED, call);
}

static void begin_loop(DtEmit *e, uint32_t reg, int64_t step, int64_t count)
{
    push_item(e, DT_ITEM_LOOP, (DtPlanSchedule){.kind = DT_SCHED_LOOP, .reg = reg, .step = step,
                                                .count = count});
}

static void end_loop(DtEmit *e, uint32_t reg)
{
    push_item(e, DT_ITEM_END, (DtPlanSchedule){.kind = DT_SCHED_END, .reg = reg});
}

/* Emits the actions of a list. Actions that repeat with evenly advancing micro-batches become a
 * loop. */
static void emit_list(DtEmit *e, const DtPipelineRun *run, const DtAction *actions, uint32_t n,
                      bool in_period)
{
    Flow flow = {.in_period = in_period};
    for (uint32_t i = 0; i < n;) {
        const DtActionTurns row = dt_pipeline_turns(actions + i, n - i);
        if (row.count > 1)
            begin_loop(e, DT_PLAN_REG_REPEAT, 1, row.count);
        flow.known = flow.known && row.count == 1;
        for (uint32_t k = 0; k < row.n; k++)
            emit_action(e, run, &actions[i + k], row.step, &flow);
        if (row.count > 1)
            end_loop(e, DT_PLAN_REG_REPEAT);
        flow.known = flow.known && row.count == 1;
        i += row.count * row.n;
    }
}

static void emit_actions(DtEmit *e, const DtPipelineRun *run, const DtStageActions *actions)
{
    emit_list(e, run, actions->prologue.at, actions->prologue.n, false);
    if (actions->count > 0) {
        begin_loop(e, DT_PLAN_REG_PERIOD, actions->step, actions->count);
        emit_list(e, run, actions->period.at, actions->period.n, true);
        end_loop(e, DT_PLAN_REG_PERIOD);
    }
    emit_list(e, run, actions->epilogue.at, actions->epilogue.n, false);
}

/* ---- the actions of a stage ---- */

/* All ring buffers of the stage, one at a time, at the beginning of its memory: where all stages of
 * a class have it. */
static void place_ringbufs(DtEmit *e)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < e->module->stores.n; i++) {
        const DtStore *store = e->module->stores.at[i];
        if (store->kind == DT_STORE_RINGBUF && is_here(e, store) &&
            dt_place_bytes(e, store->type) > bytes)
            bytes = dt_place_bytes(e, store->type);
    }
    const uint32_t buffer =
        bytes ? dt_place_fixed(e, "gathered ahead", DT_ARENA_WORKSPACE, bytes) : 0;
    for (uint32_t i = 0; bytes && i < e->module->stores.n; i++) {
        const DtStore *store = e->module->stores.at[i];
        if (store->kind == DT_STORE_RINGBUF && is_here(e, store))
            e->stores[store->index] = dt_place_dense(e, store->type, buffer);
    }
}

/* Returns the stage's actions in a run, and marks in is_called the entries that they call. In
 * "predict" the inputs hold a single micro-batch, so only the actions of micro-batch 0 remain. */
static DtStageActions course_of(DtEmit *e, const DtPipelineRun *run)
{
    const DtStageActions *all = &run->stages[e->stage];
    DtStageActions course = *all;
    if (run->kind == DT_ENTRY_PREDICT) {
        course = (DtStageActions){0};
        for (int64_t i = 0; i < dt_pipeline_count(all); i++)
            if (dt_pipeline_at(all, i).micro == 0)
                DT_PUSH(e->arena, course.prologue, dt_pipeline_at(all, i));
    }
    const DtActions *const lists[] = {&course.prologue, &course.period, &course.epilogue};
    memset(e->pipeline->is_called, 0, e->module->entries.n * sizeof *e->pipeline->is_called);
    for (size_t k = 0; k < DT_COUNT(lists); k++)
        for (uint32_t i = 0; (k != 1 || course.count > 0) && i < lists[k]->n; i++) {
            const int32_t number = dt_pipeline_called(run, &lists[k]->at[i]);
            if (number >= 0)
                e->pipeline->is_called[number] = true;
        }
    return course;
}

/* ---- runs ---- */

static void emit_piece(DtEmit *e, const DtPipelineRun *run, const DtEntryPoint *entry,
                       const DtWanted *wanted, const char *name)
{
    dt_entry_begin(e, run->kind);
    if (run->kind != DT_ENTRY_PREDICT)
        dt_entry_reads(e, entry->func, run->kind == DT_ENTRY_EVAL);
    dt_entry_body(e, entry, wanted);
    dt_finish_entry(e, name);
}

/* Finds the record of an emitted entry with this key. If there is none, sets *ret_found to false
 * and adds a record without an entry. */
static Emitted *find_emitted(DtEmit *e, DtText *key, bool *ret_found)
{
    uint64_t hash = dt_hash_bytes(key->at, key->len, 0);
    *ret_found = true;
    for (uint32_t i = 0; i < e->pipeline->emitted.n; i++) {
        Emitted *old = &e->pipeline->emitted.at[i];
        if (old->hash == hash && old->key.len == key->len &&
            memcmp(old->key.at, key->at, key->len) == 0) {
            dt_text_free(key);
            return old;
        }
    }
    *ret_found = false;
    DT_PUSH(e->arena, e->pipeline->emitted, ((Emitted){.hash = hash, .key = *key}));
    return &e->pipeline->emitted.at[e->pipeline->emitted.n - 1];
}

static DtWanted *wanted_of(DtEmit *e, const DtEntryPoint *entry, const char *name)
{
    memset(e->pipeline->wanted, 0, entry->results.n * sizeof *e->pipeline->wanted);
    dt_entry_wanted(e, entry, name, e->pipeline->wanted);
    return e->pipeline->wanted;
}

static void add_place(DtEmit *e, const DtPlace *place, DtText *key)
{
    const DtBuffer *buffer = &e->buffers.at[place->view.buffer];
    dt_text_add_n(key, (const char *)&buffer->arena, sizeof buffer->arena);
    dt_text_add_n(key, (const char *)&buffer->offset, sizeof buffer->offset);
    dt_place_key(place, key);
}

/* Finds the places of the stores and inputs that the function reads, and adds them to the key. */
static void add_sources(DtEmit *e, const DtFunc *func, DtText *key)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->store)
            add_place(e, &e->stores[op->store->index], key);
        for (uint32_t k = 0; op->kind == DT_OP_INPUT && k < e->inputs.n; k++)
            if (e->inputs.at[k].name == op->text)
                add_place(e, &e->inputs.at[k].place, key);
        if (op->func)
            add_sources(e, op->func, key);
    }
}

/* The record of an earlier stage whose entry is equal, with all operands and results in the same
 * places; or a new record. */
static Emitted *equal_entry(DtEmit *e, const DtEntryPoint *entry, const char *of, bool *ret_found)
{
    const DtWanted *wanted = wanted_of(e, entry, of);
    const uint64_t number = (uint64_t)(entry - e->module->entries.at);
    DtText key = {0};
    dt_text_add(&key, of);
    dt_text_add_n(&key, (const char *)&number, sizeof number);
    add_sources(e, entry->func, &key);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const uint32_t numbers[] = {wanted[i].set, wanted[i].accumulate, wanted[i].old != NULL};
        dt_text_add_n(&key, (const char *)numbers, sizeof numbers);
        if (wanted[i].set)
            add_place(e, &wanted[i].place, &key);
    }
    return find_emitted(e, &key, ret_found);
}

static void set_class(DtEmit *e, const DtEntryPoint *entry)
{
    e->class_first = entry->stage;
    e->in_class = entry->more > 0;
}

/* Emits the instructions of an entry as the plan's entry `name`, or repeats those of one that is
 * equal. run NULL: the optimizer's. */
static void emit_or_repeat(DtEmit *e, const DtEntryPoint *entry, const DtPipelineRun *run,
                           const char *name)
{
    const char *of = run ? plan_name(run) : "update";
    set_class(e, entry);
    bool found;
    Emitted *emitted = equal_entry(e, entry, of, &found);
    const DtPlanArenaKind arena = dt_entry_temporaries(entry->kind);
    const int64_t others = e->arena_bytes[arena];
    double *flops = &e->plan->meta.at[0].flops, before = *flops;
    if (found) {
        DtPlanEntry same = e->plan->entries.at[emitted->entry];
        DtPlanNote notes = e->plan->notes.at[emitted->entry];
        same.name = dt_write_str(e->plan, name);
        same.stage = e->stage;
        DT_PUSH(e->plan->arena, e->plan->entries, same);
        DT_PUSH(e->plan->arena, e->plan->notes, notes);
        *flops += emitted->flops;
    } else {
        e->arena_bytes[arena] = 0;
        e->trips = run ? (double)e->module->pipeline->n_micro : 1;
        if (run)
            emit_piece(e, run, entry, wanted_of(e, entry, of), name);
        else
            dt_entry_update(e, entry);
        e->trips = 1;
        emitted->entry = e->plan->entries.n - 1;
        emitted->temporaries = e->arena_bytes[arena];
        emitted->flops = *flops - before;
    }
    e->arena_bytes[arena] = others > emitted->temporaries ? others : emitted->temporaries;
}

/* Emits the entries for this phase (F, B or W) of a piece: every twin that some action calls. All
 * twins together run as often as a single entry would. */
static void emit_phase(DtEmit *e, const DtPipelineRun *run, uint32_t piece, uint32_t kind)
{
    DtAction action = {.kind = kind, .unit = piece};
    double *flops = &e->plan->meta.at[0].flops, after = 0;
    char name[64];
    uint32_t n = 0;
    for (int32_t number; (number = dt_pipeline_called(run, &action)) >= 0; action.twin++) {
        if (!e->pipeline->is_called[number])
            continue;
        const DtEntryPoint first = dt_entry_new(run->kind, NULL, DT_PART_F + kind, (int32_t)piece);
        int len = snprintf(name, sizeof name, "%s", first.name);
        if (n)
            snprintf(name + len, sizeof name - (size_t)len, ".%u", n);
        emit_or_repeat(e, &e->module->entries.at[number], run, name);
        e->pipeline->called[number] = e->plan->entries.n - 1;
        after = n++ ? after : *flops;
        *flops = after;
    }
}

static void add_results(DtEmit *e, const DtPipelineRun *run, int32_t number, Results *results)
{
    if (number < 0)
        return;
    const DtEntryPoint *entry = &e->module->entries.at[number];
    const DtWanted *wanted = wanted_of(e, entry, plan_name(run));
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        bool repeated = store && (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_RINGBUF);
        for (uint32_t k = 0; k < results->wanted.n; k++)
            repeated = repeated || dt_place_same(&results->wanted.at[k].place, &wanted[i].place);
        if (repeated)
            continue;
        DT_PUSH(e->arena, results->wanted, wanted[i]);
        DT_PUSH(e->arena, results->entry.results, entry->results.at[i]);
        DT_PUSH(e->arena, results->func.results, entry->func->results.at[i]);
    }
}

static Results *list_results(DtEmit *e, const DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    Results *results = &e->pipeline->results;
    results->wanted.n = results->entry.results.n = results->func.results.n = 0;
    results->entry.kind = run->kind;
    results->entry.name = dt_entry_kind_name(run->kind);
    results->entry.func = &results->func;
    for (uint32_t g = 0; g < pipeline->n_pieces; g++) {
        if (pipeline->stage_of[g] != (uint32_t)e->stage)
            continue;
        add_results(e, run, run->pieces[g].f, results);
        add_results(e, run, run->pieces[g].b, results);
        add_results(e, run, run->pieces[g].w, results);
    }
    return results;
}

/* Each scalar of the run is set to 0 on stages that do not compute it. */
static void zero_results(DtEmit *e, const char *name, const Results *results)
{
    for (uint32_t i = 0; i < results->wanted.n; i++)
        if (results->wanted.at[i].accumulate)
            dt_inst_zero(e, &results->wanted.at[i].place);
    for (uint32_t i = 0; i < e->pipeline->named.n; i++) {
        const Named *named = &e->pipeline->named.at[i];
        bool here = strcmp(named->entry, name) != 0 || named->type->rank;
        for (uint32_t k = 0; k < results->wanted.n; k++)
            here = here || dt_place_same(&results->wanted.at[k].place, &named->place);
        if (!here)
            dt_inst_zero(e, &named->place);
    }
}

static void share_scalars(DtEmit *e, const char *name)
{
    for (uint32_t i = 0; i < e->pipeline->named.n; i++) {
        const Named *named = &e->pipeline->named.at[i];
        if (strcmp(named->entry, name) != 0 || named->type->rank)
            continue;
        uint16_t mesh = (uint16_t)(1u << e->module->pipeline->mesh);
        dt_exchange_sum(e, &named->place, &named->place, mesh, DT_REDUCE_SUM, NULL);
        dt_note_op(e, DT_NOTE_SHARE, NULL);
    }
}

/* The entry of this kind and part that belongs to the stage being emitted, or its class; NULL:
 * there is none. */
static const DtEntryPoint *entry_here(const DtEmit *e, DtEntryKind kind, DtEntryPart part)
{
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        const DtEntryPoint *entry = &e->module->entries.at[i];
        if (entry->kind == kind && entry->part == part &&
            dt_pipeline_on(entry->stage, entry->more, e->stage))
            return entry;
    }
    return NULL;
}

static void emit_prologue(DtEmit *e, const DtPipelineRun *run)
{
    const DtEntryPoint *entry = entry_here(e, run->kind, DT_PART_PROLOGUE);
    if (!entry)
        return;
    set_class(e, entry);
    dt_entry_pass(e, entry, dt_entry_new(run->kind, NULL, DT_PART_PROLOGUE, e->stage).name,
                  run->kind == DT_ENTRY_EVAL);
}

/* After all actions: waits for reductions that pieces left in flight, in all of the pieces'
 * versions. */
static void finish_pieces(DtEmit *e, const DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    for (uint32_t g = 0; g < pipeline->n_pieces; g++)
        for (DtAction action = {.unit = g, .kind = DT_ACTION_F}; action.kind <= DT_ACTION_W;
             action.kind++) {
            int32_t number;
            for (action.twin = 0; (number = dt_pipeline_called(run, &action)) >= 0; action.twin++)
                if (pipeline->stage_of[g] == (uint32_t)e->stage && e->pipeline->is_called[number])
                    dt_exchange_finish(e, &e->module->entries.at[number]);
        }
}

static void emit_run(DtEmit *e, const DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    dt_slots_place(e, run, &e->pipeline->slots);
    const DtStageActions course = course_of(e, run);
    for (uint32_t g = 0; g < pipeline->n_pieces; g++) {
        if (pipeline->stage_of[g] != (uint32_t)e->stage)
            continue;
        for (uint32_t kind = DT_ACTION_F; kind <= DT_ACTION_W; kind++)
            emit_phase(e, run, g, kind);
    }
    dt_entry_begin(e, run->kind);
    Results *results = list_results(e, run);
    emit_prologue(e, run);
    zero_results(e, plan_name(run), results);
    emit_actions(e, run, &course);
    finish_pieces(e, run);
    dt_entry_complete(e, &results->entry, results->wanted.at);
    share_scalars(e, plan_name(run));
    dt_finish_entry(e, plan_name(run));
}

/* ---- stages ---- */

/* Places of scalars, before any stage is emitted: every stage zeroes and adds those of every
 * other. */
static void name_scalars(DtEmit *e)
{
    for (uint32_t r = 0; r < e->module->pipeline->runs.n; r++) {
        const DtPipelineRun *run = &e->module->pipeline->runs.at[r];
        for (uint32_t g = 0; g < e->module->pipeline->n_pieces; g++) {
            const DtEntryPoint *entry = &e->module->entries.at[run->pieces[g].f];
            for (uint32_t i = 0; i < entry->results.n; i++) {
                const DtEntryResult *result = &entry->results.at[i];
                const DtType *type = entry->func->results.at[i]->type;
                if (!result->store && result->name[0] != '@' && type->rank == 0 &&
                    is_wanted(e, run))
                    dt_pipeline_named(e, plan_name(run), result->name, type);
            }
        }
    }
}

static void emit_update(DtEmit *e)
{
    const DtEntryPoint *entry = entry_here(e, DT_ENTRY_UPDATE, DT_PART_WHOLE);
    if (!entry)
        return;
    set_class(e, entry);
    emit_or_repeat(e, entry, NULL, "update");
}

/* Lists the stores of each stage; a store that every stage has is on all lists. */
static void list_stage_stores(DtEmit *e)
{
    const uint32_t n_stages = e->module->pipeline->n_stages;
    e->pipeline->stores = DT_NEW_ARRAY(e->arena, Stores, n_stages);
    for (uint32_t i = 0; i < e->module->stores.n; i++) {
        const DtStore *store = e->module->stores.at[i];
        if (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL ||
            store->kind == DT_STORE_RINGBUF)
            continue;
        uint32_t first = store->stage < 0 ? 0 : (uint32_t)store->stage,
                 last = store->stage < 0 ? n_stages - 1 : first + store->more;
        for (uint32_t s = first; s <= last; s++)
            DT_PUSH(e->arena, e->pipeline->stores[s], store);
    }
}

static DtPipelineEmit *new_emit(DtEmit *e)
{
    const DtModule *module = e->module;
    DtPipelineEmit *p = DT_NEW(e->arena, DtPipelineEmit);
    uint32_t most = 0;
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].results.n > most)
            most = module->entries.at[i].results.n;
    p->bytes = DT_NEW_ARRAY(e->arena, int64_t, module->pipeline->n_stages * DT_EMIT_ARENAS);
    p->is_called = DT_NEW_ARRAY(e->arena, bool, module->entries.n + 1);
    p->called = DT_NEW_ARRAY(e->arena, uint32_t, module->entries.n + 1);
    p->wanted = DT_NEW_ARRAY(e->arena, DtWanted, most + 1);
    return p;
}

/* Adds the stores of the stage. Stages of a class share one record and one place per store: the
 * first stage adds them, the others take over the sizes of its arenas. */
static void place_stores(DtEmit *e)
{
    const Stores *stores = &e->pipeline->stores[e->stage];
    bool repeated = false;
    for (uint32_t i = 0; i < stores->n; i++)
        repeated = repeated || (stores->at[i]->more && e->stage > stores->at[i]->stage);
    for (uint32_t i = 0; !repeated && i < stores->n; i++)
        dt_entry_store(e, stores->at[i]);
    for (uint32_t a = 0; a < DT_EMIT_ARENAS; a++) {
        if (a == DT_ARENA_INPUTS || a == DT_ARENA_SCALARS)
            continue;
        if (repeated)
            e->arena_bytes[a] = e->pipeline->class_bytes[a];
        e->pipeline->class_bytes[a] = e->arena_bytes[a];
    }
}

static void emit_stage(DtEmit *e, uint32_t **channels)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    for (uint32_t a = 0; a < DT_EMIT_ARENAS; a++)
        if (a != DT_ARENA_INPUTS && a != DT_ARENA_SCALARS)
            e->arena_bytes[a] = 0;
    place_stores(e);
    place_ringbufs(e);
    for (uint32_t r = 0; r < pipeline->runs.n; r++) {
        if (!is_wanted(e, &pipeline->runs.at[r]))
            continue;
        e->pipeline->channels = channels[r];
        emit_run(e, &pipeline->runs.at[r]);
    }
    emit_update(e);
    memcpy(e->pipeline->bytes + e->stage * DT_EMIT_ARENAS, e->arena_bytes, sizeof e->arena_bytes);
}

void dt_pipeline_emit(DtEmit *e)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    uint32_t **channels = DT_NEW_ARRAY(e->arena, uint32_t *, pipeline->runs.n + 1);
    e->pipeline = new_emit(e);
    list_stage_stores(e);
    for (uint32_t r = 0; r < pipeline->runs.n; r++)
        if (is_wanted(e, &pipeline->runs.at[r]))
            channels[r] = add_channels(e, &pipeline->runs.at[r]);
    e->pipeline->events = DT_NEW_ARRAY(e->arena, uint32_t, 2 * e->plan->channels.n + 1);
    name_scalars(e);
    for (uint32_t s = 0; s < pipeline->n_stages; s++) {
        e->stage = (int32_t)s;
        emit_stage(e, channels);
    }
    for (uint32_t i = 0; i < e->pipeline->emitted.n; i++)
        dt_text_free(&e->pipeline->emitted.at[i].key);
}
