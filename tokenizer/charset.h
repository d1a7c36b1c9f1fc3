/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of code points. Names of classes mean what scripts/unicode_classes.py has found, so they do
 * not depend on the Unicode version of any library of the system. */
#ifndef DT_TOKENIZER_CHARSET_H
#define DT_TOKENIZER_CHARSET_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct DtCharRange {
    uint32_t first, last;
} DtCharRange;

/* Ranges in ascending order, none of which touches another once dt_charset_sort was called. */
typedef DT_VEC(DtCharRange) DtCharset;

void dt_charset_add(DtArena *memory, DtCharset *set, uint32_t first, uint32_t last);
void dt_charset_join(DtArena *memory, DtCharset *set, const DtCharset *other);
void dt_charset_sort(DtCharset *set);
/* The code points that a sorted set lacks. */
DtCharset dt_charset_others(DtArena *memory, const DtCharset *set);
bool dt_charset_equal(const DtCharset *a, const DtCharset *b);
bool dt_charset_has(const DtCharset *set, uint32_t point);

/* Adds a general category ("Lu", or "L" for all that begin so) or a script ("Han") to a set, and
 * "White_Space", which is \s, and "Word", which is \w. False: there is no such name. */
bool dt_charset_named(DtArena *memory, const char *name, size_t len, DtCharset *set);
/* The same of sets that steps of tokenizers have of their own: what they call punctuation, a
 * number, a control character ("Step_Punctuation", .., see charset.c), and the classes of
 * graphemes. */
bool dt_charset_own(DtArena *memory, const char *name, size_t len, DtCharset *set);

#endif
