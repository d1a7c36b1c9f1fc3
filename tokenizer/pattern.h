/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of tokenizer.json, which are written for Oniguruma (in its Ruby syntax), read into
 * pieces of syntax and sets of code points:
 *
 *   \s+(?!\S)|[^\r\n\p{L}]    ->    SET0  +(?!  SET1  )|  SET2
 *
 * and written again for PCRE2, whose own classes are of the Unicode version that the system's
 * library happens to know. Written for an alphabet, each set is a class of bytes: all code points
 * that no set tells apart have one number, below 256, and the pattern is matched against a string
 * of these numbers, one byte for each code point. Written for UTF-8, each set is a class of ranges:
 * the plain reference for the former. */
#ifndef DT_TOKENIZER_PATTERN_H
#define DT_TOKENIZER_PATTERN_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "tokenizer/charset.h"

enum { DT_PATTERN_SETS = 256 };

/* Syntax that both dialects share, or the number of a set. */
typedef struct DtPatternItem {
    const char *text; /* NULL: a set */
    uint32_t set;
} DtPatternItem;

typedef struct DtPattern {
    const char *written;
    DT_VEC(DtPatternItem) items;
    DT_VEC(DtCharset) sets; /* sorted, all different */
} DtPattern;

/* Reads a pattern of valid UTF-8. What has another meaning in PCRE2, depends on the text before a
 * match, or is not known, is refused by name. */
DtStatus dt_pattern_read(DtArena *memory, const char *text, DtPattern *ret_pattern);
/* The same of a pattern of this program, which may name the sets of dt_charset_own. */
DtStatus dt_pattern_own(DtArena *memory, const char *text, DtPattern *ret_pattern);
/* A pattern that matches this text. */
DtStatus dt_pattern_literal(DtArena *memory, const char *text, DtPattern *ret_pattern);

/* Puts the pattern into another one: each % of the form stands for it, as an atomic group, each dot
 * for any code point. */
DtStatus dt_pattern_wrap(DtArena *memory, const char *form, DtPattern *pattern);
/* Makes the pattern see a code point as if it were another one. */
void dt_pattern_same(DtArena *memory, uint32_t point, uint32_t as, DtPattern *pattern);

typedef struct DtAlphabet {
    uint8_t *of; /* the number of each code point */
    uint32_t n;
    uint64_t (*members)[DT_PATTERN_SETS / 64]; /* of each number: the sets that contain it */
} DtAlphabet;

/* Fails if the sets tell more than 256 kinds of code points apart. */
DtStatus dt_pattern_alphabet(DtArena *memory, const DtPattern *pattern, DtAlphabet *ret_alphabet);
void dt_pattern_for_alphabet(const DtPattern *pattern, const DtAlphabet *alphabet,
                             DtText *ret_text);
void dt_pattern_for_utf8(const DtPattern *pattern, DtText *ret_text);

#endif
