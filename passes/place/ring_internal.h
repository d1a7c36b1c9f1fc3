/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by ring.c, which says what can be a ring, ring_build.c, which makes the ops, and
 * ring_part.c, which takes values apart. */
#ifndef DT_PASSES_RING_INTERNAL_H
#define DT_PASSES_RING_INTERNAL_H

#include "passes/place/ring.h"

enum { DT_RING_INPUTS = 12, DT_RING_PARTS = 8, DT_RING_RESULTS = 32 };

/* A function that streams in parts: one round merges its blocks' parts. The backward part: of results without its axis
 * t blocks add up, results with it belong to the block. Rows are what values with t read of values without, which is
 * computed before the round; finals the sums over t, which nothing with t reads. */
typedef struct DtRingForm {
    const DtFunc *func;
    const DtStream *stream;
    const char *t;
    const DtValue *rows[8];
    uint32_t n_rows;
    const DtValue *finals[8];
    uint32_t n_finals;
    const char *reason;
} DtRingForm;

/* False with a reason if func has another form. */
bool dt_ring_form(const DtFunc *func, const char *t, DtArena *arena, DtRingForm *ret_form);

/* ---- ring_part.c ---- */

/* The ranks of a ring: axis is @ring, with a place for each, split over the mesh axes of bits in their order. */
typedef struct DtRingRanks {
    const DtMesh *mesh;
    uint16_t bits;
    DtAxis axis;
} DtRingRanks;

DtRingRanks dt_ringpart_ranks(const DtMesh *mesh, uint16_t bits);

/* An axis of a value as dt_ringpart_of leaves it: without the ring's mesh axes. */
DtAxis dt_ringpart_rest(const DtRingRanks *ranks, const DtAxis *axis);

/* The ranks' parts of x, with @ring first; x itself if the ring's mesh axes do not split it. */
DtValue *dt_ringpart_of(const DtRingRanks *ranks, DtBuilder *b, DtValue *x);

/* The value of this type whose parts are x: the other way round. What the type has pending over mesh axes of the ring
 * are sums of parts. */
DtValue *dt_ringpart_join(const DtRingRanks *ranks, DtBuilder *b, DtValue *x, const DtType *type);

#endif
