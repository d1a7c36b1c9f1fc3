/* SPDX-License-Identifier: Apache-2.0 */
/* Which value an op's result may overwrite: a kernel may overwrite an operand that it reads for the
 * last time, element by element as it writes; a result may overwrite the value whose place it
 * takes. */
#include "passes/lower/memory.h"
#include "passes/lower/order.h"
#include "passes/passes.h"

static const uint32_t at_end = UINT32_MAX;

/* ---- results ---- */

bool dt_memory_is_early(const DtLoop *loop, const DtValue *result, uint32_t i)
{
    return loop && !result->op && i >= loop->n_carried;
}

DtValue *dt_memory_param(const DtFunc *func, const DtStore *store)
{
    for (uint32_t i = 0; store && i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_PARAM && func->ops.at[i]->store == store)
            return func->ops.at[i]->out[0];
    return NULL;
}

/* ---- kernels ---- */

static bool is_kernel(const DtOp *op)
{
    const DtOpInfo *info = &dt_op_info[op->kind];
    return op->kind == DT_OP_FUSED ||
           (info->op_class != DT_CLASS_STRUCT && info->op_class != DT_CLASS_COMM &&
            info->data != DT_DATA_VIEW && op->kind != DT_OP_PARAM && op->kind != DT_OP_INPUT &&
            op->kind != DT_OP_DOT);
}

static bool goes_its_own_way(const DtOp *op)
{
    return op->kind == DT_OP_SCAN || op->kind == DT_OP_TOPK ||
           (op->kind == DT_OP_SCATTER_ADD && !dt_op_is_one_hot(op));
}

/* When a kernel computes a value. phase: the number of reductions that it depends on one after the
 * other, each of which ends a loop. after_rows: it depends on a sum over rows. reached: it depends
 * on input x. */
typedef struct Phase {
    uint32_t phase;
    bool after_rows, reached;
} Phase;

static bool sums_rows(const DtOp *fused, const DtOp *op)
{
    for (uint32_t i = 0; op->kind == DT_OP_REDUCE && i < fused->n_axes; i++)
        if (fused->axes[i] == op->axes[0])
            return true;
    return false;
}

/* Sets ret_phases, by value id of the kernel's function: in which of the kernel's loops the value
 * is computed, and whether it depends on input x. False if the function contains ops other than
 * maps and reductions. */
static bool find_phases(const DtOp *fused, uint32_t x, Phase *ret_phases)
{
    const DtFunc *func = fused->func;
    ret_phases[func->inputs.at[x]->id].reached = true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        Phase *to = &ret_phases[op->out[0]->id];
        for (uint32_t k = 0; k < op->n_in; k++) {
            const Phase *from = &ret_phases[op->in[k]->id];
            to->phase = from->phase > to->phase ? from->phase : to->phase;
            to->after_rows = to->after_rows || from->after_rows;
            to->reached = to->reached || from->reached;
        }
        if (goes_its_own_way(op) ||
            (to->reached && op->kind != DT_OP_REDUCE && !dt_op_is_pointwise(op->kind)))
            return false;
        if (sums_rows(fused, op))
            to->after_rows = true;
        else if (op->kind == DT_OP_REDUCE)
            to->phase++;
    }
    return true;
}

/* Whether the kernel may write result `out` over its operand x. */
static bool may_write_over(const DtMemory *m, const DtOp *op, uint32_t out, const DtValue *x)
{
    uint32_t at = UINT32_MAX;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (dt_op_viewed(op->in[i]) != x)
            continue;
        if (op->in[i] != x || (at != UINT32_MAX && op->kind == DT_OP_FUSED))
            return false;
        at = i;
    }
    /* a product's result can only be in the memory of the operand that it adds to */
    if (dt_op_is_product(op))
        return at != UINT32_MAX && op->in[at]->type == op->out[out]->type && dt_op_adds(op, at);
    if (op->kind != DT_OP_FUSED || at == UINT32_MAX)
        return dt_op_is_pointwise(op->kind) && at != UINT32_MAX;
    const DtFunc *func = op->func;
    Phase *phases = DT_NEW_ARRAY(m->arena, Phase, func->n_values + 1);
    if (!find_phases(op, at, phases))
        return false;
    const Phase *mine = &phases[func->results.at[out]->id];
    for (uint32_t i = 0; i < op->n_out && !mine->after_rows; i++)
        if ((m->reads[op->out[i]->id] || m->last[op->out[i]->id] == at_end) &&
            phases[func->results.at[i]->id].phase > mine->phase)
            return false;
    return true;
}

DtValue *dt_memory_result(const DtMemory *m, const DtOp *op, uint32_t out)
{
    const DtOp *done = op->starts || op->kind == DT_OP_LOOP ? m->done[op->out[out]->id] : NULL;
    return done ? done->out[0] : op->out[out];
}

/* ---- overwriting the old value of a store or carried value ---- */

/* Whether no other op of the module runs the function. */
static bool is_run_once(const DtFunc *func)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < func->module->funcs.n; f++)
        for (uint32_t i = 0; i < func->module->funcs.at[f]->ops.n; i++)
            n += func->module->funcs.at[f]->ops.at[i]->func == func;
    return n == 1;
}

/* Whether each iteration of the loop may write its slice of the result over that of the old value:
 * of all operands, one stacked one is the old value. (The body decides when it is overwritten.) */
static bool slides(const DtOp *op, const DtValue *old)
{
    const uint32_t first = op->loop->n_carried + op->loop->n_invariant;
    uint32_t n = 0, n_stacked = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        n += dt_op_viewed(op->in[i]) == old;
        n_stacked += i >= first && op->in[i] == old;
    }
    return n == 1 && n_stacked == 1 && is_run_once(op->func);
}

bool dt_memory_replaces(const DtMemory *m, uint32_t position, const DtOp *op, uint32_t out,
                        const DtValue *old)
{
    const DtValue *value = op->out[out];
    const uint32_t last = m->last[old->id];
    if (dt_op_is_inline(value) || (op->kind == DT_OP_LOOP && out < op->loop->n_carried))
        return false;
    if (last == position && old->type == value->type)
        return op->kind == DT_OP_LOOP ? slides(op, old)
                                      : is_kernel(op) && may_write_over(m, op, out, old);
    switch (dt_op_info[op->kind].op_class) {
    case DT_CLASS_SOURCE:
        return op->kind != DT_OP_PARAM && op->kind != DT_OP_INPUT && last < position;
    case DT_CLASS_STRUCT:
        return (op->kind == DT_OP_FUSED || op->kind == DT_OP_LOOP || op->kind == DT_OP_CALL) &&
               last < position;
    default: return last < position;
    }
}

/* ---- over operands ---- */

static bool has_place(const DtMemory *m, const DtValue *value)
{
    const DtMemoryWish *wish = &m->wish[value->id];
    /* a copy writes it there later */
    const bool comes_later = wish->old || (wish->accumulate && m->reads[value->id]);
    return value->over || (wish->set && !comes_later);
}

/* Whether value has memory that nothing else shares: no store, view, ring buffer or part of a
 * larger value. */
static bool lies_alone(const DtMemory *m, const DtValue *value)
{
    const DtOp *op = value->op;
    if (!op || op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT || op->kind == DT_OP_AT ||
        op->kind == DT_OP_WHEN ||
        (op->kind == DT_OP_DONE && op->in[0]->op->kind == DT_OP_RINGBUF_GET))
        return false;
    return dt_op_viewed(value) == value && !dt_op_is_inline(value) &&
           !dt_type_is_ringbuf(value->type) && !m->wish[value->id].part;
}

static bool is_taken(const DtOp *op, const DtValue *x)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i]->over == x)
            return true;
    return false;
}

/* Whether no op reads x after op. For a `done`: the op whose end it is may read x. */
static bool dies(const DtMemory *m, uint32_t position, const DtOp *op, const DtValue *x)
{
    const bool alone = m->reads[x->id] == 1 && m->last[x->id] != at_end;
    if (op->starts)
        return alone;
    return m->last[x->id] == position && (!m->func->fused || alone);
}

void dt_memory_reuse(DtMemory *m, uint32_t position, DtOp *op)
{
    for (uint32_t i = 0;
         i < op->n_out && (op->kind == DT_OP_ALL_REDUCE || (m->fuses && is_kernel(op))); i++) {
        DtValue *out = dt_memory_result(m, op, i), *x = NULL;
        if (has_place(m, out) || (!m->reads[out->id] && m->last[out->id] != at_end))
            continue;
        for (uint32_t k = 0; k < op->n_in && !x; k++)
            if ((op->kind == DT_OP_ALL_REDUCE || op->in[k]->type == out->type) &&
                lies_alone(m, op->in[k]) && dies(m, position, op, op->in[k]))
                x = op->in[k];
        if (!x || is_taken(op, x) || (op->kind != DT_OP_ALL_REDUCE && !may_write_over(m, op, i, x)))
            continue;
        out->over = x;
        m->changed = true;
    }
}
