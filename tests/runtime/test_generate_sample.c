/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a token: probabilities against a plain reference that follows transformers step by
 * step, and draws against probabilities. */
#include "sample_cases.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 4000 };

/* ---- the plain reference ---- */

static void softmax(const double *scores, double *ret_probabilities)
{
    double top = -HUGE_VAL, sum = 0;
    for (int v = 0; v < VOCAB; v++)
        top = fmax(top, scores[v]);
    for (int v = 0; v < VOCAB; v++)
        sum += ret_probabilities[v] = exp(scores[v] - top);
    for (int v = 0; v < VOCAB; v++)
        ret_probabilities[v] /= sum;
}

/* The ids in order of the scores, the smallest first; of equals the largest id first. */
static void sort(const double *scores, int *ret_ids)
{
    for (int v = 0; v < VOCAB; v++)
        ret_ids[v] = v;
    for (int i = 0; i < VOCAB; i++)
        for (int k = i + 1; k < VOCAB; k++) {
            const int a = ret_ids[i], b = ret_ids[k];
            if (scores[b] < scores[a] || (scores[b] == scores[a] && b > a)) {
                ret_ids[i] = b;
                ret_ids[k] = a;
            }
        }
}

static void remove_by_top_k(double *scores, int64_t k)
{
    int ids[VOCAB];
    sort(scores, ids);
    const double least = scores[ids[k < VOCAB ? VOCAB - k : 0]];
    for (int v = 0; v < VOCAB; v++)
        if (scores[v] < least)
            scores[v] = -HUGE_VAL;
}

static void remove_by_top_p(double *scores, double p)
{
    int ids[VOCAB];
    double probabilities[VOCAB], sum = 0;
    sort(scores, ids);
    softmax(scores, probabilities);
    for (int i = 0; i + 1 < VOCAB; i++) {
        sum += probabilities[ids[i]];
        if (sum <= 1 - p)
            scores[ids[i]] = -HUGE_VAL;
    }
}

static void remove_by_min_p(double *scores, double p)
{
    double probabilities[VOCAB], top = 0;
    softmax(scores, probabilities);
    for (int v = 0; v < VOCAB; v++)
        top = fmax(top, probabilities[v]);
    for (int v = 0; v < VOCAB; v++)
        if (probabilities[v] < p * top)
            scores[v] = -HUGE_VAL;
}

static void plain(const DtSampling *s, const DtNextChoice *c, double *ret_probabilities)
{
    double scores[VOCAB];
    for (int v = 0; v < VOCAB; v++) {
        bool occurs = false;
        for (size_t i = 0; i < c->n_ids; i++)
            occurs |= c->ids[i] == (uint32_t)v;
        scores[v] = c->logits[v];
        if (occurs && s->repetition_penalty != 1)
            scores[v] *= scores[v] < 0 ? s->repetition_penalty : 1 / s->repetition_penalty;
        scores[v] /= s->temperature;
    }
    if (s->top_k > 0)
        remove_by_top_k(scores, s->top_k);
    if (s->top_p < 1)
        remove_by_top_p(scores, s->top_p);
    if (s->min_p > 0)
        remove_by_min_p(scores, s->min_p);
    softmax(scores, ret_probabilities);
}

/* ---- tests ---- */

Test(sample, has_the_probabilities_of_the_plain_reference)
{
    int zeros = 0;
    for (int i = 0; i < CASES; i++) {
        SampleCase c;
        double wanted[VOCAB];
        sample_case_make(&c, i);
        plain(&c.sampling, &c.choice, wanted);
        cr_assert(dt_generatesample_weights(&c.sampling, &c.choice) >= 0);
        sample_normalise(c.weights);
        for (int v = 0; v < VOCAB; v++) {
            cr_assert(fabs(c.weights[v] - wanted[v]) < 1e-12, "case %d, token %d: %g and %g", i, v,
                      c.weights[v], wanted[v]);
            zeros += wanted[v] == 0;
        }
    }
    cr_assert(zeros > CASES * VOCAB / 4 && zeros < CASES * VOCAB, "%d zeros", zeros);
}

Test(sample, draws_as_often_as_is_probable)
{
    enum { DRAWS = 20000 };
    SampleCase c;
    int counts[VOCAB] = {0};
    double wanted[VOCAB], logprob, chi = 0;
    sample_case_make(&c, 11);
    plain(&c.sampling, &c.choice, wanted);
    for (int i = 0; i < DRAWS; i++) {
        c.choice.number = i % 100;
        c.choice.n = i / 100;
        counts[dt_generatesample_choose(&c.sampling, &c.choice, &logprob)]++;
    }
    for (int v = 0; v < VOCAB; v++) {
        cr_assert(wanted[v] > 0 || counts[v] == 0, "token %d has no probability", v);
        if (wanted[v] > 0)
            chi += pow(counts[v] - DRAWS * wanted[v], 2) / (DRAWS * wanted[v]);
    }
    cr_assert(chi < 80, "chi squared is %g", chi); /* of at most 36 degrees: p < 1e-4 */
}

Test(sample, takes_the_first_of_the_largest_without_temperature)
{
    SampleCase c;
    double logprob, probabilities[VOCAB], logits[VOCAB];
    sample_case_make(&c, 9);
    c.sampling.temperature = 0;
    c.sampling.repetition_penalty = 1;
    c.logits[20] = c.logits[30] = 5;
    cr_assert_eq(dt_generatesample_choose(&c.sampling, &c.choice, &logprob), 20);
    for (int v = 0; v < VOCAB; v++)
        logits[v] = c.logits[v];
    softmax(logits, probabilities);
    cr_assert(fabs(logprob - log(probabilities[20])) < 1e-12);
    c.ids[0] = 20; /* a penalty makes the other one larger */
    c.sampling.repetition_penalty = 1.1;
    cr_assert_eq(dt_generatesample_choose(&c.sampling, &c.choice, &logprob), 30);
    cr_assert(fabs(logprob - log(probabilities[30])) < 1e-12);
}

Test(sample, refuses_logits_that_are_no_numbers)
{
    SampleCase c;
    double logprob;
    sample_case_make(&c, 2);
    c.logits[3] = NAN;
    cr_assert_eq(dt_generatesample_choose(&c.sampling, &c.choice, &logprob), -1);
    sample_case_make(&c, 2);
    c.logits[3] = HUGE_VALF;
    cr_assert_eq(dt_generatesample_choose(&c.sampling, &c.choice, &logprob), -1);
    for (int v = 0; v < VOCAB; v++)
        c.logits[v] = -HUGE_VALF;
    cr_assert_eq(dt_generatesample_choose(&c.sampling, &c.choice, &logprob), -1);
}

Test(sample, refuses_numbers_outside_their_ranges)
{
    static const struct {
        const char *name;
        DtGivenNumber given;
        bool good;
    } cases[] = {
        {"top-k", {true, 0, 0}, true},       {"top_k", {true, -1, 0}, false},
        {"top-k", {false, 0, 2.5}, false},   {"top-p", {false, 0, 0}, false},
        {"top_p", {true, 1, 0}, true},       {"top-p", {false, 0, 1.01}, false},
        {"min-p", {true, 0, 0}, true},       {"min-p", {false, 0, -0.1}, false},
        {"temperature", {true, 0, 0}, true}, {"temperature", {false, 0, NAN}, false},
        {"seed", {true, -3, 0}, false},      {"max_tokens", {true, 7, 0}, true},
        {"tokens", {false, 0, 1e30}, false}, {"repetition-penalty", {true, 0, 0}, false},
        {"top", {true, 1, 0}, false},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtSampling sampling = DT_SAMPLING_DEFAULTS;
        const DtStatus status = dt_generatesample_set(&sampling, cases[i].name, cases[i].given);
        cr_assert_eq(dt_status_ok(&status), cases[i].good, "%s: case %zu", cases[i].name, i);
    }
}
