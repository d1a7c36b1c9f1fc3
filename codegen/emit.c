/* SPDX-License-Identifier: Apache-2.0 */
/* Ops to instructions. A function is emitted op by op into one stream; a loop becomes
 * a LOOP item, the body once, and END. Results are written where they are wanted (output.c). */
#include "codegen/emit.h"

#include "base/bug.h"
#include "base/intern.h"
#include "plan/notes.h"

_Noreturn static void fail(const DtEmit *e, const DtOp *op, const char *why)
{
    uint32_t row = 0, column = 0;
    if (e->module->diags && op->span.file)
        dt_diag_position(e->module->diags, op->span, &row, &column);
    DT_BUG("cannot lower `%s` (line %u): %s", dt_op_info[op->kind].text, row, why);
}

/* ---- kernels ---- */

/* Brings the values that a kernel reads from memory into memory, including values that other
 * kernels recompute. */
static void require_operands(DtEmit *e, const DtOp *op)
{
    const DtScope *scope = e->scope;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const bool is_index = scope->loop && scope->func->inputs.at[0] == op->in[i];
        if (op->kind == DT_OP_FUSED ? !is_index : dt_op_reads_elsewhere(op, i))
            dt_copy_require(e, op->in[i]);
    }
}

static bool launch(DtEmit *e, const DtOp *op, const DtOutput *outputs, uint32_t n_outputs)
{
    return op->kind == DT_OP_FUSED ? dt_launch_fused(e, op, outputs, n_outputs)
                                   : dt_launch_kernel(e, &op, 1, outputs, n_outputs);
}

static void emit_kernel(DtEmit *e, const DtOp *op)
{
    uint32_t n_outputs = 0;
    DtOutput *outputs = DT_NEW_ARRAY(e->scratch, DtOutput, op->n_out);
    require_operands(e, op);
    for (uint32_t r = 0; r < op->n_out; r++) {
        if (!dt_scope_reads(e, op->out[r]) && !dt_scope_is_result(e, op->out[r]))
            continue;
        outputs[n_outputs] = dt_output_of(e, op->out[r]);
        dt_output_take(e, &outputs[n_outputs++]);
    }
    if (n_outputs && !launch(e, op, outputs, n_outputs))
        fail(e, op, "a kernel would overwrite what it reads");
    for (uint32_t i = 0; i < n_outputs; i++)
        dt_place_set(e, outputs[i].value, outputs[i].place);
}

/* ---- loops ---- */

static void emit_ops(DtEmit *e, uint32_t from);

/* Emits prefetches, which come before everything else in an iteration; ret: how many ops they
 * are. */
static uint32_t emit_begin(DtEmit *e)
{
    const DtFunc *func = e->scope->func;
    uint32_t n = 0;
    while (n < func->ops.n && dt_ringbuf_emit(e, func->ops.at[n]))
        n++;
    return n;
}

static void push_loop(DtEmit *e, const DtOp *op, uint32_t reg)
{
    const DtLoop *loop = op->loop;
    DtItem item = {.kind = DT_ITEM_LOOP, .span = op->span};
    item.loop = (DtPlanSchedule){.kind = DT_SCHED_LOOP,
                                  .reg = reg,
                                  .first = loop->reverse ? loop->count - 1 : 0,
                                  .step = loop->reverse ? -1 : 1,
                                  .count = loop->count};
    DT_PUSH(e->arena, e->items, item);
    dt_note_op(e, DT_NOTE_LOOP, op);
}

static void emit_loop(DtEmit *e, const DtOp *op)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    const char *path =
        e->scope->path[0] ? dt_intern_printf("%s.%s", e->scope->path, loop->label) : loop->label;
    uint32_t n_results = loop->n_carried + loop->n_stacked_out, k = 0;
    DtScope *outer = e->scope, *inner = dt_scope_run(e, op, path);
    DtWanted *wanted = DT_NEW_ARRAY(e->scratch, DtWanted, n_results + 1);
    if (inner->reg >= DT_PLAN_REG_SLOTS)
        fail(e, op, "loops are nested too deep");
    for (uint32_t i = 0; i < loop->n_carried; i++, k++) {
        const DtValue *input = body->inputs.at[1 + k];
        if (dt_type_is_ringbuf(input->type)) { /* one piece of memory */
            inner->places[input->id] = *dt_copy_require(e, op->in[k]);
            continue;
        }
        DtPlace carried = dt_place_own(e, op->out[k]);
        dt_note_carry(e, op, i);
        dt_copy_value(e, op->in[k], &carried, false);
        inner->places[input->id] = carried;
        wanted[i] = (DtWanted){.set = true, .place = carried, .old = input};
    }
    for (uint32_t i = 0; i < loop->n_invariant; i++, k++)
        if (!dt_ringbuf_is_counter(outer, op->in[k]))
            inner->places[body->inputs.at[1 + k]->id] = *dt_copy_require(e, op->in[k]);
    for (uint32_t i = 0; i < loop->n_stacked; i++, k++)
        inner->places[body->inputs.at[1 + k]->id] =
            dt_place_slice(e, op, *dt_copy_require(e, op->in[k]), inner->reg);
    DtOutput *stacked = DT_NEW_ARRAY(e->scratch, DtOutput, loop->n_stacked_out + 1);
    for (uint32_t i = 0; i < loop->n_stacked_out; i++) {
        DtValue *out = op->out[loop->n_carried + i];
        const DtOp *done = dt_op_is_started(out) ? dt_scope_done(e, out) : NULL;
        stacked[i] = dt_output_of(e, done ? done->out[0] : out);
        const uint32_t slot = dt_op_slot(op, loop->n_carried + i);
        wanted[loop->n_carried + i] =
            (DtWanted){.set = true,
                       .accumulate = stacked[i].accumulate,
                       .old = slot ? body->inputs.at[slot] : NULL,
                       .place = dt_place_slice(e, op, stacked[i].place, inner->reg)};
    }
    push_loop(e, op, inner->reg);
    uint32_t begin = e->items.n;
    inner->results = wanted;
    for (uint32_t i = 0; i < loop->n_stacked_out; i++)
        dt_place_begin(e, &stacked[i].place);
    e->scope = inner;
    const uint32_t n_begun = emit_begin(e);
    dt_scope_want(inner, n_results, wanted);
    emit_ops(e, n_begun);
    dt_scope_check(e, n_results, wanted);
    e->scope = outer;
    DT_PUSH(e->arena, e->items,
            ((DtItem){.kind = DT_ITEM_END, .loop = {.kind = DT_SCHED_END, .reg = inner->reg}}));
    dt_place_extend(e, begin);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        dt_place_set(e, op->out[i], wanted[i].set ? wanted[i].place : *dt_place_find(e, op->in[i]));
    for (uint32_t i = 0; i < loop->n_stacked_out; i++)
        dt_place_set(e, op->out[loop->n_carried + i], stacked[i].place);
}

/* ---- single ops ---- */

static void emit_source(DtEmit *e, const DtOp *op)
{
    if (op->kind == DT_OP_PARAM) {
        const DtStore *store = op->store;
        const bool is_own = store->kind == DT_STORE_RINGBUF && !e->module->pipeline;
        const DtPlace place = is_own ? dt_ringbuf_memory(e, op->out[0]) : e->stores[store->index];
        dt_place_set(e, op->out[0],
                     store->terms
                         ? dt_place_run(e, &place, dt_store_memory_type(store), store->type)
                         : place);
        return;
    }
    for (uint32_t i = 0; i < e->inputs.n; i++)
        if (e->inputs.at[i].name == op->text) {
            dt_place_set(e, op->out[0], e->inputs.at[i].place);
            return;
        }
    fail(e, op, "no reader fills this input");
}

static bool is_view(const DtOp *op)
{
    return dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in == 1;
}

static bool emit_view(DtEmit *e, const DtOp *op)
{
    if (!is_view(op) || op->copies || dt_op_is_inline(op->out[0]))
        return false;
    DtPlace place;
    if (!dt_place_view_of(e, op, dt_copy_require(e, op->in[0]), &place)) {
        if (op->kind != DT_OP_SHARD)
            fail(e, op, "it is said to be a view");
        /* a place without coordinates: the address depends on registers only */
        DtPlace copy = dt_place_temporary(e, op->in[0]->type, op->in[0]->name);
        dt_copy_value(e, op->in[0], &copy, false);
        dt_place_view_of(e, op, &copy, &place);
    }
    dt_place_set(e, op->out[0], place);
    return true;
}

static void emit_product(DtEmit *e, const DtOp *op)
{
    DtPlace operands[2] = {*dt_copy_require(e, op->in[0]), *dt_copy_require(e, op->in[1])};
    DtOutput output = dt_output_of(e, op->out[0]);
    if (op->copies)
        dt_gemm_straighten(e, op, operands, &output.place);
    if (!dt_gemm_emit(e, op, operands, &output.place, output.accumulate)) {
        dt_gemm_say(e, op, operands, &output.place);
        if (!dt_launch_kernel(e, &op, 1, &output, 1))
            fail(e, op, "it would overwrite what it reads");
    }
    dt_place_set(e, output.value, output.place);
}

/* Copies the operand to where another op or the caller wants the result. */
static void emit_copy(DtEmit *e, const DtOp *op)
{
    const DtOutput output = dt_output_of(e, op->out[0]);
    dt_copy_value(e, op->in[0], &output.place, output.accumulate);
    dt_place_set(e, op->out[0], output.place);
}

/* Emits the ops of a called function (or of its fused form) at the place of the call. tiles: if not
 * NULL, emits attention in tiles, or returns false and says why there are none. */
static bool emit_callee(DtEmit *e, const DtOp *op, const DtFunc *func, const DtWanted *wanted,
                        DtTileWhy *tiles)
{
    DtScope *outer = e->scope, *inner = func == op->func ? dt_scope_run(e, op, outer->path)
                                                         : dt_scope_new(e, func, NULL, outer->path);
    inner->op = op;
    dt_scope_want(inner, func->results.n, wanted);
    if (tiles && !dt_attend_emit(e, op, inner, tiles))
        return false;
    for (uint32_t i = 0; !tiles && i < op->n_in; i++)
        inner->places[func->inputs.at[i]->id] =
            *(op->func->fused ? dt_copy_settle : dt_copy_require)(e, op->in[i]);
    if (!tiles)
        dt_note_op(e, DT_NOTE_CALL, op);
    e->scope = inner;
    if (!tiles)
        dt_emit_func(e);
    dt_scope_check(e, func->results.n, wanted);
    dt_note_op(e, DT_NOTE_RETURN, NULL);
    e->scope = outer;
    return true;
}

/* Emits a call that inlining left in the program. */
static void emit_call(DtEmit *e, const DtOp *op)
{
    const DtFunc *func = op->func;
    DtWanted *wanted = DT_NEW_ARRAY(e->scratch, DtWanted, func->results.n + 1);
    DtOutput *outputs = DT_NEW_ARRAY(e->scratch, DtOutput, func->results.n + 1);
    for (uint32_t i = 0; i < func->results.n; i++) {
        outputs[i] = dt_output_of(e, op->out[i]);
        wanted[i] =
            (DtWanted){.set = true, .accumulate = outputs[i].accumulate, .place = outputs[i].place};
    }
    DtTileWhy why = {.why = DT_TILE_NO_PRODUCT};
    const DtFunc *kernels = func->fused ? func->fused : func;
    if (!func->fused || !emit_callee(e, op, func, wanted, &why)) {
        dt_untiled_report(e, op, kernels, &why);
        emit_callee(e, op, kernels, wanted, NULL);
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        dt_place_set(e, outputs[i].value, outputs[i].place);
}

void dt_emit_op(DtEmit *e, const DtOp *op)
{
    if ((op->n_out && dt_op_is_inline(op->out[0])) || dt_ringbuf_emit(e, op))
        return;
    if (op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT) {
        emit_source(e, op);
    } else if (op->kind == DT_OP_LOOP) {
        emit_loop(e, op);
    } else if (op->kind == DT_OP_PACK) {
        dt_bucket_pack(e, op);
    } else if (dt_concat_emit(e, op) || dt_exchange_emit(e, op)) {
        return;
    } else if (emit_view(e, op)) {
        return;
    } else if (op->kind == DT_OP_DOT) {
        emit_product(e, op);
    } else if (dt_op_is_product(op)) {
        dt_epilogue_emit(e, op);
    } else if (op->kind == DT_OP_COPY) {
        emit_copy(e, op);
    } else if (op->kind == DT_OP_CALL) {
        emit_call(e, op);
    } else if (dt_op_info[op->kind].op_class == DT_CLASS_COMM) {
        fail(e, op, "this collective is not implemented by the CPU back end");
    } else {
        emit_kernel(e, op);
    }
}

/* Emits the ops of the function from position `from` on. The ops before it are prefetches, which
 * are emitted already. */
static void emit_ops(DtEmit *e, uint32_t from)
{
    const DtFunc *func = e->scope->func;
    e->scope->reads = NULL;
    dt_ringbuf_claim(e);
    dt_bucket_claim(e);
    dt_concat_claim(e);
    for (uint32_t i = from; i < func->ops.n; i++)
        dt_emit_op(e, func->ops.at[i]);
}

void dt_emit_func(DtEmit *e) { emit_ops(e, 0); }
