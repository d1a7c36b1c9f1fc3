/* SPDX-License-Identifier: Apache-2.0 */
/* Clauses that follow the `return` of an `fn`. Each is a block of its own, which becomes an IR
 * function after the body has been evaluated: `gradient` and `surrogate` in lower_gradient.c,
 * `stream`, `merge` and `finish` in lower_stream.c, with `emit` in lower_scan.c. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

static const struct {
    const char *word;
    DtClauseKind kind;
    bool takes_axes; /* true: `stream[t]`; false: names of values in parentheses */
} rows[] = {{"gradient", DT_CLAUSE_GRADIENT, false},
            {"surrogate", DT_CLAUSE_GRADIENT, false},
            {"stream", DT_CLAUSE_STREAM, true},
            {"scan", DT_CLAUSE_STREAM, true},
            {"merge", DT_CLAUSE_MERGE, false},
            {"neutral", DT_CLAUSE_NEUTRAL, false},
            {"emit", DT_CLAUSE_EMIT, false},
            {"finish", DT_CLAUSE_FINISH, false}};

bool dt_clause_any(const DtStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const DtStmt *stmt = body->at[i];
        if (stmt->kind == DT_STMT_CLAUSE || dt_clause_any(&stmt->body) ||
            dt_clause_any(&stmt->other))
            return true;
    }
    return false;
}

void dt_clause_stmt(DtLower *l, const DtStmt *stmt)
{
    const DtDef *def = l->now->def;
    uint32_t row = 0;
    while (stmt->name.text != dt_intern(rows[row].word))
        row++;
    const DtStmt **place = &l->now->clauses[rows[row].kind];
    DtDiag *d;
    if (!def || def->kind != DT_DEF_FN) {
        d = dt_report_error(l, E0221, stmt->span, "only an `fn` has a `%s`", stmt->name.text);
        dt_diag_note(d, "a layer's parameters would get no gradient; what is meant may be an `fn` "
                        "that it calls");
    } else if (l->now->in_clause || l->now->scope->is_loop || l->now->scope->parent) {
        dt_report_error(l, E0221, stmt->span,
                        "`%s` belongs to the function: outside of loops and of other such blocks",
                        stmt->name.text);
    } else if (!l->now->has_returned) {
        d = dt_report_error(l, E0221, stmt->span, "`%s` stands in front of the `return` of `%s`",
                            stmt->name.text, def->name.text);
        dt_diag_help(d, "move it behind `return`: it speaks of what the function returns");
    } else if (rows[row].takes_axes != (stmt->axes.n > 0)) {
        dt_report_error(l, E0221, stmt->span, "`%s` is of %s", stmt->name.text,
                        rows[row].takes_axes ? "an axis, in square brackets"
                                             : "values, in parentheses");
    } else if (*place) {
        d = dt_report_error(l, E0221, stmt->span, "`%s` has two of these", def->name.text);
        dt_diag_label(d, (*place)->span, "the first one");
    } else {
        *place = stmt;
    }
}

DtFrame *dt_clause_enter(DtLower *l, DtFrame *parent, DtFrame *home, const DtStmt *stmt,
                         DtScope *outer)
{
    /* a name that calls cannot have, since layouts find calls by name (dt_graph_source_name) */
    const char *name =
        dt_intern_printf("@%s.%s", home->func->name,
                         stmt->name.text == dt_intern("surrogate") ? "gradient" : stmt->name.text);
    DtFrame *frame = dt_frame_new(l, parent, name, DT_FUNC_FN, stmt->span);
    DtScope *scope = DT_NEW(l->arena, DtScope);
    *scope = (DtScope){.parent = outer, .frame = frame};
    l->now->frame = frame;
    l->now->scope = scope;
    l->now->has_returned = false;
    l->now->in_clause = true;
    return frame;
}

bool dt_clause_name(DtLower *l, const DtStmt *stmt, uint32_t i, DtVal val)
{
    const DtTarget *target = &stmt->targets.at[i];
    if (!target->name.text || target->type.dtype || target->type.has_axes) {
        dt_report_error(l, E0221, target->span,
                        "a name only belongs here; its type follows from the function");
        return false;
    }
    for (uint32_t k = 0; k < i; k++) {
        if (stmt->targets.at[k].name.text != target->name.text)
            continue;
        DtDiag *d =
            dt_report_error(l, E0221, target->span, "`%s` is named twice here", target->name.text);
        dt_diag_label(d, stmt->targets.at[k].span, "the first one");
        return false;
    }
    DtBinding binding = {.name = target->name.text, .val = val, .span = target->name.span};
    DT_PUSH(l->arena, l->now->scope->names, binding);
    return true;
}

bool dt_clause_run(DtLower *l, const DtStmt *stmt, const char *each, uint32_t wanted,
                   const DtVal **ret_items, uint32_t *ret_n)
{
    dt_stmt_block(l, &stmt->body);
    const DtVal *v = &l->now->returned;
    if (l->now->has_returned && dt_val_is_error(v))
        return false;
    const uint32_t n = *ret_n = !l->now->has_returned     ? 0
                                : v->kind == DT_VAL_TUPLE ? v->tuple.n
                                                          : 1;
    *ret_items = n && v->kind == DT_VAL_TUPLE ? v->tuple.at : v;
    if (dt_memo_draws(l->now->frame->func)) {
        DtDiag *d = dt_report_error(l, E0221, stmt->span, "a `%s` draws no random numbers",
                                    stmt->name.text);
        dt_diag_help(d, "draw in the function, give what was drawn a name, and use that here");
        return false;
    }
    if (wanted ? n == wanted : n > 0)
        return true;
    DtDiag *d = dt_report_error(l, E0221, l->now->has_returned ? l->now->returned_span : stmt->span,
                                "the `%s` of `%s` returns %u value%s, and %u %s wanted",
                                stmt->name.text, l->now->def->name.text, n, n == 1 ? "" : "s",
                                wanted ? wanted : 1, wanted > 1 ? "are" : "is");
    dt_diag_help(d, "%s", each);
    return false;
}

bool dt_clause_fits(DtLower *l, const char *what, const DtType *x, const DtType *type)
{
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t extent = dt_type_extent(type, x->axes[i].name);
        if (extent < 0 || extent == x->axes[i].extent)
            continue;
        DtDiag *d = dt_report_error(l, E0221, l->now->returned_span,
                                    "%s has another extent of `%s`", what, x->axes[i].name);
        dt_diag_note(d, "wanted is %s, this is %s", dt_report_axes(l, type, true),
                     dt_report_axes(l, x, true));
        return false;
    }
    return true;
}

DtValue *dt_clause_fitted(DtLower *l, const DtStmt *stmt, DtFrame *frame, const DtVal *v,
                          const DtType *type)
{
    const char *what = dt_arena_printf(l->arena, "what `%s` returns", stmt->name.text);
    const bool is_float =
        dt_val_is_constant(v) ||
        (v->kind == DT_VAL_TENSOR && dt_dtype_is_float(v->tensor.value->type->dtype));
    DtValue *x = is_float ? dt_val_use(l, v, type->dtype) : NULL;
    for (uint32_t i = 0; x && i < x->type->rank; i++)
        if (dt_type_find(type, x->type->axes[i].name) < 0)
            x = NULL;
    if (!x) {
        DtDiag *d = dt_report_error(l, E0221, l->now->returned_span, "%s is %s", what,
                                    dt_report_type(l, v));
        dt_diag_note(d, "wanted is a float of the axes %s", dt_report_axes(l, type, true));
        return NULL;
    }
    return dt_clause_fits(l, what, x->type, type) ? dt_graph_fit(&frame->b, x, type) : NULL;
}

/* Whether each clause has the clause that it belongs to, as `merge` belongs to `stream`; reports
 * one that has not. */
static bool are_whole(DtLower *l)
{
    const DtStmt *const *clauses = l->now->clauses, *stream = clauses[DT_CLAUSE_STREAM];
    for (DtClauseKind kind = DT_CLAUSE_MERGE; !stream && kind < DT_CLAUSES; kind++)
        if (clauses[kind]) {
            dt_report_error(
                l, E0221, clauses[kind]->span, "`%s` without a `%s`", clauses[kind]->name.text,
                kind == DT_CLAUSE_NEUTRAL || kind == DT_CLAUSE_EMIT ? "scan" : "stream");
            return false;
        }
    const DtStmt *neutral = clauses[DT_CLAUSE_NEUTRAL];
    if (!clauses[DT_CLAUSE_EMIT] && (neutral || (stream && stream->value))) {
        dt_report_error(l, E0221, neutral ? neutral->span : stream->span, "%s without an `emit`",
                        neutral ? "`neutral`" : "the length of a block");
        return false;
    }
    return true;
}

bool dt_clause_lower(DtLower *l, const DtBound *bound, DtVal *results, uint32_t n_results)
{
    const DtStmt *const *clauses = l->now->clauses;
    if (!are_whole(l))
        return false;
    if (clauses[DT_CLAUSE_EMIT])
        return dt_scan_lower(l, bound, results, n_results);
    const DtVal *parts = NULL;
    return (!clauses[DT_CLAUSE_STREAM] || dt_stream_lower(l, bound, results, n_results, &parts)) &&
           (!clauses[DT_CLAUSE_GRADIENT] || dt_gradient_lower(l, bound, results, n_results, parts));
}
