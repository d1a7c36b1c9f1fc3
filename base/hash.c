/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t dt_hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes ? bytes : "", len, seed);
}

uint64_t dt_hash_text(const char *text, uint64_t seed)
{
    return dt_hash_bytes(text, strlen(text), seed);
}
