/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the plan: what memory holds when they begin, and what it must hold when they end.
 *
 *   step, eval    stores as they were; gradients and losses begin at zero, and are added up over micro-batches, then
 *                 over ranks
 *   update        stores and gradients; states take their next values
 *   predict       inputs that somebody filled
 *
 * With a pipeline these call an entry per piece, whose walk takes for granted what plan_pipe.c then checks of the
 * schedules of all stages together. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

/* Times are larger than what else is logged; instructions that are followed in all. */
enum { MOST_RINGS = 64 };
static const uint64_t FIRST_CLOCK = UINT64_C(1) << 40, MOST_INSTS = 10 * 1000 * 1000;

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool dt_certplan_has_slots(const CertStore *store)
{
    return is(store->kind, "saved") || is(store->kind, "channel");
}

/* ---- entries ---- */

static void read_slot(PlanWalk *walk, PlanPlace *ret_place)
{
    uint64_t arena = dt_certplan_word(walk);
    int64_t base = dt_certplan_signed(walk), step = dt_certplan_signed(walk);
    uint64_t reg = step ? dt_certplan_word(walk) : 0;
    *ret_place = (PlanPlace){.size = 1};
    if (arena >= DT_COUNT(walk->memory) || base < 0 || base > PLAN_BYTES || step < 0 ||
        step > PLAN_BYTES / DT_PLAN_MAX_SLOTS || reg >= DT_PLAN_REG_RINGBUF) {
        dt_certplan_fail(walk, "a slot lies in no memory");
        return;
    }
    ret_place->arena = (uint32_t)arena;
    ret_place->base = base;
    ret_place->reg[reg] = step;
}

/* 12 of "grad.f12", else 0. */
static int64_t piece_of(const char *name)
{
    return strtol(name + strcspn(name, "0123456789"), NULL, 10);
}

/* Of the stage, or of a class of stages, whose pieces are in the same order on each: the one of this number, from 0. */
static const CertEntry *find_piece(const PlanWalk *walk, const char *prefix, size_t len, uint64_t number)
{
    const CertProgram *program = walk->program;
    const CertEntry *found = NULL;
    for (int64_t last = -1;; number--, last = piece_of(found->name)) {
        found = NULL;
        for (uint32_t i = 0; i < program->entries.n; i++) {
            const CertEntry *entry = &program->entries.at[i];
            if (strncmp(entry->name, prefix, len) == 0 && entry->stage >= 0 &&
                dt_cert_on(entry->stage, entry->to, walk->stage) && piece_of(entry->name) > last &&
                (!found || piece_of(entry->name) < piece_of(found->name)))
                found = entry;
        }
        if (!found || number == 0)
            return found;
    }
}

const CertEntry *dt_certplan_piece(PlanWalk *walk, uint64_t number, uint32_t phase)
{
    const char *name = dt_plan_str(walk->plan, walk->at_entry->name);
    char prefix[64];
    int len = snprintf(prefix, sizeof prefix, "%.*s.%c", (int)strcspn(name, "."), name, "fbw"[phase]);
    return len < (int)sizeof prefix ? find_piece(walk, prefix, (size_t)len, number) : NULL;
}

/* The entry of the program that a plan entry is named after. Several may be the same piece: "grad.f0", "grad.f0.1". */
static const CertEntry *find_entry(PlanWalk *walk, uint64_t number)
{
    const CertProgram *program = walk->program;
    const char *name = dt_plan_str(walk->plan, walk->at_entry->name);
    if (number)
        return number <= program->entries.n ? &program->entries.at[number - 1] : NULL;
    int64_t number_of = piece_of(name);
    uint32_t rank = 0, n = (uint32_t)(strcspn(name, "0123456789"));
    for (uint32_t i = 0; i < walk->plan->n_entries; i++) { /* chunks of a stage, in order */
        const DtPlanEntry *other = &walk->plan->entries[i];
        const char *their = dt_plan_str(walk->plan, other->name);
        rank += dt_plan_on_stage(other->stage, walk->stage) && strncmp(their, name, n) == 0 &&
                !strchr(their + n, '.') && piece_of(their) < number_of;
    }
    return find_piece(walk, name, n, rank);
}

static bool take_store(PlanWalk *walk, int store, PlanPlace *place)
{
    dt_certplan_dense(walk, walk->program->stores.at[store].type, place);
    if (walk->stores[store].bytes && !dt_certplan_same(&walk->stores[store], place))
        return dt_certplan_fail(walk, "`%s` moves", walk->program->stores.at[store].path);
    walk->stores[store] = *place;
    return true;
}

/* What a piece of a pipeline finds in slots. */
static bool hold_param(PlanWalk *walk, const CertOp *op)
{
    PlanPlace place;
    read_slot(walk, &place);
    if (!take_store(walk, op->store, &place))
        return false;
    dt_certplan_hold_store(walk, op->store, &place);
    return dt_certplan_uses(walk, op->store, false);
}

static bool hold_input(PlanWalk *walk, const CertOp *op, bool first)
{
    PlanPlace place;
    read_slot(walk, &place);
    dt_certplan_dense(walk, op->types[0], &place);
    if (!dt_certplan_agree(walk, op->text, &place))
        return false;
    if (first) { /* else an entry before this one in the plan's has left it there */
        dt_certplan_hold_input(walk, op->text, &place);
        dt_certplan_needs(walk, op->text, &place);
    }
    return true;
}

static bool take_result(PlanWalk *walk, PlanFrame *frame, uint32_t i)
{
    const CertResult *result = &frame->entry->results.at[i];
    const CertStore *store = result->store >= 0 ? &walk->program->stores.at[result->store] : NULL;
    bool slots = store && dt_certplan_has_slots(store), named = !store && result->name[0] == '@';
    frame->has_slot[i] = slots || named;
    if (frame->has_slot[i])
        read_slot(walk, &frame->slots[i]);
    if (slots && (!take_store(walk, result->store, &frame->slots[i]) ||
                  !dt_certplan_uses(walk, result->store, true)))
        return false;
    PlanPlace place;
    if (!walk->plan->meta->pipeline || slots || named || !dt_certplan_is_piece(frame->entry))
        return true;
    if (!dt_certplan_place_result(walk, frame, i, &place))
        return false;
    if (dt_certplan_accumulates(walk, result))
        dt_certplan_hold(walk, PLAN_ZERO, &place);
    const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
    dt_certplan_adds(walk, &place, dt_certplan_sum_of(walk, type, result->store), result->store, type,
                     dt_certplan_accumulates(walk, result));
    return true;
}

/* The frame of the entry for the present micro-batch; of a piece, for any. */
static PlanFrame *enter(PlanWalk *walk, const CertEntry *entry)
{
    const int64_t micro = walk->count[0] ? 0 : walk->reg[0];
    if (dt_certplan_has_frame(walk, NULL, entry, micro)) {
        dt_certplan_fail(walk, "entry %s runs twice", entry->name);
        return NULL;
    }
    PlanFrame *frame = dt_certplan_frame(walk, PLAN_ENTRY, NULL, entry->func, entry, micro);
    PlanFrame *last = walk->entries.n ? walk->entries.at[walk->entries.n - 1] : NULL;
    const bool again = last && last->entry == entry && last->number == micro - 1 && walk->taken[0];
    if (again) {
        frame->slots = last->slots, frame->has_slot = last->has_slot, frame->terms = last->terms;
        walk->entries.at[walk->entries.n - 1] = frame;
        return frame;
    }
    frame->slots = DT_NEW_ARRAY(walk->arena, PlanPlace, entry->results.n + 1);
    frame->has_slot = DT_NEW_ARRAY(walk->arena, bool, entry->results.n + 1);
    frame->terms = DT_NEW_ARRAY(walk->arena, int64_t, entry->results.n + 1);
    if (last && (!dt_certplan_finish(walk, last) || !dt_certplan_complete(walk, last)))
        return NULL;
    DT_PUSH(walk->arena, walk->entries, frame);
    walk->seen[entry - walk->program->entries.at] += !walk->ring && !dt_certplan_is_again(walk, entry);
    return frame;
}

bool dt_certplan_begin(PlanWalk *walk)
{
    const CertEntry *entry = find_entry(walk, dt_certplan_word(walk));
    const CertFunc *func = entry ? entry->func : NULL;
    if (!func || walk->tiles.open || walk->back || entry->results.n != func->results.n ||
        !dt_cert_on(entry->stage, entry->to, walk->stage))
        return dt_certplan_fail(walk, "a note names no entry of the program");
    const bool first = walk->entries.n == 0;
    PlanFrame *frame = walk->frame = enter(walk, entry);
    for (uint32_t i = 0; frame && i < func->ops.n && !walk->problem->len; i++) {
        const CertOp *op = func->ops.at[i];
        if (is(op->kind, "param") && op->store >= 0 &&
            dt_certplan_has_slots(&walk->program->stores.at[op->store]))
            hold_param(walk, op);
        else if (is(op->kind, "input") && op->text[0] == '@' && strchr(op->text, '.'))
            hold_input(walk, op, first);
    }
    for (uint32_t i = 0; frame && i < entry->results.n && !walk->problem->len; i++)
        take_result(walk, frame, i);
    return !walk->problem->len;
}

bool dt_certplan_has_input(const PlanWalk *walk, const char *name, const PlanPlace *place)
{
    for (const PlanRegion *region = walk->inputs; region; region = region->next)
        if (region->alive && region->name == name && dt_certplan_same(&region->place, place))
            return true;
    return false;
}

const CertType *dt_certplan_input(const PlanWalk *walk, const char *name)
{
    for (uint32_t e = 0; e < walk->program->entries.n; e++) {
        const CertFunc *func = walk->program->entries.at[e].func;
        for (uint32_t i = 0; func && i < func->ops.n; i++)
            if (is(func->ops.at[i]->kind, "input") && is(func->ops.at[i]->text, name))
                return func->ops.at[i]->types[0];
    }
    return NULL;
}

/* The rows of a batch that a rank reads, from the splits of the first axis. */
static bool reads_rows(PlanWalk *walk, const DtPlanArg *args, const CertType *type)
{
    PlanPlace first, rows, want = {.bytes = 0}, number = {.bytes = 0};
    const CertAxis *axis = &type->axes[0];
    int64_t step = axis->extent;
    dt_certplan_raw(walk, &args[0], &first);
    dt_certplan_raw(walk, &args[1], &rows);
    first.arena = rows.arena = 0, first.bytes = rows.bytes = 0;
    for (uint32_t s = 0; s < axis->n; s++) {
        uint32_t m = axis->split[s];
        step /= walk->program->size[m];
        *(m < walk->first_device ? &want.reg[0] : &want.coord[m - walk->first_device]) += step;
    }
    number.base = step;
    return (args[0].kind == DT_ARG_INTEGER && args[1].kind == DT_ARG_INTEGER &&
            dt_certplan_same(&first, &want) && dt_certplan_same(&rows, &number)) ||
           dt_certplan_fail(walk, "other rows are read than the rank has");
}

bool dt_certplan_read(PlanWalk *walk, const DtPlanInst *inst)
{
    const DtPlan *plan = walk->plan;
    const DtPlanReader *reader = &plan->readers[inst->ref];
    bool eval = strncmp(dt_plan_str(plan, walk->at_entry->name), "eval", 4) == 0;
    if (reader->is_eval != eval || inst->n_args != reader->n_inputs + 2)
        return dt_certplan_fail(walk, "the reader is not of this entry");
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[reader->first_input + i];
        const char *name = dt_intern(dt_plan_str(plan, input->name));
        const CertType *type = dt_certplan_input(walk, name);
        PlanPlace place, want = {.arena = input->arena, .base = input->offset};
        dt_certplan_arg(walk, &plan->args[inst->first_arg + i], &place);
        want.bytes = place.bytes;
        if (type)
            dt_certplan_dense(walk, type, &want);
        if (!dt_certplan_same(&place, &want))
            return dt_certplan_fail(walk, "input %s is read to where it does not belong", name);
        if (type && !reads_rows(walk, &plan->args[inst->first_arg + reader->n_inputs], type))
            return false;
        dt_certplan_spoil(walk, &want, false);
        dt_certplan_hold_input(walk, name, &want);
    }
    return true;
}

/* ---- one plan entry ---- */

static void hold_inputs(PlanWalk *walk, bool all)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        PlanPlace place = {.arena = plan->scalars[i].arena,
                           .base = plan->scalars[i].offset,
                           .bytes = 4,
                           .size = 1};
        dt_certplan_hold_input(walk, dt_intern(dt_plan_str(plan, plan->scalars[i].name)), &place);
    }
    for (uint32_t i = 0; all && i < plan->n_inputs; i++) {
        const char *name = dt_intern(dt_plan_str(plan, plan->inputs[i].name));
        const CertType *type = dt_certplan_input(walk, name);
        PlanPlace place = {.arena = plan->inputs[i].arena, .base = plan->inputs[i].offset};
        if (!type)
            continue;
        dt_certplan_dense(walk, type, &place);
        dt_certplan_hold_input(walk, name, &place);
    }
}

/* Stores that are no results hold what they held. */
static bool keeps_stores(PlanWalk *walk)
{
    for (uint32_t i = 0; i < walk->n_kept; i++) {
        const PlanRegion *region = walk->kept[i];
        if (!region->alive && !walk->is_result[region->id])
            return dt_certplan_fail(walk, "store %s is overwritten",
                                    walk->program->stores.at[region->id].path);
    }
    return true;
}

static void begin_entry(PlanWalk *walk, uint32_t number)
{
    const DtPlanEntry *entry = &walk->plan->entries[number];
    dt_certplan_forget_regions(walk);
    dt_arena_reset(walk->scratch);
    walk->at_entry = entry;
    walk->inst = NULL;
    walk->frame = NULL;
    walk->back = NULL;
    walk->frames = NULL;
    walk->n_frames = walk->most_frames = 0;
    walk->entries.n = walk->written.n = walk->log.n = walk->started.n = 0;
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
        walk->kept[i]->stamp = ++walk->clock;
        walk->kept[i]->next = NULL;
        walk->of_store[walk->kept[i]->id] = walk->kept[i];
        dt_certplan_push_region(walk, walk->kept[i]);
    }
    hold_inputs(walk, strncmp(dt_plan_str(walk->plan, entry->name), "predict", 7) == 0);
}

/* Whether a result has the same place on all stages of a class on which stores lie alike. */
static bool lies_alike(const PlanWalk *walk, const CertEntry *entry, const CertResult *result)
{
    const DtPlan *plan = walk->plan;
    if (result->store >= 0)
        return true;
    if (result->name[0] == '@') /* a note says where it is */
        return false;
    for (uint32_t i = 0; !dt_certplan_is_piece(entry) && i < plan->n_metrics; i++)
        if (is(dt_plan_str(plan, plan->metrics[i].name), result->name) &&
            is(dt_plan_str(plan, plan->metrics[i].entry), dt_certplan_run_of(entry->name)))
            return plan->metrics[i].stage < 0; /* the first one counts: place_metric */
    return false;
}

/* Whether what this entry does was proved for an earlier stage of its class, on which its stores lie alike. */
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
    const CertEntry *of = find_entry(walk, 0);
    bool same = other->count == entry->count &&
                plan->notes[before].first == plan->notes[number].first &&
                plan->notes[before].count == plan->notes[number].count &&
                other->stage >= (int32_t)walk->alike_from && !walk->moving[before] && of &&
                of->to > of->stage && dt_cert_on(of->stage, of->to, other->stage);
    for (uint32_t i = 0; same && i < of->results.n; i++)
        same = lies_alike(walk, of, &of->results.at[i]);
    bool again = dt_certplan_is_again(walk, of);
    if (!same || !dt_certplan_repeat(walk, number, before, of))
        return false;
    walk->seen[of - walk->program->entries.at] += !again;
    return true;
}

static bool run_entry(PlanWalk *walk, uint32_t number)
{
    begin_entry(walk, number);
    if (!dt_certplan_enter(walk, number) ||
        !dt_certplan_walk(walk, walk->at_entry, &walk->plan->notes[number]))
        return false;
    for (uint32_t f = 0; f < walk->entries.n; f++) {
        const CertEntry *entry = walk->entries.at[f]->entry;
        if (!walk->plan->meta->pipeline &&
            !is(dt_certplan_run_of(entry->name), dt_plan_str(walk->plan, walk->at_entry->name)))
            return dt_certplan_fail(walk, "it runs %s of the program", entry->name);
        if (!dt_certplan_finish(walk, walk->entries.at[f]) || !dt_certplan_complete(walk, walk->entries.at[f]))
            return false;
        for (uint32_t i = 0; i < entry->results.n; i++)
            if (entry->results.at[i].store >= 0)
                walk->is_result[entry->results.at[i].store] = true;
    }
    walk->moving[number] = walk->moves;
    return dt_certplan_leave(walk) && keeps_stores(walk);
}

/* A piece that gathers ahead may begin with any slot of the ring. */
static bool prove_entry(PlanWalk *walk, uint32_t number)
{
    const uint32_t n = dt_certplan_rings(walk, &walk->plan->entries[number]);
    walk->ring = 0;
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

/* Every entry of the program is in the plan, on each of its stages; without held-out data none of `eval`. */
static bool has_entries(PlanWalk *walk)
{
    bool evaluates = false;
    for (uint32_t i = 0; i < walk->plan->n_entries; i++)
        evaluates = evaluates || is(dt_plan_str(walk->plan, walk->plan->entries[i].name), "eval");
    for (uint32_t i = 0; i < walk->program->entries.n; i++) {
        const CertEntry *entry = &walk->program->entries.at[i];
        if (!evaluates && strncmp(entry->name, "eval", 4) == 0)
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
    if (!dt_certtext_read(arena, final, program, walk->problem) || !has_mesh(walk))
        return false;
    if (!plan->n_logical || plan->n_notes != plan->n_entries)
        return dt_certplan_fail(walk, "the plan has no notes");
    walk->stores = DT_NEW_ARRAY(arena, PlanPlace, program->stores.n + 1);
    walk->kernels = DT_NEW_ARRAY(arena, PlanKnown, plan->n_insts + 1);
    walk->loops = DT_NEW_ARRAY(arena, PlanWatched, plan->n_schedule + 1);
    walk->seen = DT_NEW_ARRAY(arena, uint32_t, program->entries.n + 1);
    walk->walked = DT_NEW_ARRAY(arena, uint32_t, plan->n_schedule + 1);
    walk->moving = DT_NEW_ARRAY(arena, bool, plan->n_entries + 1);
    walk->has_record = DT_NEW_ARRAY(arena, bool, plan->n_stores + 1);
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

bool dt_certplan_trace(DtArena *arena, const DtPlan *plan, const char *final, bool whole, DtCertSpan *ret_notes,
                       DtText *ret_problem)
{
    CertProgram program;
    PlanWalk *walk = DT_NEW(arena, PlanWalk);
    *walk = (PlanWalk){.arena = arena, .scratch = dt_arena_child(arena), .plan = plan, .program = &program,
                       .problem = ret_problem, .spans = ret_notes, .clock = FIRST_CLOCK, .budget = MOST_INSTS,
                       .whole = whole};
    bool good = prove_plan(walk, final, &program);
    dt_arena_free(walk->scratch);
    return good;
}

bool dt_certplan_prove(DtArena *arena, const DtPlan *plan, const char *final, DtText *ret_problem)
{
    return dt_certplan_trace(arena, plan, final, false, NULL, ret_problem);
}
