/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over strided blocks run by run. A run is a sequence of elements that are adjacent in both
 * buffers: the last dimension if its strides are 1, otherwise a single element. */
#include "runtime/blocks.h"

#include "runtime/rank.h"
#include "runtime/reduce.h"

#include <string.h>

/* ---- where members' blocks begin ---- */

static int64_t moved(const DtPlan *plan, const DtPlanBlocks *record, uint32_t rank,
                     const int64_t *coords)
{
    int64_t coord[16], sum = 0;
    dt_rank_coordinates(plan, rank, coord);
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (coords[c] != 0)
            sum += coords[c] * coord[record->coord_axis[c]];
    return sum;
}

DtRankBlocks *dt_blocks_resolve(const DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    DtRankBlocks *all = DT_NEW_ARRAY(rank->memory, DtRankBlocks, plan->n_blocks + 1);
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        const DtPlanBlocks *record = &plan->blocks[i];
        const DtRankGroup *group = &rank->groups[record->group];
        DtRankBlocks *blocks = &all[i];
        int64_t *to_at = DT_NEW_ARRAY(rank->memory, int64_t, group->size);
        int64_t *from_at = DT_NEW_ARRAY(rank->memory, int64_t, group->size);
        blocks->n_dims = record->n_dims;
        memcpy(blocks->extent, record->extent, sizeof blocks->extent);
        memcpy(blocks->to, record->to, sizeof blocks->to);
        memcpy(blocks->from, record->from, sizeof blocks->from);
        for (uint32_t m = 0; m < group->size; m++) {
            to_at[m] = moved(plan, record, group->ranks[m], record->to_coord);
            from_at[m] = moved(plan, record, group->ranks[m], record->from_coord);
        }
        blocks->to_at = to_at;
        blocks->from_at = from_at;
    }
    return all;
}

/* ---- runs ---- */

void dt_blocks_set_dense(const DtRankBlocks *blocks, int64_t *ret_strides)
{
    int64_t stride = 1;
    for (uint32_t d = blocks->n_dims; d-- > 0; stride *= blocks->extent[d])
        ret_strides[d] = stride;
}

static DtBlockWalk walk_open(const DtRankBlocks *blocks)
{
    uint32_t last = blocks->n_dims - 1;
    DtBlockWalk walk = {.blocks = blocks, .n_outer = blocks->n_dims, .run = 1, .rows = 1};
    if (blocks->n_dims > 0 && blocks->to[last] == 1 && blocks->from[last] == 1) {
        walk.n_outer = last;
        walk.run = blocks->extent[last];
    }
    return walk;
}

DtBlockWalk dt_blocks_rows(const DtRankBlocks *blocks)
{
    DtBlockWalk walk = walk_open(blocks);
    walk.to_row = walk.from_row = walk.run;
    if (walk.n_outer == 0 || blocks->extent[--walk.n_outer] == 1)
        return walk;
    walk.rows = blocks->extent[walk.n_outer];
    walk.to_row = blocks->to[walk.n_outer];
    walk.from_row = blocks->from[walk.n_outer];
    return walk;
}

bool dt_blocks_next(DtBlockWalk *walk)
{
    const DtRankBlocks *blocks = walk->blocks;
    for (uint32_t d = walk->n_outer; d-- > 0;) {
        walk->to += blocks->to[d];
        walk->from += blocks->from[d];
        if (++walk->at[d] < blocks->extent[d])
            return true;
        walk->to -= blocks->to[d] * blocks->extent[d];
        walk->from -= blocks->from[d] * blocks->extent[d];
        walk->at[d] = 0;
    }
    return false;
}

void dt_blocks_copy(const DtRankBlocks *blocks, int64_t element, char *to, const char *from)
{
    DtBlockWalk walk = walk_open(blocks);
    do
        memcpy(to + walk.to * element, from + walk.from * element, (size_t)(walk.run * element));
    while (dt_blocks_next(&walk));
}

/* Copies a part of a block, a run of its last dimension at a time. */
static void copy_part(const DtRankBlocks *blocks, const int64_t *strides, int64_t element,
                      char *strided, char *dense, int64_t first, int64_t n, bool packs)
{
    const uint32_t dims = blocks->n_dims, last = dims - 1;
    const bool is_run = dims > 0 && strides[last] == 1;
    const int64_t extent = is_run ? blocks->extent[last] : 1;
    for (int64_t done = 0, some; done < n; done += some) {
        int64_t rest = first + done, at = 0;
        some = extent - rest % extent;
        some = some < n - done ? some : n - done;
        for (uint32_t d = dims; d-- > 0;) {
            at += rest % blocks->extent[d] * strides[d];
            rest /= blocks->extent[d];
        }
        if (packs)
            memcpy(dense + done * element, strided + at * element, (size_t)(some * element));
        else
            memcpy(strided + at * element, dense + done * element, (size_t)(some * element));
    }
}

void dt_blocks_pack(const DtRankBlocks *blocks, const int64_t *strides, int64_t element,
                    char *dense, const char *strided, int64_t first, int64_t n)
{
    copy_part(blocks, strides, element, (char *)(uintptr_t)strided, dense, first, n, true);
}

void dt_blocks_unpack(const DtRankBlocks *blocks, const int64_t *strides, int64_t element,
                      char *strided, const char *dense, int64_t first, int64_t n)
{
    copy_part(blocks, strides, element, strided, (char *)(uintptr_t)dense, first, n, false);
}

void dt_blocks_reduce(const DtRankBlocks *blocks, DtPlanDtype dtype, DtPlanReduce reduce, char *to,
                      const void *const *from, uint32_t n, const void **scratch)
{
    enum { PIECE = 1024 }; /* number of elements that are reduced at a time: they stay in the
                            * cache */
    _Alignas(8) char sum[PIECE * 8];
    int64_t e = dt_kinds_size(dtype);
    DtBlockWalk walk = walk_open(blocks);
    do {
        for (int64_t i = 0; i < walk.run; i += PIECE) {
            int64_t some = walk.run - i < PIECE ? walk.run - i : PIECE;
            char *at = to + (walk.to + i) * e;
            bool in_place = false;
            for (uint32_t m = 0; m < n; m++) {
                scratch[m] = (const char *)from[m] + (walk.from + i) * e;
                in_place = in_place || scratch[m] == at;
            }
            dt_reduce_buffers(dtype, reduce, in_place ? sum : at, scratch, n, some);
            if (in_place)
                memcpy(at, sum, (size_t)(some * e));
        }
    } while (dt_blocks_next(&walk));
}
