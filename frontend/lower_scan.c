/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with a result for every position of an axis, each computed from earlier positions:
 * scans.
 *
 *   fn linear_attention[t, d, e](q[..., t, d], k[..., t, d], v[..., t, e]) -> [..., t, e] {
 *     h = k[t = 0] * v[t = 0] * 0
 *     repeat i in t { h = h + k[t = i] * v[t = i]; y[t = i] = q[t = i] @d h }
 *     return y                                     # the meaning: position by position
 *     scan[t = 64] { return k @t v }               # the part of a block of 64 positions
 *     emit(h) {                                    # its results, after blocks whose part is h
 *       past = where(iota[t][t -> u] <= iota[t], q @d k[t -> u], 0)
 *       return q @d h + past @u v[t -> u]
 *     }
 *   }
 *
 * The body becomes a function that is only used for comparison (DtFunc.meant). The computation has
 * the axis in blocks:
 *
 *   x            = relabel x[t -> (t.blocks, t.block)]     arguments with the axis
 *   part         = scan                                    of all blocks at once
 *   prefix, last = loop over t.blocks: h                   each iteration merges one part, from
 *   `neutral` on
 *   y            = emit(prefix)                            of all blocks at once
 *
 * So the number of sequential steps is that of blocks, for derivatives too. If ranks share the
 * axis, each has whole blocks, and only the parts are gathered. A shorter block after the last
 * whole one is computed separately, from `last`. In the clauses the axis is that of a block. */
#include "frontend/lower_internal.h"

#include "base/intern.h"

enum { LENGTH = 64 }; /* positions in a block, if the clause does not say */

typedef struct Scan {
    DtLower *l;
    DtFrame *home;
    const DtStmt *const *clauses;
    const DtBound *bound;
    DtVal *args; /* the function's arguments as the clauses see them, in the new frame */
    const char *axis, *block, *blocks;
    int64_t extent, length, count, rest; /* the axis: `count` blocks of equal length, then `rest`
                                          * positions */
    DtVal *results;
    const DtType **types; /* types of results */
    uint32_t n_results;
    /* by number of the part: its values for all blocks; the state before the block that is
     * evaluated */
    DtValue **part, **prefix;
    const DtType **parts;     /* types of one block's part */
    const DtType **made;      /* the parts of all blocks, as `scan` returns them */
    uint32_t n_parts;
} Scan;

/* ---- clauses ---- */

static bool wrong(DtLower *l, const DtStmt *stmt, const char *what)
{
    dt_report_error(l, E0221, stmt->span, "%s", what);
    return false;
}

static bool check_clauses(DtLower *l)
{
    const DtStmt *const *clauses = l->now->clauses;
    const DtStmt *emit = clauses[DT_CLAUSE_EMIT], *scan = clauses[DT_CLAUSE_STREAM];
    if (scan->name.text != dt_intern("scan"))
        return wrong(
            l, scan,
            "what has an `emit` goes along the axis in order: it is a `scan`, not a `stream`");
    if (clauses[DT_CLAUSE_FINISH])
        return wrong(l, clauses[DT_CLAUSE_FINISH],
                     "`emit` gives the results, and `finish` would give them again");
    if (clauses[DT_CLAUSE_GRADIENT])
        return wrong(l, clauses[DT_CLAUSE_GRADIENT],
                     "the gradient of a function with `emit` is derived from its blocks");
    if (clauses[DT_CLAUSE_MERGE] && !clauses[DT_CLAUSE_NEUTRAL])
        return wrong(
            l, emit,
            "with its own `merge`, a function with `emit` says what stands before the first block: "
            "`neutral() { return ... }`");
    return true;
}

static bool find_axis(Scan *s, const DtStmt *stmt)
{
    DtLower *l = s->l;
    DtAxisNames names = {0};
    for (uint32_t i = 0; i < stmt->axes.n; i++)
        if (!dt_axes_name(l, stmt->axes.at[i], &names))
            return false;
    if (names.n != 1)
        return wrong(l, stmt, "a function goes along one axis");
    s->axis = names.at[0];
    s->extent = 0;
    for (uint32_t i = 0; i < s->n_results; i++) {
        const DtVal *v = &s->results[i];
        const DtType *type = v->kind == DT_VAL_TENSOR ? v->tensor.value->type : NULL;
        if (!type || !dt_dtype_is_float(type->dtype) || dt_type_find(type, s->axis) < 0) {
            dt_report_error(
                l, E0221, l->now->returned_span,
                "a function with `emit` makes floats with the axis `%s`, and `%s` returns %s",
                s->axis, l->now->def->name.text, dt_report_type(l, v));
            return false;
        }
        s->types[i] = type;
        s->extent = dt_type_extent(type, s->axis);
    }
    return s->extent > 0;
}

/* Whether each tensor in v that has the scan's axis has it in its full extent. */
static bool is_as_long(const Scan *s, const DtVal *v)
{
    const int64_t extent =
        v->kind == DT_VAL_TENSOR ? dt_type_extent(v->tensor.value->type, s->axis) : -1;
    bool is = extent < 0 || extent == s->extent;
    for (uint32_t i = 0; v->kind == DT_VAL_TUPLE && i < v->tuple.n; i++)
        is = is && is_as_long(s, &v->tuple.at[i]);
    return is;
}

/* Checks that the arguments and results that have the scan's axis have it in one extent, so that
 * they have equally many blocks; reports it if not. */
static bool check_extents(Scan *s, const DtStmt *stmt)
{
    const DtDef *def = s->l->now->def;
    bool is = true;
    for (uint32_t i = 0; i < s->n_results; i++)
        is = is && is_as_long(s, &s->results[i]);
    for (uint32_t i = 0; i < def->formals.n; i++)
        is = is && is_as_long(s, &s->bound[i].val);
    if (!is)
        dt_report_error(s->l, E0221, stmt->span,
                        "arguments and results of `%s` have different extents of `%s`",
                        def->name.text, s->axis);
    return is;
}

static bool find_length(Scan *s, const DtStmt *stmt)
{
    s->length = LENGTH;
    if (stmt->value && !dt_expr_int(s->l, stmt->value, "the length of a block", &s->length))
        return false;
    if (s->length < 1)
        return wrong(s->l, stmt, "a block has one position at least");
    for (int64_t length = s->length; length < s->extent && length * 2 >= s->length; length--)
        if (s->extent % length == 0) {
            s->length = length;
            break;
        }
    s->count = s->extent > s->length ? s->extent / s->length : 0;
    s->rest = s->extent - s->count * s->length;
    /* another axis of the same name may be longer, and have other blocks */
    s->blocks = dt_intern_printf("%s.%lld" DT_BLOCKS, s->axis, (long long)s->length);
    s->block = dt_intern_printf("%s.%lld.block", s->axis, (long long)s->length);
    return true;
}

/* ---- the function anew ---- */

/* Moves the ops lowered so far to a function "@NAME.meant": they define the result that the blocks
 * of the scan must compute. */
static bool set_aside(Scan *s)
{
    DtFunc *func = s->home->func;
    DtFunc *meant =
        dt_graph_func(func->module, dt_intern_printf("@%s.meant", func->name), DT_FUNC_FN);
    dt_frame_finish(s->l, s->home);
    meant->span = func->span;
    meant->inputs = func->inputs;
    meant->ops = func->ops;
    meant->results = func->results;
    meant->n_args = func->n_args;
    meant->n_returns = func->n_returns;
    meant->n_values = func->n_values;
    func->inputs.at = NULL;
    func->inputs.n = func->inputs.cap = 0;
    func->ops.at = NULL;
    func->ops.n = func->ops.cap = 0;
    func->results.at = NULL;
    func->results.n = func->results.cap = 0;
    func->n_values = 0;
    func->meant = meant;
    s->home->args.n = 0;
    if (dt_memo_draws(meant))
        return wrong(s->l, s->clauses[DT_CLAUSE_EMIT],
                     "a function with `emit` draws no random numbers");
    return true;
}

/* ---- blocks ---- */

static DtRelabel splitting(const Scan *s)
{
    return (DtRelabel){.n_from = 1,
                       .n_to = 2,
                       .from = {s->axis},
                       .to = {s->blocks, s->block},
                       .to_extent = {s->count, s->length}};
}

/* Returns the type with the scan's axis cut into an axis of blocks and one of a block's positions,
 * or (rest) with the axis of the positions after the last whole block. */
static const DtType *in_blocks(const Scan *s, const DtType *type, bool rest)
{
    DtAxis axes[DT_MAX_RANK + 1];
    uint32_t n = 0;
    for (uint32_t d = 0; d < type->rank; d++) {
        if (type->axes[d].name != s->axis) {
            axes[n++] = type->axes[d];
            continue;
        }
        if (!rest)
            axes[n++] = (DtAxis){.name = s->blocks, .extent = s->count};
        axes[n++] = (DtAxis){.name = s->block, .extent = rest ? s->rest : s->length};
    }
    return dt_type_plain(type->dtype, n, axes);
}

static bool has_room(const Scan *s, const DtType *type)
{
    return dt_type_find(type, s->axis) < 0 || type->rank < DT_MAX_RANK;
}

static DtValue *blocks_of(const Scan *s, DtValue *x, bool rest)
{
    DtBuilder *b = &s->home->b;
    const DtType *type = in_blocks(s, x->type, rest);
    if (type == x->type)
        return x;
    const int64_t first = rest ? s->count * s->length : 0,
                  n = rest ? s->rest : s->count * s->length;
    if (n < s->extent)
        x = dt_graph_slice(b, x, s->axis, first, 1, n);
    const DtRelabel entry = splitting(s);
    return rest ? dt_graph_rename(b, x, s->axis, s->block, type)
                : dt_graph_relabel(b, x, 1, &entry, type);
}

/* Returns in ret_view an argument as the clauses see it: cut into blocks, or the rest. False if it
 * has too many axes. */
static bool view_of(Scan *s, const DtVal *v, bool rest, DtVal *ret_view)
{
    *ret_view = *v;
    bool ok = true;
    if (v->kind == DT_VAL_TENSOR && (ok = has_room(s, v->tensor.value->type)))
        *ret_view = dt_val_of(s->l, blocks_of(s, v->tensor.value, rest), v->weak);
    if (v->kind != DT_VAL_TUPLE)
        return ok;
    DtVal *items = DT_NEW_ARRAY(s->l->arena, DtVal, v->tuple.n + 1);
    for (uint32_t i = 0; ok && i < v->tuple.n; i++)
        ok = view_of(s, &v->tuple.at[i], rest, &items[i]);
    *ret_view = dt_val_tuple(s->l, items, v->tuple.n);
    return ok;
}

static bool has_axis(const Scan *s, const DtVal *v)
{
    bool has = v->kind == DT_VAL_TENSOR && dt_type_find(v->tensor.value->type, s->axis) >= 0;
    for (uint32_t i = 0; v->kind == DT_VAL_TUPLE && i < v->tuple.n; i++)
        has = has || has_axis(s, &v->tuple.at[i]);
    return has;
}

/* ---- clauses ---- */

typedef enum Sees { WITHOUT_AXIS, BLOCKS, REST } Sees;

/* Begins the evaluation of a clause in this frame: binds the function's arguments as the clause
 * sees them. False after a report. */
static bool enter(Scan *s, DtFrame *frame, Sees sees)
{
    DtLower *l = s->l;
    const DtDef *def = l->now->def;
    DtScope *scope = DT_NEW(l->arena, DtScope);
    *scope = (DtScope){.frame = frame};
    l->now->frame = s->home; /* views of arguments are made in this frame */
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtName name = def->formals.at[i].name;
        DtVal val = s->args[i];
        if (!name.text || (sees == WITHOUT_AXIS && has_axis(s, &val)))
            continue;
        if (sees != WITHOUT_AXIS && !view_of(s, &s->args[i], sees == REST, &val)) {
            dt_report_error(l, E0312, name.span, "with its blocks, `%s` has more than %d axes",
                            name.text, DT_MAX_RANK);
            return false;
        }
        DT_PUSH(l->arena, scope->names,
                ((DtBinding){.name = name.text, .val = val, .span = name.span}));
    }
    for (uint32_t i = 0; i < l->now->extents.n; i++)
        if (l->now->extents.at[i].name == s->block)
            l->now->extents.at[i].extent = sees == REST ? s->rest : s->length;
    frame->labels.n = 0; /* names of loops that ended: each clause has its own */
    frame->label_at = (DtMap){.arena = l->arena};
    l->now->frame = frame;
    l->now->scope = scope;
    l->now->has_returned = false;
    l->now->in_clause = true;
    return true;
}

static bool check_names(Scan *s, const DtStmt *stmt, uint32_t n)
{
    if (stmt->targets.n == n)
        return true;
    dt_report_error(s->l, E0221, stmt->span,
                    "`%s` names %u value%s, and the part of a block is %u%s", stmt->name.text,
                    stmt->targets.n, stmt->targets.n == 1 ? "" : "s", s->n_parts,
                    n > s->n_parts ? ", which it gets of two" : "");
    return false;
}

static const DtType *without(const DtType *type, const char *axis)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name != axis)
            axes[n++] = type->axes[i];
    return dt_type_plain(type->dtype, n, axes);
}

/* Returns the type with the axis of blocks in front, as a loop over blocks needs it. */
static const DtType *of_blocks(const Scan *s, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK + 1] = {{.name = s->blocks, .extent = s->count}};
    for (uint32_t i = 0; i < type->rank; i++)
        axes[1 + i] = type->axes[i];
    return dt_type_plain(type->dtype, type->rank + 1u, axes);
}

/* Evaluates the clause `scan` for the parts of all blocks (or, if no block is whole, of the
 * remaining positions), and records the parts and their types. False after a report. */
static bool lower_part(Scan *s)
{
    DtLower *l = s->l;
    const DtStmt *stmt = s->clauses[DT_CLAUSE_STREAM];
    const DtVal *items;
    if (!enter(s, s->home, s->count ? BLOCKS : REST) ||
        !dt_clause_run(l, stmt, "what a block gives", 0, &items, &s->n_parts))
        return false;
    s->parts = DT_NEW_ARRAY(l->arena, const DtType *, s->n_parts);
    s->made = DT_NEW_ARRAY(l->arena, const DtType *, s->n_parts);
    s->part = DT_NEW_ARRAY(l->arena, DtValue *, s->n_parts);
    s->prefix = DT_NEW_ARRAY(l->arena, DtValue *, s->n_parts);
    for (uint32_t i = 0; i < s->n_parts; i++) {
        const DtType *type = items[i].kind == DT_VAL_TENSOR ? items[i].tensor.value->type : NULL;
        if (!type || !dt_dtype_is_float(type->dtype) || dt_type_find(type, s->block) >= 0) {
            dt_report_error(l, E0221, l->now->returned_span,
                            "a part is made of float tensors without the axis `%s`, and this is %s",
                            s->axis, dt_report_type(l, &items[i]));
            return false;
        }
        s->parts[i] = without(type, s->blocks);
        s->part[i] = dt_val_tensor(l, &items[i]);
        s->made[i] = s->part[i]->type;
        if (s->count && s->parts[i]->rank == DT_MAX_RANK)
            return wrong(l, stmt, "with its blocks, a part has too many axes");
        if (s->count)
            s->part[i] = dt_graph_fit(&s->home->b, s->part[i], of_blocks(s, s->parts[i]));
    }
    return true;
}

/* Sets s->prefix to the state before the first block: zeros, or what the clause `neutral` gives.
 * False after a report. */
static bool lower_neutral(Scan *s)
{
    const DtStmt *stmt = s->clauses[DT_CLAUSE_NEUTRAL];
    DtVal zero = dt_val_float(0);
    const DtVal *items = NULL;
    uint32_t n;
    if (!enter(s, s->home, WITHOUT_AXIS) ||
        (stmt && !dt_clause_run(s->l, stmt, "as many as a part has, in their order", s->n_parts,
                                &items, &n)))
        return false;
    for (uint32_t i = 0; i < s->n_parts; i++) {
        s->prefix[i] = dt_clause_fitted(s->l, stmt ? stmt : s->clauses[DT_CLAUSE_EMIT], s->home,
                              stmt ? &items[i] : &zero, s->parts[i]);
        if (!s->prefix[i])
            return false;
    }
    return true;
}

/* Evaluates the clause `merge` for two blocks' parts in this frame; without the clause the parts
 * are added. False after a report. */
static bool lower_merge(Scan *s, DtFrame *frame, DtValue *const *before, DtValue *const *part,
                        DtValue **ret_both)
{
    const DtStmt *stmt = s->clauses[DT_CLAUSE_MERGE];
    const DtVal *items;
    uint32_t n;
    if (!stmt) {
        for (uint32_t i = 0; i < s->n_parts; i++)
            ret_both[i] = dt_graph_binary(&frame->b, DT_OP_ADD, before[i], part[i]);
        return true;
    }
    if (!enter(s, frame, WITHOUT_AXIS) || !check_names(s, stmt, 2 * s->n_parts))
        return false;
    for (uint32_t i = 0; i < 2 * s->n_parts; i++)
        if (!dt_clause_name(
                s->l, stmt, i,
                dt_val_of(s->l, i < s->n_parts ? before[i] : part[i - s->n_parts], false)))
            return false;
    if (!dt_clause_run(s->l, stmt, "as many as a part has, in their order", s->n_parts, &items, &n))
        return false;
    for (uint32_t i = 0; i < s->n_parts; i++) {
        ret_both[i] = dt_clause_fitted(s->l, stmt, frame, &items[i], s->parts[i]);
        if (!ret_both[i])
            return false;
    }
    return true;
}

/* Reorders the axes of a prefix as in the parts of blocks. What `emit` computes from it keeps
 * that order, and a value that a loop in `emit` carries then needs no reordering in each
 * iteration. */
static DtValue *like_part(Scan *s, uint32_t i, DtValue *prefix)
{
    const bool is_alike = s->made[i]->rank == prefix->type->rank;
    return is_alike ? dt_graph_reorder(&s->home->b, prefix, s->made[i]) : prefix;
}

/* Makes the loop over blocks that computes the state before each block, into s->prefix. ret_last:
 * the state after the last block. False after a report. */
static bool lower_loop(Scan *s, DtValue **ret_last)
{
    DtLower *l = s->l;
    const uint32_t n = s->n_parts;
    const char *label = dt_intern("blocks");
    DtFrame *body = dt_frame_new(l, s->home, dt_intern_printf("%s.blocks", s->home->func->name),
                                 DT_FUNC_BODY, s->clauses[DT_CLAUSE_EMIT]->span);
    DtValue **before = DT_NEW_ARRAY(l->arena, DtValue *, n),
            **part = DT_NEW_ARRAY(l->arena, DtValue *, n),
            **both = DT_NEW_ARRAY(l->arena, DtValue *, n);
    body->count = s->count;
    dt_frame_arg(l, body, dt_type_scalar(DT_I32), label);
    for (uint32_t i = 0; i < n; i++)
        before[i] = dt_frame_arg(l, body, s->parts[i], NULL);
    for (uint32_t i = 0; i < n; i++) {
        DtElement e = {.outer = s->part[i], .home = s->home, .axis = s->blocks, .mul = 1};
        part[i] = e.inner = dt_frame_input(l, body, s->parts[i], NULL);
        DT_PUSH(l->arena, body->elements, e);
    }
    if (!lower_merge(s, body, before, part, both))
        return false;
    for (uint32_t i = 0; i < n; i++)
        dt_graph_return(body->func, both[i]);
    for (uint32_t i = 0; i < n; i++)
        dt_graph_return(body->func, before[i]);
    dt_frame_finish(l, body);
    DtValue **in = DT_NEW_ARRAY(l->arena, DtValue *, body->func->inputs.n + 1);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        in[at++] = s->prefix[i];
    for (uint32_t i = 0; i < body->captures.n; i++)
        in[at++] =
            dt_frame_import(l, s->home, body->captures.at[i].outer, body->captures.at[i].frame);
    for (uint32_t i = 0; i < n; i++)
        in[at++] = s->part[i];
    DtLoop loop = {.label = label,
                   .axis = s->blocks,
                   .count = s->count,
                   .n_carried = n,
                   .n_invariant = body->captures.n,
                   .n_stacked = n,
                   .n_stacked_out = n};
    const DtOp *op = dt_graph_loop(&s->home->b, body->func, loop, in);
    for (uint32_t i = 0; i < n; i++) {
        ret_last[i] = op->out[i];
        s->prefix[i] = like_part(s, i, op->out[n + i]);
    }
    return true;
}

/* Evaluates the clause `emit` for all blocks, or for the rest, and returns its results with their
 * blocks merged and their axes in order. False after a report. */
static bool lower_emit(Scan *s, bool rest, DtValue **ret_results)
{
    DtLower *l = s->l;
    DtBuilder *b = &s->home->b;
    const DtStmt *stmt = s->clauses[DT_CLAUSE_EMIT];
    const DtVal *items;
    uint32_t n;
    if (!enter(s, s->home, rest ? REST : BLOCKS) || !check_names(s, stmt, s->n_parts))
        return false;
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (!dt_clause_name(l, stmt, i, dt_val_of(l, s->prefix[i], false)))
            return false;
    if (!dt_clause_run(l, stmt, "as many as there are results, in their order", s->n_results,
                       &items, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!has_room(s, s->types[i]))
            return wrong(l, stmt, "with its blocks, a result has too many axes");
        DtValue *x = dt_clause_fitted(l, stmt, s->home, &items[i], in_blocks(s, s->types[i], rest));
        if (!x)
            return false;
        const DtRelabel entry = {.n_from = 2,
                                 .n_to = 1,
                                 .from = {s->blocks, s->block},
                                 .to = {s->axis},
                                 .to_extent = {s->count * s->length}};
        DtAxis axes[DT_MAX_RANK];
        for (uint32_t d = 0; d < s->types[i]->rank; d++) {
            axes[d] = s->types[i]->axes[d];
            if (axes[d].name == s->axis)
                axes[d].extent = rest ? s->rest : s->count * s->length;
        }
        const DtType *type = dt_type_plain(s->types[i]->dtype, s->types[i]->rank, axes);
        ret_results[i] = rest ? dt_graph_rename(b, x, s->block, s->axis, type)
                              : dt_graph_relabel(b, x, 1, &entry, type);
    }
    return true;
}

/* ---- all of it ---- */

/* Makes the name of the scan's axis mean the axis of a block, for the evaluation of the clauses. */
static void name_blocks(Scan *s)
{
    DtLower *l = s->l;
    DtActivation *now = l->now;
    DtAxisLists axes = {0};
    for (uint32_t i = 0; i < now->axes.n; i++) {
        DtAxisList list = {.span = now->axes.at[i].span};
        for (uint32_t k = 0; k < now->axes.at[i].names.n; k++) {
            const char *name = now->axes.at[i].names.at[k];
            DT_PUSH(l->arena, list.names, name == s->axis ? s->block : name);
        }
        DT_PUSH(l->arena, axes, list);
    }
    now->axes = axes;
    DtGlobal *global = DT_NEW(l->arena, DtGlobal);
    *global = (DtGlobal){.kind = DT_GLOBAL_AXIS,
                         .name = s->block,
                         .span = now->def->name.span,
                         .state = 2,
                         .used = true};
    DT_PUSH(l->arena, l->made_up, global);
    const DtAxis own = {.name = s->block, .extent = s->length};
    DT_PUSH(l->arena, now->extents, own);
}

static bool lower(Scan *s)
{
    DtLower *l = s->l;
    const DtDef *def = l->now->def;
    DtBuilder *b = &s->home->b;
    DtValue **blocks = DT_NEW_ARRAY(l->arena, DtValue *, s->n_results),
            **rest = DT_NEW_ARRAY(l->arena, DtValue *, s->n_results);
    s->args = DT_NEW_ARRAY(l->arena, DtVal, def->formals.n + 1);
    for (uint32_t i = 0; i < def->formals.n; i++)
        s->args[i] = dt_frame_args(l, s->home, &s->bound[i].val, def->formals.at[i].name.text);
    if (!lower_part(s) || !lower_neutral(s))
        return false;
    DtValue **last = DT_NEW_ARRAY(l->arena, DtValue *, s->n_parts),
            **unread = DT_NEW_ARRAY(l->arena, DtValue *, s->n_parts);
    for (uint32_t i = 0; i < s->n_parts; i++)
        last[i] = s->prefix[i];
    if (s->count && (!lower_loop(s, last) || !lower_emit(s, false, blocks)))
        return false;
    /* errors of the clause are reported */
    if (!s->count && !lower_merge(s, s->home, s->prefix, s->part, unread))
        return false;
    s->prefix = last;
    if (s->rest && !lower_emit(s, true, rest))
        return false;
    for (uint32_t i = 0; i < s->n_results; i++) {
        DtValue *const in[] = {blocks[i], rest[i]};
        DtValue *x = !s->rest    ? blocks[i]
                     : !s->count ? rest[i]
                                 : dt_graph_concat(b, s->axis, 2, in);
        s->results[i].tensor.value = dt_graph_reorder(b, x, s->types[i]);
        dt_graph_return(s->home->func, s->results[i].tensor.value);
    }
    return true;
}

bool dt_scan_lower(DtLower *l, const DtBound *bound, DtVal *results, uint32_t n_results)
{
    const DtActivation kept = *l->now;
    const uint32_t made_up = l->made_up.n;
    Scan scan = {.l = l,
                 .home = kept.frame,
                 .bound = bound,
                 .clauses = kept.clauses,
                 .results = results,
                 .n_results = n_results};
    scan.types = DT_NEW_ARRAY(l->arena, const DtType *, n_results + 1);
    const DtStmt *stmt = kept.clauses[DT_CLAUSE_STREAM];
    bool ok = check_clauses(l) && find_axis(&scan, stmt) && check_extents(&scan, stmt) &&
              find_length(&scan, stmt) && set_aside(&scan);
    if (ok) {
        name_blocks(&scan);
        ok = lower(&scan);
    }
    *l->now = kept;
    l->made_up.n = made_up;
    return ok;
}
