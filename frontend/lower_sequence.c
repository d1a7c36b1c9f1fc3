/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a loop reads and makes position by position:
 *
 *   repeat t in seq {
 *     h = decay * h + x[seq = t]     x is from outside the loop: iteration t gets its own element
 *     y[seq = t] = h                 y[seq, ...] after the loop
 *   }
 *
 * Both are stacked operands and results of the loop, so an iteration touches its own elements only,
 * and the work grows with the number of iterations. Before the loop, the axis of
 * x is renamed to the loop's own, which no `shard` line names, and becomes the first one. With an
 * index affine in t, iterations take other elements (`t - 1`: the one before; `size[seq] - 1 - t`:
 * from the end); these are brought into order before the loop, too, and positions outside read 0,
 * as usual. Any other index, or one into a value made in the loop, is a gather in its body. */
#include "frontend/lower_internal.h"

#include <string.h>

/* ---- the variable ---- */

/* Returns the frame of the enclosing loop whose variable the value is, in this frame; captured
 * values are followed. NULL if it is none. */
static DtFrame *loop_of(DtFrame *frame, const DtValue *value)
{
    for (uint32_t i = 0; i < frame->captures.n; i++) {
        if (frame->captures.at[i].inner == value)
            return loop_of(frame->captures.at[i].frame, frame->captures.at[i].outer);
    }
    return frame->is_loop && frame->args.at[0] == value ? frame : NULL;
}

/* Returns the frame of the loop in whose variable the index is affine, and the factor and offset;
 * NULL if there is none. Positions fit in i32, as they must at run time. */
static DtFrame *affine_in(const DtVal *index, int64_t *ret_mul, int64_t *ret_add)
{
    DtValue *base;
    if (index->kind != DT_VAL_TENSOR || index->tensor.value->type->rank != 0 ||
        index->tensor.value->type->dtype != DT_I32 ||
        !dt_index_affine(index->tensor.value, &base, ret_mul, ret_add))
        return NULL;
    DtFrame *loop = loop_of(index->tensor.frame, base);
    int64_t last;
    if (!loop || *ret_add > INT32_MAX || *ret_add < -(int64_t)INT32_MAX ||
        __builtin_mul_overflow(*ret_mul, loop->count - 1, &last) ||
        __builtin_add_overflow(last, *ret_add, &last) || last > INT32_MAX ||
        last < -(int64_t)INT32_MAX)
        return NULL;
    return loop;
}

static bool is_outside(const DtFrame *home, const DtFrame *loop)
{
    for (const DtFrame *frame = loop->parent; frame; frame = frame->parent) {
        if (frame == home)
            return true;
    }
    return false;
}

/* ---- tensors that are read ---- */

/* Returns the type without the axis. */
static const DtType *without(const DtType *type, const char *axis)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->axes[i].name != axis)
            axes[n++] = type->axes[i];
    }
    return dt_type_plain(type->dtype, n, axes);
}

static const DtType *with_first(const DtType *slice, const char *axis, int64_t extent)
{
    DtAxis axes[DT_MAX_RANK + 1] = {{.name = axis, .extent = extent}};
    for (uint32_t i = 0; i < slice->rank; i++)
        axes[1 + i] = slice->axes[i];
    return dt_type_plain(slice->dtype, slice->rank + 1u, axes);
}

bool dt_sequence_element(DtLower *l, DtVal *x, const char *axis, const DtVal *index)
{
    int64_t mul, add;
    DtFrame *loop = affine_in(index, &mul, &add), *home = x->tensor.frame;
    DtValue *outer = x->tensor.value;
    if (!loop || mul == 0 || !is_outside(home, loop))
        return false;
    x->tensor.frame = loop;
    for (uint32_t i = 0; i < loop->elements.n; i++) {
        const DtElement *e = &loop->elements.at[i];
        if (e->outer == outer && e->axis == axis && e->mul == mul && e->add == add) {
            x->tensor.value = e->inner;
            return true;
        }
    }
    DtElement e = {.outer = outer, .home = home, .axis = axis, .mul = mul, .add = add};
    e.inner = dt_frame_input(l, loop, without(outer->type, axis), outer->name);
    DT_PUSH(l->arena, loop->elements, e);
    x->tensor.value = e.inner;
    return true;
}

void dt_sequence_lint(DtLower *l, const DtVal *x, const DtVal *index, DtSpan span)
{
    int64_t mul, add;
    const DtFrame *loop = affine_in(index, &mul, &add);
    const DtOp *op = x->tensor.value->op;
    if (!loop || x->tensor.frame != loop || !op || dt_scope_in_library(l, span))
        return;
    /* the iteration computes the operand: it has no op before the loop */
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtValue *in = op->in[i];
        bool outside = in->op && in->op->kind == DT_OP_CONST;
        for (uint32_t k = 0; k < loop->captures.n; k++)
            outside = outside || loop->captures.at[k].inner == in;
        if (!outside)
            return;
    }
    DtDiag *d = dt_diag_report(l->diags, L0205, span,
                               "each of the %lld iterations makes all positions of this value",
                               (long long)loop->count);
    dt_diag_help(d, "make it before the loop; then an iteration touches its own position only");
}

/* Appends x[from = first + i] for i below count, with 0 for positions outside of x, as a value
 * whose first axis is `to`. */
static DtValue *shifted(DtBuilder *b, DtValue *x, const char *from, int64_t first, int64_t count,
                        const char *to)
{
    const int64_t extent = dt_type_extent(x->type, from);
    const int64_t lo = first > 0 ? first : 0;
    const int64_t hi = first + count < extent ? first + count : extent;
    const DtType *type = with_first(without(x->type, from), to, count);
    if (hi - lo < extent)
        x = dt_graph_slice(b, x, from, lo, 1, hi - lo);
    if (hi - lo < count)
        x = dt_graph_pad(b, x, from, lo - first, first + count - hi, 1, 0);
    return from == to ? dt_graph_reorder(b, x, type) : dt_graph_rename(b, x, from, to, type);
}

/* Appends x[axis = mul * i + add] for i below count as a gather; the result's first axis is
 * `to`. */
static DtValue *gathered(DtBuilder *b, DtValue *x, const DtElement *e, int64_t count,
                         const char *to)
{
    DtValue *index = dt_graph_iota(b, (DtAxis){.name = to, .extent = count});
    DtValue *mul = dt_graph_constant(b, DT_I32, (double)e->mul);
    index = dt_graph_binary(b, DT_OP_MUL, index, mul);
    index = dt_graph_binary(b, DT_OP_ADD, index, dt_graph_constant(b, DT_I32, (double)e->add));
    const DtType *slice = without(x->type, e->axis);
    x = dt_graph_gather(b, x, 1, &e->axis, &index);
    return dt_graph_reorder(b, x, with_first(slice, to, count));
}

DtValue *dt_sequence_stack(DtLower *l, DtFrame *body, const DtElement *e, const char *axis)
{
    DtBuilder *b = &body->parent->b;
    DtValue *x = dt_frame_import(l, body->parent, e->outer, e->home);
    const int64_t extent = dt_type_extent(x->type, e->axis);
    const bool overlaps = e->add < extent && e->add + body->count > 0;
    /* the number of iterations must be that of the axis */
    const bool all = e->add == 0 && body->count == extent;
    return e->mul == 1 && overlaps && (e->axis != axis || all)
               ? shifted(b, x, e->axis, e->add, body->count, axis)
               : gathered(b, x, e, body->count, axis);
}

/* ---- tensors that are made ---- */

static const DtAstAxis *index_of(const DtTarget *target)
{
    return target->type.axes.n ? &target->type.axes.at[0] : NULL;
}

bool dt_sequence_is_target(DtLower *l, const DtTarget *target)
{
    const DtFrame *frame = l->now->frame;
    bool any = false;
    for (uint32_t i = 0; i < target->type.axes.n; i++)
        any = any || target->type.axes.at[i].extent;
    if (!any || !frame->is_loop)
        return false;
    for (uint32_t i = 0; i < target->type.axes.n; i++) {
        const DtExpr *extent = target->type.axes.at[i].extent;
        if (!extent)
            continue;
        const DtVal v = dt_expr_eval(l, extent);
        if (v.kind == DT_VAL_TENSOR)
            return true;
    }
    return false;
}

const DtCollected *dt_sequence_find(const DtLower *l, const char *name)
{
    for (const DtFrame *frame = l->now ? l->now->frame : NULL; frame && frame->is_loop;
         frame = frame->parent) {
        for (uint32_t i = 0; i < frame->collected.n; i++) {
            if (frame->collected.at[i].name == name)
                return &frame->collected.at[i];
        }
    }
    return NULL;
}

/* Returns the single axis of the index in `y[seq = t] = ...`, and in ret_backwards whether the loop
 * of this frame goes along it from the end. NULL after a report. */
static const char *target_axis(DtLower *l, const DtTarget *target, bool *ret_backwards)
{
    const DtAstAxis *written = index_of(target);
    DtFrame *frame = l->now->frame;
    int64_t mul, add;
    if (target->type.axes.n != 1) {
        DtDiag *d = dt_report_error(l, E0220, target->span,
                                    "a loop puts `%s` together along one axis, and this names %u",
                                    target->name.text, target->type.axes.n);
        dt_diag_help(d, "write the loop's axis only; the others are those of the value");
        return NULL;
    }
    const DtVal index = dt_expr_eval(l, written->extent);
    if (dt_val_is_error(&index))
        return NULL;
    const DtFrame *loop = affine_in(&index, &mul, &add);
    *ret_backwards = mul == -1;
    if (loop != frame || !((mul == 1 && add == 0) || (mul == -1 && add == frame->count - 1))) {
        DtDiag *d = dt_report_error(
            l, E0220, written->extent->span,
            "`%s` is put together in the order of the iterations: the index is the variable of "
            "the loop around, and nothing else",
            target->name.text);
        dt_diag_note(d,
                     "every position gets its value exactly once. Backwards, the index is "
                     "`size[%s] - 1 - t`",
                     written->name.text);
        return NULL;
    }
    DtAxisNames names = {0};
    if (!dt_axes_name(l, written->name, &names))
        return NULL;
    if (names.n == 1)
        return names.at[0];
    dt_report_error(l, E0304, written->name.span,
                    "an index is for one axis, and `%s` stands for %u", written->name.text,
                    names.n);
    return NULL;
}

static bool check_extent(DtLower *l, const DtTarget *target, const char *axis)
{
    DtGlobal *global = dt_scope_axis(l, axis);
    const int64_t count = l->now->frame->count;
    const int64_t extent =
        global && global->kind == DT_GLOBAL_DIM ? dt_scope_extent(l, global) : count;
    if (extent < 0 || extent == count)
        return extent >= 0;
    DtDiag *d =
        dt_report_error(l, E0303, target->span, "the loop has %lld iterations, and `%s` is %lld",
                        (long long)count, axis, (long long)extent);
    dt_diag_label(d, global->span, "a dim has one extent everywhere");
    dt_diag_help(d, "loop over `%s`, or declare `axis %s` if every tensor has its own", axis, axis);
    return false;
}

static bool check_value(DtLower *l, const DtTarget *target, const DtVal *val, const DtExpr *value,
                        const char *axis)
{
    if (!dt_val_check(l, val, value))
        return false;
    if (val->kind != DT_VAL_TENSOR)
        return true;
    const DtType *type = val->tensor.value->type;
    if (dt_type_find(type, axis) >= 0) {
        DtDiag *d = dt_report_error(l, E0305, target->span, "`%s` would have the axis `%s` twice",
                                    target->name.text, axis);
        dt_diag_label(d, value->span, "this is %s", dt_report_axes(l, type, true));
        return false;
    }
    return dt_axes_type(l, target->span, type->dtype, type->rank, type->axes) &&
           (type->rank < DT_MAX_RANK ||
            (dt_report_error(l, E0312, target->span, "`%s` would have more than %d axes",
                             target->name.text, DT_MAX_RANK),
             false));
}

/* Checks that nothing but this assignment binds the name; reports it if not. */
static bool check_name(DtLower *l, const DtTarget *target)
{
    const char *name = target->name.text;
    const DtCollected *other = dt_sequence_find(l, name);
    const DtBinding *old = other ? NULL : dt_expr_find(l, name);
    if (!old && !other)
        return true;
    DtDiag *d =
        other ? dt_report_error(l, E0220, target->span, "two assignments put `%s` together", name)
              : dt_report_error(
                    l, E0220, target->span,
                    "`%s` has a value already, and this loop would put another one together", name);
    dt_diag_label(d, other ? other->span : old->span, other ? "the first one" : "bound here");
    dt_diag_note(
        d, "a tensor is not changed in place; what the loop makes needs its own name, and has it "
           "after the loop");
    return false;
}

void dt_sequence_assign(DtLower *l, const DtTarget *target, const DtVal *val, const DtExpr *value)
{
    DtFrame *frame = l->now->frame;
    DtCollected made = {.name = target->name.text, .span = target->name.span, .made = value};
    if (!check_name(l, target))
        return;
    made.axis = target_axis(l, target, &made.backwards);
    bool ok = made.axis && check_extent(l, target, made.axis);
    if (dt_val_is_error(val) || (made.axis && !check_value(l, target, val, value, made.axis)))
        ok = false;
    made.inner = ok ? dt_val_tensor(l, val) : NULL;
    DT_PUSH(l->arena, frame->collected, made);
    dt_stmt_lint_hiding(l, made.name, made.span);
}

/* The order of axes that the value has after the loop: the loop's axis has the place that it has in
 * values which the loop takes apart, after the axes that precede it there. In that order the values
 * around the loop are; products need it equal. */
static const DtType *collected_type(const DtFrame *body, const DtType *slice, const char *axis)
{
    const DtType *like = NULL;
    for (uint32_t i = 0; i < body->elements.n && !like; i++) {
        const DtElement *e = &body->elements.at[i];
        like = e->axis == axis ? e->outer->type : NULL;
    }
    uint32_t at = 0;
    for (int k = 0; like && k < dt_type_find(like, axis); k++) {
        const int found = dt_type_find(slice, like->axes[k].name);
        at = found >= (int)at ? (uint32_t)found + 1 : at;
    }
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < slice->rank; i++)
        axes[i < at ? i : i + 1] = slice->axes[i];
    axes[at] = (DtAxis){.name = axis, .extent = body->count};
    return dt_type_plain(slice->dtype, slice->rank + 1u, axes);
}

/* Returns a result of the loop, which has the loop's axis first, with the axis name and the order
 * of axes that the value has after the loop; reversed if the loop goes backwards. */
static DtValue *named(DtBuilder *b, DtValue *x, const DtCollected *c, const DtFrame *body,
                      const char *axis)
{
    const DtType *type = collected_type(body, without(x->type, axis), c->axis);
    if (!c->backwards)
        return axis == c->axis ? dt_graph_reorder(b, x, type)
                               : dt_graph_rename(b, x, axis, c->axis, type);
    DtValue *at = dt_graph_iota(b, (DtAxis){.name = c->axis, .extent = body->count});
    DtValue *last = dt_graph_constant(b, DT_I32, (double)(body->count - 1));
    DtValue *index = dt_graph_binary(b, DT_OP_SUB, last, at);
    return dt_graph_reorder(b, dt_graph_gather(b, x, 1, &axis, &index), type);
}

void dt_sequence_bind(DtLower *l, const DtFrame *body, DtValue *const *results, const char *axis)
{
    for (uint32_t i = 0; i < body->collected.n; i++) {
        const DtCollected *c = &body->collected.at[i];
        DtVal val = dt_val_error();
        if (results && c->inner)
            val = dt_val_of(l, named(&l->now->frame->b, results[i], c, body, axis), false);
        dt_stmt_bind(l, c->name, val, c->span, c->made);
        dt_unread_assign(l, c->name, c->span);
    }
}
