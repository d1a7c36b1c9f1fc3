/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629): one code point at a time. */
#ifndef DT_TOKENIZER_UTF8_H
#define DT_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_UTF8_MOST = 4, DT_UTF8_POINTS = 0x110000 };

/* Bytes of the code point that begins with this byte, in text that is known to be valid. */
static inline size_t dt_utf8_step(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The code point at `at`, in text that is known to be valid. */
static inline uint32_t dt_utf8_point(const uint8_t *at)
{
    if (at[0] < 0x80)
        return at[0];
    if (at[0] < 0xe0)
        return (uint32_t)(at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    if (at[0] < 0xf0)
        return (uint32_t)(at[0] & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    return (uint32_t)(at[0] & 0x07) << 18 | (uint32_t)(at[1] & 0x3f) << 12 |
           (uint32_t)(at[2] & 0x3f) << 6 | (at[3] & 0x3f);
}

/* The number of bytes, of at most len, that are whole code points of UTF-8; the rest begins with
 * a wrong byte, or, if *ret_cut, is the beginning of a code point that len cuts off. */
size_t dt_utf8_valid(const uint8_t *text, size_t len, bool *ret_cut);
/* Writes a code point that UTF-8 has; returns how many bytes it took. */
size_t dt_utf8_write(uint32_t point, uint8_t ret_bytes[DT_UTF8_MOST]);

#endif
