/* SPDX-License-Identifier: Apache-2.0 */
/* Counting: how often each instruction of an entry runs, and what that costs. Schedules are loops
 * around bodies, so counts are products and a report costs no more than the size of the plan. */
#include "plan/report/report.h"

#include "plan/kinds.h"
#include "plan/name.h"

#include <stdlib.h>
#include <string.h>

/* How many multiples i of step, from i = 0 on, are at most n. */
static int64_t multiples(int64_t n, int64_t step) { return n < 0 ? 0 : n / step + 1; }

/* How many iterations of a loop run the items of a WHEN. */
static int64_t times_when(const DtPlanSchedule *when, const DtPlanSchedule *loop)
{
    int64_t step = loop->step < 0 ? -(int64_t)loop->step : loop->step,
            span = step * (loop->count - 1);
    int64_t least = loop->step < 0 ? loop->first - span : loop->first;
    int64_t last = (int64_t)when->first + when->count - 1 - least, before = when->first - 1 - least;
    if (step == 0)
        return last >= 0 && before < 0 ? loop->count : 0;
    return multiples(last < span ? last : span, step) -
           multiples(before < span ? before : span, step);
}

/* The values of register 0, the micro-batch of a piece, as sums of the counters of two loops.
 * known: the register has this form. */
typedef struct Micro {
    bool known;
    DtPlanSchedule by, plus;
} Micro;

/* Finds the loop whose counter is this register, and sets ret_counts to its values times step; step
 * 0 gives the single value 0. False: no loop counts it. */
static bool counted(const DtPlanSchedule *const *loops, uint32_t depth, uint32_t reg, int64_t step,
                    DtPlanSchedule *ret_counts)
{
    *ret_counts = (DtPlanSchedule){.count = 1};
    for (uint32_t d = 0; d < depth && step; d++)
        if (loops[d]->reg == reg) {
            *ret_counts = (DtPlanSchedule){.first = (int32_t)(step * loops[d]->first),
                                           .count = loops[d]->count,
                                           .step = (int32_t)(step * loops[d]->step)};
            return true;
        }
    return !step;
}

static Micro micro_of(const DtPlanSchedule *set, const DtPlanSchedule *const *loops, uint32_t depth)
{
    Micro micro;
    micro.known = counted(loops, depth, set->body, set->step, &micro.by) && !set->count;
    micro.known = counted(loops, depth, set->plus, set->plus != 0, &micro.plus) && micro.known;
    micro.by.first += set->first;
    return micro;
}

/* How many of the register's values, by.count x plus.count, let a WHEN's items run. */
static int64_t times_micro(const DtPlanSchedule *when, const Micro *micro)
{
    int64_t n = 0;
    for (int64_t i = 0; i < micro->plus.count; i++) {
        DtPlanSchedule rest = *when;
        rest.first -= micro->plus.first + (int32_t)(i * micro->plus.step);
        n += times_when(&rest, &micro->by);
    }
    return n;
}

/* Adds how often each instruction (or, with items, each RUN of the schedule) runs, for an entry
 * that runs `times` times with the micro-batches of the two loops. */
static void add_runs(const DtPlan *plan, const DtPlanEntry *e, int64_t times, bool items,
                     Micro micro, int64_t *runs)
{
    int64_t by_depth[DT_PLAN_MAX_DEPTH + 1] = {times};
    const DtPlanSchedule *loops[DT_PLAN_MAX_DEPTH];
    uint32_t depth = 0, n_when = 0, behind[2]; /* behind: the item after the WHEN's last one */
    int64_t guarded[2];
    for (uint32_t i = e->first; i < e->first + e->count; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        while (n_when && i >= behind[n_when - 1])
            n_when--;
        const int64_t now = n_when ? guarded[n_when - 1] : by_depth[depth];
        if (s->kind == DT_SCHED_LOOP && depth < DT_PLAN_MAX_DEPTH) {
            by_depth[depth + 1] = by_depth[depth] * s->count;
            loops[depth++] = s;
        } else if (s->kind == DT_SCHED_WHEN && n_when < 2) {
            behind[n_when] = i + 1 + s->body;
            guarded[n_when] = now;
            for (uint32_t d = 0; d < depth; d++)
                if (loops[d]->reg == s->reg)
                    guarded[n_when] = now / loops[d]->count * times_when(s, loops[d]);
            if (s->reg == 0 && micro.known)
                guarded[n_when] =
                    now / (micro.by.count * micro.plus.count) * times_micro(s, &micro);
            n_when++;
        } else if (s->kind == DT_SCHED_END && depth) {
            depth--;
        } else if (s->kind == DT_SCHED_CALL) {
            add_runs(plan, &plan->entries[s->body], by_depth[depth], items, micro, runs);
        } else if (s->kind == DT_SCHED_SET && s->reg == 0) {
            micro = micro_of(s, loops, depth);
        } else if (s->kind == DT_SCHED_RUN && items) {
            runs[i] += now;
        } else if (s->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[s->body];
            for (uint32_t k = 0; k < body->n_insts; k++)
                runs[body->first_inst + k] += now;
        }
    }
}

void dt_report_runs(const DtPlan *plan, uint32_t entry, int64_t *ret_runs)
{
    memset(ret_runs, 0, sizeof *ret_runs * plan->n_insts);
    add_runs(plan, &plan->entries[entry], 1, false, (Micro){.known = false}, ret_runs);
}

void dt_report_add_items(const DtPlan *plan, uint32_t entry, int64_t *runs)
{
    add_runs(plan, &plan->entries[entry], 1, true, (Micro){.known = false}, runs);
}

bool dt_report_is_part(const DtPlan *plan, uint32_t entry)
{
    for (uint32_t i = 0; i < plan->n_schedule; i++)
        if (plan->schedule[i].kind == DT_SCHED_CALL && plan->schedule[i].body == entry)
            return true;
    return false;
}

double dt_report_gemm_flops(const DtPlanGemm *gemm)
{
    double flops = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k;
    for (uint32_t i = 0; i < gemm->n_batch; i++)
        flops *= (double)gemm->batch[i];
    return flops;
}

bool dt_report_is_collective(const DtPlanInst *inst)
{
    return inst->kind >= DT_INST_ALL_REDUCE && inst->kind <= DT_INST_SHIFT_BACK;
}

double dt_report_members(const DtPlan *plan, const DtPlanInst *inst)
{
    double bytes = (double)inst->count * (double)dt_kinds_size(inst->dtype);
    double n = dt_report_is_collective(inst) ? plan->groups[inst->ref].size : 1;
    switch (inst->kind) {
    case DT_INST_ALL_REDUCE: return 2 * bytes * (n - 1);
    case DT_INST_ALL_GATHER:
    case DT_INST_REDUCE_SCATTER:
    case DT_INST_ALL_TO_ALL: return bytes * n * (n - 1);
    case DT_INST_SHIFT:
    case DT_INST_SHIFT_BACK: /* of an odd number of members one has no partner */
        return n > 1 ? bytes * (n - (inst->round && plan->groups[inst->ref].size % 2)) : 0;
    case DT_INST_RECV: return bytes;
    default: return 0;
    }
}

double dt_report_received(const DtPlan *plan, const DtPlanInst *inst)
{
    return dt_report_members(plan, inst) /
           (dt_report_is_collective(inst) ? plan->groups[inst->ref].size : 1);
}

bool dt_report_has_tokens(const DtPlan *plan)
{
    for (uint32_t i = 0; i < plan->n_readers; i++) {
        const DtPlanReader *reader = &plan->readers[i];
        if (reader->is_eval || !reader->n_inputs)
            continue;
        const DtPlanInput *input = &plan->inputs[reader->first_input];
        const bool integers = input->dtype == DT_PLAN_I32 || input->dtype == DT_PLAN_I64;
        const bool are_indices = reader->sample != DT_PLAN_RAW || input->n_ranges > 0;
        return integers && are_indices && plan->meta->tokens > plan->meta->batch;
    }
    return plan->meta->tokens > 0 && !plan->n_readers;
}

double dt_report_items(const DtPlan *plan)
{
    return (double)(dt_report_has_tokens(plan) ? plan->meta->tokens : plan->meta->batch);
}

const char *dt_report_item(const DtPlan *plan)
{
    return dt_report_has_tokens(plan) ? "tokens" : "samples";
}

static double flops(const DtPlan *plan, const DtPlanInst *inst)
{
    if (inst->kind == DT_INST_GEMM)
        return dt_report_gemm_flops(&plan->gemms[inst->ref]);
    return inst->kind == DT_INST_KERNEL ? plan->kernels[inst->ref].flops : 0;
}

void dt_report_entry(const DtPlan *plan, uint32_t entry, DtReportEntry *ret_entry)
{
    int64_t *runs = calloc(plan->n_insts + 1, sizeof *runs);
    *ret_entry = (DtReportEntry){.name = dt_plan_str(plan, plan->entries[entry].name)};
    if (!runs)
        dt_arena_exhausted((plan->n_insts + 1) * sizeof *runs);
    dt_report_runs(plan, entry, runs);
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        ret_entry->runs[inst->kind] += runs[i];
        ret_entry->flops[inst->kind] += (double)runs[i] * flops(plan, inst);
        ret_entry->received[inst->kind] += (double)runs[i] * dt_report_received(plan, inst);
    }
    free(runs);
}

static void visit_entry(const DtPlan *plan, uint32_t entry, DtReportVisit *visit, void *context)
{
    int64_t *runs = calloc(plan->n_insts + 1, sizeof *runs);
    if (!runs)
        dt_arena_exhausted((plan->n_insts + 1) * sizeof *runs);
    double ranks = plan->meta->n_ranks;
    if (plan->entries[entry].stage >= 0)
        ranks /= dt_plan_stages(plan);
    dt_report_runs(plan, entry, runs);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (runs[i])
            visit(context, &plan->insts[i], runs[i], ranks);
    free(runs);
}

void dt_report_visit_step(const DtPlan *plan, DtReportVisit *visit, void *context)
{
    for (uint32_t e = 0; e < plan->n_entries; e++)
        if (dt_plan_is_step(plan, plan->entries[e].name))
            visit_entry(plan, e, visit, context);
}

double dt_report_mix_share(const DtPlan *plan)
{
    return 1 / (double)(plan->meta->mix_every * plan->meta->mix_ways);
}

bool dt_report_visit_mix(const DtPlan *plan, int64_t way, DtReportVisit *visit, void *context)
{
    char name[DT_PLAN_MIX_NAME];
    if (way >= plan->meta->mix_ways)
        return false;
    dt_plan_name_mix(plan->meta->mix_ways, way, name);
    for (uint32_t e = 0; e < plan->n_entries; e++)
        if (strcmp(dt_plan_str(plan, plan->entries[e].name), name) == 0)
            visit_entry(plan, e, visit, context);
    return true;
}

/* ---- code ---- */

static const char *target_of(const DtPlan *plan, const DtPlanRegisters *of)
{
    return dt_plan_str(plan, plan->codes[of->code].target);
}

const DtPlanRegisters *dt_report_registers(const DtPlan *plan, uint32_t kernel, uint32_t *ret_n)
{
    uint32_t first = 0, n = 0;
    while (first < plan->n_registers && plan->registers[first].kernel < kernel)
        first++;
    while (first + n < plan->n_registers && plan->registers[first + n].kernel == kernel)
        n++;
    *ret_n = n;
    return plan->registers + first;
}

bool dt_report_code(const DtPlan *plan, uint32_t i, DtReportCode *ret_code)
{
    *ret_code = (DtReportCode){.target = NULL};
    for (uint32_t r = 0, seen = 0; r < plan->n_registers && !ret_code->target; r++) {
        bool known = false; /* only the first record of each target */
        for (uint32_t k = 0; k < r && !known; k++)
            known = strcmp(target_of(plan, &plan->registers[k]),
                           target_of(plan, &plan->registers[r])) == 0;
        if (!known && seen++ == i)
            ret_code->target = target_of(plan, &plan->registers[r]);
    }
    for (uint32_t r = 0; r < plan->n_registers && ret_code->target; r++) {
        const DtPlanRegisters *of = &plan->registers[r];
        if (strcmp(target_of(plan, of), ret_code->target) != 0)
            continue;
        ret_code->kernels++;
        ret_code->registers =
            of->registers > ret_code->registers ? of->registers : ret_code->registers;
        ret_code->spilling += of->spilled > 0;
        if (of->spilled > ret_code->spilled) {
            ret_code->spilled = of->spilled;
            ret_code->worst = of->kernel;
        }
    }
    return ret_code->target != NULL;
}
