/* SPDX-License-Identifier: Apache-2.0 */
/* Square brackets after a value: `x[vocab = ids]` gathers, `x[tok = 0]` selects, `x[tok = 0 ..
 * 8]` slices, `x[a -> b]` renames, `x[h -> (g, p)]` splits, `x[(g, p) -> h]` merges. Index
 * entries act before the others, all tensor indices jointly, and all renames of one bracket at
 * once. */
#include "frontend/lower_internal.h"

typedef struct Index {
    const char *axis;
    DtVal val;
    const DtExpr *expr;
} Index;

/* ---- one axis of x ---- */

static bool missing_axis(DtLower *l, const DtExpr *expr, const DtValue *x, const char *axis,
                         DtSpan span)
{
    DtVal v = {.kind = DT_VAL_TENSOR, .tensor = {(DtValue *)x, l->now->frame}};
    DtDiag *d = dt_report_error(l, E0304, span, "%s has no axis `%s`: it is %s",
                                dt_report_subject(l, expr->a), axis, dt_report_type(l, &v));
    dt_report_origin(l, d, expr->a);
    const char *names[DT_MAX_RANK];
    for (uint32_t i = 0; i < x->type->rank; i++)
        names[i] = x->type->axes[i].name;
    dt_report_nearest(l, d, span, axis, names, x->type->rank);
    return false;
}

/* Returns the one axis of x that an index entry names; NULL after a report. */
static const char *indexed_axis(DtLower *l, const DtExpr *expr, const DtSub *sub, const DtValue *x)
{
    DtAxisList list;
    if (!dt_axes_group(l, &sub->from, &list))
        return NULL;
    if (list.names.n != 1) {
        dt_report_error(l, E0304, sub->from.span,
                        "an index is for one axis, and `%s` stands for %u",
                        sub->from.names.n ? sub->from.names.at[0].text : "this", list.names.n);
        return NULL;
    }
    if (dt_type_find(x->type, list.names.at[0]) < 0) {
        missing_axis(l, expr, x, list.names.at[0], sub->from.span);
        return NULL;
    }
    return list.names.at[0];
}

DtValue *dt_index_select(DtLower *l, DtValue *x, const char *axis, int64_t at)
{
    DtBuilder *b = &l->now->frame->b;
    if (dt_type_extent(x->type, axis) != 1)
        x = dt_graph_slice(b, x, axis, at, 1, 1);
    DtRelabel drop = {.n_from = 1, .from = {axis}};
    return dt_graph_relabel(b, x, 1, &drop, NULL);
}

/* ---- ranges and constants ---- */

static DtValue *apply_range(DtLower *l, const DtExpr *expr, const DtSub *sub, DtValue *x)
{
    const char *axis = indexed_axis(l, expr, sub, x);
    int64_t lo, hi;
    bool ok = dt_expr_int(l, sub->index, "the beginning of a range", &lo);
    ok &= dt_expr_int(l, sub->end, "the end of a range", &hi);
    if (!axis || !ok)
        return NULL;
    int64_t extent = dt_type_extent(x->type, axis);
    if (lo < 0 || hi > extent || lo >= hi) {
        DtDiag *d =
            dt_report_error(l, E0308, sub->span,
                            "the range %lld .. %lld does not lie in `%s`, which has %lld elements",
                            (long long)lo, (long long)hi, axis, (long long)extent);
        dt_diag_note(
            d, "the end is not part of a range, and negative numbers do not count from the end");
        return NULL;
    }
    if (lo == 0 && hi == extent)
        return x;
    const DtGlobal *global = dt_scope_axis(l, axis);
    if (global && global->kind == DT_GLOBAL_DIM) {
        DtDiag *d = dt_report_error(l, E0309, sub->span,
                                    "a range would change the extent of the dim `%s`", axis);
        dt_diag_label(d, global->span, "a dim has one extent everywhere");
        const char *offset = lo ? dt_arena_printf(l->arena, " + %lld", (long long)lo) : "";
        dt_diag_help(d, "declare `dim part = %lld` and take `[%s = iota[part]%s]`",
                     (long long)(hi - lo), axis, offset);
        return NULL;
    }
    return dt_graph_slice(&l->now->frame->b, x, axis, lo, 1, hi - lo);
}

static DtValue *apply_constant(DtLower *l, const DtExpr *expr, const Index *index, DtValue *x)
{
    int64_t at, extent = dt_type_extent(x->type, index->axis);
    (void)expr;
    if (!dt_val_int_of(l, &index->val, index->expr, "an index", &at))
        return NULL;
    if (at < 0 || at >= extent) {
        DtDiag *d = dt_report_error(l, E0308, index->expr->span,
                                    "the index %lld is out of range: `%s` has %lld elements",
                                    (long long)at, index->axis, (long long)extent);
        if (at < 0)
            dt_diag_note(d,
                         "negative indices do not count from the end; the last element is `%s - 1` "
                         "if `%s` is a dim",
                         index->axis, index->axis);
        return NULL;
    }
    return dt_index_select(l, x, index->axis, at);
}

/* ---- tensor indices ---- */

static bool is_constant(const DtValue *value)
{
    return value->op && value->op->kind == DT_OP_CONST;
}

/* If value is mul * x + add in a single op, sets mul and add and returns x; else NULL. */
static DtValue *affine_step(const DtValue *value, int64_t *mul, int64_t *add)
{
    const DtOp *op = value->op;
    if (!op || (op->kind != DT_OP_NEG && op->n_in != 2))
        return NULL;
    if (op->kind == DT_OP_NEG) {
        *mul = -1;
        return op->in[0];
    }
    const bool left = is_constant(op->in[1]);
    if (left == is_constant(op->in[0]))
        return NULL;
    const int64_t c = (int64_t)op->in[left ? 1 : 0]->op->number;
    switch (op->kind) {
    case DT_OP_MUL: *mul = c; break;
    case DT_OP_ADD: *add = c; break;
    case DT_OP_SUB:
        *add = left ? -c : c;
        *mul = left ? 1 : -1;
        break;
    default: return NULL;
    }
    return op->in[left ? 0 : 1];
}

bool dt_index_affine(DtValue *value, DtValue **ret_base, int64_t *ret_mul, int64_t *ret_add)
{
    *ret_mul = 1;
    *ret_add = 0;
    for (int depth = 0; depth < 8; depth++) {
        int64_t mul = 1, add = 0, product;
        DtValue *in = affine_step(value, &mul, &add);
        if (!in)
            break;
        /* now: ret_mul * (mul * in + add) + ret_add */
        if (__builtin_mul_overflow(*ret_mul, add, &product) ||
            __builtin_add_overflow(*ret_add, product, ret_add) ||
            __builtin_mul_overflow(*ret_mul, mul, ret_mul))
            return false;
        value = in;
    }
    *ret_base = value;
    return true;
}

/* Returns the slice that equals a gather, if its index is affine in one iota and always in range;
 * NULL if the index is not so. */
static DtValue *try_slice(DtLower *l, const char *axis, DtValue *index, DtValue *x)
{
    DtValue *base;
    int64_t mul, add, last, extent = dt_type_extent(x->type, axis);
    if (index->type->rank != 1 || !dt_index_affine(index, &base, &mul, &add) || mul < 1 ||
        add < 0 || !base->op || base->op->kind != DT_OP_IOTA)
        return NULL;
    const char *along = base->type->axes[0].name;
    int64_t n = index->type->axes[0].extent;
    if (along != axis && dt_type_find(x->type, along) >= 0)
        return NULL; /* the index has another axis of x: the result is a diagonal */
    if (__builtin_mul_overflow(n - 1, mul, &last) || __builtin_add_overflow(last, add, &last) ||
        last >= extent)
        return NULL;
    if (add != 0 || mul != 1 || n != extent)
        x = dt_graph_slice(&l->now->frame->b, x, axis, add, mul, n);
    return along == axis ? x : dt_graph_rename(&l->now->frame->b, x, axis, along, NULL);
}

/* Checks that the result of the gather has no axis twice with different extents, and not too many
 * axes; false after a report. */
static bool check_gather(DtLower *l, const DtExpr *expr, const DtValue *x, uint32_t n,
                         const Index *index)
{
    DtVal *v = DT_NEW_ARRAY(l->arena, DtVal, n + 1);
    const DtExpr **exprs = DT_NEW_ARRAY(l->arena, const DtExpr *, n + 1);
    DtAxis axes[DT_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->type->rank; i++) {
        bool taken = false;
        for (uint32_t k = 0; k < n; k++)
            taken |= index[k].axis == x->type->axes[i].name;
        if (!taken)
            axes[rank++] = x->type->axes[i];
    }
    DtValue rest = {.type = dt_type_plain(DT_F32, rank, axes)};
    v[0] = (DtVal){.kind = DT_VAL_TENSOR, .tensor = {&rest, NULL}};
    exprs[0] = expr->a;
    for (uint32_t i = 0; i < n; i++) {
        v[i + 1] = index[i].val;
        exprs[i + 1] = index[i].expr;
    }
    return dt_val_union(l, v, exprs, n + 1, expr->span, &rank, axes);
}

static DtValue *apply_gather(DtLower *l, const DtExpr *expr, uint32_t n, const Index *index,
                             DtValue *x)
{
    const char **axes = DT_NEW_ARRAY(l->arena, const char *, n);
    DtValue **values = DT_NEW_ARRAY(l->arena, DtValue *, n);
    for (uint32_t i = 0; i < n; i++) {
        if (dt_val_dtype(&index[i].val) != DT_I32) {
            DtDiag *d = dt_report_error(
                l, E0403, index[i].expr->span, "an index must be i32, and %s is %s",
                dt_report_subject(l, index[i].expr), dt_report_type(l, &index[i].val));
            dt_report_origin(l, d, index[i].expr);
            dt_diag_help(d, "convert it: `i32(...)`, which rounds towards zero");
            return NULL;
        }
        axes[i] = index[i].axis;
        values[i] = dt_val_tensor(l, &index[i].val);
    }
    DtValue *slice = n == 1 ? try_slice(l, axes[0], values[0], x) : NULL;
    if (slice)
        return slice;
    if (!check_gather(l, expr, x, n, index))
        return NULL;
    return dt_graph_gather(&l->now->frame->b, x, n, axes, values);
}

static bool names_range(const DtExpr *expr, const char *axis)
{
    for (uint32_t i = 0; i < expr->subs.n; i++) {
        const DtSub *sub = &expr->subs.at[i];
        if (sub->kind == DT_SUB_RANGE && sub->from.names.n && sub->from.names.at[0].text == axis)
            return true;
    }
    return false;
}

/* Evaluates the index entries in order, into ret; false after a report. An entry with a loop's
 * variable as index is applied to *x at once, which becomes the element of the iteration. */
static bool read_indices(DtLower *l, const DtExpr *expr, DtVal *x, Index *ret, uint32_t *ret_n)
{
    for (uint32_t i = 0; i < expr->subs.n; i++) {
        const DtSub *sub = &expr->subs.at[i];
        if (sub->kind != DT_SUB_INDEX)
            continue;
        Index index = {.axis = indexed_axis(l, expr, sub, x->tensor.value),
                       .val = dt_expr_eval(l, sub->index),
                       .expr = sub->index};
        if (!index.axis || !dt_val_check(l, &index.val, sub->index))
            return false;
        for (uint32_t k = 0; k < *ret_n; k++) {
            if (ret[k].axis == index.axis) {
                dt_report_error(l, E0305, sub->span, "`%s` is indexed twice", index.axis);
                return false;
            }
        }
        if (!names_range(expr, index.axis) && dt_sequence_element(l, x, index.axis, &index.val))
            continue;
        dt_sequence_lint(l, x, &index.val, sub->span);
        ret[(*ret_n)++] = index;
    }
    return true;
}

static DtValue *apply_indices(DtLower *l, const DtExpr *expr, const Index *indices,
                              uint32_t n_indices, DtValue *x)
{
    Index *tensors = DT_NEW_ARRAY(l->arena, Index, n_indices + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < expr->subs.n; i++) {
        if (expr->subs.at[i].kind == DT_SUB_RANGE &&
            !(x = apply_range(l, expr, &expr->subs.at[i], x)))
            return NULL;
    }
    for (uint32_t i = 0; i < n_indices; i++) {
        l->now->frame->b.span = expr->span;
        if (indices[i].val.kind == DT_VAL_TENSOR)
            tensors[n++] = indices[i];
        else if (!(x = apply_constant(l, expr, &indices[i], x)))
            return NULL;
    }
    return n ? apply_gather(l, expr, n, tensors, x) : x;
}

/* ---- rename, split, merge ---- */

static bool relabel_from(DtLower *l, const DtExpr *expr, const DtSub *sub, const DtAxisList *from,
                         const DtValue *x, int64_t *ret_elements)
{
    *ret_elements = 1;
    for (uint32_t i = 0; i < from->names.n; i++) {
        if (dt_type_find(x->type, from->names.at[i]) < 0)
            return missing_axis(l, expr, x, from->names.at[i], sub->from.span);
        *ret_elements *= dt_type_extent(x->type, from->names.at[i]);
    }
    return true;
}

static bool wrong_extent(DtLower *l, const DtSub *sub, const DtAxisList *from, const DtAxisList *to,
                         int64_t have, int64_t want)
{
    bool rename = from->names.n == 1 && to->names.n == 1;
    DtDiag *d;
    if (rename) {
        d = dt_report_error(l, E0303, sub->span,
                            "`%s` has %lld elements and cannot become `%s`, which has %lld",
                            from->names.at[0], (long long)have, to->names.at[0], (long long)want);
    } else {
        d = dt_report_error(l, E0306, sub->span,
                            "`%s` has %lld elements and cannot become `%s`, which has %lld",
                            dt_report_names(l, &from->names), (long long)have,
                            dt_report_names(l, &to->names), (long long)want);
    }
    for (uint32_t i = 0; i < to->names.n; i++) {
        const DtGlobal *global = dt_scope_axis(l, to->names.at[i]);
        if (global && global->kind == DT_GLOBAL_DIM && !global->is_library)
            dt_diag_label(d, global->span, "`%s` is %lld", global->name, (long long)global->extent);
    }
    return false;
}

/* Reads the extents that are written for new axes, as in `(height = 4, width)`, into r->to_extent;
 * 0 for the others. False after a report. */
static bool written_extents(DtLower *l, const DtGroup *group, DtRelabel *r)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < group->names.n; i++) {
        DtAxisNames names = {0};
        const DtAstAxis written = {group->names.at[i],
                                   group->extents.n ? group->extents.at[i] : NULL};
        if (!dt_axes_name(l, written.name, &names))
            return false;
        int64_t extent = written.extent ? dt_axes_written(l, &written, &names) : 0;
        if (extent < 0)
            return false;
        for (uint32_t k = 0; k < names.n; k++)
            r->to_extent[at++] = extent;
    }
    return true;
}

static bool is_open(const DtLower *l, const DtAxisList *to, const DtRelabel *r, uint32_t i)
{
    const DtGlobal *global = dt_scope_axis(l, to->names.at[i]);
    return !r->to_extent[i] && !(global && global->kind == DT_GLOBAL_DIM);
}

/* Where several new axes are names of `axis` without an extent, those of the arguments of the
 * present call have the extent that they have there, as those of `conv` in a function of all axes
 * of a parameter. One alone takes what is left. */
static void extents_of_arguments(const DtLower *l, const DtAxisList *to, DtRelabel *r)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < to->names.n; i++)
        open += is_open(l, to, r, i);
    for (uint32_t i = 0; open > 1 && i < to->names.n; i++) {
        const int64_t extent = is_open(l, to, r, i) ? dt_axes_local(l, to->names.at[i]) : 0;
        if (extent > 0)
            r->to_extent[i] = extent;
    }
}

/* Determines the extents of a relabel's new axes: dims have their own; at most one `axis` name
 * takes what is left of `elements`. False after a report. */
static bool relabel_to(DtLower *l, const DtSub *sub, const DtAxisList *from, const DtAxisList *to,
                       int64_t elements, DtRelabel *r)
{
    int64_t known = 1;
    int free_axis = -1;
    if (!written_extents(l, &sub->to, r))
        return false;
    extents_of_arguments(l, to, r);
    for (uint32_t i = 0; i < to->names.n; i++) {
        DtGlobal *global = dt_scope_axis(l, to->names.at[i]);
        if (global && global->kind == DT_GLOBAL_DIM && !r->to_extent[i])
            r->to_extent[i] = dt_scope_extent(l, global);
        if (r->to_extent[i] < 0)
            return false;
        if (r->to_extent[i]) {
            if (__builtin_mul_overflow(known, r->to_extent[i], &known))
                known = INT64_MAX;
        } else if (free_axis >= 0) {
            DtDiag *d =
                dt_report_error(l, E0306, sub->span, "the extents of `%s` and `%s` are both open",
                                r->to[free_axis], to->names.at[i]);
            dt_diag_note(d,
                         "an `axis` takes what is left of %lld elements; the others are dims, or "
                         "have an extent here",
                         (long long)elements);
            dt_diag_help(d, "write one of them: `(%s = N, %s)`", r->to[free_axis], to->names.at[i]);
            return false;
        } else {
            free_axis = (int)i;
        }
    }
    if (free_axis < 0)
        return known == elements || wrong_extent(l, sub, from, to, elements, known);
    if (elements % known != 0) {
        dt_report_error(
            l, E0306, sub->span,
            "`%s` has %lld elements, which %lld does not divide, so nothing is left for `%s`",
            dt_report_names(l, &from->names), (long long)elements, (long long)known,
            r->to[free_axis]);
        return false;
    }
    r->to_extent[free_axis] = elements / known;
    return true;
}

static bool relabel_entry(DtLower *l, const DtExpr *expr, const DtSub *sub, const DtValue *x,
                          DtRelabel *r)
{
    DtAxisList from, to;
    bool ok = dt_axes_group(l, &sub->from, &from);
    ok &= dt_axes_group(l, &sub->to, &to);
    int64_t elements;
    if (!ok || !relabel_from(l, expr, sub, &from, x, &elements))
        return false;
    /* an axis parameter may stand for no axes: the other side is then an axis of one element */
    const uint32_t fewer = from.names.n < to.names.n ? from.names.n : to.names.n;
    if (from.names.n > DT_COUNT(r->from) || to.names.n > DT_COUNT(r->to) ||
        (fewer == 0 && from.names.n + to.names.n != 1)) {
        DtDiag *d = dt_report_error(
            l, E0306, sub->span, "one entry can split or merge %zu axes at most", DT_COUNT(r->to));
        dt_diag_help(d, "do it in two steps, through a name for a part of the axes");
        return false;
    }
    *r = (DtRelabel){.n_from = from.names.n, .n_to = to.names.n};
    for (uint32_t i = 0; i < from.names.n; i++)
        r->from[i] = from.names.at[i];
    for (uint32_t i = 0; i < to.names.n; i++)
        r->to[i] = to.names.at[i];
    return relabel_to(l, sub, &from, &to, elements, r);
}

/* Checks that each axis of x is used by one entry only, and that no name occurs twice in the
 * result; reports it otherwise. */
static bool relabel_clash(DtLower *l, const DtExpr *expr, const DtValue *x, uint32_t n,
                          const DtRelabel *r, const DtSub *const *subs)
{
    const char *taken[4 * DT_MAX_RANK], *made[5 * DT_MAX_RANK];
    uint32_t n_taken = 0, n_made = 0;
    for (uint32_t e = 0; e < n; e++) {
        for (uint32_t i = 0; i < r[e].n_from; i++) {
            for (uint32_t k = 0; k < n_taken; k++) {
                if (taken[k] == r[e].from[i]) {
                    dt_report_error(l, E0305, subs[e]->span, "`%s` is renamed twice", taken[k]);
                    return false;
                }
            }
            taken[n_taken++] = r[e].from[i];
        }
    }
    for (uint32_t i = 0; i < x->type->rank; i++) {
        bool gone = false;
        for (uint32_t k = 0; k < n_taken; k++)
            gone |= taken[k] == x->type->axes[i].name;
        if (!gone)
            made[n_made++] = x->type->axes[i].name;
    }
    for (uint32_t e = 0; e < n; e++) {
        for (uint32_t i = 0; i < r[e].n_to; i++) {
            for (uint32_t k = 0; k < n_made; k++) {
                if (made[k] != r[e].to[i])
                    continue;
                DtDiag *d = dt_report_error(l, E0305, subs[e]->span,
                                            "the result would have the axis `%s` twice", made[k]);
                DtVal v = {.kind = DT_VAL_TENSOR, .tensor = {(DtValue *)x, l->now->frame}};
                dt_diag_note(d, "%s is %s", dt_report_subject(l, expr->a), dt_report_type(l, &v));
                dt_diag_help(
                    d, "to swap two axes, write both renames in one bracket: `x[a -> b, b -> a]`");
                return false;
            }
            made[n_made++] = r[e].to[i];
        }
    }
    if (n_made > DT_MAX_RANK) {
        dt_report_error(l, E0312, expr->span, "the result would have more than %d axes",
                        DT_MAX_RANK);
        return false;
    }
    return true;
}

static DtValue *apply_relabels(DtLower *l, const DtExpr *expr, DtValue *x)
{
    DtRelabel entries[DT_MAX_RANK];
    const DtSub *subs[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < expr->subs.n; i++) {
        if (expr->subs.at[i].kind != DT_SUB_RELABEL)
            continue;
        if (n == DT_MAX_RANK) {
            dt_report_error(l, E0305, expr->span, "more renames than a tensor can have axes");
            return NULL;
        }
        subs[n] = &expr->subs.at[i];
        if (!relabel_entry(l, expr, subs[n], x, &entries[n]))
            return NULL;
        n++;
    }
    if (!n)
        return x;
    if (!relabel_clash(l, expr, x, n, entries, subs))
        return NULL;
    return dt_graph_relabel(&l->now->frame->b, x, n, entries, NULL);
}

/* ---- all of it ---- */

/* Adds a fix for an index without its axis, `wte[tokens]` instead of `wte[vocab = tokens]`. */
static void fix_index(DtLower *l, DtDiag *d, const DtSub *sub, const DtVal *x)
{
    const DtName *name = sub->from.names.n == 1 ? &sub->from.names.at[0] : NULL;
    const DtBinding *index = name && name->text ? dt_expr_find(l, name->text) : NULL;
    if (!index || x->kind != DT_VAL_TENSOR || dt_scope_in_library(l, sub->span))
        return;
    const DtType *type = x->tensor.value->type;
    const DtType *of = index->val.kind == DT_VAL_TENSOR ? index->val.tensor.value->type : NULL;
    uint32_t i = 0;
    while (i < type->rank && of && dt_type_find(of, type->axes[i].name) >= 0)
        i++;
    dt_diag_help(d, "an index says along which axis: `[axis = %s]`", name->text);
    if (i < type->rank)
        dt_diag_fix(d, (DtSpan){sub->span.file, sub->span.lo, sub->span.lo},
                    dt_arena_printf(l->arena, "%s = ", type->axes[i].name), "along `%s`",
                    type->axes[i].name);
}

static bool only_entries(DtLower *l, const DtExpr *expr, const DtVal *x)
{
    for (uint32_t i = 0; i < expr->subs.n; i++) {
        const DtSub *sub = &expr->subs.at[i];
        if (sub->kind != DT_SUB_GROUP)
            continue;
        DtDiag *d =
            dt_report_error(l, E0204, sub->span,
                            "brackets after a value hold indices (`a = i`) or renames (`a -> b`)");
        dt_diag_note(d, "%s is %s", dt_report_subject(l, expr->a), dt_report_type(l, x));
        fix_index(l, d, sub, x);
        return false;
    }
    return true;
}

DtVal dt_index_eval(DtLower *l, const DtExpr *expr, DtVal x)
{
    if (!dt_val_check(l, &x, expr->a) || !only_entries(l, expr, &x))
        return dt_val_error();
    if (expr->subs.n == 0) {
        dt_report_error(l, E0204, expr->span, "the brackets are empty");
        return dt_val_error();
    }
    if (x.kind != DT_VAL_TENSOR) {
        dt_report_error(l, E0304, expr->span, "%s has no axes: it is %s",
                        dt_report_subject(l, expr->a), dt_report_type(l, &x));
        return dt_val_error();
    }
    Index *indices = DT_NEW_ARRAY(l->arena, Index, expr->subs.n + 1);
    uint32_t n = 0;
    l->now->frame->b.span = expr->span;
    if (!read_indices(l, expr, &x, indices, &n))
        return dt_val_error();
    DtValue *value = apply_indices(l, expr, indices, n, dt_val_tensor(l, &x));
    l->now->frame->b.span = expr->span;
    if (value)
        value = apply_relabels(l, expr, value);
    return value ? dt_val_of(l, value, x.weak) : dt_val_error();
}
