/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a checkpoint, mapped for reading. Each byte that somebody uses is in a chunk whose
 * digest was compared with the manifest; bytes of tensors are those of the copy that was
 * compared. Another process may cut a file short at any
 * moment. */
#include "runtime/checkpoint.h"

#include "base/hash.h"
#include "base/tryread.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int by_name(const void *a, const void *b)
{
    const DtTensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Lists the tensors of all files by name. */
static DtStatus join(DtArena *memory, DtCheckpointFiles *files)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < files->n; f++)
        n += files->files[f].n;
    files->all.tensors = DT_NEW_ARRAY(memory, DtTensor, n + 1);
    for (uint32_t f = 0; f < files->n; f++)
        for (uint32_t i = 0; i < files->files[f].n; i++) {
            DtTensor *tensor = &files->all.tensors[files->all.n++];
            *tensor = files->files[f].tensors[i];
            tensor->file = f;
        }
    qsort(files->all.tensors, n, sizeof *files->all.tensors, by_name);
    for (uint32_t i = 1; i < n; i++)
        if (strcmp(files->all.tensors[i].name, files->all.tensors[i - 1].name) == 0)
            return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: tensor `%.100s` is in two files",
                                  files->paths[files->all.tensors[i].file],
                                  files->all.tensors[i].name);
    return DT_OK;
}

/* ---- digests ---- */

/* A piece of a mapped file, and the result of looking at it; dt_tryread calls the functions
 * below. */
typedef struct Look {
    const uint8_t *at;
    size_t bytes;
    uint64_t hash;
    uint8_t digest[DT_DIGEST_BYTES];
} Look;

static void run_digest(void *context)
{
    Look *look = context;
    dt_digest_of(look->at, look->bytes, look->digest);
}

static void run_hash(void *context)
{
    Look *look = context;
    look->hash = dt_hash_bytes(look->at, look->bytes, 0);
}

void dt_checkpointfiles_ahead(const DtCheckpointFiles *files, uint32_t file, int64_t chunk)
{
    enum { PIECE = 1 << 17 }; /* of more, the system reads only the beginning */
    const DtFileView *view = &files->files[file].view;
    const int64_t first = chunk * DT_CHUNK_BYTES, end = first + DT_CHUNK_BYTES;
    /* only a hint; chunks begin at pages */
    for (int64_t at = first; at < end && at < (int64_t)view->len; at += PIECE) {
        const int64_t left = (int64_t)view->len - at;
        madvise((void *)(uintptr_t)(view->at + at), (size_t)(left < PIECE ? left : PIECE),
                MADV_WILLNEED);
    }
}

int64_t dt_checkpointfiles_bytes(const DtCheckpointFiles *files, uint32_t file, int64_t chunk)
{
    const int64_t left = files->said[file]->bytes - chunk * DT_CHUNK_BYTES;
    return left < DT_CHUNK_BYTES ? left : DT_CHUNK_BYTES;
}

/* Compares the digest of a chunk with the manifest. */
static DtStatus compare(const DtCheckpointFiles *files, uint32_t f, int64_t chunk,
                        const uint8_t digest[DT_DIGEST_BYTES])
{
    const int64_t first = chunk * DT_CHUNK_BYTES, n = dt_checkpointfiles_bytes(files, f, chunk);
    if (memcmp(digest, files->said[f]->chunks[chunk], DT_DIGEST_BYTES) == 0)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "%.300s is damaged: chunk %lld, bytes %lld to %lld, has another digest "
                          "than the manifest says",
                          files->paths[f], (long long)chunk, (long long)first,
                          (long long)first + (long long)n - 1);
}

DtStatus dt_checkpointfiles_check_chunk(const DtCheckpointFiles *files, uint32_t f, int64_t chunk)
{
    const DtFileView *view = &files->files[f].view;
    Look look = {.at = view->at + chunk * DT_CHUNK_BYTES,
                 .bytes = (size_t)dt_checkpointfiles_bytes(files, f, chunk)};
    dt_checkpointfiles_ahead(files, f, chunk);
    const uint8_t *missing = dt_tryread(view, run_digest, &look);
    return missing ? dt_safetensors_cut(files->paths[f], &files->files[f], missing)
                   : compare(files, f, chunk, look.digest);
}

DtStatus dt_checkpointfiles_read(const DtCheckpointFiles *files, uint32_t f, int64_t chunk,
                                 char *to)
{
    uint8_t digest[DT_DIGEST_BYTES];
    const DtFileView *view = &files->files[f].view;
    const size_t n = (size_t)dt_checkpointfiles_bytes(files, f, chunk);
    dt_checkpointfiles_ahead(files, f, chunk);
    const uint8_t *missing = dt_tryread_copy(view, to, view->at + chunk * DT_CHUNK_BYTES, n);
    if (missing)
        return dt_safetensors_cut(files->paths[f], &files->files[f], missing);
    dt_digest_of(to, n, digest);
    return compare(files, f, chunk, digest);
}

/* Checks the chunks of n bytes of a file from byte `first` on. */
static DtStatus check_bytes(const DtCheckpointFiles *files, uint32_t f, int64_t first, int64_t n)
{
    DtStatus status = DT_OK;
    for (int64_t chunk = first / DT_CHUNK_BYTES;
         chunk * DT_CHUNK_BYTES < first + n && dt_status_ok(&status); chunk++)
        status = dt_checkpointfiles_check_chunk(files, f, chunk);
    return status;
}

/* Compares the digest of a tensor with a manifest of format 1. */
static DtStatus check_old(const DtCheckpointFiles *files, const DtTensor *tensor)
{
    const DtManifestFile *said = files->said[tensor->file];
    const DtTensor key = {.name = tensor->name};
    const DtTensor *claim =
        said->n ? bsearch(&key, said->tensors, said->n, sizeof key, by_name) : NULL;
    Look look = {.at = tensor->at, .bytes = (size_t)tensor->bytes};
    const uint8_t *missing = dt_tryread(&files->files[tensor->file].view, run_hash, &look);
    if (missing)
        return dt_checkpointfiles_cut(files, tensor, missing);
    return claim && claim->digest == look.hash
               ? DT_OK
               : dt_status_fail(DT_EXIT_IO,
                                "%.300s is damaged: tensor `%.100s` has another digest than the "
                                "manifest says",
                                files->paths[tensor->file], tensor->name);
}

void dt_checkpointfiles_chunks(const DtCheckpointFiles *files, const DtTensor *tensor,
                               int64_t *ret_first, int64_t *ret_n)
{
    const int64_t at = tensor->at - files->files[tensor->file].view.at;
    *ret_first = at / DT_CHUNK_BYTES;
    *ret_n = dt_manifest_chunks(at % DT_CHUNK_BYTES + tensor->bytes);
}

DtStatus dt_checkpointfiles_check(const DtCheckpointFiles *files, const DtTensor *tensor)
{
    if (files->said[tensor->file]->chunks == NULL)
        return check_old(files, tensor);
    return check_bytes(files, tensor->file, tensor->at - files->files[tensor->file].view.at,
                       tensor->bytes);
}

DtStatus dt_checkpointfiles_cut(const DtCheckpointFiles *files, const DtTensor *tensor,
                                const uint8_t *missing)
{
    return dt_safetensors_cut(files->paths[tensor->file], &files->files[tensor->file], missing);
}

/* ---- opening ---- */

/* Compares the size and the header of an open file with the manifest. */
static DtStatus check_header(const DtCheckpointFiles *files, uint32_t f)
{
    const DtManifestFile *said = files->said[f];
    const DtTensorFile *file = &files->files[f];
    const bool same = file->id.bytes == said->bytes &&
                      (said->chunks != NULL || file->id.header == said->header);
    if (!same)
        return dt_status_fail(DT_EXIT_IO,
                              "%.300s is damaged: its header is not the one that was written",
                              files->paths[f]);
    int64_t data = 0;
    for (uint32_t i = 0; i < file->n; i++)
        data += file->tensors[i].bytes;
    return said->chunks ? check_bytes(files, f, 0, file->id.bytes - data) : DT_OK;
}

DtStatus dt_checkpointfiles_open(DtArena *memory, const char *path, const DtManifest *manifest,
                                 DtSavedFile kind, DtCheckpointFiles *ret_files)
{
    DtCheckpointFiles *files = ret_files;
    DtStatus status = DT_OK;
    *files = (DtCheckpointFiles){
        .files = DT_NEW_ARRAY(memory, DtTensorFile, manifest->n_files + 1),
        .paths = DT_NEW_ARRAY(memory, const char *, manifest->n_files + 1),
        .said = DT_NEW_ARRAY(memory, const DtManifestFile *, manifest->n_files + 1)};
    for (uint32_t i = 0; i < manifest->n_files && dt_status_ok(&status); i++) {
        const DtManifestFile *said = &manifest->files[i];
        const uint32_t f = files->n;
        if (said->kind != kind)
            continue;
        files->paths[f] = dt_arena_printf(memory, "%s/%s", path, said->name);
        files->said[f] = said;
        status = dt_safetensors_open(memory, files->paths[f], &files->files[f]);
        files->n += dt_status_ok(&status);
        if (dt_status_ok(&status))
            status = check_header(files, f);
        if (dt_status_ok(&status) && !said->chunks) /* of format 1: each rank reads tensors */
            madvise((void *)(uintptr_t)files->files[f].view.at, files->files[f].view.len,
                    MADV_NORMAL);
    }
    if (dt_status_ok(&status))
        status = join(memory, files);
    if (!dt_status_ok(&status))
        dt_checkpointfiles_close(files);
    return status;
}

void dt_checkpointfiles_close(DtCheckpointFiles *files)
{
    for (uint32_t f = 0; f < files->n; f++)
        dt_safetensors_close(&files->files[f]);
    files->n = files->all.n = 0;
}
