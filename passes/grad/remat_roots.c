/* SPDX-License-Identifier: Apache-2.0 */
/* Saves results of products instead of values that kernels compute from them, as in u = x @embed
 * w + b, saved for the derivative of gelu. If only kernels read u, forward and backward, u need
 * not be in memory: the product is there anyway, and is saved instead; the backward part adds
 * the bias again. A value that a product or a call reads is in memory anyway, and is saved as it
 * is. If the target's library adds the bias, only u is in memory, and it is saved. One function
 * alone cannot decide that (saved.c): the sum is made in one, `linear`, and read in another. */
#include "passes/grad/remat.h"

static double bytes_of(const DtValue *value)
{
    return (double)dt_type_elements(value->type) * (double)dt_dtype_size(value->type->dtype);
}

bool dt_remat_read_by_kernels(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++) {
            const DtOp *op = func->ops.at[i];
            if (op->in[k] != value)
                continue;
            const bool is_view = dt_op_info[op->kind].data == DT_DATA_VIEW;
            const bool is_kernel = dt_op_is_pointwise(op->kind) || op->kind == DT_OP_REDUCE;
            if (is_view ? !dt_remat_read_by_kernels(func, op->out[0]) : !is_kernel)
                return false;
        }
    return true;
}

/* Whether the value is read by kernels and the backward part alone, so that nothing else needs it
 * in memory. */
static bool is_saved_only(const DtFunc *body, const DtLoop *loop, const DtValue *value)
{
    for (uint32_t i = 0; i < loop->n_carried; i++)
        if (body->results.at[i] == value)
            return false;
    return dt_remat_read_by_kernels(body, value);
}

/* Whether the value is computed from constants and from inputs that the backward body gets as
 * well. */
static bool is_at_hand(const DtValue *value, const DtLoop *loop)
{
    if (!value->op)
        return value->index == 0 || value->index > loop->n_carried;
    bool is = dt_op_is_cheap(value->op->kind) && !dt_op_is_dear(value->op->kind);
    for (uint32_t i = 0; is && i < value->op->n_in; i++)
        is = is_at_hand(value->op->in[i], loop);
    return is;
}

/* The product from which maps compute the value, with other operands at hand; NULL: there is none,
 * or recomputing the value would save nothing. */
static const DtOp *product_behind(const DtValue *value, const DtLoop *loop)
{
    const DtValue *at = value;
    bool is_map = false;
    while (at->op && at->op->kind != DT_OP_DOT) {
        const DtValue *next = NULL;
        if (!dt_op_is_pointwise(at->op->kind) || dt_op_is_dear(at->op->kind))
            return NULL;
        is_map = is_map || dt_op_info[at->op->kind].data != DT_DATA_VIEW;
        for (uint32_t i = 0; i < at->op->n_in; i++) {
            if (is_at_hand(at->op->in[i], loop))
                continue;
            if (next)
                return NULL;
            next = at->op->in[i];
        }
        if (!next)
            return NULL;
        at = next;
    }
    return at->op && is_map && bytes_of(at) <= bytes_of(value) ? at->op : NULL;
}

/* Whether each rank computes whole sums in the product, since no `shard` line splits an axis that
 * it sums over. Otherwise a saved product would have to be summed over ranks again. */
static bool is_whole(const DtParallelConfig *parallel, const DtOp *dot)
{
    for (uint32_t s = 0; parallel && s < parallel->shards.n; s++)
        for (uint32_t a = 0; a < parallel->shards.at[s].n_axes; a++)
            for (uint32_t i = 0; i < dot->n_axes; i++)
                if (parallel->shards.at[s].axes[a] == dot->axes[i])
                    return false;
    return true;
}

/* Whether value adds a bias to the product's result, which the library may do in the same call. */
static bool is_joined(const DtPassContext *context, const DtValue *value, const DtOp *dot)
{
    bool is = false;
    for (uint32_t k = 0; dt_pass_joins_biases(context) && value->op->kind == DT_OP_ADD && k < 2;
         k++)
        is = is || (value->op->in[k]->op == dot && value->type->dtype == dot->out[0]->type->dtype);
    return is;
}

bool dt_remat_choose_products(const DtPassContext *context, const DtFunc *body, const DtLoop *loop,
                              const bool *is_needed, DtRematChoice *choice)
{
    bool some = false;
    choice->kept = DT_NEW_ARRAY(body->module->arena, bool, body->n_values + 1);
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_out; k++)
            choice->kept[body->ops.at[i]->out[k]->id] =
                choice->is_saved[body->ops.at[i]->out[k]->id];
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtValue *value = body->ops.at[i]->out[0];
        const bool may = choice->is_saved[value->id] && !is_needed[value->id] &&
                         is_saved_only(body, loop, value);
        const DtOp *dot = may ? product_behind(value, loop) : NULL;
        if (!dot || !is_whole(context->parallel, dot) || is_joined(context, value, dot))
            continue;
        choice->kept[value->id] = false;
        choice->kept[dot->out[0]->id] = some = true;
    }
    return some;
}
