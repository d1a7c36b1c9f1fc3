/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: what the `shard` lines cost without need. Lints, drawn from the placed program:
 *
 *   L0510  a mesh axis moves to another axis and back: the two are one name in two roles
 *            x @embed router[embed, experts]        router[embed, route], `dim route = experts`
 *   L0520  mesh axes of one axis are in an order in which minor ones must make way for a major one
 *            shard batch on expert, data                    shard batch on data, expert
 *   L0521  an argument is renamed and gathered, and then becomes smaller
 *            wk:linear[embed, kv](x[seq -> kseq])           wk:linear[embed, kv](x)[seq -> kseq]
 *   L0524  a loop goes along an axis that a line splits: every rank runs all iterations
 *
 * Each lint is drawn once per line of the program. */
#include "passes/place/place_internal.h"

#include <string.h>

enum { MOST_READERS = 256 };

typedef struct Seen {
    DtDiagCode code;
    DtSpan span;
} Seen;

typedef struct Lint {
    const DtPlacer *p;
    DT_VEC(Seen) seen;
    DT_VEC(const DtFunc *) funcs;
} Lint;

/* A function being checked. By value id: stores: the parameter that the value is (perhaps moved or
 * cast), or NULL; readers[first[id] .. first[id + 1]]: the ops that read it. */
typedef struct Scope {
    Lint *lint;
    const DtFunc *func;
    const DtStore **stores;
    const DtOp **readers;
    uint32_t *first;
} Scope;

static bool is_new(Lint *lint, DtDiagCode code, DtSpan span)
{
    for (uint32_t i = 0; i < lint->seen.n; i++)
        if (lint->seen.at[i].code == code &&
            memcmp(&lint->seen.at[i].span, &span, sizeof span) == 0)
            return false;
    DT_PUSH(lint->p->module->arena, lint->seen, ((Seen){code, span}));
    return true;
}

static bool splits(const DtType *type, const char *axis, uint32_t m)
{
    int d = dt_placerule_state(type, m);
    return d >= 0 && type->axes[d].name == axis;
}

/* Returns the name of the axis that mesh axis m splits; NULL if there is none. */
static const char *split_by(const DtType *type, uint32_t m)
{
    int d = dt_placerule_state(type, m);
    return d >= 0 ? type->axes[d].name : NULL;
}

static uint32_t mesh_of(const DtOp *op)
{
    uint32_t m = 0;
    while (op->mesh >> m > 1)
        m++;
    return m;
}

static bool is_comm(const DtOp *op)
{
    return op && dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->n_in == 1 &&
           op->n_out == 1 && op->kind != DT_OP_SHIFT;
}

/* Whether op is an all_gather or all_to_all of a single mesh axis, which takes the mesh axis from
 * the axis that it split. */
static bool takes_away(const DtOp *op)
{
    return is_comm(op) && (op->kind == DT_OP_ALL_GATHER || op->kind == DT_OP_ALL_TO_ALL) &&
           op->mesh == 1u << mesh_of(op);
}

static double bytes_of(const Lint *lint, const DtType *type)
{
    return (double)dt_type_local_elements(type, &lint->p->module->mesh) *
           (double)dt_dtype_size(type->dtype);
}

/* Returns the bytes that a rank receives in an all_gather or all_to_all. */
static double cost_of(const Lint *lint, const DtOp *op)
{
    double n = (double)lint->p->module->mesh.axes[mesh_of(op)].size;
    return bytes_of(lint, op->out[0]->type) * (n - 1) / n;
}

/* Returns the line of the program without a place that splits the axis by m; NULL if there is
 * none. */
static const DtPlaceLine *line_of(const DtPlacer *p, const char *axis, uint32_t m)
{
    for (uint32_t i = 0; i < p->n_written; i++)
        for (uint32_t k = 0; k < p->lines.at[i].n_axes; k++)
            for (uint32_t s = 0; s < p->lines.at[i].n_mesh; s++)
                if (!p->lines.at[i].n_place && p->lines.at[i].axes[k] == axis &&
                    p->lines.at[i].mesh[s] == m)
                    return &p->lines.at[i];
    return NULL;
}

static const char *in_units(const Lint *lint, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    uint32_t u = 0;
    for (; bytes >= 1024 && u + 1 < DT_COUNT(units); u++)
        bytes /= 1024;
    return dt_arena_printf(lint->p->module->arena, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
}

/* ---- L0510 ---- */

/* Whether value, or a map of it, is later converted so that m no longer splits this axis. left:
 * number of readers that the search may still visit. */
static bool moves_back(const Scope *s, const DtValue *value, const char *axis, uint32_t m,
                       uint32_t *left)
{
    for (uint32_t i = s->first[value->id]; i < s->first[value->id + 1] && *left; i++) {
        const DtOp *op = s->readers[i];
        --*left;
        if (takes_away(op) && mesh_of(op) == m)
            return true;
        if (op->n_out == 1 && dt_op_info[op->kind].op_class == DT_CLASS_MAP &&
            splits(op->out[0]->type, axis, m) && moves_back(s, op->out[0], axis, m, left))
            return true;
    }
    return false;
}

static const DtStore *largest_parameter(const Scope *s, const DtOp *op, uint32_t m,
                                        double *ret_bytes)
{
    const DtStore *largest = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtStore *store = s->stores[op->in[i]->id];
        double bytes =
            bytes_of(s->lint, dt_placerule_with(s->lint->p, op->in[i]->type, m, DT_PLACE_WHOLE));
        if (store && (!largest || bytes > *ret_bytes)) {
            largest = store;
            *ret_bytes = bytes;
        }
    }
    return largest;
}

static void check_move(const Scope *s, const DtOp *op, const DtOp *comm)
{
    Lint *lint = s->lint;
    const DtMesh *mesh = &lint->p->module->mesh;
    uint32_t m = mesh_of(comm);
    const char *from = split_by(comm->in[0]->type, m), *to = split_by(op->out[0]->type, m);
    double parameter = 0, cost = cost_of(lint, comm);
    uint32_t left = MOST_READERS;
    const DtPlaceLine *line = to ? line_of(lint->p, to, m) : NULL;
    if (!from || from == to || !line || !line_of(lint->p, from, m))
        return;
    const DtStore *store = largest_parameter(s, op, m, &parameter);
    if (!store || cost <= parameter || !moves_back(s, op->out[0], to, m, &left) ||
        !is_new(lint, L0510, op->span))
        return;
    DtDiag *diag = dt_diag_report(lint->p->module->diags, L0510, op->span,
                                  "`%s` moves from `%s` to `%s` here and is moved back behind it",
                                  mesh->axes[m].name, from, to);
    dt_placerefuse_call(diag, op);
    dt_diag_label(diag, line->span, "`%s` is split by this line wherever it occurs", to);
    dt_diag_note(diag, "each rank receives %s for it; `%s` has %s", in_units(lint, cost),
                 store->path, in_units(lint, parameter));
    dt_diag_help(diag,
                 "names are roles: give this `%s` a name that no line splits, `dim %s_2 = %s`", to,
                 to, to);
}

/* ---- L0520 ---- */

/* Reports a line that makes an exchange take mesh axis m off an axis and put it back later: another
 * mesh axis, which comes first in the axis, is taken off in between. */
static void check_order(const Scope *s, const DtOp *comm)
{
    Lint *lint = s->lint;
    const DtMesh *mesh = &lint->p->module->mesh;
    if (!is_comm(comm) || (comm->kind != DT_OP_SHARD && comm->kind != DT_OP_ALL_TO_ALL))
        return;
    uint32_t m = mesh_of(comm);
    const char *axis = split_by(comm->out[0]->type, m);
    const DtOp *before = comm->in[0]->op, *major = NULL;
    for (; is_comm(before) && axis; before = before->in[0]->op) {
        if (takes_away(before) && mesh_of(before) == m && split_by(before->in[0]->type, m) == axis)
            break;
        if (takes_away(before) && split_by(before->in[0]->type, mesh_of(before)) == axis)
            major = before;
    }
    if (!is_comm(before) || !axis || !major)
        return;
    uint32_t n = mesh_of(major);
    const DtPlaceLine *line = line_of(lint->p, axis, n);
    if (!line || !is_new(lint, L0520, line->span))
        return;
    DtDiag *diag = dt_diag_report(lint->p->module->diags, L0520, line->span,
                                  "`%s` splits `%s` before `%s`, which must make way for it",
                                  mesh->axes[n].name, axis, mesh->axes[m].name);
    dt_diag_label(diag, comm->span, "`%s` leaves `%s` here, and `%s` stays", mesh->axes[n].name,
                  axis, mesh->axes[m].name);
    dt_diag_note(diag,
                 "mesh axes are taken off an axis from the last to the first: `%s` moves away and "
                 "comes back",
                 mesh->axes[m].name);
    dt_diag_help(diag, "name `%s` first: `shard %s on %s, %s`", mesh->axes[m].name, axis,
                 mesh->axes[m].name, mesh->axes[n].name);
}

/* ---- L0521 ---- */

/* Returns the name of the one axis that op, a relabel, renames (ret_to: its new name); NULL if op
 * does anything else. */
static const char *renamed(const DtOp *op, const char **ret_to)
{
    if (op->kind != DT_OP_RELABEL || op->n_relabels != 1 || op->relabels[0].n_from != 1 ||
        op->relabels[0].n_to != 1 || op->relabels[0].from[0] == op->relabels[0].to[0])
        return NULL;
    *ret_to = op->relabels[0].to[0];
    return op->relabels[0].from[0];
}

/* Returns the bytes of the products of value with parameters that keep the axis; -1 if value has
 * other readers. */
static double contracted(const Scope *s, const DtValue *value, const char *axis, int depth)
{
    double sum = 0;
    for (uint32_t i = s->first[value->id]; i < s->first[value->id + 1]; i++) {
        const DtOp *op = s->readers[i];
        double more = -1;
        if (op->kind == DT_OP_CAST && depth < 4)
            more = contracted(s, op->out[0], axis, depth + 1);
        else if (op->kind == DT_OP_DOT && dt_type_find(op->out[0]->type, axis) >= 0 &&
                 s->stores[op->in[op->in[0] == value]->id])
            more = bytes_of(s->lint, op->out[0]->type);
        if (more < 0)
            return -1;
        sum += more;
    }
    return sum;
}

/* Reports a rename of an axis that was gathered for it alone, if products with parameters then make
 * less of the value: renaming their results moves fewer bytes. */
static void check_rename(const Scope *s, const DtOp *op)
{
    Lint *lint = s->lint;
    const char *to, *from = renamed(op, &to);
    if (!from)
        return;
    const DtValue *x = op->in[0];
    while (x->op && x->op->kind == DT_OP_CAST)
        x = x->op->in[0];
    if (!x->op || x->op->kind != DT_OP_ALL_GATHER || !takes_away(x->op))
        return;
    uint32_t m = mesh_of(x->op);
    if (split_by(x->op->in[0]->type, m) != from || s->first[x->id + 1] - s->first[x->id] != 1)
        return;
    double result = contracted(s, op->out[0], to, 0), argument = bytes_of(lint, op->out[0]->type);
    if (result <= 0 || result >= argument || !is_new(lint, L0521, op->span))
        return;
    DtDiag *diag = dt_diag_report(
        lint->p->module->diags, L0521, op->span,
        "`%s` is renamed to `%s` and gathered before it is multiplied by a parameter", from, to);
    dt_placerefuse_call(diag, op);
    dt_diag_note(diag, "the argument has %s on each rank, what the products make of it %s",
                 in_units(lint, argument), in_units(lint, result));
    dt_diag_help(diag, "rename the results: `f(x)[%s -> %s]` instead of `f(x[%s -> %s])`", from, to,
                 from, to);
}

/* ---- functions ---- */

static void find_readers(Scope *s)
{
    const DtFunc *func = s->func;
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++, n++)
            s->first[func->ops.at[i]->in[k]->id + 1]++;
    for (uint32_t v = 0; v < func->n_values; v++)
        s->first[v + 1] += s->first[v];
    s->readers = DT_NEW_ARRAY(func->module->arena, const DtOp *, n + 1);
    uint32_t *at = DT_NEW_ARRAY(func->module->arena, uint32_t, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++) {
            uint32_t v = func->ops.at[i]->in[k]->id;
            s->readers[s->first[v] + at[v]++] = func->ops.at[i];
        }
}

static void check_op(Lint *lint, Scope *s, const DtOp *op);

static void check_func(Lint *lint, const DtFunc *func, const DtStore *const *inputs)
{
    for (uint32_t i = 0; i < lint->funcs.n; i++)
        if (lint->funcs.at[i] == func)
            return;
    DtArena *arena = func->module->arena;
    DT_PUSH(arena, lint->funcs, func);
    Scope s = {.lint = lint, .func = func};
    s.stores = DT_NEW_ARRAY(arena, const DtStore *, func->n_values + 1);
    s.first = DT_NEW_ARRAY(arena, uint32_t, func->n_values + 2);
    find_readers(&s);
    for (uint32_t i = 0; inputs && i < func->inputs.n; i++)
        s.stores[func->inputs.at[i]->id] = inputs[i];
    for (uint32_t i = 0; i < func->ops.n; i++)
        check_op(lint, &s, func->ops.at[i]);
}

/* ---- L0524 ---- */

/* Returns the name that an axis of op's result has in its operand; the same name if op did not
 * rename it. */
static const char *renamed_from(const DtOp *op, const char *axis)
{
    for (uint32_t i = 0; i < op->n_relabels; i++)
        if (op->relabels[i].n_from == 1 && op->relabels[i].n_to == 1 &&
            op->relabels[i].to[0] == axis)
            return op->relabels[i].from[0];
    return axis;
}

/* Returns the name that the axis, along which a loop runs over value, had before relabels and
 * gathers that reorder it. */
static const char *taken_along(const DtValue *value, const char *axis)
{
    const DtOp *op = value->op;
    for (int depth = 0; op && op->n_in && depth < 16; depth++) {
        if (op->kind == DT_OP_GATHER && op->n_axes == 1 && op->in[1]->type->rank == 1 &&
            op->in[1]->type->axes[0].name == axis)
            axis = op->axes[0]; /* a gather that only reorders elements along the axis */
        else if (op->kind != DT_OP_RELABEL && op->kind != DT_OP_SLICE && op->kind != DT_OP_PAD &&
                 !is_comm(op))
            break;
        axis = renamed_from(op, axis);
        op = op->in[0]->op;
    }
    return axis;
}

static void check_loop(Lint *lint, const DtOp *op)
{
    const DtLoop *loop = op->loop;
    const DtMesh *mesh = &lint->p->module->mesh;
    for (uint32_t i = loop->n_carried + loop->n_invariant; i < op->n_in; i++) {
        const char *axis = taken_along(op->in[i], loop->axis);
        for (uint32_t m = 0; m < mesh->n; m++) {
            const bool divides = !mesh->axes[m].is_time && mesh->axes[m].size > 1;
            const DtPlaceLine *line = divides ? line_of(lint->p, axis, m) : NULL;
            if (!line || !is_new(lint, L0524, op->span))
                continue;
            DtDiag *d = dt_diag_report(
                lint->p->module->diags, L0524, op->span,
                "the loop `%s` goes along `%s`, which `%s` splits: every rank runs all %lld "
                "iterations",
                loop->label, axis, mesh->axes[m].name, (long long)loop->count);
            dt_diag_label(d, line->span, "split here");
            dt_diag_note(d,
                         "an iteration needs what the one before it leaves, so ranks cannot share "
                         "them; what is split "
                         "along `%s` is gathered before the loop",
                         axis);
            dt_diag_help(
                d,
                "split another axis of the values in the loop, as that of the samples or channels");
        }
    }
}

/* Whether op leaves a parameter the same parameter: it casts it, renames its axes or moves it
 * between ranks. */
static bool is_same(const DtOp *op)
{
    return op->kind == DT_OP_CAST || op->kind == DT_OP_RELABEL || is_comm(op);
}

static void check_op(Lint *lint, Scope *s, const DtOp *op)
{
    if (op->kind == DT_OP_PARAM)
        s->stores[op->out[0]->id] = op->store->kind == DT_STORE_PARAM ? op->store : NULL;
    else if (is_same(op) && op->n_in == 1)
        s->stores[op->out[0]->id] = s->stores[op->in[0]->id];
    if (op->kind == DT_OP_LOOP) {
        const DtStore **inputs =
            DT_NEW_ARRAY(op->func->module->arena, const DtStore *, op->n_in + 2);
        for (uint32_t i = op->loop->n_carried; i < op->n_in; i++)
            inputs[1 + i] = s->stores[op->in[i]->id];
        check_loop(lint, op);
        check_func(lint, op->func, inputs);
        return;
    }
    check_order(s, op);
    check_rename(s, op);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!is_comm(op) && op->n_out == 1 && takes_away(op->in[i]->op) &&
            !s->stores[op->in[i]->id])
            check_move(s, op, op->in[i]->op);
}

void dt_placelint_check(const DtPlacer *p)
{
    Lint lint = {.p = p};
    for (uint32_t i = 0; i < p->module->entries.n; i++)
        /* results of predictions are whole in any case */
        if (!dt_entry_predicts(p->module->entries.at[i].kind))
            check_func(&lint, p->module->entries.at[i].func, NULL);
}
