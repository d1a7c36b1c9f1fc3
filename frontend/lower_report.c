/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics of the lowering: where an error is shown when it lies inside a called definition,
 * and how types and expressions read in messages. */
#include "frontend/lower_internal.h"

#include <stdio.h>
#include <string.h>

const DtExpr *dt_report_bare(const DtExpr *expr)
{
    while (expr && expr->kind == DT_EXPR_PAREN)
        expr = expr->a;
    return expr;
}

static const char *kind_of(const DtDef *def)
{
    return def->kind == DT_DEF_FN ? "function" : def->kind == DT_DEF_LAYER ? "layer" : "model";
}

/* The activation whose call is the user's: the innermost one called from outside the library. */
static const DtActivation *user_call(const DtLower *l)
{
    const DtActivation *a = l->now;
    while (a && a->call.file && dt_scope_in_library(l, a->call))
        a = a->caller;
    return a && a->call.file ? a : NULL;
}

/* "called here with a = embed, b = (heads, head)" */
static const char *call_text(DtLower *l, const DtActivation *a)
{
    DtText text = {0};
    dt_text_printf(&text, "in this call of `%s`", a->def->name.text);
    for (uint32_t i = 0; i < a->axes.n && i < a->def->axes.n; i++)
        dt_text_printf(&text, "%s%s = %s", i ? ", " : ": ", a->def->axes.at[i].text,
                       dt_report_names(l, &a->axes.at[i].names));
    char *copy = dt_arena_strndup(l->arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

/* The innermost activation whose definition contains span; NULL: no definition contains it. */
static const DtActivation *around(const DtLower *l, DtSpan span)
{
    for (const DtActivation *a = l->now; a; a = a->caller) {
        if (a->def && a->def->span.file == span.file && a->def->span.lo <= span.lo &&
            span.hi <= a->def->span.hi)
            return a;
    }
    return NULL;
}

DtDiag *dt_report_error(DtLower *l, DtDiagCode code, DtSpan span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *message = dt_arena_vprintf(l->arena, format, args);
    va_end(args);
    const DtActivation *a = around(l, span);
    if (!a || !a->def || !a->call.file)
        return dt_diag_report(l->diags, code, span, "%s", message);
    if (dt_scope_in_library(l, span)) {
        const DtActivation *user = user_call(l);
        if (user) {
            DtDiag *d = dt_diag_report(l->diags, code, user->call, "%s", message);
            dt_diag_label(d, span, "inside the %s `%s`", kind_of(a->def), a->def->name.text);
            return d;
        }
    }
    DtDiag *d = dt_diag_report(l->diags, code, span, "%s", message);
    const DtActivation *other =
        a; /* the call from another file, else the innermost one, if it matters */
    while (other && other->def && other->call.file == span.file)
        other = other->caller;
    if (other && other->def && other->call.file)
        dt_diag_label(d, other->call, "%s", call_text(l, other));
    else if (a->def->axes.n)
        dt_diag_label(d, a->call, "%s", call_text(l, a));
    return d;
}

void dt_report_calls(DtLower *l, DtDiag *d, DtSpan span)
{
    const DtActivation *a = around(l, span), *outer = a;
    while (outer && outer->caller && outer->caller->call.file && outer->caller->def)
        outer = outer->caller;
    const DtSpan call = outer && outer->call.file ? outer->call : l->now && !a ? l->now->frame->b.span : (DtSpan){0};
    if (!call.file)
        return;
    dt_diag_label(d, call, "by this call");
    dt_diag_help(d, "to use the same parameters twice, make the instance once: `f = name`, then `f(...)` and `f(...)`");
}

/* ---- texts ---- */

const char *dt_report_axes(DtLower *l, const DtType *type, bool extents)
{
    DtText text = {0};
    dt_text_add(&text, "[");
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtGlobal *global = dt_scope_axis(l, type->axes[i].name);
        dt_text_printf(&text, "%s%s", i ? ", " : "", type->axes[i].name);
        if (extents || !global || global->kind == DT_GLOBAL_AXIS)
            dt_text_printf(&text, " = %lld", (long long)type->axes[i].extent);
    }
    dt_text_add(&text, "]");
    char *copy = dt_arena_strndup(l->arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

const char *dt_report_names(DtLower *l, const DtAxisNames *names)
{
    DtText text = {0};
    if (names->n != 1)
        dt_text_add(&text, "(");
    for (uint32_t i = 0; i < names->n; i++)
        dt_text_printf(&text, "%s%s", i ? ", " : "", names->at[i]);
    if (names->n != 1)
        dt_text_add(&text, ")");
    char *copy = dt_arena_strndup(l->arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

const char *dt_report_type(DtLower *l, const DtVal *val)
{
    switch (val->kind) {
    case DT_VAL_INT: return dt_arena_printf(l->arena, "the constant %lld", (long long)val->whole);
    case DT_VAL_FLOAT: {
        DtText text = {0};
        dt_text_double(&text, val->number);
        char *copy = dt_arena_printf(l->arena, "the constant %s", text.at);
        dt_text_free(&text);
        return copy;
    }
    case DT_VAL_BOOL: return val->whole ? "the constant true" : "the constant false";
    case DT_VAL_TENSOR:
        return dt_arena_printf(l->arena, "%s%s", dt_dtype_name(val->tensor.value->type->dtype),
                               dt_report_axes(l, val->tensor.value->type, false));
    case DT_VAL_TUPLE: return dt_arena_printf(l->arena, "a tuple of %u values", val->tuple.n);
    case DT_VAL_STRING: return "a text";
    case DT_VAL_FUNCTION: {
        const DtFunction *f = val->function;
        if (f->is_cast)
            return dt_arena_printf(l->arena, "the dtype %s", dt_dtype_name(f->dtype));
        return f->def ? dt_arena_printf(l->arena, "the %s `%s`", kind_of(f->def), f->def->name.text)
                      : dt_arena_printf(l->arena, "the built-in `%s`", f->builtin->name);
    }
    case DT_VAL_INSTANCE:
        return dt_arena_printf(l->arena, "an instance of `%s`", val->instance->def->name.text);
    case DT_VAL_INIT: return "an initialiser";
    case DT_VAL_NOTHING: return "nothing";
    case DT_VAL_ERROR: break;
    }
    return "an error";
}

const char *dt_report_subject(DtLower *l, const DtExpr *expr)
{
    const DtExpr *bare = dt_report_bare(expr);
    if (bare && bare->kind == DT_EXPR_NAME && !bare->label.text)
        return dt_arena_printf(l->arena, "`%s`", bare->name.text);
    return "this value";
}

void dt_report_origin(DtLower *l, DtDiag *diag, const DtExpr *expr)
{
    const DtExpr *bare = dt_report_bare(expr);
    if (!bare || bare->kind != DT_EXPR_NAME)
        return;
    const DtBinding *binding = dt_expr_find(l, bare->name.text);
    if (binding && binding->span.file)
        dt_diag_label(diag, binding->span, "`%s` gets its axes here", bare->name.text);
}

void dt_report_nearest(DtLower *l, DtDiag *diag, DtSpan span, const char *name,
                       const char *const *names, size_t n)
{
    const char *near = dt_text_nearest(name, names, n);
    if (!near)
        return;
    if (span.file && !dt_scope_in_library(l, span))
        dt_diag_fix(diag, span, near, "did you mean `%s`?", near);
    else
        dt_diag_help(diag, "did you mean `%s`?", near);
}
