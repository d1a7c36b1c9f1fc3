/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a pattern for PCRE2. */
#include "tokenizer/pattern.h"

#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = DT_PATTERN_SETS / 64, MAX_KINDS = 256 };

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The code points at which some set begins or ends, in ascending order, with 0 and the end. */
static uint32_t *find_edges(DtArena *memory, const DtPattern *pattern, size_t *ret_n)
{
    size_t n = 2;
    for (uint32_t s = 0; s < pattern->sets.n; s++)
        n += 2 * (size_t)pattern->sets.at[s].n;
    uint32_t *edges = DT_NEW_ARRAY(memory, uint32_t, n);
    size_t used = 0, unique = 0;
    edges[used++] = 0;
    edges[used++] = DT_UTF8_POINTS;
    for (uint32_t s = 0; s < pattern->sets.n; s++)
        for (uint32_t i = 0; i < pattern->sets.at[s].n; i++) {
            edges[used++] = pattern->sets.at[s].at[i].first;
            edges[used++] = pattern->sets.at[s].at[i].last + 1;
        }
    qsort(edges, used, sizeof *edges, by_number);
    for (size_t i = 0; i < used; i++)
        if (unique == 0 || edges[unique - 1] != edges[i])
            edges[unique++] = edges[i];
    *ret_n = unique;
    return edges;
}

static uint32_t find_number(const DtAlphabet *alphabet, const uint64_t members[WORDS])
{
    uint32_t i = 0;
    while (i < alphabet->n && memcmp(alphabet->members[i], members, WORDS * sizeof *members) != 0)
        i++;
    return i;
}

DtStatus dt_pattern_alphabet(DtArena *memory, const DtPattern *pattern, DtAlphabet *ret_alphabet)
{
    size_t n;
    const uint32_t *edges = find_edges(memory, pattern, &n);
    DtAlphabet *alphabet = ret_alphabet;
    *alphabet = (DtAlphabet){.of = dt_arena_alloc(memory, DT_UTF8_POINTS)};
    alphabet->members = dt_arena_alloc(memory, MAX_KINDS * sizeof *alphabet->members);
    for (size_t i = 0; i + 1 < n; i++) {
        uint64_t members[WORDS] = {0};
        for (uint32_t s = 0; s < pattern->sets.n; s++)
            if (dt_charset_has(&pattern->sets.at[s], edges[i]))
                members[s / 64] |= UINT64_C(1) << s % 64;
        const uint32_t number = find_number(alphabet, members);
        if (number == MAX_KINDS)
            return dt_status_fail(DT_EXIT_IO,
                                  "the pattern `%.200s` cannot be used: it tells more than 256 "
                                  "kinds of characters apart",
                                  pattern->written);
        if (number == alphabet->n)
            memcpy(alphabet->members[alphabet->n++], members, sizeof members);
        memset(alphabet->of + edges[i], (int)number, edges[i + 1] - edges[i]);
    }
    return DT_OK;
}

void dt_pattern_for_alphabet(const DtPattern *pattern, const DtAlphabet *alphabet, DtText *ret_text)
{
    for (uint32_t i = 0; i < pattern->items.n; i++) {
        const DtPatternItem *item = &pattern->items.at[i];
        bool any = false;
        if (item->text) {
            dt_text_add(ret_text, item->text);
            continue;
        }
        dt_text_add(ret_text, "[");
        for (uint32_t k = 0; k < alphabet->n; k++)
            if (alphabet->members[k][item->set / 64] >> item->set % 64 & 1) {
                dt_text_printf(ret_text, "\\x%02x", k);
                any = true;
            }
        dt_text_add(ret_text, any ? "]" : "^\\x00-\\xff]");
    }
}

static void add_range(DtText *text, uint32_t first, uint32_t last)
{
    if (first <= last)
        dt_text_printf(text, first < last ? "\\x{%x}-\\x{%x}" : "\\x{%x}", first, last);
}

void dt_pattern_for_utf8(const DtPattern *pattern, DtText *ret_text)
{
    enum { SURROGATES = 0xd800, AFTER = 0xe000 }; /* no code points of UTF-8 */
    for (uint32_t i = 0; i < pattern->items.n; i++) {
        const DtPatternItem *item = &pattern->items.at[i];
        if (item->text) {
            dt_text_add(ret_text, item->text);
            continue;
        }
        const DtCharset *set = &pattern->sets.at[item->set];
        dt_text_add(ret_text, set->n ? "[" : "[^\\x{0}-\\x{10ffff}");
        for (uint32_t k = 0; k < set->n; k++) {
            const DtCharRange at = set->at[k];
            add_range(ret_text, at.first, at.last < SURROGATES ? at.last : SURROGATES - 1);
            add_range(ret_text, at.first < AFTER ? AFTER : at.first,
                      at.last >= AFTER ? at.last : 0);
        }
        dt_text_add(ret_text, "]");
    }
}
