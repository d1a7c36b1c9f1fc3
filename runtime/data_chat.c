/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of conversations. A row of the cached file fills 2 to 4 inputs: the tokens; the labels,
 * which are -1 where nothing is trained; the number of the document of each position, -1 for
 * padding; the position in its document. */
#include "runtime/data_chat.h"

#include "base/modelconfig.h"
#include "base/tryread.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_WORDS = 1 << 24, MOST_CONFIG = 1 << 24 };

/* ---- opening ---- */

static DtStatus check_inputs(const DtData *data)
{
    const DtPlanReader *reader = data->reader;
    if (reader->n_inputs < 2 || reader->n_inputs > 4)
        return dt_status_fail(DT_EXIT_FAILED, "chat fills 2 to 4 inputs, not %u",
                              reader->n_inputs);
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        if (data->inputs[i].dtype != DT_PLAN_I32 ||
            data->inputs[i].row_elements != data->inputs[0].row_elements ||
            data->inputs[i].row_elements < 2)
            return dt_status_fail(DT_EXIT_FAILED,
                                  "input `%s` must be i32 and as long as the others for chat, at "
                                  "least 2",
                                  dt_plan_str(data->plan, data->inputs[i].name));
    return DT_OK;
}

/* Cuts the part `from` to `to` of the samples. */
static DtStatus cut(DtData *data)
{
    const int64_t all = data->tokens.total / data->row;
    const DtPlanReader *reader = data->reader;
    const int64_t first = (int64_t)(reader->from * (double)all);
    const int64_t end = reader->to < 1 ? (int64_t)(reader->to * (double)all) : all;
    if (data->tokens.total % data->row != 0 || end <= first)
        return dt_status_fail(DT_EXIT_IO, "%.200s has %lld samples, and none between %g and %g",
                              data->name, (long long)all, reader->from, reader->to);
    data->tokens.first = first * data->row;
    data->tokens.n = (end - first) * data->row;
    data->windows = end - first;
    data->offsets = 1;
    return DT_OK;
}

DtStatus dt_datachat_open(DtData *data, const DtDataFiles *files, const char *tokenizer)
{
    const DtPlanReader *reader = data->reader;
    const char *end = dt_plan_str(data->plan, reader->end),
               *template = dt_plan_str(data->plan, reader->template);
    DtStatus status = check_inputs(data);
    if (!dt_status_ok(&status))
        return status;
    if (!tokenizer)
        return dt_status_fail(DT_EXIT_FAILED, "`chat` needs a tokenizer");
    data->row = data->inputs[0].row_elements;
    const DtTokenFormat format = {.dtype = DT_PLAN_U8, .width = 1, .text = true, .stream = true};
    const DtChatForm form = {*template ? template : NULL, reader->chat, data->row};
    DtTokensSource source = {.texts = &data->texts,
                             .tokenizer = dt_tokenizer_path(data->memory, tokenizer),
                             .end = *end ? end : NULL,
                             .chat = &form};
    data->tokenizer = source.tokenizer;
    status = dt_datatext_open(data->memory, files, &format, 0, 1, &data->texts);
    if (dt_status_ok(&status))
        status = dt_datatokens_open(data->memory, &source, 0, 1, &data->tokens);
    memcpy(data->counts, source.counts, sizeof data->counts);
    return dt_status_ok(&status) ? cut(data) : status;
}

/* ---- reading ---- */

DtStatus dt_datachat_words(const DtData *data, int64_t at, uint32_t *ret_words)
{
    return dt_datatext_read(&data->tokens, at, data->row, ret_words);
}

/* Makes the values of input number `input` of the words of a sample. */
static void fill(uint32_t input, const uint32_t *words, int64_t n, int32_t *ret_values)
{
    int32_t document = -1, position = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool padding = words[i] & DT_CHAT_PADDING, begins = words[i] & DT_CHAT_FIRST;
        const uint32_t next = i + 1 < n ? words[i + 1] : 0;
        const bool trained = (next & DT_CHAT_TRAINED) && !(next & DT_CHAT_FIRST);
        position = begins ? 0 : position + (i > 0);
        document += begins;
        ret_values[i] = input == 0   ? (int32_t)(words[i] & DT_CHAT_ID)
                        : input == 1 ? (trained ? (int32_t)(next & DT_CHAT_ID) : -1)
                        : input == 2 ? (padding ? -1 : document)
                                     : position;
    }
}

DtStatus dt_datachat_read(const DtData *data, int64_t at, int64_t row, char *const *inputs)
{
    const int64_t n = data->row;
    uint32_t *words = malloc((size_t)n * sizeof *words);
    if (!words)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for a sample");
    DtStatus status = dt_datachat_words(data, at, words);
    for (uint32_t i = 0; i < data->reader->n_inputs && dt_status_ok(&status); i++) {
        int32_t *values = (int32_t *)(void *)inputs[i] + row * n;
        fill(i, words, n, values);
        const int64_t bad = dt_data_outside(&data->inputs[i], values, n);
        if (bad >= 0)
            status = dt_data_refuse_made(data, &data->inputs[i],
                                         (data->tokens.first + at) / n, bad, values[bad]);
    }
    free(words);
    return status;
}

/* ---- before the run ---- */

static DtStatus check_values(const DtData *data)
{
    const int64_t n = data->row;
    char *inputs[4] = {NULL};
    DtStatus status = DT_OK;
    if (data->windows > LOOK_WORDS / n)
        return DT_OK;
    for (uint32_t i = 0; i < data->reader->n_inputs; i++) {
        inputs[i] = malloc((size_t)n * sizeof(int32_t));
        if (!inputs[i])
            status = dt_status_fail(DT_EXIT_RETRY, "no memory for a sample");
    }
    for (int64_t i = 0; i < data->windows && dt_status_ok(&status); i++)
        status = dt_datachat_read(data, i * n, 0, inputs);
    for (uint32_t i = 0; i < data->reader->n_inputs; i++)
        free(inputs[i]);
    return status;
}

static void note_samples(const DtData *data, DtText *ret_notes)
{
    const uint64_t *c = data->counts;
    const DtChatForm form = {NULL, data->reader->chat, data->row};
    const long long longest = dt_chat_longest(&form);
    const int64_t samples = data->tokens.total / data->row;
    dt_text_printf(ret_notes,
                   "%llu documents in %lld samples: %llu tokens (%.1f %% of the positions), %llu "
                   "of them trained",
                   (unsigned long long)c[DT_CHAT_DOCUMENTS], (long long)samples,
                   (unsigned long long)c[DT_CHAT_TOKENS],
                   100 * (double)c[DT_CHAT_TOKENS] / (double)data->tokens.total,
                   (unsigned long long)c[DT_CHAT_LABELS]);
    if (c[DT_CHAT_CUT])
        dt_text_printf(ret_notes, "; cut after %lld tokens: %llu of the documents",
                       longest, (unsigned long long)c[DT_CHAT_CUT]);
    if (c[DT_CHAT_DROPPED])
        dt_text_printf(ret_notes, "; left out as longer than %lld tokens: %llu others",
                       longest, (unsigned long long)c[DT_CHAT_DROPPED]);
    if (c[DT_CHAT_UNTRAINED])
        dt_text_printf(ret_notes, "; left out as nothing in them is trained: %llu others",
                       (unsigned long long)c[DT_CHAT_UNTRAINED]);
}

/* Reads a file next to the tokenizer; NULL: there is none that can be read. Free it. */
static char *read_beside(const char *tokenizer, const char *name)
{
    DtText path = {0};
    DtFileView view;
    const char *slash = strrchr(tokenizer, '/');
    char *text = NULL;
    dt_text_printf(&path, "%.*s%s", slash ? (int)(slash + 1 - tokenizer) : 0, tokenizer, name);
    DtStatus status = dt_file_map(path.at, &view);
    dt_text_free(&path);
    if (!dt_status_ok(&status))
        return NULL;
    if (view.len < MOST_CONFIG && (text = malloc(view.len + 1)) != NULL) {
        text[view.len] = '\0';
        if (view.len > 0 && dt_tryread_copy(&view, text, view.at, view.len)) {
            free(text);
            text = NULL;
        }
    }
    dt_file_unmap(&view);
    return text;
}

/* The template that the model was published with, as far as its tokens tell; NULL: not known. */
static const char *published(const char *tokenizer, const char **ret_file)
{
    *ret_file = "chat_template.jinja";
    char *jinja = read_beside(tokenizer, *ret_file);
    const char *name = jinja ? dt_datachattemplate_guess(jinja) : NULL;
    free(jinja);
    if (jinja)
        return name;
    *ret_file = "tokenizer_config.json";
    char *text = read_beside(tokenizer, *ret_file);
    json_error_t error;
    json_t *config = text ? dt_modelconfig_parse(text, strlen(text), &error) : NULL;
    const json_t *of = json_object_get(config, "chat_template");
    for (size_t i = 0; json_is_array(of) && i < json_array_size(of); i++) {
        const json_t *one = json_array_get(of, i);
        const char *called = json_string_value(json_object_get(one, "name"));
        if (called && strcmp(called, "default") == 0)
            of = json_object_get(one, "template");
    }
    if (json_is_string(of))
        name = dt_datachattemplate_guess(json_string_value(of));
    json_decref(config);
    free(text);
    return name;
}

static void note_template(const DtData *data, DtText *ret_notes)
{
    const char *file, *ours = dt_plan_str(data->plan, data->reader->template);
    const char *theirs = published(data->tokenizer, &file);
    const char *slash = strrchr(data->tokenizer, '/');
    if (!theirs || strcmp(theirs, ours) == 0)
        return;
    dt_data_begin_note(data, ret_notes);
    dt_text_printf(ret_notes,
                   "warning: %.*s%s has the template of `%s`, and the program %s%s%s: a model that "
                   "has learned one reads the other as ordinary text",
                   slash ? (int)(slash + 1 - data->tokenizer) : 0, data->tokenizer, file, theirs,
                   *ours ? "says `template = " : "has none", ours, *ours ? "`" : "");
}

DtStatus dt_datachat_look(const DtData *data, DtText *ret_notes)
{
    dt_data_begin_note(data, ret_notes);
    note_samples(data, ret_notes);
    note_template(data, ret_notes);
    return check_values(data);
}
