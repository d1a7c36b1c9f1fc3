/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that state their gradient:
 *
 *   fn sign(x[...]) -> [...] {
 *     return where(x < 0, -1.0, 1.0)
 *     surrogate(dy) { return where(abs(x) < 1, dy, 0) }
 *   }
 *
 * What the statement computes becomes a function of its own, of the cotangents of the definition's float results and of
 * what it reads in the definition's body, which it captures as a loop does. It gives the cotangent of each float
 * input, type for type: sums over axes that the input lacks are made here. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

bool dt_gradient_is_stated(const DtStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const DtStmt *stmt = body->at[i];
        if (stmt->kind == DT_STMT_GRADIENT || dt_gradient_is_stated(&stmt->body) || dt_gradient_is_stated(&stmt->other))
            return true;
    }
    return false;
}

void dt_gradient_stmt(DtLower *l, const DtStmt *stmt)
{
    const DtDef *def = l->now->def;
    DtDiag *d;
    if (!def || def->kind != DT_DEF_FN) {
        d = dt_report_error(l, E0221, stmt->span, "only an `fn` can state its gradient");
        dt_diag_note(d, "a layer's parameters would get none; what has another gradient may be an `fn` that it calls");
    } else if (l->now->scope->is_loop || l->now->scope->parent) {
        dt_report_error(l, E0221, stmt->span, "a gradient is stated once, outside of loops and of other gradients");
    } else if (l->now->gradient) {
        d = dt_report_error(l, E0221, stmt->span, "`%s` states its gradient twice", def->name.text);
        dt_diag_label(d, l->now->gradient->span, "first stated here");
    } else {
        l->now->gradient = stmt;
    }
}

static bool is_float(const DtVal *v)
{
    return v->kind == DT_VAL_TENSOR && dt_dtype_is_float(v->tensor.value->type->dtype);
}

/* The cotangents of results by their names: inputs of the gradient, 0 for what is no float tensor. */
static bool bind_cotangents(DtLower *l, const DtStmt *stmt, DtFrame *frame, const DtVal *results, uint32_t n)
{
    if (stmt->targets.n != n) {
        dt_report_error(l, E0221, stmt->span, "`%s` names %u cotangent%s, and `%s` has %u result%s", stmt->name.text,
                        stmt->targets.n, stmt->targets.n == 1 ? "" : "s", l->now->def->name.text, n,
                        n == 1 ? "" : "s");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const DtTarget *target = &stmt->targets.at[i];
        if (!target->name.text || target->type.dtype || target->type.has_axes) {
            dt_report_error(l, E0221, target->span, "a cotangent is given a name only; its type is the result's");
            return false;
        }
        DtVal val = dt_val_float(0);
        if (is_float(&results[i]))
            val = dt_val_of(l, dt_frame_arg(l, frame, results[i].tensor.value->type, target->name.text), false);
        DtBinding binding = {.name = target->name.text, .val = val, .span = target->name.span};
        DT_PUSH(l->arena, l->now->scope->names, binding);
    }
    return true;
}

/* What the gradient says of one argument becomes a result of it. */
static bool take_cotangent(DtLower *l, DtFrame *frame, const DtFormal *formal, const DtVal *argument, const DtVal *v)
{
    const DtSpan span = l->now->returned_span;
    if (argument->kind == DT_VAL_TUPLE) {
        dt_report_error(l, E0221, span,
                        "`%s` is a tuple; a function that states its gradient takes tensors and numbers",
                        formal->name.text);
        return false;
    }
    if (!is_float(argument))
        return true;
    const DtType *type = argument->tensor.value->type;
    if (!dt_val_check(l, v, NULL))
        return false;
    if (!dt_val_is_constant(v) && !is_float(v)) {
        dt_report_error(l, E0221, span, "the cotangent of `%s` is %s, and it must be a float", formal->name.text,
                        dt_report_type(l, v));
        return false;
    }
    DtValue *x = dt_val_use(l, v, type->dtype);
    for (uint32_t i = 0; i < x->type->rank; i++) {
        const int64_t extent = dt_type_extent(type, x->type->axes[i].name);
        if (extent < 0 || extent == x->type->axes[i].extent)
            continue;
        DtDiag *d = dt_report_error(l, E0221, span, "the cotangent of `%s` has another extent of `%s`",
                                    formal->name.text, x->type->axes[i].name);
        dt_diag_note(d, "`%s` is %s, its cotangent %s", formal->name.text, dt_report_axes(l, type, true),
                     dt_report_axes(l, x->type, true));
        return false;
    }
    dt_graph_return(frame->func, dt_graph_fit(&frame->b, x, type));
    return true;
}

static bool take_cotangents(DtLower *l, DtFrame *frame, const DtBound *bound)
{
    const DtDef *def = l->now->def;
    const DtVal *v = &l->now->returned;
    if (l->now->has_returned && dt_val_is_error(v))
        return false;
    const uint32_t n = !l->now->has_returned ? 0 : v->kind == DT_VAL_TUPLE ? v->tuple.n : 1;
    if (n != def->formals.n) {
        DtDiag *d = dt_report_error(l, E0221, l->now->has_returned ? l->now->returned_span : l->now->gradient->span,
                                    "the gradient of `%s` returns %u value%s, and it has %u argument%s", def->name.text,
                                    n, n == 1 ? "" : "s", def->formals.n, def->formals.n == 1 ? "" : "s");
        dt_diag_help(d, "one cotangent for each argument, in their order; 0 for what gets none");
        return false;
    }
    const DtVal *items = v->kind == DT_VAL_TUPLE ? v->tuple.at : v;
    bool ok = true;
    for (uint32_t i = 0; i < n; i++)
        ok &= take_cotangent(l, frame, &def->formals.at[i], &bound[i].val, &items[i]);
    return ok;
}

static void attach(DtLower *l, DtFrame *home, const DtFrame *frame, const DtStmt *stmt)
{
    DtStatedGradient *stated = DT_NEW(l->arena, DtStatedGradient);
    stated->func = frame->func;
    stated->is_surrogate = stmt->name.text == dt_intern("surrogate");
    for (uint32_t i = 0; i < frame->captures.n; i++)
        DT_PUSH(l->arena, stated->captured, frame->captures.at[i].outer);
    home->func->gradient = stated;
}

bool dt_gradient_lower(DtLower *l, const DtBound *bound, const DtVal *results, uint32_t n_results)
{
    DtActivation *act = l->now, kept = *act;
    const DtStmt *stmt = act->gradient;
    DtFrame *home = act->frame;
    DtFrame *frame = dt_frame_new(l, home, dt_intern_printf("%s.gradient", home->func->name), DT_FUNC_FN, stmt->span);
    DtScope *scope = DT_NEW(l->arena, DtScope);
    *scope = (DtScope){.parent = act->scope, .frame = frame};
    act->frame = frame;
    act->scope = scope;
    act->has_returned = false;
    bool ok = bind_cotangents(l, stmt, frame, results, n_results);
    if (ok) {
        dt_stmt_block(l, &stmt->body);
        ok = take_cotangents(l, frame, bound);
    }
    if (ok && dt_memo_draws(frame->func)) {
        DtDiag *d = dt_report_error(l, E0221, stmt->span, "a gradient draws no random numbers");
        dt_diag_help(d, "draw in the function, give what was drawn a name, and use that here");
        ok = false;
    }
    if (ok) {
        dt_frame_finish(l, frame);
        attach(l, home, frame, stmt);
    }
    *act = kept;
    return ok;
}
