/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules: the entry points, which find an op's rule in the table. Rules are in shape_map.c
 * (with sources), shape_axis.c, shape_contract.c, shape_struct.c, shape_pack.c and shape_ringbuf.c;
 * what they share is in shape_type.c. */
#include "ir/shape.h"

static bool (*const rules[DT_OP_COUNT])(DtShape *s) = {
#define DT_OP(NAME, text, inputs, class, shape, ...) [DT_OP_##NAME] = dt_shape_##shape,
#include "ops.def"
#undef DT_OP
};

/* ---- entry points ---- */

uint32_t dt_shape_results(const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_FUSED:
    case DT_OP_WHEN:
    case DT_OP_CALL: return op->func ? op->func->results.n : 0;
    case DT_OP_LOOP: return op->loop ? op->loop->n_carried + op->loop->n_stacked_out : 0;
    case DT_OP_TOPK: return 2;
    default: return 1;
    }
}

uint32_t dt_shape_ranges(const DtOp *op)
{
    const bool one = op->kind == DT_OP_WINDOW || op->kind == DT_OP_FOLD || op->kind == DT_OP_WHEN;
    return one ? 1 : op->n_axes;
}

static const char *run(const DtOp *op, const DtMesh *mesh, const DtType *const *wish, bool loose,
                       const DtType **ret_types)
{
    static char reason[1000];
    DtShape s = {.op = op, .mesh = mesh, .wish = wish, .loose = loose, .out = ret_types};
    int inputs = dt_op_info[op->kind].inputs;
    bool ok = inputs < 0 || (uint32_t)inputs == op->n_in;
    if (!ok)
        dt_shape_fail(&s, "`%s` takes %d operands and got %u", dt_op_info[op->kind].text, inputs,
                      op->n_in);
    else
        ok = rules[op->kind](&s);
    if (!ok)
        snprintf(reason, sizeof reason, "%s",
                 s.reason.at ? s.reason.at : "the op is not well formed");
    dt_text_free(&s.reason);
    return ok ? NULL : reason;
}

const char *dt_shape_check(const DtOp *op, const DtMesh *mesh, const DtType *const *wish,
                           const DtType **ret_types)
{
    return run(op, mesh, wish, false, ret_types);
}

const char *dt_shape_derive(const DtOp *op, const DtMesh *mesh, const DtType *const *wish,
                            const DtType **ret_types)
{
    return run(op, mesh, wish, true, ret_types);
}
