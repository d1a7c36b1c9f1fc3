/* SPDX-License-Identifier: Apache-2.0 */
/* The table of built-in functions, the matching of their arguments, and the elementwise ones.
 * Built-ins over axes are in builtins_axis.c and builtins_move.c. */
#include "frontend/foreign.h"
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <math.h>
#include <string.h>

const DtBuiltin dt_builtins[] = {
#define DT_BUILTIN(name, min, max, formals, handler, help) \
    {name, min, max, formals, dt_builtin_##handler, help},
#include "frontend/builtins.def"
#undef DT_BUILTIN
};
const uint32_t dt_n_builtins = DT_COUNT(dt_builtins);

const DtBuiltin *dt_builtin_find(const char *name, int with_axes)
{
    const DtBuiltin *any = NULL;
    for (uint32_t i = 0; i < dt_n_builtins; i++) {
        const DtBuiltin *b = &dt_builtins[i];
        if (strcmp(b->name, name) != 0)
            continue;
        bool fits = with_axes < 0 || (with_axes ? b->max_axes > 0 : b->min_axes == 0);
        if (fits)
            return b;
        any = b;
    }
    return with_axes < 0 ? any : NULL;
}

/* ---- matching arguments ---- */

typedef struct Formal {
    const char *name; /* "..." and "axis" are special */
    bool optional;
} Formal;

static uint32_t parse_formals(DtLower *l, const char *text, Formal ret_formals[8])
{
    uint32_t n = 0;
    while (text && *text && n < 8) {
        size_t len = strcspn(text, ",");
        bool optional = len > 0 && text[len - 1] == '=';
        (void)l;
        ret_formals[n++] = (Formal){dt_intern_n(text, len - optional), optional};
        text += len;
        text += strspn(text, ", ");
    }
    return n;
}

static bool usage(DtLower *l, const DtBuiltinCall *c, DtSpan span, const char *message)
{
    DtDiag *d = dt_report_error(l, E0205, span, "%s", message);
    DtText text = {0};
    const DtBuiltin *b = c->builtin;
    dt_text_printf(&text, "%s%s(%s)", b->name, b->max_axes ? "[...]" : "",
                   b->formals ? b->formals : "");
    dt_diag_note(d, "`%s`: %s", text.at, b->help);
    dt_text_free(&text);
    return false;
}

static bool put(DtLower *l, DtBuiltinCall *c, const Formal *formals, uint32_t at, DtVal val,
                const DtExpr *expr)
{
    if (c->arg[at])
        return usage(
            l, c, expr->span,
            dt_arena_printf(l->arena, "the argument `%s` is given twice", formals[at].name));
    c->val[at] = val;
    c->arg[at] = expr;
    return true;
}

static bool put_named(DtLower *l, DtBuiltinCall *c, const Formal *formals, uint32_t n,
                      const DtArg *arg, DtVal val)
{
    const char *names[8];
    for (uint32_t i = 0; i < n; i++) {
        if (formals[i].name == arg->name.text)
            return put(l, c, formals, i, val, arg->value);
        names[i] = formals[i].name;
    }
    DtDiag *d = dt_report_error(l, E0205, arg->name.span, "`%s` has no argument `%s`",
                                c->builtin->name, arg->name.text);
    if (!dt_foreign_help(d, DT_FOREIGN_ARGUMENT, (DtSpan){0}, arg->name.text))
        dt_report_nearest(l, d, arg->name.span, arg->name.text, names, n);
    dt_diag_note(d, "its arguments are %s", c->builtin->formals);
    return false;
}

static bool has_formal(const Formal *formals, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!strcmp(formals[i].name, name))
            return true;
    }
    return false;
}

/* Matches positional and named arguments with the formals of the row, in the order of the row.
 * Further arguments are allowed only if the row has `...`. */
static bool match(DtLower *l, DtBuiltinCall *c, const DtExpr *call, const DtVal *first,
                  const DtExpr *first_expr)
{
    Formal formals[8];
    uint32_t n = parse_formals(l, c->builtin->formals, formals), at = 0;
    bool more = has_formal(formals, n, "..."), by_axis = has_formal(formals, n, "axis");
    uint32_t fixed = n - more - by_axis;
    bool ok = true;
    uint32_t n_args = call->kind == DT_EXPR_CALL ? call->args.n : 0;
    for (uint32_t i = 0; i < n_args + (first != NULL); i++) {
        const DtArg *arg = first && i == 0 ? NULL : &call->args.at[i - (first != NULL)];
        const DtExpr *expr = arg ? arg->value : first_expr;
        if (arg && arg->name.text && by_axis && !has_formal(formals, fixed, arg->name.text))
            continue; /* the handler reads arguments that are named by axes */
        DtVal val = arg ? dt_expr_eval(l, expr) : *first;
        ok &= !dt_val_is_error(&val) && expr != NULL;
        if (!expr)
            continue;
        if (arg && arg->name.text)
            ok &= put_named(l, c, formals, fixed, arg, val);
        else if (at < fixed || (more && at < DT_COUNT(c->val)))
            ok &= put(l, c, formals, at++, val, expr);
        else
            ok = usage(l, c, expr->span,
                       dt_arena_printf(l->arena, "`%s` takes %s%u argument%s", c->builtin->name,
                                       more ? "at most " : "",
                                       more ? (unsigned)DT_COUNT(c->val) : fixed,
                                       fixed == 1 && !more ? "" : "s"));
    }
    for (uint32_t i = 0; ok && i < fixed; i++) {
        if (!c->arg[i] && !formals[i].optional)
            ok = usage(l, c, call->span,
                       dt_arena_printf(l->arena, "the argument `%s` of `%s` is missing",
                                       formals[i].name, c->builtin->name));
    }
    c->n = more && at > fixed ? at : fixed;
    return ok;
}

/* Whether the built-in draws random numbers anew in each step. (`bernoulli[](0.5)` draws one number
 * for all ranks and samples.) */
static bool is_draw(const DtBuiltin *b)
{
    return b->run == dt_builtin_bernoulli || b->run == dt_builtin_uniform_over ||
           b->run == dt_builtin_normal_over;
}

static bool check_axes(DtLower *l, const DtBuiltinCall *c, bool has_axes)
{
    const DtBuiltin *b = c->builtin;
    if (c->axes.n == 0 && has_axes && is_draw(b))
        return true;
    if (c->axes.n < b->min_axes || c->axes.n > b->max_axes) {
        DtDiag *d;
        if (b->max_axes == 0)
            d = dt_report_error(l, E0206, c->span, "`%s` takes no axes", b->name);
        else
            d = dt_report_error(
                l, E0206, c->span, "`%s` takes %s%u ax%s in square brackets, and %u %s given",
                b->name, b->max_axes == 255 ? "at least " : "", b->min_axes,
                b->min_axes == 1 ? "is" : "es", c->axes.n, c->axes.n == 1 ? "is" : "are");
        dt_diag_note(d, "`%s`: %s", b->name, b->help);
        return false;
    }
    return dt_axes_distinct(l, &c->axes, dt_arena_printf(l->arena, "`%s`", b->name));
}

DtVal dt_builtin_call(DtLower *l, const DtFunction *function, const DtExpr *expr,
                      const DtVal *first, const DtExpr *first_expr)
{
    DtBuiltinCall *c = DT_NEW(l->arena, DtBuiltinCall);
    *c = (DtBuiltinCall){.builtin = function->builtin,
                         .expr = expr,
                         .span = function->span,
                         .axes = function->axes,
                         .call = expr,
                         .label = function->label};
    if (!c->builtin->formals) {
        dt_report_error(l, E0205, expr->span, "`%s` is a value and takes no arguments",
                        c->builtin->name);
        return dt_val_error();
    }
    bool ok = check_axes(l, c, function->has_axes);
    ok &= match(l, c, expr, first, first_expr);
    if (!ok)
        return dt_val_error();
    if (l->now)
        l->now->frame->b.span = expr->span;
    return c->builtin->run(l, c);
}

DtVal dt_builtin_value(DtLower *l, const DtFunction *function, const DtExpr *expr)
{
    DtBuiltinCall *c = DT_NEW(l->arena, DtBuiltinCall);
    *c = (DtBuiltinCall){.builtin = function->builtin,
                         .expr = expr,
                         .span = function->span,
                         .axes = function->axes,
                         .call = expr};
    if (!check_axes(l, c, function->has_axes))
        return dt_val_error();
    if (l->now)
        l->now->frame->b.span = expr->span;
    return c->builtin->run(l, c);
}

/* ---- elementwise ---- */

static DtVal unary(DtLower *l, DtBuiltinCall *c, DtOpKind kind, bool floats,
                   double (*constant)(double))
{
    const DtVal *x = &c->val[0];
    if (!dt_val_check(l, x, c->arg[0]))
        return dt_val_error();
    if (x->kind == DT_VAL_TENSOR)
        return dt_val_map(l, kind, x, c->arg, 1, floats);
    if (!floats && x->kind != DT_VAL_FLOAT)
        return dt_val_int((int64_t)constant((double)x->whole));
    double number = constant(dt_val_number(x));
    if (!isnan(number) || isnan(dt_val_number(x)))
        return dt_val_float(number);
    dt_report_error(l, E0404, c->expr->span, "`%s` of %s is not a number", c->builtin->name,
                    dt_report_type(l, x));
    return dt_val_error();
}

static double rsqrt_of(double x) { return 1 / sqrt(x); }

DtVal dt_builtin_exp(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_EXP, true, exp); }
DtVal dt_builtin_log(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_LOG, true, log); }
DtVal dt_builtin_sqrt(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_SQRT, true, sqrt); }
DtVal dt_builtin_rsqrt(DtLower *l, DtBuiltinCall *c)
{
    return unary(l, c, DT_OP_RSQRT, true, rsqrt_of);
}
DtVal dt_builtin_sin(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_SIN, true, sin); }
DtVal dt_builtin_cos(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_COS, true, cos); }
DtVal dt_builtin_tanh(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_TANH, true, tanh); }
DtVal dt_builtin_erf(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_ERF, true, erf); }
DtVal dt_builtin_abs(DtLower *l, DtBuiltinCall *c) { return unary(l, c, DT_OP_ABS, false, fabs); }

DtVal dt_builtin_floor(DtLower *l, DtBuiltinCall *c)
{
    if (c->val[0].kind == DT_VAL_TENSOR && !dt_dtype_is_float(dt_val_dtype(&c->val[0])))
        return c->val[0]; /* an integer is its own floor */
    const DtVal v = unary(l, c, DT_OP_FLOOR, false, floor);
    const bool fits = v.kind == DT_VAL_FLOAT && fabs(v.number) <= INT32_MAX;
    return fits ? dt_val_int((int64_t)v.number) : v;
}

static bool check_two(DtLower *l, DtBuiltinCall *c, uint32_t from)
{
    bool ok = dt_val_check(l, &c->val[from], c->arg[from]);
    return dt_val_check(l, &c->val[from + 1], c->arg[from + 1]) && ok;
}

static DtVal larger(DtLower *l, DtBuiltinCall *c, DtOpKind kind)
{
    if (!check_two(l, c, 0))
        return dt_val_error();
    const DtVal *a = &c->val[0], *b = &c->val[1];
    if (a->kind == DT_VAL_TENSOR || b->kind == DT_VAL_TENSOR)
        return dt_val_map(l, kind, c->val, c->arg, 2, false);
    bool a_larger = dt_val_number(a) > dt_val_number(b);
    DtVal chosen = (kind == DT_OP_MAX) == a_larger ? *a : *b;
    bool to_float = a->kind == DT_VAL_FLOAT || b->kind == DT_VAL_FLOAT;
    return to_float ? dt_val_float(dt_val_number(&chosen)) : dt_val_int(chosen.whole);
}

DtVal dt_builtin_max(DtLower *l, DtBuiltinCall *c) { return larger(l, c, DT_OP_MAX); }
DtVal dt_builtin_min(DtLower *l, DtBuiltinCall *c) { return larger(l, c, DT_OP_MIN); }

/* Evaluates `where` with a constant condition: the result is the chosen branch, in the dtype and
 * with the axes that both branches have together. */
static DtVal where_constant(DtLower *l, DtBuiltinCall *c)
{
    bool weak;
    const DtVal *chosen = &c->val[c->val[0].whole ? 1 : 2];
    DtDtype dtype = dt_val_join(&c->val[1], 2, false, &weak);
    if (dt_val_is_constant(&c->val[1]) && dt_val_is_constant(&c->val[2]))
        return dtype == DT_F32 ? dt_val_float(dt_val_number(chosen)) : *chosen;
    uint32_t rank;
    DtAxis axes[DT_MAX_RANK];
    if (!dt_val_union(l, &c->val[1], &c->arg[1], 2, c->expr->span, &rank, axes))
        return dt_val_error();
    DtVal value = dt_val_of(l, dt_val_use(l, chosen, dtype), weak);
    return dt_val_expand(l, value, rank, axes);
}

DtVal dt_builtin_where(DtLower *l, DtBuiltinCall *c)
{
    DtFrame *tensors = dt_scalars_enter(l, c->val, 3);
    if (tensors) {
        DtVal scalar = dt_builtin_where(l, c);
        l->now->frame = tensors;
        return scalar;
    }
    if (!dt_val_check(l, &c->val[0], c->arg[0]) || !check_two(l, c, 1))
        return dt_val_error();
    if (dt_val_dtype(&c->val[0]) != DT_BOOL) {
        DtDiag *d = dt_report_error(l, E0403, c->arg[0]->span,
                                    "the condition of `where` must be bool, and %s is %s",
                                    dt_report_subject(l, c->arg[0]), dt_report_type(l, &c->val[0]));
        dt_report_origin(l, d, c->arg[0]);
        dt_diag_help(d, "compare it with something: `x != 0`");
        return dt_val_error();
    }
    if (dt_val_is_constant(&c->val[0]))
        return where_constant(l, c);
    uint32_t rank;
    DtAxis axes[DT_MAX_RANK];
    if (!dt_val_union(l, c->val, c->arg, 3, c->expr->span, &rank, axes))
        return dt_val_error();
    bool weak;
    DtDtype dtype = dt_val_join(&c->val[1], 2, false, &weak);
    DtValue *condition = dt_val_tensor(l, &c->val[0]);
    DtValue *a = dt_val_use(l, &c->val[1], dtype), *b = dt_val_use(l, &c->val[2], dtype);
    return dt_val_of(l, dt_graph_where(&l->now->frame->b, condition, a, b), weak);
}

DtVal dt_builtin_stop(DtLower *l, DtBuiltinCall *c)
{
    if (!dt_val_check(l, &c->val[0], c->arg[0]) || dt_val_is_constant(&c->val[0]))
        return c->val[0];
    DtBuilder *b = &l->now->frame->b;
    return dt_val_of(l, dt_graph_unary(b, DT_OP_STOP, dt_val_tensor(l, &c->val[0])),
                     c->val[0].weak);
}
