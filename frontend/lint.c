/* SPDX-License-Identifier: Apache-2.0 */
/* Dims, constants and axes that nothing uses. A walk over the syntax trees of all files: a name
 * that is written anywhere as a value, an axis, or in a configuration block is used, also in
 * definitions that are never called. */
#include "frontend/lower_internal.h"

static void use(DtLower *l, const char *name)
{
    if (!name)
        return;
    DtGlobal *value = dt_scope_value(l, name), *axis = dt_scope_axis(l, name);
    if (value)
        value->used = true;
    if (axis)
        axis->used = true;
}

static void use_names(DtLower *l, const DtNames *names)
{
    for (uint32_t i = 0; i < names->n; i++)
        use(l, names->at[i].text);
}

static void use_expr(DtLower *l, const DtExpr *expr);

static void use_type(DtLower *l, const DtAstType *type)
{
    for (uint32_t i = 0; i < type->axes.n; i++) {
        use(l, type->axes.at[i].name.text);
        use_expr(l, type->axes.at[i].extent);
    }
}

static void use_expr(DtLower *l, const DtExpr *expr)
{
    for (; expr; expr = expr->a) { /* chains like a + b + c are nested to the left: no recursion */
        if (expr->kind == DT_EXPR_NAME || expr->kind == DT_EXPR_FIELD)
            use(l, expr->name.text);
        use_names(l, &expr->group.names);
        use_expr(l, expr->b);
        use_expr(l, expr->c);
        for (uint32_t i = 0; i < expr->items.n; i++)
            use_expr(l, expr->items.at[i]);
        for (uint32_t i = 0; i < expr->args.n; i++) {
            use(l, expr->args.at[i].name.text); /* `scatter(x, experts = e)` */
            use_expr(l, expr->args.at[i].value);
        }
        for (uint32_t i = 0; i < expr->subs.n; i++) {
            use_names(l, &expr->subs.at[i].from.names);
            use_names(l, &expr->subs.at[i].to.names);
            for (uint32_t k = 0; k < expr->subs.at[i].to.extents.n; k++)
                use_expr(l, expr->subs.at[i].to.extents.at[k]);
            use_expr(l, expr->subs.at[i].index);
            use_expr(l, expr->subs.at[i].end);
        }
    }
}

static void use_stmts(DtLower *l, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n; i++) {
        const DtStmt *stmt = stmts->at[i];
        use_expr(l, stmt->value);
        for (uint32_t k = 0; k < stmt->targets.n; k++)
            use_type(l, &stmt->targets.at[k].type);
        use_stmts(l, &stmt->body);
        use_stmts(l, &stmt->other);
    }
}

static void use_def(DtLower *l, const DtDef *def)
{
    for (uint32_t i = 0; i < def->formals.n; i++) {
        use_type(l, &def->formals.at[i].type);
        use_expr(l, def->formals.at[i].init);
    }
    for (uint32_t i = 0; i < def->results.n; i++)
        use_type(l, &def->results.at[i]);
    use_stmts(l, &def->body);
}

static void use_entry(DtLower *l, const DtEntry *entry)
{
    for (uint32_t i = 0; i < entry->targets.n; i++)
        use_type(l, &entry->targets.at[i].type);
    use_expr(l, entry->value);
    for (uint32_t i = 0; i < entry->args.n; i++)
        use_expr(l, entry->args.at[i].value);
    for (uint32_t i = 0; i < entry->operands.n;
         i++) /* an axis that only a `shard` line names does not count as used */
        use_expr(l, entry->operands.at[i].value);
}

static void use_item(DtLower *l, const DtItem *item)
{
    for (uint32_t i = 0; i < item->binds.n; i++)
        use_expr(l, item->binds.at[i].value);
    if (item->def)
        use_def(l, item->def);
    for (uint32_t i = 0; i < item->entries.n; i++)
        use_entry(l, item->entries.at[i]);
}

static bool in_main_file(const DtLower *l, DtSpan span)
{
    return l->files.n && l->files.at[0].file == span.file;
}

void dt_lint_unused(DtLower *l)
{
    for (uint32_t i = 0; i < l->items.n; i++)
        if (!dt_scope_in_library(l, l->items.at[i]->span) || in_main_file(l, l->items.at[i]->span))
            use_item(l, l->items.at[i]);
    for (uint32_t i = 0; i < l->globals.n; i++) {
        const DtGlobal *global = l->globals.at[i];
        if (global->used || global->kind == DT_GLOBAL_DEF || !in_main_file(l, global->span))
            continue;
        const bool axis = global->kind == DT_GLOBAL_AXIS;
        DtDiag *d = dt_diag_report(l->diags, axis ? L0203 : L0202, global->span,
                                   "the %s `%s` is used nowhere",
                                   axis                            ? "axis"
                                   : global->kind == DT_GLOBAL_DIM ? "dim"
                                                                   : "constant",
                                   global->name);
        dt_diag_help(d, "remove it, or check the spelling where it should be used");
    }
}
