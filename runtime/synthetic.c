/* SPDX-License-Identifier: Apache-2.0 */
/* Random data that replace files. Each element is one number of the counter generator. The counter
 * consists of the sample (its low half as the step word, its high half as the iteration word) and
 * the element within the sample. So a row is the same in every layout, and no two samples share
 * numbers. */
#include "runtime/data.h"

#include "base/philox.h"

#include <math.h>
#include <string.h>

static int64_t whole(const DtSynthetic *synthetic, DtPhilox r)
{
    int64_t lo = (int64_t)synthetic->lo;
    uint64_t range = (uint64_t)((int64_t)synthetic->hi - lo),
             bits = (uint64_t)r.word[0] << 32 | r.word[1];
    return range > 0 ? lo + (int64_t)(bits % range) : lo;
}

static double real(const DtSynthetic *synthetic, DtPhilox r)
{
    return synthetic->lo + (synthetic->hi - synthetic->lo) * dt_philox_uniform(r);
}

static void put(const DtSynthetic *synthetic, uint32_t dtype, DtPhilox r, char *to)
{
    int64_t integer = dtype < DT_PLAN_F16 ? whole(synthetic, r) : 0;
    float narrow = dtype == DT_PLAN_F32 ? (float)real(synthetic, r) : 0;
    double wide = dtype == DT_PLAN_F64 ? real(synthetic, r) : 0;
    uint8_t flag = r.word[0] & 1;
    switch (dtype) {
    case DT_PLAN_BOOL: memcpy(to, &flag, 1); break;
    case DT_PLAN_F32: memcpy(to, &narrow, 4); break;
    case DT_PLAN_F64: memcpy(to, &wide, 8); break;
    default: memcpy(to, &integer, (size_t)dt_kinds_size(dtype)); break; /* low bytes first */
    }
}

/* Whether the range is valid and the dtype can represent its integers. */
static bool fits(const DtSynthetic *synthetic, uint32_t dtype)
{
    static const double lowest[] = {0, 0, 0, 0, -0x1p31, -0x1p62},
                        end[] = {2, 0x1p8, 0x1p16, 0x1p32, 0x1p31, 0x1p62};
    if (!isfinite(synthetic->lo) || !isfinite(synthetic->hi) || synthetic->lo > synthetic->hi)
        return false;
    if (dtype == DT_PLAN_BOOL || dtype == DT_PLAN_F32 || dtype == DT_PLAN_F64)
        return true;
    return dtype < DT_PLAN_F16 && synthetic->lo >= lowest[dtype] && synthetic->hi <= end[dtype];
}

bool dt_synthetic_fill(const DtSynthetic *synthetic, uint32_t dtype, int64_t sample, int64_t first,
                       int64_t n, void *ret_values)
{
    if (!fits(synthetic, dtype))
        return false;
    int64_t size = dt_kinds_size(dtype);
    char *to = ret_values;
    for (int64_t i = 0; i < n; i++)
        put(synthetic, dtype,
            dt_philox(synthetic->key, (uint64_t)(first + i), (uint32_t)sample,
                      (uint32_t)((uint64_t)sample >> 32)),
            to + i * size);
    return true;
}
