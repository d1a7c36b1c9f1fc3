/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules at work: whether they drain, how long they take, what they hold. Both
 * simulators here run every stage's total order as its ranks do. The first only counts messages,
 * and runs on every compilation; the second keeps times. A stage stops at an action that must wait
 * and is tried again later. Waiting takes nothing away from other stages, so the result does not
 * depend on the order in which stages are tried. */
#include "passes/pipeline/schedule.h"

/* ---- walking along a stage's actions ---- */

typedef struct Walk {
    const DtStageActions *actions;
    uint32_t part, i; /* number of the list (prologue, period, epilogue); index in it */
    int64_t turn;     /* repetition of the period */
} Walk;

static const DtActions *part_of(const Walk *walk)
{
    const DtStageActions *a = walk->actions;
    return walk->part == 0 ? &a->prologue : walk->part == 1 ? &a->period : &a->epilogue;
}

/* Moves the walk to its next action, through the repetitions of the period and to the next list if
 * need be; false after the last action. */
static bool settle(Walk *walk)
{
    while (walk->part < 3) {
        if (walk->part == 1 && walk->i == walk->actions->period.n && walk->i > 0 &&
            ++walk->turn < walk->actions->count)
            walk->i = 0;
        if (walk->i < part_of(walk)->n && (walk->part != 1 || walk->turn < walk->actions->count))
            return true;
        walk->part++;
        walk->i = 0;
    }
    return false;
}

static DtAction action_at(const Walk *walk)
{
    DtAction action = part_of(walk)->at[walk->i];
    action.micro += walk->part == 1 ? walk->turn * walk->actions->step : 0;
    return action;
}

/* ---- draining ---- */

typedef struct Drain {
    const DtPipelineSchedule *pipeline;
    const DtPipelineRun *run;
    int64_t *done[3];          /* by kind (F, B, W) and piece: micro-batches done */
    int64_t *sent, *received;  /* per channel */
    const DtChannel **into[2]; /* by piece: the channel from which its F, its B receives, or NULL */
    int64_t *arrived[2];       /* by piece: the `received` of that channel */
} Drain;

static bool has(const Drain *d, uint32_t piece, uint32_t kind)
{
    return dt_pipeline_entry(&d->run->pieces[piece], kind) >= 0;
}

static bool is_done(const Drain *d, uint32_t kind, uint32_t piece, int64_t micro)
{
    return !has(d, piece, kind) || d->done[kind][piece] > micro;
}

/* Whether the result of the neighbouring piece's F or B for the micro-batch is on this stage: that
 * action has run if it is on the same stage, else its message was received. */
static bool has_come(const Drain *d, uint32_t kind, uint32_t piece, uint32_t neighbour,
                     int64_t micro)
{
    if (d->into[kind][piece])
        return d->arrived[kind][piece] > micro;
    return d->pipeline->stage_of[piece] != d->pipeline->stage_of[neighbour] ||
           is_done(d, kind, neighbour, micro);
}

static const char *why_not(const Drain *d, const DtAction *a)
{
    const uint32_t last = d->pipeline->n_pieces - 1;
    const DtChannel *channel;
    switch (a->kind) {
    case DT_ACTION_F:
        return a->unit == 0 || has_come(d, DT_ACTION_F, a->unit, a->unit - 1, a->micro)
                   ? NULL
                   : "runs before its input is there";
    case DT_ACTION_B:
        if (!is_done(d, DT_ACTION_F, a->unit, a->micro))
            return "runs before its forward";
        return a->unit == last || has_come(d, DT_ACTION_B, a->unit, a->unit + 1, a->micro)
                   ? NULL
                   : "runs before its cotangents are there";
    case DT_ACTION_W:
        return is_done(d, DT_ACTION_B, a->unit, a->micro) ? NULL : "runs before its B";
    case DT_ACTION_SEND:
    case DT_ACTION_START_SEND:
        channel = &d->run->channels.at[a->unit];
        return is_done(d, channel->from_piece < channel->to_piece ? DT_ACTION_F : DT_ACTION_B,
                       channel->from_piece, a->micro)
                   ? NULL
                   : "sends what is not made yet";
    default: return NULL;
    }
}

static bool must_wait(const Drain *d, const DtAction *a)
{
    if (dt_pipeline_gives(a->kind))
        return d->sent[a->unit] - d->received[a->unit] >= d->run->channels.at[a->unit].slots;
    return dt_pipeline_takes(a->kind) && d->received[a->unit] >= d->sent[a->unit];
}

static void perform(Drain *d, const DtAction *a)
{
    if (dt_pipeline_gives(a->kind)) {
        d->sent[a->unit]++;
    } else if (dt_pipeline_takes(a->kind)) {
        const DtChannel *channel = &d->run->channels.at[a->unit];
        d->received[a->unit]++;
        d->arrived[channel->from_piece < channel->to_piece ? 0 : 1][channel->to_piece]++;
    } else if (a->kind <= DT_ACTION_W) {
        d->done[a->kind][a->unit]++;
    }
}

static Drain drain_of(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run)
{
    Drain d = {.pipeline = pipeline, .run = run};
    for (int k = 0; k < 3; k++)
        d.done[k] = DT_NEW_ARRAY(arena, int64_t, pipeline->n_pieces);
    d.sent = DT_NEW_ARRAY(arena, int64_t, run->channels.n + 1);
    d.received = DT_NEW_ARRAY(arena, int64_t, run->channels.n + 1);
    for (int k = 0; k < 2; k++) {
        d.into[k] = DT_NEW_ARRAY(arena, const DtChannel *, pipeline->n_pieces);
        d.arrived[k] = DT_NEW_ARRAY(arena, int64_t, pipeline->n_pieces);
    }
    for (uint32_t i = 0; i < run->channels.n; i++) {
        const DtChannel *channel = &run->channels.at[i];
        d.into[channel->from_piece < channel->to_piece ? 0 : 1][channel->to_piece] = channel;
    }
    return d;
}

static Walk *walks_of(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run)
{
    Walk *walks = DT_NEW_ARRAY(arena, Walk, pipeline->n_stages);
    for (uint32_t s = 0; s < pipeline->n_stages; s++)
        walks[s].actions = &run->stages[s];
    return walks;
}

/* Runs a stage until it must wait or is done, and returns the number of actions run; -1 if one ran
 * before its inputs were there (ret_problem). */
static int64_t advance(Drain *d, Walk *walk, uint32_t stage, DtText *ret_problem)
{
    int64_t n = 0;
    for (; settle(walk); walk->i++, n++) {
        const DtAction action = action_at(walk);
        const char *problem = why_not(d, &action);
        if (problem) {
            dt_text_printf(ret_problem, "stage %u: ", stage);
            dt_pipeline_print_action(d->run, &action, ret_problem);
            dt_text_printf(ret_problem, " %s\n", problem);
            return -1;
        }
        if (must_wait(d, &action))
            return n;
        perform(d, &action);
    }
    return n;
}

static bool say_who_waits(const Drain *d, Walk *walks, DtText *ret_problem)
{
    for (uint32_t s = 0; s < d->pipeline->n_stages; s++) {
        if (!settle(&walks[s]))
            continue;
        const DtAction action = action_at(&walks[s]);
        dt_text_printf(ret_problem, "stage %u waits for ever in ", s);
        dt_pipeline_print_action(d->run, &action, ret_problem);
        dt_text_add(ret_problem, "\n");
    }
    return false;
}

bool dt_schedule_check(const DtPipelineSchedule *pipeline, const DtPipelineRun *run,
                       DtText *ret_problem)
{
    DtArena *arena = dt_arena_new();
    Drain d = drain_of(arena, pipeline, run);
    Walk *walks = walks_of(arena, pipeline, run);
    bool ok = true, done = false, moved = true;
    while (ok && !done && moved) {
        moved = false;
        done = true;
        for (uint32_t s = 0; ok && s < pipeline->n_stages; s++) {
            const int64_t n = advance(&d, &walks[s], s, ret_problem);
            ok = n >= 0;
            moved = moved || n > 0;
            done = done && !settle(&walks[s]);
        }
    }
    if (ok && !done)
        ok = say_who_waits(&d, walks, ret_problem);
    dt_arena_free(arena);
    return ok;
}

/* ---- memory in use ---- */

/* A stretch of a stage's actions during which memory is in use: from an action that begins it to
 * one that ends it. */
typedef struct Span {
    const DtPipelineRun *run;
    bool (*begins)(const struct Span *span, const DtAction *action);
    bool (*ends)(const struct Span *span, const DtAction *action);
    DtAction write, read;
} Span;

/* Returns the largest number of these memories in use at once on the stage. Each repetition of the
 * period changes the number alike. */
static int64_t most_at_once(const Span *span, uint32_t stage)
{
    const DtStageActions *a = &span->run->stages[stage];
    const DtActions *parts[] = {&a->prologue, &a->period, &a->epilogue};
    int64_t live = 0, most = 0;
    for (size_t k = 0; k < DT_COUNT(parts); k++) {
        const int64_t before = live;
        int64_t top = live;
        for (uint32_t i = 0; i < parts[k]->n; i++) {
            live += span->begins(span, &parts[k]->at[i]);
            top = live > top ? live : top;
            live -= span->ends(span, &parts[k]->at[i]);
        }
        const int64_t later = k == 1 && a->count > 1 ? (live - before) * (a->count - 1) : 0;
        live += later;
        top += later > 0 ? later : 0;
        most = top > most ? top : most;
    }
    return most;
}

static bool is_write(const Span *span, const DtAction *action)
{
    return dt_pipeline_same(action, &span->write);
}

static bool is_read(const Span *span, const DtAction *action)
{
    return dt_pipeline_same(action, &span->read);
}

int64_t dt_schedule_depth(const DtPipelineRun *run, uint32_t stage, DtAction write, DtAction read)
{
    return most_at_once(&(Span){run, is_write, is_read, write, read}, stage);
}

static bool is_forward(const Span *span, const DtAction *action)
{
    (void)span;
    return action->kind == DT_ACTION_F;
}

static bool is_last_of_piece(const Span *span, const DtAction *action)
{
    if (action->kind > DT_ACTION_W)
        return false;
    const DtPieceEntries *entries = &span->run->pieces[action->unit];
    return action->kind == (entries->w >= 0   ? DT_ACTION_W
                            : entries->b >= 0 ? DT_ACTION_B
                                              : DT_ACTION_F);
}

int64_t dt_schedule_in_flight(const DtPipelineRun *run, uint32_t stage)
{
    return most_at_once(&(Span){.run = run, .begins = is_forward, .ends = is_last_of_piece}, stage);
}

/* ---- the time line ---- */

typedef struct Clock {
    DtArena *arena;
    const DtPipelineRun *run;
    const DtScheduleTimes *times;
    double **sent, **received; /* by channel and micro-batch: time at which the message was sent,
                                * received */
    int64_t *n_sent, *n_received;
    double *now;  /* by stage: its present time */
    double *made; /* by stage: end of its last F, B or W, whose result can be sent then */
    bool *started;
    DtTimeline *line;
} Clock;

static double time_of(const Clock *c, const DtAction *a)
{
    const double *times = a->kind == DT_ACTION_F   ? c->times->f
                          : a->kind == DT_ACTION_B ? c->times->b
                                                   : c->times->w;
    return times[a->unit];
}

static double later(double a, double b) { return a > b ? a : b; }

/* Returns the time at which the RECV can end; negative if its message is not sent yet. */
static double arrival(const Clock *c, const DtAction *a)
{
    return c->n_sent[a->unit] > a->micro ? c->sent[a->unit][a->micro] + c->times->transfer : -1;
}

/* Returns the time from which the channel has a free slot for a SEND; negative if that is not known
 * yet. */
static double free_place(const Clock *c, const DtAction *a)
{
    const int64_t first = a->micro - c->run->channels.at[a->unit].slots;
    if (first < 0)
        return 0;
    return c->n_received[a->unit] > first ? c->received[a->unit][first] : -1;
}

static void run_slice(Clock *c, uint32_t stage, const DtAction *a, double start, double end)
{
    DtTimeline *line = c->line;
    if (!c->started[stage])
        line->first[stage] = start;
    c->started[stage] = true;
    line->last[stage] = c->now[stage] = c->made[stage] = end;
    DT_PUSH(c->arena, line->slices, ((DtScheduleSlice){stage, *a, start, end}));
}

/* If the F at walk is followed by the backward of another piece: how many actions, including RECVs
 * and SENDs between, the pair consists of; else 0. ret_start: the time when the pair's inputs are
 * there; negative: not known yet. */
static uint32_t find_pair(const Clock *c, Walk walk, double *ret_start)
{
    const DtAction f = action_at(&walk);
    uint32_t n = 1, seen = 0;
    double start = 0;
    for (walk.i++; settle(&walk); walk.i++, n++) {
        const DtAction a = action_at(&walk);
        if (dt_pipeline_takes(a.kind)) {
            const double at = arrival(c, &a);
            start = at < 0 || start < 0 ? -1 : later(start, at);
        } else if (a.kind == DT_ACTION_B && seen == 0 && a.unit != f.unit) {
            *ret_start = start;
            seen = n + 1;
        } else if (a.kind == DT_ACTION_W && seen > 0) {
            return n + 1;
        } else if (a.kind <= DT_ACTION_W) {
            return seen;
        }
    }
    return seen;
}

/* Runs the actions of a pair, as one F and one B that both last from start to end. Their results
 * are sent at the end, if channels have free slots. */
static void run_pair(Clock *c, Walk *walk, uint32_t stage, uint32_t n, double start)
{
    const double begin = later(start, c->now[stage]), end = begin + c->times->pair;
    for (; n > 0 && settle(walk); walk->i++, n--) {
        const DtAction a = action_at(walk);
        if (dt_pipeline_gives(a.kind))
            c->sent[a.unit][c->n_sent[a.unit]++] = end;
        else if (dt_pipeline_takes(a.kind))
            c->received[a.unit][c->n_received[a.unit]++] = begin;
        else if (a.kind == DT_ACTION_F || a.kind == DT_ACTION_B)
            run_slice(c, stage, &a, begin, end);
    }
    c->line->busy[stage] += c->times->pair;
}

/* Runs the stage's next action, and advances the stage's time; false if it must wait for another
 * stage. */
static bool run_action(Clock *c, Walk *walk, uint32_t stage)
{
    const DtAction a = action_at(walk);
    if (dt_pipeline_gives(a.kind)) {
        const double place = free_place(c, &a);
        if (place < 0)
            return false;
        c->now[stage] = later(c->now[stage], place);
        c->sent[a.unit][c->n_sent[a.unit]++] = later(c->made[stage], place);
    } else if (dt_pipeline_takes(a.kind)) {
        const double at = arrival(c, &a);
        if (at < 0)
            return false;
        c->now[stage] = later(c->now[stage], at);
        c->received[a.unit][c->n_received[a.unit]++] = c->now[stage];
    } else if (a.kind <= DT_ACTION_W) {
        double start = 0;
        const uint32_t n =
            a.kind == DT_ACTION_F && c->times->pair > 0 ? find_pair(c, *walk, &start) : 0;
        if (n > 0 && start < 0)
            return false;
        if (n > 0) {
            run_pair(c, walk, stage, n, start);
            return true;
        }
        run_slice(c, stage, &a, c->now[stage], c->now[stage] + time_of(c, &a));
        c->line->busy[stage] += time_of(c, &a);
    }
    walk->i++;
    return true;
}

static void measure(DtTimeline *line, uint32_t n_stages)
{
    double longest = 0, busy = 0;
    for (uint32_t s = 0; s < n_stages; s++) {
        line->end = later(line->end, line->last[s]);
        longest = later(longest, line->last[s] - line->first[s]);
        busy += line->busy[s];
    }
    line->bubble = longest > 0 ? 1 - busy / (longest * n_stages) : 0;
}

void dt_schedule_simulate(DtArena *arena, const DtPipelineSchedule *pipeline,
                          const DtPipelineRun *run, const DtScheduleTimes *times,
                          DtTimeline *ret_timeline)
{
    const uint32_t p = pipeline->n_stages;
    Clock c = {.arena = arena, .run = run, .times = times, .line = ret_timeline};
    Walk *walks = walks_of(arena, pipeline, run);
    *ret_timeline = (DtTimeline){.end = 0};
    ret_timeline->first = DT_NEW_ARRAY(arena, double, p);
    ret_timeline->last = DT_NEW_ARRAY(arena, double, p);
    ret_timeline->busy = DT_NEW_ARRAY(arena, double, p);
    c.now = DT_NEW_ARRAY(arena, double, p);
    c.made = DT_NEW_ARRAY(arena, double, p);
    c.started = DT_NEW_ARRAY(arena, bool, p);
    c.n_sent = DT_NEW_ARRAY(arena, int64_t, run->channels.n + 1);
    c.n_received = DT_NEW_ARRAY(arena, int64_t, run->channels.n + 1);
    c.sent = DT_NEW_ARRAY(arena, double *, run->channels.n + 1);
    c.received = DT_NEW_ARRAY(arena, double *, run->channels.n + 1);
    for (uint32_t i = 0; i < run->channels.n; i++) {
        c.sent[i] = DT_NEW_ARRAY(arena, double, pipeline->n_micro);
        c.received[i] = DT_NEW_ARRAY(arena, double, pipeline->n_micro);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < p; s++)
            while (settle(&walks[s]) && run_action(&c, &walks[s], s))
                moved = true;
    }
    measure(ret_timeline, p);
}
