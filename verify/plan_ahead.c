/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers ahead of their iterations, in slots of a ring (codegen/ahead.c says how they are emitted).
 *
 * An op that says `ahead=k` is never done in its own iteration of a loop, but k iterations before it: in the loop, in
 * the one that runs before it, or before both. What an instruction gathers there is worked out in a frame of its own,
 * of the loop's body in that iteration: by the same rules, with operands that are the slices of that iteration.
 *
 * The ring's register r stands for the slot that is free. Between iterations, what comes next, q(0) .. q(k-1), lies in
 * slots r + 1 .. r + k, modulo k + 1; each value of a loop at one place, which only that register moves. This
 *
 *   begins     with r = 0 and k times: gathers of q(j) into slot r, r + 1
 *   stays      in an iteration, which is q(0): what it gathers, q(k), goes to slot r; r + 1 is its own slot, and
 *              free when it ends. q(k) is of the loop, or, in its last k iterations, of the next one; guards
 *              let through exactly those iterations for which it is. Nothing else is written to any slot
 *   ends       with the loop behind which q has nothing: in its last k iterations nothing is gathered
 *
 * Over micro-batches: the beginning may be done in the first one alone. That takes for granted that each of the others
 * finds there what the first iterations of the same loop read; so the last loop gathers this in all micro-batches
 * but the last one, of operands that are the same in all of them, and nothing from there on to the loop is written to
 * any slot.
 *
 * Over pieces of a pipeline: one may find the first iterations of its first loop there, and leave those of another
 * piece's. What it takes for granted, and what it leaves, is compared where the schedules of all stages are run. */
#include "verify/plan_internal.h"

#include <stdlib.h>
#include <string.h>

typedef enum Guard { NO_GUARD, FIRST_MICRO, OWN, NEXT } Guard;

struct PlanRing {
    uint32_t micro;           /* 1 + item of the loop over micro-batches around us */
    bool began;               /* a ring has, in this entry */
    PlanShare *share;         /* what this entry, a piece, has of a ring that others have too */
    int64_t depth;            /* slots; 0: there is no ring, and all that follows is 0 */
    const PlanFrame *frame;   /* of the function that has the loops */
    PlanPlace slots;          /* all of them; bytes 0: not known yet */
    int64_t step;             /* from one to the next */
    DT_VEC(PlanKept *) kept;
    DT_VEC(PlanPlace) early;  /* what gathers wrote before it was known where the slots are */
    const CertOp *first;      /* the loop that begins it, if that is done in the first micro-batch alone */
    uint32_t from, begin;     /* if it was there before: between these items it is not written to */
    const CertOp *next;       /* the loop whose first iterations are there, outside of loops that have slots */
    int64_t n_next;           /* how many */
    bool full;                /* so is the next of them, in slot r */
    bool later;               /* they are those of the next micro-batch, if there is one */
    PlanFrame *body;          /* the loop that has slots, NULL: outside of it */
    bool own, crossed, at;    /* it has gathered: its own iterations; those of the next loop; r is its slot */
    Guard guard;
    bool but_last;            /* a guard lets through all micro-batches but the last */
};

static bool is_ahead(const CertOp *op) { return op && op->ahead > 0; }

static struct PlanRing *ring_of(PlanWalk *walk)
{
    if (!walk->ring)
        walk->ring = DT_NEW(walk->arena, struct PlanRing);
    return walk->ring;
}

void dt_certplan_forget_ahead(PlanWalk *walk) { *ring_of(walk) = (struct PlanRing){.depth = 0}; }

bool dt_certplan_is_guarded(const PlanWalk *walk)
{
    return walk->ring->guard || walk->ring->but_last;
}

bool dt_certplan_has_slot(const PlanWalk *walk, const DtPlanArg *arg)
{
    return arg->reg[DT_PLAN_REG_RING] == 0 || walk->ring->depth > 0;
}

bool dt_certplan_may_do(PlanWalk *walk, const CertOp *op)
{
    if (is_ahead(op) == (walk->frame->kind == PLAN_AHEAD))
        return true;
    return dt_certplan_fail(walk, is_ahead(op) ? "`%s` is done in its own iteration, not ahead of it"
                                               : "`%s` is done ahead of its iteration", op->kind);
}

/* How far ahead the loop gathers, all of it alike, and not over its whole length; 0: it does not, -1: otherwise. */
static int64_t ahead_of(const CertFunc *func, const CertLoop *loop)
{
    int64_t ahead = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        if (!is_ahead(op))
            continue;
        if ((ahead && op->ahead != ahead) || op->n_out != 1 || op->ahead >= loop->count)
            return -1;
        ahead = op->ahead;
    }
    return ahead;
}

static void close_ring(PlanWalk *walk)
{
    struct PlanRing *ring = walk->ring;
    if (ring->share) {
        ring->share->depth = ring->depth;
        ring->share->step = ring->step;
        ring->share->slots = ring->slots;
        for (uint32_t i = 0; i < ring->kept.n; i++)
            DT_PUSH(walk->arena, ring->share->kept, ring->kept.at[i]);
    }
    dt_certplan_widen(walk, DT_PLAN_REG_RING);
    walk->count[DT_PLAN_REG_RING] = 0;
    *ring = (struct PlanRing){.micro = ring->micro, .began = ring->began, .share = ring->share};
}

/* The piece's part of a ring that it has not alone, from now on. */
static PlanShare *share_of(PlanWalk *walk)
{
    struct PlanRing *ring = walk->ring;
    if (!ring->share)
        ring->share = DT_NEW(walk->arena, PlanShare);
    return ring->share;
}

/* ---- where it lies ---- */

/* At an address that only the ring's register moves, inside of slot 0 if that is known. */
static bool is_in_slot(const struct PlanRing *ring, const PlanPlace *place)
{
    const int64_t step = place->reg[DT_PLAN_REG_RING];
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        if (r != DT_PLAN_REG_RING && place->reg[r] != 0)
            return false;
    for (uint32_t m = 0; m < CERT_MESH; m++)
        if (place->coord[m] != 0)
            return false;
    const int64_t at = place->base - ring->slots.base;
    return step > 0 && (!ring->slots.bytes || (step == ring->step && place->arena == ring->slots.arena && at >= 0 &&
                                               at + place->bytes <= step));
}

static bool spares_slots(PlanWalk *walk, const PlanPlace *written, const void *data)
{
    (void)data;
    return !dt_certplan_meets(walk, &walk->ring->slots, written);
}

/* The first loop's values say where the slots are. Micro-batches and pieces that find them full have not written there
 * before. */
static bool find_slots(PlanWalk *walk, const PlanKept *kept)
{
    struct PlanRing *ring = walk->ring;
    PlanPlace slots = kept->places.at[0];
    for (uint32_t v = 1; v < kept->places.n; v++)
        slots.base = kept->places.at[v].base < slots.base ? kept->places.at[v].base : slots.base;
    ring->step = slots.reg[DT_PLAN_REG_RING];
    if (ring->step < 1 || ring->step > PLAN_BYTES / ring->depth)
        return dt_certplan_fail(walk, "slots of %lld bytes", (long long)ring->step);
    slots.bytes = ring->step * ring->depth;
    slots.rank = 0;
    slots.reg[DT_PLAN_REG_RING] = 0;
    ring->slots = slots;
    for (uint32_t i = 0; i < ring->early.n; i++)
        if (!is_in_slot(ring, &ring->early.at[i]) && !spares_slots(walk, &ring->early.at[i], NULL))
            return dt_certplan_fail(walk, "what is gathered ahead is overwritten before it is read");
    return !ring->from || dt_certplan_each_write(walk, ring->from - 1, ring->begin, spares_slots, NULL) ||
           dt_certplan_fail(walk, "what a micro-batch or piece finds gathered is overwritten before it is read");
}

bool dt_certplan_spares_ring(PlanWalk *walk, const DtPlanInst *inst)
{
    struct PlanRing *ring = walk->ring;
    bool gathers = walk->frame && walk->frame->kind == PLAN_AHEAD;
    for (uint32_t a = 0; a < inst->n_args; a++) {
        const DtPlanArg *arg = &walk->plan->args[inst->first_arg + a];
        PlanPlace place;
        if (arg->kind != DT_ARG_ADDRESS || !arg->written)
            continue;
        if (arg->reg[DT_PLAN_REG_RING] && !gathers) /* the register moves on, and what is written would not */
            return dt_certplan_fail(walk, "what is no gather ahead is written where the ring says");
        dt_certplan_arg(walk, arg, &place);
        if (!ring->slots.bytes) {
            if (gathers)
                DT_PUSH(walk->arena, ring->early, place);
            continue;
        }
        if (!(gathers && is_in_slot(ring, &place)) && !spares_slots(walk, &place, NULL))
            return dt_certplan_fail(walk, "what is gathered ahead is overwritten before it is read");
    }
    return true;
}

static bool is_kept(const CertFunc *func, uint32_t value)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            if (func->ops.at[i]->in[k] == value && !is_ahead(func->ops.at[i]))
                return true;
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return true;
    return false;
}

static PlanKept *kept_in(PlanKept *const *at, uint32_t n, const CertOp *loop)
{
    for (uint32_t i = 0; i < n; i++)
        if (at[i]->loop == loop)
            return at[i];
    return NULL;
}

static PlanKept *kept_of(const struct PlanRing *ring, const CertOp *loop)
{
    return kept_in(ring->kept.at, ring->kept.n, loop);
}

/* Each value in its own part of a slot. */
static bool lies_apart(const struct PlanRing *ring, const PlanKept *kept)
{
    for (uint32_t v = 0; v < kept->places.n; v++) {
        const PlanPlace *place = &kept->places.at[v];
        bool apart = is_in_slot(ring, place);
        for (uint32_t w = 0; apart && w < v; w++) {
            const PlanPlace *other = &kept->places.at[w];
            apart = place->base >= other->base + other->bytes || other->base >= place->base + place->bytes;
        }
        if (!apart)
            return false;
    }
    return kept->places.n > 0;
}

/* What this iteration gathered is where all of its loop have it. */
static bool keeps(PlanWalk *walk, const PlanFrame *frame)
{
    struct PlanRing *ring = walk->ring;
    PlanKept *kept = kept_of(ring, frame->op), *now = DT_NEW(walk->arena, PlanKept);
    now->loop = frame->op;
    for (uint32_t i = 0; i < frame->func->ops.n; i++) {
        const CertOp *op = frame->func->ops.at[i];
        PlanFinds found;
        if (!is_ahead(op) || !is_kept(frame->func, op->first_out))
            continue;
        if (dt_certplan_find(walk, frame, op->first_out, NULL, &found) != 1)
            return dt_certplan_fail(walk, "what is gathered ahead does not stay");
        DT_PUSH(walk->arena, now->values, op->first_out);
        DT_PUSH(walk->arena, now->places, found.at[0].place);
    }
    bool good = kept || (now->places.n && (ring->slots.bytes || find_slots(walk, now)) && lies_apart(ring, now));
    for (uint32_t v = 0; good && kept && v < now->places.n; v++)
        good = dt_certplan_alike(&now->places.at[v], &kept->places.at[v]);
    if (good && !kept)
        DT_PUSH(walk->arena, ring->kept, now);
    return good || dt_certplan_fail(walk, "what is gathered ahead is not in its slot");
}

/* ---- a frame of another iteration ---- */

/* Iteration number i = shift + sign * register, where the note stands; false: it has no business there. */
static bool turn_of(const struct PlanRing *ring, const CertOp *op, uint64_t number, int64_t *ret_sign,
                    int64_t *ret_shift)
{
    const CertLoop *loop = ring->body ? ring->body->op->loop : NULL;
    const int64_t ahead = ring->depth - 1, sign = loop && loop->reverse ? -1 : 1;
    const int64_t now = loop && loop->reverse ? loop->count - 1 : 0; /* present iteration: now + sign * register */
    *ret_sign = loop ? sign : 0;
    switch (ring->guard) {
    case OWN: return *ret_shift = now + ahead, op == ring->body->op && number == (uint64_t)ahead;
    case NEXT: return *ret_shift = now + ahead - loop->count, number == 0;
    default: return *ret_shift = (int64_t)number, !loop && ring->depth && number < (uint64_t)ahead;
    }
}

/* Only a piece shares a ring with others: the schedules call it. */
static bool is_piece(const PlanWalk *walk)
{
    return walk->plan->meta->pipeline && strchr(dt_plan_str(walk->plan, walk->at_entry->name), '.') &&
           !walk->ring->micro;
}

/* The function that has the loop that a note names: that of the present loops, or of another piece. */
static bool enter_piece(PlanWalk *walk, uint64_t number)
{
    const CertEntry *entry = is_piece(walk) ? dt_certplan_piece(walk, (number - 1) / DT_NOTE_PHASES,
                                                                (uint32_t)((number - 1) % DT_NOTE_PHASES)) : NULL;
    if (!entry || !entry->func)
        return dt_certplan_fail(walk, "gathers ahead are of no piece");
    dt_certplan_push(walk, PLAN_ENTRY, entry->func, NULL)->entry = entry;
    return true;
}

bool dt_certplan_ahead(PlanWalk *walk)
{
    struct PlanRing *ring = ring_of(walk);
    PlanFrame *back = walk->frame;
    uint64_t named = dt_certplan_word(walk), number = dt_certplan_word(walk);
    if (!ring->depth || back != (ring->body ? ring->body : ring->frame) || walk->tiles.open ||
        (ring->guard == OWN) != (named == 0))
        return dt_certplan_fail(walk, "a note of gathers ahead is out of place");
    walk->frame = (PlanFrame *)(uintptr_t)ring->frame;
    if (ring->guard == NEXT && number) {
        if (!enter_piece(walk, number))
            return false;
        number = 0;
    }
    const CertOp *op = named ? dt_certplan_op(walk, named - 1) : back->op;
    const CertFunc *func = op && op->loop && op->func ? dt_certtext_func(walk->program, op->func) : NULL;
    int64_t sign, shift;
    if (!func || func->n_args != 1 + op->n_in || ahead_of(func, op->loop) != ring->depth - 1)
        return dt_certplan_fail(walk, "gathers ahead are of no loop");
    if (!turn_of(ring, op, number, &sign, &shift))
        return dt_certplan_fail(walk, "a note of gathers ahead is out of place");
    PlanFrame *frame = dt_certplan_push(walk, PLAN_AHEAD, func, op);
    frame->back = back;
    frame->number = (int64_t)number;
    frame->reg = ring->body ? ring->body->reg : 0;
    frame->sign = op->loop->reverse ? -sign : sign; /* a loop that runs backwards counts its iterations down */
    frame->shift = op->loop->reverse ? op->loop->count - 1 - shift : shift;
    return true;
}

/* Whether a value is the same in all micro-batches: a parameter as stored, or a part of it. */
static bool is_still(const PlanFrame *frame, uint32_t value, const CertProgram *program)
{
    static const char *const views[] = {"relabel", "slice", "stop", "unpack"};
    const CertOp *op = frame->maker[value];
    if (!op) /* 1: the iteration's number comes first */
        return frame->kind == PLAN_AHEAD && value > frame->op->loop->carried &&
               is_still(frame->outer, frame->op->in[value - 1], program);
    if (strcmp(op->kind, "param") == 0)
        return op->store >= 0 && strcmp(program->stores.at[op->store].kind, "param") == 0;
    bool view = is_ahead(op);
    for (size_t i = 0; i < DT_COUNT(views); i++)
        view = view || strcmp(op->kind, views[i]) == 0;
    return view && is_still(frame, op->in[0], program);
}

/* What the last loop of a micro-batch gathers for the next one, or a piece for another, is the same in all of them. */
static bool has_still(PlanWalk *walk, const PlanFrame *frame)
{
    bool still = true;
    for (uint32_t i = 0; still && i < frame->func->ops.n; i++)
        if (is_ahead(frame->func->ops.at[i]))
            still = is_still(frame, frame->func->ops.at[i]->first_out, walk->program);
    return still || dt_certplan_fail(walk, "what is gathered for the next micro-batch or piece may differ there");
}

/* The iteration has gathered all that it gathers ahead. */
bool dt_certplan_gathered(PlanWalk *walk)
{
    struct PlanRing *ring = walk->ring;
    PlanFrame *frame = walk->frame;
    for (uint32_t i = 0; i < frame->func->ops.n; i++)
        if (is_ahead(frame->func->ops.at[i]) && !frame->done[frame->func->ops.at[i]->first_out])
            return dt_certplan_fail(walk, "an iteration that is ahead leaves out a gather");
    walk->frame = frame->back;
    if (!keeps(walk, frame))
        return false;
    if (!ring->body) {
        if (ring->full || frame->number != ring->n_next || (ring->next && ring->next != frame->op))
            return dt_certplan_fail(walk, "iteration %lld of a loop is gathered where %lld comes next",
                                    (long long)frame->number, (long long)ring->n_next);
        ring->next = frame->op;
        ring->full = true;
        return true;
    }
    if (ring->guard == OWN ? ring->own : ring->crossed)
        return dt_certplan_fail(walk, "an iteration is gathered twice");
    if (ring->guard == OWN)
        return ring->own = true;
    const bool other = frame->outer != ring->frame;
    if (other || ring->but_last ? !has_still(walk, frame) : ring->frame->done[frame->op->first_out])
        return dt_certplan_fail(walk, "what is gathered for the next loop is of one that has run");
    if (other ? ring->first != NULL : ring->but_last && ring->first != frame->op)
        return dt_certplan_fail(walk, "what the next micro-batch reads first is not what is gathered for it");
    if (other)
        share_of(walk)->leaves = frame->op;
    ring->next = frame->op;
    ring->later = ring->but_last || other;
    return ring->crossed = true;
}

/* ---- items of the schedule ---- */

/* What lies where a register says lies elsewhere when it is set. */
static bool sets_action(PlanWalk *walk, uint32_t reg)
{
    const struct PlanRing *ring = walk->ring;
    if (!walk->plan->meta->pipeline || (reg != 0 && reg < DT_PLAN_REG_SLOTS) || walk->depth || ring->depth ||
        ring->guard)
        return dt_certplan_fail(walk, "register %u is set", reg);
    for (uint32_t a = 0; reg < DT_PLAN_ARG_REGS && a < DT_COUNT(walk->memory); a++)
        for (uint32_t i = 0; i < walk->memory[a].n; i++) {
            PlanRegion *region = walk->memory[a].at[i];
            bool moves = region->place.reg[reg] != 0;
            for (const PlanHole *hole = region->holes; hole; hole = hole->next)
                moves = moves || hole->place.reg[reg] != 0;
            region->alive = region->alive && !moves;
        }
    return true;
}

/* Slots are taken in turn. */
bool dt_certplan_set(PlanWalk *walk, const DtPlanSchedule *item)
{
    struct PlanRing *ring = ring_of(walk);
    if (item->reg != DT_PLAN_REG_RING) /* for actions: plan_pipe.c */
        return sets_action(walk, item->reg);
    if (walk->actions)
        return dt_certplan_fail(walk, "what a pipeline repeats has a ring");
    dt_certplan_note(walk, DT_NOTE_RETURN);
    if (walk->problem->len)
        return false;
    bool begins = item->step == 0, good = !item->plus && item->first == !begins && walk->frame && !walk->tiles.open;
    if (begins) {
        if (!good || ring->depth || ring->share || item->count < 2 || walk->frame->kind == PLAN_AHEAD ||
            dt_certplan_has_called(walk)) /* the pieces that follow go on from where those before them left it */
            return dt_certplan_fail(walk, "a ring begins out of place");
        ring->depth = walk->count[DT_PLAN_REG_RING] = item->count;
        ring->frame = walk->frame;
        return ring->began = true;
    }
    if (!good || item->step != 1 || item->body != DT_PLAN_REG_RING || !ring->depth || item->count != ring->depth ||
        walk->frame != (ring->body ? ring->body : ring->frame) || ring->but_last ||
        (ring->guard && ring->guard != FIRST_MICRO) || (ring->body ? !ring->own || ring->at : !ring->full))
        return dt_certplan_fail(walk, "a slot of the ring is set out of place");
    if (!ring->body) {
        ring->full = false;
        ring->n_next++;
        return true;
    }
    const PlanKept *kept = kept_of(ring, ring->body->op);
    for (uint32_t v = 0; v < kept->values.n; v++)
        dt_certplan_define(walk, ring->body, kept->values.at[v], &kept->places.at[v], false);
    return ring->at = true;
}

/* Which iterations of the loop a guard lets through: those whose gathers are of the loop, or those of the next one. */
static Guard guard_of(const struct PlanRing *ring, const DtPlanSchedule *item)
{
    const CertLoop *loop = ring->body->op->loop;
    const int64_t ahead = ring->depth - 1, n_own = loop->count - ahead;
    if (item->reg != ring->body->reg)
        return NO_GUARD;
    if (item->count == n_own && item->first == (loop->reverse ? ahead : 0))
        return OWN;
    return item->count == ahead && item->first == (loop->reverse ? 0 : n_own) ? NEXT : NO_GUARD;
}

/* Whether items between two leave the ring's register as it is. */
static bool spares_register(const DtPlan *plan, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (plan->schedule[i].kind == DT_SCHED_CALL ||
            (plan->schedule[i].kind == DT_SCHED_SET && plan->schedule[i].reg == DT_PLAN_REG_RING))
            return false;
    return true;
}

/* A guard by the micro-batch. */
static bool guards_micro(PlanWalk *walk, const DtPlanSchedule *item)
{
    struct PlanRing *ring = walk->ring;
    if (!ring->body) {
        if (ring->depth || item->first != 0 || item->count != 1 || !walk->frame || walk->frame->kind != PLAN_ENTRY ||
            !spares_register(walk->plan, ring->micro, ring->begin))
            return dt_certplan_fail(walk, "what is gathered in %d micro-batches from %d is no ring's beginning",
                                    item->count, item->first);
        ring->guard = FIRST_MICRO;
        ring->from = 1 + ring->micro;
        return true;
    }
    if (ring->but_last || item->first != 0 || item->count != walk->count[0] - 1)
        return dt_certplan_fail(walk, "%d micro-batches from %d gather for the next one, of %lld", item->count,
                                item->first, (long long)walk->count[0]);
    return ring->but_last = true;
}

bool dt_certplan_when(PlanWalk *walk, const DtPlanSchedule *item)
{
    struct PlanRing *ring = ring_of(walk);
    dt_certplan_note(walk, DT_NOTE_RETURN);
    if (walk->problem->len || ring->guard || ring->at || walk->tiles.open || (ring->body && walk->frame != ring->body))
        return dt_certplan_fail(walk, "a guard is out of place");
    ring->begin = (uint32_t)(item - walk->plan->schedule);
    if (item->reg == 0 && ring->micro)
        return guards_micro(walk, item);
    ring->guard = ring->body ? guard_of(ring, item) : NO_GUARD;
    if (!ring->guard || (ring->guard == OWN && ring->but_last))
        return dt_certplan_fail(walk, "%d iterations from %d gather ahead, of %lld by %lld", item->count, item->first,
                                ring->body ? (long long)ring->body->op->loop->count : 0, (long long)ring->depth - 1);
    return true;
}

bool dt_certplan_end_when(PlanWalk *walk)
{
    struct PlanRing *ring = walk->ring;
    dt_certplan_note(walk, DT_NOTE_RETURN);
    const Guard guard = ring->guard;
    bool good = !walk->problem->len && walk->frame == (ring->body ? ring->body : ring->frame);
    ring->guard = NO_GUARD;
    if (guard == FIRST_MICRO) {
        good = good && ring->depth && ring->n_next == ring->depth - 1 && !ring->full;
        ring->first = ring->next;
    } else {
        good = good && (guard == OWN ? ring->own : ring->crossed);
        ring->but_last = ring->but_last && guard;
    }
    return good || dt_certplan_fail(walk, "a guard lets nothing gather");
}

/* ---- loops ---- */

/* A piece may take for granted that the first iterations of its first loop are there. */
static void take_ring(PlanWalk *walk, const PlanFrame *body, uint32_t loop, int64_t ahead)
{
    struct PlanRing *ring = walk->ring;
    if (ring->depth || ring->began || ring->share || walk->depth || !is_piece(walk) ||
        body->outer->kind != PLAN_ENTRY || !spares_register(walk->plan, walk->at_entry->first, loop))
        return;
    ring->depth = walk->count[DT_PLAN_REG_RING] = ahead + 1;
    ring->frame = body->outer;
    ring->from = 1 + walk->at_entry->first;
    ring->next = body->op;
    ring->n_next = ahead;
    share_of(walk)->finds = body->op;
}

/* Before a loop is entered: what its first iterations read is there. */
bool dt_certplan_begin_ring(PlanWalk *walk, PlanFrame *body, uint32_t loop)
{
    struct PlanRing *ring = ring_of(walk);
    int64_t ahead = ahead_of(body->func, body->op->loop);
    if (ahead == 0)
        return true;
    if (ahead < 0 || ring->body || (ring->depth && ring->depth != ahead + 1))
        return dt_certplan_fail(walk, "gathers of one loop are not equally far ahead, or of loops in one another");
    take_ring(walk, body, loop, ahead);
    if (!ring->depth || ring->guard || ring->frame != body->outer || ring->next != body->op || ring->n_next != ahead ||
        ring->full || ring->later)
        return dt_certplan_fail(walk, "what the first %lld iterations of the loop read is not gathered",
                                (long long)ahead);
    ring->body = body;
    ring->next = NULL;
    ring->n_next = 0;
    ring->own = ring->crossed = ring->at = false;
    return true;
}

bool dt_certplan_end_ring(PlanWalk *walk, const PlanFrame *body)
{
    struct PlanRing *ring = ring_of(walk);
    if (ring->body != body)
        return true;
    if (!ring->at)
        return dt_certplan_fail(walk, "the loop gathers nothing ahead");
    ring->body = NULL;
    ring->at = false;
    if (ring->crossed)
        ring->n_next = ring->depth - 1;
    else if (ring->first)
        return dt_certplan_fail(walk, "what the next micro-batch reads first is not gathered");
    else
        close_ring(walk);
    return true;
}

bool dt_certplan_begin_micro(PlanWalk *walk, uint32_t loop)
{
    ring_of(walk)->micro = 1 + loop;
    return dt_certplan_has_used(walk); /* a ring that began before would be at another slot in each micro-batch */
}

bool dt_certplan_end_micro(PlanWalk *walk)
{
    struct PlanRing *ring = walk->ring;
    ring->micro = 0;
    if (!ring->depth)
        return true;
    if (!ring->first || !ring->later || ring->next != ring->first)
        return dt_certplan_has_used(walk);
    close_ring(walk);
    return true;
}

bool dt_certplan_has_used(PlanWalk *walk)
{
    const struct PlanRing *ring = ring_of(walk);
    return !ring->depth || dt_certplan_fail(walk, "what is gathered ahead is never read");
}

/* An entry ends. */
bool dt_certplan_leave_ring(PlanWalk *walk, PlanShare **ret_share, bool *ret_began)
{
    struct PlanRing *ring = ring_of(walk);
    if (ring->depth && ring->later && ring->share && ring->share->leaves == ring->next && !ring->body)
        close_ring(walk);
    *ret_share = ring->share;
    *ret_began = ring->began;
    return dt_certplan_has_used(walk);
}

/* Whether what one piece leaves is what the other finds. */
bool dt_certplan_shares(const PlanShare *left, const PlanShare *finds)
{
    const PlanKept *const a = kept_in(left->kept.at, left->kept.n, finds->finds),
                   *const b = kept_in(finds->kept.at, finds->kept.n, finds->finds);
    bool same = left->leaves == finds->finds && left->depth == finds->depth && left->step == finds->step &&
                dt_certplan_same(&left->slots, &finds->slots) && a && b && a->places.n == b->places.n;
    for (uint32_t v = 0; same && v < a->places.n; v++)
        same = a->values.at[v] == b->values.at[v] && dt_certplan_alike(&a->places.at[v], &b->places.at[v]);
    return same;
}
