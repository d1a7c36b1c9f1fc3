/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines. The entry of a piece was walked for an arbitrary micro-batch and slot; this file
 * checks the assumptions of that: results to which pieces add begin at zero and are summed after
 * all have run, and slots are disjoint. The rest is checked where the schedules of all stages
 * are run (plan_run.c), which is also where messages are waited for. Stages also meet in sums
 * over stages: each of their entries must have these in the order of the text, or of the
 * scalars' records, so that matching sums meet. */
#include "verify/plan_pipe.h"

#include "plan/kinds.h"

#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static bool pipelined(const PlanWalk *walk) { return walk->plan->meta->pipeline != 0; }

/* ---- one entry ---- */

static void find_messages(const DtPlan *plan, uint32_t *message)
{
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        if (!inst->event || (inst->kind != DT_INST_SEND && inst->kind != DT_INST_RECV))
            continue;
        uint32_t *at = &message[inst->event];
        const uint32_t end = 1 + 2 * inst->ref + (inst->kind == DT_INST_SEND);
        *at = *at == 0 || *at == end ? end : PLAN_MANY;
    }
}

/* Sets ret_depth, by slot register, to how many slots it distinguishes. plan_run.c checks every
 * value that a register gets. */
static void find_depths(const DtPlan *plan, int64_t *ret_depth)
{
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        ret_depth[g] = 1;
    for (uint32_t i = 0; i < plan->n_schedule; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        const uint32_t g = item->reg - DT_PLAN_REG_SLOTS;
        if ((item->kind != DT_SCHED_SET && item->kind != DT_SCHED_LOOP) || g >= DT_PLAN_N_SLOTS)
            continue;
        const bool within =
            item->kind == DT_SCHED_SET && item->count > 0 && item->count < DT_PLAN_MAX_SLOTS;
        const int64_t depth = within ? item->count : DT_PLAN_MAX_SLOTS;
        ret_depth[g] = depth > ret_depth[g] ? depth : ret_depth[g];
    }
}

static struct PlanPipe *pipe_of(PlanWalk *walk)
{
    if (walk->pipe)
        return walk->pipe;
    struct PlanPipe *pipe = walk->pipe = DT_NEW(walk->arena, struct PlanPipe);
    pipe->shared = DT_NEW_ARRAY(walk->arena, uint8_t, walk->plan->n_metrics + 1);
    pipe->by_entry = DT_NEW_ARRAY(walk->arena, Piece *, walk->plan->n_entries + 1);
    pipe->carries = DT_NEW_ARRAY(walk->arena, int, walk->plan->n_channels + 1);
    memset(pipe->carries, 0xff, (walk->plan->n_channels + 1) * sizeof *pipe->carries);
    pipe->message = DT_NEW_ARRAY(walk->arena, uint32_t, walk->plan->meta->events + 1);
    find_messages(walk->plan, pipe->message);
    find_depths(walk->plan, pipe->depth);
    return pipe;
}

bool dt_certplan_enter(PlanWalk *walk, uint32_t entry)
{
    if (!pipelined(walk))
        return true;
    struct PlanPipe *pipe = pipe_of(walk);
    Piece *first = pipe->by_entry[entry];
    pipe->now = DT_NEW(walk->arena, Piece);
    *pipe->now = (Piece){.stage = walk->stage, .entry = entry};
    if (!walk->ring) {
        DT_PUSH(walk->arena, pipe->pieces, first = pipe->now);
        pipe->by_entry[entry] = first;
    }
    DT_PUSH(walk->arena, first->turns, DT_NEW(walk->arena, Turn));
    pipe->ended.n = pipe->called.n = pipe->slots.n = pipe->met.n = pipe->n_shared = 0;
    memset(pipe->shared, 0, walk->plan->n_metrics);
    walk->count[0] = dt_certplan_n_micro(walk);
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        walk->count[DT_PLAN_REG_SLOTS + g] = pipe->depth[g];
    return true;
}

bool dt_certplan_steps(const PlanWalk *walk, uint32_t reg, int64_t step)
{
    const int64_t values = walk->count[reg] > 0 ? walk->count[reg] : DT_PLAN_MAX_SLOTS;
    return step >= 0 && step <= PLAN_BYTES / values;
}

bool dt_certplan_uses(PlanWalk *walk, int store, bool written)
{
    if (!pipelined(walk))
        return dt_certplan_fail(walk, "a slot without a pipeline");
    DT_PUSH(walk->arena, walk->pipe->now->uses,
            ((Uses){store, written, NULL, walk->stores[store]}));
    return true;
}

void dt_certplan_needs(PlanWalk *walk, const char *name, const PlanPlace *place)
{
    if (pipelined(walk))
        DT_PUSH(walk->arena, walk->pipe->now->uses,
                ((Uses){.store = -1, .name = name, .place = *place}));
}

void dt_certplan_adds(PlanWalk *walk, const PlanPlace *place, uint32_t sum, int store,
                      const CertType *type, bool adds)
{
    DT_PUSH(walk->arena, walk->pipe->now->adds, ((Adds){*place, sum, store, type, adds, false}));
}

bool dt_certplan_parts(PlanWalk *walk, const PlanPlace *place)
{
    Piece *now = walk->pipe ? walk->pipe->now : NULL;
    for (uint32_t i = 0; now && i < now->adds.n; i++)
        if (dt_certplan_same(&now->adds.at[i].place, place) && now->adds.at[i].adds)
            return now->adds.at[i].parts = true;
    return dt_certplan_fail(walk, "parts of a result are summed over ranks that no piece adds to");
}

void dt_certplan_began(PlanWalk *walk, uint64_t event, bool leaves)
{
    if (pipelined(walk) && leaves)
        DT_PUSH(walk->arena, walk->pipe->now->left, event);
    else if (pipelined(walk))
        DT_PUSH(walk->arena, walk->pipe->now->begun, event);
}

void dt_certplan_ended(PlanWalk *walk, uint64_t event)
{
    if (pipelined(walk))
        DT_PUSH(walk->arena, walk->pipe->ended, event);
}

static uint32_t *met_of(PlanWalk *walk, const char *stages)
{
    struct PlanPipe *pipe = walk->pipe;
    for (uint32_t i = 0; i < pipe->met.n; i++)
        if (pipe->met.at[i].frame == walk->frame && dt_stages_same(pipe->met.at[i].stages, stages))
            return &pipe->met.at[i].n;
    DT_PUSH(walk->arena, pipe->met, ((Met){walk->frame, stages, 0}));
    return &pipe->met.at[pipe->met.n - 1].n;
}

bool dt_certplan_across(PlanWalk *walk, const CertOp *op)
{
    const CertFunc *func = walk->frame->func;
    uint32_t number = 0;
    if (!pipelined(walk) || !(op->mesh & walk->program->pipe))
        return true;
    for (uint32_t i = 0; i < func->ops.n && func->ops.at[i] != op; i++)
        number += (func->ops.at[i]->mesh & walk->program->pipe) &&
                  dt_stages_same(func->ops.at[i]->stages, op->stages);
    walk->pipe->now->meets = true;
    bool good =
        is(op->kind, "all_reduce") && walk->frame->kind == PLAN_ENTRY && !walk->pipe->n_shared;
    return (good && number == (*met_of(walk, op->stages))++) ||
           dt_certplan_fail(walk, "stages add up in another order than the program");
}

/* Whether the piece may write to the place: anywhere but in slots, and there only its own results.
 * Reports a problem if not. */
bool dt_certplan_may_write(PlanWalk *walk, const PlanPlace *place)
{
    if (place->arena < DT_ARENA_KINDS)
        return true;
    for (uint32_t f = 0; f < walk->entries.n; f++) {
        const PlanFrame *frame = walk->entries.at[f];
        for (uint32_t i = 0; i < frame->entry->results.n; i++)
            if (frame->has_slot[i] && dt_certplan_contains(walk, &frame->slots[i], place))
                return true;
    }
    return dt_certplan_fail(walk, "a slot is overwritten that is no result");
}

/* ---- the schedule of a stage, as it is walked ---- */

static void add_slot(PlanWalk *walk, int store)
{
    for (uint32_t i = 0; i < walk->pipe->slots.n; i++)
        if (walk->pipe->slots.at[i] == store)
            return;
    DT_PUSH(walk->arena, walk->pipe->slots, store);
}

bool dt_certplan_called(PlanWalk *walk, const DtPlanSchedule *item)
{
    struct PlanPipe *pipe = walk->pipe;
    Piece *piece = pipe ? pipe->by_entry[item->body] : NULL;
    if (!piece || !piece->of || piece->stage != walk->stage || piece->meets || pipe->n_shared)
        return dt_certplan_fail(
            walk, "a schedule calls what is no piece of its stage, or behind sums over stages");
    for (uint32_t f = 0; f < walk->entries.n; f++)
        if (!dt_certplan_finish(walk, walk->entries.at[f]) ||
            !dt_certplan_complete(walk, walk->entries.at[f]))
            return false;
    for (uint32_t i = 0; i < piece->adds.n; i++)
        if (!piece->adds.at[i]
                 .adds) { /* a value that the piece sets may be reduced over ranks in place, like a
                           * sum */
            dt_certplan_spoil(walk, &piece->adds.at[i].place, false);
            dt_certplan_hold(walk, PLAN_ZERO, &piece->adds.at[i].place);
        } else if (!dt_certplan_is_zero(walk, &piece->adds.at[i].place, walk->depth, false))
            return dt_certplan_fail(walk, "%s adds to what is not zero", piece->of->name);
    for (uint32_t i = 0; i < piece->uses.n; i++) {
        const Uses *uses = &piece->uses.at[i];
        if (uses->name && !dt_certplan_has_input(walk, uses->name, &uses->place))
            return dt_certplan_fail(walk, "%s reads %s, which is not there", piece->of->name,
                                    uses->name);
        if (!uses->name)
            add_slot(walk, uses->store);
    }
    pipe->ended.n = 0;
    for (uint32_t i = 0; i < pipe->called.n; i++)
        if (pipe->called.at[i] == piece)
            return true;
    DT_PUSH(walk->arena, pipe->called, piece);
    return true;
}

bool dt_certplan_has_called(const PlanWalk *walk) { return walk->pipe && walk->pipe->called.n; }

bool dt_certplan_added(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                       uint32_t *ret_sum, const CertType **ret_type)
{
    for (uint32_t p = 0; p < walk->pipe->called.n; p++)
        for (uint32_t i = 0; i < walk->pipe->called.at[p]->adds.n; i++) {
            const Adds *adds = &walk->pipe->called.at[p]->adds.at[i];
            if (adds->store != store || (store < 0 && !dt_certplan_same(&adds->place, at)))
                continue;
            *ret_place = adds->place;
            *ret_sum = adds->sum;
            *ret_type = adds->type;
            if (adds->parts || !dt_certplan_is_zero(walk, ret_place, walk->depth, false))
                return dt_certplan_fail(walk, "a result is summed over ranks twice");
            dt_certplan_spoil(walk, ret_place, false);
            PlanRegion *region = dt_certplan_hold(walk, PLAN_ADDED, ret_place);
            region->summed = adds->sum;
            return true;
        }
    return dt_certplan_fail(walk, "a sum over ranks is of no result");
}

PlanRegion *dt_certplan_find_sum(PlanWalk *walk, const PlanPlace *place)
{
    const PlanList *near = dt_certplan_near(walk, place);
    for (uint32_t i = 0; i < near->n; i++) {
        PlanRegion *region = near->at[i];
        if (region->alive && region->kind == PLAN_ADDED && dt_certplan_same(&region->place, place))
            return region;
    }
    return NULL;
}

/* Whether the sums at the place are complete: reduced over ranks, if a piece of this stage that
 * adds there needs it, or still zero. */
static bool is_complete(PlanWalk *walk, const PlanPlace *place)
{
    const PlanRegion *sum = dt_certplan_find_sum(walk, place);
    for (uint32_t p = 0; p < walk->pipe->called.n; p++)
        for (uint32_t i = 0; i < walk->pipe->called.at[p]->adds.n; i++) {
            const Adds *adds = &walk->pipe->called.at[p]->adds.at[i];
            if (adds->sum && !adds->parts && dt_certplan_same(&adds->place, place) &&
                (!sum || sum->summed != adds->sum))
                return false;
        }
    return sum || dt_certplan_is_zero(walk, place, walk->depth, false);
}

/* Whether the metric is a scalar (it has no axes) that is read after the entry being walked. */
static bool is_named_scalar(const PlanWalk *walk, const DtPlanMetric *metric)
{
    return !metric->n_axes && is(dt_plan_str(walk->plan, metric->entry),
                                 dt_plan_str(walk->plan, walk->at_entry->name));
}

/* Checks a sum over stages of a named scalar, which one stage has computed; the others have zeros
 * there. */
bool dt_certplan_share(PlanWalk *walk, const DtPlanInst *inst)
{
    const DtPlan *plan = walk->plan;
    PlanPlace place;
    dt_certplan_arg(walk, &plan->args[inst->first_arg], &place);
    for (uint32_t i = 0; pipelined(walk) && i < plan->n_metrics; i++) {
        const DtPlanMetric *metric = &plan->metrics[i];
        const PlanPlace want = dt_certplan_metric(metric);
        if (!is_named_scalar(walk, metric) || !dt_certplan_same(&place, &want))
            continue;
        if (inst->kind != DT_INST_ALL_REDUCE || inst->n_args != 1 || inst->count != 1 ||
            inst->dtype != metric->dtype || inst->reduce != DT_PLAN_SUM ||
            walk->pipe->shared[i]++ ||
            !is_complete(walk, &place))
            return dt_certplan_fail(walk, "a scalar is not added over stages as it should be");
        if (i < walk->pipe->n_shared)
            return dt_certplan_fail(walk, "stages add up in another order than the program");
        walk->pipe->n_shared = i + 1;
        dt_certplan_wrote(walk, &place);
        return dt_certplan_group(walk, inst, 1u << (plan->meta->pipeline - 1), 0);
    }
    return dt_certplan_fail(walk, "a sum over stages is of no scalar");
}

static bool has_stage(const PlanWalk *walk, int64_t store, uint32_t stage)
{
    return store >= 0 && store < walk->program->stores.n &&
           dt_cert_has(&walk->program->stores.at[store], stage);
}

bool dt_certplan_is_message(const PlanWalk *walk, const DtPlanInst *inst)
{
    return inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV ||
           (walk->pipe && inst->kind == DT_INST_WAIT && !inst->event_step &&
            walk->pipe->message[inst->event]);
}

bool dt_certplan_has_message(const PlanWalk *walk, uint64_t event)
{
    return walk->pipe && event <= walk->plan->meta->events && walk->pipe->message[event];
}

bool dt_certplan_came(PlanWalk *walk)
{
    walk->pipe->now->meets = true;
    return true;
}

bool dt_certplan_move(PlanWalk *walk, const DtPlanInst *inst)
{
    const DtPlan *plan = walk->plan;
    uint64_t number = dt_certplan_word(walk);
    bool sends = inst->kind == DT_INST_SEND;
    if (!pipelined(walk) || number >= walk->program->stores.n ||
        (!sends && inst->kind != DT_INST_RECV))
        return dt_certplan_fail(walk, "a note names no channel");
    const CertStore *to = &walk->program->stores.at[number];
    const DtPlanChannel *channel = &plan->channels[inst->ref];
    const DtPlanArg *args = &plan->args[inst->first_arg];
    int64_t source = dt_cert_source(to, channel->from), store = sends ? source : (int64_t)number;
    if (!is(to->kind, "channel") || !has_stage(walk, source, channel->from) ||
        !has_stage(walk, (int64_t)number, channel->to) ||
        (sends ? channel->from : channel->to) != walk->stage)
        return dt_certplan_fail(walk, "channel %u does not carry %s", inst->ref, to->path);
    PlanPlace *place = &walk->stores[store], have, micro = {.bytes = 0}, tag;
    dt_certplan_arg(walk, &args[0], &have);
    dt_certplan_raw(walk, &args[1], &tag);
    if (!place->bytes) { /* no piece reads it here: it is only passed on */
        *place = have;
        dt_certplan_dense(walk, walk->program->stores.at[store].type, place);
    }
    micro.reg[0] = 1;
    tag.arena = 0, tag.bytes = 0;
    if (!dt_certplan_same(place, &have) || !dt_certplan_same(&tag, &micro) ||
        args[1].kind != DT_ARG_INTEGER || !is(dt_kinds_name(inst->dtype), place->dtype) ||
        inst->count * place->size != place->bytes)
        return dt_certplan_fail(walk, "%s is not what moves", to->path);
    if (walk->pipe->carries[inst->ref] >= 0 && walk->pipe->carries[inst->ref] != (int)number)
        return dt_certplan_fail(walk, "channel %u carries two values", inst->ref);
    if (inst->event && (inst->event_step || walk->pipe->message[inst->event] == PLAN_MANY))
        return dt_certplan_fail(walk, "event %u is of several messages", inst->event - 1);
    walk->pipe->now->meets = true;
    walk->pipe->carries[inst->ref] = (int)number;
    add_slot(walk, (int)store);
    return true;
}

/* Whether no slot of one store overlaps a slot of the other: either their steps are equal and the
 * rows do not meet, or they are apart altogether. */
static bool apart(const PlanPlace *a, const PlanPlace *b)
{
    uint32_t reg = 0;
    for (uint32_t g = DT_PLAN_REG_SLOTS; g < DT_PLAN_ARG_REGS; g++)
        if (a->reg[g])
            reg = g;
    if (a->arena != b->arena)
        return true;
    int64_t step = reg ? a->reg[reg] : 0, d = b->base - a->base;
    if (step && memcmp(a->reg, b->reg, sizeof a->reg) == 0) {
        int64_t r = d % step < 0 ? d % step + step : d % step;
        return r >= a->bytes && r + b->bytes <= step;
    }
    int64_t hull_a = a->bytes, hull_b = b->bytes;
    for (uint32_t g = DT_PLAN_REG_SLOTS; g < DT_PLAN_ARG_REGS;
         g++) { /* a store with a single slot precedes stores whose slot a register selects */
        hull_a = a->reg[g] ? INT64_MAX / 4 : hull_a;
        hull_b = b->reg[g] ? INT64_MAX / 4 : hull_b;
    }
    return d >= hull_a || -d >= hull_b;
}

static int32_t slot_reg(const PlanPlace *place)
{
    int32_t reg = 0;
    for (int32_t g = DT_PLAN_REG_SLOTS; g < DT_PLAN_ARG_REGS; g++)
        reg = place->reg[g] ? g : reg;
    return reg;
}

static bool has_apart(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t i = 0; i < pipe->slots.n; i++)
        if (walk->stores[pipe->slots.at[i]].arena < DT_ARENA_KINDS)
            return dt_certplan_fail(walk, "a slot of %s lies among other memory",
                                    walk->program->stores.at[pipe->slots.at[i]].path);
    for (uint32_t i = 0; i < pipe->slots.n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!apart(&walk->stores[pipe->slots.at[i]], &walk->stores[pipe->slots.at[k]]))
                return dt_certplan_fail(walk, "slots of %s and %s overlap",
                                        walk->program->stores.at[pipe->slots.at[i]].path,
                                        walk->program->stores.at[pipe->slots.at[k]].path);
    return true;
}

/* ---- values passed between pieces ---- */

static bool reads_ring(const DtPlan *plan, const DtPlanBody *body)
{
    for (uint32_t i = body->first_inst; i < body->first_inst + body->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        if (inst->event_step)
            return true;
        for (uint32_t a = 0; a < inst->n_args; a++)
            if (plan->args[inst->first_arg + a].reg[DT_PLAN_REG_RINGBUF])
                return true;
    }
    return false;
}

/* Whether the piece sets its ring buffer to the first slot before anything depends on the slot with
 * which it began. Then it behaves the same after any other piece. Loops run at least once, so the
 * first iteration comes first. */
static bool begins_ring(const PlanWalk *walk, const DtPlanEntry *entry)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        const bool sets = item->kind == DT_SCHED_SET;
        if (sets && ((item->step && item->body == DT_PLAN_REG_RINGBUF) ||
                     item->plus == DT_PLAN_REG_RINGBUF))
            return false;
        if (sets && item->reg == DT_PLAN_REG_RINGBUF)
            return true;
        const bool loops =
            (item->kind == DT_SCHED_LOOP && item->count > 0 && item->reg != DT_PLAN_REG_RINGBUF) ||
            item->kind == DT_SCHED_END;
        if (!sets && !loops &&
            (item->kind != DT_SCHED_RUN || reads_ring(plan, &plan->bodies[item->body])))
            return false;
    }
    return false;
}

uint32_t dt_certplan_rings(PlanWalk *walk, const DtPlanEntry *entry)
{
    uint32_t n = 1;
    const DtPlanName name = dt_plan_name(dt_plan_str(walk->plan, entry->name));
    if (!pipelined(walk) || !dt_plan_name_is_part(&name) || begins_ring(walk, entry))
        return n;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *item = &walk->plan->schedule[i];
        if (item->kind == DT_SCHED_SET && item->reg == DT_PLAN_REG_RINGBUF &&
            item->count > (int32_t)n)
            n = (uint32_t)item->count;
    }
    return n;
}

static PlanRange range_of(const PlanWalk *walk, const PlanPlace *place)
{
    PlanRange range = {.arena = place->arena};
    dt_certplan_hull(walk, place, &range.lo, &range.hi);
    return range;
}

static bool meets(const PlanRange *written, uint32_t n, PlanRange at)
{
    for (uint32_t i = 0; i < n; i++)
        if (written[i].arena == at.arena && written[i].lo < at.hi && at.lo < written[i].hi)
            return true;
    return false;
}

void dt_certplan_wrote(PlanWalk *walk, const PlanPlace *place)
{
    if (!dt_certplan_is_still(walk, place) || !pipelined(walk) || place->arena >= DT_ARENA_KINDS)
        return;
    const PlanRange now = range_of(walk, place);
    for (uint32_t i = 0; i < walk->written.n; i++) {
        PlanRange *old = &walk->written.at[i];
        if (old->arena != now.arena || now.lo > old->hi || now.hi < old->lo)
            continue;
        old->lo = now.lo < old->lo ? now.lo : old->lo;
        old->hi = now.hi > old->hi ? now.hi : old->hi;
        return;
    }
    DT_PUSH(walk->arena, walk->written, now);
}

bool dt_certplan_loses(const PlanWalk *walk, const Turn *turn, const Gathered *gathered)
{
    return meets(turn->written.at, turn->written.n, range_of(walk, &gathered->place));
}

static uint32_t number_of(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                          const PlanPlace *place)
{
    const Gathered gathered = {frame->outer->entry, frame->op, frame->number, value, *place};
    struct PlanPipe *pipe = walk->pipe;
    for (uint32_t i = 0; i < pipe->gathered.n; i++) {
        const Gathered *known = &pipe->gathered.at[i];
        if (known->entry == gathered.entry && known->loop == gathered.loop &&
            known->number == gathered.number && known->value == value &&
            dt_certplan_alike(&known->place, place))
            return i;
    }
    DT_PUSH(walk->arena, pipe->gathered, gathered);
    return pipe->gathered.n - 1;
}

static bool is_shared(const PlanFrame *frame)
{
    return frame->kind == PLAN_BODY && frame->outer->kind == PLAN_ENTRY &&
           frame->outer->number == PLAN_ANY;
}

static Turn *turn_of(const PlanWalk *walk)
{
    const Piece *first = walk->pipe->by_entry[walk->pipe->now->entry];
    return first->turns.at[first->turns.n - 1];
}

bool dt_certplan_finds(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place)
{
    if (!is_shared(frame) || place->base < 0 || place->arena >= DT_ARENA_KINDS ||
        meets(walk->written.at, walk->written.n, range_of(walk, place)))
        return false;
    dt_certplan_define(walk, frame, value, place, false)->stamp = 0;
    DT_PUSH(walk->arena, turn_of(walk)->finds, number_of(walk, frame, value, place));
    return true;
}

/* Records in the present Turn which values the piece gathers for others, the slot of the ring with
 * which it ends, and whether it sets the slot itself. */
static void leave_gathered(PlanWalk *walk)
{
    Turn *turn = turn_of(walk);
    turn->ring = walk->reg[DT_PLAN_REG_RINGBUF];
    turn->begins = begins_ring(walk, &walk->plan->entries[walk->pipe->now->entry]);
    for (uint32_t i = 0; i < walk->written.n; i++)
        DT_PUSH(walk->arena, turn->written, walk->written.at[i]);
    for (uint32_t h = 0; h < walk->most_frames; h++)
        for (PlanFrame *frame = walk->frames[h]; frame; frame = frame->next)
            for (uint32_t v = 0; is_shared(frame) && v < frame->func->n_values; v++)
                for (PlanRegion *region = frame->regions[v]; region; region = region->next)
                    if (region->alive && region->stamp)
                        DT_PUSH(walk->arena, turn->leaves,
                                number_of(walk, frame, v, &region->place));
}

/* Checks that no sum is left that is not a result: the piece adds to its results alone. */
static bool adds_results(PlanWalk *walk)
{
    for (uint32_t a = 0; a < DT_COUNT(walk->memory); a++)
        for (uint32_t i = 0; i < walk->memory[a].n; i++)
            if (walk->memory[a].at[i]->alive && walk->memory[a].at[i]->kind == PLAN_ADDED)
                return dt_certplan_fail(walk, "a piece adds to what is no result of it");
    return true;
}

/* Checks that no piece writes results of the stage's prologue that pieces read, since pieces run
 * many times, in any order. */
static bool keeps_named(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t i = 0; i < pipe->called.at[p]->uses.n; i++) {
            const Uses *uses = &pipe->called.at[p]->uses.at[i];
            for (uint32_t k = 0; uses->name && k < pipe->called.n; k++) {
                const Piece *piece = pipe->called.at[k];
                for (uint32_t t = 0; t < piece->turns.n; t++)
                    if (meets(piece->turns.at[t]->written.at, piece->turns.at[t]->written.n,
                              range_of(walk, &uses->place)))
                        return dt_certplan_fail(walk, "%s overwrites %s, which %s reads",
                                                piece->of->name, uses->name,
                                                pipe->called.at[p]->of->name);
            }
        }
    return true;
}

static bool adds_to(const Piece *piece, const PlanPlace *place)
{
    for (uint32_t i = 0; i < piece->adds.n; i++)
        if (dt_certplan_same(&piece->adds.at[i].place, place))
            return true;
    return false;
}

/* Checks that only this piece adds to a result whose terms it sums over ranks in its last
 * micro-batch. Other entries of the plan that are the same piece must sum it too. */
static bool sums_alone(PlanWalk *walk, const Piece *piece, const Adds *adds)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t k = 0; adds->parts && k < pipe->called.n; k++)
        for (uint32_t i = 0; i < pipe->called.at[k]->adds.n; i++) {
            const Adds *other = &pipe->called.at[k]->adds.at[i];
            if (dt_certplan_same(&other->place, &adds->place) &&
                (pipe->called.at[k]->main != piece->main || !other->parts))
                return dt_certplan_fail(walk, "%s sums over ranks what %s adds to", piece->of->name,
                                        pipe->called.at[k]->of->name);
        }
    return true;
}

/* Checks that pieces which do not add to the result at the place do not write there. */
static bool spares_result(PlanWalk *walk, const PlanPlace *place)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t k = 0; k < pipe->called.n; k++)
        for (uint32_t t = 0; t < pipe->called.at[k]->turns.n; t++) {
            const Turn *turn = pipe->called.at[k]->turns.at[t];
            if (meets(turn->written.at, turn->written.n, range_of(walk, place)) &&
                !adds_to(pipe->called.at[k], place))
                return dt_certplan_fail(walk, "%s overwrites a result of another piece",
                                        pipe->called.at[k]->of->name);
        }
    return true;
}

static bool keeps_results(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t i = 0; i < pipe->called.at[p]->adds.n; i++)
            if (!spares_result(walk, &pipe->called.at[p]->adds.at[i].place) ||
                !sums_alone(walk, pipe->called.at[p], &pipe->called.at[p]->adds.at[i]))
                return false;
    for (uint32_t i = 0; i < walk->plan->n_metrics; i++) { /* named scalars that other stages
                                                            * compute must be zero here */
        const PlanPlace place = dt_certplan_metric(&walk->plan->metrics[i]);
        if (is_named_scalar(walk, &walk->plan->metrics[i]) && !spares_result(walk, &place))
            return false;
    }
    return true;
}

static bool has_event(const uint64_t *list, uint32_t n, uint64_t event)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == event)
            return true;
    return false;
}

/* Checks that operations still in flight after the last micro-batch of a piece are waited for after
 * all calls, and that no other operation has their event. */
static bool ends_left(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t i = 0; i < pipe->called.at[p]->left.n; i++) {
            const uint64_t event = pipe->called.at[p]->left.at[i];
            bool alone = has_event(pipe->ended.at, pipe->ended.n, event);
            for (uint32_t k = 0; k < pipe->called.n; k++) {
                const Piece *other = pipe->called.at[k];
                alone = alone && (k == p || !has_event(other->begun.at, other->begun.n, event));
            }
            if (!alone)
                return dt_certplan_fail(
                    walk, "%s leaves event %llu, which is not waited for, or another's",
                    pipe->called.at[p]->of->name, (unsigned long long)event - 1);
        }
    return true;
}

/* Checks that the schedule itself does not write memory in which pieces gather for others. */
static bool keeps_gathered(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t t = 0; t < pipe->called.at[p]->turns.n; t++) {
            const Turn *turn = pipe->called.at[p]->turns.at[t];
            for (uint32_t i = 0; i < turn->leaves.n; i++)
                if (meets(walk->written.at, walk->written.n,
                          range_of(walk, &pipe->gathered.at[turn->leaves.at[i]].place)))
                    return dt_certplan_fail(walk,
                                            "what %s gathers for another piece is overwritten",
                                            pipe->called.at[p]->of->name);
        }
    return true;
}

/* Checks that the sums of all pieces are complete, and that every stage has each named scalar. */
static bool has_results(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t i = 0; i < pipe->called.at[p]->adds.n; i++) {
            const Adds *adds = &pipe->called.at[p]->adds.at[i];
            const PlanRegion *sum = dt_certplan_find_sum(walk, &adds->place);
            if (adds->sum && !adds->parts ? !sum || sum->summed != adds->sum
                          : !dt_certplan_is_zero(walk, &adds->place, walk->depth, false))
                return dt_certplan_fail(walk, "a result of %s is not summed over its ranks",
                                        pipe->called.at[p]->of->name);
            if (adds->store >= 0)
                walk->is_result[adds->store] = true;
        }
    for (uint32_t i = 0; i < walk->plan->n_metrics; i++)
        if (is_named_scalar(walk, &walk->plan->metrics[i]) && !pipe->shared[i])
            return dt_certplan_fail(walk, "a scalar is not known to all stages");
    return true;
}

static Piece *main_of(const struct PlanPipe *pipe, const Piece *piece)
{
    for (uint32_t i = 0; i < pipe->pieces.n; i++)
        if (pipe->pieces.at[i]->of == piece->of && pipe->pieces.at[i]->stage == piece->stage)
            return pipe->pieces.at[i];
    return NULL;
}

bool dt_certplan_is_duplicate(const PlanWalk *walk, const CertEntry *of)
{
    return walk->pipe && main_of(walk->pipe, &(Piece){.of = of, .stage = walk->stage});
}

bool dt_certplan_leave(PlanWalk *walk)
{
    if (!pipelined(walk))
        return true;
    struct PlanPipe *pipe = walk->pipe;
    if (!pipe->places)
        pipe->places = DT_NEW_ARRAY(walk->arena, int32_t, walk->program->n_places + 1);
    if (!pipe->called.n) {
        pipe->now->of = walk->entries.n ? walk->entries.at[0]->entry : NULL;
        pipe->now->main = main_of(pipe, pipe->now);
        leave_gathered(walk);
        return adds_results(walk);
    }
    for (uint32_t i = 0; i < pipe->slots.n; i++)
        pipe->places[dt_cert_place(&walk->program->stores.at[pipe->slots.at[i]], walk->stage)] =
            slot_reg(&walk->stores[pipe->slots.at[i]]);
    return has_apart(walk) && keeps_named(walk) && keeps_gathered(walk) && keeps_results(walk) &&
           ends_left(walk) && has_results(walk);
}

bool dt_certplan_repeat(PlanWalk *walk, uint32_t entry, uint32_t before, const CertEntry *of)
{
    const Piece *other = walk->pipe->by_entry[before];
    if (!other || other->of != of)
        return false;
    Piece *piece = DT_NEW(walk->arena, Piece);
    *piece = *other;
    piece->stage = walk->stage;
    piece->entry = entry;
    piece->ran = NULL;
    piece->main = NULL;
    for (uint32_t i = 0; i < piece->uses.n; i++)
        if (piece->uses.at[i].store >= 0)
            walk->stores[piece->uses.at[i].store] = piece->uses.at[i].place;
    DT_PUSH(walk->arena, walk->pipe->pieces, piece);
    piece->main = main_of(walk->pipe, piece);
    walk->pipe->by_entry[entry] = piece;
    return true;
}
