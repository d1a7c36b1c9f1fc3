/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/charmap.h"

#include "tokenizer/forms.h"

#include <string.h>

uint32_t dt_charmap_text(DtArena *memory, DtCharmap *map, const void *text, size_t len)
{
    uint8_t *kept = dt_arena_alloc(memory, len + 1);
    if (len > 0)
        memcpy(kept, text, len);
    DT_PUSH(memory, map->texts, ((DtTokenBytes){kept, (uint32_t)len}));
    return map->texts.n;
}

DtTokenBytes dt_charmap_at(const DtCharmap *map, const uint8_t *at)
{
    const uint32_t found = dt_points_at(&map->points, dt_utf8_point(at));
    return found ? map->texts.at[found - 1] : (DtTokenBytes){at, (uint32_t)dt_utf8_step(*at)};
}

typedef struct Lower {
    DtArena *memory;
    DtCharmap *map;
} Lower;

static void add_lower(void *context, uint32_t point, uint32_t n, const uint32_t *to)
{
    const Lower *l = context;
    uint8_t text[2 * DT_UTF8_MOST];
    size_t len = 0;
    for (uint32_t i = 0; i < n; i++)
        len += dt_utf8_write(to[i], text + len);
    dt_points_set(l->memory, &l->map->points, point, dt_charmap_text(l->memory, l->map, text, len));
}

void dt_charmap_lower(DtArena *memory, DtCharmap *map)
{
    Lower lower = {memory, map};
    dt_forms_each_lower(&lower, add_lower);
}
