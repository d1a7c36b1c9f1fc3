/* SPDX-License-Identifier: Apache-2.0 */
/* Order of axes in memory. A temporary lies as its type says, but for the ops of a convolution, which is a window
 * and a contraction over the window's axis, the kernel's and the channels':
 *
 *     win = window[width, kw](window[height, kh](x))     type [batch, height, width, chan, kh, kw]
 *     y = win @(kh, kw, chan) w                          w [kh, kw, chan, out]
 *
 *   window   what a contraction sums lies innermost, in the order of the other operand: kh, kw, chan. Then the
 *            contraction, and that for the gradient of w, are one matrix product each
 *   dot      the columns lie as in the second operand: the gradient of win, over batch, height, width and kh, kw,
 *            chan, is one matrix product
 *   fold     as the operand without the window's axis, so that its loops run along memory
 *
 * Other windows keep the operand's innermost axis innermost, and what a fold reads (the gradient of a pooling) has its
 * short axes, the windows', before the last long one. */
#include "codegen/emit.h"

#include "base/intern.h"

#include <string.h>

/* Axes in the order of memory, outermost first. */
typedef struct Order {
    const char *axis[DT_MAX_RANK];
    uint32_t n;
} Order;

static bool has(const Order *order, const char *axis)
{
    for (uint32_t i = 0; i < order->n; i++)
        if (order->axis[i] == axis)
            return true;
    return false;
}

static void add(Order *order, const char *axis)
{
    if (!has(order, axis))
        order->axis[order->n++] = axis;
}

/* How a value lies, or would lie. */
static Order order_of(DtEmit *e, const DtValue *value)
{
    Order order = {.n = 0};
    int64_t stride[DT_MAX_RANK];
    const DtPlace *place = dt_place_find(e, value);
    DtView view = place ? place->view : dt_kernel_dense(value->type, &e->module->mesh, 0);
    for (uint32_t d = 0; d < view.rank; d++) {
        uint32_t at = order.n++;
        for (; at > 0 && stride[at - 1] < view.stride[d]; at--) {
            order.axis[at] = order.axis[at - 1];
            stride[at] = stride[at - 1];
        }
        order.axis[at] = view.axis[d];
        stride[at] = view.stride[d];
    }
    return order;
}

static bool sums(const DtOp *op, const char *axis)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == axis)
            return true;
    return false;
}

/* The contraction that reads value and sums axis away, and which operand value is. */
static const DtOp *find_contraction(const DtFunc *func, const DtValue *value, const char *axis, uint32_t *ret_operand)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t j = 0; op->kind == DT_OP_DOT && j < 2; j++)
            if (op->in[j] == value && sums(op, axis)) {
                *ret_operand = j;
                return op;
            }
    }
    return NULL;
}

static void window_order(DtEmit *e, const DtOp *op, const DtValue *value, Order *ret_order)
{
    const DtType *type = value->type;
    uint32_t operand = 0;
    const DtOp *dot = find_contraction(e->scope->func, value, op->axes[1], &operand);
    Order in = order_of(e, value->op == op ? op->in[0] : value->op->in[op->in[0]->index]); /* of a kernel: outside */
    if (!dot) {
        for (uint32_t i = 0; i < in.n; i++) {
            if (i == in.n - 1 && in.axis[i] != op->axes[0])
                add(ret_order, op->axes[1]);
            add(ret_order, in.axis[i]);
        }
        add(ret_order, op->axes[1]);
        return;
    }
    for (uint32_t d = 0; d < type->rank; d++)
        if (!sums(dot, type->axes[d].name))
            add(ret_order, type->axes[d].name);
    Order other = order_of(e, dot->in[1 - operand]);
    for (uint32_t i = 0; i < other.n; i++)
        if (sums(dot, other.axis[i]))
            add(ret_order, other.axis[i]);
}

static void dot_order(DtEmit *e, const DtOp *op, Order *ret_order)
{
    const DtType *type = op->out[0]->type, *first = op->in[0]->type;
    for (uint32_t d = 0; d < type->rank; d++)
        if (dt_type_find(first, type->axes[d].name) >= 0)
            add(ret_order, type->axes[d].name);
    if (ret_order->n + 2 > type->rank)
        return; /* at most one axis of columns: as the type says */
    Order columns = order_of(e, op->in[1]);
    for (uint32_t i = 0; i < columns.n; i++)
        if (dt_type_find(type, columns.axis[i]) >= 0)
            add(ret_order, columns.axis[i]);
}

static void fold_order(DtEmit *e, const DtOp *op, Order *ret_order)
{
    Order in = order_of(e, op->in[0]);
    for (uint32_t i = 0; i < in.n; i++)
        if (in.axis[i] != op->axes[1])
            add(ret_order, in.axis[i]);
}

enum { SHORT = 16 };

static bool is_folded(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_FOLD && func->ops.at[i]->in[0] == value)
            return true;
    return false;
}

static void folded_order(const DtEmit *e, const DtValue *value, Order *ret_order)
{
    const DtType *type = value->type;
    uint32_t last = type->rank; /* behind the last long axis */
    while (last > 0 && type->axes[last - 1].extent < SHORT)
        last--;
    if (last == 0 || last == type->rank || !is_folded(e->scope->func, value))
        return;
    for (uint32_t d = 0; d < type->rank; d++)
        if (d != last - 1)
            add(ret_order, type->axes[d].name);
    add(ret_order, type->axes[last - 1].name);
}

DtPlace dt_layout_temporary(DtEmit *e, const DtValue *value)
{
    Order order = {.n = 0};
    DtPlace place = dt_place_temporary(e, value->type, value->name);
    if (e->options->unfused || !value->op)
        return place;
    const DtOp *op = dt_op_made(value)->op;
    if (op->kind == DT_OP_WINDOW)
        window_order(e, op, value, &order);
    else if (op->kind == DT_OP_DOT && value->type->rank > 2)
        dot_order(e, op, &order);
    else if (op->kind == DT_OP_FOLD)
        fold_order(e, op, &order);
    else
        folded_order(e, value, &order);
    DtPlace ordered = place;
    int64_t stride = 1;
    for (uint32_t i = order.n; i-- > 0;) {
        int d = dt_type_find(value->type, order.axis[i]);
        if (d < 0 || order.n != value->type->rank)
            return place;
        ordered.view.stride[d] = stride;
        stride *= ordered.view.extent[d];
    }
    return order.n ? ordered : place;
}
