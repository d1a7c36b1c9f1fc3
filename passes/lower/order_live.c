/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a function's own values that are live while each op runs, so that moves do not raise
 * the peak.
 *
 * A value lives from its op to the last reader of it or of a view of it. A part of a bucket or
 * concat lives as long as that, without memory of its own. Values without memory in the function
 * do not count: inputs, stores, ring buffers, values that kernels recompute, and results, which
 * have a place outside. A kernel's result may take the memory of an operand of its size that
 * dies there. Memory inside of an op (a loop, a call) counts while the op runs. */
#include "passes/lower/order.h"

static bool joins(const DtOp *op) { return op->kind == DT_OP_PACK || op->kind == DT_OP_CONCAT; }

static void lasts(DtOrderLive *live, const DtValue *value, uint32_t until)
{
    uint32_t *last = &live->last[dt_op_viewed(value)->id];
    *last = *last < until ? until : *last;
}

/* Sets live->last, by value, to the last op that reads it. Goes backwards, so that a part of a
 * value lives as long as the whole. */
static void find_last(DtOrderLive *live, const DtFunc *func)
{
    for (uint32_t i = 0; i < func->results.n; i++)
        lasts(live, func->results.at[i], func->ops.n);
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            lasts(live, op->in[k],
                  joins(op) && live->last[op->out[0]->id] > i ? live->last[op->out[0]->id] : i);
    }
}

static bool is_elsewhere(const DtValue *value)
{
    const DtOp *op = value->op;
    return !op || op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT || op->kind == DT_OP_TURN ||
           op->kind == DT_OP_WHEN || op->kind == DT_OP_RINGBUF_GET || joins(op) ||
           dt_type_is_ringbuf(value->type) || dt_op_viewed(value) != value ||
           dt_op_is_inline(value);
}

/* Returns the bytes that the value takes in the function's own memory; 0 if it is a result or is
 * stored elsewhere. */
static int64_t bytes_of(const DtOrderLive *live, const DtFunc *func, const DtValue *value)
{
    if (live->last[value->id] == func->ops.n || is_elsewhere(value))
        return 0;
    const int64_t n = dt_type_local_elements(value->type, &func->module->mesh);
    return n < 0 ? 0 : n * (int64_t)dt_dtype_size(value->type->dtype);
}

/* Bytes of results of op number `at` that can take the memory of operands of which the op is the
 * last reader. */
static int64_t taken(const DtOrderLive *live, const DtFunc *func, uint32_t at)
{
    const DtOp *op = func->ops.at[at];
    int64_t bytes = 0;
    for (uint32_t i = 0; i < op->n_out && (op->kind == DT_OP_FUSED || op->kind == DT_OP_ALL_REDUCE);
         i++)
        for (uint32_t k = 0; k < op->n_in; k++)
            if (live->last[op->in[k]->id] == at && live->bytes[op->in[k]->id] > 0 &&
                live->bytes[op->in[k]->id] == live->bytes[op->out[i]->id]) {
                bytes += live->bytes[op->out[i]->id];
                break;
            }
    return bytes;
}

DtOrderLive dt_order_live(DtArena *arena, const DtFunc *func)
{
    const uint32_t n = func->ops.n;
    DtOrderLive live = {.last = DT_NEW_ARRAY(arena, uint32_t, func->n_values + 1),
                        .bytes = DT_NEW_ARRAY(arena, int64_t, func->n_values + 1),
                        .at = DT_NEW_ARRAY(arena, int64_t, n + 2)};
    find_last(&live, func);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            const DtValue *value = func->ops.at[i]->out[k];
            const uint32_t last = live.last[value->id];
            live.bytes[value->id] = bytes_of(&live, func, value);
            live.at[i] += live.bytes[value->id];
            live.at[(last > i ? last : i) + 1] -= live.bytes[value->id];
        }
    for (uint32_t i = 0; i < n; i++)
        live.at[i + 1] += live.at[i];
    for (uint32_t i = 0; i < n; i++) {
        const DtOp *op = func->ops.at[i];
        live.at[i] -= taken(&live, func, i);
        if (op->func && op->kind != DT_OP_FUSED)
            live.at[i] += dt_order_live(arena, op->func).peak;
        live.peak = live.at[i] > live.peak ? live.at[i] : live.peak;
    }
    return live;
}

bool dt_order_has_room(const DtOrderLive *live, uint32_t from, uint32_t to, int64_t bytes)
{
    bool has = true;
    for (uint32_t i = from; has && i < to; i++)
        has = live->at[i] + bytes <= live->peak;
    return has;
}

void dt_order_take_room(DtOrderLive *live, uint32_t from, uint32_t to, int64_t bytes)
{
    for (uint32_t i = from; i < to; i++)
        live->at[i] += bytes;
}
