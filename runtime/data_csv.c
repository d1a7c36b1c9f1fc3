/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of numbers as text, as spreadsheets and data frames write them: a line is a sample, and
 * its fields are numbers, with a separator between two.
 *
 *   age,height,"weight"
 *   31,1.74,70.5
 *
 * A field may be in quotes, but end on its line. Lines that are empty count for nothing. The text
 * stays as it is in the file: a line is read when its sample is. So that a row is found at once,
 * the byte where each 16th begins is kept. */
#include "runtime/data.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARK = 16,             /* rows from one mark to the next */
    MOST_FIELDS = 1 << 20, /* of a line */
    MOST_NUMBER = 63,      /* characters of a number */
    SHOWN = 40             /* characters of a field that a message shows */
};

/* A field without blanks and quotes around it. */
typedef struct DtTableField {
    const char *at;
    uint32_t len, column; /* column: of its first character in the line, from 1 on */
} Field;

/* The file's text from a line on. */
typedef struct Lines {
    const char *text;
    uint64_t len, at, line; /* at: where the next line begins; line: its number, from 1 on */
} Lines;

static Lines lines_of(const DtTokenFile *file)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some programs write first */
    const char *text = (const char *)file->view.at;
    const uint64_t skip = file->view.len >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    return (Lines){text, file->view.len, skip, 1};
}

/* Finds the next line that is not empty, without its end; false: there is none. */
static bool next_line(Lines *lines, const char **ret_line, uint64_t *ret_len)
{
    while (lines->at < lines->len) {
        const char *line = lines->text + lines->at;
        const uint64_t left = lines->len - lines->at;
        const char *end = memchr(line, '\n', left);
        uint64_t len = end ? (uint64_t)(end - line) : left;
        lines->at += len + (end != NULL);
        lines->line++;
        while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
            len--;
        if (len == 0)
            continue;
        *ret_line = line;
        *ret_len = len;
        return true;
    }
    return false;
}

/* ---- fields ---- */

static DtStatus refuse(const DtTokenFile *file, uint64_t line, uint64_t column, const char *why)
{
    return dt_status_fail(DT_EXIT_IO, "%.200s:%llu:%llu: %.250s", file->path,
                          (unsigned long long)line, (unsigned long long)column, why);
}

static bool is_blank(char c, char separator) { return (c == ' ' || c == '\t') && c != separator; }

/* Whether the field goes to this place: a separator outside of quotes, or the end of the line. */
static const char *end_of_field(const char *at, const char *end, char separator)
{
    if (at < end && *at == '"') {
        for (at++; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++)
            at += *at == '"';
        if (at >= end)
            return NULL;
    }
    const char *found = at < end ? memchr(at, separator, (size_t)(end - at)) : NULL;
    return found ? found : end;
}

/* Cuts a line into fields: at most `most` are kept, all are counted. line: its number. */
static DtStatus cut(const DtTokenFormat *format, const DtTokenFile *file, uint64_t line,
                    const char *text, uint64_t len, uint32_t most, Field *ret_fields,
                    uint32_t *ret_n)
{
    const char separator = format->separator, *at = text, *const end = text + len;
    uint32_t n = 0;
    for (bool more = true; more; n++) {
        while (at < end && is_blank(*at, separator))
            at++;
        const char *stop = end_of_field(at, end, separator), *last = stop;
        const uint64_t column = (uint64_t)(at - text) + 1;
        if (!stop)
            return refuse(file, line, column, "a field in quotes has no end on its line");
        if (n == MOST_FIELDS)
            return refuse(file, line, column, "a line of more than 1,048,576 fields");
        while (last > at && is_blank(last[-1], separator))
            last--;
        if (last - at >= 2 && *at == '"' && last[-1] == '"') {
            at++;
            last--;
        }
        const size_t bytes = (size_t)(last - at);
        if (n < most)
            ret_fields[n] = (Field){at, bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX,
                                    column < UINT32_MAX ? (uint32_t)column : UINT32_MAX};
        more = stop < end;
        at = stop + more;
    }
    *ret_n = n;
    return DT_OK;
}

/* Whether the field is a number: decimals, or nan, inf and their spellings. */
static bool number_of(const Field *field, double *ret_number)
{
    char text[MOST_NUMBER + 1], *end;
    if (field->len == 0 || field->len > MOST_NUMBER || memchr(field->at, '\0', field->len))
        return false;
    memcpy(text, field->at, field->len);
    text[field->len] = '\0';
    if (isspace((unsigned char)*text) || strpbrk(text, "xX(")) /* strtod reads these, too */
        return false;
    *ret_number = strtod(text, &end);
    return *end == '\0';
}

/* ---- columns ---- */

/* Whether the text is the pattern, where * stands for any characters. */
static bool matches(const char *pattern, size_t n, const char *text, size_t len)
{
    size_t p = 0, t = 0, star = SIZE_MAX, from = 0;
    while (t < len) {
        if (p < n && pattern[p] == '*') {
            star = p++;
            from = t;
        } else if (p < n && pattern[p] == text[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++from;
        } else {
            return false;
        }
    }
    while (p < n && pattern[p] == '*')
        p++;
    return p == n;
}

static bool is_field(const Field *field, const char *name, size_t n)
{
    return field->len == n && memcmp(field->at, name, n) == 0;
}

/* Which of the fields a name means, as flags: those with this name, or that match it if there are
 * none. Returns how many. */
static uint32_t find_named(const Field *fields, uint32_t n_fields, const char *name, size_t len,
                           bool *ret_chosen)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_fields; i++)
        n += ret_chosen[i] = is_field(&fields[i], name, len);
    for (uint32_t i = 0; n == 0 && i < n_fields; i++)
        ret_chosen[i] = matches(name, len, fields[i].at, fields[i].len);
    for (uint32_t i = 0, exact = n; exact == 0 && i < n_fields; i++)
        n += ret_chosen[i];
    return n;
}

static DtStatus refuse_name(const DtTokenFile *file, const char *name, size_t len, uint32_t found,
                            const Field *fields, uint32_t n_fields)
{
    DtText list = {0};
    for (uint32_t i = 0; i < n_fields && list.len < 200; i++)
        dt_text_printf(&list, "%s`%.*s`", i ? ", " : "",
                       fields[i].len < SHOWN ? (int)fields[i].len : SHOWN, fields[i].at);
    DtStatus status =
        found ? dt_status_fail(DT_EXIT_IO, "%.200s has %u columns `%.*s`", file->path, found,
                               len < SHOWN ? (int)len : SHOWN, name)
              : dt_status_fail(DT_EXIT_IO, "%.150s has no column `%.*s`; it has %.220s", file->path,
                               len < SHOWN ? (int)len : SHOWN, name, list.at ? list.at : "none");
    dt_text_free(&list);
    return status;
}

/* Adds the fields that one line of `columns` means, or drops those after `!`. */
static DtStatus choose(const DtTokenFile *file, const Field *fields, const char *name, size_t len,
                       bool *chosen, DtTable *table)
{
    const bool drops = len > 1 && *name == '!';
    name += drops;
    len -= drops;
    const uint32_t found = find_named(fields, table->n_fields, name, len, chosen);
    if (found == 0 || (found > 1 && !drops && !memchr(name, '*', len)))
        return refuse_name(file, name, len, found, fields, table->n_fields);
    uint32_t n = 0;
    for (uint32_t i = 0; drops && i < table->n_columns; i++)
        if (!chosen[table->columns[i]])
            table->columns[n++] = table->columns[i];
    if (drops)
        table->n_columns = n;
    for (uint32_t i = 0; !drops && i < table->n_fields; i++) {
        if (!chosen[i])
            continue;
        for (uint32_t k = 0; k < table->n_columns; k++)
            if (table->columns[k] == i)
                return dt_status_fail(
                    DT_EXIT_IO, "%.200s: `columns` names column %u, `%.*s`, twice", file->path,
                    i + 1, fields[i].len < SHOWN ? (int)fields[i].len : SHOWN, fields[i].at);
        table->columns[table->n_columns++] = i;
    }
    return DT_OK;
}

/* Finds the fields that `columns` names; those are all if it names none, or only some to drop. */
static DtStatus choose_columns(DtArena *memory, const DtTokenFormat *format,
                               const DtTokenFile *file, const Field *fields, DtTable *table)
{
    const char *at = format->columns;
    bool *chosen = DT_NEW_ARRAY(memory, bool, table->n_fields);
    DtStatus status = DT_OK;
    table->columns = DT_NEW_ARRAY(memory, uint32_t, table->n_fields);
    for (uint32_t i = 0; (*at == '\0' || *at == '!') && i < table->n_fields; i++)
        table->columns[table->n_columns++] = i;
    while (*at && dt_status_ok(&status)) {
        const size_t len = strcspn(at, "\n");
        status = choose(file, fields, at, len, chosen, table);
        at += len + (at[len] == '\n');
    }
    return status;
}

/* ---- lines ---- */

/* Fails if the first line is one of numbers: it has no names, and would be lost. Names that count
 * the columns, 0, 1, 2, .., are what pandas writes if there are no others. */
static DtStatus check_names(const DtTokenFile *file, uint64_t line, const Field *fields, uint32_t n)
{
    double number;
    bool numbers = true, counts = true;
    for (uint32_t i = 0; numbers && i < n; i++) {
        numbers = number_of(&fields[i], &number);
        counts = counts && numbers && number == i;
    }
    return !numbers || counts
               ? DT_OK
               : refuse(file, line, 1,
                        "the first line has numbers and no names of columns: say `header = false`");
}

/* The elements of a sample. */
static int64_t elements_of(const DtTokenFormat *format)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < format->n_axes; a++)
        n *= format->extents[a];
    return n;
}

static DtStatus check_columns(const DtTokenFormat *format, const DtTokenFile *file)
{
    const uint32_t n = file->table->n_columns;
    if (n > 0 && (format->stream || n == elements_of(format)))
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "%.200s has %u columns that `%.60s` reads, of %u in all, and a sample of "
                          "it has %lld values: `columns = (\"a\", \"b\")` says which",
                          file->path, n, format->input, file->table->n_fields,
                          (long long)elements_of(format));
}

/* Counts the rows from here on. */
static int64_t count_rows(Lines lines)
{
    const char *line;
    uint64_t len;
    int64_t n = 0;
    while (next_line(&lines, &line, &len))
        n++;
    return n;
}

static void mark_rows(DtArena *memory, Lines lines, int64_t rows, DtTable *table)
{
    const char *line;
    uint64_t len;
    table->marks = DT_NEW_ARRAY(memory, uint64_t, rows / MARK + 1);
    table->lines = DT_NEW_ARRAY(memory, uint64_t, rows / MARK + 1);
    for (int64_t row = 0; row < rows; row++) {
        if (row % MARK == 0) {
            table->marks[row / MARK] = lines.at;
            table->lines[row / MARK] = lines.line;
        }
        next_line(&lines, &line, &len);
    }
}

DtStatus dt_datacsv_layout(DtArena *memory, const DtTokenFormat *format, DtTokenFile *file)
{
    Lines lines = lines_of(file), first = lines;
    const char *line;
    uint64_t len;
    DtTable *table = DT_NEW(memory, DtTable);
    *table = (DtTable){.row = -1};
    file->table = table;
    file->number = (DtNumber){.kind = DT_NUMBER_FLOAT, .width = 1};
    DtStatus status = dt_dataknown_refuse(true, file);
    if (!dt_status_ok(&status) || !next_line(&lines, &line, &len))
        return status; /* as an empty file of any source */
    status = cut(format, file, lines.line - 1, line, len, 0, NULL, &table->n_fields);
    if (!dt_status_ok(&status))
        return status;
    table->fields = DT_NEW_ARRAY(memory, Field, table->n_fields);
    status = cut(format, file, lines.line - 1, line, len, table->n_fields, table->fields,
                 &table->n_fields);
    if (dt_status_ok(&status) && format->header)
        status = check_names(file, lines.line - 1, table->fields, table->n_fields);
    if (dt_status_ok(&status))
        status = choose_columns(memory, format, file, table->fields, table);
    if (dt_status_ok(&status))
        status = check_columns(format, file);
    if (!dt_status_ok(&status))
        return status;
    const Lines rows = format->header ? lines : first;
    const int64_t n = count_rows(rows);
    mark_rows(memory, rows, n, table);
    file->n = n * table->n_columns;
    return DT_OK;
}

/* ---- reading ---- */

/* Finds the line of a row, and cuts it into fields. */
static DtStatus find_row(const DtTokenFormat *format, const DtTokenFile *file, int64_t row,
                         uint64_t *ret_line)
{
    DtTable *table = file->table;
    Lines lines = lines_of(file);
    const char *line = NULL;
    uint64_t len = 0;
    const bool goes_on = table->row >= 0 && row >= table->row && row - table->row < MARK;
    int64_t at = goes_on ? table->row : row - row % MARK;
    lines.at = goes_on ? table->at : table->marks[row / MARK];
    lines.line = goes_on ? table->line : table->lines[row / MARK];
    for (; at <= row; at++)
        if (!next_line(&lines, &line, &len)) /* the file has changed meanwhile */
            return refuse(file, lines.line, 1, "a line is missing that was there before");
    table->row = row + 1;
    table->at = lines.at;
    table->line = lines.line;
    uint32_t n = 0;
    *ret_line = lines.line - 1;
    DtStatus status = cut(format, file, *ret_line, line, len, table->n_fields, table->fields, &n);
    if (!dt_status_ok(&status) || n == table->n_fields)
        return status;
    return dt_status_fail(DT_EXIT_IO, "%.250s:%llu: this line has %u fields, the first line %u",
                          file->path, (unsigned long long)*ret_line, n, table->n_fields);
}

static DtStatus refuse_field(const DtTokenFile *file, uint64_t line, const Field *field,
                             const char *why)
{
    DtText shown = {0};
    if (field->len > 0)
        dt_text_add_visible(&shown, field->at, field->len < SHOWN ? field->len : SHOWN);
    DtStatus status = field->len == 0
                          ? refuse(file, line, field->column,
                                   "an empty field: write a number there, or leave the line out")
                          : dt_status_fail(DT_EXIT_IO, "%.250s:%llu:%u: `%s`%s is %s", file->path,
                                           (unsigned long long)line, field->column, shown.at,
                                           field->len > SHOWN ? " .." : "", why);
    dt_text_free(&shown);
    return status;
}

/* Writes the number of a field as f32 or i32; returns why it cannot, or NULL. */
static const char *put(double number, bool floats, char *to)
{
    const float value = (float)number;
    if (floats) {
        memcpy(to, &value, sizeof value);
        return isinf(value) && isfinite(number) ? "more than an f32 can have" : NULL;
    }
    if (!(number >= INT32_MIN && number <= INT32_MAX) || number != floor(number))
        return "no i32";
    memcpy(to, &(int32_t){(int32_t)number}, sizeof(int32_t));
    return NULL;
}

DtStatus dt_datacsv_read(const DtTokenFormat *format, const DtTokenFile *file, int64_t at,
                         int64_t n, void *ret_numbers)
{
    enum { MADE = 4 }; /* bytes of i32, f32 */
    const DtTable *table = file->table;
    const bool floats = dt_kinds_is_float(format->dtype) || format->dtype == DT_PLAN_F64;
    char *to = ret_numbers;
    while (n > 0) {
        uint64_t line;
        DtStatus status = find_row(format, file, at / table->n_columns, &line);
        if (!dt_status_ok(&status))
            return status;
        for (uint32_t k = (uint32_t)(at % table->n_columns); k < table->n_columns && n > 0;
             k++, at++, n--, to += MADE) {
            const Field *field = &table->fields[table->columns[k]];
            double number;
            const char *why = number_of(field, &number) ? put(number, floats, to) : "no number";
            if (why)
                return refuse_field(file, line, field, why);
        }
    }
    return DT_OK;
}

void dt_datacsv_place(const DtTokenFormat *format, const DtTokenFile *file, int64_t at,
                      uint64_t *ret_line, uint64_t *ret_column)
{
    const DtTable *table = file->table;
    *ret_line = *ret_column = 0;
    DtStatus status = find_row(format, file, at / table->n_columns, ret_line);
    if (dt_status_ok(&status))
        *ret_column = table->fields[table->columns[at % table->n_columns]].column;
}
