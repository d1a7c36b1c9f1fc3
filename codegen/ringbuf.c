/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffers and conditions (pass `order`) as schedules. A ring buffer is one piece of memory,
 * wherever it is passed; its current slot is in a register, so there is one ring buffer at a
 * time. A `when` is a WHEN item on the register of its counter, before the items of its
 * function; its results are in the same places with and without it. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "plan/notes.h"

_Static_assert((int)DT_RING_ALIGN % (int)DT_PLAN_ALIGN == 0, "what lies in slots is aligned");

/* ---- counters ---- */

/* The value that a counter has in terms of a register: per * register + first. */
typedef struct Counter {
    uint32_t reg;
    int64_t per, first;
} Counter;

/* Returns the op that makes the value. For an input of the function it looks up the operand that
 * the caller passes, and *scope becomes the scope of that op. */
static const DtOp *maker_of(const DtScope **scope, const DtValue *value)
{
    while (!value->op && (*scope)->op && (*scope)->parent) {
        const uint32_t operand = value->index - ((*scope)->loop ? 1u : 0u);
        if (operand >= (*scope)->op->n_in)
            break; /* an operand that the loop itself supplies: the iteration's number */
        value = (*scope)->op->in[operand];
        *scope = (*scope)->parent;
    }
    return value->op;
}

bool dt_ringbuf_is_counter(const DtScope *scope, const DtValue *value)
{
    const DtOp *op = value->type == dt_type_scalar(DT_I32) ? maker_of(&scope, value) : NULL;
    return op && op->kind == DT_OP_TURN;
}

/* Returns how a `turn` op counts: the iterations of its loop, or the micro-batches, that came
 * before. */
static Counter counter_of(const DtScope *scope, const DtValue *value)
{
    const DtOp *op = maker_of(&scope, value);
    if (!op || op->kind != DT_OP_TURN)
        DT_BUG("a condition that no loop counts");
    const DtLoop *loop = scope->loop;
    if (loop && loop->reverse)
        return (Counter){scope->reg, -1, loop->count - 1};
    return (Counter){loop ? scope->reg : 0, 1, 0};
}

static void push_item(DtEmit *e, DtPlanSchedule item)
{
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_SCHED, .loop = item}));
}

static void push_when(DtEmit *e, const DtRange *range, Counter counter)
{
    const int64_t first = counter.per > 0 ? range->lo : counter.first - (range->lo + range->n - 1);
    push_item(e, (DtPlanSchedule){.kind = DT_SCHED_WHEN, .reg = (uint8_t)counter.reg,
                                  .first = (int32_t)first, .count = (int32_t)range->n});
}

/* Emits `at`: the element of x's leading axis that a counter selects. */
static void emit_at(DtEmit *e, const DtOp *op)
{
    const DtRange *range = op->ranges;
    DtPlace place = *dt_copy_require(e, op->in[0]);
    DtView *view = &place.view;
    const int d = dt_view_find(view, op->axes[0]);
    if (d < 0)
        DT_BUG("`at` of a value that lies without axis `%s`", op->axes[0]);
    const int64_t stride = view->stride[d], bytes = stride * (int64_t)dt_dtype_size(view->dtype);
    view->offset += stride * range->lo;
    if (op->n_in == 2) {
        const Counter counter = counter_of(e->scope, op->in[1]);
        place.reg[counter.reg] += bytes * range->step * counter.per;
        view->offset += stride * range->step * counter.first;
    }
    dt_view_drop(view, (uint32_t)d);
    dt_place_set(e, op->out[0], place);
}

/* ---- ring buffers ---- */

DtPlace dt_ringbuf_memory(DtEmit *e, const DtValue *ringbuf)
{
    const DtPlace place = dt_place_own(e, ringbuf);
    DtBuffer *buffer = &e->buffers.at[place.view.buffer];
    if (e->micro_loop) /* its live range covers all micro-batches */
        buffer->first = buffer->last = e->micro_loop - 1;
    return place;
}

void dt_ringbuf_claim(DtEmit *e)
{
    const DtFunc *func = e->scope->func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_RINGBUF_PUT || !op->holds || !op->holds[1])
            continue;
        const DtValue *ringbuf = op->in[0];
        while (ringbuf->op && ringbuf->op->n_in && dt_type_is_ringbuf(ringbuf->op->in[0]->type))
            ringbuf = ringbuf->op->in[0];
        const DtPlace *memory = dt_place_find(e, ringbuf);
        if (!memory)
            DT_BUG("a ring buffer is not there when its slots are given away");
        DtWanted *wanted = DT_NEW(e->scratch, DtWanted);
        *wanted = (DtWanted){.set = true, .place = dt_event_put(e, op, memory)};
        e->scope->wanted[op->in[1]->id] = wanted;
    }
}

static void emit_put(DtEmit *e, const DtOp *op)
{
    const DtPlace memory = *dt_copy_require(e, op->in[0]);
    const DtPlace slot = dt_event_put(e, op, &memory);
    dt_copy_value(e, op->in[1], &slot, false); /* does nothing if the operand was computed there */
    dt_place_set(e, op->out[0], memory);
}

/* ---- when ---- */

static void emit_when(DtEmit *e, const DtOp *op)
{
    const uint32_t first = op->ranges ? 1 : 0;
    DtScope *outer = e->scope, *inner = dt_scope_run(e, op, outer->path);
    for (uint32_t i = first; i < op->n_in; i++)
        if (!dt_ringbuf_is_counter(outer, op->in[i]))
            inner->places[op->func->inputs.at[i]->id] = *dt_copy_require(e, op->in[i]);
    if (op->ranges)
        push_when(e, op->ranges, counter_of(outer, op->in[0]));
    if (op->of)
        dt_note_ahead(e, op->of);
    e->scope = inner;
    dt_emit_func(e);
    for (uint32_t i = 0; i < op->n_out; i++) {
        const DtPlace *in = dt_place_find(e, op->func->inputs.at[first + i]),
                      *out = dt_place_find(e, op->func->results.at[i]);
        if (!in || !out || !dt_place_same(in, out))
            DT_BUG("`when` leaves result %u of `%s` somewhere else", i, op->func->name);
    }
    if (op->of)
        dt_note_op(e, DT_NOTE_RETURN, NULL);
    e->scope = outer;
    if (op->ranges)
        DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_CLOSE}));
    for (uint32_t i = 0; i < op->n_out; i++)
        dt_place_set(e, op->out[i], *dt_place_find(e, op->in[first + i]));
}

bool dt_ringbuf_emit(DtEmit *e, const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_TURN: return true;
    case DT_OP_AT: emit_at(e, op); return true;
    case DT_OP_WHEN: emit_when(e, op); return true;
    case DT_OP_RINGBUF_PUT: emit_put(e, op); return true;
    case DT_OP_RINGBUF:
        dt_place_set(e, op->out[0],
                     op->n_in ? *dt_copy_require(e, op->in[0]) : dt_ringbuf_memory(e, op->out[0]));
        /* a loop that carries the ring buffer uses all of its memory */
        dt_place_touch(e, dt_place_find(e, op->out[0])->view.buffer);
        dt_event_turn(e, op->out[0]->type, true);
        return true;
    case DT_OP_RINGBUF_TURN:
        dt_place_set(e, op->out[0], *dt_copy_require(e, op->in[0]));
        dt_event_turn(e, op->out[0]->type, false);
        dt_inflight_turn(e, op);
        return true;
    case DT_OP_RINGBUF_GET: {
        const DtPlace memory = *dt_copy_require(e, op->in[0]);
        dt_place_set(e, op->out[0],
                     dt_event_slot(e, op->in[0], &memory, op->number, op->out[0]->type));
        return true;
    }
    default: return false;
    }
}
