/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: ops that move elements, between positions or ranks, and ops that sum. The offset of the
 * source of a result's element is a sum with one term per coordinate; tables of the terms are made
 * once per op and rank. */
#include "verify/box_internal.h"

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* A counter over the coordinates of a shape's elements, in order. */
typedef struct Places {
    uint32_t rank;
    int64_t at[CERT_RANK], extent[CERT_RANK];
} Places;

static Places places_of(const BoxShape *shape)
{
    Places places = {.rank = shape->rank};
    for (uint32_t d = 0; d < shape->rank; d++)
        places.extent[d] = shape->axes[d].local;
    return places;
}

static bool next_place(Places *p)
{
    for (uint32_t d = p->rank; d-- > 0;) {
        if (++p->at[d] < p->extent[d])
            return true;
        p->at[d] = 0;
    }
    return false;
}

typedef struct Tables {
    /* by axis of the result and coordinate along it: what the coordinate adds to the offset in the
     * operand */
    int64_t *of[CERT_RANK];
} Tables;

static int64_t look_up(const Tables *tables, const Places *p)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < p->rank; d++)
        offset += tables->of[d][p->at[d]];
    return offset;
}

static Tables new_tables(Box *b, const BoxShape *shape)
{
    Tables tables = {0};
    for (uint32_t d = 0; d < shape->rank; d++)
        tables.of[d] = DT_NEW_ARRAY(b->scratch, int64_t, shape->axes[d].local);
    return tables;
}

static int axis_number(const BoxShape *shape, const char *name)
{
    const BoxAxis *axis = dt_boxsmall_axis(shape, name);
    return axis ? (int)(axis - shape->axes) : -1;
}

/* ---- relabel ---- */

/* One entry of a relabel: merges the `from` axes row-major and splits the result into the `to`
 * axes; one of the two lists has a single axis. used: bits of the axes that entries name. */
static bool relabel_entry(const CertRelabel *r, const BoxShape *from, const BoxShape *to,
                          Tables *tables, uint32_t *from_used, uint32_t *to_used)
{
    int old[CERT_NAMES], made[CERT_NAMES];
    int64_t n_old = 1, n_made = 1;
    for (uint32_t i = 0; i < r->n_from; i++) {
        old[i] = axis_number(from, r->from[i]);
        if (old[i] < 0 || (*from_used >> old[i] & 1))
            return false;
        *from_used |= 1u << old[i];
        n_old *= from->axes[old[i]].local;
    }
    for (uint32_t i = 0; i < r->n_to; i++) {
        made[i] = axis_number(to, r->to[i]);
        if (made[i] < 0 || (*to_used >> made[i] & 1))
            return false;
        *to_used |= 1u << made[i];
        n_made *= to->axes[made[i]].local;
    }
    if (n_old != n_made || (r->n_from > 1 && r->n_to > 1))
        return false;
    int64_t each = n_made;
    for (uint32_t i = 0; i < r->n_to; i++) {
        each /= to->axes[made[i]].local;
        for (int64_t k = 0; k < to->axes[made[i]].local; k++) {
            int64_t number = k * each, offset = 0;
            for (uint32_t j = r->n_from; j-- > 0; number /= from->axes[old[j]].local)
                offset += number % from->axes[old[j]].local * from->stride[old[j]];
            tables->of[made[i]][k] = offset;
        }
    }
    return true;
}

static bool relabel(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const BoxShape *from = in[0]->shape, *to = out->shape;
    Tables tables = new_tables(b, to);
    uint32_t from_used = 0, to_used = 0;
    if (op->n_in != 1 || from->is_float != to->is_float)
        return false;
    for (uint32_t i = 0; i < op->n_relabels; i++)
        if (!relabel_entry(&op->relabels[i], from, to, &tables, &from_used, &to_used))
            return false;
    for (uint32_t d = 0; d < to->rank; d++) {
        if (to_used >> d & 1)
            continue;
        const int own = axis_number(from, to->axes[d].name);
        if (own < 0 || (from_used >> own & 1) || from->axes[own].local != to->axes[d].local)
            return false;
        from_used |= 1u << own;
        for (int64_t k = 0; k < to->axes[d].local; k++)
            tables.of[d][k] = k * from->stride[own];
    }
    if (from_used != (1u << from->rank) - 1 || from->n != to->n)
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        const DtResidue *x = in[0]->at + rank * from->n;
        DtResidue *y = out->at + rank * to->n;
        Places p = places_of(to);
        do
            *y++ = x[look_up(&tables, &p)];
        while (next_place(&p));
    }
    return true;
}

/* ---- sums ---- */

/* Sets *ret_offsets to the offsets in x of all places of the op's summed axes, and returns their
 * number; -1: x lacks an axis. */
static int64_t summed(Box *b, const CertOp *op, const BoxShape *x, int64_t **ret_offsets)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const BoxAxis *axis = dt_boxsmall_axis(x, op->axes[i]);
        if (!axis)
            return -1;
        n *= axis->local;
    }
    int64_t *offsets = *ret_offsets = DT_NEW_ARRAY(b->scratch, int64_t, n + 1);
    for (int64_t k = 0; k < n; k++) {
        int64_t number = k;
        for (uint32_t i = op->n_axes; i-- > 0;) {
            const BoxAxis *axis = dt_boxsmall_axis(x, op->axes[i]);
            offsets[k] += number % axis->local * dt_boxsmall_stride(x, op->axes[i]);
            number /= axis->local;
        }
    }
    return n;
}

/* Sets *ret_x to the elements of x, each times the number of positions that it stands for along
 * summed axes (BoxLens.weight); to x itself if that is 1 everywhere. False: too much work. */
static bool weigh(Box *b, uint32_t n_axes, const char *const *axes, const BoxTensor *x,
                  const DtResidue **ret_x)
{
    const BoxShape *shape = x->shape;
    DtResidue *made = NULL;
    *ret_x = x->at;
    for (uint32_t i = 0; i < n_axes; i++) {
        const BoxAxis *axis = dt_boxsmall_axis(shape, axes[i]);
        if (!axis || !axis->lens->weight)
            continue;
        if (!made && !dt_boxsmall_afford(b, shape->n, 1))
            return false;
        made = made ? made : DT_NEW_ARRAY(b->scratch, DtResidue, shape->n * b->ranks);
        const int64_t stride = shape->stride[axis - shape->axes];
        for (int64_t k = 0; k < shape->n * b->ranks; k++) {
            const int64_t place = k % shape->n / stride % axis->local % axis->lens->k;
            made[k] = dt_boxnumber_times(b, shape, (*ret_x)[k], axis->lens->weight[place],
                                         axis->lens->factor[place]);
        }
        *ret_x = made;
    }
    return true;
}

/* Fills the tables with the offset in x for each coordinate of the result's axes. False unless
 * every axis of x is either in the result or summed by the op. */
static bool steps_in(const CertOp *op, const BoxShape *to, const BoxShape *x, Tables *ret_tables)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        seen += dt_boxsmall_axis(x, op->axes[i]) != NULL;
        if (dt_boxsmall_axis(to, op->axes[i]))
            return false;
    }
    for (uint32_t d = 0; d < to->rank; d++) {
        const BoxAxis *own = dt_boxsmall_axis(x, to->axes[d].name);
        seen += own != NULL;
        if (own && own->local != to->axes[d].local)
            return false;
        for (int64_t k = 0; k < to->axes[d].local; k++)
            ret_tables->of[d][k] = k * dt_boxsmall_stride(x, to->axes[d].name);
    }
    return seen == x->rank;
}

static DtResidue zero(void) { return dt_residue_whole(0); }

/* Returns the depth (DtResidue) of a sum of products whose roundings are followed: the largest of
 * its terms. A term with a zero factor does not count. */
static uint32_t depth_of(int64_t n, const DtResidue *x, const int64_t *at_x, const DtResidue *y,
                         const int64_t *at_y)
{
    uint32_t depth = 0;
    for (int64_t i = 0; i < n; i++) {
        const DtResidue a = x[at_x[i]], c = y[at_y[i]];
        const uint32_t deeper = a.depth > c.depth ? a.depth : c.depth;
        if (deeper > depth && !dt_residue_is_nil(a) && !dt_residue_is_nil(c))
            depth = deeper;
    }
    return depth;
}

/* The sum of n products. Four of them add up to less than m 2^64, so they are reduced together. */
static DtResidue product(const Box *b, int64_t n, const DtResidue *x, const int64_t *at_x,
                         const DtResidue *y, const int64_t *at_y)
{
    const DtResidues *r = b->r;
    DtResidue sum = zero();
    for (int64_t k = 0; k < n; k += 4) {
        const int64_t end = n - k < 4 ? n : k + 4;
        DtWide p = 0, q = 0;
        bool both = sum.q != DT_RESIDUE_NONE, odd = false;
        for (int64_t i = k; i < end; i++) {
            const DtResidue a = x[at_x[i]], c = y[at_y[i]];
            odd = odd || dt_residue_is_symbol(a) || dt_residue_is_symbol(c);
            both = both && dt_residue_both(a, c);
            p += odd ? 0 : (DtWide)a.p * c.p;
            q += both ? (DtWide)a.q * c.q : 0;
        }
        if (odd)
            break;
        sum.p = dt_modulus_add(&r->p, sum.p, dt_modulus_reduce(&r->p, p));
        sum.q = both ? dt_modulus_add(&r->q, sum.q, dt_modulus_reduce(&r->q, q)) : DT_RESIDUE_NONE;
        if (end == n) {
            sum.depth = b->follows ? depth_of(n, x, at_x, y, at_y) : 0;
            return sum;
        }
    }
    sum = dt_residue_mul(r, x[at_x[0]], y[at_y[0]]); /* an operand is no number */
    for (int64_t k = 1; k < n; k++)
        sum = dt_residue_add(r, sum, dt_residue_mul(r, x[at_x[k]], y[at_y[k]]));
    return sum;
}

static bool dot(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    int64_t *offsets[2], n[2];
    Tables tables[2] = {new_tables(b, out->shape), new_tables(b, out->shape)};
    for (int i = 0; i < 2; i++) {
        if (op->n_in != 2 || !in[i]->shape->is_float || !out->shape->is_float)
            return false;
        n[i] = summed(b, op, in[i]->shape, &offsets[i]);
        if (n[i] != n[0] || n[i] < 1 || !steps_in(op, out->shape, in[i]->shape, &tables[i]))
            return false;
    }
    for (uint32_t d = 0; d < out->shape->rank; d++)
        if (!dt_boxsmall_axis(in[0]->shape, out->shape->axes[d].name) &&
            !dt_boxsmall_axis(in[1]->shape, out->shape->axes[d].name))
            return false;
    const DtResidue *first;
    if (!dt_boxsmall_afford(b, out->shape->n, n[0]) ||
        !weigh(b, op->n_axes, op->axes, in[0], &first))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        const DtResidue *x = first + rank * in[0]->shape->n,
                        *y = in[1]->at + rank * in[1]->shape->n;
        DtResidue *to = out->at + rank * out->shape->n;
        Places p = places_of(out->shape);
        do {
            const DtResidue *a = x + look_up(&tables[0], &p), *c = y + look_up(&tables[1], &p);
            *to++ = product(b, n[0], a, offsets[0], c, offsets[1]);
        } while (next_place(&p));
    }
    return true;
}

static bool reduce(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    int64_t *offsets, n = op->n_in == 1 ? summed(b, op, in[0]->shape, &offsets) : -1;
    Tables tables = new_tables(b, out->shape);
    const BoxReduce reduction = dt_boxnumber_reduction(op->reduce);
    if (n < 1 || !steps_in(op, out->shape, in[0]->shape, &tables) ||
        in[0]->shape->is_float != out->shape->is_float)
        return false;
    for (uint32_t d = 0; d < out->shape->rank; d++)
        if (!dt_boxsmall_axis(in[0]->shape, out->shape->axes[d].name))
            return false;
    const DtResidue *terms = in[0]->at;
    if (reduction == BOX_SUM && !weigh(b, op->n_axes, op->axes, in[0], &terms))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        const DtResidue *x = terms + rank * in[0]->shape->n;
        DtResidue *to = out->at + rank * out->shape->n;
        Places p = places_of(out->shape);
        do {
            const DtResidue *a = x + look_up(&tables, &p);
            DtResidue sum = a[offsets[0]];
            for (int64_t k = 1; k < n; k++)
                sum = dt_boxnumber_combine(b, reduction, out->shape, sum, a[offsets[k]]);
            *to++ = sum;
        } while (next_place(&p));
    }
    return true;
}

/* ---- lookups ---- */

enum { MOST_INDICES = 4 };

/* For gather and scatter_add: the tensor whose axes the indices count along (table) and, by index
 * tensor, the indexed axis, its stride in the table, and the offsets in the index tensor over the
 * walk. */
typedef struct Lookup {
    const BoxShape *table, *walk;
    const BoxAxis *axis[MOST_INDICES];
    int64_t stride[MOST_INDICES];
    Tables index[MOST_INDICES];
    const BoxTensor *at[MOST_INDICES];
    uint32_t n;
} Lookup;

/* Fills the tables with the offsets in x of the walk's places, with 0 along the named axes. False
 * unless the walk has all other axes of x, with equal lengths. */
static bool walk_steps(Box *b, const BoxShape *walk, const BoxShape *x, uint32_t n,
                       const char *const *names, Tables *ret_tables)
{
    uint32_t seen = 0;
    *ret_tables = new_tables(b, walk);
    for (uint32_t d = 0; d < walk->rank; d++) {
        const BoxAxis *own = dt_boxsmall_axis(x, walk->axes[d].name);
        for (uint32_t i = 0; i < n; i++)
            own = names[i] == walk->axes[d].name ? NULL : own;
        seen += own != NULL;
        if (own && own->local != walk->axes[d].local)
            return false;
        for (int64_t k = 0; own && k < own->local; k++)
            ret_tables->of[d][k] = k * x->stride[own - x->axes];
    }
    for (uint32_t i = 0; i < n; i++)
        seen += dt_boxsmall_axis(x, names[i]) != NULL;
    return seen == x->rank;
}

static bool lookup_of(Box *b, const CertOp *op, BoxTensor *const *in, const BoxShape *table,
                      const BoxShape *walk, Lookup *look)
{
    *look = (Lookup){.table = table, .walk = walk, .n = op->n_axes};
    if (op->n_axes > MOST_INDICES || op->n_in != op->n_axes + 1 || !op->n_axes)
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        look->axis[i] = dt_boxsmall_axis(table, op->axes[i]);
        look->at[i] = in[i + 1];
        if (!look->axis[i] || in[i + 1]->shape->is_float || in[i + 1]->shape->is_bool ||
            !walk_steps(b, walk, in[i + 1]->shape, 0, NULL, &look->index[i]))
            return false;
        look->stride[i] = dt_boxsmall_stride(table, op->axes[i]);
    }
    return true;
}

enum { OUTSIDE = -1, UNSEEN = -2 };

/* Returns the offset in this rank's part to which the indices lead. OUTSIDE: the index is out of
 * range, or another rank holds the element; UNSEEN: a position that is not evaluated. */
static int64_t lead(const Box *b, const Lookup *look, const Places *p, uint32_t rank)
{
    int64_t offset = 0;
    bool outside = false, unseen = false;
    for (uint32_t i = 0; i < look->n; i++) {
        const BoxAxis *axis = look->axis[i];
        const DtResidue index =
            look->at[i]->at[rank * look->at[i]->shape->n + look_up(&look->index[i], p)];
        const int64_t at = (int64_t)index.p,
                      whole = axis->extent / axis->lens->k * axis->lens->unit;
        uint32_t holder = rank;
        if (index.q == DT_RESIDUE_NONE) {
            unseen = true;
            continue;
        }
        if (at < 0 || at >= whole) {
            outside = true;
            continue;
        }
        const int64_t small = dt_boxsmall_of_true(axis->lens, at);
        if (small < 0) {
            unseen = true;
            continue;
        }
        offset += dt_boxsmall_find(b, axis, small, rank, &holder) * look->stride[i];
        outside = outside || holder != rank;
    }
    return outside ? OUTSIDE : unseen ? UNSEEN : offset;
}

static bool gather(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    Lookup look;
    Tables rest;
    const BoxShape *table = in[0]->shape;
    if (table->is_float != out->shape->is_float ||
        !lookup_of(b, op, in, table, out->shape, &look) ||
        !walk_steps(b, out->shape, table, op->n_axes, op->axes, &rest))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        DtResidue *to = out->at + rank * out->shape->n;
        Places p = places_of(out->shape);
        do {
            const int64_t at = lead(b, &look, &p, rank);
            *to++ = at == OUTSIDE  ? zero()
                    : at == UNSEEN ? dt_residue_symbol(DT_RESIDUE_ABSENT)
                                   : in[0]->at[rank * table->n + at + look_up(&rest, &p)];
        } while (next_place(&p));
    }
    return true;
}

/* Makes the space over which a scatter walks: the axes of x, then those that only indices have.
 * False: too many axes. */
static bool scatter_walk(const CertOp *op, BoxTensor *const *in, BoxShape *walk)
{
    *walk = *in[0]->shape;
    for (uint32_t i = 1; i < op->n_in; i++)
        for (uint32_t d = 0; d < in[i]->shape->rank; d++) {
            const BoxAxis *axis = &in[i]->shape->axes[d];
            if (dt_boxsmall_axis(walk, axis->name))
                continue;
            if (walk->rank == CERT_RANK)
                return false;
            walk->axes[walk->rank++] = *axis;
        }
    return true;
}

static int64_t places_in(const BoxShape *walk)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < walk->rank; d++)
        n = n > INT32_MAX ? n : n * walk->axes[d].local;
    return n;
}

/* Whether each axis of the walk is either summed or kept in the result. */
static bool scatter_keeps(const CertOp *op, const BoxShape *walk, const BoxShape *to)
{
    for (uint32_t d = 0; d < walk->rank; d++) {
        bool away = false, target = false;
        for (uint32_t k = 0; k < op->n_axes2; k++)
            away |= op->axes2[k] == walk->axes[d].name;
        for (uint32_t k = 0; k < op->n_axes; k++)
            target |= op->axes[k] == walk->axes[d].name;
        if (away != (target || !dt_boxsmall_axis(to, walk->axes[d].name)))
            return false;
    }
    return true;
}

/* Returns how many positions of summed axes the walk's present place stands for
 * (BoxLens.weight). */
static int64_t weight_at(const BoxShape *walk, const CertOp *op, const Places *p)
{
    int64_t weight = 1;
    for (uint32_t i = 0; i < op->n_axes2; i++) {
        const BoxAxis *axis = dt_boxsmall_axis(walk, op->axes2[i]);
        if (axis && axis->lens->weight)
            weight *= axis->lens->weight[p->at[axis - walk->axes] % axis->lens->k];
    }
    return weight;
}

static bool scatter_add(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    Lookup look;
    Tables from, to;
    BoxShape *walk = DT_NEW(b->scratch, BoxShape);
    const BoxShape *made = out->shape;
    if (in[0]->shape->is_float != made->is_float || !scatter_walk(op, in, walk) ||
        !scatter_keeps(op, walk, made) || !lookup_of(b, op, in, made, walk, &look) ||
        !walk_steps(b, walk, in[0]->shape, 0, NULL, &from) ||
        !walk_steps(b, walk, made, op->n_axes, op->axes, &to) ||
        !dt_boxsmall_afford(b, places_in(walk), 1))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        Places p = places_of(walk);
        do {
            const int64_t at = lead(b, &look, &p, rank);
            if (at < 0)
                continue;
            DtResidue *sum = &out->at[rank * made->n + at + look_up(&to, &p)];
            const DtResidue term = in[0]->at[rank * in[0]->shape->n + look_up(&from, &p)];
            const int64_t weight = weight_at(walk, op, &p);
            *sum = dt_boxnumber_combine(
                b, BOX_SUM, made, *sum,
                dt_boxnumber_times(b, made, term, weight, dt_residue_of_whole(b->r, weight)));
        } while (next_place(&p));
    }
    return true;
}

/* ---- between ranks ---- */

/* Finds the source of each element of a result on `rank`, by coordinates of the result: the offset
 * in the operand, and the rank that holds the element, as a difference from the number of the rank
 * with the same coordinates and 0 on the mesh axes that split the operand. */
typedef struct Sources {
    Tables offset, holder;
    uint16_t split; /* mesh axes that split the operand */
} Sources;

static bool sources_of(Box *b, const BoxShape *from, const BoxShape *to, uint32_t rank, Sources *s)
{
    if (from->rank != to->rank)
        return false;
    *s = (Sources){new_tables(b, to), new_tables(b, to), 0};
    for (uint32_t d = 0; d < to->rank; d++) {
        const BoxAxis *axis = &to->axes[d], *own = dt_boxsmall_axis(from, axis->name);
        if (!own || own->extent != axis->extent || own->lens != axis->lens)
            return false;
        for (uint32_t k = 0; k < own->n; k++)
            s->split |= (uint16_t)(1u << own->split[k]);
        for (int64_t k = 0; k < axis->local; k++) {
            uint32_t holder;
            const int64_t at =
                dt_boxsmall_find(b, own, dt_boxsmall_global(b, axis, rank, k), 0, &holder);
            s->offset.of[d][k] = at * from->stride[own - from->axes];
            s->holder.of[d][k] = holder;
        }
    }
    return true;
}

static uint32_t without(const Box *b, uint32_t rank, uint16_t mesh)
{
    for (uint32_t m = 0; m < b->n_mesh; m++)
        if (mesh >> m & 1)
            rank = dt_boxsmall_move(b, rank, m, 0);
    return rank;
}

/* Fills ret_members with the ranks that differ from `rank` in these mesh axes only, itself
 * included, in order; returns their number. */
static uint32_t group_of(const Box *b, uint32_t rank, uint16_t mesh, uint32_t *ret_members)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->ranks; i++)
        if (dt_boxsmall_together(b, mesh, rank, i))
            ret_members[n++] = i;
    return n;
}

static bool move_rank(Box *b, const BoxTensor *x, BoxTensor *y, uint16_t mesh, bool reduces,
                      uint32_t rank, uint32_t *members)
{
    const BoxShape *from = x->shape, *to = y->shape;
    Sources s;
    members[0] = rank;
    const uint32_t n = reduces ? group_of(b, rank, mesh, members) : 1;
    if (!sources_of(b, from, to, rank, &s) || !dt_boxsmall_afford(b, to->n, n))
        return false;
    for (uint32_t i = 0; i < n; i++)
        members[i] = without(b, members[i], s.split);
    DtResidue *made = y->at + rank * to->n;
    const BoxReduce reduction = dt_boxnumber_reduction(from->type->pending);
    Places p = places_of(to);
    do {
        const int64_t offset = look_up(&s.offset, &p);
        const uint32_t holds = (uint32_t)look_up(&s.holder, &p);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t holder = members[i] + holds;
            if (!dt_boxsmall_together(b, mesh, rank, holder))
                return false;
            const DtResidue term = x->at[holder * from->n + offset];
            *made = i ? dt_boxnumber_combine(b, reduction, to, *made, term) : term;
        }
        made++;
    } while (next_place(&p));
    return true;
}

static bool move_to(Box *b, const BoxTensor *x, BoxTensor *y, uint16_t mesh, bool reduces)
{
    uint32_t *members = DT_NEW_ARRAY(b->scratch, uint32_t, b->ranks);
    if (x->shape->is_float != y->shape->is_float || (reduces && !x->shape->type->pending))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        if (!move_rank(b, x, y, mesh, reduces, rank, members))
            return false;
    return true;
}

BoxTensor *dt_boxmove_to(Box *b, const CertOp *op, const BoxTensor *x, const CertType *to,
                         uint16_t mesh, bool reduces)
{
    BoxTensor *y = dt_boxsmall_tensor(b, to);
    if (y && !move_to(b, x, y, mesh, reduces)) {
        dt_box_fail(b, op, "a rank needs what no rank of its group has");
        return NULL;
    }
    return y;
}

static bool exchange(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const bool reduces = is(op->kind, "all_reduce") || is(op->kind, "reduce_scatter");
    return op->n_in == 1 && !op->stages &&
           move_to(b, in[0], out, is(op->kind, "shard") ? 0 : op->mesh, reduces);
}

/* Returns the rank that is `step` (1 or -1) away from `rank` within its group, in the order of the
 * mesh. The first and the last rank are neighbours. */
static uint32_t neighbour(const Box *b, uint32_t rank, uint16_t mesh, int64_t step)
{
    for (uint32_t m = b->n_mesh; m-- > 0 && step;) {
        if (!(mesh >> m & 1))
            continue;
        const int64_t size = b->size[m], at = dt_boxsmall_coordinate(b, rank, m) + step;
        rank = dt_boxsmall_move(b, rank, m, (at + size) % size);
        step = at < 0 ? -1 : at / size; /* carried on to the next major one */
    }
    return rank;
}

static bool shift(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out)
{
    const BoxShape *shape = out->shape;
    if (op->n_in != 1 || !dt_boxsmall_same_type(in[0]->shape->type, shape->type))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        const uint32_t from = neighbour(b, rank, op->mesh, dt_box_has_flag(op, "reverse") ? 1 : -1);
        memcpy(out->at + rank * shape->n, in[0]->at + from * shape->n,
               (size_t)shape->n * sizeof out->at[0]);
    }
    return true;
}

DtBoxOp *dt_boxmove_op(const CertOp *op)
{
    static const struct {
        const char *kind;
        DtBoxOp *run;
    } ops[] = {{"relabel", relabel},         {"dot", dot},
               {"reduce", reduce},           {"gather", gather},
               {"scatter_add", scatter_add}, {"all_gather", exchange},
               {"all_reduce", exchange},     {"reduce_scatter", exchange},
               {"all_to_all", exchange},     {"shard", exchange},
               {"shift", shift}};
    for (size_t i = 0; i < DT_COUNT(ops); i++)
        if (is(ops[i].kind, op->kind))
            return ops[i].run;
    return dt_boxaxis_op(op);
}
