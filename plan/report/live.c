/* SPDX-License-Identifier: Apache-2.0 */
/* Live memory of a step. The schedule of a stage is walked as a rank runs it, with all iterations; then from its end
 * backwards: a byte is live before an instruction if it reads it, or if it was live behind it and the instruction does
 * not write it. An instruction that writes only some bytes of its range counts as if it wrote all of it.
 *
 * When an instruction runs: pieces and micro-batches are where the simulation has them, between these time goes on by
 * the price of what runs. So a collective beside other work is placed where it is begun. */
#include "plan/report/live.h"

#include <stdlib.h>
#include <string.h>

typedef struct Run { uint32_t inst, first, n; double time; } Run; /* and its ranges */
typedef struct Range { int64_t from, to; bool read, written; } Range;

typedef struct Walk {
    DtArena *arena;
    const DtSummary *s;
    const DtPlan *plan;
    uint32_t stage;
    int64_t reg[DT_PLAN_REGS];
    int64_t *base;           /* by arena: where it begins among all temporaries; -1: it holds something else */
    int64_t *work;
    const DtSlice **pieces;  /* of the stage, by time */
    uint32_t n_pieces, piece;
    double now;
    uint32_t placed;         /* runs that have their time */
    DT_VEC(Run) runs;
    DT_VEC(Range) ranges;
} Walk;

/* ---- what runs ---- */

/* On the first rank of the stage; most: on that where it is largest. */
static int64_t value_of(const Walk *w, const DtPlanArg *arg, bool most)
{
    int64_t value = arg->base;
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++)
        value += arg->reg[r] * w->reg[r];
    for (int c = 0; c < DT_PLAN_COORDS; c++) {
        const uint32_t axis = arg->coord_axis[c];
        const int64_t last = axis < w->plan->n_mesh ? (int64_t)w->plan->mesh[axis].size - 1 : 0;
        const bool staged = w->plan->meta->pipeline == axis + 1;
        value += arg->coord[c] * (staged ? w->stage : most && arg->coord[c] > 0 ? last : 0);
    }
    return value;
}

/* As the simulation has it: on the rank that does most. */
static bool is_guarded(const Walk *w, const DtPlanInst *inst)
{
    for (uint32_t g = 0; g < inst->guards; g++)
        if (value_of(w, &w->plan->args[inst->first_arg + inst->n_args - 1 - g], true) < 0)
            return true;
    return false;
}

/* Whether what it writes is also read: a sum that goes on, or ranks add up in place. */
static bool adds_up(const DtPlan *plan, const DtPlanInst *inst, uint32_t arg)
{
    return (inst->kind == DT_INST_GEMM && arg == 2 && plan->gemms[inst->ref].accumulate) ||
           (inst->kind == DT_INST_ALL_REDUCE && arg == 0 && inst->n_args == 1);
}

static void run_inst(Walk *w, uint32_t number)
{
    const DtPlanInst *inst = &w->plan->insts[number];
    Run run = {number, w->ranges.n, 0, 0};
    if (is_guarded(w, inst) || --*w->work < 0)
        return;
    for (uint32_t a = 0; a < inst->n_args; a++) {
        const DtPlanArg *arg = &w->plan->args[inst->first_arg + a];
        if (arg->kind != DT_ARG_ADDRESS || w->base[arg->arena] < 0 || arg->bytes <= 0)
            continue;
        const int64_t from = w->base[arg->arena] + value_of(w, arg, false);
        DT_PUSH(w->arena, w->ranges, ((Range){from, from + arg->bytes, !arg->written || adds_up(w->plan, inst, a),
                                              arg->written}));
        run.n++;
    }
    DT_PUSH(w->arena, w->runs, run);
}

/* ---- when ---- */

/* Spreads what has no time yet from `begin` to `end`, by price. */
static void place(Walk *w, double begin, double end)
{
    const DtPrice *prices = w->s->prices[w->stage];
    double all = 0, sum = 0;
    for (uint32_t i = w->placed; i < w->runs.n; i++)
        all += prices[w->runs.at[i].inst].seconds;
    for (uint32_t i = w->placed; i < w->runs.n; i++) {
        w->runs.at[i].time = begin + (end - begin) * (all > 0 ? sum / all : 0);
        sum += prices[w->runs.at[i].inst].seconds;
    }
    w->placed = w->runs.n;
    w->now = end;
}

/* What ran since the last piece ended; the next one, if it is of that entry. */
static const DtSlice *begin_piece(Walk *w, uint32_t what)
{
    if (w->piece == w->n_pieces || w->pieces[w->piece]->what != what)
        return NULL;
    const DtSlice *piece = w->pieces[w->piece++];
    place(w, w->now, piece->begin);
    return piece;
}

/* ---- the schedule ---- */

static uint32_t end_of(const DtPlan *plan, uint32_t loop)
{
    uint32_t depth = 1, i = loop;
    while (depth) {
        i++;
        depth += plan->schedule[i].kind == DT_SCHED_LOOP;
        depth -= plan->schedule[i].kind == DT_SCHED_END;
    }
    return i;
}

static void set(Walk *w, const DtPlanSchedule *s)
{
    int64_t value = (s->step ? s->step * w->reg[s->body] : 0) + (s->plus ? w->reg[s->plus] : 0) + s->first;
    if (s->count)
        value = ((value % s->count) + s->count) % s->count;
    w->reg[s->reg] = value;
}

static void walk(Walk *w, uint32_t from, uint32_t to, uint32_t depth)
{
    for (uint32_t i = from; i < to && *w->work > 0; i++) {
        const DtPlanSchedule *s = &w->plan->schedule[i];
        if (s->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &w->plan->bodies[s->body];
            for (uint32_t k = 0; k < body->n_insts; k++)
                run_inst(w, body->first_inst + k);
        } else if (s->kind == DT_SCHED_SET) {
            set(w, s);
        } else if (s->kind == DT_SCHED_WHEN) {
            const bool holds = w->reg[s->reg] >= s->first && w->reg[s->reg] < (int64_t)s->first + s->count;
            i += holds ? 0 : s->body;
        } else if (s->kind == DT_SCHED_CALL) {
            const DtPlanEntry *entry = &w->plan->entries[s->body];
            const DtSlice *piece = begin_piece(w, s->body);
            walk(w, entry->first, entry->first + entry->count, depth + 1);
            if (piece)
                place(w, piece->begin, piece->end);
        } else if (s->kind == DT_SCHED_LOOP) {
            const uint32_t end = end_of(w->plan, i);
            for (int64_t turn = 0; turn < s->count && --*w->work > 0; turn++) {
                const DtSlice *piece = s->reg == 0 && depth == 0 ? begin_piece(w, UINT32_MAX) : NULL;
                w->reg[s->reg] = s->first + s->step * turn;
                walk(w, i + 1, end, depth + 1);
                if (piece)
                    place(w, piece->begin, piece->end);
            }
            w->reg[s->reg] = 0;
            i = end;
        }
    }
}

static void walk_entry(Walk *w, DtPlanStr name)
{
    memset(w->reg, 0, sizeof w->reg);
    for (uint32_t e = 0; e < w->plan->n_entries; e++)
        if (dt_plan_on_stage(w->plan->entries[e].stage, w->stage) &&
            !strcmp(dt_plan_str(w->plan, w->plan->entries[e].name), dt_plan_str(w->plan, name))) {
            walk(w, w->plan->entries[e].first, w->plan->entries[e].first + w->plan->entries[e].count, 0);
            return;
        }
}

/* ---- backwards ---- */

typedef struct Span { int64_t from, to; } Span;
typedef struct Live { DtArena *arena; DT_VEC(Span) spans; int64_t bytes; } Live; /* rising, apart from each other */

/* The first one that ends at or behind it. */
static uint32_t find(const Live *l, int64_t at)
{
    uint32_t lo = 0, hi = l->spans.n;
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (l->spans.at[mid].to < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Spans first .. last - 1 become the n at `by`. */
static void replace(Live *l, uint32_t first, uint32_t last, const Span *by, uint32_t n)
{
    while (l->spans.n + n > l->spans.cap)
        l->spans.at = dt_arena_grow(l->arena, l->spans.at, &l->spans.cap, sizeof *l->spans.at);
    memmove(l->spans.at + first + n, l->spans.at + last, (l->spans.n - last) * sizeof *l->spans.at);
    memcpy(l->spans.at + first, by, n * sizeof *by);
    l->spans.n = l->spans.n + n - (last - first);
}

static void add_span(Live *l, int64_t from, int64_t to)
{
    const uint32_t first = find(l, from);
    uint32_t last = first;
    Span all = {from, to};
    for (; last < l->spans.n && l->spans.at[last].from <= to; last++) {
        const Span *one = &l->spans.at[last];
        l->bytes -= one->to - one->from;
        all.from = one->from < all.from ? one->from : all.from;
        all.to = one->to > all.to ? one->to : all.to;
    }
    l->bytes += all.to - all.from;
    replace(l, first, last, &all, 1);
}

static void remove_span(Live *l, int64_t from, int64_t to)
{
    const uint32_t first = find(l, from);
    uint32_t last = first, n = 0;
    Span rest[2];
    for (; last < l->spans.n && l->spans.at[last].from < to; last++) {
        const Span *one = &l->spans.at[last];
        l->bytes -= one->to - one->from;
        if (one->from < from)
            rest[n++] = (Span){one->from, from};
        if (one->to > to)
            rest[n++] = (Span){to, one->to};
    }
    for (uint32_t i = 0; i < n; i++)
        l->bytes += rest[i].to - rest[i].from;
    replace(l, first, last, rest, n);
}

/* Behind each run what is live while it goes on: what is behind it, what it reads and writes. */
static uint32_t look_back(const Walk *w, DtLivePoint *points)
{
    Live live = {.arena = w->arena};
    uint32_t at = w->runs.n;
    for (uint32_t i = w->runs.n; i-- > 0;) {
        const Run *run = &w->runs.at[i];
        const Range *ranges = w->ranges.at + run->first;
        for (uint32_t r = 0; r < run->n; r++)
            add_span(&live, ranges[r].from, ranges[r].to);
        points[--at] = (DtLivePoint){run->time, live.bytes};
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].written)
                remove_span(&live, ranges[r].from, ranges[r].to);
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].read)
                add_span(&live, ranges[r].from, ranges[r].to);
    }
    return w->runs.n;
}

/* ---- all ---- */

static int by_begin(const void *a, const void *b)
{
    const DtSlice *x = *(const DtSlice *const *)a, *y = *(const DtSlice *const *)b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void find_pieces(Walk *w)
{
    w->pieces = DT_NEW_ARRAY(w->arena, const DtSlice *, w->s->sim.n_slices + 1);
    for (uint32_t i = 0; i < w->s->sim.n_slices; i++)
        if (w->s->sim.slices[i].kind == DT_SLICE_PIECE && w->s->sim.slices[i].stage == w->stage)
            w->pieces[w->n_pieces++] = &w->s->sim.slices[i];
    qsort(w->pieces, w->n_pieces, sizeof *w->pieces, by_begin);
}

static void find_arenas(Walk *w)
{
    int64_t all = 0;
    w->base = DT_NEW_ARRAY(w->arena, int64_t, w->plan->n_arenas + 1);
    for (uint32_t a = 0; a < w->plan->n_arenas; a++) {
        const bool is_temporary = w->plan->arenas[a].kind == DT_ARENA_ACTIVATIONS;
        w->base[a] = is_temporary ? all : -1;
        all += is_temporary ? dt_plan_arena_bytes(w->plan, a, w->stage) + 1 : 0; /* apart from the next one */
    }
}

uint32_t dt_live_of(DtArena *arena, const DtSummary *s, uint32_t stage, int64_t *work, DtLivePoint **ret_points)
{
    DtArena *scratch = dt_arena_child(arena);
    Walk w = {.arena = scratch, .s = s, .plan = s->plan, .stage = stage, .work = work};
    const DtPlanObjective *objective = &s->plan->objectives[0];
    uint32_t n = 0;
    find_pieces(&w);
    find_arenas(&w);
    walk_entry(&w, objective->step);
    place(&w, w.now, s->sim.stages[stage].end);
    walk_entry(&w, objective->update);
    place(&w, w.now, s->sim.seconds - s->sim.fixed);
    if (*work > 0) {
        *ret_points = DT_NEW_ARRAY(arena, DtLivePoint, w.runs.n + 1);
        n = look_back(&w, *ret_points);
    }
    dt_arena_free(scratch);
    return n;
}
