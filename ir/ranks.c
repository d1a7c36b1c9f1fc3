/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements of a value each rank holds, and the way from a whole tensor to the ranks' parts
 * and back. The one place, beside the types themselves, that knows the order of blocks. */
#include "ir/interp_ranks.h"

#include "base/bug.h"
#include "ir/interp_eval.h"

#include <math.h>
#include <string.h>

/* ---- ranks ---- */

uint32_t dt_ranks_count(const DtMesh *mesh)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < mesh->n; i++)
        n *= mesh->axes[i].size;
    return (uint32_t)n;
}

/* Returns the difference between the numbers of ranks that are neighbours along a mesh axis. */
static uint32_t stride_of(const DtMesh *mesh, uint32_t axis)
{
    int64_t stride = 1;
    for (uint32_t i = axis + 1; i < mesh->n; i++)
        stride *= mesh->axes[i].size;
    return (uint32_t)stride;
}

int64_t dt_ranks_coordinate(const DtMesh *mesh, uint32_t rank, uint32_t axis)
{
    return rank / stride_of(mesh, axis) % mesh->axes[axis].size;
}

uint32_t dt_ranks_move(const DtMesh *mesh, uint32_t rank, uint32_t axis, int64_t coordinate)
{
    int64_t steps = coordinate - dt_ranks_coordinate(mesh, rank, axis);
    return (uint32_t)((int64_t)rank + steps * stride_of(mesh, axis));
}

bool dt_ranks_together(const DtMesh *mesh, unsigned axes, uint32_t a, uint32_t b)
{
    for (uint32_t m = 0; m < mesh->n; m++)
        if ((axes >> m & 1) && dt_ranks_coordinate(mesh, a, m) != dt_ranks_coordinate(mesh, b, m))
            return false;
    return true;
}

/* ---- positions along one axis ---- */

static int64_t parts_of(const DtAxis *axis, const DtMesh *mesh)
{
    int64_t parts = 1;
    for (uint32_t i = 0; i < axis->n_split; i++) {
        if (axis->split[i] >= mesh->n)
            DT_BUG("ranks: `%s` is split over mesh axis %u of %u", axis->name, axis->split[i],
                   mesh->n);
        parts *= mesh->axes[axis->split[i]].size;
    }
    if (axis->extent % (axis->zigzag ? 2 * parts : parts) != 0)
        DT_BUG("ranks: `%s` (%lld) does not divide into %lld parts", axis->name,
               (long long)axis->extent, (long long)parts);
    return parts;
}

int64_t dt_ranks_global(const DtAxis *axis, const DtMesh *mesh, uint32_t rank, int64_t local)
{
    int64_t parts = parts_of(axis, mesh), length = axis->extent / parts, part = 0;
    for (uint32_t i = 0; i < axis->n_split; i++) {
        uint32_t m = axis->split[i];
        part = part * mesh->axes[m].size + dt_ranks_coordinate(mesh, rank, m);
    }
    if (!axis->zigzag)
        return part * length + local;
    int64_t half = length / 2;
    return local < half ? part * half + local : (2 * parts - 1 - part) * half + local - half;
}

int64_t dt_ranks_find(const DtAxis *axis, const DtMesh *mesh, int64_t global, uint32_t rank,
                      uint32_t *ret_holder)
{
    int64_t parts = parts_of(axis, mesh), length = axis->extent / parts;
    int64_t part = global / length, local = global % length;
    if (axis->zigzag) {
        int64_t half = length / 2, block = global / half;
        part = block < parts ? block : 2 * parts - 1 - block;
        local = global % half + (block < parts ? 0 : half);
    }
    for (uint32_t i = axis->n_split; i-- > 0;) {
        int64_t size = mesh->axes[axis->split[i]].size;
        rank = dt_ranks_move(mesh, rank, axis->split[i], part % size);
        part /= size;
    }
    *ret_holder = rank;
    return local;
}

/* ---- parts of tensors ---- */

const DtType *dt_ranks_local(const DtType *type, const DtMesh *mesh)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i] = (DtAxis){.name = type->axes[i].name,
                           .extent = type->axes[i].extent / parts_of(&type->axes[i], mesh)};
    return dt_type_plain(type->dtype, type->rank, axes);
}

/* The places of a rank's part in the whole tensor. */
typedef struct Places {
    const DtType *type;
    int64_t *at[DT_MAX_RANK]; /* by local index along an axis: what it adds to the offset in the
                               * whole tensor */
    DtWalk walk;              /* a walk over the part */
} Places;

static Places places_of(DtArena *arena, const DtType *type, const DtMesh *mesh, uint32_t rank)
{
    Places places = {.type = type};
    const DtType *local = dt_ranks_local(type, mesh);
    dt_walk_add(&places.walk, local);
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t stride = dt_walk_stride(type, i);
        places.at[i] = DT_NEW_ARRAY(arena, int64_t, local->axes[i].extent);
        for (int64_t k = 0; k < local->axes[i].extent; k++)
            places.at[i][k] = stride * dt_ranks_global(&type->axes[i], mesh, rank, k);
    }
    return places;
}

static int64_t place_in_whole(const Places *places)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < places->type->rank; i++)
        offset += places->at[i][places->walk.at[i]];
    return offset;
}

/* Returns the result of a reduction over no elements. */
static double identity_of(DtReduce reduce)
{
    return reduce == DT_REDUCE_SUM ? 0 : reduce == DT_REDUCE_MAX ? -INFINITY : INFINITY;
}

/* Whether rank is the first of those that differ in these mesh axes only. */
static bool is_first(const DtMesh *mesh, uint32_t rank, unsigned bits)
{
    for (uint32_t m = 0; m < mesh->n; m++)
        if ((bits >> m & 1) && dt_ranks_coordinate(mesh, rank, m) != 0)
            return false;
    return true;
}

DtTensor *dt_ranks_slice(DtArena *arena, const DtTensor *whole, const DtType *type,
                         const DtMesh *mesh, uint32_t rank)
{
    DtTensor *part = dt_interp_tensor(arena, dt_ranks_local(type, mesh));
    Places places = places_of(arena, type, mesh, rank);
    bool first = is_first(mesh, rank, type->partial);
    double *to = part->at;
    do {
        *to++ = first ? whole->at[place_in_whole(&places)] : identity_of((DtReduce)type->pending);
    } while (dt_walk_next(&places.walk));
    return part;
}

/* ---- joining ---- */

/* Returns the bit set of the mesh axes over which ranks hold different elements or terms. */
static unsigned used_axes(const DtType *type)
{
    unsigned used = type->partial;
    for (uint32_t i = 0; i < type->rank; i++)
        for (uint32_t k = 0; k < type->axes[i].n_split; k++)
            used |= 1u << type->axes[i].split[k];
    return used;
}

bool dt_ranks_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

/* Returns the first rank that holds the same as `rank` and whose part is given. */
static uint32_t first_copy(DtTensor *const *parts, const DtMesh *mesh, unsigned used, uint32_t rank)
{
    uint32_t first = rank;
    for (uint32_t m = 0; m < mesh->n; m++)
        if (!(used >> m & 1))
            first = dt_ranks_move(mesh, first, m, 0);
    while (first < rank && !(parts[first] && dt_ranks_together(mesh, used, first, rank)))
        first++; /* skips ranks that have no part */
    return first;
}

bool dt_ranks_agree(DtTensor *const *parts, const DtType *type, const DtMesh *mesh,
                    DtRanksDifference *ret_difference)
{
    unsigned used = used_axes(type);
    for (uint32_t rank = 0; rank < dt_ranks_count(mesh); rank++) {
        uint32_t first = parts[rank] ? first_copy(parts, mesh, used, rank) : rank;
        if (first == rank || parts[first]->at == parts[rank]->at)
            continue;
        for (int64_t i = 0; i < dt_type_elements(parts[rank]->type); i++)
            if (!dt_ranks_equal(parts[first]->at[i], parts[rank]->at[i])) {
                *ret_difference = (DtRanksDifference){.rank = first,
                                                      .other = rank,
                                                      .element = i,
                                                      .value = parts[first]->at[i],
                                                      .other_value = parts[rank]->at[i]};
                return false;
            }
    }
    return true;
}

static const DtType *whole_type(const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i] = (DtAxis){.name = type->axes[i].name, .extent = type->axes[i].extent};
    return dt_type_plain(type->dtype, type->rank, axes);
}

DtTensor *dt_ranks_join(DtArena *arena, DtTensor *const *parts, const DtType *type,
                        const DtMesh *mesh)
{
    DtTensor *whole = dt_interp_tensor(arena, whole_type(type));
    const DtOpKind combine = dt_interp_combining[type->pending];
    unsigned used = used_axes(type);
    for (uint32_t rank = 0; rank < dt_ranks_count(mesh); rank++) {
        if (!parts[rank] || first_copy(parts, mesh, used, rank) != rank)
            continue;
        bool first_term = is_first(mesh, rank, type->partial);
        Places places = places_of(arena, type, mesh, rank);
        const double *from = parts[rank]->at;
        do {
            double *to = &whole->at[place_in_whole(&places)], value = *from++;
            *to = first_term ? value : dt_interp_binary(combine, type->dtype, *to, value);
        } while (dt_walk_next(&places.walk));
    }
    return whole;
}
