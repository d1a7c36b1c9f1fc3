/* SPDX-License-Identifier: Apache-2.0 */
/* How many steps a number of epochs is. The data tell, so a rank computes it when it has opened
 * them: steps whose samples are all among the first epochs * samples. All ranks read the same data,
 * so they compute the same number. A run that continues with batches of another size counts the
 * samples that it has read. */
#include "runtime/data.h"
#include "runtime/rank.h"

#include <math.h>

/* Returns the samples of an epoch of the training data; 0: they have no epochs. Sources that are
 * read in an order of their own do not count if there are others. */
static int64_t samples_of(const DtRank *rank)
{
    int64_t paired = 0, unpaired = 0;
    for (uint32_t i = 0; i < rank->plan->n_readers; i++) {
        const DtPlanReader *reader = &rank->plan->readers[i];
        if (reader->is_eval || !rank->readers[i])
            continue;
        const int64_t n = dt_data_samples(rank->readers[i]);
        int64_t *most = reader->unpaired ? &unpaired : &paired;
        *most = n > *most ? n : *most;
    }
    return paired ? paired : unpaired;
}

DtStatus dt_epochs_resolve(DtRank *rank)
{
    DtPlanMeta *meta = &rank->meta;
    if (!(meta->epochs > 0))
        return DT_OK;
    const int64_t samples = samples_of(rank);
    if (samples <= 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "the plan says %g epochs, and its data have none: all are random "
                              "numbers. --steps N says how many steps",
                              meta->epochs);
    const double last = meta->epochs * (double)samples;
    const int64_t steps = last < 0x1p62 ? dt_ramp_steps(&rank->ramp, (int64_t)last) : INT64_MAX;
    if (steps < 1)
        return dt_status_fail(DT_EXIT_USAGE,
                              "%g epochs of %lld samples are less than a step, which has %lld: "
                              "compile with a smaller batch, or give --steps N",
                              meta->epochs, (long long)samples, (long long)rank->ramp.from);
    if (steps > DT_PLAN_MAX_BYTES)
        return dt_status_fail(DT_EXIT_USAGE, "%g epochs of %lld samples are too many steps",
                              meta->epochs, (long long)samples);
    meta->steps = steps;
    return dt_settings_take_steps(rank->plan, meta->steps, &rank->settings);
}
