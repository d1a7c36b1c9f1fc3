/* SPDX-License-Identifier: Apache-2.0 */
/* Several sources of one block have the same number of samples and the same order. And files of
 * numbers that are not simply tokens: idx files, 64-bit integers, floats. */
#include "data_fixture.h"

#include "base/half.h"
#include "base/tryread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROW = 4, BATCH = 3 };

static DataFixture f;
static DtPlanReader readers[3];

static void setup(void)
{
    fixture_open(&f, ROW, BATCH);
    f.reader.sample = DT_PLAN_RAW;
    f.reader.n_inputs = 1;
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U8, "data.bin");
}
static void teardown(void) { fixture_close(&f); }

TestSuite(sources, .init = setup, .fini = teardown);

/* Makes images of ROW values, and labels of one value, by two readers; a third reader is like the
 * second. */
static void use_readers(uint32_t n)
{
    static const char *const globs[] = {"images.bin", "labels.bin", "more.bin"};
    for (uint32_t i = 0; i < n; i++) {
        readers[i] = f.reader;
        readers[i].glob = fixture_str(&f, globs[i]);
        readers[i].first_input = i;
        if (i > 0) {
            f.inputs[i].n_axes = 1;
            f.inputs[i].row_elements = 1;
        }
    }
    f.plan.readers = readers;
    f.plan.n_readers = n;
    f.plan.n_inputs = 5;
}

/* Writes n samples of `row` bytes, each of which contains the number of its sample; and some more
 * bytes. */
static void numbered(const char *name, uint32_t n, uint32_t row, uint32_t more)
{
    uint8_t bytes[4096] = {0};
    for (uint32_t i = 0; i < n * row; i++)
        bytes[i] = (uint8_t)(i / row);
    fixture_file(&f, name, bytes, n * row + more);
}

static DtStatus open_block(bool is_eval, DtData *data[3])
{
    memset(data, 0, 3 * sizeof *data);
    return dt_data_open_block(&f.options, &f.plan, is_eval, data);
}

static void close_block(DtData *data[3])
{
    for (int i = 0; i < 3; i++)
        if (data[i])
            dt_data_close(data[i]);
}

static void expect_block(bool is_eval, const char *said)
{
    DtData *data[3];
    DtStatus status = open_block(is_eval, data);
    if (said)
        cr_assert(!dt_status_ok(&status) && strstr(status.message, said), "said: %s\nexpected: %s",
                  status.message, said);
    else
        cr_assert(dt_status_ok(&status), "%s", status.message);
    close_block(data);
}

/* Reads a batch by two readers; returns in how many of its rows both have the same sample. */
static int same_rows(DtData *const *data, int64_t step)
{
    int32_t images[BATCH * ROW], labels[BATCH];
    int same = 0;
    DtStatus status = dt_data_read(data[0], step, 0, BATCH, (char *[]){(char *)images});
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_data_read(data[1], step, 0, BATCH, (char *[]){(char *)labels});
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (int i = 0; i < BATCH; i++) {
        cr_assert_eq(images[ROW * i], images[ROW * i + ROW - 1], "a row of two samples");
        same += images[ROW * i] == labels[i];
    }
    return same;
}

Test(sources, other_numbers_of_samples_are_an_error)
{
    use_readers(2);
    for (uint32_t is_eval = 0; is_eval < 2; is_eval++) {
        readers[0].is_eval = readers[1].is_eval = is_eval;
        numbered("images.bin", 50, ROW, 0);
        numbered("labels.bin", 50, 1, 0);
        expect_block(is_eval, NULL);
        numbered("labels.bin", 50, 1, 1);
        expect_block(is_eval, "labels.bin has 51 samples of 1, and ");
        expect_block(is_eval, "images.bin has 50 samples of 4: sample k of one source");
        expect_block(is_eval, is_eval ? "of the data of `eval` belongs" : "of `train` belongs");
        expect_block(is_eval, "tiny.dsl:12:3: ");
        numbered("labels.bin", 50, 1, 0);
        numbered("images.bin", 50, ROW, 3);
        expect_block(
            is_eval,
            "images.bin has 203 values, no whole number of samples of 4 (3 are left over)");
    }
}

Test(sources, rows_are_paired_in_all_epochs_and_parts)
{
    static const double cuts[] = {0, 0.1, 0.34, 0.5, 0.77, 1};
    use_readers(2);
    numbered("images.bin", 53, ROW, 0);
    numbered("labels.bin", 53, 1, 0);
    for (size_t c = 0; c + 1 < DT_COUNT(cuts); c++)
        for (uint32_t is_eval = 0; is_eval < 2; is_eval++) {
            DtData *data[3];
            for (int i = 0; i < 2; i++) {
                readers[i].is_eval = is_eval;
                readers[i].from = cuts[c], readers[i].to = cuts[c + 1];
            }
            DtStatus status = open_block(is_eval, data);
            cr_assert(dt_status_ok(&status), "%s", status.message);
            for (int64_t step = 0; step < 60; step++)
                cr_assert_eq(same_rows(data, step), BATCH, "step %lld of part %zu", (long long)step,
                             c);
            close_block(data);
        }
}

Test(sources, an_unpaired_source_has_its_own_order)
{
    DtData *data[3];
    use_readers(2);
    numbered("images.bin", 50, ROW, 0);
    numbered("labels.bin", 50, 1, 0);
    readers[1].unpaired = 1;
    DtStatus status = open_block(false, data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    int same = 0;
    for (int64_t step = 0; step < 50; step++)
        same += same_rows(data, step);
    /* 3 equal rows are possible by chance */
    cr_assert_leq(same, 15, "%d of 150 rows are paired", same);
    close_block(data);
    numbered("labels.bin", 7, 1, 0);
    expect_block(false, NULL);
    readers[0].is_eval = readers[1].is_eval =
        1; /* held-out data: the number of samples is that of the others, and then it begins
            * again */
    status = open_block(true, data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(dt_data_samples(data[0]), 50);
    cr_assert_eq(dt_data_samples(data[1]), 50);
    int32_t label[BATCH];
    for (int64_t sample = 0; sample < 60; sample++) {
        dt_data_read(data[1], 0, sample, 1, (char *[]){(char *)label});
        cr_assert_eq(label[0], (sample < 50 ? sample : 49) % 7);
    }
    close_block(data);
}

Test(sources, random_numbers_take_the_number_of_the_others)
{
    DtData *data[3];
    use_readers(2);
    numbered("labels.bin", 50, 1, 0);
    readers[0].source = DT_PLAN_SYNTHETIC;
    readers[0].lo = 0, readers[0].hi = 1 << 30;
    readers[0].is_eval = readers[1].is_eval = 1;
    DtStatus status = open_block(true, data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(dt_data_samples(data[0]), 50);
    cr_assert_eq(dt_data_batches(data[0]), 50 / BATCH);
    int32_t last[ROW], after[ROW], other[ROW];
    dt_data_read(data[0], 0, 49, 1, (char *[]){(char *)last});
    dt_data_read(data[0], 0, 50, 1, (char *[]){(char *)after});
    dt_data_read(data[0], 0, 48, 1, (char *[]){(char *)other});
    cr_assert_arr_eq(last, after, sizeof last); /* held-out data repeats its last sample */
    cr_assert_arr_neq(last, other, sizeof last);
    close_block(data);
}

Test(sources, windows_of_a_stream_are_no_fixed_samples)
{
    use_readers(2);
    f.inputs[0].n_axes = f.inputs[1].n_axes = f.inputs[2].n_axes = 2;
    f.inputs[1].row_elements = f.inputs[2].row_elements = ROW;
    readers[0].sample = DT_PLAN_NEXT_TOKEN;
    readers[0].n_inputs = 2;
    readers[1].first_input = 2;
    numbered("images.bin", 51, ROW, 0);
    numbered("labels.bin", 50, ROW, 0);
    expect_block(false, "cannot be paired: each epoch of `next_token` begins at another offset");
    readers[1].unpaired = 1;
    expect_block(false, NULL);
}

/* ---- idx ---- */

static void idx(const char *name, uint8_t type, uint32_t n_axes, const uint32_t *extents,
                size_t len)
{
    uint8_t bytes[4096] = {0, 0, type, (uint8_t)n_axes};
    for (uint32_t a = 0; a < n_axes; a++)
        for (int b = 0; b < 4; b++)
            bytes[4 + 4 * a + (uint32_t)b] = (uint8_t)(extents[a] >> (24 - 8 * b));
    for (size_t i = 0; i < len; i++)
        bytes[4 + 4 * n_axes + i] = (uint8_t)(i / ROW);
    fixture_file(&f, name, bytes, 4 + 4 * n_axes + len);
}

Test(sources, idx_files_have_headers_of_8_and_16_bytes)
{
    DtData *data[3];
    use_readers(2);
    idx("images.bin", 8, 3, (uint32_t[]){50, 2, 2}, 200);
    numbered("labels.bin", 50, 1, 0);
    DtStatus status = open_block(false, data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (int64_t step = 0; step < 30; step++)
        cr_assert_eq(same_rows(data, step), BATCH);
    close_block(data);
    idx("labels.bin", 8, 1, (uint32_t[]){50}, 50);
    expect_block(false, NULL);
    idx("labels.bin", 8, 1, (uint32_t[]){49}, 49);
    expect_block(false, "labels.bin has 49 samples of 1, and ");
}

Test(sources, idx_headers_are_checked)
{
    idx("data.bin", 8, 3, (uint32_t[]){50, 2, 3}, 300);
    fixture_refused(
        &f, "is an idx file of 50 samples of 2 x 3 bytes each; a sample of `tokens` has 4 values");
    idx("data.bin", 8, 3, (uint32_t[]){50, 2, 2}, 199);
    fixture_refused(&f, "begins as an idx file of 200 bytes does, and has 199 after its header");
    idx("data.bin", 8, 3, (uint32_t[]){0xffffffffu, 0xffffffffu, 0xffffffffu}, 200);
    fixture_refused(&f, "and has 200 after its header");
    f.reader.raw = 1;
    dt_data_close(fixture_data(&f));
    f.reader.raw = 0;
    idx("data.bin", 0x0d, 2, (uint32_t[]){50, 1}, 200);
    fixture_refused(&f, "is an idx file of 32-bit floats: write its numbers alone");
    idx("data.bin", 8, 2, (uint32_t[]){50, 4}, 200);
    f.reader.dtype = DT_PLAN_U16;
    fixture_refused(&f, "is an idx file of bytes: read it as `bin(..., u8)`");
    f.reader.dtype = DT_PLAN_U8;
    dt_data_close(fixture_data(&f));
    f.axes[1].extent = f.axes[1].local = 2; /* [batch, 2, 2] is not the transpose of 4, 1 */
    f.inputs[0].n_axes = 3;
    f.plan.axes = (DtPlanAxis[]){f.axes[0], f.axes[1], f.axes[1]};
    fixture_refused(
        &f, "is an idx file of 50 samples of 4 bytes each; a sample of `tokens` has 2 x 2 values");
    f.inputs[0].n_axes = 2;
    f.inputs[0].row_elements = 2;
    f.reader.sample = DT_PLAN_NEXT_TOKEN;
    f.reader.n_inputs = 2;
    f.inputs[1].row_elements = 2;
    fixture_refused(&f, "no stream of tokens: read it as a source by itself");
}

/* A header of any length and with any content causes no read outside of the file. */
Test(sources, hostile_idx_headers)
{
    /* The file has room for up to 9 extents; a larger number of axes does not fit into it. */
    static const uint8_t axes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 64, 127, 128, 255};
    uint8_t bytes[40] = {0, 0, 8};
    for (uint32_t len = 4; len <= sizeof bytes; len++)
        for (uint32_t i = 0; i < DT_COUNT(axes); i++)
            for (int fill = 0; fill < 256; fill += 85) {
                memset(bytes + 4, fill, sizeof bytes - 4);
                bytes[3] = axes[i];
                fixture_file(&f, "data.bin", bytes, len);
                DtData *data;
                DtStatus status = dt_data_open(&f.options, &f.plan, 0, &data);
                if (dt_status_ok(&status))
                    dt_data_close(data);
            }
}

/* ---- other numbers ---- */

static DtStatus read_first(int64_t rows, void *ret_values)
{
    f.reader.is_eval = 1;
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_read(data, 0, 0, rows, (char *[]){ret_values});
    dt_data_close(data);
    return status;
}

Test(sources, integers_of_64_bits_fit_or_are_named)
{
    int64_t wide[12] = {1, -1, INT32_MAX, INT32_MIN, 5, 6, 7, 8, 9, (int64_t)INT32_MAX + 1, 11, 12};
    int32_t ids[12];
    f.reader.dtype = DT_PLAN_I64;
    fixture_file(&f, "data.bin", wide, sizeof wide);
    DtStatus status = read_first(2, ids);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(ids[i], wide[i]);
    status = read_first(3, ids);
    cr_assert(strstr(status.message, "token number 9 (byte 72) of ") &&
                  strstr(status.message, "data.bin is 2147483648"),
              "%s", status.message);
    fixture_file(&f, "data.bin", wide, 44);
    fixture_refused(&f, "has 44 bytes, no whole number of 64-bit tokens");
}

Test(sources, floats_of_all_widths)
{
    static const float values[8] = {0, 1, -2.5f, 0.1f, 65504, -1e-7f, 3e-5f, INFINITY};
    float read[8];
    uint16_t f16[8], bf16[8];
    f.inputs[0].dtype = DT_PLAN_F32;
    for (int i = 0; i < 8; i++)
        f16[i] = dt_half_to_f16(values[i]), bf16[i] = dt_half_to_bf16(values[i]);
    const struct {
        uint32_t dtype;
        const void *bytes;
        size_t len;
    } cases[] = {{DT_PLAN_F32, values, sizeof values},
                 {DT_PLAN_F16, f16, sizeof f16},
                 {DT_PLAN_BF16, bf16, sizeof bf16}};
    for (size_t c = 0; c < DT_COUNT(cases); c++) {
        f.reader.dtype = cases[c].dtype;
        fixture_file(&f, "data.bin", cases[c].bytes, cases[c].len);
        DtStatus status = read_first(2, read);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        for (int i = 0; i < 8; i++) {
            const float right = cases[c].dtype == DT_PLAN_F32   ? values[i]
                                : cases[c].dtype == DT_PLAN_F16 ? dt_half_from_f16(f16[i])
                                                                : dt_half_from_bf16(bf16[i]);
            cr_assert_arr_eq(&read[i], &right, sizeof right);
        }
    }
    f.inputs[0].dtype = DT_PLAN_I32;
    fixture_refused(&f, "input `tokens` must be f32");
}

/* ---- warnings before the run ---- */

static void expect_note(const char *noted)
{
    DtText notes = {0};
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_look(data, &notes);
    dt_data_close(data);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(noted ? notes.at && strstr(notes.at, noted) : notes.len == 0,
              "noted: %s\nexpected: %s", notes.at, noted);
    dt_text_free(&notes);
}

Test(sources, numbers_twice_as_wide_are_noticed)
{
    int64_t wide[100];
    for (int i = 0; i < 100; i++)
        wide[i] = i * 321 % 1000;
    fixture_file(&f, "data.bin", wide, sizeof wide);
    f.reader.dtype = DT_PLAN_U32;
    expect_note("tiny.dsl:12:3: warning: every second u32 of ");
    expect_note("looks like a file of 64-bit integers; read it as `bin(..., i64)`");
    f.reader.dtype = DT_PLAN_I32;
    wide[5] = -3;
    fixture_file(&f, "data.bin", wide, sizeof wide);
    expect_note("every second i32 of ");
    f.reader.dtype = DT_PLAN_I64;
    expect_note(NULL);
    int32_t narrow[100];
    for (int i = 0; i < 100; i++)
        narrow[i] = (int32_t)wide[i] + 4;
    fixture_file(&f, "data.bin", narrow, sizeof narrow);
    f.reader.dtype = DT_PLAN_U16;
    expect_note("looks like a file of 32-bit integers; read it as `bin(..., u32)`");
    f.reader.dtype = DT_PLAN_I32;
    expect_note(NULL);
}

Test(sources, doubles_are_noticed)
{
    double wide[64], narrow[64];
    float single[64];
    for (int i = 0; i < 64; i++) {
        wide[i] = sin(i + 0.3) * pow(10, i % 7 - 3);
        narrow[i] = i % 4; /* the lower halves are 0 */
        single[i] = (float)wide[i];
    }
    f.reader.dtype = DT_PLAN_F32;
    f.inputs[0].dtype = DT_PLAN_F32;
    fixture_file(&f, "data.bin", wide, sizeof wide);
    expect_note("tiny.dsl:12:3: warning: ");
    expect_note("data.bin looks like a file of 64-bit floats; write it as f32: numpy.fromfile");
    fixture_file(&f, "data.bin", narrow, sizeof narrow);
    expect_note("looks like a file of 64-bit floats");
    for (int i = 0; i < 64; i++)
        narrow[i] = (float)wide[i]; /* doubles that were converted from floats */
    fixture_file(&f, "data.bin", narrow, sizeof narrow);
    expect_note("looks like a file of 64-bit floats");
    fixture_file(&f, "data.bin", single, sizeof single);
    expect_note(NULL);
    for (int i = 0; i < 64; i++)
        single[i] = i % 2 ? 1e-3F * (float)i : 1e20F;
    single[1] = 1e20F;
    fixture_file(&f, "data.bin", single, sizeof single);
    expect_note(NULL);
}

Test(sources, text_that_is_no_text_is_noticed)
{
    static const struct {
        const char *name, *text, *noted;
    } cases[] = {
        {"a.jsonl", "plain words, by that name", "a.jsonl looks like JSON"},
        {"a.txt", " [\n {\"text\": 1}]", "a.txt looks like JSON"},
        {"a.txt", "{\"text\": \"words\"}\n", "looks like JSON"},
        {"a.CSV", "plain words, by that name", "looks like CSV"},
        {"a.txt", "a,b,c\n1,2,3\n4,5,6\n7,8,9\n1,1,1\n", "looks like CSV"},
        {"a.txt", "a\tb\tc\n1\t2\t3\n4\t5\t6\n7\t8\t9\n1\t1\t1\n", "looks like TSV"},
        {"a.txt", "One, two, three.\nFour.\nFive, six.\nSeven.\nEight.\nNine.\n", NULL},
        {"a.txt", "[Enter two lords] and more words", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        fixture_glob(&f, DT_PLAN_TEXT, DT_PLAN_U8, cases[i].name);
        fixture_file(&f, cases[i].name, cases[i].text, strlen(cases[i].text));
        expect_note(cases[i].noted);
    }
}

Test(sources, features_that_are_not_finite_are_noticed)
{
    float values[16] = {0};
    f.reader.dtype = DT_PLAN_F32;
    f.inputs[0].dtype = DT_PLAN_F32;
    fixture_file(&f, "data.bin", values, sizeof values);
    expect_note(NULL);
    values[7] = NAN;
    fixture_file(&f, "data.bin", values, sizeof values);
    expect_note("warning: value 7 (byte 28) of ");
    expect_note("data.bin is not a number");
}

/* ---- files that are cut short ---- */

enum { PAGE = 4096 };

/* Of three pages, the file keeps one and a half: the third can no longer be read, and the missing
 * half of the second reads as zeros. */
Test(sources, files_that_are_cut_short_are_named_with_the_place)
{
    static const int64_t rows[] = {0, 6000 / ROW, PAGE / ROW, 2 * PAGE / ROW, 3 * PAGE / ROW - 1};
    static uint8_t bytes[3 * PAGE];
    int32_t row[ROW];
    memset(bytes, 7, sizeof bytes);
    f.reader.is_eval = 1;
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        fixture_file(&f, "data.bin", bytes, sizeof bytes);
        DtData *data = fixture_data(&f);
        DtStatus status = dt_data_read(data, 0, rows[i], 1, (char *[]){(char *)row});
        cr_assert(dt_status_ok(&status), "%s", status.message);
        cr_assert_eq(truncate(fixture_path(&f, "data.bin"), 6000), 0);
        status = dt_data_read(data, 0, rows[i], 1, (char *[]){(char *)row});
        cr_assert_eq(status.code, DT_EXIT_IO);
        cr_assert(strstr(status.message,
                         "data.bin was cut short while the run reads it: value 6000 "
                         "(byte 6000) and what follows is gone; the file had 12288"),
                  "row %lld: %s", (long long)rows[i], status.message);
        dt_data_close(data);
    }
}

/* The same if the file is cut short between its opening and the first check of its content. */
Test(sources, files_that_are_cut_short_are_named_by_the_first_look)
{
    static uint8_t bytes[2 * PAGE];
    static const char said[] = "data.bin was cut short while the run reads it: value 0 (byte 0)";
    static const uint32_t dtypes[] = {DT_PLAN_U8, DT_PLAN_U16, DT_PLAN_F32};
    for (size_t i = 0; i < DT_COUNT(dtypes); i++) {
        DtText notes = {0};
        DtDataFact fact;
        f.reader.dtype = (uint8_t)dtypes[i];
        f.inputs[0].dtype = dtypes[i] == DT_PLAN_F32 ? DT_PLAN_F32 : DT_PLAN_I32;
        fixture_file(&f, "data.bin", bytes, sizeof bytes);
        DtData *data = fixture_data(&f);
        cr_assert_eq(truncate(fixture_path(&f, "data.bin"), 0), 0);
        DtStatus status = dt_data_look(data, &notes);
        cr_assert(status.code == DT_EXIT_IO && strstr(status.message, said), "%s", status.message);
        status = dt_data_fact(data->memory, data, &fact);
        cr_assert(status.code == DT_EXIT_IO && strstr(status.message, said), "%s", status.message);
        cr_assert_eq(notes.len, 0);
        dt_data_close(data);
    }
}

Test(sources, a_file_that_is_replaced_or_grows_is_read_as_it_was)
{
    uint8_t bytes[40];
    int32_t row[ROW];
    char other[256];
    memset(bytes, 7, sizeof bytes);
    fixture_file(&f, "data.bin", bytes, sizeof bytes);
    fixture_file(&f, "other.bin", bytes, 4);
    strcpy(other, fixture_path(&f, "other.bin"));
    f.reader.is_eval = 1;
    DtData *data = fixture_data(&f);
    cr_assert_eq(truncate(fixture_path(&f, "data.bin"), 80), 0);
    DtStatus status = dt_data_read(data, 0, 9, 1, (char *[]){(char *)row});
    cr_assert(dt_status_ok(&status) && row[ROW - 1] == 7, "%s", status.message);
    cr_assert_eq(rename(other, fixture_path(&f, "data.bin")), 0);
    status = dt_data_read(data, 0, 9, 1, (char *[]){(char *)row});
    cr_assert(dt_status_ok(&status) && row[ROW - 1] == 7, "%s", status.message);
    dt_data_close(data);
}

/* Maps two pages of a file that has only one: the second page cannot be read. */
static DtFileView half_missing(void)
{
    static uint8_t bytes[PAGE];
    fixture_file(&f, "page.bin", bytes, sizeof bytes);
    FILE *file = fopen(fixture_path(&f, "page.bin"), "rb");
    void *at = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    cr_assert_neq(at, MAP_FAILED);
    fclose(file);
    return (DtFileView){at, 2 * PAGE};
}

static void read_byte(void *context)
{
    const uint8_t *volatile *at = context;
    (void)**(const volatile uint8_t *volatile *)at;
}

Test(sources, missing_memory_is_told_again_and_again)
{
    DtFileView view = half_missing();
    for (int i = 0; i < 3; i++) {
        const uint8_t *there = view.at + 5, *missing = view.at + PAGE + 5;
        cr_assert_null(dt_tryread(&view, read_byte, &there));
        cr_assert_eq(dt_tryread(&view, read_byte, &missing), view.at + PAGE + 5);
    }
}

Test(sources, missing_memory_elsewhere_ends_the_process, .signal = SIGBUS)
{
    DtFileView view = half_missing(), other = {view.at, PAGE};
    const uint8_t *missing = view.at + PAGE + 5;
    signal(SIGBUS, SIG_DFL); /* a sanitizer would end the process itself */
    dt_tryread(&other, read_byte, &missing);
}
