/* SPDX-License-Identifier: Apache-2.0 */
/* Built-ins over axes: reductions, running sums, iota, size, topk, onehot. */
#include "frontend/lower_internal.h"

bool dt_builtin_has_axes(DtLower *l, DtBuiltinCall *c, uint32_t arg, const DtAxisList *list)
{
    for (uint32_t i = 0; i < list->names.n; i++) {
        const char *name = list->names.at[i];
        const DtVal *x = &c->val[arg];
        if (x->kind == DT_VAL_TENSOR && dt_type_find(x->tensor.value->type, name) >= 0)
            continue;
        DtDiag *d = dt_report_error(
            l, E0304, list->span, "`%s` is over the axis `%s`, which %s does not have: it is %s",
            c->builtin->name, name, dt_report_subject(l, c->arg[arg]), dt_report_type(l, x));
        dt_report_origin(l, d, c->arg[arg]);
        if (x->kind == DT_VAL_TENSOR) {
            const char *names[DT_MAX_RANK];
            for (uint32_t k = 0; k < x->tensor.value->type->rank; k++)
                names[k] = x->tensor.value->type->axes[k].name;
            dt_report_nearest(l, d, list->span, name, names, x->tensor.value->type->rank);
        }
        return false;
    }
    return true;
}

DtAxisList dt_builtin_all_axes(DtLower *l, const DtBuiltinCall *c)
{
    DtAxisList all = {.span = c->axes.n ? c->axes.at[0].span : c->span};
    for (uint32_t i = 0; i < c->axes.n; i++) {
        for (uint32_t k = 0; k < c->axes.at[i].names.n; k++)
            DT_PUSH(l->arena, all.names, c->axes.at[i].names.at[k]);
    }
    return all;
}

const char *dt_builtin_sole_axis(DtLower *l, const DtBuiltinCall *c, uint32_t i)
{
    if (c->axes.at[i].names.n == 1)
        return c->axes.at[i].names.at[0];
    dt_report_error(l, E0206, c->axes.at[i].span, "`%s` needs a single axis here, not %s",
                    c->builtin->name, dt_report_names(l, &c->axes.at[i].names));
    return NULL;
}

/* Returns x as a value of a dtype that can be summed: a boolean counts as 0 or 1. */
static DtValue *number(DtLower *l, const DtVal *x)
{
    DtDtype dtype = dt_val_dtype(x);
    return dt_val_use(l, x, dtype == DT_BOOL ? DT_I32 : dtype);
}

static DtVal reduce(DtLower *l, DtBuiltinCall *c, DtReduce kind)
{
    if (!dt_val_check(l, &c->val[0], c->arg[0]))
        return dt_val_error();
    DtAxisList axes = dt_builtin_all_axes(l, c);
    if (!dt_builtin_has_axes(l, c, 0, &axes))
        return dt_val_error();
    DtValue *x = number(l, &c->val[0]);
    const bool widens = kind == DT_REDUCE_SUM && dt_dtype_is_float(x->type->dtype);
    if (!axes.names.n) /* no axes: each sum has one element */
        return dt_val_of(l, dt_graph_cast(&l->now->frame->b, x, widens ? DT_F32 : x->type->dtype),
                         c->val[0].weak);
    return dt_val_of(l, dt_graph_reduce(&l->now->frame->b, kind, x, axes.names.n, axes.names.at),
                     c->val[0].weak);
}

DtVal dt_builtin_sum(DtLower *l, DtBuiltinCall *c) { return reduce(l, c, DT_REDUCE_SUM); }
DtVal dt_builtin_max_over(DtLower *l, DtBuiltinCall *c) { return reduce(l, c, DT_REDUCE_MAX); }
DtVal dt_builtin_min_over(DtLower *l, DtBuiltinCall *c) { return reduce(l, c, DT_REDUCE_MIN); }

DtVal dt_builtin_cumsum(DtLower *l, DtBuiltinCall *c)
{
    if (!dt_val_check(l, &c->val[0], c->arg[0]))
        return dt_val_error();
    DtAxisList axes = dt_builtin_all_axes(l, c);
    if (!dt_builtin_has_axes(l, c, 0, &axes))
        return dt_val_error();
    DtValue *x = number(l, &c->val[0]);
    return dt_val_of(l, dt_graph_scan(&l->now->frame->b, x, axes.names.n, axes.names.at, false),
                     c->val[0].weak);
}

static DtValue *iota(DtLower *l, const DtBuiltinCall *c, const char *axis)
{
    int64_t extent = dt_axes_extent(l, axis, c->axes.at[0].span,
                                    dt_arena_printf(l->arena, "`%s`", c->builtin->name));
    if (extent < 0)
        return NULL;
    if (extent > INT32_MAX) {
        dt_report_error(l, E0312, c->axes.at[0].span,
                        "`%s` over `%s`, which has %lld elements, does not fit i32",
                        c->builtin->name, axis, (long long)extent);
        return NULL;
    }
    return dt_graph_iota(&l->now->frame->b, (DtAxis){.name = axis, .extent = extent});
}

DtVal dt_builtin_iota(DtLower *l, DtBuiltinCall *c)
{
    if (!l->now) {
        dt_report_error(l, E0401, c->expr->span,
                        "`iota` is a tensor, and here a constant is needed");
        return dt_val_error();
    }
    const char *axis = dt_builtin_sole_axis(l, c, 0);
    DtValue *value = axis ? iota(l, c, axis) : NULL;
    return value ? dt_val_of(l, value, false) : dt_val_error();
}

DtVal dt_builtin_size(DtLower *l, DtBuiltinCall *c)
{
    DtAxisList axes = dt_builtin_all_axes(l, c);
    int64_t product = 1;
    for (uint32_t i = 0; i < axes.names.n; i++) {
        int64_t extent = dt_axes_extent(l, axes.names.at[i], axes.span, "`size`");
        if (extent < 0)
            return dt_val_error();
        if (__builtin_mul_overflow(product, extent, &product)) {
            dt_report_error(l, E0404, c->expr->span, "the size of these axes does not fit 64 bits");
            return dt_val_error();
        }
    }
    return dt_val_int(product);
}

DtVal dt_builtin_onehot(DtLower *l, DtBuiltinCall *c)
{
    if (!dt_val_check(l, &c->val[0], c->arg[0]))
        return dt_val_error();
    const char *axis = dt_builtin_sole_axis(l, c, 0);
    if (!axis)
        return dt_val_error();
    const DtVal *i = &c->val[0];
    if (dt_val_dtype(i) != DT_I32) {
        dt_report_error(l, E0403, c->arg[0]->span, "`onehot` needs i32 indices, and this is %s",
                        dt_report_type(l, i));
        return dt_val_error();
    }
    if (i->kind == DT_VAL_TENSOR && dt_type_find(i->tensor.value->type, axis) >= 0) {
        DtDiag *d = dt_report_error(l, E0305, c->axes.at[0].span,
                                    "`onehot` makes the axis `%s`, which %s has already", axis,
                                    dt_report_subject(l, c->arg[0]));
        dt_report_origin(l, d, c->arg[0]);
        return dt_val_error();
    }
    if (!l->now) {
        dt_report_error(l, E0401, c->expr->span,
                        "`onehot` is a tensor, and here a constant is needed");
        return dt_val_error();
    }
    DtValue *along = iota(l, c, axis);
    if (!along)
        return dt_val_error();
    DtVal pair[2] = {*i, dt_val_of(l, along, false)};
    return dt_val_map(l, DT_OP_EQ, pair, NULL, 2, false);
}

DtVal dt_builtin_topk(DtLower *l, DtBuiltinCall *c)
{
    if (!dt_val_check(l, &c->val[0], c->arg[0]))
        return dt_val_error();
    const char *a = dt_builtin_sole_axis(l, c, 0), *k = dt_builtin_sole_axis(l, c, 1);
    if (!a || !k || !dt_builtin_has_axes(l, c, 0, &c->axes.at[0]))
        return dt_val_error();
    const DtType *type = c->val[0].tensor.value->type;
    int64_t extent = dt_axes_extent(l, k, c->axes.at[1].span, "`topk`");
    if (extent < 0)
        return dt_val_error();
    if (dt_type_find(type, k) >= 0) {
        dt_report_error(l, E0305, c->axes.at[1].span,
                        "`topk` makes the axis `%s`, which %s has already", k,
                        dt_report_subject(l, c->arg[0]));
        return dt_val_error();
    }
    if (extent > dt_type_extent(type, a) || dt_type_extent(type, a) > INT32_MAX) {
        dt_report_error(l, E0315, c->expr->span,
                        "`topk` takes the %lld largest along `%s`, which has %lld elements",
                        (long long)extent, a, (long long)dt_type_extent(type, a));
        return dt_val_error();
    }
    DtValue *values, *indices;
    DtAxis axis = {.name = k, .extent = extent};
    dt_graph_topk(&l->now->frame->b, number(l, &c->val[0]), a, axis, &values, &indices);
    DtVal pair[2] = {dt_val_of(l, values, c->val[0].weak), dt_val_of(l, indices, false)};
    return dt_val_tuple(l, pair, 2);
}
