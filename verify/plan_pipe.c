/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines. An entry that is a piece of a stage was walked for any micro-batch and slot; here is what that took for
 * granted: results that pieces add to begin at zero and are summed when all are done; slots are disjoint; and, with the
 * schedules of all stages run together, every piece runs once per micro-batch, finds in its slots what belongs to
 * that micro-batch, channels deliver what was sent, and no stage waits for ever. Stages also meet in sums over them:
 * each of their entries has those in the order of the text, or of the scalars' records, so that the same ones meet. */
#include "verify/plan_internal.h"

#include "plan/kinds.h"

#include <string.h>

/* A result that a piece adds to. */
typedef struct Adds {
    PlanPlace place;
    uint32_t sum;
    int store;
    const CertType *type;
    bool adds; /* false: it sets it */
} Adds;

/* A slot that a piece reads or writes, or (name) a result of the stage's prologue that it reads. */
typedef struct Uses {
    int store;
    bool written;
    const char *name;
    PlanPlace place;
} Uses;

typedef struct Slot { /* of a store: its place on the stage */
    int store;
    uint32_t place;
} Slot;

typedef struct Piece {
    uint32_t stage, entry;
    const CertEntry *of;
    DT_VEC(Adds) adds;
    DT_VEC(Uses) uses;
    PlanShare *share; /* of a ring */
    bool began;       /* it has one of its own */
    bool meets;       /* other stages */
    struct Piece *main; /* the first entry of the stage that is this piece */
    uint8_t *ran; /* main's, by micro-batch */
    bool listed;      /* once it has run: */
    DT_VEC(Slot) reads, writes;
} Piece;

typedef struct Action {
    uint32_t kind : 8,
        index : 24; /* DT_SCHED_CALL of an entry, or 128 + DtPlanInstKind of a channel or group */
    uint32_t micro;
    uint16_t slot[DT_PLAN_N_SLOTS];
} Action;
enum { SENDS = 128 + DT_INST_SEND, RECEIVES = 128 + DT_INST_RECV, MEETS = 128 + DT_INST_ALL_REDUCE,
       MOST_ACTIONS = 1 << 24, MOST_ITEMS = 1 << 27 };

typedef struct Queue {
    uint32_t *micro, n, first;
} Queue;

typedef DT_VEC(int32_t) Held; /* by slot: the micro-batch that is there, -1: none */

typedef struct Met { /* of a function: sums over these stages, so far */
    const PlanFrame *frame;
    uint64_t stages;
    uint32_t n;
} Met;

struct PlanPipe {
    DT_VEC(Piece *) pieces;
    Piece *now;
    DT_VEC(Piece *) called; /* by the schedule that is walked */
    DT_VEC(int) slots;      /* stores with slots in it, each once */
    uint8_t *shared;        /* by metric */
    uint32_t n_shared;      /* metrics up to the last one of those */
    DT_VEC(Met) met;        /* in the entry that is walked */
    struct Course *courses; /* of the stages, as they run */
    int *carries;           /* by channel: the store that receives, -1: not known */
    int32_t *places; /* of stores with slots, by stage: the register of the slot, 0: there is one */
    Piece **by_entry; /* by plan entry */
    Queue *queues;    /* by channel */
    Held *held;       /* by store */
    const PlanShare **left; /* by stage: what its last piece left in a ring */
};

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static bool pipelined(const PlanWalk *walk) { return walk->plan->meta->pipeline != 0; }

static uint32_t n_micro(const PlanWalk *walk)
{
    return walk->first_device ? (uint32_t)walk->program->size[0] : 1;
}

/* ---- one entry ---- */

static struct PlanPipe *pipe_of(PlanWalk *walk)
{
    if (walk->pipe)
        return walk->pipe;
    struct PlanPipe *pipe = walk->pipe = DT_NEW(walk->arena, struct PlanPipe);
    pipe->shared = DT_NEW_ARRAY(walk->arena, uint8_t, walk->plan->n_metrics + 1);
    pipe->by_entry = DT_NEW_ARRAY(walk->arena, Piece *, walk->plan->n_entries + 1);
    pipe->carries = DT_NEW_ARRAY(walk->arena, int, walk->plan->n_channels + 1);
    memset(pipe->carries, 0xff, (walk->plan->n_channels + 1) * sizeof *pipe->carries);
    return pipe;
}

bool dt_certplan_enter(PlanWalk *walk, uint32_t entry)
{
    if (!pipelined(walk))
        return true;
    struct PlanPipe *pipe = pipe_of(walk);
    pipe->now = DT_NEW(walk->arena, Piece);
    *pipe->now = (Piece){.stage = walk->stage, .entry = entry};
    DT_PUSH(walk->arena, pipe->pieces, pipe->now);
    pipe->by_entry[entry] = pipe->now;
    pipe->called.n = pipe->slots.n = pipe->met.n = pipe->n_shared = 0;
    memset(pipe->shared, 0, walk->plan->n_metrics);
    walk->count[0] = n_micro(walk);
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        walk->count[DT_PLAN_REG_SLOTS + g] = DT_PLAN_MAX_SLOTS;
    return true;
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
    DT_PUSH(walk->arena, walk->pipe->now->adds, ((Adds){*place, sum, store, type, adds}));
}

static uint32_t *met_of(PlanWalk *walk, uint64_t stages)
{
    struct PlanPipe *pipe = walk->pipe;
    for (uint32_t i = 0; i < pipe->met.n; i++)
        if (pipe->met.at[i].frame == walk->frame && pipe->met.at[i].stages == stages)
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
        number += (func->ops.at[i]->mesh & walk->program->pipe) && func->ops.at[i]->stages == op->stages;
    walk->pipe->now->meets = true;
    bool good = is(op->kind, "all_reduce") && walk->frame->kind == PLAN_ENTRY && !walk->pipe->n_shared;
    return (good && number == (*met_of(walk, op->stages))++) ||
           dt_certplan_fail(walk, "stages add up in another order than the program");
}

/* Slots are written only where a result goes. */
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
    if (!piece || !piece->of || piece->stage != walk->stage || piece->meets)
        return dt_certplan_fail(walk, "a schedule calls what is no piece of its stage");
    for (uint32_t f = 0; f < walk->entries.n; f++)
        if (!dt_certplan_finish(walk, walk->entries.at[f]))
            return false;
    for (uint32_t i = 0; i < piece->adds.n; i++)
        if (!piece->adds.at[i]
                 .adds) { /* what it sets may be summed, as zeros that were added to may */
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
            if (!dt_certplan_is_zero(walk, ret_place, walk->depth, false))
                return dt_certplan_fail(walk, "a result is summed over ranks twice");
            dt_certplan_spoil(walk, ret_place, false);
            PlanRegion *region = dt_certplan_hold(walk, PLAN_ADDED, ret_place);
            region->summed = adds->sum;
            return true;
        }
    return dt_certplan_fail(walk, "a sum over ranks is of no result");
}

static PlanRegion *find_sum(PlanWalk *walk, const PlanPlace *place)
{
    for (uint32_t i = 0; i < walk->memory[place->arena].n; i++) {
        PlanRegion *region = walk->memory[place->arena].at[i];
        if (region->alive && region->kind == PLAN_ADDED && dt_certplan_same(&region->place, place))
            return region;
    }
    return NULL;
}

/* The sum over stages of a named scalar: what its stage computed, zeros elsewhere. */
bool dt_certplan_share(PlanWalk *walk, const DtPlanInst *inst)
{
    const DtPlan *plan = walk->plan;
    PlanPlace place;
    dt_certplan_arg(walk, &plan->args[inst->first_arg], &place);
    for (uint32_t i = 0; pipelined(walk) && i < plan->n_metrics; i++) {
        const DtPlanMetric *metric = &plan->metrics[i];
        const PlanPlace want = dt_certplan_metric(metric);
        if (metric->n_axes || metric->entry != walk->at_entry->name ||
            !dt_certplan_same(&place, &want))
            continue;
        if (inst->kind != DT_INST_ALL_REDUCE || inst->n_args != 1 || inst->count != 1 ||
            inst->dtype != metric->dtype || inst->reduce != DT_PLAN_SUM ||
            walk->pipe->shared[i]++ ||
            !(dt_certplan_is_zero(walk, &place, walk->depth, false) || find_sum(walk, &place)))
            return dt_certplan_fail(walk, "a scalar is not added over stages as it should be");
        if (i < walk->pipe->n_shared)
            return dt_certplan_fail(walk, "stages add up in another order than the program");
        walk->pipe->n_shared = i + 1;
        return dt_certplan_group(walk, inst, 1u << (plan->meta->pipeline - 1), 0);
    }
    return dt_certplan_fail(walk, "a sum over stages is of no scalar");
}

static bool has_stage(const PlanWalk *walk, int64_t store, uint32_t stage)
{
    return store >= 0 && store < walk->program->stores.n &&
           dt_cert_has(&walk->program->stores.at[store], stage);
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
    dt_certplan_arg(walk, &args[1], &tag);
    if (!place->bytes) { /* that no piece reads: passed on */
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
    walk->pipe->carries[inst->ref] = (int)number;
    add_slot(walk, (int)store);
    return true;
}

/* Whether no slot of one store touches a slot of the other: steps are equal and rows are side by
 * side, or all is apart. */
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
         g++) { /* single slots lie before those that move */
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
        for (uint32_t k = 0; k < i; k++)
            if (!apart(&walk->stores[pipe->slots.at[i]], &walk->stores[pipe->slots.at[k]]))
                return dt_certplan_fail(walk, "slots of %s and %s overlap",
                                        walk->program->stores.at[pipe->slots.at[i]].path,
                                        walk->program->stores.at[pipe->slots.at[k]].path);
    return true;
}

static bool spares(PlanWalk *walk, const PlanPlace *written, const void *place)
{
    return !dt_certplan_meets(walk, place, written);
}

/* What a piece leaves in the slots of a ring, no piece writes that does not look for it, nor a transfer. */
static bool keeps_shared(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++) {
        const PlanShare *share = pipe->called.at[p]->share;
        if (!share || !share->leaves)
            continue;
        bool spared = dt_certplan_each_write(walk, walk->at_entry->first, walk->at_entry->first + walk->at_entry->count,
                                             spares, &share->slots);
        for (uint32_t k = 0; spared && k < pipe->called.n; k++) {
            const Piece *piece = pipe->called.at[k];
            const DtPlanEntry *entry = &walk->plan->entries[piece->entry];
            spared = piece->share || piece->began ||
                     dt_certplan_each_write(walk, entry->first, entry->first + entry->count, spares, &share->slots);
        }
        if (!spared)
            return dt_certplan_fail(walk, "what %s gathers for another piece is overwritten",
                                    pipe->called.at[p]->of->name);
    }
    return true;
}

/* What pieces read of the stage's prologue, none of them writes: they run many times, in any order. */
static bool keeps_named(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t i = 0; i < pipe->called.at[p]->uses.n; i++) {
            const Uses *uses = &pipe->called.at[p]->uses.at[i];
            for (uint32_t k = 0; uses->name && k < pipe->called.n; k++) {
                const Piece *piece = pipe->called.at[k];
                const DtPlanEntry *entry = &walk->plan->entries[piece->entry];
                if (!dt_certplan_each_write(walk, entry->first, entry->first + entry->count, spares,
                                            &uses->place))
                    return dt_certplan_fail(walk, "%s overwrites %s, which %s reads", piece->of->name,
                                            uses->name, pipe->called.at[p]->of->name);
            }
        }
    return true;
}

/* What pieces added to is complete, and every named scalar known to all stages. */
static bool has_results(PlanWalk *walk)
{
    const struct PlanPipe *pipe = walk->pipe;
    for (uint32_t p = 0; p < pipe->called.n; p++)
        for (uint32_t i = 0; i < pipe->called.at[p]->adds.n; i++) {
            const Adds *adds = &pipe->called.at[p]->adds.at[i];
            const PlanRegion *sum = find_sum(walk, &adds->place);
            if (adds->sum ? !sum || sum->summed != adds->sum
                          : !dt_certplan_is_zero(walk, &adds->place, walk->depth, false))
                return dt_certplan_fail(walk, "a result of %s is not summed over its ranks",
                                        pipe->called.at[p]->of->name);
            if (adds->store >= 0)
                walk->is_result[adds->store] = true;
        }
    for (uint32_t i = 0; i < walk->plan->n_metrics; i++)
        if (walk->plan->metrics[i].entry == walk->at_entry->name &&
            !walk->plan->metrics[i].n_axes && !pipe->shared[i])
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

bool dt_certplan_is_again(const PlanWalk *walk, const CertEntry *of)
{
    return walk->pipe && main_of(walk->pipe, &(Piece){.of = of, .stage = walk->stage});
}

bool dt_certplan_leave(PlanWalk *walk)
{
    Piece alone, *now = pipelined(walk) ? walk->pipe->now : &alone;
    if (!dt_certplan_leave_ring(walk, &now->share, &now->began))
        return false;
    if (!pipelined(walk))
        return true;
    struct PlanPipe *pipe = walk->pipe;
    if (!pipe->places)
        pipe->places = DT_NEW_ARRAY(walk->arena, int32_t, walk->program->n_places + 1);
    if (!pipe->called.n) {
        pipe->now->of = walk->entries.n ? walk->entries.at[0]->entry : NULL;
        pipe->now->main = main_of(pipe, pipe->now);
        return true;
    }
    for (uint32_t i = 0; i < pipe->slots.n; i++)
        pipe->places[dt_cert_place(&walk->program->stores.at[pipe->slots.at[i]], walk->stage)] =
            slot_reg(&walk->stores[pipe->slots.at[i]]);
    return has_apart(walk) && keeps_named(walk) && keeps_shared(walk) && has_results(walk);
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

/* ---- all stages together ---- */

/* A stage on its way through the schedule of an entry. */
typedef struct Course Course;
struct Course {
    uint32_t at, end, inst; /* items; instructions of the item's body behind us */
    uint32_t n_open, n, n_items; /* loops around us; actions and items so far */
    struct {
        uint32_t item;
        int64_t left; /* iterations, with the present one */
    } open[DT_PLAN_MAX_DEPTH];
    int64_t reg[DT_PLAN_REGS];
    bool waits; /* `now` is still to be done */
    Action now;
};

static bool set_register(PlanWalk *walk, Course *course, uint32_t reg, int64_t value)
{
    course->reg[reg] = value;
    bool is_slot = reg >= DT_PLAN_REG_SLOTS && reg < DT_PLAN_REG_SLOTS + DT_PLAN_N_SLOTS;
    return !is_slot || (value >= 0 && value < DT_PLAN_MAX_SLOTS) ||
           dt_certplan_fail(walk, "slot %lld", (long long)value);
}

static bool act(PlanWalk *walk, Course *course, uint32_t kind, uint32_t index)
{
    Action *action = &course->now;
    *action = (Action){.kind = kind & 255, .index = index & 0xffffff, .micro = (uint32_t)course->reg[0]};
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        action->slot[g] = (uint16_t)course->reg[DT_PLAN_REG_SLOTS + g];
    return ++course->n <= MOST_ACTIONS ||
           dt_certplan_fail(walk, "the schedule has more than %d actions", MOST_ACTIONS);
}

/* The next iteration of the innermost loop, if there is one. */
static bool end_iteration(PlanWalk *walk, Course *course)
{
    const DtPlanSchedule *loop = &walk->plan->schedule[course->open[course->n_open - 1].item];
    if (--course->open[course->n_open - 1].left == 0) {
        course->n_open--;
        course->reg[loop->reg] = 0;
        return true;
    }
    course->at = course->open[course->n_open - 1].item;
    return set_register(walk, course, loop->reg, course->reg[loop->reg] + loop->step);
}

static bool set_by(PlanWalk *walk, Course *course, const DtPlanSchedule *item)
{
    int64_t value = item->step * course->reg[item->body] + (item->plus ? course->reg[item->plus] : 0) + item->first;
    if (item->count)
        value = (value % item->count + item->count) % item->count;
    return set_register(walk, course, item->reg, value);
}

/* It waits for, or sends to, other stages. */
static bool is_between(const DtPlan *plan, const DtPlanInst *inst)
{
    return inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV ||
           (inst->kind == DT_INST_ALL_REDUCE && plan->groups[inst->ref].mask >> (plan->meta->pipeline - 1) & 1);
}

/* Goes on up to the next action; false: there is none, or a failure. */
static bool go_on(PlanWalk *walk, Course *course)
{
    const DtPlan *plan = walk->plan;
    for (bool good = true; good && course->at < course->end; course->at++) {
        const DtPlanSchedule *item = &plan->schedule[course->at];
        if (++course->n_items > MOST_ITEMS)
            return dt_certplan_fail(walk, "the schedule has more than %d items", MOST_ITEMS);
        if (item->kind == DT_SCHED_SET) {
            good = set_by(walk, course, item);
        } else if (item->kind == DT_SCHED_LOOP) {
            course->open[course->n_open].item = course->at;
            course->open[course->n_open++].left = item->count;
            good = set_register(walk, course, item->reg, item->first);
        } else if (item->kind == DT_SCHED_END) {
            good = end_iteration(walk, course);
        } else if (item->kind == DT_SCHED_CALL) {
            course->at++;
            return act(walk, course, DT_SCHED_CALL, item->body);
        } else if (item->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[item->body];
            while (course->inst < body->n_insts) {
                const DtPlanInst *inst = &plan->insts[body->first_inst + course->inst++];
                if (is_between(plan, inst))
                    return act(walk, course, 128u + inst->kind, inst->ref);
            }
            course->inst = 0;
        }
    }
    return false;
}

/* The slot of the store at this place that the registers say. */
static int32_t *slot_at(PlanWalk *walk, uint32_t place, const Action *action)
{
    struct PlanPipe *pipe = walk->pipe;
    Held *held = &pipe->held[place];
    uint32_t slot = pipe->places[place] ? action->slot[pipe->places[place] - DT_PLAN_REG_SLOTS] : 0;
    while (held->n <= slot)
        DT_PUSH(walk->arena, *held, -1);
    return &held->at[slot];
}

static void list_slots(PlanWalk *walk, Piece *piece)
{
    for (uint32_t i = 0; i < piece->uses.n; i++) {
        const Uses *uses = &piece->uses.at[i];
        if (uses->name)
            continue;
        Slot slot = {uses->store, dt_cert_place(&walk->program->stores.at[uses->store], piece->stage)};
        if (uses->written)
            DT_PUSH(walk->arena, piece->writes, slot);
        else
            DT_PUSH(walk->arena, piece->reads, slot);
    }
}

/* What its first iterations gather ahead is there, and nothing else is left behind. */
static bool takes_ring(PlanWalk *walk, const Piece *piece)
{
    const PlanShare **left = &walk->pipe->left[piece->stage];
    const bool finds = piece->share && piece->share->finds;
    if (finds ? !*left || !dt_certplan_shares(*left, piece->share) : (piece->share || piece->began) && *left)
        return dt_certplan_fail(walk, "%s does not find what was gathered ahead", piece->of->name);
    if (piece->share || piece->began)
        *left = piece->share && piece->share->leaves ? piece->share : NULL;
    return true;
}

static bool run_piece(PlanWalk *walk, Piece *piece, const Action *action)
{
    if (!takes_ring(walk, piece))
        return false;
    if (!piece->listed)
        list_slots(walk, piece);
    piece->listed = true;
    for (uint32_t i = 0; i < piece->reads.n; i++)
        if (*slot_at(walk, piece->reads.at[i].place, action) != (int32_t)action->micro)
            return dt_certplan_fail(walk, "%s of micro-batch %u reads %s of another", piece->of->name, action->micro,
                                    walk->program->stores.at[piece->reads.at[i].store].path);
    for (uint32_t i = 0; i < piece->writes.n; i++)
        *slot_at(walk, piece->writes.at[i].place, action) = (int32_t)action->micro;
    if (!piece->main->ran)
        piece->main->ran = DT_NEW_ARRAY(walk->arena, uint8_t, n_micro(walk));
    if (action->micro >= n_micro(walk) || piece->main->ran[action->micro]++)
        return dt_certplan_fail(walk, "%s runs twice for micro-batch %u", piece->of->name,
                                action->micro);
    return true;
}

typedef enum Outcome { DONE, WAITS, WRONG } Outcome;

static Outcome send(PlanWalk *walk, Queue *queue, uint32_t slots, const char *path, int32_t *slot,
                    uint32_t micro)
{
    if (queue->n == slots)
        return WAITS;
    if (*slot != (int32_t)micro) {
        dt_certplan_fail(walk, "%s of micro-batch %u is sent, which is not there", path, micro);
        return WRONG;
    }
    queue->micro[(queue->first + queue->n++) % slots] = micro;
    return DONE;
}

static Outcome receive(PlanWalk *walk, Queue *queue, uint32_t slots, const char *path, int32_t *slot,
                       uint32_t micro)
{
    if (queue->n == 0)
        return WAITS;
    if (queue->micro[queue->first] != micro) {
        dt_certplan_fail(walk, "%s of micro-batch %u is received as that of %u", path,
                         queue->micro[queue->first], micro);
        return WRONG;
    }
    queue->first = (queue->first + 1) % slots;
    queue->n--;
    *slot = (int32_t)micro;
    return DONE;
}

static bool is_of(uint64_t stages, uint32_t stage) { return !stages || (stage < 64 && stages >> stage & 1); }

/* All stages of the group go on when the last of them comes. */
static Outcome meet(PlanWalk *walk, uint32_t stage, uint32_t group)
{
    const DtPlan *plan = walk->plan;
    Course *courses = walk->pipe->courses;
    const uint64_t stages = plan->groups[group].stages;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++)
        if (s != stage && is_of(stages, s) &&
            !(courses[s].waits && courses[s].now.kind == MEETS && courses[s].now.index == group))
            return WAITS;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++)
        courses[s].waits = courses[s].waits && !is_of(stages, s);
    return is_of(stages, stage) ? DONE : WRONG;
}

static Outcome run_action(PlanWalk *walk, uint32_t stage, const Action *action)
{
    struct PlanPipe *pipe = walk->pipe;
    if (action->kind == DT_SCHED_CALL) {
        Piece *piece = pipe->by_entry[action->index];
        return piece && piece->stage == stage && run_piece(walk, piece, action) ? DONE : WRONG;
    }
    if (action->kind == MEETS)
        return meet(walk, stage, action->index);
    const DtPlanChannel *channel = &walk->plan->channels[action->index];
    Queue *queue = &pipe->queues[action->index];
    const int number = pipe->carries[action->index];
    if (number < 0)
        return WRONG;
    const CertStore *to = &walk->program->stores.at[number];
    bool sends = action->kind == SENDS;
    const CertStore *store = sends ? &walk->program->stores.at[dt_cert_source(to, channel->from)] : to;
    int32_t *slot = slot_at(walk, dt_cert_place(store, stage), action);
    if (!queue->micro)
        queue->micro = DT_NEW_ARRAY(walk->arena, uint32_t, channel->slots + 1);
    return (sends ? send : receive)(walk, queue, channel->slots, to->path, slot, action->micro);
}

/* As far as the stage comes. DONE: to the end. */
static Outcome run_stage(PlanWalk *walk, uint32_t stage, Course *course, bool *moved)
{
    walk->stage = stage;
    for (;;) {
        if (!course->waits && !go_on(walk, course))
            return walk->problem->len ? WRONG : DONE;
        const Outcome outcome = run_action(walk, stage, &course->now);
        if (outcome == WRONG)
            dt_certplan_fail(walk, "the schedule of stage %u runs what is not its own", stage);
        course->waits = outcome == WAITS;
        *moved = *moved || outcome == DONE;
        if (outcome != DONE)
            return outcome;
    }
}

/* Runs the entries of this name on all stages. */
static bool run_stages(PlanWalk *walk, const char *name)
{
    const DtPlan *plan = walk->plan;
    struct PlanPipe *pipe = walk->pipe;
    const uint32_t n = dt_plan_stages(plan);
    uint32_t done = 0;
    Course *courses = pipe->courses = DT_NEW_ARRAY(walk->arena, Course, n + 1);
    for (uint32_t i = 0; i < plan->n_entries; i++) {
        const DtPlanEntry *entry = &plan->entries[i];
        for (uint32_t s = 0; s < n && is(dt_plan_str(plan, entry->name), name); s++)
            if (dt_plan_on_stage(entry->stage, s))
                courses[s] = (Course){.at = entry->first, .end = entry->first + entry->count};
    }
    pipe->queues = DT_NEW_ARRAY(walk->arena, Queue, plan->n_channels + 1);
    pipe->left = DT_NEW_ARRAY(walk->arena, const PlanShare *, n + 1);
    pipe->held = DT_NEW_ARRAY(walk->arena, Held, walk->program->n_places + 1);
    for (bool moved = true; moved && done < n;) {
        moved = false;
        done = 0;
        for (uint32_t s = 0; s < n; s++) {
            const Outcome outcome = run_stage(walk, s, &courses[s], &moved);
            if (outcome == WRONG)
                return false;
            done += outcome == DONE;
        }
    }
    walk->stage = n; /* of all of them */
    if (done < n)
        return dt_certplan_fail(walk, "the stages of `%s` wait for each other", name);
    for (uint32_t s = 0; s < n; s++)
        if (pipe->left[s])
            return dt_certplan_fail(walk, "what stage %u gathers ahead at the end of `%s` is never read", s, name);
    for (uint32_t c = 0; c < plan->n_channels; c++)
        if (pipe->queues[c].n)
            return dt_certplan_fail(walk, "channel %u of `%s` is never emptied", c, name);
    return true;
}

/* Every piece of the program is in the plan and ran for every micro-batch (in "predict": for one). */
static bool ran_all(PlanWalk *walk, const char *run, const char *name)
{
    for (uint32_t e = 0; e < walk->program->entries.n; e++) {
        const CertEntry *entry = &walk->program->entries.at[e];
        size_t len = strlen(run);
        int64_t n = 0;
        if (strncmp(entry->name, run, len) != 0 || entry->name[len] != '.' ||
            strstr(entry->name, ".prologue"))
            continue;
        for (uint32_t i = 0; i < walk->pipe->pieces.n; i++) {
            const Piece *piece = walk->pipe->pieces.at[i];
            if (piece->of != entry || !piece->ran)
                continue;
            n++;
            for (uint32_t m = 0; m < (is(run, "predict") ? 1 : n_micro(walk)); m++)
                if (!piece->ran[m])
                    return dt_certplan_fail(walk, "`%s` does not run %s of micro-batch %u", name,
                                            entry->name, m);
        }
        if (n != entry->to - entry->stage + 1)
            return dt_certplan_fail(walk, "`%s` runs %s on %lld stages", name, entry->name,
                                    (long long)n);
    }
    return true;
}

bool dt_certplan_queues(PlanWalk *walk)
{
    static const char *const names[][2] = {
        {"step", "grad"}, {"eval", "eval"}, {"predict", "predict"}, {"update", ""}};
    for (size_t i = 0; pipelined(walk) && i < DT_COUNT(names); i++) {
        bool there = false;
        for (uint32_t e = 0; e < walk->plan->n_entries; e++)
            there = there || is(dt_plan_str(walk->plan, walk->plan->entries[e].name), names[i][0]);
        if (there && (!run_stages(walk, names[i][0]) || (names[i][1][0] && !ran_all(walk, names[i][1], names[i][0]))))
            return false;
    }
    return true;
}
