/* SPDX-License-Identifier: Apache-2.0 */
/* 64-bit XXH3, the one hash of the project: interning, digests, keys of random sites. */
#ifndef DT_BASE_HASH_H
#define DT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t dt_hash_bytes(const void *bytes, size_t len, uint64_t seed);
uint64_t dt_hash_text(const char *text, uint64_t seed);

/* The hash of bytes that the caller has in pieces: it equals dt_hash_bytes of the pieces one after
 * the other. dt_hash_end frees the stream. */
typedef struct DtHashStream DtHashStream;
DtHashStream *dt_hash_begin(uint64_t seed);
void dt_hash_add(DtHashStream *stream, const void *bytes, size_t len);
uint64_t dt_hash_end(DtHashStream *stream);

#endif
