/* SPDX-License-Identifier: Apache-2.0 */
/* Values inside of others. A value that is only made to be joined by a `pack`, a `concat` or a ring
 * buffer is written to its place in the result by the op that computes it, also through renames.
 * Examples are the halves of a rotary embedding, and a U-net's skips. A value that has memory
 * elsewhere already is copied there; so is a value with another reader, except in packs and ring
 * buffers, and a matrix that a library cannot write because it would have no neighbours in
 * memory. */
#include "passes/lower/memory.h"

static void hold(const DtMemory *m, DtOp *op)
{
    if (!op->holds)
        op->holds = DT_NEW_ARRAY(m->func->module->arena, bool, op->n_in + 1);
}

/* Whether a place to write the value to is recorded in m->wish and can be used. */
static bool is_wished(const DtMemory *m, const DtValue *value)
{
    return m->wish[value->id].set && !m->wish[value->id].drops;
}

/* Whether some op writes the value to memory when it runs, and can write it to a given place. */
static bool is_made(const DtValue *value)
{
    return value->op && !dt_op_is_inline(value) &&
           (dt_op_info[value->op->kind].data != DT_DATA_VIEW || value->op->kind == DT_OP_DONE);
}

static void wish_part(DtMemory *m, const DtValue *value, const int64_t *strides)
{
    m->wish[value->id] = (DtMemoryWish){.set = true, .part = true, .strides = strides};
}

void dt_memory_drop(DtMemory *m, const DtValue *value)
{
    m->wish[value->id].drops = true;
    for (uint32_t i = 0; m->wish[value->id].part && i < m->func->ops.n; i++) {
        const DtOp *op = m->func->ops.at[i];
        for (uint32_t k = 0; op->holds && k < op->n_in; k++)
            op->holds[k] = op->holds[k] && op->in[k] != value;
    }
}

/* ---- buckets ---- */

/* Lets the parts of a `pack` be computed at their places in the bucket, and records these as
 * wishes. Parts of a bucket for several iterations that has no place of its own are copied by the
 * pack. */
static void join_pack(DtMemory *m, DtOp *op)
{
    const DtMemoryWish *wish = &m->wish[op->out[0]->id];
    const bool direct =
        is_wished(m, op->out[0]) && !wish->old && (!wish->adds || !m->reads[op->out[0]->id]);
    const bool adds = direct && wish->adds, known = !direct || wish->strides != dt_memory_unknown;
    if (!direct && op->n_axes)
        return;
    hold(m, op);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtType *type = op->in[i]->type;
        DtView part =
            dt_memory_strided(m, op->out[0]->type, direct && known ? wish->strides : NULL);
        if (is_wished(m, op->in[i]) || !is_made(op->in[i]) ||
            (adds && m->reads[op->in[i]->id] != 1))
            continue;
        dt_view_in_bucket(type, op->n_axes, 0, &m->func->module->mesh, &part);
        wish_part(m, op->in[i], known ? dt_memory_strides(m, type, &part) : dt_memory_unknown);
        m->wish[op->in[i]->id].adds = adds;
        m->wish[op->in[i]->id].packed = true;
        op->holds[i] = true;
    }
}

/* ---- ring buffers ---- */

bool dt_memory_is_ahead(DtOpKind kind)
{
    return kind == DT_OP_TURN || kind == DT_OP_AT || kind == DT_OP_WHEN || kind == DT_OP_RINGBUF ||
           kind == DT_OP_RINGBUF_PUT || kind == DT_OP_RINGBUF_GET || kind == DT_OP_RINGBUF_TURN;
}

/* Whether the ring buffer exists before the value that is put into it is computed. */
static bool is_there(const DtMemory *m, const DtValue *ringbuf)
{
    uint32_t n = 0;
    while (ringbuf->op && ringbuf->op->n_in && dt_type_is_ringbuf(ringbuf->op->in[0]->type))
        ringbuf = ringbuf->op->in[0];
    while (m->call->loop && n < m->func->ops.n && dt_memory_is_ahead(m->func->ops.at[n]->kind) &&
           m->func->ops.at[n] != ringbuf->op)
        n++;
    return !ringbuf->op ||
           (m->call->loop && n < m->func->ops.n && m->func->ops.at[n] == ringbuf->op);
}

static void join_put(DtMemory *m, DtOp *op)
{
    if (is_wished(m, op->in[1]) || !is_made(op->in[1]) || !is_there(m, op->in[0]))
        return;
    hold(m, op);
    op->holds[1] = true;
    wish_part(m, op->in[1], NULL);
}

/* ---- concat ---- */

/* Whether some axis of the part has stride 1: a library writes no other matrices. */
static bool has_unit_stride(const DtView *view)
{
    for (uint32_t d = 0; d < view->rank; d++)
        if (view->extent[d] > 1 && view->stride[d] == 1)
            return true;
    return false;
}

static bool is_result(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return true;
    return false;
}

/* Whether the function that computes the value also reads it. If a library cannot write the value
 * to its place, the product and its epilogue become separate ops (memory_product.c), which then
 * read it from there. */
static bool is_read_inside(const DtOp *by, const DtValue *value)
{
    bool is = false, has_product = false;
    for (uint32_t i = 0; by->kind == DT_OP_FUSED && i < by->func->ops.n; i++) {
        const DtOp *inner = by->func->ops.at[i];
        has_product = has_product || inner->kind == DT_OP_DOT;
        for (uint32_t k = 0; k < inner->n_in; k++)
            is = is || inner->in[k] == by->func->results.at[value->index];
    }
    return is && has_product;
}

/* Makes the op that computes value write it with layout `view`, or the op before renames of it;
 * false if it cannot. wish: records the layout in m->wish as well. */
static bool claim(DtMemory *m, const DtValue *value, const DtView *view, bool wish)
{
    DtOp *by = value->op;
    if (!by || dt_op_is_inline(value) || is_wished(m, value) || m->reads[value->id] != 1 ||
        is_result(m->func, value) || is_read_inside(by, value))
        return false;
    if (by->kind == DT_OP_RELABEL) {
        DtView behind = *view;
        if (!dt_view_behind(by, &m->func->module->mesh, &behind) ||
            !claim(m, by->in[0], &behind, wish))
            return false;
        if (wish) {
            hold(m, by);
            by->holds[0] = true;
        }
        return true;
    }
    const bool is_map = dt_op_is_pointwise(by->kind) && dt_op_info[by->kind].data != DT_DATA_VIEW;
    if (by->kind == DT_OP_DOT
            ? !has_unit_stride(view)
            : by->kind != DT_OP_FUSED && by->kind != DT_OP_REDUCE && by->kind != DT_OP_CONCAT &&
                  (!is_map || by->kind == DT_OP_EXPAND))
        return false;
    if (wish)
        wish_part(m, value, dt_memory_strides(m, value->type, view));
    return true;
}

static bool claim_parts(DtMemory *m, DtOp *op, const DtView *whole, bool wish)
{
    bool some = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        DtView part = *whole;
        dt_view_part(op, i, &m->func->module->mesh, &part);
        const bool held = claim(m, op->in[i], &part, wish);
        if (held && wish)
            op->holds[i] = true;
        some = some || held;
    }
    return some;
}

static void join_concat(DtMemory *m, DtOp *op)
{
    DtValue *out = op->out[0];
    const DtMemoryWish *wish = &m->wish[out->id];
    const bool direct = is_wished(m, out) && !wish->old && !wish->adds && !wish->packed;
    if (dt_op_is_inline(out) || (direct && wish->strides == dt_memory_unknown))
        return;
    DtView whole = dt_memory_strided(m, out->type, direct ? wish->strides : NULL);
    if (op->kind == DT_OP_RELABEL) {
        if (!direct || !dt_view_behind(op, &m->func->module->mesh, &whole) ||
            !claim(m, op->in[0], &whole, true))
            return;
        hold(m, op);
        op->holds[0] = true;
    } else if (claim_parts(m, op, &whole, false)) {
        hold(m, op);
        if (!direct) {
            dt_memory_lies(m, out);
            whole = dt_view_own(out, &m->func->module->mesh, 0);
        }
        claim_parts(m, op, &whole, true);
    }
}

/* Lets ops write operands of concats, packs and ring buffers directly to their places in the larger
 * value. Goes from the last concat to the first, since a concat may be part of another one. */
void dt_memory_parts(DtMemory *m)
{
    const DtFunc *func = m->func;
    if (func->fused) { /* in a function that runs in tiles, and in kernels, only results get
                        * places */
        for (uint32_t i = 0; i < func->results.n; i++)
            if (m->fuses && func->results.at[i]->op &&
                func->results.at[i]->op->kind == DT_OP_RELABEL)
                join_concat(m, func->results.at[i]->op);
        return;
    }
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_PACK)
            join_pack(m, func->ops.at[i]);
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_RINGBUF_PUT)
            join_put(m, func->ops.at[i]);
    for (uint32_t i = func->ops.n; m->fuses && i-- > 0;)
        if (func->ops.at[i]->kind == DT_OP_CONCAT || func->ops.at[i]->kind == DT_OP_RELABEL)
            join_concat(m, func->ops.at[i]);
}
