/* SPDX-License-Identifier: Apache-2.0 */
/* Finds work for the time of an exchange. If nothing runs between an exchange and the first reader
 * of its result, the nearest later product that does not need the result moves there, if the
 * function's peak stays.
 *
 *   before                                     after
 *     %3 = reduce_scatter(%2)                    %3 = reduce_scatter(%2)
 *     %4 = fused(%3, %x)                         %5 = dot(%y, %2')       the gradient of a weight
 *     %5 = dot(%y, %2')                          %4 = fused(%3, %x)
 *
 * Views, and ops that kernels recompute, move with the product that reads them. Each op computes
 * the same, from the same values. */
#include "passes/lower/order.h"

#include <string.h>

typedef struct Fill {
    DtFunc *func;
    DtArena *arena;
    DtOrderLive live;
    uint32_t *number; /* by value id: number of the op that makes it */
    uint32_t at, window; /* numbers of the exchange, and of the first op that reads its result */
    bool *goes;       /* by op: moves with the product */
} Fill;

static bool is_product(const DtOp *op) { return op->kind == DT_OP_DOT || op->kind == DT_OP_CALL; }

/* Returns the number of the first op, other than views, that reads the value or a view of it; the
 * number of ops if none does. */
static uint32_t first_reader(const Fill *f, const DtValue *value)
{
    const DtFunc *func = f->func;
    uint32_t i = f->number[value->id] + 1;
    for (; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in && !dt_order_is_view(func->ops.at[i]); k++)
            if (dt_op_viewed(func->ops.at[i]->in[k]) == value)
                return i;
    return i;
}

static bool is_filled(const Fill *f)
{
    const DtOp *exchange = f->func->ops.at[f->at];
    bool is = false;
    for (uint32_t i = f->at + 1; !is && i < f->window; i++)
        is = dt_order_is_beside(f->func->ops.at[i], exchange);
    return is;
}

/* Whether op number `at` can move before the op that waits for the exchange, together with views
 * and inline ops that it depends on; marks all of them in f->goes. It must not depend on the
 * exchange. */
static bool may_go(Fill *f, uint32_t at)
{
    const DtOp *op = f->func->ops.at[at];
    bool may = true;
    if (f->goes[at])
        return true; /* an op that may not move would have ended the search */
    f->goes[at] = true;
    for (uint32_t k = 0; may && k < op->n_in; k++) {
        const DtValue *in = op->in[k];
        const uint32_t maker = in->op ? f->number[in->id] : 0;
        if (in->op && maker == f->at)
            may = false;
        else if (in->op && maker >= f->window)
            may = (dt_order_is_view(in->op) || dt_op_is_inline(in)) && may_go(f, maker);
    }
    return may;
}

/* Whether op number `at` can move without raising the peak of live bytes: its results are live
 * earlier, and operands may die earlier. */
static bool has_room(const Fill *f, uint32_t at)
{
    const DtOp *op = f->func->ops.at[at];
    int64_t made = 0, gone = 0;
    for (uint32_t i = 0; i < op->n_out; i++)
        made += f->live.bytes[op->out[i]->id];
    for (uint32_t k = 0; k < op->n_in; k++) {
        const DtValue *in = dt_op_viewed(op->in[k]);
        bool repeated = false;
        for (uint32_t i = 0; i < k; i++)
            repeated = repeated || dt_op_viewed(op->in[i]) == in;
        gone += !repeated && f->live.last[in->id] == at ? f->live.bytes[in->id] : 0;
    }
    return dt_order_has_room(&f->live, f->window - 1, f->window, made) &&
           dt_order_has_room(&f->live, f->window, at, made - gone);
}

/* Moves the ops marked in f->goes before op f->window, which waits for the exchange, in their
 * order. */
static void move(Fill *f, uint32_t at)
{
    DtOp **ops = f->func->ops.at;
    for (uint32_t i = f->window, to = f->window; i <= at; i++) {
        if (!f->goes[i])
            continue;
        DtOp *op = ops[i];
        memmove(ops + to + 1, ops + to, (i - to) * sizeof *ops);
        ops[to++] = op;
    }
}

static void look(Fill *f)
{
    f->live = dt_order_live(f->arena, f->func);
    f->number = dt_order_numbers(f->arena, f->func);
}

static void fill(Fill *f)
{
    const uint32_t n = f->func->ops.n;
    for (uint32_t at = f->window + 1; at < n; at++) {
        if (!is_product(f->func->ops.at[at]))
            continue;
        memset(f->goes, 0, n * sizeof *f->goes);
        if (!may_go(f, at) || !has_room(f, at))
            continue;
        move(f, at);
        look(f);
        return;
    }
}

void dt_order_fill(DtFunc *func, uint16_t pipe)
{
    Fill f = {.func = func, .arena = dt_arena_child(func->module->arena)};
    f.goes = DT_NEW_ARRAY(f.arena, bool, func->ops.n + 1);
    look(&f);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (!dt_order_exchanges(op) || op->mesh & pipe)
            continue;
        f.at = i;
        f.window = first_reader(&f, op->out[0]);
        if (f.window < func->ops.n && !is_filled(&f))
            fill(&f);
    }
    dt_arena_free(f.arena);
}
