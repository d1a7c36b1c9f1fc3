/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of values: any order of axes into any other, and values that kernels recompute into
 * memory. */
#include "codegen/emit.h"

#include "base/bug.h"

/* Copies a value to a place, through a kernel; a dense value to a dense place of equal order is a
 * plain copy. A value stored in a wider dtype than its own is rounded on the way. */
void dt_copy_value(DtEmit *e, DtValue *value, const DtPlace *to, bool accumulate)
{
    DtPlace *from = dt_place_find(e, value);
    if (from && dt_place_same(from, to) && !accumulate)
        return;
    bool wide = from && from->view.dtype != value->type->dtype; /* sums are kept in f32 */
    if (from && !accumulate && !wide && dt_place_is_dense(from, value->type, &e->module->mesh) &&
        dt_place_is_dense(to, value->type, &e->module->mesh)) {
        DtEArg args[2] = {dt_place_arg(e, to, true), dt_place_arg(e, from, false)};
        dt_inst_add(e, DT_INST_COPY, 0, 2, args, dt_op_made(value)->op);
        e->items.at[e->items.n - 1].inst.count = args[0].bytes;
        dt_note_do(e, NULL, 0);
        dt_note_write(e, value, to, 0);
        dt_note_read(e, value);
        return;
    }
    if (!from && !dt_op_is_inline(value) && value->op)
        DT_BUG("value %u of `%s` was never computed", value->id, e->scope->func->name);
    DtOp *op = DT_NEW(e->arena, DtOp);
    DtValue *copy = DT_NEW(e->arena, DtValue);
    *copy = (DtValue){.type = value->type, .op = op, .name = value->name};
    *op = (DtOp){.kind = wide ? DT_OP_CAST : DT_OP_EXPAND,
                 .n_in = 1,
                 .n_out = 1,
                 .in = DT_NEW(e->arena, DtValue *),
                 .out = DT_NEW(e->arena, DtValue *)};
    op->in[0] = value;
    op->out[0] = copy;
    if (wide) {
        op->in[0] = DT_NEW(e->arena, DtValue);
        *op->in[0] = *value; /* the same id: found in the same place */
        op->in[0]->type = dt_type_with_dtype(value->type, from->view.dtype);
    }
    if (value->op)
        op->span = dt_op_made(value)->op->span, op->path = dt_op_made(value)->op->path;
    DtOutput output = {.value = copy, .place = *to, .accumulate = accumulate};
    const DtOp *ops[1] = {op};
    e->copied = value;
    const bool done = dt_launch_kernel(e, ops, 1, &output, 1);
    e->copied = NULL;
    if (!done)
        DT_BUG("a copy of value %u of `%s` would overwrite what it reads", value->id,
               e->scope->func->name);
}

DtPlace *dt_copy_require(DtEmit *e, DtValue *value)
{
    if (!e->scope->func->fused && !dt_place_find(e, value))
        DT_BUG("value %u of `%s` is read from memory and lies nowhere", value->id,
               e->scope->func->name);
    return dt_copy_settle(e, value);
}

DtPlace *dt_copy_settle(DtEmit *e, DtValue *value)
{
    DtPlace *place = dt_place_find(e, value);
    if (place)
        return place;
    DtPlace to = dt_place_temporary(e, value->type, value->name);
    dt_copy_value(e, value, &to, false);
    dt_place_set(e, value, to);
    return dt_place_find(e, value);
}
