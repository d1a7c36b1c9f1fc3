/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of numbers over many files, which stay mapped: the numbers of the files one after the
 * other, of which `from` and `to` keep a part. Each byte of text is one number. The numbers of
 * files are counted once, from their sizes when they are opened. A file that shrinks while it is
 * read is an error with its name. */
#include "runtime/data.h"

#include "base/tryread.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void dt_datatext_close(DtTokens *tokens)
{
    for (uint32_t i = 0; i < tokens->n_files; i++)
        dt_file_unmap(&tokens->files[i].view);
    tokens->n_files = 0;
}

/* Returns the index of the file that contains number `at` of the whole stream. */
static uint32_t find_file(const DtTokens *tokens, int64_t at)
{
    uint32_t lo = 0, hi = tokens->n_files; /* the first file that begins after `at` has an index in
                                            * (lo, hi] */
    while (hi - lo > 1) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (tokens->files[middle].start <= at)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

const DtTokenFile *dt_datatext_find(const DtTokens *tokens, int64_t at, int64_t *ret_number,
                                    int64_t *ret_byte)
{
    at += tokens->first;
    const DtTokenFile *file = &tokens->files[find_file(tokens, at)];
    *ret_number = at - file->start;
    *ret_byte = (int64_t)file->skip + *ret_number * file->number.width;
    return file;
}

typedef struct Place {
    const DtTokenFormat *format;
    const DtTokenFile *file;
    int64_t number;
    uint64_t line, column;
} Place;

static void find_place(void *context)
{
    Place *place = context;
    dt_datacsv_place(place->format, place->file, place->number, &place->line, &place->column);
}

void dt_datatext_say(const DtTokens *tokens, int64_t at, const char *word, char ret_place[400])
{
    int64_t number, byte;
    const DtTokenFile *file = dt_datatext_find(tokens, at, &number, &byte);
    const DtDataDocuments *texts = tokens->documents;
    if (file->table) {
        Place place = {&tokens->format, file, number, 0, 0};
        DtStatus status = dt_datatext_try(tokens, (DtTokenFile *)file, find_place, &place);
        if (!dt_status_ok(&status))
            place.line = place.column = 0;
        snprintf(ret_place, 400, "%.250s:%llu:%llu", file->path, (unsigned long long)place.line,
                 (unsigned long long)place.column);
        return;
    }
    if (!texts) {
        snprintf(ret_place, 400, "%s %lld (byte %lld) of %.250s", word, (long long)number,
                 (long long)byte, file->path);
        return;
    }
    uint32_t i = 0;
    while (i + 1 < texts->n && texts->starts[i + 1] <= (uint64_t)number)
        i++;
    snprintf(ret_place, 400, "%s %lld of %.250s", word,
             (long long)(number - (int64_t)texts->starts[i]), texts->paths[i]);
}

/* Returns the error for a file that was cut short: the bytes from `end` on are missing. */
static DtStatus refuse_cut(const DtTokenFile *file, int64_t end)
{
    int64_t at = end - (int64_t)file->skip;
    at = at > 0 ? at / file->number.width : 0;
    return dt_status_fail(
        DT_EXIT_IO,
        "%.250s was cut short while the run reads it: value %lld (byte %lld) and what "
        "follows is gone; the file had %zu bytes",
        file->path, (long long)at, (long long)(file->skip + (size_t)(at * file->number.width)),
        file->view.len);
}

DtStatus dt_datatext_cut(const DtTokens *tokens)
{
    for (uint32_t i = 0; i < tokens->n_files; i++) {
        DtTokenFile *file = &tokens->files[i];
        struct stat stat_of;
        const bool touched = file->touched;
        file->touched = false;
        /* Only if the name still belongs to the mapped file, its new size tells more. A file that
         * was replaced by another of its name stays unchanged in the mapping. */
        if (touched && stat(file->path, &stat_of) == 0 && stat_of.st_dev == file->device &&
            stat_of.st_ino == file->inode && stat_of.st_size < (off_t)file->view.len)
            return refuse_cut(file, stat_of.st_size);
    }
    return DT_OK;
}

DtStatus dt_datatext_try(const DtTokens *tokens, DtTokenFile *file, void (*read)(void *),
                         void *context)
{
    file->touched = true;
    const uint8_t *missing = dt_tryread(&file->view, read, context);
    if (!missing)
        return DT_OK;
    DtStatus status = dt_datatext_cut(tokens); /* knows the new end, not only the page */
    return dt_status_ok(&status) ? refuse_cut(file, missing - file->view.at) : status;
}

/* ---- opening ---- */

void dt_datatext_part(DtTokens *tokens, double from, double to)
{
    /* `from` and `to` are rounded in the same way, so a part that ends at 0.9 and one that begins
     * at 0.9 neither overlap nor leave a gap */
    const double total = (double)tokens->total;
    const int64_t end = to < 1 ? (int64_t)(to * total) : tokens->total;
    tokens->first = (int64_t)(from * total);
    tokens->n = end - tokens->first;
}

typedef struct Layout {
    DtArena *memory;
    const DtTokenFormat *format;
    DtTokenFile *file;
    DtStatus status;
} Layout;

static void find_layout(void *context)
{
    Layout *layout = context;
    const DtTokenFormat *format = layout->format;
    layout->status = format->columns ? dt_datacsv_layout(layout->memory, format, layout->file)
                     : format->npy   ? dt_datanpy_layout(format, layout->file)
                                     : dt_databin_layout(format, layout->file);
}

static DtStatus map_file(DtArena *memory, const DtTokens *tokens, DtTokenFile *file)
{
    struct stat stat_of;
    Layout layout = {memory, &tokens->format, file, DT_OK};
    DtStatus status = dt_file_map(file->path, &file->view);
    if (!dt_status_ok(&status))
        return status;
    if (stat(file->path, &stat_of) == 0) {
        file->device = stat_of.st_dev;
        file->inode = stat_of.st_ino;
    }
    if (tokens->format.megatron)
        return dt_datamegatron_layout(file); /* it reads the index alone */
    status = dt_datatext_try(tokens, file, find_layout, &layout);
    return dt_status_ok(&status) ? layout.status : status;
}

DtStatus dt_datatext_open(DtArena *memory, const DtDataFiles *files, const DtTokenFormat *format,
                          double from, double to, DtTokens *ret_tokens)
{
    DtTokens *t = ret_tokens;
    *t = (DtTokens){.files = DT_NEW_ARRAY(memory, DtTokenFile, files->n + 1), .format = *format};
    for (uint32_t i = 0; i < files->n; i++) {
        DtTokenFile *file = &t->files[t->n_files++];
        *file = (DtTokenFile){.path = files->at[i], .start = t->total,
                              .number = dt_datanumbers_of(format->dtype)};
        DtStatus status = map_file(memory, t, file);
        if (dt_status_ok(&status) && file->n == 0 && files->n == 1)
            status = dt_status_fail(DT_EXIT_IO, "%.300s is empty", file->path);
        if (!dt_status_ok(&status)) {
            dt_datatext_close(t);
            return status;
        }
        t->total += file->n;
    }
    dt_datatext_part(t, from, to);
    return DT_OK;
}

/* ---- reading ---- */

typedef struct Value {
    const uint8_t *from;
    const DtNumber *number;
    char text[32];
} Value;

static void say_value(void *context)
{
    Value *value = context;
    dt_datanumbers_say(value->from, value->number, value->text);
}

/* Returns the error for a number that is no i32, or no f32. at: the number's index in the file,
 * from 0. */
static DtStatus refuse(const DtTokens *tokens, DtTokenFile *file, int64_t at)
{
    const int64_t byte = (int64_t)file->skip + at * file->number.width;
    Value value = {file->view.at + byte, &file->number, ""};
    DtStatus status = dt_datatext_try(tokens, file, say_value, &value);
    if (!dt_status_ok(&status))
        return status;
    const bool floats = dt_datanumbers_is_float(&file->number);
    return dt_status_fail(DT_EXIT_IO, "%s number %lld (byte %lld) of %.250s is %s, %s",
                          tokens->format.npy ? "value" : "token", (long long)at, (long long)byte,
                          file->path, value.text,
                          floats                                ? "more than an f32 can have"
                          : tokens->format.npy                  ? "which is no i32"
                          : tokens->format.dtype == DT_PLAN_I64 ? "which is no i32: is it a file "
                                                                  "of other numbers?"
                                                                : "not below 2^31: is it a file "
                                                                  "of 16-bit tokens?");
}

/* Calls dt_datanumbers_convert in the form that dt_tryread needs. */
typedef struct Conversion {
    const uint8_t *from;
    const DtTokenFormat *format;
    const DtTokenFile *file;
    int64_t inside, n, good;
    void *to;
    DtStatus status;
} Conversion;

static void run_conversion(void *context)
{
    Conversion *c = context;
    if (!c->file->table) {
        c->good = dt_datanumbers_convert(c->from, &c->file->number, c->n, c->to);
        return;
    }
    c->status = dt_datacsv_read(c->format, c->file, c->inside, c->n, c->to);
    c->good = c->n;
}

DtStatus dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, void *ret_numbers)
{
    enum { MADE = 4 }; /* bytes of a number after conversion: i32 or f32 */
    char *to = ret_numbers;
    at += tokens->first;
    for (uint32_t f = find_file(tokens, at); n > 0; f++) {
        DtTokenFile *file = &tokens->files[f];
        int64_t inside = at - file->start, take = file->n - inside < n ? file->n - inside : n;
        if (take <= 0)
            continue; /* an empty file */
        const uint8_t *from =
            file->table ? NULL : file->view.at + file->skip + inside * file->number.width;
        Conversion conversion = {from, &tokens->format, file, inside, take, 0, to, DT_OK};
        DtStatus status = dt_datatext_try(tokens, file, run_conversion, &conversion);
        if (dt_status_ok(&status))
            status = conversion.status;
        if (!dt_status_ok(&status))
            return status;
        if (conversion.good < take)
            return refuse(tokens, file, inside + conversion.good);
        at += take;
        n -= take;
        to += take * MADE;
    }
    return DT_OK;
}
