/* SPDX-License-Identifier: Apache-2.0 */
/* Logits and settings of sampling for tests. */
#ifndef DT_TESTS_SAMPLE_CASES_H
#define DT_TESTS_SAMPLE_CASES_H

#include "runtime/generate.h"

enum { VOCAB = 37 };

typedef struct SampleCase {
    float logits[VOCAB];
    uint32_t ids[8], order[VOCAB];
    double weights[VOCAB];
    DtSampling sampling;
    DtNextChoice choice;
} SampleCase;

/* Makes case number i. Those with odd numbers have many equal logits. */
void sample_case_make(SampleCase *c, int i);
/* Divides weights of all tokens by their sum. */
void sample_normalise(double *weights);

#endif
