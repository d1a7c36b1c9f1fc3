/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises, by their first bytes, files that `text` and `bin` would read as tokens but that
 * have another format. One row per format, with what to do instead; the bytes are from the
 * formats' own specifications. */
#include "runtime/data.h"

#include <string.h>

typedef bool Also(const DtFileView *view);

typedef struct Known {
    const char *bytes;
    size_t len, offset;
    bool text_only;  /* numbers may begin so */
    Also *also;      /* what else must hold, or NULL */
    const char *name, *instead;
} Known;

/* The first eight bytes are the length of a header that the file can hold. */
static bool header_fits(const DtFileView *view)
{
    uint64_t len;
    memcpy(&len, view->at, sizeof len);
    return len >= 2 && len <= view->len - sizeof len;
}

static bool ends_as_it_begins(const DtFileView *view)
{
    return view->len >= 8 && memcmp(view->at, view->at + view->len - 4, 4) == 0;
}

#define ARRAY "write its numbers alone: numpy.load(FILE).astype('<u2').tofile(NEW), then `bin(NEW, u16)`"
#define UNPACK(command) "unpack it first (" command ")"
#define EXPORT "write its text, or its tokens, to plain files first"
#define NO_DATA "it holds no text or tokens; check the path"
#define RECODE "recode it first: iconv -f UTF-16 -t UTF-8"
#define AS(what) "read it as `bin(..., " what ")`"

#define ROW(bytes, offset, text_only, also, name, instead) \
    {bytes, sizeof bytes - 1, offset, text_only, also, name, instead}
static const Known known[] = {
    ROW("\x93NUMPY", 0, false, NULL, "a NumPy array (.npy)", ARRAY),
    ROW("{\"", 8, false, header_fits, "a safetensors file", "it holds parameters, or write one tensor's numbers alone"),
    ROW("PAR1", 0, false, ends_as_it_begins, "a Parquet file", EXPORT),
    ROW("ARROW1\0\0", 0, false, NULL, "an Arrow file", EXPORT),
    ROW("\x89HDF\r\n\x1a\n", 0, false, NULL, "an HDF5 file", EXPORT),
    ROW("SQLite format 3\0", 0, false, NULL, "an SQLite database", EXPORT),
    ROW("%PDF-", 0, false, NULL, "a PDF", EXPORT),
    ROW("\x80\x04\x95", 0, false, NULL, "a Python pickle", EXPORT),
    ROW("\x80\x05\x95", 0, false, NULL, "a Python pickle", EXPORT),
    ROW("\x1f\x8b\x08", 0, false, NULL, "compressed (gzip)", UNPACK("gunzip")),
    ROW("\x28\xb5\x2f\xfd", 0, false, NULL, "compressed (zstd)", UNPACK("unzstd")),
    ROW("\xfd" "7zXZ\0", 0, false, NULL, "compressed (xz)", UNPACK("unxz")),
    ROW("1AY&SY", 4, false, NULL, "compressed (bzip2)", UNPACK("bunzip2")),
    ROW("\x04\x22\x4d\x18", 0, false, NULL, "compressed (lz4)", UNPACK("unlz4")),
    ROW("PK\x03\x04", 0, false, NULL, "a zip archive (.zip, .npz, .pt, .docx)", UNPACK("unzip")),
    ROW("PK\x05\x06", 0, false, NULL, "an empty zip archive", NO_DATA),
    ROW("7z\xbc\xaf\x27\x1c", 0, false, NULL, "a 7z archive", UNPACK("7z x")),
    ROW("Rar!\x1a\x07", 0, false, NULL, "a rar archive", UNPACK("unrar x")),
    ROW("ustar", 257, false, NULL, "a tar archive", UNPACK("tar xf")),
    ROW("\x89PNG\r\n\x1a\n", 0, false, NULL, "a PNG image", NO_DATA),
    ROW("\xff\xd8\xff", 0, false, NULL, "a JPEG image", NO_DATA),
    ROW("GIF87a", 0, false, NULL, "a GIF image", NO_DATA),
    ROW("GIF89a", 0, false, NULL, "a GIF image", NO_DATA),
    ROW("\x7f" "ELF", 0, false, NULL, "a program or library (ELF)", NO_DATA),
    ROW("GGUF", 0, false, NULL, "a GGUF file", "it holds parameters, no data"),
    ROW("DTPLAN\r\n", 0, false, NULL, "a plan", NO_DATA),
    ROW("\xff\xfe", 0, true, NULL, "UTF-16 text", RECODE),
    ROW("\xfe\xff", 0, true, NULL, "UTF-16 text", RECODE),
    ROW("\x88\xd8\x34\x01", 0, true, NULL, "16-bit tokens with the header of llm.c", AS("u16")),
    ROW("\xa1\xd9\x34\x01", 0, true, NULL, "32-bit tokens with the header of llm.c", AS("u32")),
};

static bool begins_so(const Known *k, const DtFileView *view)
{
    return view->len >= k->offset + k->len && memcmp(view->at + k->offset, k->bytes, k->len) == 0 &&
           (k->also == NULL || k->also(view));
}

DtStatus dt_dataknown_refuse(bool text, const DtTokenFile *file)
{
    for (size_t i = 0; i < DT_COUNT(known); i++) {
        const Known *k = &known[i];
        if ((text || !k->text_only) && begins_so(k, &file->view))
            return dt_status_fail(DT_EXIT_IO, "%.200s is %s: %s (`bin(..., u8)` reads any file's bytes)", file->path,
                                  k->name, k->instead);
    }
    return DT_OK;
}
