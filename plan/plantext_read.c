/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text form of plans (plantext.c shows it). The text may come from anywhere: each line
 * is parsed against the field tables, errors name the line, and the finished plan goes through the
 * checker like any other, so what this makes is either valid or refused. */
#include "plan/fields.h"
#include "plan/read.h"
#include "plan/write.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    DtArena *arena;
    DtPlanBuilder *builder;
    const char *at, *end;        /* the text that is left */
    const char *line, *line_end; /* what is left of the line */
    uint32_t line_number;
    DtStatus status;
} Reader;

#define FAIL(reader, ...) return fail((reader), __VA_ARGS__)

static bool fail(Reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Reader *reader, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = dt_arena_vprintf(reader->arena, format, args);
    va_end(args);
    reader->status = dt_status_fail(DT_EXIT_DIAGNOSTICS, "plan text, line %u: %.300s",
                                    reader->line_number, text);
    return false;
}

static bool next_line(Reader *reader)
{
    if (reader->at >= reader->end)
        return false;
    const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    reader->line = reader->at;
    reader->line_end = newline ? newline : reader->end;
    reader->at = newline ? newline + 1 : reader->end;
    reader->line_number++;
    return true;
}

static void skip_spaces(Reader *reader)
{
    while (reader->line < reader->line_end && (*reader->line == ' ' || *reader->line == '\t'))
        reader->line++;
}

static bool take(Reader *reader, char c)
{
    if (reader->line >= reader->line_end || *reader->line != c)
        return false;
    reader->line++;
    return true;
}

/* Takes the characters up to a separator, and returns them as a C string. */
static const char *take_word(Reader *reader)
{
    const char *first = reader->line;
    while (reader->line < reader->line_end && strchr(" \t=,()#\"", *reader->line) == NULL)
        reader->line++;
    return dt_arena_strndup(reader->arena, first, (size_t)(reader->line - first));
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_string(Reader *reader, DtPlanStr *ret_str)
{
    if (!take(reader, '"'))
        FAIL(reader, "a string in double quotes was expected");
    char *text = dt_arena_alloc(reader->arena, (size_t)(reader->line_end - reader->line) + 1);
    size_t n = 0;
    while (!take(reader, '"')) {
        if (reader->line >= reader->line_end)
            FAIL(reader, "the string does not end");
        char c = *reader->line++;
        if (c == '\\' && take(reader, 'x')) {
            int high = reader->line < reader->line_end ? hex_digit(*reader->line++) : -1;
            int low = reader->line < reader->line_end ? hex_digit(*reader->line++) : -1;
            c = high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
        } else if (c == '\\')
            c = reader->line < reader->line_end ? *reader->line++ : '\0';
        if (c == '\0')
            FAIL(reader, "a NUL or a broken escape in a string");
        text[n++] = c;
    }
    text[n] = '\0';
    *ret_str = dt_write_str(reader->builder, text);
    return true;
}

static bool parse_name(Reader *reader, const DtPlanField *field, const char *word,
                       uint64_t *ret_value)
{
    for (uint32_t i = 0; i < field->n_names; i++)
        if (strcmp(field->names[i], word) == 0) {
            *ret_value = i;
            return true;
        }
    FAIL(reader, "`%.40s` is no value of `%s`", word, field->name);
}

static bool parse_double(Reader *reader, const DtPlanField *field, const char *word,
                         uint64_t *ret_value)
{
    char *end;
    double number = strtod(word, &end);
    if (word[0] == '\0' || *end != '\0' || isnan(number) ||
        (isinf(number) && strcmp(field->name, "init_a") != 0))
        FAIL(reader, "`%.40s` is no finite number for `%s`", word, field->name);
    memcpy(ret_value, &number, sizeof number);
    return true;
}

static bool parse_integer(Reader *reader, const DtPlanField *field, const char *word,
                          uint64_t *ret_value)
{
    bool is_signed = field->kind == DT_FIELD_I32 || field->kind == DT_FIELD_I64;
    char *end;
    errno = 0;
    uint64_t value = is_signed ? (uint64_t)strtoll(word, &end, 10)
                               : strtoull(word, &end, field->kind == DT_FIELD_HEX ? 16 : 10);
    bool fits = field->kind == DT_FIELD_I32
                    ? (int64_t)value >= INT32_MIN && (int64_t)value <= INT32_MAX
                : field->size == 8 ? true
                                   : value >> (8 * field->size) == 0;
    if (word[0] == '\0' || *end != '\0' || errno != 0 || !fits || (!is_signed && word[0] == '-'))
        FAIL(reader, "`%.40s` is no number for `%s`", word, field->name);
    *ret_value = value;
    return true;
}

static bool take_element(Reader *reader, const DtPlanField *field, uint8_t *record,
                         uint32_t element)
{
    uint64_t value = 0;
    const char *word = take_word(reader);
    bool good = field->names != NULL          ? parse_name(reader, field, word, &value)
                : field->kind == DT_FIELD_F64 ? parse_double(reader, field, word, &value)
                                              : parse_integer(reader, field, word, &value);
    if (good)
        dt_fields_set(field, record, element, value);
    return good;
}

static bool take_array(Reader *reader, const DtPlanField *field, uint8_t *record)
{
    if (!take(reader, '('))
        FAIL(reader, "`%s` wants a list in parentheses", field->name);
    for (uint32_t i = 0;; i++) {
        if (i == field->count)
            FAIL(reader, "`%s` has at most %u elements", field->name, field->count);
        skip_spaces(reader);
        if (!take_element(reader, field, record, i))
            return false;
        skip_spaces(reader);
        if (take(reader, ')'))
            return true;
        if (!take(reader, ','))
            FAIL(reader, "`,` or `)` was expected in `%s`", field->name);
    }
}

/* ---- blobs ---- */

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool take_base64(Reader *reader, DtText *bytes)
{
    while (reader->line < reader->line_end) {
        if (reader->line_end - reader->line < 4)
            FAIL(reader, "base64 comes in groups of four");
        uint32_t bits = 0;
        int n = 0;
        for (int i = 0; i < 4; i++) {
            int digit = base64_digit(reader->line[i]);
            if (digit < 0 && (reader->line[i] != '=' || i < 2))
                FAIL(reader, "`%c` is no base64 digit",
                     reader->line[i] >= ' ' ? reader->line[i] : '?');
            bits = bits << 6 | (uint32_t)(digit < 0 ? 0 : digit);
            n += digit >= 0;
        }
        char out[3] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits};
        dt_text_add_n(bytes, out, (size_t)n - 1);
        reader->line += 4;
    }
    return true;
}

static bool take_blob_lines(Reader *reader, DtText *bytes)
{
    while (next_line(reader)) {
        if (take(reader, '.'))
            return true;
        bool newline = take(reader, '|');
        if (newline || take(reader, '\\')) {
            dt_text_add_n(bytes, reader->line, (size_t)(reader->line_end - reader->line));
            dt_text_add(bytes, newline ? "\n" : "");
        } else if (!take(reader, ':') || !take_base64(reader, bytes))
            return dt_status_ok(&reader->status)
                       ? fail(reader, "`:`, `|` or `.` was expected in a blob")
                       : false;
    }
    FAIL(reader, "the blob does not end with `.`");
}

static bool take_blob(Reader *reader, const DtPlanField *field, uint8_t *record)
{
    DtText bytes = {0};
    bool good = take_blob_lines(reader, &bytes);
    if (good && bytes.len > INT32_MAX / 2)
        good = fail(reader, "the blob is too long");
    if (good) {
        dt_fields_set(field, record, 0, dt_write_blob(reader->builder, bytes.at, bytes.len));
        dt_fields_set(field + 1, record, 0, bytes.len);
    }
    dt_text_free(&bytes);
    return good;
}

/* ---- records ---- */

static bool take_field(Reader *reader, const DtPlanRecord *type, uint8_t *record, uint64_t *seen,
                       uint64_t *blobs)
{
    const char *name = take_word(reader);
    for (uint32_t f = 0; f < type->n_fields; f++) {
        const DtPlanField *field = &type->fields[f];
        if (strcmp(field->name, name) != 0 || field->kind == DT_FIELD_RESERVED ||
            field->kind == DT_FIELD_BLOB_LEN)
            continue;
        if (*seen >> f & 1)
            FAIL(reader, "`%s` occurs twice", field->name);
        *seen |= (uint64_t)1 << f;
        if (!take(reader, '='))
            FAIL(reader, "`=` was expected after `%s`", field->name);
        if (field->kind == DT_FIELD_STR) {
            DtPlanStr str = {0};
            if (!take_string(reader, &str))
                return false;
            dt_fields_set(field, record, 0, str);
            return true;
        }
        if (field->kind == DT_FIELD_BLOB) {
            *blobs |= (uint64_t)1 << f;
            take_word(reader);
            return true;
        }
        return field->count > 1 ? take_array(reader, field, record)
                                : take_element(reader, field, record, 0);
    }
    FAIL(reader, "%.4s has no field `%.40s`", type->tag, name);
}

static void push_record(Reader *reader, const DtPlanRecord *type, const uint8_t *record)
{
    DtPlanBuilder *builder = reader->builder;
    switch (type - dt_fields_records) {
#define DT_PLAN_FIELD(tag, field, T)                  \
    case DT_RECORD_##field: {                         \
        T item;                                       \
        memcpy(&item, record, sizeof item);           \
        DT_PUSH(reader->arena, builder->field, item); \
        break;                                        \
    }
        DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
    }
}

static bool take_record(Reader *reader)
{
    const char *tag = take_word(reader);
    const DtPlanRecord *type = strlen(tag) == 4 ? dt_fields_find(tag) : NULL;
    if (type == NULL)
        FAIL(reader, "`%.40s` is no kind of record", tag);
    _Alignas(8) uint8_t record[512] = {0};
    uint64_t seen = 0, blobs = 0;
    for (;;) {
        skip_spaces(reader);
        if (reader->line >= reader->line_end || *reader->line == '#')
            break;
        if (!take_field(reader, type, record, &seen, &blobs))
            return false;
    }
    for (uint32_t f = 0; f < type->n_fields; f++)
        if ((blobs >> f & 1) && !take_blob(reader, &type->fields[f], record))
            return false;
    push_record(reader, type, record);
    return true;
}

#define DT_PLAN_FIELD(tag, field, type) _Static_assert(sizeof(type) <= 512, "take_record has room");
DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD

DtStatus dt_plantext_read(DtArena *arena, const char *text, size_t len, uint8_t **ret_bytes,
                          size_t *ret_len)
{
    Reader reader = {.arena = arena,
                     .builder = dt_write_new(arena),
                     .at = text,
                     .end = text + len,
                     .status = DT_OK};
    if (memchr(text, '\0', len) != NULL)
        return dt_status_fail(DT_EXIT_DIAGNOSTICS, "plan text: it contains a NUL byte");
    if (!next_line(&reader) || strcmp(take_word(&reader), "plan") != 0 || !take(&reader, ' ') ||
        strcmp(take_word(&reader), dt_arena_printf(arena, "%d", DT_PLAN_VERSION)) != 0)
        return dt_status_fail(DT_EXIT_DIAGNOSTICS, "plan text: the first line is not `plan %d`",
                              DT_PLAN_VERSION);
    while (dt_status_ok(&reader.status) && next_line(&reader)) {
        skip_spaces(&reader);
        if (reader.line < reader.line_end && *reader.line != '#')
            take_record(&reader);
    }
    if (!dt_status_ok(&reader.status))
        return reader.status;
    dt_write_bytes(reader.builder, ret_bytes, ret_len);
    DtPlan plan;
    return dt_read_bytes(*ret_bytes, *ret_len, &plan);
}
