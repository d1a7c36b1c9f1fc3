/* SPDX-License-Identifier: Apache-2.0 */
/* What stages of a pipeline send each other goes on beside other work: a message is received from when its slot is free
 * to when it is read, and sent up to when its slot is written again.
 *
 *   before   0F1 0SEND_F1 0RECV_B0 0B0 0F2 ..
 *   after    0F1 0START_SEND_F1 0DONE_RECV_B0 0B0 0START_RECV_B1 0DONE_SEND_F1 0F2 ..
 *
 * Slots are as many as before, so this takes no memory. One message at a time is on its way at either end of a channel;
 * where nothing is computed meanwhile, it is sent or received as before.
 *
 * Devices with queues need no places in transit then, if all stages come to their ends so; of a run in which they would
 * wait for ever no message is started. In "predict" one micro-batch alone goes through the pieces, beside nothing. */
#include "passes/lower/order.h"

#include "passes/pipeline/schedule.h"

#include <string.h>

typedef DT_VEC(uint32_t) Numbers;

enum { KIND_BITS = 4 }; /* of a message's action in a list of numbers, below its channel */
_Static_assert(DT_ACTION_KINDS < 1 << KIND_BITS, "kinds have room");

/* Of a channel, on the stage at hand. */
typedef struct End {
    uint32_t channel;
    bool sends;
    int64_t depth;    /* slots of its stores there */
    Numbers users;    /* actions (piece x 3 + kind) that write what is sent, read what is received */
    Numbers through;  /* ends at the other side of the stage that have a store in common */
    int64_t next;     /* micro-batch of the message that is, or will be, started */
    bool open;        /* it is: */
    uint32_t at, computed; /* where in the list, behind how many actions that compute */
} End;

typedef struct Messages {
    DtArena *arena;
    const DtModule *module;
    const DtPipelineSchedule *pipeline;
    const DtPipelineRun *run;
    uint32_t stage;
    DT_VEC(End) ends;
    int32_t *end_of[2];     /* by channel: its receiving, its sending end here; -1: it is elsewhere */
    Numbers *used_by;       /* by action: ends of which it is a user */
    int64_t *done;          /* by action: micro-batches */
    DtActions list;         /* DT_ACTION_KINDS: nothing is there any more */
    uint32_t computed;      /* actions in the list that compute */
    Numbers freed;          /* ends of which a slot may be free now */
    Numbers *lists;         /* by stage: what of its list is of channels, for `drains` */
} Messages;

/* ---- who uses what ---- */

static const DtStore *store_of(const Messages *m, const End *end, uint32_t i)
{
    const DtChannel *channel = &m->run->channels.at[end->channel];
    return end->sends ? dt_pipeline_source(channel, channel->stores.at[i]) : channel->stores.at[i];
}

static bool has_store(const Messages *m, const End *end, const DtStore *store)
{
    const uint32_t n = m->run->channels.at[end->channel].stores.n;
    for (uint32_t i = 0; i < n; i++)
        if (store_of(m, end, i) == store)
            return true;
    return false;
}

static void add_end(Messages *m, uint32_t channel, bool sends)
{
    End end = {.channel = channel, .sends = sends, .depth = INT64_MAX};
    for (uint32_t i = 0; i < m->run->channels.at[channel].stores.n; i++) {
        const int64_t depth = dt_pipeline_depth(store_of(m, &end, i), m->stage);
        end.depth = depth < end.depth ? depth : end.depth;
    }
    m->end_of[sends][channel] = (int32_t)m->ends.n;
    DT_PUSH(m->arena, m->ends, end);
}

static void add_user(Messages *m, uint32_t action, const DtStore *store, bool writes)
{
    for (uint32_t i = 0; store && i < m->ends.n; i++) {
        End *end = &m->ends.at[i];
        const bool known = end->users.n && end->users.at[end->users.n - 1] == action;
        if (end->sends != writes || known || !has_store(m, end, store))
            continue;
        DT_PUSH(m->arena, end->users, action);
        DT_PUSH(m->arena, m->used_by[action], i);
    }
}

static bool is_slot(const DtStore *store)
{
    return store && (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL);
}

static void find_users(Messages *m, uint32_t piece, uint32_t kind)
{
    const int32_t number = dt_pipeline_entry(&m->run->pieces[piece], kind);
    if (number < 0)
        return;
    const DtEntryPoint *entry = &m->module->entries.at[number];
    for (uint32_t i = 0; i < entry->func->ops.n; i++)
        if (is_slot(entry->func->ops.at[i]->store))
            add_user(m, piece * 3 + kind, entry->func->ops.at[i]->store, false);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (is_slot(entry->results.at[i].store))
            add_user(m, piece * 3 + kind, entry->results.at[i].store, true);
}

/* What is received and sent on. */
static void find_through(Messages *m)
{
    for (uint32_t i = 0; i < m->ends.n; i++)
        for (uint32_t k = 0; k < m->ends.n; k++) {
            const End *to = &m->ends.at[k];
            bool shares = false;
            for (uint32_t s = 0; m->ends.at[i].sends != to->sends && s < m->run->channels.at[to->channel].stores.n; s++)
                shares = shares || has_store(m, &m->ends.at[i], store_of(m, to, s));
            if (shares)
                DT_PUSH(m->arena, m->ends.at[i].through, k);
        }
}

static void find_ends(Messages *m)
{
    for (uint32_t i = 0; i < m->run->channels.n; i++) {
        m->end_of[0][i] = m->end_of[1][i] = -1;
        if (m->run->channels.at[i].to == m->stage)
            add_end(m, i, false);
        if (m->run->channels.at[i].from == m->stage)
            add_end(m, i, true);
    }
    for (uint32_t g = 0; m->ends.n && g < m->pipeline->n_pieces; g++)
        for (uint32_t kind = DT_ACTION_F; m->pipeline->stage_of[g] == m->stage && kind <= DT_ACTION_W; kind++)
            find_users(m, g, kind);
    find_through(m);
}

/* ---- the list ---- */

static void push(Messages *m, uint32_t kind, const End *end)
{
    const DtAction action = {.kind = kind, .unit = end->channel, .micro = end->next};
    DT_PUSH(m->arena, m->list, action);
}

/* The message that is started at this end is done here. */
static void close_end(Messages *m, End *end)
{
    if (end->computed != m->computed) {
        push(m, end->sends ? DT_ACTION_DONE_SEND : DT_ACTION_DONE_RECV, end);
    } else if (end->sends) {
        m->list.at[end->at].kind = DT_ACTION_SEND;
    } else {
        m->list.at[end->at].kind = DT_ACTION_KINDS;
        push(m, DT_ACTION_RECV, end);
    }
    end->open = false;
    end->next++;
}

static bool is_free(const Messages *m, const End *end)
{
    const int64_t least = end->next - end->depth + 1; /* so many micro-batches have left the slot behind */
    bool is = !end->open && end->next < m->pipeline->n_micro;
    for (uint32_t i = 0; is && i < end->users.n; i++)
        is = m->done[end->users.at[i]] >= least;
    for (uint32_t i = 0; is && i < end->through.n; i++)
        is = m->ends.at[end->through.at[i]].next >= least;
    return is;
}

static void open_end(Messages *m, End *end)
{
    end->open = true;
    end->at = m->list.n;
    end->computed = m->computed;
    push(m, end->sends ? DT_ACTION_START_SEND : DT_ACTION_START_RECV, end);
}

/* Messages are received behind what is sent where the slot became free, which is of the micro-batch at hand. */
static void receive_freed(Messages *m)
{
    for (uint32_t i = 0; i < m->freed.n; i++)
        if (is_free(m, &m->ends.at[m->freed.at[i]]))
            open_end(m, &m->ends.at[m->freed.at[i]]);
    m->freed.n = 0;
}

/* What is sent is done, and what it kept from being received may come. */
static void close_send(Messages *m, End *end)
{
    close_end(m, end);
    for (uint32_t i = 0; i < end->through.n; i++)
        DT_PUSH(m->arena, m->freed, end->through.at[i]);
}

static void add_transfer(Messages *m, const DtAction *action)
{
    const bool sends = action->kind == DT_ACTION_SEND;
    const uint32_t number = (uint32_t)m->end_of[sends][action->unit];
    End *end = &m->ends.at[number];
    if (sends) {
        if (end->open)
            close_send(m, end);
        open_end(m, end);
        return;
    }
    receive_freed(m);
    for (uint32_t i = 0; !end->open && i < end->through.n; i++) {
        End *other = &m->ends.at[end->through.at[i]];
        if (other->open && other->next <= end->next - end->depth)
            close_end(m, other);
    }
    if (!end->open)
        open_end(m, end);
    close_end(m, end);
    DT_PUSH(m->arena, m->freed, number);
}

static void add_computed(Messages *m, const DtAction *action)
{
    const uint32_t number = action->unit * 3 + action->kind;
    const Numbers *ends = &m->used_by[number];
    receive_freed(m);
    for (uint32_t i = 0; i < ends->n; i++) {
        End *end = &m->ends.at[ends->at[i]];
        if (end->sends && end->open && end->next <= action->micro - end->depth)
            close_send(m, end);
    }
    DT_PUSH(m->arena, m->list, *action);
    m->computed++;
    m->done[number]++;
    for (uint32_t i = 0; i < ends->n; i++)
        if (!m->ends.at[ends->at[i]].sends)
            DT_PUSH(m->arena, m->freed, ends->at[i]);
}

/* Without what is not there any more. */
static void squeeze(Messages *m)
{
    uint32_t n = 0;
    Numbers *list = &m->lists[m->stage];
    for (uint32_t i = 0; i < m->list.n; i++) {
        const DtAction *action = &m->list.at[i];
        if (action->kind > DT_ACTION_W && action->kind < DT_ACTION_KINDS)
            DT_PUSH(m->arena, *list, action->unit << KIND_BITS | action->kind);
        if (action->kind < DT_ACTION_KINDS)
            m->list.at[n++] = *action;
    }
    m->list.n = n;
}

/* ---- stages ---- */

static DtActions kept(DtArena *arena, const DtActions *list)
{
    DtActions copy = {.at = DT_NEW_ARRAY(arena, DtAction, list->n + 1), .n = list->n, .cap = list->n + 1};
    if (list->n)
        memcpy(copy.at, list->at, list->n * sizeof *list->at);
    return copy;
}

static void begin_stage(Messages *m, uint32_t stage)
{
    const uint32_t n_actions = m->pipeline->n_pieces * 3;
    m->stage = stage;
    m->ends.n = m->list.n = m->freed.n = 0;
    m->computed = 0;
    memset(m->used_by, 0, n_actions * sizeof *m->used_by);
    memset(m->done, 0, n_actions * sizeof *m->done);
    find_ends(m);
    for (uint32_t i = 0; i < m->ends.n; i++)
        if (!m->ends.at[i].sends)
            DT_PUSH(m->arena, m->freed, i);
}

static void add_list(Messages *m, const DtActions *list, int64_t later)
{
    for (uint32_t i = 0; i < list->n; i++) {
        DtAction action = list->at[i];
        action.micro += later;
        if (action.kind > DT_ACTION_W)
            add_transfer(m, &action);
        else
            add_computed(m, &action);
    }
}

static DtStageActions order_stage(Messages *m, uint32_t stage)
{
    const DtStageActions *actions = &m->run->stages[stage];
    DtArena *arena = m->module->arena;
    DtStageActions list;
    begin_stage(m, stage);
    add_list(m, &actions->prologue, 0);
    for (int64_t i = 0; i < actions->count; i++)
        add_list(m, &actions->period, i * actions->step);
    add_list(m, &actions->epilogue, 0);
    for (uint32_t i = 0; i < m->ends.n; i++)
        if (m->ends.at[i].open)
            close_end(m, &m->ends.at[i]);
    squeeze(m);
    dt_schedule_compress(&m->list, &list);
    list.prologue = kept(arena, &list.prologue);
    list.period = kept(arena, &list.period);
    list.epilogue = kept(arena, &list.epilogue);
    return list;
}

/* ---- devices with queues ---- */

/* A channel: how many messages its ends have begun, by whether they send. */
typedef struct Begun {
    uint32_t n[2];
} Begun;

typedef struct Drain {
    const Messages *m;
    Begun *channels;
    uint32_t *at; /* by stage: how far it has come in its list */
    bool *begun;  /* by stage: the message there has */
    Numbers ready; /* stages that may go on */
} Drain;

/* Takes the stage as far as it comes; who waited for what it begins may go on. */
static void advance(Drain *d, uint32_t stage)
{
    const Numbers *list = &d->m->lists[stage];
    for (uint32_t *at = &d->at[stage]; *at < list->n; ++*at) {
        const uint32_t kind = list->at[*at] & ((1u << KIND_BITS) - 1), number = list->at[*at] >> KIND_BITS;
        const bool sends = dt_pipeline_is_send(kind), ends = kind >= DT_ACTION_DONE_SEND;
        uint32_t *n = d->channels[number].n;
        if (!ends && !d->begun[stage]) {
            const DtChannel *channel = &d->m->run->channels.at[number];
            n[sends]++;
            DT_PUSH(d->m->arena, d->ready, sends ? channel->to : channel->from);
        }
        d->begun[stage] = (ends || kind <= DT_ACTION_RECV) && n[!sends] < n[sends];
        if (d->begun[stage])
            return;
    }
}

/* Whether all stages come to their ends if each message goes once both of its ends have begun. */
static bool drains(const Messages *m)
{
    const uint32_t n = m->pipeline->n_stages;
    Drain d = {.m = m, .at = DT_NEW_ARRAY(m->arena, uint32_t, n), .begun = DT_NEW_ARRAY(m->arena, bool, n),
               .channels = DT_NEW_ARRAY(m->arena, Begun, m->run->channels.n + 1)};
    bool done = true;
    for (uint32_t s = 0; s < n; s++) {
        advance(&d, s);
        while (d.ready.n)
            advance(&d, d.ready.at[--d.ready.n]);
    }
    for (uint32_t s = 0; s < n; s++)
        done = done && d.at[s] == m->lists[s].n;
    return done;
}

/* ---- runs ---- */

static void order_run(const DtModule *module, DtPipelineRun *run)
{
    const uint32_t n = module->pipeline->n_stages, n_actions = module->pipeline->n_pieces * 3;
    DtStageActions *stages = DT_NEW_ARRAY(module->arena, DtStageActions, n);
    Messages m = {.arena = dt_arena_child(module->arena), .module = module, .pipeline = module->pipeline, .run = run};
    for (int k = 0; k < 2; k++)
        m.end_of[k] = DT_NEW_ARRAY(m.arena, int32_t, run->channels.n + 1);
    m.used_by = DT_NEW_ARRAY(m.arena, Numbers, n_actions + 1);
    m.done = DT_NEW_ARRAY(m.arena, int64_t, n_actions + 1);
    m.lists = DT_NEW_ARRAY(m.arena, Numbers, n + 1);
    for (uint32_t s = 0; s < n; s++)
        stages[s] = order_stage(&m, s);
    run->direct = drains(&m);
    if (run->direct)
        run->stages = stages;
    dt_arena_free(m.arena);
}

void dt_order_messages(DtModule *module)
{
    for (uint32_t i = 0; module->pipeline && i < module->pipeline->runs.n; i++)
        if (module->pipeline->runs.at[i].channels.n && module->pipeline->runs.at[i].kind != DT_ENTRY_PREDICT)
            order_run(module, &module->pipeline->runs.at[i]);
}
