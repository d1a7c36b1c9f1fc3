/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats as bits: to float exactly, from float to the nearest, ties to even, NaN stays
 * NaN. */
#ifndef DT_BASE_HALF_H
#define DT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float dt_half_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t dt_half_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float dt_half_from_bf16(uint16_t x)
{
    return dt_half_float_of_bits((uint32_t)x << 16);
}

static inline uint16_t dt_half_to_bf16(float value)
{
    uint32_t bits = dt_half_bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Normal numbers move exponent and mantissa; the rest is scaled by a power of two. */
static inline float dt_half_from_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = x & 0x7fff;
    if (rest >= 0x7c00) /* infinity, NaN */
        return dt_half_float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    float value = dt_half_float_of_bits(rest << 13) * 0x1p112f;
    return sign ? -value : value;
}

static inline uint16_t dt_half_to_f16(float value)
{
    uint32_t bits = dt_half_bits_of_float(value), sign = bits >> 16 & 0x8000,
             rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* from 65520 on */
        return (uint16_t)(sign | 0x7c00);
    /* below 2^-14: steps of 2^-24; adding 0.5 aligns them to the last bit and rounds */
    if (rest < 0x38800000) {
        uint32_t steps = dt_half_bits_of_float(dt_half_float_of_bits(rest) + 0.5f) - 0x3f000000;
        return (uint16_t)(sign | steps);
    }
    return (uint16_t)(sign | ((rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13));
}

#endif
