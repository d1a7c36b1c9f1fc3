/* SPDX-License-Identifier: Apache-2.0 */
/* Writes cases of sampling for samples.py:  samples N
 *
 * A line for each: temperature, top k, top p, min p, penalty, 8 ids, logits, probabilities. Cases
 * with equal logits are left out, since transformers leaves their order open. */
#include "sample_cases.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < 2 * atoi(argv[1]); i += 2) {
        SampleCase c;
        sample_case_make(&c, i);
        if (dt_generatesample_weights(&c.sampling, &c.choice) < 0)
            return 1;
        sample_normalise(c.weights);
        printf("%.17g %lld %.17g %.17g %.17g", c.sampling.temperature, (long long)c.sampling.top_k,
               c.sampling.top_p, c.sampling.min_p, c.sampling.repetition_penalty);
        for (size_t k = 0; k < c.choice.n_ids; k++)
            printf(" %u", c.ids[k]);
        for (int v = 0; v < VOCAB; v++)
            printf(" %.17g", (double)c.logits[v]);
        for (int v = 0; v < VOCAB; v++)
            printf(" %.17g", c.weights[v]);
        printf("\n");
    }
    return 0;
}
