/* SPDX-License-Identifier: Apache-2.0 */
/* What one instruction does to the clocks of a stage.
 *
 * Queue 0 runs instructions one after the other. A collective with an event is started in the queue
 * of its group and runs at the same time as queue 0, which waits for it at the WAIT. A collective
 * without an event blocks queue 0: only overlap that the plan states is simulated. A message waits
 * for a free slot only and is then in transit, after earlier messages to the same stage. In a stack
 * whose stages wait for their own messages, it blocks queue 0. A RECV with an event is received at
 * its WAIT; a SEND with an event ends there. */
#include "plan/report/simulate_internal.h"

#include "plan/report/report.h"

static void add(Sim *sim, SimStage *stage, DtTime time, double seconds, uint8_t cost)
{
    stage->sum[time] += seconds;
    stage->sum[DT_TIMES + 2 * sim->plan->n_groups + cost] += seconds;
}

static void keep(Sim *sim, const SimStage *stage, uint32_t inst, uint32_t queue, double begin,
                 double end)
{
    if (sim->keeps && sim->options->insts && end > begin && sim->slices.n < dt_sim_most(sim))
        DT_PUSH(sim->arena, sim->slices, ((DtSlice){begin, end, stage->number, queue, inst,
                                                    (int32_t)stage->reg[0], DT_SLICE_INST}));
}

/* Whether a guard keeps the instruction from running, on the rank where its guards hold most
 * often. */
static bool is_guarded_out(const Sim *sim, const SimStage *stage, const DtPlanInst *inst)
{
    for (uint32_t g = 0; g < inst->guards; g++) {
        const DtPlanArg *arg = &sim->plan->args[inst->first_arg + inst->n_args - 1 - g];
        int64_t value = arg->base;
        for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
            value += arg->reg[r] * stage->reg[r];
        for (uint32_t c = 0; c < DT_PLAN_COORDS; c++) {
            const bool staged = arg->coord_axis[c] + 1u == sim->plan->meta->pipeline;
            const uint32_t axis = arg->coord_axis[c];
            const int64_t last =
                axis < sim->plan->n_mesh ? (int64_t)sim->plan->mesh[axis].size - 1 : 0;
            value += staged              ? arg->coord[c] * stage->number
                     : arg->coord[c] > 0 ? arg->coord[c] * last
                                         : 0;
        }
        if (value < 0)
            return true;
    }
    return false;
}

/* ---- computing ---- */

static void compute(Sim *sim, SimStage *stage, uint32_t inst, const DtPrice *price)
{
    double beside = 0;
    for (uint32_t q = 1; q < sim->n_queues; q++)
        beside = stage->queue[q] - stage->now > beside ? stage->queue[q] - stage->now : beside;
    const double slowed = stage->slower * (beside < price->seconds ? beside : price->seconds);
    keep(sim, stage, inst, 0, stage->now, stage->now + price->seconds + slowed);
    add(sim, stage, (DtTime)price->time, price->seconds, price->cost);
    add(sim, stage, DT_TIME_SLOWED, slowed, price->cost);
    stage->now += price->seconds + slowed;
}

/* ---- collectives ---- */

static uint32_t event_of(const Sim *sim, const SimStage *stage, const DtPlanInst *inst)
{
    const int64_t event =
        (int64_t)inst->event - 1 + (int64_t)inst->event_step * stage->reg[DT_PLAN_REG_RINGBUF];
    return event >= 0 && event < sim->n_events ? (uint32_t)event : sim->n_events;
}

/* Records when the operation that the instruction started under its event will end. */
static void remember(const Sim *sim, SimStage *stage, const DtPlanInst *inst, int32_t what,
                     double end)
{
    const uint32_t event = inst->event ? event_of(sim, stage, inst) : sim->n_events;
    if (event < sim->n_events) {
        stage->event[event] = end;
        stage->group[event] = what;
    }
}

static void expose(Sim *sim, SimStage *stage, uint32_t group, double until)
{
    if (until <= stage->now)
        return;
    stage->sum[DT_TIMES + group] += until - stage->now;
    add(sim, stage, DT_TIME_COLLECTIVES, until - stage->now, sim->group_cost[group]);
    stage->now = until;
}

static void wait_until(SimStage *stage, double until)
{
    if (until > stage->now) {
        stage->sum[DT_TIME_BUBBLE] += until - stage->now;
        stage->now = until;
    }
}

/* Whether all stages of the collective have arrived; ret_latest: the time at which the last of them
 * did. */
static bool meet(Sim *sim, SimStage *stage, SimMeet *m, double *ret_latest)
{
    if (!stage->meeting) {
        if (m->left)
            return false; /* not all stages have left the previous one */
        stage->meeting = true;
        sim->moves++;
        m->latest = m->arrived++ == 0 || stage->now > m->latest ? stage->now : m->latest;
    }
    if (m->arrived < m->members)
        return false;
    stage->meeting = false;
    *ret_latest = m->latest;
    if (++m->left == m->members)
        m->left = m->arrived = 0;
    return true;
}

/* Whether the collective overlaps with no computation: it sums gradients, and the stack sums them
 * when backward is over. */
static bool is_late(const Sim *sim, const DtPlanInst *inst)
{
    if (!dt_cost_has(sim->model, DT_STACK_late_gradients))
        return false;
    for (uint32_t a = inst->first_arg; a < inst->first_arg + inst->n_args; a++)
        if (sim->plan->args[a].kind == DT_ARG_ADDRESS &&
            sim->plan->arenas[sim->plan->args[a].arena].kind == DT_ARENA_GRADS)
            return true;
    return false;
}

static bool collective(Sim *sim, SimStage *stage, uint32_t number, bool may_wait)
{
    const DtPlanInst *inst = &sim->plan->insts[number];
    const DtPrice *price = &stage->prices[number];
    const uint32_t queue = sim->plan->groups[inst->ref].queue;
    double begin = stage->queue[queue] > stage->now ? stage->queue[queue] : stage->now, latest = 0;
    if (may_wait && dt_sim_waits(sim, inst) && !meet(sim, stage, &sim->meets[inst->ref], &latest))
        return false;
    begin = latest > begin ? latest : begin;
    if (!inst->event)
        wait_until(stage, latest);
    const double end = begin + price->seconds;
    stage->sum[DT_TIMES + sim->plan->n_groups + inst->ref] += price->seconds;
    stage->queue[queue] = end;
    keep(sim, stage, number, queue, begin, end);
    remember(sim, stage, inst, (int32_t)inst->ref, end);
    if (!inst->event || is_late(sim, inst))
        expose(sim, stage, inst->ref, end);
    return true;
}

/* ---- messages ---- */

static bool send(Sim *sim, SimStage *stage, uint32_t number, bool may_wait)
{
    const DtPlanInst *inst = &sim->plan->insts[number];
    SimChannel *channel = &sim->channels[inst->ref];
    const int64_t slots = sim->plan->channels[inst->ref].slots, slot = channel->n_sent % slots;
    if (may_wait && channel->n_sent - channel->n_received >= slots)
        return false;
    if (channel->n_sent >= slots)
        wait_until(stage, channel->freed[slot]);
    const double seconds = stage->prices[number].seconds;
    const double on_way = *channel->link > stage->now ? *channel->link : stage->now;
    if (dt_cost_has(sim->model, DT_STACK_waited_messages)) {
        add(sim, stage, DT_TIME_MESSAGES, seconds, stage->prices[number].cost);
        stage->now += seconds;
        channel->sent[slot] = stage->now;
    } else
        channel->sent[slot] = *channel->link = on_way + seconds;
    keep(sim, stage, number, 0, channel->sent[slot] - seconds, channel->sent[slot]);
    channel->n_sent++;
    remember(sim, stage, inst, SIM_SENT, channel->sent[slot]);
    return true;
}

static bool receive(Sim *sim, SimStage *stage, uint32_t number, bool may_wait)
{
    const uint32_t ref = sim->plan->insts[number].ref;
    SimChannel *channel = &sim->channels[ref];
    const int64_t slot = channel->n_received % sim->plan->channels[ref].slots;
    if (may_wait && channel->n_received == channel->n_sent)
        return false;
    wait_until(stage, channel->sent[slot]);
    if (sim->keeps && sim->options->slices && sim->flows.n < dt_sim_most(sim))
        DT_PUSH(sim->arena, sim->flows, ((DtFlow){channel->sent[slot], stage->now, ref,
                                                  (int32_t)stage->reg[0]}));
    channel->freed[slot] = stage->now;
    channel->n_received++;
    return true;
}

/* Waits for the collective or message that was started with its event. */
static bool wait_event(Sim *sim, SimStage *stage, const DtPlanInst *inst, bool may_wait)
{
    const uint32_t event = event_of(sim, stage, inst);
    const int32_t what = event < sim->n_events ? stage->group[event] : -1;
    if (what >= 0)
        expose(sim, stage, (uint32_t)what, stage->event[event]);
    else if (what == SIM_SENT && stage->event[event] > stage->now) {
        add(sim, stage, DT_TIME_MESSAGES, stage->event[event] - stage->now, DT_COST_KIND_MESSAGE);
        stage->now = stage->event[event];
    } else if (what <= SIM_COMES) {
        if (!receive(sim, stage, (uint32_t)(SIM_COMES - what), may_wait))
            return false;
        stage->group[event] = -1;
    }
    return true;
}

/* ---- all ---- */

bool dt_sim_waits(const Sim *sim, const DtPlanInst *inst)
{
    if (inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV)
        return true;
    if (inst->kind == DT_INST_WAIT && inst->event)
        return inst->event - 1 < sim->n_events && sim->comes[inst->event - 1];
    const uint32_t pipeline = sim->plan->meta->pipeline;
    return pipeline && dt_report_is_collective(inst) &&
           (sim->plan->groups[inst->ref].mask >> (pipeline - 1) & 1);
}

bool dt_sim_inst(Sim *sim, SimStage *stage, uint32_t number, bool may_wait)
{
    const DtPlanInst *inst = &sim->plan->insts[number];
    bool done = true;
    if (inst->guards && is_guarded_out(sim, stage, inst))
        done = true;
    else if (dt_report_is_collective(inst))
        done = collective(sim, stage, number, may_wait);
    else if (inst->kind == DT_INST_WAIT)
        done = wait_event(sim, stage, inst, may_wait);
    else if (inst->kind == DT_INST_SEND)
        done = send(sim, stage, number, may_wait);
    else if (inst->kind == DT_INST_RECV && inst->event)
        remember(sim, stage, inst, SIM_COMES - (int32_t)number, 0);
    else if (inst->kind == DT_INST_RECV)
        done = receive(sim, stage, number, may_wait);
    else
        compute(sim, stage, number, &stage->prices[number]);
    sim->moves += done;
    return done;
}
