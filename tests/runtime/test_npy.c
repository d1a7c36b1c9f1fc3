/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's files: numbers of every kind and order of bytes, the axes, and headers that are wrong or
 * meant to be. */
#include "data_fixture.h"

#include "base/half.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 4, SAMPLES = 6, N = ROW * SAMPLES };

static DataFixture f;

static void setup(void)
{
    fixture_open(&f, ROW, 2);
    fixture_glob(&f, DT_PLAN_NPY, DT_PLAN_BOOL, "a*.npy");
    f.reader.sample = DT_PLAN_RAW;
    f.reader.n_inputs = 1;
    f.reader.is_eval = 1;
}
static void teardown(void) { fixture_close(&f); }

TestSuite(npy, .init = setup, .fini = teardown);

/* A file of that version; returns its length. */
static size_t make(uint8_t *to, int version, const char *header, const void *body, size_t len)
{
    const size_t n = strlen(header), width = version == 1 ? 2 : 4;
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (uint8_t)version;
    to[7] = 0;
    for (size_t i = 0; i < width; i++)
        to[8 + i] = i < sizeof n ? (uint8_t)(n >> 8 * i) : 0;
    memcpy(to + 8 + width, header, n);
    if (len > 0)
        memcpy(to + 8 + width + n, body, len);
    return 8 + width + n + len;
}

static void write_file(const char *name, const char *header, const void *body, size_t len)
{
    static uint8_t bytes[1 << 17];
    fixture_file(&f, name, bytes, make(bytes, 1, header, body, len));
}

/* An array of that dtype and shape in C's order. */
static void array(const char *name, const char *dtype, const char *shape, const void *body,
                  size_t len)
{
    char header[160];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }    \n",
             dtype, shape);
    write_file(name, header, body, len);
}

static DtStatus read_all(void *ret_values)
{
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_read(data, 0, 0, SAMPLES, (char *[]){ret_values});
    dt_data_close(data);
    return status;
}

static void expect(const int32_t *right)
{
    int32_t values[N];
    DtStatus status = read_all(values);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_arr_eq(values, right, sizeof values);
}

static void turn(uint8_t *bytes, int width)
{
    for (int i = 0; i < N; i++)
        for (int a = 0, b = width - 1; a < b; a++, b--) {
            const uint8_t kept = bytes[i * width + a];
            bytes[i * width + a] = bytes[i * width + b];
            bytes[i * width + b] = kept;
        }
}

Test(npy, integers_of_every_width_and_order)
{
    static const char *const names[] = {"i", "u"};
    for (int width = 1; width <= 8; width *= 2)
        for (int is_unsigned = 0; is_unsigned < 2; is_unsigned++)
            for (int big = 0; big < 2; big++) {
                uint8_t bytes[8 * N];
                int32_t right[N];
                char dtype[16];
                for (int i = 0; i < N; i++) {
                    const int64_t value = is_unsigned ? i * 10 : i * 10 - 110;
                    right[i] = (int32_t)value;
                    memcpy(bytes + i * width, &value, (size_t)width);
                }
                if (big)
                    turn(bytes, width);
                snprintf(dtype, sizeof dtype, "%s%s%d", width == 1 ? "|" : big ? ">" : "<",
                         names[is_unsigned], width);
                array("a.npy", dtype, "(6, 4)", bytes, (size_t)(N * width));
                expect(right);
            }
}

Test(npy, bools_are_0_and_1)
{
    int32_t right[N];
    uint8_t bytes[N];
    for (int i = 0; i < N; i++)
        right[i] = bytes[i] = i % 3 == 0;
    array("a.npy", "|b1", "(6, 4)", bytes, sizeof bytes);
    expect(right);
}

Test(npy, floats_of_every_width_and_order)
{
    static const double values[N] = {0, 1, -2.5, 0.125, 65504, -6e-5, INFINITY, -0.75};
    static const char *const dtypes[] = {"<f2", ">f2", "<f4", ">f4", "<f8", ">f8"};
    float read[N];
    f.inputs[0].dtype = DT_PLAN_F32;
    for (size_t d = 0; d < DT_COUNT(dtypes); d++) {
        const int width = dtypes[d][2] - '0';
        uint8_t bytes[8 * N];
        for (int i = 0; i < N; i++) {
            const float single = (float)values[i];
            const uint16_t half = dt_half_to_f16(single);
            memcpy(bytes + i * width,
                   width == 2   ? (const void *)&half
                   : width == 4 ? (const void *)&single
                                : (const void *)&values[i],
                   (size_t)width);
        }
        if (dtypes[d][0] == '>')
            turn(bytes, width);
        array("a.npy", dtypes[d], "(6, 4)", bytes, (size_t)(N * width));
        DtStatus status = read_all(read);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        for (int i = 0; i < N; i++)
            cr_assert_eq(read[i],
                         width == 2 ? dt_half_from_f16(dt_half_to_f16((float)values[i]))
                                    : (float)values[i],
                         "%s %d: %g", dtypes[d], i, (double)read[i]);
    }
}

Test(npy, halves_fill_inputs_of_16_bits)
{
    float values[N];
    uint16_t read[N];
    for (int i = 0; i < N; i++)
        values[i] = (float)i / 3;
    array("a.npy", "<f4", "(6, 4)", values, sizeof values);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        f.inputs[0].dtype = bf16 ? DT_PLAN_BF16 : DT_PLAN_F16;
        DtStatus status = read_all(read);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        for (int i = 0; i < N; i++)
            cr_assert_eq(read[i], bf16 ? dt_half_to_bf16(values[i]) : dt_half_to_f16(values[i]));
    }
}

/* A finite number that the input's dtype would make infinite is refused with its row; what is
 * infinite in the file stays so. */
Test(npy, numbers_that_16_bits_make_infinite_are_refused)
{
    float values[N] = {65519, -INFINITY};
    uint16_t read[N];
    f.inputs[0].dtype = DT_PLAN_F16;
    array("a.npy", "<f4", "(6, 4)", values, sizeof values);
    DtStatus status = read_all(read);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(read[0], dt_half_to_f16(65504));
    cr_assert_eq(read[1], dt_half_to_f16(-INFINITY));
    values[4 * 3 + 1] = -65520;
    array("a.npy", "<f4", "(6, 4)", values, sizeof values);
    status = read_all(read);
    cr_assert(strstr(status.message, "a.npy, in row 3, is -65520, which is infinite in f16, the "
                                     "dtype of `tokens`"),
              "%s", status.message);
    f.inputs[0].dtype = DT_PLAN_BF16;
    status = read_all(read);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    values[4 * 3 + 1] = 3.4e38f;
    array("a.npy", "<f4", "(6, 4)", values, sizeof values);
    status = read_all(read);
    cr_assert(strstr(status.message, "is 3.4e+38, which is infinite in bf16"), "%s",
              status.message);
}

Test(npy, bools_fill_inputs_of_bool)
{
    uint8_t bytes[2 * N] = {0}, read[N];
    for (int i = 0; i < N; i++)
        bytes[i] = i % 3 == 0;
    f.inputs[0].dtype = DT_PLAN_BOOL;
    array("a.npy", "|b1", "(6, 4)", bytes, N);
    DtStatus status = read_all(read);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_arr_eq(read, bytes, sizeof read);
    bytes[9] = 2;
    array("a.npy", "|u1", "(6, 4)", bytes, N);
    status = read_all(read);
    cr_assert(strstr(status.message, "a.npy is 2, and `tokens` is an input of bool: 0 or 1"), "%s",
              status.message);
    array("a.npy", "<f2", "(6, 4)", bytes, sizeof bytes);
    fixture_refused(&f, "has floats (`<f2`), and `tokens` is an input of bool: declare it as f32");
}

Test(npy, numbers_that_do_not_fit_are_named)
{
    uint64_t wide[N] = {1, 2, 3};
    double real[N] = {1, 2, 1e39};
    int32_t values[N];
    wide[9] = UINT64_MAX;
    array("a.npy", "<u8", "(6, 4)", wide, sizeof wide);
    DtStatus status = read_all(values);
    cr_assert(strstr(status.message, "value number 9 (byte ") &&
                  strstr(status.message, "a.npy is 18446744073709551615, which is no i32"),
              "%s", status.message);
    wide[9] = (uint64_t)INT64_MIN;
    array("a.npy", "<i8", "(6, 4)", wide, sizeof wide);
    status = read_all(values);
    cr_assert(strstr(status.message, "is -9223372036854775808, which is no i32"), "%s",
              status.message);
    f.inputs[0].dtype = DT_PLAN_F32;
    array("a.npy", "<f8", "(6, 4)", real, sizeof real);
    status = read_all(values);
    cr_assert(strstr(status.message, "value number 2 ") &&
                  strstr(status.message, "is 1e+39, more than an f32 can have"),
              "%s", status.message);
}

/* Each file has its own kind of numbers, and an empty array counts for nothing. */
Test(npy, several_files_are_one_stream)
{
    uint8_t narrow[8];
    int64_t wide[16];
    int32_t right[N];
    for (int i = 0; i < N; i++) {
        right[i] = 7 * i;
        if (i < 8)
            narrow[i] = (uint8_t)right[i];
        else
            wide[i - 8] = right[i];
    }
    array("a1.npy", "|u1", "(2, 4)", narrow, sizeof narrow);
    array("a2.npy", "<f2", "(0, 4)", NULL, 0);
    f.inputs[0].dtype = DT_PLAN_I32;
    fixture_refused(&f, "a2.npy has floats (`<f2`), and `tokens` is an input of i32: declare it as "
                        "f32, or write numpy.load(FILE).astype('i4')");
    array("a2.npy", "<i2", "(0, 4)", NULL, 0);
    array("a3.npy", "<i8", "(4, 1, 4)", wide, sizeof wide);
    expect(right);
}

Test(npy, versions_and_spellings_of_headers)
{
    static const char *const headers[] = {
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4), }\n",
        "{\"shape\":(6,4),\"fortran_order\":False,\"descr\":\"|u1\"}",
        "  { 'fortran_order' : False ,'shape' : ( 6L, 4L ), 'descr' : '|i1'}   \n\n",
        "{'descr': '|u1', 'fortran_order': True, 'shape': (24,), }",
        "{'descr': '<u1', 'fortran_order': True, 'shape': (1, 24, 1), }",
    };
    uint8_t body[N], bytes[512];
    int32_t right[N];
    for (int i = 0; i < N; i++)
        right[i] = body[i] = (uint8_t)(3 * i);
    for (size_t h = 0; h < 3; h++)
        for (int version = 1; version <= 3; version++) {
            fixture_file(&f, "a.npy", bytes, make(bytes, version, headers[h], body, N));
            expect(right);
        }
    f.axes[1].extent = f.axes[1].local = f.inputs[0].row_elements = 1;
    fixture_file(&f, "a.npy", bytes, make(bytes, 1, headers[3], body, N));
    dt_data_close(fixture_data(&f));
    f.axes[1].extent = f.axes[1].local = f.inputs[0].row_elements = 24;
    fixture_file(&f, "a.npy", bytes, make(bytes, 1, headers[4], body, N));
    dt_data_close(fixture_data(&f));
}

Test(npy, an_array_of_one_axis_is_a_stream_of_tokens)
{
    uint16_t tokens[N];
    int32_t read[ROW + 1];
    for (int i = 0; i < N; i++)
        tokens[i] = (uint16_t)(100 * i);
    f.reader.sample = DT_PLAN_NEXT_TOKEN;
    f.reader.n_inputs = 2;
    array("a.npy", "<u2", "(24,)", tokens, sizeof tokens);
    DtData *data = fixture_data(&f);
    fixture_read(data, 0, 1, 1, read, read + 1);
    dt_data_close(data);
    for (int i = 0; i <= ROW; i++)
        cr_assert_eq(read[i], tokens[ROW + i]);
    array("a.npy", "<u2", "(6, 4)", tokens, sizeof tokens);
    fixture_refused(&f, "is an array of 6 samples of 4 numbers each, no stream of tokens");
}

Test(npy, what_cannot_be_read_is_named)
{
    static const struct { const char *header; size_t len; const char *said;
    } cases[] = {
#define HEADER(dtype, order, shape) \
    "{'descr': " dtype ", 'fortran_order': " order ", 'shape': " shape ", }"
        {HEADER("'|O'", "False", "(6, 4)"), 10, "holds Python objects, a pickle, which runs code"},
        {HEADER("[('x', '<f4'), ('y', '<i4')]", "False", "(6, 4)"), 192,
         "has records of several fields: numpy.save(NEW, numpy.load(FILE)['NAME'])"},
        {HEADER("'<c8'", "False", "(6, 4)"), 192, "has elements of dtype `<c8`"},
        {HEADER("'<U7'", "False", "(6, 4)"), 672, "has elements of dtype `<U7`"},
        {HEADER("'<f16'", "False", "(6, 4)"), 384, "has elements of dtype `<f16`"},
        {HEADER("'|V2'", "False", "(6, 4)"), 48, "has elements of dtype `|V2`"},
        {HEADER("'<M8[ns]'", "False", "(6, 4)"), 192, "has elements of dtype `<M8[ns]`"},
        {HEADER("'<i3'", "False", "(6, 4)"), 72, "has elements of dtype `<i3`"},
        {HEADER("'|i4'", "False", "(6, 4)"), 96, "has elements of dtype `|i4`"},
        {HEADER("'<i4'", "True", "(6, 4)"), 96, "is in Fortran's order, the first axis fastest: "
                                                "numpy.save(NEW, numpy.ascontiguousarray("},
        {HEADER("'<i4'", "False", "()"), 4, "is a single number"},
        {HEADER("'<i4'", "False", "(6, 4)"), 95,
         "promises 24 numbers of 4 bytes, and 95 bytes follow: perhaps a part of it is missing"},
        {HEADER("'<i4'", "False", "(6, 4)"), 97, "and 97 bytes follow: it holds something else"},
        {HEADER("'<i4'", "False", "(4, 6)"), 96,
         "is an array of 4 samples of 6 numbers each; a sample of `tokens` has 4 values"},
        {HEADER("'<i4'", "False", "(6,)"), 24, "of 6 samples of 1 numbers each; a sample of"},
        {HEADER("'<f4'", "False", "(6, 4)"), 96, "has floats (`<f4`), and `tokens` is an input"},
        {HEADER("'<i4'", "False", "(0, 4)"), 0, "a.npy is empty"},
        {HEADER("'<i4'", "False", "(4294967296, 4294967296, 4)"), 96, "a part of it is missing"},
        {HEADER("'<i8'", "False", "(2305843009213693952, 4)"), 96, "a part of it is missing"},
        {HEADER("'<i4'", "False", "(99999999999999999999, 4)"), 96, "is it damaged?"},
        {HEADER("'<i4'", "False", "(-6, 4)"), 96, "has a header that is none of NumPy's"},
        {HEADER("'<i4'", "False", "(24)"), 96, "is it damaged?"},
        {HEADER("'<i4'", "0", "(6, 4)"), 96, "is it damaged?"},
        {HEADER("'<i\\x344'", "False", "(6, 4)"), 96, "is it damaged?"},
        {HEADER("'<i4'", "False", "(6, 4)") " x", 96, "is it damaged?"},
        {"{'descr': '<i4', 'fortran_order': False}", 96, "is it damaged?"},
        {"{'descr': '<i4', 'descr': '<i4', 'shape': (6, 4)}", 96, "is it damaged?"},
        {"__import__('os').system('false')", 96, "is it damaged?"},
        {"", 96, "is it damaged?"},
    };
    uint8_t body[1024] = {0};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        write_file("a.npy", cases[i].header, body, cases[i].len);
        fixture_refused(&f, cases[i].said);
    }
    f.inputs[0].dtype = DT_PLAN_F32;
    array("a.npy", "<i4", "(6, 4)", body, 96);
    fixture_refused(&f, "has integers (`<i4`), and `tokens` is an input of floats: declare it as "
                        "i32, or write numpy.load(FILE).astype('f4')");
}

Test(npy, files_that_are_no_arrays)
{
    uint8_t bytes[128] = "PK\x03\x04 and more";
    fixture_file(&f, "a.npy", bytes, sizeof bytes);
    fixture_refused(&f, "is an archive (.npz), no array");
    bytes[0] = 'Q';
    fixture_file(&f, "a.npy", bytes, sizeof bytes);
    fixture_refused(&f, "is no array of NumPy (.npy): it does not begin with \\x93NUMPY");
    fixture_file(&f, "a.npy", bytes, 0);
    fixture_refused(&f, "is empty");
    make(bytes, 4, "", NULL, 0);
    fixture_file(&f, "a.npy", bytes, sizeof bytes);
    fixture_refused(&f, "has version 4 of NumPy's format; versions 1 to 3 can be read");
    fixture_file(&f, "a.npy", bytes, 9);
    memcpy(bytes, "\x93NUMPY\1\0\377\377", 10);
    fixture_file(&f, "a.npy", bytes, sizeof bytes);
    fixture_refused(&f, "ends within its header");
    fixture_file(&f, "a.npy", bytes, 9);
    fixture_refused(&f, "ends within its header");
    memcpy(bytes, "\x93NUMPY\2\0\377\377\377\377", 12);
    fixture_file(&f, "a.npy", bytes, sizeof bytes);
    fixture_refused(&f, "has a header of 4294967295 bytes; at most 65536 can be read");
}

/* Any bytes are read or refused without a look outside of the file, which lies alone in memory of
 * its size. A file that is read has its numbers inside. */
Test(npy, damaged_headers)
{
    static const char header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (6, 4), }\n";
    static const char letters[] = "{}(),:'\"<>|=bifuOcTrueFalse0123456789L[ \n\\\377";
    const DtTokenFormat format = {.dtype = DT_PLAN_I64, .width = 8, .npy = true, .input = "x",
                                  .n_axes = 1, .extents = {ROW}};
    uint8_t whole[256];
    const size_t len = make(whole, 1, header, (uint8_t[4 * N]){0}, sizeof(int32_t) * N);
    uint32_t draw = 1, n_read = 0;
    for (int round = 0; round < 20000; round++) {
        const size_t n = round % 4 == 0 ? (size_t)round / 4 % (len + 1) : len;
        uint8_t *bytes = malloc(n + !n);
        cr_assert(bytes);
        memcpy(bytes, whole, n);
        for (int i = 0; i < round % 3 + (round % 4 != 0) && n > 0; i++) {
            draw = draw * 1664525 + 1013904223;
            bytes[(draw >> 8) % (n < 80 ? n : 80)] =
                (uint8_t)(draw & 64 ? letters[draw >> 20 & 31] : (int)(draw >> 24));
        }
        DtTokenFile file = {.view = {.at = bytes, .len = n}, .path = "x.npy"};
        DtStatus status = dt_datanpy_layout(&format, &file);
        if (dt_status_ok(&status) && n > 0) {
            cr_assert_eq(file.skip + (size_t)(file.n * file.number.width), n);
            n_read++;
        }
        free(bytes);
    }
    cr_assert(n_read > 100, "only %u files were read", n_read);
}
