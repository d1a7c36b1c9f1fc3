/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as text: fields, quotes, ends of lines, columns by name, and what is refused, with its
 * line and column. */
#include "data_fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 3, BATCH = 2 };

static DataFixture f;

static void setup(void)
{
    fixture_open(&f, ROW, BATCH);
    fixture_glob(&f, DT_PLAN_CSV, DT_PLAN_BOOL, "t*.csv");
    f.reader.sample = DT_PLAN_RAW;
    f.reader.n_inputs = 1;
    f.reader.is_eval = 1;
    f.reader.separator = ',';
    f.reader.header = 1;
    f.inputs[0].dtype = DT_PLAN_F32;
}
static void teardown(void) { fixture_close(&f); }

TestSuite(csv, .init = setup, .fini = teardown);

static void file(const char *name, const char *text) { fixture_file(&f, name, text, strlen(text)); }

static void columns(const char *names) { f.reader.columns = fixture_str(&f, names); }

/* The file is read as these samples. */
static void expect(int64_t samples, const float *right)
{
    float values[ROW * 64];
    DtData *data = fixture_data(&f);
    cr_assert_eq(dt_data_samples(data), samples);
    DtStatus status = dt_data_read(data, 0, 0, samples, (char *[]){(char *)values});
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (int64_t i = 0; i < samples * ROW; i++)
        cr_assert_float_eq(values[i], right[i], 1e-6f * fabsf(right[i]), "value %lld: %g",
                           (long long)i, (double)values[i]);
    dt_data_close(data);
}

/* The first samples cannot be read. */
static void expect_unread(const char *said)
{
    float values[ROW * 64];
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_read(data, 0, 0, dt_data_samples(data), (char *[]){(char *)values});
    cr_assert(!dt_status_ok(&status), "read; expected: %s", said);
    cr_assert(strstr(status.message, said), "said: %s\nexpected: %s", status.message, said);
    dt_data_close(data);
}

Test(csv, fields_and_ends_of_lines)
{
    static const char *const texts[] = {
        "a,b,c\n1,2,3\n4.5,-1e3,+.25\n",
        "a,b,c\r\n1,2,3\r\n4.5,-1e3,+.25",
        "\357\273\277a,b,c\n\n1,2,3\n\r\n  \n4.5,-1000,2.5e-1\n\n",
        "\"a\",\"b, or \"\"c\"\"\",c\n\"1\",\"2\",3\n 4.5 ,\t-1000 , 0.25 \n",
    };
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        file("t.csv", texts[i]);
        expect(2, (float[]){1, 2, 3, 4.5F, -1000, 0.25F});
    }
}

Test(csv, separators)
{
    file("t.csv", "a\tb\tc\n1\t2\t3\n4\t 5\t6\n");
    f.reader.separator = '\t';
    expect(2, (float[]){1, 2, 3, 4, 5, 6});
    file("t.csv", "1;2;3\n4;5;6\n");
    f.reader.separator = ';';
    f.reader.header = 0;
    expect(2, (float[]){1, 2, 3, 4, 5, 6});
}

Test(csv, columns_by_name_and_pattern)
{
    file("t1.csv", "name,p1,p2,label,p3\nx,1,2,7,3\n");
    file("t2.csv", "p3,p1,name,p2,label\n6,4,y,5,8\n"); /* each file says where they are */
    columns("p1\np2\np3");
    expect(2, (float[]){1, 2, 3, 4, 5, 6});
    columns("p2\nlabel\np1");
    expect(2, (float[]){2, 7, 1, 5, 8, 4});
    columns("p*");
    expect(2, (float[]){1, 2, 3, 6, 4, 5}); /* in the order of each file */
    columns("!name\n!p1");
    expect(2, (float[]){2, 7, 3, 6, 5, 8});
    columns("*\n!p1\n!name");
    expect(2, (float[]){2, 7, 3, 6, 5, 8});
}

Test(csv, rows_in_any_order_are_those_read_in_line)
{
    enum { SAMPLES = 101 };
    char text[8192] = "a,b,c\n";
    for (int i = 0; i < SAMPLES; i++) /* with empty lines, of different lengths */
        sprintf(text + strlen(text), "%d,%d.5,%d\n%s", i, i * i, -i, i % 7 ? "" : "\n\n");
    file("t.csv", text);
    DtData *data = fixture_data(&f);
    cr_assert_eq(dt_data_samples(data), SAMPLES);
    for (int64_t k = 0; k < 4 * SAMPLES; k++) {
        const int64_t row = k < SAMPLES ? k : k * 37 % SAMPLES;
        float values[ROW];
        DtStatus status =
            dt_data_read(data, row / BATCH, row % BATCH, 1, (char *[]){(char *)values});
        cr_assert(dt_status_ok(&status), "%s", status.message);
        cr_assert_eq(values[0], (float)row);
        cr_assert_eq(values[1], (float)(row * row) + 0.5F);
        cr_assert_eq(values[2], -(float)row);
    }
    dt_data_close(data);
}

Test(csv, integers)
{
    int32_t values[2 * ROW];
    f.inputs[0].dtype = DT_PLAN_I32;
    file("t.csv", "a,b,c\n1,-2,3.0\n2147483647,-2147483648,4e2\n");
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_read(data, 0, 0, 2, (char *[]){(char *)values});
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_arr_eq(values, ((int32_t[]){1, -2, 3, INT32_MAX, INT32_MIN, 400}), sizeof values);
    dt_data_close(data);
    file("t.csv", "a,b,c\n1,2147483648,3\n");
    expect_unread("t.csv:2:3: `2147483648` is no i32");
    file("t.csv", "a,b,c\n1,2,3.5\n");
    expect_unread("t.csv:2:5: `3.5` is no i32");
    file("t.csv", "a,b,c\n1,2,nan\n");
    expect_unread("t.csv:2:5: `nan` is no i32");
}

Test(csv, parts_are_cut_between_lines)
{
    file("t.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,9\n");
    f.reader.from = 0.4;
    DtData *data = NULL;
    DtData *readers[1] = {NULL};
    DtStatus status = dt_data_open_block(&f.options, &f.plan, true, readers);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    data = readers[0];
    float values[ROW];
    cr_assert_eq(dt_data_samples(data), 2);
    status = dt_data_read(data, 0, 0, 1, (char *[]){(char *)values});
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(values[0], 4);
    dt_data_close(data);
}

Test(csv, what_is_no_number_is_named_by_line_and_column)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"a,b,c\n1,2,3\n\n4,x y,6\n", "t.csv:4:3: `x y` is no number"},
        {"a,b,c\n1,,3\n", "t.csv:2:3: an empty field"},
        {"a,b,c\n1,2,\n", "t.csv:2:5: an empty field"},
        {"a,b,c\n1,2\n", "t.csv:2: this line has 2 fields, the first line 3"},
        {"a,b,c\n1,2,3,4\n", "t.csv:2: this line has 4 fields, the first line 3"},
        {"a,b,c\n1,\"2,3\n4,5,6\n", "t.csv:2:3: a field in quotes has no end on its line"},
        {"a,b,c\n1,2,0x10\n", "t.csv:2:5: `0x10` is no number"},
        {"a,b,c\n1,1e39,3\n", "t.csv:2:3: `1e39` is more than an f32 can have"},
        {"a,b,c\n1,2,1.2.3\n", "t.csv:2:5: `1.2.3` is no number"},
        {"a,b,c\n1,2,3\"\n", "t.csv:2:5: `3\"` is no number"},
        {"a,b,c\n1;2;3\n", "t.csv:2: this line has 1 fields"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        file("t.csv", cases[i].text);
        expect_unread(cases[i].said);
    }
}

Test(csv, heads_that_are_refused)
{
    file("t.csv", "1,2,3\n4,5,6\n");
    fixture_refused(&f, "t.csv:1:1: the first line has numbers and no names of columns");
    file("t.csv", "0,1,2\n4,5,6\n"); /* names that count */
    expect(1, (float[]){4, 5, 6});
    file("t.csv", "a,b\n4,5\n");
    fixture_refused(&f, "has 2 columns that `tokens` reads, of 2 in all, and a sample of it has 3");
    file("t.csv", "a,b,c\n1,2,3\n");
    columns("a\nd\nb");
    fixture_refused(&f, "has no column `d`; it has `a`, `b`, `c`");
    columns("a\na\nb");
    fixture_refused(&f, "`columns` names column 1, `a`, twice");
    file("t.csv", "a,a,c\n1,2,3\n");
    columns("a\nc");
    fixture_refused(&f, "has 2 columns `a`");
    columns("");
    file("t.csv", "a,b,c\n");
    fixture_refused(&f, "t.csv is empty");
    file("t.csv", "");
    fixture_refused(&f, "t.csv is empty");
    file("t.csv", "\xff\xfe"
                  "a\0,\0");
    fixture_refused(&f, "UTF-16");
}

/* As look_at_files and the digest of checkpoints need it. */
Test(csv, places_and_facts)
{
    DtText notes = {0};
    DtDataFact fact, other;
    f.inputs[0].dtype = DT_PLAN_F32;
    file("t.csv", "a,b,c\n1,2,3\n4,inf,6\n");
    DtData *data = fixture_data(&f);
    DtStatus status = dt_data_look(data, &notes);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(strstr(notes.at, "t.csv:3:3 is infinite"), "%s", notes.at);
    status = dt_data_fact(f.plan.meta ? data->memory : NULL, data, &fact);
    cr_assert(dt_status_ok(&status) && fact.samples == 2 && fact.values == ROW);
    file("t.csv", "a,b,c\n1,2,3\n4,5.7,6\n");
    DtData *second = fixture_data(&f);
    status = dt_data_fact(second->memory, second, &other);
    dt_text_free(&notes);
    cr_assert(dt_data_changed(&fact, &other, &notes));
    dt_text_free(&notes);
    dt_data_close(second);
    dt_data_close(data);
}
