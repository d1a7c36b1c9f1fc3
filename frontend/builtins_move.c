/* SPDX-License-Identifier: Apache-2.0 */
/* Built-ins that move elements: stack, unstack, concat, window, scatter. */
#include "frontend/lower_internal.h"

#include <string.h>

static bool check_all(DtLower *l, const DtBuiltinCall *c)
{
    bool ok = true;
    for (uint32_t i = 0; i < c->n; i++)
        ok &= dt_val_check(l, &c->val[i], c->arg[i]);
    if (ok && !l->now) {
        dt_report_error(l, E0401, c->expr->span, "`%s` is a tensor, and here a constant is needed",
                        c->builtin->name);
        return false;
    }
    return ok;
}

/* Returns the extent of a dim; 0 for an `axis`; -1 after a report. */
static int64_t dim_extent(DtLower *l, const char *axis)
{
    DtGlobal *global = dt_scope_axis(l, axis);
    return global && global->kind == DT_GLOBAL_DIM ? dt_scope_extent(l, global) : 0;
}

static bool keeps_dim(DtLower *l, const DtBuiltinCall *c, const char *axis, int64_t extent,
                      DtDiagCode code)
{
    int64_t own = dim_extent(l, axis);
    if (own == 0 || own == extent)
        return true;
    if (own < 0)
        return false;
    DtDiag *d = dt_report_error(l, code, c->expr->span,
                                "`%s` gives `%s` %lld elements, but the dim has %lld",
                                c->builtin->name, axis, (long long)extent, (long long)own);
    const DtGlobal *global = dt_scope_axis(l, axis);
    dt_diag_label(d, global->span, "a dim has one extent everywhere");
    dt_diag_help(d, "declare `axis %s` if every tensor has its own extent", axis);
    return false;
}

static bool makes_axis(DtLower *l, const DtBuiltinCall *c, uint32_t arg, const char *axis,
                       DtSpan span)
{
    const DtVal *x = &c->val[arg];
    if (x->kind != DT_VAL_TENSOR || dt_type_find(x->tensor.value->type, axis) < 0)
        return true;
    DtDiag *d = dt_report_error(l, E0305, span, "`%s` makes the axis `%s`, which %s has already",
                                c->builtin->name, axis, dt_report_subject(l, c->arg[arg]));
    dt_report_origin(l, d, c->arg[arg]);
    return false;
}

/* ---- stack, unstack, concat ---- */

static bool is_axis(const DtAxis *axis, const char *name) { return axis->name == name; }

/* Returns the type of the largest operand that has all axes (other than `along`); operands that
 * lack axes take their order from it. NULL if every operand lacks some. */
static const DtType *in_order(const DtBuiltinCall *c, const char *along, uint32_t rank)
{
    const DtType *best = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const DtType *type = c->val[i].kind == DT_VAL_TENSOR ? c->val[i].tensor.value->type : NULL;
        if (type && type->rank == rank + (dt_type_find(type, along) >= 0) &&
            (!best || dt_type_elements(type) > dt_type_elements(best)))
            best = type;
    }
    return best;
}

/* Lists in ret_all the axes of the union in the order of `order`, as x will have them: all axes but
 * `along`, and `along` only if x has it, with its extent there. Returns their number. */
static uint32_t sort_axes(const DtType *x, const char *along, const DtType *order, uint32_t rank,
                          const DtAxis *axes, DtAxis *ret_all)
{
    const int own = dt_type_find(x, along);
    uint32_t n = 0;
    for (uint32_t i = 0; i < (order ? order->rank : rank); i++) {
        const char *name = order ? order->axes[i].name : axes[i].name;
        if (name == along) {
            if (own >= 0)
                ret_all[n++] = x->axes[own];
            continue;
        }
        for (uint32_t k = 0; k < rank; k++)
            if (axes[k].name == name)
                ret_all[n++] = axes[k];
    }
    if (own >= 0 && (!order || dt_type_find(order, along) < 0))
        ret_all[n++] = x->axes[own];
    return n;
}

/* Gives all operands one dtype and the same axes: the union of all, except `along`, which each
 * operand has or lacks as before. */
static bool alike(DtLower *l, DtBuiltinCall *c, const char *along, DtValue **ret_in, bool *ret_weak)
{
    DtVal *bare = DT_NEW_ARRAY(l->arena, DtVal, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        bare[i] = c->val[i];
        if (c->val[i].kind != DT_VAL_TENSOR)
            continue;
        const DtType *type = c->val[i].tensor.value->type;
        DtAxis axes[DT_MAX_RANK];
        uint32_t n = 0;
        for (uint32_t k = 0; k < type->rank; k++) {
            if (!is_axis(&type->axes[k], along))
                axes[n++] = type->axes[k];
        }
        DtValue *without = DT_NEW(l->arena, DtValue);
        without->type = dt_type_plain(type->dtype, n, axes);
        bare[i].tensor.value = without;
    }
    uint32_t rank;
    DtAxis axes[DT_MAX_RANK];
    if (!dt_val_union(l, bare, c->arg, c->n, c->expr->span, &rank, axes))
        return false;
    if (rank == DT_MAX_RANK) {
        dt_report_error(l, E0312, c->expr->span, "the result would have more than %d axes",
                        DT_MAX_RANK);
        return false;
    }
    DtDtype dtype = dt_val_join(c->val, c->n, false, ret_weak);
    for (uint32_t i = 0; i < c->n; i++) {
        DtValue *x = dt_val_use(l, &c->val[i], dtype);
        DtAxis all[DT_MAX_RANK + 1];
        const uint32_t n = sort_axes(x->type, along, in_order(c, along, rank), rank, axes, all);
        const DtType *type = dt_axes_type(l, c->expr->span, dtype, n, all);
        if (!type)
            return false;
        ret_in[i] = x->type->rank == n ? x : dt_graph_expand(&l->now->frame->b, x, type);
    }
    return true;
}

/* Whether the type's elements can be counted if the axis has this extent; reports it if not. */
static bool countable(DtLower *l, const DtBuiltinCall *c, const DtType *type, const char *axis,
                      int64_t extent)
{
    DtAxis axes[DT_MAX_RANK + 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->axes[i].name != axis)
            axes[n++] = type->axes[i];
    }
    axes[n++] = (DtAxis){.name = axis, .extent = extent};
    return dt_axes_type(l, c->expr->span, type->dtype, n, axes) != NULL;
}

DtVal dt_builtin_stack(DtLower *l, DtBuiltinCall *c)
{
    DtValue *in[DT_COUNT(c->val)];
    bool weak;
    const char *axis = dt_builtin_sole_axis(l, c, 0);
    if (!axis || !check_all(l, c) || !keeps_dim(l, c, axis, c->n, E0315))
        return dt_val_error();
    for (uint32_t i = 0; i < c->n; i++) {
        if (!makes_axis(l, c, i, axis, c->axes.at[0].span))
            return dt_val_error();
    }
    if (!alike(l, c, axis, in, &weak) || !countable(l, c, in[0]->type, axis, c->n))
        return dt_val_error();
    DtBuilder *b = &l->now->frame->b;
    DtRelabel add = {.n_to = 1, .to = {axis}, .to_extent = {1}};
    for (uint32_t i = 0; i < c->n; i++)
        in[i] = dt_graph_relabel(b, in[i], 1, &add, NULL);
    return dt_val_of(l, c->n == 1 ? in[0] : dt_graph_concat(b, axis, c->n, in), weak);
}

DtVal dt_builtin_unstack(DtLower *l, DtBuiltinCall *c)
{
    const char *axis = dt_builtin_sole_axis(l, c, 0);
    if (!axis || !check_all(l, c) || !dt_builtin_has_axes(l, c, 0, &c->axes.at[0]))
        return dt_val_error();
    DtValue *x = dt_val_tensor(l, &c->val[0]);
    int64_t n = dt_type_extent(x->type, axis);
    if (n > 1024) {
        dt_report_error(l, E0315, c->expr->span, "`unstack` of %lld parts; at most 1024 make sense",
                        (long long)n);
        return dt_val_error();
    }
    DtVal *items = DT_NEW_ARRAY(l->arena, DtVal, n);
    for (int64_t i = 0; i < n; i++)
        items[i] = dt_val_of(l, dt_index_select(l, x, axis, i), c->val[0].weak);
    return dt_val_tuple(l, items, (uint32_t)n);
}

DtVal dt_builtin_concat(DtLower *l, DtBuiltinCall *c)
{
    DtValue *in[DT_COUNT(c->val)];
    bool weak;
    int64_t extent = 0;
    const char *axis = dt_builtin_sole_axis(l, c, 0);
    if (!axis || !check_all(l, c))
        return dt_val_error();
    for (uint32_t i = 0; i < c->n; i++) {
        if (!dt_builtin_has_axes(l, c, i, &c->axes.at[0]))
            return dt_val_error();
        extent += dt_type_extent(c->val[i].tensor.value->type, axis); /* at most 16 times 2^57 */
    }
    if (!keeps_dim(l, c, axis, extent, E0309) || !alike(l, c, axis, in, &weak) ||
        !countable(l, c, in[0]->type, axis, extent))
        return dt_val_error();
    return dt_val_of(l, c->n == 1 ? in[0] : dt_graph_concat(&l->now->frame->b, axis, c->n, in),
                     weak);
}

/* ---- window ---- */

/* Reads an argument that is a number, which counts before and after, or a pair (before, after).
 * False after a report. */
static bool read_pad(DtLower *l, const DtBuiltinCall *c, uint32_t at, int64_t *ret_before,
                     int64_t *ret_after)
{
    *ret_before = *ret_after = 0;
    if (!c->arg[at])
        return true;
    const DtVal *v = &c->val[at];
    if (v->kind == DT_VAL_TUPLE && v->tuple.n == 2)
        return dt_val_int_of(l, &v->tuple.at[0], c->arg[at], "the padding", ret_before) &&
               dt_val_int_of(l, &v->tuple.at[1], c->arg[at], "the padding", ret_after);
    bool ok = dt_val_int_of(l, v, c->arg[at], "the padding", ret_before);
    *ret_after = *ret_before;
    return ok;
}

static bool read_window(DtLower *l, DtBuiltinCall *c, DtRange *r, double *ret_fill)
{
    *r = (DtRange){.step = 1};
    *ret_fill = 0;
    bool ok = dt_val_int_of(l, &c->val[1], c->arg[1], "the length of a window", &r->n);
    if (c->arg[2])
        ok &= dt_val_int_of(l, &c->val[2], c->arg[2], "the stride", &r->step);
    ok &= read_pad(l, c, 3, &r->lo, &r->hi);
    if (c->arg[4])
        ok &= dt_val_number_of(l, &c->val[4], c->arg[4], "the fill", ret_fill);
    if (!ok)
        return false;
    int64_t limit = (int64_t)1 << 40;
    if (r->n < 1 || r->step < 1 || r->lo < 0 || r->hi < 0 || r->n > limit || r->step > limit ||
        r->lo > limit || r->hi > limit) {
        dt_report_error(
            l, E0315, c->expr->span,
            "a window of length %lld, stride %lld, padding %lld and %lld is not possible",
            (long long)r->n, (long long)r->step, (long long)r->lo, (long long)r->hi);
        return false;
    }
    return true;
}

DtVal dt_builtin_window(DtLower *l, DtBuiltinCall *c)
{
    DtRange r;
    double fill;
    const char *a = dt_builtin_sole_axis(l, c, 0), *w = dt_builtin_sole_axis(l, c, 1);
    if (!a || !w || !dt_val_check(l, &c->val[0], c->arg[0]) || !read_window(l, c, &r, &fill))
        return dt_val_error();
    if (!dt_builtin_has_axes(l, c, 0, &c->axes.at[0]) ||
        !makes_axis(l, c, 0, w, c->axes.at[1].span))
        return dt_val_error();
    DtValue *x = dt_val_tensor(l, &c->val[0]);
    int64_t extent = dt_type_extent(x->type, a), room = extent + r.lo + r.hi;
    if (room < r.n) {
        dt_report_error(
            l, E0315, c->expr->span,
            "a window of length %lld does not fit `%s`, which has %lld elements with its padding",
            (long long)r.n, a, (long long)room);
        return dt_val_error();
    }
    if (!keeps_dim(l, c, a, (room - r.n) / r.step + 1, E0309) || !keeps_dim(l, c, w, r.n, E0303))
        return dt_val_error();
    bool representable =
        dt_dtype_is_float(x->type->dtype) ||
        (fill == (double)(int32_t)fill && (x->type->dtype != DT_BOOL || fill == 0 || fill == 1));
    if (!representable || x->type->rank == DT_MAX_RANK) {
        dt_report_error(l, representable ? E0312 : E0406, c->expr->span,
                        representable ? "the result would have more than 16 axes"
                                      : "this fill is not a value of the windowed tensor");
        return dt_val_error();
    }
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, x->type->axes, x->type->rank * sizeof(DtAxis));
    axes[dt_type_find(x->type, a)].extent = (room - r.n) / r.step + 1;
    axes[x->type->rank] = (DtAxis){.name = w, .extent = r.n};
    if (!dt_axes_type(l, c->expr->span, x->type->dtype, x->type->rank + 1u, axes))
        return dt_val_error();
    return dt_val_of(l, dt_graph_window(&l->now->frame->b, x, a, w, r, fill), c->val[0].weak);
}

/* ---- scatter ---- */

typedef struct Target {
    DtAxis axis;
    DtVal index;
    const DtExpr *expr;
} Target;

static bool read_target(DtLower *l, const DtArg *arg, Target *t)
{
    DtAxisNames names = {0};
    DtVal index = dt_expr_eval(l, arg->value);
    if (!dt_axes_name(l, arg->name, &names) || !dt_val_check(l, &index, arg->value))
        return false;
    if (names.n != 1) {
        dt_report_error(l, E0206, arg->name.span, "`scatter` needs a single axis here, not %s",
                        dt_report_names(l, &names));
        return false;
    }
    int64_t extent = dt_axes_extent(l, names.at[0], arg->name.span, "`scatter`");
    if (extent < 0)
        return false;
    if (dt_val_dtype(&index) != DT_I32) {
        DtDiag *d =
            dt_report_error(l, E0403, arg->value->span, "an index must be i32, and this is %s",
                            dt_report_type(l, &index));
        dt_diag_help(d, "convert it: `i32(...)`");
        return false;
    }
    *t = (Target){
        .axis = {.name = names.at[0], .extent = extent}, .index = index, .expr = arg->value};
    return true;
}

/* Returns x repeated along the axes of all indices; NULL after a report. */
static DtValue *spread(DtLower *l, DtBuiltinCall *c, uint32_t n, const Target *targets)
{
    DtVal v[9];
    const DtExpr *exprs[9];
    v[0] = c->val[0];
    exprs[0] = c->arg[0];
    for (uint32_t i = 0; i < n; i++) {
        v[i + 1] = targets[i].index;
        exprs[i + 1] = targets[i].expr;
    }
    uint32_t rank;
    DtAxis axes[DT_MAX_RANK];
    if (!dt_val_union(l, v, exprs, n + 1, c->expr->span, &rank, axes))
        return NULL;
    DtDtype dtype = dt_val_dtype(&c->val[0]) == DT_BOOL ? DT_I32 : dt_val_dtype(&c->val[0]);
    DtVal x = dt_val_of(l, dt_val_use(l, &c->val[0], dtype), c->val[0].weak);
    x = dt_val_expand(l, x, rank, axes);
    return dt_val_is_error(&x) ? NULL : x.tensor.value;
}

/* Checks that the result of a scatter has valid axes: those of x that are not summed over, and the
 * targets. False after a report. */
static bool check_scatter(DtLower *l, DtBuiltinCall *c, const DtValue *x, const DtAxisList *summed,
                          uint32_t n, const Target *targets)
{
    DtAxis axes[DT_MAX_RANK + 8];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < summed->names.n; i++) {
        if (dt_type_find(x->type, summed->names.at[i]) >= 0)
            continue;
        DtVal v = {.kind = DT_VAL_TENSOR, .tensor = {(DtValue *)x, l->now->frame}};
        DtDiag *d =
            dt_report_error(l, E0304, summed->span,
                            "`scatter` sums over `%s`, which neither the value nor an index has",
                            summed->names.at[i]);
        dt_diag_note(d, "together they are %s", dt_report_type(l, &v));
        return false;
    }
    for (uint32_t i = 0; i < x->type->rank; i++) {
        bool gone = false;
        for (uint32_t k = 0; k < summed->names.n; k++)
            gone |= summed->names.at[k] == x->type->axes[i].name;
        if (!gone)
            axes[rank++] = x->type->axes[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < rank; k++) {
            if (axes[k].name != targets[i].axis.name)
                continue;
            DtDiag *d = dt_report_error(l, E0305, c->expr->span,
                                        "`scatter` makes the axis `%s`, which is there already",
                                        axes[k].name);
            dt_diag_help(d, "sum it away: `scatter[%s](...)`", axes[k].name);
            return false;
        }
        axes[rank++] = targets[i].axis;
    }
    if (rank > DT_MAX_RANK) {
        dt_report_error(l, E0312, c->expr->span, "the result would have more than %d axes",
                        DT_MAX_RANK);
        return false;
    }
    return dt_axes_type(l, c->expr->span, x->type->dtype, rank, axes) != NULL;
}

DtVal dt_builtin_scatter(DtLower *l, DtBuiltinCall *c)
{
    Target targets[8];
    uint32_t n = 0;
    if (!dt_val_check(l, &c->val[0], c->arg[0]))
        return dt_val_error();
    for (uint32_t i = 0; c->call->kind == DT_EXPR_CALL && i < c->call->args.n; i++) {
        const DtArg *arg = &c->call->args.at[i];
        if (!arg->name.text || arg->value == c->arg[0])
            continue;
        if (n == DT_COUNT(targets)) {
            dt_report_error(l, E0205, arg->name.span, "`scatter` takes at most %zu indices",
                            DT_COUNT(targets));
            return dt_val_error();
        }
        if (!read_target(l, arg, &targets[n]))
            return dt_val_error();
        n++;
    }
    if (!n) {
        dt_report_error(l, E0205, c->expr->span,
                        "`scatter` needs an index: `scatter[a](x, p = i)`");
        return dt_val_error();
    }
    l->now->frame->b.span = c->expr->span;
    DtAxisList summed = {.span = c->axes.n ? c->axes.at[0].span : c->span};
    for (uint32_t i = 0; i < c->axes.n; i++) {
        for (uint32_t k = 0; k < c->axes.at[i].names.n; k++)
            DT_PUSH(l->arena, summed.names, c->axes.at[i].names.at[k]);
    }
    DtValue *x = spread(l, c, n, targets);
    if (!x || !check_scatter(l, c, x, &summed, n, targets))
        return dt_val_error();
    DtAxis axes[8];
    DtValue *index[8];
    for (uint32_t i = 0; i < n; i++) {
        axes[i] = targets[i].axis;
        index[i] = dt_val_tensor(l, &targets[i].index);
    }
    DtValue *out = dt_graph_scatter_add(&l->now->frame->b, x, n, axes, index, summed.names.n,
                                        summed.names.at, NULL);
    return dt_val_of(l, out, c->val[0].weak);
}
