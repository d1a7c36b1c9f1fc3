/* SPDX-License-Identifier: Apache-2.0 */
/* How the points of a kernel fall to blocks and threads.
 *
 *   maps      each thread has a point; neighbours in memory are neighbouring threads'
 *   rows      a row has 64 lanes, or 16, of which each thread has four or eight neighbouring ones, 16 bytes: element j
 *             is in lane j mod 64, so 16 or eight threads read 64 elements at a time, a warp those of two rows or four
 *   columns   each thread has a column, whose elements it adds in order
 *   others    each thread has a scan, a choice of the largest, or the elements of a sum by index that lie in one place
 *             of the axes that are not indexed; it goes through them in order
 *
 * An element is in the lane in which the target "cpu" has it, and lanes are combined by the same tree (docs/kernels.md,
 * section 2): a kernel's results are the same bits on both. */
#include "codegen/cuda/tile.h"

enum { THREADS = 256, ACCESS = 16, LONG_ROW = 128, MOST_BLOCKS = 1 << 16 };

static bool reduces(const DtKernel *k, const bool *live)
{
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (live[i] && k->nodes.at[i].kind == DT_KNODE_REDUCE)
            return true;
    return false;
}

/* Elements of 16 bytes of the widest type that is read or written along rows. */
static uint32_t vector_of(const DtKernel *k)
{
    size_t widest = 2;
    for (uint32_t i = 0; i < k->pointers.n; i++)
        if (dt_dtype_size(k->pointers.at[i].view->dtype) > widest)
            widest = dt_dtype_size(k->pointers.at[i].view->dtype);
    return (uint32_t)(ACCESS / widest);
}

/* Axes that items differ in: of a sum by index those that the result has as they are, so that no two threads add to one
 * element. */
static uint32_t free_of(const DtKernel *k, const bool *live)
{
    uint32_t free = 0, n = k->special || reduces(k, live) ? k->n_outer : k->n_axes;
    if (k->form != DT_KFORM_SCATTER)
        return (1u << n) - 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        free |= (uint32_t)(k->stores.at[0].stride[a] != 0) << a;
    return free;
}

DtTile dt_tile_of(const DtKernel *k, const bool *live)
{
    DtTile tile = {.threads = THREADS, .group = 1, .free = free_of(k, live), .items = 1};
    if (k->form == DT_KFORM_ROW && reduces(k, live)) {
        tile.lanes = k->extent[k->n_axes - 1] >= LONG_ROW ? 64 : 16;
        tile.vector = vector_of(k);
        tile.group = tile.lanes / tile.vector;
    }
    tile.each = 1.0 / tile.group;
    for (uint32_t a = 0; a < k->n_axes; a++)
        if (tile.free >> a & 1)
            tile.items *= k->extent[a];
        else
            tile.each *= (double)k->extent[a];
    const int64_t at_once = tile.threads / tile.group, blocks = (tile.items + at_once - 1) / at_once;
    tile.blocks = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
    return tile;
}
