/* SPDX-License-Identifier: Apache-2.0 */
/* $XDG_CACHE_HOME/dtc or ~/.cache/dtc. An entry is a file whose name is the key in digits; it
 * begins with a digest of key and content, so that neither a damaged entry nor one under another's
 * name is taken. Owner and mode of the folder and of each entry are those of what was opened, not
 * of a path (base/file.h). */
#include "base/hostcache.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 256 << 20 };

const char *dt_hostcache_path(DtArena *arena)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    return base && base[0] == '/'   ? dt_arena_printf(arena, "%s/dtc", base)
           : home && home[0] == '/' ? dt_arena_printf(arena, "%s/.cache/dtc", home)
                                    : NULL;
}

void dt_hostcache_open(DtArena *arena, int *ret_folder, const char **ret_why)
{
    const char *path = dt_hostcache_path(arena);
    *ret_folder = -1;
    *ret_why = NULL;
    if (!path)
        return;
    DtStatus status = dt_file_own_folder(path, ret_folder);
    if (!dt_status_ok(&status) && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        *ret_why = dt_arena_strndup(arena, status.message, strlen(status.message));
}

void dt_hostcache_close(int folder)
{
    if (folder >= 0)
        close(folder);
}

static void digest_of(const uint8_t key[DT_DIGEST_BYTES], const void *bytes, size_t len,
                      uint8_t ret_digest[DT_DIGEST_BYTES])
{
    DtDigest digest;
    dt_digest_begin(&digest);
    dt_digest_add(&digest, key, DT_DIGEST_BYTES);
    dt_digest_add(&digest, bytes, len);
    dt_digest_end(&digest, ret_digest);
}

bool dt_hostcache_find(DtArena *arena, int folder, const uint8_t key[DT_DIGEST_BYTES],
                       const char **ret_bytes, size_t *ret_len)
{
    char name[DT_DIGEST_TEXT], *text;
    uint8_t digest[DT_DIGEST_BYTES];
    size_t len;
    dt_digest_text(key, name);
    if (folder < 0 || faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    DtStatus status = dt_file_own_read(arena, folder, name, LARGEST, &text, &len);
    if (!dt_status_ok(&status) || len < sizeof digest)
        return false;
    digest_of(key, text + sizeof digest, len - sizeof digest, digest);
    if (memcmp(digest, text, sizeof digest) != 0)
        return false;
    *ret_bytes = text + sizeof digest;
    *ret_len = len - sizeof digest;
    return true;
}

void dt_hostcache_keep(DtArena *arena, int folder, const uint8_t key[DT_DIGEST_BYTES],
                       const void *bytes, size_t len)
{
    char name[DT_DIGEST_TEXT];
    if (folder < 0)
        return;
    uint8_t *all = dt_arena_alloc(arena, DT_DIGEST_BYTES + len);
    dt_digest_text(key, name);
    digest_of(key, bytes, len, all);
    memcpy(all + DT_DIGEST_BYTES, bytes, len);
    (void)dt_file_own_write(folder, name, all, DT_DIGEST_BYTES + len);
}

const char *dt_hostcache_code(DtArena *arena, const char *text)
{
    char *code = dt_arena_strndup(arena, text, strlen(text)), *to = code;
    for (const char *at = code, *end; *at;) {
        if (at[0] == '/' && at[1] == '*' && (end = strstr(at + 2, "*/")) != NULL)
            at = end + 2;
        else
            *to++ = *at++;
    }
    *to = 0;
    return code;
}
