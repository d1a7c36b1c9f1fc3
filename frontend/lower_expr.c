/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: names, operators, contraction, `if`, tuples, extents of tensors. Calls are in
 * lower_call.c, square brackets in lower_index.c. */
#include "frontend/lower_train.h"

#include "base/intern.h"
#include "frontend/foreign.h"

#include <math.h>
#include <string.h>

/* ---- names ---- */

DtBinding *dt_expr_find(const DtLower *l, const char *name)
{
    for (DtScope *scope = l->now ? l->now->scope : NULL; scope; scope = scope->parent) {
        for (uint32_t i = scope->names.n; i-- > 0;) {
            if (scope->names.at[i].name == name)
                return &scope->names.at[i];
        }
    }
    return NULL;
}

/* Appends the names of values in scope, dims and initialisers to `names`, for proposals; functions
 * are left out. */
static void add_scope_names(DtLower *l, const char **names, size_t *n, size_t cap)
{
    for (DtScope *scope = l->now ? l->now->scope : NULL; scope; scope = scope->parent) {
        for (uint32_t i = 0; i < scope->names.n && *n < cap; i++)
            if (scope->names.at[i].val.kind != DT_VAL_FUNCTION &&
                scope->names.at[i].val.kind != DT_VAL_INSTANCE)
                names[(*n)++] = scope->names.at[i].name;
    }
    for (uint32_t i = 0; i < l->globals.n && *n < cap; i++) {
        if ((l->globals.at[i]->kind == DT_GLOBAL_DIM ||
             l->globals.at[i]->kind == DT_GLOBAL_CONSTANT) &&
            l->globals.at[i]->state != 1)
            names[(*n)++] = l->globals.at[i]->name;
    }
    for (uint32_t i = 0; i < dt_n_builtins && *n < cap; i++)
        /* such built-ins are initialisers */
        if (!dt_builtins[i].formals && dt_builtins[i].max_axes == 0)
            names[(*n)++] = dt_builtins[i].name;
}

/* Returns the place where the block, or a block inside of it, binds the name; its file is 0 if none
 * does. */
static DtSpan bound_in(const DtStmts *stmts, const char *name)
{
    for (uint32_t i = 0; i < stmts->n; i++) {
        const DtStmt *stmt = stmts->at[i];
        for (uint32_t k = 0; stmt->kind != DT_STMT_CLAUSE && k < stmt->targets.n; k++)
            if (stmt->targets.at[k].name.text == name)
                return stmt->targets.at[k].name.span;
        DtSpan inside = bound_in(&stmt->body, name);
        if (!inside.file)
            inside = bound_in(&stmt->other, name);
        if (inside.file)
            return inside;
    }
    return (DtSpan){0};
}

/* Whether the definition binds the name further down; reports the read before that then. */
static bool is_bound_later(DtLower *l, DtName name)
{
    const DtSpan at = l->now && l->now->def ? bound_in(&l->now->def->body, name.text) : (DtSpan){0};
    if (!at.file || at.file != name.span.file || at.lo < name.span.lo)
        return false;
    DtDiag *d = dt_report_error(l, E0201, name.span, "`%s` has no value yet", name.text);
    dt_diag_label(d, at, "`%s` gets its value here, after it is read", name.text);
    dt_diag_help(d, "statements run in their order: move the one that binds `%s` up", name.text);
    return true;
}

static const DtBinding *find_ended(const DtLower *l, const char *name)
{
    for (uint32_t i = 0; l->now && i < l->now->ended.n; i++) {
        if (l->now->ended.at[i].name == name)
            return &l->now->ended.at[i];
    }
    return NULL;
}

static DtVal unknown_name(DtLower *l, DtName name)
{
    const DtBinding *ended = find_ended(l, name.text);
    if (ended) {
        DtDiag *d =
            dt_report_error(l, E0218, name.span, "`%s` is bound only inside the loop", name.text);
        dt_diag_label(d, ended->span, "bound here, once per iteration");
        dt_diag_note(d, "a name assigned in `repeat` is carried out of the loop only if it was "
                        "bound before it");
        return dt_val_error();
    }
    const DtCollected *collected = dt_sequence_find(l, name.text);
    if (collected) {
        DtDiag *d = dt_report_error(l, E0220, name.span, "the loop is still putting `%s` together",
                                    name.text);
        dt_diag_label(d, collected->span, "one iteration's part");
        dt_diag_note(
            d,
            "it has a value after the loop. What the next iteration needs is carried: bind a name "
            "before the loop, and assign it in it");
        return dt_val_error();
    }
    const char **names = DT_NEW_ARRAY(l->arena, const char *, 4096);
    size_t n = 0;
    if (is_bound_later(l, name))
        return dt_val_error();
    add_scope_names(l, names, &n, 4096);
    DtDiag *d = dt_report_error(l, E0201, name.span, "there is no value `%s`", name.text);
    if (dt_scope_axis(l, name.text) || dt_axes_formal(l, name.text)) {
        dt_diag_note(
            d,
            "`%s` is an axis; values of axes are `size[%s]`, `iota[%s]`, or `x.%s` for a tensor x",
            name.text, name.text, name.text, name.text);
        return dt_val_error();
    }
    if (!l->now)
        dt_diag_note(d, "outside of definitions only literals, dims%s are known",
                     l->rank ? " and `rank`" : "");
    if (!dt_foreign_help(d, DT_FOREIGN_VALUE, name.span, name.text))
        dt_report_nearest(l, d, name.span, name.text, names, n);
    return dt_val_error();
}

static DtVal named_constant(DtLower *l, const DtExpr *expr, const char *name, bool *ret_found)
{
    *ret_found = true;
    if (!strcmp(name, "inf"))
        return dt_val_float(INFINITY);
    if (!strcmp(name, "training"))
        return dt_val_bool(l->training);
    if (!strcmp(name, "rank") && l->rank) {
        l->rank_counts = true;
        return dt_val_int(*l->rank);
    }
    if (!strcmp(name, "rank")) {
        DtDiag *d = dt_report_error(l, E0201, expr->span,
                                    "`rank` has a value in an optimizer and its settings only");
        dt_diag_note(d, "it is the number of axes written in a parameter's declaration");
        return dt_val_error();
    }
    *ret_found = false;
    return dt_val_error();
}

/* Reports a lint for a read of a state after its assignment in the text: the state has its value
 * from before the step there, as in all reads. */
static void warn_of_old_value(DtLower *l, const DtExpr *expr, const DtBinding *binding)
{
    const DtFrame *home = binding->state > 0 ? binding->val.tensor.frame : NULL;
    if (!home || !home->params.at[binding->state - 1].written.file)
        return;
    DtDiag *d = dt_diag_report(l->diags, L0411, expr->span,
                               "the state `%s` has its old value here, from before the step",
                               binding->name);
    dt_diag_label(d, home->params.at[binding->state - 1].written,
                  "what is assigned counts from the next step on");
    dt_diag_help(d,
                 "give the new value a name and read that: `next = ...; %s = next`; or read the "
                 "old one before",
                 binding->name);
}

static DtVal name_value(DtLower *l, const DtExpr *expr)
{
    const char *name = expr->name.text;
    if (!name)
        return dt_val_error();
    if (!expr->label.text) {
        const DtBinding *binding = dt_expr_find(l, name);
        if (binding) {
            dt_unread_read(l, binding);
            warn_of_old_value(l, expr, binding);
            return binding->val;
        }
    }
    DtGlobal *global = dt_scope_meant(l, expr);
    if (global && global->kind == DT_GLOBAL_DIM && !expr->label.text) {
        int64_t extent = dt_scope_extent(l, global);
        return extent < 0 ? dt_val_error() : dt_val_int(extent);
    }
    if (global && global->kind == DT_GLOBAL_CONSTANT && !expr->label.text)
        return dt_scope_constant(l, global);
    bool found;
    DtVal constant = named_constant(l, expr, name, &found);
    if (found)
        return constant;
    if (dt_scalars_are_computed(l) && !expr->label.text && !strcmp(name, "steps"))
        return dt_scalars_steps(l);
    if (dt_call_denotes(l, expr))
        return dt_call_value(l, dt_call_callee(l, expr), expr);
    return unknown_name(l, expr->name);
}

/* ---- constants wanted ---- */

static bool wants_constant(DtLower *l, const DtVal *v, const DtExpr *expr, const char *what,
                           const char *kind)
{
    if (dt_val_is_error(v))
        return false;
    DtDiag *d = dt_report_error(l, E0401, expr->span, "%s must be a constant %s, and this is %s",
                                what, kind, dt_report_type(l, v));
    if (v->kind == DT_VAL_TENSOR)
        dt_diag_note(d, "constants are literals, dims, `size[a]`, `x.axis`, `training`, and "
                        "arithmetic on them; they are "
                        "known when the program is compiled");
    if (v->kind == DT_VAL_FLOAT)
        dt_diag_note(d, "`/` gives a float; `//` divides integers");
    const DtExpr *bare = dt_report_bare(expr);
    if (v->kind == DT_VAL_FLOAT && bare->kind == DT_EXPR_BINARY &&
        bare->op_span.hi == bare->op_span.lo + 1)
        dt_diag_fix(d, bare->op_span, "//", "divide integers");
    return false;
}

bool dt_val_int_of(DtLower *l, const DtVal *v, const DtExpr *expr, const char *what,
                   int64_t *ret_whole)
{
    if (v->kind != DT_VAL_INT)
        return wants_constant(l, v, expr, what, "integer");
    *ret_whole = v->whole;
    return true;
}

bool dt_val_number_of(DtLower *l, const DtVal *v, const DtExpr *expr, const char *what,
                      double *ret_number)
{
    if (v->kind != DT_VAL_INT && v->kind != DT_VAL_FLOAT)
        return wants_constant(l, v, expr, what, "number");
    *ret_number = dt_val_number(v);
    return true;
}

bool dt_expr_int(DtLower *l, const DtExpr *expr, const char *what, int64_t *ret_whole)
{
    DtVal v = dt_expr_eval(l, expr);
    return dt_val_int_of(l, &v, expr, what, ret_whole);
}

static bool truth_of(DtLower *l, const DtVal *v, const DtExpr *expr, const char *what,
                     bool *ret_truth)
{
    if (v->kind == DT_VAL_BOOL) {
        *ret_truth = v->whole != 0;
        return true;
    }
    if (dt_val_is_error(v))
        return false;
    DtDiag *d =
        dt_report_error(l, E0401, expr->span, "%s must be a constant truth value, and this is %s",
                        what, dt_report_type(l, v));
    if (v->kind == DT_VAL_TENSOR)
        dt_diag_help(d, "to choose element by element, use `where(condition, a, b)`");
    return false;
}

bool dt_expr_truth(DtLower *l, const DtExpr *expr, const char *what, bool *ret_truth)
{
    DtVal v = dt_expr_eval(l, expr);
    return truth_of(l, &v, expr, what, ret_truth);
}

/* ---- operators ---- */

static const char *const spellings[] = {
    [DT_OPR_ADD] = "+",       [DT_OPR_SUB] = "-",   [DT_OPR_MUL] = "*",  [DT_OPR_DIV] = "/",
    [DT_OPR_FLOORDIV] = "//", [DT_OPR_MOD] = "%",   [DT_OPR_POW] = "**", [DT_OPR_LT] = "<",
    [DT_OPR_LE] = "<=",       [DT_OPR_GT] = ">",    [DT_OPR_GE] = ">=",  [DT_OPR_EQ] = "==",
    [DT_OPR_NE] = "!=",       [DT_OPR_AND] = "and", [DT_OPR_OR] = "or",  [DT_OPR_NOT] = "not",
    [DT_OPR_NEG] = "-"};

static bool needs_bool(DtLower *l, const DtVal *v, const DtExpr *expr, DtOperator op)
{
    if (dt_val_dtype(v) == DT_BOOL)
        return true;
    DtDiag *d = dt_report_error(l, E0403, expr->span, "`%s` needs bool, and %s is %s",
                                spellings[op], dt_report_subject(l, expr), dt_report_type(l, v));
    dt_report_origin(l, d, expr);
    dt_diag_help(d, "compare it with something: `x != 0`");
    return false;
}

static DtVal eval_unary(DtLower *l, const DtExpr *expr)
{
    DtVal a = dt_expr_eval(l, expr->a);
    if (!dt_val_check(l, &a, expr->a))
        return dt_val_error();
    if (dt_val_is_constant(&a))
        return dt_const_unary(l, expr, a);
    l->now->frame->b.span = expr->span;
    const DtExpr *exprs[1] = {expr->a};
    if (expr->op == DT_OPR_NOT)
        return needs_bool(l, &a, expr->a, DT_OPR_NOT)
                   ? dt_val_map(l, DT_OP_NOT, &a, exprs, 1, false)
                   : dt_val_error();
    return dt_val_map(l, DT_OP_NEG, &a, exprs, 1, false);
}

/* Evaluates `a and b` or `a or b` with at least one tensor: a constant operand decides the result,
 * or the other operand is the result. */
static DtVal eval_logic(DtLower *l, const DtExpr *expr, DtVal *v)
{
    const DtExpr *exprs[2] = {expr->a, expr->b};
    if (!needs_bool(l, &v[0], expr->a, expr->op) || !needs_bool(l, &v[1], expr->b, expr->op))
        return dt_val_error();
    for (int i = 0; i < 2; i++) {
        if (!dt_val_is_constant(&v[i]))
            continue;
        bool decides = (expr->op == DT_OPR_OR) == (v[i].whole != 0);
        if (!decides)
            return v[1 - i];
        const DtType *type = v[1 - i].kind == DT_VAL_TENSOR ? v[1 - i].tensor.value->type : NULL;
        return type ? dt_val_expand(l, v[i], type->rank, type->axes) : v[i];
    }
    return dt_val_map(l, expr->op == DT_OPR_AND ? DT_OP_AND : DT_OP_OR, v, exprs, 2, false);
}

static DtVal eval_binary_of(DtLower *l, const DtExpr *expr, DtVal a, DtVal b)
{
    static const DtOpKind kinds[] = {[DT_OPR_ADD] = DT_OP_ADD,
                                     [DT_OPR_SUB] = DT_OP_SUB,
                                     [DT_OPR_MUL] = DT_OP_MUL,
                                     [DT_OPR_DIV] = DT_OP_DIV,
                                     [DT_OPR_FLOORDIV] = DT_OP_FLOORDIV,
                                     [DT_OPR_MOD] = DT_OP_MOD,
                                     [DT_OPR_LT] = DT_OP_LT,
                                     [DT_OPR_LE] = DT_OP_LE,
                                     [DT_OPR_GT] = DT_OP_LT,
                                     [DT_OPR_GE] = DT_OP_LE,
                                     [DT_OPR_EQ] = DT_OP_EQ,
                                     [DT_OPR_NE] = DT_OP_NE};
    const DtExpr *exprs[2] = {expr->a, expr->b};
    DtVal v[2] = {a, b};
    if (l->now)
        l->now->frame->b.span = expr->span;
    bool logic = expr->op == DT_OPR_AND || expr->op == DT_OPR_OR;
    if (dt_val_is_constant(&a) && dt_val_is_constant(&b)) {
        if (!logic)
            return dt_const_binary(l, expr, a, b);
        if (!needs_bool(l, &a, expr->a, expr->op) || !needs_bool(l, &b, expr->b, expr->op))
            return dt_val_error();
        return dt_val_bool(expr->op == DT_OPR_AND ? a.whole && b.whole : a.whole || b.whole);
    }
    if (logic)
        return eval_logic(l, expr, v);
    if (expr->op == DT_OPR_POW)
        return dt_expr_power(l, expr, a, b);
    if (expr->op == DT_OPR_GT || expr->op == DT_OPR_GE) { /* a > b is b < a */
        DtVal swapped[2] = {b, a};
        const DtExpr *swapped_exprs[2] = {expr->b, expr->a};
        return dt_val_map(l, kinds[expr->op], swapped, swapped_exprs, 2, false);
    }
    return dt_val_map(l, kinds[expr->op], v, exprs, 2, expr->op == DT_OPR_DIV);
}

/* Evaluates a chain of binary operators such as a + b + c, which is nested to the left, without
 * recursion. */
static DtVal eval_binary(DtLower *l, const DtExpr *expr)
{
    uint32_t n = 0;
    for (const DtExpr *e = expr; e->kind == DT_EXPR_BINARY; e = e->a)
        n++;
    const DtExpr **chain = DT_NEW_ARRAY(l->arena, const DtExpr *, n);
    const DtExpr *e = expr;
    for (uint32_t i = n; i-- > 0; e = e->a)
        chain[i] = e;
    DtVal a = dt_expr_eval(l, e);
    bool ok = dt_val_check(l, &a, e);
    for (uint32_t i = 0; i < n; i++) {
        DtVal b = dt_expr_eval(l, chain[i]->b);
        ok &= dt_val_check(l, &b, chain[i]->b);
        if (!ok)
            continue;
        a = eval_binary_of(l, chain[i], a, b);
        ok = !dt_val_is_error(&a);
    }
    return ok ? a : dt_val_error();
}

/* ---- contraction ---- */

static bool contract_axis(DtLower *l, const DtExpr *expr, const DtVal *v, const char *axis)
{
    const DtExpr *exprs[2] = {expr->a, expr->b};
    for (int i = 0; i < 2; i++) {
        if (v[i].kind == DT_VAL_TENSOR && dt_type_find(v[i].tensor.value->type, axis) >= 0)
            continue;
        DtDiag *d = dt_report_error(l, E0304, expr->group.span,
                                    "`@` sums over `%s`, which %s does not have: it is %s", axis,
                                    dt_report_subject(l, exprs[i]), dt_report_type(l, &v[i]));
        dt_diag_caret(d, "no axis `%s` on the %s", axis, i ? "right" : "left");
        dt_report_origin(l, d, exprs[i]);
        return false;
    }
    return true;
}

/* Decides the dtype of a contraction: the narrower of both float dtypes; a weak operand (a literal)
 * or an integer takes the dtype of the other. False after a report. */
static bool dot_dtype(DtLower *l, const DtExpr *expr, const DtVal *v, DtDtype *ret_dtype,
                      bool *ret_weak)
{
    bool strong[2];
    for (int i = 0; i < 2; i++)
        strong[i] = dt_dtype_is_float(dt_val_dtype(&v[i])) && !v[i].weak;
    *ret_weak = !strong[0] && !strong[1];
    *ret_dtype = DT_F32;
    if (strong[0] && strong[1]) {
        DtDtype a = dt_val_dtype(&v[0]), b = dt_val_dtype(&v[1]);
        *ret_dtype = dt_dtype_size(b) < dt_dtype_size(a) ? b : a;
        return true;
    }
    if (strong[0] || strong[1])
        *ret_dtype = dt_val_dtype(&v[strong[0] ? 0 : 1]);
    if (!*ret_weak || dt_dtype_is_float(dt_val_dtype(&v[0])) ||
        dt_dtype_is_float(dt_val_dtype(&v[1])))
        return true;
    DtDiag *d =
        dt_report_error(l, E0403, expr->op_span, "`@` multiplies floats, and these are %s and %s",
                        dt_report_type(l, &v[0]), dt_report_type(l, &v[1]));
    dt_diag_help(d, "convert one of them: `f32(x) @...`");
    return false;
}

/* Checks that axes that both operands have agree in extent, and that the axes which are not summed
 * form a type; false after a report. */
static bool contract_result(DtLower *l, const DtExpr *expr, const DtVal *v,
                            const DtAxisList *summed)
{
    const DtExpr *exprs[2] = {expr->a, expr->b};
    uint32_t rank, n = 0;
    DtAxis axes[DT_MAX_RANK];
    if (!dt_val_union_axes(l, v, exprs, 2, expr->op_span, &rank, axes))
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        bool gone = false;
        for (uint32_t k = 0; k < summed->names.n; k++)
            gone |= summed->names.at[k] == axes[i].name;
        if (!gone)
            axes[n++] = axes[i];
    }
    return dt_axes_type(l, expr->op_span, DT_F32, n, axes) != NULL;
}

/* Evaluates a contraction `a @axes b`. accumulator: it is directly inside `f32( )`, so its f32 sum
 * is not rounded. */
static DtVal eval_contract(DtLower *l, const DtExpr *expr, bool accumulator)
{
    DtVal v[2] = {dt_expr_eval(l, expr->a), dt_expr_eval(l, expr->b)};
    bool ok = dt_val_check(l, &v[0], expr->a);
    ok &= dt_val_check(l, &v[1], expr->b);
    DtAxisList list;
    ok &= dt_axes_group(l, &expr->group, &list);
    DtAxisLists lists = {.at = &list, .n = 1, .cap = 1};
    if (!ok || !dt_axes_distinct(l, &lists, "`@`"))
        return dt_val_error();
    for (uint32_t i = 0; i < list.names.n; i++) {
        if (!contract_axis(l, expr, v, list.names.at[i]))
            return dt_val_error();
    }
    DtDtype dtype;
    bool weak;
    if (!contract_result(l, expr, v, &list) || !dot_dtype(l, expr, v, &dtype, &weak))
        return dt_val_error();
    DtBuilder *b = &l->now->frame->b;
    b->span = expr->span;
    DtValue *x = dt_val_use(l, &v[0], dtype), *y = dt_val_use(l, &v[1], dtype);
    DtDtype result = accumulator ? DT_F32 : dtype;
    return dt_val_of(l, dt_graph_dot(b, x, y, list.names.n, list.names.at, result, NULL),
                     weak && !accumulator);
}

/* ---- the rest ---- */

/* Returns the first name of an expression such as `nn.functional.relu`, if it is a module of
 * another framework and no value of the program; else NULL. */
static const DtExpr *module_of(DtLower *l, const DtExpr *expr)
{
    while (expr && expr->kind == DT_EXPR_FIELD)
        expr = expr->a;
    const bool is_name = expr && expr->kind == DT_EXPR_NAME && expr->name.text && !expr->label.text;
    return is_name && dt_foreign_is_module(expr->name.text) && !dt_expr_find(l, expr->name.text) &&
                   !dt_scope_value(l, expr->name.text)
               ? expr
               : NULL;
}

static DtVal foreign_field(DtLower *l, const DtExpr *expr, const DtExpr *module)
{
    const char *first = module->name.text, *last = expr->name.text;
    DtDiag *d = dt_report_error(l, E0201, module->name.span, "there is no value `%s`", first);
    if (!strcmp(first, "self")) {
        dt_diag_fix(d, (DtSpan){expr->span.file, expr->span.lo, expr->name.span.lo}, "",
                    "it is written `%s`", last);
        dt_foreign_help(d, DT_FOREIGN_VALUE, (DtSpan){0}, "self");
        const DtBinding *meant = dt_expr_find(l, last);
        if (meant) /* evaluation continues with the value that was probably meant */
            return meant->val;
    } else if (!dt_foreign_help(d, DT_FOREIGN_VALUE, expr->span, last)) {
        dt_diag_help(d, "there are no modules: functions of the library and of the language are "
                        "called by their name");
        if (dt_builtin_find(last, -1) || dt_scope_value(l, last))
            dt_diag_fix(d, expr->span, last, "it is written `%s`", last);
    } else {
        l->unknown = (DtUnknownCall){.diag = d, .word = last};
    }
    return dt_val_error();
}

static bool unknown_field(DtLower *l, const DtExpr *expr)
{
    if (!expr->name.text || dt_axes_formal(l, expr->name.text) || dt_scope_axis(l, expr->name.text))
        return false;
    DtDiag *d =
        dt_report_error(l, E0202, expr->name.span, "there is no axis `%s`", expr->name.text);
    if (dt_foreign_help(d, DT_FOREIGN_FIELD, (DtSpan){0}, expr->name.text))
        dt_diag_fix(d, (DtSpan){expr->span.file, expr->a->span.hi, expr->span.hi}, "",
                    "without it");
    else
        dt_diag_note(d, "what follows the dot is an axis, whose extent it is");
    return true;
}

/* Evaluates `x.chan`: the extent of an axis of x, or the product of the extents of the axes that an
 * axis parameter stands for. */
static DtVal eval_field(DtLower *l, const DtExpr *expr)
{
    const DtExpr *module = module_of(l, expr);
    if (module)
        return foreign_field(l, expr, module);
    DtVal x = dt_expr_eval(l, expr->a);
    if (!dt_val_check(l, &x, expr->a) || unknown_field(l, expr))
        return dt_val_error();
    DtAxisNames names = {0};
    if (!dt_axes_name(l, expr->name, &names))
        return dt_val_error();
    int64_t extent = 1;
    for (uint32_t i = 0; i < names.n; i++) {
        int64_t one =
            x.kind == DT_VAL_TENSOR ? dt_type_extent(x.tensor.value->type, names.at[i]) : -1;
        if (one >= 0) {
            extent *= one;
            continue;
        }
        DtDiag *d =
            dt_report_error(l, E0304, expr->name.span, "%s has no axis `%s`: it is %s",
                            dt_report_subject(l, expr->a), names.at[i], dt_report_type(l, &x));
        dt_report_origin(l, d, expr->a);
        return dt_val_error();
    }
    return dt_val_int(extent);
}

static DtVal eval_tuple(DtLower *l, const DtExpr *expr)
{
    DtVal *items = DT_NEW_ARRAY(l->arena, DtVal, expr->items.n + 1);
    for (uint32_t i = 0; i < expr->items.n;
         i++) /* an item with an error is an ERROR value, about which users report nothing */
        items[i] = dt_expr_eval(l, expr->items.at[i]);
    return dt_val_tuple(l, items, expr->items.n);
}

static DtVal eval_if(DtLower *l, const DtExpr *expr)
{
    DtVal condition = dt_expr_eval(l, expr->a);
    bool truth;
    if (dt_scalars_are_computed(l) && condition.kind == DT_VAL_TENSOR &&
        dt_val_dtype(&condition) == DT_BOOL)
        return dt_scalars_choose(l, &condition, expr);
    if (!truth_of(l, &condition, expr->a, "the condition of `if`", &truth))
        return dt_val_error();
    return dt_expr_eval(l, truth ? expr->b : expr->c);
}

/* Evaluates `x |> f`, `x |> f(a = 1)`, `x |> f(..)[a -> b]`: x becomes the first argument of the
 * innermost call. */
static DtVal eval_pipe(DtLower *l, const DtExpr *expr)
{
    DtVal x = dt_expr_eval(l, expr->a);
    return dt_call_eval(l, expr->b, &x, expr->a);
}

/* Evaluates a call. The cast `f32( )` around a contraction takes the contraction's sum before it is
 * rounded. */
static DtVal eval_call(DtLower *l, const DtExpr *expr)
{
    const DtExpr *callee = dt_report_bare(expr->a);
    if (callee->kind == DT_EXPR_DTYPE && expr->args.n == 1 && callee->name.text &&
        !strcmp(callee->name.text, "f32")) {
        const DtExpr *inner = dt_report_bare(expr->args.at[0].value);
        if (inner && inner->kind == DT_EXPR_CONTRACT && !expr->args.at[0].name.text)
            return eval_contract(l, inner, true);
    }
    return dt_call_eval(l, expr, NULL, NULL);
}

static DtVal eval_kind(DtLower *l, const DtExpr *expr)
{
    switch (expr->kind) {
    case DT_EXPR_INT: return dt_val_int(expr->integer);
    case DT_EXPR_FLOAT: return dt_val_float(expr->number);
    case DT_EXPR_BOOL: return dt_val_bool(expr->integer != 0);
    case DT_EXPR_STRING: return (DtVal){.kind = DT_VAL_STRING, .string = expr};
    case DT_EXPR_QUANTITY:
        dt_report_error(l, E0403, expr->span,
                        "quantities with a unit belong into `cluster` blocks");
        return dt_val_error();
    case DT_EXPR_NAME: return name_value(l, expr);
    case DT_EXPR_DTYPE: return dt_call_callee(l, expr);
    case DT_EXPR_UNARY: return eval_unary(l, expr);
    case DT_EXPR_BINARY: return eval_binary(l, expr);
    case DT_EXPR_CONTRACT: return eval_contract(l, expr, false);
    case DT_EXPR_IF: return eval_if(l, expr);
    case DT_EXPR_PIPE: return eval_pipe(l, expr);
    case DT_EXPR_CALL: return eval_call(l, expr);
    case DT_EXPR_FIELD: return eval_field(l, expr);
    case DT_EXPR_TUPLE: return eval_tuple(l, expr);
    case DT_EXPR_PAREN: return dt_expr_eval(l, expr->a);
    case DT_EXPR_ERROR: return dt_val_error();
    case DT_EXPR_SUBS: break;
    }
    if (dt_call_denotes(l, expr))
        return dt_call_value(l, dt_call_callee(l, expr), expr);
    DtVal x = dt_expr_eval(l, expr->a);
    if (dt_val_is_error(&x))
        return x;
    return dt_index_eval(l, expr, x);
}

DtVal dt_expr_eval(DtLower *l, const DtExpr *expr)
{
    if (!expr || !dt_lower_enter(l, expr->span))
        return dt_val_error();
    DtVal v = eval_kind(l, expr);
    dt_lower_leave(l);
    return v;
}
