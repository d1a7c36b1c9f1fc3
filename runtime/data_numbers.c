/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of files, of any width and order of bytes, as i32 or f32. Loops over each width are
 * written out by the compiler, since a constant width makes a load of the bytes. */
#include "runtime/data.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

DtNumber dt_datanumbers_of(uint32_t dtype)
{
    const DtNumberKind kind = dtype == DT_PLAN_I32 || dtype == DT_PLAN_I64   ? DT_NUMBER_SIGNED
                              : dtype == DT_PLAN_BF16                        ? DT_NUMBER_BFLOAT
                              : dt_kinds_is_float(dtype)                     ? DT_NUMBER_FLOAT
                                                                             : DT_NUMBER_UNSIGNED;
    return (DtNumber){.kind = kind, .width = (int)dt_kinds_size(dtype)};
}

#define ALWAYS static inline __attribute__((always_inline))

/* The bits of one number. */
ALWAYS uint64_t load(const uint8_t *at, int width, bool big_endian)
{
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)width);
    return big_endian ? __builtin_bswap64(bits) >> (64 - 8 * width) : bits;
}

ALWAYS int64_t integers(const uint8_t *from, int width, bool big_endian, bool is_signed, int64_t n,
                        int32_t *ret_ids)
{
    const int unused = 64 - 8 * width;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = load(from + i * width, width, big_endian);
        const int64_t value = is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
        if (value < INT32_MIN || value > INT32_MAX || (!is_signed && bits > INT32_MAX))
            return i;
        ret_ids[i] = (int32_t)value;
    }
    return n;
}

ALWAYS int64_t any_order(const uint8_t *from, int width, const DtNumber *number, int64_t n,
                         int32_t *ret_ids)
{
    const bool is_signed = number->kind == DT_NUMBER_SIGNED;
    if (number->big_endian)
        return is_signed ? integers(from, width, true, true, n, ret_ids)
                         : integers(from, width, true, false, n, ret_ids);
    return is_signed ? integers(from, width, false, true, n, ret_ids)
                     : integers(from, width, false, false, n, ret_ids);
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float float_of(uint64_t bits, const DtNumber *number)
{
    if (number->kind == DT_NUMBER_BFLOAT)
        return dt_half_from_bf16((uint16_t)bits);
    if (number->width == 2)
        return dt_half_from_f16((uint16_t)bits);
    return number->width == 4 ? dt_half_float_of_bits((uint32_t)bits) : (float)double_of(bits);
}

static int64_t halves(const uint8_t *from, const DtNumber *number, int64_t n, float *ret_values)
{
    for (int64_t i = 0; i < n; i++)
        ret_values[i] = float_of(load(from + 2 * i, 2, number->big_endian), number);
    return n;
}

static int64_t singles(const uint8_t *from, const DtNumber *number, int64_t n, float *ret_values)
{
    if (!number->big_endian)
        memcpy(ret_values, from, (size_t)n * sizeof *ret_values);
    for (int64_t i = 0; i < n && number->big_endian; i++)
        ret_values[i] = float_of(load(from + 4 * i, 4, true), number);
    return n;
}

/* A finite number of 64 bits that is infinite in 32 ends the conversion. */
static int64_t doubles(const uint8_t *from, const DtNumber *number, int64_t n, float *ret_values)
{
    for (int64_t i = 0; i < n; i++) {
        const double value = double_of(load(from + 8 * i, 8, number->big_endian));
        ret_values[i] = (float)value;
        if (isinf(ret_values[i]) && isfinite(value))
            return i;
    }
    return n;
}

int64_t dt_datanumbers_convert(const uint8_t *from, const DtNumber *number, int64_t n,
                               void *ret_numbers)
{
    int32_t *ids = ret_numbers;
    if (dt_datanumbers_is_float(number))
        return number->width == 2   ? halves(from, number, n, ret_numbers)
               : number->width == 4 ? singles(from, number, n, ret_numbers)
                                    : doubles(from, number, n, ret_numbers);
    switch (number->width) {
    case 1: return any_order(from, 1, number, n, ids);
    case 2: return any_order(from, 2, number, n, ids);
    case 4: return any_order(from, 4, number, n, ids);
    default: return any_order(from, 8, number, n, ids);
    }
}

void dt_datanumbers_say(const uint8_t *at, const DtNumber *number, char ret_text[32])
{
    const uint64_t bits = load(at, number->width, number->big_endian);
    const int unused = 64 - 8 * number->width;
    if (dt_datanumbers_is_float(number))
        snprintf(ret_text, 32, "%.8g",
                 number->width == 8 ? double_of(bits) : (double)float_of(bits, number));
    else if (number->kind == DT_NUMBER_SIGNED)
        snprintf(ret_text, 32, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    else
        snprintf(ret_text, 32, "%llu", (unsigned long long)bits);
}
