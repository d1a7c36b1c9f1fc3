/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from texts to pointers, in an arena. Keys are kept by reference. */
#ifndef DT_IR_MAP_H
#define DT_IR_MAP_H

#include "base/arena.h"

typedef struct DtMapSlot {
    const char *key; /* key NULL: the slot is free */
    size_t len;
    void *value;
} DtMapSlot;

typedef struct DtMap {
    DtArena *arena;
    DtMapSlot *slots;
    size_t n_slots, n;
} DtMap;

/* The value of key, or NULL. */
void *dt_map_find(const DtMap *map, const char *key, size_t len);
/* Adds a key that the map does not hold. */
void dt_map_add(DtMap *map, const char *key, size_t len, void *value);

/* The same with a pointer as key, such as an interned text or an object: it is compared, not what
 * it points to. */
void *dt_map_find_pointer(const DtMap *map, const void *key);
void dt_map_add_pointer(DtMap *map, const void *key, void *value);

#endif
