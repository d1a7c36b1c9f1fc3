/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's position in the mesh. */
#ifndef DT_RUNTIME_RANK_H
#define DT_RUNTIME_RANK_H

#include "base/file.h"
#include "runtime/runtime.h"

/* Row-major over the mesh, the first axis slowest. */
void dt_rank_coordinates(const DtPlan *plan, uint32_t rank, int64_t ret_coord[16]);

/* The stage of a rank; 0 without a pipeline. */
uint32_t dt_rank_stage(const DtPlan *plan, uint32_t rank);

/* Bytes of the arena on a rank of the stage: 0 for entries that the rank will not run. */
uint64_t dt_rank_arena(const DtRunOptions *options, const DtPlan *plan, uint32_t arena,
                       uint32_t stage);

/* The rank of that stage whose other coordinates are this rank's. */
uint32_t dt_rank_at_stage(const DtRank *rank, uint32_t stage);

/* The ranks of a group record (mask and stages) of which the rank at coord is one, in rank order.
 * If its stage is not in the group: those it would belong to, me being no member number. */
DtRankGroup dt_rank_group(const DtPlan *plan, DtArena *memory, const int64_t coord[16],
                          const DtPlanGroup *record);

/* Logical index of the first element of axis on the rank with these coordinates; elements from
 * axis->extent on are padding. */
int64_t dt_rank_axis_start(const DtPlan *plan, const int64_t coord[16], const DtPlanAxis *axis);

/* Of the `length` elements that the store has on a rank per iteration of its loops, row-major, the
 * memory of the rank with these coordinates holds n from number `first` on; they lie at element
 * `at` of the iteration's, which are `stride` apart. All but stores in buckets that ranks share:
 * first = at = 0, n = length. */
typedef struct DtStoreRange {
    int64_t length, first, n, at, stride;
} DtStoreRange;
DtStoreRange dt_pack_range(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store);

/* One iteration's logical tensor where this rank has it, NULL if it has a part or nothing of it, or
 * has it where host code cannot look. */
const char *dt_pack_whole(const DtRank *rank, const DtPlanStore *store, int64_t iteration);
/* This rank's elements from the logical tensor. view: of the file that it is mapped from, or NULL.
 * Returns NULL, or the address that could not be read since the file was cut short. */
const uint8_t *dt_pack_take(const DtRank *rank, const DtPlanStore *store, int64_t iteration,
                            const char *logical, const DtFileView *view);
/* Calls run for all elements that this rank has of one iteration of the store, n neighbours along
 * its last axis at a time: index[] is that of the first of them in the logical tensor, `at` where
 * they are. Padding is left out. written: run may change them. block: 0, or the most neighbours at
 * a time; the same columns of all rows of the last two axes then follow each other. */
typedef void (*DtPackRun)(void *context, const int64_t *index, int64_t n, char *at);
void dt_pack_walk(const DtRank *rank, const DtPlanStore *store, int64_t iteration, bool written,
                  int64_t block, DtPackRun run, void *context);
/* This rank's elements into the logical tensor, whose others stay. */
void dt_pack_give(const DtRank *rank, const DtPlanStore *store, int64_t iteration, char *logical);
/* Some elements of the logical tensor, row-major: n from number `first` on. */
typedef struct DtPiece {
    int64_t first, n;
} DtPiece;
/* Which elements of this rank's part are in a piece of the logical tensor: n from the part's number
 * `first` on. Padding is in the piece of the element before it. */
DtPiece dt_pack_held(const DtRank *rank, const DtPlanStore *store, DtPiece piece);
/* This rank's elements from a piece of the logical tensor. */
void dt_pack_take_piece(const DtRank *rank, const DtPlanStore *store, int64_t iteration,
                        DtPiece piece, const char *elements);
/* A piece of the logical tensor from the ranks that hold parts of it, which must not write
 * meanwhile. scratch and ret_elements: n elements each. False after dt_rank_fail. */
bool dt_pack_gather(DtRank *rank, const DtPlanStore *store, int64_t iteration, DtPiece piece,
                    char *scratch, char *ret_elements);

#endif
