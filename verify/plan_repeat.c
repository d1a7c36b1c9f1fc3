/* SPDX-License-Identifier: Apache-2.0 */
/* Skips loop iterations that repeat earlier ones, so that the walk over a plan does not grow
 * with the number of iterations.
 *
 * Each iteration logs the locations that it read or tested for zero, with the time at which each
 * was written. Let p be the period: 1, or the number of slots that are used in turn. If
 * iteration i reads the same locations as iteration i - p, each written either before the loop
 * or exactly p iterations earlier, then all later iterations repeat as well, provided that
 *
 *   - addresses are linear in the loop's register, and the other registers take the same values in
 *     each iteration;
 *   - two accesses with different steps, one of which writes, never overlap during the whole loop,
 *     and two with equal steps overlap in adjacent iterations or never: otherwise a write could hit
 *     what a later iteration reads;
 *   - guards decide alike in each iteration.
 *
 * The walk then continues after the last repeating iteration: the writes of the iteration that
 * ran last are moved there, and locations that the skipped iterations may have overwritten count
 * as unknown. */
#include "verify/plan_internal.h"

#include <string.h>

enum { SHORT = 6, TRIED = 64, LONGEST_PERIOD = 9, MOST_ACCESSES = 4096 };

void dt_certplan_log(PlanWalk *walk, uint64_t stamp)
{
    if (walk->watched)
        DT_PUSH(walk->arena, walk->log, ((PlanLog){stamp, ++walk->clock}));
}

/* ---- addresses ---- */

/* One access of an iteration to memory. step: by how many bytes it moves from one iteration to the
 * next. */
typedef struct Access {
    const DtPlanArg *arg;
    /* range of bytes in the current iteration, if inner registers are 0 */
    int64_t lo, hi, step;
    int64_t below, above; /* how much further inner registers may reach */
    bool written, far;    /* far: further than any memory, so that 64 bits might overflow */
} Access;
typedef DT_VEC(Access) Accesses;

/* The range of values of each register where an instruction is. */
typedef struct Spans {
    int64_t lo[DT_PLAN_REGS], hi[DT_PLAN_REGS];
} Spans;

/* Finds the values of registers inside of the loop, whose items are between `at` and `end`; the
 * register of the ring takes all its values. False: the items set other registers than those of
 * loops and of the ring. */
static bool spans_of(const PlanWalk *walk, const PlanRepeat *repeat, Spans *ret_spans)
{
    for (uint32_t r = 0; r < DT_PLAN_REGS; r++)
        ret_spans->lo[r] = ret_spans->hi[r] = walk->count[r] ? 0 : walk->reg[r];
    for (uint32_t i = repeat->at + 1; i < repeat->end; i++) {
        const DtPlanSchedule *item = &walk->plan->schedule[i];
        const bool loops = item->kind == DT_SCHED_LOOP, sets = item->kind == DT_SCHED_SET;
        if (repeat->reg != 0 && item->kind != DT_SCHED_RUN && !loops && item->kind != DT_SCHED_END)
            return false; /* a gather ahead names its iteration by number */
        if (item->kind == DT_SCHED_CALL || (sets && item->reg != DT_PLAN_REG_RINGBUF))
            return false;
        if (!sets)
            continue;
        int64_t *lo = &ret_spans->lo[item->reg], *hi = &ret_spans->hi[item->reg];
        *lo = *lo > 0 ? 0 : *lo;
        *hi = *hi < item->count - 1 ? item->count - 1 : *hi;
    }
    return true;
}

/* Sets the values of an inner loop's register to those of the loop while its items are listed. The
 * caller sets them to 0 after it, so that other loops may use the register. */
static void enter(Spans *spans, const DtPlanSchedule *loop)
{
    const int64_t last = loop->first + (int64_t)loop->step * (loop->count - 1);
    spans->lo[loop->reg] = last < loop->first ? last : loop->first;
    spans->hi[loop->reg] = last < loop->first ? loop->first : last;
}

static void leave(Spans *spans, const DtPlanSchedule *loop)
{
    spans->lo[loop->reg] = spans->hi[loop->reg] = 0;
}

/* Adds a * b to *to; terms of all iterations together must stay far within 64 bits. */
static void add_product(Access *access, int64_t a, int64_t b, int64_t *to)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product) || product < -PLAN_BYTES || product > PLAN_BYTES)
        access->far = true;
    else
        *to += product;
}

/* Adds a * b to *below if it is negative, otherwise to *above. */
static void add_reach(Access *access, int64_t a, int64_t b, int64_t *below, int64_t *above)
{
    add_product(access, a, b, (a < 0) != (b < 0) ? below : above);
}

static Access access_of(const PlanWalk *walk, const PlanRepeat *repeat, const DtPlanArg *arg,
                        const Spans *spans)
{
    const int64_t *lo = spans->lo, *hi = spans->hi;
    Access access = {.arg = arg, .written = arg->written};
    int64_t all = 0; /* how far the access moves during all iterations */
    add_product(&access, arg->base, 1, &access.lo);
    add_product(&access, arg->bytes, 1, &access.hi);
    access.hi += access.lo;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++) {
        if (arg->reg[r] == 0)
            continue;
        const bool rises = arg->reg[r] > 0;
        add_product(&access, arg->reg[r],
                    r == repeat->reg ? walk->reg[r]
                    : rises          ? lo[r]
                                     : hi[r],
                    &access.lo);
        add_product(&access, arg->reg[r],
                    r == repeat->reg ? walk->reg[r]
                    : rises          ? hi[r]
                                     : lo[r],
                    &access.hi);
        add_reach(&access, arg->reg[r], walk->count[r] ? walk->count[r] - 1 : 0, &access.below,
                  &access.above);
    }
    for (uint32_t c = 0; c < DT_PLAN_COORDS; c++)
        if (arg->coord[c])
            add_reach(&access, arg->coord[c],
                      (int64_t)walk->plan->mesh[arg->coord_axis[c]].size - 1, &access.below,
                      &access.above);
    if (repeat->reg < DT_PLAN_ARG_REGS) {
        add_product(&access, arg->reg[repeat->reg], repeat->step, &access.step);
        add_product(&access, access.step, repeat->count, &all);
    }
    return access;
}

/* Lists the accesses of an instruction; false as for list_accesses. */
static bool list_inst(PlanWalk *walk, const PlanRepeat *repeat, const DtPlanInst *inst,
                      const Spans *spans, Accesses *ret_all)
{
    for (uint32_t a = 0; a < inst->n_args; a++) {
        const DtPlanArg *arg = &walk->plan->args[inst->first_arg + a];
        if (arg->kind != DT_ARG_ADDRESS)
            continue;
        const Access access = access_of(walk, repeat, arg, spans);
        if (access.far || ret_all->n >= MOST_ACCESSES)
            return false;
        DT_PUSH(walk->arena, *ret_all, access);
    }
    return true;
}

/* Lists the accesses of a body; false as for list_accesses. Of a product with two forms it lists
 * those of the form that this walk executes: PlanWalk.added knows only the arguments of that
 * form. */
static bool list_body(PlanWalk *walk, const PlanRepeat *repeat, const DtPlanBody *body,
                      const Spans *spans, Accesses *ret_all)
{
    const DtPlan *plan = walk->plan;
    bool near = true;
    for (uint32_t k = 0; near && k < body->n_insts; k++) {
        const uint32_t at = body->first_inst + k, instead = plan->insts[at].instead;
        const bool second = walk->second && instead;
        const uint32_t first = second ? plan->bodies[instead - 1].first_inst : at,
                       n = second ? plan->bodies[instead - 1].n_insts : 1;
        for (uint32_t i = 0; near && i < n; i++)
            near = list_inst(walk, repeat, &plan->insts[first + i], spans, ret_all);
    }
    return near;
}

/* Lists the accesses of an iteration; false: there are too many, or one is further than any
 * memory. */
static bool list_accesses(PlanWalk *walk, const PlanRepeat *repeat, Accesses *ret_all)
{
    const DtPlan *plan = walk->plan;
    const DtPlanSchedule *open[DT_PLAN_REGS];
    uint32_t n_open = 0;
    Spans spans;
    bool near = spans_of(walk, repeat, &spans);
    for (uint32_t i = repeat->at + 1; near && i < repeat->end; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        if (item->kind == DT_SCHED_LOOP && n_open == DT_PLAN_REGS)
            return false;
        if (item->kind == DT_SCHED_LOOP)
            enter(&spans, open[n_open++] = item);
        if (item->kind == DT_SCHED_END)
            leave(&spans, open[--n_open]);
        if (item->kind == DT_SCHED_RUN)
            near = list_body(walk, repeat, &plan->bodies[item->body], &spans, ret_all);
    }
    return near;
}

/* Whether both arguments depend in the same way on coordinates, and on registers without a
 * value. */
static bool depends_alike(const PlanWalk *walk, const DtPlanArg *a, const DtPlanArg *b)
{
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        if (walk->count[r] && a->reg[r] != b->reg[r])
            return false;
    return memcmp(a->coord, b->coord, sizeof a->coord) == 0 &&
           memcmp(a->coord_axis, b->coord_axis, sizeof a->coord_axis) == 0;
}

/* Whether two accesses never overlap, or overlap only in the same and in adjacent iterations,
 * always in the same way. */
static bool apart(const PlanWalk *walk, const Access *a, const Access *b, int64_t count)
{
    const int64_t most_a = a->step * (count - 1), most_b = b->step * (count - 1);
    if (a->arg->arena != b->arg->arena)
        return true;
    const bool alike = depends_alike(walk, a->arg, b->arg);
    int64_t lo_a = a->lo + (most_a < 0 ? most_a : 0), hi_a = a->hi + (most_a > 0 ? most_a : 0),
            lo_b = b->lo + (most_b < 0 ? most_b : 0), hi_b = b->hi + (most_b > 0 ? most_b : 0);
    if (!alike) {
        lo_a += a->below, hi_a += a->above;
        lo_b += b->below, hi_b += b->above;
    }
    if (hi_a <= lo_b || hi_b <= lo_a)
        return true;
    if (a->step != b->step || !alike)
        return a->step == 0 && b->step == 0;
    if (a->step == 0)
        return true;
    const int64_t step = a->step < 0 ? -a->step : a->step;
    int64_t least = dt_cert_down(a->lo - b->hi, step) + 1,
            most = -dt_cert_down(b->lo - a->hi, step) - 1;
    /* they overlap if b's iteration is between so many earlier and later than a's */
    least = least < 1 - count ? 1 - count : least;
    most = most > count - 1 ? count - 1 : most;
    for (int64_t away = least; away <= most; away++)
        if ((away < -1 || away > 1) && away > -count && away < count)
            return false;
    return true;
}

static bool moves_evenly(const PlanWalk *walk, const Accesses *all, int64_t count)
{
    bool still = true;
    for (uint32_t i = 0; i < all->n; i++)
        still = still && all->at[i].step == 0;
    for (uint32_t i = 0; !still && i < all->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if ((all->at[i].written || all->at[k].written) &&
                !apart(walk, &all->at[i], &all->at[k], count))
                return false;
    return true;
}

/* Whether no access depends on registers of outer loops, so that the result of the analysis holds
 * in all of their iterations. */
static bool is_fixed(const PlanWalk *walk, const PlanRepeat *repeat, const Accesses *all)
{
    for (uint32_t i = 0; i < all->n; i++)
        for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
            if ((walk->taken[r] || r == DT_PLAN_REG_RINGBUF) && r != repeat->reg &&
                all->at[i].arg->reg[r])
                return false;
    return true;
}

static bool may_again(PlanWalk *walk, const PlanRepeat *repeat)
{
    PlanWatched *known = &walk->loops[repeat->at];
    if (known->entry == walk->at_entry)
        return known->may;
    Accesses all = {0};
    const bool may = list_accesses(walk, repeat, &all) && moves_evenly(walk, &all, repeat->count);
    if (is_fixed(walk, repeat, &all))
        *known = (PlanWatched){walk->at_entry, may};
    return may;
}

/* ---- the log ---- */

void dt_certplan_watch(PlanWalk *walk, PlanRepeat *repeat, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    *repeat = (PlanRepeat){.at = at, .end = end, .reg = item->reg, .count = item->count,
                           .step = item->step};
    repeat->begin = ++walk->clock;
    if (item->count < SHORT || walk->whole)
        return;
    walk->reg[item->reg] = item->first;
    repeat->may = may_again(walk, repeat);
    walk->watched += repeat->may;
}

void dt_certplan_turn(PlanWalk *walk, PlanRepeat *repeat)
{
    if (!repeat->may)
        return;
    /* the slot of the ring, which is_same compares */
    dt_certplan_log(walk, (uint64_t)walk->reg[DT_PLAN_REG_RINGBUF]);
    DT_PUSH(walk->arena, repeat->marks, walk->log.n - 1);
    DT_PUSH(walk->arena, repeat->clocks, walk->clock);
}

void dt_certplan_watched(PlanWalk *walk, const PlanRepeat *repeat)
{
    walk->watched -= repeat->may;
    if (!walk->watched)
        walk->log.n = 0;
}

/* Whether iteration t read the same values as iteration t - period, relative to the iteration. The
 * first log entry of each is the ring's slot. */
static bool is_same(const PlanWalk *walk, const PlanRepeat *repeat, uint32_t t, uint32_t period)
{
    const uint32_t a = repeat->marks.at[t - period], b = repeat->marks.at[t],
                   end = t + 1 < repeat->marks.n ? repeat->marks.at[t + 1] : walk->log.n;
    if (end - b != repeat->marks.at[t - period + 1] - a ||
        walk->log.at[a].stamp != walk->log.at[b].stamp)
        return false;
    const uint64_t oldest = repeat->clocks.at[t - period];
    for (uint32_t i = 1; i < end - b; i++) {
        const PlanLog *x = &walk->log.at[a + i], *y = &walk->log.at[b + i];
        const bool outside = y->stamp < repeat->begin;
        if (outside ? x->stamp != y->stamp
                    : y->stamp < oldest || x->clock - x->stamp != y->clock - y->stamp)
            return false;
    }
    return true;
}

/* The last iteration up to which guards decide as they do in iterations from .. t. */
static int64_t last_of(const PlanWalk *walk, const PlanRepeat *repeat, int64_t from, int64_t t)
{
    const DtPlanSchedule *loop = &walk->plan->schedule[repeat->at];
    int64_t last = repeat->count - 2;
    for (uint32_t i = repeat->at + 1; i < repeat->end; i++) {
        const DtPlanSchedule *item = &walk->plan->schedule[i];
        if (item->kind != DT_SCHED_WHEN || item->reg != repeat->reg)
            continue;
        const int64_t edge[] = {item->first, (int64_t)item->first + item->count};
        for (uint32_t e = 0; e < 2; e++) { /* the first iteration on the other side of the guard's
                                            * limit */
            const int64_t turn = loop->step > 0 ? edge[e] - loop->first : loop->first - edge[e] + 1;
            if (turn > from && turn <= t)
                return -1;
            if (turn > t && turn - 1 < last)
                last = turn - 1;
        }
    }
    return last;
}

/* ---- leaving out ---- */

/* The bytes that an access of iteration t writes in iterations t + 1 .. to. */
static PlanPlace hull_of(const PlanWalk *walk, const Access *access, int64_t t, int64_t to)
{
    const int64_t next = access->step, last = access->step * (to - t);
    PlanPlace hull;
    dt_certplan_arg(walk, access->arg, &hull); /* takes arena, registers and coordinates from the
                                                * argument */
    hull.base = access->lo + (next < last ? next : last);
    hull.bytes = access->hi + (next < last ? last : next) - hull.base;
    return hull;
}

static bool moves_with(const PlanRepeat *repeat, const DtPlanArg *arg)
{
    return repeat->reg < DT_PLAN_ARG_REGS && arg->reg[repeat->reg] != 0;
}

/* Whether iterations t + 1 .. to may be skipped while collectives are in flight: their places do
 * not move with the iterations, and the skipped iterations do not write them. */
static bool passes_by(PlanWalk *walk, const PlanRepeat *repeat, int64_t t, int64_t to)
{
    Accesses all = {0};
    bool passes = !walk->started.n || list_accesses(walk, repeat, &all);
    for (uint32_t f = 0; passes && f < walk->started.n; f++) {
        const PlanStarted *started = &walk->started.at[f];
        passes = started->stamp < repeat->begin ||
                 (!moves_with(repeat, started->to_arg) && !moves_with(repeat, started->from_arg));
        for (uint32_t i = 0; passes && i < all.n; i++) {
            const PlanPlace hull = hull_of(walk, &all.at[i], t, to);
            passes = !all.at[i].written || all.at[i].step == 0 ||
                     (!dt_certplan_meets(walk, &started->to, &hull) &&
                      !dt_certplan_meets(walk, &started->from, &hull));
        }
    }
    return passes;
}

/* Forgets the contents of memory that iterations t + 1 .. to may have overwritten, except for
 * writes since time `first`. Writes at fixed addresses have already happened. */
static void spoil_hull(PlanWalk *walk, const PlanRepeat *repeat, int64_t t, int64_t to,
                       uint64_t first)
{
    Accesses all = {0};
    if (!list_accesses(walk, repeat, &all)) /* the accesses of iteration t */
        dt_certplan_fail(walk, "a loop reaches what no memory has");
    for (uint32_t i = 0; i < all.n; i++) {
        const Access *access = &all.at[i];
        /* it accumulates, so the place holds a sum over these iterations */
        const bool adds = walk->added[access->arg - walk->plan->args] >= first;
        if (!access->written || access->step == 0 || adds)
            continue;
        const PlanPlace hull = hull_of(walk, access, t, to);
        dt_certplan_spoil_old(walk, &hull, first);
        dt_certplan_wrote(walk, &hull);
    }
}

/* Moves the regions that were written since `first` to the addresses that they have `away`
 * iterations later. */
static void move(PlanWalk *walk, const PlanRepeat *repeat, int64_t away, uint64_t first)
{
    for (uint32_t a = 0; repeat->reg < DT_PLAN_ARG_REGS && a < DT_COUNT(walk->memory); a++) {
        const uint32_t n = walk->memory[a].n;
        PlanRegion **old = DT_NEW_ARRAY(walk->scratch, PlanRegion *, n + 1);
        for (uint32_t i = 0; i < n; i++)
            old[i] = walk->memory[a].at[i];
        for (uint32_t i = 0; i < n; i++) {
            const int64_t step = old[i]->alive && old[i]->stamp >= first && old[i]->arg
                                     ? old[i]->arg->reg[repeat->reg] * repeat->step * away : 0;
            if (!step)
                continue;
            PlanRegion *moved = DT_NEW(walk->scratch, PlanRegion);
            *moved = *old[i];
            old[i]->alive = false;
            moved->place.base += step;
            moved->met = 0;
            if (moved->of) {
                PlanRegion **list = (PlanRegion **)(uintptr_t)moved->of;
                moved->next = *list;
                *list = moved;
            }
            dt_certplan_push_region(walk, moved);
        }
    }
}

static void renumber(PlanWalk *walk, const PlanRepeat *repeat, int64_t t, int64_t to,
                     uint32_t period)
{
    const DtPlanSchedule *loop = &walk->plan->schedule[repeat->at];
    for (int64_t k = 0; k < period; k++) {
        PlanFrame *frame = walk->frame;
        const int64_t from = loop->first + loop->step * (t - k),
                      number = loop->first + loop->step * (to - k);
        if (repeat->reg == 0)
            frame = walk->entries.n ? walk->entries.at[walk->entries.n - 1] : NULL;
        frame = frame
                    ? dt_certplan_has_frame(
                          walk, frame->outer,
                          frame->kind == PLAN_ENTRY ? (const void *)frame->entry : frame->op, from)
                    : NULL;
        if (frame)
            dt_certplan_renumber(walk, frame, number);
    }
}

static bool repeats(const PlanWalk *walk, const PlanRepeat *repeat, int64_t t, uint32_t period)
{
    for (uint32_t k = 0; k < period; k++)
        if (!is_same(walk, repeat, (uint32_t)t - k, period))
            return false;
    return true;
}

int64_t dt_certplan_repeats(PlanWalk *walk, PlanRepeat *repeat, int64_t t)
{
    const uint32_t longest = repeat->reg == 0 ? LONGEST_PERIOD : 1;
    if (!repeat->may || repeat->to || t + 1 >= repeat->count - 1)
        return 0;
    if (t > TRIED) {
        repeat->may = false;
        dt_certplan_watched(walk, &(PlanRepeat){.may = true});
        return 0;
    }
    for (uint32_t period = 1; period <= longest && 2 * (int64_t)period <= t; period++) {
        const int64_t last = repeats(walk, repeat, t, period)
                                 ? last_of(walk, repeat, t - 2 * period + 1, t)
                                 : -1,
                      away = last > t ? (last - t) / period * period : 0;
        if (away == 0 || !passes_by(walk, repeat, t, t + away))
            continue;
        const uint64_t first = repeat->clocks.at[t - period + 1];
        spoil_hull(walk, repeat, t, t + away, first);
        move(walk, repeat, away, first);
        renumber(walk, repeat, t, t + away, period);
        repeat->from = t;
        repeat->to = t + away;
        if (repeat->reg == 0 && walk->entries.n)
            dt_certplan_add_terms(walk->entries.at[walk->entries.n - 1], away);
        dt_certplan_log(walk, (uint64_t)away);
        return away;
    }
    return 0;
}
