/* SPDX-License-Identifier: Apache-2.0 */
/* The order of axes of temporaries in memory. A temporary has the order of its type, except around
 * the ops of a convolution, which is a window and a contraction over the window's axis, the
 * kernel's and the channels':
 *
 *     win = window[width, kw](window[height, kh](x))     type [batch, height, width, chan, kh, kw]
 *     y = win @(kh, kw, chan) w                          w [kh, kw, chan, out]
 *
 *   window   what a contraction sums lies innermost, in the order of the other operand: kh, kw,
 *            chan. Then the contraction, and that for the gradient of w, are one matrix product
 *            each
 *   dot      the columns lie as in the second operand: the gradient of win, over batch, height,
 *            width and kh, kw, chan, is one matrix product
 *   fold     as the operand without the window's axis, so that its loops run along memory
 *
 * Other windows keep the operand's innermost axis innermost, and what a fold reads (the gradient of
 * a pooling) has its short axes, the windows', before the last long one.
 *
 * In values that only kernels and products read or write, and products as matrices, rows begin at
 * multiples of a number of bytes that the target states, unless they are short (197 keys of a block
 * of attention): 50257 logits of a token take the room of 50260 in f32. What enters or leaves a
 * function lies without gaps. */
#include "passes/lower/memory.h"

#include <string.h>

/* A value's axes in the order that they have in memory, outermost first. */
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

/* The value's axes in the order they have in memory, by falling stride. */
static Order order_of(const DtMemory *m, const DtValue *value)
{
    Order order = {.n = 0};
    int64_t stride[DT_MAX_RANK];
    const DtView view = dt_memory_view(m, value);
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

/* Returns the first product that reads value and sums over axis; NULL if there is none.
 * ret_operand: which of the product's operands value is. */
static const DtOp *find_contraction(const DtFunc *func, const DtValue *value, const char *axis,
                                    uint32_t *ret_operand)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t j = 0; op->kind == DT_OP_DOT && j < 2; j++)
            if (op->in[j] == value && dt_op_has_axis(op, axis)) {
                *ret_operand = j;
                return op;
            }
    }
    return NULL;
}

/* Returns the operand of op from which value is made; if op is a kernel, the operand of value's op
 * inside of it. */
static const DtValue *operand_of(const DtOp *op, const DtValue *value)
{
    const DtValue *in = op->in[0];
    return value->op == op || in->op ? in : value->op->in[in->index];
}

static void window_order(const DtMemory *m, const DtOp *op, const DtValue *value, Order *ret_order)
{
    const DtType *type = value->type;
    uint32_t operand = 0;
    const DtOp *dot = find_contraction(m->func, value, op->axes[1], &operand);
    const Order in = order_of(m, operand_of(op, value));
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
        if (!dt_op_has_axis(dot, type->axes[d].name))
            add(ret_order, type->axes[d].name);
    Order other = order_of(m, dot->in[1 - operand]);
    for (uint32_t i = 0; i < other.n; i++)
        if (dt_op_has_axis(dot, other.axis[i]))
            add(ret_order, other.axis[i]);
}

static void dot_order(const DtMemory *m, const DtOp *op, Order *ret_order)
{
    const DtType *type = op->out[0]->type, *first = op->in[0]->type;
    for (uint32_t d = 0; d < type->rank; d++)
        if (dt_type_find(first, type->axes[d].name) >= 0)
            add(ret_order, type->axes[d].name);
    if (ret_order->n + 2 > type->rank)
        return; /* with at most one axis of columns the type's order is good */
    Order columns = order_of(m, op->in[1]);
    for (uint32_t i = 0; i < columns.n; i++)
        if (dt_type_find(type, columns.axis[i]) >= 0)
            add(ret_order, columns.axis[i]);
}

static void fold_order(const DtMemory *m, const DtOp *op, const DtValue *value, Order *ret_order)
{
    const Order in = order_of(m, operand_of(op, value));
    for (uint32_t i = 0; i < in.n; i++)
        if (in.axis[i] != op->axes[1])
            add(ret_order, in.axis[i]);
}

/* Adds the axes of a concat to ret_order in the order in which its parts should be stored. If a
 * relabel merges axes of it next, those stay together in that order, so that the merge is a view:
 * (two, half) is stored as [half, two]. */
static void concat_order(const DtFunc *func, const DtValue *value, Order *ret_order)
{
    const DtOp *reader = NULL;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_RELABEL && func->ops.at[i]->in[0] == value)
            reader = func->ops.at[i];
    for (uint32_t d = 0; reader && d < value->type->rank; d++) {
        for (uint32_t i = 0; i < reader->n_relabels; i++)
            for (uint32_t k = 0; k < reader->relabels[i].n_from; k++)
                if (reader->relabels[i].from[k] == value->type->axes[d].name)
                    for (uint32_t n = 0; n < reader->relabels[i].n_from; n++)
                        add(ret_order, reader->relabels[i].from[n]);
        add(ret_order, value->type->axes[d].name);
    }
}

enum { SHORT = 16 };

static void folded_order(const DtMemory *m, const DtValue *value, Order *ret_order)
{
    const DtType *type = value->type;
    uint32_t last = type->rank; /* after the last axis longer than 1 */
    while (last > 0 && type->axes[last - 1].extent < SHORT)
        last--;
    if (last == 0 || last == type->rank || !m->folded[value->id])
        return;
    for (uint32_t d = 0; d < type->rank; d++)
        if (d != last - 1)
            add(ret_order, type->axes[d].name);
    add(ret_order, type->axes[last - 1].name);
}

/* ---- rows of matrices ---- */

/* Whether the op accesses its matrices by strides, so that rows may have gaps after them. */
static bool takes_gaps(const DtOp *op)
{
    return op->kind == DT_OP_DOT || op->kind == DT_OP_FUSED || op->kind == DT_OP_REDUCE ||
           op->kind == DT_OP_SCATTER_ADD || dt_op_is_pointwise(op->kind);
}

/* Whether two axes of value are rows, columns or summed together in the product. */
static bool act_alike(const DtOp *dot, const char *x, const char *y)
{
    for (uint32_t i = 0; i < 2; i++)
        if ((dt_type_find(dot->in[i]->type, x) < 0) != (dt_type_find(dot->in[i]->type, y) < 0))
            return false;
    return dt_op_has_axis(dot, x) == dt_op_has_axis(dot, y);
}

/* The number of the first axis in type that belongs to a row of the matrix, as the product sees it;
 * 0: it sees no rows. */
static uint32_t row_in(const DtOp *dot, const DtType *type)
{
    uint32_t first = type->rank - 1;
    while (first > 0 && act_alike(dot, type->axes[first - 1].name, type->axes[type->rank - 1].name))
        first--;
    return first;
}

/* Returns the number of the first axis that belongs to a row of value as a matrix, on which all
 * products that compute or read it agree; 0 if they do not, or if another op needs rows without
 * gaps. */
static uint32_t row_of(const DtFunc *func, const DtValue *value)
{
    uint32_t first =
        value->op->kind == DT_OP_DOT ? row_in(value->op, value->type) : value->type->rank;
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++) {
            const DtOp *op = func->ops.at[i];
            if (op->in[j] != value)
                continue;
            const uint32_t row = op->kind == DT_OP_DOT ? row_in(op, value->type)
                                 : takes_gaps(op)      ? first
                                                       : 0;
            first = row < first ? row : first;
        }
    return first < value->type->rank ? first : 0;
}

/* Bytes of the innermost axes of value's type, from axis `first` on. */
static int64_t row_bytes(const DtMemory *m, const DtType *type, uint32_t first)
{
    int64_t bytes = (int64_t)dt_dtype_size(type->dtype);
    for (uint32_t d = first; d < type->rank; d++)
        bytes *= dt_type_local_extent(type, d, &m->func->module->mesh);
    return bytes;
}

static bool is_crooked(const DtMemory *m, int64_t bytes)
{
    return bytes >= m->limits->row_gap_least && bytes % m->limits->row_align != 0;
}

static void align_rows(const DtMemory *m, DtValue *value)
{
    const DtType *type = value->type;
    const int64_t align = m->limits->row_align;
    bool some = false;
    for (uint32_t d = 1; d < type->rank; d++)
        some = some || is_crooked(m, row_bytes(m, type, d));
    const uint32_t first = some && takes_gaps(value->op) ? row_of(m->func, value) : 0;
    const int64_t bytes = first ? row_bytes(m, type, first) : 0;
    if (!is_crooked(m, bytes))
        return;
    DtLies *lies = DT_NEW(m->func->module->arena, DtLies);
    for (uint32_t d = 0; d < type->rank; d++)
        lies->order[d] = (uint8_t)d;
    lies->first = (uint8_t)first;
    lies->row = (bytes + align - 1) / align * align / (int64_t)dt_dtype_size(type->dtype);
    value->lies = lies;
}

/* Sets value->lies to this order of axes if it differs from the order of its type. Does nothing if
 * the order has an axis that the type lacks. */
static void lie(const DtMemory *m, DtValue *value, const Order *order)
{
    DtLies lies = {.row = 0};
    bool same = true;
    for (uint32_t i = 0; i < order->n; i++) {
        const int d = dt_type_find(value->type, order->axis[i]);
        if (d < 0)
            return;
        lies.order[i] = (uint8_t)d;
        same = same && (uint32_t)d == i;
    }
    if (same)
        return;
    DtLies *kept = DT_NEW(m->func->module->arena, DtLies);
    *kept = lies;
    value->lies = kept;
}

void dt_memory_lie_as(const DtMemory *m, DtValue *value, const DtView *view)
{
    Order order = {.n = 0};
    uint32_t from[DT_MAX_RANK];
    for (uint32_t d = 0; d < view->rank; d++) {
        uint32_t at = order.n++;
        /* of axes with equal strides, those of extent 1 come last */
        for (; at > 0; at--) {
            const uint32_t other = from[at - 1];
            if (view->stride[other] > view->stride[d] ||
                (view->stride[other] == view->stride[d] &&
                 (view->extent[d] == 1 || view->extent[other] > 1)))
                break;
            order.axis[at] = order.axis[at - 1];
            from[at] = other;
        }
        order.axis[at] = view->axis[d];
        from[at] = d;
    }
    lie(m, value, &order);
}

void dt_memory_lies(const DtMemory *m, DtValue *value)
{
    Order order = {.n = 0};
    const DtOp *op = dt_op_made(value)->op;
    if (op->kind == DT_OP_WINDOW)
        window_order(m, op, value, &order);
    else if (op->kind == DT_OP_DOT && value->type->rank > 2)
        dot_order(m, op, &order);
    else if (op->kind == DT_OP_CONCAT)
        concat_order(m->func, value, &order);
    else if (op->kind == DT_OP_FOLD)
        fold_order(m, op, value, &order);
    else
        folded_order(m, value, &order);
    if (order.n == value->type->rank)
        lie(m, value, &order);
    else
        align_rows(m, value);
}
