/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: all_reduce, all_gather, reduce_scatter, all_to_all and shift become one
 * instruction each, with waits for asynchronous ones.
 *
 * Blocks are views of memory as it is (ir/blocks.h). Pass `memory` has copied operands that must
 * be dense for that and are not, and results that must be dense and should go to a place that is
 * not. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "ir/blocks.h"
#include "plan/notes.h"

#include <string.h>

_Static_assert((int)DT_BLOCK_DIMS == (int)DT_PLAN_BLOCK_DIMS &&
                   (int)DT_BLOCK_COORDS == (int)DT_PLAN_COORDS,
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

/* Whether the blocks of a gather or scatter are contiguous, in the order of the members. */
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

/* Adds a record of the blocks and returns 1 + its number; 0: members' blocks are contiguous and in
 * order. */
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

static void add_blocks(DtEmit *e, const DtOp *op, DtPlanInstKind kind, const DtPlace *to,
                       const DtPlace *from, const DtBlocks *found, int64_t count)
{
    const DtPlanBlocks blocks = plan_blocks(found, dt_inst_group(e, op->mesh));
    const DtEArg args[2] = {dt_place_arg(e, to, true), dt_place_arg(e, from, false)};
    dt_inst_add(e, kind, blocks.group, 2, args, op);
    const uint32_t reduce =
        kind == DT_INST_REDUCE_SCATTER ? op->in[0]->type->pending : DT_REDUCE_SUM;
    set_inst(e, count, op->out[0]->type->dtype, reduce,
             record_of(e, blocks, count, kind != DT_INST_ALL_TO_ALL));
}

/* ---- started collectives ----
 * The instruction of a started collective names an event, and `done` becomes the WAIT for it. In
 * between its operand and its result stay alive, and no instruction writes them: the WAIT counts as
 * a use of both buffers, and emit.c does not reuse memory that is still read (DtRead.held).
 * inflight.c handles starts that end after their iteration, ring.c the numbers of events. */

/* How many ops of op's kind come before it. This numbers the slots: an iteration reads slots of the
 * ring buffer in the order in which they were written. */
static uint32_t place_among(const DtFunc *func, const DtOp *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; func->ops.at[i] != op; i++)
        n += func->ops.at[i]->kind == op->kind;
    return n;
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
        const DtStarted started = {op->out[0], dt_event_take(e, 0, 1), to->view.buffer,
                                   from->view.buffer};
        dt_event_set(e, started.event, 0);
        DT_PUSH(e->arena, e->started, started);
        dt_place_set(e, op->out[0], *to);
        return;
    }
    if (dt_inflight_is(e->scope->func, op, &result)) {
        if (e->scope->wanted[op->out[0]->id])
            DT_BUG("`%s` is started and not where it belongs", dt_op_info[op->kind].text);
        dt_event_set(e, dt_inflight_event(e, e->scope->func, result), 1);
        return;
    }
    const DtOp *put = dt_graph_put(e->scope->func, op->out[0]);
    if (!put)
        DT_BUG("`%s` is started and nobody waits for it", dt_op_info[op->kind].text);
    /* a temporary may be overwritten before the slot is read, so only other memory is gathered
     * asynchronously */
    if (e->buffers.at[from->view.buffer].fixed)
        dt_event_set(e,
                     dt_event_of(e, NULL, place_among(e->scope->func, put),
                                 dt_event_slots(put->out[0]->type)),
                     1);
}

void dt_exchange_message(DtEmit *e, uint32_t *event)
{
    if (!*event)
        *event = 1 + dt_event_take(e, e->events_taken.n, 1);
    dt_event_set(e, *event - 1, 0);
}

/* ---- sums of gradients that micro-batches accumulate ---- */

/* Returns the event of a late sum: the reduction of an accumulated gradient, run once, in the last
 * micro-batch. At most one per result is in flight: an iteration waits for the previous one before
 * it starts its own. loop: the loop whose body func is, or NULL; several loops may share a body. */
static uint32_t late_event(DtEmit *e, const DtOp *loop, const DtFunc *func, const DtOp *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; func->ops.at[i] != op; i++)
        n += func->ops.at[i]->late;
    return dt_event_of(e, loop ? (const void *)loop : func, n, 1);
}

/* Emits a reduce-scatter within the memory `from`: each rank gets the sum over all ranks in its own
 * part of the memory. */
static void cut_in_place(DtEmit *e, const DtOp *op, const DtPlace *from)
{
    const DtType *x = op->in[0]->type, *y = op->out[0]->type;
    const DtPlace to = dt_place_run(e, from, x, y);
    DtBlocks found;
    if (!dt_blocks_find(op, &e->module->mesh, &from->view, &to.view, true, &found))
        DT_BUG("`%s` over more than %d mesh axes", dt_op_info[op->kind].text, DT_PLAN_COORDS);
    add_blocks(e, op, DT_INST_REDUCE_SCATTER, &to, from, &found,
               dt_type_local_elements(y, &e->module->mesh));
}

/* Adds this micro-batch's term to the result in place; in the last micro-batch also sums it over
 * ranks. */
static void emit_late(DtEmit *e, const DtOp *op)
{
    const DtValue *value = event_result(e, op);
    const DtWanted *wanted = e->scope->wanted[value->id];
    const uint32_t event = late_event(e, e->scope->loop ? e->scope->op : NULL, e->scope->func, op);
    if (!wanted || !wanted->accumulate)
        DT_BUG("a late sum is of no result that micro-batches add up");
    if (e->scope->wanted[op->in[0]->id])
        DT_BUG("the term of a late sum is not added where that lies");
    e->scope->wanted[value->id] = NULL;
    if (e->scope->loop && e->scope->loop->count > 1)
        dt_event_wait(e, op, event, 0);
    const DtPlanSchedule last = {.kind = DT_SCHED_WHEN, .first = (int32_t)e->n_micro - 1,
                                 .count = 1};
    /* the condition lasts up to a CLOSE */
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_SCHED, .loop = last}));
    if (op->kind == DT_OP_REDUCE_SCATTER)
        cut_in_place(e, op, &wanted->place);
    else
        dt_exchange_sum(e, &wanted->place, &wanted->place, op->mesh,
                        (DtReduce)op->in[0]->type->pending, NULL);
    dt_event_set(e, event, 0);
    dt_note_part(e, op->kind == DT_OP_REDUCE_SCATTER ? op->out[0] : op->in[0]);
    DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_CLOSE}));
    dt_place_set(e, value, wanted->place);
}

/* Emits the wait for a late sum (a reduction in the last micro-batch only): for the reduction that
 * was started last, by the function or by the iterations of a loop in it. */
static void wait_late(DtEmit *e, const DtFunc *func, const DtValue *sum, const DtOp *done)
{
    const DtOp *loop = sum->op->kind == DT_OP_LOOP ? sum->op : NULL;
    const DtFunc *of = loop ? loop->func : func;
    const DtOp *maker = loop ? of->results.at[sum->index]->op : sum->op;
    dt_event_wait(e, done, late_event(e, loop, of, maker), 0);
}

void dt_exchange_finish(DtEmit *e, const DtEntryPoint *entry)
{
    for (uint32_t i = 0; i < entry->func->results.n; i++)
        if (dt_op_late(entry->func->results.at[i]))
            wait_late(e, entry->func, entry->func->results.at[i],
                      dt_op_late(entry->func->results.at[i]));
}

/* Waits for a late sum, of one or of all iterations of a loop; false: op waits for something
 * else. */
static bool finish_late(DtEmit *e, const DtOp *op)
{
    if (!dt_op_late(op->in[0]))
        return false;
    wait_late(e, e->scope->func, op->in[0], op);
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
        dt_inflight_finish(e, op);
        return;
    }
    if (maker->kind == DT_OP_RINGBUF_GET) {
        const uint32_t among = place_among(e->scope->func, maker),
                       slots = dt_event_slots(maker->in[0]->type);
        dt_event_wait(e, op, dt_event_of(e, NULL, among, slots), 1);
        dt_place_set(e, op->out[0], *dt_copy_require(e, op->in[0]));
        return;
    }
    for (uint32_t i = 0; i < e->started.n; i++) {
        const DtStarted started = e->started.at[i];
        if (started.value != op->in[0])
            continue;
        dt_place_touch(e, started.to);
        dt_place_touch(e, started.from);
        dt_event_wait(e, op, started.event, 0);
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

void dt_exchange_sum(DtEmit *e, const DtPlace *to, const DtPlace *from, uint16_t mesh,
                     DtReduce reduce, const DtOp *op)
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
    if (output.accumulate ||
        (dense && !dt_place_is_dense(&output.place, op->out[0]->type, &e->module->mesh)))
        DT_BUG("`%s` cannot write where it belongs", dt_op_info[op->kind].text);
    return output;
}

/* The place of an operand that must be dense: a copy, if callers disagree on its layout. */
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
            DT_BUG("`%s` cannot write where it belongs, or over more than %d mesh axes",
                   dt_op_info[op->kind].text, DT_PLAN_COORDS);
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
    dt_inst_add(e, op->reverse ? DT_INST_SHIFT_BACK : DT_INST_SHIFT, dt_inst_group(e, op->mesh), 2,
                args, op);
    set_inst(e, dt_type_local_elements(type, mesh), type->dtype, 0, 0);
    e->items.at[e->items.n - 1].inst.round = (uint32_t)op->number;
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
    case DT_OP_SHIFT:
    case DT_OP_PARTNER: emit_shift(e, op); return true;
    case DT_OP_ALL_TO_ALL: emit_blocks(e, op, DT_INST_ALL_TO_ALL); return true;
    case DT_OP_DONE: emit_done(e, op); return true;
    default: return false;
    }
}
