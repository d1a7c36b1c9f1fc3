/* SPDX-License-Identifier: Apache-2.0 */
/* What stages of a pipeline send each other goes on beside other work: a message is on its way from when the sender
 * has it and the slot that it goes to is free, to when it is read, and when the slot that it leaves is written again.
 *
 *   before   0F1 0SEND_F1 0RECV_B0 0B0 0F2 ..
 *   after    0F1 0START_SEND_F1 0DONE_RECV_B0 0B0 0START_RECV_B1 0DONE_SEND_F1 0F2 ..
 *
 * Slots are as many as before, so this takes no memory. One message at a time is on its way at either end of a
 * channel; where nothing else is begun meanwhile, it is sent or received as before.
 *
 * All stages are run together, as if F, B and W took what they usually do and a message a little. Both ends start a
 * message at the moment when it can go, so all of them start messages in one order. Devices need no places in transit
 * then, and may do one thing at a time: where each stage does things in the order of its list, a message is never
 * behind one that comes after it elsewhere (a receive that was started as soon as its slot is free would be, behind
 * the sends that the sender still waits for). That it is so is looked at once more; of a run in which stages would
 * wait for ever no message is started. In "predict" one micro-batch alone goes through the pieces, beside nothing. */
#include "passes/lower/order.h"

#include "passes/pipeline/schedule.h"

#include <string.h>

typedef DT_VEC(uint32_t) Numbers;

enum { KIND_BITS = 4,  /* of a message's action in a list of numbers, below its channel */
       WORK = 16, TRANSIT = 1 }; /* how long an F lasts, and a message is on its way */
_Static_assert(DT_ACTION_KINDS < 1 << KIND_BITS, "kinds have room");

/* Of a channel, on a stage. */
typedef struct End {
    uint32_t channel;
    bool sends;
    int64_t depth;    /* slots of its stores there */
    Numbers users;    /* actions (piece x 3 + kind) that write what is sent, read what is received */
    Numbers through;  /* ends at the other side of the stage that have a store in common */
    int64_t made;     /* messages that there are to send */
    int64_t next;     /* micro-batch of the message that is, or will be, started */
    bool open;        /* it is: */
    int64_t arrives;  /* when it is there */
    uint32_t at;      /* where in the list */
} End;

/* A stage on its way through its actions. */
typedef struct Line {
    const DtStageActions *from;
    uint32_t part, at;      /* in `from`: prologue, period, epilogue; in that */
    int64_t turn;           /* of the period */
    DT_VEC(End) ends;
    int32_t *end_of[2];     /* by channel: its receiving, its sending end here; -1: it is elsewhere */
    Numbers *used_by;       /* by action: ends of which it is a user */
    int64_t *done;          /* by action: micro-batches */
    DtActions list;         /* as it becomes */
    Numbers steps;          /* what of the list is of channels */
    bool busy;              /* until then, with: */
    int64_t until;
    DtAction now;           /* DT_ACTION_KINDS: a message that is on its way here */
} Line;

typedef struct Messages {
    DtArena *arena;
    const DtModule *module;
    const DtPipelineSchedule *pipeline;
    const DtPipelineRun *run;
    Line *lines; /* by stage */
    int64_t time;
} Messages;

/* ---- who uses what ---- */

static uint32_t number_of(const Messages *m, const Line *line) { return (uint32_t)(line - m->lines); }

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

static void add_end(Messages *m, Line *line, uint32_t channel, bool sends)
{
    End end = {.channel = channel, .sends = sends, .depth = INT64_MAX};
    for (uint32_t i = 0; i < m->run->channels.at[channel].stores.n; i++) {
        const int64_t depth = dt_pipeline_depth(store_of(m, &end, i), number_of(m, line));
        end.depth = depth < end.depth ? depth : end.depth;
    }
    line->end_of[sends][channel] = (int32_t)line->ends.n;
    DT_PUSH(m->arena, line->ends, end);
}

static void add_user(Messages *m, Line *line, uint32_t action, const DtStore *store, bool writes)
{
    for (uint32_t i = 0; store && i < line->ends.n; i++) {
        End *end = &line->ends.at[i];
        const bool known = end->users.n && end->users.at[end->users.n - 1] == action;
        if (end->sends != writes || known || !has_store(m, end, store))
            continue;
        DT_PUSH(m->arena, end->users, action);
        DT_PUSH(m->arena, line->used_by[action], i);
    }
}

static bool is_slot(const DtStore *store)
{
    return store && (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL);
}

static void find_users(Messages *m, Line *line, uint32_t piece, uint32_t kind)
{
    const int32_t number = dt_pipeline_entry(&m->run->pieces[piece], kind);
    if (number < 0)
        return;
    const DtEntryPoint *entry = &m->module->entries.at[number];
    for (uint32_t i = 0; i < entry->func->ops.n; i++)
        if (is_slot(entry->func->ops.at[i]->store))
            add_user(m, line, piece * 3 + kind, entry->func->ops.at[i]->store, false);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (is_slot(entry->results.at[i].store))
            add_user(m, line, piece * 3 + kind, entry->results.at[i].store, true);
}

/* What is received and sent on. */
static void find_through(Messages *m, Line *line)
{
    for (uint32_t i = 0; i < line->ends.n; i++)
        for (uint32_t k = 0; k < line->ends.n; k++) {
            const End *to = &line->ends.at[k];
            bool shares = false;
            const uint32_t n = m->run->channels.at[to->channel].stores.n;
            for (uint32_t s = 0; line->ends.at[i].sends != to->sends && s < n; s++)
                shares = shares || has_store(m, &line->ends.at[i], store_of(m, to, s));
            if (shares)
                DT_PUSH(m->arena, line->ends.at[i].through, k);
        }
}

static void find_ends(Messages *m, Line *line)
{
    const uint32_t stage = number_of(m, line);
    for (uint32_t i = 0; i < m->run->channels.n; i++) {
        line->end_of[0][i] = line->end_of[1][i] = -1;
        if (m->run->channels.at[i].to == stage)
            add_end(m, line, i, false);
        if (m->run->channels.at[i].from == stage)
            add_end(m, line, i, true);
    }
    for (uint32_t g = 0; line->ends.n && g < m->pipeline->n_pieces; g++)
        for (uint32_t kind = DT_ACTION_F; m->pipeline->stage_of[g] == stage && kind <= DT_ACTION_W; kind++)
            find_users(m, line, g, kind);
    find_through(m, line);
}

static void begin_line(Messages *m, uint32_t stage)
{
    const uint32_t n_actions = m->pipeline->n_pieces * 3;
    Line *line = &m->lines[stage];
    line->from = &m->run->stages[stage];
    for (int k = 0; k < 2; k++)
        line->end_of[k] = DT_NEW_ARRAY(m->arena, int32_t, m->run->channels.n + 1);
    line->used_by = DT_NEW_ARRAY(m->arena, Numbers, n_actions + 1);
    line->done = DT_NEW_ARRAY(m->arena, int64_t, n_actions + 1);
    find_ends(m, line);
}

/* ---- messages ---- */

static void push(Messages *m, Line *line, uint32_t kind, const End *end)
{
    const DtAction action = {.kind = kind, .unit = end->channel, .micro = end->next};
    DT_PUSH(m->arena, line->list, action);
}

static void open_end(Messages *m, Line *line, End *end)
{
    end->open = true;
    end->arrives = m->time + TRANSIT;
    end->at = line->list.n;
    push(m, line, end->sends ? DT_ACTION_START_SEND : DT_ACTION_START_RECV, end);
}

/* The message that is started at this end is done here. */
static void close_end(Messages *m, Line *line, End *end)
{
    if (end->at + 1 < line->list.n)
        push(m, line, end->sends ? DT_ACTION_DONE_SEND : DT_ACTION_DONE_RECV, end);
    else
        line->list.at[end->at].kind = end->sends ? DT_ACTION_SEND : DT_ACTION_RECV;
    end->open = false;
    end->next++;
}

static bool has_arrived(const Messages *m, const End *end) { return end->open && end->arrives <= m->time; }

/* Whether the slot of the next message to come is free, but for what has arrived elsewhere. */
static bool is_free(const Messages *m, const Line *line, const End *end)
{
    const int64_t least = end->next - end->depth + 1; /* so many micro-batches have left the slot behind */
    bool is = !end->open;
    for (uint32_t i = 0; is && i < end->users.n; i++)
        is = line->done[end->users.at[i]] >= least;
    for (uint32_t i = 0; is && i < end->through.n; i++) {
        const End *other = &line->ends.at[end->through.at[i]];
        is = other->next + has_arrived(m, other) >= least;
    }
    return is;
}

/* Starts the channel's next message at both ends, if it can go. */
static bool start(Messages *m, uint32_t channel)
{
    Line *from = &m->lines[m->run->channels.at[channel].from], *to = &m->lines[m->run->channels.at[channel].to];
    End *out = &from->ends.at[from->end_of[1][channel]], *in = &to->ends.at[to->end_of[0][channel]];
    if (out->made <= out->next + out->open || (out->open && !has_arrived(m, out)) || !is_free(m, to, in))
        return false;
    if (out->open)
        close_end(m, from, out);
    for (uint32_t i = 0; i < in->through.n; i++) {
        End *other = &to->ends.at[in->through.at[i]];
        if (has_arrived(m, other) && other->next <= in->next - in->depth)
            close_end(m, to, other);
    }
    open_end(m, from, out);
    open_end(m, to, in);
    return true;
}

/* ---- actions ---- */

/* The next one of the stage. False: there is none. */
static bool look(Line *line, DtAction *ret_action)
{
    for (; line->part < 3; line->part++, line->at = 0) {
        const DtActions *list = line->part == 0   ? &line->from->prologue
                                : line->part == 1 ? &line->from->period
                                                  : &line->from->epilogue;
        if (line->part == 1 && line->at == list->n) {
            line->turn++;
            line->at = 0;
        }
        if (line->at == list->n || (line->part == 1 && line->turn >= line->from->count))
            continue;
        *ret_action = list->at[line->at];
        if (line->part == 1)
            ret_action->micro += line->turn * line->from->step;
        return true;
    }
    return false;
}

static void occupy(Line *line, DtAction with, int64_t until)
{
    line->busy = true;
    line->now = with;
    line->until = until;
}

/* The message has gone by micro-batch `least`; false: not yet. */
static bool is_over(Messages *m, Line *line, End *end, int64_t least)
{
    if (end->next > least)
        return true;
    if (end->open && !has_arrived(m, end))
        occupy(line, (DtAction){.kind = DT_ACTION_KINDS}, end->arrives);
    if (!has_arrived(m, end))
        return false;
    close_end(m, line, end);
    return end->next > least;
}

static int64_t length_of(const Messages *m, const DtAction *action)
{
    const DtPieceEntries *entries = &m->run->pieces[action->unit];
    const bool is_whole = action->kind == DT_ACTION_B && dt_pipeline_entry(entries, DT_ACTION_W) < 0;
    return is_whole ? 2 * WORK : WORK;
}

/* Begins to compute, once the slots that this writes have been sent. */
static bool compute(Messages *m, Line *line, const DtAction *action)
{
    const Numbers *ends = &line->used_by[action->unit * 3 + action->kind];
    for (uint32_t i = 0; i < ends->n; i++) {
        End *end = &line->ends.at[ends->at[i]];
        if (end->sends && !is_over(m, line, end, action->micro - end->depth))
            return false;
    }
    occupy(line, *action, m->time + length_of(m, action));
    return true;
}

/* As far as the stage comes now. */
static bool go_on(Messages *m, Line *line)
{
    DtAction action;
    bool moved = false;
    while (!line->busy && look(line, &action)) {
        bool passed = true;
        if (action.kind == DT_ACTION_SEND)
            line->ends.at[line->end_of[1][action.unit]].made++;
        else if (action.kind == DT_ACTION_RECV)
            passed = is_over(m, line, &line->ends.at[line->end_of[0][action.unit]], action.micro);
        else
            passed = compute(m, line, &action);
        if (!passed)
            return moved;
        line->at++;
        moved = true;
    }
    return moved;
}

static void finish(Messages *m, Line *line)
{
    line->busy = false;
    if (line->now.kind == DT_ACTION_KINDS)
        return;
    DT_PUSH(m->arena, line->list, line->now);
    line->done[line->now.unit * 3 + line->now.kind]++;
}

/* Until the next stage has finished something; false: none is at work. */
static bool pass_time(Messages *m)
{
    int64_t next = INT64_MAX;
    for (uint32_t s = 0; s < m->pipeline->n_stages; s++)
        if (m->lines[s].busy && m->lines[s].until < next)
            next = m->lines[s].until;
    m->time = next;
    for (uint32_t s = 0; s < m->pipeline->n_stages; s++)
        if (m->lines[s].busy && m->lines[s].until == next)
            finish(m, &m->lines[s]);
    return next < INT64_MAX;
}

/* Runs all stages together. False: not all come to their ends. */
static bool run_stages(Messages *m)
{
    bool done = true;
    do {
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t s = 0; s < m->pipeline->n_stages; s++)
                moved = go_on(m, &m->lines[s]) || moved;
            for (uint32_t c = 0; c < m->run->channels.n; c++)
                moved = start(m, c) || moved;
        }
    } while (pass_time(m));
    for (uint32_t s = 0; s < m->pipeline->n_stages; s++) {
        Line *line = &m->lines[s];
        DtAction action;
        done = done && !look(line, &action);
        for (uint32_t i = 0; i < line->ends.n; i++)
            if (line->ends.at[i].open)
                close_end(m, line, &line->ends.at[i]);
    }
    return done;
}

static DtActions kept(DtArena *arena, const DtActions *list)
{
    DtActions copy = {.at = DT_NEW_ARRAY(arena, DtAction, list->n + 1), .n = list->n, .cap = list->n + 1};
    if (list->n)
        memcpy(copy.at, list->at, list->n * sizeof *list->at);
    return copy;
}

static DtStageActions list_of(Messages *m, Line *line)
{
    DtArena *arena = m->module->arena;
    DtStageActions list;
    for (uint32_t i = 0; i < line->list.n; i++)
        if (line->list.at[i].kind > DT_ACTION_W)
            DT_PUSH(m->arena, line->steps, line->list.at[i].unit << KIND_BITS | line->list.at[i].kind);
    dt_schedule_compress(&line->list, &list);
    list.prologue = kept(arena, &list.prologue);
    list.period = kept(arena, &list.period);
    list.epilogue = kept(arena, &list.epilogue);
    return list;
}

/* ---- one thing at a time ---- */

/* A channel: how many messages its ends have begun, by whether they send. */
typedef struct Begun {
    uint32_t n[2];
} Begun;

typedef struct Drain {
    const Messages *m;
    Begun *channels;
    uint32_t *at; /* by stage: how far it has come in its steps */
    bool *begun;  /* by stage: the message there has */
    Numbers ready; /* stages that may go on */
} Drain;

/* Takes the stage as far as it comes; who waited for what it begins may go on. */
static void advance(Drain *d, uint32_t stage)
{
    const Numbers *steps = &d->m->lines[stage].steps;
    for (uint32_t *at = &d->at[stage]; *at < steps->n; ++*at) {
        const uint32_t kind = steps->at[*at] & ((1u << KIND_BITS) - 1), number = steps->at[*at] >> KIND_BITS;
        const bool sends = dt_pipeline_is_send(kind);
        uint32_t *n = d->channels[number].n;
        if (kind >= DT_ACTION_DONE_SEND)
            continue;
        if (!d->begun[stage]) {
            const DtChannel *channel = &d->m->run->channels.at[number];
            n[sends]++;
            DT_PUSH(d->m->arena, d->ready, sends ? channel->to : channel->from);
        }
        d->begun[stage] = n[!sends] < n[sends];
        if (d->begun[stage])
            return;
    }
}

/* Whether all stages come to their ends if each does one thing at a time, and a message goes when both of its ends have
 * come to where they start it. */
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
        done = done && d.at[s] == m->lines[s].steps.n;
    return done;
}

/* ---- runs ---- */

static void order_run(const DtModule *module, DtPipelineRun *run)
{
    const uint32_t n = module->pipeline->n_stages;
    DtStageActions *stages = DT_NEW_ARRAY(module->arena, DtStageActions, n);
    Messages m = {.arena = dt_arena_child(module->arena), .module = module, .pipeline = module->pipeline, .run = run};
    m.lines = DT_NEW_ARRAY(m.arena, Line, n);
    for (uint32_t s = 0; s < n; s++)
        begin_line(&m, s);
    run->direct = run_stages(&m);
    for (uint32_t s = 0; run->direct && s < n; s++)
        stages[s] = list_of(&m, &m.lines[s]);
    run->direct = run->direct && drains(&m);
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
