/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a step of a plan: each stage of the pipeline runs its entries as far as it can, until
 * all have ended. A stage waits for a message, for a free slot, or for the other stages of a
 * collective. The time at which it goes on depends on simulated clocks alone, so the result does
 * not depend on the order in which stages are visited.
 *
 * All ranks of a stage do the same at the same time, so one of them stands for all; where ranks
 * differ (attention over a split sequence), it is the rank with most work. */
#include "plan/report/simulate_internal.h"

#include "base/stages.h"
#include "plan/name.h"
#include "plan/report/nodes.h"
#include "plan/report/report.h"

#include <string.h>

/* ---- one stage ---- */

/* Runs the next items of the stage; false: it waits for another stage. */
static bool advance(Sim *sim, SimStage *stage)
{
    const DtPlan *plan = sim->plan;
    while (stage->pc < stage->end) {
        const DtPlanSchedule *s = &plan->schedule[stage->pc];
        if (s->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[s->body];
            for (; stage->inst < body->n_insts; stage->inst++)
                if (!dt_sim_inst(sim, stage, body->first_inst + stage->inst, true))
                    return false;
            stage->inst = 0;
        } else if (s->kind == DT_SCHED_SET) {
            dt_sim_set(stage, s);
        } else if (s->kind == DT_SCHED_WHEN && !dt_sim_holds(stage, s)) {
            stage->pc += s->body;
        } else if (s->kind == DT_SCHED_CALL) {
            dt_sim_call(sim, stage, stage->pc);
        } else if (s->kind == DT_SCHED_LOOP && !sim->blocks[stage->pc]) {
            dt_sim_loop(sim, stage, stage->pc);
            stage->pc = sim->end_of[stage->pc];
        } else if (s->kind == DT_SCHED_LOOP) {
            stage->open[stage->depth] = stage->pc;
            stage->turn[stage->depth++] = 0;
            stage->reg[s->reg] = s->first;
        } else if (s->kind == DT_SCHED_END && stage->depth) {
            const DtPlanSchedule *loop = &plan->schedule[stage->open[stage->depth - 1]];
            const int64_t turn = ++stage->turn[stage->depth - 1];
            stage->reg[loop->reg] = turn < loop->count ? loop->first + loop->step * turn : 0;
            if (turn < loop->count)
                stage->pc = stage->open[stage->depth - 1];
            else
                stage->depth--;
        }
        stage->pc++;
    }
    return true;
}

static void begin_entry(const Sim *sim, SimStage *stage, DtPlanStr name)
{
    stage->pc = stage->end = stage->inst = stage->depth = 0;
    stage->meeting = false;
    memset(stage->reg, 0, sizeof stage->reg);
    for (uint32_t e = 0; e < sim->plan->n_entries; e++)
        if (dt_plan_on_stage(sim->plan->entries[e].stage, stage->number) &&
            strcmp(dt_plan_str(sim->plan, sim->plan->entries[e].name),
                   dt_plan_str(sim->plan, name)) == 0) {
            stage->pc = sim->plan->entries[e].first;
            stage->end = stage->pc + sim->plan->entries[e].count;
            return;
        }
}

/* ---- all stages ---- */

static void clear_links(Sim *sim)
{
    for (uint32_t c = 0; c < sim->plan->n_channels; c++) {
        sim->channels[c].n_sent = sim->channels[c].n_received = 0;
        *sim->channels[c].link = 0;
    }
    for (uint32_t g = 0; g < sim->plan->n_groups; g++) {
        const uint32_t members =
            dt_stages_count(dt_plan_str(sim->plan, sim->plan->groups[g].stages));
        sim->meets[g] = (SimMeet){.members = members ? members : dt_plan_stages(sim->plan)};
    }
}

/* Simulates an entry on all stages. In a plan that is not proved, they may wait for ever. */
static void run_entry(Sim *sim, DtPlanStr name)
{
    const uint32_t n = dt_plan_stages(sim->plan);
    clear_links(sim);
    for (uint32_t s = 0; s < n; s++)
        begin_entry(sim, &sim->stages[s], name);
    for (bool moved = true, all = false; moved && !all;) {
        moved = false;
        all = true;
        for (uint32_t s = 0; s < n; s++) {
            SimStage *stage = &sim->stages[s];
            const int64_t before = sim->moves;
            const uint32_t pc = stage->pc;
            all = advance(sim, stage) && all;
            moved = moved || sim->moves > before || stage->pc != pc;
        }
        if (sim->moves > 20LL * SIM_MOST_MOVES) {
            sim->estimated = true;
            return;
        }
        if (!moved && !all) {
            sim->stuck = true;
            return;
        }
    }
}

/* Lets all stages end when the last one does, and counts the difference as waiting; returns that
 * time. */
static double join(Sim *sim)
{
    double end = 0;
    for (uint32_t s = 0; s < dt_plan_stages(sim->plan); s++)
        end = sim->stages[s].now > end ? sim->stages[s].now : end;
    for (uint32_t s = 0; s < dt_plan_stages(sim->plan); s++) {
        sim->stages[s].sum[DT_TIME_BUBBLE] += end - sim->stages[s].now;
        sim->stages[s].now = end;
    }
    return end;
}

/* Returns the factor by which a computation is slower while a collective runs, for the device of
 * the stage that suffers most. */
static double slower_of(const Sim *sim, uint32_t stage)
{
    const uint32_t kinds = dt_nodes_of(sim->plan, sim->model, stage);
    double most = 0;
    for (uint32_t k = 0; k < dt_cost_kinds(sim->model); k++) {
        const DtCostModel one = dt_cost_on(sim->model, k);
        const double share = kinds >> k & 1 ? dt_cost_constant(&one, DT_COST_share) : 0;
        most = share > most ? share : most;
    }
    return most;
}

static void open_stage(Sim *sim, SimStage *stage, uint32_t number)
{
    *stage = (SimStage){.number = number,
                        .prices = sim->prices[number],
                        .slower = slower_of(sim, number),
                        .queue = DT_NEW_ARRAY(sim->arena, double, sim->n_queues),
                        .event = DT_NEW_ARRAY(sim->arena, double, sim->n_events + 1),
                        .group = DT_NEW_ARRAY(sim->arena, int32_t, sim->n_events + 1),
                        .sum = DT_NEW_ARRAY(sim->arena, double, sim->n_sums)};
    memset(stage->group, 0xff, (sim->n_events + 1) * sizeof *stage->group);
}

static void find_events(Sim *sim)
{
    const DtPlan *plan = sim->plan;
    bool *of_messages = DT_NEW_ARRAY(sim->arena, bool, sim->n_events + 1);
    sim->comes = DT_NEW_ARRAY(sim->arena, bool, sim->n_events + 1);
    sim->own = DT_NEW_ARRAY(sim->arena, uint32_t, sim->n_events + 1);
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        const bool message = inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
        if (!message || !inst->event || inst->event - 1 >= sim->n_events)
            continue;
        of_messages[inst->event - 1] = true;
        sim->comes[inst->event - 1] = sim->comes[inst->event - 1] || inst->kind == DT_INST_RECV;
    }
    for (uint32_t e = 0; e < sim->n_events; e++)
        if (!of_messages[e])
            sim->own[sim->n_own++] = e;
}

static void open_sim(Sim *sim)
{
    const DtPlan *plan = sim->plan;
    sim->n_queues = 1;
    sim->n_events = plan->meta->events;
    for (uint32_t g = 0; g < plan->n_groups; g++)
        sim->n_queues =
            plan->groups[g].queue + 1 > sim->n_queues ? plan->groups[g].queue + 1 : sim->n_queues;
    sim->n_sums = DT_TIMES + 2 * plan->n_groups + DT_COST_KINDS;
    sim->end_of = DT_NEW_ARRAY(sim->arena, uint32_t, plan->n_schedule + 1);
    sim->blocks = DT_NEW_ARRAY(sim->arena, bool, plan->n_schedule + 1);
    sim->steady = DT_NEW_ARRAY(sim->arena, uint8_t, plan->n_schedule + 1);
    sim->group_cost = DT_NEW_ARRAY(sim->arena, uint8_t, plan->n_groups + 1);
    sim->channels = DT_NEW_ARRAY(sim->arena, SimChannel, plan->n_channels + 1);
    sim->meets = DT_NEW_ARRAY(sim->arena, SimMeet, plan->n_groups + 1);
    sim->stages = DT_NEW_ARRAY(sim->arena, SimStage, dt_plan_stages(plan));
    sim->state = DT_NEW_ARRAY(sim->arena, double, sim->n_queues + sim->n_events + 1);
    for (uint32_t g = 0; g < plan->n_groups; g++)
        sim->group_cost[g] =
            dt_price_spread(plan, plan->groups[g].mask, sim->model->ranks_per_node).nodes > 1
                ? DT_COST_KIND_NETWORK
                : DT_COST_KIND_LINK;
    for (uint32_t c = 0; c < plan->n_channels; c++) {
        sim->channels[c].sent = DT_NEW_ARRAY(sim->arena, double, plan->channels[c].slots);
        sim->channels[c].freed = DT_NEW_ARRAY(sim->arena, double, plan->channels[c].slots);
        uint32_t first = 0;
        while (plan->channels[first].from != plan->channels[c].from ||
               plan->channels[first].to != plan->channels[c].to)
            first++;
        sim->channels[c].link = first == c ? DT_NEW(sim->arena, double) : sim->channels[first].link;
    }
    find_events(sim);
    dt_sim_prepare(sim);
}

/* ---- the step ---- */

static void add_stage(const Sim *sim, const SimStage *stage, double weight, DtStageTime *to)
{
    const uint32_t n = sim->plan->n_groups;
    for (int t = 0; t < DT_TIMES; t++)
        to->time[t] += weight * stage->sum[t];
    for (uint32_t g = 0; g < n; g++) {
        to->exposed[g] += weight * stage->sum[DT_TIMES + g];
        to->beside[g] += weight * stage->sum[DT_TIMES + n + g];
    }
}

/* Computes the range of the step's time from the uncertainties of the busiest stage. Its waiting is
 * for work of other stages, which is as uncertain. */
static void find_band(const Sim *sim, DtSimulation *ret)
{
    const DtStageTime *busiest = &ret->stages[ret->busiest];
    double known = 0;
    for (int k = 0; k < DT_COST_KINDS; k++)
        known += ret->cost[k];
    const double others = known > 0 ? 1 + busiest->time[DT_TIME_BUBBLE] / known : 1;
    for (int k = 0; k < DT_COST_KINDS; k++)
        ret->cost[k] *= others;
    ret->cost[DT_COST_KIND_FIXED] += ret->fixed;
    uint32_t kind = 0; /* the first rank of the stage */
    while (!(dt_nodes_of(sim->plan, sim->model, ret->busiest) >> kind & 1))
        kind++;
    const DtCostModel model = dt_cost_on(sim->model, kind);
    const double band = dt_cost_band(&model, ret->cost);
    ret->low = band < 1 ? ret->seconds * (1 - band) : 0;
    ret->high = ret->seconds * (1 + band);
}

/* Adds what the stages have done since they were opened. */
static void add_stages(Sim *sim, double weight, DtSimulation *ret)
{
    ret->seconds += weight * join(sim);
    for (uint32_t s = 0; s < ret->n_stages; s++)
        add_stage(sim, &sim->stages[s], weight, &ret->stages[s]);
    for (uint32_t s = 0; s < ret->n_stages; s++)
        if (ret->stages[s].time[DT_TIME_BUBBLE] < ret->stages[ret->busiest].time[DT_TIME_BUBBLE])
            ret->busiest = s;
    for (int k = 0; k < DT_COST_KINDS; k++)
        ret->cost[k] +=
            weight *
            sim->stages[ret->busiest].sum[DT_TIMES + 2 * sim->plan->n_groups + (uint32_t)k];
}

static void run_objective(Sim *sim, uint32_t number, DtSimulation *ret)
{
    const DtPlanObjective *objective = &sim->plan->objectives[number];
    const double weight = 1 / (double)objective->every;
    for (uint32_t s = 0; s < ret->n_stages; s++)
        open_stage(sim, &sim->stages[s], s);
    sim->keeps = number == sim->options->objective;
    run_entry(sim, objective->step);
    for (uint32_t s = 0; s < ret->n_stages; s++)
        ret->stages[s].end += weight * sim->stages[s].now;
    run_entry(sim, objective->update);
    add_stages(sim, weight, ret);
}

/* Adds what replicas exchange in a step, on average. */
static void run_mix(Sim *sim, int64_t way, DtSimulation *ret)
{
    const DtPlan *plan = sim->plan;
    char name[DT_PLAN_MIX_NAME];
    dt_plan_name_mix(plan->meta->mix_ways, way, name);
    sim->keeps = false;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        if (strcmp(dt_plan_str(plan, plan->entries[e].name), name) != 0)
            continue;
        for (uint32_t s = 0; s < ret->n_stages; s++)
            open_stage(sim, &sim->stages[s], s);
        run_entry(sim, plan->entries[e].name);
        add_stages(sim, dt_report_mix_share(plan), ret);
        return;
    }
}

void dt_simulate(DtArena *arena, const DtPlan *plan, const DtCostModel *model, DtPrices prices,
                 const DtSimulateOptions *options, DtSimulation *ret_simulation)
{
    Sim sim = {.arena = arena, .plan = plan, .model = model, .prices = prices, .options = options};
    DtSimulation *ret = ret_simulation;
    *ret = (DtSimulation){.n_stages = dt_plan_stages(plan)};
    ret->stages = DT_NEW_ARRAY(arena, DtStageTime, ret->n_stages);
    for (uint32_t s = 0; s < ret->n_stages; s++) {
        ret->stages[s].exposed = DT_NEW_ARRAY(arena, double, plan->n_groups + 1);
        ret->stages[s].beside = DT_NEW_ARRAY(arena, double, plan->n_groups + 1);
    }
    open_sim(&sim);
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        run_objective(&sim, i, ret);
    for (int64_t way = 0; way < plan->meta->mix_ways; way++)
        run_mix(&sim, way, ret);
    ret->fixed = dt_cost_step_fixed(model, plan->meta->n_ranks, ret->seconds);
    ret->seconds += ret->fixed;
    for (uint32_t s = 0; s < ret->n_stages; s++)
        ret->stages[s].time[DT_TIME_FIXED] = ret->fixed;
    find_band(&sim, ret);
    ret->slices = sim.slices.at;
    ret->n_slices = sim.slices.n;
    ret->flows = sim.flows.at;
    ret->n_flows = sim.flows.n;
    ret->estimated = sim.estimated;
    ret->stuck = sim.stuck;
}
