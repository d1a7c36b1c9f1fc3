/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules: the entry points, the helpers that rules share, and what maps and sources need.
 * The other rules are in shape_axis.c, shape_contract.c and shape_struct.c.
 *
 * Placement. Operands that share an axis must split it alike. A pending sum passes an op that is
 * linear in the operand; the bits of a result are those of its operands and those of split axes
 * that it sums away. dt_type_check refuses a type that uses a mesh axis twice, which is what
 * makes `partial * split` over one mesh axis wrong. */
#include "ir/shape.h"

#include <math.h>
#include <string.h>

static bool (*const rules[DT_OP_COUNT])(DtShape *s) = {
#define DT_OP(NAME, text, inputs, class, shape, ...) [DT_OP_##NAME] = dt_shape_##shape,
#include "ops.def"
#undef DT_OP
};

/* ---- entry points ---- */

uint32_t dt_shape_results(const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_FUSED:
    case DT_OP_WHEN:
    case DT_OP_CALL: return op->func ? op->func->results.n : 0;
    case DT_OP_LOOP: return op->loop ? op->loop->n_carried + op->loop->n_stacked_out : 0;
    case DT_OP_TOPK: return 2;
    default: return 1;
    }
}

uint32_t dt_shape_ranges(const DtOp *op)
{
    const bool one = op->kind == DT_OP_WINDOW || op->kind == DT_OP_FOLD || op->kind == DT_OP_WHEN;
    return one ? 1 : op->n_axes;
}

static const char *run(const DtOp *op, const DtMesh *mesh, const DtType *const *wish, bool loose,
                       const DtType **ret_types)
{
    static char reason[1000];
    DtShape s = {.op = op, .mesh = mesh, .wish = wish, .loose = loose, .out = ret_types};
    int inputs = dt_op_info[op->kind].inputs;
    bool ok = inputs < 0 || (uint32_t)inputs == op->n_in;
    if (!ok)
        dt_shape_fail(&s, "`%s` takes %d operands and got %u", dt_op_info[op->kind].text, inputs,
                      op->n_in);
    else
        ok = rules[op->kind](&s);
    if (!ok)
        snprintf(reason, sizeof reason, "%s",
                 s.reason.at ? s.reason.at : "the op is not well formed");
    dt_text_free(&s.reason);
    return ok ? NULL : reason;
}

const char *dt_shape_check(const DtOp *op, const DtMesh *mesh, const DtType *const *wish,
                           const DtType **ret_types)
{
    return run(op, mesh, wish, false, ret_types);
}

const char *dt_shape_derive(const DtOp *op, const DtMesh *mesh, const DtType *const *wish,
                            const DtType **ret_types)
{
    return run(op, mesh, wish, true, ret_types);
}

/* ---- helpers of the rules ---- */

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

bool dt_shape_merge(DtShape *s, DtShapeType *t, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtAxis *axis = &type->axes[i];
        int k = dt_shape_find(t, axis->name);
        if (k < 0) {
            if (!dt_shape_add(s, t, axis))
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

/* t becomes type, with nothing pending. */
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

/* A constant 0, whatever its shape: as a sum over ranks it is 0 too. */
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

static bool complete_all(DtShape *s)
{
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        if (!dt_shape_complete(s, i))
            return false;
    }
    return true;
}

/* ---- maps ---- */

/* Union of the operands' axes: the order of the operand with most axes, then as met. */
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

/* What a map does with pending reductions. */
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

/* All operands have one dtype that the op takes. */
static bool takes_operands(DtShape *s)
{
    DtDtype dtype = s->op->in[0]->type->dtype;
    if (!same_dtypes(s, 0))
        return false;
    return takes_dtype(s->op->kind, dtype) ||
           dt_shape_fail(s, "`%s` does not take %s", dt_op_info[s->op->kind].text,
                         dt_dtype_name(dtype));
}

/* Result: union of the axes, dtype of the operands, which is one dtype. */
bool dt_shape_map(DtShape *s)
{
    DtShapeType t;
    return takes_operands(s) && broadcast(s, &t) && map_pending(s, &t) && dt_shape_finish(s, 0, &t);
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
        if (s->op->number != 0 && s->op->number != 4)
            return dt_shape_fail(s, "`rng` takes %g elements from a call, not 4 (or 1: no number)", s->op->number);
        return s->op->text ? true : dt_shape_fail(s, "`rng` names no site");
    case DT_OP_INPUT: return s->op->text ? true : dt_shape_fail(s, "`input` has no name");
    default: return true;
    }
}
