/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the contractions of a function: 2 for each multiply and add. Contractions that a
 * backward function only recomputes (the scores, in attention) are not counted: of each contraction
 * of the forward function, the backward function has at most two that count. */
#include "ir/ir.h"

static double flops_of(const DtOp *op)
{
    double flops = 2 * (double)dt_type_elements(op->out[0]->type);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const int axis = dt_type_find(op->in[0]->type, op->axes[i]);
        flops *= axis < 0 ? 1 : (double)op->in[0]->type->axes[axis].extent;
    }
    return flops;
}

static double called_flops(const DtFunc *func)
{
    const double flops = dt_func_flops(func);
    const DtFunc *forward = func->primal && func->seeds.n ? func->primal->fwd : NULL;
    const double most = forward ? 2 * dt_func_flops(forward) : flops;
    return flops < most ? flops : most;
}

double dt_func_flops(const DtFunc *func)
{
    double flops = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_DOT)
            flops += flops_of(op);
        if (op->func)
            flops +=
                called_flops(op->func) * (op->kind == DT_OP_LOOP ? (double)op->loop->count : 1);
    }
    return flops;
}
