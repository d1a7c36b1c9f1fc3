/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers ahead of their iterations, in slots of a ring (codegen/ahead.c says how they are emitted).
 *
 * An op that says `ahead=k` is never done in its own iteration i, but k iterations before it, or before the loop if there
 * is none. What an instruction gathers there is worked out in a frame of its own, of the loop's body in that
 * iteration: by the same rules, with operands that are the slices of that iteration. Then, as an induction over i:
 *
 *   before the loop   slots u(0) .. u(k-1) hold what iterations 0 .. k-1 gather: nobody has overwritten them
 *   in iteration i    if i + k is one, what it gathers goes to slot u(i + k); no other slot is touched, and nothing else
 *                     in the loop writes to the ring; then what i reads is in slot u(i)
 *
 * u(i) = (a i + c) mod depth is what the schedule sets the ring's register to; any k + 1 iterations in a row have
 * different slots. Every iteration is gathered once: the guard lets through those i for which i + k is one, and no other. */
#include "verify/plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* What iteration `number` of a loop gathers, done before the loop. */
typedef struct Fill {
    int64_t number;
    const PlanFrame *frame;
} Fill;

struct PlanRing {
    DT_VEC(Fill) fills;   /* that no loop has taken yet */
    PlanFrame *body;      /* the loop that has slots; NULL: none */
    DT_VEC(uint32_t) kept;/* values of it that are in the ring */
    DT_VEC(PlanPlace) first, /* those of the fills: k for each value, one behind the other */
        place;            /* in the loop: they move with the ring's register */
    int64_t ahead;
    const DtPlanSchedule *when, *to, *at; /* the guard; what it sets for the gathers; what holds behind them */
    bool guarded, gathered;
};

static bool is_ahead(const CertOp *op) { return op && op->ahead > 0; }

static struct PlanRing *ring_of(PlanWalk *walk)
{
    if (!walk->ring)
        walk->ring = DT_NEW(walk->arena, struct PlanRing);
    return walk->ring;
}

void dt_certplan_forget_ahead(PlanWalk *walk) { *ring_of(walk) = (struct PlanRing){.body = NULL}; }

bool dt_certplan_is_guarded(const PlanWalk *walk) { return walk->ring->guarded; }

bool dt_certplan_has_slot(const PlanWalk *walk, const DtPlanArg *arg)
{
    return arg->reg[DT_PLAN_REG_RING] == 0 || walk->count[DT_PLAN_REG_RING] > 0;
}

/* ---- a frame of another iteration ---- */

bool dt_certplan_ahead(PlanWalk *walk)
{
    struct PlanRing *ring = ring_of(walk);
    PlanFrame *back = walk->frame;
    uint64_t loop = dt_certplan_word(walk), number = dt_certplan_word(walk);
    const CertOp *op = loop ? dt_certplan_op(walk, loop - 1) : back->op;
    if (loop ? ring->guarded : !ring->guarded || back != ring->body || !ring->to)
        return dt_certplan_fail(walk, "a note of gathers ahead is out of place");
    const CertFunc *func = op && op->loop && op->func ? dt_certtext_func(walk->program, op->func) : NULL;
    if (!func || func->n_args != 1 + op->n_in || number >= (uint64_t)op->loop->count)
        return dt_certplan_fail(walk, "gathers ahead are of no loop");
    PlanFrame *frame = dt_certplan_push(walk, PLAN_AHEAD, func, op);
    int64_t down = op->loop->reverse ? -1 : 1;
    frame->back = back;
    frame->number = (int64_t)number;
    if (!loop) {
        frame->outer = back->outer;
        frame->reg = back->reg;
        frame->shift = down * (int64_t)number;
    } else {
        frame->shift = op->loop->reverse ? op->loop->count - 1 - (int64_t)number : (int64_t)number;
    }
    return true;
}

/* The iteration has gathered all that it gathers ahead. */
bool dt_certplan_gathered(PlanWalk *walk)
{
    struct PlanRing *ring = walk->ring;
    const PlanFrame *frame = walk->frame;
    walk->frame = frame->back;
    for (uint32_t i = 0; i < frame->func->ops.n; i++)
        if (is_ahead(frame->func->ops.at[i]) && !frame->done[frame->func->ops.at[i]->first_out])
            return dt_certplan_fail(walk, "an iteration that is ahead leaves out a gather");
    if (!ring->guarded) {
        DT_PUSH(walk->arena, ring->fills, ((Fill){frame->number, frame}));
        return true;
    }
    if (ring->gathered || frame->number != ring->ahead)
        return dt_certplan_fail(walk, "gathers are %lld iterations ahead instead of %lld", (long long)frame->number,
                                (long long)ring->ahead);
    ring->gathered = true;
    ring->place.n = 0;
    for (uint32_t i = 0; i < ring->kept.n; i++) {
        PlanFound found[PLAN_FINDS];
        if (dt_certplan_find(walk, frame, ring->kept.at[i], found) != 1)
            return dt_certplan_fail(walk, "what is gathered ahead does not stay");
        DT_PUSH(walk->arena, ring->place, found[0].place);
    }
    return true;
}

bool dt_certplan_may_do(PlanWalk *walk, const CertOp *op)
{
    if (is_ahead(op) == (walk->frame->kind == PLAN_AHEAD))
        return true;
    return dt_certplan_fail(walk, is_ahead(op) ? "`%s` is done in its own iteration, not ahead of it"
                                               : "`%s` is done ahead of its iteration", op->kind);
}

/* ---- the loop ---- */

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

/* Before the loop is entered: what its first iterations read is there. */
bool dt_certplan_begin_ring(PlanWalk *walk, PlanFrame *body)
{
    struct PlanRing *ring = ring_of(walk);
    const CertFunc *func = body->func;
    int64_t ahead = 0;
    bool equal = true;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (is_ahead(func->ops.at[i])) {
            equal = equal && (!ahead || func->ops.at[i]->ahead == ahead) && func->ops.at[i]->n_out == 1;
            ahead = func->ops.at[i]->ahead;
        }
    if (!ahead)
        return !ring->fills.n || dt_certplan_fail(walk, "what is gathered ahead is of another loop");
    if (!equal || ring->body || ahead >= body->op->loop->count)
        return dt_certplan_fail(walk, "gathers of one loop are not equally far ahead, or of loops in one another");
    ring->body = body;
    ring->ahead = ahead;
    ring->when = ring->to = ring->at = NULL;
    ring->gathered = false;
    ring->kept.n = ring->first.n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (is_ahead(func->ops.at[i]) && is_kept(func, func->ops.at[i]->first_out))
            DT_PUSH(walk->arena, ring->kept, func->ops.at[i]->first_out);
    if (ring->fills.n != ahead)
        return dt_certplan_fail(walk, "%u iterations are gathered before the loop instead of %lld", ring->fills.n,
                                (long long)ahead);
    for (uint32_t v = 0; v < ring->kept.n; v++)
        for (int64_t j = 0; j < ahead; j++) {
            const Fill *fill = &ring->fills.at[j];
            PlanFound found[PLAN_FINDS];
            if (fill->frame->op != body->op || fill->number != j ||
                dt_certplan_find(walk, fill->frame, ring->kept.at[v], found) != 1)
                return dt_certplan_fail(walk, "what iteration %lld of the loop reads is not gathered", (long long)j);
            DT_PUSH(walk->arena, ring->first, found[0].place);
        }
    ring->fills.n = 0;
    return true;
}

bool dt_certplan_when(PlanWalk *walk, const DtPlanSchedule *item)
{
    struct PlanRing *ring = ring_of(walk);
    dt_certplan_note(walk, DT_NOTE_RETURN);
    const CertLoop *loop = ring->body ? ring->body->op->loop : NULL;
    if (!loop || walk->problem->len || walk->frame != ring->body || ring->when || walk->tiles.open)
        return dt_certplan_fail(walk, "a guard is out of place");
    if (item->reg != ring->body->reg || item->first != (loop->reverse ? ring->ahead : 0) ||
        item->count != loop->count - ring->ahead)
        return dt_certplan_fail(walk, "%d iterations from %d gather ahead, of %lld by %lld", item->count, item->first,
                                (long long)loop->count, (long long)ring->ahead);
    ring->when = item;
    ring->guarded = true;
    return true;
}

bool dt_certplan_end_when(PlanWalk *walk)
{
    dt_certplan_note(walk, DT_NOTE_RETURN);
    walk->ring->guarded = false;
    return (!walk->problem->len && walk->ring->gathered && walk->frame == walk->ring->body) ||
           dt_certplan_fail(walk, "a guard lets nothing gather");
}

/* The slot that SET chooses in iteration i. */
static int64_t slot_of(const struct PlanRing *ring, const DtPlanSchedule *set, int64_t i)
{
    const CertLoop *loop = ring->body->op->loop;
    int64_t number = loop->reverse ? loop->count - 1 - i : i, slot = (set->step * number + set->first) % set->count;
    return slot < 0 ? slot + set->count : slot;
}

static bool has_slots_in_turn(const struct PlanRing *ring)
{
    int64_t n = ring->body->op->loop->count - ring->ahead, first = slot_of(ring, ring->at, 0);
    bool good = ring->to->count == ring->at->count;
    for (int64_t i = 0; good && i < n && i < 2; i++) /* then for all: both are affine */
        good = slot_of(ring, ring->to, i) == slot_of(ring, ring->at, i + ring->ahead);
    for (int64_t t = 1; good && t <= ring->ahead; t++)
        good = slot_of(ring, ring->at, t) != first;
    return good;
}

/* All slots of the ring, or one of its values in all slots. */
static PlanPlace hull_of(const struct PlanRing *ring)
{
    PlanPlace hull = ring->place.at[0];
    int64_t step = hull.reg[DT_PLAN_REG_RING];
    for (uint32_t v = 1; v < ring->place.n; v++)
        hull.base = ring->place.at[v].base < hull.base ? ring->place.at[v].base : hull.base;
    hull.bytes = step * ring->at->count;
    hull.rank = 0;
    hull.reg[DT_PLAN_REG_RING] = 0;
    return hull;
}

/* Each value in its own part of a slot, at an address that only the ring's register moves. */
static bool lies_in_slots(const struct PlanRing *ring)
{
    const PlanPlace hull = hull_of(ring);
    int64_t step = ring->place.at[0].reg[DT_PLAN_REG_RING];
    for (uint32_t v = 0; v < ring->place.n; v++) {
        const PlanPlace *place = &ring->place.at[v];
        bool still = true;
        for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
            still = still && (r == DT_PLAN_REG_RING ? place->reg[r] == step : place->reg[r] == 0);
        for (uint32_t m = 0; m < CERT_MESH; m++)
            still = still && place->coord[m] == 0;
        if (!still || step <= 0 || place->arena != hull.arena || place->base - hull.base + place->bytes > step)
            return false;
        for (uint32_t w = 0; w < v; w++) {
            const PlanPlace *other = &ring->place.at[w];
            if (place->base < other->base + other->bytes && other->base < place->base + place->bytes)
                return false;
        }
    }
    return true;
}

/* What was gathered before the loop lies where its iterations look for it. */
static bool has_first(const struct PlanRing *ring)
{
    for (uint32_t v = 0; v < ring->place.n; v++)
        for (int64_t j = 0; j < ring->ahead; j++) {
            PlanPlace want = ring->place.at[v];
            want.base += want.reg[DT_PLAN_REG_RING] * slot_of(ring, ring->at, j);
            want.reg[DT_PLAN_REG_RING] = 0;
            if (!dt_certplan_alike(&want, &ring->first.at[v * ring->ahead + j]))
                return false;
        }
    return true;
}

bool dt_certplan_set(PlanWalk *walk, const DtPlanSchedule *item)
{
    if (item->reg != DT_PLAN_REG_RING)
        return true;
    dt_certplan_note(walk, DT_NOTE_RETURN);
    struct PlanRing *ring = ring_of(walk);
    if (walk->problem->len)
        return false;
    if (!ring->body || walk->frame != ring->body || item->body != ring->body->reg || item->plus || item->count < 1)
        return dt_certplan_fail(walk, "a slot of the ring is set out of place");
    if (ring->guarded && !ring->to) {
        ring->to = item;
        walk->count[DT_PLAN_REG_RING] = item->count;
        return true;
    }
    if (ring->guarded || !ring->gathered || ring->at)
        return dt_certplan_fail(walk, "a slot of the ring is set before its gathers, or twice");
    ring->at = item;
    if (!has_slots_in_turn(ring))
        return dt_certplan_fail(walk, "a slot is used again before its iteration has ended");
    if (ring->place.n && (!lies_in_slots(ring) || !has_first(ring)))
        return dt_certplan_fail(walk, "what is gathered ahead is not in its slot");
    for (uint32_t v = 0; v < ring->kept.n; v++)
        dt_certplan_define(walk, ring->body, ring->kept.at[v], &ring->place.at[v], false);
    return true;
}

/* Whether a write leaves the ring alone. */
static bool spares_ring(PlanWalk *walk, const PlanPlace *written, const void *data)
{
    const PlanPlace hull = hull_of(walk->ring);
    (void)data;
    return !dt_certplan_meets(walk, &hull, written);
}

/* A gather into the ring, or a write beside it. */
static bool is_of_ring(PlanWalk *walk, const PlanPlace *written, const void *data)
{
    for (uint32_t v = 0; v < walk->ring->place.n; v++)
        if (dt_certplan_same(written, &walk->ring->place.at[v]))
            return true;
    return spares_ring(walk, written, data);
}

bool dt_certplan_end_ring(PlanWalk *walk, const PlanFrame *body, uint32_t from, uint32_t to)
{
    struct PlanRing *ring = ring_of(walk);
    if (ring->body != body)
        return true;
    if (!ring->at)
        return dt_certplan_fail(walk, "the loop gathers nothing ahead");
    uint32_t when = (uint32_t)(ring->when - walk->plan->schedule), behind = when + 1 + ring->when->body;
    bool good = !ring->place.n || (dt_certplan_each_write(walk, from, when, spares_ring, NULL) &&
                                   dt_certplan_each_write(walk, when + 1, behind, is_of_ring, NULL) &&
                                   dt_certplan_each_write(walk, behind, to, spares_ring, NULL));
    if (!good)
        return dt_certplan_fail(walk, "what is gathered ahead is overwritten before it is read");
    dt_certplan_widen(walk, DT_PLAN_REG_RING);
    walk->count[DT_PLAN_REG_RING] = 0;
    ring->body = NULL;
    return true;
}

bool dt_certplan_has_used(PlanWalk *walk)
{
    return !ring_of(walk)->fills.n || dt_certplan_fail(walk, "what is gathered ahead is never read");
}
