/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of files as Megatron-LM writes them (megatron/core/datasets/indexed_dataset.py). NAME.bin
 * has tokens, one sequence after the other; NAME.idx says what they are, in little-endian numbers:
 *
 *   magic      "MMIDIDX", two zero bytes; u64 version, 1; u8 code of the dtype
 *   counts     u64 sequences, u64 documents + 1
 *   lengths    i32 of each sequence, in tokens
 *   pointers   i64 of each sequence: its first byte in NAME.bin
 *   documents  i64: the first sequence of each document, and the number of sequences
 *
 * The sequences must fill NAME.bin without gaps, as the program that writes them leaves none, so
 * the stream of tokens is that file. */
#include "runtime/data.h"

#include "base/tryread.h"

#include <string.h>

enum { MAGIC_BYTES = 9, HEADER_BYTES = 34, LOOK_DOCUMENTS = 256 };

/* By the code of the dtype. */
static const struct {
    const char *name;
    DtNumber number; /* width 0: no integer */
} dtypes[] = {
    {"", {0}},
    {"uint8", {DT_NUMBER_UNSIGNED, 1, false}},
    {"int8", {DT_NUMBER_SIGNED, 1, false}},
    {"int16", {DT_NUMBER_SIGNED, 2, false}},
    {"int32", {DT_NUMBER_SIGNED, 4, false}},
    {"int64", {DT_NUMBER_SIGNED, 8, false}},
    {"float64", {0}},
    {"float32", {0}},
    {"uint16", {DT_NUMBER_UNSIGNED, 2, false}},
};

/* NAME.idx, which is mapped. */
typedef struct Index {
    const char *path;
    DtFileView view;
    uint64_t sequences, documents; /* as the header counts them */
} Index;

static int64_t number_at(const uint8_t *at, int width)
{
    int64_t wide;
    int32_t narrow;
    if (width == 8)
        memcpy(&wide, at, sizeof wide);
    else
        memcpy(&narrow, at, sizeof narrow);
    return width == 8 ? wide : narrow;
}

static int64_t length_of(const Index *x, uint64_t i)
{
    return number_at(x->view.at + HEADER_BYTES + 4 * i, 4);
}

static int64_t pointer_of(const Index *x, uint64_t i)
{
    return number_at(x->view.at + HEADER_BYTES + 4 * x->sequences + 8 * i, 8);
}

static int64_t document_of(const Index *x, uint64_t i)
{
    return number_at(x->view.at + HEADER_BYTES + 12 * x->sequences + 8 * i, 8);
}

/* ---- checks ---- */

/* The bytes of an index with these counts; UINT64_MAX: more than any file has. */
static uint64_t bytes_of(uint64_t sequences, uint64_t documents)
{
    uint64_t a, b, all;
    const bool over = __builtin_mul_overflow(sequences, 12, &a) ||
                      __builtin_mul_overflow(documents, 8, &b) ||
                      __builtin_add_overflow(a, b, &all) ||
                      __builtin_add_overflow(all, HEADER_BYTES, &all);
    return over ? UINT64_MAX : all;
}

static DtStatus check_header(Index *x, DtTokenFile *file)
{
    const uint8_t *at = x->view.at;
    if (x->view.len < HEADER_BYTES || memcmp(at, "MMIDIDX\0\0", MAGIC_BYTES) != 0)
        return dt_status_fail(DT_EXIT_IO,
                              "%.250s is no index of Megatron-LM: it begins with other bytes than "
                              "MMIDIDX",
                              x->path);
    const uint64_t version = (uint64_t)number_at(at + MAGIC_BYTES, 8);
    const uint8_t code = at[MAGIC_BYTES + 8];
    if (version != 1)
        return dt_status_fail(DT_EXIT_IO, "%.250s has version %llu; version 1 can be read", x->path,
                              (unsigned long long)version);
    if (code == 0 || code >= DT_COUNT(dtypes))
        return dt_status_fail(DT_EXIT_IO, "%.250s has no dtype that Megatron-LM knows: code %u",
                              x->path, code);
    if (dtypes[code].number.width == 0)
        return dt_status_fail(DT_EXIT_IO,
                              "%.250s says that its numbers are %s, which are no tokens", x->path,
                              dtypes[code].name);
    file->number = dtypes[code].number;
    x->sequences = (uint64_t)number_at(at + 18, 8);
    x->documents = (uint64_t)number_at(at + 26, 8);
    const uint64_t bytes = bytes_of(x->sequences, x->documents);
    if (bytes == x->view.len)
        return DT_OK;
    const bool modes = bytes < UINT64_MAX && x->view.len - bytes == x->sequences;
    return dt_status_fail(DT_EXIT_IO,
                          "%.200s counts %llu sequences and %llu ends of documents, which take "
                          "%llu bytes, and it has %zu: %s",
                          x->path, (unsigned long long)x->sequences,
                          (unsigned long long)x->documents, (unsigned long long)bytes, x->view.len,
                          x->view.len > bytes && modes
                              ? "it is of several kinds of data (multimodal), which cannot be read"
                          : x->view.len > bytes ? "it holds something else, too"
                                                : "perhaps a part of it is missing");
}

/* Checks that the sequences fill the file without gaps. */
static DtStatus check_sequences(const Index *x, const DtTokenFile *file)
{
    const uint64_t width = (uint64_t)file->number.width;
    uint64_t at = 0; /* where the next sequence begins */
    for (uint64_t i = 0; i < x->sequences; i++) {
        const int64_t length = length_of(x, i), pointer = pointer_of(x, i);
        if (length < 0 || pointer < 0 || (uint64_t)pointer != at)
            return dt_status_fail(DT_EXIT_IO,
                                  "sequence %llu of %.220s has %lld tokens from byte %lld on; the "
                                  "one before it ends at byte %llu",
                                  (unsigned long long)i, x->path, (long long)length,
                                  (long long)pointer, (unsigned long long)at);
        at += (uint64_t)length * width; /* below 2^34; at is at most the bytes of the file */
        if (at > file->view.len)
            return dt_status_fail(DT_EXIT_IO,
                                  "sequence %llu of %.200s ends at byte %llu, and %.200s has %zu "
                                  "bytes: perhaps a part of it is missing",
                                  (unsigned long long)i, x->path, (unsigned long long)at,
                                  file->path, file->view.len);
    }
    if (at == file->view.len)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "the sequences of %.200s have %llu bytes, and %.200s %zu: do they belong "
                          "together?",
                          x->path, (unsigned long long)at, file->path, file->view.len);
}

static DtStatus check_documents(const Index *x)
{
    int64_t last = 0;
    bool good = x->documents > 0 && document_of(x, 0) == 0;
    for (uint64_t i = 0; good && i < x->documents; i++) {
        good = document_of(x, i) >= last && (uint64_t)document_of(x, i) <= x->sequences;
        last = document_of(x, i);
    }
    if (good && (uint64_t)last == x->sequences)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "%.250s: its documents do not begin at ascending sequences from 0 to "
                          "%llu",
                          x->path, (unsigned long long)x->sequences);
}

typedef struct Check {
    Index *index;
    DtTokenFile *file;
    DtStatus status;
} Check;

static void check_index(void *context)
{
    Check *c = context;
    c->status = check_header(c->index, c->file);
    if (dt_status_ok(&c->status))
        c->status = check_sequences(c->index, c->file);
    if (dt_status_ok(&c->status))
        c->status = check_documents(c->index);
}

/* ---- opening ---- */

static DtStatus cut_short(const Index *index)
{
    return dt_status_fail(DT_EXIT_IO, "%.250s was cut short while it is read", index->path);
}

/* Maps and checks the index of a file; the caller unmaps it, also after a failure. */
static DtStatus open_index(DtTokenFile *file, DtText *path, Index *ret_index)
{
    const size_t len = strlen(file->path);
    *ret_index = (Index){0};
    if (len < 4 || strcmp(file->path + len - 4, ".bin") != 0)
        return dt_status_fail(DT_EXIT_IO,
                              "%.250s: `megatron` takes the names of .bin files, and reads the "
                              ".idx file of the same name for each",
                              file->path);
    dt_text_printf(path, "%.*s.idx", (int)(len - 4), file->path);
    ret_index->path = path->at;
    DtStatus status = dt_file_map(path->at, &ret_index->view);
    Check check = {ret_index, file, DT_OK};
    if (!dt_status_ok(&status))
        return dt_status_fail(status.code, "%.200s is read by its index: %.250s", file->path,
                              status.message);
    if (dt_tryread(&ret_index->view, check_index, &check))
        return cut_short(ret_index);
    return check.status;
}

DtStatus dt_datamegatron_layout(DtTokenFile *file)
{
    DtText path = {0};
    Index index;
    DtStatus status = open_index(file, &path, &index);
    file->skip = 0;
    file->n = dt_status_ok(&status) ? (int64_t)(file->view.len / (size_t)file->number.width) : 0;
    dt_file_unmap(&index.view);
    dt_text_free(&path);
    return status;
}

/* ---- documents ---- */

/* What the last tokens of documents are. */
typedef struct Ends {
    const Index *index;
    const DtTokenFile *file;
    int64_t places[LOOK_DOCUMENTS]; /* of last tokens in the file */
    uint32_t n;
} Ends;

/* Finds the places of last tokens of at most LOOK_DOCUMENTS documents, spread over the file. */
static void find_ends(void *context)
{
    Ends *e = context;
    const Index *x = e->index;
    const uint64_t documents = x->documents - 1,
                   n = documents < LOOK_DOCUMENTS ? documents : LOOK_DOCUMENTS;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t last = (uint64_t)document_of(x, (i + 1) * documents / n);
        const int64_t end = last < x->sequences ? pointer_of(x, last) / e->file->number.width
                                                : e->file->n;
        if (end > 0)
            e->places[e->n++] = end - 1;
    }
}

/* Reads the last tokens; returns whether they are all alike. */
static bool are_alike(const DtTokenFile *file, const Ends *ends, int32_t *ret_end)
{
    bool alike = true;
    for (uint32_t i = 0; i < ends->n && alike; i++) {
        int32_t token;
        const uint8_t *at = file->view.at + ends->places[i] * file->number.width;
        uint8_t bytes[8];
        if (dt_tryread_copy(&file->view, bytes, at, (size_t)file->number.width) ||
            dt_datanumbers_convert(bytes, &file->number, 1, &token) < 1)
            return false; /* reading says so, with the place */
        alike = i == 0 || token == *ret_end;
        *ret_end = token;
    }
    return alike;
}

/* Notes that the documents of a file end with different tokens; *said: it does. */
static DtStatus look_at(const DtData *data, const DtTokenFile *of, DtText *ret_notes, bool *said)
{
    DtTokenFile file = *of;
    DtText path = {0};
    Index index;
    Ends ends = {&index, &file, {0}, 0};
    int32_t end = 0;
    DtStatus status = open_index(&file, &path, &index);
    if (dt_status_ok(&status) && dt_tryread(&index.view, find_ends, &ends))
        status = cut_short(&index);
    *said = dt_status_ok(&status) && ends.n > 1 && !are_alike(&file, &ends, &end);
    if (*said) {
        dt_data_begin_note(data, ret_notes);
        dt_text_printf(ret_notes,
                       "warning: the %llu documents of %s end with different tokens, so a model "
                       "cannot see where one ends: preprocess_data.py --append-eod puts an end "
                       "token after each",
                       (unsigned long long)index.documents - 1, file.path);
    }
    dt_file_unmap(&index.view);
    dt_text_free(&path);
    return status;
}

DtStatus dt_datamegatron_look(const DtData *data, DtText *ret_notes)
{
    bool said = false;
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < data->tokens.n_files && dt_status_ok(&status) && !said; i++)
        status = look_at(data, &data->tokens.files[i], ret_notes, &said);
    return status;
}
