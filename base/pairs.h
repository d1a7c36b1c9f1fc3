/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of n members, by the circle method: in each of `dt_pairs_rounds(n)` rounds every member has
 * one partner, and over all rounds each two meet once. If n is odd, one member of each round is its
 * own partner. */
#ifndef DT_BASE_PAIRS_H
#define DT_BASE_PAIRS_H

#include "base/hash.h"
#include "base/philox.h"

#include <stdint.h>

static inline int64_t dt_pairs_rounds(int64_t n) { return n < 2 ? 1 : n % 2 ? n : n - 1; }

/* The partner of member i in a round. Members 0 .. m - 1, m the number of rounds, are on a circle:
 * i and j meet in round i + j modulo m. Of an even n the last member meets whoever is left. */
static inline int64_t dt_pairs_partner(int64_t n, int64_t round, int64_t i)
{
    const int64_t m = dt_pairs_rounds(n);
    if (n < 2)
        return i;
    if (i == m) /* 2 j = round modulo m, which is odd */
        return round % 2 ? (round + m) / 2 : round / 2;
    const int64_t j = (round - i + m) % m;
    return j == i && n % 2 == 0 ? m : j;
}

/* The round that is drawn for a step. */
static inline int64_t dt_pairs_draw(uint64_t seed, int64_t step, int64_t rounds)
{
    const DtPhilox drawn = dt_philox(dt_hash_text("gossip", seed), (uint64_t)step, 0, 0);
    return (int64_t)(((uint64_t)drawn.word[0] * (uint64_t)rounds) >> 32);
}

#endif
