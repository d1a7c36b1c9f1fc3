/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of ids. Which file of it is wanted follows from the contents of all texts. They are
 * read only if a text may have changed since the last run: a note of the cache, whose name is a
 * digest of each file's identity, size and times, has the answer of the last time. Times are
 * trusted two seconds after they were set, as the clock of a file system is coarse.
 *
 * Of several runs that want the same ids, one makes them and the others wait for it. */
#include "runtime/data_chat.h"

#include "base/hostcache.h"
#include "base/tryread.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, SETTLED_SECONDS = 2, STALE_SECONDS = 3600 };

/* The form of the ids and how they are made: another number where other ids come out. */
static const char version[] = "tokens 1";

typedef struct Cache {
    int folder;
    const char *path;
} Cache;

/* ---- digests ---- */

static void begin_digest(const char *what, DtDigest *ret_digest)
{
    dt_digest_begin(ret_digest);
    dt_digest_add(ret_digest, version, strlen(version));
    dt_digest_add(ret_digest, what, strlen(what));
}

/* Adds the bytes of a mapped file. */
static DtStatus add_file(const DtFileView *view, const char *path, DtDigest *digest)
{
    uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        dt_arena_exhausted(CHUNK);
    dt_digest_add(digest, &view->len, sizeof view->len);
    bool whole = true;
    for (size_t at = 0; at < view->len && whole; at += CHUNK) {
        const size_t n = view->len - at < CHUNK ? view->len - at : CHUNK;
        whole = dt_tryread_copy(view, chunk, view->at + at, n) == NULL;
        dt_digest_add(digest, chunk, n);
    }
    free(chunk);
    if (whole)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO, "%.300s was cut short while it is read", path);
}

/* Adds how conversations become samples. */
static void add_form(const DtChatForm *form, DtDigest *digest)
{
    DtText text = {0};
    dt_text_printf(&text, " chat 2 %s %u %lld", form->template ? form->template : "", form->flags,
                   (long long)form->row);
    dt_digest_add(digest, text.at, text.len + 1);
    dt_text_free(&text);
}

/* The digest of the tokenizer and of how it is used. */
static DtStatus digest_tokenizer(const DtTokensSource *source, uint8_t ret_bytes[DT_DIGEST_BYTES])
{
    DtDigest digest;
    DtFileView view;
    DtStatus status = dt_file_map(source->tokenizer, &view);
    if (!dt_status_ok(&status))
        return status;
    begin_digest("tokenizer", &digest);
    status = add_file(&view, source->tokenizer, &digest);
    dt_file_unmap(&view);
    dt_digest_add(&digest, source->end, source->end ? strlen(source->end) : 0);
    if (source->chat)
        add_form(source->chat, &digest);
    dt_digest_end(&digest, ret_bytes);
    return status;
}

/* The digest by which a note is found. *ret_settled: no file was changed a moment ago. */
static bool digest_stats(const DtTokensSource *source, const uint8_t tokenizer[DT_DIGEST_BYTES],
                         uint8_t ret_bytes[DT_DIGEST_BYTES], bool *ret_settled)
{
    DtDigest digest;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    begin_digest("note", &digest);
    dt_digest_add(&digest, tokenizer, DT_DIGEST_BYTES);
    *ret_settled = true;
    for (uint32_t i = 0; i < source->texts->n_files; i++) {
        const DtTokenFile *file = &source->texts->files[i];
        struct stat s;
        if (stat(file->path, &s) != 0 || s.st_dev != file->device || s.st_ino != file->inode ||
            (size_t)s.st_size != file->view.len)
            return false; /* it is not the file that was mapped */
        const int64_t facts[] = {(int64_t)s.st_dev, (int64_t)s.st_ino, s.st_size,
                                 s.st_mtim.tv_sec,  s.st_mtim.tv_nsec, s.st_ctim.tv_sec,
                                 s.st_ctim.tv_nsec};
        dt_digest_add(&digest, facts, sizeof facts);
        *ret_settled &= s.st_ctim.tv_sec + SETTLED_SECONDS < now.tv_sec;
    }
    dt_digest_end(&digest, ret_bytes);
    return true;
}

static DtStatus digest_contents(DtTokensSource *source, const uint8_t tokenizer[DT_DIGEST_BYTES])
{
    DtDigest digest;
    DtStatus status = DT_OK;
    begin_digest("ids", &digest);
    dt_digest_add(&digest, tokenizer, DT_DIGEST_BYTES);
    for (uint32_t i = 0; i < source->texts->n_files && dt_status_ok(&status); i++)
        status = add_file(&source->texts->files[i].view, source->texts->files[i].path, &digest);
    dt_digest_end(&digest, source->key);
    return status;
}

/* Finds the key of the ids: in a note, or by reading everything. */
static DtStatus find_key(DtArena *memory, const Cache *cache, DtTokensSource *source)
{
    uint8_t tokenizer[DT_DIGEST_BYTES], note[DT_DIGEST_BYTES];
    const char *known;
    size_t len;
    bool settled;
    DtStatus status = digest_tokenizer(source, tokenizer);
    if (!dt_status_ok(&status))
        return status;
    const bool noted = digest_stats(source, tokenizer, note, &settled);
    if (noted && dt_hostcache_find(memory, cache->folder, note, &known, &len) &&
        len == DT_DIGEST_BYTES) {
        memcpy(source->key, known, len);
        return DT_OK;
    }
    status = digest_contents(source, tokenizer);
    if (dt_status_ok(&status) && noted && settled)
        dt_hostcache_keep(memory, cache->folder, note, source->key, DT_DIGEST_BYTES);
    return status;
}

/* ---- a file of ids ---- */

/* Reads the end of a file of ids. False: it is none, or one of other texts. */
static bool read_end(DtArena *memory, DtTokensSource *source, const DtFileView *view,
                     DtTokensTrailer *ret_trailer, DtDataDocuments *ret_documents)
{
    DtTokensTrailer *t = ret_trailer;
    const uint32_t n = source->texts->n_files;
    const size_t counts = source->chat ? sizeof source->counts : 0;
    const size_t end = sizeof *t + n * sizeof(uint64_t) + counts;
    if (view->len < end ||
        dt_tryread_copy(view, t, view->at + view->len - sizeof *t, sizeof *t) != NULL ||
        memcmp(t->magic, DT_TOKENS_MAGIC, sizeof t->magic) != 0 ||
        memcmp(t->key, source->key, sizeof t->key) != 0 || t->n_files != n ||
        (t->width != 2 && t->width != 4) || t->n_ids != (view->len - end) / t->width ||
        (view->len - end) % t->width != 0)
        return false;
    uint64_t *starts = DT_NEW_ARRAY(memory, uint64_t, n + 1);
    const uint8_t *at = view->at + view->len - end;
    if (dt_tryread_copy(view, source->counts, at, counts) != NULL ||
        dt_tryread_copy(view, starts, at + counts, n * sizeof *starts) != NULL)
        return false;
    const char **paths = DT_NEW_ARRAY(memory, const char *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        paths[i] = source->texts->files[i].path;
        if (starts[i] > t->n_ids || (i > 0 && starts[i] < starts[i - 1]))
            return false;
    }
    *ret_documents = (DtDataDocuments){paths, starts, n};
    return true;
}

/* Maps the file of ids. False: there is none that is whole. */
static bool map_ids(DtArena *memory, DtTokensSource *source, const char *path,
                    DtTokens *ret_tokens)
{
    DtTokensTrailer trailer;
    DtFileView view;
    struct stat s;
    DtTokens *t = ret_tokens;
    if (lstat(path, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid())
        return false;
    DtStatus status = dt_file_map(path, &view);
    if (!dt_status_ok(&status))
        return false;
    DtDataDocuments *documents = DT_NEW(memory, DtDataDocuments);
    if (!read_end(memory, source, &view, &trailer, documents)) {
        dt_file_unmap(&view);
        return false;
    }
    t->files = DT_NEW(memory, DtTokenFile);
    const uint32_t dtype = trailer.width == 2 ? DT_PLAN_U16 : DT_PLAN_U32;
    t->files[0] = (DtTokenFile){.view = view,
                                .path = path,
                                .n = (int64_t)trailer.n_ids,
                                .number = dt_datanumbers_of(dtype),
                                .device = s.st_dev,
                                .inode = s.st_ino};
    t->n_files = 1;
    t->total = (int64_t)trailer.n_ids;
    t->documents = documents;
    t->format.dtype = dtype;
    t->format.width = (int)trailer.width;
    t->format.text = false;
    return true;
}

/* ---- making it ---- */

/* Removes what runs left that ended while they wrote: files that were to become this one, of which
 * the lock tells that nobody writes them, and others that nobody has written to for an hour. name:
 * of the file of ids; NULL: it is not locked. */
static void remove_stale(const Cache *cache, const char *name)
{
    const int folder = dup(cache->folder);
    DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
    const time_t now = time(NULL);
    if (dir)
        rewinddir(dir);
    for (const struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        struct stat s;
        const char *end = strstr(entry->d_name, ".ids.");
        if (end && strlen(end) == strlen(".ids.XXXXXX") &&
            fstatat(cache->folder, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
            ((name && strncmp(entry->d_name, name, strlen(name)) == 0) ||
             s.st_mtime + STALE_SECONDS < now))
            unlinkat(cache->folder, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    else if (folder >= 0)
        close(folder);
}

/* Locks the making of these ids; *ret_lock is -1 where there are no locks. Another run that makes
 * them is waited for, as long as it takes. */
static DtStatus lock_ids(const char *path, const char *name, int *ret_lock)
{
    bool said = false;
    for (;;) {
        DtStatus status = dt_file_make_lock(path, false, ret_lock);
        if (dt_status_ok(&status) || status.code == DT_EXIT_IO)
            return status;
        if (!said)
            fprintf(stderr, "dtrun: another run turns %s into tokens; waiting for it\n", name);
        said = true;
    }
}

static DtStatus make_ids(DtArena *memory, const Cache *cache, DtTokensSource *source,
                         const char *path, DtTokens *ret_tokens)
{
    int lock;
    const char *lock_path = dt_arena_printf(memory, "%s.lock", path);
    DtStatus status = lock_ids(lock_path, source->texts->files[0].path, &lock);
    if (!dt_status_ok(&status))
        return status;
    if (!map_ids(memory, source, path, ret_tokens)) {
        remove_stale(cache, lock >= 0 ? strrchr(path, '/') + 1 : NULL);
        status = source->chat ? dt_datachatmake_write(source, path)
                              : dt_datatokensmake_write(source, path);
        if (dt_status_ok(&status) && !map_ids(memory, source, path, ret_tokens))
            status =
                dt_status_fail(DT_EXIT_IO, "%.300s has just been written, and is damaged", path);
    }
    unlink(lock_path);
    if (lock >= 0)
        close(lock);
    return status;
}

DtStatus dt_datatokens_open(DtArena *memory, DtTokensSource *source, double from, double to,
                            DtTokens *ret_tokens)
{
    Cache cache;
    const char *why;
    char key[DT_DIGEST_TEXT];
    *ret_tokens = (DtTokens){.format = source->texts->format};
    dt_hostcache_open(memory, &cache.folder, &why);
    cache.path = dt_hostcache_path(memory);
    if (cache.folder < 0)
        return dt_status_fail(DT_EXIT_IO,
                              "there is no cache folder for tokens%s%.200s: set HOME or "
                              "XDG_CACHE_HOME to a folder that can be written",
                              why ? ": " : "", why ? why : "");
    DtStatus status = find_key(memory, &cache, source);
    if (dt_status_ok(&status)) {
        dt_digest_text(source->key, key);
        const char *path = dt_arena_printf(memory, "%s/%s.ids", cache.path, key);
        if (!map_ids(memory, source, path, ret_tokens))
            status = make_ids(memory, &cache, source, path, ret_tokens);
    }
    dt_hostcache_close(cache.folder);
    dt_datatext_part(ret_tokens, from, to);
    return status;
}
