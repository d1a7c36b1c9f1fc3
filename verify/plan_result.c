/* SPDX-License-Identifier: Apache-2.0 */
/* Results of entries: their places, whether they are complete, and their sums over micro-batches
 * and ranks.
 *
 * A result that accumulates over micro-batches begins at zero. Each micro-batch adds its value
 * once (`finish`); after all of them, if nothing else was added, the result is the sum
 * (`complete`), or may be summed over ranks. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* ---- where things are ---- */

const char *const dt_certplan_names[DT_PLAN_NO_RUN] = {[DT_PLAN_LOSS] = "loss",
                                                      [DT_PLAN_STEP] = "step",
                                                      [DT_PLAN_UPDATE] = "update",
                                                      [DT_PLAN_EVAL] = "eval",
                                                      [DT_PLAN_PREDICT] = "predict",
                                                      [DT_PLAN_PREFILL] = "prefill",
                                                      [DT_PLAN_DECODE] = "decode",
                                                      [DT_PLAN_QUANTIZE] = "quantize",
                                                      [DT_PLAN_MIX] = "mix"};

DtPlanName dt_certplan_at(const PlanWalk *walk)
{
    return dt_plan_name(dt_plan_str(walk->plan, walk->at_entry->name));
}

/* The name in plans of the run that an entry belongs to: "step" for "grad.f3", "step@critic" for
 * "grad@critic.prologue". */
const char *dt_certplan_run_of(const CertEntry *entry)
{
    const DtPlanName *is = &entry->is;
    if (is->run == DT_PLAN_NO_RUN)
        return entry->name;
    const char *run = dt_certplan_names[is->run];
    return is->n_objective ? dt_intern_printf("%s@%.*s", run, (int)is->n_objective, is->objective)
                           : run;
}

static bool place_metric(PlanWalk *walk, const char *run, const char *name, const CertType *type,
                         PlanPlace *ret_place)
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
        /* only scalars are shared between stages */
        if (metric->n_axes && plan->meta->pipeline && metric->stage < 0)
            return dt_certplan_fail(walk, "the record of result `%s` names no stage", name);
        walk->has_metric[i] = true;
        *ret_place = dt_certplan_metric(metric);
        return true;
    }
    return dt_certplan_fail(walk, "result `%s` of `%s` has no record", name, run);
}

/* Sets *ret_place to the place at which result number i of the entry must be: its slot, its store,
 * or the place of its record. False after a problem. */
bool dt_certplan_place_result(PlanWalk *walk, const PlanFrame *frame, uint32_t i,
                              PlanPlace *ret_place)
{
    const CertResult *result = &frame->entry->results.at[i];
    const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
    PlanPlace address = frame->slots[i];
    if (!frame->has_slot[i] && result->store < 0 &&
        !place_metric(walk, dt_certplan_run_of(frame->entry), result->name, type, &address))
        return false;
    if (!frame->has_slot[i] && result->store >= 0)
        address = walk->stores[result->store];
    *ret_place = (PlanPlace){.rank = 0};
    const CertType *terms = result->store >= 0 ? walk->terms[result->store] : NULL;
    dt_certplan_dense(walk, terms ? terms : type, ret_place);
    if (result->store >= 0 && ret_place->bytes != address.bytes && address.bytes)
        return dt_certplan_fail(walk, "store %s has %lld bytes, its result %lld",
                                walk->program->stores.at[result->store].path,
                                (long long)address.bytes, (long long)ret_place->bytes);
    dt_certplan_put(ret_place, &address);
    return true;
}

bool dt_certplan_accumulates(const PlanWalk *walk, const CertResult *result)
{
    return result->accumulate &&
           (walk->plan->meta->pipeline || (walk->first_device && walk->program->size[0] > 1));
}

/* The device axes over which a result is summed once the entry has run all micro-batches. */
uint32_t dt_certplan_sum_of(const PlanWalk *walk, const CertType *type, int store)
{
    const CertType *stored = store >= 0 ? walk->program->stores.at[store].type : NULL;
    uint32_t sum = type->partial & ~(stored ? stored->partial : 0);
    if (store >= 0 && walk->terms[store])
        for (uint32_t s = 0; s < stored->axes[stored->rank - 1].n; s++)
            sum |= 1u << stored->axes[stored->rank - 1].split[s];
    return sum >> walk->first_device;
}

/* Whether the entry is a part of a run over all stages. Then its results are complete only when the
 * whole run is. */
bool dt_certplan_is_piece(const CertEntry *entry)
{
    return entry->is.part != DT_PLAN_PROLOGUE && !dt_plan_run_updates(entry->is.run);
}

/* Checks that the result of this name has the same place in all entries of the stage; records the
 * place the first time. */
bool dt_certplan_agree(PlanWalk *walk, const char *name, const PlanPlace *place)
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

/* ---- one micro-batch, and all ---- */

/* Records that the value was added to a sum: places that hold it as a term of its own no longer
 * count, also those of the operands that it stands for. */
static void claim(PlanWalk *walk, const PlanFrame *frame, uint32_t value)
{
    frame = dt_certplan_home(walk, frame, value);
    for (PlanRegion *region = frame->regions[value]; region; region = region->next)
        region->alive = region->alive && region->kind != PLAN_ADDED;
    const CertOp *op = frame->maker[value];
    const PlanFrame *inner = NULL;
    uint32_t first = 0, n = 0;
    if (!op && frame->kind != PLAN_ENTRY && (frame->kind == PLAN_CALL || value > 0)) {
        inner = frame->outer;
        first = frame->op->in[value - (frame->kind == PLAN_BODY)];
        n = 1;
    } else if (op && op->func && !op->loop) {
        inner = dt_certplan_has_frame(walk, frame, op, 0);
        first = inner ? inner->func->results.at[value - op->first_out] : 0;
        n = inner != NULL;
    }
    if (n)
        claim(walk, inner, first);
    for (uint32_t i = 0; op && !op->func && i < op->n_in; i++)
        if (is(op->kind, "pack") || is(op->kind, "reduce_scatter") ||
            (i == 0 && dt_certplan_is_view(op)))
            claim(walk, frame, op->in[i]);
}

void dt_certplan_add_terms(PlanFrame *entry, int64_t n)
{
    for (uint32_t i = 0; i < entry->entry->results.n; i++)
        entry->terms[i] += entry->terms[i] ? n : 0;
}

/* Whether result number i is at its place, summed over these device axes. */
static bool is_there(PlanWalk *walk, PlanFrame *frame, uint32_t i, const PlanPlace *place,
                     uint32_t sum)
{
    const bool adds = dt_certplan_accumulates(walk, &frame->entry->results.at[i]);
    PlanFinds found;
    const uint32_t n = dt_certplan_find(walk, frame, frame->func->results.at[i], place, &found);
    for (uint32_t k = 0; k < n; k++)
        if (found.at[k].added == adds && found.at[k].summed == sum &&
            dt_certplan_alike(&found.at[k].place, place)) {
            dt_certplan_log(walk, found.at[k].stamp);
            return true;
        }
    return false;
}

/* Whether a result of one micro-batch is at its place, as a term of a sum over micro-batches or
 * summed over these device axes. Reports where it is if not. */
static bool is_delivered(PlanWalk *walk, PlanFrame *frame, uint32_t i, const PlanPlace *place,
                         uint32_t sum)
{
    const CertResult *result = &frame->entry->results.at[i];
    const uint32_t value = frame->func->results.at[i];
    PlanFinds found;
    return is_there(walk, frame, i, place, sum) ||
           dt_certplan_fail(walk, "result `%s` is not where it belongs%s",
                            result->store >= 0 ? walk->program->stores.at[result->store].path
                                               : result->name,
                            !dt_certplan_find(walk, frame, value, NULL, &found) ? ", nor elsewhere"
                            : found.at[0].summed != sum ? ", or not summed over its ranks"
                                                        : "");
}

static bool is_later(const PlanWalk *walk, const PlanFrame *frame)
{
    return (walk->plan->meta->pipeline && dt_certplan_is_piece(frame->entry)) ||
           dt_plan_run_updates(frame->entry->is.run);
}

/* Whether the sum over micro-batches at the place contains all of them, and nothing else. */
static bool is_whole(PlanWalk *walk, const PlanFrame *frame, uint32_t i, const PlanPlace *place)
{
    /* it has the terms of one micro-batch only */
    const bool predicts = dt_plan_run_predicts(frame->entry->is.run);
    return frame->terms[i] == (predicts ? 1 : dt_certplan_n_micro(walk)) &&
           dt_certplan_is_zero(walk, place, walk->depth, false) &&
           !dt_certplan_is_added(walk, place, walk->depth);
}

/* Marks the memory of a sum as complete and reduced over these device axes; true. */
static bool close_sum(PlanWalk *walk, const PlanPlace *place, uint32_t sum)
{
    dt_certplan_spoil(walk, place, false);
    dt_certplan_hold(walk, PLAN_ADDED, place)->summed = sum;
    return true;
}

/* Completes a result whose parts instructions PART have summed over these device axes in the last
 * micro-batch: checks that it has the terms of all micro-batches. In a pipeline plan_pipe.c does
 * that. False after a problem. */
static bool close_parts(PlanWalk *walk, const PlanFrame *frame, uint32_t i, uint32_t sum)
{
    PlanPlace place;
    if (!dt_certplan_place_result(walk, frame, i, &place))
        return false;
    if (walk->plan->meta->pipeline)
        return dt_certplan_parts(walk, &place);
    return (is_whole(walk, frame, i, &place)
                ? close_sum(walk, &place, sum)
                : dt_certplan_fail(walk, "parts of a result are summed over ranks too early"));
}

/* Checks that each result of the micro-batch was added to the sum of the others, and counts it as
 * one more term. */
bool dt_certplan_finish(PlanWalk *walk, PlanFrame *frame)
{
    const uint32_t n = frame->entry->results.n;
    bool adds = false;
    walk->inst = NULL;
    if (frame->finished)
        return true;
    frame->finished = true;
    /* by result: whether it is complete by its parts */
    uint32_t *summed = DT_NEW_ARRAY(walk->scratch, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const CertResult *result = &frame->entry->results.at[i];
        PlanPlace place;
        if (!dt_certplan_accumulates(walk, result))
            continue;
        const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
        const uint32_t sum = dt_certplan_sum_of(walk, type, result->store);
        if (!dt_certplan_place_result(walk, frame, i, &place))
            return false;
        const bool last =
            walk->plan->meta->pipeline || frame->terms[i] + 1 == dt_certplan_n_micro(walk);
        if (sum && last && is_there(walk, frame, i, &place, sum))
            summed[i] = sum;
        else if (!is_delivered(walk, frame, i, &place, 0))
            return false;
        frame->terms[i]++;
        adds = true;
    }
    for (uint32_t i = 0; adds && i < n; i++)
        if (dt_certplan_accumulates(walk, &frame->entry->results.at[i]))
            claim(walk, frame, frame->func->results.at[i]);
    for (uint32_t i = 0; i < n; i++)
        if (summed[i] && !close_parts(walk, frame, i, summed[i]))
            return false;
    return true;
}

/* Whether every result is at its place, summed over all micro-batches and ranks. */
bool dt_certplan_complete(PlanWalk *walk, PlanFrame *frame)
{
    if (frame->complete)
        return true;
    frame->complete = true;
    for (uint32_t i = 0; i < frame->entry->results.n; i++) {
        const CertResult *result = &frame->entry->results.at[i];
        const CertType *type = dt_certplan_type(frame, frame->func->results.at[i]);
        const uint32_t sum =
            is_later(walk, frame) ? 0 : dt_certplan_sum_of(walk, type, result->store);
        PlanPlace place;
        if (!dt_certplan_place_result(walk, frame, i, &place))
            return false;
        if (!dt_certplan_accumulates(walk, result)) {
            if (!is_delivered(walk, frame, i, &place, sum))
                return false;
        } else if (!is_later(walk, frame)) {
            const PlanRegion *total = sum ? dt_certplan_find_sum(walk, &place) : NULL;
            if (sum ? !total || total->summed != sum : !is_whole(walk, frame, i, &place))
                return dt_certplan_fail(
                    walk, "result `%s` is not summed over all micro-batches and ranks",
                    result->store >= 0 ? walk->program->stores.at[result->store].path
                                       : result->name);
        }
        if (result->store < 0 && result->name[0] == '@') {
            if (!dt_certplan_agree(walk, result->name, &place))
                return false;
            dt_certplan_hold_input(walk, result->name, &place);
        }
    }
    return true;
}

/* ---- sums over ranks ---- */

/* Finds the result with this store or (store -1) at this place, with its place, type and the device
 * axes over which it must be summed. ret_adds: micro-batches add to it. False after a problem, also
 * if some terms are missing. */
static bool find_result(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                        uint32_t *ret_sum, const CertType **ret_type, bool *ret_adds)
{
    for (uint32_t f = walk->entries.n; f-- > 0;) {
        PlanFrame *frame = walk->entries.at[f];
        for (uint32_t i = 0; i < frame->entry->results.n; i++) {
            const CertResult *result = &frame->entry->results.at[i];
            if (result->store != store)
                continue;
            if (!dt_certplan_place_result(walk, frame, i, ret_place))
                return false;
            if (store < 0 && !dt_certplan_same(ret_place, at))
                continue;
            *ret_type = dt_certplan_type(frame, frame->func->results.at[i]);
            *ret_sum = dt_certplan_sum_of(walk, *ret_type, store);
            *ret_adds = dt_certplan_accumulates(walk, result);
            return !*ret_adds ||
                   (dt_certplan_finish(walk, frame) && is_whole(walk, frame, i, ret_place));
        }
    }
    return dt_certplan_fail(walk, "a sum over ranks is of no result");
}

/* Marks the memory of the result as reduced over ranks, and forgets other values that may be in
 * that memory. */
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
            dt_certplan_wrote(walk, place);
            there = true;
        } else if (region->kind != PLAN_STORE) {
            region->alive = false;
        }
    }
    return there;
}

/* Forgets the memory between results, which a reduction over a range of results also overwrites. */
static void spoil_gap(PlanWalk *walk, const PlanPlace *all, int64_t from, int64_t to)
{
    PlanPlace gap = *all;
    gap.base = from;
    gap.bytes = to - from;
    if (to > from)
        dt_certplan_spoil(walk, &gap, false);
}

bool dt_certplan_sum(PlanWalk *walk, const DtPlanInst *inst)
{
    PlanPlace all, place;
    uint64_t n = dt_certplan_word(walk);
    int64_t end = 0;
    dt_certplan_arg(walk, &walk->plan->args[inst->first_arg], &all);
    if (inst->kind != DT_INST_ALL_REDUCE || inst->n_args != 1 || n == 0 ||
        inst->count * dt_kinds_size(inst->dtype) != all.bytes)
        return dt_certplan_fail(walk, "a sum over ranks of %lld elements", (long long)inst->count);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = dt_certplan_word(walk);
        const CertType *type = NULL;
        uint32_t sum = 0;
        bool adds = false;
        if (number > walk->program->stores.n)
            return dt_certplan_fail(walk, "a note names no store");
        int store = (int)number - 1;
        if (dt_certplan_has_called(walk)) {
            if (!dt_certplan_added(walk, store, &all, &place, &sum, &type))
                return false;
        } else if (!find_result(walk, store, &all, &place, &sum, &type, &adds) ||
                   !(adds ? close_sum : mark)(walk, &place, sum)) {
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
        spoil_gap(walk, &all, i ? end : place.base, place.base);
        end = place.base + place.bytes;
    }
    spoil_gap(walk, &all, end, all.base + all.bytes);
    return all.base + all.bytes - end < DT_PLAN_ALIGN && all.base + all.bytes >= end
               ? true
               : dt_certplan_fail(walk, "a sum over ranks ends where its results do not");
}


/* ---- parts of a result, as their last terms come ---- */

/* Marks all sums over micro-batches that overlap the place as reduced over these device axes
 * (PLAN_SUMMING: in flight). */
static void set_summed(PlanWalk *walk, const PlanPlace *place, uint32_t sum)
{
    const PlanList *near = dt_certplan_near(walk, place);
    for (uint32_t i = 0; i < near->n; i++)
        if (near->at[i]->alive && near->at[i]->kind == PLAN_ADDED &&
            dt_certplan_meets(walk, &near->at[i]->place, place))
            near->at[i]->summed = sum;
}

void dt_certplan_summed(PlanWalk *walk, const PlanPlace *place, uint32_t sum)
{
    set_summed(walk, place, sum);
}

/* Whether this is the last micro-batch that adds to the results at the place, all others having
 * run. cut: each result has memory for all terms, and ranks shard their sum. */
static bool is_last(PlanWalk *walk, const PlanPlace *part, uint32_t sum, bool cut)
{
    PlanFrame *frame = walk->entries.n ? walk->entries.at[walk->entries.n - 1] : NULL;
    bool any = false;
    for (uint32_t i = 0; frame && !frame->finished && i < frame->entry->results.n; i++) {
        const CertResult *result = &frame->entry->results.at[i];
        PlanPlace place;
        if (result->store < 0 || !dt_certplan_accumulates(walk, result))
            continue;
        if (!dt_certplan_place_result(walk, frame, i, &place))
            return false;
        if (!dt_certplan_meets(walk, &place, part))
            continue;
        const bool last = walk->plan->meta->pipeline
                              ? walk->last
                              : frame->terms[i] + 1 == dt_certplan_n_micro(walk);
        if (!last || (cut && !walk->terms[result->store]) ||
            dt_certplan_sum_of(walk, dt_certplan_type(frame, frame->func->results.at[i]),
                               result->store) != sum)
            return false;
        any = true;
    }
    return any;
}

/* Whether the instruction sums the values at the place over ranks: all of them, or, for an op `cut`
 * that shards the sum (NULL: none), each rank's run at its part of them. */
static bool sums_part(PlanWalk *walk, const DtPlanInst *inst, const CertOp *cut,
                      const CertType *type, const PlanPlace *all, uint32_t sum)
{
    const bool adds = sum && is(dt_kinds_name(inst->dtype), type->dtype) && type->pending &&
                      is(type->pending, "sum") && is(dt_certplan_reduction(inst), "sum") &&
                      dt_certplan_group(walk, inst, sum, 0);
    PlanPlace to, run = *all;
    dt_certplan_arg(walk, &walk->plan->args[inst->first_arg], &to);
    if (!cut)
        return adds && inst->kind == DT_INST_ALL_REDUCE && inst->n_args == 1 &&
               inst->count * dt_kinds_size(inst->dtype) == all->bytes;
    return adds && inst->kind == DT_INST_REDUCE_SCATTER && inst->n_args == 2 &&
           (uint32_t)cut->mesh >> walk->first_device == sum &&
           dt_certplan_run(walk, type, cut->types[0], &run) && dt_certplan_same(&run, &to) &&
           dt_certplan_comm(walk, cut, inst, &run, all);
}

/* Checks a PART: a sum over ranks in the last micro-batch, of a part of a result to which all
 * micro-batches have added, or of a sum that ranks shard. The end of that micro-batch checks that
 * the parts together are the result, and that nothing else was added. */
bool dt_certplan_part(PlanWalk *walk, const DtPlanInst *inst)
{
    const uint32_t part = dt_certplan_number(walk);
    PlanPlace all, address;
    PlanFinds found;
    if (walk->problem->len || !walk->frame || part >= walk->frame->func->n_values)
        return dt_certplan_fail(walk, "a part of a sum is of no value");
    const CertOp *maker = walk->frame->maker[part];
    const CertOp *cut = maker && is(maker->kind, "reduce_scatter") ? maker : NULL;
    const uint32_t value = cut ? cut->in[0] : part;
    const CertType *type = dt_certplan_type(walk->frame, value);
    const uint32_t sum = type->partial >> walk->first_device;
    if (inst->n_args == 0 || inst->guards)
        return dt_certplan_fail(walk, "a part of a sum is added up by another instruction");
    const DtPlanArg *arg = &walk->plan->args[inst->first_arg + inst->n_args - 1];
    dt_certplan_arg(walk, arg, &all);
    dt_certplan_dense(walk, type, &all);
    dt_certplan_arg(walk, arg, &address);
    if (all.bytes != address.bytes || !sums_part(walk, inst, cut, type, &all, sum))
        return dt_certplan_fail(walk, "a part of a sum is added up as what it is not");
    const uint32_t n = dt_certplan_find(walk, walk->frame, value, &all, &found);
    bool there = false;
    for (uint32_t i = 0; i < n; i++)
        there = there || (found.at[i].added && !found.at[i].summed &&
                          dt_certplan_alike(&found.at[i].place, &all));
    if (!there || !is_last(walk, &all, sum, cut != NULL) || !dt_certplan_is_still(walk, &all))
        return dt_certplan_fail(
            walk, "a part of a sum is added up that is not there, or not of all micro-batches");
    /* a piece's sum may be in flight until the run ends */
    const bool goes_on = inst->event && !walk->plan->meta->pipeline;
    set_summed(walk, &all, goes_on ? (uint32_t)PLAN_SUMMING : sum);
    return !inst->event ||
           dt_certplan_start(walk, inst, (PlanStarted){.frame = walk->frame, .value = part,
                                                       .to = all, .from = all, .to_arg = arg,
                                                       .from_arg = arg, .sum = sum});
}
