/* SPDX-License-Identifier: Apache-2.0 */
/* Live memory over a step: the instructions of a stage, with all iterations (walk.c), walked
 * backwards. A byte is live before an instruction if the instruction reads it, or if it is live
 * after it and the instruction does not write it. An instruction that writes only some bytes of
 * its range counts as if it wrote all of it.
 *
 * The time of an instruction: pieces and micro-batches are where the simulation has them;
 * between these, time advances by prices. An asynchronous collective is placed where it starts. */
#include "plan/report/live.h"

#include "plan/report/spans.h"
#include "plan/report/walk.h"

#include <stdlib.h>

typedef struct Live {
    const DtSummary *s;
    DtWalk walk;
    DT_VEC(double) times;    /* by run of an instruction */
    const DtSlice **pieces;  /* runs of the stage's pieces, by time */
    uint32_t n_pieces, piece;
    DT_VEC(const DtSlice *) open; /* by depth: the piece being walked; NULL: none */
    double now;
} Live;

/* ---- when ---- */

/* Gives the uses that have no time one between `begin` and `end`, in proportion to prices. */
static void place(Live *l, double begin, double end)
{
    const DtPrice *prices = l->s->prices[l->walk.stage];
    double all = 0, sum = 0;
    for (uint32_t i = l->times.n; i < l->walk.runs.n; i++)
        all += prices[l->walk.runs.at[i].inst].seconds;
    for (uint32_t i = l->times.n; i < l->walk.runs.n; i++) {
        DT_PUSH(l->walk.arena, l->times, begin + (end - begin) * (all > 0 ? sum / all : 0));
        sum += prices[l->walk.runs.at[i].inst].seconds;
    }
    l->now = end;
}

/* Called when a called entry or a micro-batch begins: finds the next piece, if it is one. */
static void enter(DtWalk *w, uint32_t item, int64_t turn, uint32_t depth)
{
    Live *l = w->context;
    const DtPlanSchedule *s = &w->plan->schedule[item];
    const bool is_call = s->kind == DT_SCHED_CALL, is_micro = !is_call && s->reg == 0 && depth == 0;
    const DtSlice *next = l->piece < l->n_pieces ? l->pieces[l->piece] : NULL;
    const bool is_next =
        next && (is_call ? next->what == s->body : is_micro && next->what == UINT32_MAX);
    (void)turn;
    if (is_next) {
        place(l, l->now, next->begin);
        l->piece++;
    }
    DT_PUSH(w->arena, l->open, is_next ? next : NULL);
}

static void leave(DtWalk *w, uint32_t item, int64_t turn, uint32_t depth)
{
    Live *l = w->context;
    const DtSlice *piece = l->open.at[--l->open.n];
    (void)item, (void)turn, (void)depth;
    if (piece)
        place(l, piece->begin, piece->end);
}

static int by_begin(const void *a, const void *b)
{
    const DtSlice *x = *(const DtSlice *const *)a, *y = *(const DtSlice *const *)b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void find_pieces(Live *l)
{
    const DtSimulation *sim = &l->s->sim;
    l->pieces = DT_NEW_ARRAY(l->walk.arena, const DtSlice *, sim->n_slices + 1);
    for (uint32_t i = 0; i < sim->n_slices; i++)
        if (sim->slices[i].kind == DT_SLICE_PIECE && sim->slices[i].stage == l->walk.stage)
            l->pieces[l->n_pieces++] = &sim->slices[i];
    qsort(l->pieces, l->n_pieces, sizeof *l->pieces, by_begin);
}

/* ---- backwards ---- */

/* Fills ret_points, going backwards through the runs: while a run executes, the values live after
 * it, its operands, and its results are live. */
static void look_back(const Live *l, DtLivePoint *ret_points)
{
    const DtWalk *w = &l->walk;
    DtSpans live = {.arena = w->arena};
    for (uint32_t i = w->runs.n; i-- > 0;) {
        const DtWalkRun *run = &w->runs.at[i];
        const DtWalkRange *ranges = w->ranges.at + run->first;
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].kind == DT_ARENA_ACTIVATIONS)
                dt_spans_add(&live, ranges[r].from, ranges[r].to);
        ret_points[i] = (DtLivePoint){l->times.at[i], live.bytes};
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].written)
                dt_spans_remove(&live, ranges[r].from, ranges[r].to);
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].read && ranges[r].kind == DT_ARENA_ACTIVATIONS)
                dt_spans_add(&live, ranges[r].from, ranges[r].to);
    }
}

uint32_t dt_live_of(DtArena *arena, const DtSummary *s, uint32_t stage, int64_t *work,
                    DtLivePoint **ret_points)
{
    DtArena *scratch = dt_arena_child(arena);
    Live l = {.s = s,
              .walk = {.arena = scratch, .plan = s->plan, .stage = stage, .work = *work,
                       .enter = enter, .leave = leave}};
    const DtPlanObjective *objective = &s->plan->objectives[0];
    uint32_t n = 0;
    l.walk.context = &l;
    find_pieces(&l);
    dt_walk_entry(&l.walk, objective->step);
    place(&l, l.now, s->sim.stages[stage].end);
    dt_walk_entry(&l.walk, objective->update);
    place(&l, l.now, s->sim.seconds - s->sim.fixed);
    *work = l.walk.work;
    if (*work > 0) {
        n = l.walk.runs.n;
        *ret_points = DT_NEW_ARRAY(arena, DtLivePoint, n + 1);
        look_back(&l, *ret_points);
    }
    dt_arena_free(scratch);
    return n;
}
