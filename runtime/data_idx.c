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
    DtDataShape shape;
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
    *h = (Header){.elements = 1, .shape = {.is = "an idx file", .elements = "bytes"}};
    if (view->len < 8 || view->at[0] != 0 || view->at[1] != 0 || !type_of(view->at[2]))
        return false;
    h->type = view->at[2];
    h->n_axes = view->at[3];
    h->bytes = 4 + 4 * (size_t)h->n_axes;
    if (h->n_axes < 1 || h->n_axes > MOST_AXES || h->bytes > view->len)
        return false;
    h->shape.n_axes = h->n_axes;
    for (uint32_t a = 0; a < h->n_axes; a++) {
        const uint8_t *at = view->at + 4 + 4 * a;
        const uint64_t extent =
            (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
        h->shape.extents[a] = extent;
        if (__builtin_mul_overflow(h->elements, extent, &h->elements))
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
    return dt_datashape_check(format, file->path, &header.shape);
}
