/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to dtypes against the definition: every finite f16 and bf16 number is known from its
 * bits, so the nearest one to a double is found by searching among them. */
#include "ir/round.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction ? NAN : INFINITY)
                                    : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static double from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Over positive bits lo and lo + 1: at, below, above and exactly between them. */
static void check_neighbours(DtDtype dtype, uint16_t bits, double (*decode)(uint16_t))
{
    double lo = decode(bits), hi = decode((uint16_t)(bits + 1)), middle = (lo + hi) / 2;
    double even = bits & 1 ? hi : lo;
    cr_assert_eq(dt_round_to(dtype, lo), lo);
    cr_assert_eq(dt_round_to(dtype, -lo), -lo);
    cr_assert_eq(dt_round_to(dtype, middle), even, "%s %04x", dt_dtype_name(dtype), bits);
    cr_assert_eq(dt_round_to(dtype, -middle), -even);
    cr_assert_eq(dt_round_to(dtype, nextafter(middle, 0)), lo);
    cr_assert_eq(dt_round_to(dtype, nextafter(middle, INFINITY)), hi);
}

Test(round, f16_every_number_and_midpoint)
{
    for (uint32_t bits = 0; bits + 1 < 0x7c00; bits++)
        check_neighbours(DT_F16, (uint16_t)bits, from_f16);
}

Test(round, bf16_every_number_and_midpoint)
{
    for (uint32_t bits = 0; bits + 1 < 0x7f80; bits++)
        check_neighbours(DT_BF16, (uint16_t)bits, from_bf16);
}

Test(round, overflow_goes_to_infinity_at_half_a_step)
{
    cr_assert_eq(dt_round_to(DT_F16, 65504), 65504);
    cr_assert_eq(dt_round_to(DT_F16, nextafter(65520, 0)), 65504);
    cr_assert_eq(dt_round_to(DT_F16, 65520), INFINITY);
    cr_assert_eq(dt_round_to(DT_F16, -65520), -INFINITY);
    double largest = from_bf16(0x7f7f), step = largest - from_bf16(0x7f7e);
    cr_assert_eq(dt_round_to(DT_BF16, nextafter(largest + step / 2, 0)), largest);
    cr_assert_eq(dt_round_to(DT_BF16, largest + step / 2), INFINITY);
    cr_assert_eq(dt_round_to(DT_F32, 1e300), INFINITY);
    cr_assert_eq(dt_round_to(DT_F32, -(FLT_MAX + 0x1p103)), -INFINITY);
    cr_assert_eq(dt_round_to(DT_F32, nextafter(FLT_MAX + 0x1p103, 0)), FLT_MAX);
}

Test(round, f32_is_the_conversion)
{
    srand48(1);
    for (int i = 0; i < 100000; i++) {
        double value = ldexp(drand48() - 0.5, (int)(drand48() * 250) - 148);
        cr_assert_eq(dt_round_to(DT_F32, value), (double)(float)value);
    }
}

/* A double between a bf16 midpoint and its nearest f32: rounding twice would go to the other side.
 */
Test(round, once_not_twice)
{
    double value = 1 + 0x1p-8 + 0x1p-40;
    cr_assert_eq((float)value, 1 + 0x1p-8f);
    cr_assert_eq(dt_round_to(DT_BF16, value), 1 + 0x1p-7);
    cr_assert_eq(dt_round_to(DT_BF16, 1 + 0x1p-8), 1);
}

Test(round, special_values)
{
    DtDtype floats[] = {DT_F16, DT_BF16, DT_F32, DT_F64};
    for (size_t i = 0; i < DT_COUNT(floats); i++) {
        cr_assert(isnan(dt_round_to(floats[i], NAN)));
        cr_assert_eq(dt_round_to(floats[i], -INFINITY), -INFINITY);
        cr_assert(signbit(dt_round_to(floats[i], -0.0)));
    }
    cr_assert(signbit(dt_round_to(DT_F16, -1e-300)) && dt_round_to(DT_F16, -1e-300) == 0);
    cr_assert_eq(dt_round_to(DT_F64, 0.1), 0.1);
}

Test(round, to_integers)
{
    cr_assert_eq(dt_round_to(DT_I32, 2.9), 2);
    cr_assert_eq(dt_round_to(DT_I32, -2.9), -2);
    cr_assert_eq(dt_round_to(DT_I32, 1e10), 2147483647.0);
    cr_assert_eq(dt_round_to(DT_I32, -INFINITY), -2147483648.0);
    cr_assert_eq(dt_round_to(DT_I32, NAN), 0);
    cr_assert_eq(dt_round_to(DT_U8, -3), 0);
    cr_assert_eq(dt_round_to(DT_U16, 70000), 65535);
    DtDtype whole[] = {DT_U8, DT_U16, DT_U32, DT_I32, DT_I64};
    for (size_t i = 0; i < DT_COUNT(whole); i++) {
        cr_assert_eq(dt_round_to(whole[i], 0.75), 0);
        cr_assert_eq(dt_round_to(whole[i], 100), 100);
    }
    cr_assert_eq(dt_round_to(DT_I64, -0x1p40), -0x1p40);
    cr_assert_eq(dt_round_to(DT_U32, 5e9), 4294967295.0);
    cr_assert_eq(dt_round_to(DT_BOOL, 0.5), 1);
    cr_assert_eq(dt_round_to(DT_BOOL, -0.0), 0);
    cr_assert_eq(dt_round_to(DT_BOOL, NAN), 1);
    cr_assert_eq(dt_round_whole(1e30), INT64_MAX);
    cr_assert_eq(dt_round_whole(-1e30), INT64_MIN);
}

Test(round, wraps)
{
    cr_assert_eq(dt_round_wrap(DT_I32, 0x80000000u), -2147483648.0);
    cr_assert_eq(dt_round_wrap(DT_I32, 0x1ffffffffu), -1);
    cr_assert_eq(dt_round_wrap(DT_U8, 300), 44);
    cr_assert_eq(dt_round_wrap(DT_U16, (uint64_t)-1), 65535);
    cr_assert_eq(dt_round_wrap(DT_U32, 0x1ffffffffu), 4294967295.0);
    cr_assert_eq(dt_round_wrap(DT_I64, (uint64_t)-5), -5);
    cr_assert_eq(dt_round_wrap(DT_BOOL, 256), 1);
}
