/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics of the lowering: finds the place where an error inside a called definition is shown,
 * and writes types and expressions for messages. */
#include "frontend/foreign.h"
#include "frontend/lower_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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

/* Returns the activation that the user's own text calls: the innermost one called from outside of
 * the library; NULL if there is none. */
static const DtActivation *user_call(const DtLower *l)
{
    const DtActivation *a = l->now;
    while (a && a->call.file && dt_scope_in_library(l, a->call))
        a = a->caller;
    return a && a->call.file ? a : NULL;
}

/* Describes a call with its axis arguments, for labels: "in this call of `linear`: a = embed, b =
 * (heads, head)". */
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

/* Returns the innermost activation whose definition contains span; NULL if none does. */
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
        a; /* shows the call from another file, else the innermost one if it may explain the
            * error */
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
    const DtSpan call = outer && outer->call.file ? outer->call
                        : l->now && !a            ? l->now->frame->b.span
                                                  : (DtSpan){0};
    if (!call.file)
        return;
    dt_diag_label(d, call, "by this call");
    dt_diag_help(d, "to use the same parameters twice, make the instance once: `f = name`, then "
                    "`f(...)` and `f(...)`");
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

/* ---- calls of another framework ---- */

/* Fixes for calls of another framework's functions (foreign.def), made of what was written:
 *
 *   nn.Linear(embed, ffn)(x)          linear[embed, ffn](x)             axes stand in square
 *                                                                       brackets
 *   cross_entropy(z, labels)          xent[vocab](z, labels)            the axis that labels lack
 *   embedding[vocab, embed](ids)      wte[vocab = ids]                  the parameter with these
 *                                                                       axes
 *   attend[s, t, d](.., mask = tril(s, s))   mask = iota[t] <= iota[s]  axes of the call around
 *
 * Like every fix each is compiled before it is shown, so one that does not fit is dropped. */

static const char *text_at(DtLower *l, DtSpan span)
{
    size_t len;
    const char *text = dt_diag_source(l->diags, span.file, &len);
    return text && span.lo <= span.hi && span.hi <= len
               ? dt_arena_strndup(l->arena, text + span.lo, span.hi - span.lo)
               : "";
}

/* Returns the text of the call's arguments, "z, labels"; NULL if one of them is not written in the
 * program. */
static const char *arguments_of(DtLower *l, const DtExpr *call)
{
    const char *list = "";
    for (uint32_t i = 0; i < call->args.n; i++) {
        const DtArg *arg = &call->args.at[i];
        if (!arg->value)
            return NULL;
        const uint32_t lo = arg->name.text ? arg->name.span.lo : arg->value->span.lo;
        list = dt_arena_printf(l->arena, "%s%s%s", list, i ? ", " : "",
                               text_at(l, (DtSpan){call->span.file, lo, arg->value->span.hi}));
    }
    return list;
}

/* Returns the axis that an argument names; NULL if it is another kind of value. */
static const char *axis_of(DtLower *l, const DtArg *arg)
{
    const DtExpr *bare = arg->name.text ? NULL : dt_report_bare(arg->value);
    const bool is_axis =
        bare && bare->kind == DT_EXPR_NAME && bare->name.text && dt_scope_axis(l, bare->name.text);
    return is_axis ? bare->name.text : NULL;
}

/* Adds a fix for `Linear(embed, ffn)` if all arguments are axes, which stand in brackets here; else
 * returns false. ours: "linear[]". */
static bool fix_axes(DtLower *l, DtDiag *d, const DtExpr *call, const char *ours)
{
    for (uint32_t i = 0; i < call->args.n; i++)
        if (!axis_of(l, &call->args.at[i]) &&
            dt_report_bare(call->args.at[i].value)->kind != DT_EXPR_TUPLE)
            return false;
    const char *label = dt_report_bare(call->a)->label.text;
    if (!call->args.n)
        return false;
    dt_diag_fix(d, call->span,
                dt_arena_printf(l->arena, "%s%s%.*s[%s]", label ? label : "", label ? ":" : "",
                                (int)strlen(ours) - 2, ours, arguments_of(l, call)),
                "axes stand in square brackets");
    return true;
}

/* Adds a fix for `cross_entropy(z, labels)`: the axis of classes is the one that z has and labels
 * lack. A second fix takes the mean; one of the two compiles. */
static void fix_loss(DtLower *l, DtDiag *d, const DtExpr *call, const char *ours,
                     const DtVal *values)
{
    if (call->args.n != 2 || values[0].kind != DT_VAL_TENSOR || values[1].kind != DT_VAL_TENSOR)
        return;
    const DtType *z = values[0].tensor.value->type, *labels = values[1].tensor.value->type;
    const char *classes = NULL, *others = "";
    for (uint32_t i = 0; i < z->rank; i++) {
        const char *name = z->axes[i].name;
        if (dt_type_find(labels, name) >= 0)
            others = dt_arena_printf(l->arena, "%s%s%s", others, *others ? ", " : "", name);
        else if (classes)
            return;
        else
            classes = name;
    }
    if (!classes)
        return;
    const char *loss = dt_arena_printf(l->arena, "%.*s[%s](%s)", (int)strlen(ours) - 2, ours,
                                       classes, arguments_of(l, call));
    dt_diag_fix(d, call->span, loss, "the classes are along `%s`", classes);
    dt_diag_fix(d, call->span, dt_arena_printf(l->arena, "mean[%s](%s)", others, loss),
                "the classes are along `%s`, and the loss is a mean", classes);
}

/* Whether the names in brackets, or the arguments in parentheses if there are none, are the axes of
 * the type. */
static bool are_axes(DtLower *l, const DtExpr *call, const DtExpr *brackets, const DtType *type)
{
    const uint32_t n = brackets ? brackets->subs.n : call->args.n;
    bool same = n == type->rank;
    for (uint32_t i = 0; same && i < n; i++) {
        const DtSub *sub = brackets ? &brackets->subs.at[i] : NULL;
        const char *axis = NULL;
        if (sub && sub->kind == DT_SUB_GROUP && sub->from.names.n == 1)
            axis = sub->from.names.at[0].text;
        else if (!sub)
            axis = axis_of(l, &call->args.at[i]);
        same = axis == type->axes[i].name;
    }
    return same;
}

/* Returns the name of the layer's only parameter with these axes, and its type; NULL if there are
 * none or several. */
static const char *table_of(DtLower *l, const DtExpr *call, const DtExpr *brackets,
                            const DtType **ret_type)
{
    const char *found = NULL;
    const DtFrame *frame = l->now ? l->now->frame : NULL;
    for (uint32_t i = 0; frame && i < frame->params.n; i++) {
        const DtFrameParam *param = &frame->params.at[i];
        if (param->owner || !param->value || !are_axes(l, call, brackets, param->value->type))
            continue;
        if (found)
            return NULL;
        found = param->formal.path;
        *ret_type = param->value->type;
    }
    return found;
}

/* Adds a fix for `embedding[vocab, embed](ids)`, or for `Embedding(vocab, embed)(ids)` with the
 * call around it: an index of the parameter with these axes. */
static void fix_lookup(DtLower *l, DtDiag *d, const DtExpr *call, const DtExpr *around)
{
    const DtExpr *callee = dt_report_bare(call->a);
    const DtExpr *brackets = callee->kind == DT_EXPR_SUBS ? callee : NULL;
    const DtExpr *whole = brackets ? call : around;
    const DtType *type;
    const char *table = whole && whole->args.n == 1 ? table_of(l, call, brackets, &type) : NULL;
    if (table)
        dt_diag_fix(d, whole->span,
                    dt_arena_printf(l->arena, "%s[%s = %s]", table, type->axes[0].name,
                                    arguments_of(l, whole)),
                    "`%s` is a table with these axes", table);
}

static bool is_one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(words[i], word))
            return true;
    return false;
}

void dt_report_foreign(DtLower *l, const DtUnknownCall *unknown, const DtExpr *around,
                       const DtVal *values)
{
    static const char *const lookups[] = {"Embedding", "Embed"};
    const DtExpr *call = unknown->call;
    const char *ours;
    if (!unknown->diag || !call || call->kind != DT_EXPR_CALL ||
        dt_scope_in_library(l, call->span) || !arguments_of(l, call))
        return;
    if (is_one_of(unknown->word, lookups, DT_COUNT(lookups)))
        fix_lookup(l, unknown->diag, call, around);
    else if (around || !dt_foreign_is(DT_FOREIGN_VALUE, unknown->word, &ours) || !strchr(ours, '['))
        return;
    else if (!fix_axes(l, unknown->diag, call, ours))
        fix_loss(l, unknown->diag, call, ours, values);
}

/* Returns the expression `iota[t] <= iota[s]` for a call with the axes s and t; NULL if the call
 * has no two such axes. */
static const char *causal_of(DtLower *l, const DtExpr *call)
{
    const DtExpr *callee = dt_report_bare(call->a);
    const char *axes[2];
    if (callee->kind != DT_EXPR_SUBS || callee->subs.n < 2 || dt_scope_in_library(l, call->span))
        return NULL;
    for (uint32_t k = 0; k < 2; k++) {
        const DtSub *sub = &callee->subs.at[k];
        if (sub->kind != DT_SUB_GROUP || sub->from.names.n != 1)
            return NULL;
        axes[k] = sub->from.names.at[0].text;
    }
    return dt_arena_printf(l->arena, "iota[%s] <= iota[%s]", axes[1], axes[0]);
}

void dt_report_foreign_mask(DtLower *l, const DtUnknownCall *unknown, const DtExpr *call,
                            uint32_t i)
{
    static const char *const masks[] = {"tril", "causal_mask"};
    const DtArg *arg = &call->args.at[i];
    if (!unknown->diag || !is_one_of(unknown->word, masks, DT_COUNT(masks)) || !arg->name.text ||
        strcmp(arg->name.text, "mask") != 0)
        return;
    const char *causal = causal_of(l, call);
    if (causal)
        dt_diag_fix(unknown->diag, arg->value->span, causal,
                    "queries see keys up to their own position");
}

bool dt_report_foreign_causal(DtLower *l, DtDiag *d, const DtExpr *call, uint32_t i)
{
    static const char *const words[] = {"is_causal", "causal"};
    const DtArg *arg = &call->args.at[i];
    if (!is_one_of(arg->name.text, words, DT_COUNT(words)))
        return false;
    const char *causal = causal_of(l, call);
    if (causal)
        dt_diag_fix(d, (DtSpan){call->span.file, arg->name.span.lo, arg->value->span.hi},
                    dt_arena_printf(l->arena, "mask = %s", causal),
                    "queries see keys up to their own position");
    return true;
}
