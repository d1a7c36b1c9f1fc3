/* SPDX-License-Identifier: Apache-2.0 */
/* An open-addressed table of strings that live in an arena of their own. */
#include "base/intern.h"

#include "base/arena.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Entry {
    const char *text;
    uint64_t hash;
    size_t len;
} Entry;

static _Thread_local struct {
    DtArena *arena;
    Entry *entries;
    size_t n, cap;
} table;

void dt_intern_forget(void)
{
    free(table.entries);
    dt_arena_free(table.arena);
    memset(&table, 0, sizeof table);
}

static void grow(void)
{
    size_t cap = table.cap ? table.cap * 2 : 1024;
    Entry *entries = calloc(cap, sizeof *entries);
    if (!entries)
        dt_arena_exhausted(cap * sizeof *entries);
    for (size_t i = 0; i < table.cap; i++) {
        if (!table.entries[i].text)
            continue;
        size_t at = table.entries[i].hash & (cap - 1);
        while (entries[at].text)
            at = (at + 1) & (cap - 1);
        entries[at] = table.entries[i];
    }
    free(table.entries);
    table.entries = entries;
    table.cap = cap;
}

const char *dt_intern_n(const char *text, size_t len)
{
    if (!table.arena) {
        table.arena = dt_arena_new();
        atexit(dt_intern_forget); /* of the thread that ends the process */
    }
    if (table.n * 2 >= table.cap)
        grow();
    uint64_t hash = dt_hash_bytes(text, len, 0);
    size_t at = hash & (table.cap - 1);
    for (; table.entries[at].text; at = (at + 1) & (table.cap - 1))
        if (table.entries[at].hash == hash && table.entries[at].len == len &&
            memcmp(table.entries[at].text, text, len) == 0)
            return table.entries[at].text;
    table.entries[at] = (Entry){dt_arena_strndup(table.arena, text, len), hash, len};
    table.n++;
    return table.entries[at].text;
}

const char *dt_intern(const char *text) { return dt_intern_n(text, strlen(text)); }

/* Names are short: an arena is made only for one that does not fit. */
const char *dt_intern_printf(const char *format, ...)
{
    char few[256];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(few, sizeof few, format, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof few)
        return dt_intern_n(few, (size_t)len);
    DtArena *scratch = dt_arena_new();
    va_start(args, format);
    const char *text = dt_intern(dt_arena_vprintf(scratch, format, args));
    va_end(args);
    dt_arena_free(scratch);
    return text;
}
