/* SPDX-License-Identifier: Apache-2.0 */
/* What each code point becomes: itself, or a text. */
#ifndef DT_TOKENIZER_CHARMAP_H
#define DT_TOKENIZER_CHARMAP_H

#include "tokenizer/ids.h"
#include "tokenizer/points.h"

typedef struct DtCharmap {
    DtPoints points; /* 1 + index of the text; 0: itself */
    DT_VEC(DtTokenBytes) texts;
} DtCharmap;

/* Adds a text that code points become; returns its number for dt_points_set. */
uint32_t dt_charmap_text(DtArena *memory, DtCharmap *map, const void *text, size_t len);
/* What the code point at `at` becomes, itself included. */
DtTokenBytes dt_charmap_at(const DtCharmap *map, const uint8_t *at);

/* Makes a map of lower case. */
void dt_charmap_lower(DtArena *memory, DtCharmap *map);

#endif
