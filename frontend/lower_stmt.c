/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: assignments, parameters and states, `if` on constants, `return`. `repeat` is in
 * lower_repeat.c. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

#include <string.h>

/* ---- binding ---- */

void dt_stmt_lint_hiding(DtLower *l, const char *name, DtSpan span)
{
    const DtGlobal *global = dt_scope_value(l, name);
    bool builtin = !global && dt_builtin_find(name, -1);
    if ((!global && !builtin) || dt_scope_in_library(l, span) || (global && global->is_library))
        return;
    DtDiag *d = dt_diag_report(l->diags, L0201, span,
                               "the local value `%s` hides the %s of that name", name,
                               builtin                              ? "built-in"
                               : global->kind == DT_GLOBAL_DIM      ? "dim"
                               : global->kind == DT_GLOBAL_CONSTANT ? "constant"
                                                                    : "function");
    if (global)
        dt_diag_label(d, global->span, "defined here");
}

static void name_value(const DtVal *val, const char *name)
{
    if (val->kind == DT_VAL_TENSOR && val->tensor.value->op && !val->tensor.value->name)
        val->tensor.value->name = name;
}

void dt_stmt_bind(DtLower *l, const char *name, DtVal val, DtSpan span, const DtExpr *made)
{
    DtBinding *old = dt_expr_find(l, name);
    name_value(&val, name);
    if (old) {
        *old = (DtBinding){.name = name, .val = val, .span = span, .made = made};
        return;
    }
    dt_stmt_lint_hiding(l, name, span);
    DtBinding binding = {.name = name, .val = val, .span = span, .made = made};
    DT_PUSH(l->arena, l->now->scope->names, binding);
}

/* ---- states ---- */

static DtValue *state_value(DtLower *l, const DtBinding *state, const DtVal *val,
                            const DtExpr *value)
{
    const DtType *type = state->val.tensor.value->type;
    if (!dt_val_check(l, val, value))
        return NULL;
    DtDtype have = dt_val_dtype(val);
    bool fits = have == type->dtype || dt_val_is_constant(val) ||
                (dt_dtype_is_float(have) && dt_dtype_is_float(type->dtype));
    if (!fits) {
        DtDiag *d =
            dt_report_error(l, E0402, value->span, "the state `%s` is %s, and this value is %s",
                            state->name, dt_dtype_name(type->dtype), dt_report_type(l, val));
        dt_diag_label(d, state->span, "declared here");
        return NULL;
    }
    DtValue *x = dt_val_use(l, val, type->dtype);
    if (x->type->rank == 0 && dt_val_is_constant(val))
        x = dt_graph_expand(&l->now->frame->b, x, type);
    if (!dt_type_same_axes(x->type, type)) {
        DtDiag *d = dt_report_error(
            l, E0410, value->span, "the state `%s` is %s, and this value is %s", state->name,
            dt_report_axes(l, type, true), dt_report_axes(l, x->type, true));
        dt_diag_label(d, state->span, "declared here");
        return NULL;
    }
    return dt_graph_reorder(&l->now->frame->b, x, type);
}

static void assign_state(DtLower *l, const DtBinding *state, const DtTarget *target,
                         const DtVal *val, const DtExpr *value)
{
    if (dt_val_is_error(val))
        return;
    DtFrame *home = state->val.tensor.frame;
    if (home != l->now->frame) {
        DtDiag *d =
            dt_report_error(l, E0217, target->span,
                            "the state `%s` would be assigned in every iteration", state->name);
        dt_diag_label(d, state->span, "declared outside the loop");
        dt_diag_note(d, "a state has one new value per step; a state declared in the loop has one "
                        "per iteration");
        return;
    }
    DtValue *x = state_value(l, state, val, value);
    if (x && l->training)
        dt_frame_write(l, home, (uint32_t)(state->state - 1), x, target->span);
}

/* ---- assignment ---- */

/* Makes a number a tensor with the axes of the target, as in `h[batch, hidden] = 0.0`; false after
 * a report. */
static bool fill_target(DtLower *l, const DtTarget *target, DtVal *val)
{
    DtDeclared want;
    if (!dt_axes_declared(l, &target->type, true, &want) ||
        !dt_axes_type(l, target->span, DT_F32, want.n, want.axes))
        return false;
    *val = dt_val_expand(l, *val, want.n, want.axes);
    return !dt_val_is_error(val);
}

/* Checks that the value has the type that is written, as in `f32 x[batch] = ...`, and casts it;
 * false after a report. is_sequence: does not check its axes. */
static bool check_target(DtLower *l, const DtTarget *target, DtVal *val, const DtExpr *value,
                         bool is_sequence)
{
    /* checked before the dtype is applied, which makes a tensor of a number */
    const bool is_number = dt_val_is_constant(val);
    DtDtype dtype;
    if (target->type.dtype) {
        if (!dt_axes_dtype(l, &target->type, &dtype) || !dt_val_check(l, val, value))
            return false;
        DtDtype have = dt_val_dtype(val);
        if (have != dtype &&
            !(dt_dtype_is_float(dtype) && (dt_dtype_is_float(have) || dt_val_is_constant(val)))) {
            DtDiag *d =
                dt_report_error(l, E0402, target->span, "`%s` is declared %s, and its value is %s",
                                target->name.text, target->type.dtype, dt_report_type(l, val));
            dt_diag_help(d, "convert it: `%s(...)`", target->type.dtype);
            return false;
        }
        *val = dt_val_cast(l, val, dtype);
    }
    if (!target->type.has_axes || is_sequence)
        return true;
    if (is_number && target->type.axes.n)
        return fill_target(l, target, val);
    DtDeclared want;
    if (!dt_axes_declared(l, &target->type, false, &want) || !dt_val_check(l, val, value))
        return false;
    const DtType *type =
        val->kind == DT_VAL_TENSOR ? val->tensor.value->type : dt_type_scalar(DT_F32);
    bool same = want.open ? type->rank >= want.n : type->rank == want.n;
    for (uint32_t i = 0; same && i < want.n; i++) {
        int64_t extent = dt_type_extent(type, want.axes[i].name);
        same = extent >= 0 && (!want.axes[i].extent || want.axes[i].extent == extent);
    }
    if (same)
        return true;
    DtDiag *d =
        dt_report_error(l, E0311, target->span,
                        "`%s` is declared with other axes than its value has", target->name.text);
    dt_diag_label(d, value->span, "this is %s", dt_report_axes(l, type, true));
    return false;
}

static void assign_one(DtLower *l, const DtTarget *target, DtVal val, const DtExpr *value)
{
    const char *name = target->name.text;
    if (!name) {
        dt_report_error(l, E0204, target->span,
                        "a text cannot be assigned to; names of files occur in `names` blocks");
        return;
    }
    const bool is_sequence = dt_sequence_is_target(l, target);
    if (!dt_val_is_error(&val) && !check_target(l, target, &val, value, is_sequence))
        val = dt_val_error();
    if (val.kind == DT_VAL_NOTHING) {
        dt_report_error(l, E0214, value->span, "this call returns nothing that `%s` could be",
                        name);
        val = dt_val_error();
    }
    if (val.kind == DT_VAL_FUNCTION && val.function->def && val.function->def->kind != DT_DEF_FN)
        val = dt_call_instance(l, val.function);
    const DtBinding *old = dt_expr_find(l, name);
    if (old && old->state)
        assign_state(l, old, target, &val, value);
    else if (is_sequence)
        dt_sequence_assign(l, target, &val, value);
    else {
        dt_stmt_bind(l, name, val, target->name.span, value);
        dt_unread_assign(l, name, target->name.span);
    }
}

void dt_stmt_assign(DtLower *l, const DtTarget *targets, uint32_t n, const DtExpr *value)
{
    DtVal val = dt_expr_eval(l, value);
    l->now->frame->b.span = value ? value->span : l->now->frame->b.span;
    if (n == 1) {
        assign_one(l, &targets[0], val, value);
        return;
    }
    bool fits = val.kind == DT_VAL_TUPLE && val.tuple.n == n;
    if (!fits && !dt_val_is_error(&val)) {
        DtDiag *d = dt_report_error(l, E0214, value->span, "%u names are assigned, and this is %s",
                                    n, dt_report_type(l, &val));
        dt_diag_label(d, targets[0].span, "%u names", n);
    }
    const DtExpr *bare = dt_report_bare(value);
    for (uint32_t i = 0; i < n; i++) {
        bool single = fits && bare->kind == DT_EXPR_TUPLE && bare->items.n == n;
        assign_one(l, &targets[i], fits ? val.tuple.at[i] : dt_val_error(),
                   single ? bare->items.at[i] : value);
    }
    if (bare->kind != DT_EXPR_TUPLE)
        dt_unread_join(l, targets, n);
}

/* ---- parameters ---- */

static bool read_init(DtLower *l, const DtStmt *stmt, DtInit *ret_init)
{
    l->in_init = true;
    DtVal v = dt_expr_eval(l, stmt->value);
    l->in_init = false;
    if (dt_val_is_error(&v))
        return false;
    if (v.kind == DT_VAL_INIT) {
        *ret_init = v.init;
        return true;
    }
    if (dt_val_is_constant(&v)) {
        *ret_init = (DtInit){.kind = DT_INIT_CONST, .a = dt_val_number(&v)};
        return true;
    }
    DtDiag *d =
        dt_report_error(l, E0407, stmt->value->span,
                        "an initialiser is needed here, and this is %s", dt_report_type(l, &v));
    dt_diag_note(
        d, "initialisers are `zeros`, `ones`, `normal(std)`, `uniform(lo, hi)`, or a constant");
    return false;
}

static bool may_declare(DtLower *l, const DtStmt *stmt)
{
    const DtDef *def = l->now->def;
    const bool is_optimizer = l->now->frame->is_rule && l->now->caller && !l->now->caller->def;
    if (def && (def->kind != DT_DEF_FN || (is_optimizer && stmt->kind == DT_STMT_STATE)))
        return true;
    const char *what = stmt->kind == DT_STMT_PARAM ? "parameters" : "states";
    DtDiag *d = dt_report_error(l, E0209, stmt->span, "only layers and models have %s", what);
    if (def) {
        dt_diag_label(d, def->head.file ? def->head : def->name.span, "this is a function");
        if (!dt_scope_in_library(l, def->span) && def->head.file)
            dt_diag_fix(d, (DtSpan){def->head.file, def->head.lo, def->head.lo + 2}, "layer",
                        "make it a layer");
    }
    return false;
}

static bool param_dtype(DtLower *l, const DtStmt *stmt, const DtTarget *target, DtDtype *ret_dtype)
{
    *ret_dtype = stmt->kind == DT_STMT_STATE ? DT_F32 : l->params;
    if (!target->type.dtype)
        return true;
    if (!dt_axes_dtype(l, &target->type, ret_dtype))
        return false;
    if (stmt->kind == DT_STMT_STATE || dt_dtype_is_float(*ret_dtype))
        return true;
    DtDiag *d = dt_report_error(l, E0405, target->span,
                                "a parameter is trained, so it cannot be %s", target->type.dtype);
    dt_diag_help(d, "what is not trained is a `state`");
    return false;
}

static bool stands_for(const DtAxisLists *lists, const char *name)
{
    for (uint32_t i = 0; i < lists->n; i++)
        for (uint32_t k = 0; k < lists->at[i].names.n; k++)
            if (lists->at[i].names.at[k] == name)
                return true;
    return false;
}

/* Completes the declared type of an optimizer's state: `...` stands for axes of the parameter that
 * the optimizer does not name. False after a report. */
static bool add_rest(DtLower *l, const DtTarget *target, DtDeclared *declared)
{
    const DtType *param = l->now->frame->args.at[0]->type;
    DtDeclared rest = {.n = 0};
    if (!declared->open) {
        DtDiag *d = dt_report_error(l, E0469, target->span,
                                    "a state of an optimizer belongs to each parameter");
        dt_diag_help(d, "write `...` for the parameter's axes: `%s[...]`", target->name.text);
        return false;
    }
    for (uint32_t i = 0; i < param->rank; i++)
        if (!stands_for(&l->now->axes, param->axes[i].name))
            rest.axes[rest.n++] = param->axes[i];
    for (uint32_t i = 0; i < declared->n && rest.n < DT_MAX_RANK; i++)
        rest.axes[rest.n++] = declared->axes[i];
    rest.written = declared->written;
    *declared = rest;
    return true;
}

static void declare_one(DtLower *l, const DtStmt *stmt, const DtTarget *target, const DtInit *init)
{
    DtDeclared declared;
    DtDtype dtype;
    bool ok = dt_axes_declared(l, &target->type, true, &declared) &&
              param_dtype(l, stmt, target, &dtype) && target->name.text;
    ok = ok && (!l->now->frame->is_rule || add_rest(l, target, &declared));
    const DtType *type =
        ok ? dt_axes_type(l, target->span, dtype, declared.n, declared.axes) : NULL;
    DtFrame *frame = l->now->frame;
    int32_t index = -1;
    if (type && init) {
        const char *path = dt_intern_printf("%s%s", frame->prefix, target->name.text);
        DtFormalParam formal = {.path = path,
                                .pattern = path,
                                .init = *init,
                                .is_state = stmt->kind == DT_STMT_STATE,
                                .written_rank = (uint8_t)declared.written,
                                .begins = declared.begins,
                                .span = target->name.span};
        index = dt_frame_param(l, frame, formal, type, NULL);
    }
    if (!target->name.text)
        return;
    DtVal val = dt_val_error();
    if (index >= 0) {
        frame->b.span = target->name.span;
        val = dt_val_of(l, frame->params.at[index].value, false);
        if (stmt->kind == DT_STMT_PARAM && !target->type.dtype)
            val = dt_val_round(l, &val, l->compute);
    }
    dt_stmt_bind(l, target->name.text, val, target->name.span, NULL);
    if (index >= 0 && stmt->kind == DT_STMT_STATE)
        dt_expr_find(l, target->name.text)->state = index + 1;
}

static void declare(DtLower *l, const DtStmt *stmt)
{
    DtInit init;
    bool allowed = may_declare(l, stmt);
    bool ok = read_init(l, stmt, &init) && allowed;
    for (uint32_t i = 0; i < stmt->targets.n; i++)
        declare_one(l, stmt, &stmt->targets.at[i], ok ? &init : NULL);
}

/* ---- the rest ---- */

static void return_stmt(DtLower *l, const DtStmt *stmt)
{
    for (const DtScope *scope = l->now->scope; scope; scope = scope->parent) {
        if (!scope->is_loop)
            continue;
        dt_report_error(l, E0214, stmt->span, "`return` inside `repeat`");
        return;
    }
    l->now->returned = stmt->value ? dt_expr_eval(l, stmt->value) : dt_val_error();
    l->now->returned_span = stmt->value ? stmt->value->span : stmt->span;
    l->now->has_returned = true;
    l->now->frame->b.span = l->now->returned_span;
}

static void if_stmt(DtLower *l, const DtStmt *stmt)
{
    bool truth;
    if (!dt_expr_truth(l, stmt->value, "the condition of `if`", &truth))
        return;
    const DtStmts *branch = truth ? &stmt->body : &stmt->other;
    dt_unread_take(l, branch);
    dt_stmt_block(l, branch);
}

void dt_stmt_block(DtLower *l, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n && !l->gave_up; i++) {
        const DtStmt *stmt = stmts->at[i];
        if (l->now->has_returned && stmt->kind != DT_STMT_CLAUSE) {
            dt_report_error(l, E0214, stmt->span, "nothing can follow `return`");
            return;
        }
        switch (stmt->kind) {
        case DT_STMT_PARAM:
        case DT_STMT_STATE: declare(l, stmt); break;
        case DT_STMT_ASSIGN:
            dt_stmt_assign(l, stmt->targets.at, stmt->targets.n, stmt->value);
            break;
        case DT_STMT_REPEAT: dt_repeat_stmt(l, stmt); break;
        case DT_STMT_IF: if_stmt(l, stmt); break;
        case DT_STMT_RETURN: return_stmt(l, stmt); break;
        case DT_STMT_CLAUSE: dt_clause_stmt(l, stmt); break;
        case DT_STMT_ERROR: break;
        }
    }
}
