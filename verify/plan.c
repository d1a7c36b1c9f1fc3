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

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool dt_certplan_has_slots(const CertStore *store)
{
    return is(store->kind, "saved") || is(store->kind, "channel");
}

/* ---- where things are ---- */

/* "grad.f3" of "step": the part of its name that its plan entry has in metrics. */
static const char *run_of(const char *entry)
{
    static const char *const runs[] = {"grad", "eval", "predict", "update"};
    for (size_t i = 0; i < DT_COUNT(runs); i++)
        if (strncmp(entry, runs[i], strlen(runs[i])) == 0)
            return i == 0 ? "step" : runs[i];
    return entry;
}

static bool place_metric(PlanWalk *walk, const char *run, const char *name, const CertType *type, PlanPlace *ret_place)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = 0; i < plan->n_metrics; i++) {
        const DtPlanMetric *metric = &plan->metrics[i];
        if (!dt_plan_on_stage(metric->stage, walk->stage) ||
            !is(dt_plan_str(plan, metric->name), name) ||
            !is(dt_plan_str(plan, metric->entry), run))
            continue;
        if (!is(dt_kinds_name(metric->dtype), type->dtype) ||
            !dt_certplan_axes(walk, type, metric->first_axis, metric->n_axes, 0))
            return dt_certplan_fail(walk, "the record of result `%s` has another type", name);
        *ret_place = dt_certplan_metric(metric);
        return true;
    }
    return dt_certplan_fail(walk, "result `%s` of `%s` has no record", name, run);
}

/* Where result number i of the entry has to be. */
static bool place_result(PlanWalk *walk, const PlanFrame *frame, uint32_t i, PlanPlace *ret_place)
{
    const CertResult *result = &frame->entry->results.at[i];
    const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
    PlanPlace address = frame->slots[i];
    if (!frame->has_slot[i] && result->store < 0 &&
        !place_metric(walk, run_of(frame->entry->name), result->name, type, &address))
        return false;
    if (!frame->has_slot[i] && result->store >= 0)
        address = walk->stores[result->store];
    *ret_place = (PlanPlace){.rank = 0};
    dt_certplan_dense(walk, type, ret_place);
    if (result->store >= 0 && ret_place->bytes != address.bytes && address.bytes)
        return dt_certplan_fail(walk, "store %s has %lld bytes, its result %lld",
                                walk->program->stores.at[result->store].path,
                                (long long)address.bytes, (long long)ret_place->bytes);
    dt_certplan_put(ret_place, &address);
    return true;
}

static bool accumulates(const PlanWalk *walk, const CertResult *result)
{
    return result->accumulate &&
           (walk->plan->meta->pipeline || (walk->first_device && walk->program->size[0] > 1));
}

/* Device axes over which a result is summed when the entry has run all micro-batches. */
static uint32_t sum_of(const PlanWalk *walk, const CertType *type, int store)
{
    uint32_t later = store >= 0 ? walk->program->stores.at[store].type->partial : 0;
    return (uint32_t)(type->partial & ~later) >> walk->first_device;
}

/* ---- entries ---- */

static void read_slot(PlanWalk *walk, PlanPlace *ret_place)
{
    uint64_t arena = dt_certplan_word(walk);
    int64_t base = dt_certplan_signed(walk), step = dt_certplan_signed(walk);
    uint64_t reg = step ? dt_certplan_word(walk) : 0;
    *ret_place = (PlanPlace){.size = 1};
    if (arena >= DT_COUNT(walk->memory) || base < 0 || base > PLAN_BYTES || step < 0 ||
        step > PLAN_BYTES / DT_PLAN_MAX_SLOTS || reg >= DT_PLAN_REG_RING) {
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

/* A place that several entries know by a name or store is the same in all of them. */
static bool agree(PlanWalk *walk, const char *name, const PlanPlace *place)
{
    for (struct PlanNamed *named = walk->named; named; named = named->next)
        if (named->name == name && named->stage == walk->stage)
            return dt_certplan_same(&named->place, place) ||
                   dt_certplan_fail(walk, "`%s` moves", name);
    struct PlanNamed *named = DT_NEW(walk->arena, struct PlanNamed);
    *named = (struct PlanNamed){name, walk->stage, *place, walk->named};
    walk->named = named;
    return true;
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

static bool hold_input(PlanWalk *walk, const CertOp *op)
{
    PlanPlace place;
    read_slot(walk, &place);
    dt_certplan_dense(walk, op->types[0], &place);
    if (!agree(walk, op->text, &place))
        return false;
    if (walk->entries.n == 0) { /* else an entry before this one in the plan's has left it there */
        dt_certplan_hold_input(walk, op->text, &place);
        dt_certplan_needs(walk, op->text, &place);
    }
    return true;
}

/* Part of a run over all stages: what it leaves is complete when the run is. */
static bool is_piece(const CertEntry *entry)
{
    return !strstr(entry->name, ".prologue") && strncmp(entry->name, "update", 6) != 0;
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
    if (!walk->plan->meta->pipeline || slots || named || !is_piece(frame->entry))
        return true;
    if (!place_result(walk, frame, i, &place))
        return false;
    if (accumulates(walk, result))
        dt_certplan_hold(walk, PLAN_ZERO, &place);
    const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
    dt_certplan_adds(walk, &place, sum_of(walk, type, result->store), result->store, type,
                     accumulates(walk, result));
    return true;
}

bool dt_certplan_begin(PlanWalk *walk)
{
    const CertEntry *entry = find_entry(walk, dt_certplan_word(walk));
    const CertFunc *func = entry ? entry->func : NULL;
    if (!func || walk->tiles.open || entry->results.n != func->results.n ||
        !dt_cert_on(entry->stage, entry->to, walk->stage))
        return dt_certplan_fail(walk, "a note names no entry of the program");
    if (walk->entries.n && !dt_certplan_finish(walk, walk->entries.at[walk->entries.n - 1]))
        return false;
    PlanFrame *frame = dt_certplan_push(walk, PLAN_ENTRY, func, NULL);
    frame->entry = entry;
    frame->slots = DT_NEW_ARRAY(walk->arena, PlanPlace, entry->results.n + 1);
    frame->has_slot = DT_NEW_ARRAY(walk->arena, bool, entry->results.n + 1);
    for (uint32_t i = 0; i < func->ops.n && !walk->problem->len; i++) {
        const CertOp *op = func->ops.at[i];
        if (is(op->kind, "param") && op->store >= 0 &&
            dt_certplan_has_slots(&walk->program->stores.at[op->store]))
            hold_param(walk, op);
        else if (is(op->kind, "input") && op->text[0] == '@' && strchr(op->text, '.'))
            hold_input(walk, op);
    }
    for (uint32_t i = 0; i < entry->results.n && !walk->problem->len; i++)
        take_result(walk, frame, i);
    DT_PUSH(walk->arena, walk->entries, frame);
    walk->seen[entry - walk->program->entries.at] += !dt_certplan_is_again(walk, entry);
    return !walk->problem->len;
}

/* Every result is where it belongs, complete. */
bool dt_certplan_finish(PlanWalk *walk, PlanFrame *frame)
{
    walk->inst = NULL;
    if (frame->finished)
        return true;
    frame->finished = true;
    for (uint32_t i = 0; i < frame->entry->results.n; i++) {
        const CertResult *result = &frame->entry->results.at[i];
        const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
        const char *what =
            result->store >= 0 ? walk->program->stores.at[result->store].path : result->name;
        PlanFinds found;
        PlanPlace place;
        if (!place_result(walk, frame, i, &place))
            return false;
        bool later = (walk->plan->meta->pipeline && is_piece(frame->entry)) ||
                     strncmp(frame->entry->name, "update", 6) == 0;
        uint32_t sum = later ? 0 : sum_of(walk, type, result->store);
        const uint32_t value = frame->func->results.at[i], n = dt_certplan_find(walk, frame, value, &place, &found);
        bool there = false;
        for (uint32_t k = 0; k < n; k++)
            there = there || (found.at[k].added == accumulates(walk, result) &&
                              found.at[k].summed == sum && dt_certplan_alike(&found.at[k].place, &place));
        if (!there)
            return dt_certplan_fail(walk, "result `%s` is not where it belongs%s", what,
                                    !dt_certplan_find(walk, frame, value, NULL, &found) ? ", nor elsewhere"
                                    : found.at[0].summed != sum ? ", or not summed over its ranks"
                                                             : "");
        if (result->store < 0 && result->name[0] == '@') {
            if (!agree(walk, result->name, &place))
                return false;
            dt_certplan_hold_input(walk, result->name, &place);
        }
    }
    return true;
}

bool dt_certplan_has_input(const PlanWalk *walk, const char *name, const PlanPlace *place)
{
    for (const PlanRegion *region = walk->inputs; region; region = region->next)
        if (region->alive && region->name == name && dt_certplan_same(&region->place, place))
            return true;
    return false;
}

/* ---- instructions of no op ---- */

/* The result that has this store, or lies at this place. */
static bool find_result(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                        uint32_t *ret_sum, const CertType **ret_type)
{
    for (uint32_t f = walk->entries.n; f-- > 0;) {
        const PlanFrame *frame = walk->entries.at[f];
        for (uint32_t i = 0; i < frame->entry->results.n && !frame->finished; i++) {
            if (frame->entry->results.at[i].store != store)
                continue;
            if (!place_result(walk, frame, i, ret_place))
                return false;
            if (store < 0 && !dt_certplan_same(ret_place, at))
                continue;
            *ret_type = dt_certplan_type(frame, frame->func->results.at[i]);
            *ret_sum = sum_of(walk, *ret_type, store);
            return true;
        }
    }
    return dt_certplan_fail(walk, "a sum over ranks is of no result");
}

/* Marks what holds the result as summed, and forgets what else may lie there. */
static bool mark(PlanWalk *walk, const PlanPlace *place, uint32_t sum)
{
    bool there = false;
    const PlanList *near = dt_certplan_near(walk, place);
    for (uint32_t i = 0; i < near->n; i++) {
        PlanRegion *region = near->at[i];
        if (!region->alive || !dt_certplan_meets(walk, &region->place, place))
            continue;
        if ((region->kind == PLAN_VALUE || region->kind == PLAN_ADDED) && !region->summed &&
            dt_certplan_same(&region->place, place)) {
            region->summed = sum;
            there = true;
        } else if (region->kind != PLAN_STORE) {
            region->alive = false;
        }
    }
    return there;
}

bool dt_certplan_sum(PlanWalk *walk, const DtPlanInst *inst)
{
    PlanPlace all, place;
    uint64_t n = dt_certplan_word(walk);
    int64_t end = 0, begin = 0;
    dt_certplan_arg(walk, &walk->plan->args[inst->first_arg], &all);
    if (inst->kind != DT_INST_ALL_REDUCE || inst->n_args != 1 || n == 0 ||
        inst->count * dt_kinds_size(inst->dtype) != all.bytes)
        return dt_certplan_fail(walk, "a sum over ranks of %lld elements", (long long)inst->count);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = dt_certplan_word(walk);
        const CertType *type = NULL;
        uint32_t sum = 0;
        if (number > walk->program->stores.n)
            return dt_certplan_fail(walk, "a note names no store");
        int store = (int)number - 1;
        if (dt_certplan_has_called(walk)) {
            if (!dt_certplan_added(walk, store, &all, &place, &sum, &type))
                return false;
        } else if (!find_result(walk, store, &all, &place, &sum, &type) ||
                   !mark(walk, &place, sum)) {
            return dt_certplan_fail(walk,
                                    "what is summed over ranks is not there, or was summed before");
        }
        if (!dt_certplan_group(walk, inst, sum, 0))
            return false;
        if (!is(dt_kinds_name(inst->dtype), type->dtype) ||
            (type->pending && !is(dt_certplan_reduction(inst), type->pending)) ||
            place.arena != all.arena ||
            (i ? place.base - end < 0 || place.base - end >= DT_PLAN_ALIGN
               : place.base != all.base))
            return dt_certplan_fail(walk, "results are summed as what they are not");
        begin = i ? begin : place.base;
        end = place.base + place.bytes;
    }
    return all.base + all.bytes - end < DT_PLAN_ALIGN && all.base + all.bytes >= end
               ? true
               : dt_certplan_fail(walk, "a sum over ranks ends where its results do not");
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
    dt_certplan_arg(walk, &args[0], &first);
    dt_certplan_arg(walk, &args[1], &rows);
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
    static const char *const scalars[] = {"@lr", "@bias1", "@bias2", "@loss_scale"};
    const DtPlan *plan = walk->plan;
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        PlanPlace place = {.arena = plan->scalars[i].arena,
                           .base = plan->scalars[i].offset,
                           .bytes = 4,
                           .size = 1};
        dt_certplan_hold_input(walk, dt_intern(scalars[plan->scalars[i].kind]), &place);
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

/* A piece leaves alone the scalars that other pieces of its run add to. */
static void guard_scalars(PlanWalk *walk)
{
    const DtPlan *plan = walk->plan;
    const char *name = dt_plan_str(plan, walk->at_entry->name);
    walk->guarded = DT_NEW_ARRAY(walk->arena, PlanRegion *, plan->n_metrics + 1);
    for (uint32_t i = 0; plan->meta->pipeline && strchr(name, '.') && i < plan->n_metrics; i++) {
        const DtPlanMetric *metric = &plan->metrics[i];
        const PlanPlace place = dt_certplan_metric(metric);
        if (metric->n_axes == 0 && dt_plan_on_stage(metric->stage, walk->stage) &&
            is(dt_plan_str(plan, metric->entry), run_of(name)))
            walk->guarded[i] = dt_certplan_hold(walk, PLAN_INPUT, &place);
    }
}

static bool leaves(const PlanWalk *walk, const char *name)
{
    for (uint32_t f = 0; f < walk->entries.n; f++) {
        const CertEntry *entry = walk->entries.at[f]->entry;
        for (uint32_t i = 0; i < entry->results.n; i++)
            if (entry->results.at[i].name && is(entry->results.at[i].name, name))
                return true;
    }
    return false;
}

static bool keeps_scalars(PlanWalk *walk)
{
    for (uint32_t i = 0; i < walk->plan->n_metrics; i++) {
        const PlanRegion *region = walk->guarded[i];
        const char *name = dt_plan_str(walk->plan, walk->plan->metrics[i].name);
        if (region && !region->alive && !leaves(walk, name))
            return dt_certplan_fail(walk, "result `%s` of another piece is overwritten", name);
    }
    return true;
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
    walk->entries.n = walk->carried.n = 0;
    dt_certplan_forget_ahead(walk);
    walk->depth = walk->actions = 0;
    walk->carries = walk->tiles.open = walk->moves = false;
    memset(walk->count, 0, sizeof walk->count);
    memset(walk->open, 0, sizeof walk->open);
    memset(walk->is_result, 0, walk->program->stores.n);
    memset(walk->of_store, 0, walk->program->stores.n * sizeof walk->of_store[0]);
    walk->inputs = NULL;
    for (uint32_t i = 0; i < walk->n_kept; i++) {
        walk->kept[i]->alive = true;
        walk->kept[i]->next = NULL;
        walk->of_store[walk->kept[i]->id] = walk->kept[i];
        dt_certplan_push_region(walk, walk->kept[i]);
    }
    guard_scalars(walk);
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
    for (uint32_t i = 0; !is_piece(entry) && i < plan->n_metrics; i++)
        if (is(dt_plan_str(plan, plan->metrics[i].name), result->name) &&
            is(dt_plan_str(plan, plan->metrics[i].entry), run_of(entry->name)))
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

static bool prove_entry(PlanWalk *walk, uint32_t number)
{
    if (is_proved(walk, number))
        return true;
    begin_entry(walk, number);
    if (!dt_certplan_enter(walk, number) ||
        !dt_certplan_walk(walk, walk->at_entry, &walk->plan->notes[number]))
        return false;
    for (uint32_t f = 0; f < walk->entries.n; f++) {
        const CertEntry *entry = walk->entries.at[f]->entry;
        if (!dt_certplan_finish(walk, walk->entries.at[f]))
            return false;
        for (uint32_t i = 0; i < entry->results.n; i++)
            if (entry->results.at[i].store >= 0)
                walk->is_result[entry->results.at[i].store] = true;
    }
    walk->moving[number] = walk->moves;
    return dt_certplan_leave(walk) && keeps_stores(walk) && keeps_scalars(walk);
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

bool dt_certplan_trace(DtArena *arena, const DtPlan *plan, const char *final, DtCertSpan *ret_notes,
                       DtText *ret_problem)
{
    CertProgram program;
    PlanWalk *walk = DT_NEW(arena, PlanWalk);
    *walk = (PlanWalk){.arena = arena, .scratch = dt_arena_child(arena), .plan = plan, .program = &program,
                       .problem = ret_problem, .spans = ret_notes};
    bool good = prove_plan(walk, final, &program);
    dt_arena_free(walk->scratch);
    return good;
}

bool dt_certplan_prove(DtArena *arena, const DtPlan *plan, const char *final, DtText *ret_problem)
{
    return dt_certplan_trace(arena, plan, final, NULL, ret_problem);
}
