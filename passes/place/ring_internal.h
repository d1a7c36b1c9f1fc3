/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by ring.c (what can be a ring), ring_build.c (the ops of a ring) and ring_part.c
 * (values per rank). */
#ifndef DT_PASSES_RING_INTERNAL_H
#define DT_PASSES_RING_INTERNAL_H

#include "passes/place/ring.h"

enum { DT_RING_INPUTS = 12, DT_RING_PARTS = 8, DT_RING_RESULTS = 32 };

/* A streaming function as a ring needs it: each round merges the parts of one block. In the
 * backward part, results without the axis t are sums over blocks, and results with t belong to
 * the block. rows: values without t that ops with t read, computed before the rounds. finals:
 * sums over t, which no op with t reads. */
typedef struct DtRingFacts {
    const DtFunc *func;
    const DtStream *stream;
    const char *t;
    const DtValue *rows[8];
    uint32_t n_rows;
    const DtValue *finals[8];
    uint32_t n_finals;
    const char *reason;
} DtRingFacts;

/* Finds these facts of func for the keys' axis t. False, with a reason, if it cannot be a ring. */
bool dt_ring_facts(const DtFunc *func, const char *t, DtArena *arena, DtRingFacts *ret_facts);

/* ---- ring_part.c ---- */

/* The ranks of a ring as an axis @ring with one element per rank, split over the mesh axes of
 * bits, in their order. */
typedef struct DtRingRanks {
    const DtMesh *mesh;
    uint16_t bits;
    DtAxis axis;
} DtRingRanks;

DtRingRanks dt_ringpart_ranks(const DtMesh *mesh, uint16_t bits);

/* An axis of a value after dt_ringpart_of: without the ring's mesh axes. */
DtAxis dt_ringpart_rest(const DtRingRanks *ranks, const DtAxis *axis);

/* Appends a value with @ring first: each rank's part of x. Returns x itself if the ring's mesh axes
 * do not split it. */
DtValue *dt_ringpart_of(const DtRingRanks *ranks, DtBuilder *b, DtValue *x);

/* The inverse of dt_ringpart_of: appends the value of this type whose parts are x. Where the type
 * is a pending sum over mesh axes of the ring, the parts are its terms. */
DtValue *dt_ringpart_join(const DtRingRanks *ranks, DtBuilder *b, DtValue *x, const DtType *type);

#endif
