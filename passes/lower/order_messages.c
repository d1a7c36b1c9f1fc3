/* SPDX-License-Identifier: Apache-2.0 */
/* Overlaps messages between stages of a pipeline with computation. A message is in flight from the
 * time when the sender has it and its target slot is free, until it is read, and until its source
 * slot is written again.
 *
 *   before   0F1 0SEND_F1 0RECV_B0 0B0 0F2 ..
 *   after    0F1 0START_SEND_F1 0DONE_RECV_B0 0B0 0START_RECV_B1 0DONE_SEND_F1 0F2 ..
 *
 * The number of slots does not change, so this takes no memory. One message at a time is in flight
 * at either end of a channel. A message that would overlap with nothing is sent or received in
 * order.
 *
 * All stages are simulated together, with usual times for F, B and W and a short one for
 * messages. Both ends start a message at the moment when it can go, so all stages start messages
 * in one order. So devices need no room for messages in transit, and may do one thing at a time:
 * if each stage works in the order of its list, no message waits for a later one elsewhere. (A
 * receive that started as soon as its slot is free would wait for sends that the sender has not
 * reached.) This is checked once more; if the stages of a run would deadlock, none of its
 * messages is started. In "predict" one micro-batch alone goes through the pieces, so nothing
 * overlaps. */
#include "passes/lower/order.h"

#include "passes/pipeline/schedule.h"

#include <string.h>

typedef DT_VEC(uint32_t) Numbers;

enum { WORK = 16, TRANSIT = 1 }; /* simulated time that an F lasts, and that a message takes */

/* One end of a channel, on the stage that sends its messages or on the one that receives them. */
typedef struct End {
    uint32_t channel;
    bool sends;
    int64_t depth;    /* slots of its stores on this stage */
    /* actions (numbered piece x 3 + kind) that write the sent value, or read the received one */
    Numbers users;
    Numbers through;  /* for a value that the stage receives and sends on: the ends on its other
                       * side that use the same store */
    int64_t made;     /* messages that the stage has computed and can send */
    int64_t next;     /* micro-batch of the message that is in flight or comes next */
    bool open;        /* a message is in flight, from time and position: */
    int64_t arrives;  /* when the message arrives */
    uint32_t at;      /* where its start is in the list */
} End;

/* What a pipeline stage has done, and its new list of actions, while the simulation runs its
 * actions. */
typedef struct Line {
    const DtStageActions *from;
    uint32_t part, at;      /* position: in the prologue, period or epilogue of `from`, and in that
                             * list */
    int64_t turn;           /* repetition of the period */
    DT_VEC(End) ends;
    int32_t *end_of[2];     /* by channel: number in `ends` of its receiving and sending end here;
                             * -1: it is on another stage */
    Numbers *used_by;       /* by action: the ends of channels whose slots it uses */
    int64_t *done;          /* by action: number of micro-batches done */
    DtActions list;         /* the new list of actions, so far */
    DtAction now;           /* the action in progress; DT_ACTION_KINDS: a message in flight to this
                             * stage */
} Line;

typedef struct Messages {
    DtArena *arena;
    const DtModule *module;
    const DtPipelineSchedule *pipeline;
    const DtPipelineRun *run;
    Line *lines;        /* by stage */
    int64_t *until;     /* by stage: end of the action in progress; INT64_MAX: it has none */
    uint8_t *may_go_on; /* by stage: 1 if something that it may wait for has happened */
    uint8_t *may_start; /* by channel: 1 if something that its next message may wait for has
                         * happened */
    DT_VEC(End *) sent; /* ends whose messages are in flight */
    int64_t time;
} Messages;

/* ---- users of channels ---- */

static uint32_t number_of(const Messages *m, const Line *line)
{
    return (uint32_t)(line - m->lines);
}

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

/* Fills End.through: for each end, the ends of other channels on this stage that send on what it
 * receives, or receive what it sends. */
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
        for (uint32_t kind = DT_ACTION_F; m->pipeline->stage_of[g] == stage && kind <= DT_ACTION_W;
             kind++)
            find_users(m, line, g, kind);
    find_through(m, line);
}

/* Returns the most actions that the new list may have: a message may take two, a start and an
 * end. */
static uint32_t most_actions(const DtStageActions *from)
{
    const DtActions *lists[] = {&from->prologue, &from->period, &from->epilogue};
    uint32_t most = 0;
    for (int p = 0; p < 3; p++)
        for (uint32_t i = 0; i < lists[p]->n; i++)
            most +=
                (lists[p]->at[i].kind > DT_ACTION_W ? 2 : 1) * (p == 1 ? (uint32_t)from->count : 1);
    return most;
}

static void begin_line(Messages *m, uint32_t stage)
{
    const uint32_t n_actions = m->pipeline->n_pieces * 3;
    Line *line = &m->lines[stage];
    line->from = &m->run->stages[stage];
    line->list.cap = most_actions(line->from);
    line->list.at = DT_NEW_ARRAY(m->arena, DtAction, line->list.cap + 1);
    m->until[stage] = INT64_MAX;
    m->may_go_on[stage] = 1;
    for (int k = 0; k < 2; k++)
        line->end_of[k] = DT_NEW_ARRAY(m->arena, int32_t, m->run->channels.n + 1);
    line->used_by = DT_NEW_ARRAY(m->arena, Numbers, n_actions + 1);
    line->done = DT_NEW_ARRAY(m->arena, int64_t, n_actions + 1);
    find_ends(m, line);
}

/* ---- conditions to continue ---- */

static Line *line_of(Messages *m, const End *end)
{
    const DtChannel *channel = &m->run->channels.at[end->channel];
    return &m->lines[end->sends ? channel->from : channel->to];
}

/* Wakes the stage and the channels that may wait for this end's message, after it has ended or
 * arrived. */
static void wake(Messages *m, const End *end)
{
    m->may_start[end->channel] = 1;
    for (uint32_t i = 0; i < end->through.n; i++)
        m->may_start[line_of(m, end)->ends.at[end->through.at[i]].channel] = 1;
}

/* Returns the first marked index of woken from `at` on, and removes the mark; n if there is
 * none. */
static uint32_t next_woken(uint8_t *woken, uint32_t at, uint32_t n)
{
    uint8_t *next = at < n ? memchr(woken + at, 1, n - at) : NULL;
    if (!next)
        return n;
    *next = 0;
    return (uint32_t)(next - woken);
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
    DT_PUSH(m->arena, m->sent, end);
    m->may_go_on[number_of(m, line)] = 1;
}

/* Appends the end of the message that this end of a channel has started. If nothing was appended
 * after the start, the start becomes an action for the whole message instead. */
static void close_end(Messages *m, Line *line, End *end)
{
    if (end->at + 1 < line->list.n)
        push(m, line, end->sends ? DT_ACTION_DONE_SEND : DT_ACTION_DONE_RECV, end);
    else
        line->list.at[end->at].kind = end->sends ? DT_ACTION_SEND : DT_ACTION_RECV;
    end->open = false;
    end->next++;
    wake(m, end);
}

static bool has_arrived(const Messages *m, const End *end)
{
    return end->open && end->arrives <= m->time;
}

/* Whether the slot for the next message of this end is free. Ends of other channels that pass the
 * same slot on must have received their message. */
static bool is_free(const Messages *m, const Line *line, const End *end)
{
    const int64_t least = end->next - end->depth + 1; /* the message before the last `depth` has
                                                       * left its slot */
    bool is = !end->open;
    for (uint32_t i = 0; is && i < end->users.n; i++)
        is = line->done[end->users.at[i]] >= least;
    for (uint32_t i = 0; is && i < end->through.n; i++) {
        const End *other = &line->ends.at[end->through.at[i]];
        is = other->next + has_arrived(m, other) >= least;
    }
    return is;
}

/* Starts the channel's next message at both ends, if it is computed, the message before it has
 * arrived, and the receiver's slot is free. Returns whether it did. */
static bool start(Messages *m, uint32_t channel)
{
    Line *from = &m->lines[m->run->channels.at[channel].from],
         *to = &m->lines[m->run->channels.at[channel].to];
    End *out = &from->ends.at[from->end_of[1][channel]], *in = &to->ends.at[to->end_of[0][channel]];
    if (out->made <= out->next + out->open || (out->open && !has_arrived(m, out)) ||
        !is_free(m, to, in))
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

/* Moves to the stage's next action and returns it in ret_action; false if there is none. */
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

static void occupy(Messages *m, Line *line, DtAction with, int64_t until)
{
    line->now = with;
    m->until[number_of(m, line)] = until;
}

/* Whether this end's message of micro-batch `least` is over; if it has arrived, appends its end. If
 * not, the stage waits for its arrival, and the result is false. */
static bool is_over(Messages *m, Line *line, End *end, int64_t least)
{
    if (end->next > least)
        return true;
    if (end->open && !has_arrived(m, end))
        occupy(m, line, (DtAction){.kind = DT_ACTION_KINDS}, end->arrives);
    if (!has_arrived(m, end))
        return false;
    close_end(m, line, end);
    return end->next > least;
}

static int64_t length_of(const Messages *m, const DtAction *action)
{
    const DtPieceEntries *entries = &m->run->pieces[action->unit];
    const bool is_whole =
        action->kind == DT_ACTION_B && dt_pipeline_entry(entries, DT_ACTION_W) < 0;
    return is_whole ? 2 * WORK : WORK;
}

/* Begins an F, B or W of the stage if messages from the slots that it overwrites are over;
 * otherwise returns false. */
static bool compute(Messages *m, Line *line, const DtAction *action)
{
    const Numbers *ends = &line->used_by[action->unit * 3 + action->kind];
    for (uint32_t i = 0; i < ends->n; i++) {
        End *end = &line->ends.at[ends->at[i]];
        if (end->sends && !is_over(m, line, end, action->micro - end->depth))
            return false;
    }
    occupy(m, line, *action, m->time + length_of(m, action));
    return true;
}

/* Runs the stage's actions, up to one that takes time or must wait. */
static void go_on(Messages *m, Line *line)
{
    const int64_t *until = &m->until[number_of(m, line)];
    DtAction action;
    while (*until == INT64_MAX && look(line, &action)) {
        bool passed = true;
        if (action.kind == DT_ACTION_SEND) {
            line->ends.at[line->end_of[1][action.unit]].made++;
            m->may_start[action.unit] = 1;
        } else if (action.kind == DT_ACTION_RECV) {
            passed = is_over(m, line, &line->ends.at[line->end_of[0][action.unit]], action.micro);
        } else {
            passed = compute(m, line, &action);
        }
        if (!passed)
            return;
        line->at++;
    }
}

static void finish(Messages *m, Line *line)
{
    const uint32_t action = line->now.unit * 3 + line->now.kind;
    m->until[number_of(m, line)] = INT64_MAX;
    m->may_go_on[number_of(m, line)] = 1;
    if (line->now.kind == DT_ACTION_KINDS)
        return;
    DT_PUSH(m->arena, line->list, line->now);
    line->done[action]++;
    for (uint32_t i = 0; i < line->used_by[action].n; i++)
        m->may_start[line->ends.at[line->used_by[action].at[i]].channel] = 1;
}

/* Advances time to the next end of an action or arrival of a message; false: nothing is in
 * progress. */
static bool pass_time(Messages *m)
{
    const uint32_t n = m->pipeline->n_stages;
    int64_t next = INT64_MAX;
    for (uint32_t s = 0; s < n; s++)
        next = m->until[s] < next ? m->until[s] : next;
    if (next == INT64_MAX)
        return false;
    m->time = next;
    while (m->sent.n)
        wake(m, m->sent.at[--m->sent.n]);
    for (uint32_t s = 0; s < n; s++)
        if (m->until[s] == next)
            finish(m, &m->lines[s]);
    return true;
}

/* Runs the actions of all stages together in simulated time, and appends starts and ends of
 * messages to their new lists. False if some stage cannot finish. */
static bool run_stages(Messages *m)
{
    const uint32_t n_stages = m->pipeline->n_stages, n_channels = m->run->channels.n;
    bool done = true;
    do {
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t s = 0; (s = next_woken(m->may_go_on, s, n_stages)) < n_stages;
                 s++, moved = true)
                go_on(m, &m->lines[s]);
            for (uint32_t c = 0; (c = next_woken(m->may_start, c, n_channels)) < n_channels; c++)
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
    DtActions copy = {.at = DT_NEW_ARRAY(arena, DtAction, list->n + 1), .n = list->n,
                      .cap = list->n + 1};
    if (list->n)
        memcpy(copy.at, list->at, list->n * sizeof *list->at);
    return copy;
}

static DtStageActions list_of(DtArena *arena, const Line *line)
{
    DtStageActions list;
    dt_schedule_compress(&line->list, &list);
    list.prologue = kept(arena, &list.prologue);
    list.period = kept(arena, &list.period);
    list.epilogue = kept(arena, &list.epilogue);
    return list;
}

/* ---- one thing at a time ---- */

/* How many messages a channel's ends have begun: n[1] sent, n[0] received. */
typedef struct Begun {
    uint32_t n[2];
} Begun;

typedef struct Drain {
    const Messages *m;
    Begun *channels;
    uint32_t *at; /* by stage: its position in the list */
    bool *begun;  /* by stage: it has begun the message at its position */
    Numbers ready; /* stages that may be able to go on */
} Drain;

/* Goes on in the stage's list up to a message that the other stage has not begun yet. Adds to
 * d->ready the stages that may go on, since this one has begun a message with them. */
static void advance(Drain *d, uint32_t stage)
{
    const DtActions *list = &d->m->lines[stage].list;
    for (uint32_t *at = &d->at[stage]; *at < list->n; ++*at) {
        const uint32_t kind = list->at[*at].kind, number = list->at[*at].unit;
        const bool sends = dt_pipeline_is_send(kind);
        if (kind <= DT_ACTION_W || kind >= DT_ACTION_DONE_SEND)
            continue;
        uint32_t *n = d->channels[number].n;
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

/* Whether all stages finish if each does one thing at a time, and a message is transferred only
 * when both of its ends have reached its start. */
static bool drains(const Messages *m)
{
    const uint32_t n = m->pipeline->n_stages;
    Drain d = {.m = m, .at = DT_NEW_ARRAY(m->arena, uint32_t, n),
               .begun = DT_NEW_ARRAY(m->arena, bool, n),
               .channels = DT_NEW_ARRAY(m->arena, Begun, m->run->channels.n + 1)};
    bool done = true;
    for (uint32_t s = 0; s < n; s++) {
        advance(&d, s);
        while (d.ready.n)
            advance(&d, d.ready.at[--d.ready.n]);
    }
    for (uint32_t s = 0; s < n; s++)
        done = done && d.at[s] == m->lines[s].list.n;
    return done;
}

/* ---- runs ---- */

static void order_run(const DtModule *module, DtPipelineRun *run)
{
    const uint32_t n = module->pipeline->n_stages;
    DtStageActions *stages = DT_NEW_ARRAY(module->arena, DtStageActions, n);
    Messages m = {.arena = dt_arena_child(module->arena), .module = module,
                  .pipeline = module->pipeline, .run = run};
    m.lines = DT_NEW_ARRAY(m.arena, Line, n);
    m.until = DT_NEW_ARRAY(m.arena, int64_t, n);
    m.may_go_on = DT_NEW_ARRAY(m.arena, uint8_t, n);
    m.may_start = DT_NEW_ARRAY(m.arena, uint8_t, run->channels.n);
    for (uint32_t s = 0; s < n; s++)
        begin_line(&m, s);
    run->direct = run_stages(&m);
    for (uint32_t s = 0; run->direct && s < n; s++)
        stages[s] = list_of(module->arena, &m.lines[s]);
    run->direct = run->direct && drains(&m);
    if (run->direct)
        run->stages = stages;
    dt_arena_free(m.arena);
}

void dt_order_messages(DtModule *module)
{
    for (uint32_t i = 0; module->pipeline && i < module->pipeline->runs.n; i++)
        if (module->pipeline->runs.at[i].channels.n &&
            module->pipeline->runs.at[i].kind != DT_ENTRY_PREDICT)
            order_run(module, &module->pipeline->runs.at[i]);
}
