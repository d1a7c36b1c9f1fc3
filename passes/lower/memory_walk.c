/* SPDX-License-Identifier: Apache-2.0 */
/* Determines layouts op by op, as a function runs. Views have strides of their operands. Results
 * with a place that the caller wants have that place's. Other results have memory of their own, in
 * the order that memory_lies.c chooses. Callers are visited first, so that a function knows the
 * layout of its operands. If two callers disagree, the function is compiled for any layout of these
 * operands: a concat or merge copies them. */
#include "passes/lower/memory.h"

#include <string.h>

/* ---- layouts that callers determine ---- */

DtMemoryCall *dt_memory_call(DtMap *calls, DtArena *kept, const DtFunc *func)
{
    DtMemoryCall *call = dt_map_find_pointer(calls, func);
    if (call)
        return call;
    call = DT_NEW(kept, DtMemoryCall);
    call->inputs = DT_NEW_ARRAY(kept, const int64_t *, func->inputs.n + 1);
    call->results = DT_NEW_ARRAY(kept, const int64_t *, func->results.n + 1);
    call->adds = DT_NEW_ARRAY(kept, bool, func->results.n + 1);
    call->slots = DT_NEW_ARRAY(kept, uint32_t, func->results.n + 1);
    dt_map_add_pointer(calls, func, call);
    return call;
}

static void say(const DtMemoryCall *call, const int64_t **slot, const DtType *type,
                const int64_t *strides)
{
    const int64_t *const was = *slot;
    if (!call->called)
        *slot = strides;
    else if (was != strides &&
             (!was || !strides || was == dt_memory_unknown || strides == dt_memory_unknown ||
              memcmp(was, strides, type->rank * sizeof *strides) != 0))
        *slot = dt_memory_unknown;
}

bool dt_memory_is_direct(const DtMemory *m, const DtValue *value)
{
    const DtMemoryWish *wish = &m->wish[value->id];
    return wish->set && !wish->drops && (!wish->old || wish->old == value->over) &&
           (!wish->adds || m->reads[value->id] == (wish->packed ? 1 : 0));
}

/* Whether the op adds the value to the old contents of its place. */
static bool adds(const DtMemory *m, const DtValue *value)
{
    return dt_memory_is_direct(m, value) && m->wish[value->id].adds;
}

static const int64_t *slice_of(const DtMemory *m, const DtLoop *loop, const DtValue *whole,
                               const DtType *slice)
{
    if (!m->at[whole->id] || m->at[whole->id] == dt_memory_unknown)
        return m->at[whole->id];
    DtView view = dt_memory_view(m, whole);
    const int d = dt_view_find(&view, loop->axis);
    if (d < 0)
        return NULL;
    dt_view_drop(&view, (uint32_t)d);
    return dt_memory_strides(m, slice, &view);
}

static void say_loop(const DtMemory *m, const DtOp *op)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    DtMemoryCall *call = dt_memory_call(m->calls, m->kept, body);
    const uint32_t first_stacked = loop->n_carried + loop->n_invariant;
    for (uint32_t i = loop->n_carried; i < op->n_in; i++) {
        const DtType *type = body->inputs.at[1 + i]->type;
        say(call, &call->inputs[1 + i], type,
            i < first_stacked ? m->at[op->in[i]->id] : slice_of(m, loop, op->in[i], type));
    }
    for (uint32_t i = loop->n_carried; i < op->n_out; i++) {
        const DtType *type = body->results.at[i]->type;
        const DtValue *out = dt_memory_result(m, op, i);
        say(call, &call->results[i], type, slice_of(m, loop, out, type));
        call->adds[i] = call->adds[i] || adds(m, out);
        call->slots[i] = dt_op_slot(op, i);
    }
    call->loop = loop;
    call->called = true;
}

static void say_call(const DtMemory *m, const DtOp *op, const DtFunc *func)
{
    DtMemoryCall *call = dt_memory_call(m->calls, m->kept, func);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        say(call, &call->inputs[i], func->inputs.at[i]->type, m->at[op->in[i]->id]);
    for (uint32_t i = 0; i < func->results.n; i++) {
        say(call, &call->results[i], func->results.at[i]->type, m->at[op->out[i]->id]);
        call->adds[i] = call->adds[i] || adds(m, op->out[i]);
    }
    call->called = true;
}

/* ---- results ---- */

/* Whether no axis of the value has a smaller stride than in the dense layout of its type; strides
 * must be known. */
static bool is_whole(const DtMemory *m, const DtValue *value)
{
    const DtView dense = dt_view_dense(value->type, &m->func->module->mesh, 0);
    if (m->at[value->id] == dt_memory_unknown)
        return false;
    for (uint32_t d = 0; m->at[value->id] && d < dense.rank; d++)
        if (dense.extent[d] > 1 && m->at[value->id][d] < dense.stride[d])
            return false;
    return true;
}

static void place_own(DtMemory *m, const DtValue *value)
{
    const DtView view = dt_view_own(value, &m->func->module->mesh, 0);
    m->at[value->id] = value->lies ? dt_memory_strides(m, value->type, &view) : NULL;
    m->changed = m->changed || value->lies;
}

static void place_result(DtMemory *m, const DtOp *op, uint32_t i)
{
    DtValue *value = dt_memory_result(m, op, i);
    const DtValue *old = value->over;
    if (dt_memory_is_direct(m, value)) {
        m->at[value->id] = m->wish[value->id].strides;
    } else if (old && old->op && old->op->kind != DT_OP_PARAM && is_whole(m, old)) {
        m->at[value->id] = m->at[old->id];
    } else if (m->fuses) {
        value->over = NULL; /* the layout differs, or the wished place cannot be used */
        dt_memory_lies(m, value);
        place_own(m, value);
    } else {
        value->over = NULL;
    }
    m->at[op->out[i]->id] = m->at[value->id];
}

/* Chooses the place of a result that contains its operands (a concat, a pack): the wished place, if
 * nothing is in it until then and the op does not add to it; else memory of its own. */
static void place_whole(DtMemory *m, const DtOp *op)
{
    const DtValue *out = op->out[0];
    const DtMemoryWish *wish = &m->wish[out->id];
    const bool adds = wish->adds && (op->kind == DT_OP_CONCAT || m->reads[out->id]);
    if (wish->set && !wish->drops && !wish->old && !adds)
        m->at[out->id] = wish->strides;
    else
        place_own(m, out);
    m->changed = true;
}

/* Whether the result of the relabel is a view for any layout of its operand: no entry merges
 * axes. */
static bool is_always_view(const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_relabels; i++)
        if (op->relabels[i].n_from > 1)
            return false;
    return true;
}

/* Gives the result of a view op strides into its operand's memory, if strides can describe it; else
 * marks the op as a copy (DtOp.copies). */
static bool place_view(DtMemory *m, DtOp *op)
{
    DtView view = dt_memory_view(m, op->in[0]);
    const bool known = m->at[op->in[0]->id] != dt_memory_unknown;
    if (op->kind == DT_OP_AT)
        dt_view_drop(&view, 0);
    else if (op->kind == DT_OP_BIND) /* `bind` ops remain only in programs with errors */
        return true;
    else if (known ? !dt_view_through(op, &m->func->module->mesh, &view) : !is_always_view(op))
        op->copies = m->changed = true;
    if (!op->copies)
        m->at[op->out[0]->id] =
            known ? dt_memory_strides(m, op->out[0]->type, &view) : dt_memory_unknown;
    return !op->copies;
}

static void place_op(DtMemory *m, DtOp *op)
{
    switch (op->kind) {
    case DT_OP_PARAM:
    case DT_OP_INPUT:
    case DT_OP_TURN:
    case DT_OP_RINGBUF:
    case DT_OP_RINGBUF_PUT:
    case DT_OP_RINGBUF_GET:
    case DT_OP_RINGBUF_TURN: return; /* dense */
    case DT_OP_DONE:
        if (!op->in[0]->op || !op->in[0]->op->starts)
            m->at[op->out[0]->id] = m->at[op->in[0]->id];
        return;
    case DT_OP_WHEN:
        say_call(m, op, op->func);
        dt_memory_call(m->calls, m->kept, op->func)->leaves = true;
        for (uint32_t i = 0; i < op->n_out; i++)
            m->at[op->out[i]->id] = m->at[op->in[(op->ranges ? 1 : 0) + i]->id];
        return;
    case DT_OP_PACK: place_whole(m, op); return;
    case DT_OP_CONCAT:
        if (!op->holds)
            break;
        place_whole(m, op);
        return;
    default: break;
    }
    if (dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in && place_view(m, op))
        return;
    if (dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->kind != DT_OP_SHARD) {
        dt_memory_exchange(m, op);
        m->at[op->out[0]->id] = m->at[dt_memory_result(m, op, 0)->id];
        return;
    }
    for (uint32_t i = op->kind == DT_OP_LOOP ? op->loop->n_carried : 0; i < op->n_out; i++)
        place_result(m, op, i);
    if (op->kind == DT_OP_LOOP)
        say_loop(m, op);
    if (op->kind == DT_OP_CALL)
        say_call(m, op, op->func);
    if (op->kind == DT_OP_CALL && op->func->fused)
        say_call(m, op, op->func->fused);
}

static void walk_op(DtMemory *m, DtOp *op)
{
    if (!op->n_out || !dt_op_is_inline(op->out[0])) {
        place_op(m, op);
        dt_memory_copies(m, op);
    }
    DT_PUSH(m->func->module->arena, m->ops, op);
}

/* Chooses the places of the results of a product with an epilogue. False if no library can do the
 * product in these layouts. A product that also sums operands may add only its matrix result to the
 * content of its place. */
static bool place_joined(DtMemory *m, const DtOp *op)
{
    const DtJoinedParts parts = dt_joined_parts(op);
    bool *dropped = DT_NEW_ARRAY(m->arena, bool, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++) {
        const DtValue *out = op->out[i];
        dropped[i] = adds(m, out) && !(parts.sums && op->func->results.at[i] == parts.result);
        m->wish[out->id].drops = m->wish[out->id].drops || dropped[i];
        place_result(m, op, i);
    }
    const bool joins = dt_memory_joins(m, op, &parts);
    for (uint32_t i = 0; i < op->n_out; i++)
        if (dropped[i] && joins)
            dt_memory_drop(m, op->out[i]);
        else if (dropped[i])
            m->wish[op->out[i]->id].drops = false;
    return joins;
}

static void walk_parts(DtMemory *m, DtOp *op)
{
    const uint32_t n = op->func->ops.n;
    DtOp **parts = DT_NEW_ARRAY(m->arena, DtOp *, n + 1);
    dt_memory_part(m, op, parts);
    for (uint32_t i = 0; i < n; i++) {
        if (!dt_op_is_inline(parts[i]->out[0]))
            dt_memory_reuse(m, DT_MEMORY_INSIDE + i, parts[i]);
        walk_op(m, parts[i]);
    }
}

void dt_memory_walk(DtMemory *m)
{
    for (uint32_t i = 0; i < m->func->inputs.n; i++)
        m->at[m->func->inputs.at[i]->id] = m->call->inputs[i];
    for (uint32_t i = 0; i < m->func->ops.n; i++) {
        DtOp *op = m->func->ops.at[i];
        if (dt_op_is_product(op) && !place_joined(m, op))
            walk_parts(m, op);
        else
            walk_op(m, op);
    }
    if (m->ops.n == m->func->ops.n)
        return;
    m->func->ops.n = 0;
    for (uint32_t i = 0; i < m->ops.n; i++)
        DT_PUSH(m->func->module->arena, m->func->ops, m->ops.at[i]);
}
