/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, where an op needs an operand in another layout than it has, or in memory at all. They are
 * ops of the program.
 *
 *     %3 = dot[a, b](%1, %2)                   %4 = copy(%2) lies(%4=[c, a, b])
 *                                              %3 = dot[a, b](%1, %4)
 *
 *   products    operands that a library can multiply only in another order of axes, if the copy
 *               pays (ir/product.h)
 *   exchanges   operands that are not dense, unless their blocks can be sent from where they are
 *               (ir/blocks.h)
 *   packs       a value that is part of one stacked bucket and goes to another one: in each bucket
 *               the parts of all iterations are interleaved with others
 *   the rest    operands that readers usually compute themselves (dt_op_is_inline; the number of a
 *               loop's iteration) but that an op needs in memory: views, exchanges, products, loops
 *               and kernels take addresses. Later readers use the same copy
 *
 * If callers disagree on the layout of an operand, or the function may run in tiles, whose products
 * are those of blocks, the op is marked `copies`: each call decides whether to copy. */
#include "passes/lower/memory.h"

#include "ir/blocks.h"
#include "ir/product.h"

/* Inserts a copy of an operand before op, in the layout `view` (NULL: dense), makes it the operand,
 * and returns it. */
static DtValue *copy_operand(DtMemory *m, DtOp *op, uint32_t operand, const DtView *view)
{
    DtBuilder b = {.func = m->func, .span = op->span, .path = op->path};
    DtValue *copy = dt_graph_copied(&b, op->in[operand]);
    const DtOp *made = dt_op_made(op->in[operand])->op;
    DtOp *by = m->func->ops.at[--m->func->ops.n]; /* it is inserted at another position below */
    if (made)
        by->span = made->span, by->path = made->path;
    if (view)
        dt_memory_lie_as(m, copy, view);
    const DtView own = dt_view_own(copy, &m->func->module->mesh, 0);
    m->at[copy->id] = dt_memory_strides(m, copy->type, &own);
    m->reads[copy->id] = 1;
    for (uint32_t i = 0; i < op->n_out; i++) {
        DtValue *out = dt_memory_result(m, op, i);
        out->over = out->over == op->in[operand] ? copy : out->over;
    }
    op->in[operand] = copy;
    m->changed = true;
    DT_PUSH(m->func->module->arena, m->ops, by);
    return copy;
}

static void straighten(DtMemory *m, DtOp *dot)
{
    DtProduct product;
    DtView now[2], copies[2];
    dot->copies = m->at[dot->out[0]->id] == dt_memory_unknown;
    for (uint32_t i = 0; i < 2; i++) {
        dot->copies = dot->copies || m->at[dot->in[i]->id] == dt_memory_unknown;
        now[i] = dt_memory_view(m, dot->in[i]);
    }
    if (dot->copies || m->func->fused) {
        dot->copies = m->changed = true;
        return;
    }
    const DtView to = dt_memory_view(m, dot->out[0]);
    if (dt_product_find(m->limits, dot, &now[0], &now[1], &to, &product))
        return;
    const uint32_t chosen = dt_product_straighten(m->limits, dot, now, &to, copies);
    for (uint32_t i = 0; i < 2; i++)
        if (chosen >> i & 1)
            copy_operand(m, dot, i, &copies[i]);
}

static bool is_dense(const DtMemory *m, const DtType *type, const DtView *view)
{
    const DtView dense = dt_view_dense(type, &m->func->module->mesh, 0);
    return dt_view_same_strides(view, &dense);
}

/* Whether an exchange can read its operand and write its result in their present layouts. */
static bool can_exchange(const DtMemory *m, const DtOp *op, const DtView *from, const DtView *to)
{
    DtBlocks blocks;
    if (op->kind == DT_OP_ALL_REDUCE || op->kind == DT_OP_SHIFT || op->kind == DT_OP_PARTNER)
        return is_dense(m, op->in[0]->type, from) && is_dense(m, op->out[0]->type, to);
    return dt_blocks_find(op, &m->func->module->mesh, from, to, true, &blocks);
}

void dt_memory_exchange(DtMemory *m, DtOp *op)
{
    if (op->late && !dt_memory_lands(m, op->in[0]))
        copy_operand(m, op, 0, NULL);
    DtValue *in = op->in[0], *out = dt_memory_result(m, op, 0);
    const DtMemoryWish *wish = &m->wish[out->id];
    const bool there = dt_memory_is_direct(m, out) && !wish->adds,
               knows = !there || wish->strides != dt_memory_unknown;
    const DtView from = dt_memory_view(m, in),
                 to = dt_memory_strided(m, out->type, there ? wish->strides : NULL);
    op->copies = m->at[in->id] == dt_memory_unknown || !knows;
    m->changed = m->changed || op->copies;
    m->at[out->id] = op->copies ? dt_memory_unknown : there ? wish->strides : NULL;
    const bool can = op->copies || can_exchange(m, op, &from, &to);
    if (!can && !is_dense(m, in->type, &from))
        copy_operand(m, op, 0, NULL);
    /* the loop's next iteration waits for it, where it is */
    const bool left = op->starts && !m->done[op->out[0]->id];
    const bool lands = there && (op->copies ? left : can || is_dense(m, out->type, &to));
    if (!lands && !op->late)
        dt_memory_drop(m, out);
    if (!lands && !op->copies)
        m->at[out->id] = NULL;
    if (!lands && (op->copies || out->over != op->in[0]))
        out->over = NULL;
}

static void part_repeated(DtMemory *m, DtOp *pack)
{
    for (uint32_t i = 0; i < pack->n_in && pack->n_axes && pack->holds; i++) {
        bool repeated = false;
        for (uint32_t k = 0; k < pack->n_in; k++)
            repeated = repeated || (pack->holds[k] && !pack->holds[i] &&
                                    dt_op_viewed(pack->in[i]) == pack->in[k]);
        if (repeated)
            copy_operand(m, pack, i, NULL);
    }
}

/* Whether the op needs the address of an operand that kernels otherwise recompute at each use.
 * Operands of concats, ring buffers and carried values are computed in place instead, and a call
 * that may run in tiles computes its operands block by block. */
static bool takes_address(const DtOp *op, uint32_t operand)
{
    switch (op->kind) {
    case DT_OP_COPY:
    case DT_OP_PACK: return false;
    case DT_OP_CONCAT: return !op->holds;
    case DT_OP_LOOP: return operand >= op->loop->n_carried;
    case DT_OP_RINGBUF_PUT: return operand == 0;
    case DT_OP_CALL: return !op->func->fused;
    case DT_OP_DOT: return true;
    default:
        return dt_op_info[op->kind].op_class == DT_CLASS_COMM ||
               dt_op_info[op->kind].op_class == DT_CLASS_STRUCT ||
               dt_op_reads_elsewhere(op, operand);
    }
}

/* Copies operands that op reads by address to memory, if kernels otherwise compute them where they
 * are needed. In a function that may run in tiles each call decides for itself. */
static void settle(DtMemory *m, DtOp *op)
{
    for (uint32_t i = 0; !m->func->fused && i < op->n_in; i++) {
        DtValue **settled = &m->settled[op->in[i]->id];
        /* a kernel computes the iteration's number itself */
        const bool is_number = m->call->loop && op->in[i] == m->func->inputs.at[0];
        if (!(is_number ? op->kind != DT_OP_FUSED : dt_op_is_inline(op->in[i])) ||
            !takes_address(op, i))
            continue;
        if (!*settled)
            *settled = copy_operand(m, op, i, NULL);
        op->in[i] = *settled;
    }
}

void dt_memory_copies(DtMemory *m, DtOp *op)
{
    if (op->kind == DT_OP_DOT && m->fuses)
        straighten(m, op);
    if (op->kind == DT_OP_PACK)
        part_repeated(m, op);
    settle(m, op);
}
