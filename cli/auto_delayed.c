/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a schedule with delayed weight gradients must keep, from a plan that computes
 * them at once. An instruction can be delayed if only gradients depend on it
 * (passes/pipeline/wgrad.c decides that for ops). Walking backwards from the end of a part of
 * the step: it can be delayed if no instruction that cannot reads what it writes before that is
 * overwritten, and none in another part does. Operands of delayed instructions that other
 * instructions wrote are kept for them. */
#include "cli/auto.h"

#include "plan/report/spans.h"
#include "plan/report/walk.h"

/* TURNS: iterations of loops that are read: a first one, one that stands for all, a last one. SUM:
 * a sum is so many times smaller than its operands */
enum { SUM = 4, TURNS = 3, MOST_WORK = 1 << 20, NONE = -1 };

typedef struct Delayed {
    DtWalk walk;
    /* by run of an instruction: 2 i + 1 in loop i, 2 i in the part before loop i; NONE: the run
     * does not count */
    DT_VEC(uint32_t) parts;
    DT_VEC(uint32_t) ends;  /* number of runs at the end of a part, or of an iteration of a loop */
    uint32_t part;
    bool last, counts;      /* inside the last micro-batch; inside an iteration that counts */
} Delayed;

static void mark(Delayed *l)
{
    DT_PUSH(l->walk.arena, l->ends, l->walk.runs.n);
    while (l->parts.n < l->walk.runs.n)
        DT_PUSH(l->walk.arena, l->parts, l->counts ? l->part : (uint32_t)NONE);
}

static int64_t turns_of(const DtPlanSchedule *loop)
{
    return loop->count < TURNS ? loop->count : TURNS;
}

/* Called by the walk at the start of an iteration or entry: sets in which part of the step the next
 * instructions are, and whether they count. Register 0 counts micro-batches, register 1 layers. */
static void enter(DtWalk *w, uint32_t item, int64_t turn, uint32_t depth)
{
    Delayed *l = w->context;
    const DtPlanSchedule *s = &w->plan->schedule[item];
    (void)depth;
    mark(l);
    if (s->kind == DT_SCHED_LOOP && s->reg == 1) {
        l->part += turn == 0;
        l->counts = l->last && turn == (s->count >= TURNS ? 1 : 0);
    } else if (s->kind == DT_SCHED_LOOP && s->reg == 0) {
        l->part = 0;
        l->counts = l->last = turn + 1 == turns_of(s);
    }
}

static void leave(DtWalk *w, uint32_t item, int64_t turn, uint32_t depth)
{
    Delayed *l = w->context;
    const DtPlanSchedule *s = &w->plan->schedule[item];
    (void)depth;
    mark(l);
    if (s->kind == DT_SCHED_LOOP && s->reg == 1) {
        l->part += turn + 1 == turns_of(s);
        l->counts = l->last;
    }
}

/* ---- backwards ---- */

/* the memory that later runs of the step read: runs that stay where they are, and delayed ones */
typedef struct Sets { DtSpans early, delayed; } Sets;

/* When a run's results are needed. DEAD: never, since the last iteration only passes them on;
 * EARLY: by backward itself; DELAYED: by delayed weight gradients alone. */
typedef enum When { DEAD, EARLY, DELAYED } When;

static When when_of(const DtWalkRange *ranges, uint32_t n, const Sets *sets)
{
    When when = DEAD;
    for (uint32_t r = 0; r < n && when != EARLY; r++) {
        const DtWalkRange *range = &ranges[r];
        if (!range->written)
            continue;
        const bool is_temporary = range->kind == DT_ARENA_ACTIVATIONS;
        if (is_temporary ? dt_spans_meet(&sets->early, range->from, range->to)
                         : range->kind != DT_ARENA_GRADS)
            when = EARLY;
        else if (!is_temporary || dt_spans_meet(&sets->delayed, range->from, range->to))
            when = DELAYED;
    }
    return when;
}

/* Returns the further bytes of a delayed run that sums products of several values, such as the
 * gradient of a gain: the products are computed in f32, for the cotangents too, and kept in f32. */
static int64_t wider(const DtWalkRange *ranges, uint32_t n)
{
    int64_t sums = 0, most = 0, read = 0, several = 0;
    for (uint32_t r = 0; r < n; r++) {
        const int64_t bytes = ranges[r].to - ranges[r].from;
        const bool reads = ranges[r].read && ranges[r].kind == DT_ARENA_ACTIVATIONS;
        sums += ranges[r].written ? bytes : 0;
        most = reads && bytes > most ? bytes : most;
    }
    for (uint32_t r = 0; r < n; r++) {
        const int64_t bytes = ranges[r].to - ranges[r].from;
        const bool large =
            ranges[r].read && ranges[r].kind == DT_ARENA_ACTIVATIONS && bytes == most;
        several += large;
        read += large ? bytes : 0;
    }
    return sums < most / SUM && several > 1 ? read : 0;
}

/* Marks the values that delayed runs read as early when a part ends: values that a part returns for
 * later parts are not its gradients, whatever reads them. */
static void end_part(Sets *sets)
{
    for (uint32_t i = 0; i < sets->delayed.spans.n; i++)
        dt_spans_add(&sets->early, sets->delayed.spans.at[i].from, sets->delayed.spans.at[i].to);
}

/* Updates the sets for one run, going backwards. Returns by how much the memory grows that delayed
 * instructions need and do not compute themselves. */
static int64_t pass(Sets *sets, const DtWalkRange *ranges, uint32_t n)
{
    const When when = when_of(ranges, n, sets);
    int64_t more = when == DELAYED ? wider(ranges, n) : 0, before = sets->delayed.bytes;
    if (when == DEAD)
        return 0;
    for (uint32_t r = 0; r < n; r++)
        if (ranges[r].written && ranges[r].kind == DT_ARENA_ACTIVATIONS) {
            dt_spans_remove(&sets->early, ranges[r].from, ranges[r].to);
            dt_spans_remove(&sets->delayed, ranges[r].from, ranges[r].to);
        }
    more += when == DELAYED ? sets->delayed.bytes - before : 0;
    before = sets->delayed.bytes;
    for (uint32_t r = 0; r < n; r++)
        if (ranges[r].read && ranges[r].kind == DT_ARENA_ACTIVATIONS)
            dt_spans_add(when == EARLY ? &sets->early : &sets->delayed, ranges[r].from,
                         ranges[r].to);
    return more + sets->delayed.bytes - before;
}

/* ---- after all loops ---- */

/* Bytes made by forward and read by backward, in the part after all loops: read, and not written
 * before, after the first instruction of that part that writes a scalar, the loss. */
static int64_t kept_behind(const Delayed *l, uint32_t part)
{
    DtSpans live = {.arena = l->walk.arena};
    uint32_t from = 0, to, loss = NONE;
    while (from < l->walk.runs.n && l->parts.at[from] != part)
        from++;
    for (to = from; to < l->walk.runs.n && l->parts.at[to] == part; to++)
        for (uint32_t r = 0; r < l->walk.runs.at[to].n; r++) {
            const DtWalkRange *range = &l->walk.ranges.at[l->walk.runs.at[to].first + r];
            loss = loss == (uint32_t)NONE && range->written && range->kind == DT_ARENA_SCALARS
                       ? to
                       : loss;
        }
    for (uint32_t i = to; loss != (uint32_t)NONE && i-- > loss + 1;) {
        const DtWalkRun *run = &l->walk.runs.at[i];
        const DtWalkRange *ranges = l->walk.ranges.at + run->first;
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].written && ranges[r].kind == DT_ARENA_ACTIVATIONS)
                dt_spans_remove(&live, ranges[r].from, ranges[r].to);
        for (uint32_t r = 0; r < run->n; r++)
            if (ranges[r].read && ranges[r].kind == DT_ARENA_ACTIVATIONS)
                dt_spans_add(&live, ranges[r].from, ranges[r].to);
    }
    return live.bytes;
}

/* Bytes of parameters that are read both before the first loop (parts 0 and 4 n) and in a later
 * part outside of loops: a table that is also the head's matrix. */
static int64_t tied_of(const Delayed *l, uint32_t n)
{
    DtSpans front = {.arena = l->walk.arena}, behind = {.arena = l->walk.arena};
    for (uint32_t i = 0; i < l->walk.runs.n; i++) {
        const DtWalkRun *run = &l->walk.runs.at[i];
        const uint32_t part = l->parts.at[i];
        for (uint32_t r = 0; r < run->n && part != (uint32_t)NONE && part % 2 == 0; r++) {
            const DtWalkRange *range = &l->walk.ranges.at[run->first + r];
            if (range->kind == DT_ARENA_PARAMS && range->read)
                dt_spans_add(part == 0 || part == 4 * n ? &front : &behind, range->from, range->to);
        }
    }
    const int64_t both = front.bytes + behind.bytes;
    for (uint32_t i = 0; i < front.spans.n; i++)
        dt_spans_add(&behind, front.spans.at[i].from, front.spans.at[i].to);
    return both - behind.bytes;
}

void dt_auto_read_delayed(DtArena *arena, const DtPlan *plan, const DtSpace *space, DtCard *card)
{
    DtArena *scratch = dt_arena_child(arena);
    const uint32_t n = space->n_loops, n_parts = 4 * n + 1;
    Delayed l = {.walk = {.arena = scratch, .plan = plan, .most_turns = TURNS, .work = MOST_WORK,
                          .enter = enter, .leave = leave}, .last = true, .counts = true};
    double *kept = DT_NEW_ARRAY(scratch, double, n_parts);
    Sets sets = {.early.arena = scratch, .delayed.arena = scratch};
    l.walk.context = &l;
    dt_walk_entry(&l.walk, plan->objectives[0].step);
    mark(&l);
    for (uint32_t i = l.walk.runs.n; i-- > 0;) {
        const DtWalkRun *run = &l.walk.runs.at[i];
        for (; l.ends.n && l.ends.at[l.ends.n - 1] > i; l.ends.n--)
            end_part(&sets);
        const int64_t more = pass(&sets, l.walk.ranges.at + run->first, run->n);
        if (l.parts.at[i] < n_parts)
            kept[l.parts.at[i]] += (double)more;
    }
    for (uint32_t i = 0; i < n; i++)
        card->delayed[i] = kept[2 * (2 * n - 1 - i) + 1];
    for (uint32_t i = n; i < 2 * n; i++)
        card->delayed_back += kept[2 * i];
    card->delayed_front = kept[4 * n];
    card->saved_back = (double)kept_behind(&l, 2 * n);
    for (int k = 0; k < 3 && card->rest[0] > 0; k++)
        card->tied[k] = (double)tied_of(&l, n) / card->rest[0] * card->rest[k];
    dt_arena_free(scratch);
}
