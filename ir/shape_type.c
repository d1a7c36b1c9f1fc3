/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules: the type being made, and what is pending in it.
 *
 * Placement. Operands that share an axis must split it alike. A pending sum passes an op that is
 * linear in the operand; the bits of a result are those of its operands and those of split axes
 * that it sums away. dt_type_check refuses a type that uses a mesh axis twice, which is what
 * makes `partial * split` over one mesh axis wrong. */
#include "ir/shape.h"

#include <string.h>

bool dt_shape_fail(DtShape *s, const char *format, ...)
{
    char buffer[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    dt_text_add(&s->reason, buffer);
    return false;
}

const char *dt_shape_text(DtShape *s, const DtType *type)
{
    static char ring[8][400];
    static unsigned next;
    DtText text = {0};
    dt_type_print_extents(type, s->mesh, &text);
    char *at = ring[next++ % 8];
    snprintf(at, sizeof ring[0], "%s", text.at);
    dt_text_free(&text);
    return at;
}

const DtType *dt_shape_wish(const DtShape *s, uint32_t i) { return s->wish ? s->wish[i] : NULL; }

int dt_shape_find(const DtShapeType *t, const char *axis)
{
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->axes[i].name == axis)
            return (int)i;
    }
    return -1;
}

bool dt_shape_insert(DtShape *s, DtShapeType *t, uint32_t at, const DtAxis *axis)
{
    if (t->rank == DT_MAX_RANK)
        return dt_shape_fail(s, "the result would have more than %d axes", DT_MAX_RANK);
    if (dt_shape_find(t, axis->name) >= 0)
        return dt_shape_fail(s, "the result would have axis `%s` twice", axis->name);
    memmove(&t->axes[at + 1], &t->axes[at], (t->rank - at) * sizeof t->axes[0]);
    t->axes[at] = *axis;
    t->rank++;
    return true;
}

bool dt_shape_add(DtShape *s, DtShapeType *t, const DtAxis *axis)
{
    return dt_shape_insert(s, t, t->rank, axis);
}

void dt_shape_remove(DtShapeType *t, uint32_t at)
{
    memmove(&t->axes[at], &t->axes[at + 1], (t->rank - at - 1) * sizeof t->axes[0]);
    t->rank--;
}

/* Returns the number at which axis i of type, which t lacks, is inserted into t: before the next
 * axis that both have. */
static uint32_t place_of(const DtShapeType *t, const DtType *type, uint32_t i)
{
    for (uint32_t next = i + 1; next < type->rank; next++) {
        const int k = dt_shape_find(t, type->axes[next].name);
        if (k >= 0)
            return (uint32_t)k;
    }
    return t->rank;
}

bool dt_shape_merge(DtShape *s, DtShapeType *t, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtAxis *axis = &type->axes[i];
        int k = dt_shape_find(t, axis->name);
        if (k < 0) {
            if (!dt_shape_insert(s, t, place_of(t, type, i), axis))
                return false;
        } else if (t->axes[k].extent != axis->extent) {
            return dt_shape_fail(s, "axis `%s` is %lld in one operand and %lld in another",
                                 axis->name, (long long)t->axes[k].extent, (long long)axis->extent);
        } else if (!dt_type_same_axis(&t->axes[k], axis)) {
            return dt_shape_fail(s, "axis `%s` is split differently in two operands", axis->name);
        }
    }
    return true;
}

/* Makes t equal to type, with nothing pending. */
void dt_shape_start(DtShapeType *t, const DtType *type)
{
    *t = (DtShapeType){.dtype = type->dtype, .rank = type->rank};
    memcpy(t->axes, type->axes, type->rank * sizeof t->axes[0]);
}

/* Orders the axes of t as wish has them; false if the names differ. */
static bool reorder(DtShapeType *t, const DtType *wish)
{
    if (t->rank != wish->rank)
        return false;
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < wish->rank; i++) {
        int k = dt_shape_find(t, wish->axes[i].name);
        if (k < 0)
            return false;
        axes[i] = t->axes[k];
    }
    memcpy(t->axes, axes, t->rank * sizeof axes[0]);
    return true;
}

bool dt_shape_finish(DtShape *s, uint32_t i, const DtShapeType *t)
{
    DtShapeType copy = *t;
    const char *problem =
        dt_type_check(copy.dtype, copy.rank, copy.axes, copy.partial, copy.pending);
    if (problem)
        return dt_shape_fail(s, "%s", problem);
    const DtType *wish = dt_shape_wish(s, i);
    bool ordered = !wish || reorder(&copy, wish);
    s->out[i] = dt_type_make(copy.dtype, copy.rank, copy.axes, copy.partial, copy.pending);
    if (!ordered && !s->loose)
        return dt_shape_fail(s, "the result is %s, which has other axes than the wanted %s",
                             dt_shape_text(s, s->out[i]), dt_shape_text(s, wish));
    return true;
}

uint16_t dt_shape_split_bits(const DtAxis *axis)
{
    unsigned bits = 0;
    for (uint32_t i = 0; i < axis->n_split; i++)
        bits |= 1u << axis->split[i];
    return (uint16_t)bits;
}

bool dt_shape_is_number(DtDtype dtype)
{
    return dtype == DT_I32 || dtype == DT_I64 || dt_dtype_is_float(dtype);
}

/* ---- pending reductions ---- */

/* Whether the value is a constant 0, perhaps cast or expanded: its sum over ranks is 0 too. */
static bool is_zero(const DtValue *value)
{
    const DtOp *op = value->op;
    for (int depth = 0; op && depth < 8; depth++) {
        if (op->kind == DT_OP_CONST)
            return op->number == 0;
        if (op->kind != DT_OP_EXPAND && op->kind != DT_OP_RELABEL && op->kind != DT_OP_CAST)
            return false;
        op = op->n_in ? op->in[0]->op : NULL;
    }
    return false;
}

bool dt_shape_linear(DtShape *s, DtShapeType *t, uint32_t from, uint32_t n)
{
    const DtType *pending = NULL;
    for (uint32_t i = from; i < from + n; i++) {
        if (s->op->in[i]->type->partial)
            pending = s->op->in[i]->type;
    }
    if (!pending)
        return true;
    for (uint32_t i = from; i < from + n; i++) {
        const DtType *type = s->op->in[i]->type;
        if (type->partial == pending->partial && type->pending == pending->pending)
            continue;
        if (type->partial == 0 && pending->pending == DT_REDUCE_SUM && is_zero(s->op->in[i]))
            continue;
        return dt_shape_fail(
            s, "`%s` mixes a pending reduction with a value that lacks it: %s and %s",
            dt_op_info[s->op->kind].text, dt_shape_text(s, pending), dt_shape_text(s, type));
    }
    t->partial = pending->partial;
    t->pending = (DtReduce)pending->pending;
    return true;
}

bool dt_shape_multilinear(DtShape *s, DtShapeType *t)
{
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        const DtType *type = s->op->in[i]->type;
        if (!type->partial)
            continue;
        if (type->pending != DT_REDUCE_SUM)
            return dt_shape_fail(s,
                                 "a pending maximum or minimum must be completed before `%s`: %s",
                                 dt_op_info[s->op->kind].text, dt_shape_text(s, type));
        if (t->partial & type->partial)
            return dt_shape_fail(
                s, "`%s` of two values whose sums are pending over the same mesh axis",
                dt_op_info[s->op->kind].text);
        t->partial |= type->partial;
        t->pending = DT_REDUCE_SUM;
    }
    return true;
}

bool dt_shape_complete(DtShape *s, uint32_t operand)
{
    const DtType *type = s->op->in[operand]->type;
    if (type->partial)
        return dt_shape_fail(s,
                             "`%s` is not linear in its operand %u, whose reduction is pending: %s",
                             dt_op_info[s->op->kind].text, operand, dt_shape_text(s, type));
    return true;
}
