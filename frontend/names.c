/* SPDX-License-Identifier: Apache-2.0 */
/* Names in definitions that nothing calls. The evaluator checks definitions as they are called;
 * those that it never reached have no axes or dtypes yet, but their names must exist. A local name
 * counts as known in the whole definition, wherever it is bound: this is a check of spelling, not
 * of order. */
#include "frontend/foreign.h"
#include "frontend/lower_internal.h"

#include <string.h>

typedef struct Names {
    DtLower *l;
    const DtDef *def;
    DT_VEC(const char *) locals;
} Names;

static void add(Names *n, const char *name)
{
    if (name)
        DT_PUSH(n->l->arena, n->locals, name);
}

static bool is_local(const Names *n, const char *name)
{
    for (uint32_t i = 0; i < n->locals.n; i++) {
        if (n->locals.at[i] == name)
            return true;
    }
    return false;
}

static bool is_axis(const Names *n, const char *name)
{
    for (uint32_t i = 0; i < n->def->axes.n; i++) {
        if (n->def->axes.at[i].text == name)
            return true;
    }
    return !strcmp(name, "...") || dt_scope_axis(n->l, name);
}

static bool is_value(const Names *n, const char *name)
{
    static const char *const constants[] = {"inf", "training"};
    for (size_t i = 0; i < DT_COUNT(constants); i++) {
        if (!strcmp(constants[i], name))
            return true;
    }
    /* a name that optimizers, and functions which they call, may read */
    if (!strcmp(name, "rank") && n->def->kind == DT_DEF_FN)
        return true;
    return is_local(n, name) || dt_scope_value(n->l, name) || dt_builtin_find(name, -1);
}

/* ---- reports ---- */

static void finish_report(const Names *n, DtDiag *d, DtName name, bool axis)
{
    DtLower *l = n->l;
    const char **names =
        DT_NEW_ARRAY(l->arena, const char *, l->globals.n + n->locals.n + n->def->axes.n + 1);
    size_t count = 0;
    for (uint32_t i = 0; i < l->globals.n; i++) {
        const DtGlobalKind kind = l->globals.at[i]->kind;
        if (kind == DT_GLOBAL_DIM || (kind == DT_GLOBAL_AXIS) == axis)
            names[count++] = l->globals.at[i]->name;
    }
    for (uint32_t i = 0; !axis && i < n->locals.n; i++)
        names[count++] = n->locals.at[i];
    for (uint32_t i = 0; axis && i < n->def->axes.n; i++)
        names[count++] = n->def->axes.at[i].text;
    dt_diag_note(d, "in `%s`, which nothing calls", n->def->name.text);
    dt_report_nearest(l, d, name.span, name.text, names, count);
}

static void check_axis(const Names *n, DtName name)
{
    if (!name.text || is_axis(n, name.text))
        return;
    DtDiag *d = dt_diag_report(n->l->diags, E0202, name.span, "there is no axis `%s`", name.text);
    finish_report(n, d, name, true);
}

/* Whether the name is one of std.dsl that need not be reported, since its missing include was. */
static bool is_of_library(DtLower *l, const char *name)
{
    const char *library[128];
    const uint32_t n = l->lacks_include ? dt_library_names(l->arena, l->options->library, "std.dsl",
                                                           library, DT_COUNT(library))
                                        : 0;
    for (uint32_t i = 0; i < n; i++)
        if (library[i] == name)
            return true;
    return false;
}

static void check_value(const Names *n, DtName name)
{
    if (!name.text || is_value(n, name.text) || is_of_library(n->l, name.text))
        return;
    DtDiag *d = dt_diag_report(n->l->diags, E0201, name.span, "there is no value `%s`", name.text);
    if (!dt_foreign_help(d, DT_FOREIGN_VALUE, name.span, name.text))
        finish_report(n, d, name, false);
}

/* ---- the walk ---- */

static void check_axes(const Names *n, const DtNames *names)
{
    for (uint32_t i = 0; i < names->n; i++)
        check_axis(n, names->at[i]);
}

static void check_expr(const Names *n, const DtExpr *expr)
{
    for (; expr; expr = expr->a) { /* left-deep chains without recursion */
        if (expr->kind == DT_EXPR_NAME)
            check_value(n, expr->name);
        if (expr->kind == DT_EXPR_FIELD)
            check_axis(n, expr->name);
        check_axes(n, &expr->group.names);
        check_expr(n, expr->b);
        check_expr(n, expr->c);
        for (uint32_t i = 0; i < expr->items.n; i++)
            check_expr(n, expr->items.at[i]);
        for (uint32_t i = 0; i < expr->args.n; i++)
            check_expr(n, expr->args.at[i].value);
        for (uint32_t i = 0; i < expr->subs.n; i++) {
            check_axes(n, &expr->subs.at[i].from.names);
            check_axes(n, &expr->subs.at[i].to.names);
            for (uint32_t k = 0; k < expr->subs.at[i].to.extents.n; k++)
                check_expr(n, expr->subs.at[i].to.extents.at[k]);
            check_expr(n, expr->subs.at[i].index);
            check_expr(n, expr->subs.at[i].end);
        }
    }
}

static void check_type(const Names *n, const DtAstType *type)
{
    for (uint32_t i = 0; i < type->axes.n; i++) {
        check_axis(n, type->axes.at[i].name);
        check_expr(n, type->axes.at[i].extent);
    }
}

static void collect(Names *n, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n; i++) {
        const DtStmt *stmt = stmts->at[i];
        for (uint32_t k = 0; k < stmt->targets.n; k++)
            add(n, stmt->targets.at[k].name.text);
        add(n, stmt->name.text);
        collect(n, &stmt->body);
        collect(n, &stmt->other);
    }
}

static void check_stmts(const Names *n, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n; i++) {
        const DtStmt *stmt = stmts->at[i];
        for (uint32_t k = 0; k < stmt->targets.n; k++)
            check_type(n, &stmt->targets.at[k].type);
        check_expr(n, stmt->value);
        check_stmts(n, &stmt->body);
        check_stmts(n, &stmt->other);
    }
}

static void check_def(DtLower *l, const DtDef *def)
{
    Names n = {.l = l, .def = def};
    for (uint32_t i = 0; i < def->formals.n; i++)
        add(&n, def->formals.at[i].name.text);
    collect(&n, &def->body);
    for (uint32_t i = 0; i < def->formals.n; i++) {
        check_type(&n, &def->formals.at[i].type);
        check_expr(&n, def->formals.at[i].init);
    }
    for (uint32_t i = 0; i < def->results.n; i++)
        check_type(&n, &def->results.at[i]);
    check_stmts(&n, &def->body);
}

void dt_names_check(DtLower *l)
{
    for (uint32_t i = 0; i < l->items.n; i++) {
        const DtItem *item = l->items.at[i];
        const DtDef *def = item->kind == DT_ITEM_DEF ? item->def : NULL;
        bool wanted = def && def->span.file == l->files.at[0].file;
        for (uint32_t k = 0; wanted && k < l->seen.n; k++)
            wanted = l->seen.at[k] != def;
        if (wanted)
            check_def(l, def);
    }
}
