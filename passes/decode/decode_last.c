/* SPDX-License-Identifier: Apache-2.0 */
/* The model's result at one position of each row: the last one that is meant. It is chosen as early
 * as possible, before the norm and the product that make logits, so that these are computed once
 * for each row. */
#include "passes/decode/decode.h"

/* Whether an element of the result depends on operands at the same new position only. */
static bool is_local(const DtDecode *d, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == d->fresh)
            return false;
    for (uint32_t i = 0; i < op->n_relabels; i++)
        for (uint32_t k = 0; k < op->relabels[i].n_from + op->relabels[i].n_to; k++) {
            const DtRelabel *r = &op->relabels[i];
            if ((k < r->n_from ? r->from[k] : r->to[k - r->n_from]) == d->fresh)
                return false;
        }
    return op->n_out == 1 &&
           ((dt_op_is_pointwise(op->kind) && op->kind != DT_OP_EXPAND) ||
            op->kind == DT_OP_RELABEL || op->kind == DT_OP_DOT || op->kind == DT_OP_REDUCE ||
            op->kind == DT_OP_SLICE);
}

static DtValue *choose(DtDecode *d, DtValue *value)
{
    DtBuilder *b = &d->top->b;
    if (d->is_decode) {
        const DtRelabel drop = {.n_from = 1, .from = {d->fresh}};
        return dt_graph_relabel(b, value, 1, &drop, NULL);
    }
    DtValue *one = dt_graph_constant(b, DT_I32, 1);
    DtValue *last = dt_graph_binary(b, DT_OP_SUB, dt_decode_count(d, d->top), one);
    /* a kernel gathers from memory only, and makes an iota anew */
    if (value->op && value->op->kind == DT_OP_IOTA)
        return last;
    return dt_graph_gather(b, value, 1, &d->fresh, &last);
}

static DtValue *last_of(DtDecode *d, DtMap *done, DtValue *value)
{
    if (dt_type_find(value->type, d->fresh) < 0)
        return value;
    DtValue *made = dt_map_find_pointer(done, value);
    if (made)
        return made;
    const DtOp *op = value->op;
    if (op && is_local(d, op)) {
        DtValue *in[3];
        for (uint32_t i = 0; i < op->n_in; i++)
            in[i] = last_of(d, done, op->in[i]);
        d->top->b.span = op->span;
        d->top->b.path = op->path;
        made = dt_graph_copy(&d->top->b, op, in)->out[0];
    } else {
        made = choose(d, value);
    }
    dt_map_add_pointer(done, value, made);
    return made;
}

DtValue *dt_decode_last(DtDecode *d, DtValue *value)
{
    DtMap done = {.arena = d->module->arena};
    const DtType *type = value->type;
    DtValue *last = last_of(d, &done, value);
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name == d->rows)
            axes[n++] = type->axes[i];
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name != d->rows && type->axes[i].name != d->fresh)
            axes[n++] = type->axes[i];
    last = dt_graph_reorder(&d->top->b, last, dt_type_plain(type->dtype, n, axes));
    return dt_graph_cast(&d->top->b, last, DT_F32);
}
