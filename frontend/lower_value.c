/* SPDX-License-Identifier: Apache-2.0 */
/* Values and their dtypes: weak literals take the dtype of the other operand, operands of a map are
 * cast to their join and broadcast by name.
 *
 *   join   any strong float: the join of the strong floats (f16 with bf16: f32); else, if any
 *          operand is a
 *          float or the map needs one: weak f32; else i32; else bool */
#include "frontend/lower_train.h"

#include <math.h>
#include <string.h>

DtVal dt_val_error(void) { return (DtVal){.kind = DT_VAL_ERROR}; }
DtVal dt_val_int(int64_t whole)
{
    return (DtVal){.kind = DT_VAL_INT, .weak = true, .whole = whole};
}
DtVal dt_val_float(double number)
{
    return (DtVal){.kind = DT_VAL_FLOAT, .weak = true, .number = number};
}
DtVal dt_val_bool(bool truth) { return (DtVal){.kind = DT_VAL_BOOL, .weak = true, .whole = truth}; }

DtVal dt_val_tuple(DtLower *l, const DtVal *items, uint32_t n)
{
    DtVal *copy = DT_NEW_ARRAY(l->arena, DtVal, n + 1);
    if (n)
        memcpy(copy, items, n * sizeof(DtVal));
    return (DtVal){.kind = DT_VAL_TUPLE, .tuple = {copy, n}};
}

DtVal dt_val_of(DtLower *l, DtValue *value, bool weak)
{
    return (DtVal){.kind = DT_VAL_TENSOR, .weak = weak, .tensor = {value, l->now->frame}};
}

double dt_val_number(const DtVal *v)
{
    return v->kind == DT_VAL_FLOAT ? v->number : (double)v->whole;
}

DtDtype dt_val_dtype(const DtVal *v)
{
    switch (v->kind) {
    case DT_VAL_BOOL: return DT_BOOL;
    case DT_VAL_INT: return DT_I32;
    case DT_VAL_FLOAT: return DT_F32;
    default: return v->tensor.value->type->dtype;
    }
}

/* ---- into the graph ---- */

static DtValue *constant(DtLower *l, const DtVal *v, DtDtype dtype)
{
    DtFrame *frame = l->now->frame;
    double number = dt_val_number(v);
    if (dtype == DT_BOOL)
        number = number != 0;
    if (dtype == DT_I32 && !(number >= INT32_MIN && number <= INT32_MAX)) {
        dt_report_error(l, E0404, frame->b.span, "%s does not fit i32", dt_report_type(l, v));
        number = 0;
    }
    if (dtype == DT_I32)
        number = trunc(number);
    return dt_graph_constant(&frame->b, dtype, number);
}

DtValue *dt_val_use(DtLower *l, const DtVal *v, DtDtype dtype)
{
    DtFrame *frame = l->now->frame;
    if (dt_val_is_constant(v))
        return constant(l, v, dtype);
    DtValue *value = dt_frame_import(l, frame, v->tensor.value, v->tensor.frame);
    return value->type->dtype == dtype ? value : dt_graph_cast(&frame->b, value, dtype);
}

DtValue *dt_val_tensor(DtLower *l, const DtVal *v) { return dt_val_use(l, v, dt_val_dtype(v)); }

bool dt_val_check(DtLower *l, const DtVal *v, const DtExpr *expr)
{
    if (dt_val_is_error(v))
        return false;
    if (dt_val_is_constant(v) || v->kind == DT_VAL_TENSOR)
        return true;
    DtSpan span = expr ? expr->span : l->now->frame->b.span;
    DtDiag *d = dt_report_error(l, E0204, span, "a value is needed here, and this is %s",
                                dt_report_type(l, v));
    if (v->kind == DT_VAL_FUNCTION || v->kind == DT_VAL_INSTANCE)
        dt_diag_note(d, "to call it, write its arguments in parentheses after it");
    if (v->kind == DT_VAL_TUPLE)
        dt_diag_note(d, "take the values of a tuple apart first: `a, b = ...`");
    return false;
}

DtVal dt_val_cast(DtLower *l, const DtVal *v, DtDtype dtype)
{
    return dt_val_of(l, dt_val_use(l, v, dtype), false);
}

DtVal dt_val_round(DtLower *l, const DtVal *v, DtDtype dtype)
{
    if (v->kind != DT_VAL_TENSOR || !dt_dtype_is_float(dt_val_dtype(v)))
        return *v;
    return dt_val_cast(l, v, dtype);
}

DtVal dt_val_expand(DtLower *l, DtVal v, uint32_t rank, const DtAxis *axes)
{
    DtValue *value = dt_val_tensor(l, &v);
    if (value->type->rank == rank)
        return v;
    const DtType *type = dt_axes_type(l, l->now->frame->b.span, value->type->dtype, rank, axes);
    if (!type)
        return dt_val_error();
    return dt_val_of(l, dt_graph_expand(&l->now->frame->b, value, type),
                     v.weak || dt_val_is_constant(&v));
}

/* ---- joining ---- */

static DtDtype join_floats(DtDtype a, DtDtype b) { return a == b ? a : DT_F32; }

DtDtype dt_val_join(const DtVal *v, uint32_t n, bool floats, bool *ret_weak)
{
    bool has_float = floats, has_int = false, has_strong = false;
    DtDtype strong = DT_F32;
    for (uint32_t i = 0; i < n; i++) {
        DtDtype dtype = dt_val_dtype(&v[i]);
        if (dt_dtype_is_float(dtype)) {
            has_float = true;
            if (v[i].kind == DT_VAL_TENSOR && !v[i].weak) {
                strong = has_strong ? join_floats(strong, dtype) : dtype;
                has_strong = true;
            }
        } else if (dtype != DT_BOOL) {
            has_int = true;
        }
    }
    *ret_weak = has_float && !has_strong;
    return has_float ? strong : has_int ? DT_I32 : DT_BOOL;
}

static /* ---- broadcasting ---- */

DtDiag *extent_error(DtLower *l, DtSpan span, const char *axis, int64_t a,
                            const DtExpr *a_expr, int64_t b, const DtExpr *b_expr)
{
    DtDiag *d = dt_report_error(l, E0303, span, "the extents of `%s` disagree: %lld and %lld", axis,
                                (long long)a, (long long)b);
    const DtExpr *exprs[2] = {a_expr, b_expr};
    int64_t extents[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (!exprs[i])
            continue;
        const DtExpr *bare = dt_report_bare(exprs[i]);
        const DtBinding *binding =
            bare->kind == DT_EXPR_NAME ? dt_expr_find(l, bare->name.text) : NULL;
        dt_diag_label(d, exprs[i]->span, "`%s` is %lld", axis, (long long)extents[i]);
        if (binding && binding->span.file)
            dt_diag_label(d, binding->span, "`%s` gets its axes here", binding->name);
    }
    dt_diag_note(d, "axes of one name are the same axis and must have equal extents");
    dt_diag_help(d, "if they are different axes, rename one: `x[%s -> other]`", axis);
    return d;
}

static bool add_axes(DtLower *l, const DtVal *v, const DtExpr *const *exprs, uint32_t i,
                     DtSpan span, uint32_t *rank, DtAxis *axes, uint32_t *from)
{
    if (v[i].kind != DT_VAL_TENSOR)
        return true;
    const DtType *type = v[i].tensor.value->type;
    for (uint32_t k = 0; k < type->rank; k++) {
        uint32_t at = 0;
        while (at < *rank && axes[at].name != type->axes[k].name)
            at++;
        if (at < *rank) {
            if (axes[at].extent == type->axes[k].extent)
                continue;
            extent_error(l, span, axes[at].name, axes[at].extent,
                                exprs ? exprs[from[at]] : NULL, type->axes[k].extent,
                                exprs ? exprs[i] : NULL);
            return false;
        }
        if (*rank == DT_MAX_RANK) {
            dt_report_error(l, E0312, span, "the result would have more than %d axes", DT_MAX_RANK);
            return false;
        }
        from[*rank] = i;
        axes[(*rank)++] = type->axes[k];
    }
    return true;
}

bool dt_val_union_axes(DtLower *l, const DtVal *v, const DtExpr *const *exprs, uint32_t n,
                       DtSpan span, uint32_t *ret_rank, DtAxis ret_axes[DT_MAX_RANK])
{
    uint32_t from[DT_MAX_RANK], most = 0;
    *ret_rank = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (v[i].kind == DT_VAL_TENSOR &&
            (v[most].kind != DT_VAL_TENSOR ||
             v[i].tensor.value->type->rank > v[most].tensor.value->type->rank))
            most = i;
    }
    if (!add_axes(l, v, exprs, most, span, ret_rank, ret_axes, from))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (i != most && !add_axes(l, v, exprs, i, span, ret_rank, ret_axes, from))
            return false;
    }
    return true;
}

bool dt_val_union(DtLower *l, const DtVal *v, const DtExpr *const *exprs, uint32_t n, DtSpan span,
                  uint32_t *ret_rank, DtAxis ret_axes[DT_MAX_RANK])
{
    return dt_val_union_axes(l, v, exprs, n, span, ret_rank, ret_axes) &&
           dt_axes_type(l, span, DT_F32, *ret_rank, ret_axes) != NULL;
}

/* ---- maps ---- */

static bool is_compare(DtOpKind kind)
{
    return kind == DT_OP_LT || kind == DT_OP_LE || kind == DT_OP_EQ || kind == DT_OP_NE;
}

/* Returns x if an elementwise op with a literal changes nothing (x + 0, x - 0, x * 1, x / 1) and
 * the dtype of x stays; else NULL. */
static const DtVal *neutral(DtOpKind kind, const DtVal *v, DtDtype dtype)
{
    double unit = kind == DT_OP_ADD || kind == DT_OP_SUB   ? 0
                  : kind == DT_OP_MUL || kind == DT_OP_DIV ? 1
                                                           : NAN;
    if (v[0].kind == DT_VAL_TENSOR && dt_val_is_constant(&v[1]) && dt_val_number(&v[1]) == unit &&
        dt_val_dtype(&v[0]) == dtype)
        return &v[0];
    bool commutes = kind == DT_OP_ADD || kind == DT_OP_MUL;
    if (commutes && v[1].kind == DT_VAL_TENSOR && dt_val_is_constant(&v[0]) &&
        dt_val_number(&v[0]) == unit && dt_val_dtype(&v[1]) == dtype)
        return &v[1];
    return NULL;
}

static bool contains(const DtVal *v, uint32_t rank)
{
    return v->kind != DT_VAL_TENSOR || v->tensor.value->type->rank == rank;
}

/* Reports a lint for a product of two float tensors that has more axes than either operand: it is
 * often meant as a contraction. */
static void lint_growth(DtLower *l, const DtVal *v, DtSpan span, uint32_t rank)
{
    if (v[0].weak || v[1].weak || contains(&v[0], rank) || contains(&v[1], rank) ||
        dt_scope_in_library(l, span))
        return;
    const DtType *x = v[0].tensor.value->type, *y = v[1].tensor.value->type;
    if (!dt_dtype_is_float(x->dtype) || !dt_dtype_is_float(y->dtype) || x->rank == 0 ||
        y->rank == 0)
        return;
    DtDiag *d =
        dt_diag_report(l->diags, L0301, span, "this product has more axes than either factor");
    dt_diag_note(d, "%s times %s", dt_report_axes(l, x, false), dt_report_axes(l, y, false));
    dt_diag_help(d, "if this should be a sum of products, write `x @axis y`; if two axes are the "
                    "same, rename one");
}

DtVal dt_val_map(DtLower *l, DtOpKind kind, const DtVal *v, const DtExpr *const *exprs, uint32_t n,
                 bool floats)
{
    DtFrame *tensors = dt_scalars_enter(l, v, n);
    if (tensors) {
        DtVal scalar = dt_val_map(l, kind, v, exprs, n, floats);
        l->now->frame = tensors;
        return scalar;
    }
    DtFrame *frame = l->now->frame;
    uint32_t rank;
    DtAxis axes[DT_MAX_RANK];
    if (!dt_val_union(l, v, exprs, n, frame->b.span, &rank, axes))
        return dt_val_error();
    bool weak;
    DtDtype dtype = dt_val_join(v, n, floats, &weak);
    if (dtype == DT_BOOL && kind != DT_OP_AND && kind != DT_OP_OR && kind != DT_OP_NOT &&
        kind != DT_OP_EQ && kind != DT_OP_NE && kind != DT_OP_STOP)
        dtype = DT_I32; /* booleans are counted as numbers */
    const DtVal *same = n == 2 ? neutral(kind, v, dtype) : NULL;
    if (same)
        return dt_val_of(l, dt_val_tensor(l, same), same->weak);
    if (n == 2 && kind == DT_OP_MUL)
        lint_growth(l, v, frame->b.span, rank);
    DtValue *in[8];
    for (uint32_t i = 0; i < n; i++)
        in[i] = dt_val_use(l, &v[i], dtype);
    DtValue *out = dt_graph_map(&frame->b, kind, n, in, NULL);
    return dt_val_of(l, out, weak && !is_compare(kind));
}
