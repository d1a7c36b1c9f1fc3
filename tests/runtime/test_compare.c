/* SPDX-License-Identifier: Apache-2.0 */
/* By how much rounding may change attention in 16 bits. */
#include "base/half.h"
#include "runtime/compare.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N = 64 };

static const DtPlanAttention forward = {.dtype = DT_PLAN_BF16, .head = 64, .keys = 64, .wide = 1};
static const DtPlanAttention backward = {.dtype = DT_PLAN_BF16, .head = 64, .keys = 64, .wide = 1,
                                         .backward = 1};

/* Writes 16-bit numbers, those of `b` scaled, at an odd address. */
static double of_halves(double scale)
{
    uint8_t a[2 * N + 1], b[2 * N + 1];
    for (int i = 0; i < N; i++) {
        const uint16_t x = dt_half_to_bf16((float)sin(i + 1)),
                       y = dt_half_to_bf16((float)(scale * sin(i + 1)));
        memcpy(a + 1 + 2 * i, &x, 2);
        memcpy(b + 1 + 2 * i, &y, 2);
    }
    return dt_compare_attention(&forward, 1, a + 1, b + 1, 2 * N);
}

static double of_floats(const DtPlanAttention *attention, float scale)
{
    float a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)sin(i + 1);
        b[i] = a[i] * scale;
    }
    return dt_compare_attention(attention, 0, a, b, sizeof a);
}

Test(compare, attention_in_16_bits)
{
    cr_expect_eq(of_halves(1), 0);
    const double near = of_halves(1 + 0x1p-7), far = of_halves(1 + 0x1p-4);
    cr_expect(near > 0.2 && near < 1, "%g", near);
    cr_expect(far > 1.5, "%g", far);
}

/* Sums of rows are only rounded to f32; values that are computed from gradients of scores were
 * rounded to 16 bits. */
Test(compare, what_attention_has_in_32_bits)
{
    cr_expect_lt(of_floats(&forward, 1 + 0x1p-19f), 1);
    cr_expect_gt(of_floats(&forward, 1 + 0x1p-14f), 1);
    cr_expect_lt(of_floats(&backward, 1 + 0x1p-7f), 1);
    cr_expect_gt(of_floats(&backward, 1 + 0x1p-4f), 1);
}

Test(compare, rows_without_keys)
{
    float a[3] = {-INFINITY, 1, NAN}, b[3] = {-INFINITY, 1, NAN};
    cr_expect_eq(dt_compare_attention(&forward, 0, a, b, sizeof a), 0);
    b[1] = 1 + 0x1p-22f;
    cr_expect_lt(dt_compare_attention(&forward, 0, a, b, sizeof a), 1);
    b[0] = -1e30f;
    cr_expect_eq(dt_compare_attention(&forward, 0, a, b, sizeof a), INFINITY);
    b[0] = INFINITY;
    cr_expect_eq(dt_compare_attention(&forward, 0, a, b, sizeof a), INFINITY);
}
