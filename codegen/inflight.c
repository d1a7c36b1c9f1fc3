/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous reductions that are still in flight when a loop iteration ends. An iteration
 * starts the reduction of a gradient bucket in a slot of the loop's ring buffer. The wait comes
 * when the ring reaches that slot again, some iterations later; after the loop, the `done` of
 * the loop's result waits for the slots that are left. Each slot therefore has an event of its
 * own.
 *
 * If micro-batches accumulate the gradient, the reduced bucket is added to the accumulated one
 * after the wait: inside the loop to the part of the iteration that used the slot before, after
 * the loop to those of the last iterations, in order, while the ring turns once more. */
#include "codegen/emit.h"

#include "base/bug.h"

/* Returns the type of the ring buffer in which the body puts the sums of its result number
 * `result`. */
static const DtType *ring_of(const DtFunc *body, uint32_t result)
{
    return body->results.at[result]->op->in[0]->op->in[0]->type;
}

bool dt_inflight_is(const DtFunc *func, const DtOp *op, uint32_t *ret_number)
{
    *ret_number = 0;
    while (*ret_number < func->results.n && func->results.at[*ret_number] != op->out[0])
        ++*ret_number;
    return op->starts && !op->late && *ret_number < func->results.n;
}

uint32_t dt_inflight_event(DtEmit *e, const DtFunc *body, uint32_t result)
{
    return dt_event_of(e, body, result, dt_event_slots(ring_of(body, result)));
}

/* Adds the sum in the front slot of the ring (at memory) to a place, in the scope of an
 * iteration. */
static void add_slot(DtEmit *e, uint32_t result, const DtPlace *memory, const DtPlace *to)
{
    const DtFunc *body = e->scope->func;
    DtValue *value = body->results.at[result];
    dt_place_set(e, value, dt_event_put(e, dt_graph_put(body, value), memory));
    dt_copy_value(e, value, to, true);
}

/* Returns the part of the place that belongs to the iteration `turns` iterations before the present
 * one. */
static DtPlace part_before(const DtScope *scope, DtPlace place, int64_t turns)
{
    const int64_t away = scope->loop->reverse ? turns : -turns;
    place.view.offset += away * place.reg[scope->reg] / (int64_t)dt_dtype_size(place.view.dtype);
    return place;
}

/* Adds the reduced sum to the part of the iteration that used this slot before, unless no iteration
 * did. */
static void add_before(DtEmit *e, const DtOp *turn, uint32_t result)
{
    const DtScope *scope = e->scope;
    const DtWanted *wanted = &scope->results[result];
    const int64_t slots = dt_event_slots(turn->out[0]->type), n = scope->loop->count - slots;
    if (!wanted->accumulate)
        DT_BUG("a sum is left in its slot, and nothing adds up");
    if (n <= 0)
        return;
    const DtPlace memory = *dt_copy_require(e, turn->in[0]),
                  part = part_before(scope, wanted->place, slots);
    const DtPlanSchedule when = {.kind = DT_SCHED_WHEN, .reg = (uint8_t)scope->reg,
                                 .count = (int32_t)n,
                                 .first = scope->loop->reverse ? 0 : (int32_t)slots};
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_SCHED, .loop = when}));
    dt_note_behind(e, NULL, slots);
    add_slot(e, result, &memory, &part);
    dt_note_op(e, DT_NOTE_RETURN, NULL);
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_CLOSE}));
}

void dt_inflight_turn(DtEmit *e, const DtOp *turn)
{
    const DtFunc *func = e->scope->func;
    uint32_t result;
    for (uint32_t i = 0; i < func->ops.n && e->scope->loop; i++) {
        if (!dt_inflight_is(func, func->ops.at[i], &result))
            continue;
        dt_event_wait(e, turn, dt_inflight_event(e, func, result), 1);
        if (dt_graph_is_slotted(func, func->ops.at[i]->out[0]))
            add_before(e, turn, result);
    }
}

/* After the loop, adds the sums of its last iterations to the result: the first of them is in the
 * slot after the front one. */
static void add_last(DtEmit *e, const DtOp *done, const DtPlace *memory, const DtPlace *whole)
{
    const DtOp *loop = done->in[0]->op;
    const uint32_t result = done->in[0]->index, event = dt_inflight_event(e, loop->func, result);
    const int64_t slots = dt_event_slots(ring_of(loop->func, result)), n = loop->loop->count;
    DtScope *outer = e->scope, *inner = dt_scope_new(e, loop->func, loop->loop, outer->path);
    const DtPlace part = dt_place_slice(e, loop, *whole, inner->reg);
    inner->op = loop;
    for (int64_t turn = n - slots; turn < n; turn++) {
        const int64_t number = loop->loop->reverse ? n - 1 - turn : turn;
        DtPlace to = part;
        dt_event_turn(e, ring_of(loop->func, result), false);
        if (turn < 0)
            continue;
        dt_event_wait(e, done, event, 1);
        to.view.offset += number * part.reg[inner->reg] / (int64_t)dt_dtype_size(part.view.dtype);
        to.reg[inner->reg] = 0;
        dt_note_behind(e, loop, turn);
        e->scope = inner;
        add_slot(e, result, memory, &to);
        e->scope = outer;
        dt_note_op(e, DT_NOTE_RETURN, NULL);
    }
}

/* Waits for all slots: communication in flight may still read one of them. */
void dt_inflight_finish(DtEmit *e, const DtOp *done)
{
    const DtOp *loop = done->in[0]->op;
    const DtFunc *body = loop->func;
    const uint32_t result = done->in[0]->index, first = dt_inflight_event(e, body, result);
    const DtPlace place = *dt_copy_require(e, done->in[0]);
    const DtPlace *memory = NULL;
    for (uint32_t i = 0; i < loop->loop->n_carried; i++)
        if (dt_type_is_ringbuf(loop->out[i]->type))
            memory = dt_copy_require(e, loop->out[i]);
    if (!memory)
        DT_BUG("a loop leaves something on its way, and carries no ring buffer");
    dt_place_touch(e, memory->view.buffer);
    dt_place_touch(e, place.view.buffer);
    if (dt_graph_is_slotted(body, body->results.at[result]))
        add_last(e, done, memory, &place);
    else
        for (uint32_t i = 0; i < dt_event_slots(ring_of(body, result)); i++)
            dt_event_wait(e, done, first + i, 0);
    dt_place_set(e, done->out[0], place);
}
