/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun looks at before any rank starts: whether a stream has values that the program cannot
 * use, and whether its files are what the program takes them for, as far as their first bytes tell.
 * Only the former is an error. */
#include "runtime/data_chat.h"
#include "runtime/data_images.h"
#include "runtime/data_sampler.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

enum {
    LOOK_BYTES = 1 << 26, /* a stream with at most this many numbers is checked as a whole, which
                           * takes a fifth of a second */
    LOOK_BLOCK = 4096     /* how many numbers are read at a time */
};

/* ---- files that are probably something else ---- */

/* Whether the file seems to contain integers of twice the width: every second one of its first
 * words is 0 (or, for signed numbers, the sign extension of the word before), and some other word
 * is not 0. */
static bool is_twice_as_wide(const DtTokenFormat *format, const DtTokenFile *file)
{
    enum { PAIRS = 4096, LEAST = 16 };
    const uint8_t *at = file->view.at + file->skip;
    const int64_t pairs = file->n / 2 < PAIRS ? file->n / 2 : PAIRS;
    bool any = false;
    if (format->dtype != DT_PLAN_U16 && format->dtype != DT_PLAN_U32 &&
        format->dtype != DT_PLAN_I32)
        return false;
    for (int64_t i = 0; i < pairs; i++, at += 2 * format->width) {
        int32_t low = 0, high = 0;
        memcpy(&low, at, (size_t)format->width);
        memcpy(&high, at + format->width, (size_t)format->width);
        any = any || low != 0;
        if (high != (format->dtype == DT_PLAN_I32 && low < 0 ? -1 : 0))
            return false;
    }
    return any && pairs >= LEAST && file->n % 2 == 0;
}

/* Whether the file has floats of 64 bits. If these are read as f32, the lower half of each number
 * is 0 or any float, and the upper half is near 1. */
static bool is_of_doubles(const DtTokenFormat *format, const DtTokenFile *file)
{
    enum { PAIRS = 4096, LEAST = 16 };
    const uint8_t *at = file->view.at + file->skip;
    const int64_t pairs = file->n / 2 < PAIRS ? file->n / 2 : PAIRS;
    int64_t wild = 0, zero = 0, halves = 0;
    if (format->dtype != DT_PLAN_F32 || pairs < LEAST || file->n % 2 != 0)
        return false;
    for (int64_t i = 0; i < pairs; i++, at += sizeof(double)) {
        float half[2];
        memcpy(half, at, sizeof half);
        const float low = fabsf(half[0]), high = fabsf(half[1]);
        zero += low == 0;
        wild += low != 0 && !(low > 1e-15F && low < 1e15F);
        halves += high != 0;
        if (high != 0 && !(high > 0x1p-14F && high < 0x1p14F))
            return false;
    }
    return halves > 0 && (zero == pairs || wild >= pairs / 4);
}

static bool ends_with(const char *path, const char *end)
{
    const size_t len = strlen(path), n = strlen(end);
    return len > n && strcasecmp(path + len - n, end) == 0;
}

static size_t after_blanks(const DtFileView *view, size_t at)
{
    while (at < view->len && at < 4096 && isspace(view->at[at]))
        at++;
    return at;
}

/* Whether the text begins with { or [, followed by a token that JSON allows there. */
static bool begins_as_json(const DtFileView *view)
{
    const size_t at = after_blanks(view, 0), next = after_blanks(view, at + 1);
    if (next >= view->len || (view->at[at] != '{' && view->at[at] != '['))
        return false;
    return view->at[next] == '"' || (view->at[at] == '[' && view->at[next] == '{');
}

/* Whether the first lines have the same number of separators, which is at least two. */
static bool begins_as_table(const DtFileView *view, char separator)
{
    enum { LINES = 5, MOST = 1 << 16 };
    uint32_t first = 0, n = 0, lines = 0;
    for (size_t i = 0; i < view->len && i < MOST && lines < LINES; i++) {
        n += view->at[i] == (uint8_t)separator;
        if (view->at[i] != '\n')
            continue;
        if (lines > 0 && n != first)
            return false;
        first = n;
        n = 0;
        lines++;
    }
    return lines == LINES && first >= 2;
}

static const char *what_text_is(const DtTokenFile *file)
{
    static const char *const json[] = {".json", ".jsonl", ".ndjson"}, *const tables[] = {".csv",
                                                                                         ".tsv"};
    for (size_t i = 0; i < DT_COUNT(json); i++)
        if (ends_with(file->path, json[i]))
            return "JSON";
    for (size_t i = 0; i < DT_COUNT(tables); i++)
        if (ends_with(file->path, tables[i]))
            return i ? "TSV" : "CSV";
    if (begins_as_json(&file->view))
        return "JSON";
    return begins_as_table(&file->view, ',')    ? "CSV"
           : begins_as_table(&file->view, '\t') ? "TSV"
                                                : NULL;
}

/* The warning about a source, which names the first file that seems to have another format. */
typedef struct Look {
    const DtTokenFormat *format;
    const DtTokenFile *file;
    const char *text; /* "JSON", "CSV" and so on; NULL: it is none of these */
    bool is_of_doubles, is_twice_as_wide;
} Look;

static void look_at_file(void *context)
{
    Look *look = context;
    look->text = look->format->text ? what_text_is(look->file) : NULL;
    look->is_of_doubles = is_of_doubles(look->format, look->file);
    look->is_twice_as_wide = is_twice_as_wide(look->format, look->file);
}

/* Adds at most one warning about a source: about its first file that contains something else than
 * the program expects. */
static DtStatus note_files(const DtData *data, DtText *ret_notes)
{
    const DtTokens *tokens = data->texts.n_files ? &data->texts : &data->tokens;
    const DtTokenFormat *format = &tokens->format;
    const uint32_t dtype = format->dtype;
    for (uint32_t i = 0; i < tokens->n_files; i++) {
        DtTokenFile *file = &tokens->files[i];
        Look look = {.format = format, .file = file};
        DtStatus status = dt_datatext_try(tokens, file, look_at_file, &look);
        if (!dt_status_ok(&status))
            return status;
        if (look.text) {
            dt_data_begin_note(data, ret_notes);
            dt_text_printf(
                ret_notes,
                "warning: %s looks like %s, and `text` reads all of its bytes, also names of "
                "fields, quotes and separators; write the texts alone to a file to train on them",
                file->path, look.text);
            return DT_OK;
        }
        if (look.is_of_doubles) {
            dt_data_begin_note(data, ret_notes);
            dt_text_printf(ret_notes,
                           "warning: %s looks like a file of 64-bit floats; write it as f32: "
                           "numpy.fromfile(FILE, 'f8').astype('f4').tofile(NEW)",
                           file->path);
            return DT_OK;
        }
        if (look.is_twice_as_wide) {
            dt_data_begin_note(data, ret_notes);
            dt_text_printf(
                ret_notes,
                "warning: every second %s of %s is %s: it looks like a file of %d-bit integers; "
                "read it as `bin(..., %s)`",
                dt_kinds_name(dtype), file->path, dtype == DT_PLAN_I32 ? "0 or -1" : "0",
                16 * format->width, dtype == DT_PLAN_U16 ? "u32" : "i64");
            return DT_OK;
        }
    }
    return DT_OK;
}

/* ---- values ---- */

/* The values of an input that are outside of the axis that it indexes, but are allowed, such as
 * ignored labels. */
typedef struct Aside {
    int64_t n, first; /* first: index of the first of them in the part */
    int32_t value;
} Aside;

static void count_aside(const DtPlanInput *input, const int32_t *values, int64_t n, int64_t at,
                        Aside *aside)
{
    if (input->draw_lo >= input->draw_hi)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (values[i] >= input->draw_lo && values[i] < input->draw_hi)
            continue;
        if (aside->n++ == 0) {
            aside->first = at + i;
            aside->value = values[i];
        }
    }
}

/* Reads all values that the input can ever get, and counts in `aside` those outside of the axis
 * that it indexes but allowed. Fails at a value that is not allowed. */
static DtStatus look_at_input(const DtData *data, uint32_t number, int64_t reach, Aside *aside)
{
    const DtPlanInput *input = &data->inputs[number];
    int32_t values[LOOK_BLOCK];
    for (int64_t at = number; at < number + reach; at += LOOK_BLOCK) {
        int64_t n = number + reach - at < LOOK_BLOCK ? number + reach - at : LOOK_BLOCK;
        DtStatus status = dt_datatext_read(&data->tokens, at, n, values);
        if (!dt_status_ok(&status))
            return status;
        int64_t bad = dt_data_outside(input, values, n);
        if (bad >= 0)
            return dt_data_refuse(data, input, at + bad, values[bad]);
        count_aside(input, values, n, at, aside);
    }
    return DT_OK;
}

static void note_aside(const DtData *data, uint32_t number, int64_t reach, const Aside *aside,
                       DtText *ret_notes)
{
    const DtPlanInput *input = &data->inputs[number];
    char where[400];
    dt_datatext_say(&data->tokens, aside->first, "token", where);
    dt_data_begin_note(data, ret_notes);
    const char *name = dt_plan_str(data->plan, input->name);
    const long long lo = input->draw_lo, hi = input->draw_hi - 1;
    if (aside->n == reach)
        dt_text_printf(
            ret_notes,
            "warning: none of the %lld values for `%s` is one of %lld .. %lld, where it is "
            "an index, so no sample counts there: is this the file, read with its dtype",
            (long long)reach, name, lo, hi);
    else
        dt_text_printf(
            ret_notes,
            "%lld of %lld values for `%s` are outside %lld .. %lld, where it is an index; "
            "the program says what happens to them",
            (long long)aside->n, (long long)reach, name, lo, hi);
    dt_text_printf(ret_notes, "%s (the first: %s, %d)", aside->n == reach ? "?" : "", where,
                   aside->value);
}

/* Notes features that are not finite, since they make a loss that is not finite. Fails at one that
 * is finite, but not in the input's dtype. */
static DtStatus look_at_floats(const DtData *data, int64_t reach, DtText *ret_notes)
{
    const DtPlanInput *input = &data->inputs[0];
    float values[LOOK_BLOCK];
    bool noted = false;
    for (int64_t at = 0; at < reach; at += LOOK_BLOCK) {
        const int64_t n = reach - at < LOOK_BLOCK ? reach - at : LOOK_BLOCK;
        DtStatus status = dt_datatext_read(&data->tokens, at, n, values);
        if (!dt_status_ok(&status))
            return status;
        const int64_t bad = dt_data_too_large(input, values, n);
        if (bad >= 0)
            return dt_data_refuse_float(data, input, at + bad, values[bad]);
        for (int64_t i = 0; i < n && !noted; i++) {
            char where[400];
            if (isfinite(values[i]))
                continue;
            noted = true;
            dt_datatext_say(&data->tokens, at + i, "value", where);
            dt_data_begin_note(data, ret_notes);
            dt_text_printf(ret_notes, "warning: %s is %s", where,
                           isnan(values[i]) ? "not a number" : "infinite");
        }
    }
    return DT_OK;
}

DtStatus dt_data_look(const DtData *data, DtText *ret_notes)
{
    if (data->sampler && data->sampler->note)
        data->sampler->note(data, ret_notes);
    if (data->synthetic)
        return DT_OK;
    const uint32_t read = data->sampler ? 1 : data->reader->n_inputs; /* inputs with its tokens */
    const bool is_chat = data->reader->source == DT_PLAN_CHAT;
    DtStatus status = is_chat        ? dt_datachat_look(data, ret_notes)
                      : data->images ? dt_dataimages_look(data, ret_notes)
                                     : note_files(data, ret_notes);
    if (dt_status_ok(&status) && data->reader->source == DT_PLAN_MEGATRON)
        status = dt_datamegatron_look(data, ret_notes);
    if (!dt_status_ok(&status))
        return dt_data_located(data, status);
    if (is_chat || data->images)
        return DT_OK;
    int64_t reach = data->offsets - 1 + data->windows * data->row;
    if (reach > LOOK_BYTES / data->tokens.format.width)
        return DT_OK;
    if (dt_data_is_float(data))
        status = look_at_floats(data, reach, ret_notes);
    for (uint32_t i = 0;
         i < read && !dt_data_is_float(data) && dt_status_ok(&status); i++) {
        Aside aside = {0};
        status = look_at_input(data, i, reach, &aside);
        if (dt_status_ok(&status) && aside.n > 0)
            note_aside(data, i, reach, &aside, ret_notes);
    }
    return dt_status_ok(&status) ? status : dt_data_located(data, status);
}
