/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "base/arena.h"

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

/* DtHashStream is the library's state, which only the library can allocate with its alignment. */
static XXH3_state_t *state_of(DtHashStream *stream) { return (XXH3_state_t *)(void *)stream; }

DtHashStream *dt_hash_begin(uint64_t seed)
{
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        dt_arena_exhausted(1);
    XXH3_64bits_reset_withSeed(state, seed);
    return (DtHashStream *)(void *)state;
}

void dt_hash_add(DtHashStream *stream, const void *bytes, size_t len)
{
    if (len)
        XXH3_64bits_update(state_of(stream), bytes, len);
}

uint64_t dt_hash_end(DtHashStream *stream)
{
    const uint64_t hash = XXH3_64bits_digest(state_of(stream));
    XXH3_freeState(state_of(stream));
    return hash;
}
