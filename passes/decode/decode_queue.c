/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts numbers the tokens of each expert along the positions, and puts each into
 * the slot of its number:
 *
 *   g, e  = topk[route, choice](..)
 *   place = cumsum[seq, choice](onehot[route](e))[route = e] - 1
 *   taken = scatter[seq, choice](x, experts = e, slot = place)     the work of experts follows
 *   out   = y[experts = e, slot = place]
 *
 * What an expert makes of a token does not depend on the slot, so the new positions may be numbered
 * by themselves: no state is needed, and `slot` shrinks to the number of new positions. That holds
 * if no token is ever dropped (an expert has a slot for each position, and a token takes different
 * experts), if nothing but this scatter and such gathers reads a place, and if nothing mixes slots,
 * or experts: others have other tokens in the same slot. */
#include "passes/decode/decode.h"

static const DtOp *made_by(const DtValue *value, DtOpKind kind)
{
    return value->op && value->op->kind == kind ? value->op : NULL;
}

/* The indices `e` of the one-hot value; NULL: it is none. */
static const DtValue *one_hot(const DtValue *value, const char **ret_route)
{
    const DtOp *cast = made_by(value, DT_OP_CAST);
    const DtOp *eq = cast ? made_by(cast->in[0], DT_OP_EQ) : NULL;
    for (uint32_t i = 0; eq && i < 2; i++) {
        const DtOp *iota = made_by(eq->in[i], DT_OP_IOTA);
        if (iota && dt_type_find(eq->in[1 - i]->type, iota->axes[0]) < 0) {
            *ret_route = iota->axes[0];
            return eq->in[1 - i];
        }
    }
    return NULL;
}

/* The only op of the function that reads the value; NULL: there is none, or several. */
static const DtOp *only_reader(const DtFunc *func, const DtValue *value)
{
    const DtOp *reader = NULL;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            if (func->ops.at[i]->in[k] == value)
                reader = func->ops.at[i];
    return dt_graph_reads(func, value) == 1 ? reader : NULL;
}

static bool has(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

/* The place of each token, given its count: count[route = e] - 1. */
static const DtValue *place_of(const DtFunc *func, const DtOp *scan, const DtValue *e,
                               const char *route)
{
    const DtOp *gather = only_reader(func, scan->out[0]);
    if (!gather || gather->kind != DT_OP_GATHER || gather->n_axes != 1 ||
        gather->axes[0] != route || gather->in[0] != scan->out[0] || gather->in[1] != e)
        return NULL;
    const DtOp *sub = only_reader(func, gather->out[0]);
    const DtOp *one = sub && sub->kind == DT_OP_SUB ? made_by(sub->in[1], DT_OP_CONST) : NULL;
    return one && one->number == 1 && sub->in[0] == gather->out[0] ? sub->out[0] : NULL;
}

/* Whether the op only moves tokens to slots, or back; sets the axis of slots. */
static bool moves(const DtDecode *d, const DtOp *op, const DtValue *e, const DtValue *place,
                  const char *choice, const char **slot)
{
    const bool puts = op->kind == DT_OP_SCATTER_ADD;
    if ((!puts && op->kind != DT_OP_GATHER) || op->n_axes != 2 || op->in[1] != e ||
        op->in[2] != place || (*slot && op->axes[1] != *slot))
        return false;
    *slot = op->axes[1];
    if (puts && (op->n_axes2 != 2 || !has(op->axes2, 2, d->time) || !has(op->axes2, 2, choice)))
        return false;
    return dt_type_extent(puts ? op->out[0]->type : op->in[0]->type, *slot) >= d->seq;
}

bool dt_decode_is_queue(DtDecode *d, const DtFunc *func, const DtOp *scan)
{
    const char *route = NULL, *slot = NULL;
    const DtValue *e = one_hot(scan->in[0], &route);
    const DtOp *topk = e ? made_by(e, DT_OP_TOPK) : NULL;
    if (!topk || topk->axes[0] != route || scan->n_axes != 2 || scan->axes[0] != d->time ||
        scan->axes[1] != topk->axes[1] || scan->reverse)
        return false;
    const DtValue *place = place_of(func, scan, e, route);
    if (!place)
        return false;
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == place)
            return false;
    bool good = true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            good = good && (op->in[k] != place || moves(d, op, e, place, scan->axes[1], &slot));
    }
    for (uint32_t i = 0; good && slot && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            if (op->in[k] == place) {
                dt_map_add_pointer(&d->moves, op, (void *)(uintptr_t)op);
                DT_PUSH(d->module->arena, d->slots, ((DtDecodeSlots){op->axes[0], slot}));
            }
    }
    return good && slot;
}

bool dt_decode_is_slot(const DtDecode *d, const char *axis)
{
    for (uint32_t i = 0; i < d->slots.n; i++)
        if (d->slots.at[i].slot == axis)
            return true;
    return false;
}
