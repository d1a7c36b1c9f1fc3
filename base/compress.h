/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes made smaller and back (Zstandard). */
#ifndef DT_BASE_COMPRESS_H
#define DT_BASE_COMPRESS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same bytes for the same input and version of the library. */
void dt_compress(DtArena *arena, const void *bytes, size_t len, uint8_t **ret_bytes,
                 size_t *ret_len);

/* Decompresses, with a NUL after the bytes. False if dt_compress did not make these bytes, or if
 * they would become more than `most`. They need not be trusted. */
bool dt_decompress(DtArena *arena, const void *bytes, size_t len, size_t most, uint8_t **ret_bytes,
                   size_t *ret_len);

#endif
