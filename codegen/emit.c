/* SPDX-License-Identifier: Apache-2.0 */
/* Ops to instructions. A function is emitted op by op into one stream; a loop becomes
 * a LOOP event, the body once, and END. Results are written where they are wanted (a store, the next
 * iteration's carried value, a slice of a stacked value) if nobody still reads what lies there, and are
 * copied there at the end otherwise. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/pipeline.h"
#include "plan/notes.h"

#include <stdio.h>
#include <string.h>

_Noreturn static void fail(const DtEmit *e, const DtOp *op, const char *why)
{
    uint32_t row = 0, column = 0;
    if (e->module->diags && op->span.file)
        dt_diag_position(e->module->diags, op->span, &row, &column);
    DT_BUG("cannot lower `%s` (line %u): %s", dt_op_info[op->kind].text, row, why);
}

void dt_emit_inst(DtEmit *e, DtPlanInstKind kind, uint32_t ref, uint32_t n, const DtEArg *args, const DtOp *op)
{
    DtEvent event = {.kind = DT_EVENT_INST, .inst = {.kind = (uint16_t)kind, .ref = ref, .n_args = (uint16_t)n,
                                                     .first_arg = e->args.n}};
    if (op) {
        event.span = op->span;
        event.path = op->path;
        event.text = op->text ? op->text : dt_op_info[op->kind].text;
    }
    event.inst.n_args += (uint16_t)e->n_guards;
    event.inst.guards = (uint8_t)e->n_guards;
    event.share = e->n_guards ? e->share : 1;
    for (uint32_t i = 0; i < n; i++) {
        DT_PUSH(e->arena, e->args, args[i]);
        if (args[i].kind == DT_ARG_ADDRESS)
            dt_place_touch(e, args[i].buffer);
    }
    for (uint32_t i = 0; i < e->n_guards; i++)
        DT_PUSH(e->arena, e->args, e->guards[i]);
    DT_PUSH(e->arena, e->events, event);
}

/* ---- copies ---- */

/* To a place that shares memory with where the value lies, in another order: through memory of its own. */
static void copy_through(DtEmit *e, DtValue *value, const DtPlace *to, bool accumulate)
{
    const DtPlace before = *dt_place_find(e, value), between = dt_place_temporary(e, value->type, value->name);
    dt_emit_copy(e, value, &between, false);
    dt_place_set(e, value, between);
    dt_emit_copy(e, value, to, accumulate);
    dt_place_set(e, value, before);
}

/* Any value to any place, through a kernel; dense to dense of equal order is a plain copy. A value that lies in
 * a wider dtype than its own is rounded on the way. */
void dt_emit_copy(DtEmit *e, DtValue *value, const DtPlace *to, bool accumulate)
{
    DtPlace *from = dt_place_find(e, value);
    if (from && dt_place_same(from, to) && !accumulate)
        return;
    bool wide = from && from->view.dtype != value->type->dtype; /* sums kept in f32 */
    if (from && !accumulate && !wide && dt_place_is_dense(from, value->type, &e->module->mesh) &&
        dt_place_is_dense(to, value->type, &e->module->mesh)) {
        DtEArg args[2] = {dt_place_arg(e, to, true), dt_place_arg(e, from, false)};
        dt_emit_inst(e, DT_INST_COPY, 0, 2, args, dt_op_made(value)->op);
        e->events.at[e->events.n - 1].inst.count = args[0].bytes;
        dt_note_do(e, NULL, 0);
        dt_note_write(e, value, to, 0);
        dt_note_read(e, value);
        return;
    }
    if (!from && !dt_op_is_inline(value) && value->op)
        fail(e, value->op, "its value was never computed");
    DtOp *op = DT_NEW(e->arena, DtOp);
    DtValue *copy = DT_NEW(e->arena, DtValue);
    *copy = (DtValue){.type = value->type, .op = op, .name = value->name};
    *op = (DtOp){.kind = wide ? DT_OP_CAST : DT_OP_EXPAND,
                 .n_in = 1,
                 .n_out = 1,
                 .in = DT_NEW(e->arena, DtValue *),
                 .out = DT_NEW(e->arena, DtValue *)};
    op->in[0] = value;
    op->out[0] = copy;
    if (wide) {
        op->in[0] = DT_NEW(e->arena, DtValue);
        *op->in[0] = *value; /* the same id: found in the same place */
        op->in[0]->type = dt_type_with_dtype(value->type, from->view.dtype);
    }
    if (value->op)
        op->span = dt_op_made(value)->op->span, op->path = dt_op_made(value)->op->path;
    DtOutput output = {.value = copy, .place = *to, .accumulate = accumulate};
    const DtOp *ops[1] = {op};
    e->copied = value;
    const bool done = dt_launch_kernel(e, ops, 1, &output, 1);
    e->copied = NULL;
    if (!done)
        copy_through(e, value, to, accumulate);
}

DtPlace *dt_emit_require(DtEmit *e, DtValue *value)
{
    DtPlace *place = dt_place_find(e, value);
    if (place)
        return place;
    DtPlace to = dt_place_temporary(e, value->type, value->name);
    dt_emit_copy(e, value, &to, false);
    dt_place_set(e, value, to);
    return dt_place_find(e, value);
}

/* ---- who reads what ---- */

static bool is_view(const DtOp *op) { return dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in == 1; }

/* The value whose memory value may share. */
static const DtValue *root_of(const DtValue *value)
{
    while (value->op && is_view(value->op))
        value = value->op->in[0];
    return value;
}

/* What the functions below answer, for all values at once. */
static const DtRead *reads_of(DtEmit *e, DtScope *scope, const DtValue *value)
{
    const DtFunc *func = scope->func;
    if (scope->reads)
        return &scope->reads[value->id];
    DtRead *reads = scope->reads = DT_NEW_ARRAY(e->scratch, DtRead, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++) {
            const DtValue *in = func->ops.at[i]->in[j];
            reads[in->id].n++;
            reads[root_of(in)->id].last = i;
        }
    for (uint32_t i = 0; i < func->results.n; i++) {
        if (scope->early && scope->early[i])
            continue;
        reads[func->results.at[i]->id].is_result = true;
        reads[root_of(func->results.at[i])->id].last = UINT32_MAX;
    }
    return &reads[value->id];
}

/* Position of the last op that reads the memory of value; UINT32_MAX if a result of the function is that
 * memory. */
static uint32_t last_read(DtEmit *e, const DtValue *value) { return reads_of(e, e->scope, value)->last; }

void dt_emit_keep(DtEmit *e, const DtValue *value)
{
    reads_of(e, e->scope, value);
    e->scope->reads[root_of(value)->id].last = UINT32_MAX;
}

uint32_t dt_emit_uses(DtEmit *e, const DtValue *value) { return reads_of(e, e->scope, value)->n; }

/* Where the op at position `at` may write value at once; a temporary if it cannot write where it is wanted. */
static DtOutput output_of(DtEmit *e, DtValue *value, uint32_t at)
{
    const DtWanted *wanted = e->scope->wanted[value->id];
    DtOutput output = {.value = value};
    bool direct = wanted && (!wanted->old || last_read(e, wanted->old) <= at) &&
                  (!wanted->accumulate || dt_emit_uses(e, value) == (wanted->packed ? 1 : 0));
    if (direct) {
        output.place = wanted->place;
        output.accumulate = wanted->accumulate;
        output.old = wanted->old;
        output.wished = true;
        e->scope->wanted[value->id] = NULL;
    } else {
        output.place = dt_layout_temporary(e, value);
    }
    return output;
}

DtPlace dt_emit_output(DtEmit *e, DtValue *value, uint32_t at, bool *ret_accumulate)
{
    DtOutput output = output_of(e, value, at);
    *ret_accumulate = output.accumulate;
    dt_place_set(e, value, output.place);
    return output.place;
}

void dt_emit_zero(DtEmit *e, const DtPlace *place)
{
    DtEArg arg = dt_place_arg(e, place, true);
    dt_emit_inst(e, DT_INST_ZERO, 0, 1, &arg, NULL);
    e->events.at[e->events.n - 1].inst.count = arg.bytes;
}

static void finish_output(DtEmit *e, const DtOutput *output)
{
    dt_place_set(e, output->value, output->place);
}

void dt_emit_refuse(DtEmit *e, DtOutput *output)
{
    if (output->reuses) {
        *output = (DtOutput){.value = output->value, .place = dt_layout_temporary(e, output->value)};
        return;
    }
    DtWanted *wanted = DT_NEW(e->scratch, DtWanted);
    *wanted = (DtWanted){.set = true, .accumulate = output->accumulate, .place = output->place, .old = output->old};
    e->scope->wanted[output->value->id] = wanted;
    output->place = dt_layout_temporary(e, output->value);
    output->accumulate = false;
}

DtOutput dt_emit_apart(DtEmit *e, DtValue *value, uint32_t at)
{
    DtOutput output = output_of(e, value, at);
    if (output.old && last_read(e, output.old) >= at)
        dt_emit_refuse(e, &output);
    return output;
}

/* ---- kernels ---- */

/* What a kernel reads from memory lies there, also what others compute again. */
static void require_operands(DtEmit *e, const DtOp *op)
{
    const DtScope *scope = e->scope;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const bool is_index = scope->loop && scope->func->inputs.at[0] == op->in[i];
        if (op->kind == DT_OP_FUSED ? !is_index : dt_op_reads_elsewhere(op, i))
            dt_emit_require(e, op->in[i]);
    }
}

/* Whether a temporary is the value and nothing else, in the order of its type; between rows there may be gaps. */
static bool is_whole(DtEmit *e, const DtValue *value, const DtPlace *place)
{
    DtPlace whole = dt_place_dense(e, value->type, place->view.buffer);
    for (uint32_t d = 0; d < whole.view.rank && place->view.rank == whole.view.rank; d++)
        if (place->view.stride[d] > whole.view.stride[d])
            whole.view.stride[d] = place->view.stride[d];
    return dt_place_same(place, &whole) &&
           e->buffers.at[place->view.buffer].bytes == dt_place_arg(e, place, false).bytes;
}

bool dt_emit_dies(DtEmit *e, const DtValue *value, uint32_t at)
{
    const DtPlace *place = dt_place_find(e, value);
    if (!place || !value->op || e->buffers.at[place->view.buffer].fixed)
        return false;
    return is_whole(e, value, place) && root_of(value) == value && last_read(e, value) == at;
}

bool dt_emit_is_fresh(const DtEmit *e, const DtOutput *output)
{
    const DtBuffer *buffer = &e->buffers.at[output->place.view.buffer];
    return !output->old && !output->wished && !buffer->fixed && buffer->first == UINT32_MAX;
}

/* An operand of the same type that dies here: its memory can take the result, if the kernel turns out to
 * read it only where it writes. */
static const DtValue *dying_operand(DtEmit *e, const DtOp *op, uint32_t at, const DtType *type)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i]->type == type && dt_emit_dies(e, op->in[i], at))
            return op->in[i];
    return NULL;
}

static void reuse_memory(DtEmit *e, const DtOp *op, uint32_t at, DtOutput *outputs, uint32_t n_outputs)
{
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (!dt_emit_is_fresh(e, &outputs[i]))
            continue; /* where it goes was somebody's wish */
        const DtValue *dying = dying_operand(e, op, at, outputs[i].value->type);
        bool taken = false;
        for (uint32_t j = 0; dying && j < n_outputs; j++)
            taken = taken || outputs[j].old == dying;
        if (!dying || taken)
            continue;
        outputs[i].place = *dt_place_find(e, dying);
        outputs[i].old = dying;
        outputs[i].reuses = true;
    }
}

static bool launch(DtEmit *e, const DtOp *op, const DtOutput *outputs, uint32_t n_outputs)
{
    return op->kind == DT_OP_FUSED ? dt_launch_fused(e, op, outputs, n_outputs)
                                   : dt_launch_kernel(e, &op, 1, outputs, n_outputs);
}

static void emit_kernel(DtEmit *e, const DtOp *op, uint32_t at)
{
    uint32_t n_outputs = 0;
    DtOutput *outputs = DT_NEW_ARRAY(e->scratch, DtOutput, op->n_out);
    require_operands(e, op);
    for (uint32_t r = 0; r < op->n_out; r++) {
        const DtRead *read = reads_of(e, e->scope, op->out[r]);
        if (read->n > 0 || read->is_result)
            outputs[n_outputs++] = output_of(e, op->out[r], at);
    }
    if (n_outputs == 0)
        return;
    if (!e->options->unfused)
        reuse_memory(e, op, at, outputs, n_outputs);
    if (!launch(e, op, outputs, n_outputs)) {
        for (uint32_t i = 0; i < n_outputs; i++)
            if (outputs[i].old)
                dt_emit_refuse(e, &outputs[i]);
        if (!launch(e, op, outputs, n_outputs))
            fail(e, op, "a kernel would overwrite what it reads");
    }
    for (uint32_t i = 0; i < n_outputs; i++)
        finish_output(e, &outputs[i]);
}

/* ---- loops ---- */

DtScope *dt_emit_scope(DtEmit *e, const DtFunc *func, const DtLoop *loop, const char *path)
{
    DtScope *scope = DT_NEW(e->scratch, DtScope);
    scope->parent = e->scope;
    scope->func = func;
    scope->loop = loop;
    scope->path = path;
    scope->reg = e->scope ? e->scope->reg + (loop != NULL) : 0;
    scope->places = DT_NEW_ARRAY(e->scratch, DtPlace, func->n_values + 1);
    scope->wanted = DT_NEW_ARRAY(e->scratch, const DtWanted *, func->n_values + 1);
    scope->number = dt_note_numbers(e, func);
    return scope;
}

static DtPlace slice_of(DtEmit *e, const DtOp *op, DtPlace place, uint32_t reg)
{
    DtView *view = &place.view;
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->axis[d] != op->loop->axis)
            continue;
        place.reg[reg] += view->stride[d] * (int64_t)dt_dtype_size(view->dtype);
        for (uint32_t j = d; j + 1 < view->rank; j++) {
            view->axis[j] = view->axis[j + 1];
            view->extent[j] = view->extent[j + 1];
            view->stride[j] = view->stride[j + 1];
        }
        view->rank--;
        return place;
    }
    (void)e;
    fail(e, op, "a stacked value lacks the loop's axis");
}

void dt_emit_want(DtScope *scope, uint32_t n, const DtWanted *wanted)
{
    DtValue *const *results = scope->func->results.at;
    for (uint32_t i = 0; i < n; i++)
        if (wanted[i].set && !scope->wanted[results[i]->id])
            scope->wanted[results[i]->id] = &wanted[i];
    for (uint32_t i = 0; i < n; i++) { /* what is added to holds more than the value that another result is, too */
        const DtWanted **slot = &scope->wanted[results[i]->id];
        if (*slot && *slot != &wanted[i] && (*slot)->accumulate)
            *slot = NULL;
    }
}

static bool is_delivered(DtEmit *e, const DtValue *value, const DtWanted *wanted)
{
    const DtPlace *place = dt_place_find(e, value);
    return place && dt_place_same(place, &wanted->place) && (!wanted->accumulate || !e->scope->wanted[value->id]);
}

static void deliver_one(DtEmit *e, DtValue *value, const DtWanted *wanted, const DtPlace *staged)
{
    if (is_delivered(e, value, wanted))
        return;
    if (!staged->set) {
        dt_emit_copy(e, value, &wanted->place, wanted->accumulate);
        return;
    }
    DtPlace kept = *dt_place_find(e, value);
    dt_place_set(e, value, *staged);
    dt_emit_copy(e, value, &wanted->place, false);
    dt_place_set(e, value, kept);
}

/* Writes every result that is not where it is wanted yet: those that overwrite a carried input come last,
 * since the others may be that input. A result that is another carried input goes through a temporary
 * first, since that input's memory may be overwritten by a result before it. */
void dt_emit_deliver(DtEmit *e, uint32_t n, const DtWanted *wanted)
{
    const DtFunc *func = e->scope->func;
    DtPlace *staged = DT_NEW_ARRAY(e->scratch, DtPlace, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        DtValue *value = func->results.at[i];
        const DtValue *root = root_of(value);
        const bool is_early = !wanted[i].set || (e->scope->early && e->scope->early[i]);
        if (!is_early && wanted[i].old && !root->op && root != wanted[i].old && !is_delivered(e, value, &wanted[i])) {
            staged[i] = dt_place_temporary(e, value->type, value->name);
            dt_emit_copy(e, value, &staged[i], false);
        }
    }
    for (int overwrites = 0; overwrites < 2; overwrites++)
        for (uint32_t i = 0; i < n; i++)
            if (wanted[i].set && (wanted[i].old != NULL) == overwrites &&
                !(e->scope->early && e->scope->early[i]))
                deliver_one(e, func->results.at[i], &wanted[i], &staged[i]);
}

/* Of an iteration: inputs that are also stacked, so that what is carried may be written in their place. */
static void deliver_inputs(DtEmit *e, uint32_t n, const DtWanted *wanted)
{
    const DtFunc *func = e->scope->func;
    e->scope->early = DT_NEW_ARRAY(e->scratch, bool, n + 1);
    for (uint32_t i = 0; i < n; i++)
        if (wanted[i].set && !wanted[i].old && !func->results.at[i]->op && dt_place_find(e, func->results.at[i])) {
            dt_emit_copy(e, func->results.at[i], &wanted[i].place, wanted[i].accumulate);
            e->scope->early[i] = true;
        }
}

/* What a loop touches and was there before it lives until the loop ends, since the next iteration reads it
 * again. */
void dt_emit_extend(DtEmit *e, uint32_t begin)
{
    for (uint32_t i = e->entry_buffer; i < e->buffers.n; i++) {
        DtBuffer *buffer = &e->buffers.at[i];
        if (buffer->first != UINT32_MAX && buffer->first < begin && buffer->last >= begin)
            buffer->last = e->events.n - 1;
    }
}

/* Stacked results are written slice by slice inside: they begin with the loop. */
void dt_emit_begin(DtEmit *e, const DtPlace *place)
{
    DtBuffer *buffer = &e->buffers.at[place->view.buffer];
    uint32_t position = e->events.n - 1;
    if (buffer->first == UINT32_MAX || buffer->first > position)
        buffer->first = position;
    if (buffer->first == position && buffer->last < position)
        buffer->last = position;
}

static void emit_ops(DtEmit *e, uint32_t from);

/* What is gathered ahead comes before all else that an iteration does; ret: so many ops. */
static uint32_t emit_begin(DtEmit *e)
{
    const DtFunc *func = e->scope->func;
    uint32_t n = 0;
    while (n < func->ops.n && dt_ringbuf_emit(e, func->ops.at[n]))
        n++;
    return n;
}

static void loop_event(DtEmit *e, const DtOp *op, uint32_t reg)
{
    const DtLoop *loop = op->loop;
    DtEvent event = {.kind = DT_EVENT_LOOP, .span = op->span};
    event.loop = (DtPlanSchedule){.kind = DT_SCHED_LOOP, .reg = reg, .first = loop->reverse ? loop->count - 1 : 0,
                                  .step = loop->reverse ? -1 : 1, .count = loop->count};
    DT_PUSH(e->arena, e->events, event);
    dt_note_op(e, DT_NOTE_LOOP, op);
}

static void emit_loop(DtEmit *e, const DtOp *op, uint32_t at)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    const char *path = e->scope->path[0] ? dt_intern_printf("%s.%s", e->scope->path, loop->label) : loop->label;
    uint32_t n_results = loop->n_carried + loop->n_stacked_out, k = 0;
    DtScope *outer = e->scope, *inner = dt_emit_scope(e, body, loop, path);
    inner->op = op;
    DtWanted *wanted = DT_NEW_ARRAY(e->scratch, DtWanted, n_results + 1);
    if (inner->reg >= DT_PLAN_REG_SLOTS)
        fail(e, op, "loops are nested too deep");
    for (uint32_t i = 0; i < loop->n_carried; i++, k++) {
        const DtValue *input = body->inputs.at[1 + k];
        if (dt_type_is_ringbuf(input->type)) { /* one piece of memory */
            inner->places[input->id] = *dt_emit_require(e, op->in[k]);
            continue;
        }
        DtPlace carried = dt_place_temporary(e, input->type, input->name);
        dt_note_carry(e, op, i);
        dt_emit_copy(e, op->in[k], &carried, false);
        inner->places[input->id] = carried;
        wanted[i] = (DtWanted){.set = true, .place = carried, .old = input};
    }
    for (uint32_t i = 0; i < loop->n_invariant; i++, k++)
        if (!dt_ringbuf_is_counter(outer, op->in[k]))
            inner->places[body->inputs.at[1 + k]->id] = *dt_emit_require(e, op->in[k]);
    for (uint32_t i = 0; i < loop->n_stacked; i++, k++)
        inner->places[body->inputs.at[1 + k]->id] = slice_of(e, op, *dt_emit_require(e, op->in[k]), inner->reg);
    DtOutput *stacked = DT_NEW_ARRAY(e->scratch, DtOutput, loop->n_stacked_out + 1);
    for (uint32_t i = 0; i < loop->n_stacked_out; i++) {
        stacked[i] = dt_emit_apart(e, op->out[loop->n_carried + i], at);
        wanted[loop->n_carried + i] = (DtWanted){.set = true, .accumulate = stacked[i].accumulate,
                                                 .place = slice_of(e, op, stacked[i].place, inner->reg)};
    }
    loop_event(e, op, inner->reg);
    uint32_t begin = e->events.n;
    for (uint32_t i = 0; i < loop->n_stacked_out; i++)
        dt_emit_begin(e, &stacked[i].place);
    e->scope = inner;
    const uint32_t n_begun = emit_begin(e);
    dt_emit_want(inner, n_results, wanted);
    deliver_inputs(e, n_results, wanted);
    emit_ops(e, n_begun);
    dt_emit_deliver(e, n_results, wanted);
    e->scope = outer;
    DT_PUSH(e->arena, e->events, ((DtEvent){.kind = DT_EVENT_END, .loop = {.kind = DT_SCHED_END, .reg = inner->reg}}));
    dt_emit_extend(e, begin);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        dt_place_set(e, op->out[i], wanted[i].set ? wanted[i].place : *dt_place_find(e, op->in[i]));
    for (uint32_t i = 0; i < loop->n_stacked_out; i++)
        finish_output(e, &stacked[i]);
}

/* ---- single ops ---- */

static void emit_source(DtEmit *e, const DtOp *op)
{
    if (op->kind == DT_OP_PARAM) {
        const bool is_own = op->store->kind == DT_STORE_RINGBUF && !e->module->pipeline;
        dt_place_set(e, op->out[0], is_own ? dt_ringbuf_memory(e, op->store->type) : e->stores[op->store->index]);
        return;
    }
    for (uint32_t i = 0; i < e->inputs.n; i++)
        if (e->inputs.at[i].name == op->text) {
            dt_place_set(e, op->out[0], e->inputs.at[i].place);
            return;
        }
    fail(e, op, "no reader fills this input");
}

uint32_t dt_emit_mesh_group(DtEmit *e, uint16_t mesh) { return dt_emit_stage_group(e, mesh, 0); }

uint32_t dt_emit_stage_group(DtEmit *e, uint16_t mesh, uint64_t stages)
{
    const DtMesh *m = &e->module->mesh;
    uint32_t first = dt_emit_first_device(m);
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    if (pipeline && stages == UINT64_MAX >> (64 - pipeline->n_stages))
        stages = 0; /* all of them */
    DtPlanGroup group = {.mask = (uint32_t)mesh >> first, .size = 1, .stages = stages};
    for (uint32_t i = first; i < m->n; i++)
        if (mesh >> i & 1)
            group.size *= pipeline && i == pipeline->mesh && stages
                              ? (uint32_t)__builtin_popcountll(stages)
                              : (uint32_t)m->axes[i].size;
    for (uint32_t i = 0; i < e->plan->groups.n; i++)
        if (e->plan->groups.at[i].mask == group.mask && e->plan->groups.at[i].stages == stages)
            return i;
    DT_PUSH(e->plan->arena, e->plan->groups, group);
    return e->plan->groups.n - 1;
}

static bool emit_view(DtEmit *e, const DtOp *op)
{
    if (!is_view(op) || dt_op_is_inline(op->out[0]))
        return false;
    DtPlace place;
    if (!dt_place_view_of(e, op, dt_emit_require(e, op->in[0]), &place)) {
        if (op->kind != DT_OP_SHARD)
            return false;
        /* A place whose address depends on no coordinate. */
        DtPlace copy = dt_place_temporary(e, op->in[0]->type, op->in[0]->name);
        dt_emit_copy(e, op->in[0], &copy, false);
        dt_place_view_of(e, op, &copy, &place);
    }
    dt_place_set(e, op->out[0], place);
    return true;
}

/* The ops of a call, or of its fused form, in place; tiles: as attention in tiles, false if it has another shape. */
static bool emit_callee(DtEmit *e, const DtOp *op, const DtFunc *func, const DtWanted *wanted, bool tiles)
{
    DtScope *outer = e->scope, *inner = dt_emit_scope(e, func, NULL, outer->path);
    inner->op = op;
    dt_emit_want(inner, func->results.n, wanted);
    if (tiles && !dt_attend_emit(e, op, inner))
        return false;
    for (uint32_t i = 0; !tiles && i < op->n_in; i++)
        inner->places[func->inputs.at[i]->id] = *dt_emit_require(e, op->in[i]);
    if (!tiles)
        dt_note_op(e, DT_NOTE_CALL, op);
    e->scope = inner;
    if (!tiles)
        dt_emit_func(e);
    dt_emit_deliver(e, func->results.n, wanted);
    dt_note_op(e, DT_NOTE_RETURN, NULL);
    e->scope = outer;
    return true;
}

/* A call that outlived inlining. */
static void emit_call(DtEmit *e, const DtOp *op, uint32_t at)
{
    const DtFunc *func = op->func;
    DtWanted *wanted = DT_NEW_ARRAY(e->scratch, DtWanted, func->results.n + 1);
    DtOutput *outputs = DT_NEW_ARRAY(e->scratch, DtOutput, func->results.n + 1);
    for (uint32_t i = 0; i < func->results.n; i++) {
        outputs[i] = dt_emit_apart(e, op->out[i], at);
        wanted[i] = (DtWanted){.set = true, .accumulate = outputs[i].accumulate, .place = outputs[i].place};
    }
    if (!func->fused || !emit_callee(e, op, func, wanted, true))
        emit_callee(e, op, func->fused ? func->fused : func, wanted, false);
    for (uint32_t i = 0; i < func->results.n; i++)
        finish_output(e, &outputs[i]);
}

void dt_emit_op(DtEmit *e, const DtOp *op, uint32_t at)
{
    const DtOp *ops[1] = {op};
    if ((op->n_out && dt_op_is_inline(op->out[0])) || dt_ringbuf_emit(e, op))
        return;
    if (op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT) {
        emit_source(e, op);
    } else if (op->kind == DT_OP_LOOP) {
        emit_loop(e, op, at);
    } else if (op->kind == DT_OP_PACK) {
        dt_bucket_pack(e, op);
    } else if (dt_concat_emit(e, op) || dt_exchange_emit(e, op, at)) {
        return;
    } else if (emit_view(e, op)) {
        return;
    } else if (op->kind == DT_OP_DOT) {
        dt_emit_require(e, op->in[0]);
        dt_emit_require(e, op->in[1]);
        DtOutput output = dt_emit_apart(e, op->out[0], at);
        if (dt_gemm_emit(e, op, &output.place, output.accumulate))
            finish_output(e, &output);
        else if (dt_launch_kernel(e, ops, 1, &output, 1))
            finish_output(e, &output);
        else
            fail(e, op, "it would overwrite what it reads");
    } else if (op->kind == DT_OP_CALL) {
        emit_call(e, op, at);
    } else if (dt_op_info[op->kind].op_class == DT_CLASS_COMM) {
        fail(e, op, "this collective is not implemented by the CPU back end");
    } else {
        emit_kernel(e, op, at);
    }
}

/* All but the first ones, which are emitted. */
static void emit_ops(DtEmit *e, uint32_t from)
{
    const DtFunc *func = e->scope->func;
    e->scope->reads = NULL;
    dt_bucket_claim(e);
    dt_ringbuf_claim(e);
    dt_concat_claim(e);
    for (uint32_t i = from; i < func->ops.n; i++)
        dt_emit_op(e, func->ops.at[i], i);
}

void dt_emit_func(DtEmit *e) { emit_ops(e, 0); }
