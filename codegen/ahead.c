/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers ahead of their iterations: all_gathers in the bodies of loops that say `ahead=k` (passes/zero.c).
 *
 * Loops of one function with equal k that run one behind the other are a *chain*. Its iterations are numbered
 * through, across the ends of loops, and share a ring of k + 1 slots; a slot holds all that an iteration gathers:
 *
 *   SET    ring = 0
 *   RUN, SET    gathers of the first k iterations, into slot ring; ring = (ring + 1) mod (k + 1)
 *   LOOP   i                                  of the first loop, of n iterations
 *     WHEN   i + k < n: RUN  gathers of iteration i + k, into slot ring
 *     WHEN   i + k >= n: RUN  those of iteration i + k - n of the next loop, if there is one
 *     SET    ring = (ring + 1) mod (k + 1)
 *     RUN    everything else, which reads slot ring
 *   END
 *   LOOP   of the next loop ..
 *
 * A slot is free again when its iteration ends, which is before the gathers of the iteration k + 1 behind it: so k + 1
 * slots do, nothing is copied, and a chain takes no more memory than its hungriest loop. A loop that runs backwards
 * counts its iterations down.
 *
 * A chain that has all such loops of a micro-batch goes on with the next one: its first gathers are done in the first
 * micro-batch alone, and behind its last loop comes the first, but for the last micro-batch. In a pipeline, behind the
 * last loop of a piece comes the first one of the piece that the stage runs next (pipeline.c); the ring lies where no
 * piece has anything else. */
#include "codegen/emit.h"

#include "plan/notes.h"

#include <string.h>

static bool is_ahead(const DtOp *op) { return op->kind == DT_OP_ALL_GATHER && op->ahead > 0; }

/* How far ahead a function's own ops gather, 0: none of them does. */
static int64_t ahead_of(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (is_ahead(func->ops.at[i]))
            return func->ops.at[i]->ahead;
    return 0;
}

/* Whether it does, or any loop in it. */
bool dt_ahead_uses(const DtFunc *func)
{
    bool uses = ahead_of(func) > 0;
    for (uint32_t i = 0; !uses && i < func->ops.n; i++)
        uses = func->ops.at[i]->func && dt_ahead_uses(func->ops.at[i]->func);
    return uses;
}

/* Whether anything but another gather ahead reads the value: then it lies in the ring. */
static bool is_kept(const DtFunc *body, const DtValue *value)
{
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_in; k++)
            if (body->ops.at[i]->in[k] == value && !is_ahead(body->ops.at[i]))
                return true;
    return false;
}

/* What the body's input is outside; number 0 is that of the iteration. */
static DtValue *operand_of(const DtOp *loop, uint32_t input) { return loop->in[input - 1]; }

/* Whether a gather ahead reads input number `input` of the loop's body. */
static bool is_gathered(const DtOp *loop, uint32_t input)
{
    for (uint32_t i = 0; i < loop->func->ops.n; i++)
        if (is_ahead(loop->func->ops.at[i]) && loop->func->ops.at[i]->in[0] == loop->func->inputs.at[input])
            return true;
    return false;
}

/* Whether what the loop gathers are parameters, as stored: there long before it. */
static bool gathers_stored(const DtOp *loop)
{
    bool all = true;
    for (uint32_t i = 1; i < loop->func->inputs.n; i++) {
        const DtOp *op = operand_of(loop, i)->op;
        all = all && (!is_gathered(loop, i) || (op && op->kind == DT_OP_PARAM));
    }
    return all;
}

/* ---- chains ---- */

static int64_t slot_bytes(DtEmit *e, const DtFunc *body)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < body->ops.n; i++)
        if (is_ahead(body->ops.at[i]) && is_kept(body, body->ops.at[i]->out[0]))
            bytes += dt_place_aligned(dt_place_bytes(e, body->ops.at[i]->out[0]->type));
    return bytes;
}

/* Chains of the loops among ops, the last one first. ret_whole: all loops that gather ahead are in it. */
static DtAhead *list_chains(DtEmit *e, const DtOp *const *ops, uint32_t n, bool *ret_whole)
{
    DtAhead *chains = NULL;
    bool goes_on = false;
    *ret_whole = true;
    for (uint32_t i = 0; i < n; i++) {
        int64_t ahead = ops[i]->kind == DT_OP_LOOP ? ahead_of(ops[i]->func) : 0;
        if (!ahead) { /* one in it takes the ring's register for itself */
            bool takes = ops[i]->func && dt_ahead_uses(ops[i]->func);
            *ret_whole = *ret_whole && !takes;
            goes_on = goes_on && !takes;
            continue;
        }
        goes_on = goes_on && chains->ahead == ahead && gathers_stored(ops[i]);
        if (!goes_on) {
            DtAhead *chain = DT_NEW(e->scratch, DtAhead);
            *chain = (DtAhead){.ahead = ahead, .next = chains};
            *ret_whole = *ret_whole && !chains && gathers_stored(ops[i]);
            chains = chain;
        }
        DT_PUSH(e->scratch, chains->loops, ops[i]);
        if (slot_bytes(e, ops[i]->func) > chains->bytes)
            chains->bytes = slot_bytes(e, ops[i]->func);
        goes_on = true;
    }
    return chains;
}

void dt_ahead_plan(DtEmit *e, const DtOp *const *ops, uint32_t n)
{
    bool whole;
    DtAhead *last = e->scope->chains = list_chains(e, ops, n, &whole);
    if (!last || !whole || e->scope->op)
        return;
    last->around = e->micro_loop > 0;
    last->part = e->part;
    if (e->part) {
        last->buffer = e->part->buffer;
        last->bytes = e->part->bytes;
    }
}

bool dt_ahead_chain(DtEmit *e, const DtFunc *func, DtAhead *ret_chain)
{
    bool whole;
    const DtAhead *chain = list_chains(e, (const DtOp *const *)func->ops.at, func->ops.n, &whole);
    if (!chain || !whole)
        return false;
    *ret_chain = *chain;
    return true;
}

/* The chain of a loop in the function being emitted, NULL: it gathers nothing ahead. number: of it in the chain. */
static DtAhead *chain_of(const DtScope *scope, const DtOp *loop, uint32_t *ret_number)
{
    for (DtAhead *chain = scope->chains; chain; chain = chain->next)
        for (*ret_number = 0; *ret_number < chain->loops.n; ++*ret_number)
            if (chain->loops.at[*ret_number] == loop)
                return chain;
    return NULL;
}

/* ---- slots ---- */

/* Where in the slot that the ring's register says a value lies: behind those of the gathers before it. Not set: it is
 * not in the ring. */
static DtPlace slot_of(DtEmit *e, const DtAhead *chain, const DtFunc *body, const DtValue *value)
{
    int64_t at = 0;
    if (!is_kept(body, value))
        return (DtPlace){.set = false};
    for (uint32_t i = 0; body->ops.at[i]->out[0] != value; i++)
        if (is_ahead(body->ops.at[i]) && is_kept(body, body->ops.at[i]->out[0]))
            at += dt_place_aligned(dt_place_bytes(e, body->ops.at[i]->out[0]->type));
    DtPlace place = dt_place_dense(e, value->type, chain->buffer);
    place.view.offset = at / (int64_t)dt_dtype_size(value->type->dtype);
    place.reg[DT_PLAN_REG_RING] = chain->bytes;
    return place;
}

static void push_item(DtEmit *e, DtPlanSchedule item)
{
    DT_PUSH(e->arena, e->events, ((DtEvent){.kind = DT_EVENT_ITEM, .loop = item}));
}

static void push_when(DtEmit *e, uint32_t reg, int64_t first, int64_t count, uint32_t n_items)
{
    push_item(e, (DtPlanSchedule){.kind = DT_SCHED_WHEN, .reg = (uint8_t)reg, .body = n_items, .first = (int32_t)first,
                                  .count = (int32_t)count});
}

/* ring = 0, or ring + 1 */
static void push_slot(DtEmit *e, const DtAhead *chain, bool begins)
{
    DtPlanSchedule item = {.kind = DT_SCHED_SET, .reg = DT_PLAN_REG_RING, .count = (int32_t)(chain->ahead + 1)};
    if (!begins)
        item.body = DT_PLAN_REG_RING, item.step = item.first = 1;
    push_item(e, item);
}

/* ---- gathers ---- */

/* An iteration of a loop: per * register + first of those before it. */
typedef struct Turn {
    uint32_t reg;
    int64_t per, first;
} Turn;

/* What iteration `turn` of the loop reads of an operand that lies at place: numbers count down in a loop that runs
 * backwards. */
static DtPlace slice_at(DtEmit *e, const DtOp *loop, const DtPlace *place, Turn turn)
{
    const int64_t sign = loop->loop->reverse ? -1 : 1, down = loop->loop->reverse ? loop->loop->count - 1 : 0;
    DtPlace slice = dt_emit_slice(e, loop, *place, turn.reg);
    const int64_t step = slice.reg[turn.reg] - place->reg[turn.reg];
    slice.reg[turn.reg] += (sign * turn.per - 1) * step;
    slice.view.offset += step * (sign * turn.first + down) / (int64_t)dt_dtype_size(slice.view.dtype);
    return slice;
}

static DtPlace *place_operand(DtEmit *e, DtValue *value)
{
    if (!dt_place_find(e, value) && value->op && value->op->kind == DT_OP_PARAM)
        dt_emit_op(e, value->op, 0);
    return dt_emit_require(e, value);
}

/* The gathers of that iteration, into the slot that the ring's register says; in the scope around the loop. */
static void emit_gathers(DtEmit *e, const DtAhead *chain, const DtOp *loop, Turn turn)
{
    const DtFunc *body = loop->func;
    const uint32_t first_stacked = 1 + loop->loop->n_carried + loop->loop->n_invariant;
    DtScope *outer = e->scope, *scope = dt_emit_scope(e, body, loop->loop, outer->path);
    for (uint32_t i = 1; i < body->inputs.n; i++) {
        if (!is_gathered(loop, i))
            continue;
        const DtPlace *place = place_operand(e, operand_of(loop, i));
        scope->places[body->inputs.at[i]->id] = i < first_stacked ? *place : slice_at(e, loop, place, turn);
    }
    DtWanted *wanted = DT_NEW_ARRAY(e->scratch, DtWanted, body->ops.n);
    e->scope = scope;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (!is_ahead(body->ops.at[i]))
            continue;
        const DtValue *value = body->ops.at[i]->out[0];
        wanted[i] = (DtWanted){.set = true, .place = slot_of(e, chain, body, value)};
        if (wanted[i].place.set)
            scope->wanted[value->id] = &wanted[i];
        dt_exchange_emit(e, body->ops.at[i], 0);
    }
    dt_note_op(e, DT_NOTE_RETURN, NULL);
    e->scope = outer;
}

/* Those of the first iterations, before the loop; if the chain goes on with the next micro-batch, in the first one. */
static void emit_first(DtEmit *e, const DtAhead *chain, const DtOp *loop, uint32_t reg)
{
    if (chain->around)
        push_when(e, 0, 0, 1, 1 + 2 * (uint32_t)chain->ahead);
    push_slot(e, chain, true);
    for (int64_t i = 0; i < chain->ahead; i++) {
        dt_note_ahead(e, loop, (uint32_t)i);
        emit_gathers(e, chain, loop, (Turn){reg, 0, i});
        push_slot(e, chain, false);
    }
}

void dt_ahead_begin(DtEmit *e, const DtOp *loop, DtScope *inner)
{
    uint32_t number;
    DtAhead *chain = chain_of(e->scope, loop, &number);
    if (!chain)
        return;
    if (number == 0 && chain->part) {
        if (!chain->part->goes_on)
            emit_first(e, chain, loop, inner->reg);
    } else if (number == 0) {
        chain->buffer = dt_place_buffer(e, "gathered ahead", chain->bytes * (chain->ahead + 1));
        if (chain->around) /* there in all of a micro-batch */
            e->buffers.at[chain->buffer].first = e->buffers.at[chain->buffer].last = e->micro_loop - 1;
        emit_first(e, chain, loop, inner->reg);
    }
    for (uint32_t i = 0; i < loop->func->ops.n; i++) {
        const DtOp *op = loop->func->ops.at[i];
        if (is_ahead(op) && is_kept(loop->func, op->out[0]))
            inner->places[op->out[0]->id] = slot_of(e, chain, loop->func, op->out[0]);
    }
}

/* In the last iterations of a loop: those of the next one, in the scope of the function that has it. */
static void emit_next(DtEmit *e, const DtAhead *chain, const DtOp *loop, const DtOp *next, Turn turn)
{
    const int64_t n = loop->loop->count, by = chain->ahead;
    push_when(e, turn.reg, loop->loop->reverse ? 0 : n - by, by, 1);
    if (chain->part && chain->loops.at[chain->loops.n - 1] == loop)
        dt_note_ahead_of(e, next, chain->part->next_piece, chain->part->next_kind);
    else
        dt_note_ahead(e, next, 0);
    emit_gathers(e, chain, next, (Turn){turn.reg, turn.per, turn.first - n});
}

void dt_ahead_iterate(DtEmit *e, const DtOp *loop, DtScope *inner)
{
    uint32_t number;
    DtScope *outer = (DtScope *)(uintptr_t)inner->parent;
    const DtAhead *chain = chain_of(outer, loop, &number);
    DtAhead other;
    if (!chain)
        return;
    const int64_t n = loop->loop->count, by = chain->ahead;
    const bool down = loop->loop->reverse;
    const Turn turn = {inner->reg, down ? -1 : 1, by + (down ? n - 1 : 0)}; /* that is so far ahead */
    e->scope = outer;
    push_when(e, inner->reg, down ? by : 0, n - by, 1);
    dt_note_ahead(e, NULL, (uint32_t)by);
    emit_gathers(e, chain, loop, turn);
    if (number + 1 < chain->loops.n) {
        emit_next(e, chain, loop, chain->loops.at[number + 1], turn);
    } else if (chain->around) {
        push_when(e, 0, 0, e->n_micro - 1, 2);
        emit_next(e, chain, loop, chain->loops.at[0], turn);
    } else if (chain->part && chain->part->next >= 0) {
        const DtFunc *func = e->module->entries.at[chain->part->next].func;
        dt_ahead_chain(e, func, &other);
        e->scope = dt_emit_scope(e, func, NULL, outer->path);
        emit_next(e, chain, loop, other.loops.at[0], turn);
    }
    e->scope = inner;
    push_slot(e, chain, false);
}

bool dt_ahead_is_done(const DtOp *op) { return is_ahead(op); }
