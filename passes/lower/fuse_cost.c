/* SPDX-License-Identifier: Apache-2.0 */
/* What two groups share, how many bytes their union saves, and what it costs. */
#include "passes/lower/fuse_internal.h"

/* ---- spaces ---- */

bool dt_fuse_listed(const char *axis, const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == axis)
            return true;
    return false;
}

/* Whether the type has exactly these axes of the group's index space: all, the inner ones, or the
 * outer ones. */
bool dt_fuse_has_axes(const DtType *type, const DtFuseGroup *g, DtFuseAxes axes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->full->rank; i++) {
        const bool inner = dt_fuse_listed(g->full->axes[i].name, g->inner, g->n_inner);
        if (axes != DT_FUSE_ALL && inner != (axes == DT_FUSE_INNER))
            continue;
        int at = dt_type_find(type, g->full->axes[i].name);
        if (at < 0 || !dt_type_same_axis(&type->axes[at], &g->full->axes[i]))
            return false; /* slices and pads change an extent but not the name */
        n++;
    }
    return n == type->rank;
}

bool dt_fuse_in_union(const DtFusion *f, uint32_t position, uint32_t a, uint32_t b)
{
    return position != UINT32_MAX && (f->group_of[position] == a || f->group_of[position] == b);
}

bool dt_fuse_leaves(const DtFusion *f, const DtValue *value, uint32_t a, uint32_t b)
{
    bool wanted = f->is_result[value->id];
    for (uint32_t i = f->reader[value->id]; !wanted && i < f->reader[value->id + 1]; i++)
        wanted = !dt_fuse_in_union(f, f->readers[i], a, b);
    return wanted;
}

/* ---- bytes moved ---- */

/* Returns the bytes of a rank's part of a value. */
int64_t dt_fuse_bytes(const DtType *type, const DtMesh *mesh)
{
    return dt_type_local_elements(type, mesh) * (int64_t)dt_dtype_size(type->dtype);
}

/* Returns the bytes of a value in memory if this is the first call for it since f->n_seen changed;
 * else 0, so that each value counts once. */
static int64_t count(DtFusion *f, const DtValue *value)
{
    if (f->seen[value->id] == f->n_seen || dt_op_is_inline(value))
        return 0;
    f->seen[value->id] = f->n_seen;
    return dt_fuse_bytes(value->type, &f->func->module->mesh);
}

/* Returns by how many bytes the union of groups a and b reads and writes less than a and b as
 * separate kernels. */
int64_t dt_fuse_saved(DtFusion *f, uint32_t a, uint32_t b)
{
    const DtFuseGroup *from = &f->groups[a], *to = &f->groups[b];
    int64_t saved = 0;
    const uint32_t by_a = ++f->n_seen, twice = ++f->n_seen;
    for (uint32_t i = 0; i < from->ops.n; i++)
        for (uint32_t j = 0; j < f->func->ops.at[from->ops.at[i]]->n_in; j++)
            f->seen[f->func->ops.at[from->ops.at[i]]->in[j]->id] = by_a;
    for (uint32_t i = 0; i < to->ops.n; i++) {
        const DtOp *op = f->func->ops.at[to->ops.at[i]];
        for (uint32_t j = 0; j < op->n_in; j++) {
            const DtValue *value = op->in[j];
            const uint32_t position = f->position[value->id];
            const bool is_made = position != UINT32_MAX && f->group_of[position] == a;
            if (f->seen[value->id] == twice || (!is_made && f->seen[value->id] != by_a))
                continue;
            const int64_t bytes = count(f, value);
            saved += is_made && !dt_fuse_leaves(f, value, a, b) ? 2 * bytes : bytes;
        }
    }
    return saved;
}

/* Returns the value whose memory `value` shares through views; the value itself if it is no
 * view. */
static const DtValue *stored(const DtValue *value)
{
    while (value->op && dt_op_info[value->op->kind].data == DT_DATA_VIEW && value->op->n_in == 1)
        value = value->op->in[0];
    return value;
}

/* Whether every group that reads the value, other than a and b, runs before the position. */
static bool is_done_before(const DtFusion *f, const DtValue *value, uint32_t a, uint32_t b,
                           uint32_t position)
{
    /* inputs live to the end */
    bool done = !f->is_result[value->id] && f->position[value->id] != UINT32_MAX;
    for (uint32_t i = f->reader[value->id]; done && i < f->reader[value->id + 1]; i++)
        done = dt_fuse_in_union(f, f->readers[i], a, b) ||
               f->groups[f->group_of[f->readers[i]]].last < position;
    return done;
}

/* the most groups in a row that may be delayed: a weight's gradient is computed, rounded, packed
 * into a bucket, summed over ranks */
enum { LINKS = 4 };

/* Bytes of other groups' values that stay alive until position only because group g reads them;
 * reads by `from`, which is delayed too, do not count. */
static int64_t held(DtFusion *f, uint32_t g, uint32_t from, uint32_t a, uint32_t b,
                    uint32_t position)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < f->groups[g].ops.n; i++) {
        const DtOp *op = f->func->ops.at[f->groups[g].ops.at[i]];
        for (uint32_t j = 0; j < op->n_in; j++) {
            const uint32_t made = f->position[op->in[j]->id];
            const bool waits =
                dt_fuse_in_union(f, made, a, b) || dt_fuse_in_union(f, made, g, from);
            if (!waits && is_done_before(f, op->in[j], a, b, position))
                bytes += count(f, stored(op->in[j]));
        }
    }
    return bytes;
}

/* Whether group g, which reads from `from`, may move after position. It may if it computes a
 * weight's gradient, or values from that alone, and no other op reads these before. Adds the bytes
 * that become live at position through the move. */
static bool may_wait(DtFusion *f, uint32_t g, uint32_t from, uint32_t a, uint32_t b,
                     uint32_t position, uint32_t links, int64_t *ret_bytes)
{
    const DtFuseGroup *group = &f->groups[g];
    const DtOp *op = f->func->ops.at[group->ops.at[0]];
    const DtOpInfo *info = &dt_op_info[op->kind];
    const bool is_product = group->product || op->kind == DT_OP_DOT;
    bool may = links == LINKS ? is_product
                              : op->kind == DT_OP_PACK || info->op_class == DT_CLASS_COMM ||
                                    info->data == DT_DATA_VIEW || dt_op_is_pointwise(op->kind);
    for (uint32_t i = 0; may && i < group->ops.n; i++) {
        op = f->func->ops.at[group->ops.at[i]];
        for (uint32_t k = 0; k < op->n_out; k++)
            for (uint32_t r = f->reader[op->out[k]->id]; may && r < f->reader[op->out[k]->id + 1];
                 r++) {
                const uint32_t reader = f->group_of[f->readers[r]];
                may = reader == g || f->groups[reader].last >= position ||
                      (links > 0 && !dt_fuse_in_union(f, f->readers[r], a, b) &&
                       may_wait(f, reader, g, a, b, position, links - 1, ret_bytes));
            }
    }
    *ret_bytes += may ? held(f, g, from, a, b, position) : 0;
    return may;
}

/* Live bytes at each position, of values that groups pass to others, for the groups so far. Results
 * have memory of their own and are not counted, nor is memory inside called functions. */
void dt_fuse_measure(DtFusion *f)
{
    const DtFunc *func = f->func;
    int64_t live = 0;
    f->live = DT_NEW_ARRAY(f->arena, int64_t, func->ops.n + 2);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            const DtValue *value = func->ops.at[i]->out[k];
            const uint32_t g = f->group_of[i];
            uint32_t last = f->groups[g].last;
            if (stored(value) != value || dt_op_is_inline(value) || f->is_result[value->id] ||
                !dt_fuse_leaves(f, value, g, g))
                continue;
            f->live[last] += dt_fuse_bytes(value->type, &func->module->mesh);
            for (uint32_t r = f->reader[value->id]; r < f->reader[value->id + 1]; r++)
                last = f->groups[f->group_of[f->readers[r]]].last > last
                           ? f->groups[f->group_of[f->readers[r]]].last
                           : last;
            f->live[last + 1] -= dt_fuse_bytes(value->type, &func->module->mesh);
        }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        f->live[i] = live += f->live[i];
        f->peak = live > f->peak ? live : f->peak;
    }
}

/* Whether all groups that read the value of group a before the position, except b, can be delayed
 * too. Adds the bytes that become live at the position thereby to *ret_bytes. */
static bool readers_wait(DtFusion *f, const DtValue *value, uint32_t a, uint32_t b,
                         uint32_t position, int64_t *ret_bytes)
{
    bool may = true;
    for (uint32_t i = f->reader[value->id]; may && i < f->reader[value->id + 1]; i++) {
        const uint32_t g = f->group_of[f->readers[i]];
        may = dt_fuse_in_union(f, f->readers[i], a, b) || f->groups[g].last >= position ||
              may_wait(f, g, a, a, b, position, LINKS, ret_bytes);
    }
    return may;
}

/* Whether peak memory grows if a, which b does not read, runs at b's place: values that a reads
 * and no later op needs live longer, values that a makes live shorter. Values read only by
 * delayed products live next to b's results. Growth up to the present peak, and f->spare bytes
 * more, is allowed. */
bool dt_fuse_waits(DtFusion *f, uint32_t a, uint32_t b, int64_t *ret_beside)
{
    const DtFuseGroup *from = &f->groups[a], *to = &f->groups[b];
    int64_t kept = 0, beside = 0;
    f->n_seen++;
    for (uint32_t i = 0; i < to->ops.n; i++)
        for (uint32_t j = 0; j < f->func->ops.at[to->ops.at[i]]->n_in; j++)
            f->seen[stored(f->func->ops.at[to->ops.at[i]]->in[j])->id] = f->n_seen;
    for (uint32_t i = 0; i < from->ops.n; i++) {
        const DtOp *op = f->func->ops.at[from->ops.at[i]];
        for (uint32_t j = 0; j < op->n_in; j++)
            if (!dt_fuse_in_union(f, f->position[op->in[j]->id], a, b) &&
                is_done_before(f, op->in[j], a, b, to->last))
                kept += count(f, stored(op->in[j]));
        for (uint32_t j = 0; j < op->n_out; j++) {
            if (!dt_fuse_leaves(f, op->out[j], a, b))
                continue;
            if (!readers_wait(f, op->out[j], a, b, to->last, &beside))
                return true;
            if (is_done_before(f, op->out[j], a, b, to->last))
                beside += count(f, op->out[j]);
            else
                kept -= count(f, op->out[j]);
        }
    }
    *ret_beside = beside;
    return kept > 0 || (beside > 0 && from->beside + to->beside + beside >
                                          f->spare + f->peak - f->live[to->last]);
}

/* Notes in *axis along which axis neighbouring elements of the value are in memory, if the value
 * has the full size of the group's index space. False if *axis was another one before. */
static bool look(const DtFusion *f, const DtFuseGroup *joined, const DtValue *value,
                 const char **axis)
{
    const DtMesh *mesh = &f->func->module->mesh;
    const DtType *type = stored(value)->type;
    uint32_t at = type->rank;
    if (!dt_fuse_has_axes(type, joined, DT_FUSE_ALL))
        return true;
    while (at > 0 && dt_type_local_extent(type, at - 1, mesh) == 1)
        at--;
    if (at == 0)
        return true;
    const bool same = !*axis || *axis == type->axes[at - 1].name;
    *axis = type->axes[at - 1].name;
    return same;
}

/* The axis of neighbouring elements of all values of full size that group g reads or writes; NULL:
 * they differ. */
static const char *unit_axis(const DtFusion *f, const DtFuseGroup *joined, uint32_t g, uint32_t a,
                             uint32_t b)
{
    const char *axis = NULL;
    bool same = true;
    for (uint32_t i = 0; same && i < f->groups[g].ops.n; i++) {
        const DtOp *op = f->func->ops.at[f->groups[g].ops.at[i]];
        for (uint32_t j = 0; same && j < op->n_in; j++)
            same = dt_fuse_in_union(f, f->position[op->in[j]->id], a, b) ||
                   look(f, joined, op->in[j], &axis);
        same = same && (!dt_fuse_leaves(f, op->out[0], a, b) || look(f, joined, op->out[0], &axis));
    }
    return same ? axis : NULL;
}

/* Two groups that share little are not merged if neighbouring elements are along different axes in
 * them: one of the two would access memory with a stride. */
bool dt_fuse_alike(const DtFusion *f, const DtFuseGroup *joined, uint32_t a, uint32_t b,
                   int64_t saved)
{
    if (saved * DT_FUSE_LARGE >= dt_fuse_bytes(joined->full, &f->func->module->mesh))
        return true;
    const char *one = unit_axis(f, joined, a, a, b), *other = unit_axis(f, joined, b, a, b);
    return !one || !other || one == other;
}
