/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the schedule of a stage as a rank runs it, with registers. Each instruction is taken to
 * access all of the memory that its arguments allow; where ranks differ, ranges are those of the
 * first rank. */
#include "plan/report/walk.h"

#include <string.h>

/* ---- what runs ---- */

/* An argument's value on the first rank of the stage; most: on the rank where it is largest. */
static int64_t value_of(const DtWalk *w, const DtPlanArg *arg, bool most)
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

/* Whether guards let the instruction run, on the rank that does most, as in the simulation. */
static bool is_guarded(const DtWalk *w, const DtPlanInst *inst)
{
    for (uint32_t g = 0; g < inst->guards; g++)
        if (value_of(w, &w->plan->args[inst->first_arg + inst->n_args - 1 - g], true) < 0)
            return true;
    return false;
}

/* Whether it also reads the memory that it writes: a running sum, or a sum over ranks in place. */
static bool adds_up(const DtPlan *plan, const DtPlanInst *inst, uint32_t arg)
{
    return (inst->kind == DT_INST_GEMM && arg == 2 && plan->gemms[inst->ref].accumulate) ||
           (inst->kind == DT_INST_ALL_REDUCE && arg == 0 && inst->n_args == 1);
}

static void run_inst(DtWalk *w, uint32_t number)
{
    const DtPlanInst *inst = &w->plan->insts[number];
    DtWalkRun run = {number, w->ranges.n, 0};
    if (is_guarded(w, inst) || --w->work < 0)
        return;
    for (uint32_t a = 0; a < inst->n_args; a++) {
        const DtPlanArg *arg = &w->plan->args[inst->first_arg + a];
        if (arg->kind != DT_ARG_ADDRESS || arg->bytes <= 0)
            continue;
        const int64_t from = w->base[arg->arena] + value_of(w, arg, false);
        DT_PUSH(w->arena, w->ranges,
                ((DtWalkRange){from, from + arg->bytes, (uint8_t)w->plan->arenas[arg->arena].kind,
                               !arg->written || adds_up(w->plan, inst, a), arg->written}));
        run.n++;
    }
    DT_PUSH(w->arena, w->runs, run);
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

static void set(DtWalk *w, const DtPlanSchedule *s)
{
    int64_t value =
        (s->step ? s->step * w->reg[s->body] : 0) + (s->plus ? w->reg[s->plus] : 0) + s->first;
    if (s->count)
        value = ((value % s->count) + s->count) % s->count;
    w->reg[s->reg] = value;
}

static void say(DtWalk *w, void (*what)(DtWalk *, uint32_t, int64_t, uint32_t), uint32_t item,
                int64_t turn, uint32_t depth)
{
    if (what)
        what(w, item, turn, depth);
}

static void walk(DtWalk *w, uint32_t from, uint32_t to, uint32_t depth)
{
    for (uint32_t i = from; i < to && w->work > 0; i++) {
        const DtPlanSchedule *s = &w->plan->schedule[i];
        if (s->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &w->plan->bodies[s->body];
            for (uint32_t k = 0; k < body->n_insts; k++)
                run_inst(w, body->first_inst + k);
        } else if (s->kind == DT_SCHED_SET) {
            set(w, s);
        } else if (s->kind == DT_SCHED_WHEN) {
            const bool holds =
                w->reg[s->reg] >= s->first && w->reg[s->reg] < (int64_t)s->first + s->count;
            i += holds ? 0 : s->body;
        } else if (s->kind == DT_SCHED_CALL) {
            const DtPlanEntry *entry = &w->plan->entries[s->body];
            say(w, w->enter, i, 0, depth);
            walk(w, entry->first, entry->first + entry->count, depth + 1);
            say(w, w->leave, i, 0, depth);
        } else if (s->kind == DT_SCHED_LOOP) {
            const uint32_t end = end_of(w->plan, i);
            const int64_t turns =
                w->most_turns && w->most_turns < s->count ? w->most_turns : s->count;
            for (int64_t turn = 0; turn < turns && --w->work > 0; turn++) {
                say(w, w->enter, i, turn, depth);
                w->reg[s->reg] = s->first + s->step * turn;
                walk(w, i + 1, end, depth + 1);
                say(w, w->leave, i, turn, depth);
            }
            w->reg[s->reg] = 0;
            i = end;
        }
    }
}

static void find_arenas(DtWalk *w)
{
    int64_t all = 0;
    w->base = DT_NEW_ARRAY(w->arena, int64_t, w->plan->n_arenas + 1);
    for (uint32_t a = 0; a < w->plan->n_arenas; a++) {
        w->base[a] = all;
        all += dt_plan_arena_bytes(w->plan, a, w->stage) + 1;
    }
}

void dt_walk_entry(DtWalk *w, DtPlanStr name)
{
    memset(w->reg, 0, sizeof w->reg);
    if (!w->base)
        find_arenas(w);
    for (uint32_t e = 0; e < w->plan->n_entries; e++) {
        const DtPlanEntry *entry = &w->plan->entries[e];
        if (dt_plan_on_stage(entry->stage, w->stage) &&
            !strcmp(dt_plan_str(w->plan, entry->name), dt_plan_str(w->plan, name))) {
            walk(w, entry->first, entry->first + entry->count, 0);
            return;
        }
    }
}
