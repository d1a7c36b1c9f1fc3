/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/precompiled.h"

#include <string.h>

/* A unit: bits 0 to 7 and 31 its label, bit 8 whether a text ends there, bits 9 to 31 where its
 * children are; or, with bit 31 set, the place of a text. */
static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
static uint32_t label_of(uint32_t unit) { return unit & 0x800000ff; }

static DtTokenBytes text_at(const DtPrecompiled *map, uint32_t unit)
{
    const uint32_t at = unit & 0x7fffffff;
    if (at == map->n_texts)
        return (DtTokenBytes){map->texts + at, 0};
    if (at > map->n_texts || (map->texts[at] & 0xc0) == 0x80)
        return (DtTokenBytes){NULL, 0};
    const uint8_t *end = memchr(map->texts + at, 0, map->n_texts - at);
    const size_t len = end ? (size_t)(end - map->texts) - at : map->n_texts - at;
    return (DtTokenBytes){map->texts + at, (uint32_t)len};
}

DtTokenBytes dt_precompiled_find(const DtPrecompiled *map, const uint8_t *text, size_t len)
{
    uint32_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < len && text[i]; i++) {
        at ^= text[i];
        if (at >= map->n_units || label_of(map->units[at]) != text[i])
            break;
        const uint32_t unit = map->units[at];
        at ^= offset_of(unit);
        if (!(unit & 0x100))
            continue;
        return at < map->n_units ? text_at(map, map->units[at]) : (DtTokenBytes){NULL, 0};
    }
    return (DtTokenBytes){NULL, 0};
}

/* ---- reading ---- */

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Decodes base64 (RFC 4648, with its padding); false: it is none. */
static bool decode(const char *from, size_t len, uint8_t *to, size_t *ret_n)
{
    uint32_t bits = 0;
    size_t n = 0, padding = 0;
    if (len % 4 != 0)
        return false;
    while (padding < 2 && padding < len && from[len - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < len; i++) {
        const int digit = i < len - padding ? digit_of(from[i]) : 0;
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 != 3)
            continue;
        to[n++] = (uint8_t)(bits >> 16);
        to[n++] = (uint8_t)(bits >> 8);
        to[n++] = (uint8_t)bits;
    }
    *ret_n = n - padding;
    return true;
}

static uint32_t little(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool are_short(const DtPrecompiled *map)
{
    for (size_t at = 0; at < map->n_texts;) {
        const uint8_t *end = memchr(map->texts + at, 0, map->n_texts - at);
        const size_t next = end ? (size_t)(end - map->texts) + 1 : map->n_texts;
        if (next - at > DT_PRECOMPILED_LONGEST)
            return false;
        at = next;
    }
    return true;
}

const char *dt_precompiled_read(DtArena *memory, const char *base64, DtPrecompiled *ret_map)
{
    DtPrecompiled *map = ret_map;
    const size_t len = strlen(base64);
    uint8_t *bytes = dt_arena_alloc(memory, len / 4 * 3 + 3);
    size_t n = 0;
    bool cut;
    if (!decode(base64, len, bytes, &n))
        return "is not base64";
    if (n < 8 || little(bytes) > n - 4 || little(bytes) < 4 || little(bytes) % 4 != 0)
        return "is cut short";
    const uint32_t size = little(bytes);
    map->n_units = size / 4;
    map->units = DT_NEW_ARRAY(memory, uint32_t, map->n_units);
    for (uint32_t i = 0; i < map->n_units; i++)
        map->units[i] = little(bytes + 4 + 4 * (size_t)i);
    map->texts = bytes + 4 + size;
    map->n_texts = n - 4 - size;
    if (dt_utf8_valid(map->texts, map->n_texts, &cut) != map->n_texts)
        return "has texts that are not UTF-8";
    if (!are_short(map))
        return "has a text of more than 1024 bytes";
    map->graphemes = dt_grapheme_classes(memory);
    for (uint8_t c = 0; c < 128; c++)
        map->ascii[c] = dt_precompiled_find(map, &c, 1);
    return NULL;
}
