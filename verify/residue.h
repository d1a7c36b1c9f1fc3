/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for comparing programs, in which equality is decided up to a small probability instead of
 * up to rounding. A float is a pair of residues modulo p and modulo q, where p = 2q + 1 and both
 * are prime. Sums, products and quotients are those of both fields. g has order q modulo p, so its
 * powers take exponents modulo q: exp of (a, b) is g^b modulo p, and exp(x + y) = exp(x) exp(y)
 * holds. The result of exp has no second component (`none`). All other functions are hashes of
 * their operands: equal for equal operands, otherwise random. max compares by an order that is
 * chosen anew for each draw; it is the true order for constants, and random for all other
 * numbers.
 *
 * -inf and inf are symbols. A division by zero is undefined, and so is everything computed from it.
 * An element is absent if its position is not evaluated (box_small.c).
 *
 * A float may count how often its operands were rounded on the way. Its depth is 0 if it does not
 * depend on the followed argument; else one more than the largest number of roundings on a path
 * from that argument. Its dtype is the one with few digits to which it was rounded.
 *
 * Integers and booleans are exact, with second component 0. docs/boxes.md has the probabilities. */
#ifndef DT_VERIFY_RESIDUE_H
#define DT_VERIFY_RESIDUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DtResidue {
    uint64_t p, q; /* of a float: both in Montgomery form */
    uint32_t depth, dtype; /* 0, 0 if roundings are not followed; see dt_residue_made */
} DtResidue;

#define DT_RESIDUE_NONE UINT64_MAX /* as q: no second component; as the q of an integer: it is no
                                    * integer but a symbol */

enum { DT_RESIDUE_PLACES = 8, DT_RESIDUE_DIGITS = 256, DT_RESIDUE_KNOWN = 32,
       DT_RESIDUE_NUMBERS = 64 };

/* values of p for symbols and undefined numbers */
#define DT_RESIDUE_UNDEFINED UINT64_MAX
#define DT_RESIDUE_ABSENT (UINT64_MAX - 1)
#define DT_RESIDUE_LOWEST (UINT64_MAX - 2)  /* minus infinity */
#define DT_RESIDUE_HIGHEST (UINT64_MAX - 3) /* infinity */

typedef struct DtModulus {
    /* inverse: -1/m modulo 2^64; one and square: 2^64 and 2^128 modulo m */
    uint64_t m, inverse, one, square;
} DtModulus;

typedef struct DtResidues {
    DtModulus p, q;
    uint64_t power[DT_RESIDUE_PLACES][DT_RESIDUE_DIGITS]; /* the powers of g: g^(digit *
                                                           * 256^place) */
    uint64_t hash;
    /* the order of max in this draw: */
    uint64_t factor, offset;
    double known[DT_RESIDUE_KNOWN]; /* constants, in ascending order */
    uint64_t known_p[DT_RESIDUE_KNOWN], known_key[DT_RESIDUE_KNOWN];
    uint32_t n_known;
    struct {
        uint64_t bits; /* bits of a double */
        DtResidue x;
    } numbers[DT_RESIDUE_NUMBERS]; /* cache of dt_residue_number; bits 0: unused */
} DtResidues;

/* Chooses fresh random primes of at least 2^60. False: the system gives no random numbers. */
bool dt_residue_begin(DtResidues *r);
/* Chooses another order for max. Of the known constants in ascending order, `behind` come before
 * most numbers and the others after them; there are n_known + 1 such orders. behind n_known + 1:
 * equally many numbers in each gap. */
void dt_residue_draw(DtResidues *r, uint64_t seed, uint32_t behind);
/* Adds a constant to those with a place in the order of max. False: there are DT_RESIDUE_KNOWN
 * already. Infinite ones have their place anyway. */
bool dt_residue_know(DtResidues *r, double x);

__extension__ typedef unsigned __int128 DtWide;

static inline uint64_t dt_residue_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) + UINT64_C(0x632be59bd9b4e019);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

/* Montgomery reduction of t < m 2^64. */
static inline uint64_t dt_modulus_reduce(const DtModulus *m, DtWide t)
{
    uint64_t k = (uint64_t)t * m->inverse;
    uint64_t x = (uint64_t)((t + (DtWide)k * m->m) >> 64);
    return x >= m->m ? x - m->m : x;
}
static inline uint64_t dt_modulus_mul(const DtModulus *m, uint64_t a, uint64_t b)
{
    return dt_modulus_reduce(m, (DtWide)a * b);
}
static inline uint64_t dt_modulus_add(const DtModulus *m, uint64_t a, uint64_t b)
{
    uint64_t x = a + b;
    return x >= m->m ? x - m->m : x;
}
static inline uint64_t dt_modulus_sub(const DtModulus *m, uint64_t a, uint64_t b)
{
    return a >= b ? a - b : a + m->m - b;
}

static inline bool dt_residue_is_symbol(DtResidue x) { return x.p >= DT_RESIDUE_HIGHEST; }
static inline DtResidue dt_residue_symbol(uint64_t which)
{
    return (DtResidue){.p = which, .q = DT_RESIDUE_NONE};
}
static inline DtResidue dt_residue_whole(int64_t x) { return (DtResidue){.p = (uint64_t)x}; }
/* Returns z, computed from x and y, with the larger one of their depths (roundings on the way) and
 * no dtype. */
static inline DtResidue dt_residue_made(DtResidue z, DtResidue x, DtResidue y)
{
    z.depth = x.depth > y.depth ? x.depth : y.depth;
    z.dtype = 0;
    return z;
}
static inline DtResidue dt_residue_like(DtResidue z, DtResidue x)
{
    z.depth = x.depth;
    z.dtype = x.dtype;
    return z;
}
static inline bool dt_residue_is_followed(DtResidue x) { return x.depth || x.dtype; }
/* Whether x is a zero that is a constant or comes from a mask, and not a number that happens to be
 * 0. */
static inline bool dt_residue_is_nil(DtResidue x) { return x.p == 0 && x.depth == 0; }
static inline bool dt_residue_both(DtResidue x, DtResidue y)
{
    return x.q != DT_RESIDUE_NONE && y.q != DT_RESIDUE_NONE;
}
/* Whether two floats are equal. If one lacks the second component, only the first counts. */
static inline bool dt_residue_same(DtResidue x, DtResidue y)
{
    return x.p == y.p && (x.q == y.q || !dt_residue_both(x, y));
}

/* Returns the residue of a float constant. */
DtResidue dt_residue_number(DtResidues *r, double x);
DtResidue dt_residue_of_whole(const DtResidues *r, int64_t x);
DtResidue dt_residue_random(const DtResidues *r, uint64_t hash);

DtResidue dt_residue_odd_add(const DtResidues *r, DtResidue x, DtResidue y);
DtResidue dt_residue_odd_mul(DtResidue x, DtResidue y);
DtResidue dt_residue_neg(const DtResidues *r, DtResidue x);
/* Returns 1/x, with a second component only if `both`. */
DtResidue dt_residue_inverse(const DtResidues *r, DtResidue x, bool both);
/* Inverts n numbers; costs one inversion and some products. */
void dt_residue_inverses(const DtResidues *r, size_t n, const DtResidue *x,
                         DtResidue *ret_inverses);
DtResidue dt_residue_exp(const DtResidues *r, DtResidue x);
/* Returns a number that only depends on the name and on x and y, like an unknown function. */
DtResidue dt_residue_function(const DtResidues *r, const char *name, DtResidue x, DtResidue y);
bool dt_residue_less(const DtResidues *r, DtResidue x, DtResidue y);
/* Returns the larger number in the order of this draw; undefined if an operand is, else absent if
 * an operand is. */
DtResidue dt_residue_max(const DtResidues *r, DtResidue x, DtResidue y);
DtResidue dt_residue_min(const DtResidues *r, DtResidue x, DtResidue y);

static inline DtResidue dt_residue_add(const DtResidues *r, DtResidue x, DtResidue y)
{
    if (dt_residue_is_symbol(x) || dt_residue_is_symbol(y))
        return dt_residue_odd_add(r, x, y);
    const DtResidue z = {.p = dt_modulus_add(&r->p, x.p, y.p),
                         .q = dt_residue_both(x, y) ? dt_modulus_add(&r->q, x.q, y.q)
                                                    : DT_RESIDUE_NONE};
    if (!dt_residue_is_followed(x) && !dt_residue_is_followed(y))
        return z;
    return dt_residue_is_nil(x)   ? dt_residue_like(z, y)
           : dt_residue_is_nil(y) ? dt_residue_like(z, x)
                                  : dt_residue_made(z, x, y);
}
static inline DtResidue dt_residue_mul(const DtResidues *r, DtResidue x, DtResidue y)
{
    if (dt_residue_is_symbol(x) || dt_residue_is_symbol(y))
        return dt_residue_odd_mul(x, y);
    const DtResidue z = {.p = dt_modulus_mul(&r->p, x.p, y.p),
                         .q = dt_residue_both(x, y) ? dt_modulus_mul(&r->q, x.q, y.q)
                                                    : DT_RESIDUE_NONE};
    if (!dt_residue_is_followed(x) && !dt_residue_is_followed(y))
        return z;
    return dt_residue_is_nil(x) || dt_residue_is_nil(y) ? z : dt_residue_made(z, x, y);
}

#endif
