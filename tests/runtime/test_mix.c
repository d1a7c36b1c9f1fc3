/* SPDX-License-Identifier: Apache-2.0 */
/* The order of mixtures: the closed form against one that takes a sample after the other, and far
 * away, where nothing can be counted, against its neighbours. */
#include "runtime/data.h"

#include <criterion/criterion.h>
#include <math.h>

enum { MOST = 8 };

static const double weights[][MOST] = {
    {1},          {1, 1},          {0.7, 0.3},  {0.3, 0.7},   {0.5, 0.3, 0.2},
    {1e-9, 1, 3}, {1e20, 1, 1e-3}, {5, 5, 5, 5}, {3, 1, 4, 1, 5, 9, 2, 6},
};

typedef struct Mixture {
    DtPlanReader readers[MOST];
    DtData data[MOST], *opened[MOST];
    DtPlan plan;
    uint32_t n;
    double sum;
} Mixture;

static void open_mixture(Mixture *m, const double *of)
{
    *m = (Mixture){.plan = {.readers = m->readers}};
    while (m->n < MOST && of[m->n] > 0) {
        m->readers[m->n] = (DtPlanReader){.part = m->n + 1, .weight = of[m->n]};
        m->data[m->n] = (DtData){.memory = dt_arena_new(), .reader = &m->readers[m->n]};
        m->opened[m->n] = &m->data[m->n];
        m->sum += of[m->n++];
    }
    m->plan.n_readers = m->n;
    dt_datamix_join(&m->plan, m->opened);
    cr_assert_eq(m->data[0].n_parts, m->n);
}

static void close_mixture(Mixture *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        dt_arena_free(m->data[i].memory);
}

/* Takes the samples one after the other: what is due to a source adds up, from a half on. */
Test(mix, is_the_order_of_the_reference)
{
    for (size_t w = 0; w < DT_COUNT(weights); w++) {
        Mixture m;
        open_mixture(&m, weights[w]);
        double due[MOST];
        int64_t count[MOST] = {0};
        uint64_t parts[MOST];
        for (uint32_t i = 0; i < m.n; i++) {
            double rest = 0;
            for (uint32_t k = m.n; k-- > i;)
                rest += m.readers[k].weight;
            const double part = ldexp(m.readers[i].weight / rest, 64);
            parts[i] = part < 0x1p64 ? (uint64_t)part : UINT64_MAX;
            due[i] = 0;
        }
        uint64_t sums[MOST];
        for (uint32_t i = 0; i < m.n; i++)
            sums[i] = (uint64_t)1 << 63;
        for (int64_t s = 0; s < 20000; s++) {
            uint32_t i = 0;
            for (; i + 1 < m.n; i++) {
                sums[i] += parts[i];
                if (sums[i] < parts[i]) /* it has passed 2^64: a whole sample */
                    break;
            }
            int64_t sample;
            const DtData *got = dt_datamix_find(&m.data[0], s, &sample);
            cr_assert(got == &m.data[i] && sample == count[i], "weights %zu, sample %d", w, (int)s);
            count[i]++;
            for (uint32_t k = 0; k < m.n; k++)
                due[k] = fabs((double)count[k] - m.readers[k].weight / m.sum * (double)(s + 1));
            for (uint32_t k = 0; k < m.n; k++)
                cr_assert(due[k] <= (k + 1) / 2.0 + 1e-9, "weights %zu, source %u", w, k);
        }
        close_mixture(&m);
    }
}

/* Samples of a source have numbers without gaps, everywhere. */
Test(mix, goes_on_without_gaps)
{
    static const int64_t places[] = {1000000007, (int64_t)1 << 40, ((int64_t)1 << 53) + 1,
                                     INT64_MAX - 5000};
    for (size_t w = 0; w < DT_COUNT(weights); w++)
        for (size_t p = 0; p < DT_COUNT(places); p++) {
            Mixture m;
            int64_t next[MOST];
            open_mixture(&m, weights[w]);
            for (uint32_t i = 0; i < m.n; i++)
                next[i] = -1;
            for (int64_t s = places[p]; s < places[p] + 4000; s++) {
                int64_t sample, all = 0;
                const int64_t i = dt_datamix_find(&m.data[0], s, &sample) - m.data;
                cr_assert(next[i] < 0 || sample == next[i], "weights %zu at %lld", w, (long long)s);
                next[i] = sample + 1;
                const double want = m.readers[i].weight / m.sum * (double)s;
                cr_assert(fabs((double)sample - want) <= MOST + 1e-12 * (double)s,
                          "weights %zu at %lld", w, (long long)s);
                for (uint32_t k = 0; k < m.n; k++)
                    all += next[k] < 0 ? 0 : next[k];
                cr_assert(all <= s + 1, "more samples than there were");
            }
            close_mixture(&m);
        }
}
