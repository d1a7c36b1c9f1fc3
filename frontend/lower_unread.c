/* SPDX-License-Identifier: Apache-2.0 */
/* Values and parameters that have no effect: a value that no expression reads (`y = x + mlp(x)`
 * where `x = ..` was meant), and parameters that no loss, metric or state depends on.
 *
 * Reads are recorded while the program is lowered, since only lowering knows which value a name
 * stands for. One assignment may be lowered many times; it counts as read if its value is read in
 * one of them. No lint is reported for a value that only an untaken branch reads (`if` with a
 * constant), for a name that begins with `_`, or for one of several results if another one is read.
 * Unread values of the train block are reported by L0464. Unread parameters are found in the IR
 * (ir/live.c). */
#include "frontend/lower_internal.h"

#include "ir/live.h"

#include <string.h>

typedef struct DtAssigned {
    DtSpan span; /* place of the name */
    const char *name;
    const DtDef *def;
    struct DtAssigned *first; /* the first of the names that one statement assigns together; one
                               * lint covers all, if none is read */
    bool read;
} Assigned;

static bool in_library(const DtLower *l, DtSpan span)
{
    for (uint32_t i = 0; i < l->files.n; i++)
        if (l->files.at[i].file == span.file)
            return l->files.at[i].is_library;
    return false;
}

static Assigned *find(const DtLower *l, const DtSpan *span)
{
    return dt_map_find(&l->assigned_at, (const char *)span, sizeof *span);
}

void dt_unread_assign(DtLower *l, const char *name, DtSpan span)
{
    const DtDef *def = l->now->def;
    if (!def || !name || name[0] == '_' || in_library(l, span) || find(l, &span))
        return;
    Assigned *made = DT_NEW(l->arena, Assigned);
    *made = (Assigned){.span = span, .name = name, .def = def, .first = made};
    dt_map_add(&l->assigned_at, (const char *)&made->span, sizeof made->span, made);
    DT_PUSH(l->arena, l->assigned, made);
}

void dt_unread_read(const DtLower *l, const DtBinding *binding)
{
    Assigned *made = binding ? find(l, &binding->span) : NULL;
    if (made)
        made->first->read = true;
}

void dt_unread_join(const DtLower *l, const DtTarget *targets, uint32_t n)
{
    Assigned *first = NULL;
    for (uint32_t i = 0; i < n; i++) {
        Assigned *made = find(l, &targets[i].name.span);
        first = first ? first : made;
        if (made)
            made->first = first;
    }
}

void dt_unread_take(DtLower *l, const DtStmts *branch)
{
    if (!dt_map_find_pointer(&l->taken, branch))
        dt_map_add_pointer(&l->taken, branch, l);
}

/* ---- branches that are not taken ---- */

static bool mentions(const DtExpr *e, const char *name)
{
    DtArena *scratch = dt_arena_new();
    DtMap names = {.arena = scratch};
    dt_config_mentioned(e, &names);
    const bool found = dt_map_find(&names, name, strlen(name));
    dt_arena_free(scratch);
    return found;
}

/* Whether a branch of a conditional expression `if a then b else c` reads the name. */
static bool chooses(const DtExpr *e, const char *name)
{
    if (!e)
        return false;
    if (e->kind == DT_EXPR_IF && (mentions(e->b, name) || mentions(e->c, name)))
        return true;
    bool any = chooses(e->a, name) || chooses(e->b, name) || chooses(e->c, name);
    for (uint32_t i = 0; i < e->items.n; i++)
        any = any || chooses(e->items.at[i], name);
    for (uint32_t i = 0; i < e->args.n; i++)
        any = any || chooses(e->args.at[i].value, name);
    for (uint32_t i = 0; i < e->subs.n; i++)
        any = any || chooses(e->subs.at[i].index, name) || chooses(e->subs.at[i].end, name);
    return any;
}

static bool is_in(DtLower *l, const DtStmts *stmts, const char *name, bool taken);

static bool is_in_stmt(DtLower *l, const DtStmt *stmt, const char *name, bool taken)
{
    const bool decides = stmt->kind == DT_STMT_IF, clause = stmt->kind == DT_STMT_CLAUSE;
    const bool body = taken && !clause && (!decides || dt_map_find_pointer(&l->taken, &stmt->body));
    const bool other =
        taken && !clause && (!decides || dt_map_find_pointer(&l->taken, &stmt->other));
    return (taken ? chooses(stmt->value, name) : mentions(stmt->value, name)) ||
           is_in(l, &stmt->body, name, body) || is_in(l, &stmt->other, name, other);
}

/* Whether code that was not evaluated reads the name: a branch of `if` that was never lowered, or a
 * branch of a conditional expression. taken: the statements themselves were lowered. */
static bool is_in(DtLower *l, const DtStmts *stmts, const char *name, bool taken)
{
    for (uint32_t i = 0; i < stmts->n; i++)
        if (is_in_stmt(l, stmts->at[i], name, taken))
            return true;
    return false;
}

void dt_unread_lint_values(DtLower *l)
{
    for (uint32_t i = 0; i < l->assigned.n; i++) {
        const Assigned *made = l->assigned.at[i];
        if (made != made->first || made->read || is_in(l, &made->def->body, made->name, true))
            continue;
        DtDiag *d = dt_diag_report(l->diags, L0210, made->span, "nothing reads this value of `%s`",
                                   made->name);
        dt_diag_help(d, "return it or use it, assign it to the name that is used, or call it `_%s`",
                     made->name);
    }
}

/* ---- parameters ---- */

static bool is_meant(const DtStore *store)
{
    const char *dot = strrchr(store->path, '.');
    return (dot ? dot + 1 : store->path)[0] == '_';
}

/* Returns the unread parameter to report: the first one that the program's own text declares, or
 * else the first. */
static const DtStore *most_telling(const DtLower *l, const DtStore *const *dead, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!in_library(l, dead[i]->span))
            return dead[i];
    return dead[0];
}

static void list_paths(const DtStore *const *dead, uint32_t n, DtText *ret_text)
{
    enum { MOST = 4 };
    for (uint32_t i = 0; i < n && i < MOST; i++)
        dt_text_printf(ret_text, "%s`%s`", i ? ", " : "", dead[i]->pattern);
    if (n > MOST)
        dt_text_printf(ret_text, " and %u more", n - MOST);
}

void dt_unread_lint_params(DtLower *l, const DtItem *train)
{
    const bool *live = dt_live_stores(l->module, l->arena);
    const DtStore **dead = DT_NEW_ARRAY(l->arena, const DtStore *, l->module->stores.n + 1);
    double all = 0, none = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (store->kind != DT_STORE_PARAM)
            continue;
        all += (double)dt_type_elements(store->type);
        if (live[i] || is_meant(store))
            continue;
        none += (double)dt_type_elements(store->type);
        dead[n++] = store;
    }
    if (!n)
        return;
    const DtStore *first = most_telling(l, dead, n);
    DtText paths = {0};
    list_paths(dead, n, &paths);
    const bool own = !in_library(l, first->span);
    DtDiag *d =
        dt_diag_report(l->diags, L0211, own || !train ? first->span : train->name.span,
                       "%s reach%s no %s: %.3g%% of the parameters", paths.at, n == 1 ? "es" : "",
                       train ? "loss, metric or state" : "result", 100 * none / all);
    dt_text_free(&paths);
    dt_diag_note(d, "they get no gradient and stay as they begin; `dtc --params` marks them");
    dt_diag_help(d, "use them, remove them, or begin the name with `_`");
}
