/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of span corruption, against a search that tries one window after the other. */
#include "base/spans.h"

#include <criterion/criterion.h>
#include <math.h>

static bool search(int64_t source, double rate, double mean, DtSpanNumbers *ret_numbers)
{
    bool found = false;
    for (int64_t tokens = 2; tokens < 20 * source + 20; tokens++) {
        DtSpanNumbers n = {.tokens = tokens, .noise = lrint((double)tokens * rate)};
        n.noise = n.noise < 1 ? 1 : n.noise > tokens - 1 ? tokens - 1 : n.noise;
        n.spans = lrint((double)n.noise / mean);
        n.spans = n.spans < 1 ? 1 : n.spans;
        n.source = tokens - n.noise + n.spans + 1;
        n.target = n.noise + n.spans + 1;
        if (n.source == source && tokens - n.noise >= n.spans) {
            *ret_numbers = n;
            found = true;
        }
    }
    return found;
}

Test(spans, are_those_of_a_plain_search)
{
    static const double rates[] = {0.05, 0.15, 0.3, 0.5, 0.8}, means[] = {1, 2, 3, 3.5, 8};
    for (int64_t source = 0; source < 140; source++)
        for (int k = 0; k < 25; k++) {
            const double rate = rates[k / 5], mean = means[k % 5];
            DtSpanNumbers want = {0}, got = {0};
            const bool is = search(source, rate, mean, &want);
            cr_assert_eq(dt_spans_fit(source, rate, mean, &got), is, "%d %g %g", (int)source, rate,
                         mean);
            cr_assert(!is || (got.tokens == want.tokens && got.noise == want.noise &&
                              got.spans == want.spans && got.target == want.target),
                      "%d %g %g: %d, not %d", (int)source, rate, mean, (int)got.tokens,
                      (int)want.tokens);
        }
}

/* The numbers of the published models: 512 tokens of 568, and 114. */
Test(spans, are_those_of_the_paper)
{
    DtSpanNumbers n;
    cr_assert(dt_spans_fit(512, 0.15, 3, &n));
    cr_assert(n.tokens == 568 && n.noise == 85 && n.spans == 28 && n.target == 114);
}

Test(spans, refuse_numbers_without_a_meaning)
{
    static const double bad[][2] = {{0, 3}, {1, 3}, {-1, 3}, {NAN, 3}, {0.15, 0.5}, {0.15, NAN}};
    DtSpanNumbers n;
    for (int i = 0; i < 6; i++)
        cr_assert(!dt_spans_fit(512, bad[i][0], bad[i][1], &n));
    cr_assert(!dt_spans_fit(INT64_MAX, 0.15, 3, &n));
    cr_assert(!dt_spans_fit(-5, 0.15, 3, &n));
    cr_assert(!dt_spans_fit(512, 0.9999999999, 1e300, &n));
}
