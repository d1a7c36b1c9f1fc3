/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that a `concat` holds (pass `memory`) are computed at their place in the result, also
 * through renames of either, so nothing is copied. The other operands are copied; if all are,
 * one kernel does it. */
#include "codegen/emit.h"

#include "base/bug.h"

/* Returns the place of operand i within the place of the whole concatenation. */
static DtPlace part_of(const DtEmit *e, const DtOp *op, uint32_t i, const DtPlace *whole)
{
    DtPlace part = *whole;
    dt_view_part(op, i, &e->module->mesh, &part.view);
    return part;
}

/* Records `place` as the memory where the op of `value` shall write it. If renames make the value,
 * the op before all of them shall write there, in its own order of axes. */
static void give(DtEmit *e, const DtValue *value, const DtPlace *place)
{
    DtWanted *wanted = DT_NEW(e->scratch, DtWanted);
    *wanted = (DtWanted){.set = true, .place = *place};
    for (; value->op->kind == DT_OP_RELABEL; value = value->op->in[0])
        if (!dt_view_behind(value->op, &e->module->mesh, &wanted->place.view))
            DT_BUG("a renamed part of `%s` lies nowhere", e->scope->func->name);
    e->scope->wanted[value->id] = wanted;
}

/* Last concats first: a concatenation may be part of another one. */
void dt_concat_claim(DtEmit *e)
{
    const DtFunc *func = e->scope->func;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        if (!op->holds || (op->kind != DT_OP_CONCAT && op->kind != DT_OP_RELABEL))
            continue;
        const DtWanted *wanted = e->scope->wanted[op->out[0]->id];
        const bool direct = wanted && !wanted->old && !wanted->accumulate && !wanted->packed;
        if (op->kind == DT_OP_RELABEL) {
            if (direct) /* else a later concat that contains the renamed value places it */
                give(e, op->out[0], &wanted->place);
            continue;
        }
        const DtPlace whole = direct ? wanted->place : dt_place_own(e, op->out[0]);
        for (uint32_t k = 0; k < op->n_in; k++) {
            const DtPlace part = part_of(e, op, k, &whole);
            if (op->holds[k])
                give(e, op->in[k], &part);
        }
        dt_place_set(e, op->out[0], whole);
    }
}

bool dt_concat_emit(DtEmit *e, const DtOp *op)
{
    const DtPlace *claimed = op->kind == DT_OP_CONCAT ? dt_place_find(e, op->out[0]) : NULL;
    if (!claimed)
        return false;
    const DtPlace whole = *claimed;
    const DtWanted **wanted = &e->scope->wanted[op->out[0]->id];
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtPlace place = part_of(e, op, i, &whole), *at = dt_place_find(e, op->in[i]);
        if (!at || !dt_place_same(at, &place))
            dt_copy_value(e, op->in[i], &place, false);
    }
    if (*wanted && dt_place_same(&whole, &(*wanted)->place))
        *wanted = NULL;
    return true;
}
