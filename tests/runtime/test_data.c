/* SPDX-License-Identifier: Apache-2.0 */
/* Readers: which files and which tokens they read, and their messages if files are missing or
 * wrong. */
#include "data_fixture.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static DataFixture f;
static int32_t tokens[4096], labels[4096];

static void setup(void) { fixture_open(&f, 4, 3); }
static void teardown(void) { fixture_close(&f); }

TestSuite(data, .init = setup, .fini = teardown);

/* Reads all tokens of the split in the order of the file, through an eval reader with rows of one
 * token; returns how many. */
static int64_t read_all(int32_t *ret_tokens)
{
    f.meta.batch = 1;
    f.axes[1].extent = f.axes[1].local = f.inputs[0].row_elements = f.inputs[1].row_elements = 1;
    f.reader.is_eval = 1;
    DtData *data = fixture_data(&f);
    int64_t n = dt_data_batches(data);
    for (int64_t i = 0; i < n; i++)
        fixture_read(data, i, 0, 1, ret_tokens + i, ret_tokens + i + 1);
    dt_data_close(data);
    return n + 1;
}

static void expect_text(const char *text)
{
    int64_t n = read_all(tokens);
    cr_assert_eq(n, (int64_t)strlen(text), "%lld tokens for `%s`", (long long)n, text);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(tokens[i], text[i], "token %lld", (long long)i);
}

static void file(const char *name, const char *text) { fixture_file(&f, name, text, strlen(text)); }

/* ---- which files ---- */

Test(data, bytes_of_text_are_tokens)
{
    file("data.bin", "hello \xff\x80");
    read_all(tokens);
    cr_assert_eq(tokens[0], 'h');
    cr_assert_eq(tokens[6], 0xff);
    cr_assert_eq(tokens[7], 0x80);
}

Test(data, files_in_byte_order_links_once_empty_and_folders_skipped)
{
    file("b.txt", "bb");
    file("B.txt", "BB");
    file("a.txt", "a");
    file("m.txt", "");
    file("z.dat", "zz");
    cr_assert_eq(symlink("b.txt", fixture_path(&f, "c.txt")), 0);
    char to[256];
    strcpy(to, fixture_path(&f, "d.txt"));
    cr_assert_eq(link(fixture_path(&f, "a.txt"), to), 0);
    cr_assert_eq(mkdir(fixture_path(&f, "e.txt"), 0777), 0);
    cr_assert_eq(symlink("nowhere", fixture_path(&f, "f.txt")), 0);
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "*.txt");
    expect_text("BBabb");
}

Test(data, globs_count_from_the_folder_of_the_source_behind_the_plan)
{
    cr_assert_eq(mkdir(fixture_path(&f, "plans"), 0777), 0);
    cr_assert_eq(mkdir(fixture_path(&f, "s[x]*"), 0777), 0);
    file("s[x]*/data.bin", "inside");
    f.reader.folder = fixture_str(&f, "../s[x]*");
    snprintf(f.plan_path, sizeof f.plan_path, "%s/plans/a.plan", f.folder);
    expect_text("inside");
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "d*.bin");
    expect_text("inside");
    f.reader.folder = fixture_str(&f, f.folder);
    file("da.bin", "absolute");
    expect_text("absolute");
    f.reader.folder = fixture_str(&f, "nowhere");
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, fixture_path(&f, "da.bin"));
    expect_text("absolute");
}

Test(data, a_file_may_be_called_like_a_pattern)
{
    file("data[1].bin", "brackets");
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "data[1].bin");
    expect_text("brackets");
}

Test(data, redirects_replace_files_and_folders)
{
    cr_assert_eq(mkdir(fixture_path(&f, "other"), 0777), 0);
    file("other/part.bin", "other part");
    char to[256];
    snprintf(to, sizeof to, "%s/other", f.folder);
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "corpus/part.bin");
    f.options.n_redirects = 1;
    f.options.redirects[0] = (DtRedirect){"corpus", to};
    expect_text("other part");
    f.options.redirects[0] = (DtRedirect){"corpus/", to};
    expect_text("other part");
    f.options.redirects[0] = (DtRedirect){"corpus/part.bin", fixture_path(&f, "other/p*")};
    expect_text("other part");
    char whole[256];
    snprintf(whole, sizeof whole, "%s/corpus", f.folder);
    f.options.redirects[0] = (DtRedirect){whole, to};
    expect_text("other part");
    f.options.redirects[0] = (DtRedirect){"corp", to};
    fixture_refused(&f, "the plan reads no `corp`, only `corpus/part.bin`");
}

/* ---- parts ---- */

Test(data, parts_share_nothing_and_cover_all)
{
    static const double cuts[] = {0.1, 0.3, 0.5, 0.7, 0.9, 0.99};
    for (uint32_t n = 300; n < 330; n++) {
        fixture_count(&f, "data.bin", 0, n);
        fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U32, "data.bin");
        for (size_t c = 0; c < DT_COUNT(cuts); c++) {
            f.reader.from = 0, f.reader.to = cuts[c];
            int64_t before = read_all(tokens);
            cr_assert_eq(tokens[0], 0);
            f.reader.from = cuts[c], f.reader.to = 1;
            int64_t after = read_all(labels);
            cr_assert_eq(labels[0], tokens[before - 1] + 1);
            cr_assert_eq(before + after, n);
            cr_assert_eq(labels[after - 1], (int32_t)n - 1);
            cr_assert_float_eq((double)before, cuts[c] * n, 1.0);
        }
    }
}

Test(data, tokens_run_on_over_files)
{
    fixture_count(&f, "p1.bin", 0, 5);
    fixture_count(&f, "p2.bin", 5, 0);
    fixture_count(&f, "p3.bin", 5, 1);
    fixture_count(&f, "p4.bin", 6, 94);
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U32, "p*.bin");
    f.reader.is_eval = 1;
    DtData *data = fixture_data(&f);
    cr_assert_eq(dt_data_batches(data), 8); /* (100 - 1) / 4 windows, 3 in a batch */
    for (int64_t step = 0; step < 8; step++) {
        fixture_read(data, step, 0, 3, tokens, labels);
        for (int i = 0; i < 12; i++) {
            cr_assert_eq(tokens[i], step * 12 + i);
            cr_assert_eq(labels[i], step * 12 + i + 1);
        }
    }
    dt_data_close(data);
}

Test(data, held_out_data_repeats_its_last_sample)
{
    fixture_count(&f, "data.bin", 0, 31); /* 7 windows: two batches and one more sample */
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U32, "data.bin");
    f.reader.is_eval = 1;
    DtData *data = fixture_data(&f);
    cr_assert_eq(dt_data_samples(data), 7);
    cr_assert_eq(dt_data_batches(data), 2);
    fixture_read(data, 2, 0, 3, tokens, labels);
    cr_assert_eq(tokens[0], 24);
    cr_assert_eq(tokens[4], 24);
    cr_assert_eq(labels[11], 28);
    dt_data_close(data);
}

Test(data, a_source_by_itself_is_cut_without_overlap)
{
    fixture_count(&f, "data.bin", 0, 50);
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U32, "data.bin");
    f.reader.sample = DT_PLAN_RAW;
    f.reader.n_inputs = 1;
    DtData *data = fixture_data(&f);
    cr_assert_eq(dt_data_batches(data), 4); /* 12 rows */
    bool seen[12] = {false};
    for (int64_t step = 0; step < 4; step++) {
        fixture_read(data, step, 0, 3, tokens, NULL);
        for (int r = 0; r < 3; r++) {
            cr_assert_eq(tokens[4 * r] % 4, 0);
            for (int i = 1; i < 4; i++)
                cr_assert_eq(tokens[4 * r + i], tokens[4 * r] + i);
            cr_assert(!seen[tokens[4 * r] / 4]);
            seen[tokens[4 * r] / 4] = true;
        }
    }
    dt_data_close(data);
}

/* ---- binary files ---- */

static void header_file(uint32_t magic, uint32_t version, uint32_t count, const void *body,
                        size_t len)
{
    static char bytes[8192];
    uint32_t head[256] = {magic, version, count};
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + sizeof head, body, len);
    fixture_file(&f, "data.bin", bytes, sizeof head + len);
}

Test(data, llmc_files_begin_with_a_header)
{
    uint16_t narrow[20];
    uint32_t wide[20];
    for (uint32_t i = 0; i < 20; i++)
        narrow[i] = (uint16_t)(50000 + i), wide[i] = 100000 + i;
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U16, "data.bin");
    header_file(20240520, 1, 20, narrow, sizeof narrow);
    cr_assert_eq(read_all(tokens), 20);
    cr_assert_eq(tokens[0], 50000);
    cr_assert_eq(tokens[19], 50019);
    header_file(20240520, 2, 20, narrow, sizeof narrow);
    fixture_refused(&f, "version 2; only version 1 can be read");
    header_file(20240520, 1, 21, narrow, sizeof narrow);
    fixture_refused(&f, "its header promises 21 tokens, it has 40 bytes of them");
    header_file(20240801, 7, 20, wide, sizeof wide);
    fixture_refused(&f, "read it as `bin(..., u32)`");
    f.reader.dtype = DT_PLAN_U32;
    cr_assert_eq(read_all(tokens), 20);
    cr_assert_eq(tokens[19], 100019);
    header_file(20240520, 1, 20, narrow, sizeof narrow);
    fixture_refused(&f, "read it as `bin(..., u16)`");
}

Test(data, raw_files_hold_whole_tokens)
{
    uint16_t narrow[9] = {1, 2, 3, 60000, 5, 6, 7, 8, 9};
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U16, "data.bin");
    fixture_file(&f, "data.bin", narrow, sizeof narrow);
    cr_assert_eq(read_all(tokens), 9);
    cr_assert_eq(tokens[3], 60000);
    fixture_file(&f, "data.bin", narrow, 7);
    fixture_refused(&f, "has 7 bytes, no whole number of 16-bit tokens");
    f.reader.dtype = DT_PLAN_F64;
    fixture_refused(&f, "input `tokens` must be f32");
    f.inputs[0].dtype = f.inputs[1].dtype = DT_PLAN_F32;
    fixture_refused(&f, "`bin` reads u8, u16, u32, i32, i64, f32, f16 or bf16, not f64");
}

Test(data, ids_beyond_31_bits_are_an_error)
{
    uint32_t wide[] = {1, 2, 3, 4, 5, 0x80000000u, 7, 8, 9};
    char *inputs[] = {(char *)tokens, (char *)labels};
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U32, "data.bin");
    fixture_file(&f, "data.bin", wide, sizeof wide);
    f.reader.is_eval = 1;
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_read(data, 0, 0, 1, inputs);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_data_read(data, 0, 1, 1, inputs);
    cr_assert(strstr(status.message, "tiny.dsl:12:3: token number 5 (byte 20) of"), "%s",
              status.message);
    dt_data_close(data);
}

Test(data, bytes_and_signed_numbers)
{
    uint8_t bytes[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 0, 255}; /* with raw, any file can be read */
    int32_t wide[] = {1, -100, INT32_MAX, INT32_MIN, 5};
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U8, "data.bin");
    fixture_file(&f, "data.bin", bytes, sizeof bytes);
    fixture_refused(&f, "is a NumPy array");
    f.reader.raw = 1;
    cr_assert_eq(read_all(tokens), 8);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(tokens[i], bytes[i]);
    f.reader.raw = 0;
    f.reader.dtype = DT_PLAN_I32;
    fixture_file(&f, "data.bin", wide, sizeof wide);
    cr_assert_eq(read_all(tokens), 5);
    cr_assert_arr_eq(tokens, wide, sizeof wide);
}

/* Files of other formats are refused as tokens, for `text` and for `bin`. */
Test(data, files_of_known_formats_are_refused)
{
    static const struct { const char *bytes; size_t len; const char *said; bool numbers;
    } cases[] = {
#define CASE(bytes, said, numbers) {bytes, sizeof bytes - 1, said, numbers}
        CASE("\x93NUMPY\1\0v\0{'descr': '<u2'}",
             "is a NumPy array (.npy): read it as `npy(...)`", true),
        CASE("\x10\0\0\0\0\0\0\0{\"a\": {\"data\": 0}}", "is a safetensors file", true),
        CASE("PAR1 columns and PAR1", 
             "is a Parquet file: for numbers numpy.save(NEW, pandas.read_parquet(FILE)", true),
        CASE("\x03\0\0\0\0\0\0\0\260\231\111\016abc",
             "is a TFRecord file: write the numbers of its records", true),
        CASE("ARROW1\0\0some columns", "is an Arrow file: for numbers", true),
        CASE("\x89HDF\r\n\x1a\n0123456789", 
             "is an HDF5 file: numpy.save(NEW, h5py.File(FILE)['NAME'][:]), then `npy(NEW)`",
             true),
        CASE("SQLite format 3\0 and pages", "is an SQLite database", true),
        CASE("%PDF-1.7 and more", "is a PDF", true),
        CASE("\x80\x04\x95 and a frame", "is a Python pickle", true),
        CASE("\x1f\x8b\x08 and more and more", "is compressed (gzip): unpack it first (gunzip)",
             true),
        CASE("\x28\xb5\x2f\xfd and more", "is compressed (zstd)", true),
        CASE("\xfd"
             "7zXZ\0 and more",
             "is compressed (xz)", true),
        CASE("BZh91AY&SY and more", "is compressed (bzip2)", true),
        CASE("PK\3\4 and more and more", "is a zip archive", true),
        CASE("PK\3\4\x14\0\0\0\0\0\0\0!\0DATA00000000\x05\0\0\0x.npy",
             "is a zip archive of NumPy arrays (.npz)", true),
        CASE("PK\3\4\x14\0\0\0\0\0\0\0!\0DATA00000000\x0a\0\0\0m/data.pkl",
             "is a file of PyTorch (.pt): numpy.save(NEW, torch.load(FILE)['NAME'].numpy())", true),
        CASE("PK\3\4\x14\0\0\0\0\0\0\0!\0DATA00000000\x13\0\0\0[Content_Types].xml",
             "then `csv(NEW)`", true),
        CASE("version https://git-lfs.github.com/spec/v1\noid",
             "is a reference of Git LFS: git lfs pull", true),
        CASE("RIFF0000WEBPVP8", "is a WebP image: PIL.Image.open(FILE)", true),
        CASE("BM\x40\0\0\0\0\0\0\0", "is a BMP image", true),
        CASE("\x89PNG\r\n\x1a\n and more", "is a PNG image: read it as `images(...)`", true),
        CASE("\xff\xd8\xff\xe0 and more", "is a JPEG image", true),
        CASE("\x7f"
             "ELF and more",
             "is a program or library", true),
        CASE("\xff\xfeu\0t\0f\0001\0006\0", "is UTF-16 text: recode it first", false),
        CASE("\xfe\xff\0u\0t\0f\0001\0006", "is UTF-16 text", false),
        CASE("\x88\xd8\x34\x01\1\0\0\0 and more", "header of llm.c: read it as `bin(..., u16)`",
             false),
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        static uint8_t bytes[64];
        memset(bytes, ' ', sizeof bytes);
        memcpy(bytes, cases[i].bytes, cases[i].len);
        /* the file ends in the same way */
        size_t len = strncmp(cases[i].bytes, "PAR1", 4) == 0 ? cases[i].len : sizeof bytes;
        fixture_file(&f, "data.bin", bytes, len);
        fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "data.bin");
        fixture_refused(&f, cases[i].said);
        fixture_refused(&f, "tiny.dsl:12:3: ");
        fixture_refused(&f, "(`bin(..., u8, raw)` reads any file's bytes)");
        fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U8, "data.bin");
        f.reader.raw = 1;
        dt_data_close(fixture_data(&f));
        f.reader.raw = 0;
        if (!cases[i].numbers) {
            dt_data_close(fixture_data(&f));
            continue;
        }
        fixture_refused(&f, cases[i].said);
        f.reader.dtype = DT_PLAN_U16;
        if (len % 2 == 0)
            fixture_refused(&f, cases[i].said);
    }
}

Test(data, files_that_only_resemble_known_formats_are_read)
{
    static const char *const texts[] = {"PAR1 is how a text may begin",
                                        "PK, PNG, ELF: abbreviations",
                                        "GIF files",
                                        "01234567{\"json\": 1}",
                                        "ustar",
                                        "BZh is no word",
                                        "%PDF is one",
                                        "\x03 a length without its checksum"};
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "data.bin");
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        file("data.bin", texts[i]);
        expect_text(texts[i]);
    }
}

/* ---- values that the program can use ---- */

static void bound(uint32_t input, uint32_t n, const int64_t lo[], const int64_t hi[])
{
    DtPlanInput *in = &f.inputs[input];
    in->n_ranges = n;
    memcpy(in->lo, lo, n * sizeof *lo);
    memcpy(in->hi, hi, n * sizeof *hi);
    in->indexed = fixture_str(&f, "vocab");
    in->extent = 20;
}

static void expect_outside(int64_t row, const char *said)
{
    char *inputs[] = {(char *)tokens, (char *)labels};
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_read(data, 0, row, 1, inputs);
    dt_data_close(data);
    if (said == NULL)
        cr_assert(dt_status_ok(&status), "%s", status.message);
    else
        cr_assert(strstr(status.message, said), "said: %s\nexpected: %s", status.message, said);
}

Test(data, values_outside_are_named_with_their_place)
{
    /* rows of 4: tokens 0..3, labels 1..4; then 4..7, 5..8 */
    uint16_t narrow[] = {0, 19, 2, 3, 4, 5, 6, 7, 20, 9, 10, 11, 12};
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U16, "*.bin");
    fixture_file(&f, "a.bin", narrow, 4);
    fixture_file(&f, "b.bin", narrow + 2, sizeof narrow - 4);
    f.reader.is_eval = 1;
    expect_outside(2, NULL);
    bound(0, 1, (int64_t[]){0}, (int64_t[]){20});
    expect_outside(0, NULL);
    expect_outside(1, NULL); /* the label after them is outside of the axis, which is allowed */
    expect_outside(2, "b.bin is 20: outside `vocab` of 20, which `tokens` indexes");
    expect_outside(2, "tiny.dsl:12:3: token 6 (byte 12) of ");
    expect_outside(2, " at tiny.dsl:12:3");
    bound(1, 1, (int64_t[]){0}, (int64_t[]){20});
    expect_outside(1, "b.bin is 20: outside `vocab` of 20, which `labels` indexes");
    bound(1, 2, (int64_t[]){0, 20}, (int64_t[]){8, 21}); /* 20: a value that the loss ignores */
    expect_outside(1, NULL);
    bound(0, 2, (int64_t[]){0, 20}, (int64_t[]){9, 21});
    expect_outside(2, "token 7 (byte 14)");
    expect_outside(2, "is 9: ");
    bound(0, 1, (int64_t[]){0}, (int64_t[]){0}); /* no such value is allowed */
    expect_outside(0, "token 0 (byte 0)");
    bound(0, 1, (int64_t[]){INT64_MIN}, (int64_t[]){INT64_MAX});
    f.inputs[1].n_ranges = 0;
    expect_outside(2, NULL);
}

static void expect_look(const char *said, const char *noted)
{
    DtText notes = {0};
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_look(data, &notes);
    dt_data_close(data);
    if (said == NULL)
        cr_assert(dt_status_ok(&status), "%s", status.message);
    else
        cr_assert(strstr(status.message, said), "said: %s\nexpected: %s", status.message, said);
    cr_assert(noted ? notes.at && strstr(notes.at, noted) : notes.len == 0,
              "noted: %s\nexpected: %s", notes.at, noted);
    dt_text_free(&notes);
}

/* Before the run everything is checked that can ever be read, and nothing else. */
Test(data, values_are_looked_at_before_the_run)
{
    /* 3 windows of 4 tokens to train on, after offsets 0 .. 2, or 4 held-out windows; and tokens
     * that are left over */
    uint16_t narrow[19] = {0};
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U16, "data.bin");
    bound(0, 1, (int64_t[]){0}, (int64_t[]){20});
    for (int at = 0; at < 19; at++) {
        char said[40];
        snprintf(said, sizeof said, "token %d (byte %d)", at, 2 * at);
        narrow[at] = 99;
        fixture_file(&f, "data.bin", narrow, sizeof narrow);
        for (uint32_t is_eval = 0; is_eval < 2; is_eval++) {
            char *inputs[] = {(char *)tokens, (char *)labels};
            f.reader.is_eval = is_eval;
            DtData *data = fixture_data(&f);
            bool bad = false; /* only found by reading everything */
            for (int64_t step = 0; step < 40; step++) {
                DtStatus status = dt_data_read(data, step, 0, 3, inputs);
                bad |= !dt_status_ok(&status);
            }
            dt_data_close(data);
            expect_look(bad ? said : NULL, NULL);
        }
        narrow[at] = 0;
    }
    f.reader.is_eval = 0;
    narrow[7] = narrow[9] = 99;
    fixture_file(&f, "data.bin", narrow, sizeof narrow);
    expect_look("token 7 (byte 14)", NULL);
    f.inputs[0].n_ranges = 0;
    expect_look(NULL, NULL); /* the input is no index, or nothing is known about it */
    f.inputs[1].draw_hi = 20;
    expect_look(NULL, "tiny.dsl:12:3: 2 of ");
    expect_look(NULL, "values for `labels` are outside 0 .. 19, where it is an index");
    expect_look(NULL, "(the first: token 7 (byte 14) of ");
    for (int at = 0; at < 19; at++)
        narrow[at] = 99;
    fixture_file(&f, "data.bin", narrow, sizeof narrow);
    expect_look(NULL,
                "values for `labels` is one of 0 .. 19, where it is an index, so no sample counts");
}

Test(data, values_behind_a_header_and_of_all_widths)
{
    uint16_t narrow[9] = {1, 2, 3, 60, 5, 6, 7, 8, 9};
    int32_t wide[9] = {1, 2, 3, -60, 5, 6, 7, 8, 9};
    f.reader.is_eval = 1;
    bound(0, 1, (int64_t[]){0}, (int64_t[]){20});
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U16, "data.bin");
    header_file(20240520, 1, 9, narrow, sizeof narrow);
    expect_outside(0, "token 3 (byte 1030) of");
    f.reader.dtype = DT_PLAN_I32;
    fixture_file(&f, "data.bin", wide, sizeof wide);
    expect_outside(0, "token 3 (byte 12) of");
    expect_outside(0, "is -60");
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "data.bin");
    file("data.bin", "\1\2\3 a text");
    expect_outside(0, "token 3 (byte 3) of");
    expect_outside(0, "is 32");
}

/* ---- what cannot be read ---- */

Test(data, missing_empty_and_short_files_name_the_line)
{
    fixture_refused(&f, "tiny.dsl:12:3: cannot read ");
    fixture_refused(&f, "data.bin: No such file or directory");
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "*.txt");
    fixture_refused(&f, "no file matches");
    file("a.txt", "");
    fixture_refused(&f, "a.txt is empty");
    file("b.txt", "four");
    fixture_refused(&f, "is too short: a sample takes 5 tokens, there are 4");
    file("c.txt", "567890");
    f.reader.from = 0.6;
    fixture_refused(&f, "there are 4 between 0.6 and 1 of 10");
    cr_assert_eq(mkdir(fixture_path(&f, "data.bin"), 0777), 0);
    fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, "data.bin");
    fixture_refused(&f, "/*' names the files in it");
    cr_assert_eq(rmdir(fixture_path(&f, "data.bin")), 0);
    cr_assert_eq(mkfifo(fixture_path(&f, "data.bin"), 0666), 0);
    fixture_refused(&f, "is no regular file");
}

Test(data, readers_that_do_not_exist_yet_say_so)
{
    file("data.bin", "something long enough");
    f.reader.sample = DT_PLAN_SAMPLE_IMAGES;
    fixture_refused(&f, "a source by itself cannot read this source");
    f.reader.sample = DT_PLAN_RAW;
    f.reader.n_inputs = 1;
    f.reader.source = DT_PLAN_IMAGES;
    fixture_refused(&f, "a source by itself cannot read this source");
    f.reader.source = DT_PLAN_TEXT;
    f.inputs[0].dtype = DT_PLAN_F32;
    fixture_refused(&f, "input `tokens` must be i32");
    f.inputs[0].dtype = DT_PLAN_I32;
    f.axes[1].local = 2;
    fixture_refused(&f, "a row that is split over ranks (axis `seq`)");
}

/* A plan is a file, too: its numbers are checked before they are used. */
Test(data, samplers_check_their_numbers)
{
    file("data.bin", "something long enough");
    f.reader.sample = DT_PLAN_MLM;
    fixture_refused(&f, "mlm fills 5 inputs, not 2");
    f.reader.n_inputs = 5;
    fixture_refused(&f, "input `more` must be bool for mlm");
    f.inputs[2].dtype = f.inputs[4].dtype = DT_PLAN_BOOL;
    fixture_refused(&f, "draws random tokens from 0 to -1");
    f.inputs[0].draw_hi = 300;
    fixture_refused(&f, "masks a part of 0 with token 0");
    f.reader.rate = 0.15;
    f.reader.mask_id = INT64_MAX;
    fixture_refused(&f, "with token 9223372036854775807");
    f.inputs[0].draw_hi = 1;
    f.reader.mask_id = 0;
    fixture_refused(&f, "no random token to draw");
    f.inputs[0].draw_hi = 300;
    dt_data_close(fixture_data(&f));
    f.inputs[3].row_elements = 7;
    fixture_refused(&f, "must be as long as `tokens`");
    f.reader.sample = DT_PLAN_SPAN_CORRUPTION;
    f.reader.n_inputs = 4;
    f.inputs[2].dtype = DT_PLAN_I32;
    f.inputs[3].dtype = DT_PLAN_BOOL;
    fixture_refused(&f, "labels and valid alike");
    f.inputs[3].row_elements = f.inputs[2].row_elements;
    fixture_refused(&f, "no window of tokens leaves 4");
    f.reader.mean_span = 1;
    f.reader.mask_id = -3;
    fixture_refused(&f, "sentinels from token -3 down");
    f.reader.mask_id = 299;
    dt_data_close(fixture_data(&f));
    f.inputs[1].row_elements = f.inputs[2].row_elements = f.inputs[3].row_elements = 2;
    fixture_refused(&f, "a target takes 3 tokens, and `labels` has 2");
}

Test(data, steps_out_of_reach_are_an_error)
{
    char *inputs[] = {(char *)tokens, (char *)labels};
    file("data.bin", "something long enough");
    DtData *data = fixture_data(&f);
    static const int64_t steps[] = {-1, INT64_MAX, INT64_MAX / 3};
    for (size_t i = 0; i < DT_COUNT(steps); i++) {
        DtStatus status = dt_data_read(data, steps[i], 2, 1, inputs);
        cr_assert(!dt_status_ok(&status));
    }
    /* far away in memory, but it exists */
    fixture_read(data, INT64_MAX / 3 - 1, 0, 3, tokens, labels);
    dt_data_close(data);
}

/* ---- random data ---- */

static void read_more(DtData *data, int64_t sample, char *const *inputs)
{
    DtStatus status = dt_data_read(data, sample, 0, 1, inputs);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

Test(data, synthetic_rows_are_numbered_not_streamed)
{
    int32_t again[8], shifted[8];
    f.reader = (DtPlanReader){
        .sample = DT_PLAN_NEXT_TOKEN, .source = DT_PLAN_SYNTHETIC, .lo = 5, .hi = 9, .n_inputs = 2};
    DtData *data = fixture_data(&f);
    uint32_t counts[9] = {0};
    for (int64_t step = 0; step < 100; step++) {
        fixture_read(data, step, 0, 3, tokens, labels);
        fixture_read(data, step, 1, 2, again, shifted);
        cr_assert_arr_eq(again, tokens + 4, sizeof again);
        cr_assert_arr_eq(shifted, labels + 4, sizeof shifted);
        for (int r = 0; r < 3; r++)
            cr_assert_arr_eq(tokens + 4 * r + 1, labels + 4 * r, 3 * sizeof *tokens);
        for (int i = 0; i < 12; i++) {
            cr_assert(tokens[i] >= 5 && tokens[i] < 9);
            counts[tokens[i]]++;
        }
    }
    for (int v = 5; v < 9; v++)
        cr_assert(counts[v] > 240 && counts[v] < 360, "%u times %d of 1200", counts[v], v);
    dt_data_close(data);
}

Test(data, synthetic_fills_every_dtype_in_range)
{
    static union {
        uint8_t u8[64];
        uint16_t u16[64];
        int64_t i64[64];
        float f32[64];
        double f64[64];
    } first, second;
    char *inputs[] = {(char *)&first}, *others[] = {(char *)&second};
    f.meta.batch = 1;
    f.inputs[0].row_elements = f.axes[1].extent = f.axes[1].local = 64;
    f.reader = (DtPlanReader){
        .sample = DT_PLAN_RAW, .source = DT_PLAN_SYNTHETIC, .lo = 0, .hi = 3, .n_inputs = 1};
    for (uint32_t dtype = 0; dtype < DT_PLAN_DTYPES; dtype++) {
        f.inputs[0].dtype = dtype;
        if (dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16) {
            fixture_refused(&f, "input `tokens`: no random");
            continue;
        }
        DtData *data = fixture_data(&f);
        read_more(data, 3, inputs);
        read_more(data, 4, others);
        cr_assert_neq(memcmp(&first, &second, 64 * (size_t)dt_kinds_size(dtype)), 0);
        double sum = 0;
        for (int i = 0; i < 64; i++) {
            double v = dtype == DT_PLAN_F32   ? (double)first.f32[i]
                       : dtype == DT_PLAN_F64 ? first.f64[i]
                       : dtype == DT_PLAN_I64 ? (double)first.i64[i]
                       : dtype == DT_PLAN_U16 ? first.u16[i]
                       : dtype < DT_PLAN_U16  ? first.u8[i]
                                              : ((int32_t *)(void *)&first)[i];
            cr_assert(v >= 0 && v < (dtype == DT_PLAN_BOOL ? 2 : 3), "dtype %u: %g", dtype, v);
            sum += v;
        }
        cr_assert(sum > 10, "dtype %u: all small", dtype);
        dt_data_close(data);
    }
}

Test(data, synthetic_stands_in_for_every_sampler)
{
    static const uint32_t n_inputs[] = {2, 5, 4, 2};
    static const char *const dtypes[] = {NULL, "iibib", "iiib", NULL};
    static char room[5][64];
    char *inputs[] = {room[0], room[1], room[2], room[3], room[4]};
    f.options.data_synthetic = true;
    f.meta.batch = 1;
    f.inputs[0].draw_hi = 256; /* mlm draws tokens */
    f.reader.rate = 0.3;
    f.reader.mean_span = 1;
    f.reader.mask_id = 255;
    for (uint32_t sample = 0; sample < 4; sample++) {
        f.reader.sample = sample;
        f.reader.n_inputs = n_inputs[sample];
        f.reader.source = sample == DT_PLAN_SAMPLE_IMAGES ? DT_PLAN_IMAGES : DT_PLAN_TEXT;
        for (uint32_t i = 0; i < n_inputs[sample]; i++)
            f.inputs[i].dtype =
                dtypes[sample] && dtypes[sample][i] == 'b' ? DT_PLAN_BOOL : DT_PLAN_I32;
        DtData *data = fixture_data(&f);
        read_more(data, 1, inputs);
        for (int i = 0; i < 4; i++)
            cr_assert(((int32_t *)(void *)room[0])[i] >= 0 &&
                      ((int32_t *)(void *)room[0])[i] < 256);
        dt_data_close(data);
    }
    f.options.data_synthetic = false;
    f.inputs[3].dtype = DT_PLAN_I32;
    f.reader.sample = DT_PLAN_NEXT_TOKEN, f.reader.n_inputs = 2, f.reader.source = DT_PLAN_TEXT;
    f.options.n_redirects = 1;
    f.options.redirects[0] = (DtRedirect){"data.bin", "synthetic"};
    dt_data_close(fixture_data(&f));
}

/* Random data that replace files have the range that the program can use. */
Test(data, synthetic_draws_what_the_program_can_index)
{
    char *inputs[] = {(char *)tokens, (char *)labels};
    f.options.data_synthetic = true;
    f.inputs[0].draw_hi = 3;
    for (int labelled = 0; labelled < 2; labelled++) {
        bool seen[3] = {0};
        f.inputs[1].draw_lo = labelled;
        f.inputs[1].draw_hi = labelled ? 1000 : 0;
        DtData *data = fixture_data(&f);
        for (int64_t step = 0; step < 10; step++) {
            read_more(data, step, inputs);
            for (int i = 0; i < 4; i++) {
                cr_assert(tokens[i] >= labelled && tokens[i] < 3, "token %d", tokens[i]);
                cr_assert(labels[i] >= labelled && labels[i] < 3, "one stream fills both");
                seen[tokens[i]] = true;
            }
        }
        dt_data_close(data);
        cr_assert(seen[1] && seen[2] && seen[0] == !labelled);
    }
    f.reader.sample = DT_PLAN_RAW;
    f.reader.n_inputs = 1;
    f.inputs[0].draw_lo = 1000;
    f.inputs[0].draw_hi = 1001;
    DtData *data = fixture_data(&f);
    read_more(data, 0, inputs);
    cr_assert_eq(tokens[0], 1000);
    dt_data_close(data);
}

Test(data, held_out_random_data_is_other_data)
{
    f.reader = (DtPlanReader){
        .sample = DT_PLAN_NEXT_TOKEN, .source = DT_PLAN_SYNTHETIC, .hi = 1000, .n_inputs = 2};
    DtData *data = fixture_data(&f);
    fixture_read(data, 0, 0, 3, tokens, labels);
    dt_data_close(data);
    f.reader.is_eval = 1;
    data = fixture_data(&f);
    fixture_read(data, 0, 0, 3, tokens + 12, labels);
    cr_assert_neq(memcmp(tokens, tokens + 12, 12 * sizeof *tokens), 0);
    cr_assert_geq(dt_data_batches(data), 1);
    dt_data_close(data);
}
