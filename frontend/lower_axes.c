/* SPDX-License-Identifier: Apache-2.0 */
/* Axis names as written: parameters of the definition being evaluated stand for lists of axes,
 * other names are dims (one extent everywhere) or `axis` names (an extent per tensor). */
#include "frontend/lower_internal.h"

#include "base/intern.h"

#include <string.h>

DtAxisList *dt_axes_formal(DtLower *l, const char *name)
{
    DtActivation *a = l->now;
    if (!a || !a->def)
        return NULL;
    for (uint32_t i = 0; i < a->def->axes.n && i < a->axes.n; i++) {
        if (a->def->axes.at[i].text == name)
            return &a->axes.at[i];
    }
    return NULL;
}

static void unknown_axis(DtLower *l, DtName name)
{
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->globals.n + 64);
    size_t n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++) {
        if (l->globals.at[i]->kind == DT_GLOBAL_DIM || l->globals.at[i]->kind == DT_GLOBAL_AXIS)
            names[n++] = l->globals.at[i]->name;
    }
    if (l->now && l->now->def) {
        for (uint32_t i = 0; i < l->now->def->axes.n && i < 64; i++)
            names[n++] = l->now->def->axes.at[i].text;
    }
    DtDiag *d = dt_report_error(l, E0202, name.span, "there is no axis `%s`", name.text);
    dt_report_nearest(l, d, name.span, name.text, names, n);
    dt_diag_note(d,
                 "axes are declared by `dim %s = N` (one extent everywhere) or `axis %s` (an "
                 "extent per tensor)",
                 name.text, name.text);
}

bool dt_axes_name(DtLower *l, DtName name, DtAxisNames *ret_names)
{
    if (!name.text)
        return false;
    const DtAxisList *formal = dt_axes_formal(l, name.text);
    if (formal) {
        for (uint32_t i = 0; i < formal->names.n; i++)
            DT_PUSH(l->arena, *ret_names, formal->names.at[i]);
        return true;
    }
    if (!dt_scope_axis(l, name.text)) {
        unknown_axis(l, name);
        return false;
    }
    DT_PUSH(l->arena, *ret_names, dt_scope_axis_meant(l, name));
    return true;
}

bool dt_axes_group(DtLower *l, const DtGroup *group, DtAxisList *ret_list)
{
    bool ok = true;
    *ret_list = (DtAxisList){.span = group->span};
    for (uint32_t i = 0; i < group->names.n; i++)
        ok &= dt_axes_name(l, group->names.at[i], &ret_list->names);
    if (ok && ret_list->names.n > DT_MAX_RANK) {
        dt_report_error(l, E0312, group->span, "a list of %u axes; tensors have at most %d",
                        ret_list->names.n, DT_MAX_RANK);
        return false;
    }
    return ok;
}

bool dt_axes_subs(DtLower *l, const DtExpr *subs, DtAxisLists *ret_lists)
{
    bool ok = true;
    for (uint32_t i = 0; i < subs->subs.n; i++) {
        const DtSub *sub = &subs->subs.at[i];
        DtAxisList list;
        if (sub->kind != DT_SUB_GROUP) {
            DtDiag *d = dt_report_error(
                l, E0206, sub->span,
                "axis arguments are names of axes, or lists of them in parentheses");
            dt_diag_note(d, "a rename or an index belongs after the call: `f[a](x)[a -> b]`");
            ok = false;
        } else if (!dt_axes_group(l, &sub->from, &list)) {
            ok = false;
        } else {
            DT_PUSH(l->arena, *ret_lists, list);
        }
    }
    return ok;
}

bool dt_axes_distinct(DtLower *l, const DtAxisLists *lists, const char *what)
{
    const char *seen[2 * DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < lists->n; i++) {
        const DtAxisList *list = &lists->at[i];
        for (uint32_t k = 0; k < list->names.n; k++) {
            for (uint32_t s = 0; s < n; s++) {
                if (seen[s] != list->names.at[k])
                    continue;
                DtDiag *d = dt_report_error(l, E0305, list->span,
                                            "the axis `%s` is given twice to %s", seen[s], what);
                dt_diag_note(d,
                             "axes of one name are one axis; where two roles have equal extent, "
                             "name the second: "
                             "`dim k%s = %s`",
                             seen[s], seen[s]);
                return false;
            }
            if (n == DT_COUNT(seen)) {
                dt_report_error(l, E0312, list->span, "too many axes for %s", what);
                return false;
            }
            seen[n++] = list->names.at[k];
        }
    }
    return true;
}

/* ---- extents ---- */

int64_t dt_axes_local(const DtLower *l, const char *name)
{
    const DtActivation *a = l->now;
    for (uint32_t i = 0; a && i < a->extents.n; i++) {
        if (a->extents.at[i].name == name)
            return a->extents.at[i].extent;
    }
    return 0;
}

int64_t dt_axes_extent(DtLower *l, const char *name, DtSpan span, const char *what)
{
    DtGlobal *global = dt_scope_axis(l, name);
    if (global && global->kind == DT_GLOBAL_DIM)
        return dt_scope_extent(l, global);
    int64_t extent = dt_axes_local(l, name);
    if (extent > 0)
        return extent;
    DtDiag *d =
        dt_report_error(l, E0307, span, "%s needs the extent of `%s`, which belongs to each tensor",
                        what ? what : "this type", name);
    if (global && !global->is_library)
        dt_diag_label(d, global->span, "declared by `axis`, so it has no extent of its own");
    if (extent < 0)
        dt_diag_note(d, "the arguments of this call have different extents of `%s`", name);
    if (!what)
        dt_diag_help(d, "give it here: `%s = N`; or take it from a tensor: `%s = x.%s`", name, name,
                     name);
    else
        dt_diag_help(d, "take it from a tensor: `x.%s`; or declare `dim %s = N`", name, name);
    return -1;
}

/* ---- declared types ---- */

static bool has_axis(const DtDeclared *t, const char *name)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->axes[i].name == name)
            return true;
    }
    return false;
}

static bool add_axis(DtLower *l, DtDeclared *t, const DtAstAxis *written, const char *name,
                     int64_t extent)
{
    if (has_axis(t, name)) {
        dt_report_error(l, E0305, written->name.span, "the axis `%s` is listed twice", name);
        return false;
    }
    if (t->n == DT_MAX_RANK) {
        dt_report_error(l, E0312, written->name.span, "a tensor has at most %d axes", DT_MAX_RANK);
        return false;
    }
    t->spans[t->n] = written->name.span;
    t->axes[t->n++] = (DtAxis){.name = name, .extent = extent};
    return true;
}

/* Returns the extent that is written for an axis, as in `kh = k`. For an `axis` it is the extent in
 * this tensor; for a dim it must be the dim's own. -1 after a report. */
int64_t dt_axes_written(DtLower *l, const DtAstAxis *written, const DtAxisNames *names)
{
    if (names->n != 1) {
        dt_report_error(l, E0307, written->extent->span,
                        "`%s` stands for %u axes, so one extent cannot be given",
                        written->name.text, names->n);
        return -1;
    }
    const char *name = names->at[0];
    int64_t extent;
    const char *what = dt_arena_printf(l->arena, "the extent of `%s`", name);
    if (!dt_expr_int(l, written->extent, what, &extent))
        return -1;
    if (extent < 1) {
        dt_report_error(l, E0313, written->extent->span,
                        "the extent of `%s` is %lld; extents are whole numbers from 1 on", name,
                        (long long)extent);
        return -1;
    }
    DtGlobal *global = dt_scope_axis(l, name);
    if (!global || global->kind != DT_GLOBAL_DIM)
        return extent;
    int64_t own = dt_scope_extent(l, global);
    if (own < 0 || own == extent)
        return own;
    DtDiag *d =
        dt_report_error(l, E0303, written->extent->span, "`%s` is %lld here, but the dim is %lld",
                        name, (long long)extent, (long long)own);
    dt_diag_label(d, global->span, "a dim has one extent everywhere");
    dt_diag_help(d, "declare `axis %s` if every tensor has its own", name);
    return -1;
}

static bool declared_axis(DtLower *l, const DtAstAxis *written, bool sizes, DtDeclared *t)
{
    DtAxisNames names = {0};
    if (!dt_axes_name(l, written->name, &names))
        return false;
    for (uint32_t i = 0; i < names.n; i++) {
        const char *name = names.at[i];
        DtGlobal *global = dt_scope_axis(l, name);
        int64_t extent = 0;
        if (written->extent)
            extent = dt_axes_written(l, written, &names);
        else if (sizes)
            extent = dt_axes_extent(l, name, written->name.span, NULL);
        else if (global && global->kind == DT_GLOBAL_DIM)
            extent = dt_scope_extent(l, global);
        if (extent < 0 || !add_axis(l, t, written, name, extent))
            return false;
    }
    return true;
}

bool dt_axes_declared(DtLower *l, const DtAstType *type, bool sizes, DtDeclared *ret_declared)
{
    bool ok = true;
    *ret_declared = (DtDeclared){.n = 0};
    for (uint32_t i = 0; i < type->axes.n; i++) {
        const DtAstAxis *written = &type->axes.at[i];
        if (written->name.text && !strcmp(written->name.text, "...")) {
            if (sizes && !(l->now && l->now->frame->is_rule)) {
                dt_report_error(l, E0307, written->name.span,
                                "`...` stands for the axes of an argument, and here is none");
                ok = false;
            }
            ret_declared->open = true;
            continue;
        }
        ret_declared->written++;
        const uint32_t first = ret_declared->n;
        ok &= declared_axis(l, written, sizes, ret_declared);
        if (ret_declared->n > first)
            ret_declared->begins |= (uint16_t)(1u << first);
    }
    return ok;
}

bool dt_axes_dtype(DtLower *l, const DtAstType *type, DtDtype *ret_dtype)
{
    if (!type->dtype || !dt_dtype_parse(type->dtype, ret_dtype))
        return false;
    switch (*ret_dtype) {
    case DT_BOOL:
    case DT_I32:
    case DT_F16:
    case DT_BF16:
    case DT_F32: return true;
    case DT_U8: /* what ranks exchange */
        if (l->now && l->now->frame->is_rule)
            return true;
        break;
    default: break;
    }
    DtDiag *d =
        dt_report_error(l, E0405, type->span, "values of a program cannot be %s", type->dtype);
    dt_diag_note(d,
                 "values are bool, i32, f16, bf16 or f32; other dtypes occur in data files only");
    return false;
}

const DtType *dt_axes_type(DtLower *l, DtSpan span, DtDtype dtype, uint32_t rank,
                           const DtAxis *axes)
{
    const char *who = NULL;
    int64_t elements = 1;
    for (uint32_t i = 0; i < rank && !who; i++) {
        if (axes[i].extent > INT64_MAX / 64 / elements)
            who = axes[i].name;
        else
            elements *= axes[i].extent;
    }
    if (!who)
        return dt_type_plain(dtype, rank, axes);
    DtType *probe = dt_arena_alloc(l->arena, sizeof(DtType) + rank * sizeof(DtAxis));
    probe->rank = (uint8_t)rank;
    memcpy(probe->axes, axes, rank * sizeof(DtAxis));
    DtDiag *d = dt_report_error(l, E0312, span, "a tensor with more elements than can be counted");
    dt_diag_note(d, "its axes are %s", dt_report_axes(l, probe, true));
    return NULL;
}
