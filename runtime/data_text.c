/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of tokens over many files, which stay mapped: the tokens of the files one after the
 * other, of which `from` and `to` keep a part. A byte of text is a token. Bounds are taken once,
 * from the sizes at opening; files must not shrink while they are read. */
#include "runtime/data.h"

#include <string.h>

static DtStatus map_file(const char *path, const DtTokenFormat *format, int64_t start, DtTokenFile *ret_file)
{
    *ret_file = (DtTokenFile){.path = path, .start = start};
    DtStatus status = dt_file_map(path, &ret_file->view);
    return dt_status_ok(&status) ? dt_databin_layout(format, ret_file) : status;
}

DtStatus dt_datatext_open(DtArena *memory, const DtDataFiles *files, const DtTokenFormat *format, double from,
                          double to, DtTokens *ret_tokens)
{
    DtTokens *t = ret_tokens;
    *t = (DtTokens){.files = DT_NEW_ARRAY(memory, DtTokenFile, files->n + 1), .format = *format};
    for (uint32_t i = 0; i < files->n; i++) {
        DtTokenFile *file = &t->files[t->n_files++];
        DtStatus status = map_file(files->at[i], format, t->total, file);
        if (dt_status_ok(&status) && file->n == 0 && files->n == 1)
            status = dt_status_fail(DT_EXIT_IO, "%.300s is empty", file->path);
        if (!dt_status_ok(&status)) {
            dt_datatext_close(t);
            return status;
        }
        t->total += file->n;
    }
    /* The same rounding for both ends: what ends at 0.9 meets what begins at 0.9. */
    t->first = (int64_t)(from * (double)t->total);
    int64_t end = to < 1 ? (int64_t)(to * (double)t->total) : t->total;
    t->n = end - t->first;
    return DT_OK;
}

void dt_datatext_close(DtTokens *tokens)
{
    for (uint32_t i = 0; i < tokens->n_files; i++)
        dt_file_unmap(&tokens->files[i].view);
    tokens->n_files = 0;
}

/* The file that holds token at of the whole stream. */
static uint32_t find_file(const DtTokens *tokens, int64_t at)
{
    uint32_t lo = 0, hi = tokens->n_files; /* the first file that begins after at is in (lo, hi] */
    while (hi - lo > 1) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (tokens->files[middle].start <= at)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

const DtTokenFile *dt_datatext_find(const DtTokens *tokens, int64_t at, int64_t *ret_number, int64_t *ret_byte)
{
    at += tokens->first;
    const DtTokenFile *file = &tokens->files[find_file(tokens, at)];
    *ret_number = at - file->start;
    *ret_byte = (int64_t)file->skip + *ret_number * tokens->format.width;
    return file;
}

/* False if an id does not fit; *ret_bad is then its index. */
static bool widen(const uint8_t *from, const DtTokenFormat *format, int64_t n, int32_t *ret_ids, int64_t *ret_bad)
{
    if (format->width == 1)
        for (int64_t i = 0; i < n; i++)
            ret_ids[i] = from[i];
    else if (format->width == 2)
        for (int64_t i = 0; i < n; i++)
            ret_ids[i] = from[2 * i] | from[2 * i + 1] << 8;
    else
        for (int64_t i = 0; i < n; i++) {
            uint32_t id;
            memcpy(&id, from + 4 * i, sizeof id);
            if (id > INT32_MAX && !format->is_signed) {
                *ret_bad = i;
                return false;
            }
            ret_ids[i] = (int32_t)id;
        }
    return true;
}

DtStatus dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, int32_t *ret_ids)
{
    at += tokens->first;
    for (uint32_t f = find_file(tokens, at); n > 0; f++) {
        const DtTokenFile *file = &tokens->files[f];
        int64_t inside = at - file->start, take = file->n - inside < n ? file->n - inside : n,
                bad = 0;
        if (take <= 0)
            continue; /* an empty file */
        const uint8_t *from = file->view.at + file->skip + inside * tokens->format.width;
        if (!widen(from, &tokens->format, take, ret_ids, &bad))
            return dt_status_fail(
                DT_EXIT_IO,
                "token number %lld of %.300s is not below 2^31: is it a file of 16-bit "
                "tokens?",
                (long long)(inside + bad), file->path);
        at += take;
        n -= take;
        ret_ids += take;
    }
    return DT_OK;
}
