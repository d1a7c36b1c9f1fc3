/* SPDX-License-Identifier: Apache-2.0 */
/* How the points of a kernel fall to blocks and threads.
 *
 *   maps      each thread has a point, or eight or four neighbouring ones if it can load and store them at once;
 *             neighbours in memory are neighbouring threads'
 *   rows      a row has 64 lanes, or 16, of which each thread has eight or four neighbouring ones, of 16 bits 16 bytes:
 *             element j is in lane j mod 64, so eight or 16 threads read 64 elements at a time, a warp those of four
 *             rows or two
 *   columns   each thread has a column, whose elements it adds in order
 *   pieces    of rows and columns are like rows and columns of their own; a second launch has 16 threads for the pieces
 *             of each
 *   sums      over rows, beside these: a row has all threads of a warp, which go through a piece of the rows; each adds
 *             its elements of the sums in memory of the block
 *   by index  sums: a block has some places of the indexed axes, its threads those of the others (scatter.c); where
 *             few points are added, or indices differ along the others, each thread has what lies in one place of them
 *   others    each thread has a scan or a choice of the largest, and goes through it in order
 *
 * An element is in the lane in which the target "cpu" has it, and lanes are combined by the same tree (docs/kernels.md,
 * section 2): a kernel's results are the same bits on both. */
#include "codegen/cuda/tile.h"

#include "codegen/cuda/scatter.h"
#include "codegen/cuda/wide.h"

enum { THREADS = 256, WARP = 32, SHARED = 160 << 10, /* bytes that every machine has */
       ACCESS = 16, LONG_ROW = 128, MOST_BLOCKS = 1 << 16, MANY_POINTS = 1 << 14 };

static bool reduces(const DtKernel *k, const bool *live)
{
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (live[i] && k->nodes.at[i].kind == DT_KNODE_REDUCE)
            return true;
    return false;
}

/* Elements of 16 bytes of 16-bit values if there are any, else of 32-bit ones. A draw is much code, once for each. */
static uint32_t vector_of(const DtKernel *k, const bool *live)
{
    size_t size = 4;
    for (uint32_t i = 0; i < k->pointers.n; i++)
        if (dt_dtype_size(k->pointers.at[i].view->dtype) == 2)
            size = 2;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (live[i] && k->nodes.at[i].kind == DT_KNODE_RNG)
            size = 4;
    return (uint32_t)(ACCESS / size);
}

/* Points of a thread. A thread that has several of few would leave others idle. */
static uint32_t points_of(const DtKernel *k, const bool *live, int64_t points)
{
    const uint32_t n = vector_of(k, live);
    return points >= MANY_POINTS && k->extent[k->n_axes - 1] % n == 0 && dt_wide_all(k, live, n) ? n : 1;
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

/* As many as have room for their sums. */
static void choose_warps(const DtKernel *k, const bool *live, DtTile *tile)
{
    uint32_t bytes = sizeof(float) * (WARP / tile->group), sums = 0; /* of a warp */
    for (uint32_t i = 0; i < k->nodes.n; i++)
        sums += live[i] && k->nodes.at[i].kind == DT_KNODE_REDUCE && k->nodes.at[i].late;
    for (uint32_t a = k->n_outer; a < k->n_axes; a++)
        bytes *= (uint32_t)k->extent[a];
    bytes *= sums;
    const uint32_t fit = SHARED / bytes, most = THREADS / WARP, warps = fit < most ? fit : most;
    tile->threads = warps * WARP;
    tile->shared = warps * bytes;
}

int64_t dt_tile_blocks(int64_t items, uint32_t at_once)
{
    const int64_t blocks = (items + at_once - 1) / at_once;
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

DtTile dt_tile_of(const DtKernel *k, const bool *live)
{
    DtTile tile = {.threads = THREADS, .group = 1, .vector = 1, .free = free_of(k, live), .items = 1,
                   .pieces = k->pieces ? k->pieces : 1};
    if (k->form == DT_KFORM_ROW && reduces(k, live)) {
        tile.lanes = k->extent[k->n_axes - 1] >= LONG_ROW ? 64 : 16;
        tile.vector = vector_of(k, live);
        tile.group = tile.lanes / tile.vector;
    }
    if (k->pieces_of_rows) {
        tile.group = tile.lanes < WARP ? tile.lanes : WARP;
        tile.vector = tile.lanes / tile.group;
        choose_warps(k, live, &tile);
    }
    tile.each = 1.0 / (double)(tile.group * tile.pieces);
    for (uint32_t a = 0; a < k->n_axes; a++)
        if (tile.free >> a & 1)
            tile.items *= k->extent[a];
        else
            tile.each *= (double)k->extent[a];
    if (dt_scatter_tile(k, &tile))
        return tile;
    if (!k->special && !tile.lanes && !reduces(k, live) && k->n_axes) {
        tile.vector = points_of(k, live, tile.items);
        tile.items /= tile.vector;
        tile.each *= tile.vector;
    }
    tile.blocks = dt_tile_blocks(k->pieces_of_rows ? tile.pieces : tile.items * tile.pieces, tile.threads / tile.group);
    return tile;
}
