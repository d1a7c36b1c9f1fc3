/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of ops that run under a condition or select by a counter (when, turn, at), and of
 * ring buffers, which keep values until a later iteration reads them. */
#include "ir/shape.h"

#include <string.h>

/* ---- when, turn, at ---- */

bool dt_shape_turn(DtShape *s)
{
    s->out[0] = dt_type_scalar(DT_I32);
    return true;
}

static bool is_counter(const DtType *type) { return type == dt_type_scalar(DT_I32); }

/* Result: x without its leading axis. */
bool dt_shape_at(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *x = op->n_in ? op->in[0]->type : NULL;
    if (op->n_in < 1 || op->n_in > 2 || op->n_axes != 1 || !op->ranges)
        return dt_shape_fail(
            s, "`at` takes a tensor and perhaps a scalar, and has an axis and a range");
    if (x->rank == 0 || x->axes[0].name != op->axes[0] || x->axes[0].n_split)
        return dt_shape_fail(s, "`at` of %s, whose leading axis is not `%s`, whole",
                             dt_shape_text(s, x), op->axes[0]);
    if (op->n_in == 2 && !is_counter(op->in[1]->type))
        return dt_shape_fail(s, "`at` by %s, which is no i32 scalar",
                             dt_shape_text(s, op->in[1]->type));
    if (op->ranges->hi || op->ranges->n || (op->n_in == 1 && op->ranges->step))
        return dt_shape_fail(s, "`at` has numbers that say nothing");
    if (op->n_in == 1 && (op->ranges->lo < 0 || op->ranges->lo >= x->axes[0].extent))
        return dt_shape_fail(s, "`at` takes element %lld of %lld", (long long)op->ranges->lo,
                             (long long)x->axes[0].extent);
    s->out[0] = dt_type_make(x->dtype, x->rank - 1u, x->axes + 1, x->partial, (DtReduce)x->pending);
    return true;
}

/* Whether the leading axis has the element that an `at` selects for this value of the counter. */
static bool is_inside(const DtOp *at, int64_t counter)
{
    int64_t element;
    return !__builtin_mul_overflow(at->ranges->step, counter, &element) &&
           !__builtin_add_overflow(element, at->ranges->lo, &element) && element >= 0 &&
           element < at->in[0]->type->axes[0].extent;
}

static bool is_counted(const DtOp *op)
{
    return op && op->kind == DT_OP_AT && op->n_in == 2 && op->in && op->in[0] && op->in[0]->type;
}

/* Checks the `at` ops in the function of a `when`: its counters are in the condition's range, and
 * the elements for these must exist. */
static bool check_elements(DtShape *s, const DtFunc *func)
{
    const DtRange *range = s->op->ranges;
    for (uint32_t i = 0; func->inputs.n && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (!is_counted(op) || op->in[1] != func->inputs.at[0])
            continue;
        if (!range || !op->ranges || op->in[0]->type->rank == 0 || !is_inside(op, range->lo) ||
            !is_inside(op, range->lo + range->n - 1))
            return dt_shape_fail(
                s, "`when` lets counters through for which an `at` of `%s` takes no element",
                func->name);
    }
    return true;
}

/* Results: those of func, with the types of the operands that stand for them if the condition is
 * false. */
bool dt_shape_when(DtShape *s)
{
    const DtOp *op = s->op;
    const DtFunc *func = op->func;
    const uint32_t first = op->ranges ? 1 : 0;
    if (!func || func->kind != DT_FUNC_BRANCH)
        return dt_shape_fail(s, "`when` of `%s`, which is no branch",
                             func ? func->name : "nothing");
    if (op->n_in != func->inputs.n || op->n_in < (uint64_t)first + func->results.n)
        return dt_shape_fail(s, "`when` passes %u operands to `%s`, which takes %u and gives %u",
                             op->n_in, func->name, func->inputs.n, func->results.n);
    if (first &&
        (!is_counter(op->in[0]->type) || op->ranges->lo < 0 || op->ranges->lo > INT32_MAX ||
         op->ranges->n < 1 || op->ranges->n > INT32_MAX || op->ranges->hi || op->ranges->step))
        return dt_shape_fail(s, "`when` has no i32 scalar first, or no range");
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i]->type != func->inputs.at[i]->type)
            return dt_shape_fail(s, "operand %u of `when` is %s, not %s", i,
                                 dt_shape_text(s, op->in[i]->type),
                                 dt_shape_text(s, func->inputs.at[i]->type));
    for (uint32_t i = 0; i < func->results.n; i++) {
        s->out[i] = func->results.at[i]->type;
        if (s->out[i] != op->in[first + i]->type)
            return dt_shape_fail(
                s, "result %u of `%s` is %s, and the operand that stays otherwise is %s", i,
                func->name, dt_shape_text(s, s->out[i]), dt_shape_text(s, op->in[first + i]->type));
    }
    return check_elements(s, func);
}

/* ---- ring buffers ---- */

static bool takes_ring(DtShape *s)
{
    const DtType *type = s->op->in[0]->type;
    if (dt_type_is_ringbuf(type))
        return true;
    return dt_shape_fail(s, "`%s` of %s, which is no ring buffer", dt_op_info[s->op->kind].text,
                         dt_shape_text(s, type));
}

bool dt_shape_ringbuf(DtShape *s)
{
    const DtType *wish = dt_shape_wish(s, 0);
    if (s->op->n_in > 1 || (s->op->n_in == 1 && !takes_ring(s)))
        return s->op->n_in == 1 ? false
                                : dt_shape_fail(s, "`ringbuf` takes one ring buffer, or nothing");
    if (s->op->n_in == 0 && (!wish || !dt_type_is_ringbuf(wish)))
        return dt_shape_fail(s, "`ringbuf` makes no %s", wish ? dt_shape_text(s, wish) : "tensor");
    s->out[0] = s->op->n_in ? s->op->in[0]->type : wish;
    return true;
}

bool dt_shape_ringbuf_turn(DtShape *s)
{
    s->out[0] = s->op->in[0]->type;
    return takes_ring(s);
}

bool dt_shape_same(DtShape *s)
{
    s->out[0] = s->op->in[0]->type;
    return !dt_type_is_ringbuf(s->out[0]) ||
           dt_shape_fail(s, "`%s` of a ring buffer", dt_op_info[s->op->kind].text);
}

/* Whether a slot has room for the value's local bytes from byte `number` on. */
static bool fits(DtShape *s, const DtType *value)
{
    const DtType *ringbuf = s->op->in[0]->type;
    const DtMesh none = {.n = 0};
    const double first = s->op->number;
    uint16_t wants = value->partial, has = 0;
    int64_t bytes = dt_type_local_elements(value, s->mesh ? s->mesh : &none);
    for (uint32_t i = 0; i < ringbuf->rank; i++)
        has |= dt_shape_split_bits(&ringbuf->axes[i]);
    for (uint32_t i = 0; i < value->rank; i++)
        wants |= dt_shape_split_bits(&value->axes[i]);
    if (bytes < 0 || __builtin_mul_overflow(bytes, (int64_t)dt_dtype_size(value->dtype), &bytes))
        bytes = INT64_MAX;
    const int64_t slot = ringbuf->axes[ringbuf->rank - 1].extent;
    const bool inside = first >= 0 && first <= (double)slot && first == (double)(int64_t)first &&
                        (int64_t)first % DT_RING_ALIGN == 0 && bytes <= slot - (int64_t)first;
    if (dt_type_is_ringbuf(value) || (wants & ~has) || !inside)
        return dt_shape_fail(s, "%s has no place in a slot of %s from byte %.17g on",
                             dt_shape_text(s, value), dt_shape_text(s, ringbuf), first);
    return true;
}

bool dt_shape_ringbuf_put(DtShape *s)
{
    s->out[0] = s->op->in[0]->type;
    return takes_ring(s) && fits(s, s->op->in[1]->type);
}

bool dt_shape_ringbuf_get(DtShape *s)
{
    s->out[0] = dt_shape_wish(s, 0);
    if (!s->out[0])
        return dt_shape_fail(s, "`ringbuf_get` needs a result type");
    return takes_ring(s) && fits(s, s->out[0]);
}
