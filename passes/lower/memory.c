/* SPDX-License-Identifier: Apache-2.0 */
/* memory: decides the memory of each value. Results may overwrite values that no later op reads
 * (memory_over.c). Other results get an order of axes in memory (memory_lies.c), which depends on
 * the layout of the values around them (memory_walk.c). A part of a concatenation or bucket is
 * computed at its place in the whole (memory_parts.c). Ops that need an operand in another layout
 * get a copy (memory_copy.c), and results are copied to where callers want them (memory_results.c).
 * Values with memory of their own get offsets (memory_frame.c).
 *
 *   before                                       after
 *   body(%i, %x, %w)                             body(%i, %x, %w)
 *     %1 = fused(%x, %w)                           %1 = fused(%x, %w)
 *     %2 = fused(%1, %w)                           %2 = fused(%1, %w) over(%2=%1)
 *     %3 = dot(%2, %w)                             %3 = dot(%2, %w) over(%3=%x)
 *     return %3, carried like %x                   return %3
 *
 * The next value that a loop carries, or that an update stores, belongs where the old value is. It
 * is computed there if the old value is last read by an earlier op, or by the same kernel, element
 * by element as it writes. Otherwise it is computed elsewhere and copied there at the end. Any
 * other result of a kernel, or of a sum over ranks, takes the memory of an operand of its type
 * whose last reader the op is, unless the result has a place already: as a result of the function,
 * in a bucket, in a ring buffer, or as part of a concat. If the operand has its axes in another
 * order, or is part of a larger value, the result gets memory of its own after all.
 *
 * A kernel may write over x if each element of x is read only with the element that is written: x
 * reaches maps and reductions only, and no other result of the kernel depends on one reduction
 * more, since its loops would run after this result's. In a function that may run in tiles, whose
 * other ops run before and after the tiles, x has no other reader.
 *
 * Requires: the order of ops is that in which they run. Establishes: DtValue.over, DtValue.lies,
 * DtValue.at, DtFunc.frame, DtOp.base, DtOp.holds, DtOp.copies, ops `copy`. Breaks: numbers of
 * values; a copy has that of its operand (DtValue.final). */
#include "passes/lower/memory.h"
#include "passes/lower/order.h"
#include "passes/passes.h"

static const uint32_t at_end = UINT32_MAX;

/* ---- readers of values, places of results ---- */

/* Finds the readers of each value: how often it is read (m->reads), by which op last (m->last), and
 * the `done` of asynchronous results. An op that starts communication reads its operands until its
 * `done`. */
static void list_reads(DtMemory *m)
{
    const DtFunc *func = m->func;
    const DtLoop *loop = m->call->loop;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            const DtValue *in = op->in[k];
            m->reads[in->id] += !op->late; /* a late sum reads the result's own memory */
            m->folded[in->id] = m->folded[in->id] || op->kind == DT_OP_FOLD;
            m->last[dt_op_viewed(in)->id] = i;
        }
        if (op->kind != DT_OP_DONE)
            continue;
        m->done[op->in[0]->id] = op;
        if (op->in[0]->op->starts)
            m->last[dt_op_viewed(op->in[0]->op->in[0])->id] = i;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (!dt_memory_is_early(loop, func->results.at[i], i))
            m->last[dt_op_viewed(func->results.at[i])->id] = at_end;
}

static void list_wishes(DtMemory *m)
{
    const DtLoop *loop = m->call->loop;
    const DtEntryPoint *entry = m->call->entry;
    for (uint32_t i = 0; i < m->func->results.n; i++) {
        const DtValue *value = m->func->results.at[i];
        DtMemoryWish *wish = &m->wish[value->id];
        wish->drops = wish->drops || wish->adds;
        if (wish->set || dt_type_is_ringbuf(value->type) || dt_graph_is_slotted(m->func, value))
            continue;
        wish->set = true;
        wish->strides = m->call->results[i];
        wish->accumulate = entry && entry->results.at[i].accumulate;
        wish->adds = entry ? wish->accumulate && dt_order_adds(m->func->module) : m->call->adds[i];
        if (loop && i < loop->n_carried)
            wish->old = m->func->inputs.at[1 + i];
        else if (loop && m->call->slots[i])
            wish->old = m->func->inputs.at[m->call->slots[i]];
        else if (entry && !wish->accumulate)
            wish->old = dt_memory_param(m->func, entry->results.at[i].store);
        const DtOp *late = dt_memory_late(value);
        if (late) /* a late sum's term is added at the result's place */
            m->wish[late->in[0]->id] = *wish;
    }
}

/* ---- functions ---- */

static void write_over(DtMemory *m)
{
    for (uint32_t i = 0; i < m->func->ops.n; i++) {
        DtOp *op = m->func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out && op->kind != DT_OP_DONE; k++) {
            DtValue *out = dt_memory_result(m, op, k), *old = m->wish[out->id].old;
            if (!old || !dt_memory_replaces(m, i, op, k, old))
                continue;
            out->over = old;
            m->changed = true;
        }
        dt_memory_reuse(m, i, op);
    }
}

/* Removes what an earlier run of the pass decided about the function: offsets, layouts, shared
 * memory, places and copies. */
static void forget(DtFunc *func)
{
    func->frame = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        op->copies = false;
        op->holds = NULL;
        op->base = 0;
        for (uint32_t k = 0; k < op->n_out; k++) {
            op->out[k]->at = 0;
            op->out[k]->over = NULL;
            op->out[k]->lies = NULL;
        }
    }
}

/* Whether no value of the function has a number of the reference program (DtValue.final), as before
 * passes `fuse` and `order`. */
static bool is_unnumbered(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (func->inputs.at[i]->final)
            return false;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            if (dt_op_made(func->ops.at[i]->out[k])->final)
                return false;
    return true;
}

/* How many operands and values the function has once all products with epilogues are split into
 * single ops. */
static size_t count_operands(const DtFunc *func)
{
    size_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        n += op->n_in + (dt_op_is_product(op) ? op->func->n_values + count_operands(op->func) : 0);
    }
    return n;
}

static bool look_at(DtFunc *func, DtMap *calls, DtArena *kept, const DtPassContext *context)
{
    DtArena *arena = dt_arena_child(kept);
    const size_t n = func->n_values + 1 + count_operands(func); /* each operand may get a copy */
    DtMemory memory = {.func = func,
                       .limits = &dt_target_limits[context->target],
                       .call = dt_memory_call(calls, kept, func),
                       .calls = calls,
                       .arena = arena,
                       .kept = kept,
                       .fuses = !context->unfused,
                       .last = DT_NEW_ARRAY(arena, uint32_t, n),
                       .reads = DT_NEW_ARRAY(arena, uint32_t, n),
                       .done = DT_NEW_ARRAY(arena, DtOp *, n),
                       .wish = DT_NEW_ARRAY(arena, DtMemoryWish, n),
                       .folded = DT_NEW_ARRAY(arena, bool, n),
                       .settled = DT_NEW_ARRAY(arena, DtValue *, n),
                       .at = DT_NEW_ARRAY(arena, const int64_t *, n)};
    forget(func);
    if (is_unnumbered(func))
        dt_order_finals(func);
    list_reads(&memory);
    list_wishes(&memory);
    dt_memory_parts(&memory);
    write_over(&memory);
    dt_memory_walk(&memory);
    memory.n_walked = func->n_values;
    dt_memory_results(&memory);
    if (memory.call->framed)
        dt_memory_mark(&memory);
    dt_arena_free(arena);
    return memory.changed;
}

/* The functions that a function calls, callees before callers, and then the function itself. */
typedef struct Order {
    DT_VEC(DtFunc *) funcs;
    DtMap seen;
    DtArena *arena;
} Order;

static void add_func(Order *order, DtFunc *func)
{
    if (dt_map_find_pointer(&order->seen, func))
        return;
    dt_map_add_pointer(&order->seen, func, func);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (!op->func || op->kind == DT_OP_FUSED)
            continue;
        add_func(order, op->func);
        if (op->func->fused)
            add_func(order, op->func->fused);
    }
    DT_PUSH(order->arena, order->funcs, func);
}

bool dt_pass_memory(DtModule *module, const DtPassContext *context)
{
    DtArena *kept = dt_arena_child(module->arena);
    Order order = {.seen = {.arena = kept}, .arena = kept};
    DtMap calls = {.arena = kept};
    bool changed = false;
    for (uint32_t i = 0; i < module->entries.n; i++) {
        add_func(&order, module->entries.at[i].func);
        DtMemoryCall *call = dt_memory_call(&calls, kept, module->entries.at[i].func);
        call->entry = &module->entries.at[i];
        call->framed = true;
    }
    for (uint32_t i = order.funcs.n; i-- > 0;)
        changed = look_at(order.funcs.at[i], &calls, kept, context) || changed;
    for (uint32_t i = 0; i < order.funcs.n; i++)
        if (!dt_memory_call(&calls, kept, order.funcs.at[i])->inside)
            dt_memory_frame(order.funcs.at[i], kept);
    dt_arena_free(kept);
    return changed;
}
