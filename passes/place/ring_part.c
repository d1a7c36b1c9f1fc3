/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: a value as the parts that the ranks of a ring have, without moving anything. The
 * parts are counted by an axis @ring, split over the ring's mesh axes in the order of the mesh,
 * which is the order in which `shift` passes them on:
 *
 *     seq/context                  ->  @ring/context, seq
 *     seq/inner.outer, group       ->  @ring.inner/inner, @ring.outer/outer, seq, group
 *                                  ->  @ring/outer.inner, seq, group
 *     seq/data.context             ->  @ring/context, seq/data
 *
 * In the last line a rank's part of seq is that of its `data` alone within what ranks of equal
 * `context` have: not a block of seq, but that matters to nobody, since positions are taken apart
 * in the same way. */
#include "passes/place/ring_internal.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/shape.h"

#include <stdio.h>
#include <string.h>

DtRingRanks dt_ringpart_ranks(const DtMesh *mesh, uint16_t bits)
{
    DtRingRanks ranks = {.mesh = mesh, .bits = bits,
                         .axis = {.name = dt_intern("@ring"), .extent = 1}};
    for (uint32_t m = 0; m < mesh->n; m++)
        if (bits >> m & 1) {
            ranks.axis.split[ranks.axis.n_split++] = (uint8_t)m;
            ranks.axis.extent *= mesh->axes[m].size;
        }
    return ranks;
}

static bool is_of_ring(const DtRingRanks *r, uint32_t m) { return r->bits >> m & 1; }

DtAxis dt_ringpart_rest(const DtRingRanks *r, const DtAxis *axis)
{
    DtAxis rest = *axis;
    rest.n_split = 0;
    for (uint32_t s = 0; s < axis->n_split; s++) {
        if (is_of_ring(r, axis->split[s]))
            rest.extent /= r->mesh->axes[axis->split[s]].size;
        else
            rest.split[rest.n_split++] = axis->split[s];
    }
    if (!dt_ring_is_major(axis, r->bits)) /* all of it is taken apart, see take_axis */
        rest.zigzag = 0;
    return rest;
}

/* ---- steps ---- */

/* Returns axis "@ring.m", with one element per rank of mesh axis m. */
static DtAxis part_axis(const DtRingRanks *r, uint32_t m)
{
    const DtMeshAxis *mesh = &r->mesh->axes[m];
    return (DtAxis){.name = dt_intern_printf("@ring.%s", mesh->name),
                    .extent = mesh->size,
                    .n_split = 1,
                    .split = {(uint8_t)m}};
}

/* Returns type with `part` added in front, and with `axis` in the place of the axis of the same
 * name. */
static const DtType *with_part(const DtType *type, DtAxis part, DtAxis axis)
{
    DtAxis axes[DT_MAX_RANK];
    axes[0] = part;
    for (uint32_t d = 0; d < type->rank; d++)
        axes[d + 1] = type->axes[d].name == axis.name ? axis : type->axes[d];
    return dt_type_make(type->dtype, type->rank + 1, axes, type->partial, (DtReduce)type->pending);
}

/* Returns type without the axis named `part`, and with `axis` in the place of the axis of the same
 * name. */
static const DtType *without_part(const DtType *type, const char *part, DtAxis axis)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->axes[d].name != part)
            axes[n++] = type->axes[d].name == axis.name ? axis : type->axes[d];
    return dt_type_make(type->dtype, n, axes, type->partial, (DtReduce)type->pending);
}

/* Appends a relabel that moves the first splits of x's axis of that name to a new axis, `part`. */
static DtValue *take(DtBuilder *b, DtValue *x, DtAxis part, const char *name)
{
    DtAxis axis = x->type->axes[dt_type_find(x->type, name)];
    axis.extent /= part.extent;
    axis.n_split -= part.n_split;
    memmove(axis.split, axis.split + part.n_split, axis.n_split);
    DtRelabel entry = {.n_from = 1,
                       .n_to = 2,
                       .from = {name},
                       .to = {part.name, name},
                       .to_extent = {part.extent, axis.extent}};
    return dt_graph_relabel(b, x, 1, &entry, with_part(x->type, part, axis));
}

/* The inverse: merges the parts into the axis. zigzag: in that order, if no split is left in the
 * axis to show it. wish: the type, or NULL. */
static DtValue *put(DtBuilder *b, DtValue *x, DtAxis part, const char *name, bool zigzag,
                    const DtType *wish)
{
    DtAxis axis = x->type->axes[dt_type_find(x->type, name)];
    axis.extent *= part.extent;
    axis.zigzag = zigzag;
    memmove(axis.split + part.n_split, axis.split, axis.n_split);
    memcpy(axis.split, part.split, part.n_split);
    axis.n_split += part.n_split;
    DtRelabel entry = {.n_from = 2,
                       .n_to = 1,
                       .from = {part.name, name},
                       .to = {name},
                       .to_extent = {axis.extent}};
    return dt_graph_relabel(b, x, 1, &entry, wish ? wish : without_part(x->type, part.name, axis));
}

/* ---- all of a value ---- */

static uint16_t bits_here(const DtRingRanks *r, const DtAxis *axis)
{
    return dt_shape_split_bits(axis) & r->bits;
}

/* Whether the first mesh axes that split the axis are all of the ring's, in their order, so that
 * @ring comes from this axis in one step. */
static bool is_direct(const DtRingRanks *r, const DtAxis *axis)
{
    return axis->n_split >= r->axis.n_split &&
           memcmp(axis->split, r->axis.split, r->axis.n_split) == 0;
}

/* Appends relabels that move each of the ring's mesh axes that split axis to an axis of its own
 * ("@ring.m"). */
static DtValue *take_axis(const DtRingRanks *r, DtBuilder *b, DtValue *x, const DtAxis *axis)
{
    const bool all = !dt_ring_is_major(axis, r->bits);
    for (uint32_t s = 0; s < axis->n_split; s++)
        if (all || is_of_ring(r, axis->split[s]))
            x = take(b, x, part_axis(r, axis->split[s]), axis->name);
    for (uint32_t s = axis->n_split; all && s-- > 0;)
        if (!is_of_ring(r, axis->split[s]))
            x = put(b, x, part_axis(r, axis->split[s]), axis->name, false, NULL);
    return x;
}

/* Merges the axes "@ring.m" of x into one axis @ring; along those that it lacks, x is repeated. */
static DtValue *join_parts(const DtRingRanks *r, DtBuilder *b, DtValue *x)
{
    DtRelabel entry = {.n_to = 1, .to = {r->axis.name}, .to_extent = {r->axis.extent}};
    DtAxis axes[DT_MAX_RANK];
    const uint32_t n = r->axis.n_split;
    for (uint32_t s = 0; s < n; s++) {
        const DtAxis part = part_axis(r, r->axis.split[s]);
        entry.from[entry.n_from++] = part.name;
        if (dt_type_find(x->type, part.name) < 0)
            x = dt_graph_expand(b, x, with_part(x->type, part, part));
    }
    uint32_t rank = 1;
    axes[0] = r->axis;
    for (uint32_t d = 0; d < x->type->rank; d++)
        if (x->type->axes[d].name[0] != '@' || strncmp(x->type->axes[d].name, "@ring.", 6) != 0)
            axes[rank++] = x->type->axes[d];
    return dt_graph_relabel(b, x, 1, &entry,
                            dt_type_make(x->type->dtype, rank, axes, x->type->partial,
                                         (DtReduce)x->type->pending));
}

DtValue *dt_ringpart_of(const DtRingRanks *r, DtBuilder *b, DtValue *x)
{
    const DtType *type = x->type;
    bool any = false;
    for (uint32_t d = 0; d < type->rank; d++) {
        if (is_direct(r, &type->axes[d]))
            return take(b, x, r->axis, type->axes[d].name);
        if (!bits_here(r, &type->axes[d]))
            continue;
        x = take_axis(r, b, x, &type->axes[d]);
        any = true;
    }
    return any ? join_parts(r, b, x) : x;
}

/* Appends relabels that split @ring into one axis "@ring.m" per mesh axis. */
static DtValue *take_ring(const DtRingRanks *r, DtBuilder *b, DtValue *x)
{
    const uint32_t n = r->axis.n_split;
    for (uint32_t s = 0; s + 1 < n; s++)
        x = take(b, x, part_axis(r, r->axis.split[s]), r->axis.name);
    return dt_graph_rename(b, x, r->axis.name, part_axis(r, r->axis.split[n - 1]).name, NULL);
}

/* Appends relabels that put the axes "@ring.m" back into axis, which is ordered as dt_ringpart_rest
 * describes. */
static DtValue *put_axis(const DtRingRanks *r, DtBuilder *b, DtValue *x, const DtAxis *axis)
{
    const bool all = !dt_ring_is_major(axis, r->bits);
    for (uint32_t s = 0; all && s < axis->n_split; s++)
        if (!is_of_ring(r, axis->split[s]))
            x = take(b, x, part_axis(r, axis->split[s]), axis->name);
    for (uint32_t s = axis->n_split; s-- > 0;)
        if (all || is_of_ring(r, axis->split[s]))
            x = put(b, x, part_axis(r, axis->split[s]), axis->name, axis->zigzag, NULL);
    return x;
}

/* Appends a reduction over axes of ranks that leaves a pending sum. A rank has just one term, so
 * nothing is added here, nor rounded. */
static DtValue *pend(DtBuilder *b, DtValue *x, uint32_t n, const char *const *axes)
{
    return dt_graph_cast(b, dt_graph_reduce(b, DT_REDUCE_SUM, x, n, axes), x->type->dtype);
}

/* Turns the axes "@ring.m" that are left in x into pending sums over these mesh axes, as the type
 * says. */
static DtValue *sum_parts(const DtRingRanks *r, DtBuilder *b, DtValue *x, const DtType *type)
{
    const char *axes[DT_MAX_SPLIT];
    uint32_t n = 0;
    for (uint32_t s = 0; s < r->axis.n_split; s++) {
        const uint32_t m = r->axis.split[s];
        const char *part = part_axis(r, m).name;
        if (dt_type_find(x->type, part) < 0)
            continue;
        if (!(type->partial >> m & 1))
            DT_BUG("a ring leaves what it splits over some of its mesh axes only");
        axes[n++] = part;
    }
    return n ? pend(b, x, n, axes) : x;
}

DtValue *dt_ringpart_join(const DtRingRanks *r, DtBuilder *b, DtValue *x, const DtType *type)
{
    if (dt_type_find(x->type, r->axis.name) < 0)
        return dt_graph_reorder(b, x, type);
    for (uint32_t d = 0; d < type->rank; d++)
        if (is_direct(r, &type->axes[d]))
            return put(b, x, r->axis, type->axes[d].name, type->axes[d].zigzag, type);
    if ((type->partial & r->bits) == r->bits)
        return dt_graph_reorder(b, pend(b, x, 1, &r->axis.name), type);
    x = take_ring(r, b, x);
    for (uint32_t d = 0; d < type->rank; d++)
        if (bits_here(r, &type->axes[d]))
            x = put_axis(r, b, x, &type->axes[d]);
    return dt_graph_reorder(b, sum_parts(r, b, x, type), type);
}
