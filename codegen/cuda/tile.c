/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns the points of a kernel to blocks and threads.
 *
 *   maps      each thread has a point, or eight or four neighbouring ones if it can load and
 *   store them
 *             at once; neighbours in memory belong to neighbouring threads. If calls of the random
 *             generator give neighbours along another axis, a thread has those of four
 *             neighbours of
 *             that axis; likewise for rows (draws.c)
 *   rows      a row has as many threads as are needed with eight elements each (or four; 16
 *   bytes of
 *             16-bit values): a part of a warp, or all warps of a block. A thread loads its
 *             elements
 *             once and holds them in registers. In a longer row each thread has further
 *             elements, which
 *             shared memory holds
 *   columns   each thread has a column, whose elements it adds in order
 *   pieces    pieces of rows and columns are rows and columns of their own; a second launch has 16
 *             threads for the pieces of each
 *   sums      over rows, in addition: the threads of a row loop over a piece of the rows; each
 *   adds its
 *             elements of the sums in registers, or in shared memory
 *   by index  sums: a block has some places of the indexed axes, its threads those of the others
 *             (scatter.c); with few points, or indices that differ along the others, each thread
 *             has
 *             everything at one place of them
 *   others    each thread computes a scan or a top-k in order
 *
 * The elements of a row that a lane adds, and their order, are part of the kernel (kernel.h,
 * row_threads): printed for processors it gives the same bits (docs/kernels.md, section 2). */
#include "codegen/cuda/tile.h"

#include "codegen/cuda/draws.h"
#include "codegen/cuda/scatter.h"
#include "codegen/cuda/wide.h"

/* bytes that every machine has */
enum { THREADS = 256, WARP = 32, MOST_THREADS = 1024, SHARED = 160 << 10,
       ACCESS = 16, MOST_BLOCKS = 1 << 16, MANY_POINTS = 1 << 14,
       FEW_LANES = 16 }; /* a row with several inner axes has at least this many threads */

static bool reduces(const DtKernel *k, const bool *live)
{
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (live[i] && k->nodes.at[i].kind == DT_KNODE_REDUCE)
            return true;
    return false;
}

/* Returns how many elements a thread accesses at once: as many as 16 bytes hold of 16-bit values if
 * there are any, else of 32-bit ones. With draws it is 4, since a draw is much code, once for each.
 * live: NULL: all nodes are. */
static uint32_t vector_of(const DtKernel *k, const bool *live)
{
    size_t size = 4;
    for (uint32_t i = 0; i < k->pointers.n; i++)
        if (dt_dtype_size(k->pointers.at[i].view->dtype) == 2)
            size = 2;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if ((!live || live[i]) && k->nodes.at[i].kind == DT_KNODE_RNG)
            size = 4;
    return (uint32_t)(ACCESS / size);
}

/* Returns how many neighbouring points a thread has: several only if there are so many points that
 * no thread is left idle. */
static uint32_t points_of(const DtKernel *k, const bool *live, int64_t points)
{
    const uint32_t n = vector_of(k, live);
    return points >= MANY_POINTS && k->extent[k->n_axes - 1] % n == 0 && dt_wide_all(k, live, n)
               ? n
               : 1;
}

/* Returns the bits of the axes that number the items. In a sum by index these are the axes that the
 * result has unchanged, so that no two threads add to one element. */
static uint32_t free_of(const DtKernel *k, const bool *live)
{
    uint32_t free = 0, n = k->special || reduces(k, live) ? k->n_outer : k->n_axes;
    if (k->pattern != DT_KPATTERN_SCATTER)
        return (1u << n) - 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        free |= (uint32_t)(k->stores.at[0].stride[a] != 0) << a;
    return free;
}

/* ---- rows ---- */

/* Returns the number of elements of a row, or of a piece of one. */
static int64_t row_of(const DtKernel *k)
{
    const uint32_t last = k->n_axes - 1;
    return k->pieces_of == DT_KPIECES_AXIS && k->piece_axis == last ? DT_KROW_PIECE
                                                                    : k->extent[last];
}

void dt_tile_order(DtKernel *k)
{
    if (k->pattern == DT_KPATTERN_SCATTER)
        dt_scatter_pieces(k);
    if (!k->n_axes || k->pattern != DT_KPATTERN_ROW)
        return;
    const bool one_axis = k->n_outer + 1 == k->n_axes;
    k->row_each = vector_of(k, NULL);
    /* fewer than FEW_LANES lanes would be idle while others work */
    while (!one_axis && k->row_each > 1 && row_of(k) < FEW_LANES * (int64_t)k->row_each)
        k->row_each /= 2;
    const int64_t wanted = (row_of(k) + k->row_each - 1) / k->row_each;
    uint32_t threads = one_axis ? 1 : FEW_LANES;
    while (threads < wanted && threads < WARP)
        threads *= 2;
    if (wanted > WARP)
        threads =
            (uint32_t)(wanted < MOST_THREADS ? (wanted + WARP - 1) / WARP * WARP : MOST_THREADS);
    k->row_threads = threads;
}

static uint32_t up(uint32_t bytes) { return (bytes + ACCESS - 1) / ACCESS * ACCESS; }

/* Sets ret_most to the most reductions along rows that a phase has, and ret_sums to the number of
 * sums over rows. */
static void count_reductions(const DtKernel *k, const bool *live, uint32_t *ret_most,
                             uint32_t *ret_sums)
{
    *ret_most = *ret_sums = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        uint32_t n = 0;
        if (!live[i] || node->kind != DT_KNODE_REDUCE)
            continue;
        *ret_sums += node->after_rows;
        for (uint32_t j = 0; j < k->nodes.n && !node->after_rows; j++)
            n += live[j] && k->nodes.at[j].kind == DT_KNODE_REDUCE && !k->nodes.at[j].after_rows &&
                 k->nodes.at[j].phase == node->phase;
        *ret_most = n > *ret_most ? n : *ret_most;
    }
}

/* Returns the bytes of shared memory for a row of that load, rounded up to whole accesses, so that
 * the next row is aligned again. */
int64_t dt_tile_held_bytes(const DtKernel *k, uint32_t load, uint32_t each)
{
    const int64_t elements = (k->extent[k->n_axes - 1] + each - 1) / each * each;
    return (elements * (int64_t)dt_dtype_size(k->nodes.at[load].dtype) + ACCESS - 1) / ACCESS *
           ACCESS;
}

/* Returns the bytes of the loads that several phases use. */
static int64_t held_bytes(const DtKernel *k, const uint32_t *uses, uint32_t each)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (uses[i] > 1 && dt_wide_is_load(k, i, each))
            bytes += dt_tile_held_bytes(k, i, each);
    return bytes;
}

/* Chooses what threads keep of their rows, and where in the block's shared memory. Sets threads to
 * 0 if there is no room for sums. */
static void choose_rows(const DtKernel *k, const bool *live, const uint32_t *uses, DtTile *tile)
{
    uint32_t sums;
    int64_t results = 1;
    const bool one_axis = k->n_outer + 1 == k->n_axes, blocks = tile->group > WARP;
    const bool may_hold = one_axis && (!k->pieces || k->pieces_of == DT_KPIECES_ROWS);
    for (uint32_t a = k->n_outer; a < k->n_axes; a++)
        results *= k->extent[a];
    count_reductions(k, live, &tile->slots, &sums);
    tile->threads = blocks ? tile->group : k->pieces_of == DT_KPIECES_ROWS ? WARP : THREADS;
    tile->sums_at = blocks ? up(2 * tile->slots * WARP * (uint32_t)sizeof(float)) : 0;
    tile->held_at = tile->sums_at;
    const int64_t room = results * sums * (int64_t)sizeof(float) * (tile->threads / tile->group);
    if (may_hold && k->extent[k->n_axes - 1] <= tile->lanes)
        tile->hold = DT_HOLD_REGISTERS;
    else if (k->pieces_of == DT_KPIECES_ROWS && room <= SHARED - tile->sums_at)
        tile->held_at += up((uint32_t)room);
    else if (k->pieces_of == DT_KPIECES_ROWS)
        tile->threads = 0;
    tile->shared = tile->held_at;
    const int64_t held = held_bytes(k, uses, tile->vector);
    if (tile->hold || !may_hold || !held || tile->held_at + held > SHARED)
        return;
    tile->hold = DT_HOLD_BLOCK;
    tile->shared += (uint32_t)held;
}

enum { FOUR = 4 };

/* Gives neighbours along the axis of draws to one thread, if enough threads remain. */
static void choose_draws(const DtKernel *k, const bool *live, DtTile *tile)
{
    const uint32_t axis = dt_draws_axis(k, live);
    const bool rows = tile->lanes > 0;
    if (axis == k->n_axes || tile->vector < 2 ||
        (rows &&
         (tile->hold != DT_HOLD_REGISTERS || axis + 1 != k->n_outer || k->piece % FOUR != 0)) ||
        (!k->pieces && tile->items * tile->group < FOUR * MANY_POINTS))
        return;
    tile->rows = FOUR;
    tile->rows_axis = axis;
}

int64_t dt_tile_blocks(int64_t items, uint32_t at_once)
{
    const int64_t blocks = (items + at_once - 1) / at_once;
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

DtTile dt_tile_of(const DtKernel *k, const bool *live, const uint32_t *uses)
{
    DtTile tile = {.threads = THREADS, .group = 1, .vector = 1, .free = free_of(k, live),
                   .items = 1, .pieces = k->pieces ? k->pieces : 1};
    if (k->pattern == DT_KPATTERN_ROW && reduces(k, live)) {
        tile.vector = k->row_each;
        tile.group = k->row_threads;
        tile.lanes = tile.vector * tile.group;
        choose_rows(k, live, uses, &tile);
    }
    tile.each = 1.0 / (double)(tile.group * tile.pieces);
    for (uint32_t a = 0; a < k->n_axes; a++)
        if (tile.free >> a & 1)
            tile.items *= k->extent[a];
        else
            tile.each *= (double)k->extent[a];
    tile.rows = 1;
    if (dt_scatter_tile(k, &tile))
        return tile;
    if (!k->special && !tile.lanes && !reduces(k, live) && k->n_axes) {
        tile.vector = points_of(k, live, tile.items);
        tile.items /= tile.vector;
        tile.each *= tile.vector;
    }
    choose_draws(k, live, &tile);
    if (!k->pieces) {
        tile.items /= tile.rows;
        tile.each *= tile.rows;
    }
    if (tile.threads)
        tile.blocks =
            dt_tile_blocks(k->pieces_of == DT_KPIECES_ROWS ? tile.pieces : tile.items * tile.pieces,
                           tile.threads / tile.group);
    return tile;
}
