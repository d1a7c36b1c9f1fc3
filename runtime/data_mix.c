/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures: sample number s comes from one of n sources, in proportion to their weights. How many
 * of the first s samples come from each is a closed form, so the source of a sample, and its number
 * there, are found in a time that does not depend on s, and each source is read in its own order
 * without gaps.
 *
 * The first source has count(s, f) of s samples, to the nearest integer, where f is its share. The
 * rest is divided in the same way among the others, whose shares are of what is left:
 *
 *   weights 0.5, 0.3, 0.2    shares 0.5, 0.6 of the rest, all of that rest
 *
 * count grows by 0 or 1 with s, since f is at most 1; so does the rest. The source of sample s is
 * the first whose count grows from s to s + 1. A count is off by at most 1/2 from the share of its
 * rest, and each rest by at most 1/2 more than the one before: that of source number k, from 1 on,
 * is off by at most k/2 from its share of all samples. */
#include "runtime/data.h"

#include <math.h>

/* The sum of the weights of sources first .. n - 1 of the mixture. */
static double rest_of(const DtPlanReader *readers, uint32_t first, uint32_t n)
{
    double rest = 0;
    for (uint32_t i = n; i-- > first;)
        rest += readers[i].weight;
    return rest;
}

/* The share of source number i of what those before it leave, as a fraction of 2^64; UINT64_MAX
 * stands for 1. */
static uint64_t share_of(const DtPlanReader *readers, uint32_t i, uint32_t n)
{
    const double part = ldexp(readers[i].weight / rest_of(readers, i, n), 64);
    return part < 0x1p64 ? (uint64_t)part : UINT64_MAX;
}

static uint64_t count(uint64_t samples, uint64_t share)
{
    __extension__ typedef unsigned __int128 Wide;
    return (uint64_t)(((Wide)samples * share + ((uint64_t)1 << 63)) >> 64);
}

DtData *dt_datamix_find(const DtData *first, int64_t sample, int64_t *ret_sample)
{
    uint64_t rest = (uint64_t)sample;
    uint32_t i = 0;
    for (; i + 1 < first->n_parts; i++) {
        const uint64_t n = count(rest, first->shares[i]);
        if (count(rest + 1, first->shares[i]) > n) {
            rest = n;
            break;
        }
        rest -= n;
    }
    *ret_sample = (int64_t)rest;
    return first->parts[i];
}

void dt_datamix_join(const DtPlan *plan, DtData **readers)
{
    for (uint32_t r = 0; r < plan->n_readers; r++) {
        DtData *first = readers[r];
        const DtPlanReader *mixed = &plan->readers[r];
        uint32_t n = 1;
        if (!first || mixed->part != 1 || first->n_parts > 0)
            continue;
        while (r + n < plan->n_readers && mixed[n].part == n + 1 && readers[r + n])
            n++;
        first->parts = DT_NEW_ARRAY(first->memory, DtData *, n);
        first->shares = DT_NEW_ARRAY(first->memory, uint64_t, n);
        for (uint32_t i = 0; i < n; i++) {
            first->parts[i] = readers[r + i];
            first->shares[i] = share_of(mixed, i, n);
            readers[r + i]->mixed = mixed[i].weight / rest_of(mixed, 0, n);
        }
        first->n_parts = n;
    }
}
