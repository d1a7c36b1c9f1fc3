/* SPDX-License-Identifier: Apache-2.0 */
/* A placed module that is cut into pipeline stages: every stage works through its own list of
 * actions, and the simulation executes one action at a time, of any stage that need not wait. The
 * ranks of the stage evaluate it for one micro-batch. A send waits for a free place in its channel
 * and a receive for a full one, so a schedule that would block shows as stages that cannot go on.
 * Slots remember which micro-batch they hold. A slot that is reused too early is a problem even if
 * its values do not matter; so is a slot that is written while a message that has started reads it.
 * A slot is empty from the start of a receive until its end. */
#include "passes/check/internal.h"

#include "ir/pipeline.h"

#include <string.h>

/* A message that a pipeline stage has sent and the other has not received yet. */
typedef struct Message {
    int64_t micro;
    DtTensor ***at; /* by store of the channel: its parts, by receiving rank */
} Message;

typedef struct Transit {
    /* messages from number `first` on are in transit, earlier ones are received */
    DT_VEC(Message) messages;
    uint32_t first;
} Transit;

typedef struct Staged {
    DtJudge *j;
    const DtPipelineSchedule *pipeline;
    const DtPipelineRun *run;
    Transit *transit; /* by stage: the number of actions done */
    int64_t *done;    /* per stage: actions */
    DtTensor ***raw;  /* by entry of the module: results by rank, for all micro-batches */
} Staged;

/* ---- slots ---- */

static DtSlot *slot_of(DtJudge *j, const DtStore *store, int64_t micro)
{
    if (!j->slots[store->index]) {
        j->slots[store->index] = DT_NEW_ARRAY(j->arena, DtSlot, store->depth);
        for (int64_t i = 0; i < store->depth; i++)
            j->slots[store->index][i].micro = -1;
    }
    return &j->slots[store->index][micro % store->depth];
}

/* Returns the parts that the store's slot holds for this micro-batch. If the slot holds another
 * micro-batch, reports a problem and returns NULL. */
static DtTensor **held(DtJudge *j, const DtStore *store, int64_t micro)
{
    DtSlot *slot = slot_of(j, store, micro);
    if (slot->micro == micro)
        return slot->at;
    dt_judge_problem(j, "micro-batch %lld reads `%s` on stage %d, but the slot holds %s%lld",
                     (long long)micro, store->path, store->stage,
                     slot->micro < 0 ? "nothing yet: " : "micro-batch ", (long long)slot->micro);
    return NULL;
}

DtTensor *dt_judge_slot(DtJudge *j, const DtStore *store, uint32_t rank)
{
    DtTensor **parts = held(j, store, j->micro);
    return parts && parts[rank] ? parts[rank]
                                : dt_interp_tensor(j->arena, dt_ranks_local(store->type, j->mesh));
}

/* Returns the slot to which this micro-batch writes its value; reports a problem if a message is
 * still being sent from that slot. */
static DtSlot *slot_to_write(DtJudge *j, const DtStore *store, int64_t micro)
{
    DtSlot *slot = slot_of(j, store, micro);
    if (slot->sending)
        dt_judge_problem(j, "micro-batch %lld writes `%s` on stage %d, whose slot is being sent",
                         (long long)micro, store->path, store->stage);
    return slot;
}

/* ---- sums over stages ---- */

static DtAcross *across_of(DtJudge *j, const DtOp *op)
{
    uint32_t ordinal = 0, at = 0;
    while (at < j->met.n && j->met.at[at] != op)
        ordinal += dt_stages_same(j->met.at[at++]->stages, op->stages);
    if (at == j->met.n)
        DT_PUSH(j->arena, j->met, op);
    for (uint32_t i = 0; i < j->across.n; i++)
        if (dt_stages_same(j->across.at[i].stages, op->stages) &&
            j->across.at[i].ordinal == ordinal)
            return &j->across.at[i];
    DtAcross across = {op->stages, ordinal, DT_NEW_ARRAY(j->arena, DtTensor *, j->n)};
    DT_PUSH(j->arena, j->across, across);
    return &j->across.at[j->across.n - 1];
}

DtTensor *dt_judge_across(void *judge, const DtOp *op, const DtTensor *in, uint32_t rank)
{
    DtJudge *j = judge;
    const DtPipelineSchedule *pipeline = j->of->placed->pipeline;
    DtAcross *across = across_of(j, op);
    DtTensor *sum = dt_interp_tensor(j->arena, in->type);
    DtTensor *own = across->at[rank] = DT_NEW(j->arena, DtTensor);
    *own = *in;
    for (uint32_t stage = 0; stage < pipeline->n_stages; stage++) {
        const DtTensor *term = across->at[dt_ranks_move(j->mesh, rank, pipeline->mesh, stage)];
        if (!dt_stages_has(op->stages, stage) || !term)
            continue;
        if (term->type != in->type)
            dt_judge_problem(j, "stages add up different things%s", dt_judge_line(j, op->span));
        for (int64_t i = 0; term->type == in->type && i < dt_type_elements(in->type); i++)
            sum->at[i] += term->at[i];
    }
    return sum;
}

/* ---- entries that every stage has its part of ---- */

/* Evaluates each stage's part of an entry, or of its prologue, on the ranks of that stage and
 * settles the results. ret_found: how many stages have a part. False after a problem. */
static bool run_parts(DtJudge *j, DtEntryKind kind, DtEntryPart part, uint32_t *ret_found)
{
    const DtModule *module = j->of->placed;
    *ret_found = 0;
    for (uint32_t stage = 0; stage < module->pipeline->n_stages; stage++) {
        const DtEntryPoint *entry = dt_entry_find(module, kind, NULL, part, (int32_t)stage);
        if (!entry)
            continue;
        int64_t at[DT_MAX_MESH] = {0};
        at[module->pipeline->mesh] = stage;
        DtTensor **raw = DT_NEW_ARRAY(j->arena, DtTensor *, entry->results.n * j->n + 1);
        dt_judge_evaluate(j, entry, (uint16_t)(1u << module->pipeline->mesh), at, raw);
        if (!dt_judge_settle(j, entry, raw))
            return false;
        ++*ret_found;
    }
    return true;
}

/* Runs entry "update" on all stages: evaluates every stage's part again and again until all sums
 * over stages are those of final values. Each round completes the terms of at least one more sum,
 * whose value the next round uses. */
static bool run_update(DtJudge *j, DtEntryKind kind)
{
    uint32_t found = 0;
    j->across.n = 0;
    for (uint32_t round = 0; round < j->across.n + 1; round++) {
        j->named.n = j->stored.n = 0;
        if (!run_parts(j, kind, DT_PART_WHOLE, &found))
            return false;
    }
    return found > 0 || dt_judge_problem(j, "no stage has an entry %s", dt_entry_kind_name(kind));
}

/* Runs each stage's part of the prologue on that stage. */
static bool run_prologues(DtJudge *j, DtEntryKind kind)
{
    uint32_t found;
    if (!run_parts(j, kind, DT_PART_PROLOGUE, &found))
        return false;
    dt_judge_keep_early(j);
    return true;
}

/* ---- actions ---- */

static bool keep_slots(Staged *s, const DtEntryPoint *entry, int64_t micro, DtTensor **raw)
{
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (!store || !store->depth)
            continue;
        if (entry->func->results.at[i]->type != store->type)
            return dt_judge_problem(s->j, "entry %s leaves another type in the slots of `%s`",
                                    entry->name, store->path);
        DtSlot *slot = slot_to_write(s->j, store, micro);
        slot->micro = micro;
        slot->at = DT_NEW_ARRAY(s->j->arena, DtTensor *, s->j->n);
        memcpy(slot->at, raw + i * s->j->n, sizeof *raw * s->j->n);
    }
    return true;
}

static bool compute(Staged *s, uint32_t stage, const DtAction *action)
{
    DtJudge *j = s->j;
    const int64_t micro = action->micro;
    const int32_t number = dt_pipeline_entry(&s->run->pieces[action->unit], action->kind),
                  called = dt_pipeline_called(s->run, action);
    if (number < 0 || called < 0)
        return dt_judge_problem(j, "stage %u has an action of piece %u that has no entry", stage,
                                action->unit);
    /* all twins have the results of the first */
    const DtEntryPoint *entry = &j->of->placed->entries.at[called];
    int64_t at[DT_MAX_MESH] = {0};
    if (j->time)
        at[0] = micro;
    at[s->pipeline->mesh] = stage;
    j->micro = micro;
    dt_judge_evaluate(j, entry, (uint16_t)(1u << s->pipeline->mesh | j->time), at, s->raw[number]);
    dt_judge_keep_rings(j, entry, s->raw[number]);
    return !j->out->problem.len && keep_slots(s, entry, micro, s->raw[number]);
}

/* Sends a message of the channel; false if all its slots are taken by messages in transit. */
static bool send(Staged *s, const DtAction *action)
{
    DtJudge *j = s->j;
    const int64_t micro = action->micro;
    const DtChannel *channel = &s->run->channels.at[action->unit];
    Transit *transit = &s->transit[action->unit];
    if (transit->messages.n - transit->first >= (uint64_t)channel->slots)
        return false;
    Message message = {.micro = micro,
                       .at = DT_NEW_ARRAY(j->arena, DtTensor **, channel->stores.n)};
    for (uint32_t i = 0; i < channel->stores.n; i++) {
        DtTensor **from = held(j, channel->stores.at[i]->of, micro);
        slot_of(j, channel->stores.at[i]->of, micro)->sending =
            action->kind == DT_ACTION_START_SEND;
        message.at[i] = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
        for (uint32_t rank = 0; from && rank < j->n; rank++)
            if (dt_ranks_coordinate(j->mesh, rank, s->pipeline->mesh) == channel->from)
                message.at[i][dt_ranks_move(j->mesh, rank, s->pipeline->mesh, channel->to)] =
                    from[rank];
    }
    DT_PUSH(j->arena, transit->messages, message);
    return true;
}

static bool receive(Staged *s, const DtAction *action)
{
    const int64_t micro = action->micro;
    const DtChannel *channel = &s->run->channels.at[action->unit];
    Transit *transit = &s->transit[action->unit];
    if (transit->first == transit->messages.n)
        return false;
    const Message *message = &transit->messages.at[transit->first++];
    if (message->micro != micro)
        dt_judge_problem(s->j, "stage %u waits for micro-batch %lld and gets %lld", channel->to,
                         (long long)micro, (long long)message->micro);
    for (uint32_t i = 0; i < channel->stores.n; i++)
        *slot_to_write(s->j, channel->stores.at[i], micro) = (DtSlot){.micro = micro,
                                                                      .at = message->at[i]};
    return true;
}

/* Starts a receive: marks the receiving slots as empty until the message is there. */
static bool start_receive(Staged *s, const DtAction *action)
{
    const DtChannel *channel = &s->run->channels.at[action->unit];
    for (uint32_t i = 0; i < channel->stores.n; i++)
        *slot_to_write(s->j, channel->stores.at[i], action->micro) = (DtSlot){.micro = -1};
    return true;
}

static bool end_send(Staged *s, const DtAction *action)
{
    const DtChannel *channel = &s->run->channels.at[action->unit];
    for (uint32_t i = 0; i < channel->stores.n; i++)
        slot_of(s->j, channel->stores.at[i]->of, action->micro)->sending = false;
    return true;
}

/* Executes an action that starts or ends the transfer of a message; false if it must wait for the
 * other stage. */
static bool transfer(Staged *s, const DtAction *action)
{
    switch (action->kind) {
    case DT_ACTION_START_RECV: return start_receive(s, action);
    case DT_ACTION_DONE_SEND: return end_send(s, action);
    default: return dt_pipeline_is_send(action->kind) ? send(s, action) : receive(s, action);
    }
}

/* Runs a stage until it must wait; true if any action was done. */
static bool advance(Staged *s, uint32_t stage)
{
    const DtStageActions *actions = &s->run->stages[stage];
    int64_t before = s->done[stage];
    while (s->done[stage] < dt_pipeline_count(actions) && !s->j->out->problem.len) {
        DtAction action = dt_pipeline_at(actions, s->done[stage]);
        if (action.kind > DT_ACTION_W ? !transfer(s, &action) : !compute(s, stage, &action))
            break;
        s->done[stage]++;
    }
    return s->done[stage] > before;
}

static bool run_actions(Staged *s)
{
    bool moves = true;
    while (moves && !s->j->out->problem.len) {
        moves = false;
        for (uint32_t stage = 0; stage < s->pipeline->n_stages; stage++)
            moves |= advance(s, stage);
    }
    for (uint32_t stage = 0; stage < s->pipeline->n_stages; stage++)
        if (s->done[stage] < dt_pipeline_count(&s->run->stages[stage]))
            return dt_judge_problem(s->j, "%s: stage %u waits for ever at its action %lld",
                                    dt_entry_kind_name(s->run->kind), stage,
                                    (long long)s->done[stage]);
    return !s->j->out->problem.len;
}

/* ---- runs ---- */

static bool settle_pieces(Staged *s)
{
    for (uint32_t piece = 0; piece < s->pipeline->n_pieces; piece++) {
        const DtPieceEntries *entries = &s->run->pieces[piece];
        const int32_t numbers[] = {entries->f, entries->b, entries->w};
        for (size_t i = 0; i < DT_COUNT(numbers); i++)
            if (numbers[i] >= 0 && !dt_judge_settle(s->j, &s->j->of->placed->entries.at[numbers[i]],
                                                    s->raw[numbers[i]]))
                return false;
    }
    return true;
}

bool dt_judge_run_staged(DtJudge *j, DtEntryKind kind)
{
    const DtModule *module = j->of->placed;
    Staged staged = {.j = j, .pipeline = module->pipeline}, *s = &staged;
    for (uint32_t i = 0; i < module->pipeline->runs.n; i++)
        if (module->pipeline->runs.at[i].kind == kind)
            s->run = &module->pipeline->runs.at[i];
    if (!s->run)
        return run_update(j, kind);
    s->transit = DT_NEW_ARRAY(j->arena, Transit, s->run->channels.n + 1);
    s->done = DT_NEW_ARRAY(j->arena, int64_t, s->pipeline->n_stages);
    s->raw = DT_NEW_ARRAY(j->arena, DtTensor **, module->entries.n);
    for (uint32_t i = 0; i < module->entries.n; i++)
        s->raw[i] = DT_NEW_ARRAY(j->arena, DtTensor *, module->entries.at[i].results.n * j->n + 1);
    return run_prologues(j, kind) && run_actions(s) && settle_pieces(s);
}
