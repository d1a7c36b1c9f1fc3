/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of maps and of sources. */
#include "ir/shape.h"

#include <math.h>

/* ---- maps ---- */

static bool complete_all(DtShape *s)
{
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        if (!dt_shape_complete(s, i))
            return false;
    }
    return true;
}

/* Sets t's axes to the union of the operands' axes, in the order of the operand with most axes;
 * axes that only others have are inserted in their own order. False after a reason. */
static bool broadcast(DtShape *s, DtShapeType *t)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < s->op->n_in; i++) {
        if (s->op->in[i]->type->rank > s->op->in[most]->type->rank)
            most = i;
    }
    dt_shape_start(t, s->op->in[most]->type);
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        if (i != most && !dt_shape_merge(s, t, s->op->in[i]->type))
            return false;
    }
    return true;
}

static bool same_dtypes(DtShape *s, uint32_t from)
{
    for (uint32_t i = from + 1; i < s->op->n_in; i++) {
        if (s->op->in[i]->type->dtype != s->op->in[from]->type->dtype)
            return dt_shape_fail(s, "the operands of `%s` have different dtypes: %s and %s",
                                 dt_op_info[s->op->kind].text,
                                 dt_shape_text(s, s->op->in[from]->type),
                                 dt_shape_text(s, s->op->in[i]->type));
    }
    return true;
}

static bool takes_dtype(DtOpKind kind, DtDtype dtype)
{
    switch (kind) {
    case DT_OP_NOT:
    case DT_OP_AND:
    case DT_OP_OR: return dtype == DT_BOOL;
    case DT_OP_STOP:
    case DT_OP_BIND: return true;
    case DT_OP_NEG:
    case DT_OP_ABS:
    case DT_OP_ADD:
    case DT_OP_SUB:
    case DT_OP_MUL:
    case DT_OP_FLOORDIV:
    case DT_OP_MOD:
    case DT_OP_MAX:
    case DT_OP_MIN:
    case DT_OP_LT:
    case DT_OP_LE: return dt_shape_is_number(dtype);
    case DT_OP_EQ:
    case DT_OP_NE: return dtype == DT_BOOL || dt_shape_is_number(dtype);
    default: return dt_dtype_is_float(dtype);
    }
}

/* Sets the pending reductions of the result by the rules of the map. False after a reason. */
static bool map_pending(DtShape *s, DtShapeType *t)
{
    const DtType *x = s->op->in[0]->type;
    switch (s->op->kind) {
    case DT_OP_NEG:
        if (x->partial && x->pending != DT_REDUCE_SUM)
            return dt_shape_complete(s, 0);
        return dt_shape_linear(s, t, 0, 1);
    case DT_OP_STOP:
    case DT_OP_BIND: return dt_shape_linear(s, t, 0, 1);
    case DT_OP_ADD:
    case DT_OP_SUB:
        for (uint32_t i = 0; i < 2; i++) {
            if (s->op->in[i]->type->partial && s->op->in[i]->type->pending != DT_REDUCE_SUM)
                return dt_shape_complete(s, i);
        }
        return dt_shape_linear(s, t, 0, 2);
    case DT_OP_MUL: return dt_shape_multilinear(s, t);
    case DT_OP_DIV: return dt_shape_complete(s, 1) && dt_shape_multilinear(s, t);
    default: return complete_all(s);
    }
}

/* Checks that all operands have one dtype, which the op takes. */
static bool takes_operands(DtShape *s)
{
    DtDtype dtype = s->op->in[0]->type->dtype;
    if (!same_dtypes(s, 0))
        return false;
    return takes_dtype(s->op->kind, dtype) ||
           dt_shape_fail(s, "`%s` does not take %s", dt_op_info[s->op->kind].text,
                         dt_dtype_name(dtype));
}

/* Returns the type that all operands have, if nothing is pending in it; or NULL. */
static const DtType *common_type(const DtShape *s)
{
    const DtType *type = s->op->in[0]->type;
    for (uint32_t i = 1; i < s->op->n_in; i++)
        if (s->op->in[i]->type != type)
            return NULL;
    return type->partial ? NULL : type;
}

/* Result: union of the axes, and the operands' common dtype. */
bool dt_shape_map(DtShape *s)
{
    DtShapeType t;
    if (!takes_operands(s))
        return false;
    const DtType *common = common_type(s), *wish = dt_shape_wish(s, 0);
    if (common && (!wish || wish == common)) {
        s->out[0] = common;
        return true;
    }
    return broadcast(s, &t) && map_pending(s, &t) && dt_shape_finish(s, 0, &t);
}

/* Result: the operand with the dtype of the wish. A pending sum passes from float to float. */
bool dt_shape_cast(DtShape *s)
{
    const DtType *x = s->op->in[0]->type, *wish = dt_shape_wish(s, 0);
    if (!wish)
        return dt_shape_fail(s, "`cast` needs a result dtype");
    DtShapeType t;
    dt_shape_start(&t, x);
    t.dtype = wish->dtype;
    bool linear = dt_dtype_is_float(x->dtype) && dt_dtype_is_float(wish->dtype);
    return (linear ? dt_shape_linear(s, &t, 0, 1) : dt_shape_complete(s, 0)) &&
           dt_shape_finish(s, 0, &t);
}

/* Result: union of the axes, bool. */
bool dt_shape_compare(DtShape *s)
{
    DtShapeType t;
    if (!takes_operands(s) || !broadcast(s, &t) || !complete_all(s))
        return false;
    t.dtype = DT_BOOL;
    return dt_shape_finish(s, 0, &t);
}

/* Result: union of the axes, dtype of the branches. Linear in both branches together. */
bool dt_shape_where(DtShape *s)
{
    DtShapeType t;
    if (s->op->in[0]->type->dtype != DT_BOOL)
        return dt_shape_fail(s, "the condition of `where` is %s, not bool",
                             dt_shape_text(s, s->op->in[0]->type));
    if (!same_dtypes(s, 1) || !broadcast(s, &t))
        return false;
    t.dtype = s->op->in[1]->type->dtype;
    return dt_shape_complete(s, 0) && dt_shape_linear(s, &t, 1, 2) && dt_shape_finish(s, 0, &t);
}

/* ---- sources ---- */

static bool is_representable(DtDtype dtype, double number)
{
    static const double low[] = {0, 0, 0, 0, -0x1p31, -0x1p63};
    static const double end[] = {2, 0x1p8, 0x1p16, 0x1p32, 0x1p31, 0x1p63};
    if (dt_dtype_is_float(dtype))
        return true;
    return number >= low[dtype] && number < end[dtype] && number == floor(number);
}

static bool check_param(DtShape *s, const DtType *type)
{
    const DtStore *store = s->op->store;
    if (!store)
        return dt_shape_fail(s, "`param` names no store");
    if (type != store->type)
        return dt_shape_fail(s, "`param` is %s but its store is %s", dt_shape_text(s, type),
                             dt_shape_text(s, store->type));
    return true;
}

static bool check_iota(DtShape *s, const DtType *type)
{
    if (type->dtype != DT_I32 || type->rank != 1)
        return dt_shape_fail(s, "`iota` is %s, not i32 over one axis", dt_shape_text(s, type));
    if (s->op->n_axes != 1 || s->op->axes[0] != type->axes[0].name)
        return dt_shape_fail(s, "`iota` names another axis than its result has");
    if (type->axes[0].extent > INT32_MAX)
        return dt_shape_fail(s, "`iota` over `%s` does not fit i32", type->axes[0].name);
    return true;
}

/* Result: the wish. */
bool dt_shape_declared(DtShape *s)
{
    const DtType *type = dt_shape_wish(s, 0);
    const char *name = dt_op_info[s->op->kind].text;
    if (!type)
        return dt_shape_fail(s, "`%s` needs a result type", name);
    if (type->partial && s->op->kind != DT_OP_PARAM) /* a gradient may wait for its sum */
        return dt_shape_fail(s, "`%s` cannot have a pending reduction", name);
    s->out[0] = type;
    switch (s->op->kind) {
    case DT_OP_PARAM: return check_param(s, type);
    case DT_OP_IOTA: return check_iota(s, type);
    case DT_OP_CONST:
        if (type->rank != 0)
            return dt_shape_fail(s, "`const` is %s, not a scalar", dt_shape_text(s, type));
        if (!is_representable(type->dtype, s->op->number))
            return dt_shape_fail(s, "%.17g is not a value of %s", s->op->number,
                                 dt_dtype_name(type->dtype));
        return true;
    case DT_OP_RNG:
        if (type->dtype != DT_F32)
            return dt_shape_fail(s, "`rng` is %s, not f32", dt_shape_text(s, type));
        if (s->op->draws != 1 && s->op->draws != 4)
            return dt_shape_fail(s, "`rng` takes %u elements from a call, not 1 or 4",
                                 s->op->draws);
        return s->op->text ? true : dt_shape_fail(s, "`rng` names no site");
    case DT_OP_INPUT: return s->op->text ? true : dt_shape_fail(s, "`input` has no name");
    default: return true;
    }
}
