/* SPDX-License-Identifier: Apache-2.0 */
/* idx files, as MNIST has them (http://yann.lecun.com/exdb/mnist): two zero bytes, a type, the
 * number of axes, the extent of each axis as a big-endian u32, then the elements, the last axis
 * fastest. The first axis counts samples. A file of bytes is read as `bin(..., u8)`: labels have a
 * header of 8 bytes, images one of 16. */
#include "runtime/data.h"

#include <string.h>

enum { MOST_AXES = 8 };

typedef struct Header {
    uint8_t type, n_axes;
    uint64_t extent[MOST_AXES];
    uint64_t elements; /* product of all extents; UINT64_MAX: more than any file has */
    size_t bytes;      /* bytes of the header */
} Header;

typedef struct Type {
    uint8_t type;
    int width;
    const char *name, *numpy;
} Type;

static const Type types[] = {
    {0x08, 1, "bytes", "u1"},
    {0x09, 1, "signed bytes", "i1"},
    {0x0b, 2, "16-bit integers", ">i2"},
    {0x0c, 4, "32-bit integers", ">i4"},
    {0x0d, 4, "32-bit floats", ">f4"},
    {0x0e, 8, "64-bit floats", ">f8"},
};

static const Type *type_of(uint8_t type)
{
    for (size_t i = 0; i < DT_COUNT(types); i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

/* Whether the file begins as an idx file does. */
static bool read_header(const DtFileView *view, Header *ret_header)
{
    Header *h = ret_header;
    *h = (Header){.elements = 1};
    if (view->len < 8 || view->at[0] != 0 || view->at[1] != 0 || !type_of(view->at[2]))
        return false;
    h->type = view->at[2];
    h->n_axes = view->at[3];
    h->bytes = 4 + 4 * (size_t)h->n_axes;
    if (h->n_axes < 1 || h->n_axes > MOST_AXES || h->bytes > view->len)
        return false;
    for (uint32_t a = 0; a < h->n_axes; a++) {
        const uint8_t *at = view->at + 4 + 4 * a;
        h->extent[a] = (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
        if (__builtin_mul_overflow(h->elements, h->extent[a], &h->elements))
            h->elements = UINT64_MAX;
    }
    return true;
}

/* Whether the elements fill the rest of the file exactly. */
static bool fills_file(const Header *header, const DtFileView *view)
{
    uint64_t bytes;
    return !__builtin_mul_overflow(header->elements, (uint64_t)type_of(header->type)->width,
                                   &bytes) &&
           bytes == view->len - header->bytes;
}

/* Appends the extents in a header, such as "28 x 28". */
static void add_shape(DtText *text, const Header *header)
{
    for (uint32_t a = 1; a < header->n_axes; a++)
        dt_text_printf(text, "%s%llu", a > 1 ? " x " : "", (unsigned long long)header->extent[a]);
    if (header->n_axes < 2)
        dt_text_add(text, "1");
}

static void add_extents(DtText *text, const DtTokenFormat *format)
{
    for (uint32_t a = 0; a < format->n_axes; a++)
        dt_text_printf(text, "%s%lld", a ? " x " : "", (long long)format->extents[a]);
    if (format->n_axes == 0)
        dt_text_add(text, "1");
}

/* Whether the header's axes match the input's. Axes of one element do not count, and an input of
 * one axis takes the elements in their order. */
static bool same_shape(const Header *header, const DtTokenFormat *format)
{
    uint64_t there[MOST_AXES], product = 1;
    int64_t here[DT_PLAN_MAX_RANK];
    uint32_t n_there = 0, n_here = 0;
    for (uint32_t a = 1; a < header->n_axes; a++) {
        product *= header->extent[a];
        if (header->extent[a] != 1)
            there[n_there++] = header->extent[a];
    }
    for (uint32_t a = 0; a < format->n_axes; a++)
        if (format->extents[a] != 1)
            here[n_here++] = format->extents[a];
    if (n_here == 1)
        return product == (uint64_t)here[0];
    bool same = n_here == n_there;
    for (uint32_t a = 0; same && a < n_here; a++)
        same = there[a] == (uint64_t)here[a];
    return same;
}

static DtStatus check_shape(const DtTokenFormat *format, const DtTokenFile *file,
                            const Header *header)
{
    if (!format->stream && same_shape(header, format))
        return DT_OK;
    DtText there = {0}, here = {0};
    add_shape(&there, header);
    add_extents(&here, format);
    DtStatus status =
        format->stream
            ? dt_status_fail(
                  DT_EXIT_IO,
                  "%.200s is an idx file of %llu samples of %s bytes each, no stream of tokens: "
                  "read it as a source by itself",
                  file->path, (unsigned long long)header->extent[0], there.at)
            : dt_status_fail(
                  DT_EXIT_IO,
                  "%.200s is an idx file of %llu samples of %s bytes each; a sample of `%.60s` has "
                  "%s values",
                  file->path, (unsigned long long)header->extent[0], there.at, format->input,
                  here.at);
    dt_text_free(&there);
    dt_text_free(&here);
    return status;
}

DtStatus dt_dataidx_layout(const DtTokenFormat *format, DtTokenFile *file, bool *ret_is)
{
    Header header;
    const bool wants = format->dtype == DT_PLAN_U8 && !format->text;
    *ret_is = read_header(&file->view, &header);
    if (!*ret_is)
        return DT_OK;
    const Type *type = type_of(header.type);
    const bool whole = fills_file(&header, &file->view);
    /* If bytes are read, a file of one of MNIST's two types is recognised even if it was cut
     * short. */
    *ret_is = whole || (wants && header.type == 0x08 && (header.n_axes == 1 || header.n_axes == 3));
    if (!*ret_is)
        return DT_OK;
    if (!whole)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s begins as an idx file of %llu bytes does, and has %llu after its "
            "header: perhaps a part is missing (`bin(..., u8, raw)` reads any file's bytes)",
            file->path, (unsigned long long)header.elements,
            (unsigned long long)(file->view.len - header.bytes));
    if (!wants || header.type != 0x08)
        return dt_status_fail(
            DT_EXIT_IO, "%.200s is an idx file of %s: %s%s%s", file->path, type->name,
            header.type == 0x08 ? "read it as `bin(..., u8)`"
                                : "write its numbers alone, "
                                  "little-endian: numpy.fromfile(FILE, '",
            header.type == 0x08 ? "" : type->numpy, header.type == 0x08 ? "" : "', offset = ...)");
    file->skip = header.bytes;
    file->n = (int64_t)header.elements;
    return check_shape(format, file, &header);
}
