/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing safetensors files. */
#include "runtime/safetensors.h"

#include "base/hash.h"
#include "base/jsonshape.h"
#include "base/text.h"
#include "base/tryread.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MAX_HEADER = 64 << 20, ALIGN = 8 };

static const char *const dtype_names[DT_PLAN_DTYPES] = {
    [DT_PLAN_BOOL] = "BOOL", [DT_PLAN_U8] = "U8",   [DT_PLAN_U16] = "U16", [DT_PLAN_U32] = "U32",
    [DT_PLAN_I32] = "I32",   [DT_PLAN_I64] = "I64", [DT_PLAN_F16] = "F16", [DT_PLAN_BF16] = "BF16",
    [DT_PLAN_F32] = "F32",   [DT_PLAN_F64] = "F64"};

const char *dt_safetensors_dtype(uint32_t dtype)
{
    return dtype < DT_PLAN_DTYPES ? dtype_names[dtype] : "?";
}

int64_t dt_safetensors_bytes(uint32_t dtype, const int64_t *extents, uint32_t n_axes)
{
    int64_t bytes = dt_kinds_size(dtype);
    if (bytes == 0)
        return -1;
    for (uint32_t a = 0; a < n_axes; a++)
        if (extents[a] < 0 || __builtin_mul_overflow(bytes, extents[a], &bytes))
            return -1;
    return bytes;
}

/* ---- writing ---- */

static bool add_tensor(json_t *header, const DtTensor *tensor, int64_t begin)
{
    json_t *shape = json_array();
    for (uint32_t a = 0; a < tensor->n_axes; a++)
        json_array_append_new(shape, json_integer(tensor->extents[a]));
    const char *type =
        tensor->dtype < DT_PLAN_DTYPES ? dt_safetensors_dtype(tensor->dtype) : tensor->type;
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape, "data_offsets",
                  (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
    if (entry == NULL || json_object_get(header, tensor->name) != NULL) {
        json_decref(entry);
        return false;
    }
    return json_object_set_new(header, tensor->name, entry) == 0;
}

/* Appends the length, the header, and blanks. */
DtStatus dt_safetensors_header(const char *path, const DtTensor *tensors, uint32_t n,
                               DtText *ret_bytes)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    int64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!add_tensor(header, &tensors[i], at)) {
            json_decref(header);
            return dt_status_fail(
                DT_EXIT_FAILED,
                "cannot write %.200s: two tensors are called `%.100s`, or that is no "
                "UTF-8",
                path, tensors[i].name);
        }
        at += tensors[i].bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (text == NULL)
        return dt_status_fail(DT_EXIT_RETRY, "cannot write %.200s: no memory for its header", path);
    uint64_t len = strlen(text), padded = (len + ALIGN - 1) / ALIGN * ALIGN;
    char length[8];
    memcpy(length, &padded, sizeof length);
    dt_text_add_n(ret_bytes, length, sizeof length);
    dt_text_add_n(ret_bytes, text, len);
    dt_text_add_n(ret_bytes, "       ", padded - len);
    free(text);
    return DT_OK;
}

/* Writes the tensor in pieces, so that its source needs no memory for a whole tensor, and sets its
 * digest. */
static DtStatus write_tensor(DtFileWriter *writer, DtTensor *tensor, uint32_t number, int64_t piece,
                             DtTensorSource source, void *context)
{
    DtStatus status = DT_OK;
    DtHashStream *stream = dt_hash_begin(0);
    for (int64_t first = 0; first < tensor->bytes && dt_status_ok(&status); first += piece) {
        const int64_t left = tensor->bytes - first, n = left < piece ? left : piece;
        const void *bytes = source(context, number, first, n, &status);
        if (!dt_status_ok(&status))
            break;
        dt_hash_add(stream, bytes, (size_t)n);
        status = dt_file_writer_append(writer, bytes, (size_t)n);
    }
    tensor->digest = dt_hash_end(stream);
    return status;
}

static DtStatus write_tensors(DtFileWriter *writer, DtTensor *tensors, uint32_t n, int64_t piece,
                              DtTensorSource source, void *context)
{
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < n && dt_status_ok(&status); i++)
        status = write_tensor(writer, &tensors[i], i, piece, source, context);
    return status;
}

DtStatus dt_safetensors_write(const char *path, DtTensor *tensors, uint32_t n, int64_t piece,
                              DtTensorSource source, void *context, DtTensorsId *ret_id)
{
    DtText header = {0};
    DtFileWriter writer;
    DtStatus status = dt_safetensors_header(path, tensors, n, &header);
    if (!dt_status_ok(&status))
        return status;
    *ret_id = (DtTensorsId){(int64_t)header.len, dt_hash_bytes(header.at, header.len, 0)};
    for (uint32_t i = 0; i < n; i++)
        ret_id->bytes += tensors[i].bytes;
    status = dt_file_writer_open(&writer, path);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&writer, header.at, header.len);
    if (dt_status_ok(&status))
        status = write_tensors(&writer, tensors, n, piece, source, context);
    if (dt_status_ok(&status))
        status = dt_file_writer_commit(&writer);
    else
        dt_file_writer_abandon(&writer);
    dt_text_free(&header);
    return status;
}

/* ---- reading ---- */

static bool read_dtype(const json_t *value, uint32_t *ret_dtype)
{
    const char *name = json_string_value(value);
    for (uint32_t d = 0; name && d < DT_PLAN_DTYPES; d++)
        if (strcmp(dtype_names[d], name) == 0) {
            *ret_dtype = d;
            return true;
        }
    return false;
}

static bool read_shape(const json_t *value, DtTensor *tensor)
{
    if (!json_is_array(value) || json_array_size(value) > DT_PLAN_MAX_RANK)
        return false;
    tensor->n_axes = (uint32_t)json_array_size(value);
    for (uint32_t a = 0; a < tensor->n_axes; a++) {
        const json_t *extent = json_array_get(value, a);
        if (!json_is_integer(extent))
            return false;
        tensor->extents[a] = json_integer_value(extent);
    }
    if (tensor->dtype == DT_PLAN_DTYPES) /* the size of an element is not known */
        return true;
    tensor->bytes = dt_safetensors_bytes(tensor->dtype, tensor->extents, tensor->n_axes);
    return tensor->bytes >= 0;
}

/* Reads the entry of a tensor. Returns what is wrong with it, or NULL. */
static const char *read_tensor(DtArena *arena, const json_t *entry, const uint8_t *data,
                               uint64_t len, bool is_foreign, DtTensor *tensor)
{
    if (!json_is_object(entry))
        return "is no description of a tensor";
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    if (!read_dtype(json_object_get(entry, "dtype"), &tensor->dtype)) {
        if (!is_foreign || type == NULL)
            return "has a dtype that cannot be read";
        tensor->dtype = DT_PLAN_DTYPES;
    }
    tensor->type = dt_arena_strndup(arena, type, strlen(type));
    if (!read_shape(json_object_get(entry, "shape"), tensor))
        return "has a shape that cannot be read";
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return "has no data_offsets";
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (uint64_t)end > len)
        return "lies outside of the file";
    if (tensor->dtype == DT_PLAN_DTYPES)
        tensor->bytes = end - begin;
    if (end - begin != tensor->bytes)
        return "has another number of bytes than its shape says";
    tensor->at = data + begin;
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const DtTensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    const DtTensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Checks that the tensors cover the data without holes or overlaps. */
static DtStatus check_cover(const char *path, DtTensorFile *file, const uint8_t *data, uint64_t len)
{
    qsort(file->tensors, file->n, sizeof *file->tensors, by_place);
    const uint8_t *at = data;
    for (uint32_t i = 0; i < file->n; i++) {
        if (file->tensors[i].at != at)
            return dt_status_fail(
                DT_EXIT_IO, "%.300s is damaged: tensor `%.100s` %s", path, file->tensors[i].name,
                file->tensors[i].at < at ? "overlaps with another" : "follows a hole");
        at += file->tensors[i].bytes;
    }
    if (at != data + len)
        return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: bytes after its last tensor", path);
    qsort(file->tensors, file->n, sizeof *file->tensors, by_name);
    return DT_OK;
}

/* Whether the header could describe tensors, before a parser allocates for it: brackets are three
 * deep at most, and there are no more of them, and of values, than in the shortest descriptions. */
static bool is_modest(const char *text, uint64_t len)
{
    const DtJsonShape shape = dt_jsonshape_count(text, len);
    return shape.depth <= 3 && shape.brackets <= len / 16 + 8 && shape.values <= len / 4 + 8;
}

static DtStatus read_header(DtArena *arena, const char *path, json_t *header, const uint8_t *data,
                            uint64_t len, bool is_foreign, DtTensorFile *file)
{
    const char *name;
    json_t *entry;
    file->tensors = DT_NEW_ARRAY(arena, DtTensor, json_object_size(header) + 1);
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        DtTensor *tensor = &file->tensors[file->n++];
        tensor->name = dt_arena_strndup(arena, name, strlen(name));
        const char *wrong = read_tensor(arena, entry, data, len, is_foreign, tensor);
        if (wrong)
            return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: tensor `%.100s` %s", path, name,
                                  wrong);
    }
    return check_cover(path, file, data, len);
}

/* Copies the first bytes of the file; another process may cut the file short meanwhile. */
static DtStatus copy_bytes(const char *path, const DtTensorFile *file, void *to, uint64_t len)
{
    const uint8_t *missing = dt_tryread_copy(&file->view, to, file->view.at, (size_t)len);
    return missing ? dt_safetensors_cut(path, file, missing) : DT_OK;
}

static DtStatus read_file(DtArena *arena, const char *path, bool is_foreign, DtTensorFile *file)
{
    uint64_t len = file->view.len, header_len = 0;
    json_error_t error;
    DtStatus status = len >= 8 ? copy_bytes(path, file, &header_len, 8) : DT_OK;
    if (!dt_status_ok(&status))
        return status;
    if (len < 8 || header_len > len - 8 || header_len > MAX_HEADER)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.300s is damaged or no safetensors file: it has %llu bytes, its header is to "
            "have %llu",
            path, (unsigned long long)len, (unsigned long long)header_len);
    const uint8_t *data = file->view.at + 8 + header_len;
    char *bytes = dt_arena_alloc(arena, (size_t)header_len + 8);
    status = copy_bytes(path, file, bytes, header_len + 8);
    if (!dt_status_ok(&status))
        return status;
    file->id = (DtTensorsId){(int64_t)len, dt_hash_bytes(bytes, 8 + header_len, 0)};
    json_t *header = is_modest(bytes + 8, header_len)
                         ? json_loadb(bytes + 8, header_len, JSON_REJECT_DUPLICATES, &error)
                         : NULL;
    if (!json_is_object(header)) {
        json_decref(header);
        return dt_status_fail(
            DT_EXIT_IO, "%.300s is damaged or no safetensors file: its header is no JSON object",
            path);
    }
    status = read_header(arena, path, header, data, len - 8 - header_len, is_foreign, file);
    json_decref(header);
    return status;
}

/* A copy may read the end of its source first, so the address of the failed read does not tell
 * where the file now ends. Its new size does, if the file still has its name. */
DtStatus dt_safetensors_cut(const char *path, const DtTensorFile *file, const uint8_t *missing)
{
    struct stat stat_of;
    int64_t end = missing - file->view.at;
    if (stat(path, &stat_of) == 0 && stat_of.st_size < end)
        end = stat_of.st_size;
    return dt_status_fail(DT_EXIT_IO,
                          "%.300s was cut short while it was read: byte %lld and what follows is "
                          "gone; the file had %zu bytes",
                          path, (long long)end, file->view.len);
}

static DtStatus open_file(DtArena *arena, const char *path, bool is_foreign, DtTensorFile *ret_file)
{
    *ret_file = (DtTensorFile){0};
    DtStatus status = dt_file_map(path, &ret_file->view);
    if (dt_status_ok(&status) && ret_file->view.at && !is_foreign) /* only a hint */
        madvise((void *)(uintptr_t)ret_file->view.at, ret_file->view.len, MADV_RANDOM);
    if (dt_status_ok(&status))
        status = read_file(arena, path, is_foreign, ret_file);
    if (!dt_status_ok(&status))
        dt_safetensors_close(ret_file);
    return status;
}

DtStatus dt_safetensors_open(DtArena *arena, const char *path, DtTensorFile *ret_file)
{
    return open_file(arena, path, false, ret_file);
}

DtStatus dt_safetensors_open_foreign(DtArena *arena, const char *path, DtTensorFile *ret_file)
{
    return open_file(arena, path, true, ret_file);
}

void dt_safetensors_close(DtTensorFile *file)
{
    dt_file_unmap(&file->view);
    file->n = 0;
}

const DtTensor *dt_safetensors_find(const DtTensorFile *file, const char *name)
{
    DtTensor key = {.name = name};
    return file->n ? bsearch(&key, file->tensors, file->n, sizeof key, by_name) : NULL;
}
