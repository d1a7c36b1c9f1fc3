/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's position in the mesh. */
#ifndef DT_RUNTIME_RANK_H
#define DT_RUNTIME_RANK_H

#include "base/file.h"
#include "runtime/runtime.h"

/* Collective: adds integers of all ranks. */
bool dt_rank_add_up(DtRank *rank, int64_t *numbers, int64_t n);
/* Collective: fails unless all ranks have read the same: a path may have other contents on another
 * machine. digest: of what this rank has read in `path`. */
bool dt_rank_check_same(DtRank *rank, uint64_t digest, const char *path);

/* Coordinates of a rank: ranks are numbered row-major over the mesh, the first axis slowest. */
void dt_rank_coordinates(const DtPlan *plan, uint32_t rank, int64_t ret_coord[16]);

/* The stage of a rank; 0 without a pipeline. */
uint32_t dt_rank_stage(const DtPlan *plan, uint32_t rank);

/* Bytes of the arena on a rank of the stage; 0 if only entries use it that the rank will not
 * run. */
uint64_t dt_rank_arena(const DtRunOptions *options, const DtPlan *plan, uint32_t arena,
                       uint32_t stage);

/* The rank of that stage whose other coordinates equal this rank's. */
uint32_t dt_rank_at_stage(const DtRank *rank, uint32_t stage);

/* The ranks of a group record (mask and stages) that contains the rank at coord, in rank order. If
 * the group does not contain that rank's stage: the ranks with which it would be; then `me` is no
 * valid member number. */
DtRankGroup dt_rank_group(const DtPlan *plan, DtArena *memory, const int64_t coord[16],
                          const DtPlanGroup *record);

/* The index in the logical tensor of the first element along the axis on the rank with these
 * coordinates. Indices from axis->extent on are padding. */
int64_t dt_rank_axis_start(const DtPlan *plan, const int64_t coord[16], const DtPlanAxis *axis);

/* Which elements of a store are in the memory of the rank with these coordinates. In each iteration
 * of its loops the store has `length` elements on a rank, row-major. Of these the memory holds n
 * elements from number `first` on. They begin at element `at` of the iteration's memory; iterations
 * are `stride` elements apart. Except for stores in buckets that ranks share, first = at = 0 and n
 * = length. */
typedef struct DtStoreRange {
    int64_t length, first, n, at, stride;
} DtStoreRange;
DtStoreRange dt_pack_range(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store);

/* The address of one iteration's logical tensor in this rank's memory. NULL: the rank has only a
 * part of it or nothing, or has it where host code cannot read it. */
const char *dt_pack_whole(const DtRank *rank, const DtPlanStore *store, int64_t iteration);
/* Copies this rank's elements out of the logical tensor. view: the mapped file that contains the
 * tensor, or NULL. Returns NULL, or the address that could not be read because the file was cut
 * short. */
const uint8_t *dt_pack_take(const DtRank *rank, const DtPlanStore *store, int64_t iteration,
                            const char *logical, const DtFileView *view);
/* Calls run for all elements that this rank has of one iteration of the store, n neighbours along
 * its last axis at a time: index[] is that of the first of them in the logical tensor, `at` where
 * they are. Padding is left out. written: run may change them. block: 0, or the most neighbours at
 * a time; the same columns of all rows of the last two axes then follow each other. */
typedef void (*DtPackRun)(void *context, const int64_t *index, int64_t n, char *at);
void dt_pack_walk(const DtRank *rank, const DtPlanStore *store, int64_t iteration, bool written,
                  int64_t block, DtPackRun run, void *context);
/* Copies this rank's elements into the logical tensor, whose other elements stay. */
void dt_pack_give(const DtRank *rank, const DtPlanStore *store, int64_t iteration, char *logical);
/* Copies n elements of the logical tensor from number `first` on, row-major. */
typedef struct DtPiece {
    int64_t first, n;
} DtPiece;
/* Which elements of the part of the rank with these coordinates are in a piece of the logical
 * tensor: n from the part's number `first` on. Padding is in the piece of the element before it. */
DtPiece dt_pack_held(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                     DtPiece piece);
/* Copies this rank's elements from a piece of the logical tensor. */
void dt_pack_take_piece(const DtRank *rank, const DtPlanStore *store, int64_t iteration,
                        DtPiece piece, const char *elements);
/* Gathers a piece of the logical tensor from the ranks that hold parts of it; these must not write
 * meanwhile. scratch and ret_elements: n elements each. False after dt_rank_fail. */
bool dt_pack_gather(DtRank *rank, const DtPlanStore *store, int64_t iteration, DtPiece piece,
                    char *scratch, char *ret_elements);

/* A rank that supplies elements to a checkpoint, and the rank that writes them. hosts: over which
 * ranks are spread (spread.h). */
typedef struct DtSupply {
    uint32_t rank, writer, hosts;
} DtSupply;
/* Of the elements of its part of a store that the rank supplies to the writer, those that may be in
 * a piece of the logical tensor: n from the part's number `first` on. Of the ranks that hold the
 * same part, the writer itself supplies it, if it is one of them; else those on its host do, which
 * share it out evenly; else one rank does. So all ranks together supply every element of the tensor
 * once, besides padding. */
DtPiece dt_pack_supplied(const DtPlan *plan, const DtSupply *supply, const DtPlanStore *store,
                         DtPiece piece);
/* The offset in the store's arena of an element of that rank's part. */
int64_t dt_pack_offset(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                       int64_t iteration, int64_t number);
/* Calls run for those of the part's elements `held`, which begin at `from`, that are in the piece:
 * n neighbours at a time, which are the piece's from number `first` on. Padding is left out. */
typedef void (*DtPackPieceRun)(void *context, int64_t first, int64_t n, const char *at);
void dt_pack_runs(const DtPlan *plan, const int64_t coord[16], const DtPlanStore *store,
                  DtPiece held, const char *from, DtPiece piece, DtPackPieceRun run, void *context);

#endif
