/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the plan: what memory contains when they begin, and must contain when they end.
 *
 *   step, eval    keep stores unchanged; gradients and losses begin at zero, and accumulate over
 *                 micro-batches, then over ranks
 *   update        reads stores and gradients, and writes stores; states take their next values
 *   predict       reads inputs that the runtime has filled
 *
 * With a pipeline these call an entry per piece. The walk of a piece makes assumptions, which
 * plan_pipe.c then checks in the schedules of all stages together. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

/* FIRST_CLOCK: times of writes are larger than all other logged numbers. MOST_INSTS: the most
 * instructions that are walked in a plan. */
enum { MOST_RINGS = 64 };
static const uint64_t FIRST_CLOCK = UINT64_C(1) << 40, MOST_INSTS = 10 * 1000 * 1000;

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* Marks memory that the runtime writes as an input of this name, and checks that it overlaps
 * nothing that is marked already. */
static bool hold_apart(PlanWalk *walk, const char *name, const PlanPlace *place)
{
    const PlanList *near = dt_certplan_near(walk, place);
    for (uint32_t i = 0; i < near->n; i++)
        if (dt_certplan_meets(walk, &near->at[i]->place, place))
            return dt_certplan_fail(
                walk, "%s, which the runtime writes, lies where something else does", name);
    dt_certplan_hold_input(walk, name, place);
    return true;
}

/* Marks as inputs the scalars of the step, and the memory of named scalars of other runs, which the
 * runtime may read later. Neither may change (walk->found). */
static bool hold_scalars(PlanWalk *walk)
{
    const DtPlan *plan = walk->plan;
    const DtPlanName mine = dt_certplan_at(walk);
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        const DtPlanScalar *scalar = &plan->scalars[i];
        const PlanPlace place = {.arena = scalar->arena, .base = scalar->offset, .bytes = 4,
                                 .size = 1};
        if (!hold_apart(walk, dt_intern(dt_plan_str(plan, scalar->name)), &place))
            return false;
    }
    for (uint32_t i = 0; i < plan->n_metrics; i++) {
        const DtPlanName theirs = dt_plan_name(dt_plan_str(plan, plan->metrics[i].entry));
        const PlanPlace place = dt_certplan_metric(&plan->metrics[i]);
        if (!plan->metrics[i].n_axes && !dt_plan_name_same_run(&mine, &theirs))
            dt_certplan_hold_input(walk, NULL, &place);
    }
    walk->found = walk->inputs;
    return true;
}

/* Whether an input before it has the name of the input with this number, and so its memory: those
 * of held-out data, and of sources that are mixed. */
static bool is_listed(const DtPlan *plan, uint32_t input)
{
    const char *name = dt_plan_str(plan, plan->inputs[input].name);
    bool listed = false;
    for (uint32_t i = 0; i < input; i++)
        listed = listed || is(dt_plan_str(plan, plan->inputs[i].name), name);
    return listed;
}

/* For a prediction: marks inputs as filled, since the runtime has written samples there. */
static bool hold_inputs(PlanWalk *walk)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[i];
        const char *name = dt_intern(dt_plan_str(plan, input->name));
        const CertType *type = is_listed(plan, i) ? NULL : dt_certplan_input(walk, name);
        PlanPlace place = {.arena = input->arena, .base = input->offset};
        if (!type)
            continue;
        dt_certplan_dense(walk, type, &place);
        if (!hold_apart(walk, name, &place))
            return false;
    }
    return true;
}

/* Checks that the stores that are no results of this entry, the scalars of the step, and results of
 * other entries keep their contents. */
static bool keeps_stores(PlanWalk *walk)
{
    for (const PlanRegion *region = walk->found; region; region = region->next)
        if (!region->alive)
            return dt_certplan_fail(walk,
                                    "%s is overwritten, and still needed when the entry has ended",
                                    region->name ? region->name : "a result of another entry");
    for (uint32_t i = 0; i < walk->n_kept; i++) {
        const PlanRegion *region = walk->kept[i];
        if ((!region->alive || region->holes) && !walk->is_result[region->id])
            return dt_certplan_fail(walk, "store %s is overwritten",
                                    walk->program->stores.at[region->id].path);
    }
    return true;
}

static bool begin_entry(PlanWalk *walk, uint32_t number)
{
    const DtPlanEntry *entry = &walk->plan->entries[number];
    dt_certplan_forget_regions(walk);
    dt_arena_reset(walk->scratch);
    walk->at_entry = entry;
    walk->inst = NULL;
    walk->frame = NULL;
    walk->back = NULL;
    walk->behind = walk->last = false;
    walk->frames = NULL;
    walk->n_frames = walk->most_frames = 0;
    walk->entries.n = walk->written.n = walk->log.n = walk->started.n = 0;
    memset(&walk->stacks, 0, sizeof walk->stacks);
    walk->depth = walk->actions = walk->guard = walk->watched = 0;
    walk->tiles.open = false;
    walk->memo = NULL;
    walk->moves = walk->moves && walk->ring;
    memset(walk->count, 0, sizeof walk->count);
    memset(walk->open, 0, sizeof walk->open);
    memset(walk->taken, 0, sizeof walk->taken);
    memset(walk->reg, 0, sizeof walk->reg);
    walk->reg[DT_PLAN_REG_RINGBUF] = walk->ring;
    memset(walk->is_result, 0, walk->program->stores.n);
    memset(walk->of_store, 0, walk->program->stores.n * sizeof walk->of_store[0]);
    walk->inputs = NULL;
    for (uint32_t i = 0; i < walk->n_kept; i++) {
        walk->kept[i]->alive = true;
        walk->kept[i]->holes = NULL;
        walk->kept[i]->stamp = ++walk->clock;
        walk->kept[i]->next = NULL;
        walk->of_store[walk->kept[i]->id] = walk->kept[i];
        dt_certplan_push_region(walk, walk->kept[i]);
    }
    return hold_scalars(walk) &&
           (!dt_plan_run_predicts(dt_certplan_at(walk).run) || hold_inputs(walk));
}

/* Whether all stages of a class have the result at the same place: stores and scalar results do
 * (their stores have equal places); results whose place a note gives may not. */
static bool lies_alike(const PlanWalk *walk, const CertEntry *entry, const CertResult *result)
{
    const DtPlan *plan = walk->plan;
    if (result->store >= 0)
        return true;
    if (result->name[0] == '@') /* a note has given its place */
        return false;
    for (uint32_t i = 0; !dt_certplan_is_piece(entry) && i < plan->n_metrics; i++)
        if (is(dt_plan_str(plan, plan->metrics[i].name), result->name) &&
            is(dt_plan_str(plan, plan->metrics[i].entry), dt_certplan_run_of(entry)))
            return plan->metrics[i].stage < 0; /* only the first one counts, as in place_metric */
    return false;
}

/* Whether the same entry was proved already for an earlier stage of its class, with stores at the
 * same places. Records that this entry was walked. */
static bool is_proved(PlanWalk *walk, uint32_t number)
{
    const DtPlan *plan = walk->plan;
    const DtPlanEntry *entry = &plan->entries[number];
    uint32_t before = walk->walked[entry->first];
    walk->walked[entry->first] = 1 + number;
    walk->at_entry = entry;
    if (!plan->meta->pipeline || !before--)
        return false;
    const DtPlanEntry *other = &plan->entries[before];
    const CertEntry *of = dt_certplan_entry(walk, 0);
    bool same = other->count == entry->count &&
                plan->notes[before].first == plan->notes[number].first &&
                plan->notes[before].count == plan->notes[number].count &&
                other->stage >= (int32_t)walk->alike_from && !walk->moving[before] && of &&
                of->to > of->stage && dt_cert_on(of->stage, of->to, other->stage);
    for (uint32_t i = 0; same && i < of->results.n; i++)
        same = lies_alike(walk, of, &of->results.at[i]);
    bool duplicate = dt_certplan_is_duplicate(walk, of);
    if (!same || !dt_certplan_repeat(walk, number, before, of))
        return false;
    walk->seen[of - walk->program->entries.at] += !duplicate;
    return true;
}

static bool run_entry(PlanWalk *walk, uint32_t number)
{
    if (!begin_entry(walk, number) || !dt_certplan_enter(walk, number) ||
        !dt_certplan_walk(walk, walk->at_entry, &walk->plan->notes[number]))
        return false;
    for (uint32_t f = 0; f < walk->entries.n; f++) {
        const CertEntry *entry = walk->entries.at[f]->entry;
        if (!walk->plan->meta->pipeline &&
            !is(dt_certplan_run_of(entry), dt_plan_str(walk->plan, walk->at_entry->name)))
            return dt_certplan_fail(walk, "it runs %s of the program", entry->name);
        if (!dt_certplan_finish(walk, walk->entries.at[f]) ||
            !dt_certplan_complete(walk, walk->entries.at[f]))
            return false;
        for (uint32_t i = 0; i < entry->results.n; i++)
            if (entry->results.at[i].store >= 0)
                walk->is_result[entry->results.at[i].store] = true;
    }
    walk->moving[number] = walk->moves;
    return dt_certplan_leave(walk) && keeps_stores(walk);
}

/* Proves an entry. A piece that prefetches gathers into a ring buffer may begin with any of its
 * slots, so it is proved for each. */
static bool prove_entry(PlanWalk *walk, uint32_t number)
{
    const DtPlanEntry *entry = &walk->plan->entries[number];
    const uint32_t n = dt_certplan_rings(walk, entry);
    walk->ring = 0;
    if (dt_plan_name(dt_plan_str(walk->plan, entry->name)).run == DT_PLAN_NO_RUN)
        return dt_certplan_fail(walk, "entry `%s` is of no run",
                                dt_plan_str(walk->plan, entry->name));
    if (n > MOST_RINGS)
        return dt_certplan_fail(walk, "a ring of %u slots", n);
    if (is_proved(walk, number))
        return true;
    for (; walk->ring < n; walk->ring++)
        if (!run_entry(walk, number))
            return false;
    return true;
}

/* ---- the whole ---- */

static bool has_mesh(PlanWalk *walk)
{
    const CertProgram *program = walk->program;
    walk->first_device = program->n_mesh && program->time & 1 ? 1 : 0;
    bool good = walk->plan->n_mesh == program->n_mesh - walk->first_device;
    for (uint32_t m = 0; good && m < walk->plan->n_mesh; m++)
        good = walk->plan->mesh[m].size == program->size[m + walk->first_device] &&
               is(dt_plan_str(walk->plan, walk->plan->mesh[m].name),
                  program->mesh[m + walk->first_device]);
    uint32_t pipeline = walk->plan->meta->pipeline,
             n_micro = walk->first_device ? (uint32_t)program->size[0] : 1;
    good = good && walk->plan->meta->n_micro == n_micro &&
           program->pipe == (pipeline ? 1u << (pipeline - 1 + walk->first_device) : 0);
    return good || dt_certplan_fail(walk, "the plan's mesh is not the program's");
}

/* Refuses plans that the walk cannot follow: with more arenas than it knows, or with a pipeline and
 * several losses (plan_run.c). */
static bool is_followed(PlanWalk *walk)
{
    const DtPlan *plan = walk->plan;
    if (plan->n_arenas > DT_COUNT(walk->memory))
        return dt_certplan_fail(walk,
                                "the plan has %u arenas, of which no more than %u are followed",
                                plan->n_arenas, (unsigned)DT_COUNT(walk->memory));
    for (uint32_t i = 0; plan->meta->pipeline && i < plan->n_entries; i++)
        if (dt_plan_name(dt_plan_str(plan, plan->entries[i].name)).n_objective)
            return dt_certplan_fail(walk, "a pipeline has several losses");
    return true;
}

/* Checks that the plan has every entry of the program, on each of its stages; without held-out data
 * it has none of `eval`. */
static bool has_entries(PlanWalk *walk)
{
    bool evaluates = false;
    for (uint32_t i = 0; i < walk->plan->n_readers; i++)
        evaluates = evaluates || walk->plan->readers[i].is_eval;
    for (uint32_t i = 0; i < walk->program->entries.n; i++) {
        const CertEntry *entry = &walk->program->entries.at[i];
        if (!evaluates && entry->is.run == DT_PLAN_EVAL)
            continue;
        if (walk->seen[i] != (entry->stage < 0 ? 1 : entry->to - entry->stage + 1))
            return dt_certplan_fail(walk, "entry %s of the program is %u times in the plan",
                                    entry->name, walk->seen[i]);
    }
    return true;
}

static bool prove_plan(PlanWalk *walk, const char *final, CertProgram *program)
{
    DtArena *arena = walk->arena;
    const DtPlan *plan = walk->plan;
    if (!dt_certtext_read(arena, final, program, walk->problem) || !has_mesh(walk) ||
        !is_followed(walk))
        return false;
    if (!plan->n_logical || plan->n_notes != plan->n_entries)
        return dt_certplan_fail(walk, "the plan has no notes");
    walk->stores = DT_NEW_ARRAY(arena, PlanPlace, program->stores.n + 1);
    walk->terms = DT_NEW_ARRAY(arena, const CertType *, program->stores.n + 1);
    walk->kernels = DT_NEW_ARRAY(arena, PlanKnown, plan->n_insts + 1);
    walk->loops = DT_NEW_ARRAY(arena, PlanWatched, plan->n_schedule + 1);
    walk->added = DT_NEW_ARRAY(arena, uint64_t, plan->n_args + 1);
    walk->seen = DT_NEW_ARRAY(arena, uint32_t, program->entries.n + 1);
    walk->walked = DT_NEW_ARRAY(arena, uint32_t, plan->n_schedule + 1);
    walk->moving = DT_NEW_ARRAY(arena, bool, plan->n_entries + 1);
    walk->has_record = DT_NEW_ARRAY(arena, uint32_t, plan->n_stores + 1);
    walk->has_metric = DT_NEW_ARRAY(arena, bool, plan->n_metrics + 1);
    walk->is_result = DT_NEW_ARRAY(arena, bool, program->stores.n + 1);
    walk->of_store = DT_NEW_ARRAY(arena, PlanRegion *, program->stores.n + 1);
    walk->regions = DT_NEW_ARRAY(arena, PlanRegion, program->stores.n + 1);
    walk->kept = DT_NEW_ARRAY(arena, PlanRegion *, program->stores.n + 1);
    for (walk->stage = 0; walk->stage < dt_plan_stages(plan); walk->stage++) {
        if (!dt_certplan_stores(walk))
            return false;
        for (uint32_t i = 0; i < plan->n_entries; i++)
            if (dt_plan_on_stage(plan->entries[i].stage, walk->stage) && !prove_entry(walk, i))
                return false;
    }
    walk->at_entry = NULL;
    return has_entries(walk) && dt_certplan_records(walk) && dt_certplan_queues(walk);
}

static bool has_forms(const DtPlan *plan)
{
    uint32_t i = 0;
    while (i < plan->n_insts && !plan->insts[i].instead)
        i++;
    return i < plan->n_insts;
}

bool dt_certplan_trace(DtArena *arena, const DtPlan *plan, const char *final, bool whole,
                       DtCertSpan *ret_notes, DtText *ret_problem)
{
    CertProgram program;
    PlanWalk *walk = DT_NEW(arena, PlanWalk);
    *walk = (PlanWalk){.arena = arena, .scratch = dt_arena_child(arena), .plan = plan,
                       .program = &program, .problem = ret_problem, .spans = ret_notes,
                       .clock = FIRST_CLOCK, .budget = MOST_INSTS, .whole = whole};
    bool good = prove_plan(walk, final, &program);
    dt_arena_free(walk->scratch);
    if (!good || !has_forms(plan))
        return good;
    CertProgram other;
    PlanWalk *second = DT_NEW(arena, PlanWalk);
    *second = (PlanWalk){.arena = arena,
                         .scratch = dt_arena_child(arena),
                         .plan = plan,
                         .program = &other,
                         .problem = ret_problem,
                         .clock = FIRST_CLOCK,
                         .budget = MOST_INSTS,
                         .whole = whole,
                         .second = true};
    good = prove_plan(second, final, &other);
    dt_arena_free(second->scratch);
    return good;
}

bool dt_certplan_prove(DtArena *arena, const DtPlan *plan, const char *final, DtText *ret_problem)
{
    return dt_certplan_trace(arena, plan, final, false, NULL, ret_problem);
}
