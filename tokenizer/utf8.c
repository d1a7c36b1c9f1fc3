/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/utf8.h"

#include <string.h>

/* Returns the bytes of the code point at `at`; 0: there is none; -1: len cuts it off. */
static int step_of(const uint8_t *at, size_t len)
{
    const uint8_t c = at[0];
    const int n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    const uint8_t least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const uint8_t most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < n; i++) {
        if ((size_t)i == len)
            return -1;
        if (at[i] < (i == 1 ? least : 0x80) || at[i] > (i == 1 ? most : 0xbf))
            return 0;
    }
    return n;
}

size_t dt_utf8_valid(const uint8_t *text, size_t len, bool *ret_cut)
{
    size_t at = 0;
    *ret_cut = false;
    while (at < len) {
        uint64_t eight;
        while (at + sizeof eight <= len) { /* most text is ASCII */
            memcpy(&eight, text + at, sizeof eight);
            if (eight & 0x8080808080808080u)
                break;
            at += sizeof eight;
        }
        if (at == len)
            break;
        const int step = step_of(text + at, len - at);
        if (step <= 0) {
            *ret_cut = step < 0;
            break;
        }
        at += (size_t)step;
    }
    return at;
}

size_t dt_utf8_write(uint32_t point, uint8_t ret_bytes[DT_UTF8_MOST])
{
    if (point < 0x80) {
        ret_bytes[0] = (uint8_t)point;
        return 1;
    }
    const size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        ret_bytes[i] = (uint8_t)(0x80 | (point & 0x3f));
    ret_bytes[0] = (uint8_t)(leads[n] | point);
    return n;
}
