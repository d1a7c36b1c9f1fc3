/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a report. Shares and rates follow from the simulated step. The effect of some
 * changes is simulated, with instructions that cost nothing. The effect of other cuts, or of more
 * micro-batches, cannot be simulated, since it would take another plan; a bound follows from how
 * long stages wait. */
#include "plan/report/summary.h"

#include "plan/kinds.h"
#include "plan/report/recomputed.h"
#include "plan/report/device.h"
#include "plan/report/nodes.h"
#include "plan/report/people.h"

#include <stdlib.h>
#include <string.h>

/* ---- work ---- */

/* The operations of one run of an instruction. Attention in one kernel counts all scores, including
 * hidden ones, as the serial program's number does. */
static double flops_of(const DtPlan *plan, const DtPlanInst *inst)
{
    if (inst->kind == DT_INST_GEMM)
        return dt_report_gemm_flops(&plan->gemms[inst->ref]);
    for (uint32_t i = 0; inst->kind == DT_INST_KERNEL && i < plan->n_attentions; i++)
        if (plan->attentions[i].kernel == inst->ref) {
            const DtPlanAttention *a = &plan->attentions[i];
            const double products = a->backward ? 5 : 2; /* backward computes the scores again */
            return products * 2 * (double)a->heads * (double)a->queries * (double)a->keys *
                   (double)a->head;
        }
    return 0;
}

/* META counts products already */
static void add_flops(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    DtSummary *s = context;
    const double flops = (double)runs * ranks * flops_of(s->plan, inst);
    s->flops += inst->kind == DT_INST_GEMM ? 0 : flops;
    s->recomputed_flops += s->recomputed && s->recomputed[inst - s->plan->insts] ? flops : 0;
}

/* ---- changes that would help most ---- */

typedef struct Trials {
    DtArena *arena;
    DtSummary *s;
    DtReportChange at[64];
    uint32_t n;
} Trials;

static void add_change(Trials *t, double seconds, bool bound, const char *text)
{
    if (t->n < 64 && seconds < t->s->sim.seconds * 0.995)
        t->at[t->n++] = (DtReportChange){text, seconds, bound};
}

typedef bool Is(const DtSummary *s, const DtPlanInst *inst, uint32_t which);

/* Returns the time of a step if the instructions marked in `is` cost nothing, by simulation. */
static double without(const Trials *t, Is *is, uint32_t which)
{
    const DtSummary *s = t->s;
    DtArena *arena = dt_arena_child(t->arena);
    DtPrice **prices = DT_NEW_ARRAY(arena, DtPrice *, s->sim.n_stages);
    for (uint32_t stage = 0; stage < s->sim.n_stages; stage++) {
        for (uint32_t before = 0; before < stage && !prices[stage]; before++)
            prices[stage] = s->prices[before] == s->prices[stage] ? prices[before] : NULL;
        if (prices[stage])
            continue;
        prices[stage] = DT_NEW_ARRAY(arena, DtPrice, s->plan->n_insts + 1);
        memcpy(prices[stage], s->prices[stage], s->plan->n_insts * sizeof **prices);
        for (uint32_t i = 0; i < s->plan->n_insts; i++)
            if (is(s, &s->plan->insts[i], which))
                prices[stage][i].seconds = 0;
    }
    DtSimulation sim;
    const DtSimulateOptions options = {.objective = UINT32_MAX};
    dt_simulate(arena, s->plan, &s->model, (DtPrices)prices, &options, &sim);
    const double seconds = sim.seconds;
    dt_arena_free(arena);
    return seconds;
}

static bool is_over(const DtSummary *s, const DtPlanInst *inst, uint32_t mask)
{
    return dt_report_is_collective(inst) && s->plan->groups[inst->ref].mask == mask;
}

static bool is_message(const DtSummary *s, const DtPlanInst *inst, uint32_t which)
{
    (void)s, (void)which;
    return inst->kind == DT_INST_SEND;
}

static const char *axes_of(const Trials *t, uint32_t mask)
{
    const DtPlan *plan = t->s->plan;
    const char *text = "";
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (mask >> m & 1)
            text = dt_arena_printf(t->arena, "%s%s%s", text, *text ? " and " : "",
                                   dt_plan_str(plan, plan->mesh[m].name));
    return text;
}

static double exposed_of(const DtSummary *s, uint32_t mask)
{
    double seconds = 0;
    for (uint32_t g = 0; g < s->plan->n_groups; g++)
        seconds += s->plan->groups[g].mask == mask ? s->sim.stages[s->sim.busiest].exposed[g] : 0;
    return seconds;
}

static void try_overlap(Trials *t)
{
    const DtPlan *plan = t->s->plan;
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        const uint32_t mask = plan->groups[g].mask;
        bool repeated = false;
        for (uint32_t k = 0; k < g; k++)
            repeated = repeated || plan->groups[k].mask == mask;
        if (!repeated && exposed_of(t->s, mask) > t->s->sim.seconds * 0.005)
            add_change(t, without(t, is_over, mask), true,
                       dt_arena_printf(t->arena,
                                       "if collectives over %s ran wholly beside other work",
                                       axes_of(t, mask)));
    }
    if (plan->n_channels)
        add_change(t, without(t, is_message, 0), true, "if messages between stages took no time");
}

/* A schedule fills and empties its pipeline in a fixed number of micro-batches (1f1b in stages - 1,
 * others in fewer). With twice as many micro-batches of half the size, that takes half as long.
 * Nothing else that the busiest stage waits for shrinks, so it saves at most half of its waiting,
 * and nothing if smaller products are slower. */
static void try_micro(Trials *t)
{
    const DtSummary *s = t->s;
    const int64_t more = 2 * (int64_t)s->plan->meta->n_micro;
    if (s->sim.n_stages == 1 || s->plan->meta->batch % more != 0)
        return;
    add_change(t, s->sim.seconds - s->sim.stages[s->sim.busiest].time[DT_TIME_BUBBLE] / 2, true,
               dt_arena_printf(t->arena,
                               "with twice the micro-batches (%lld), if each took half as long",
                               (long long)more));
}

/* Adds the time of a step if all stages had equal work. Not reported where devices are of
 * several kinds: moved work would take another time there. */
static void try_level(Trials *t)
{
    const DtSummary *s = t->s;
    uint32_t most = 0;
    char buf[32];
    if (s->sim.n_stages == 1 || s->model.n_kinds)
        return;
    for (uint32_t i = 1; i < s->sim.n_stages; i++)
        if (s->sim.stages[i].time[DT_TIME_BUBBLE] > s->sim.stages[most].time[DT_TIME_BUBBLE])
            most = i;
    const double least = s->sim.stages[s->sim.busiest].time[DT_TIME_BUBBLE];
    add_change(t, s->sim.seconds * (1 - s->bubble) + least, true,
               dt_arena_printf(
                   t->arena,
                   "if all stages had as much to do (level the `cuts`): stage %u waits %s", most,
                   dt_people_share(buf, s->sim.stages[most].time[DT_TIME_BUBBLE], s->sim.seconds)));
}

static bool is_recomputed(const DtSummary *s, const DtPlanInst *inst, uint32_t which)
{
    (void)which;
    return s->recomputed[inst - s->plan->insts];
}

static void try_keep(Trials *t)
{
    char buf[32];
    if (t->s->recomputed)
        add_change(
            t, without(t, is_recomputed, 0), false,
            dt_arena_printf(t->arena,
                            "if backward computed no products and attention again (`remat`), %s of "
                            "all operations",
                            dt_people_share(buf, t->s->recomputed_flops, t->s->flops)));
}

static int by_seconds(const void *a, const void *b)
{
    const DtReportChange *x = a, *y = b;
    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static void find_changes(DtArena *arena, DtSummary *s)
{
    Trials trials = {.arena = arena, .s = s};
    try_overlap(&trials);
    try_micro(&trials);
    try_level(&trials);
    try_keep(&trials);
    qsort(trials.at, trials.n, sizeof *trials.at, by_seconds);
    for (uint32_t i = 0; i < trials.n && i < DT_REPORT_CHANGES; i++)
        s->changes[s->n_changes++] = trials.at[i];
}

/* ---- all ---- */

/* Returns the seconds of each instruction, the mean over the runs on the stages that run it. */
static const double *mean_seconds(DtArena *arena, const DtSummary *s)
{
    const DtPlan *plan = s->plan;
    double *sum = DT_NEW_ARRAY(arena, double, plan->n_insts + 1);
    double *times = DT_NEW_ARRAY(arena, double, plan->n_insts + 1);
    int64_t *runs = DT_NEW_ARRAY(arena, int64_t, plan->n_insts + 1);
    for (uint32_t e = 0; e < plan->n_entries && s->model.n_kinds; e++) {
        if (!dt_plan_is_step(plan, plan->entries[e].name))
            continue;
        dt_report_runs(plan, e, runs);
        for (uint32_t stage = 0; stage < dt_plan_stages(plan); stage++)
            for (uint32_t i = 0;
                 i < plan->n_insts && dt_plan_on_stage(plan->entries[e].stage, stage); i++) {
                sum[i] += (double)runs[i] * s->prices[stage][i].seconds;
                times[i] += (double)runs[i];
            }
    }
    for (uint32_t i = 0; i < plan->n_insts; i++)
        sum[i] = times[i] > 0 ? sum[i] / times[i] : s->prices[0][i].seconds;
    return sum;
}

static void find_time(DtArena *arena, const DtReportOptions *options, DtSummary *s)
{
    const DtSimulateOptions how = {.slices = options->slices, .insts = options->insts,
                                   .most = options->most_slices};
    s->prices = dt_price_plan(arena, s->plan, &s->model);
    s->seconds = mean_seconds(arena, s);
    dt_simulate(arena, s->plan, &s->model, s->prices, &how, &s->sim);
    if (s->sim.stuck) {
        s->stuck = true;
        s->has_time = false;
        return;
    }
    s->dtype = dt_price_dtype(s->plan);
    s->peak = dt_price_peak(s->plan, &s->model, s->dtype);
    bool *recomputed = DT_NEW_ARRAY(arena, bool, s->plan->n_insts + 1);
    s->recomputed = dt_recomputed_find(arena, s->plan, recomputed) ? recomputed : NULL;
    s->flops = s->plan->meta->flops;
    dt_report_visit_step(s->plan, add_flops, s);
    s->model_flops = s->plan->meta->model_flops > 0 ? s->plan->meta->model_flops : s->flops;
    const double most = s->sim.seconds * s->peak * s->plan->meta->n_ranks;
    s->mfu = most > 0 ? s->model_flops / most : 0;
    s->hfu = most > 0 ? s->flops / most : 0;
    for (uint32_t i = 0; i < s->sim.n_stages && s->sim.seconds > 0; i++)
        s->bubble += s->sim.stages[i].time[DT_TIME_BUBBLE] / s->sim.seconds / s->sim.n_stages;
    find_changes(arena, s);
}

void dt_summary_make(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                     const DtReportOptions *options, DtSummary *ret_summary)
{
    DtSummary *s = ret_summary;
    *s = (DtSummary){.plan = plan, .is_gpu = plan->n_launches > 0, .tokens = options->tokens,
                     .price = options->price, .source = options->source,
                     .source_context = options->source_context};
    s->has_time = model != NULL || dt_device_read(arena, plan, &s->model);
    if (model)
        s->model = *model;
    s->is_gpu = s->has_time ? s->model.device->is_gpu : s->is_gpu;
    if (s->has_time) {
        const DtDevice *device = dt_nodes_worst(plan, &s->model, s->is_gpu, &s->worst);
        s->have = s->is_gpu ? device->memory_bytes : 0;
        s->devices = dt_nodes_say(arena, plan, &s->model);
    } else {
        dt_memory_worst(plan, s->is_gpu, &s->worst);
    }
    s->has_time = s->has_time && plan->n_objectives > 0;
    if (s->has_time)
        find_time(arena, options, s);
}
