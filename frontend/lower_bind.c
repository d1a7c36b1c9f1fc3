/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of a call against the signature of the definition: axes, extents, dtypes,
 * and the rounding of the arguments and results of a layer. `x[batch, seq]` is exact, `x[..., d]`
 * accepts more axes, and `...` in a result means the union of all arguments' extra axes. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

#include <string.h>

/* ---- messages ---- */

static bool names_have(const DtAxisNames *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++) {
        if (names->at[i] == name)
            return true;
    }
    return false;
}

static bool declares(const DtDeclared *t, const char *name)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->axes[i].name == name)
            return true;
    }
    return false;
}

static DtSpan argument_span(const DtSignature *s, const DtBound *bound)
{
    return bound->expr ? bound->expr->span : s->call->span;
}

/* Reports an error of an argument, in the scope of the caller, in which the argument is written. */
static DtDiag *argument_report(DtLower *l, const DtSignature *s, DtDiagCode code,
                               const DtBound *bound, const char *message)
{
    DtActivation *callee = l->now;
    l->now = callee->caller;
    DtDiag *d = dt_report_error(l, code, argument_span(s, bound), "%s", message);
    if (bound->expr)
        dt_report_origin(l, d, bound->expr);
    l->now = callee;
    return d;
}

static void label_formal(DtLower *l, const DtSignature *s, const DtFormal *formal, DtDiag *d)
{
    if (!dt_scope_in_library(l, formal->span))
        dt_diag_label(d, formal->span, "`%s` of `%s`", formal->name.text,
                      s->function->def->name.text);
}

static const char *described(DtLower *l, const DtBound *bound)
{
    return bound->val.kind == DT_VAL_TENSOR
               ? dt_report_axes(l, bound->val.tensor.value->type, false)
               : dt_report_type(l, &bound->val);
}

/* Returns an axis of the argument that may be the missing axis under another name: it has the same
 * extent, and the formal does not need it. NULL if there is none or several. */
static const char *rename_candidate(const DtBound *bound, const DtDeclared *want,
                                    const DtAxis *missing)
{
    if (bound->val.kind != DT_VAL_TENSOR)
        return NULL;
    const DtType *type = bound->val.tensor.value->type;
    const char *found = NULL;
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtAxis *axis = &type->axes[i];
        if (declares(want, axis->name) || (missing->extent && axis->extent != missing->extent))
            continue;
        if (found)
            return NULL; /* several candidates: none is proposed */
        found = axis->name;
    }
    return found;
}

/* Returns the dim to which the missing one is declared equal, as in `dim kseq = seq`, if the
 * argument has that one; else NULL. */
static const char *alias_candidate(DtLower *l, const DtBound *bound, const char *missing)
{
    const DtGlobal *global = dt_scope_axis(l, missing);
    const DtExpr *value = global ? dt_report_bare(global->value) : NULL;
    if (bound->val.kind != DT_VAL_TENSOR || !value || value->kind != DT_EXPR_NAME)
        return NULL;
    return dt_type_find(bound->val.tensor.value->type, value->name.text) >= 0 ? value->name.text
                                                                              : NULL;
}

static void suggest_rename(DtLower *l, DtDiag *d, const DtSignature *s, const DtBound *bound,
                           const DtDeclared *want, const DtAxis *missing)
{
    const char *from = alias_candidate(l, bound, missing->name);
    if (from && declares(want, from))
        from = NULL;
    if (!from)
        from = rename_candidate(bound, want, missing);
    if (!from || !bound->expr)
        return;
    const DtExpr *bare = dt_report_bare(bound->expr), *at = bound->expr;
    DtActivation *callee = l->now;
    l->now = callee->caller;
    const DtBinding *binding = bare->kind == DT_EXPR_NAME ? dt_expr_find(l, bare->name.text) : NULL;
    l->now = callee;
    if (binding && binding->made &&
        (binding->made->kind == DT_EXPR_CALL || binding->made->kind == DT_EXPR_SUBS))
        at = binding->made;
    (void)s;
    DtSpan end = {at->span.file, at->span.hi, at->span.hi};
    if (!dt_scope_in_library(l, end))
        dt_diag_fix(d, end, dt_arena_printf(l->arena, "[%s -> %s]", from, missing->name),
                    "rename the axis");
}

static const char *source_text(DtLower *l, DtSpan span)
{
    size_t len;
    const char *text = dt_diag_source(l->diags, span.file, &len);
    return text && span.lo <= span.hi && span.hi <= len
               ? dt_arena_strndup(l->arena, text + span.lo, span.hi - span.lo)
               : "";
}

/* Adds help for axis parameters in the wrong order, `linear[ffn, embed](x)` instead of
 * `linear[embed, ffn](x)`: the argument has the axes of another axis parameter. */
static void fix_axes(DtLower *l, DtDiag *d, const DtSignature *s, const DtBound *bound,
                     const char *missing)
{
    const DtFunction *f = s->function;
    const DtType *type = bound->val.kind == DT_VAL_TENSOR ? bound->val.tensor.value->type : NULL;
    uint32_t lacks = UINT32_MAX, has = UINT32_MAX;
    for (uint32_t i = 0; type && i < f->axes.n; i++) {
        bool all = true;
        for (uint32_t k = 0; k < f->axes.at[i].names.n; k++) {
            all = all && dt_type_find(type, f->axes.at[i].names.at[k]) >= 0;
            lacks = f->axes.at[i].names.at[k] == missing ? i : lacks;
        }
        has = all ? i : has;
    }
    if (lacks >= f->axes.n || has >= f->axes.n)
        return;
    const uint32_t first = lacks < has ? lacks : has, last = lacks < has ? has : lacks;
    const DtSpan a = f->axes.at[first].span, b = f->axes.at[last].span;
    const DtSpan all = {a.file, a.lo, b.hi};
    if (a.file && a.file == b.file && a.hi < b.lo && !dt_scope_in_library(l, all))
        dt_diag_fix(d, all,
                    dt_arena_printf(l->arena, "%s%s%s", source_text(l, b),
                                    source_text(l, (DtSpan){a.file, a.hi, b.lo}),
                                    source_text(l, a)),
                    "the axes in the order of the definition");
}

/* Adds a fix for two arguments in the wrong order, `xent[c](labels, z)` instead of `xent[c](z,
 * labels)`. */
static void fix_order(DtLower *l, DtDiag *d, const DtSignature *s)
{
    const DtExpr *call = s->call;
    if (!call || call->kind != DT_EXPR_CALL || call->args.n != 2 || call->args.at[0].name.text ||
        call->args.at[1].name.text || dt_scope_in_library(l, call->span))
        return;
    const DtSpan a = call->args.at[0].value->span, b = call->args.at[1].value->span;
    dt_diag_fix(d, (DtSpan){a.file, a.lo, b.hi},
                dt_arena_printf(l->arena, "%s%s%s", source_text(l, b),
                                source_text(l, (DtSpan){a.file, a.hi, b.lo}), source_text(l, a)),
                "the arguments in the order of the definition");
}

/* A note with the signature of a library definition, since the program's text does not show it:
 * "layer linear[a, b](x[..., a], std = 0.02, bias = true) -> [..., b]". */
static void note_signature(DtLower *l, DtDiag *d, const DtDef *def)
{
    DtSpan head = def->head;
    if (!head.file || !dt_scope_in_library(l, def->span))
        return;
    if (def->results.n)
        head.hi = def->results.at[def->results.n - 1].span.hi;
    dt_diag_note(d, "`%s`", source_text(l, head));
}

static bool missing_axis(DtLower *l, const DtSignature *s, const DtFormal *formal,
                         const DtBound *bound, const DtDeclared *want, const DtAxis *missing)
{
    DtDiag *d =
        argument_report(l, s, E0301, bound,
                        dt_arena_printf(l->arena, "`%s` needs axis `%s` on `%s`, which is %s",
                                        s->function->def->name.text, missing->name,
                                        formal->name.text, described(l, bound)));
    dt_diag_caret(d, "no axis `%s`", missing->name);
    label_formal(l, s, formal, d);
    const char *alias = alias_candidate(l, bound, missing->name);
    if (alias && declares(want, alias))
        alias = NULL;
    if (alias)
        dt_diag_note(d,
                     "`%s` is a second name of the extent of `%s`: two roles of one axis need two "
                     "names, or they "
                     "would meet position by position",
                     missing->name, alias);
    note_signature(l, d, s->function->def);
    fix_axes(l, d, s, bound, missing->name);
    fix_order(l, d, s);
    suggest_rename(l, d, s, bound, want, missing);
    return false;
}

static bool extra_axis(DtLower *l, const DtSignature *s, const DtFormal *formal,
                       const DtBound *bound, const char *extra)
{
    DtDiag *d = argument_report(
        l, s, E0302, bound,
        dt_arena_printf(l->arena, "`%s` of `%s` has no axis `%s`, and this value has: it is %s",
                        formal->name.text, s->function->def->name.text, extra,
                        described(l, bound)));
    dt_diag_label(d, formal->span, "these axes and no others");
    if (dt_scope_in_library(l, formal->span))
        return false;
    DtText text = {0};
    for (uint32_t i = 0; i < formal->type.axes.n; i++)
        dt_text_printf(&text, ", %s", formal->type.axes.at[i].name.text);
    dt_diag_help(d, "to accept more axes, write `%s[...%s]` in the signature", formal->name.text,
                 text.at ? text.at : "");
    dt_text_free(&text);
    return false;
}

/* ---- arguments ---- */

static bool check_axis(DtLower *l, DtSignature *s, const DtFormal *formal, const DtBound *bound,
                       const DtDeclared *want, uint32_t i)
{
    const DtAxis *axis = &want->axes[i];
    int64_t extent = bound->val.kind == DT_VAL_TENSOR
                         ? dt_type_extent(bound->val.tensor.value->type, axis->name)
                         : -1;
    if (extent < 0)
        return missing_axis(l, s, formal, bound, want, axis);
    if (axis->extent == 0 || axis->extent == extent)
        return true;
    DtDiag *d = argument_report(
        l, s, E0303, bound,
        dt_arena_printf(l->arena, "`%s` of `%s` has %lld elements along `%s`, and this value %lld",
                        formal->name.text, s->function->def->name.text, (long long)axis->extent,
                        axis->name, (long long)extent));
    dt_diag_label(d, want->spans[i], "declared here");
    return false;
}

/* Records the extents of the argument's axes in the activation, for `size` and declarations in the
 * body; -1 if arguments disagree. */
static void record_extents(DtLower *l, DtActivation *act, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t k = 0;
        while (k < act->extents.n && act->extents.at[k].name != type->axes[i].name)
            k++;
        if (k == act->extents.n)
            DT_PUSH(l->arena, act->extents, type->axes[i]);
        else if (act->extents.at[k].extent != type->axes[i].extent)
            act->extents.at[k].extent = -1;
    }
}

static bool check_axes(DtLower *l, DtSignature *s, const DtFormal *formal, const DtBound *bound)
{
    DtDeclared want;
    if (!dt_axes_declared(l, &formal->type, false, &want))
        return false;
    for (uint32_t i = 0; i < want.n; i++) {
        if (!check_axis(l, s, formal, bound, &want, i))
            return false;
    }
    if (bound->val.kind != DT_VAL_TENSOR)
        return true;
    const DtType *type = bound->val.tensor.value->type;
    for (uint32_t i = 0; i < type->rank; i++) {
        const char *name = type->axes[i].name;
        if (declares(&want, name))
            continue;
        if (!want.open)
            return extra_axis(l, s, formal, bound, name);
        if (!names_have(&s->extras, name))
            DT_PUSH(l->arena, s->extras, name);
    }
    record_extents(l, s->act, type);
    return true;
}

static bool wrong_dtype(DtLower *l, const DtSignature *s, const DtFormal *formal,
                        const DtBound *bound, DtDtype want)
{
    DtDiag *d =
        argument_report(l, s, E0402, bound,
                        dt_arena_printf(l->arena, "`%s` of `%s` is %s, and this value is %s",
                                        formal->name.text, s->function->def->name.text,
                                        dt_dtype_name(want), dt_report_type(l, &bound->val)));
    label_formal(l, s, formal, d);
    dt_diag_help(d, "convert it: `%s(...)`", dt_dtype_name(want));
    return false;
}

/* Converts an argument to the declared dtype: numbers and float tensors are cast to a declared
 * float dtype, other dtypes must be equal. False if it cannot be converted. */
static bool take_dtype(DtLower *l, DtVal *val, DtDtype want)
{
    DtDtype have = dt_val_dtype(val);
    if (dt_dtype_is_float(want)) {
        if (have == DT_BOOL || (have == DT_I32 && val->kind == DT_VAL_TENSOR))
            return false;
        *val = dt_val_cast(l, val, want);
        return true;
    }
    return have == want;
}

bool dt_bind_argument(DtLower *l, DtSignature *s, const DtFormal *formal, DtBound *bound)
{
    DtDtype want;
    bool typed = dt_axes_dtype(l, &formal->type, &want);
    if (formal->type.dtype && !typed)
        return false;
    bool tensor = formal->type.has_axes || typed;
    if (!tensor && bound->val.kind != DT_VAL_TENSOR)
        return true; /* constants, functions and tuples need no check */
    if (!dt_val_check(l, &bound->val, bound->expr))
        return false;
    if (formal->type.has_axes && !check_axes(l, s, formal, bound))
        return false;
    if (!formal->type.has_axes && bound->val.kind == DT_VAL_TENSOR) {
        const DtType *type = bound->val.tensor.value->type;
        for (uint32_t i = 0; i < type->rank; i++)
            DT_PUSH(l->arena, s->loose, type->axes[i].name);
    }
    if (typed)
        return take_dtype(l, &bound->val, want) || wrong_dtype(l, s, formal, bound, want);
    bool rounds = s->is_layer && (formal->type.has_axes || !bound->val.weak);
    if (rounds)
        bound->val = dt_val_round(l, &bound->val, l->compute);
    return true;
}

/* ---- results ---- */

static bool lost_axis(DtLower *l, const DtSignature *s, const DtVal *val, DtSpan span,
                      DtSpan declared, const char *axis, bool extra)
{
    DtDiag *d = dt_report_error(l, E0311, span, "`%s` returns %s, which lacks the axis `%s`",
                                s->function->def->name.text, dt_report_type(l, val), axis);
    dt_diag_label(d, declared, extra ? "`...` stands for `%s` here" : "the signature has `%s`",
                  axis);
    return false;
}

static bool surplus_axis(DtLower *l, const DtSignature *s, const DtVal *val, DtSpan span,
                         DtSpan declared, const char *axis)
{
    DtDiag *d =
        dt_report_error(l, E0311, span, "`%s` returns %s, whose axis `%s` is not in its signature",
                        s->function->def->name.text, dt_report_type(l, val), axis);
    dt_diag_label(d, declared, "the declared result");
    dt_diag_help(d, "sum it away (`sum[%s](...)`), or add it to the signature", axis);
    return false;
}

static bool check_result_axes(DtLower *l, const DtSignature *s, const DtAstType *type,
                              const DtVal *val, DtSpan span)
{
    DtDeclared want;
    if (!dt_axes_declared(l, type, false, &want))
        return false;
    const DtType *have =
        val->kind == DT_VAL_TENSOR ? val->tensor.value->type : dt_type_scalar(DT_F32);
    for (uint32_t i = 0; i < want.n; i++) {
        int64_t extent = dt_type_extent(have, want.axes[i].name);
        if (extent < 0)
            return lost_axis(l, s, val, span, want.spans[i], want.axes[i].name, false);
        if (want.axes[i].extent && want.axes[i].extent != extent) {
            DtDiag *d = dt_report_error(
                l, E0303, span, "`%s` returns %lld elements along `%s`, and %lld are declared",
                s->function->def->name.text, (long long)extent, want.axes[i].name,
                (long long)want.axes[i].extent);
            dt_diag_label(d, want.spans[i], "declared here");
            return false;
        }
    }
    for (uint32_t i = 0; want.open && i < s->extras.n; i++) {
        if (!declares(&want, s->extras.at[i]) && dt_type_find(have, s->extras.at[i]) < 0 &&
            have->rank + want.n > 0 && val->kind == DT_VAL_TENSOR)
            return lost_axis(l, s, val, span, type->span, s->extras.at[i], true);
    }
    for (uint32_t i = 0; i < have->rank; i++) {
        const char *name = have->axes[i].name;
        if (!declares(&want, name) &&
            !(want.open && (names_have(&s->extras, name) || names_have(&s->loose, name))))
            return surplus_axis(l, s, val, span, type->span, name);
    }
    return true;
}

bool dt_bind_result(DtLower *l, DtSignature *s, uint32_t i, DtVal *val, DtSpan span)
{
    const DtDef *def = s->function->def;
    if (dt_val_is_error(val))
        return false;
    if (i >= def->results.n) {
        if (s->is_layer && dt_val_check(l, val, NULL))
            *val = dt_val_round(l, val, l->compute);
        return !s->is_layer || !dt_val_is_error(val);
    }
    const DtAstType *type = &def->results.at[i];
    if (!dt_val_check(l, val, NULL) || !check_result_axes(l, s, type, val, span))
        return false;
    DtDtype want;
    bool typed = dt_axes_dtype(l, type, &want);
    if (type->dtype && !typed)
        return false;
    if (typed && !take_dtype(l, val, want)) {
        DtDiag *d = dt_report_error(l, E0402, span, "`%s` returns %s, and its signature says %s",
                                    def->name.text, dt_report_type(l, val), dt_dtype_name(want));
        dt_diag_label(d, type->span, "declared here");
        dt_diag_help(d, "convert it: `%s(...)`", dt_dtype_name(want));
        return false;
    }
    if (!typed && s->is_layer)
        *val = dt_val_round(l, val, l->compute);
    return true;
}
