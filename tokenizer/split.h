/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns in use: text is written as the numbers of an alphabet (pattern.h), one byte for each
 * code point, and matched so. */
#ifndef DT_TOKENIZER_SPLIT_H
#define DT_TOKENIZER_SPLIT_H

#include "tokenizer/ids.h"
#include "tokenizer/pattern.h"
#include "tokenizer/regex.h"

#include <stdbool.h>

/* A step that cuts pieces into matches of a pattern and what is between them. */
typedef struct DtSplit {
    DtPattern pattern;
    DtAlphabet alphabet;
    DtRegex *regex;     /* over the alphabet; NULL: pieces stay whole */
    bool drops_rest;    /* what is between matches is no piece */
    bool cuts;          /* no pattern: pieces end where no token reaches across (dt_bpe_cut) */
    DtTokenBytes front; /* what is put in front of a piece that does not begin so; at NULL: none */
} DtSplit;

/* Compiles the pattern that was read. */
DtStatus dt_split_compile(DtArena *memory, DtSplit *split);

/* Text as numbers of an alphabet. */
typedef struct DtNumbers {
    uint8_t *at;
    size_t n, cap;
    size_t first, end; /* of the text */
} DtNumbers;

/* Writes text[first, end) as numbers. */
void dt_split_numbers(const DtAlphabet *alphabet, const uint8_t *text, size_t first, size_t end,
                      DtNumbers *numbers);
/* The byte that is n code points after byte `at` of the numbers' text. */
size_t dt_split_advance(const DtNumbers *numbers, const uint8_t *text, size_t at, size_t n);

#endif
