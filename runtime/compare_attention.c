/* SPDX-License-Identifier: Apache-2.0 */
/* How much the results of 16-bit attention (plan.h, ATTN) may differ between two machines. */
#include "runtime/compare.h"

#include "base/half.h"
#include "plan/kinds.h"

#include <math.h>
#include <string.h>

static double unit_of(uint32_t dtype) { return dtype == DT_PLAN_F16 ? 0x1p-10 : 0x1p-7; }

/* Returns element number i of an array, which may begin at any address. */
static double element(const uint8_t *bytes, int64_t i, uint32_t dtype)
{
    uint16_t half;
    float value;
    if (dtype == DT_PLAN_F32) {
        memcpy(&value, bytes + i * (int64_t)sizeof value, sizeof value);
        return value;
    }
    memcpy(&half, bytes + i * (int64_t)sizeof half, sizeof half);
    return dtype == DT_PLAN_F16 ? dt_half_from_f16(half) : dt_half_from_bf16(half);
}

/* Returns the share of a result's norm that rounding may change. On the way to a result,
 * probabilities, then gradients of scores and in the end the result are rounded to 16 bits. If f32
 * sums differ in their last bits, each rounding may give the neighbouring number, which is one
 * unit. Forward, the f32 results of attention are the maximum and the sum of each row, which only
 * depend on sums of products and exponentials. */
static double part_of(const DtPlanAttention *attention, bool wide)
{
    if (wide && !attention->backward)
        return (double)(attention->head + attention->keys) * 0x1p-23 + 0x1p-20;
    return 3 * unit_of(attention->dtype);
}

double dt_compare_attention(const DtPlanAttention *attention, uint32_t pointer, const void *wanted,
                            const void *got, int64_t bytes)
{
    const bool wide = pointer < 64 && attention->wide >> pointer & 1;
    const uint32_t dtype = wide ? DT_PLAN_F32 : attention->dtype;
    double all = 0, off = 0;
    for (int64_t i = 0; i < bytes / dt_kinds_size(dtype); i++) {
        const double x = element(wanted, i, dtype), y = element(got, i, dtype);
        if (x == y || (isnan(x) && isnan(y))) {
            all += isfinite(x) ? x * x : 0;
            continue;
        }
        if (!isfinite(x) || !isfinite(y))
            return INFINITY;
        all += x * x;
        off += (x - y) * (x - y);
    }
    return off == 0 ? 0 : sqrt(off) / (part_of(attention, wide) * sqrt(all));
}
