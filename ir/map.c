/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing; at most half full. */
#include "ir/map.h"

#include "base/hash.h"

#include <string.h>

static DtMapSlot *probe(const DtMap *map, const char *key, size_t len)
{
    size_t at = dt_hash_bytes(key, len, 0) & (map->n_slots - 1);
    for (;; at = (at + 1) & (map->n_slots - 1)) {
        DtMapSlot *slot = &map->slots[at];
        if (!slot->key || (slot->len == len && memcmp(slot->key, key, len) == 0))
            return slot;
    }
}

void *dt_map_find(const DtMap *map, const char *key, size_t len)
{
    return map->n_slots ? probe(map, key, len)->value : NULL;
}

static void grow(DtMap *map)
{
    DtMap bigger = {.arena = map->arena, .n_slots = map->n_slots ? map->n_slots * 2 : 64};
    bigger.slots = DT_NEW_ARRAY(map->arena, DtMapSlot, bigger.n_slots);
    for (size_t i = 0; i < map->n_slots; i++) {
        if (map->slots[i].key)
            *probe(&bigger, map->slots[i].key, map->slots[i].len) = map->slots[i];
    }
    bigger.n = map->n;
    *map = bigger;
}

void dt_map_add(DtMap *map, const char *key, size_t len, void *value)
{
    if (map->n * 2 >= map->n_slots)
        grow(map);
    *probe(map, key, len) = (DtMapSlot){key, len, value};
    map->n++;
}

void *dt_map_find_pointer(const DtMap *map, const void *key)
{
    return dt_map_find(map, (const char *)&key, sizeof key);
}

void dt_map_add_pointer(DtMap *map, const void *key, void *value)
{
    const void **kept = DT_NEW(map->arena, const void *);
    *kept = key;
    dt_map_add(map, (const char *)kept, sizeof key, value);
}
