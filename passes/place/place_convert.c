/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: from one placement of a value to another.
 *
 * A conversion is a sequence of communication ops, each on one mesh axis (an all_reduce on
 * several), minor-most first:
 *
 *   shard           whole -> split         all_reduce  pending -> whole
 *   reduce_scatter  pending -> split       all_gather  split -> whole
 *   all_to_all      split -> split
 *
 * What makes a value smaller comes first. If a mesh axis must no longer split an axis, more minor
 * mesh axes on the same axis are moved away or gathered first. All copies of a value in different
 * placements form a ring, and a conversion starts from the copy from which it costs least: `wq`,
 * `wk` and `wv` share one gather. Values computed from constants and positions are computed again
 * instead; for a value that was expanded or renamed, the operand is converted. */
#include "passes/place/place_internal.h"

#include "base/intern.h"

#include <math.h>
#include <string.h>

DtPlaceInfo *dt_placeconvert_info(DtPlaceScope *s, const DtValue *value)
{
    while (s->info.n <= value->id)
        DT_PUSH(s->p->module->arena, s->info, (DtPlaceInfo){0});
    DtPlaceInfo *info = &s->info.at[value->id];
    if (!info->next)
        info->next = (DtValue *)(uintptr_t)value;
    return info;
}

/* Records that copy is the same value in another placement: links both in the circle of copies. */
static void join(DtPlaceScope *s, DtValue *value, DtValue *copy)
{
    DtPlaceInfo *b = dt_placeconvert_info(s, copy), *a = dt_placeconvert_info(s, value);
    b = dt_placeconvert_info(s, copy); /* the call before may have moved the list */
    DtValue *next = a->next;
    a->next = b->next;
    b->next = next;
    b->bound = a->bound;
    b->is_free = a->is_free;
}

const DtType *dt_placeconvert_rule(DtPlaceScope *s, const DtValue *value)
{
    const DtType *bound = dt_placeconvert_info(s, value)->bound;
    return bound ? bound : dt_placerule_of(s->p, value->type, NULL, 0);
}

/* ---- steps ---- */

typedef struct Step {
    DtOpKind kind;
    uint16_t mesh;
    const DtType *type; /* the type of the result */
} Step;

/* Whether the mesh axes that split b begin with those that split a, in the same order of blocks
 * (plain or zigzag). */
static bool is_prefix(const DtAxis *a, const DtAxis *b)
{
    if (a->n_split > b->n_split || (a->n_split && a->zigzag != b->zigzag))
        return false;
    for (uint32_t i = 0; i < a->n_split; i++)
        if (a->split[i] != b->split[i])
            return false;
    return true;
}

/* Returns the axis of `to` that mesh axis m splits next, after the splits that `from` has there
 * already; -1 if there is none. */
static int next_axis(const DtType *from, const DtType *to, uint32_t m)
{
    for (uint32_t d = 0; d < to->rank; d++) {
        uint32_t n = from->axes[d].n_split;
        if (is_prefix(&from->axes[d], &to->axes[d]) && n < to->axes[d].n_split &&
            to->axes[d].split[n] == m)
            return (int)d;
    }
    return -1;
}

/* Finds a mesh axis over which the value is whole (or, is_pending, a pending sum) and that splits
 * it in `to`. ret: that step. False if there is none. */
static bool add_split(const DtPlacer *p, const DtType *from, const DtType *to, bool is_pending,
                      Step *ret)
{
    for (uint32_t m = 0; m < p->module->mesh.n; m++) {
        int d = next_axis(from, to, m), state = dt_placerule_state(from, m);
        if (d < 0 || state != (is_pending ? DT_PLACE_PENDING : DT_PLACE_WHOLE))
            continue;
        if (is_pending && from->pending != DT_REDUCE_SUM)
            continue;
        *ret = (Step){is_pending ? DT_OP_REDUCE_SCATTER : DT_OP_SHARD, (uint16_t)(1u << m), NULL};
        DtAxis axes[DT_MAX_RANK];
        for (uint32_t i = 0; i < from->rank; i++)
            axes[i] = from->axes[i];
        axes[d].split[axes[d].n_split++] = (uint8_t)m;
        axes[d].zigzag = to->axes[d].zigzag;
        ret->type = dt_type_make(from->dtype, from->rank, axes,
                                 from->partial & (uint16_t)~ret->mesh, (DtReduce)from->pending);
        return true;
    }
    return false;
}

/* Finds an axis that loses a split. ret: the step that moves its last split to another axis by an
 * all_to_all (move), or gathers it. False if there is none. */
static bool drop_split(const DtType *from, const DtType *to, bool move, Step *ret)
{
    for (uint32_t d = 0; d < from->rank; d++) {
        if (is_prefix(&from->axes[d], &to->axes[d]))
            continue;
        uint32_t m = from->axes[d].split[from->axes[d].n_split - 1];
        int e = next_axis(from, to, m);
        if (move && e < 0)
            continue;
        DtAxis axes[DT_MAX_RANK];
        for (uint32_t i = 0; i < from->rank; i++)
            axes[i] = from->axes[i];
        axes[d].n_split--;
        if (move) {
            axes[e].split[axes[e].n_split++] = (uint8_t)m;
            axes[e].zigzag = to->axes[e].zigzag;
        }
        *ret = (Step){move ? DT_OP_ALL_TO_ALL : DT_OP_ALL_GATHER, (uint16_t)(1u << m), NULL};
        ret->type =
            dt_type_make(from->dtype, from->rank, axes, from->partial, (DtReduce)from->pending);
        return true;
    }
    return false;
}

/* Finds the first step of the conversion from one type to another. False if there is none but to
 * turn a whole value into a pending sum, which is on one rank. */
static bool next_step(const DtPlacer *p, const DtType *from, const DtType *to, Step *ret)
{
    if (add_split(p, from, to, false, ret) || add_split(p, from, to, true, ret) ||
        drop_split(from, to, true, ret))
        return true;
    uint16_t completed = from->partial & (uint16_t)~to->partial;
    for (uint32_t m = 0; m < p->module->mesh.n; m++)
        if (from->pending == DT_REDUCE_SUM && dt_placerule_state(to, m) >= 0)
            completed &= (uint16_t) ~(1u << m); /* a reduce_scatter completes this one once its axis
                                                 * can be split */
    if (completed) {
        *ret = (Step){DT_OP_ALL_REDUCE, completed, NULL};
        ret->type = dt_type_make(from->dtype, from->rank, from->axes,
                                 from->partial & (uint16_t)~completed, (DtReduce)from->pending);
        return true;
    }
    return drop_split(from, to, false, ret);
}

/* ---- costs ---- */

static double local_bytes(const DtPlacer *p, const DtType *type)
{
    return (double)dt_type_local_elements(type, &p->module->mesh) *
           (double)dt_dtype_size(type->dtype);
}

static double step_cost(const DtPlacer *p, const DtType *from, const Step *step)
{
    double n = 1, seconds = 0;
    for (uint32_t m = 0; m < p->module->mesh.n; m++)
        if (step->mesh >> m & 1) {
            n *= (double)p->module->mesh.axes[m].size;
            seconds = fmax(seconds, p->seconds[m]);
        }
    double part = (n - 1) / n * seconds;
    switch (step->kind) {
    case DT_OP_ALL_GATHER:
    case DT_OP_ALL_TO_ALL: return local_bytes(p, step->type) * part;
    case DT_OP_REDUCE_SCATTER: return local_bytes(p, from) * part;
    case DT_OP_ALL_REDUCE: return 2 * local_bytes(p, from) * part;
    default: return 0;
    }
}

/* Seconds of the conversion; infinite if it would have to cross a mesh axis of time. */
static double path_cost(const DtPlacer *p, const DtType *from, const DtType *to)
{
    double cost = 0;
    Step step;
    if ((dt_placerule_bits(from) ^ dt_placerule_bits(to)) & p->time ||
        (from->partial & (uint16_t)~to->partial & p->time))
        return INFINITY;
    if (from->partial && to->partial && from->pending != to->pending)
        return INFINITY;
    while (from != to && next_step(p, from, to, &step)) {
        cost += step_cost(p, from, &step);
        from = step.type;
    }
    return cost;
}

/* Whether the op only renames or reorders axes. */
static bool is_rename(const DtOp *op)
{
    bool ok = op->kind == DT_OP_RELABEL;
    for (uint32_t e = 0; ok && e < op->n_relabels; e++)
        ok = op->relabels[e].n_from == 1 && op->relabels[e].n_to == 1;
    return ok;
}

const char *dt_placeconvert_name_before(const DtOp *op, const char *axis)
{
    for (uint32_t e = 0; op->kind == DT_OP_RELABEL && e < op->n_relabels; e++)
        if (op->relabels[e].to[0] == axis)
            return op->relabels[e].from[0];
    return dt_type_find(op->in[0]->type, axis) >= 0 ? axis : NULL;
}

/* Returns the cost of converting the operand of an `expand` or rename, and doing the op after that,
 * instead of converting its result. */
static double cost_before(DtPlaceScope *s, const DtValue *value, uint32_t m, int state)
{
    const DtValue *x = value->op->in[0];
    const char *name =
        state >= 0 ? dt_placeconvert_name_before(value->op, value->type->axes[state].name) : NULL;
    if (state >= 0)
        state = name ? dt_type_find(x->type, name) : DT_PLACE_WHOLE;
    return dt_placeconvert_cost(s, x, m, state);
}

double dt_placeconvert_cost(DtPlaceScope *s, const DtValue *value, uint32_t m, int state)
{
    int now = dt_placerule_state(value->type, m);
    if (now == state || dt_placeconvert_info(s, value)->is_free)
        return 0;
    if (value->op && (value->op->kind == DT_OP_EXPAND || is_rename(value->op)))
        return cost_before(s, value, m, state);
    for (const DtValue *copy = dt_placeconvert_info(s, value)->next; copy != value;
         copy = dt_placeconvert_info(s, copy)->next) {
        int other = dt_placerule_state(copy->type, m);
        if (other == state || (other == DT_PLACE_WHOLE && state >= 0))
            return 0;
    }
    const DtType *whole = dt_placerule_with(s->p, value->type, m, DT_PLACE_WHOLE);
    double n = (double)s->p->module->mesh.axes[m].size,
           v = local_bytes(s->p, whole) * s->p->seconds[m] * (n - 1) / n;
    if (now == DT_PLACE_WHOLE)
        return 0;
    if (now == DT_PLACE_PENDING)
        return state == DT_PLACE_WHOLE ? 2 * v : v;
    return state == DT_PLACE_WHOLE ? v : v / n;
}

/* ---- making ---- */

/* Returns the type that operand i of op must have for the op's result to have this type. The op is
 * elementwise, an expansion or a renaming. */
static const DtType *operand_type(const DtOp *op, uint32_t i, const DtType *type)
{
    const DtType *x = op->in[i]->type;
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < x->rank; d++)
        axes[d] = (DtAxis){.name = x->axes[d].name, .extent = x->axes[d].extent};
    for (uint32_t k = 0; k < type->rank; k++) {
        const char *name =
            i == 0 ? dt_placeconvert_name_before(op, type->axes[k].name) : type->axes[k].name;
        int d = name ? dt_type_find(x, name) : -1;
        if (d < 0)
            continue;
        axes[d] = type->axes[k];
        axes[d].name = name;
    }
    return dt_type_make(x->dtype, x->rank, axes, type->partial, (DtReduce)type->pending);
}

/* Computes the value again in another placement, from converted operands: a value made of constants
 * and positions, or an expansion or renaming. */
static DtValue *remake(DtPlaceScope *s, DtValue *value, const DtType *type)
{
    const DtOp *op = value->op;
    DtOp draft = *op;
    DtValue made = *value, *made_at = &made;
    DtValue **in = DT_NEW_ARRAY(s->p->module->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = dt_placeconvert_to(s, op->in[i], operand_type(op, i, type));
    made.type = type;
    draft.out = &made_at;
    DtBuilder b = {.func = s->b.func, .span = op->span, .path = op->path};
    return dt_graph_copy(&b, &draft, in)->out[0];
}

static bool can_remake(DtPlaceScope *s, const DtValue *value, const DtType *type)
{
    if (!value->op || (type->partial & (uint16_t)~value->type->partial) ||
        ((value->type->partial & (uint16_t)~type->partial) & s->p->time))
        return false;
    return value->op->kind == DT_OP_EXPAND || is_rename(value->op) ||
           (dt_placeconvert_info(s, value)->is_free && !value->type->partial);
}

/* Names what x waits for over these mesh axes, as "sum over `ffn`": the reduction, and the axes
 * that it ran over. */
static const char *what_is_pending(const DtValue *x, uint16_t mesh)
{
    const char *kind = x->type->pending == DT_REDUCE_SUM   ? "sum"
                       : x->type->pending == DT_REDUCE_MAX ? "maximum"
                                                           : "minimum";
    while (x->op) {
        const DtOp *op = x->op;
        const DtValue *from = NULL;
        for (uint32_t i = 0; i < op->n_in && !from; i++)
            from = op->in[i]->type->partial & mesh ? op->in[i] : NULL;
        if (op->kind == DT_OP_LOOP)
            break;
        if (!from) {
            const bool scatters = op->kind == DT_OP_SCATTER_ADD;
            const char *axis = scatters && op->n_axes2   ? op->axes2[0]
                               : !scatters && op->n_axes ? op->axes[0]
                                                         : NULL;
            return !axis || *axis == '@'      ? dt_intern(kind)
                   : op->kind == DT_OP_GATHER ? dt_intern_printf("lookup in split `%s`", axis)
                                              : dt_intern_printf("%s over `%s`", kind, axis);
        }
        x = from;
    }
    return dt_intern(kind);
}

/* Returns the entry of a relabel that makes this axis; NULL if there is none. */
static const DtRelabel *maker_of(const DtOp *op, const char *axis)
{
    for (uint32_t e = 0; op->kind == DT_OP_RELABEL && e < op->n_relabels; e++)
        for (uint32_t i = 0; i < op->relabels[e].n_to; i++)
            if (op->relabels[e].to[i] == axis)
                return &op->relabels[e];
    return NULL;
}

static bool is_split_so(const DtValue *x, const char *axis, uint32_t m)
{
    int d = dt_placerule_state(x->type, m);
    return d >= 0 && x->type->axes[d].name == axis;
}

/* Whether m splits the axis of x only because it splits the values from which x was computed, by an
 * op that splits or merges axes; not because an exchange or a source split it. Arguments of a
 * function count as computed. */
static bool is_inherited(const DtValue *x, const char *axis, uint32_t m)
{
    while (x->op) {
        const DtRelabel *maker = maker_of(x->op, axis);
        if (maker && maker->n_from + maker->n_to > 2)
            return true;
        if (maker && maker->n_from)
            axis = maker->from[0];
        const DtValue *from = NULL;
        for (uint32_t i = 0; i < x->op->n_in && !from; i++)
            from = is_split_so(x->op->in[i], axis, m) ? x->op->in[i] : NULL;
        if (!from)
            return x->op->kind == DT_OP_LOOP || x->op->kind == DT_OP_CALL;
        x = from;
    }
    return true;
}

bool dt_placeconvert_are_parts(const char *axis)
{
    const size_t n = strlen(axis), end = strlen(DT_BLOCKS);
    return n > end && !strcmp(axis + n - end, DT_BLOCKS);
}

/* Reports an error if the step gathers an axis that no line names and that got its split from axes
 * from which it was split or merged. */
static void check_gather(DtPlaceScope *s, const DtValue *x, const Step *step)
{
    DtPlacer *p = s->p;
    for (uint32_t m = 0; m < p->module->mesh.n && !p->lazy; m++) {
        int d = step->mesh >> m & 1 ? dt_placerule_state(x->type, m) : -1;
        if (d < 0 || !dt_placerule_is_inherited(p, x->type->axes[d].name, m) ||
            dt_placeconvert_are_parts(x->type->axes[d].name) ||
            !is_inherited(x, x->type->axes[d].name, m))
            continue;
        const char *axis = x->type->axes[d].name, *mesh = p->module->mesh.axes[m].name;
        DtDiag *diag = dt_placerefuse_at(
            p, E0594, s->b.span,
            dt_arena_printf(
                p->module->arena,
                "`%s` is split over `%s` and needed whole here, and no `shard` line says so", axis,
                mesh));
        dt_placerefuse_call(diag, s->op);
        dt_diag_note(diag, "`%s` was made by splitting or merging axes that are split over `%s`",
                     axis, mesh);
        dt_diag_note(diag, "needed whole: %s", s->why ? s->why : "a result");
        dt_diag_help(diag,
                     "split another axis over `%s`; or add `shard %s on %s` if every rank is to "
                     "receive all of it",
                     mesh, axis, mesh);
        return;
    }
}

static DtValue *make_step(DtPlaceScope *s, DtValue *x, const Step *step)
{
    if (step->kind == DT_OP_ALL_GATHER)
        check_gather(s, x, step);
    DtValue *y = dt_graph_comm(&s->b, step->kind, x, step->mesh, step->type);
    y->name = x->name;
    y->op->text = s->why ? dt_intern(s->why) : NULL;
    if (step->kind == DT_OP_ALL_REDUCE || step->kind == DT_OP_REDUCE_SCATTER) {
        y->op->reduce = (DtReduce)x->type->pending;
        y->op->text = what_is_pending(x, step->mesh);
    }
    return y;
}

DtValue *dt_placeconvert_to(DtPlaceScope *s, DtValue *value, const DtType *type)
{
    DtValue *from = value;
    double least = path_cost(s->p, value->type, type);
    for (DtValue *copy = dt_placeconvert_info(s, value)->next; copy != value;
         copy = dt_placeconvert_info(s, copy)->next) {
        if (copy->type == type)
            return copy;
        double cost = path_cost(s->p, copy->type, type);
        if (cost < least) {
            least = cost;
            from = copy;
        }
    }
    if (value->type == type)
        return value;
    if (can_remake(s, value, type)) {
        DtValue *made = remake(s, value, type);
        join(s, value, made);
        return made;
    }
    Step step;
    while (from->type != type && next_step(s->p, from->type, type, &step)) {
        DtValue *next = make_step(s, from, &step);
        join(s, from, next);
        from = next;
    }
    uint16_t kept = type->partial & (uint16_t)~from->type->partial;
    if (kept) {
        DtValue *first = dt_placelazy_keep_first(s, from, kept);
        join(s, from, first);
        from = first;
    }
    return from;
}
