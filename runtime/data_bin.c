/* SPDX-License-Identifier: Apache-2.0 */
/* Where the numbers of a file begin: at once, or after the header of an idx file (data_idx.c) or of
 * llm.c. The latter has 256 32-bit integers: a magic number, a version, the count of tokens, zeros
 * (20240520, 1: 16 bit; 20240801, 7: 32 bit; llm.c, dev/data/data_common.py). */
#include "runtime/data.h"

#include <string.h>

enum { HEADER_BYTES = 256 * 4 };

typedef struct Format {
    uint32_t magic, version;
    int width;
} Format;

static const Format formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static const Format *find_format(const DtTokenFile *file, uint32_t ret_words[3])
{
    if (file->view.len < HEADER_BYTES)
        return NULL;
    memcpy(ret_words, file->view.at, 3 * sizeof ret_words[0]);
    for (size_t i = 0; i < DT_COUNT(formats); i++)
        if (formats[i].magic == ret_words[0])
            return &formats[i];
    return NULL;
}

static DtStatus after_header(const DtTokenFormat *how, const Format *format,
                             const uint32_t words[3], DtTokenFile *file)
{
    const int width = how->width;
    if (words[1] != format->version)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s has the header of llm.c with version %u; only version %u can be read",
            file->path, words[1], format->version);
    if (width != format->width || how->dtype >= DT_PLAN_F16)
        return dt_status_fail(
            DT_EXIT_IO, "%.200s holds %d-bit tokens (header of llm.c); read it as `bin(..., u%d)`",
            file->path, 8 * format->width, 8 * format->width);
    uint64_t body = file->view.len - HEADER_BYTES;
    if (body != (uint64_t)words[2] * (uint64_t)width)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s: its header promises %u tokens, it has %llu bytes of them; perhaps a "
            "part of the file is missing",
            file->path, words[2], (unsigned long long)body);
    file->skip = HEADER_BYTES;
    file->n = words[2];
    return DT_OK;
}

static DtStatus whole_file(const DtTokenFormat *how, DtTokenFile *file)
{
    if (file->view.len % (size_t)how->width != 0)
        return dt_status_fail(DT_EXIT_IO, "%.200s has %zu bytes, no whole number of %d-bit %s",
                              file->path, file->view.len, 8 * how->width,
                              how->dtype >= DT_PLAN_F16 ? "floats" : "tokens");
    file->skip = 0;
    file->n = (int64_t)(file->view.len / (size_t)how->width);
    return DT_OK;
}

DtStatus dt_databin_layout(const DtTokenFormat *how, DtTokenFile *file)
{
    uint32_t words[3];
    const Format *format = how->width > 1 && !how->raw ? find_format(file, words) : NULL;
    bool is_idx = false;
    if (how->raw)
        return whole_file(how, file);
    DtStatus status = dt_dataknown_refuse(how->text, file);
    if (dt_status_ok(&status))
        status = dt_dataidx_layout(how, file, &is_idx);
    if (!dt_status_ok(&status) || is_idx)
        return status;
    return format != NULL ? after_header(how, format, words, file) : whole_file(how, file);
}
