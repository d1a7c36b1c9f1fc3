/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of steps against a plain walk, one step after the other. */
#include "runtime/runtime.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* The rows of a step that begins at a sample: Megatron-LM's rule in exact integers. */
static int64_t plain_rows(const DtPlanMeta *meta, int64_t sample)
{
    const int64_t most = (meta->batch - meta->ramp_from) / meta->ramp_by;
    if (sample >= meta->ramp_over)
        return meta->batch;
    return meta->ramp_from + meta->ramp_by * (most * sample / meta->ramp_over);
}

Test(ramp, is_that_of_a_plain_walk)
{
    srand(3);
    for (int turn = 0; turn < 300; turn++) {
        DtPlanMeta meta = {
            .ramp_from = 1 + rand() % 6, .ramp_by = 1 + rand() % 5, .ramp_over = 1 + rand() % 400};
        meta.batch = meta.ramp_from + meta.ramp_by * (rand() % 9);
        DtRamp ramp = dt_ramp_open(&meta);
        if (turn % 2) { /* it goes on after another batch size */
            ramp.step = rand() % 20;
            ramp.samples = rand() % 300;
        }
        int64_t sample = ramp.samples;
        for (int64_t step = ramp.step; step < ramp.step + 150; step++) {
            cr_assert_eq(dt_ramp_first(&ramp, step), sample);
            cr_assert_eq(dt_ramp_rows(&ramp, step), plain_rows(&meta, sample));
            const int64_t next = sample + plain_rows(&meta, sample);
            cr_assert_eq(dt_ramp_steps(&ramp, next - 1), step, "before the last sample");
            cr_assert_eq(dt_ramp_steps(&ramp, next), step + 1);
            sample = next;
        }
    }
}

Test(ramp, without_one_every_step_takes_the_batch)
{
    const DtPlanMeta meta = {.batch = 6};
    DtRamp ramp = dt_ramp_open(&meta);
    cr_assert(dt_ramp_first(&ramp, 7) == 42 && dt_ramp_rows(&ramp, 7) == 6);
    cr_assert_eq(dt_ramp_steps(&ramp, 45), 7);
    ramp.step = 3;
    ramp.samples = 11;
    cr_assert(dt_ramp_first(&ramp, 5) == 23 && dt_ramp_steps(&ramp, 29) == 6);
}

Test(ramp, of_the_largest_numbers)
{
    const int64_t most = (int64_t)1 << 46;
    const DtPlanMeta meta = {
        .batch = most, .ramp_from = 1 << 20, .ramp_by = 1 << 20, .ramp_over = most};
    const DtRamp ramp = dt_ramp_open(&meta);
    cr_assert_eq(dt_ramp_first(&ramp, 1), 1 << 20);
    cr_assert_geq(dt_ramp_first(&ramp, 1000), 1000ll << 20);
}
