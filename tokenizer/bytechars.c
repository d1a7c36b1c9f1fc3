/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/bytechars.h"

#include "tokenizer/utf8.h"

#include <string.h>

enum { LEAST = 0x100, N_OTHERS = 68 }; /* bytes that are written as characters from U+0100 on */

static bool is_itself(uint32_t c)
{
    return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

uint32_t dt_bytechars_of(uint8_t byte)
{
    uint32_t next = LEAST;
    for (uint32_t c = 0; c < byte; c++)
        next += !is_itself(c);
    return is_itself(byte) ? byte : next;
}

/* The byte that a character stands for, or -1. */
static int byte_of(uint32_t point)
{
    uint32_t next = LEAST;
    if (point < LEAST)
        return is_itself(point) ? (int)point : -1;
    for (uint32_t c = 0; c < LEAST && point < LEAST + N_OTHERS; c++) {
        if (!is_itself(c) && next++ == point)
            return (int)c;
    }
    return -1;
}

bool dt_bytechars_read(DtArena *memory, const char *written, DtTokenBytes *ret_bytes)
{
    const size_t len = strlen(written);
    uint8_t *bytes = dt_arena_alloc(memory, len + 1);
    uint32_t n = 0;
    for (const uint8_t *at = (const uint8_t *)written; *at; at += dt_utf8_step(*at)) {
        const int byte = byte_of(dt_utf8_point(at));
        if (byte < 0)
            return false;
        bytes[n++] = (uint8_t)byte;
    }
    *ret_bytes = (DtTokenBytes){bytes, n};
    return true;
}
