/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: finds the callee, the axis arguments, the label, and the arguments. The arguments are
 * matched with formals here; lower_bind.c checks their types, lower_memo.c runs the definition. */
#include "frontend/lower_train.h"

#include "base/intern.h"
#include "frontend/config.h"
#include "frontend/foreign.h"

#include <string.h>

/* ---- the callee ---- */

static bool is_function(const DtVal *v)
{
    return v->kind == DT_VAL_FUNCTION || v->kind == DT_VAL_INSTANCE;
}

bool dt_call_denotes(DtLower *l, const DtExpr *expr)
{
    switch (expr->kind) {
    case DT_EXPR_PAREN: return dt_call_denotes(l, expr->a);
    case DT_EXPR_DTYPE: return true;
    case DT_EXPR_SUBS: return expr->a->kind == DT_EXPR_NAME && dt_call_denotes(l, expr->a);
    case DT_EXPR_NAME: break;
    default: return false;
    }
    if (!expr->name.text)
        return false;
    if (expr->label.text)
        return true;
    const DtBinding *binding = dt_expr_find(l, expr->name.text);
    if (binding)
        return is_function(&binding->val);
    const DtGlobal *global = dt_scope_meant(l, expr);
    if (global)
        return global->kind == DT_GLOBAL_DEF;
    return dt_builtin_find(expr->name.text, -1) != NULL;
}

static DtVal function_val(DtLower *l, const DtFunction *function)
{
    DtFunction *copy = DT_NEW(l->arena, DtFunction);
    *copy = *function;
    return (DtVal){.kind = DT_VAL_FUNCTION, .function = copy};
}

/* Reports that a library definition is used whose file is not included, with a fix. Reports it
 * once, since one include solves all. */
static void missing_include(DtLower *l, const DtExpr *expr)
{
    const DtAst *ast = l->files.at[0].ast;
    const uint32_t file = l->files.at[0].file,
                   at = ast && ast->items.n ? ast->items.at[0]->span.lo : 0;
    if (l->lacks_include)
        return;
    l->lacks_include = true;
    DtDiag *d = dt_report_error(l, E0201, expr->name.span, "there is no function or layer `%s`",
                                expr->name.text);
    dt_diag_note(d, "it is in the library, std.dsl, which this program does not include; others of "
                    "it are not said");
    dt_diag_fix(d, (DtSpan){file, at, at}, "include \"std.dsl\"\n",
                "begin the file with `include \"std.dsl\"`");
}

static DtVal unknown_function(DtLower *l, const DtExpr *expr)
{
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->globals.n + dt_n_builtins + 1),
               *library[128];
    size_t n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++) {
        if (l->globals.at[i]->kind == DT_GLOBAL_DEF)
            names[n++] = l->globals.at[i]->name;
    }
    for (uint32_t i = 0; i < dt_n_builtins; i++)
        names[n++] = dt_builtins[i].name;
    const uint32_t n_library =
        dt_library_names(l->arena, l->options->library, "std.dsl", library, DT_COUNT(library));
    for (uint32_t i = 0; i < n_library; i++)
        if (library[i] == expr->name.text) {
            missing_include(l, expr);
            return dt_val_error();
        }
    DtDiag *d = dt_report_error(l, E0201, expr->name.span, "there is no function or layer `%s`",
                                expr->name.text);
    if (dt_config_is_reader(expr->name.text))
        dt_diag_help(d,
                     "`%s` gives samples: it stands alone behind `=` in the train block, each in "
                     "an assignment "
                     "of its own, `x[batch, ...] = %s(...)`",
                     expr->name.text, expr->name.text);
    else if ((!dt_scalars_are_computed(l) ||
              !dt_foreign_help(d, DT_FOREIGN_SCHEDULE, expr->name.span, expr->name.text)) &&
             !dt_foreign_help(d, DT_FOREIGN_VALUE, expr->name.span, expr->name.text))
        dt_report_nearest(l, d, expr->name.span, expr->name.text, names, n);
    else
        l->unknown = (DtUnknownCall){.diag = d, .word = expr->name.text};
    return dt_val_error();
}

/* Evaluates `name` or `label:name` to a function value, without brackets; an error value after a
 * report. */
static DtVal named_function(DtLower *l, const DtExpr *expr, int with_axes)
{
    DtFunction f = {.label = expr->label, .span = expr->span};
    const DtBinding *binding = dt_expr_find(l, expr->name.text);
    dt_unread_read(l, binding);
    if (binding) {
        if (!is_function(&binding->val)) {
            if (!dt_val_is_error(&binding->val))
                dt_report_error(l, E0204, expr->span, "`%s` is %s here, which has no instances",
                                expr->name.text, dt_report_type(l, &binding->val));
            return dt_val_error();
        }
        if (!expr->label.text)
            return binding->val;
        if (binding->val.kind == DT_VAL_INSTANCE) {
            dt_report_error(l, E0204, expr->label.span,
                            "`%s` is an instance already and cannot get another label",
                            expr->name.text);
            return dt_val_error();
        }
        f = *binding->val.function;
        f.label = expr->label;
        f.span = expr->span;
        return function_val(l, &f);
    }
    const DtGlobal *global = dt_scope_meant(l, expr);
    if (global && global->kind == DT_GLOBAL_DEF)
        f.def = global->def;
    else if (!global)
        f.builtin = dt_builtin_find(expr->name.text, with_axes);
    if (!f.builtin && !f.def && !global)
        f.builtin = dt_builtin_find(expr->name.text, -1);
    if (global && (global->kind == DT_GLOBAL_DIM || global->kind == DT_GLOBAL_CONSTANT)) {
        dt_report_error(l, E0204, expr->span, "`%s` is a %s, which has no instances",
                        expr->name.text, global->kind == DT_GLOBAL_DIM ? "dim" : "constant");
        return dt_val_error();
    }
    return f.def || f.builtin ? function_val(l, &f) : unknown_function(l, expr);
}

/* Returns a function value with the axis arguments in brackets. If the function has a single axis
 * parameter, that takes the whole list. */
static DtVal with_axes(DtLower *l, const DtExpr *subs, const DtVal *base)
{
    if (base->kind == DT_VAL_INSTANCE) {
        dt_report_error(l, E0206, subs->span, "an instance has its axes already");
        return dt_val_error();
    }
    DtFunction f = *base->function;
    if (f.has_axes) {
        dt_report_error(l, E0206, subs->span, "this function has its axes already");
        return dt_val_error();
    }
    f.has_axes = true;
    f.span = subs->span;
    if (!dt_axes_subs(l, subs, &f.axes))
        return dt_val_error();
    return function_val(l, &f);
}

static bool check_label(DtLower *l, const DtFunction *f)
{
    const bool has_params = f->def ? f->def->kind != DT_DEF_FN
                                   : f->builtin && f->builtin->run == dt_builtin_copy;
    if (!f->label.text || has_params)
        return true;
    DtDiag *d =
        dt_report_error(l, E0204, f->label.span, "`%s` has no parameters, so it takes no label",
                        f->def       ? f->def->name.text
                        : f->builtin ? f->builtin->name
                                     : dt_dtype_name(f->dtype));
    dt_diag_note(d, "labels name instances of layers");
    return false;
}

static bool merge_sole(DtLower *l, DtFunction *f)
{
    DtAxisList all = {.span = f->span};
    for (uint32_t i = 0; i < f->axes.n; i++) {
        for (uint32_t k = 0; k < f->axes.at[i].names.n; k++)
            DT_PUSH(l->arena, all.names, f->axes.at[i].names.at[k]);
        if (i == 0)
            all.span = f->axes.at[i].span;
    }
    f->axes = (DtAxisLists){0};
    DT_PUSH(l->arena, f->axes, all);
    return true;
}

/* Checks the number of axis arguments, and that none is repeated; false after a report. ret_diag:
 * NULL, or the diagnostic about their number. */
static bool check_axes(DtLower *l, DtFunction *f, DtDiag **ret_diag)
{
    if (!f->def)
        return true;
    const DtDef *def = f->def;
    if (def->axes.n == 1 && f->axes.n > 1)
        merge_sole(l, f);
    if (def->axes.n != f->axes.n) {
        DtDiag *d = dt_report_error(
            l, E0206, f->span, "`%s` takes %u axis argument%s, and %u %s given", def->name.text,
            def->axes.n, def->axes.n == 1 ? "" : "s", f->axes.n, f->axes.n == 1 ? "is" : "are");
        dt_diag_label(d, def->head.file ? def->head : def->name.span, "defined here");
        if (def->axes.n)
            dt_diag_note(d,
                         "square brackets name axes: `%s[...](x)`; a list for one parameter stands "
                         "in parentheses",
                         def->name.text);
        if (ret_diag)
            *ret_diag = d;
        return false;
    }
    return dt_axes_distinct(l, &f->axes, dt_arena_printf(l->arena, "`%s`", def->name.text));
}

static DtVal cast_function(DtLower *l, const DtExpr *expr)
{
    DtAstType type = {.dtype = expr->name.text, .span = expr->span};
    DtFunction f = {.is_cast = true, .span = expr->span};
    return dt_axes_dtype(l, &type, &f.dtype) ? function_val(l, &f) : dt_val_error();
}

DtVal dt_call_callee(DtLower *l, const DtExpr *expr)
{
    expr = dt_report_bare(expr);
    DtVal v = dt_val_error();
    if (expr->kind == DT_EXPR_DTYPE)
        return cast_function(l, expr);
    if (expr->kind == DT_EXPR_NAME)
        v = named_function(l, expr, 0);
    else if (expr->kind == DT_EXPR_SUBS && expr->a->kind == DT_EXPR_NAME)
        v = named_function(l, expr->a, 1);
    if (expr->kind == DT_EXPR_SUBS && !dt_val_is_error(&v))
        v = with_axes(l, expr, &v);
    return v;
}

/* ---- instances ---- */

/* Records an instance of a model, for names blocks. Entries make the same ones. */
static void note_model(DtLower *l, const DtInstance *instance)
{
    DtProgram *program = l->program;
    bool known = false;
    for (uint32_t i = 0; i < program->labelled.n; i++)
        known = known || (!strcmp(program->labelled.at[i].label, instance->path) &&
                          program->labelled.at[i].model == instance->def->name.text);
    if (!known)
        DT_PUSH(l->arena, program->labelled,
                ((DtLabelled){instance->path, instance->def->name.text}));
}

DtVal dt_call_instance(DtLower *l, const DtFunction *function)
{
    DtFunction f = *function;
    if (!check_label(l, &f) || !check_axes(l, &f, NULL))
        return dt_val_error();
    if (!l->now || (l->now->def && l->now->def->kind == DT_DEF_FN)) {
        DtDiag *d = dt_report_error(l, E0209, f.span, "an `fn` cannot contain the layer `%s`",
                                    f.def->name.text);
        if (l->now)
            dt_diag_label(d, l->now->def->head.file ? l->now->def->head : l->now->def->name.span,
                          "make it a `layer`, so that its parameters have a path");
        return dt_val_error();
    }
    DtFrame *frame = l->now->frame;
    DtInstance *instance = DT_NEW(l->arena, DtInstance);
    *instance = (DtInstance){
        .def = f.def, .axes = f.axes, .has_axes = f.has_axes, .home = frame, .span = f.span};
    instance->label = f.label.text ? f.label : (DtName){f.def->name.text, f.span};
    if (f.def->kind == DT_DEF_MODEL && !f.label.text) {
        size_t len = strlen(frame->prefix);
        instance->path = len ? dt_intern_n(frame->prefix, len - 1) : "";
    } else {
        instance->path = dt_intern_printf("%s%s", frame->prefix, instance->label.text);
        if (!dt_frame_label(l, frame, instance->path, instance->label,
                            f.label.text ? DT_LABEL_WRITTEN : DT_LABEL_DEFAULT))
            return dt_val_error();
    }
    if (f.def->kind == DT_DEF_MODEL && frame->is_entry)
        note_model(l, instance);
    dt_adapt_instance(l, instance);
    return (DtVal){.kind = DT_VAL_INSTANCE, .instance = instance};
}

DtVal dt_builtin_copy(DtLower *l, DtBuiltinCall *c)
{
    const bool is_instance = c->val[0].kind == DT_VAL_INSTANCE;
    const DtInstance *original = is_instance ? c->val[0].instance : NULL;
    const char *wrong = !original ? "this is no instance of a layer or model"
                        : original->original ? "this is a copy already"
                        : !l->now->frame->is_entry || original->home != l->now->frame
                            ? "a copy is made in the train block, of an instance that is made there"
                            : NULL;
    if (wrong) {
        DtDiag *d = dt_report_error(l, E0478, c->arg[0]->span, "%s", wrong);
        dt_diag_help(d, "name the instance first: `policy = net`, then `reference = copy(policy)`");
        return dt_val_error();
    }
    DtInstance *copy = DT_NEW(l->arena, DtInstance);
    *copy = *original;
    copy->label = c->label.text ? c->label : (DtName){dt_intern("copy"), c->span};
    copy->path = *original->path
                     ? dt_intern_printf("%s.%s", copy->label.text, original->path)
                     : copy->label.text;
    copy->copy = (uint32_t)strlen(copy->label.text) + 1;
    copy->span = c->span;
    copy->original = original;
    copy->adapter = NULL;
    if (!dt_frame_label(l, copy->home, copy->label.text, copy->label,
                        c->label.text ? DT_LABEL_WRITTEN : DT_LABEL_DEFAULT))
        return dt_val_error();
    dt_adapt_instance(l, copy);
    DT_PUSH(l->arena, l->copies, copy);
    return (DtVal){.kind = DT_VAL_INSTANCE, .instance = copy};
}

DtVal dt_call_value(DtLower *l, DtVal callee, const DtExpr *expr)
{
    if (callee.kind != DT_VAL_FUNCTION)
        return callee;
    const DtFunction *f = callee.function;
    if (f->builtin && !f->builtin->formals)
        return check_label(l, f) ? dt_builtin_value(l, f, expr) : dt_val_error();
    const bool is_whole = f->def && f->def->kind == DT_DEF_MODEL && f->def->axes.n == 0;
    if (f->def && f->def->kind != DT_DEF_FN && (f->has_axes || f->label.text || is_whole))
        return dt_call_instance(l, f);
    return callee;
}

/* ---- arguments ---- */

static int32_t formal_named(const DtDef *def, const char *name)
{
    for (uint32_t i = 0; i < def->formals.n; i++) {
        if (def->formals.at[i].name.text == name)
            return (int32_t)i;
    }
    return -1;
}

static const char *signature(DtLower *l, const DtDef *def)
{
    DtText text = {0};
    dt_text_printf(&text, "%s(", def->name.text);
    for (uint32_t i = 0; i < def->formals.n; i++)
        dt_text_printf(&text, "%s%s%s", i ? ", " : "", def->formals.at[i].name.text,
                       def->formals.at[i].init ? " = ..." : "");
    dt_text_add(&text, ")");
    char *copy = dt_arena_strndup(l->arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

static bool argument_error(DtLower *l, const DtDef *def, DtSpan span, DtDiag **ret_diag,
                           const char *message)
{
    DtDiag *d = dt_report_error(l, E0205, span, "%s", message);
    dt_diag_label(d, def->head.file ? def->head : def->name.span, "`%s` is defined here",
                  def->name.text);
    dt_diag_note(d, "its arguments are %s", signature(l, def));
    if (ret_diag)
        *ret_diag = d;
    return false;
}

static bool place_argument(DtLower *l, const DtDef *def, DtBound *bound, int32_t at, DtVal val,
                           const DtExpr *expr, DtSpan span)
{
    if (bound[at].given)
        return argument_error(l, def, span, NULL,
                              dt_arena_printf(l->arena, "the argument `%s` of `%s` is given twice",
                                              def->formals.at[at].name.text, def->name.text));
    bound[at] = (DtBound){.val = val, .expr = expr, .given = true};
    return true;
}

static const char *source_of(DtLower *l, DtSpan span)
{
    size_t len;
    const char *text = dt_diag_source(l->diags, span.file, &len);
    return text && span.lo <= span.hi && span.hi <= len
               ? dt_arena_strndup(l->arena, text + span.lo, span.hi - span.lo)
               : "";
}

void dt_call_fix_without(DtLower *l, DtDiag *d, const DtExpr *call, uint32_t i, const char *text)
{
    const DtArg *args = call->args.at;
    const DtSpan value = args[i].value->span;
    const uint32_t lo = args[i].name.text ? args[i].name.span.lo : value.lo;
    DtSpan span = {value.file, lo, value.hi};
    if (i > 0)
        span.lo = args[i - 1].value->span.hi;
    else if (call->args.n > 1)
        span.hi = args[1].name.text ? args[1].name.span.lo : args[1].value->span.lo;
    if (!dt_scope_in_library(l, span))
        dt_diag_fix(d, span, "", "%s", text);
}

/* Whether argument i is a word for no value, as in `mask = None`. Reports it then, with a fix that
 * leaves it out. */
static bool is_none(DtLower *l, const DtDef *def, const DtExpr *call, uint32_t i)
{
    static const char *const none[] = {"None", "none", "null", "nil", "nullptr"};
    const DtArg *arg = &call->args.at[i];
    const DtExpr *bare = dt_report_bare(arg->value);
    const int32_t at = arg->name.text ? formal_named(def, arg->name.text) : -1;
    bool is = false;
    for (size_t k = 0; k < DT_COUNT(none) && bare && bare->kind == DT_EXPR_NAME && bare->name.text;
         k++)
        is = is || !strcmp(bare->name.text, none[k]);
    if (!is || at < 0 || dt_expr_find(l, bare->name.text) || dt_scope_value(l, bare->name.text))
        return false;
    DtDiag *d = dt_report_error(l, E0201, bare->span, "there is no value `%s`", bare->name.text);
    const DtExpr *init = def->formals.at[at].init;
    if (init)
        dt_call_fix_without(l, d, call, i,
                            dt_arena_printf(l->arena, "leave it out: the default of `%s` is `%s`",
                                            arg->name.text, source_of(l, init->span)));
    else
        dt_diag_help(d, "`%s` needs a value: it has no default", arg->name.text);
    return true;
}

static bool named_argument(DtLower *l, const DtDef *def, DtBound *bound, const DtExpr *call,
                           uint32_t i, DtVal val)
{
    const DtArg *arg = &call->args.at[i];
    const char *ours;
    int32_t at = formal_named(def, arg->name.text);
    if (at >= 0)
        return place_argument(l, def, bound, at, val, arg->value, arg->name.span);
    DtDiag *d;
    argument_error(
        l, def, arg->name.span, &d,
        dt_arena_printf(l->arena, "`%s` has no argument `%s`", def->name.text, arg->name.text));
    const char **names = DT_NEW_ARRAY(l->arena, const char *, def->formals.n + 1);
    for (uint32_t k = 0; k < def->formals.n; k++)
        names[k] = def->formals.at[k].name.text;
    if (!dt_foreign_help(d, DT_FOREIGN_ARGUMENT, arg->name.span, arg->name.text))
        dt_report_nearest(l, d, arg->name.span, arg->name.text, names, def->formals.n);
    else if (!dt_report_foreign_causal(l, d, call, i) &&
             dt_foreign_is(DT_FOREIGN_ARGUMENT, arg->name.text, &ours) && !*ours)
        dt_call_fix_without(l, d, call, i, "without it");
    return false;
}

/* Reports a missing argument, with a fix if a value of that name exists. Returns false. */
static bool missing_argument(DtLower *l, const DtDef *def, const DtExpr *call, const char *name)
{
    DtDiag *d;
    argument_error(
        l, def, call->span, &d,
        dt_arena_printf(l->arena, "the argument `%s` of `%s` is missing", name, def->name.text));
    const DtSpan at = {call->span.file, call->span.hi - 1, call->span.hi - 1};
    if (call->kind == DT_EXPR_CALL && dt_expr_find(l, name) && !dt_scope_in_library(l, call->span))
        dt_diag_fix(d, at, call->args.n ? dt_arena_printf(l->arena, ", %s = %s", name, name) : name,
                    "give it `%s`", name);
    return false;
}

bool dt_call_place(DtLower *l, const DtDef *def, const DtExpr *call, uint32_t at, DtBound *bound)
{
    bool ok = true, scalars = dt_scalars_are_computed(l);
    const uint32_t n_args = call->kind == DT_EXPR_CALL ? call->args.n : 0;
    for (uint32_t i = 0; i < n_args; i++) {
        const DtArg *arg = &call->args.at[i];
        if (is_none(l, def, call, i)) {
            ok = false;
            continue;
        }
        DtVal val = dt_expr_eval(l, arg->value);
        if (dt_val_is_error(&val) && l->unknown.call &&
            l->unknown.call == dt_report_bare(arg->value))
            dt_report_foreign_mask(l, &l->unknown, call, i);
        while (scalars && at < def->formals.n && dt_scalars_fill(&def->formals.at[at]))
            at++;
        if (arg->name.text)
            ok &= named_argument(l, def, bound, call, i, val);
        else if (at >= def->formals.n)
            ok = argument_error(
                l, def, arg->value ? arg->value->span : call->span, NULL,
                dt_arena_printf(l->arena, "`%s` takes %u argument%s, and more are given",
                                def->name.text, def->formals.n, def->formals.n == 1 ? "" : "s"));
        else
            ok &= place_argument(l, def, bound, (int32_t)at++, val, arg->value,
                                 arg->value ? arg->value->span : call->span);
    }
    return ok;
}

static bool bind_arguments(DtLower *l, const DtDef *def, const DtExpr *call, const DtVal *first,
                           const DtExpr *first_expr, DtBound *bound)
{
    bool ok = true, scalars = dt_scalars_are_computed(l);
    uint32_t at = 0;
    const char *key = l->setting_key; /* for this call only, not for calls in its arguments */
    l->setting_key = NULL;
    if (first && def->formals.n)
        ok = place_argument(l, def, bound, (int32_t)at++, *first, first_expr, first_expr->span);
    else if (first)
        ok = argument_error(l, def, first_expr->span, NULL,
                            dt_arena_printf(l->arena, "`%s` takes no arguments", def->name.text));
    ok &= dt_call_place(l, def, call, at, bound);
    for (uint32_t i = 0; scalars && i < def->formals.n; i++)
        if (!bound[i].given && dt_scalars_fill(&def->formals.at[i]))
            bound[i] = (DtBound){.val = dt_scalars_given(l, &def->formals.at[i]), .given = true};
    for (uint32_t i = 0; ok && i < def->formals.n; i++)
        if (!bound[i].given && !def->formals.at[i].init)
            ok = missing_argument(l, def, call, def->formals.at[i].name.text);
    for (uint32_t i = 0; i < def->formals.n; i++)
        ok &= !bound[i].given || !dt_val_is_error(&bound[i].val);
    if (ok && key)
        dt_scalars_keep_settings(l, key, def, bound);
    return ok;
}

/* ---- calls ---- */

static DtVal eval_cast(DtLower *l, const DtFunction *f, const DtExpr *call, const DtVal *first,
                       const DtExpr *first_expr)
{
    uint32_t n = call->kind == DT_EXPR_CALL ? call->args.n : 0;
    if (n + (first != NULL) != 1 || (n && call->args.at[0].name.text)) {
        dt_report_error(l, E0205, call->span, "a cast takes one value: `%s(x)`",
                        dt_dtype_name(f->dtype));
        return dt_val_error();
    }
    DtVal v = first ? *first : dt_expr_eval(l, call->args.at[0].value);
    if (!dt_val_check(l, &v, first ? first_expr : call->args.at[0].value))
        return dt_val_error();
    if (!l->now) {
        dt_report_error(l, E0401, call->span,
                        "a cast makes a tensor, and here a constant is needed");
        return dt_val_error();
    }
    l->now->frame->b.span = call->span;
    /* a number becomes a float directly, without rounding to i32 */
    if (dt_dtype_is_float(f->dtype) && dt_val_is_constant(&v))
        v = dt_val_float(dt_val_number(&v));
    return dt_val_cast(l, &v, f->dtype);
}

/* Adds a fix for `linear(embed, ffn)` instead of `linear[embed, ffn]`, if all arguments are names
 * of axes; else returns false. */
static bool fix_brackets(DtLower *l, DtDiag *d, const DtFunction *f, const DtExpr *call)
{
    const uint32_t n = call->kind == DT_EXPR_CALL ? call->args.n : 0;
    const char *list = "";
    for (uint32_t i = 0; i < n; i++) {
        const DtExpr *bare =
            call->args.at[i].name.text ? NULL : dt_report_bare(call->args.at[i].value);
        const bool is_axis =
            bare && bare->kind == DT_EXPR_NAME && dt_scope_axis(l, bare->name.text);
        if (!is_axis && !(bare && bare->kind == DT_EXPR_TUPLE))
            return false;
        list = dt_arena_printf(l->arena, "%s%s%s", list, i ? ", " : "",
                               source_of(l, call->args.at[i].value->span));
    }
    if (!n || n != f->def->axes.n || dt_scope_in_library(l, call->span))
        return false;
    dt_diag_fix(d, (DtSpan){call->span.file, call->a->span.hi, call->span.hi},
                dt_arena_printf(l->arena, "[%s]", list), "axes stand in square brackets");
    return true;
}

/* Adds a fix for axes given as numbers, `softmax(x, dim = -1)` instead of `softmax[ffn](x)`. */
static void fix_numbered_axis(DtLower *l, DtDiag *d, const DtFunction *f, const DtExpr *call,
                              const DtVal *x)
{
    const uint32_t n = call->kind == DT_EXPR_CALL ? call->args.n : 0;
    const DtType *type = x->kind == DT_VAL_TENSOR ? x->tensor.value->type : NULL;
    const char *rest = "";
    int64_t at = INT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const DtArg *arg = &call->args.at[i];
        const bool is_axis =
            arg->name.text && (!strcmp(arg->name.text, "dim") || !strcmp(arg->name.text, "axis"));
        const DtExpr *bare = dt_report_bare(arg->value), *digits = bare;
        if (bare && bare->kind == DT_EXPR_UNARY)
            digits = dt_report_bare(bare->a);
        if (is_axis && digits && digits->kind == DT_EXPR_INT)
            at = bare == digits ? digits->integer : -digits->integer;
        else if (!is_axis)
            rest = dt_arena_printf(
                l->arena, "%s%s%s", rest, *rest ? ", " : "",
                source_of(l, (DtSpan){call->span.file,
                                      arg->name.text ? arg->name.span.lo : arg->value->span.lo,
                                      arg->value->span.hi}));
    }
    if (type && call->kind == DT_EXPR_CALL)
        dt_diag_note(d, "its argument is %s", dt_report_axes(l, type, false));
    if (at == INT64_MAX || !type || f->def->axes.n != 1 || dt_scope_in_library(l, call->span))
        return;
    at = at < 0 ? at + type->rank : at;
    dt_foreign_help(d, DT_FOREIGN_ARGUMENT, (DtSpan){0}, "dim");
    if (at >= 0 && at < type->rank)
        dt_diag_fix(d, (DtSpan){call->span.file, call->a->span.hi, call->span.hi},
                    dt_arena_printf(l->arena, "[%s](%s)", type->axes[at].name, rest),
                    "the axis is `%s`", type->axes[at].name);
}

/* After an error in the axes of a call: reports errors in its arguments, and adds proposals to d
 * (NULL, or the error). */
static void look_at_arguments(DtLower *l, const DtFunction *f, const DtExpr *call,
                              const DtVal *first, DtDiag *d)
{
    DtVal x = first ? *first : dt_val_error();
    if (d && fix_brackets(l, d, f, call))
        return;
    for (uint32_t i = 0; call->kind == DT_EXPR_CALL && i < call->args.n; i++) {
        const DtVal v = dt_expr_eval(l, call->args.at[i].value);
        x = i == 0 && !first ? v : x;
    }
    if (d)
        fix_numbered_axis(l, d, f, call, &x);
}

static DtVal call_def(DtLower *l, DtVal callee, const DtExpr *call, const DtVal *first,
                      const DtExpr *first_expr)
{
    DtFunction f = {0};
    DtInstance *instance = callee.kind == DT_VAL_INSTANCE ? callee.instance : NULL;
    if (instance)
        f = (DtFunction){.def = instance->def,
                         .axes = instance->axes,
                         .has_axes = instance->has_axes,
                         .span = instance->span};
    else
        f = *callee.function;
    if (!l->now) {
        DtDiag *d = dt_report_error(l, E0401, call->span,
                                    "here a constant is needed, and functions give tensors");
        dt_diag_note(
            d, "literals, dims, arithmetic and the built-in functions of numbers are allowed");
        return dt_val_error();
    }
    DtDiag *wrong = NULL;
    if (!instance && (!check_label(l, &f) || !check_axes(l, &f, &wrong))) {
        look_at_arguments(l, &f, call, first, wrong);
        return dt_val_error();
    }
    DtBound *bound = DT_NEW_ARRAY(l->arena, DtBound, f.def->formals.n + 1);
    bool ok = bind_arguments(l, f.def, call, first, first_expr, bound);
    if (!instance && f.def->kind != DT_DEF_FN) {
        DtVal made = dt_call_instance(l, &f);
        if (dt_val_is_error(&made))
            return made;
        instance = made.instance;
    }
    l->now->frame->b.span = call->span;
    if (!ok)
        return dt_memo_recover(l, &f, call);
    const bool training = l->training;
    if (instance && instance->original) /* a copy computes as in evaluation */
        l->training = false;
    DtVal result = dt_memo_call(l, &f, instance, call, bound);
    if (instance && instance->adapter)
        result = dt_adapt_call(l, instance, bound, result);
    l->training = training;
    return result;
}

static DtVal not_callable(DtLower *l, const DtExpr *callee)
{
    if (callee->kind == DT_EXPR_NAME && callee->name.text && !dt_expr_find(l, callee->name.text) &&
        !dt_scope_meant(l, callee))
        return unknown_function(l, callee);
    DtVal v = dt_expr_eval(l, callee);
    if (dt_val_is_error(&v))
        return v;
    DtDiag *d = dt_report_error(l, E0204, callee->span, "%s is %s and cannot be called",
                                dt_report_subject(l, callee), dt_report_type(l, &v));
    if (v.kind == DT_VAL_TENSOR || dt_val_is_constant(&v))
        dt_diag_note(d, "multiplication is written `*`, contraction `@axis`");
    return dt_val_error();
}

/* Whether the expression contains a call, which could take the piped value. */
static bool has_call(const DtExpr *expr)
{
    while (expr->kind == DT_EXPR_SUBS || expr->kind == DT_EXPR_FIELD || expr->kind == DT_EXPR_PAREN)
        expr = expr->a;
    return expr->kind == DT_EXPR_CALL;
}

/* After a call without a function: reports errors in its arguments, and adds fixes if l->unknown is
 * a function of another framework. */
static void look_at_unknown(DtLower *l, const DtExpr *expr)
{
    DtUnknownCall unknown = l->unknown;
    const uint32_t n = expr->kind == DT_EXPR_CALL ? expr->args.n : 0;
    DtVal *values = DT_NEW_ARRAY(l->arena, DtVal, n + 1);
    for (uint32_t i = 0; i < n; i++)
        values[i] = dt_expr_eval(l, expr->args.at[i].value);
    const bool inner = unknown.call; /* `Embedding(vocab, embed)(ids)`: the callee is a call */
    if (!inner)
        unknown.call = expr;
    dt_report_foreign(l, &unknown, inner ? expr : NULL, inner ? NULL : values);
    l->unknown = unknown;
}

DtVal dt_call_eval(DtLower *l, const DtExpr *expr, const DtVal *first, const DtExpr *first_expr)
{
    if (!dt_lower_enter(l, expr->span))
        return dt_val_error();
    DtVal result = dt_val_error(), callee;
    expr = dt_report_bare(expr);
    const DtExpr *name = expr->kind == DT_EXPR_CALL ? dt_report_bare(expr->a) : expr;
    l->unknown = (DtUnknownCall){0};
    if (first && expr->kind == DT_EXPR_SUBS && (has_call(expr) || !dt_call_denotes(l, expr))) {
        DtVal inner = dt_call_eval(l, expr->a, first, first_expr);
        result = dt_val_is_error(&inner) ? inner : dt_index_eval(l, expr, inner);
    } else if (name->kind == DT_EXPR_SUBS && name->a->kind == DT_EXPR_NAME && name->a->name.text &&
               !name->a->label.text && !dt_expr_find(l, name->a->name.text) &&
               !dt_scope_meant(l, name->a) && !dt_builtin_find(name->a->name.text, -1)) {
        result = unknown_function(l, name->a);
        look_at_unknown(l, expr);
    } else if (!dt_call_denotes(l, name)) {
        result = not_callable(l, name);
        look_at_unknown(l, expr);
    } else if (callee = dt_call_callee(l, name), dt_val_is_error(&callee)) {
        result = callee;
        look_at_unknown(l, expr);
    } else if (callee.kind == DT_VAL_FUNCTION && callee.function->is_cast) {
        result = eval_cast(l, callee.function, expr, first, first_expr);
    } else if (callee.kind == DT_VAL_FUNCTION && callee.function->builtin) {
        result = check_label(l, callee.function)
                     ? dt_builtin_call(l, callee.function, expr, first, first_expr)
                     : dt_val_error();
    } else {
        result = call_def(l, callee, expr, first, first_expr);
    }
    dt_lower_leave(l);
    return result;
}
