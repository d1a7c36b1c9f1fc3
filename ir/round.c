/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding of doubles to the dtypes of the language.
 *
 * A binary float format is given by its significant bits and its least normal exponent. Rounding to
 * it means rounding to a multiple of the quantum 2^(max(exponent, least) - bits + 1); multiplying
 * by a power of two is exact, so `nearbyint` in the default rounding mode does the one inexact
 * step. */
#include "ir/round.h"

#include "base/bug.h"

#include <float.h>
#include <math.h>

static double round_binary(double value, int bits, int least, double largest)
{
    if (!isfinite(value) || value == 0)
        return value;
    int exponent = ilogb(value);
    int quantum = (exponent > least ? exponent : least) - (bits - 1);
    double rounded = ldexp(nearbyint(ldexp(value, -quantum)), quantum);
    return fabs(rounded) > largest ? copysign(INFINITY, value) : rounded;
}

int64_t dt_round_whole(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    if (value < -0x1p63)
        return INT64_MIN;
    return (int64_t)value;
}

static double saturate(double value, int64_t lo, int64_t hi)
{
    int64_t whole = dt_round_whole(value);
    return (double)(whole < lo ? lo : whole > hi ? hi : whole);
}

double dt_round_to(DtDtype dtype, double value)
{
    switch (dtype) {
    case DT_BOOL: return value != 0;
    case DT_U8: return saturate(value, 0, UINT8_MAX);
    case DT_U16: return saturate(value, 0, UINT16_MAX);
    case DT_U32: return saturate(value, 0, UINT32_MAX);
    case DT_I32: return saturate(value, INT32_MIN, INT32_MAX);
    case DT_I64: return saturate(value, INT64_MIN, INT64_MAX);
    case DT_F16: return round_binary(value, 11, -14, 65504.0);
    case DT_BF16: return round_binary(value, 8, -126, 0x1.fep127);
    case DT_F32: /* the compiler has the type: its conversion rounds in the same way */
        return fabs(value) <= FLT_MAX ? (double)(float)value
                                      : round_binary(value, 24, -126, FLT_MAX);
    case DT_F64: return value;
    case DT_DTYPE_COUNT: break;
    }
    DT_BUG("no rounding to dtype %d", (int)dtype);
}

double dt_round_wrap(DtDtype dtype, uint64_t bits)
{
    switch (dtype) {
    case DT_BOOL: return bits != 0;
    case DT_U8: return (double)(uint8_t)bits;
    case DT_U16: return (double)(uint16_t)bits;
    case DT_U32: return (double)(uint32_t)bits;
    case DT_I32: return (double)(int32_t)(uint32_t)bits;
    case DT_I64: return (double)(int64_t)bits;
    default: break;
    }
    DT_BUG("dtype %d does not wrap", (int)dtype);
}
