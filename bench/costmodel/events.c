/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules as events. Each stage runs its list of actions in order. An action begins when
 * the previous one is done and the messages that it needs have arrived. A message takes some time,
 * in which both stages can go on with other actions. */
#include "bench/costmodel/costmodel.h"

#include <math.h>
#include <stdlib.h>

typedef enum Kind { F, B, W } Kind;
typedef struct Action {
    Kind kind;
    int32_t piece, micro;
} Action;

typedef struct Run {
    Pipeline p;
    int64_t pieces;
    DtArena *arena;
    double *done[3];     /* times at which F, B, W end: [piece * micro_batches + micro]; negative:
                          * not yet */
    Action **list;       /* the list of actions of each stage */
    int64_t *n, *at;
    double *clock;
} Run;

static void push(Run *r, int64_t stage, Kind kind, int64_t chunk, int64_t micro)
{
    const int32_t piece = (int32_t)(chunk * r->p.stages + stage);
    r->list[stage][r->n[stage]++] = (Action){kind, piece, (int32_t)micro};
}

static void list_1f1b(Run *r, int64_t s)
{
    const int64_t m = r->p.micro_batches, warm = r->p.stages - 1 - s < m ? r->p.stages - 1 - s : m;
    const bool apart = r->p.schedule == ZB_H1;
    for (int64_t i = 0; i < warm; i++)
        push(r, s, F, 0, i);
    for (int64_t i = 0; i < m; i++) {
        if (i + warm < m)
            push(r, s, F, 0, i + warm);
        push(r, s, B, 0, i);
        if (apart && i >= s)
            push(r, s, W, 0, i - s);
    }
    for (int64_t i = m > s ? m - s : 0; apart && i < m; i++)
        push(r, s, W, 0, i);
}

/* The schedule of Narayanan et al. 2021: p micro-batches of a chunk at a time. Returns the i-th
 * forward (or backward) action of a stage. */
static void push_interleaved(Run *r, int64_t s, Kind kind, int64_t i)
{
    const int64_t p = r->p.stages, v = r->p.chunks, group = i / (p * v), within = i % (p * v);
    const int64_t chunk = kind == F ? within / p : v - 1 - within / p;
    push(r, s, kind, chunk, group * p + within % p);
}

static void list_interleaved(Run *r, int64_t s)
{
    const int64_t p = r->p.stages, v = r->p.chunks, n = r->p.micro_batches * v;
    int64_t warm = 2 * (p - 1 - s) + (v - 1) * p;
    warm = warm < n ? warm : n;
    for (int64_t i = 0; i < warm; i++)
        push_interleaved(r, s, F, i);
    for (int64_t i = 0; i < n; i++) {
        if (i + warm < n)
            push_interleaved(r, s, F, i + warm);
        push_interleaved(r, s, B, i);
    }
}

/* The time at which what an action needs has arrived; negative: it has not been sent yet. */
static double ready(const Run *r, Action a)
{
    const int64_t m = r->p.micro_batches, last = r->pieces - 1;
    if (a.kind == W || (a.kind == F && a.piece == 0))
        return 0;
    if (a.kind == B && a.piece == last)
        return r->done[F][last * m + a.micro];
    const double sent = a.kind == F ? r->done[F][(a.piece - 1) * m + a.micro]
                                    : r->done[B][(a.piece + 1) * m + a.micro];
    return sent < 0 ? sent : sent + r->p.message;
}

static bool advance(Run *r, int64_t s)
{
    bool moved = false;
    for (; r->at[s] < r->n[s]; r->at[s]++) {
        const Action a = r->list[s][r->at[s]];
        const double from = ready(r, a);
        if (from < 0)
            break;
        const double *cost = a.kind == F ? r->p.forward : a.kind == B ? r->p.backward : r->p.weight;
        r->clock[s] = fmax(r->clock[s], from) + cost[a.piece];
        r->done[a.kind][a.piece * r->p.micro_batches + a.micro] = r->clock[s];
        moved = true;
    }
    return moved;
}

double pipeline_run(Pipeline p)
{
    Run run = {.p = p, .pieces = p.stages * p.chunks, .arena = dt_arena_new()};
    const int64_t cells = run.pieces * p.micro_batches, per_stage = 3 * p.chunks * p.micro_batches;
    for (int k = F; k <= W; k++) {
        run.done[k] = DT_NEW_ARRAY(run.arena, double, cells);
        for (int64_t i = 0; i < cells; i++)
            run.done[k][i] = -1;
    }
    run.list = DT_NEW_ARRAY(run.arena, Action *, p.stages);
    run.n = DT_NEW_ARRAY(run.arena, int64_t, p.stages);
    run.at = DT_NEW_ARRAY(run.arena, int64_t, p.stages);
    run.clock = DT_NEW_ARRAY(run.arena, double, p.stages);
    for (int64_t s = 0; s < p.stages; s++) {
        run.list[s] = DT_NEW_ARRAY(run.arena, Action, per_stage);
        if (p.schedule == INTERLEAVED)
            list_interleaved(&run, s);
        else
            list_1f1b(&run, s);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int64_t s = 0; s < p.stages; s++)
            moved |= advance(&run, s);
    }
    double end = 0;
    for (int64_t s = 0; s < p.stages; s++) {
        if (run.at[s] < run.n[s])
            abort(); /* the schedule waits for itself */
        end = fmax(end, run.clock[s]);
    }
    dt_arena_free(run.arena);
    return end;
}
