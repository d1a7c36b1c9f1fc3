/* SPDX-License-Identifier: Apache-2.0 */
/* A number for each code point, 0 for most: a page of 256 is there only if one of them has
 * another. */
#ifndef DT_TOKENIZER_POINTS_H
#define DT_TOKENIZER_POINTS_H

#include "base/arena.h"
#include "tokenizer/charset.h"
#include "tokenizer/utf8.h"

typedef struct DtPoints {
    uint32_t *pages[DT_UTF8_POINTS >> 8];
} DtPoints;

static inline uint32_t dt_points_at(const DtPoints *points, uint32_t point)
{
    const uint32_t *page = points->pages[point >> 8];
    return page ? page[point & 0xff] : 0;
}

void dt_points_set(DtArena *memory, DtPoints *points, uint32_t point, uint32_t value);
/* Sets the number of all members of a set. */
void dt_points_fill(DtArena *memory, DtPoints *points, const DtCharset *set, uint32_t value);

#endif
