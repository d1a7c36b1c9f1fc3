/* SPDX-License-Identifier: Apache-2.0 */
/* Where values lie: op by op, as a function runs. Views have strides of what they are views of; results that go where
 * the caller wants them, those of that place; other results lie in memory of their own, in the order that
 * memory_lies.c chooses. Callers come first, so that a function knows how its operands lie; if two disagree it takes
 * them as dense. */
#include "passes/lower/memory.h"

#include <string.h>

DtView dt_memory_view(const DtMemory *m, const DtValue *value)
{
    DtView view = dt_view_dense(value->type, &m->func->module->mesh, 0);
    if (m->at[value->id])
        memcpy(view.stride, m->at[value->id], view.rank * sizeof *view.stride);
    return view;
}

/* Of a value of that type; NULL: it is dense. */
static const int64_t *strides_of(const DtMemory *m, const DtType *type, const DtView *view)
{
    const DtView dense = dt_view_dense(type, &m->func->module->mesh, 0);
    if (view->rank != type->rank || !memcmp(view->stride, dense.stride, type->rank * sizeof *dense.stride))
        return NULL;
    int64_t *strides = DT_NEW_ARRAY(m->kept, int64_t, type->rank);
    memcpy(strides, view->stride, type->rank * sizeof *strides);
    return strides;
}

/* ---- what callers say ---- */

DtMemoryCall *dt_memory_call(DtMap *calls, DtArena *kept, const DtFunc *func)
{
    DtMemoryCall *call = dt_map_find_pointer(calls, func);
    if (call)
        return call;
    call = DT_NEW(kept, DtMemoryCall);
    call->inputs = DT_NEW_ARRAY(kept, const int64_t *, func->inputs.n + 1);
    call->results = DT_NEW_ARRAY(kept, const int64_t *, func->results.n + 1);
    call->adds = DT_NEW_ARRAY(kept, bool, func->results.n + 1);
    dt_map_add_pointer(calls, func, call);
    return call;
}

static void say(const DtMemoryCall *call, const int64_t **slot, const DtType *type, const int64_t *strides)
{
    if (!call->called)
        *slot = strides;
    else if (*slot && (!strides || memcmp(*slot, strides, type->rank * sizeof *strides) != 0))
        *slot = NULL;
}

/* Whether it is written where the caller wants it. */
static bool is_direct(const DtMemory *m, const DtValue *value)
{
    const DtMemoryWish *wish = &m->wish[value->id];
    return wish->set && (!wish->old || wish->old == value->over) && (!wish->adds || !m->reads[value->id]);
}

/* Whether it is added to what lies there. */
static bool adds(const DtMemory *m, const DtValue *value) { return is_direct(m, value) && m->wish[value->id].adds; }

static const int64_t *slice_of(const DtMemory *m, const DtLoop *loop, const DtValue *whole, const DtType *slice)
{
    if (!m->at[whole->id])
        return NULL;
    DtView view = dt_memory_view(m, whole);
    const int d = dt_view_find(&view, loop->axis);
    if (d < 0)
        return NULL;
    dt_view_drop(&view, (uint32_t)d);
    return strides_of(m, slice, &view);
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
        say(call, &call->results[i], type, slice_of(m, loop, op->out[i], type));
        call->adds[i] = call->adds[i] || adds(m, op->out[i]);
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

/* Whether a value whose strides these are is all that its memory holds, in the order of its type. */
static bool is_whole(const DtMemory *m, const DtValue *value)
{
    const DtView dense = dt_view_dense(value->type, &m->func->module->mesh, 0);
    for (uint32_t d = 0; m->at[value->id] && d < dense.rank; d++)
        if (dense.extent[d] > 1 && m->at[value->id][d] < dense.stride[d])
            return false;
    return true;
}

static void place_result(DtMemory *m, const DtOp *op, uint32_t i)
{
    DtValue *value = dt_memory_result(m, op, i);
    const DtValue *old = value->over;
    if (is_direct(m, value)) {
        m->at[value->id] = m->call->results[m->wish[value->id].result];
    } else if (old && old->op && is_whole(m, old)) {
        m->at[value->id] = m->at[old->id];
    } else if (m->fuses && dt_op_info[op->kind].op_class != DT_CLASS_COMM) { /* blocks travel as they are */
        dt_memory_lies(m, value);
        const DtView view = dt_view_own(value, &m->func->module->mesh, 0);
        m->at[value->id] = value->lies ? strides_of(m, value->type, &view) : NULL;
        m->changed = m->changed || value->lies;
    }
    m->at[op->out[i]->id] = m->at[value->id];
}

/* A view, if strides can say it; else it is copied. */
static bool place_view(DtMemory *m, const DtOp *op)
{
    DtView view = dt_memory_view(m, op->in[0]);
    if (op->kind == DT_OP_AT)
        dt_view_drop(&view, 0);
    else if (!dt_view_through(op, &m->func->module->mesh, &view))
        return false;
    m->at[op->out[0]->id] = strides_of(m, op->out[0]->type, &view);
    return true;
}

static void place_op(DtMemory *m, const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_PARAM:
    case DT_OP_INPUT:
    case DT_OP_TURN:
    case DT_OP_PACK:
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
        for (uint32_t i = 0; i < op->n_out; i++)
            m->at[op->out[i]->id] = m->at[op->in[(op->ranges ? 1 : 0) + i]->id];
        return;
    default: break;
    }
    if (dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in && place_view(m, op))
        return;
    for (uint32_t i = op->kind == DT_OP_LOOP ? op->loop->n_carried : 0; i < op->n_out; i++)
        place_result(m, op, i);
    if (op->kind == DT_OP_LOOP)
        say_loop(m, op);
    if (op->kind == DT_OP_CALL)
        say_call(m, op, op->func);
    if (op->kind == DT_OP_CALL && op->func->fused)
        say_call(m, op, op->func->fused);
}

void dt_memory_walk(DtMemory *m)
{
    for (uint32_t i = 0; i < m->func->inputs.n; i++)
        m->at[m->func->inputs.at[i]->id] = m->call->inputs[i];
    for (uint32_t i = 0; i < m->func->ops.n; i++) {
        const DtOp *op = m->func->ops.at[i];
        if (!op->n_out || !dt_op_is_inline(op->out[0]))
            place_op(m, op);
    }
}
