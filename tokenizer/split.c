/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/split.h"

#include "tokenizer/utf8.h"

#include <stdlib.h>

DtStatus dt_split_compile(DtArena *memory, DtSplit *split)
{
    DtText text = {0};
    DtStatus status = dt_pattern_alphabet(memory, &split->pattern, &split->alphabet);
    if (dt_status_ok(&status)) {
        dt_pattern_for_alphabet(&split->pattern, &split->alphabet, &text);
        status = dt_regex_compile(text.at ? text.at : "", text.len, false, split->pattern.written,
                                  &split->regex);
    }
    dt_text_free(&text);
    return status;
}

void dt_split_numbers(const DtAlphabet *alphabet, const uint8_t *text, size_t first, size_t end,
                      DtNumbers *numbers)
{
    if (numbers->cap < end - first) {
        free(numbers->at);
        numbers->cap = 2 * (end - first);
        numbers->at = malloc(numbers->cap);
        if (!numbers->at)
            dt_arena_exhausted(numbers->cap);
    }
    uint8_t *to = numbers->at;
    for (size_t at = first; at < end;) {
        if (text[at] < 0x80) {
            *to++ = alphabet->of[text[at++]];
            continue;
        }
        *to++ = alphabet->of[dt_utf8_point(text + at)];
        at += dt_utf8_step(text[at]);
    }
    numbers->n = (size_t)(to - numbers->at);
    numbers->first = first;
    numbers->end = end;
}

size_t dt_split_advance(const DtNumbers *numbers, const uint8_t *text, size_t at, size_t n)
{
    if (numbers->n == numbers->end - numbers->first)
        return at + n; /* ASCII */
    for (; n > 0; n--)
        at += dt_utf8_step(text[at]);
    return at;
}
