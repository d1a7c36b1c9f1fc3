/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether scores hidden by a mask can be left out: where(mask, x, -inf), or 0 instead of
 * -inf. If each sum over keys adds zeros for them, each maximum sees -inf, and results with keys
 * are zero there, then the function is the same without them, and a block of queries may leave
 * out keys that none of its queries sees (visible.c). The certificate has rules of its own for
 * this (verify/plan_mask.c). */
#include "codegen/emit.h"

#include <math.h>

typedef enum Hidden { ANYTHING, ZERO, LOWEST } Hidden;

typedef struct Follow {
    const DtFunc *func;
    const DtValue *mask;
    const char *queries, *keys;
    Hidden *hidden; /* by value id: what is known of the value where the mask hides a score */
} Follow;

static bool has(const DtValue *value, const char *axis)
{
    return dt_type_find(value->type, axis) >= 0;
}

static bool is_number(const DtValue *value, double number)
{
    return value->op && value->op->kind == DT_OP_CONST && value->op->number == number;
}

static Hidden of_op(const Follow *f, const DtOp *op)
{
    const Hidden x = op->n_in ? f->hidden[op->in[0]->id] : ANYTHING,
                 y = op->n_in > 1 ? f->hidden[op->in[1]->id] : ANYTHING;
    switch (op->kind) {
    case DT_OP_WHERE:
        if (op->in[0] != f->mask)
            return y == f->hidden[op->in[2]->id] ? y : ANYTHING;
        return is_number(op->in[2], -INFINITY) ? LOWEST
               : is_number(op->in[2], 0)       ? ZERO
                                               : f->hidden[op->in[2]->id];
    case DT_OP_RELABEL: return op->n_relabels ? ANYTHING : x;
    case DT_OP_EXPAND:
    case DT_OP_CAST:
    case DT_OP_STOP: return x;
    case DT_OP_CONST: return op->number == 0 ? ZERO : ANYTHING;
    case DT_OP_NEG:
    case DT_OP_DIV: return x == ZERO ? ZERO : ANYTHING;
    case DT_OP_EXP: return x == LOWEST ? ZERO : ANYTHING;
    case DT_OP_MUL: return x == ZERO || y == ZERO ? ZERO : ANYTHING;
    case DT_OP_SUB:
        if (x == LOWEST) /* minus infinity, or nearly: subtraction leaves it so, unless the second
                          * operand has keys and may be infinite */
            return has(op->in[1], f->keys) ? ANYTHING : LOWEST;
        return x == ZERO && y == ZERO ? ZERO : ANYTHING;
    case DT_OP_ADD: return x == ZERO && y == ZERO ? ZERO : ANYTHING;
    default: return ANYTHING;
    }
}

/* Whether the op gives the same result without hidden scores. It works along keys, or sums queries
 * into keys. */
static bool leaves_out(const Follow *f, const DtOp *op)
{
    bool over = false;
    for (uint32_t i = 0; i < op->n_relabels; i++)
        for (uint32_t k = 0; k < op->relabels[i].n_from; k++)
            if (op->relabels[i].from[k] == f->keys)
                return false;
    for (uint32_t i = 0; i < op->n_axes && op->kind != DT_OP_IOTA; i++)
        over = over || op->axes[i] == f->keys ||
               (op->axes[i] == f->queries && op->n_out == 1 && has(op->out[0], f->keys));
    if (!over)
        return true;
    const Hidden x = f->hidden[op->in[0]->id];
    if (op->kind == DT_OP_DOT)
        return x == ZERO || f->hidden[op->in[1]->id] == ZERO;
    return op->kind == DT_OP_REDUCE && ((op->reduce == DT_REDUCE_MAX && x == LOWEST) ||
                                        (op->reduce == DT_REDUCE_SUM && x == ZERO));
}

/* Whether all ops of the function give the same results without the hidden scores. outputs: by op
 * position, whether the op's result leaves the block; hidden elements must be zeros there. */
static bool hides_from_all(Follow *f, const bool *outputs)
{
    for (uint32_t i = 0; i < f->func->ops.n; i++) {
        const DtOp *op = f->func->ops.at[i];
        if (!leaves_out(f, op))
            return false;
        for (uint32_t k = 0; k < op->n_out; k++)
            f->hidden[op->out[k]->id] = of_op(f, op);
        if (!outputs[i] || op->kind == DT_OP_DOT || !has(op->out[0], f->keys))
            continue;
        if (f->hidden[op->kind == DT_OP_REDUCE ? op->in[0]->id : op->out[0]->id] != ZERO)
            return false;
    }
    return true;
}

bool dt_mask_hides(DtEmit *e, const DtFunc *func, const DtOp *where, const char *queries,
                   const char *keys, const bool *outputs)
{
    if (where->kind != DT_OP_WHERE ||
        !(is_number(where->in[2], -INFINITY) || is_number(where->in[2], 0)))
        return false;
    Follow follow = {func, where->in[0], queries, keys,
                     DT_NEW_ARRAY(e->scratch, Hidden, func->n_values + 1)};
    return hides_from_all(&follow, outputs);
}
