/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's files (.npy; NEP 1 and numpy.lib.format describe them): the bytes 0x93 "NUMPY", two bytes
 * of version, the length of the header (2 bytes in version 1, 4 in versions 2 and 3), the header,
 * the elements. The header is a dictionary in the syntax of Python,
 *
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * and blanks up to a newline. It is read, not evaluated. Elements that are Python objects are a
 * pickle in the file, which would run code: such a file is refused, as is whatever else is no plain
 * number. */
#include "runtime/data.h"

#include <ctype.h>
#include <string.h>

enum {
    MAGIC_BYTES = 6,
    MOST_HEADER = 1 << 16, /* bytes; that of an array of numbers has 128 */
    MOST_DTYPE = 32
};

static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

typedef struct Header {
    char dtype[MOST_DTYPE]; /* "<f4"; empty: it is no string, but a list of fields */
    bool is_fortran;
    DtDataShape shape;
    size_t bytes; /* of all that precedes the elements */
} Header;

/* What has not been read of the header's text. */
typedef struct Scan {
    const char *at, *end;
} Scan;

static void skip_blanks(Scan *s)
{
    while (s->at < s->end && isspace((unsigned char)*s->at))
        s->at++;
}

/* Whether the text goes on, after blanks, with this; if so, it has been read. */
static bool take(Scan *s, const char *text)
{
    const size_t n = strlen(text);
    skip_blanks(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* A string without escapes, in either kind of quotes, of printable characters. */
static bool take_string(Scan *s, char ret_text[MOST_DTYPE])
{
    skip_blanks(s);
    const char quote = s->at < s->end ? *s->at : 0;
    if (quote != '\'' && quote != '"')
        return false;
    for (size_t n = 0; ++s->at < s->end && n < MOST_DTYPE; n++) {
        ret_text[n] = *s->at == quote ? '\0' : *s->at;
        if (ret_text[n] == '\0')
            return s->at++, true;
        if (ret_text[n] == '\\' || !isprint((unsigned char)ret_text[n]))
            return false;
    }
    return false;
}

/* A number, perhaps with the L of Python 2. */
static bool take_extent(Scan *s, uint64_t *ret_extent)
{
    skip_blanks(s);
    const char *first = s->at;
    uint64_t n = 0;
    for (; s->at < s->end && isdigit((unsigned char)*s->at); s->at++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*s->at - '0'), &n))
            return false;
    *ret_extent = n;
    const bool any = s->at > first;
    take(s, "L");
    return any;
}

static bool take_shape(Scan *s, DtDataShape *shape)
{
    shape->n_axes = 0;
    if (!take(s, "("))
        return false;
    while (!take(s, ")")) {
        if (shape->n_axes == DT_DATA_SHAPE_AXES ||
            !take_extent(s, &shape->extents[shape->n_axes++]))
            return false;
        if (!take(s, ",") && (shape->n_axes == 1 || s->at == s->end || *s->at != ')'))
            return false;
    }
    return true;
}

/* Reads the value of a key: 0 the dtype, 1 the order, 2 the shape. */
static bool take_value(Scan *s, int key, Header *header)
{
    if (key == 2)
        return take_shape(s, &header->shape);
    if (key == 0)
        return take_string(s, header->dtype);
    header->is_fortran = take(s, "True");
    return header->is_fortran || take(s, "False");
}

/* Reads the dictionary. A list of fields in place of a dtype ends it: nothing more is needed. */
static bool take_dictionary(Scan *s, Header *header)
{
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    bool seen[3] = {false};
    char key[MOST_DTYPE] = "";
    bool good = take(s, "{");
    while (good && !take(s, "}")) {
        int k = 0;
        good = take_string(s, key) && take(s, ":");
        while (k < 3 && strcmp(key, names[k]) != 0)
            k++;
        good = good && k < 3 && !seen[k];
        if (good && k == 0 && take(s, "["))
            return true;
        good = good && take_value(s, k, header);
        if (good)
            seen[k] = true;
        if (good && !take(s, ",")) {
            good = take(s, "}");
            break;
        }
    }
    skip_blanks(s);
    return good && seen[0] && seen[1] && seen[2] && s->at == s->end;
}

static DtStatus refuse(const DtTokenFile *file, const char *why)
{
    return dt_status_fail(DT_EXIT_IO, "%.250s %s", file->path, why);
}

/* Finds the header's text. */
static DtStatus find_header(const DtTokenFile *file, Scan *ret_text, size_t *ret_bytes)
{
    const DtFileView *view = &file->view;
    if (view->len < MAGIC_BYTES + 2 || memcmp(view->at, magic, MAGIC_BYTES) != 0) {
        if (view->len > 4 && memcmp(view->at, "PK\x03\x04", 4) == 0)
            return refuse(file, "is an archive (.npz), no array: numpy.save(NEW, "
                                "numpy.load(FILE)['NAME']) writes one of its arrays");
        DtStatus status = dt_dataknown_refuse(true, file);
        return !dt_status_ok(&status) ? status
                                      : refuse(file, "is no array of NumPy (.npy): it does not "
                                                     "begin with \\x93NUMPY");
    }
    const uint8_t version = view->at[MAGIC_BYTES];
    const size_t width = version == 1 ? 2 : 4, first = MAGIC_BYTES + 2 + width;
    uint32_t len = 0;
    if (version < 1 || version > 3)
        return dt_status_fail(DT_EXIT_IO, "%.250s has version %u of NumPy's format; versions 1 to "
                                          "3 can be read",
                              file->path, version);
    if (view->len < first)
        return refuse(file, "ends within its header: a part is missing");
    memcpy(&len, view->at + MAGIC_BYTES + 2, width);
    if (len > MOST_HEADER)
        return dt_status_fail(DT_EXIT_IO, "%.250s has a header of %u bytes; at most %d can be read",
                              file->path, len, MOST_HEADER);
    if (len > view->len - first)
        return refuse(file, "ends within its header: a part is missing");
    const char *text = (const char *)view->at + first;
    *ret_text = (Scan){text, text + len};
    *ret_bytes = first + len;
    return DT_OK;
}

/* ---- elements ---- */

/* The numbers that a dtype means, such as ">i8". False: they are no plain numbers. */
static bool number_of(const char *dtype, DtNumber *ret_number)
{
    static const struct { char letter; DtNumberKind kind; const char *widths;
    } kinds[] = {{'b', DT_NUMBER_UNSIGNED, "1"},
                 {'u', DT_NUMBER_UNSIGNED, "1248"},
                 {'i', DT_NUMBER_SIGNED, "1248"},
                 {'f', DT_NUMBER_FLOAT, "248"}};
    if (strlen(dtype) != 3 || !strchr("<>|", dtype[0]))
        return false;
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (kinds[i].letter == dtype[1] && strchr(kinds[i].widths, dtype[2])) {
            *ret_number = (DtNumber){.kind = kinds[i].kind, .width = dtype[2] - '0',
                                     .big_endian = dtype[0] == '>' && dtype[2] != '1'};
            return dtype[0] != '|' || dtype[2] == '1';
        }
    return false;
}

static DtStatus refuse_dtype(const DtTokenFile *file, const Header *header)
{
    if (header->dtype[0] == '\0')
        return refuse(file, "has records of several fields: numpy.save(NEW, "
                            "numpy.load(FILE)['NAME']) writes one of them");
    if (strchr(header->dtype, 'O'))
        return refuse(file, "holds Python objects, a pickle, which runs code when it is read: "
                            "write an array of numbers, such as numpy.array(VALUES, 'f4')");
    return dt_status_fail(DT_EXIT_IO,
                          "%.250s has elements of dtype `%s`; integers, bools and floats of 2, 4 "
                          "and 8 bytes can be read: numpy.load(FILE).astype('f4'), say",
                          file->path, header->dtype);
}

static DtStatus check_dtype(const DtTokenFormat *format, const DtTokenFile *file,
                            const Header *header)
{
    const bool wants_floats = format->dtype == DT_PLAN_F64;
    if (dt_datanumbers_is_float(&file->number) == wants_floats)
        return DT_OK;
    const bool wants_bools = format->wants_bools;
    return dt_status_fail(
        DT_EXIT_IO,
        "%.200s has %s (`%s`), and `%.60s` is an input of %s: declare it as %s, or write "
        "numpy.load(FILE).astype('%s')",
        file->path, wants_floats ? "integers" : "floats", header->dtype, format->input,
        wants_floats  ? "floats"
        : wants_bools ? "bool"
                      : "i32",
        wants_floats ? "i32" : "f32",
        wants_floats  ? "f4"
        : wants_bools ? "?"
                      : "i4");
}

/* ---- the array ---- */

/* The product of all extents; UINT64_MAX: more than any file has. */
static uint64_t count(const DtDataShape *shape)
{
    uint64_t product = 1;
    bool over = false;
    for (uint32_t a = 0; a < shape->n_axes; a++) {
        if (shape->extents[a] == 0)
            return 0;
        over |= __builtin_mul_overflow(product, shape->extents[a], &product);
    }
    return over ? UINT64_MAX : product;
}

/* Whether the order of the elements is the same in both orders of the axes. */
static bool is_line(const DtDataShape *shape)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < shape->n_axes; a++)
        n += shape->extents[a] != 1;
    return n <= 1;
}

static DtStatus check_size(const DtTokenFile *file, const Header *header)
{
    const uint64_t n = count(&header->shape), there = file->view.len - header->bytes;
    uint64_t bytes;
    if (__builtin_mul_overflow(n, (uint64_t)file->number.width, &bytes))
        bytes = UINT64_MAX;
    if (bytes == there)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "%.250s: its header promises %llu numbers of %d bytes, and %llu bytes "
                          "follow: %s",
                          file->path, (unsigned long long)n, file->number.width,
                          (unsigned long long)there,
                          bytes > there ? "perhaps a part of it is missing"
                                                           : "it holds something else, too");
}

DtStatus dt_datanpy_layout(const DtTokenFormat *format, DtTokenFile *file)
{
    Header header = {.shape = {.is = "an array", .elements = "numbers", .may_stream = true}};
    Scan text = {0};
    if (file->view.len == 0)
        return DT_OK; /* as an empty file of any source: the caller says so if it is the only one */
    DtStatus status = find_header(file, &text, &header.bytes);
    if (dt_status_ok(&status) && !take_dictionary(&text, &header))
        status = refuse(file, "has a header that is none of NumPy's: is it damaged?");
    if (dt_status_ok(&status) && !number_of(header.dtype, &file->number))
        status = refuse_dtype(file, &header);
    if (dt_status_ok(&status) && header.shape.n_axes == 0)
        status = refuse(file, "is a single number; its first axis should count samples");
    if (dt_status_ok(&status) && header.is_fortran && !is_line(&header.shape))
        status = refuse(file, "is in Fortran's order, the first axis fastest: numpy.save(NEW, "
                              "numpy.ascontiguousarray(numpy.load(FILE))) writes it in C's");
    if (dt_status_ok(&status))
        status = check_size(file, &header);
    if (dt_status_ok(&status))
        status = check_dtype(format, file, &header);
    if (dt_status_ok(&status))
        status = dt_datashape_check(format, file->path, &header.shape);
    file->skip = header.bytes;
    file->n = dt_status_ok(&status) ? (int64_t)count(&header.shape) : 0;
    return status;
}
