/* SPDX-License-Identifier: Apache-2.0 */
/* Where characters as readers see them (graphemes) end: Unicode Standard Annex 29, as far as
 * graphemes of at most 5 bytes depend on it (precompiled.c asks for no more). The classes come with
 * the program (unicode.def). */
#ifndef DT_TOKENIZER_GRAPHEME_H
#define DT_TOKENIZER_GRAPHEME_H

#include "tokenizer/points.h"

typedef struct DtGraphemes DtGraphemes;
DtGraphemes *dt_grapheme_classes(DtArena *memory);
/* The end of the grapheme that begins at `at` in text[..len) of valid UTF-8; at len, more text
 * might belong to it. */
size_t dt_grapheme_end(const DtGraphemes *graphemes, const uint8_t *text, size_t len, size_t at);

#endif
