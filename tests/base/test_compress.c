/* SPDX-License-Identifier: Apache-2.0 */
#include "base/compress.h"

#include <criterion/criterion.h>
#include <string.h>

static DtArena *arena;
static void begin(void) { arena = dt_arena_new(); }
static void end(void) { dt_arena_free(arena); }
TestSuite(compress, .init = begin, .fini = end);

enum { N = 10000 };

/* Returns a text whose lines repeat. */
static char *sample(void)
{
    char *text = dt_arena_alloc(arena, N);
    for (size_t i = 0; i < N; i++)
        text[i] = (char)('a' + (i * i / 7) % 11);
    return text;
}

Test(compress, comes_back)
{
    const char *text = sample();
    uint8_t *packed, *back;
    size_t n, len;
    dt_compress(arena, text, N, &packed, &n);
    cr_assert_lt(n, N / 2);
    cr_assert(dt_decompress(arena, packed, n, N, &back, &len));
    cr_assert_eq(len, N);
    cr_assert_eq(memcmp(back, text, N), 0);
    cr_assert_eq(back[N], 0);
}

Test(compress, nothing)
{
    uint8_t *packed, *back;
    size_t n, len;
    dt_compress(arena, "", 0, &packed, &n);
    cr_assert(dt_decompress(arena, packed, n, 0, &back, &len));
    cr_assert_eq(len, 0);
    cr_assert_not(dt_decompress(arena, "", 0, N, &back, &len));
}

Test(compress, hostile_bytes_are_refused)
{
    const char *text = sample();
    uint8_t *packed, *back;
    size_t n, len;
    dt_compress(arena, text, N, &packed, &n);
    /* the output would be longer than is allowed */
    cr_assert_not(dt_decompress(arena, packed, n, N - 1, &back, &len));
    for (size_t i = 0; i < n; i++)
        cr_assert_not(dt_decompress(arena, packed, i, N, &back, &len)); /* the input is cut short */
    uint8_t *more = dt_arena_alloc(arena, 2 * n);
    memcpy(more, packed, n);
    memcpy(more + n, packed, n);
    /* the input has one byte too many at its end */
    cr_assert_not(dt_decompress(arena, more, n + 1, 2 * N, &back, &len));
    cr_assert_not(dt_decompress(arena, more, 2 * n, 2 * N, &back, &len));
    for (size_t i = 0; i < n; i++) /* for damaged input any output is allowed, but no access out of
                                    * bounds */
        for (int bit = 0; bit < 8; bit++) {
            memcpy(more, packed, n);
            more[i] ^= (uint8_t)(1 << bit);
            if (dt_decompress(arena, more, n, N, &back, &len))
                cr_assert_leq(len, N);
        }
}
