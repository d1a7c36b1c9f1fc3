/* SPDX-License-Identifier: Apache-2.0 */
/* What every generated C unit starts with. Includes nothing. Results are fixed by the text:
 * explicit fused multiply-adds, own elementary functions, reductions in fixed lanes with a fixed
 * tree; so gcc and clang, with any vector width and optimisation level, give the same bits.
 * Polynomials were fitted by interpolation at Chebyshev nodes in 40 digits; the comment of each
 * function states its error. */
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned int uint32_t;

#if defined(DT_LANES)
#elif defined(__clang__)
#define DT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define DT_LANES _Pragma("GCC ivdep")
#endif
#define DT_INLINE static inline __attribute__((always_inline, unused))

DT_INLINE float dt_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DT_INLINE float dt_bits_float(int bits) { union { int i; float f; } u; u.i = bits; return u.f; }
DT_INLINE int dt_float_bits(float x) { union { int i; float f; } u; u.f = x; return u.i; }

/* Selects one of two values without a branch. */
#ifndef DT_OWN_CASTS
DT_INLINE int dt_ipick(int c, int a, int b) { return (a & -(c != 0)) | (b & -(c == 0)); }
DT_INLINE float dt_pick(int c, float a, float b)
{
    return dt_bits_float(dt_ipick(c, dt_float_bits(a), dt_float_bits(b)));
}
#endif

/* How often the loop over a long axis runs: n times, unless a check of the machine code makes it
 * shorter. */
int64_t dt_most = 0x7fffffffffffffff;
DT_INLINE int64_t dt_trips(int64_t n) { return n < dt_most ? n : dt_most; }

/* 16-bit floats: exact when read, to nearest even when written. A machine may have its own. */
#ifndef DT_OWN_CASTS
DT_INLINE float dt_from_bf16(unsigned short h) { return dt_bits_float((int)((uint32_t)h << 16)); }
DT_INLINE unsigned short dt_to_bf16(float x)
{
    uint32_t b = (uint32_t)dt_float_bits(x);
    uint32_t rounded = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
    return (unsigned short)(x == x ? rounded : (b >> 16 | 0x40));
}
DT_INLINE float dt_from_f16(unsigned short h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, body = (uint32_t)(h & 0x7fff) << 13;
    /* normal numbers: exponent from bias 15 to 127 */
    float magnitude = dt_bits_float((int)(body + 0x38000000u));
    float tiny = (float)(h & 0x7fff) * 0x1p-24f;
    uint32_t bits = (h & 0x7c00) == 0x7c00
                        ? body + 0x70000000u
                        : (uint32_t)dt_float_bits((h & 0x7c00) ? magnitude : tiny);
    return dt_bits_float((int)(bits | sign));
}
DT_INLINE unsigned short dt_to_f16(float x)
{
    uint32_t b = (uint32_t)dt_float_bits(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
    uint32_t normal = (a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13;
    /* the add rounds at 2^-24 */
    uint32_t tiny = (uint32_t)dt_float_bits(dt_bits_float((int)a) + 0.5f) - 0x3f000000u;
    uint32_t h = a >= 0x38800000u ? normal : tiny;
    h = a >= 0x477ff000u ? 0x7c00 : h;
    h = a > 0x7f800000u ? 0x7e00 : h;
    return (unsigned short)(h | sign);
}
#endif

/* Integers wrap; x // 0 is 0 and x % 0 is x; // and % round towards minus infinity. */
DT_INLINE int dt_iadd(int a, int b) { return (int)((uint32_t)a + (uint32_t)b); }
DT_INLINE int dt_isub(int a, int b) { return (int)((uint32_t)a - (uint32_t)b); }
DT_INLINE int dt_imul(int a, int b) { return (int)((uint32_t)a * (uint32_t)b); }
DT_INLINE int dt_ifloordiv(int a, int b)
{
    if (b == 0) return 0;
    int64_t q = (int64_t)a / b;
    return (int)(uint32_t)(uint64_t)(q - (q * b != a && (a < 0) != (b < 0)));
}
DT_INLINE int dt_imod(int a, int b)
{
    return b == 0 ? a : dt_isub(a, dt_imul(dt_ifloordiv(a, b), b));
}
DT_INLINE int dt_iabs(int a) { return a < 0 ? dt_isub(0, a) : a; }
DT_INLINE int dt_ifloor(int a) { return a; }
DT_INLINE int dt_imax(int a, int b) { return a > b ? a : b; }
DT_INLINE int dt_imin(int a, int b) { return a < b ? a : b; }
DT_INLINE int64_t dt_div(int64_t a, int64_t b) { return a / b; }

/* Towards zero; outside the range of int (and for NaN) the nearest end (0). */
DT_INLINE int dt_to_int(float x)
{
    return x >= 2147483648.0f   ? 2147483647
           : x < -2147483648.0f ? -2147483647 - 1
           : x == x             ? (int)x
                                : 0;
}

/* A NaN wins. */
DT_INLINE float dt_max(float a, float b) { return a > b || a != a ? a : b; }
DT_INLINE float dt_min(float a, float b) { return a < b || a != a ? a : b; }
/* In double, where the quotient of two floats does not round up to the next whole number: exact
 * while it is below 2^24 (floordiv) and 2^53 (mod). */
DT_INLINE float dt_floordiv(float a, float b)
{
    return (float)__builtin_floor((double)a / (double)b);
}
DT_INLINE float dt_mod(float a, float b)
{
    return (float)__builtin_fma(-__builtin_floor((double)a / (double)b), (double)b, (double)a);
}
DT_INLINE float dt_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

/* Relative error below 1.2e-7. 0 below -87.3 and infinity above 88.7: there the polynomial's value
 * is discarded. */
DT_INLINE float dt_exp(float x)
{
    /* rounded to a whole number n, which is then also in the lowest bits of the sum */
    float shifted = dt_fma(x, 1.44269504f, 12582912.0f), n = shifted - 12582912.0f;
    float f = dt_fma(n, -0.693359375f, x);
    f = dt_fma(n, 2.12194440e-4f, f);
    float p = 1.9890988e-4f;
    p = dt_fma(p, f, 1.39336479e-3f);
    p = dt_fma(p, f, 8.33331093e-3f);
    p = dt_fma(p, f, 4.16664649e-2f);
    p = dt_fma(p, f, 0.166666667f);
    p = dt_fma(p, f, 0.5f);
    p = dt_fma(p, f * f, f) + 1.0f;
    /* times 2^n: n is added to the exponent */
    float r =
        dt_bits_float((int)((uint32_t)dt_float_bits(p) + ((uint32_t)dt_float_bits(shifted) << 23)));
    r = x < -87.33654f ? 0.0f : r;
    return x <= 88.72283f ? r : x + __builtin_inff();
}

/* e^x - 1 for x in -87 .. 88: relative error below 2.5e-7, also near 0. */
DT_INLINE float dt_expm1(float x)
{
    float shifted = dt_fma(x, 1.44269504f, 12582912.0f), n = shifted - 12582912.0f;
    float f = dt_fma(n, -0.693359375f, x);
    f = dt_fma(n, 2.12194440e-4f, f);
    float p = 1.38825164e-3f;
    p = dt_fma(p, f, 8.36654713e-3f);
    p = dt_fma(p, f, 4.16672007e-2f);
    p = dt_fma(p, f, 0.166665434f);
    p = dt_fma(p, f, 0.499999981f);
    p = dt_fma(p, f * f, f);
    /* 2^n */
    float s = dt_bits_float((int)(((uint32_t)dt_float_bits(shifted) << 23) + 0x3f800000u));
    return dt_fma(p, s, s - 1.0f);
}

/* The first one's magnitude with the second one's sign, where the first is not negative. */
DT_INLINE float dt_signed(float a, float x)
{
    return dt_bits_float(dt_float_bits(a) | (int)((uint32_t)dt_float_bits(x) & 0x80000000u));
}

/* Relative error below 2e-7. -infinity at 0, NaN below. Subnormal arguments count as 0. */
DT_INLINE float dt_log(float x)
{
    int bits = dt_float_bits(x);
    int shifted = bits - 0x3f3504f3; /* sqrt(1/2): the mantissa ends in [sqrt(1/2), sqrt(2)) */
    int e = shifted >> 23;
    float f = dt_bits_float((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f;
    float p = 0.0696975398f;
    p = dt_fma(p, f, -0.114791881f);
    p = dt_fma(p, f, 0.116857959f);
    p = dt_fma(p, f, -0.124257767f);
    p = dt_fma(p, f, 0.142490327f);
    p = dt_fma(p, f, -0.166677983f);
    p = dt_fma(p, f, 0.200007163f);
    p = dt_fma(p, f, -0.24999997f);
    p = dt_fma(p, f, 0.333333312f);
    float z = f * f, n = (float)e;
    float r = dt_fma(z * f, p, n * -2.12194440e-4f);
    r = dt_fma(z, -0.5f, r) + f;
    r = dt_fma(n, 0.693359375f, r);
    r = x < 1.17549435e-38f ? (x >= 0.0f ? -__builtin_inff() : __builtin_nanf("")) : r;
    return x == __builtin_inff() || x != x ? x : r;
}

/* Absolute error below 1e-7, relative below 2e-7; never beyond 1. */
DT_INLINE float dt_tanh(float x)
{
    float a = __builtin_fabsf(x);
    a = a > 10.0f ? 10.0f : a;
    float t = dt_expm1(a + a);
    return dt_signed(t / (t + 2.0f), x);
}

/* 1 - e^-(a g(a)), where g(a) = -log(1 - erf(a)) / a. Errors of g matter less as erf approaches 1.
 * Absolute error below 1e-7, relative below 2.5e-7; never beyond 1. */
DT_INLINE float dt_erf(float x)
{
    float a = __builtin_fabsf(x);
    a = a > 4.0f ? 4.0f : a;
    float g = 4.07020939e-5f;
    g = dt_fma(g, a, -3.80956729e-4f);
    g = dt_fma(g, a, 1.2516187e-3f);
    g = dt_fma(g, a, 2.05899175e-4f);
    g = dt_fma(g, a, -0.0193218511f);
    g = dt_fma(g, a, 0.10281446f);
    g = dt_fma(g, a, 0.636616489f);
    g = dt_fma(g, a, 1.12837921f);
    return dt_signed(-dt_expm1(-(a * g)), x);
}

/* Quarter turns are counted in double, so that large angles (positions times frequencies) stay
 * exact to float accuracy up to 2^31. Absolute error below 1.5e-7. */
DT_INLINE float dt_turn(float x, int quarter)
{
    double n = (double)x * 0.63661977236758134 + 6755399441055744.0;
    n = n - 6755399441055744.0;
    float r = (float)__builtin_fma(-n, 6.123233995736766e-17,
                                   __builtin_fma(-n, 1.5707963267948966, (double)x));
    int k = (int)n + quarter;
    float z = r * r;
    float s = 2.72498516e-6f;
    s = dt_fma(s, z, -1.98400862e-4f);
    s = dt_fma(s, z, 8.33333187e-3f);
    s = dt_fma(s, z, -0.166666667f);
    s = dt_fma(r * z, s, r);
    float c = -2.73008973e-7f;
    c = dt_fma(c, z, 2.48005999e-5f);
    c = dt_fma(c, z, -1.38888877e-3f);
    c = dt_fma(c, z, 4.16666667e-2f);
    c = dt_fma(c, z * z, dt_fma(z, -0.5f, 1.0f));
    float y = (k & 1) ? c : s;
    y = (k & 2) ? -y : y;
    return __builtin_fabsf(x) < 2147483648.0f ? y : __builtin_nanf("");
}
DT_INLINE float dt_sin(float x) { return dt_turn(x, 0); }
DT_INLINE float dt_cos(float x) { return dt_turn(x, 1); }

/* x ** y for x > 0 through logarithm and exponential in double: relative error below 1.5e-7 for any
 * result. Integers of 64 bits become doubles, and back, in the last bits of a large double: vectors
 * of 256 bits have no other way. */
DT_INLINE float dt_pow(float x, float y)
{
    union { double d; uint64_t i; } u;
    u.d = (double)x;
    /* the exponent for which the rest is in 2^-1/2 .. 2^1/2, plus 2048 so that it is not
     * negative */
    const uint64_t shifted = u.i - 0x3fe6a09e667f3bcdul + (2048ul << 52);
    u.i = (shifted >> 52) | 0x4330000000000000ul;
    const double e = u.d - (4503599627370496.0 + 2048.0);
    u.i = (shifted & 0x000ffffffffffffful) + 0x3fe6a09e667f3bcdul;
    double f = u.d - 1.0, s = f / (2.0 + f), z = s * s;
    double p = 0.13265527927387243;
    p = __builtin_fma(p, z, 0.13248384848961497);
    p = __builtin_fma(p, z, 0.15387177822275883);
    p = __builtin_fma(p, z, 0.1818177334703648);
    p = __builtin_fma(p, z, 0.2222222268191142);
    p = __builtin_fma(p, z, 0.285714285687849);
    p = __builtin_fma(p, z, 0.4000000000000761);
    p = __builtin_fma(p, z, 0.6666666666666666);
    p = __builtin_fma(p, z, 2.0);
    double t = __builtin_fma(e, 0.69314718055994531, s * p) * (double)y;
    t = t > 200.0 ? 200.0 : t < -200.0 ? -200.0 : t;
    u.d = t * 1.4426950408889634 + 6755399441055744.0;
    const double n = u.d - 6755399441055744.0;
    const uint64_t power = (u.i + 1023) << 52;
    double g = __builtin_fma(n, -0.69314718055994531, t);
    double q = 2.5110046444457486e-08;
    q = __builtin_fma(q, g, 2.76326511328741e-07);
    q = __builtin_fma(q, g, 2.7557240894691074e-06);
    q = __builtin_fma(q, g, 2.4801485451264055e-05);
    q = __builtin_fma(q, g, 0.00019841269890069431);
    q = __builtin_fma(q, g, 0.0013888888952343797);
    q = __builtin_fma(q, g, 0.008333333333319592);
    q = __builtin_fma(q, g, 0.04166666666648799);
    q = __builtin_fma(q, g, 0.1666666666666668);
    q = __builtin_fma(q, g, 0.5000000000000019);
    q = __builtin_fma(q, g, 1.0);
    q = __builtin_fma(q, g, 1.0);
    u.i = power;
    float r = (float)(q * u.d);
    r = x == 0.0f ? (y == 0.0f ? 1.0f : y > 0.0f ? 0.0f : __builtin_inff()) : r;
    r = x == __builtin_inff() ? (y > 0.0f ? x : y == 0.0f ? 1.0f : 0.0f) : r;
    return x < 0.0f || x != x || y != y ? __builtin_nanf("") : r;
}

/* The number of the step: an argument, or, on GPUs, in memory at the argument's address. */
#ifndef DT_STEP_LIES_THERE
DT_INLINE uint32_t dt_step(long argument) { return (uint32_t)argument; }
#endif

/* Philox-4x32-10: the four words of a call. */
typedef struct dt_words { uint32_t a, b, c, d; } dt_words;
DT_INLINE dt_words dt_philox(uint64_t key, uint64_t call, uint32_t step, uint32_t iteration)
{
    uint32_t c0 = (uint32_t)call, c1 = (uint32_t)(call >> 32), c2 = step, c3 = iteration;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const dt_words words = {c0, c1, c2, c3};
    return words;
}

/* A word as a multiple of 2^-24 in [0, 1). */
DT_INLINE float dt_unit(uint32_t word) { return (float)(int)(word >> 8) * 0x1p-24f; }

/* An element of a draw, if a call gives one element, or four. */
DT_INLINE float dt_draw_1(uint64_t key, uint64_t element, uint32_t step, uint32_t iteration)
{
    return dt_unit(dt_philox(key, element, step, iteration).a);
}
DT_INLINE float dt_draw_4(uint64_t key, uint64_t element, uint32_t step, uint32_t iteration)
{
    const dt_words w = dt_philox(key, element >> 2, step, iteration);
    const uint32_t low = element & 1 ? w.b : w.a, high = element & 1 ? w.d : w.c;
    return dt_unit(element & 2 ? high : low);
}

/* All four elements of the call that gives this one, so far apart. */
DT_INLINE void dt_draw(float *to, int64_t apart, uint64_t key, uint64_t element, uint32_t step,
                       uint32_t iteration)
{
    const dt_words w = dt_philox(key, element >> 2, step, iteration);
    to[0] = dt_unit(w.a), to[apart] = dt_unit(w.b), to[2 * apart] = dt_unit(w.c),
    to[3 * apart] = dt_unit(w.d);
}

/* Order of top-k: larger first, NaN before all, equal ones by index. */
DT_INLINE int dt_before(float a, int64_t i, float b, int64_t j)
{
    if (a != a || b != b) return (a != a) == (b != b) ? i < j : a != a;
    return a > b || (a == b && i < j);
}

/* 64, 32 or 16 lanes to one, by halves. */
#define DT_HALVE(w, combine) for (int l = 0; l < w; l++) t[l] = combine(t[l], t[l + w])
#define DT_TREE(type, name, combine)                                                           \
    DT_INLINE type name##_16(const type *s)                                                    \
    {                                                                                          \
        type t[8];                                                                             \
        for (int l = 0; l < 8; l++) t[l] = combine(s[l], s[l + 8]);                            \
        DT_HALVE(4, combine);                                                                  \
        DT_HALVE(2, combine);                                                                  \
        return combine(t[0], t[1]);                                                            \
    }                                                                                          \
    DT_INLINE type name##_32(const type *s)                                                    \
    {                                                                                          \
        type t[16];                                                                            \
        for (int l = 0; l < 16; l++) t[l] = combine(s[l], s[l + 16]);                          \
        return name##_16(t);                                                                   \
    }                                                                                          \
    DT_INLINE type name##_64(const type *s)                                                    \
    {                                                                                          \
        type t[32];                                                                            \
        for (int l = 0; l < 32; l++) t[l] = combine(s[l], s[l + 32]);                          \
        return name##_32(t);                                                                   \
    }
/* Combines any number of lanes to one, in place, in pairs of neighbours; a lane without a partner
 * is passed on. */
#define DT_PAIRS(type, name, combine)                                                          \
    DT_INLINE type name##_pairs(type *s, int n)                                                \
    {                                                                                          \
        for (; n > 1; n = (n + 1) / 2)                                                         \
            for (int l = 0; l < (n + 1) / 2; l++)                                              \
                s[l] = 2 * l + 1 < n ? combine(s[2 * l], s[2 * l + 1]) : s[2 * l];             \
        return s[0];                                                                           \
    }
DT_INLINE float dt_add(float a, float b) { return a + b; }
DT_TREE(float, dt_sum, dt_add)
DT_TREE(float, dt_max, dt_max)
DT_TREE(float, dt_min, dt_min)
DT_TREE(int, dt_isum, dt_iadd)
DT_TREE(int, dt_imax, dt_imax)
DT_TREE(int, dt_imin, dt_imin)
DT_PAIRS(float, dt_sum, dt_add)
DT_PAIRS(float, dt_max, dt_max)
DT_PAIRS(float, dt_min, dt_min)
DT_PAIRS(int, dt_isum, dt_iadd)
DT_PAIRS(int, dt_imax, dt_imax)
DT_PAIRS(int, dt_imin, dt_imin)
