/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/residue.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- primes ---- */

static DtModulus modulus(uint64_t m)
{
    DtModulus made = {.m = m, .inverse = 1};
    for (int i = 0; i < 6; i++) /* each step doubles the number of right bits */
        made.inverse *= 2 - m * made.inverse;
    made.inverse = -made.inverse;
    made.one = (uint64_t)(((DtWide)1 << 64) % m);
    made.square = (uint64_t)((DtWide)made.one * made.one % m);
    return made;
}

/* x^e; x and the result are in Montgomery form. */
static uint64_t power(const DtModulus *m, uint64_t x, uint64_t e)
{
    uint64_t y = m->one;
    for (; e; e >>= 1) {
        if (e & 1)
            y = dt_modulus_mul(m, y, x);
        x = dt_modulus_mul(m, x, x);
    }
    return y;
}

static bool is_witness(const DtModulus *m, uint64_t base)
{
    const int twos = __builtin_ctzll(m->m - 1);
    uint64_t x = power(m, dt_modulus_mul(m, base % m->m, m->square), (m->m - 1) >> twos);
    if (x == m->one || x == m->m - m->one)
        return false;
    for (int i = 1; i < twos; i++) {
        x = dt_modulus_mul(m, x, x);
        if (x == m->m - m->one)
            return false;
    }
    return true;
}

static const uint8_t small[] = {3,  5,  7,  11, 13, 17, 19, 23,  29,  31,  37,  41,  43,  47,  53,
                                59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127};

static bool may_be_prime(uint64_t n)
{
    for (size_t i = 0; i < sizeof small; i++)
        if (n % small[i] == 0)
            return false;
    return true;
}

/* The primality test of Miller and Rabin; with these bases it is right for all 64-bit numbers. */
static bool is_prime(const DtModulus *m)
{
    if (is_witness(m, 2))
        return false;
    for (size_t i = 0; i < 11; i++)
        if (is_witness(m, small[i]))
            return false;
    return true;
}

bool dt_residue_begin(DtResidues *r)
{
    uint64_t seed[4];
    memset(r, 0, sizeof *r);
    if (getentropy(seed, sizeof seed) != 0) /* with a foreseeable seed, a text could be made to
                                             * pass */
        return false;
    /* q is 5 modulo 6, so that neither q nor 2q + 1 is divisible by 2 or 3 */
    uint64_t q = (UINT64_C(1) << 60 | seed[0] >> 4) / 6 * 6 + 5;
    for (;; q += 6) {
        if (!may_be_prime(q) || !may_be_prime(2 * q + 1))
            continue;
        r->q = modulus(q);
        r->p = modulus(2 * q + 1);
        if (is_prime(&r->q) && is_prime(&r->p))
            break;
    }
    /* a square other than 1 has order q */
    uint64_t g = (seed[1] >> 4) + 2;
    g = dt_modulus_mul(&r->p, g, g);
    for (int place = 0; place < DT_RESIDUE_PLACES; place++) {
        r->power[place][0] = r->p.one;
        for (int digit = 1; digit < DT_RESIDUE_DIGITS; digit++)
            r->power[place][digit] = dt_modulus_mul(&r->p, r->power[place][digit - 1], g);
        g = dt_modulus_mul(&r->p, r->power[place][DT_RESIDUE_DIGITS - 1], g);
    }
    r->hash = seed[2];
    return dt_residue_know(r, 0);
}

/* ---- the order ---- */

bool dt_residue_know(DtResidues *r, double x)
{
    uint32_t at = 0;
    if (!isfinite(x))
        return true;
    while (at < r->n_known && r->known[at] < x)
        at++;
    if (at < r->n_known && r->known[at] == x)
        return true;
    if (r->n_known == DT_RESIDUE_KNOWN)
        return false;
    memmove(&r->known[at + 1], &r->known[at], (r->n_known - at) * sizeof r->known[0]);
    memmove(&r->known_p[at + 1], &r->known_p[at], (r->n_known - at) * sizeof r->known_p[0]);
    r->known[at] = x;
    r->known_p[at] = dt_residue_number(r, x).p;
    r->n_known++;
    return true;
}

void dt_residue_draw(DtResidues *r, uint64_t seed, uint32_t behind)
{
    r->factor = dt_residue_mix(r->hash, seed) | 1;
    r->offset = dt_residue_mix(r->factor, seed);
    for (uint32_t i = 0; i < r->n_known; i++) /* among the first or the last 64th of all keys of the
                                               * order */
        r->known_key[i] = behind > r->n_known ? UINT64_MAX / (r->n_known + 1) * (i + 1)
                          : i < behind        ? (uint64_t)(i + 1) << 52
                                              : UINT64_MAX - ((uint64_t)(r->n_known - i) << 52);
}

static uint64_t key_of(const DtResidues *r, DtResidue x)
{
    if (x.p == DT_RESIDUE_LOWEST)
        return 0;
    if (x.p == DT_RESIDUE_HIGHEST)
        return UINT64_MAX;
    for (uint32_t i = 0; i < r->n_known; i++)
        if (r->known_p[i] == x.p)
            return r->known_key[i];
    return x.p * r->factor + r->offset;
}

/* The result if an operand is undefined or absent: undefined if one is undefined, otherwise
 * absent. */
static bool is_nothing(DtResidue x, DtResidue y, DtResidue *ret_what)
{
    const uint64_t what = x.p > y.p ? x.p : y.p;
    *ret_what = dt_residue_symbol(what);
    return what >= DT_RESIDUE_ABSENT;
}

bool dt_residue_less(const DtResidues *r, DtResidue x, DtResidue y)
{
    return key_of(r, x) < key_of(r, y);
}

DtResidue dt_residue_max(const DtResidues *r, DtResidue x, DtResidue y)
{
    DtResidue what;
    if (is_nothing(x, y, &what))
        return what;
    return dt_residue_less(r, x, y) ? y : x;
}

DtResidue dt_residue_min(const DtResidues *r, DtResidue x, DtResidue y)
{
    DtResidue what;
    if (is_nothing(x, y, &what))
        return what;
    return dt_residue_less(r, y, x) ? y : x;
}

/* ---- numbers ---- */

static uint64_t scaled(const DtModulus *m, uint64_t whole, int exponent)
{
    uint64_t two = dt_modulus_add(m, m->one, m->one);
    if (exponent < 0)
        two = power(m, two, m->m - 2);
    return dt_modulus_mul(m, dt_modulus_mul(m, whole % m->m, m->square),
                          power(m, two, (uint64_t)abs(exponent)));
}

static DtResidue number(const DtResidues *r, double x)
{
    int exponent;
    if (isnan(x))
        return dt_residue_symbol(DT_RESIDUE_UNDEFINED);
    if (isinf(x))
        return dt_residue_symbol(x < 0 ? DT_RESIDUE_LOWEST : DT_RESIDUE_HIGHEST);
    const uint64_t whole = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53);
    DtResidue y = {.p = scaled(&r->p, whole, exponent - 53),
                   .q = scaled(&r->q, whole, exponent - 53)};
    return x < 0 ? dt_residue_neg(r, y) : y;
}

DtResidue dt_residue_number(DtResidues *r, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const size_t slot = dt_residue_mix(bits, 0) % DT_RESIDUE_NUMBERS;
    if (r->numbers[slot].bits != bits || bits == 0) {
        r->numbers[slot].bits = bits;
        r->numbers[slot].x = number(r, x);
    }
    return r->numbers[slot].x;
}

DtResidue dt_residue_of_whole(const DtResidues *r, int64_t x)
{
    const uint64_t n = x < 0 ? -(uint64_t)x : (uint64_t)x;
    DtResidue y = {.p = dt_modulus_mul(&r->p, n % r->p.m, r->p.square),
                   .q = dt_modulus_mul(&r->q, n % r->q.m, r->q.square)};
    return x < 0 ? dt_residue_neg(r, y) : y;
}

DtResidue dt_residue_random(const DtResidues *r, uint64_t hash)
{
    return (DtResidue){.p = dt_residue_mix(r->hash, hash) % r->p.m,
                       .q = dt_residue_mix(hash, r->hash + 1) % r->q.m};
}

DtResidue dt_residue_neg(const DtResidues *r, DtResidue x)
{
    if (x.p == DT_RESIDUE_LOWEST || x.p == DT_RESIDUE_HIGHEST)
        return dt_residue_symbol(x.p == DT_RESIDUE_LOWEST ? DT_RESIDUE_HIGHEST : DT_RESIDUE_LOWEST);
    if (dt_residue_is_symbol(x))
        return x;
    const DtResidue y = {.p = dt_modulus_sub(&r->p, 0, x.p),
                         .q = x.q == DT_RESIDUE_NONE ? x.q : dt_modulus_sub(&r->q, 0, x.q)};
    return dt_residue_like(y, x);
}

DtResidue dt_residue_odd_add(const DtResidues *r, DtResidue x, DtResidue y)
{
    DtResidue what;
    (void)r;
    if (is_nothing(x, y, &what))
        return what;
    if (dt_residue_is_symbol(x) && dt_residue_is_symbol(y) && x.p != y.p)
        return dt_residue_symbol(DT_RESIDUE_UNDEFINED);
    return dt_residue_is_symbol(x) ? x : y;
}

/* The sign of the other factor is not known. */
DtResidue dt_residue_odd_mul(DtResidue x, DtResidue y)
{
    DtResidue what;
    return is_nothing(x, y, &what) ? what : dt_residue_symbol(DT_RESIDUE_UNDEFINED);
}

DtResidue dt_residue_inverse(const DtResidues *r, DtResidue x, bool both)
{
    if (dt_residue_is_symbol(x))
        return x.p == DT_RESIDUE_ABSENT ? x : dt_residue_symbol(DT_RESIDUE_UNDEFINED);
    if (x.p == 0 || x.q == 0)
        return dt_residue_symbol(DT_RESIDUE_UNDEFINED);
    DtResidue y = {.p = power(&r->p, x.p, r->p.m - 2), .q = DT_RESIDUE_NONE};
    if (both && x.q != DT_RESIDUE_NONE)
        y.q = power(&r->q, x.q, r->q.m - 2);
    return dt_residue_made(y, x, x);
}

static bool has_inverse(DtResidue x) { return !dt_residue_is_symbol(x) && x.p != 0 && x.q != 0; }

/* the second component of a number without one counts as 1 here */
static DtResidue paired(const DtResidues *r, DtResidue x)
{
    return (DtResidue){.p = x.p, .q = x.q == DT_RESIDUE_NONE ? r->q.one : x.q};
}

/* Inverts n numbers with one inversion: that of their product. The inverse of the product of the
 * first k, times the product of the first k - 1, is the inverse of number k; times number k, it is
 * the inverse of the product of the first k - 1. */
void dt_residue_inverses(const DtResidues *r, size_t n, const DtResidue *x, DtResidue *ret_inverses)
{
    DtResidue product = {.p = r->p.one, .q = r->q.one};
    for (size_t i = 0; i < n; i++) {
        ret_inverses[i] = product; /* products of the numbers before */
        if (has_inverse(x[i]))
            product = dt_residue_mul(r, product, paired(r, x[i]));
    }
    DtResidue inverse = dt_residue_inverse(r, product, true);
    for (size_t i = n; i-- > 0;) {
        if (!has_inverse(x[i])) {
            ret_inverses[i] = dt_residue_inverse(r, x[i], false);
            continue;
        }
        ret_inverses[i] = dt_residue_mul(r, inverse, ret_inverses[i]);
        if (x[i].q == DT_RESIDUE_NONE)
            ret_inverses[i].q = DT_RESIDUE_NONE;
        ret_inverses[i] = dt_residue_made(ret_inverses[i], x[i], x[i]);
        inverse = dt_residue_mul(r, inverse, paired(r, x[i]));
    }
}

DtResidue dt_residue_exp(const DtResidues *r, DtResidue x)
{
    if (x.p == DT_RESIDUE_LOWEST)
        return (DtResidue){.p = 0, .q = DT_RESIDUE_NONE};
    if (dt_residue_is_symbol(x))
        return dt_residue_symbol(x.p == DT_RESIDUE_ABSENT ? x.p : DT_RESIDUE_UNDEFINED);
    if (x.q == DT_RESIDUE_NONE)
        return dt_residue_function(r, "exp", x, x);
    uint64_t exponent = dt_modulus_mul(&r->q, x.q, 1), y = r->p.one;
    for (int place = 0; exponent; place++, exponent >>= 8)
        y = dt_modulus_mul(&r->p, y, r->power[place][exponent & 255]);
    return dt_residue_made((DtResidue){.p = y, .q = DT_RESIDUE_NONE}, x, x);
}

DtResidue dt_residue_function(const DtResidues *r, const char *name, DtResidue x, DtResidue y)
{
    DtResidue what;
    if (is_nothing(x, y, &what))
        return what;
    uint64_t hash = dt_hash_text(name, r->hash);
    hash = dt_residue_mix(dt_residue_mix(hash, x.p), x.q);
    return dt_residue_made(dt_residue_random(r, dt_residue_mix(dt_residue_mix(hash, y.p), y.q)), x,
                           y);
}
