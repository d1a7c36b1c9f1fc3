/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the program that an entry of the plan runs, and the contents of memory when it
 * begins. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* ---- entries ---- */

static void read_slot(PlanWalk *walk, PlanPlace *ret_place)
{
    uint64_t arena = dt_certplan_word(walk);
    int64_t base = dt_certplan_signed(walk), step = dt_certplan_signed(walk);
    uint64_t reg = step ? dt_certplan_word(walk) : 0;
    *ret_place = (PlanPlace){.size = 1};
    if (arena >= DT_COUNT(walk->memory) || base < 0 || base > PLAN_BYTES ||
        reg >= DT_PLAN_REG_RINGBUF || !dt_certplan_steps(walk, (uint32_t)reg, step)) {
        dt_certplan_fail(walk, "a slot lies in no memory");
        return;
    }
    ret_place->arena = (uint32_t)arena;
    ret_place->base = base;
    ret_place->reg[reg] = step;
}

/* Returns piece number `number` (from 0) of this stage, among the pieces of the run and part that
 * `like` names; NULL: there is none. */
static const CertEntry *find_piece(const PlanWalk *walk, const DtPlanName *like, uint64_t number)
{
    const CertProgram *program = walk->program;
    const CertEntry *found = NULL;
    for (int64_t last = INT64_MIN;; number--, last = found->is.number) {
        found = NULL;
        for (uint32_t i = 0; i < program->entries.n; i++) {
            const CertEntry *entry = &program->entries.at[i];
            if (entry->stage >= 0 && dt_cert_on(entry->stage, entry->to, walk->stage) &&
                entry->is.part == like->part && dt_plan_name_same_run(&entry->is, like) &&
                entry->is.number > last && (!found || entry->is.number < found->is.number))
                found = entry;
        }
        if (!found || number == 0)
            return found;
    }
}

const CertEntry *dt_certplan_piece(PlanWalk *walk, uint64_t number, uint32_t phase)
{
    DtPlanName name = dt_certplan_at(walk);
    name.part = (DtPlanPart)(DT_PLAN_F + phase);
    return find_piece(walk, &name, number);
}

/* Returns the entry of the program that the current entry of the plan is named after; NULL after a
 * problem. Several entries of the plan may be the same piece: "grad.f0", "grad.f0.1". */
const CertEntry *dt_certplan_entry(PlanWalk *walk, uint64_t number)
{
    const CertProgram *program = walk->program;
    const DtPlanName name = dt_certplan_at(walk);
    if (number)
        return number <= program->entries.n ? &program->entries.at[number - 1] : NULL;
    uint32_t n_before = 0; /* pieces of this stage with a smaller number */
    for (uint32_t i = 0; i < walk->plan->n_entries; i++) {
        const DtPlanEntry *other = &walk->plan->entries[i];
        const DtPlanName their = dt_plan_name(dt_plan_str(walk->plan, other->name));
        n_before += dt_plan_on_stage(other->stage, walk->stage) && their.part == name.part &&
                    dt_plan_name_same_run(&their, &name) && their.twin == 0 &&
                    their.number < name.number;
    }
    return find_piece(walk, &name, n_before);
}

static bool take_store(PlanWalk *walk, int store, PlanPlace *place)
{
    dt_certplan_dense(walk, walk->program->stores.at[store].type, place);
    if (walk->stores[store].bytes && !dt_certplan_same(&walk->stores[store], place))
        return dt_certplan_fail(walk, "`%s` moves", walk->program->stores.at[store].path);
    walk->stores[store] = *place;
    return true;
}

/* Reads the place of a slot from the note, marks its contents as those of the store, and records
 * that the piece reads it. False after a problem. */
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
    if (first) { /* otherwise an earlier entry of the plan has left the value there */
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
    dt_certplan_adds(walk, &place, dt_certplan_sum_of(walk, type, result->store), result->store,
                     type, dt_certplan_accumulates(walk, result));
    return true;
}

/* Begins the frame of the entry for the present micro-batch (for a piece: for any micro-batch);
 * NULL after a problem. */
static PlanFrame *enter(PlanWalk *walk, const CertEntry *entry)
{
    const int64_t micro = walk->count[0] ? 0 : walk->reg[0];
    if (dt_certplan_has_frame(walk, NULL, entry, micro)) {
        dt_certplan_fail(walk, "entry %s runs twice", entry->name);
        return NULL;
    }
    PlanFrame *frame = dt_certplan_frame(walk, PLAN_ENTRY, NULL, entry->func, entry, micro);
    PlanFrame *last = walk->entries.n ? walk->entries.at[walk->entries.n - 1] : NULL;
    const bool continues =
        last && last->entry == entry && last->number == micro - 1 && walk->taken[0];
    if (continues) {
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
    walk->seen[entry - walk->program->entries.at] +=
        !walk->ring && !dt_certplan_is_duplicate(walk, entry);
    return frame;
}

bool dt_certplan_begin(PlanWalk *walk)
{
    const CertEntry *entry = dt_certplan_entry(walk, dt_certplan_word(walk));
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

/* Checks that the instruction reads the rows of a batch that belong to this rank, by the splits of
 * the first axis. */
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
        dt_certplan_dealt(walk, m, step, want.reg, want.coord);
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
    const bool eval = dt_certplan_at(walk).run == DT_PLAN_EVAL;
    if (reader->is_eval != eval || reader->part > 1 || inst->n_args != reader->n_inputs + 2)
        return dt_certplan_fail(walk, "the reader is not of this entry");
    /* the same rows for all of them */
    if (walk->first_device && !walk->taken[0] && !walk->count[0])
        return dt_certplan_fail(walk, "a batch is read outside of the micro-batches");
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
