/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on constants: integers in 64 bits with overflow an error, floats in double, as the
 * language defines the operators (`/` of integers is a float, `//` and `%` round towards minus
 * infinity). Here too: powers with a constant exponent. */
#include "frontend/lower_internal.h"

#include <math.h>

static DtVal overflow(DtLower *l, const DtExpr *expr)
{
    DtDiag *d = dt_report_error(l, E0404, expr->span, "this constant does not fit 64 bits");
    dt_diag_note(
        d,
        "integer constants are exact; write a factor as a float (`2.0`) for an approximate value");
    return dt_val_error();
}

static DtVal by_zero(DtLower *l, const DtExpr *expr)
{
    dt_report_error(l, E0404, expr->b->span, "division by the constant zero");
    return dt_val_error();
}

DtVal dt_const_unary(DtLower *l, const DtExpr *expr, DtVal a)
{
    if (expr->op == DT_OPR_NOT) {
        if (a.kind == DT_VAL_BOOL)
            return dt_val_bool(!a.whole);
        dt_report_error(l, E0403, expr->a->span, "`not` needs a truth value, and this is %s",
                        dt_report_type(l, &a));
        return dt_val_error();
    }
    if (a.kind == DT_VAL_FLOAT)
        return dt_val_float(-a.number);
    int64_t result;
    if (__builtin_sub_overflow((int64_t)0, a.whole, &result))
        return overflow(l, expr);
    return dt_val_int(result);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static DtVal int_power(DtLower *l, const DtExpr *expr, int64_t base, int64_t n)
{
    if (n < 0) {
        if (base == 0)
            return by_zero(l, expr);
        return dt_val_float(pow((double)base, (double)n));
    }
    int64_t result = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1 && __builtin_mul_overflow(result, base, &result))
            return overflow(l, expr);
        if (n > 1 && __builtin_mul_overflow(base, base, &base))
            return overflow(l, expr);
    }
    return dt_val_int(result);
}

static bool is_dim(const DtLower *l, const DtExpr *expr)
{
    const DtExpr *bare = dt_report_bare(expr);
    const DtGlobal *global = bare->kind == DT_EXPR_NAME ? dt_scope_value(l, bare->name.text) : NULL;
    return global && global->kind == DT_GLOBAL_DIM;
}

/* Reports a lint for a division of dims with a remainder, `head = embed // heads`: elements would
 * belong to no head. */
static void lint_remainder(DtLower *l, const DtExpr *expr, int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0 || a % b == 0 || !is_dim(l, expr->a) || !is_dim(l, expr->b) ||
        dt_map_find_pointer(&l->taken, expr))
        return;
    dt_map_add_pointer(&l->taken, expr, l);
    const char *of = dt_report_bare(expr->a)->name.text, *by = dt_report_bare(expr->b)->name.text;
    DtDiag *d = dt_diag_report(l->diags, L0212, expr->span,
                               "`%s // %s` leaves a remainder: %lld is %lld x %lld and %lld more",
                               of, by, (long long)a, (long long)b, (long long)(a / b),
                               (long long)(a % b));
    dt_diag_help(d, "choose `%s` so that `%s` divides it, %lld say", of, by,
                 (long long)((a / b + 1) * b));
}

static DtVal int_binary(DtLower *l, const DtExpr *expr, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;
    switch (expr->op) {
    case DT_OPR_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case DT_OPR_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case DT_OPR_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case DT_OPR_DIV: return b == 0 ? by_zero(l, expr) : dt_val_float((double)a / (double)b);
    case DT_OPR_FLOORDIV:
    case DT_OPR_MOD:
        if (b == 0)
            return by_zero(l, expr);
        if (b == -1) {
            if (expr->op == DT_OPR_MOD)
                return dt_val_int(0);
            over = __builtin_sub_overflow((int64_t)0, a, &r);
            break;
        }
        r = floor_div(a, b);
        if (expr->op == DT_OPR_FLOORDIV)
            lint_remainder(l, expr, a, b);
        if (expr->op == DT_OPR_MOD)
            r = a - r * b;
        break;
    case DT_OPR_POW: return int_power(l, expr, a, b);
    default: break;
    }
    return over ? overflow(l, expr) : dt_val_int(r);
}

static DtVal float_binary(DtLower *l, const DtExpr *expr, double a, double b)
{
    switch (expr->op) {
    case DT_OPR_ADD: return dt_val_float(a + b);
    case DT_OPR_SUB: return dt_val_float(a - b);
    case DT_OPR_MUL: return dt_val_float(a * b);
    case DT_OPR_DIV: return b == 0 ? by_zero(l, expr) : dt_val_float(a / b);
    case DT_OPR_FLOORDIV: return b == 0 ? by_zero(l, expr) : dt_val_float(floor(a / b));
    case DT_OPR_MOD: return b == 0 ? by_zero(l, expr) : dt_val_float(a - floor(a / b) * b);
    default: break;
    }
    double r = pow(a, b);
    if (isnan(r) && !isnan(a) && !isnan(b)) {
        dt_report_error(l, E0404, expr->span,
                        "a negative constant has no power with a fractional exponent");
        return dt_val_error();
    }
    return dt_val_float(r);
}

static bool compare(DtOperator op, int order)
{
    switch (op) {
    case DT_OPR_LT: return order < 0;
    case DT_OPR_LE: return order <= 0;
    case DT_OPR_GT: return order > 0;
    case DT_OPR_GE: return order >= 0;
    case DT_OPR_EQ: return order == 0;
    default: return order != 0;
    }
}

DtVal dt_const_binary(DtLower *l, const DtExpr *expr, DtVal a, DtVal b)
{
    bool ints = a.kind != DT_VAL_FLOAT && b.kind != DT_VAL_FLOAT;
    double x = dt_val_number(&a), y = dt_val_number(&b);
    switch (expr->op) {
    case DT_OPR_LT:
    case DT_OPR_LE:
    case DT_OPR_GT:
    case DT_OPR_GE:
    case DT_OPR_EQ:
    case DT_OPR_NE:
        if (ints)
            return dt_val_bool(compare(expr->op, a.whole < b.whole ? -1 : a.whole > b.whole));
        if (isnan(x) || isnan(y))
            return dt_val_bool(expr->op == DT_OPR_NE);
        return dt_val_bool(compare(expr->op, x < y ? -1 : x > y));
    default: break;
    }
    return ints ? int_binary(l, expr, a.whole, b.whole) : float_binary(l, expr, x, y);
}

/* ---- powers of tensors ---- */

/* x ** n by repeated squaring. */
static DtVal repeated(DtLower *l, DtVal x, uint64_t n)
{
    DtVal result = dt_val_int(1);
    bool has_result = false;
    for (; n > 0; n >>= 1) {
        if (n & 1) {
            DtVal pair[2] = {result, x};
            result = has_result ? dt_val_map(l, DT_OP_MUL, pair, NULL, 2, false) : x;
            has_result = true;
        }
        if (n > 1) {
            DtVal pair[2] = {x, x};
            x = dt_val_map(l, DT_OP_MUL, pair, NULL, 2, false);
        }
    }
    return result;
}

static DtVal reciprocal(DtLower *l, DtVal x)
{
    DtVal pair[2] = {dt_val_int(1), x};
    return dt_val_map(l, DT_OP_DIV, pair, NULL, 2, true);
}

/* Returns the power of a tensor, or one whose exponent is a tensor; an error value after a
 * report. */
DtVal dt_expr_power(DtLower *l, const DtExpr *expr, DtVal x, DtVal n)
{
    const DtExpr *exprs[2] = {expr->a, expr->b};
    if (n.kind == DT_VAL_INT && x.kind == DT_VAL_TENSOR) {
        if (n.whole == 0) {
            DtVal one = dt_val_of(
                l, dt_val_use(l, &(DtVal){.kind = DT_VAL_INT, .whole = 1}, dt_val_dtype(&x)),
                x.weak);
            const DtType *type = x.tensor.value->type;
            return dt_val_expand(l, one, type->rank, type->axes);
        }
        if (n.whole > 1024 || n.whole < -1024) {
            dt_report_error(l, E0404, expr->b->span,
                            "an integer exponent is repeated multiplication; %lld is too many",
                            (long long)n.whole);
            return dt_val_error();
        }
        DtVal result = repeated(l, x, (uint64_t)(n.whole < 0 ? -n.whole : n.whole));
        return n.whole < 0 && !dt_val_is_error(&result) ? reciprocal(l, result) : result;
    }
    if (n.kind == DT_VAL_FLOAT && (n.number == 0.5 || n.number == -0.5))
        return dt_val_map(l, n.number > 0 ? DT_OP_SQRT : DT_OP_RSQRT, &x, exprs, 1, true);
    DtVal pair[2] = {x, n};
    return dt_val_map(l, DT_OP_POW, pair, exprs, 2, true);
}
