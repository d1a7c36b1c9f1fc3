/* SPDX-License-Identifier: Apache-2.0 */
/* Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11), the only
 * source of random numbers. Counter words: number of the call (low, high), step, iteration of the
 * enclosing loops (row-major). Key: dt_hash_text(path of the site, seed). Draws of a step take four
 * elements from a call, initialisers and the rest one. The generated kernels contain the same
 * code. */
#ifndef DT_BASE_PHILOX_H
#define DT_BASE_PHILOX_H

#include <math.h>
#include <stdint.h>

typedef struct DtPhilox { uint32_t word[4]; } DtPhilox;

static inline DtPhilox dt_philox(uint64_t key, uint64_t call, uint32_t step, uint32_t iteration)
{
    uint32_t c0 = (uint32_t)call, c1 = (uint32_t)(call >> 32), c2 = step, c3 = iteration;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (DtPhilox){{c0, c1, c2, c3}};
}

/* [0, 1), a multiple of 2^-24: exact in f32. */
static inline double dt_philox_unit(uint32_t word) { return (double)(word >> 8) * 0x1p-24; }
static inline double dt_philox_uniform(DtPhilox r) { return dt_philox_unit(r.word[0]); }

/* Element `element` of draws that take per_call (1 .. 4) elements from a call. */
static inline double dt_philox_draw(uint64_t key, uint64_t element, uint32_t per_call,
                                    uint32_t step, uint32_t iteration)
{
    return dt_philox_unit(
        dt_philox(key, element / per_call, step, iteration).word[element % per_call]);
}

/* Standard normal by Box and Muller from words 0 and 1. */
static inline double dt_philox_normal(DtPhilox r)
{
    double u = ((double)(r.word[0] >> 8) + 1.0) * 0x1p-24, v = (double)(r.word[1] >> 8) * 0x1p-24;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

#endif
