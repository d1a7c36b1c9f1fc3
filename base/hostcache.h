/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of compiled kernels on disk. Its code will run, so no folder or file is used that
 * somebody else owns or could write (hostcache.c). */
#ifndef DT_BASE_HOSTCACHE_H
#define DT_BASE_HOSTCACHE_H

#include "base/arena.h"
#include "base/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the cache's folder. *ret_folder becomes -1 if there is none; *ret_why is then the reason,
 * or NULL if the user wants no cache. */
void dt_hostcache_open(DtArena *arena, int *ret_folder, const char **ret_why);
void dt_hostcache_close(int folder);
/* The path of that folder, or NULL. Whoever uses it has opened the folder, which checks who owns
 * it. */
const char *dt_hostcache_path(DtArena *arena);

/* Finds the bytes stored under the key, in the arena; false: there are none. */
bool dt_hostcache_find(DtArena *arena, int folder, const uint8_t key[DT_DIGEST_BYTES],
                       const char **ret_bytes, size_t *ret_len);
/* Stores bytes under the key. A full or read-only disk only costs the next compilation its time. */
void dt_hostcache_keep(DtArena *arena, int folder, const uint8_t key[DT_DIGEST_BYTES],
                       const void *bytes, size_t len);

/* A unit's text without comments, for making its key: comments name source lines and make no
 * code, so that a file that moved, or lines that shifted, still hit the cache. Generated units
 * have no comments in strings. */
const char *dt_hostcache_code(DtArena *arena, const char *text);

#endif
