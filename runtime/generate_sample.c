/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a token from the logits of the model. A token takes one number of the counter generator,
 * whose counters are the token's number in its text and the number of the prompt. So equal seeds
 * give equal texts, whatever other prompts are in the batch, and on every layout. */
#include "runtime/generate.h"

#include "base/hash.h"
#include "base/philox.h"

#include <math.h>

/* Inverts the distribution softmax(logits / temperature) at one uniform number. Temperature 0: the
 * token with the largest logit. */
uint32_t dt_generatesample_choose(const DtSampling *sampling, const DtNextChoice *choice)
{
    const float *logits = choice->logits;
    int64_t best = 0;
    for (int64_t v = 1; v < choice->vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    if (sampling->temperature <= 0)
        return (uint32_t)best;
    double top = logits[best], total = 0;
    for (int64_t v = 0; v < choice->vocab; v++)
        total += choice->weights[v] = exp((logits[v] - top) / sampling->temperature);
    const DtPhilox drawn = dt_philox(dt_hash_text("generate", sampling->seed), (uint64_t)choice->n,
                                     (uint32_t)choice->number, (uint32_t)(choice->number >> 32));
    double left = dt_philox_uniform(drawn) * total;
    for (int64_t v = 0; v < choice->vocab; v++)
        if ((left -= choice->weights[v]) < 0)
            return (uint32_t)v;
    return (uint32_t)best;
}
