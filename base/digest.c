/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <sodium.h>
#include <stdio.h>

_Static_assert(sizeof(DtDigest) >= sizeof(crypto_generichash_state), "the library's state fits");

static crypto_generichash_state *state_of(DtDigest *digest)
{
    return (crypto_generichash_state *)(void *)digest->state;
}

void dt_digest_begin(DtDigest *ret_digest)
{
    /* lets libsodium choose the code for this processor; the digests are the same without it */
    const int ready = sodium_init();
    (void)ready;
    crypto_generichash_init(state_of(ret_digest), NULL, 0, DT_DIGEST_BYTES);
}

void dt_digest_add(DtDigest *digest, const void *bytes, size_t len)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)len >> (8 * i));
    dt_digest_more(digest, length, sizeof length);
    dt_digest_more(digest, bytes, len);
}

void dt_digest_more(DtDigest *digest, const void *bytes, size_t len)
{
    crypto_generichash_update(state_of(digest), bytes ? bytes : (const void *)"", len);
}

void dt_digest_end(DtDigest *digest, uint8_t ret_bytes[DT_DIGEST_BYTES])
{
    crypto_generichash_final(state_of(digest), ret_bytes, DT_DIGEST_BYTES);
}

void dt_digest_keyed(const uint8_t key[DT_DIGEST_BYTES], const void *bytes, size_t len,
                     uint8_t ret_bytes[DT_DIGEST_BYTES])
{
    const int ready = sodium_init();
    (void)ready;
    crypto_generichash(ret_bytes, DT_DIGEST_BYTES, bytes, len, key, DT_DIGEST_BYTES);
}

bool dt_digest_is_equal(const uint8_t a[DT_DIGEST_BYTES], const uint8_t b[DT_DIGEST_BYTES])
{
    return sodium_memcmp(a, b, DT_DIGEST_BYTES) == 0;
}

void dt_digest_of(const void *bytes, size_t len, uint8_t ret_bytes[DT_DIGEST_BYTES])
{
    DtDigest digest;
    dt_digest_begin(&digest);
    dt_digest_more(&digest, bytes, len);
    dt_digest_end(&digest, ret_bytes);
}

void dt_digest_text(const uint8_t bytes[DT_DIGEST_BYTES], char ret_text[DT_DIGEST_TEXT])
{
    for (int i = 0; i < DT_DIGEST_BYTES; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
}
