/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with a custom gradient:
 *
 *   fn sign(x[...]) -> [...] {
 *     return where(x < 0, -1.0, 1.0)
 *     surrogate(dy) { return where(abs(x) < 1, dy, 0) }
 *   }
 *
 * The clause becomes a function of its own. Its inputs are the cotangents of the definition's
 * float results and the values of the definition's body that it reads, which it captures as a
 * loop does. It returns the cotangent of each float input, in the input's type: sums over axes
 * that the input lacks are added here. For a function that streams it also gets the final part,
 * under the names of `finish`. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

#include <string.h>

static bool is_float(const DtVal *v)
{
    return v->kind == DT_VAL_TENSOR && dt_dtype_is_float(v->tensor.value->type->dtype);
}

/* Binds the names in the clause's parentheses to the cotangents of the results: inputs of the
 * gradient function, 0 for a result that is no float tensor. False after a report. */
static bool bind_cotangents(DtLower *l, const DtStmt *stmt, DtFrame *frame, const DtVal *results,
                            uint32_t n)
{
    if (stmt->targets.n != n) {
        dt_report_error(l, E0221, stmt->span, "`%s` names %u cotangent%s, and `%s` has %u result%s",
                        stmt->name.text, stmt->targets.n, stmt->targets.n == 1 ? "" : "s",
                        l->now->def->name.text, n, n == 1 ? "" : "s");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        DtVal val = dt_val_float(0);
        if (is_float(&results[i]))
            val = dt_val_of(l,
                            dt_frame_arg(l, frame, results[i].tensor.value->type,
                                         stmt->targets.at[i].name.text),
                            false);
        if (!dt_clause_name(l, stmt, i, val))
            return false;
    }
    return true;
}

/* Appends a sum over the stream's axis alone, if the gradient is summed over that and other axes:
 * blocks of the axis add up this sum, and the sum over the other axes needs no blocks. */
static DtValue *over_stream(DtFrame *frame, const DtStream *stream, DtValue *x, const DtType *type)
{
    const char *axis = stream ? stream->axis : NULL;
    const bool sums = axis && dt_type_find(x->type, axis) >= 0 && dt_type_find(type, axis) < 0;
    return sums ? dt_graph_reduce(&frame->b, DT_REDUCE_SUM, x, 1, &axis) : x;
}

/* A product (perhaps cast) that is summed over an axis which both of its operands have becomes a
 * contraction over that axis, so that its elements are neither rounded nor stored before the
 * sum. */
static DtValue *over_shared(DtFrame *frame, DtValue *x, const DtType *type)
{
    const DtOp *op = x->op;
    DtBuilder b = {.func = frame->func, .span = op ? op->span : frame->b.span,
                   .path = frame->b.path};
    if (op && op->kind == DT_OP_CAST) {
        DtValue *sum = over_shared(frame, op->in[0], type);
        return sum == op->in[0] ? x : dt_graph_cast(&b, sum, x->type->dtype);
    }
    const char *axes[2 * DT_MAX_RANK];
    uint32_t n = op && op->kind == DT_OP_DOT ? op->n_axes : 0;
    if (n == 0)
        return x;
    memcpy(axes, op->axes, sizeof axes[0] * n);
    for (uint32_t d = 0; d < x->type->rank; d++) {
        const char *axis = x->type->axes[d].name;
        if (dt_type_find(type, axis) < 0 && dt_type_find(op->in[0]->type, axis) >= 0 &&
            dt_type_find(op->in[1]->type, axis) >= 0)
            axes[n++] = axis;
    }
    return n == op->n_axes ? x
                           : dt_graph_dot(&b, op->in[0], op->in[1], n, axes, x->type->dtype, NULL);
}

/* Returns from the gradient function the cotangent v for one argument, summed to the argument's
 * axes and cast to its dtype. False after a report. */
static bool take_cotangent(DtLower *l, DtFrame *frame, const DtStream *stream,
                           const DtFormal *formal, const DtVal *argument, const DtVal *v)
{
    const DtSpan span = l->now->returned_span;
    if (argument->kind == DT_VAL_TUPLE) {
        dt_report_error(
            l, E0221, span,
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
        dt_report_error(l, E0221, span, "the cotangent of `%s` is %s, and it must be a float",
                        formal->name.text, dt_report_type(l, v));
        return false;
    }
    DtValue *x = dt_val_use(l, v, type->dtype);
    if (!dt_clause_fits(l, dt_arena_printf(l->arena, "the cotangent of `%s`", formal->name.text),
                        x->type, type))
        return false;
    DtValue *sum = over_stream(frame, stream, x, type);
    if (sum == x)
        sum = over_shared(frame, x, type);
    dt_graph_return(frame->func, dt_graph_fit(&frame->b, sum, type));
    return true;
}

static void attach(DtLower *l, DtFrame *home, const DtFrame *frame, const DtStmt *stmt)
{
    DtCustomGradient *stated = DT_NEW(l->arena, DtCustomGradient);
    stated->func = frame->func;
    stated->is_surrogate = stmt->name.text == dt_intern("surrogate");
    for (uint32_t i = 0; i < frame->captures.n; i++)
        DT_PUSH(l->arena, stated->captured, frame->captures.at[i].outer);
    home->func->gradient = stated;
}

/* Returns a scope for the clause's body in which the stream's parts have the names that `finish`
 * (or `merge`) gives them. */
static DtScope *with_parts(DtLower *l, const DtVal *parts)
{
    const DtStmt *const *clauses = l->now->clauses;
    const DtStmt *names =
        clauses[DT_CLAUSE_FINISH] ? clauses[DT_CLAUSE_FINISH] : clauses[DT_CLAUSE_MERGE];
    DtScope *scope = DT_NEW(l->arena, DtScope);
    *scope = (DtScope){.parent = l->now->scope, .frame = l->now->frame};
    const uint32_t n = !parts || !names            ? 0
                       : clauses[DT_CLAUSE_FINISH] ? names->targets.n
                                                   : names->targets.n / 2;
    for (uint32_t i = 0; i < n; i++) {
        const DtTarget *target = &names->targets.at[i];
        DT_PUSH(l->arena, scope->names,
                ((DtBinding){.name = target->name.text, .val = parts[i],
                             .span = target->name.span}));
    }
    return scope;
}

bool dt_gradient_lower(DtLower *l, const DtBound *bound, const DtVal *results, uint32_t n_results,
                       const DtVal *parts)
{
    const DtActivation kept = *l->now;
    const DtDef *def = l->now->def;
    const DtStmt *stmt = l->now->clauses[DT_CLAUSE_GRADIENT];
    DtFrame *home = l->now->frame,
            *frame = dt_clause_enter(l, home, home, stmt, with_parts(l, parts));
    const DtVal *items;
    uint32_t n_items;
    bool ok = bind_cotangents(l, stmt, frame, results, n_results) &&
              dt_clause_run(l, stmt,
                            "one cotangent for each argument, in their order; 0 for what gets none",
                            def->formals.n, &items, &n_items);
    for (uint32_t i = 0, n = ok ? def->formals.n : 0; i < n; i++)
        ok &= take_cotangent(l, frame, home->func->stream, &def->formals.at[i], &bound[i].val,
                             &items[i]);
    if (ok) {
        dt_frame_finish(l, frame);
        dt_graph_sweep(frame->func);
        attach(l, home, frame, stmt);
    }
    *l->now = kept;
    return ok;
}
