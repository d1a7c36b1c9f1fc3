/* SPDX-License-Identifier: Apache-2.0 */
/* The share of generated cases that one run of ./check goes through: see tests/share.py. */
#ifndef DT_TESTS_SHARE_H
#define DT_TESTS_SHARE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the case at this place runs: all do, unless the environment says DT_SHARE=K/N; then those
 * whose place is K modulo N. All run, too, if DT_SHARE has another form. */
static inline bool share_has(unsigned place)
{
    const char *text = getenv("DT_SHARE");
    unsigned turn, n;
    return !text || sscanf(text, "%u/%u", &turn, &n) != 2 || turn >= n || place % n == turn;
}

/* Moves those of n cases that run to the front of `cases`, whose elements have `size` bytes, and
 * returns how many they are: at least one. */
static inline size_t share_keep(void *cases, size_t n, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (share_has((unsigned)i))
            memmove((char *)cases + kept++ * size, (char *)cases + i * size, size);
    return kept ? kept : 1;
}

#endif
