/* SPDX-License-Identifier: Apache-2.0 */
#include "base/compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

enum { LEVEL = 1 };

void dt_compress(DtArena *arena, const void *bytes, size_t len, uint8_t **ret_bytes,
                 size_t *ret_len)
{
    size_t room = ZSTD_compressBound(len);
    *ret_bytes = dt_arena_alloc(arena, room);
    *ret_len = ZSTD_compress(*ret_bytes, room, bytes, len, LEVEL);
    if (ZSTD_isError(*ret_len)) { /* the output has room for the worst case, so only memory can be
                                   * missing */
        fprintf(stderr, "out of memory: %s (see `ulimit -v` too)\n", ZSTD_getErrorName(*ret_len));
        exit(1);
    }
}

bool dt_decompress(DtArena *arena, const void *bytes, size_t len, size_t most, uint8_t **ret_bytes,
                   size_t *ret_len)
{
    unsigned long long size = ZSTD_getFrameContentSize(bytes, len);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > most)
        return false;
    if (ZSTD_findFrameCompressedSize(bytes, len) != len) /* exactly one frame */
        return false;
    *ret_bytes = dt_arena_alloc(arena, (size_t)size + 1);
    *ret_len = ZSTD_decompress(*ret_bytes, (size_t)size, bytes, len);
    if (*ret_len != size) /* codes of errors are larger than any size */
        return false;
    (*ret_bytes)[size] = 0;
    return true;
}
