/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of the simulation over a stage's schedule. It simulates repetitions only once.
 *
 * The state of a stage is how long its queues and events will still be busy, counted from now.
 * Assume that the iterations of a loop do the same, and that one of them begins in the same state
 * as an earlier one. Then the iterations between these two repeat with the same times. They are
 * not simulated again: the clocks and the sums are advanced by what they took. The same is done for
 * a piece of a pipeline that is called in a state in which it was called before. So the time of a
 * simulation grows with the number of different iterations, not with that of all iterations. */
#include "plan/report/simulate_internal.h"

#include <math.h>
#include <string.h>

enum { HISTORY = 12, MOST_WHENS = 32, MOST_MEMOS = 64, SIM_STEADY = 1, SIM_SAME = 2 };
static const double SAME = 1e-10; /* seconds that count as no difference */

/* ---- properties of the schedule ---- */

/* Returns the bits of the registers that the items set themselves, by loops or otherwise. */
static uint32_t sets(const DtPlan *plan, uint32_t from, uint32_t to)
{
    uint32_t bits = 0;
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        const DtPlanEntry *called = s->kind == DT_SCHED_CALL ? &plan->entries[s->body] : NULL;
        if (s->kind == DT_SCHED_LOOP || s->kind == DT_SCHED_SET)
            bits |= 1u << s->reg;
        if (called)
            bits |= sets(plan, called->first, called->first + called->count);
    }
    return bits;
}

/* Whether items depend on one of the registers `on` other than by a WHEN. derived: registers
 * computed from them. */
static bool depends(const DtPlan *plan, uint32_t from, uint32_t to, uint32_t on, uint32_t derived)
{
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        if (s->kind == DT_SCHED_SET && s->reg != DT_PLAN_REG_RINGBUF &&
            ((s->step && (on | derived) >> s->body & 1) ||
             (s->plus && (on | derived) >> s->plus & 1)))
            derived |= 1u << s->reg;
        if (s->kind == DT_SCHED_WHEN && derived >> s->reg & 1)
            return true;
        const DtPlanEntry *called = s->kind == DT_SCHED_CALL ? &plan->entries[s->body] : NULL;
        if (called && depends(plan, called->first, called->first + called->count, on, derived))
            return true;
        if (s->kind != DT_SCHED_RUN)
            continue;
        const DtPlanBody *body = &plan->bodies[s->body];
        for (uint32_t k = body->first_inst; k < body->first_inst + body->n_insts; k++) {
            const DtPlanInst *inst = &plan->insts[k];
            for (uint32_t g = 0; g < inst->guards; g++) {
                const DtPlanArg *arg = &plan->args[inst->first_arg + inst->n_args - 1 - g];
                for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
                    if (arg->reg[r] && (on | derived) >> r & 1)
                        return true;
            }
        }
    }
    return false;
}

static bool has_waits(const Sim *sim, uint32_t from, uint32_t to)
{
    const DtPlan *plan = sim->plan;
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        if (s->kind != DT_SCHED_RUN)
            continue;
        for (uint32_t k = 0; k < plan->bodies[s->body].n_insts; k++)
            if (dt_sim_waits(sim, &plan->insts[plan->bodies[s->body].first_inst + k]))
                return true;
    }
    return false;
}

static void prepare_loop(Sim *sim, uint32_t begin, uint32_t end)
{
    const DtPlanSchedule *loop = &sim->plan->schedule[begin];
    sim->end_of[begin] = end;
    sim->blocks[begin] = has_waits(sim, begin + 1, end);
    sim->steady[begin] = !depends(sim->plan, begin + 1, end, 1u << loop->reg, 0);
}

void dt_sim_prepare(Sim *sim)
{
    const DtPlan *plan = sim->plan;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const uint32_t first = plan->entries[e].first, end = first + plan->entries[e].count;
        uint32_t open[DT_PLAN_MAX_DEPTH], depth = 0;
        for (uint32_t i = first; i < end; i++)
            if (plan->schedule[i].kind == DT_SCHED_LOOP && depth < DT_PLAN_MAX_DEPTH)
                open[depth++] = i;
            else if (plan->schedule[i].kind == DT_SCHED_END && depth)
                prepare_loop(sim, open[--depth], i);
    }
    for (uint32_t i = 0; i < plan->n_schedule; i++) {
        if (plan->schedule[i].kind != DT_SCHED_CALL)
            continue;
        const DtPlanEntry *entry = &plan->entries[plan->schedule[i].body];
        const uint32_t end = entry->first + entry->count, own = sets(plan, entry->first, end);
        sim->steady[i] = !depends(plan, entry->first, end, ~own, 0) ? SIM_SAME : 0;
    }
}

/* ---- states ---- */

/* Sets ret_state to how long each queue, then each event, will still be busy. */
static void state_of(const Sim *sim, const SimStage *stage, double *ret_state)
{
    for (uint32_t q = 0; q < sim->n_queues; q++)
        ret_state[q] = stage->queue[q] > stage->now ? stage->queue[q] - stage->now : 0;
    for (uint32_t i = 0; i < sim->n_own; i++) {
        const double until = stage->event[sim->own[i]];
        ret_state[sim->n_queues + i] = until > stage->now ? until - stage->now : 0;
    }
}

static void set_state(const Sim *sim, SimStage *stage, const double *state)
{
    for (uint32_t q = 0; q < sim->n_queues; q++)
        stage->queue[q] = stage->now + state[q];
    for (uint32_t i = 0; i < sim->n_own; i++)
        stage->event[sim->own[i]] = stage->now + state[sim->n_queues + i];
}

static bool same_state(const Sim *sim, const double *a, const double *b)
{
    for (uint32_t i = 0; i < sim->n_queues + sim->n_own; i++)
        if (fabs(a[i] - b[i]) > SAME)
            return false;
    return true;
}

void dt_sim_set(SimStage *stage, const DtPlanSchedule *s)
{
    int64_t value = (s->step ? s->step * stage->reg[s->body] : 0) +
                    (s->plus ? stage->reg[s->plus] : 0) + s->first;
    if (s->count)
        value = ((value % s->count) + s->count) % s->count;
    stage->reg[s->reg] = value;
}

/* ---- loops ---- */

typedef struct Past {
    double *state, *sum, now;
    int64_t turn, ring;
    uint32_t n_slices;
} Past;

/* Returns the first iteration after `turn` in which some WHEN decides otherwise, or the loop's
 * count. */
static int64_t same_until(const DtPlan *plan, uint32_t from, uint32_t to,
                          const DtPlanSchedule *loop, int64_t turn)
{
    int64_t until = loop->count;
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        if (s->kind == DT_SCHED_CALL) {
            const DtPlanEntry *e = &plan->entries[s->body];
            const int64_t inside = same_until(plan, e->first, e->first + e->count, loop, turn);
            until = inside < until ? inside : until;
        }
        if (s->kind != DT_SCHED_WHEN || s->reg != loop->reg || loop->step == 0)
            continue;
        for (int k = 0; k < 2; k++) { /* the iterations at which its condition changes */
            const int64_t edge = (k ? (int64_t)s->first + s->count : s->first) - loop->first;
            const int64_t step = loop->step > 0 ? loop->step : -(int64_t)loop->step;
            const int64_t at = ((loop->step > 0 ? edge : 1 - edge) + step - 1) / step;
            if (at > turn && at < until)
                until = at;
        }
    }
    return until;
}

static void remember(const Sim *sim, const SimStage *stage, int64_t turn, Past *past)
{
    state_of(sim, stage, past->state);
    memcpy(past->sum, stage->sum, sim->n_sums * sizeof *past->sum);
    past->now = stage->now;
    past->turn = turn;
    past->ring = stage->reg[DT_PLAN_REG_RINGBUF];
    past->n_slices = sim->slices.n;
}

/* Skips iterations: advances the stage's time and sums by n times their difference between two past
 * states. */
static void leave_out(const Sim *sim, SimStage *stage, const Past *from, const Past *to, double n)
{
    stage->now += n * (to->now - from->now);
    set_state(sim, stage, to->state);
    for (uint32_t i = 0; i < sim->n_sums; i++)
        stage->sum[i] += n * (to->sum[i] - from->sum[i]);
}

static void keep_turns(Sim *sim, const SimStage *stage, int64_t first, double begin, double each,
                       int64_t n)
{
    if (!sim->keeps || !sim->options->slices)
        return;
    for (int64_t i = 0; i < n && sim->slices.n < dt_sim_most(sim); i++)
        DT_PUSH(sim->arena, sim->slices,
                ((DtSlice){begin + (double)i * each, begin + (double)(i + 1) * each, stage->number,
                           0, UINT32_MAX, (int32_t)(first + i), DT_SLICE_PIECE}));
}

/* Returns by how many micro-batches a call of a piece advances from one iteration to the next. */
static int32_t micro_step(const Sim *sim, uint32_t number)
{
    const DtSlice *slice = &sim->slices.at[number];
    for (uint32_t i = number; i-- > 0;) {
        const DtSlice *before = &sim->slices.at[i];
        if (before->stage != slice->stage)
            return 1;
        if (before->kind == DT_SLICE_PIECE && before->what == slice->what)
            return slice->micro - before->micro;
    }
    return 1;
}

/* Adds the slices of pieces in skipped iterations: those between the two moments, repeated. */
static void repeat_pieces(Sim *sim, const Past *from, const Past *to, int64_t n)
{
    const double each = to->now - from->now;
    const int64_t turns = to->turn - from->turn;
    for (int64_t i = 1; sim->keeps && sim->options->slices && i <= n; i++)
        for (uint32_t k = from->n_slices; k < to->n_slices && sim->slices.n < dt_sim_most(sim);
             k++) {
            DtSlice slice = sim->slices.at[k];
            if (slice.kind != DT_SLICE_PIECE || slice.what == UINT32_MAX)
                continue;
            slice.begin += (double)i * each;
            slice.end += (double)i * each;
            slice.micro += (int32_t)(i * turns) * micro_step(sim, k);
            DT_PUSH(sim->arena, sim->slices, slice);
        }
}

typedef struct Pasts { Past at[HISTORY]; uint32_t n; } Pasts;

static void new_pasts(const Sim *sim, DtArena *arena, Pasts *pasts)
{
    for (uint32_t i = 0; i < HISTORY; i++) {
        pasts->at[i].state = DT_NEW_ARRAY(arena, double, sim->n_queues + sim->n_own + 1);
        pasts->at[i].sum = DT_NEW_ARRAY(arena, double, sim->n_sums);
    }
    pasts->n = 0;
}

/* Returns the latest earlier moment at which the stage had the same state; NULL: none is known. */
static const Past *find_past(const Sim *sim, const Pasts *pasts)
{
    const Past *last = &pasts->at[(pasts->n - 1) % HISTORY];
    for (uint32_t back = 1; back < HISTORY && back < pasts->n; back++) {
        const Past *past = &pasts->at[(pasts->n - 1 - back) % HISTORY];
        if (past->ring == last->ring && same_state(sim, past->state, last->state))
            return past;
    }
    return NULL;
}

/* Called after iteration turn - 1: returns how many of the following iterations can be skipped,
 * since the state repeats. */
static int64_t skip(Sim *sim, SimStage *stage, Pasts *pasts, int64_t turn, int64_t until)
{
    remember(sim, stage, turn, &pasts->at[pasts->n++ % HISTORY]);
    const Past *last = &pasts->at[(pasts->n - 1) % HISTORY], *past = find_past(sim, pasts);
    const bool tired = sim->moves > SIM_MOST_MOVES && pasts->n > 1;
    if (!past && tired) {
        sim->estimated = true;
        past = &pasts->at[(pasts->n - 2) % HISTORY];
    }
    const int64_t times = past ? (until - turn) / (last->turn - past->turn) : 0;
    if (times > 0) {
        repeat_pieces(sim, past, last, times);
        leave_out(sim, stage, past, last, (double)times);
    }
    return times > 0 ? times * (last->turn - past->turn) : 0;
}

void dt_sim_loop(Sim *sim, SimStage *stage, uint32_t item)
{
    const DtPlanSchedule *loop = &sim->plan->schedule[item];
    const uint32_t end = sim->end_of[item];
    const bool is_micro = loop->reg == 0 && stage->depth == 0;
    DtArena *arena = dt_arena_child(sim->arena);
    Pasts pasts;
    new_pasts(sim, arena, &pasts);
    int64_t until = 0;
    stage->depth++;
    for (int64_t turn = 0; turn < loop->count;) {
        const double began = stage->now;
        if (turn >= until) { /* iterations from here on do something else */
            until = same_until(sim->plan, item + 1, end, loop, turn);
            pasts.n = 0;
        }
        stage->reg[loop->reg] = loop->first + loop->step * turn;
        dt_sim_items(sim, stage, item + 1, end);
        turn++;
        if (is_micro)
            keep_turns(sim, stage, turn - 1, began, stage->now - began, 1);
        if (!sim->steady[item] && sim->moves <= SIM_MOST_MOVES)
            continue;
        const double before = stage->now;
        const int64_t left_out = skip(sim, stage, &pasts, turn, until);
        if (is_micro && left_out)
            keep_turns(sim, stage, turn, before, (stage->now - before) / (double)left_out,
                       left_out);
        turn += left_out;
    }
    stage->depth--;
    stage->reg[loop->reg] = 0;
    dt_arena_free(arena);
}

/* ---- calls ---- */

/* Sets ret_bits to which WHENs of the entry hold at present, in order; false: there are too
 * many. */
static bool whens_of(const DtPlan *plan, const SimStage *stage, const DtPlanEntry *entry,
                     uint32_t *ret_bits)
{
    uint32_t n = 0;
    *ret_bits = 0;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        if (s->kind != DT_SCHED_WHEN)
            continue;
        if (n == MOST_WHENS)
            return false;
        *ret_bits |= (uint32_t)dt_sim_holds(stage, s) << n++;
    }
    return true;
}

static const SimMemo *find_memo(const Sim *sim, const SimStage *stage, const DtPlanEntry *entry,
                                uint32_t when, const double *state, uint32_t *ret_n)
{
    *ret_n = 0;
    for (uint32_t i = 0; i < sim->memos.n; i++) {
        const SimMemo *memo = &sim->memos.at[i];
        if (memo->prices != stage->prices || memo->first != entry->first ||
            memo->count != entry->count)
            continue;
        (*ret_n)++;
        if (memo->when == when && memo->ring == stage->reg[DT_PLAN_REG_RINGBUF] &&
            same_state(sim, memo->before, state))
            return memo;
    }
    return NULL;
}

static void run_recorded(const Sim *sim, SimStage *stage, const SimMemo *memo)
{
    stage->now += memo->seconds;
    set_state(sim, stage, memo->after);
    for (uint32_t i = 0; i < sim->n_sums; i++)
        stage->sum[i] += memo->sum[i];
    stage->reg[DT_PLAN_REG_RINGBUF] = memo->ring_after;
}

static void run_new(Sim *sim, SimStage *stage, const DtPlanEntry *entry, uint32_t when, bool keep)
{
    const double began = stage->now;
    const int64_t ring = stage->reg[DT_PLAN_REG_RINGBUF];
    double *sum = keep ? DT_NEW_ARRAY(sim->arena, double, sim->n_sums) : NULL;
    double *before = keep ? DT_NEW_ARRAY(sim->arena, double, sim->n_queues + sim->n_own + 1) : NULL;
    if (keep) {
        memcpy(sum, stage->sum, sim->n_sums * sizeof *sum);
        state_of(sim, stage, before);
    }
    dt_sim_items(sim, stage, entry->first, entry->first + entry->count);
    if (!keep)
        return;
    double *after = DT_NEW_ARRAY(sim->arena, double, sim->n_queues + sim->n_own + 1);
    state_of(sim, stage, after);
    for (uint32_t i = 0; i < sim->n_sums; i++)
        sum[i] = stage->sum[i] - sum[i];
    DT_PUSH(sim->arena, sim->memos, ((SimMemo){stage->prices, entry->first, entry->count, when,
                                               ring, stage->reg[DT_PLAN_REG_RINGBUF], before, after,
                                               sum, stage->now - began}));
}

void dt_sim_call(Sim *sim, SimStage *stage, uint32_t item)
{
    const uint32_t number = sim->plan->schedule[item].body;
    const DtPlanEntry *entry = &sim->plan->entries[number];
    const double began = stage->now;
    uint32_t when, n = 0;
    double *state = sim->state;
    state_of(sim, stage, state);
    const bool same = whens_of(sim->plan, stage, entry, &when) && sim->steady[item];
    const SimMemo *memo = same ? find_memo(sim, stage, entry, when, state, &n) : NULL;
    const uint32_t depth = stage->depth++;
    if (memo)
        run_recorded(sim, stage, memo);
    else
        run_new(sim, stage, entry, when, same && n < MOST_MEMOS);
    stage->depth = depth;
    if (sim->keeps && sim->options->slices && sim->slices.n < dt_sim_most(sim))
        DT_PUSH(sim->arena, sim->slices,
                ((DtSlice){began, stage->now, stage->number, 0, number, (int32_t)stage->reg[0],
                           DT_SLICE_PIECE}));
}

void dt_sim_items(Sim *sim, SimStage *stage, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *s = &sim->plan->schedule[i];
        if (s->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &sim->plan->bodies[s->body];
            for (uint32_t k = 0; k < body->n_insts; k++)
                dt_sim_inst(sim, stage, body->first_inst + k, false);
        } else if (s->kind == DT_SCHED_SET) {
            dt_sim_set(stage, s);
        } else if (s->kind == DT_SCHED_WHEN && !dt_sim_holds(stage, s)) {
            i += s->body;
        } else if (s->kind == DT_SCHED_CALL) {
            dt_sim_call(sim, stage, i);
        } else if (s->kind == DT_SCHED_LOOP) {
            dt_sim_loop(sim, stage, i);
            i = sim->end_of[i];
        }
    }
}
