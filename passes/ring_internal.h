/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by ring.c, which finds the streaming softmax in a function, ring_build.c, which makes the ops, and
 * ring_part.c, which takes values apart. */
#ifndef DT_PASSES_RING_INTERNAL_H
#define DT_PASSES_RING_INTERNAL_H

#include "passes/ring.h"

enum { DT_RING_INPUTS = 12 };

/* How a value depends on the softmax e / s of blocks: a multiple of e^e s^s, or (known false)
 * otherwise. */
typedef struct DtRingDegree {
    bool known, zero;
    int8_t e, s;
} DtRingDegree;

/* What a function `attend` or `attend.bwd` does along its key axis t. Sums and maxima away over t:
 *
 *   most    max_t(x)                   sum   sum_t(e), e = exp(x - f(most))     scale  s = g(sum)
 *   rows    those that other values with t read, and that are linear in e: they stream too
 *   finals  the others, which only add up over blocks
 *
 * Without rows and without results that have t, finals stream too and one round is enough.
 *
 * Or there is no softmax to find, since most and sum are inputs (stream.c): then all sums only add up over blocks, and
 * rows are what values with t read of values without, which is computed before the round. */
typedef struct DtRingForm {
    const DtFunc *func;
    const char *t;
    DtRingDegree *degree;                      /* by value id */
    const DtValue *most, *sum, *scale, *shift; /* shift: f(most) */
    const DtValue *rows[8];
    uint32_t n_rows;
    const DtValue *finals[8];
    uint32_t n_finals;
    bool once; /* one round */
    bool sums; /* without a softmax */
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
