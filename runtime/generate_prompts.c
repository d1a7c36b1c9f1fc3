/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts: of the command line, or lines of JSON in a file.
 *
 *   {"prompt": T}                     a text, a list of token numbers, or one of turns
 *   {"instruction": I, "input": X}    X may be absent
 *   {"messages": [..]}                a conversation (data_chat_line.c), "conversations" likewise
 *
 * With a template of the data, a prompt is a turn of the user. A line may have its own max_tokens,
 * temperature, top_k, top_p, min_p, repetition_penalty, seed and stop. Other fields are left
 * alone. The file is a stranger's: each line is checked before it is used. */
#include "runtime/generate.h"

#include "base/tryread.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 1 << 26 };
#define AS_IN "; a line is, for example, {\"prompt\": \"Once upon a time\"}"

struct DtPrompts {
    const DtRunOptions *options;
    const DtWords *words;
    const char *path;
    DtFileView view;
    size_t at;
    uint64_t line; /* lines before `at` */
    int64_t n;     /* prompts before `at` */
    DtText text;   /* of a line */
};

/* ---- lines ---- */

typedef struct Scan {
    const DtFileView *view;
    size_t at, len;  /* a line, without its end */
    int64_t counted; /* lines that are not blank */
} Scan;

static bool is_blank(const uint8_t *at, size_t len)
{
    size_t n = 0;
    while (n < len && strchr(" \t\r", at[n]) && at[n])
        n++;
    return n == len;
}

static void scan_line(void *context)
{
    Scan *scan = context;
    const uint8_t *at = scan->view->at + scan->at;
    const uint8_t *end = memchr(at, '\n', scan->view->len - scan->at);
    scan->len = end ? (size_t)(end - at) : scan->view->len - scan->at;
    scan->counted += !is_blank(at, scan->len);
}

static void scan_all(void *context)
{
    Scan *scan = context;
    for (scan->at = 0; scan->at < scan->view->len; scan->at += scan->len + 1)
        scan_line(scan);
}

static DtStatus cut_short(const DtPrompts *prompts)
{
    return dt_status_fail(DT_EXIT_IO, "%.300s was cut short while it is read", prompts->path);
}

DtStatus dt_generateprompts_open(const DtRunOptions *options, const DtWords *words,
                                 DtPrompts **ret_prompts)
{
    DtPrompts *prompts = calloc(1, sizeof *prompts);
    if (!prompts)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for prompts");
    *prompts = (DtPrompts){.options = options, .words = words, .path = options->prompts};
    *ret_prompts = prompts;
    return dt_file_map(prompts->path, &prompts->view);
}

void dt_generateprompts_close(DtPrompts *prompts)
{
    if (!prompts)
        return;
    dt_file_unmap(&prompts->view);
    dt_text_free(&prompts->text);
    free(prompts);
}

size_t dt_generateprompts_bytes(const DtPrompts *prompts) { return prompts->view.len; }

DtStatus dt_generateprompts_count(const DtPrompts *prompts, int64_t *ret_n)
{
    Scan scan = {.view = &prompts->view};
    if (prompts->view.len > 0 && dt_tryread(&prompts->view, scan_all, &scan))
        return cut_short(prompts);
    *ret_n = scan.counted;
    return DT_OK;
}

/* Reads the next line that is not blank; ret_any: there is one. */
static DtStatus read_line(DtPrompts *prompts, bool *ret_any)
{
    *ret_any = false;
    while (prompts->at < prompts->view.len && !*ret_any) {
        Scan scan = {.view = &prompts->view, .at = prompts->at};
        if (dt_tryread(&prompts->view, scan_line, &scan))
            return cut_short(prompts);
        prompts->line++;
        prompts->at += scan.len + 1;
        *ret_any = scan.counted > 0;
        if (!*ret_any)
            continue;
        if (scan.len > MOST_LINE)
            return dt_status_fail(DT_EXIT_IO, "%.300s:%llu:1: the line has more than 64 MiB",
                                  prompts->path, (unsigned long long)prompts->line);
        char *copy = malloc(scan.len + 1);
        if (!copy)
            return dt_status_fail(DT_EXIT_RETRY, "no memory for a line of %.300s", prompts->path);
        const bool is_cut =
            dt_tryread_copy(&prompts->view, copy, prompts->view.at + scan.at, scan.len) != NULL;
        prompts->text.len = 0;
        if (!is_cut)
            dt_text_add_n(&prompts->text, copy, scan.len);
        free(copy);
        if (is_cut)
            return cut_short(prompts);
    }
    return DT_OK;
}

/* ---- what a line says besides the prompt ---- */

static DtStatus read_settings(const json_t *object, DtSampling *sampling)
{
    const char *key;
    DtStatus status = DT_OK;
    for (size_t i = 0; (key = dt_generatesample_key(i)) && dt_status_ok(&status); i++) {
        const json_t *value = json_object_get(object, key);
        const DtGivenNumber given = {.is_whole = json_is_integer(value),
                                     .whole = json_integer_value(value),
                                     .real = json_real_value(value)};
        if (value && !json_is_null(value) && !json_is_number(value))
            status = dt_status_fail(DT_EXIT_IO, "\"%s\" is no number", key);
        else if (json_is_number(value))
            status = dt_generatesample_set(sampling, key, given);
    }
    return status;
}

static DtStatus read_stops(const json_t *of, DtCompletion *c)
{
    const size_t n = json_is_array(of) ? json_array_size(of) : 1;
    if (!of || json_is_null(of))
        return DT_OK;
    c->n_stops = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(of) ? json_array_get(of, i) : of;
        if (!json_is_string(one))
            return dt_status_fail(DT_EXIT_IO, "\"stop\" is no text, and no list of texts");
        if (json_string_length(one) == 0)
            return dt_status_fail(DT_EXIT_IO, "\"stop\" has an empty text, which ends any answer");
        if (c->n_stops == DT_MOST_STOPS)
            return dt_status_fail(DT_EXIT_IO, "\"stop\" has more than %d texts", DT_MOST_STOPS);
        c->stops[c->n_stops++] = json_string_value(one);
    }
    return DT_OK;
}

/* ---- prompts ---- */

static DtStatus read_numbers(const DtWords *words, const json_t *list, DtIds *ret_ids)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const json_int_t id = json_integer_value(one);
        if (!json_is_integer(one) || id < 0 || id >= words->vocab)
            return dt_status_fail(DT_EXIT_IO,
                                  "element %zu of \"prompt\" is no token number below %lld", i + 1,
                                  (long long)words->vocab);
        dt_ids_room(ret_ids, 1);
        ret_ids->at[ret_ids->n++] = (uint32_t)id;
    }
    return ret_ids->n ? DT_OK : dt_status_fail(DT_EXIT_IO, "\"prompt\" has no token");
}

static DtStatus read_prompt(const DtWords *words, const json_t *object, DtIds *ret_ids)
{
    const json_t *prompt = json_object_get(object, "prompt");
    if (json_is_array(prompt) && !json_is_object(json_array_get(prompt, 0)))
        return read_numbers(words, prompt, ret_ids);
    if (!words->tokenizer)
        return json_is_string(prompt)
                   ? dt_generatetext_read(words, json_string_value(prompt), ret_ids)
                   : dt_status_fail(DT_EXIT_IO, "without a tokenizer a line needs \"prompt\", a "
                                                "text or a list of token numbers");
    DtChatBatch batch = {0};
    DtStatus status = dt_datachatline_ask(&batch, words->template, object);
    if (dt_status_ok(&status))
        status = dt_generatetext_spans(words, &batch, ret_ids);
    dt_datachatline_free(&batch);
    return status;
}

/* Begins a completion as the options say. */
static void begin(const DtRunOptions *options, DtCompletion *ret_completion)
{
    *ret_completion = (DtCompletion){.sampling = options->sampling, .n_stops = options->n_stop};
    memcpy(ret_completion->stops, options->stop, sizeof options->stop);
}

static DtStatus read_object(const DtPrompts *prompts, DtCompletion *c)
{
    if (!json_is_object(c->source))
        return dt_status_fail(DT_EXIT_IO, "it is no object of JSON" AS_IN);
    const json_t *id = json_object_get(c->source, "id");
    if (id && !json_is_string(id) && !json_is_number(id))
        return dt_status_fail(DT_EXIT_IO, "\"id\" is no text and no number");
    DtStatus status = read_settings(c->source, &c->sampling);
    if (dt_status_ok(&status))
        status = read_stops(json_object_get(c->source, "stop"), c);
    if (dt_status_ok(&status))
        status = read_prompt(prompts->words, c->source, &c->ids);
    c->n_prompt = c->ids.n;
    return dt_status_ok(&status) ? dt_generatestop_may(prompts->words, c) : status;
}

DtStatus dt_generateprompts_next(DtPrompts *prompts, DtCompletion *ret_completion, bool *ret_any)
{
    json_error_t error;
    begin(prompts->options, ret_completion);
    DtStatus status = read_line(prompts, ret_any);
    if (!dt_status_ok(&status) || !*ret_any)
        return status;
    const char *at = prompts->text.at;
    size_t len = prompts->text.len;
    if (prompts->line == 1 && len >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3, len -= 3;
    ret_completion->number = prompts->n++;
    ret_completion->line = prompts->line;
    ret_completion->source = json_loadb(at, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!ret_completion->source)
        return dt_status_fail(DT_EXIT_IO, "%.200s:%llu:%d: no JSON: %.160s" AS_IN, prompts->path,
                              (unsigned long long)prompts->line, error.column, error.text);
    status = read_object(prompts, ret_completion);
    if (!dt_status_ok(&status))
        return dt_status_fail(DT_EXIT_IO, "%.200s:%llu:1: %.280s", prompts->path,
                              (unsigned long long)prompts->line, status.message);
    return DT_OK;
}

DtStatus dt_generateprompts_of_options(const DtRunOptions *options, const DtWords *words,
                                       DtCompletion *ret_completion)
{
    DtChatBatch batch = {0};
    DtStatus status = DT_OK;
    begin(options, ret_completion);
    if (!words->template)
        status = dt_generatetext_read(words, options->generate, &ret_completion->ids);
    else
        status = dt_datachatline_ask_text(&batch, words->template, options->generate,
                                          strlen(options->generate));
    if (dt_status_ok(&status) && words->template)
        status = dt_generatetext_spans(words, &batch, &ret_completion->ids);
    dt_datachatline_free(&batch);
    ret_completion->n_prompt = ret_completion->ids.n;
    return dt_status_ok(&status) ? dt_generatestop_may(words, ret_completion) : status;
}
