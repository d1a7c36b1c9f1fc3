/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks of a placed module in lockstep, in double precision: the judge of placement.
 *
 * A rank holds of each value the local part that the value's type gives it, and every op runs on
 * local parts alone; only communication ops see the parts of other ranks, and only of ranks that
 * differ in the op's mesh axes. Time (micro-batches) is a mesh axis like the others: its ranks are
 * the micro-batches, all evaluated side by side. If the ranks' results, joined, equal those of the
 * serial program, the placement computes what the program says.
 *
 * A rank's number is row-major over its coordinates on the axes of the mesh, time included. */
#ifndef DT_IR_INTERP_RANKS_H
#define DT_IR_INTERP_RANKS_H

#include "ir/interp.h"

/* ---- which elements a rank holds (ranks.c) ---- */

uint32_t dt_ranks_count(const DtMesh *mesh);
int64_t dt_ranks_coordinate(const DtMesh *mesh, uint32_t rank, uint32_t axis);
/* The rank with another coordinate on one axis of the mesh. */
uint32_t dt_ranks_move(const DtMesh *mesh, uint32_t rank, uint32_t axis, int64_t coordinate);

/* Whether two ranks have the same coordinates on the mesh axes of these bits. */
bool dt_ranks_together(const DtMesh *mesh, unsigned axes, uint32_t a, uint32_t b);

/* Position in the whole axis of element `local` of the rank's part. Several mesh axes cut an axis
 * major to minor into contiguous blocks; in zigzag order part i of n is blocks i and 2n - 1 - i of
 * 2n. Aborts if the axis does not divide. */
int64_t dt_ranks_global(const DtAxis *axis, const DtMesh *mesh, uint32_t rank, int64_t local);
/* The inverse: the element's position in the part of the rank that holds it, which is `rank` with
 * the coordinates changed that the axis is split over. */
int64_t dt_ranks_find(const DtAxis *axis, const DtMesh *mesh, int64_t global, uint32_t rank,
                      uint32_t *ret_holder);

/* The type of a rank's part: the same axes with local extents, nothing split or pending. */
const DtType *dt_ranks_local(const DtType *type, const DtMesh *mesh);

/* The rank's part of a tensor with the extents of type. Of a pending reduction the first rank gets
 * the value, and the others the identity (0, -inf, inf). */
DtTensor *dt_ranks_slice(DtArena *arena, const DtTensor *whole, const DtType *type,
                         const DtMesh *mesh, uint32_t rank);

/* Whether two copies of a number agree: they differ by less than 1e-12 of the larger one, or both
 * are NaN. */
bool dt_ranks_equal(double a, double b);

/* Two ranks with different copies of a replicated value. */
typedef struct DtRanksDifference {
    uint32_t rank, other;
    int64_t element; /* the element's index in the part */
    double value, other_value;
} DtRanksDifference;

/* Whether the parts agree (dt_ranks_equal) where the type says that ranks hold the same. Parts that
 * are NULL are skipped. */
bool dt_ranks_agree(DtTensor *const *parts, const DtType *type, const DtMesh *mesh,
                    DtRanksDifference *ret_difference);

/* The tensor whose parts the ranks hold (with the extents of type, nothing split). Pending
 * reductions are completed in order of ranks. Of equal copies the first one counts that is not
 * NULL. */
DtTensor *dt_ranks_join(DtArena *arena, DtTensor *const *parts, const DtType *type,
                        const DtMesh *mesh);

/* ---- evaluation (interp_ranks.c) ---- */

typedef struct DtRanks {
    DtArena *arena; /* tensors are made here */
    uint64_t seed;
    uint32_t step;
    const char *draws; /* from dt_entry_draws; NULL: the paths of draws have no prefix */
    const DtMesh *mesh;
    /* returns a rank's part of a `param` or `input` op of an entry, of type dt_ranks_local(result
     * type) */
    DtTensor *(*source)(void *context, const DtOp *op, uint32_t rank);
    /* returns the sum of an all_reduce over pipeline stages (DtOp.stages) */
    DtTensor *(*across)(void *context, const DtOp *op, const DtTensor *in, uint32_t rank);
    void *context;
    /* the micro-batch, for entries that use it: then all participating ranks belong to it */
    int64_t turn;
    bool rounds; /* rounds as DtInterp.rounds does */
    /* Only ranks with coordinate at[m] on each mesh axis m of the bits in `fixed` take part (one
     * pipeline stage, one micro-batch); the others' tensors are neither read nor made. */
    uint16_t fixed;
    int64_t at[DT_MAX_MESH];
    /* The first value of which ranks hold different copies though its type says that they are
     * equal; value is NULL if there is none. Evaluation continues after it. */
    struct {
        const DtFunc *func;
        const DtValue *value;
        DtRanksDifference at;
    } differs;
} DtRanks;

/* Runs func on all ranks. The part of input (result) i on rank r is inputs[i * n + r], n the number
 * of ranks. Aborts where a verified module never leads. */
void dt_ranks_run(DtRanks *ranks, const DtFunc *func, DtTensor *const *inputs,
                  DtTensor **ret_results);

#endif
