/* SPDX-License-Identifier: Apache-2.0 */
/* `repeat h in layers { ... }` becomes one loop op over a body function:
 *
 *   inputs of the body    iteration number, carried values, invariants (captured), elements,
 *                         parameters (one slice)
 *   carried               names bound before the loop and assigned in it; they keep their type
 *   stacked               elements of outer values at the iteration's position, and parameters of
 *                         the body, which the function around it has with the loop axis
 *   results               carried, then what names put together position by position, then states
 *
 * Over a tuple it is unrolled: types may change, and paths have the position. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

#include <string.h>

typedef struct Carried {
    const char *name;
    DtSpan span; /* place where the name was bound before the loop */
    const DtExpr *made;
    DtVal first; /* in the frame around the loop */
    DtValue *initial;
    const DtType *type;
    bool bad;
} Carried;

typedef struct Repeat {
    const DtStmt *stmt;
    const char *label;
    int64_t count;
    DtFrame *outer, *body;
    DtScope scope;
    DT_VEC(Carried) carried;
} Repeat;

/* ---- carried values ---- */

static void carry(DtLower *l, Repeat *r, const char *name)
{
    const DtBinding *binding = name ? dt_expr_find(l, name) : NULL;
    if (!binding || binding->state)
        return;
    for (uint32_t i = 0; i < r->carried.n; i++) {
        if (r->carried.at[i].name == name)
            return;
    }
    dt_unread_read(l, binding);
    Carried c = {.name = name, .span = binding->span, .made = binding->made, .first = binding->val};
    DT_PUSH(l->arena, r->carried, c);
}

static void find_assigned(DtLower *l, Repeat *r, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n; i++) {
        const DtStmt *stmt = stmts->at[i];
        for (uint32_t k = 0; stmt->kind == DT_STMT_ASSIGN && k < stmt->targets.n; k++)
            carry(l, r, stmt->targets.at[k].name.text);
        if (stmt->kind == DT_STMT_REPEAT || stmt->kind == DT_STMT_IF) {
            find_assigned(l, r, &stmt->body);
            find_assigned(l, r, &stmt->other);
        }
    }
}

static void push_binding(DtLower *l, Repeat *r, const char *name, DtVal val, DtSpan span)
{
    DtBinding binding = {.name = name, .val = val, .span = span};
    DT_PUSH(l->arena, r->scope.names, binding);
}

/* Sets the initial values of the carried names in the frame around the loop, and makes them inputs
 * of the body. Reports names whose values cannot be carried. */
static void start_carried(DtLower *l, Repeat *r)
{
    for (uint32_t i = 0; i < r->carried.n; i++) {
        Carried *c = &r->carried.at[i];
        c->bad = dt_val_is_error(&c->first);
        if (!c->bad && !dt_val_is_constant(&c->first) && c->first.kind != DT_VAL_TENSOR) {
            DtDiag *d = dt_report_error(l, E0410, r->stmt->span,
                                        "`%s` is assigned in the loop, but it is %s", c->name,
                                        dt_report_type(l, &c->first));
            dt_diag_label(d, c->span, "bound here");
            dt_diag_note(d,
                         "only tensors and numbers can be carried from one iteration to the next");
            c->bad = true;
        }
        if (c->bad)
            continue;
        c->initial = dt_val_tensor(l, &c->first);
        c->type = c->initial->type;
    }
}

static void enter_body(DtLower *l, Repeat *r)
{
    DtValue *number = dt_frame_arg(l, r->body, dt_type_scalar(DT_I32), r->label);
    DtVal iteration = {.kind = DT_VAL_TENSOR, .tensor = {number, r->body}};
    for (uint32_t i = 0; i < r->carried.n; i++) {
        Carried *c = &r->carried.at[i];
        DtVal val = dt_val_error();
        if (!c->bad)
            val = (DtVal){.kind = DT_VAL_TENSOR,
                          .tensor = {dt_frame_arg(l, r->body, c->type, c->name), r->body}};
        push_binding(l, r, c->name, val, c->span);
        r->scope.names.at[r->scope.names.n - 1].made = c->made;
    }
    push_binding(l, r, r->label, iteration, r->stmt->name.span);
}

/* ---- the end of the body ---- */

static bool carried_axes(DtLower *l, const Carried *c, const DtBinding *now, const DtValue *x)
{
    if (dt_type_same_axes(x->type, c->type))
        return true;
    DtDiag *d = dt_report_error(
        l, E0310, now->span, "`%s` changes its axes from one iteration to the next: %s becomes %s",
        c->name, dt_report_axes(l, c->type, true), dt_report_axes(l, x->type, true));
    dt_diag_label(d, c->span, "bound here as %s", dt_report_axes(l, c->type, true));
    dt_diag_note(d, "a name assigned in `repeat` is carried and must keep its type; a loop over a "
                    "tuple is unrolled, and "
                    "there types may change");
    return false;
}

static bool carried_dtype(DtLower *l, const Carried *c, const DtBinding *now, DtDtype have)
{
    DtDtype want = c->type->dtype;
    if (have == want || (dt_dtype_is_float(have) && dt_dtype_is_float(want)))
        return true;
    DtDiag *d =
        dt_report_error(l, E0409, now->span, "`%s` is %s before the loop and %s after an iteration",
                        c->name, dt_dtype_name(want), dt_dtype_name(have));
    dt_diag_label(d, c->span, "bound here as %s", dt_dtype_name(want));
    dt_diag_help(d, "begin with the dtype it will have: `%s(...)`", dt_dtype_name(have));
    return false;
}

static bool finish_carried(DtLower *l, Repeat *r)
{
    bool ok = true;
    for (uint32_t i = 0; i < r->carried.n; i++) {
        Carried *c = &r->carried.at[i];
        const DtBinding *now = &r->scope.names.at[i];
        dt_unread_read(l, now);
        l->now->frame->b.span = now->made ? now->made->span : now->span;
        if (c->bad || dt_val_is_error(&now->val)) {
            c->bad = true;
            ok = false;
            continue;
        }
        c->bad = !dt_val_check(l, &now->val, now->made);
        bool literal =
            /* an untyped number takes the dtype of the carried value */
            now->val.kind == DT_VAL_INT && dt_dtype_is_float(c->type->dtype);
        c->bad = c->bad || (!literal && !carried_dtype(l, c, now, dt_val_dtype(&now->val)));
        DtValue *x = c->bad ? NULL : dt_val_use(l, &now->val, c->type->dtype);
        c->bad = c->bad || !carried_axes(l, c, now, x);
        ok &= !c->bad;
        if (!c->bad)
            dt_graph_return(r->body->func, dt_graph_reorder(&r->body->b, x, c->type));
    }
    return ok;
}

/* Returns the elements of values that the loop makes element by element from the body, after the
 * carried ones. False if one was not assigned. */
static bool finish_collected(Repeat *r)
{
    bool ok = true;
    for (uint32_t i = 0; i < r->body->collected.n; i++) {
        DtValue *inner = r->body->collected.at[i].inner;
        ok = ok && inner;
        if (ok)
            dt_graph_return(r->body->func, inner);
    }
    return ok;
}

/* ---- around the loop ---- */

static bool type_has(const DtValue *value, const char *axis)
{
    return dt_type_find(value->type, axis) >= 0;
}

typedef DT_VEC(const DtFunc *) Funcs;

/* Whether a value of func, or of a function that it calls, has an axis of this name. If such a
 * value is saved for derivatives, the loop stacks it along an axis of its own. */
static bool has_axis(DtLower *l, const DtFunc *func, const char *axis, Funcs *seen)
{
    for (uint32_t i = 0; i < seen->n; i++) {
        if (seen->at[i] == func)
            return false;
    }
    DT_PUSH(l->arena, *seen, func);
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        if (type_has(func->inputs.at[i], axis))
            return true;
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (type_has(op->out[k], axis))
                return true;
        }
        if (op->func && has_axis(l, op->func, axis, seen))
            return true;
    }
    return false;
}

static bool body_has_axis(DtLower *l, const Repeat *r, const char *axis)
{
    Funcs seen = {0};
    return has_axis(l, r->body->func, axis, &seen);
}

/* Whether a tensor that the loop takes apart or makes has the axis of this name in addition to the
 * axis of its elements. */
static bool clashes(const Repeat *r, const char *axis)
{
    for (uint32_t i = 0; i < r->body->elements.n; i++) {
        const DtElement *e = &r->body->elements.at[i];
        if (e->axis != axis && type_has(e->outer, axis))
            return true;
    }
    return false;
}

/* Returns the name of the loop's axis. It is the dim as written, if the loop has parameters
 * (checkpoints have them under it) or takes nothing apart. A loop over positions gets an axis of
 * its own, since `shard` lines may split positions; it is named after the label, unlike every axis
 * of the program and the body. */
static const char *loop_axis(DtLower *l, const Repeat *r)
{
    const DtExpr *bare = dt_report_bare(r->stmt->value);
    const DtGlobal *dim = bare->kind == DT_EXPR_NAME ? dt_scope_value(l, bare->name.text) : NULL;
    const bool is_sequence = r->body->elements.n || r->body->collected.n;
    if (dim && dim->kind == DT_GLOBAL_DIM && !dt_expr_find(l, dim->name) &&
        (r->body->params.n || !is_sequence) && !body_has_axis(l, r, dim->name) &&
        !clashes(r, dim->name))
        return dim->name;
    const char *axis = r->label;
    while (dt_scope_axis(l, axis) || body_has_axis(l, r, axis) || clashes(r, axis))
        axis = dt_intern_printf("%s_", axis);
    return axis;
}

/* Makes the parameter of all iterations, with the loop's axis first, in the outer frame, and
 * returns its number; -1 after a report. */
static int32_t stack_param(DtLower *l, const Repeat *r, const DtFrameParam *p, const char *axis)
{
    const DtType *slice = p->value->type;
    DtAxis axes[DT_MAX_RANK];
    if (slice->rank == DT_MAX_RANK) {
        dt_report_error(l, E0312, p->formal.span,
                        "with its loop axis the parameter `%s` has more than %d axes",
                        p->formal.path, DT_MAX_RANK);
        return -1;
    }
    axes[0] = (DtAxis){.name = axis, .extent = r->count};
    memcpy(&axes[1], slice->axes, slice->rank * sizeof(DtAxis));
    const DtType *type = dt_axes_type(l, p->formal.span, slice->dtype, slice->rank + 1u, axes);
    if (!type)
        return -1;
    DtFormalParam formal = p->formal;
    const char *prefix = r->outer->prefix;
    formal.path = dt_intern_printf("%s%s.%s", prefix, r->label, p->formal.path);
    formal.pattern = dt_intern_printf("%s%s.#.%s", prefix, r->label, p->formal.pattern);
    formal.n_loops++;
    return dt_frame_param(l, r->outer, formal, type, NULL);
}

static void bind_results(DtLower *l, const Repeat *r, const DtOp *op)
{
    dt_sequence_bind(l, r->body, op ? op->out + r->carried.n : NULL, op ? op->loop->axis : NULL);
    for (uint32_t i = 0; i < r->carried.n; i++) {
        const Carried *c = &r->carried.at[i];
        const DtBinding *last = &r->scope.names.at[i];
        dt_stmt_bind(l, c->name, op ? dt_val_of(l, op->out[i], false) : dt_val_error(), last->span,
                     last->made);
    }
}

static DtOp *emit_loop(DtLower *l, Repeat *r)
{
    DtFrame *outer = r->outer, *body = r->body;
    DtFunc *func = body->func;
    const char *axis = loop_axis(l, r);
    DtValue **in = DT_NEW_ARRAY(l->arena, DtValue *, func->inputs.n + 1);
    outer->b.span = r->stmt->span;
    uint32_t n = 0, *map = DT_NEW_ARRAY(l->arena, uint32_t, body->params.n + 1);
    for (uint32_t i = 0; i < r->carried.n; i++)
        in[n++] = r->carried.at[i].initial;
    for (uint32_t i = 0; i < body->captures.n; i++)
        in[n++] = dt_frame_import(l, outer, body->captures.at[i].outer, body->captures.at[i].frame);
    for (uint32_t i = 0; i < body->elements.n; i++)
        in[n++] = dt_sequence_stack(l, body, &body->elements.at[i], axis);
    for (uint32_t i = 0; i < body->params.n; i++) {
        int32_t index = stack_param(l, r, &body->params.at[i], axis);
        if (index < 0)
            return NULL;
        map[i] = (uint32_t)index;
        in[n++] = outer->params.at[index].value;
    }
    DtLoop loop = {.label = r->label,
                   .axis = axis,
                   .count = r->count,
                   .n_carried = r->carried.n,
                   .n_invariant = body->captures.n,
                   .n_stacked = body->elements.n + body->params.n,
                   .n_stacked_out = body->collected.n + func->writes.n};
    DtOp *op = dt_graph_loop(&outer->b, func, loop, in);
    for (uint32_t i = 0; i < func->writes.n; i++)
        dt_frame_write(l, outer, map[func->writes.at[i]],
                       op->out[r->carried.n + body->collected.n + i], r->stmt->span);
    return op;
}

/* Whether the loop takes apart a value other than a parameter or a part of one. */
static bool takes_data(const DtFrame *body)
{
    for (uint32_t i = 0; i < body->elements.n; i++) {
        const DtValue *value = body->elements.at[i].outer;
        const DtFrame *home = body->elements.at[i].home;
        bool is_param = value->op && value->op->kind == DT_OP_PARAM;
        while (value->op && value->op->n_in == 1)
            value = value->op->in[0];
        for (uint32_t k = 0; k < home->params.n; k++)
            is_param = is_param || home->params.at[k].value == value;
        if (!is_param)
            return true;
    }
    return false;
}

static void lint_instances(DtLower *l, const Repeat *r)
{
    const DtFrameParam *param = r->body->params.n ? &r->body->params.at[0] : NULL;
    if (!param || !takes_data(r->body))
        return;
    const DtSpan span = param->owner ? param->owner->span : param->formal.span;
    DtDiag *d = dt_diag_report(l->diags, L0206, span,
                               "each of the %lld iterations has its own `%s`", (long long)r->count,
                               param->owner ? param->owner->label.text : param->formal.path);
    dt_diag_label(d, r->stmt->name.span, "this loop goes along a value, position by position");
    dt_diag_help(d, "if one set of parameters is meant, make it before the loop and use it in it");
}

static void end_scope(DtLower *l, const DtScope *scope, uint32_t from)
{
    for (uint32_t i = from; i < scope->names.n; i++)
        DT_PUSH(l->arena, l->now->ended, scope->names.at[i]);
}

static void loop_stmt(DtLower *l, Repeat *r)
{
    find_assigned(l, r, &r->stmt->body);
    l->now->frame->b.span = r->stmt->span;
    start_carried(l, r);
    const char *name = dt_arena_printf(l->arena, "%s.%s", r->outer->func->name, r->label);
    r->body = dt_frame_new(l, r->outer, name, DT_FUNC_BODY, r->stmt->span);
    r->body->count = r->count;
    if (r->outer->where)
        r->body->where = dt_intern_printf("%s%s%s.#.", r->outer->where, r->outer->prefix, r->label);
    r->scope =
        (DtScope){.parent = l->now->scope, .frame = r->body, .is_loop = true, .label = r->label};
    l->now->frame = r->body;
    enter_body(l, r);
    l->now->scope = &r->scope;
    dt_stmt_block(l, &r->stmt->body);
    bool ok = finish_carried(l, r);
    ok = ok && finish_collected(r);
    dt_frame_finish(l, r->body);
    ok = ok && dt_frame_calls(l, r->outer, r->body->func->ops.n + r->body->called, r->stmt->span);
    l->now->frame = r->outer;
    l->now->scope = r->scope.parent;
    end_scope(l, &r->scope, r->carried.n + 1);
    lint_instances(l, r);
    bind_results(l, r, ok && !l->gave_up ? emit_loop(l, r) : NULL);
}

/* ---- unrolled ---- */

static void unrolled_stmt(DtLower *l, const DtStmt *stmt, const DtVal *tuple)
{
    DtFrame *frame = l->now->frame;
    const char *prefix = frame->prefix, *path = frame->b.path;
    DtScope *outer = l->now->scope;
    for (uint32_t i = 0; i < tuple->tuple.n && !l->gave_up; i++) {
        DtScope *scope = DT_NEW(l->arena, DtScope);
        *scope =
            (DtScope){.parent = outer, .frame = frame, .is_loop = true, .label = stmt->name.text};
        DtBinding variable = {
            .name = stmt->name.text, .val = tuple->tuple.at[i], .span = stmt->name.span};
        DT_PUSH(l->arena, scope->names, variable);
        frame->prefix = dt_intern_printf("%s%s.%u.", prefix, stmt->name.text, i);
        frame->b.path = dt_intern_n(frame->prefix, strlen(frame->prefix) - 1);
        l->now->scope = scope;
        dt_stmt_block(l, &stmt->body);
        l->now->scope = outer;
        end_scope(l, scope, 1);
    }
    frame->prefix = prefix;
    frame->b.path = path;
}

static void wrong_count(DtLower *l, const DtStmt *stmt, const DtVal *v)
{
    if (dt_val_is_error(v))
        return;
    if (v->kind == DT_VAL_INT) {
        dt_report_error(l, E0411, stmt->value->span,
                        "`repeat` runs 1 to 1,048,576 times, and this is %lld",
                        (long long)v->whole);
        return;
    }
    DtDiag *d =
        dt_report_error(l, E0411, stmt->value->span,
                        "`repeat` runs over a number of iterations or a tuple, and this is %s",
                        dt_report_type(l, v));
    dt_diag_note(d, "`repeat h in layers` with a dim or a positive integer is a loop; `repeat s in "
                    "(64, 128)` is unrolled");
}

void dt_repeat_stmt(DtLower *l, const DtStmt *stmt)
{
    DtVal v = dt_expr_eval(l, stmt->value);
    if (!stmt->name.text || dt_val_is_error(&v))
        return;
    bool is_count = v.kind == DT_VAL_INT && v.whole >= 1 && v.whole <= 1 << 20;
    if (!is_count && v.kind != DT_VAL_TUPLE) {
        wrong_count(l, stmt, &v);
        return;
    }
    const char *path = dt_intern_printf("%s%s", l->now->frame->prefix, stmt->name.text);
    if (!dt_frame_label(l, l->now->frame, path, stmt->name, DT_LABEL_LOOP))
        return;
    if (v.kind == DT_VAL_TUPLE) {
        unrolled_stmt(l, stmt, &v);
        return;
    }
    Repeat *r = DT_NEW(l->arena, Repeat);
    *r = (Repeat){.stmt = stmt, .label = stmt->name.text, .count = v.whole, .outer = l->now->frame};
    loop_stmt(l, r);
}
