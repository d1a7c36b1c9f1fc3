/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer step as scalar expressions; the formulas are those of DtUpdate in ir/ir.h. */
#include "codegen/kernel_internal.h"

static uint32_t two(DtKBuild *b, DtOpKind kind, uint32_t x, uint32_t y)
{
    return dt_kernel_map(b, kind, DT_F32, 2, (uint32_t[]){x, y});
}

static uint32_t scaled(DtKBuild *b, double factor, uint32_t x)
{
    return two(b, DT_OP_MUL, dt_kernel_number(b, DT_F32, factor), x);
}

static uint32_t adamw(DtKBuild *b, const DtOp *op, uint32_t result)
{
    const DtUpdate *u = op->update;
    uint32_t p = dt_kernel_value(b, op->in[0]);
    uint32_t g = two(b, DT_OP_MUL, dt_kernel_value(b, op->in[1]), dt_kernel_value(b, op->in[5]));
    uint32_t m = two(b, DT_OP_ADD, scaled(b, u->beta1, dt_kernel_value(b, op->in[2])), scaled(b, 1 - u->beta1, g));
    uint32_t v = two(b, DT_OP_ADD, scaled(b, u->beta2, dt_kernel_value(b, op->in[3])),
                     scaled(b, 1 - u->beta2, two(b, DT_OP_MUL, g, g)));
    if (result == 1)
        return m;
    if (result == 2)
        return v;
    uint32_t root = two(b, DT_OP_MUL, v, dt_kernel_value(b, op->in[7]));
    root = dt_kernel_map(b, DT_OP_SQRT, DT_F32, 1, &root);
    uint32_t step = two(b, DT_OP_DIV, two(b, DT_OP_MUL, m, dt_kernel_value(b, op->in[6])),
                        two(b, DT_OP_ADD, root, dt_kernel_number(b, DT_F32, u->eps)));
    if (u->decay != 0)
        step = two(b, DT_OP_ADD, step, scaled(b, u->decay, p));
    return two(b, DT_OP_SUB, p, two(b, DT_OP_MUL, dt_kernel_value(b, op->in[4]), step));
}

static uint32_t sgd(DtKBuild *b, const DtOp *op, uint32_t result)
{
    const DtUpdate *u = op->update;
    bool momentum = u->momentum != 0;
    uint32_t rate = momentum ? 3 : 2;
    uint32_t p = dt_kernel_value(b, op->in[0]);
    uint32_t g = two(b, DT_OP_MUL, dt_kernel_value(b, op->in[1]), dt_kernel_value(b, op->in[rate + 1]));
    if (u->decay != 0)
        g = two(b, DT_OP_ADD, g, scaled(b, u->decay, p));
    if (momentum)
        g = two(b, DT_OP_ADD, scaled(b, u->momentum, dt_kernel_value(b, op->in[2])), g);
    if (result == 1)
        return g;
    return two(b, DT_OP_SUB, p, two(b, DT_OP_MUL, dt_kernel_value(b, op->in[rate]), g));
}

uint32_t dt_kernel_update(DtKBuild *b, const DtOp *op, uint32_t result)
{
    return op->update->kind == DT_UPDATE_ADAMW ? adamw(b, op, result) : sgd(b, op, result);
}
