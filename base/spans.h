/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of span corruption (Raffel et al., "Exploring the limits of transfer learning with a
 * unified text-to-text transformer", 2020, 3.1.4): a window of tokens loses spans, of which one
 * sentinel each is left. The target has each sentinel, followed by the tokens of its span. Both end
 * with an end token. */
#ifndef DT_BASE_SPANS_H
#define DT_BASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct DtSpanNumbers {
    int64_t tokens; /* of the window */
    int64_t noise;  /* tokens of it that are removed */
    int64_t spans;  /* that these are in, at least one token each */
    int64_t source; /* tokens - noise + spans + 1 */
    int64_t target; /* noise + spans + 1 */
} DtSpanNumbers;

/* The longest window that leaves exactly `source` tokens if the part `rate` of it is removed in
 * spans of `mean` tokens on average. False: there is none, or the numbers make no sense. */
bool dt_spans_fit(int64_t source, double rate, double mean, DtSpanNumbers *ret_numbers);

#endif
