/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules. A schedule is a list of F, B and W actions per stage; each kind below writes
 * the list of one stage as its paper draws it. p stages, m micro-batches, v pieces per stage:
 *
 *   gpipe             all F, then all B (Huang et al. 2019). Bubble (p-1)/(m+p-1); m in flight
 *   1f1b              p-1-s F, then F and B in turn (Narayanan et al. 2019, 2021). Same bubble; p-s
 *                     in flight
 *   interleaved_1f1b  1f1b over v pieces per stage, p micro-batches at a time (Narayanan et al.
 *                     2021). Bubble / v
 *   zb_h1             1f1b with B and W apart; stage s runs W s micro-batches late (Qi et al. 2024,
 *                     section 2). Bubble time (p-1)(F+B-W), a third of 1f1b's if F = B = W; p in
 *                     flight
 *   zb_v              two pieces per stage, there and back (Qi et al. 2024, section 6). No bubble
 *                     if F = B = W and m >= 2p-1; 2p half-size pieces in flight, as 1f1b
 *   dualpipe_v        the same places; F of one direction beside B of the other (DeepSeek 2025).
 *                     Bubble time (p-1)(F&B + B - 3W), F&B the time of such a pair, B of a whole
 *                     backward; 2p+1 pieces
 *
 * Then transfers are inserted: RECV just before the action that needs its data, SEND just after the
 * action that computes it. Since this depends on single actions only, a repetition found in the
 * list without transfers is one of the whole list too. */
#include "passes/pipeline/schedule.h"

#include <string.h>

enum { SLOTS = 2, WORTH = 24 };

struct DtLister {
    DtArena *arena;
    const DtPipelineRun *run;
    uint32_t p, v, stage;
    bool there_and_back;
    int64_t m;
    int64_t next[3][DT_PIPELINE_CHUNKS]; /* micro-batch of the next F, B and W of each chunk */
    DtActions list;
};

/* ---- writing lists ---- */

static uint32_t piece_of(const DtLister *l, uint32_t chunk)
{
    if (l->there_and_back)
        return chunk == 0 ? l->stage : 2 * l->p - 1 - l->stage;
    return chunk * l->p + l->stage;
}

static void put(DtLister *l, uint32_t kind, uint32_t chunk, int64_t micro)
{
    const uint32_t piece = piece_of(l, chunk);
    if (micro < l->m && dt_pipeline_entry(&l->run->pieces[piece], kind) >= 0)
        DT_PUSH(l->arena, l->list, ((DtAction){.kind = kind, .unit = piece, .micro = micro}));
}

/* Appends an action of that kind on the chunk's next micro-batch. Does nothing after the last
 * micro-batch, so the schedules below may go on past it. */
static void next(DtLister *l, uint32_t kind, uint32_t chunk)
{
    put(l, kind, chunk, l->next[kind][chunk]++);
}

static void F(DtLister *l, uint32_t chunk) { next(l, DT_ACTION_F, chunk); }
static void B(DtLister *l, uint32_t chunk) { next(l, DT_ACTION_B, chunk); }
static void W(DtLister *l, uint32_t chunk) { next(l, DT_ACTION_W, chunk); }

static void BW(DtLister *l, uint32_t chunk)
{
    B(l, chunk);
    W(l, chunk);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- the kinds ---- */

/* Takes the pieces in order for each group of micro-batches, so that a run without backward drains
 * even if a stage has several pieces. */
static void list_forward(DtLister *l)
{
    for (int64_t first = 0; first < l->m; first += l->p)
        for (uint32_t c = 0; c < l->v; c++)
            for (int64_t i = first; i < smaller(first + l->p, l->m); i++)
                put(l, DT_ACTION_F, c, i);
}

static void list_gpipe(DtLister *l)
{
    for (int64_t i = 0; i < l->m; i++)
        F(l, 0);
    for (int64_t i = 0; i < l->m; i++)
        B(l, 0);
}

static void list_1f1b(DtLister *l)
{
    const int64_t ahead = l->p - 1 - l->stage;
    for (int64_t i = 0; i < ahead; i++)
        F(l, 0);
    for (int64_t i = 0; i < l->m; i++) {
        F(l, 0);
        B(l, 0);
    }
}

/* Micro-batches go in rounds of p; if p does not divide m, the first rounds are one or more larger.
 */
static int64_t round_size(const DtLister *l, int64_t number)
{
    const int64_t rounds = larger(1, l->m / l->p);
    return l->m / rounds + (number < l->m % rounds);
}

/* Position in the list of an interleaved schedule, for one kind of action: action i of round
 * `number`, which starts with micro-batch `first`. In a round each chunk in turn runs all
 * micro-batches of the round: forward from the first chunk on, backward from the last. */
typedef struct Round {
    int64_t number, first, i;
} Round;

static void put_round(DtLister *l, uint32_t kind, Round *round)
{
    const int64_t size = round_size(l, round->number);
    const uint32_t chunk = (uint32_t)(round->i / size);
    put(l, kind, kind == DT_ACTION_F ? chunk : l->v - 1 - chunk, round->first + round->i % size);
    if (++round->i < size * l->v)
        return;
    *round = (Round){.number = round->number + 1, .first = round->first + size};
}

static void list_interleaved(DtLister *l)
{
    const int64_t n = l->m * l->v, first = round_size(l, 0);
    const int64_t ahead =
        l->m <= l->p ? n : smaller(n, 2 * (l->p - l->stage - 1) + (l->v - 1) * first);
    Round f = {0}, b = {0};
    for (int64_t i = 0; i < ahead; i++)
        put_round(l, DT_ACTION_F, &f);
    for (int64_t i = 0; i < n; i++) {
        if (ahead + i < n)
            put_round(l, DT_ACTION_F, &f);
        put_round(l, DT_ACTION_B, &b);
    }
}

static void list_zb_h1(DtLister *l)
{
    for (uint32_t i = 0; i < l->p - 1 - l->stage; i++)
        F(l, 0);
    for (int64_t i = 0; i < l->m; i++) {
        F(l, 0);
        B(l, 0);
        if (i >= l->stage)
            W(l, 0);
    }
    for (uint32_t i = 0; i < l->stage; i++)
        W(l, 0);
}

static void list_zb_v(DtLister *l)
{
    const uint32_t p = l->p, s = l->stage;
    const int64_t n = larger(2 * p - 1, l->m);
    const int64_t *f = l->next[DT_ACTION_F], *b = l->next[DT_ACTION_B], *w = l->next[DT_ACTION_W];
    for (uint32_t i = 0; i < 2 * (p - s) - 1; i++)
        F(l, 0);
    for (uint32_t i = 0; i < s; i++) {
        F(l, 1);
        F(l, 0);
    }
    for (uint32_t i = 0; i < p - s; i++) {
        F(l, 1);
        BW(l, 1);
    }
    while (f[1] < f[0] || f[0] < n) {
        if (f[0] < n)
            F(l, 0);
        BW(l, 0);
        F(l, 1);
        BW(l, 1);
    }
    for (uint32_t i = 0; i < s; i++) {
        B(l, 0);
        B(l, 1);
    }
    for (uint32_t i = 0; i < p - s; i++)
        BW(l, 0);
    while (w[1] < b[1])
        W(l, 1);
    while (w[0] < b[0])
        W(l, 0);
}

/* The W actions that wait to be run, as a queue in the order of their B, in the eight steps of
 * DeepSeek's DualPipeV. */
typedef struct Waiting {
    uint32_t chunk[4 * DT_PIPELINE_STAGES];
    uint32_t first, n;
} Waiting;

static void delayed_W(DtLister *l, Waiting *waiting, uint32_t chunk)
{
    B(l, chunk);
    waiting->chunk[waiting->n++ % DT_COUNT(waiting->chunk)] = chunk;
}

static void waiting_W(DtLister *l, Waiting *waiting)
{
    W(l, waiting->chunk[waiting->first++ % DT_COUNT(waiting->chunk)]);
}

static void dualpipe_end(DtLister *l, Waiting *waiting)
{
    const uint32_t p = l->p, s = l->stage, half = (s + 1) / 2;
    bool delayed = false;
    for (uint32_t i = 0; i < s + 1; i++) {
        for (uint32_t chunk = 2; chunk-- > 0;) { /* W actions are delayed from the middle of these
                                                  * on */
            delayed = delayed || (i == half && chunk == s % 2);
            if (delayed)
                delayed_W(l, waiting, chunk);
            else
                BW(l, chunk);
        }
    }
    for (uint32_t i = 0; i < p - s - 1; i++) {
        waiting_W(l, waiting);
        delayed_W(l, waiting, 0);
    }
    while (waiting->first < waiting->n)
        waiting_W(l, waiting);
}

static void list_dualpipe_v(DtLister *l)
{
    const uint32_t p = l->p, s = l->stage;
    const int64_t n = larger(2 * p, l->m);
    Waiting waiting = {.n = 0};
    for (uint32_t i = 0; i < 2 * (p - s - 1); i++)
        F(l, 0);
    for (uint32_t i = 0; i < s + 1; i++) {
        F(l, 0);
        F(l, 1);
    }
    for (uint32_t i = 0; i < p - s - 1; i++) {
        BW(l, 1);
        F(l, 1);
    }
    for (int64_t i = 0; i < n - 2 * p + s + 1; i++) {
        F(l, 0);
        BW(l, 1);
        F(l, 1);
        BW(l, 0);
    }
    for (uint32_t i = 0; i < p - s - 1; i++) {
        BW(l, 1);
        F(l, 1);
        BW(l, 0);
    }
    dualpipe_end(l, &waiting);
}

static const DtScheduleKind kinds[] = {
    {"gpipe", false, false, list_gpipe},
    {"1f1b", false, false, list_1f1b},
    {"interleaved_1f1b", false, false, list_interleaved},
    {"zb_h1", true, false, list_zb_h1},
    {"zb_v", true, true, list_zb_v},
    {"dualpipe_v", true, true, list_dualpipe_v},
    {"forward", false, false, list_forward},
};

const DtScheduleKind *dt_schedule_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

uint32_t dt_schedule_stage(const DtScheduleKind *kind, uint32_t n_stages, uint32_t piece)
{
    if (kind->there_and_back && piece >= n_stages)
        return 2 * n_stages - 1 - piece;
    return piece % n_stages;
}

/* ---- compression ---- */

/* Whether b is the same action as a, `step` micro-batches later. */
static bool is_later(const DtAction *a, const DtAction *b, int64_t step)
{
    return dt_pipeline_same(a, b) && a->micro + step == b->micro;
}

/* Returns an index in the steady part of the list: half-way between the first B and the last F. */
static uint32_t middle(const DtActions *list)
{
    uint32_t lo = 0, hi = list->n;
    while (lo < list->n && list->at[lo].kind != DT_ACTION_B)
        lo++;
    if (lo == list->n)
        return list->n / 2;
    while (hi > lo && list->at[hi - 1].kind != DT_ACTION_F)
        hi--;
    return lo + (hi - lo) / 2;
}

/* A repetition in a list: each of the actions [lo, hi) comes again n actions further on, with a
 * micro-batch that is `step` later. */
typedef struct Repeat {
    uint32_t lo, hi, n;
    int64_t step;
} Repeat;

/* Returns the longest repetition of the n actions from `at`, extended to both sides; its n is 0 if
 * they are not repeated. */
static Repeat repeat_of(const DtActions *list, uint32_t at, uint32_t n)
{
    const DtAction *a = list->at;
    Repeat r = {.lo = at, .hi = at, .n = n, .step = a[at + n].micro - a[at].micro};
    while (r.step > 0 && r.hi + n < list->n && is_later(&a[r.hi], &a[r.hi + n], r.step))
        r.hi++;
    if (r.hi - at < n)
        return (Repeat){0};
    while (r.lo > 0 && is_later(&a[r.lo - 1], &a[r.lo - 1 + n], r.step))
        r.lo--;
    return r;
}

/* Returns the longest repetition around the middle of the list; of equally long ones the one with
 * the shortest period. */
static Repeat find_repeat(const DtActions *list)
{
    const uint32_t at = middle(list);
    Repeat best = {0};
    for (uint32_t n = 1; at + 2 * n <= list->n && best.hi - best.lo < list->n / 2; n++) {
        const Repeat r = repeat_of(list, at, n);
        if (r.n > 0 && r.hi + r.n - r.lo > best.hi + best.n - best.lo)
            best = r;
    }
    return best;
}

static DtActions part(const DtActions *list, uint32_t from, uint32_t to)
{
    return (DtActions){.at = list->at + from, .n = to - from, .cap = to - from};
}

void dt_schedule_compress(const DtActions *list, DtStageActions *ret_actions)
{
    const Repeat r = find_repeat(list);
    *ret_actions = (DtStageActions){.prologue = *list};
    if (r.n == 0 || r.hi - r.lo < WORTH)
        return;
    const uint32_t count = (r.hi - r.lo) / r.n + 1;
    *ret_actions = (DtStageActions){.prologue = part(list, 0, r.lo),
                                    .period = part(list, r.lo, r.lo + r.n),
                                    .epilogue = part(list, r.lo + count * r.n, list->n),
                                    .count = count,
                                    .step = r.step};
}

/* ---- transfers ---- */

/* By piece, the numbers of the channels from which its actions receive and to which they send; -1:
 * none. */
typedef struct Ends {
    int32_t *receive[2], *send[2]; /* [0]: for F, [1]: for B */
} Ends;

static Ends find_ends(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run)
{
    Ends ends;
    for (int k = 0; k < 2; k++) {
        ends.receive[k] = DT_NEW_ARRAY(arena, int32_t, pipeline->n_pieces);
        ends.send[k] = DT_NEW_ARRAY(arena, int32_t, pipeline->n_pieces);
        for (uint32_t i = 0; i < pipeline->n_pieces; i++)
            ends.receive[k][i] = ends.send[k][i] = -1;
    }
    for (uint32_t i = 0; i < run->channels.n; i++) {
        const DtChannel *channel = &run->channels.at[i];
        const int k = channel->from_piece < channel->to_piece ? DT_ACTION_F : DT_ACTION_B;
        ends.send[k][channel->from_piece] = (int32_t)i;
        ends.receive[k][channel->to_piece] = (int32_t)i;
    }
    return ends;
}

static uint32_t transfer(DtAction *to, uint32_t kind, int32_t channel, int64_t micro)
{
    if (channel < 0)
        return 0;
    *to = (DtAction){.kind = kind, .unit = (uint32_t)channel, .micro = micro};
    return 1;
}

static bool moves(const DtAction *action)
{
    return action->kind == DT_ACTION_F || action->kind == DT_ACTION_B;
}

static DtActions with_transfers(DtArena *arena, const Ends *ends, const DtActions *plain)
{
    DtActions list = {.cap = plain->n};
    for (uint32_t i = 0; i < plain->n; i++) {
        const DtAction *action = &plain->at[i];
        if (moves(action))
            list.cap += (ends->receive[action->kind][action->unit] >= 0) +
                        (ends->send[action->kind][action->unit] >= 0);
    }
    list.at = DT_NEW_ARRAY(arena, DtAction, list.cap);
    for (uint32_t i = 0; i < plain->n; i++) {
        const DtAction *action = &plain->at[i];
        if (moves(action))
            list.n += transfer(&list.at[list.n], DT_ACTION_RECV,
                               ends->receive[action->kind][action->unit], action->micro);
        list.at[list.n++] = *action;
        if (moves(action))
            list.n += transfer(&list.at[list.n], DT_ACTION_SEND,
                               ends->send[action->kind][action->unit], action->micro);
    }
    return list;
}

bool dt_schedule_fill(DtArena *arena, const DtPipelineSchedule *pipeline,
                      const DtScheduleKind *kind, DtPipelineRun *run, DtText *ret_problem)
{
    const uint32_t p = pipeline->n_stages;
    const Ends ends = find_ends(arena, pipeline, run);
    DtArena *scratch = dt_arena_child(arena);
    DtActions list = {0};
    run->stages = DT_NEW_ARRAY(arena, DtStageActions, p);
    for (uint32_t s = 0; s < p; s++) {
        DtLister lister = {.arena = scratch,
                           .list = list,
                           .run = run,
                           .p = p,
                           .v = pipeline->n_pieces / p,
                           .stage = s,
                           .m = pipeline->n_micro};
        DtStageActions *actions = &run->stages[s], plain;
        /* the kind `forward` is used with the pieces of any other kind, also those that go there
         * and back */
        lister.there_and_back = pipeline->n_pieces > p && pipeline->stage_of[p] == p - 1 && p > 1;
        kind->list(&lister);
        dt_schedule_compress(&lister.list, &plain);
        actions->prologue = with_transfers(arena, &ends, &plain.prologue);
        actions->period = with_transfers(arena, &ends, &plain.period);
        actions->epilogue = with_transfers(arena, &ends, &plain.epilogue);
        actions->count = plain.count;
        actions->step = plain.step;
        list = lister.list; /* the list's memory is used again for the next stage */
        list.n = 0;
    }
    dt_arena_free(scratch);
    for (int64_t slots = SLOTS;; slots *= 2) {
        for (uint32_t i = 0; i < run->channels.n; i++)
            run->channels.at[i].slots = slots;
        ret_problem->len = 0;
        if (dt_schedule_check(pipeline, run, ret_problem))
            return true;
        if (slots >= pipeline->n_micro)
            return false;
    }
}
