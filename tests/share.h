/* SPDX-License-Identifier: Apache-2.0 */
/* The share of generated cases that one run of ./check goes through: see tests/share.py. */
#ifndef DT_TESTS_SHARE_H
#define DT_TESTS_SHARE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether the case at this place runs: all do, unless the environment says DT_SHARE=K/N; then those
 * whose place is K modulo N. A text that says nothing else makes all run. */
static inline bool share_has(unsigned place)
{
    const char *text = getenv("DT_SHARE");
    unsigned turn, n;
    return !text || sscanf(text, "%u/%u", &turn, &n) != 2 || turn >= n || place % n == turn;
}

#endif
