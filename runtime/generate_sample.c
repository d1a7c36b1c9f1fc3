/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a token from the logits of the model. The logits pass these steps, in this order, each
 * with the definition and the order of transformers (generation/logits_process.py, and
 * _get_logits_processor in generation/utils.py, version 5):
 *
 *   repetition penalty   of a token that the text has, prompt included: divided, or multiplied if
 *                        negative (CTRL, Keskar et al., 2019)
 *   temperature          divided
 *   top k                only those not below the k-th largest stay, all that equal it too
 *   top p                only the largest stay, up to the first that makes their probabilities at
 *                        least p (Holtzman et al., 2020)
 *   min p                only those with at least p times the largest probability stay (Nguyen et
 *                        al., 2024)
 *
 * Of equal logits top p takes those with smaller ids first; transformers leaves that open.
 *
 * A token takes one number of the counter generator, whose counters are the token's number in its
 * text and the number of the prompt. So equal seeds give equal texts, whatever other prompts are in
 * the batch, and on every layout. */
#include "runtime/generate.h"

#include "base/hash.h"
#include "base/philox.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- settings ---- */

/* A number of DtSampling: its option, its key in lines of prompts, its range. */
typedef struct Setting {
    const char *option, *key;
    size_t at;
    bool is_whole, above; /* a value must be above `least`; else it may be equal */
    double least, most;
    const char *range;
} Setting;

static const Setting settings[] = {
    {"tokens", "max_tokens", offsetof(DtSampling, tokens), true, false, 0, HUGE_VAL,
     "an integer of at least 0"},
    {"temperature", "temperature", offsetof(DtSampling, temperature), false, false, 0, HUGE_VAL,
     "a number of at least 0"},
    {"top-k", "top_k", offsetof(DtSampling, top_k), true, false, 0, HUGE_VAL,
     "an integer of at least 0"},
    {"top-p", "top_p", offsetof(DtSampling, top_p), false, true, 0, 1,
     "a number above 0 and at most 1"},
    {"min-p", "min_p", offsetof(DtSampling, min_p), false, false, 0, 1, "a number between 0 and 1"},
    {"repetition-penalty", "repetition_penalty", offsetof(DtSampling, repetition_penalty), false,
     true, 0, HUGE_VAL, "a number above 0"},
    {"seed", "seed", offsetof(DtSampling, seed), true, false, 0, HUGE_VAL,
     "an integer of at least 0"},
};

const char *dt_generatesample_key(size_t number)
{
    return number < DT_COUNT(settings) ? settings[number].key : NULL;
}

DtStatus dt_generatesample_set(DtSampling *sampling, const char *name, DtGivenNumber given)
{
    for (size_t i = 0; i < DT_COUNT(settings); i++) {
        const Setting *s = &settings[i];
        if (strcmp(s->option, name) != 0 && strcmp(s->key, name) != 0)
            continue;
        const double value = given.is_whole ? (double)given.whole : given.real;
        if (!isfinite(value) || (s->is_whole && !given.is_whole) || value < s->least ||
            (s->above && value <= s->least) || value > s->most)
            return dt_status_fail(DT_EXIT_USAGE, "%s wants %s", name, s->range);
        char *at = (char *)sampling + s->at;
        if (s->is_whole)
            memcpy(at, &given.whole, sizeof given.whole);
        else
            memcpy(at, &value, sizeof value);
        return DT_OK;
    }
    return dt_status_fail(DT_EXIT_USAGE, "there is no setting `%.60s` of sampling", name);
}

/* ---- the order of tokens ---- */

/* Whether token a comes before token b: larger scores first, then smaller ids. */
static bool comes_before(const double *scores, uint32_t a, uint32_t b)
{
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

static void sift(const double *scores, uint32_t *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(scores, heap[child + 1], heap[child]))
            child++;
        if (comes_before(scores, heap[at], heap[child]))
            return;
        const uint32_t up = heap[child];
        heap[child] = heap[at];
        heap[at] = up;
    }
}

/* Takes tokens in order; only the first ones are ever sorted. */
static uint32_t pop(const double *scores, uint32_t *heap, int64_t *n)
{
    const uint32_t first = heap[0];
    heap[0] = heap[--*n];
    sift(scores, heap, *n, 0);
    return first;
}

static void fill_heap(const DtNextChoice *c)
{
    for (int64_t v = 0; v < c->vocab; v++)
        c->order[v] = (uint32_t)v;
    for (int64_t at = c->vocab / 2; at-- > 0;)
        sift(c->weights, c->order, c->vocab, at);
}

/* The k-th largest score; k 0: less than all. */
static double kth_score(const DtNextChoice *c, int64_t k)
{
    double score = -HUGE_VAL;
    if (k == 0 || k >= c->vocab)
        return score;
    fill_heap(c);
    for (int64_t i = 0, n = c->vocab; i < k; i++)
        score = c->weights[pop(c->weights, c->order, &n)];
    return score;
}

/* Finds the last token, in order, that top k and top p let stay. The largest score is 0. */
static void find_last(const DtSampling *s, const DtNextChoice *c, double *ret_score,
                      uint32_t *ret_id)
{
    const double least = kth_score(c, s->top_k);
    double mass = 0;
    *ret_id = UINT32_MAX;
    *ret_score = least;
    if (s->top_p >= 1)
        return;
    for (int64_t v = 0; v < c->vocab; v++)
        if (c->weights[v] >= least)
            mass += exp(c->weights[v]);
    fill_heap(c);
    int64_t n = c->vocab;
    for (double before = 0; n > 0 && before < s->top_p * mass;) {
        const uint32_t token = pop(c->weights, c->order, &n);
        if (c->weights[token] < least)
            break;
        before += exp(c->weights[token]);
        *ret_id = token;
    }
    *ret_score = c->weights[*ret_id];
}

/* ---- the distribution ---- */

/* The scores after the penalty; returns the token with the largest, or -1 if one is no number or
 * none is finite. */
static int64_t find_scores(const DtSampling *s, const DtNextChoice *c)
{
    int64_t best = 0;
    for (int64_t v = 0; v < c->vocab; v++) {
        c->weights[v] = c->logits[v];
        if (isnan(c->logits[v]))
            return -1;
    }
    for (size_t i = 0; i < c->n_ids && s->repetition_penalty != 1; i++) {
        const double logit = c->logits[c->ids[i]];
        c->weights[c->ids[i]] =
            logit < 0 ? logit * s->repetition_penalty : logit / s->repetition_penalty;
    }
    for (int64_t v = 1; v < c->vocab; v++)
        if (c->weights[v] > c->weights[best])
            best = v;
    return isfinite(c->weights[best]) ? best : -1;
}

int64_t dt_generatesample_weights(const DtSampling *s, const DtNextChoice *c)
{
    const int64_t best = find_scores(s, c);
    if (best < 0)
        return best;
    if (s->temperature <= 0) {
        for (int64_t v = 0; v < c->vocab; v++)
            c->weights[v] = v == best;
        return best;
    }
    const double top = c->weights[best];
    for (int64_t v = 0; v < c->vocab; v++)
        c->weights[v] = (c->weights[v] - top) / s->temperature;
    double last = -HUGE_VAL;
    uint32_t last_id = UINT32_MAX;
    if (s->top_k > 0 || s->top_p < 1)
        find_last(s, c, &last, &last_id);
    for (int64_t v = 0; v < c->vocab; v++) {
        const double score = c->weights[v], weight = exp(score);
        const bool stays = score > last || (score == last && v <= last_id);
        c->weights[v] = stays && weight >= s->min_p ? weight : 0;
    }
    return best;
}

/* The logarithm of the probability of a token in softmax(logits). */
static double log_probability(const DtNextChoice *c, int64_t token)
{
    double top = -HUGE_VAL, sum = 0;
    for (int64_t v = 0; v < c->vocab; v++)
        top = fmax(top, c->logits[v]);
    for (int64_t v = 0; v < c->vocab; v++)
        sum += exp(c->logits[v] - top);
    return c->logits[token] - top - log(sum);
}

/* Inverts the distribution at one uniform number. */
int64_t dt_generatesample_choose(const DtSampling *sampling, const DtNextChoice *choice,
                                 double *ret_logprob)
{
    int64_t token = dt_generatesample_weights(sampling, choice);
    if (token < 0)
        return token;
    if (sampling->temperature > 0) {
        double total = 0;
        for (int64_t v = 0; v < choice->vocab; v++)
            total += choice->weights[v];
        const DtPhilox drawn =
            dt_philox(dt_hash_text("generate", (uint64_t)sampling->seed), (uint64_t)choice->n,
                      (uint32_t)choice->number, (uint32_t)(choice->number >> 32));
        double left = dt_philox_uniform(drawn) * total;
        for (int64_t v = 0; v < choice->vocab; v++)
            if ((left -= choice->weights[v]) < 0) {
                token = v;
                break;
            }
    }
    *ret_logprob = log_probability(choice, token);
    return token;
}
