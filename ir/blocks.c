/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange moves blocks. Along each axis a block is as long as the shorter of operand and
 * result. Mesh axes of the operand's type that the result's lacks give the place of a member's
 * block in the result; mesh axes of the result's alone give its place in the operand:
 *
 *     all_gather      [a, b/t] -> [a, b]      to: b + coordinate of the sender
 *     reduce_scatter  [a, b] -> [a, b/t]      from: b + coordinate of the receiver
 *     all_to_all      [a, b/t] -> [a/t, b]    to: b + that of the sender; from: a + that of the
 *     receiver
 *
 * Both are views of memory, so nothing is packed. Only an operand or result that is itself a
 * strided view goes through a dense copy, if adjacent elements would not be adjacent on both
 * sides. */
#include "ir/blocks.h"

typedef struct Dim {
    int64_t extent, to, from;
} Dim;

/* Returns by how many elements a block moves along the axis if the coordinate of the axis's split
 * number s grows by one. */
static int64_t step_of(const DtAxis *axis, uint32_t s, const DtMesh *mesh)
{
    int64_t step = axis->extent;
    for (uint32_t i = 0; i <= s; i++)
        step /= mesh->axes[axis->split[i]].size;
    return step;
}

/* Returns the number of the first mesh axis of devices: an axis of time, if there is one, comes
 * before those. */
static uint32_t first_device(const DtMesh *mesh)
{
    return mesh->n && mesh->axes[0].is_time ? 1 : 0;
}

/* Returns the index in blocks->coord_axis of a mesh axis of devices, which it adds if needed. -1:
 * all indices are used. */
static int coord_slot(DtBlocks *blocks, uint32_t axis, uint32_t *n)
{
    for (uint32_t c = 0; c < *n; c++)
        if (blocks->coord_axis[c] == axis)
            return (int)c;
    if (*n == DT_BLOCK_COORDS)
        return -1;
    blocks->coord_axis[*n] = (uint8_t)axis;
    return (int)(*n)++;
}

/* Adds to coords, by mesh axis, how far a step of its coordinate moves a block. It does so for the
 * splits that `longer` has after the first n_shorter ones. False: blocks have no room for so many
 * mesh axes. */
static bool add_moves(DtBlocks *blocks, const DtAxis *longer, uint32_t n_shorter,
                      int64_t stride, const DtMesh *mesh, int64_t *coords, uint32_t *n)
{
    for (uint32_t s = n_shorter; s < longer->n_split; s++) {
        if (stride == 0) /* elements along the axis */
            continue;
        int slot = coord_slot(blocks, longer->split[s] - first_device(mesh), n);
        if (slot < 0)
            return false;
        coords[slot] += step_of(longer, s, mesh) * stride;
    }
    return true;
}

/* Appends a dimension, in the order of the result, outermost first. If it and the one before it are
 * contiguous in both tensors, it joins them. */
static void add_dim(Dim *dims, uint32_t *n, Dim dim)
{
    if (dim.extent == 1)
        return;
    uint32_t at = (*n)++;
    for (; at > 0 && dims[at - 1].to < dim.to; at--)
        dims[at] = dims[at - 1];
    dims[at] = dim;
}

static uint32_t join(Dim *dims, uint32_t n)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        Dim *last = used ? &dims[used - 1] : NULL;
        if (last && last->to == dims[i].to * dims[i].extent &&
            last->from == dims[i].from * dims[i].extent)
            *last = (Dim){last->extent * dims[i].extent, dims[i].to, dims[i].from};
        else
            dims[used++] = dims[i];
    }
    return used;
}

bool dt_blocks_find(const DtOp *op, const DtMesh *mesh, const DtView *from, const DtView *to,
                    bool adjacent, DtBlocks *ret_blocks)
{
    const DtType *x = op->in[0]->type, *y = op->out[0]->type;
    DtBlocks blocks = {.n_dims = 0};
    Dim dims[DT_MAX_RANK];
    uint32_t n = 0, n_coords = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        const DtAxis *a = &x->axes[i], *b = &y->axes[i];
        int64_t mine = dt_type_local_extent(x, i, mesh), theirs = dt_type_local_extent(y, i, mesh);
        int64_t there = dt_view_stride(to, a->name), here = dt_view_stride(from, a->name);
        add_dim(dims, &n, (Dim){mine < theirs ? mine : theirs, there, here});
        if (!add_moves(&blocks, a, b->n_split, there, mesh, blocks.to_coord, &n_coords) ||
            !add_moves(&blocks, b, a->n_split, here, mesh, blocks.from_coord, &n_coords))
            return false;
    }
    n = join(dims, n);
    if (n > DT_BLOCK_DIMS || (adjacent && n && (dims[n - 1].to != 1 || dims[n - 1].from != 1)))
        return false;
    for (uint32_t d = 0; d < n; d++) {
        blocks.extent[d] = dims[d].extent;
        blocks.to[d] = dims[d].to;
        blocks.from[d] = dims[d].from;
    }
    blocks.n_dims = n;
    *ret_blocks = blocks;
    return true;
}
