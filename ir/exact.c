/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/exact.h"

#include <math.h>
#include <stdlib.h>

const DtExact dt_exact_unknown = {UINT64_MAX, DT_EXACT_NONE},
              dt_exact_lowest = {UINT64_MAX - 1, DT_EXACT_NONE};

__extension__ typedef unsigned __int128 Wide;

/* Integers modulo 2^bits - less. */
typedef struct Field {
    uint32_t bits;
    uint64_t less;
} Field;

static const Field field_p = {61, 2373}, field_q = {60, 1187}; /* the second prime: p = 2q + 1 */

static uint64_t modulus(Field f) { return (UINT64_C(1) << f.bits) - f.less; }

static uint64_t sum(Field f, uint64_t a, uint64_t b)
{
    return a + b < modulus(f) ? a + b : a + b - modulus(f);
}

/* Returns a * b modulo the prime, where 2^bits equals `less`. */
static uint64_t product(Field f, uint64_t a, uint64_t b)
{
    const uint64_t low = (UINT64_C(1) << f.bits) - 1;
    Wide x = (Wide)a * b;
    for (int i = 0; i < 2; i++)
        x = (x & low) + (x >> f.bits) * f.less;
    return (uint64_t)(x < modulus(f) ? x : x - modulus(f));
}

static uint64_t power(Field f, uint64_t x, uint64_t e)
{
    uint64_t y = 1;
    for (; e; e >>= 1) {
        if (e & 1)
            y = product(f, y, x);
        x = product(f, x, x);
    }
    return y;
}

static uint64_t inverse(Field f, uint64_t x) { return power(f, x, modulus(f) - 2); }

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static bool is_number(DtExact x) { return x.p < dt_exact_lowest.p; }
static bool is_lowest(DtExact x) { return x.p == dt_exact_lowest.p; }
static bool is_pair(DtExact x, DtExact y) { return x.q != DT_EXACT_NONE && y.q != DT_EXACT_NONE; }

DtExact dt_exact_draw(uint64_t seed)
{
    const uint64_t x = mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    return (DtExact){.p = x % modulus(field_p), .q = mix(x + 1) % modulus(field_q)};
}

static uint64_t scaled(Field f, uint64_t whole, int exponent)
{
    const uint64_t two = exponent < 0 ? inverse(f, 2) : 2;
    return product(f, whole % modulus(f), power(f, two, (uint64_t)abs(exponent)));
}

static DtExact negative(DtExact x)
{
    if (!is_number(x))
        return dt_exact_unknown;
    return (DtExact){.p = x.p ? modulus(field_p) - x.p : 0,
                     .q = x.q && x.q != DT_EXACT_NONE ? modulus(field_q) - x.q : x.q};
}

DtExact dt_exact_number(double x)
{
    int exponent;
    if (!isfinite(x))
        return x < 0 ? dt_exact_lowest : dt_exact_unknown;
    const uint64_t whole = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53);
    const DtExact y = {.p = scaled(field_p, whole, exponent - 53),
                       .q = scaled(field_q, whole, exponent - 53)};
    return x < 0 ? negative(y) : y;
}

static DtExact add(DtExact x, DtExact y)
{
    if (!is_number(x) || !is_number(y))
        return (is_lowest(x) && is_number(y)) || (is_number(x) && is_lowest(y)) ? dt_exact_lowest
                                                                                : dt_exact_unknown;
    return (DtExact){.p = sum(field_p, x.p, y.p),
                     .q = is_pair(x, y) ? sum(field_q, x.q, y.q) : DT_EXACT_NONE};
}

static DtExact multiply(DtExact x, DtExact y)
{
    if (!is_number(x) || !is_number(y))
        return dt_exact_unknown;
    return (DtExact){.p = product(field_p, x.p, y.p),
                     .q = is_pair(x, y) ? product(field_q, x.q, y.q) : DT_EXACT_NONE};
}

static DtExact part(DtExact x)
{
    if (!is_number(x) || x.p == 0 || x.q == 0)
        return dt_exact_unknown;
    return (DtExact){.p = inverse(field_p, x.p),
                     .q = x.q == DT_EXACT_NONE ? x.q : inverse(field_q, x.q)};
}

/* Returns exp(x), a power of one element with the second component of x as exponent. The result has
 * no second component. */
static DtExact exponential(DtExact x)
{
    /* an element whose square has order q */
    const uint64_t root = UINT64_C(0x9e3779b97f4a7c15) % modulus(field_p);
    if (is_lowest(x))
        return (DtExact){.q = DT_EXACT_NONE};
    if (!is_number(x) || x.q == DT_EXACT_NONE)
        return dt_exact_unknown;
    return (DtExact){.p = power(field_p, product(field_p, root, root), x.q), .q = DT_EXACT_NONE};
}

DtExact dt_exact_map(DtOpKind kind, DtExact x, DtExact y)
{
    switch (kind) {
    case DT_OP_ADD: return add(x, y);
    case DT_OP_SUB: return add(x, negative(y));
    case DT_OP_MUL: return multiply(x, y);
    case DT_OP_DIV: return multiply(x, part(y));
    case DT_OP_NEG: return negative(x);
    case DT_OP_EXP: return exponential(x);
    case DT_OP_TANH: return is_number(x) ? dt_exact_draw(mix(x.p + 1) ^ x.q) : dt_exact_unknown;
    case DT_OP_STOP: return x;
    default: return dt_exact_unknown;
    }
}

DtExact dt_exact_max(DtExact x, DtExact y)
{
    if ((!is_number(x) && !is_lowest(x)) || (!is_number(y) && !is_lowest(y)))
        return dt_exact_unknown;
    if (is_lowest(x) || is_lowest(y))
        return is_lowest(x) ? y : x;
    return mix(x.p) < mix(y.p) ? y : x;
}

bool dt_exact_same(DtExact x, DtExact y)
{
    return is_number(x) && is_number(y) && x.p == y.p && (x.q == y.q || !is_pair(x, y));
}
