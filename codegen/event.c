/* SPDX-License-Identifier: Apache-2.0 */
/* Events, and slots of ring buffers: the registers and instruction fields for both.
 *
 * An event is a number that is free again after its wait. Gathers into ring buffers have an
 * event for each slot, since the WAIT is in another iteration; the register of the slot selects
 * it. These events were not used for anything else before: a gather that an iteration of a loop,
 * or a micro-batch, leaves in a slot is in flight when the next one begins, together with
 * everything before its loop. */
#include "codegen/emit.h"

#include "base/bug.h"

/* ---- events ---- */

uint32_t dt_event_take(DtEmit *e, uint32_t from, uint32_t n)
{
    uint32_t first = from, run = 0;
    for (uint32_t i = from; run < n; i++) {
        if (i == e->events_taken.n)
            DT_PUSH(e->arena, e->events_taken, false);
        run = e->events_taken.at[i] ? 0 : run + 1;
        first = run == 1 ? i : first;
    }
    for (uint32_t i = 0; i < n; i++)
        e->events_taken.at[first + i] = true;
    DtPlanMeta *meta = &e->plan->meta.at[0];
    meta->events = meta->events > first + n ? meta->events : first + n;
    if (meta->events > DT_PLAN_MAX_EVENTS)
        DT_BUG("%u events", meta->events);
    return first;
}

uint32_t dt_event_of(DtEmit *e, const void *of, uint32_t gather, uint32_t slots)
{
    for (uint32_t i = 0; i < e->slot_events.n; i++) {
        const DtSlotEvents *known = &e->slot_events.at[i];
        if (known->of == of && known->gather == gather && known->slots == slots)
            return known->first;
    }
    const uint32_t first = dt_event_take(e, e->events_taken.n, slots);
    DT_PUSH(e->arena, e->slot_events, ((DtSlotEvents){of, gather, slots, first}));
    return first;
}

void dt_event_set(DtEmit *e, uint32_t event, uint32_t step)
{
    DtPlanInst *inst = &e->items.at[e->items.n - 1].inst;
    inst->event = 1 + event;
    inst->event_step = step;
}

void dt_event_wait(DtEmit *e, const DtOp *done, uint32_t event, uint32_t step)
{
    dt_inst_add(e, DT_INST_WAIT, 0, 0, NULL, done);
    dt_event_set(e, event, step);
}

/* ---- slots ---- */

uint32_t dt_event_slots(const DtType *ringbuf) { return (uint32_t)ringbuf->axes[0].extent; }

DtPlace dt_event_slot(DtEmit *e, const DtValue *ringbuf, const DtPlace *memory, double byte,
                      const DtType *type)
{
    DtPlace place = dt_place_dense(e, type, memory->view.buffer);
    place.view.offset = (int64_t)byte / (int64_t)dt_dtype_size(type->dtype);
    place.reg[DT_PLAN_REG_RINGBUF] = ringbuf->type->axes[ringbuf->type->rank - 1].extent;
    return place;
}

DtPlace dt_event_put(DtEmit *e, const DtOp *put, const DtPlace *memory)
{
    return dt_event_slot(e, put->in[0], memory, put->number, put->in[1]->type);
}

void dt_event_turn(DtEmit *e, const DtType *ringbuf, bool begins)
{
    DtPlanSchedule item = {.kind = DT_SCHED_SET, .reg = DT_PLAN_REG_RINGBUF,
                           .count = (int32_t)ringbuf->axes[0].extent};
    if (!begins)
        item.body = DT_PLAN_REG_RINGBUF, item.step = item.first = 1;
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_SCHED, .loop = item}));
}
