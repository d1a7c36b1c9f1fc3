/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spans.h"

#include <math.h>

/* Numbers are rounded to the nearest integer, halves to the even one, as in the paper's program. */
static DtSpanNumbers numbers_of(int64_t tokens, double rate, double mean)
{
    DtSpanNumbers n = {.tokens = tokens};
    n.noise = (int64_t)rint((double)tokens * rate);
    n.noise = n.noise < 1 ? 1 : n.noise >= tokens ? tokens - 1 : n.noise;
    n.spans = (int64_t)rint((double)n.noise / mean);
    n.spans = n.spans < 1 ? 1 : n.spans;
    n.source = tokens - n.noise + n.spans + 1;
    n.target = n.noise + n.spans + 1;
    return n;
}

bool dt_spans_fit(int64_t source, double rate, double mean, DtSpanNumbers *ret_numbers)
{
    int64_t lo = 2, hi = INT64_C(1) << 31; /* the window has at least lo tokens, and less than hi */
    if (!(rate > 0 && rate < 1 && mean >= 1) || source >= hi ||
        numbers_of(lo, rate, mean).source > source || numbers_of(hi, rate, mean).source <= source)
        return false;
    while (hi - lo > 1) { /* the source grows with the window, by at most one token each */
        const int64_t middle = lo + (hi - lo) / 2;
        if (numbers_of(middle, rate, mean).source <= source)
            lo = middle;
        else
            hi = middle;
    }
    *ret_numbers = numbers_of(lo, rate, mean);
    return ret_numbers->source == source &&
           ret_numbers->tokens - ret_numbers->noise >= ret_numbers->spans;
}
