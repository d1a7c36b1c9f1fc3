/* SPDX-License-Identifier: Apache-2.0 */
/* A random order of n things that needs no memory: a Feistel network over the next even number of
 * bits, whose round function is the counter generator (Luby and Rackoff, "How to construct
 * pseudorandom permutations", 1988). A number that is mapped out of 0 .. n - 1 is mapped again
 * until it is inside (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains",
 * 2002): less than four times on average, since the network's domain is less than four times n. */
#include "runtime/data.h"

#include "base/philox.h"

enum { ROUNDS = 8, OFFSET_ROUND = 255 };

/* The generator's word that the round function uses, for a half of at most 32 bits, in a round of
 * an epoch. */
static uint32_t round_word(const DtPermutation *p, uint32_t half, uint32_t round)
{
    uint64_t element = half | (p->epoch >> 32) << 32;
    return dt_philox(p->key, element, (uint32_t)p->epoch, round).word[0];
}

static uint64_t network(const DtPermutation *p, uint64_t value, int half_bits)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint32_t left = (uint32_t)(value >> half_bits & mask), right = (uint32_t)(value & mask);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t next = left ^ (round_word(p, right, round) & (uint32_t)mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half_bits | right;
}

uint64_t dt_permutation_at(const DtPermutation *permutation, uint64_t index)
{
    if (permutation->n < 2)
        return 0;
    int half_bits = 1;
    while (half_bits < 32 && (permutation->n - 1) >> (2 * half_bits) != 0)
        half_bits++;
    do
        index = network(permutation, index, half_bits);
    while (index >= permutation->n);
    return index;
}

uint64_t dt_permutation_offset(const DtPermutation *permutation, uint64_t bound)
{
    uint64_t element = (permutation->epoch >> 32) << 32;
    DtPhilox r = dt_philox(permutation->key, element, (uint32_t)permutation->epoch, OFFSET_ROUND);
    return ((uint64_t)r.word[0] << 32 | r.word[1]) % bound;
}
