/* SPDX-License-Identifier: Apache-2.0 */
/* The number of the value in an earlier program that a value must equal. Passes move, copy and
 * cut values, but leave the number alone, and whoever compares both programs finds the other
 * value by it. The number is not trusted: verify/cert_step.c checks that the op computes that
 * value from its operands. */
#include "ir/ir.h"

static uint32_t number_func(const DtFunc *func, uint32_t next)
{
    next += func->inputs.n;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool named =
            dt_op_info[op->kind].op_class != DT_CLASS_SOURCE && op->kind != DT_OP_LOOP;
        for (uint32_t k = 0; k < op->n_out; k++)
            op->out[k]->means = named ? next + k : 0;
        next += op->n_out;
    }
    return next;
}

static void number_carried(const DtFunc *func, const DtModule *module, const uint32_t *first)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        uint32_t f = 0;
        while (op->kind == DT_OP_LOOP && module->funcs.at[f] != op->func)
            f++;
        for (uint32_t k = 1; op->kind == DT_OP_LOOP && k <= op->loop->n_carried; k++)
            op->func->inputs.at[k]->means = first[f] + k;
    }
}

void dt_means_begin(DtModule *module)
{
    uint32_t *first = DT_NEW_ARRAY(module->arena, uint32_t, module->funcs.n + 1), next = 1;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        first[i] = next;
        next = number_func(module->funcs.at[i], next);
    }
    for (uint32_t i = 0; i < module->funcs.n; i++)
        number_carried(module->funcs.at[i], module, first);
}
