/* SPDX-License-Identifier: Apache-2.0 */
#include "sample_cases.h"

#include "base/philox.h"

#include <math.h>

static double uniform(uint64_t number) { return dt_philox_uniform(dt_philox(5, number, 0, 0)); }

void sample_case_make(SampleCase *c, int i)
{
    const uint64_t at = (uint64_t)i * 1000;
    for (int v = 0; v < VOCAB; v++) {
        const double logit = 8 * uniform(at + (uint64_t)v) - 4;
        c->logits[v] = (float)(i % 2 ? round(logit) : logit);
    }
    if (i % 5 == 0)
        c->logits[i % VOCAB] = -HUGE_VALF;
    for (int k = 0; k < 8; k++)
        c->ids[k] = (uint32_t)(uniform(at + 100 + (uint64_t)k) * VOCAB);
    c->sampling = (DtSampling)DT_SAMPLING_DEFAULTS;
    c->sampling.temperature = 0.2 + 2 * uniform(at + 200);
    c->sampling.top_k = i % 3 ? (int64_t)(uniform(at + 201) * 1.2 * VOCAB) : 0;
    c->sampling.top_p = i % 4 ? 1 - uniform(at + 202) : 1;
    c->sampling.min_p = i % 7 ? 0.3 * uniform(at + 203) : 0;
    c->sampling.repetition_penalty = i % 6 ? 0.5 + uniform(at + 204) : 1;
    c->choice = (DtNextChoice){.logits = c->logits,
                               .vocab = VOCAB,
                               .ids = c->ids,
                               .n_ids = 8,
                               .weights = c->weights,
                               .order = c->order};
}

void sample_normalise(double *weights)
{
    double sum = 0;
    for (int v = 0; v < VOCAB; v++)
        sum += weights[v];
    for (int v = 0; v < VOCAB; v++)
        weights[v] /= sum;
}
