/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that stream over an axis: their results follow from blocks of it.
 *
 *   fn lse[t](x[..., t]) -> [...] {
 *     m = max[t](x)
 *     return m + log(sum[t](exp(x - m)))
 *     stream[t] {                                  # the part of a block
 *       m = max[t](x)
 *       return (m, sum[t](exp(x - m)))
 *     }
 *     merge(m, l, n, k) {                          # the part of two blocks, from those of each
 *       most = max(m, n)
 *       return (most, l * exp(m - most) + k * exp(n - most))
 *     }
 *     finish(m, l) { return m + log(l) }           # the results, from the part of all blocks
 *   }
 *
 * `stream` sees only the arguments, and becomes a function of all inputs. `merge` sees numbers
 * among the arguments; without it parts add up. `finish` also sees arguments that lack the axis;
 * without it the parts are the results. Both work element by element. The function's `return`
 * defines its meaning; uses of the blocks are checked against it (verify/box.h). */
#include "frontend/lower_internal.h"

#include "base/intern.h"

typedef struct Streamed {
    DtLower *l;
    DtFrame *home;
    const DtBound *bound;
    const char *axis;
    DtStream *stream;
    const DtType **types; /* types of the parts */
    uint32_t n;
} Streamed;

static bool has_axis(const Streamed *s, const DtType *type)
{
    return dt_type_find(type, s->axis) >= 0;
}

/* ---- the part ---- */

static bool find_axis(Streamed *s, const DtStmt *stmt)
{
    DtAxisNames names = {0};
    for (uint32_t i = 0; i < stmt->axes.n; i++)
        if (!dt_axes_name(s->l, stmt->axes.at[i], &names))
            return false;
    if (names.n != 1) {
        dt_report_error(s->l, E0221, stmt->span,
                        "a function streams over one axis, and these are %u", names.n);
        return false;
    }
    s->axis = names.at[0];
    return true;
}

/* Finds the argument that `stream[c](z)` names: the function streams if that is a product. False
 * after a report. */
static bool find_product(Streamed *s, const DtStmt *stmt)
{
    DtLower *l = s->l;
    if (!stmt->targets.n)
        return true;
    const char *name = stmt->targets.at[0].name.text;
    for (uint32_t i = 0; stmt->targets.n == 1 && i < l->now->formals.n; i++) {
        const DtBinding *formal = &l->now->formals.at[i];
        if (formal->name != name || formal->val.kind != DT_VAL_TENSOR)
            continue;
        for (uint32_t k = 0; k < s->home->args.n; k++)
            if (s->home->args.at[k] == formal->val.tensor.value &&
                has_axis(s, s->home->args.at[k]->type))
                s->stream->product = k + 1;
    }
    if (s->stream->product)
        return true;
    DtDiag *d = dt_report_error(l, E0221, stmt->targets.at[0].name.span,
                                "`%s` names the argument that is a product, and `%s` is no tensor "
                                "argument with the axis `%s`",
                                stmt->name.text, name, s->axis);
    dt_diag_help(d, "name one argument with that axis, or none: `%s[%s] { .. }` always streams",
                 stmt->name.text, s->axis);
    return false;
}

static bool take_parts(Streamed *s, DtFrame *frame, const DtVal *items, uint32_t n)
{
    s->types = DT_NEW_ARRAY(s->l->arena, const DtType *, n + 1);
    s->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const bool fits = items[i].kind == DT_VAL_TENSOR &&
                          dt_dtype_is_float(items[i].tensor.value->type->dtype) &&
                          !has_axis(s, items[i].tensor.value->type);
        if (!fits) {
            dt_report_error(s->l, E0221, s->l->now->returned_span,
                            "a part is made of float tensors without the axis `%s`, and this is %s",
                            s->axis, dt_report_type(s->l, &items[i]));
            return false;
        }
        DtValue *value = dt_val_tensor(s->l, &items[i]);
        s->types[i] = value->type;
        dt_graph_return(frame->func, value);
    }
    return true;
}

/* Binds the names of the function's arguments in the clause's frame: numbers as they are and, if
 * `tensors` is set, tensors as new inputs. */
static void bind_formals(Streamed *s, DtFrame *frame, bool tensors)
{
    DtLower *l = s->l;
    const DtDef *def = l->now->def;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtName name = def->formals.at[i].name;
        DtVal val =
            tensors ? dt_frame_args(l, frame, &s->bound[i].val, name.text) : s->bound[i].val;
        if (name.text && (tensors || dt_val_is_constant(&val)))
            DT_PUSH(l->arena, l->now->scope->names,
                    ((DtBinding){.name = name.text, .val = val, .span = name.span}));
    }
}

static bool lower_part(Streamed *s, const DtStmt *stmt)
{
    DtFrame *frame = dt_clause_enter(s->l, NULL, s->home, stmt, NULL);
    const DtVal *items;
    uint32_t n;
    bind_formals(s, frame, true);
    if (!dt_clause_run(s->l, stmt, "what a block gives", 0, &items, &n) ||
        !take_parts(s, frame, items, n))
        return false;
    dt_frame_finish(s->l, frame);
    s->stream->part = frame->func;
    return true;
}

/* ---- what works on parts ---- */

static bool is_pointwise(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool is = op->func ? is_pointwise(op->func)
                                 : dt_op_is_pointwise(op->kind) || op->kind == DT_OP_CONST ||
                                       op->kind == DT_OP_EXPAND ||
                                       (op->kind == DT_OP_RELABEL && !op->n_relabels);
        if (!is)
            return false;
    }
    return true;
}

/* Returns item i of the clause, v, from the clause's function as a value of this type; false after
 * a report. */
static bool give(Streamed *s, const DtStmt *stmt, DtFrame *frame, const DtVal *v,
                 const DtType *type)
{
    DtValue *x = dt_clause_fitted(s->l, stmt, frame, v, type);
    if (x)
        dt_graph_return(frame->func, x);
    return x != NULL;
}

/* Binds the names in the clause's parentheses, n of them, to new inputs for the parts of one block,
 * or of two. False after a report. */
static bool bind_parts(Streamed *s, const DtStmt *stmt, DtFrame *frame, uint32_t n)
{
    if (stmt->targets.n != n) {
        dt_report_error(s->l, E0221, stmt->span, "`%s` names %u value%s, and the stream gives %u%s",
                        stmt->name.text, stmt->targets.n, stmt->targets.n == 1 ? "" : "s", s->n,
                        n > s->n ? " to each of two blocks" : "");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        DtValue *value =
            dt_frame_arg(s->l, frame, s->types[i % s->n], stmt->targets.at[i].name.text);
        if (!dt_clause_name(s->l, stmt, i, dt_val_of(s->l, value, false)))
            return false;
    }
    return true;
}

static bool take_results(Streamed *s, const DtStmt *stmt, DtFrame *frame,
                         const DtType *const *types, uint32_t n)
{
    const DtVal *items;
    uint32_t have;
    if (!dt_clause_run(s->l, stmt, "as many as there are, in their order", n, &items, &have))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!give(s, stmt, frame, &items[i], types[i]))
            return false;
    dt_frame_finish(s->l, frame);
    if (is_pointwise(frame->func))
        return true;
    dt_report_error(s->l, E0221, stmt->span, "`%s` works element by element, and this does not",
                    stmt->name.text);
    return false;
}

/* Makes the merge function of a stream that states none: it adds the parts of two blocks. */
static void add_up(Streamed *s)
{
    const char *name = dt_intern_printf("@%s.merge", s->home->func->name);
    DtFunc *merge = dt_graph_func(s->home->func->module, name, DT_FUNC_FN);
    DtBuilder b = {.func = merge, .span = s->stream->part->span};
    merge->span = b.span;
    for (uint32_t i = 0; i < 2 * s->n; i++)
        dt_graph_arg(merge, s->types[i % s->n], NULL);
    for (uint32_t i = 0; i < s->n; i++)
        dt_graph_return(
            merge, dt_graph_binary(&b, DT_OP_ADD, merge->inputs.at[i], merge->inputs.at[s->n + i]));
    s->stream->merge = merge;
}

static bool lower_merge(Streamed *s, const DtStmt *stmt)
{
    if (!stmt) {
        add_up(s);
        return true;
    }
    DtFrame *frame = dt_clause_enter(s->l, NULL, s->home, stmt, NULL);
    bind_formals(s, frame, false);
    s->stream->merge = frame->func;
    return bind_parts(s, stmt, frame, 2 * s->n) && take_results(s, stmt, frame, s->types, s->n);
}

/* Records which arguments of the function the clause `finish` reads. They must lack the stream's
 * axis, so that a rank has them whole; reports one that has it. */
static bool take_captures(Streamed *s, const DtStmt *stmt, const DtFrame *frame)
{
    for (uint32_t i = 0; i < frame->captures.n; i++) {
        const DtValue *outer = frame->captures.at[i].outer;
        uint32_t number = 0; /* `finish` sees arguments only */
        while (s->home->args.at[number] != outer)
            number++;
        if (has_axis(s, outer->type)) {
            dt_report_error(s->l, E0221, stmt->span, "`finish` reads `%s`, which has the axis `%s`",
                            outer->name ? outer->name : "a value", s->axis);
            return false;
        }
        DT_PUSH(s->l->arena, s->stream->given, number);
    }
    return true;
}

static bool same_types(const Streamed *s, const DtType *const *results, uint32_t n)
{
    bool same = n == s->n;
    for (uint32_t i = 0; same && i < n; i++)
        same = results[i] == s->types[i];
    return same;
}

static bool lower_finish(Streamed *s, const DtStmt *stmt, const DtType *const *results, uint32_t n)
{
    DtLower *l = s->l;
    for (uint32_t i = 0; i < n; i++)
        DT_PUSH(l->arena, s->stream->takes, (int32_t)i);
    if (!stmt && same_types(s, results, n)) {
        for (uint32_t i = 0; i < n; i++)
            s->stream->takes.at[i] = -1 - (int32_t)i;
        return true;
    }
    if (!stmt) {
        dt_report_error(
            l, E0221, l->now->clauses[DT_CLAUSE_STREAM]->span,
            "the parts are not the results of `%s`, and no `finish` makes these of them",
            l->now->def->name.text);
        return false;
    }
    DtFrame *frame = dt_clause_enter(l, s->home, s->home, stmt, NULL);
    for (uint32_t i = 0; i < l->now->formals.n; i++)
        DT_PUSH(l->arena, l->now->scope->names, l->now->formals.at[i]);
    s->stream->finish = frame->func;
    return bind_parts(s, stmt, frame, s->n) && take_results(s, stmt, frame, results, n) &&
           take_captures(s, stmt, frame);
}

/* ---- all of it ---- */

static bool find_results(Streamed *s, const DtVal *results, uint32_t n, const DtType **ret_types)
{
    for (uint32_t i = 0; i < n; i++) {
        const bool fits = results[i].kind == DT_VAL_TENSOR &&
                          dt_dtype_is_float(results[i].tensor.value->type->dtype) &&
                          !has_axis(s, results[i].tensor.value->type);
        if (!fits) {
            dt_report_error(
                s->l, E0221, s->l->now->returned_span,
                "a stream over `%s` makes floats without this axis, and `%s` returns %s", s->axis,
                s->l->now->def->name.text, dt_report_type(s->l, &results[i]));
            return false;
        }
        ret_types[i] = results[i].tensor.value->type;
    }
    return true;
}

/* Appends a call of the stream's part for the whole axis to the function, and returns the parts,
 * for a stated gradient to read. */
static const DtVal *call_part(Streamed *s)
{
    DtLower *l = s->l;
    DtVal *parts = DT_NEW_ARRAY(l->arena, DtVal, s->n + 1);
    const DtOp *call = dt_graph_call(&s->home->b, s->stream->part, NULL, s->home->args.at);
    for (uint32_t i = 0; i < s->n; i++)
        parts[i] = dt_val_of(l, call->out[i], false);
    return parts;
}

bool dt_stream_lower(DtLower *l, const DtBound *bound, const DtVal *results, uint32_t n_results,
                     const DtVal **ret_parts)
{
    const DtActivation kept = *l->now;
    const DtStmt *const *clauses = kept.clauses;
    Streamed streamed = {.l = l, .home = kept.frame, .bound = bound,
                         .stream = DT_NEW(l->arena, DtStream)},
             *s = &streamed;
    const DtType **types = DT_NEW_ARRAY(l->arena, const DtType *, n_results + 1);
    bool ok =
        find_axis(s, clauses[DT_CLAUSE_STREAM]) && find_product(s, clauses[DT_CLAUSE_STREAM]) &&
        find_results(s, results, n_results, types) &&
        lower_part(s, clauses[DT_CLAUSE_STREAM]) && lower_merge(s, clauses[DT_CLAUSE_MERGE]) &&
        lower_finish(s, clauses[DT_CLAUSE_FINISH], types, n_results);
    *l->now = kept;
    if (!ok)
        return false;
    s->stream->axis = s->axis;
    s->stream->is_ordered = clauses[DT_CLAUSE_STREAM]->name.text == dt_intern("scan");
    s->home->func->stream = s->stream;
    *ret_parts = clauses[DT_CLAUSE_GRADIENT] ? call_part(s) : NULL;
    return true;
}
