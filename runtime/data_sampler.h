/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers that make a sample of a window of tokens, and draw random numbers for it.
 *
 *   data_sampler.c  reads the window, checks values
 *   data_mask.c     mlm
 *   data_spans.c    span_corruption
 *
 * Words come from the counter generator, keyed by the seed; counter: an element of the sample, and
 * the sample's number. So a sample is the same in every layout, and another one in each epoch. */
#ifndef DT_RUNTIME_DATA_SAMPLER_H
#define DT_RUNTIME_DATA_SAMPLER_H

#include "runtime/data.h"

#include "base/philox.h"
#include "base/spans.h"

struct DtSampler {
    const char *name;
    uint32_t n_inputs;
    const char *dtypes; /* of the inputs: i for i32, b for bool */
    /* Checks the numbers of the reader against its inputs; fills in what make needs, and data->row:
     * the tokens of a window. */
    DtStatus (*open)(DtData *data);
    /* Makes sample number `sample`: a row of each input. */
    void (*make)(const DtData *data, int64_t sample, const int32_t *window, char *const *rows);
    /* The text of a token that only this sampler has; false: it is none. */
    bool (*word)(const DtData *data, int32_t token, char ret_word[32]);
    void (*note)(const DtData *data, DtText *ret_notes); /* what a run should know; NULL: nothing */
};
extern const DtSampler dt_datamask, dt_dataspans;

/* The sampler of the reader; NULL: samples are windows of the source as they are. */
const DtSampler *dt_datasampler_of(const DtPlanReader *reader);
/* Checks the inputs and opens data->sampler. tokenizer: the file, or NULL. */
DtStatus dt_datasampler_open(DtData *data, const char *tokenizer);
/* Reads a sample into row `row` of the inputs. at: the first token of its window in the part. */
DtStatus dt_datasampler_read(DtData *data, int64_t sample, int64_t at, int64_t row,
                             char *const *inputs);

/* A number below n, at most 2^32, from a word. */
static inline int64_t dt_datasampler_below(uint32_t word, int64_t n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

#endif
