/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels and products make only to be joined by a `concat` is written where it belongs in the result, also if it
 * is renamed in between, or the result is: nothing is copied. So are the halves of a rotary embedding and a U-net's
 * skips. Parts that somebody else makes or reads are copied, and where all of them are, one kernel does it. */
#include "codegen/emit.h"

#include <string.h>

/* Where part i of the joined value lies. */
static DtPlace part_of(const DtEmit *e, const DtOp *op, uint32_t i, const DtPlace *whole)
{
    DtPlace part = *whole;
    int64_t before = 0;
    const int axis = dt_type_find(op->out[0]->type, op->axes[0]);
    for (uint32_t k = 0; k < i; k++)
        before += dt_type_local_extent(op->in[k]->type, (uint32_t)axis, &e->module->mesh);
    for (uint32_t d = 0; d < part.view.rank; d++)
        if (part.view.axis[d] == op->axes[0]) {
            part.view.offset += before * part.view.stride[d];
            part.view.extent[d] = dt_type_local_extent(op->in[i]->type, (uint32_t)axis, &e->module->mesh);
        }
    return part;
}

/* Whether neighbours in memory are neighbours in the part: a library writes matrices so. */
static bool has_unit_stride(const DtPlace *place)
{
    for (uint32_t d = 0; d < place->view.rank; d++)
        if (place->view.extent[d] > 1 && place->view.stride[d] == 1)
            return true;
    return false;
}

/* Where the operand of a relabel lies if the result lies at `place`. */
static bool behind_relabel(DtEmit *e, const DtOp *op, const DtPlace *place, DtPlace *ret_place)
{
    DtRelabel *back = DT_NEW_ARRAY(e->scratch, DtRelabel, op->n_relabels + 1);
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const DtRelabel *there = &op->relabels[i];
        back[i].n_from = there->n_to;
        back[i].n_to = there->n_from;
        memcpy(back[i].from, there->to, sizeof back[i].from);
        memcpy(back[i].to, there->from, sizeof back[i].to);
    }
    const DtOp inverse = {
        .kind = DT_OP_RELABEL, .out = op->in, .n_out = 1, .relabels = back, .n_relabels = op->n_relabels};
    DtPlace there;
    return dt_place_view_of(e, &inverse, place, ret_place) && dt_place_view_of(e, op, ret_place, &there) &&
           dt_place_same(&there, place);
}

static bool is_result(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return true;
    return false;
}

/* What makes value is to write it at `place`, through renames; false: it cannot. wish: it is told so. */
static bool claim(DtEmit *e, const DtValue *value, const DtPlace *place, bool wish)
{
    const DtOp *by = value->op;
    DtPlace behind;
    if (!by || dt_op_is_inline(value) || e->scope->wanted[value->id] || dt_scope_reads(e, value) != 1 ||
        is_result(e->scope->func, value))
        return false;
    if (by->kind == DT_OP_RELABEL)
        return behind_relabel(e, by, place, &behind) && claim(e, by->in[0], &behind, wish);
    const bool is_map = dt_op_is_pointwise(by->kind) && dt_op_info[by->kind].data != DT_DATA_VIEW;
    if (by->kind == DT_OP_DOT ? !has_unit_stride(place)
                              : by->kind != DT_OP_FUSED && by->kind != DT_OP_REDUCE && by->kind != DT_OP_CONCAT &&
                                    (!is_map || by->kind == DT_OP_EXPAND))
        return false;
    if (wish) {
        DtWanted *wanted = DT_NEW(e->scratch, DtWanted);
        *wanted = (DtWanted){.set = true, .place = *place};
        e->scope->wanted[value->id] = wanted;
    }
    return true;
}

static bool claim_parts(DtEmit *e, const DtOp *op, const DtPlace *whole, bool wish)
{
    bool some = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtPlace place = part_of(e, op, i, whole);
        some = claim(e, op->in[i], &place, wish) || some;
    }
    return some;
}

/* Last ones first: what is joined may be joined again. */
void dt_concat_claim(DtEmit *e)
{
    const DtFunc *func = e->scope->func;
    for (uint32_t i = func->ops.n; !e->options->unfused && i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        const bool is_concat = op->kind == DT_OP_CONCAT;
        if ((!is_concat && op->kind != DT_OP_RELABEL) || dt_op_is_inline(op->out[0]))
            continue;
        const DtWanted *wanted = e->scope->wanted[op->out[0]->id];
        const bool direct = wanted && !wanted->old && !wanted->accumulate && !wanted->packed;
        DtPlace whole = direct ? wanted->place : dt_place_dense(e, op->out[0]->type, 0), behind;
        if (!is_concat && direct && behind_relabel(e, op, &whole, &behind))
            claim(e, op->in[0], &behind, true);
        if (!is_concat || !claim_parts(e, op, &whole, false))
            continue;
        if (!direct)
            whole = dt_place_own(e, op->out[0]);
        claim_parts(e, op, &whole, true);
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
