/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/points.h"

void dt_points_set(DtArena *memory, DtPoints *points, uint32_t point, uint32_t value)
{
    uint32_t **page = &points->pages[point >> 8];
    if (!*page)
        *page = DT_NEW_ARRAY(memory, uint32_t, 256);
    (*page)[point & 0xff] = value;
}

void dt_points_fill(DtArena *memory, DtPoints *points, const DtCharset *set, uint32_t value)
{
    for (uint32_t i = 0; i < set->n; i++)
        for (uint32_t c = set->at[i].first; c <= set->at[i].last; c++)
            dt_points_set(memory, points, c, value);
}
