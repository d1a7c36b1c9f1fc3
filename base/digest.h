/* SPDX-License-Identifier: Apache-2.0 */
/* Cryptographic digests (BLAKE2b of 256 bits, from libsodium): where equal digests must mean equal
 * bytes even if somebody wants them not to. base/hash.h is for everything else. */
#ifndef DT_BASE_DIGEST_H
#define DT_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_DIGEST_BYTES = 32, DT_DIGEST_TEXT = 2 * DT_DIGEST_BYTES + 1 };

typedef struct DtDigest {
    _Alignas(64) uint8_t state[384];
} DtDigest;

void dt_digest_begin(DtDigest *ret_digest);
/* Adds a part. Boundaries matter: "ab", "c" and "a", "bc" have different digests. */
void dt_digest_add(DtDigest *digest, const void *bytes, size_t len);
/* Adds bytes without a boundary: "ab", "c" and "a", "bc" have the same digest, that of all
 * bytes. */
void dt_digest_more(DtDigest *digest, const void *bytes, size_t len);
void dt_digest_end(DtDigest *digest, uint8_t ret_bytes[DT_DIGEST_BYTES]);
/* The digest of the bytes, as hashlib.blake2b(bytes, digest_size=32) of Python computes it. */
void dt_digest_of(const void *bytes, size_t len, uint8_t ret_bytes[DT_DIGEST_BYTES]);

/* A digest that nobody can compute, or check, without the key. */
void dt_digest_keyed(const uint8_t key[DT_DIGEST_BYTES], const void *bytes, size_t len,
                     uint8_t ret_bytes[DT_DIGEST_BYTES]);
/* Takes the same time wherever the two differ, so that a peer cannot guess byte by byte. */
bool dt_digest_is_equal(const uint8_t a[DT_DIGEST_BYTES], const uint8_t b[DT_DIGEST_BYTES]);

/* Writes a digest as 64 digits, base 16. */
void dt_digest_text(const uint8_t bytes[DT_DIGEST_BYTES], char ret_text[DT_DIGEST_TEXT]);

#endif
