/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of ops.def that every layer needs. */
#include "ir/ir.h"

#include <string.h>

enum { NO = 0, FIRST = 1, ALL = UINT8_MAX, BRANCHES = ALL - FIRST };
enum { VIEW = DT_DATA_VIEW, MOVE = DT_DATA_MOVE, MAKE = DT_DATA_MAKE };
enum { CHEAP = DT_TRAIT_CHEAP, ZERO = DT_TRAIT_ZERO, OWN = DT_TRAIT_OWN, DEAR = DT_TRAIT_DEAR,
       LOWERED = DT_TRAIT_LOWERED };

const DtOpInfo dt_op_info[DT_OP_COUNT] = {
#define DT_OP(NAME, text, inputs, class, shape, gradient, interpret, linear, data, traits) \
    [DT_OP_##NAME] = {text, inputs, DT_CLASS_##class, linear, data, traits},
#include "ops.def"
#undef DT_OP
};

bool dt_op_is_linear(const DtOp *op, uint32_t operand)
{
    const uint8_t linear = dt_op_info[op->kind].linear;
    if (linear != ALL && !(linear >> (operand < 7 ? operand : 7) & 1))
        return false;
    switch (op->kind) {
    case DT_OP_PAD:
    case DT_OP_WINDOW: return op->number == 0;
    case DT_OP_REDUCE:
    case DT_OP_ALL_REDUCE:
    case DT_OP_REDUCE_SCATTER: return op->reduce == DT_REDUCE_SUM;
    case DT_OP_CAST:
        return dt_dtype_is_float(op->in[0]->type->dtype) &&
               dt_dtype_is_float(op->out[0]->type->dtype);
    default: return true;
    }
}

bool dt_op_is_joint(const DtOp *op, uint32_t operand)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_in; i++)
        n += dt_op_is_linear(op, i);
    return n > 1 && dt_op_is_linear(op, operand) && op->kind != DT_OP_MUL && op->kind != DT_OP_DOT;
}

bool dt_op_keeps_zero(const DtOp *op)
{
    return dt_op_info[op->kind].traits & DT_TRAIT_ZERO &&
           (op->kind != DT_OP_REDUCE || op->reduce == DT_REDUCE_SUM);
}

bool dt_op_is_one_hot(const DtOp *op) { return op->kind == DT_OP_SCATTER_ADD && op->n_axes2 == 0; }

bool dt_op_has_axis(const DtOp *op, const char *axis)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == axis)
            return true;
    return false;
}

/* each value is visited once: otherwise values that use one another twice would take exponential
 * time */
bool dt_op_is_inline(const DtValue *value)
{
    const DtOp *op = value->op;
    if (!op)
        return false;
    if (op->kind == DT_OP_CONST || op->kind == DT_OP_IOTA)
        return true;
    if (op->kind == DT_OP_RNG) /* pass `fuse` decides about draws; other sources are cheap */
        return value->made_anew == 2;
    if (!dt_op_is_pointwise(op->kind))
        return false;
    bool is = value->made_anew != 1;
    for (uint32_t i = 0; is && value->made_anew == 0 && i < op->n_in; i++)
        is = dt_op_is_inline(op->in[i]);
    ((DtValue *)(uintptr_t)value)->made_anew = is ? 2 : 1;
    return is;
}

bool dt_op_is_product(const DtOp *op) { return op->kind == DT_OP_FUSED && op->text; }

bool dt_op_adds(const DtOp *product, uint32_t operand)
{
    const DtFunc *func = product->func;
    bool adds = strcmp(product->text, "add") == 0 || strcmp(product->text, "bias_add") == 0;
    for (uint32_t i = 0; adds && i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            if (func->ops.at[i]->kind == DT_OP_DOT &&
                func->ops.at[i]->in[k] == func->inputs.at[operand])
                adds = false;
    return adds;
}

const DtValue *dt_op_viewed(const DtValue *value)
{
    while (value->op && value->op->n_in == 1 && dt_op_info[value->op->kind].data == DT_DATA_VIEW &&
           value->op->kind != DT_OP_DONE) /* a `done` is the only reader of a started op */
        value = value->op->in[0];
    return value;
}

uint32_t dt_op_slot(const DtOp *op, uint32_t out)
{
    const DtValue *over = op->out[out]->over;
    for (uint32_t i = op->loop->n_carried + op->loop->n_invariant; over && i < op->n_in; i++)
        if (op->in[i] == over)
            return 1 + i;
    return 0;
}

/* Returns the op that makes the value or, if a loop stacks it, the op that makes its slice in each
 * iteration; NULL: there is none. */
static const DtOp *stacked_by(const DtValue *value)
{
    const DtOp *op = value->op;
    if (!op || op->kind != DT_OP_LOOP)
        return op;
    const bool stacked = op->loop && op->func && value->index >= op->loop->n_carried;
    const DtValue *result =
        stacked && value->index < op->func->results.n ? op->func->results.at[value->index] : NULL;
    return result ? result->op : NULL;
}

bool dt_op_is_started(const DtValue *value)
{
    const DtOp *op = stacked_by(value);
    return op && op->starts;
}

const DtOp *dt_op_late(const DtValue *value)
{
    const DtOp *op = stacked_by(value);
    return op && op->late ? op : NULL;
}

const DtValue *dt_op_copied(const DtValue *value)
{
    while (value->op && value->op->kind == DT_OP_COPY)
        value = value->op->in[0];
    return value;
}

const DtValue *dt_op_made(const DtValue *value)
{
    const bool is_fused = value->op && value->op->kind == DT_OP_FUSED;
    return is_fused ? value->op->func->results.at[value->index] : value;
}

bool dt_op_reads_elsewhere(const DtOp *op, uint32_t operand)
{
    return (dt_op_info[op->kind].op_class == DT_CLASS_AXIS && op->kind != DT_OP_EXPAND) ||
           (op->kind == DT_OP_GATHER && operand == 0);
}
