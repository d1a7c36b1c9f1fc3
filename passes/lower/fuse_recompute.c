/* SPDX-License-Identifier: Apache-2.0 */
/* Lets kernels recompute values that another kernel makes from the same operands, instead of
 * reading them. That saves bytes, and the other kernel need not write a value that nobody reads
 * any more.
 *
 *   a square of gradients, for their norm and for the second moment    both read the gradients
 *   exp(z - max), backward                                             z is read instead, and
 *                                                                      nothing written
 *
 * A cheap map is recomputed wherever the kernel reads its operands anyway. Other ops are
 * recomputed only if the value need not be written at all then, and no more memory is needed:
 * the operand that is read instead is no larger, or stays alive for the whole run. */
#include "passes/lower/fuse_internal.h"

enum { DEEP = 8, MOST = 16 };

/* An attempt to give a group its own copy of a value: the ops that it would execute and the bytes
 * that it would read. */
typedef struct Attempt {
    DtFusion *f;
    uint32_t group;
    const DtValue *made[MOST], *read[MOST];
    uint32_t n_made, n_read;
    bool dear;
} Attempt;

static const DtFuseGroup *group_of(const DtFusion *f, const DtValue *value)
{
    const uint32_t position = f->position[value->id];
    return position == UINT32_MAX ? NULL : &f->groups[f->group_of[position]];
}

static bool is_in(const DtFusion *f, const DtValue *value, uint32_t group)
{
    return f->position[value->id] != UINT32_MAX && f->group_of[f->position[value->id]] == group;
}

static bool is_listed(const DtValue *value, const DtValue *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return false;
}

static bool is_recomputed(const DtFusion *f, const DtValue *value, uint32_t group)
{
    return dt_fuse_computes(f->recomputed[value->id], group);
}

static int64_t bytes_of(const DtFusion *f, const DtValue *value)
{
    return dt_fuse_bytes(value->type, &f->func->module->mesh);
}

/* ---- readers of values ---- */

/* Whether the group reads the value from memory, for its own ops or for ops that it recomputes: it
 * neither computes the value nor recomputes it. */
static bool reads(const DtFusion *f, const DtValue *value, uint32_t group)
{
    for (uint32_t r = f->reader[value->id]; r < f->reader[value->id + 1]; r++) {
        const DtOp *op = f->func->ops.at[f->readers[r]];
        if (f->group_of[f->readers[r]] == group ||
            (op->n_out == 1 && is_recomputed(f, op->out[0], group)))
            return !is_in(f, value, group) && !is_recomputed(f, value, group);
    }
    return false;
}

/* Whether the value has to be written to memory: it is a result, or another group reads it without
 * recomputing it. */
static bool is_written(const DtFusion *f, const DtValue *value)
{
    const uint32_t own = f->group_of[f->position[value->id]];
    bool is = f->is_result[value->id];
    for (uint32_t r = f->reader[value->id]; !is && r < f->reader[value->id + 1]; r++) {
        const DtOp *op = f->func->ops.at[f->readers[r]];
        const uint32_t group = f->group_of[f->readers[r]];
        is = group != own && !is_recomputed(f, value, group);
        if (op->n_out != 1)
            continue;
        for (const DtFuseRecompute *item = f->recomputed[op->out[0]->id]; item && !is;
             item = item->next)
            is = item->group != own && !is_recomputed(f, value, item->group);
    }
    return is;
}

static bool lies_in_memory(const DtFusion *f, const DtValue *value)
{
    return f->position[value->id] == UINT32_MAX || is_written(f, value);
}

/* ---- one value in one group ---- */

static bool is_map(const DtFusion *f, const DtValue *value)
{
    return value->op && value->op->n_out == 1 && dt_op_is_pointwise(value->op->kind) &&
           group_of(f, value) && group_of(f, value)->full;
}

static bool make(Attempt *a, const DtValue *value, uint32_t depth);

/* Whether the value has few elements (at most 1/DT_FUSE_LARGE) compared with the index space of the
 * group, so that storing it is cheap. */
static bool is_row(const Attempt *a, const DtValue *value)
{
    const DtMesh *mesh = &a->f->func->module->mesh;
    return value->op && value->op->n_out == 1 && group_of(a->f, value)->full &&
           dt_type_local_elements(value->type, mesh) * DT_FUSE_LARGE <=
               dt_type_local_elements(a->f->groups[a->group].full, mesh);
}

/* Adds one operand of a copied op to the attempt: it is known already, the group computes it too
 * (a->made), or it reads it from memory (a->read). False if neither is possible. */
static bool take(Attempt *a, const DtValue *value, uint32_t depth)
{
    const DtFusion *f = a->f;
    if (dt_op_is_inline(value) || is_listed(value, a->made, a->n_made) ||
        is_listed(value, a->read, a->n_read) || reads(f, value, a->group) ||
        is_recomputed(f, value, a->group))
        return true;
    const Attempt before = *a;
    const bool lies = lies_in_memory(f, value);
    if (!lies && make(a, value, depth))
        return true;
    *a = before;
    if (a->n_read == MOST || (!lies && !is_row(a, value)))
        return false;
    a->read[a->n_read++] = value;
    return true;
}

static bool make(Attempt *a, const DtValue *value, uint32_t depth)
{
    if (depth == 0 || a->n_made == MOST || !is_map(a->f, value) || is_in(a->f, value, a->group))
        return false;
    a->made[a->n_made++] = value;
    a->dear = a->dear || dt_op_is_dear(value->op->kind);
    for (uint32_t i = 0; i < value->op->n_in; i++)
        if (!take(a, value->op->in[i], depth - 1))
            return false;
    return true;
}

/* Whether every op of the group that reads the value reads each element at its own point, at all
 * points. */
static bool reads_points(const DtFusion *f, const DtValue *value, uint32_t group)
{
    const DtFuseGroup *g = &f->groups[group];
    if (!g->full || g->product || !dt_fuse_has_axes(value->type, g, DT_FUSE_ALL))
        return false;
    for (uint32_t r = f->reader[value->id]; r < f->reader[value->id + 1]; r++) {
        const DtOp *op = f->func->ops.at[f->readers[r]];
        for (uint32_t i = 0; f->group_of[f->readers[r]] == group && i < op->n_in; i++)
            if (op->in[i] == value && dt_op_reads_elsewhere(op, i))
                return false;
    }
    return true;
}

static bool attempt(DtFusion *f, const DtValue *value, uint32_t group, Attempt *ret)
{
    *ret = (Attempt){.f = f, .group = group};
    return reads_points(f, value, group) && make(ret, value, DEEP) &&
           f->groups[group].ops.n + ret->n_made <= f->limits->kernel_ops;
}

static void keep(const Attempt *a)
{
    for (uint32_t i = 0; i < a->n_made; i++) {
        DtFuseRecompute *recomputed = DT_NEW(a->f->arena, DtFuseRecompute);
        *recomputed = (DtFuseRecompute){.group = a->group,
                                        .next = a->f->recomputed[a->made[i]->id]};
        a->f->recomputed[a->made[i]->id] = recomputed;
    }
}

/* ---- one value in all groups ---- */

/* The groups that read a value from memory; n is MOST + 1 if there are more than MOST. */
typedef struct Readers {
    uint32_t at[MOST + 1], n;
} Readers;

static void add_reader(const DtFusion *f, const DtValue *value, uint32_t group, Readers *to)
{
    bool known = to->n > MOST || !reads(f, value, group);
    for (uint32_t i = 0; i < to->n && !known; i++)
        known = to->at[i] == group;
    if (!known)
        to->at[to->n++] = group;
}

static Readers readers_of(const DtFusion *f, const DtValue *value)
{
    Readers readers = {.n = 0};
    for (uint32_t r = f->reader[value->id]; r < f->reader[value->id + 1]; r++) {
        const DtOp *op = f->func->ops.at[f->readers[r]];
        add_reader(f, value, f->group_of[f->readers[r]], &readers);
        const DtFuseRecompute *recomputed = op->n_out == 1 ? f->recomputed[op->out[0]->id] : NULL;
        for (; recomputed; recomputed = recomputed->next)
            add_reader(f, value, recomputed->group, &readers);
    }
    return readers;
}

/* Whether recomputing the value in each of these groups makes writing it unnecessary, and reads
 * fewer bytes than that saves. ret_attempts: what each group would compute and read. */
static bool all_may(DtFusion *f, const DtValue *value, const Readers *readers,
                    Attempt *ret_attempts)
{
    const int64_t bytes = bytes_of(f, value);
    int64_t read = 0, kept = 0;
    bool may = !f->is_result[value->id];
    for (uint32_t k = 0; k < readers->n && may; k++) {
        Attempt *a = &ret_attempts[k];
        may = attempt(f, value, readers->at[k], a);
        for (uint32_t i = 0; i < a->n_read; i++) {
            read += bytes_of(f, a->read[i]) * (lies_in_memory(f, a->read[i]) ? 1 : 2);
            kept += f->position[a->read[i]->id] == UINT32_MAX || is_row(a, a->read[i])
                        ? 0
                        : bytes_of(f, a->read[i]);
        }
    }
    return may && read < (readers->n + 1) * bytes && kept <= bytes;
}

static void look_at(DtFusion *f, const DtValue *value)
{
    const Readers readers = readers_of(f, value);
    Attempt attempts[MOST];
    if (readers.n == 0 || readers.n > MOST)
        return;
    const bool all = all_may(f, value, &readers, attempts);
    for (uint32_t k = 0; k < readers.n; k++)
        if (all || (attempt(f, value, readers.at[k], &attempts[k]) && !attempts[k].dear &&
                    attempts[k].n_read == 0))
            keep(&attempts[k]);
}

/* Whether the value has so many bytes that recomputing it is worth the analysis. */
static bool is_large(const DtFusion *f, const DtValue *value)
{
    enum { LARGE = 1 << 8 }; /* bytes */
    return !dt_op_is_inline(value) && bytes_of(f, value) >= LARGE;
}

void dt_fuse_recompute(DtFusion *f)
{
    f->recomputed = DT_NEW_ARRAY(f->arena, DtFuseRecompute *, f->func->n_values + 1);
    for (uint32_t i = f->func->ops.n; i-- > 0;) {
        const DtOp *op = f->func->ops.at[i];
        if (op->n_out == 1 && is_large(f, op->out[0]) && is_map(f, op->out[0]) &&
            is_written(f, op->out[0]))
            look_at(f, op->out[0]);
    }
}

/* ---- bytes ---- */

int64_t dt_fuse_moved(DtFusion *f)
{
    int64_t moved = 0;
    for (uint32_t v = 0; v < f->func->n_values; v++) {
        const DtValue *value = f->value[v];
        if (!value || !is_large(f, value))
            continue;
        const DtFuseGroup *own = group_of(f, value);
        const Readers readers = readers_of(f, value);
        for (uint32_t k = 0; k < readers.n; k++)
            moved += f->groups[readers.at[k]].full ? bytes_of(f, value) : 0;
        moved += own && own->full && is_written(f, value) ? bytes_of(f, value) : 0;
    }
    return moved;
}
