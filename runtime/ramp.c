/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a step takes. With a ramp its number follows from the samples before it, as in
 * Megatron-LM (--rampup-batch-size from by over): of the k increments on the way from `from` to the
 * batch, floor(k samples / over) have been made, at most k. So the numbers of the samples depend on
 * the ramp and on nothing else, and a run that goes on has the steps that it would have had.
 *
 * Steps of equal size follow each other, so a walk over the sizes finds any step in at most k + 1
 * turns. Sizes and products are in 128 bits: a plan bounds each number by 2^46. */
#include "runtime/runtime.h"

__extension__ typedef __int128 Wide;

DtRamp dt_ramp_open(const DtPlanMeta *meta)
{
    return (DtRamp){.batch = meta->batch,
                    .from = meta->ramp_by ? meta->ramp_from : meta->batch,
                    .by = meta->ramp_by,
                    .over = meta->ramp_over};
}

/* The increments that were made before a sample. */
static int64_t increments(const DtRamp *ramp, int64_t sample)
{
    const int64_t most = ramp->by ? (ramp->batch - ramp->from) / ramp->by : 0;
    return sample >= ramp->over ? most : (int64_t)((Wide)most * sample / ramp->over);
}

/* The first sample before which so many increments were made. */
static int64_t begins(const DtRamp *ramp, int64_t n)
{
    const Wide most = (ramp->batch - ramp->from) / ramp->by;
    return (int64_t)(((Wide)n * ramp->over + most - 1) / most);
}

/* Walks from *sample, where a step begins, over at most `most` steps that end before or at sample
 * `last`. Returns how many they are; *sample: where the next one begins. */
static int64_t walk(const DtRamp *ramp, int64_t most, int64_t last, int64_t *sample)
{
    const int64_t all = ramp->by ? (ramp->batch - ramp->from) / ramp->by : 0;
    int64_t steps = 0;
    for (;;) {
        const int64_t n = increments(ramp, *sample), rows = ramp->from + n * ramp->by;
        int64_t left = most - steps, room = rows > 0 ? (last - *sample) / rows : 0;
        if (n < all) { /* until the next increment */
            const int64_t until = (begins(ramp, n + 1) - *sample + rows - 1) / rows;
            left = left < until ? left : until;
        }
        left = left < room ? left : room;
        if (left <= 0)
            return steps;
        steps += left;
        *sample += left * rows;
    }
}

/* The last sample number that plans may count to. */
enum { BITS = 62 };
static const int64_t end = (int64_t)1 << BITS;

int64_t dt_ramp_first(const DtRamp *ramp, int64_t step)
{
    int64_t sample = ramp->samples;
    if (!ramp->by) {
        const Wide first = sample + (Wide)(step - ramp->step) * ramp->batch;
        return first > INT64_MAX ? INT64_MAX : first < 0 ? 0 : (int64_t)first;
    }
    walk(ramp, step - ramp->step, end, &sample);
    return sample;
}

int64_t dt_ramp_rows(const DtRamp *ramp, int64_t step)
{
    return ramp->from + increments(ramp, dt_ramp_first(ramp, step)) * ramp->by;
}

int64_t dt_ramp_steps(const DtRamp *ramp, int64_t samples)
{
    int64_t sample = ramp->samples;
    return ramp->step + walk(ramp, end, samples, &sample);
}
