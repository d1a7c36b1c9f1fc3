/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises files, by their first bytes, that `text` and `bin` would read as numbers but that
 * have another format. One row per format, with a proposal; the bytes are those of the formats'
 * specifications. `raw` reads such files all the same. */
#include "runtime/data.h"

#include <string.h>

typedef bool Also(const DtFileView *view);

typedef struct Known {
    const char *bytes;
    size_t len, offset;
    enum {
        ANY,
        TEXT_ONLY,
        BIN_ONLY
    } where;         /* TEXT_ONLY: the row applies to `text` only, since numbers may begin with
                      * these bytes; BIN_ONLY: to `bin` only, since text may */
    Also *also;      /* a further condition, or NULL */
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

static bool has_at(const DtFileView *view, size_t offset, const char *text)
{
    return view->len >= offset + strlen(text) && memcmp(view->at + offset, text, strlen(text)) == 0;
}

static bool is_webp(const DtFileView *view) { return has_at(view, 8, "WEBP"); }
static bool is_wave(const DtFileView *view) { return has_at(view, 8, "WAVE"); }

/* Whether the name of the first file of the archive ends so. */
static bool first_ends(const DtFileView *view, const char *end)
{
    const size_t n = strlen(end);
    uint16_t len = 0;
    if (view->len >= 30)
        memcpy(&len, view->at + 26, sizeof len);
    return len >= n && has_at(view, 30 + (size_t)len - n, end);
}

static bool is_npz(const DtFileView *view) { return first_ends(view, ".npy"); }
static bool is_torch(const DtFileView *view) { return first_ends(view, "/data.pkl"); }
static bool is_excel(const DtFileView *view)
{
    return first_ends(view, "[Content_Types].xml") || first_ends(view, "_rels/.rels") ||
           first_ends(view, "docProps/app.xml");
}

/* Whether the file begins with a record of a TFRecord file: its length, and the masked CRC-32C of
 * the length. */
static bool is_record(const DtFileView *view)
{
    uint64_t len;
    uint32_t crc = UINT32_MAX, masked;
    if (view->len < 16)
        return false;
    memcpy(&len, view->at, sizeof len);
    memcpy(&masked, view->at + sizeof len, sizeof masked);
    for (size_t i = 0; i < sizeof len; i++) {
        crc ^= view->at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return len <= view->len - 16 && masked == (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Whether the length after two letters is the size of the file, as in a BMP file. */
static bool has_its_length(const DtFileView *view)
{
    uint32_t len = 0;
    if (view->len >= 6)
        memcpy(&len, view->at + 2, sizeof len);
    return len == view->len;
}

#define ARRAY "read it as `npy(...)`"
#define FETCH "it is what a server answered, or a reference to the file; fetch the file itself"
#define PIXELS "PIL.Image.open(FILE).convert('RGB').save('NEW.png'), then `images('NEW.png')`"
#define IMAGE "read it as `images(...)`"
#define UNPACK(command) "unpack it first (" command ")"
#define EXPORT "write its text, or its tokens, to plain files first"
#define SAVE(value) "numpy.save(NEW, " value "), then `npy(NEW)`"
#define COLUMNS(table)                          \
    "for numbers " SAVE(table "[NAMES].values") \
    "; for text open(NEW, 'w').write('\\n'.join(" table "['NAME']))"
#define UNPICKLE SAVE("numpy.asarray(pickle.load(open(FILE, 'rb')))")
#define NO_DATA "it holds no text or tokens; check the path"
#define RECODE "recode it first: iconv -f UTF-16 -t UTF-8"
#define AS(what) "read it as `bin(..., " what ")`"

#define ROW(bytes, offset, where, also, name, instead)              \
    {                                                               \
        bytes, sizeof bytes - 1, offset, where, also, name, instead \
    }
static const Known known[] = {
    ROW("\x93NUMPY", 0, ANY, NULL, "a NumPy array (.npy)", ARRAY),
    ROW("MMIDIDX\0\0", 0, ANY, NULL, "the index of a pair that Megatron-LM wrote",
        "read the pair as `megatron(\"NAME.bin\")`"),
    ROW("{\"", 8, ANY, header_fits, "a safetensors file",
        "it holds parameters, or write one tensor's numbers alone"),
    ROW("", 0, ANY, is_record, "a TFRecord file",
        "write the numbers of its records alone: numpy.stack([...]).tofile(NEW) of what "
        "tf.data.TFRecordDataset(FILE) and tf.io.parse_single_example give, then `bin(NEW, ...)`"),
    ROW("PAR1", 0, ANY, ends_as_it_begins, "a Parquet file",
        COLUMNS("pandas.read_parquet(FILE)")),
    ROW("ARROW1\0\0", 0, ANY, NULL, "an Arrow file",
        COLUMNS("pandas.read_feather(FILE)")),
    ROW("\x89HDF\r\n\x1a\n", 0, ANY, NULL, "an HDF5 file",
        SAVE("h5py.File(FILE)['NAME'][:]")),
    ROW("SQLite format 3\0", 0, ANY, NULL, "an SQLite database",
        COLUMNS("pandas.read_sql(QUERY, sqlite3.connect(FILE))")),
    ROW("%PDF-", 0, ANY, NULL, "a PDF", EXPORT),
    ROW("\x80\x04\x95", 0, ANY, NULL, "a Python pickle", UNPICKLE),
    ROW("\x80\x05\x95", 0, ANY, NULL, "a Python pickle", UNPICKLE),
    ROW("\x80\x02}q", 0, ANY, NULL, "a Python pickle", UNPICKLE),
    ROW("\x80\x02\x8a\x0a", 0, ANY, NULL, "a Python pickle (torch.save)",
        SAVE("torch.load(FILE)['NAME'].numpy()")),
    ROW("\x80\x03}q", 0, ANY, NULL, "a Python pickle", UNPICKLE),
    ROW("Obj\x01", 0, ANY, NULL, "an Avro file", EXPORT),
    ROW("MATLAB 5.0 MAT-file", 0, BIN_ONLY, NULL, "a MATLAB file",
        SAVE("scipy.io.loadmat(FILE)['NAME']")),
    ROW("version https://git-lfs.github.com/spec/", 0, ANY, NULL, "a reference of Git LFS",
        "git lfs pull fetches the file"),
    ROW("<!DOCTYPE html", 0, BIN_ONLY, NULL, "an HTML page", FETCH),
    ROW("<html", 0, BIN_ONLY, NULL, "an HTML page", FETCH),
    ROW("<?xml", 0, BIN_ONLY, NULL, "XML", FETCH),
    ROW("\x1f\x8b\x08", 0, ANY, NULL, "compressed (gzip)", UNPACK("gunzip")),
    ROW("\x28\xb5\x2f\xfd", 0, ANY, NULL, "compressed (zstd)", UNPACK("unzstd")),
    ROW("\xfd"
        "7zXZ\0",
        0, ANY, NULL, "compressed (xz)", UNPACK("unxz")),
    ROW("1AY&SY", 4, ANY, NULL, "compressed (bzip2)", UNPACK("bunzip2")),
    ROW("\x04\x22\x4d\x18", 0, ANY, NULL, "compressed (lz4)", UNPACK("unlz4")),
    ROW("PK\x03\x04", 0, ANY, is_npz, "a zip archive of NumPy arrays (.npz)",
        "write one of its arrays, numpy.save(NEW, numpy.load(FILE)['NAME']), then `npy(NEW)`"),
    ROW("PK\x03\x04", 0, ANY, is_torch, "a file of PyTorch (.pt)",
        SAVE("torch.load(FILE)['NAME'].numpy()")),
    ROW("PK\x03\x04", 0, ANY, is_excel, "a workbook of Excel, or another document",
        "pandas.read_excel(FILE).to_csv(NEW, index=False), then `csv(NEW)`"),
    ROW("PK\x03\x04", 0, ANY, NULL, "a zip archive (.zip, .docx)", UNPACK("unzip")),
    ROW("PK\x05\x06", 0, ANY, NULL, "an empty zip archive", NO_DATA),
    ROW("7z\xbc\xaf\x27\x1c", 0, ANY, NULL, "a 7z archive", UNPACK("7z x")),
    ROW("Rar!\x1a\x07", 0, ANY, NULL, "a rar archive", UNPACK("unrar x")),
    ROW("ustar", 257, ANY, NULL, "a tar archive", UNPACK("tar xf")),
    ROW("\x89PNG\r\n\x1a\n", 0, ANY, NULL, "a PNG image", IMAGE),
    ROW("\xff\xd8\xff", 0, ANY, NULL, "a JPEG image", IMAGE),
    ROW("GIF87a", 0, ANY, NULL, "a GIF image", PIXELS),
    ROW("GIF89a", 0, ANY, NULL, "a GIF image", PIXELS),
    ROW("RIFF", 0, ANY, is_webp, "a WebP image", PIXELS),
    ROW("RIFF", 0, ANY, is_wave, "a WAVE sound", EXPORT),
    ROW("BM", 0, ANY, has_its_length, "a BMP image", PIXELS),
    ROW("II*\0", 0, ANY, NULL, "a TIFF image", PIXELS),
    ROW("MM\0*", 0, ANY, NULL, "a TIFF image", PIXELS),
    ROW("\x7f"
        "ELF",
        0, ANY, NULL, "a program or library (ELF)", NO_DATA),
    ROW("GGUF", 0, ANY, NULL, "a GGUF file", "it holds parameters, no data"),
    ROW("DTPLAN\r\n", 0, ANY, NULL, "a plan", NO_DATA),
    ROW("\xff\xfe", 0, TEXT_ONLY, NULL, "UTF-16 text", RECODE),
    ROW("\xfe\xff", 0, TEXT_ONLY, NULL, "UTF-16 text", RECODE),
    ROW("\x88\xd8\x34\x01", 0, TEXT_ONLY, NULL, "16-bit tokens with the header of llm.c",
        AS("u16")),
    ROW("\xa1\xd9\x34\x01", 0, TEXT_ONLY, NULL, "32-bit tokens with the header of llm.c",
        AS("u32")),
};

static bool begins_so(const Known *k, const DtFileView *view)
{
    if (view->len < k->offset + k->len)
        return false;
    if (k->len > 0 && memcmp(view->at + k->offset, k->bytes, k->len) != 0)
        return false;
    return k->also == NULL || k->also(view);
}

DtStatus dt_dataknown_refuse(bool text, const DtTokenFile *file)
{
    for (size_t i = 0; i < DT_COUNT(known); i++) {
        const Known *k = &known[i];
        const bool here = k->where == ANY || k->where == (text ? TEXT_ONLY : BIN_ONLY);
        if (here && begins_so(k, &file->view))
            return dt_status_fail(DT_EXIT_IO,
                                  "%.180s is %s: %s (`bin(..., u8, raw)` reads any file's bytes)",
                                  file->path, k->name, k->instead);
    }
    return DT_OK;
}
