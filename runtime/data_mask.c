/* SPDX-License-Identifier: Apache-2.0 */
/* Masked language modelling (Devlin et al., "BERT", 2019, 3.1): of the tokens of a sample that are
 * not special a part `rate` is chosen, exactly, rounded to the nearest number and at least one. Of
 * the chosen, 80 % become the mask token, 10 % a random token, 10 % stay; the labels are the tokens
 * that were there, and -1 elsewhere.
 *
 * Position i of a sample takes one call of the generator. Word 0 chooses: of `left` positions that
 * are not special, i among them, `needed` are still to be chosen, so position i is chosen if a
 * number below `left` is below `needed` (Knuth, TAOCP 2, 3.4.2, algorithm S). Word 1 says what
 * becomes of it, word 2 which random token; these are not special. */
#include "runtime/data_sampler.h"

#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS, KIND, VALID, LABELS, MASKED };

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool is_special(const DtMasking *m, int32_t token)
{
    return m->n_special > 0 &&
           bsearch(&token, m->special, m->n_special, sizeof token, by_number) != NULL;
}

/* Sorts the special tokens and drops those that are there twice. */
static void sort_special(DtMasking *m)
{
    uint32_t n = 0;
    qsort(m->special, m->n_special, sizeof *m->special, by_number);
    for (uint32_t i = 0; i < m->n_special; i++)
        if (n == 0 || m->special[n - 1] != m->special[i])
            m->special[n++] = m->special[i];
    m->n_special = n;
}

/* Collects the special tokens: the mask token, those of the program, those of the tokenizer. */
static DtStatus find_special(DtData *data)
{
    const DtPlanReader *reader = data->reader;
    DtMasking *m = &data->masking;
    DtTokenizer *tokenizer = NULL;
    DtStatus status = data->tokenizer ? dt_tokenizer_open(data->tokenizer, NULL, &tokenizer)
                                      : DT_OK;
    if (!dt_status_ok(&status))
        return status;
    const uint32_t ids = tokenizer ? dt_tokenizer_ids(tokenizer) : 0;
    m->special = DT_NEW_ARRAY(data->memory, int32_t, (size_t)ids + DT_PLAN_SPECIALS + 1);
    m->special[m->n_special++] = m->mask;
    for (uint32_t i = 0; i < reader->n_special && i < DT_PLAN_SPECIALS; i++)
        if (reader->special[i] >= 0 && reader->special[i] <= INT32_MAX)
            m->special[m->n_special++] = (int32_t)reader->special[i];
    for (uint32_t id = 0; id < ids; id++)
        if (dt_tokenizer_is_special(tokenizer, id))
            m->special[m->n_special++] = (int32_t)id;
    dt_tokenizer_close(tokenizer);
    sort_special(m);
    return DT_OK;
}

static DtStatus open(DtData *data)
{
    const DtPlanReader *reader = data->reader;
    const DtPlanInput *tokens = &data->inputs[TOKENS];
    DtMasking *m = &data->masking;
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        if (data->inputs[i].row_elements != tokens->row_elements)
            return dt_status_fail(DT_EXIT_FAILED,
                                  "input `%.60s` must be as long as `%.60s` for mlm",
                                  dt_plan_str(data->plan, data->inputs[i].name),
                                  dt_plan_str(data->plan, tokens->name));
    const int64_t lo = tokens->draw_lo > 0 ? tokens->draw_lo : 0,
                  hi = tokens->draw_hi < INT32_MAX ? tokens->draw_hi : INT32_MAX;
    if (lo >= hi || reader->mask_id < 0 || reader->mask_id > INT32_MAX ||
        !(reader->rate > 0 && reader->rate <= 1))
        return dt_status_fail(DT_EXIT_FAILED,
                              "mlm masks a part of %g with token %lld, and draws random tokens "
                              "from %lld to %lld",
                              reader->rate, (long long)reader->mask_id, (long long)lo,
                              (long long)hi - 1);
    m->mask = (int32_t)reader->mask_id;
    data->row = tokens->row_elements;
    DtStatus status = find_special(data);
    m->lo = lo;
    m->n_drawn = hi - lo;
    for (uint32_t i = 0; i < m->n_special; i++)
        m->n_drawn -= m->special[i] >= lo && m->special[i] < hi;
    if (dt_status_ok(&status) && m->n_drawn < 1)
        return dt_status_fail(DT_EXIT_FAILED, "mlm has no random token to draw: all are special");
    return status;
}

/* The random token that stands for a word: each that is not special is as likely. */
static int32_t random_token(const DtMasking *m, uint32_t word)
{
    int64_t token = m->lo + dt_datasampler_below(word, m->n_drawn);
    for (uint32_t i = 0; i < m->n_special; i++)
        token += m->special[i] >= m->lo && m->special[i] <= token;
    return (int32_t)token;
}

/* How many of n tokens are chosen. */
static int64_t chosen_of(double rate, int64_t n)
{
    const int64_t k = (int64_t)floor(rate * (double)n + 0.5);
    return k < 1 ? (n > 0) : k > n ? n : k;
}

static void make(const DtData *data, int64_t sample, const int32_t *window, char *const *rows)
{
    const DtMasking *m = &data->masking;
    int32_t *tokens = (int32_t *)(void *)rows[TOKENS], *labels = (int32_t *)(void *)rows[LABELS];
    int64_t left = 0;
    for (int64_t i = 0; i < data->row; i++)
        left += !is_special(m, window[i]);
    int64_t needed = chosen_of(data->reader->rate, left);
    memset(rows[KIND], 0, (size_t)data->row * sizeof(int32_t));
    memset(rows[VALID], 1, (size_t)data->row);
    for (int64_t i = 0; i < data->row; i++) {
        const DtPhilox r = dt_philox(data->draws, (uint64_t)i, (uint32_t)sample,
                                     (uint32_t)((uint64_t)sample >> 32));
        const bool may = !is_special(m, window[i]);
        const bool chosen = may && dt_datasampler_below(r.word[0], left) < needed;
        const int64_t tenth = dt_datasampler_below(r.word[1], 10);
        left -= may;
        needed -= chosen;
        tokens[i] = !chosen || tenth == 9 ? window[i]
                    : tenth == 8          ? random_token(m, r.word[2])
                                          : m->mask;
        labels[i] = chosen ? window[i] : -1;
        rows[MASKED][i] = chosen;
    }
}

static bool word(const DtData *data, int32_t token, char ret_word[32])
{
    snprintf(ret_word, 32, "<mask>");
    return token == data->masking.mask;
}

const DtSampler dt_datamask = {"mlm", 5, "iibib", open, make, word, NULL};
