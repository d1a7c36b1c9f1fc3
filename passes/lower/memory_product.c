/* SPDX-License-Identifier: Apache-2.0 */
/* Products with epilogues (ir/epilogues.def) stay one op if the library supports the layouts of
 * their operands and results. Otherwise they become separate ops again:
 *
 *     %3 = fused(%x, %w, %b) func=f.k0 text=bias        %5 = dot[k](%x, %w)
 *                                                =>     %6 = expand(%b)
 *                                                       %3 = add(%5, %6)
 *
 * They also do if callers disagree on the layout of a value. */
#include "passes/lower/memory.h"

#include "base/bug.h"

bool dt_memory_joins(const DtMemory *m, const DtOp *op, const DtJoinedParts *parts)
{
    const DtFunc *func = op->func;
    DtView *views = DT_NEW_ARRAY(m->arena, DtView, func->n_values + 1);
    DtJoinedProduct found;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (m->at[op->in[i]->id] == dt_memory_unknown)
            return false;
        views[func->inputs.at[i]->id] = dt_memory_view(m, op->in[i]);
    }
    for (uint32_t r = 0; r < op->n_out; r++) {
        if (m->at[op->out[r]->id] == dt_memory_unknown)
            return false;
        views[func->results.at[r]->id] = dt_memory_view(m, op->out[r]);
    }
    return dt_joined_find(m->limits, parts, views, &found);
}

/* Replaces the op that computed `inner` in a kernel's function by the separate op `by`. If result r
 * of the kernel stands for `inner`, it becomes the result of `by`; returns the result of `by`. */
static DtValue *result_of(const DtOp *op, const DtValue *inner, DtOp *by)
{
    for (uint32_t r = 0; r < op->n_out; r++) {
        DtValue *out = op->out[r];
        if (op->func->results.at[r] != inner)
            continue;
        for (uint32_t i = 0; out->over && i < op->n_in; i++)
            if (dt_op_viewed(op->in[i]) == out->over)
                out->over = NULL; /* another of the separate ops may still read it */
        out->op = by, out->index = 0;
        out->final = inner->final;
        out->lies = NULL;
        return by->out[0] = out;
    }
    return by->out[0];
}

void dt_memory_part(DtMemory *m, const DtOp *op, DtOp **ret_ops)
{
    const DtFunc *func = op->func;
    const uint32_t first = m->func->n_values; /* ids of values that these ops compute, except
                                               * results */
    DtValue **now = DT_NEW_ARRAY(m->arena, DtValue *, func->n_values + 1);
    /* the first read of an operand was counted as one by the op itself */
    bool *met = DT_NEW_ARRAY(m->arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        now[func->inputs.at[i]->id] = op->in[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *inner = func->ops.at[i];
        DtBuilder b = {.func = m->func, .span = inner->span, .path = inner->path};
        DtValue **in = DT_NEW_ARRAY(m->arena, DtValue *, inner->n_in + 1);
        for (uint32_t k = 0; k < inner->n_in; k++) {
            in[k] = now[inner->in[k]->id];
            m->reads[in[k]->id] += inner->in[k]->op != NULL || met[inner->in[k]->id];
            met[inner->in[k]->id] = true;
            if (dt_op_viewed(in[k])->id >= first)
                m->last[dt_op_viewed(in[k])->id] = DT_MEMORY_INSIDE + i;
        }
        ret_ops[i] = dt_graph_copy(&b, inner, in);
        m->func->ops.n--; /* it is inserted at another position later */
        now[inner->out[0]->id] = result_of(op, inner->out[0], ret_ops[i]);
    }
    for (uint32_t r = 0; r < op->n_out; r++)
        if (op->out[r]->op == op)
            DT_BUG("nothing makes result %u of `%s`", r, func->name);
    m->changed = true;
}
