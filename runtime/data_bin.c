/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a file of tokens. Little-endian tokens of 16 or 32 bits: nothing else, or with the header of llm.c, 256
 * 32-bit integers that begin with a magic number, a version and the count of tokens (20240520, 1:
 * 16 bit; 20240801, 7: 32 bit; llm.c, dev/data/data_common.py). */
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

static DtStatus after_header(int width, const Format *format, const uint32_t words[3],
                             DtTokenFile *file)
{
    if (words[1] != format->version)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s has the header of llm.c with version %u; only version %u can be read",
            file->path, words[1], format->version);
    if (width != format->width)
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

DtStatus dt_databin_layout(const DtTokenFormat *how, DtTokenFile *file)
{
    uint32_t words[3];
    const Format *format = how->width > 1 ? find_format(file, words) : NULL;
    DtStatus status = how->text || how->width > 1 ? dt_dataknown_refuse(how->text, file) : DT_OK;
    if (!dt_status_ok(&status))
        return status;
    if (format != NULL)
        return after_header(how->width, format, words, file);
    if (file->view.len % (size_t)how->width != 0)
        return dt_status_fail(DT_EXIT_IO, "%.200s has %zu bytes, no whole number of %d-bit tokens",
                              file->path, file->view.len, 8 * how->width);
    file->skip = 0;
    file->n = (int64_t)(file->view.len / (size_t)how->width);
    return DT_OK;
}
