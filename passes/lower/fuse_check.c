/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that kernels compute what the function did, op by op. The certificate of the plan
 * proves which ops of the program before this pass an instruction stands for, and what they
 * read, but not what is in the kernel. So each op in a kernel, moved or recomputed, must have
 * the kind and the operands of the op whose number it has (DtValue.final). */
#include "base/bug.h"
#include "passes/lower/fuse.h"

struct DtFuseRecord {
    uint32_t n; /* values of the function */
    struct DtFuseRow {
        const DtOp *op;
        DtOpKind kind;
        uint32_t n_in, *in; /* numbers of its operands (DtValue.final) */
    } *rows; /* by DtValue.final of an op's first result */
};

/* A function's inputs are numbered first; then the results of its kernels. */
static uint32_t number_of(const DtValue *value)
{
    while (value->op && value->op->kind == DT_OP_FUSED)
        value = value->op->func->results.at[value->index];
    return value->op ? value->final : 1 + value->index;
}

DtFuseRecord *dt_fuse_record(const DtFunc *func, DtArena *arena)
{
    DtFuseRecord *record = DT_NEW(arena, DtFuseRecord);
    record->n = func->inputs.n + 1;
    for (uint32_t i = 0; i < func->ops.n; i++)
        record->n += func->ops.at[i]->n_out;
    record->rows = DT_NEW_ARRAY(arena, struct DtFuseRow, record->n);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->n_out == 0)
            continue;
        struct DtFuseRow *row = &record->rows[op->out[0]->final];
        *row = (struct DtFuseRow){.op = op, .kind = op->kind, .n_in = op->n_in};
        row->in = DT_NEW_ARRAY(arena, uint32_t, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            row->in[k] = number_of(op->in[k]);
    }
    return record;
}

/* fused: the op whose function contains `op`; NULL: op is in no kernel */
static void check_op(const DtFuseRecord *record, const DtOp *op, const DtOp *fused)
{
    const uint32_t number = op->n_out ? op->out[0]->final : 0;
    const struct DtFuseRow *row = number && number < record->n ? &record->rows[number] : NULL;
    if (op->n_out == 0)
        return;
    if (!row || !row->op || row->kind != op->kind || row->n_in != op->n_in ||
        (row->op != op && (row->op->number != op->number || row->op->text != op->text)))
        DT_BUG("`fuse` made a `%s` of the op that makes value %u", dt_op_info[op->kind].text,
               number - 1);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtValue *in = op->in[i];
        if (number_of(in->op || !fused ? in : fused->in[in->index]) != row->in[i])
            DT_BUG("behind `fuse` operand %u of value %u is another one", i, number - 1);
    }
}

void dt_fuse_check(const DtFuseRecord *record, const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_FUSED)
            check_op(record, op, NULL);
        for (uint32_t k = 0; op->kind == DT_OP_FUSED && k < op->func->ops.n; k++)
            check_op(record, op->func->ops.at[k], op);
    }
}
