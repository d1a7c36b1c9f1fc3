/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: all_reduce, all_gather, reduce_scatter, all_to_all, shift to one instruction each; and the waits for
 * those that are only started.
 *
 * Blocks are views of memory as it is (ir/blocks.h). An operand that has to be dense for that, and is not, was copied
 * by pass `memory`; so was a result that has to be, and should go where it cannot be. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "ir/blocks.h"
#include "plan/notes.h"

#include <string.h>

_Static_assert((int)DT_BLOCK_DIMS == (int)DT_PLAN_BLOCK_DIMS && (int)DT_BLOCK_COORDS == (int)DT_PLAN_COORDS,
               "blocks fit into records");

static DtPlanBlocks plan_blocks(const DtBlocks *from, uint32_t group)
{
    DtPlanBlocks blocks = {.n_dims = from->n_dims, .group = group};
    memcpy(blocks.extent, from->extent, sizeof blocks.extent);
    memcpy(blocks.to, from->to, sizeof blocks.to);
    memcpy(blocks.from, from->from, sizeof blocks.from);
    memcpy(blocks.coord_axis, from->coord_axis, sizeof from->coord_axis);
    memcpy(blocks.to_coord, from->to_coord, sizeof blocks.to_coord);
    memcpy(blocks.from_coord, from->from_coord, sizeof blocks.from_coord);
    return blocks;
}

/* Whether the blocks of a gather or scatter lie one after the other in the order of the members. */
static bool is_plain(const DtEmit *e, const DtPlanBlocks *blocks, int64_t count)
{
    const DtPlanGroup *group = &e->plan->groups.at[blocks->group];
    int64_t expected = count;
    if (blocks->n_dims > 1 || group->mask >> 16)
        return false;
    for (uint32_t m = e->plan->mesh.n; m-- > 0;) {
        if (!(group->mask >> m & 1))
            continue;
        int64_t moves = 0;
        for (uint32_t c = 0; c < DT_PLAN_COORDS; c++)
            if (blocks->coord_axis[c] == m && (blocks->to_coord[c] || blocks->from_coord[c])) {
                if (blocks->to_coord[c] && blocks->from_coord[c])
                    return false;
                moves = blocks->to_coord[c] + blocks->from_coord[c];
            }
        if (moves != expected)
            return false;
        expected *= e->plan->mesh.at[m].size;
    }
    return true;
}

/* 1 + number of the record, 0 for a plain order. */
static uint32_t record_of(DtEmit *e, DtPlanBlocks blocks, int64_t count, bool one_sided)
{
    if (one_sided && is_plain(e, &blocks, count))
        return 0;
    for (uint32_t i = 0; i < e->plan->blocks.n; i++)
        if (memcmp(&e->plan->blocks.at[i], &blocks, sizeof blocks) == 0)
            return i + 1;
    DT_PUSH(e->plan->arena, e->plan->blocks, blocks);
    return e->plan->blocks.n;
}

static void set_inst(DtEmit *e, int64_t count, DtDtype dtype, uint32_t reduce, uint32_t blocks)
{
    DtPlanInst *inst = &e->items.at[e->items.n - 1].inst;
    inst->count = count;
    inst->dtype = (uint16_t)dtype;
    inst->reduce = (uint16_t)reduce;
    inst->blocks = blocks;
}

static void add_blocks(DtEmit *e, const DtOp *op, DtPlanInstKind kind, const DtPlace *to, const DtPlace *from,
                       const DtBlocks *found, int64_t count)
{
    const DtPlanBlocks blocks = plan_blocks(found, dt_inst_group(e, op->mesh));
    const DtEArg args[2] = {dt_place_arg(e, to, true), dt_place_arg(e, from, false)};
    dt_inst_add(e, kind, blocks.group, 2, args, op);
    const uint32_t reduce = kind == DT_INST_REDUCE_SCATTER ? op->in[0]->type->pending : DT_REDUCE_SUM;
    set_inst(e, count, op->out[0]->type->dtype, reduce, record_of(e, blocks, count, kind != DT_INST_ALL_TO_ALL));
}

/* ---- what is started ----
 *
 * The instruction of a collective that is started names an event, and `done` becomes the WAIT for it. Between the two
 * what it reads and where it writes lives on, and neither is written: buffers are touched by the WAIT, too, and emit.c
 * does not give away memory that is still read (DtRead.held).
 *
 * What a body leaves to its loop reads a slot of a ring buffer: that is waited for when it is the front one again, and
 * what is left behind the loop by the `done` of its result. So slots have an event each.
 *
 * An event is a number that is free again once it was waited for. Gathers into ring buffers have one for each slot,
 * since the WAIT is in another iteration: which of them, the register says that says where the slot lies. Theirs were
 * nobody's before, either: what an iteration of a loop, or a micro-batch, leaves in a slot is on its way when the next
 * one begins, and meets all that stands in front of its loop. */

/* n in a row, none of them below `from`. */
static uint32_t take_events(DtEmit *e, uint32_t from, uint32_t n)
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

static uint32_t slots_of(const DtType *ringbuf) { return (uint32_t)ringbuf->axes[0].extent; }

/* Of gather number `gather` of a slot, in slot 0. */
static uint32_t ring_event(DtEmit *e, const DtFunc *of, uint32_t gather, uint32_t slots)
{
    for (uint32_t i = 0; i < e->ring_events.n; i++) {
        const DtRingEvents *known = &e->ring_events.at[i];
        if (known->of == of && known->gather == gather && known->slots == slots)
            return known->first;
    }
    const uint32_t first = take_events(e, e->events_taken.n, slots);
    DT_PUSH(e->arena, e->ring_events, ((DtRingEvents){of, gather, slots, first}));
    return first;
}

/* How many ops of its kind come before it: an iteration takes out in the order in which what it reads was put in. */
static uint32_t place_among(const DtFunc *func, const DtOp *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; func->ops.at[i] != op; i++)
        n += func->ops.at[i]->kind == op->kind;
    return n;
}

static const DtOp *put_of(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_RINGBUF_PUT && func->ops.at[i]->in[1] == value)
            return func->ops.at[i];
    DT_BUG("`%s` is started and nobody waits for it", dt_op_info[value->op->kind].text);
}

/* Which of the body's results it is that the loop goes on with; false: none. */
static bool is_left(const DtFunc *func, const DtOp *op, uint32_t *ret_number)
{
    *ret_number = 0;
    while (*ret_number < func->results.n && func->results.at[*ret_number] != op->out[0])
        ++*ret_number;
    return op->starts && !op->late && *ret_number < func->results.n;
}

static uint32_t left_event(DtEmit *e, const DtFunc *body, uint32_t result)
{
    const DtValue *slot = body->results.at[result]->op->in[0];
    return ring_event(e, body, result, slots_of(slot->op->in[0]->type));
}

static void set_event(DtEmit *e, uint32_t event, uint32_t step)
{
    DtPlanInst *inst = &e->items.at[e->items.n - 1].inst;
    inst->event = 1 + event;
    inst->event_step = step;
}

static DtValue *event_result(DtEmit *e, const DtOp *op)
{
    const DtOp *done = op->starts ? dt_scope_done(e, op->out[0]) : NULL;
    return done ? done->out[0] : op->out[0];
}

static void start_event(DtEmit *e, const DtOp *op, const DtPlace *to, const DtPlace *from)
{
    const DtOp *done = op->starts ? dt_scope_done(e, op->out[0]) : NULL;
    uint32_t result;
    if (!op->starts)
        return;
    if (done) {
        const DtStarted started = {op->out[0], take_events(e, 0, 1), to->view.buffer, from->view.buffer};
        set_event(e, started.event, 0);
        DT_PUSH(e->arena, e->started, started);
        dt_place_set(e, op->out[0], *to);
        return;
    }
    if (is_left(e->scope->func, op, &result)) {
        if (e->scope->wanted[op->out[0]->id])
            DT_BUG("`%s` is started and not where it belongs", dt_op_info[op->kind].text);
        set_event(e, left_event(e, e->scope->func, result), 1);
        return;
    }
    const DtOp *put = put_of(e->scope->func, op->out[0]);
    if (e->buffers.at[from->view.buffer].fixed) /* else it may be gone when the slot is read */
        set_event(e, ring_event(e, NULL, place_among(e->scope->func, put), slots_of(put->out[0]->type)), 1);
}

void dt_exchange_message(DtEmit *e, uint32_t *event)
{
    if (!*event)
        *event = 1 + take_events(e, e->events_taken.n, 1);
    set_event(e, *event - 1, 0);
}

static void push_wait(DtEmit *e, const DtOp *done, uint32_t event, uint32_t step)
{
    dt_inst_add(e, DT_INST_WAIT, 0, 0, NULL, done);
    set_event(e, event, step);
}

void dt_exchange_turn(DtEmit *e, const DtOp *turn)
{
    const DtFunc *func = e->scope->func;
    uint32_t result;
    for (uint32_t i = 0; i < func->ops.n && e->scope->loop; i++)
        if (is_left(func, func->ops.at[i], &result))
            push_wait(e, turn, left_event(e, func, result), 1);
}

/* Of all iterations of a loop: what is still on its way reads one of the slots. */
static void finish_loop(DtEmit *e, const DtOp *op)
{
    const DtOp *loop = op->in[0]->op;
    const DtFunc *body = loop->func;
    const uint32_t result = op->in[0]->index, first = left_event(e, body, result),
                   slots = slots_of(body->results.at[result]->op->in[0]->op->in[0]->type);
    const DtPlace place = *dt_copy_require(e, op->in[0]);
    for (uint32_t i = 0; i < loop->loop->n_carried; i++)
        if (dt_type_is_ringbuf(loop->out[i]->type))
            dt_place_touch(e, dt_copy_require(e, loop->out[i])->view.buffer);
    dt_place_touch(e, place.view.buffer);
    for (uint32_t i = 0; i < slots; i++)
        push_wait(e, op, first + i, 0);
    dt_place_set(e, op->out[0], place);
}

/* ---- sums of what micro-batches add up ---- */

/* One at a time is on its way: the one before it in its place has ended when the next one is started. */
static uint32_t late_event(DtEmit *e, const DtFunc *func, const DtOp *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; func->ops.at[i] != op; i++)
        n += func->ops.at[i]->late;
    return ring_event(e, func, n, 1);
}

/* A rank's run of all that lies there becomes the sum of all ranks'. */
static void cut_in_place(DtEmit *e, const DtOp *op, const DtPlace *from)
{
    const DtType *x = op->in[0]->type, *y = op->out[0]->type;
    const DtPlace to = dt_place_run(e, from, x, y);
    DtBlocks found;
    if (!dt_blocks_find(op, &e->module->mesh, &from->view, &to.view, true, &found))
        DT_BUG("`%s` over more than %d mesh axes", dt_op_info[op->kind].text, DT_PLAN_COORDS);
    add_blocks(e, op, DT_INST_REDUCE_SCATTER, &to, from, &found, dt_type_local_elements(y, &e->module->mesh));
}

/* Its term is added where the result lies, in each micro-batch; in the last one that is summed over ranks. */
static void emit_late(DtEmit *e, const DtOp *op)
{
    const DtValue *value = event_result(e, op);
    const DtWanted *wanted = e->scope->wanted[value->id];
    const uint32_t event = late_event(e, e->scope->func, op);
    if (!wanted || !wanted->accumulate)
        DT_BUG("a late sum is of no result that micro-batches add up");
    if (e->scope->wanted[op->in[0]->id])
        DT_BUG("the term of a late sum is not added where that lies");
    e->scope->wanted[value->id] = NULL;
    if (e->scope->loop)
        push_wait(e, op, event, 0);
    const DtPlanSchedule last = {.kind = DT_SCHED_WHEN, .first = (int32_t)e->n_micro - 1, .count = 1};
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_SCHED, .loop = last})); /* up to a CLOSE */
    if (op->kind == DT_OP_REDUCE_SCATTER)
        cut_in_place(e, op, &wanted->place);
    else
        dt_exchange_sum(e, &wanted->place, &wanted->place, op->mesh, (DtReduce)op->in[0]->type->pending, NULL);
    set_event(e, event, 0);
    dt_note_part(e, op->kind == DT_OP_REDUCE_SCATTER ? op->out[0] : op->in[0]);
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_CLOSE}));
    dt_place_set(e, value, wanted->place);
}

/* Of one, or of all iterations of a loop; false: that is no late sum. */
static bool finish_late(DtEmit *e, const DtOp *op)
{
    const DtOp *maker = op->in[0]->op;
    const DtFunc *func = maker->kind == DT_OP_LOOP ? maker->func : e->scope->func;
    if (!dt_op_late(op->in[0]))
        return false;
    if (maker->kind == DT_OP_LOOP)
        maker = func->results.at[op->in[0]->index]->op;
    push_wait(e, op, late_event(e, func, maker), 0);
    if (op->in[0]->op->kind == DT_OP_LOOP)
        dt_place_set(e, op->out[0], *dt_copy_require(e, op->in[0]));
    return true;
}

static void emit_done(DtEmit *e, const DtOp *op)
{
    const DtOp *maker = op->in[0]->op;
    if (finish_late(e, op))
        return;
    if (maker->kind == DT_OP_LOOP) {
        finish_loop(e, op);
        return;
    }
    if (maker->kind == DT_OP_RINGBUF_GET) {
        push_wait(e, op, ring_event(e, NULL, place_among(e->scope->func, maker), slots_of(maker->in[0]->type)), 1);
        dt_place_set(e, op->out[0], *dt_copy_require(e, op->in[0]));
        return;
    }
    for (uint32_t i = 0; i < e->started.n; i++) {
        const DtStarted started = e->started.at[i];
        if (started.value != op->in[0])
            continue;
        dt_place_touch(e, started.to);
        dt_place_touch(e, started.from);
        push_wait(e, op, started.event, 0);
        e->events_taken.at[started.event] = false;
        e->started.at[i] = e->started.at[--e->started.n];
        return;
    }
    DT_BUG("`done` of what was not started");
}

/* ---- instructions ---- */

static void note_exchange(DtEmit *e, const DtOp *op, const DtPlace *to, bool in_place)
{
    dt_note_do(e, &op, 1);
    dt_note_over(e, op->out[0], to, 0, in_place ? op->in[0] : NULL);
    if (!in_place)
        dt_note_read(e, op->in[0]);
}

void dt_exchange_sum(DtEmit *e, const DtPlace *to, const DtPlace *from, uint16_t mesh, DtReduce reduce, const DtOp *op)
{
    DtEArg args[2] = {dt_place_arg(e, to, true), dt_place_arg(e, from, false)};
    bool in_place = dt_place_same(to, from);
    uint32_t ranks = dt_inst_stage_group(e, mesh, op ? op->stages : NULL);
    dt_inst_add(e, DT_INST_ALL_REDUCE, ranks, in_place ? 1 : 2, args, op);
    set_inst(e, args[0].bytes / (int64_t)dt_dtype_size(to->view.dtype), to->view.dtype, reduce, 0);
    if (op)
        note_exchange(e, op, to, in_place);
}

static DtOutput output_of(DtEmit *e, const DtOp *op, bool dense)
{
    const DtOutput output = dt_output_of(e, event_result(e, op));
    if (output.accumulate || (dense && !dt_place_is_dense(&output.place, op->out[0]->type, &e->module->mesh)))
        DT_BUG("`%s` cannot write where it belongs", dt_op_info[op->kind].text);
    return output;
}

/* Where the operand lies, which has to be dense: if callers disagree on how it lies, a copy. */
static DtPlace dense_operand(DtEmit *e, const DtOp *op)
{
    DtValue *value = op->in[0];
    const DtPlace place = *dt_copy_require(e, value);
    if (dt_place_is_dense(&place, value->type, &e->module->mesh))
        return place;
    if (!op->copies)
        DT_BUG("the operand of `%s` is not copied", dt_op_info[op->kind].text);
    const DtPlace copy = dt_place_temporary(e, value->type, value->name);
    dt_copy_value(e, value, &copy, false);
    return copy;
}

static void emit_all_reduce(DtEmit *e, const DtOp *op)
{
    const DtPlace from = dense_operand(e, op);
    DtOutput output = output_of(e, op, true);
    dt_output_take(e, &output);
    if (output.old && !output.wished)
        output.place = from;
    dt_exchange_sum(e, &output.place, &from, op->mesh, (DtReduce)op->in[0]->type->pending, op);
    start_event(e, op, &output.place, &from);
    dt_place_set(e, output.value, output.place);
}

static void emit_blocks(DtEmit *e, const DtOp *op, DtPlanInstKind kind)
{
    const DtMesh *mesh = &e->module->mesh;
    const DtType *x = op->in[0]->type, *y = op->out[0]->type;
    DtPlace from = *dt_copy_require(e, op->in[0]);
    const DtOutput output = output_of(e, op, false);
    DtBlocks found;
    int64_t mine = dt_type_local_elements(x, mesh), theirs = dt_type_local_elements(y, mesh);
    int64_t count = mine < theirs ? mine : theirs;
    if (kind == DT_INST_ALL_TO_ALL)
        for (uint32_t m = 0; m < mesh->n; m++)
            count /= op->mesh >> m & 1 ? mesh->axes[m].size : 1;
    if (!dt_blocks_find(op, mesh, &from.view, &output.place.view, true, &found)) {
        from = dense_operand(e, op);
        if (!dt_place_is_dense(&output.place, y, mesh) ||
            !dt_blocks_find(op, mesh, &from.view, &output.place.view, false, &found))
            DT_BUG("`%s` cannot write where it belongs, or over more than %d mesh axes", dt_op_info[op->kind].text,
                   DT_PLAN_COORDS);
    }
    add_blocks(e, op, kind, &output.place, &from, &found, count);
    note_exchange(e, op, &output.place, false);
    start_event(e, op, &output.place, &from);
    dt_place_set(e, output.value, output.place);
}

static void emit_shift(DtEmit *e, const DtOp *op)
{
    const DtMesh *mesh = &e->module->mesh;
    const DtType *type = op->out[0]->type;
    const DtPlace from = dense_operand(e, op);
    const DtOutput output = output_of(e, op, true);
    DtEArg args[2] = {dt_place_arg(e, &output.place, true), dt_place_arg(e, &from, false)};
    dt_inst_add(e, op->reverse ? DT_INST_SHIFT_BACK : DT_INST_SHIFT, dt_inst_group(e, op->mesh), 2, args, op);
    set_inst(e, dt_type_local_elements(type, mesh), type->dtype, 0, 0);
    note_exchange(e, op, &output.place, false);
    start_event(e, op, &output.place, &from);
    dt_place_set(e, output.value, output.place);
}

bool dt_exchange_emit(DtEmit *e, const DtOp *op)
{
    if (op->late) {
        emit_late(e, op);
        return true;
    }
    switch (op->kind) {
    case DT_OP_ALL_REDUCE: emit_all_reduce(e, op); return true;
    case DT_OP_ALL_GATHER: emit_blocks(e, op, DT_INST_ALL_GATHER); return true;
    case DT_OP_REDUCE_SCATTER: emit_blocks(e, op, DT_INST_REDUCE_SCATTER); return true;
    case DT_OP_SHIFT: emit_shift(e, op); return true;
    case DT_OP_ALL_TO_ALL: emit_blocks(e, op, DT_INST_ALL_TO_ALL); return true;
    case DT_OP_DONE: emit_done(e, op); return true;
    default: return false;
    }
}
