/* SPDX-License-Identifier: Apache-2.0 */
/* Completions as lines of JSON:
 *
 *   {"line": 3, "id": 7, "prompt": "Once", "text": " upon a time", "tokens": [2402, 257, 640],
 *    "stop": "tokens", "logprob": -4.25}
 *
 * id and what the prompt was are those of the prompt's line. "stop" is why the text ended: "tokens"
 * (it has as many as it may), "end" (an end token), "text" (a stop text, which "stopped_by" names).
 * The file has whole lines at any time: one that a full disk cuts off is taken back. */
#include "runtime/generate.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const stop_names[] = {[DT_STOP_NOT] = "not",
                                         [DT_STOP_TOKENS] = "tokens",
                                         [DT_STOP_END] = "end",
                                         [DT_STOP_TEXT] = "text"};

/* Copies what the prompt's line says of itself. */
static void add_source(json_t *object, const DtRunOptions *options, const DtCompletion *c)
{
    static const char *const keys[] = {"id",    "prompt",   "instruction",
                                       "input", "messages", "conversations"};
    if (c->source)
        json_object_set_new(object, "line", json_integer((json_int_t)c->line));
    else
        json_object_set_new(object, "prompt", json_string(options->generate));
    for (size_t i = 0; i < DT_COUNT(keys); i++) {
        json_t *value = c->source ? json_object_get(c->source, keys[i]) : NULL;
        if (value)
            json_object_set(object, keys[i], value);
    }
}

static void add_text(json_t *object, const char *key, const char *bytes, size_t n)
{
    DtText text = {0};
    dt_text_add(&text, "");
    dt_generatetext_show(bytes, n, true, &text);
    json_object_set_new(object, key, json_stringn(text.at, text.len));
    dt_text_free(&text);
}

/* Appends the line of a completion. */
static void write(const DtRunOptions *options, const DtCompletion *c, DtText *ret_text)
{
    json_t *object = json_object(), *tokens = json_array();
    add_source(object, options, c);
    add_text(object, "text", c->bytes.at ? c->bytes.at : "", c->bytes.len);
    for (size_t i = c->n_prompt; i < c->ids.n; i++)
        json_array_append_new(tokens, json_integer(c->ids.at[i]));
    json_object_set_new(object, "tokens", tokens);
    json_object_set_new(object, "stop", json_string(stop_names[c->stop]));
    if (c->stop == DT_STOP_TEXT)
        json_object_set_new(object, "stopped_by", json_string(c->stopped_by));
    json_object_set_new(object, "logprob",
                        isfinite(c->logprob) ? json_real(c->logprob) : json_null());
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (!line)
        dt_arena_exhausted(c->bytes.len);
    dt_text_add(ret_text, line);
    dt_text_add(ret_text, "\n");
    free(line);
}

DtStatus dt_generatelines_open(const DtRunOptions *options, bool replaces, DtLines *ret_lines)
{
    *ret_lines = (DtLines){.options = options};
    ret_lines->writer.fd = -1;
    return options->prompts && options->n_out
               ? dt_file_writer_open_in_place(&ret_lines->writer, options->out[0],
                                              replaces || options->overwrite)
               : DT_OK;
}

DtStatus dt_generatelines_write(DtLines *lines, const DtCompletion *completion)
{
    DtText text = {0};
    DtStatus status = DT_OK;
    write(lines->options, completion, &text);
    if (lines->writer.fd >= 0)
        status = dt_file_writer_append_whole(&lines->writer, text.at, text.len);
    else if (fwrite(text.at, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        status = dt_status_fail(DT_EXIT_IO, "cannot write the text: %s", strerror(errno));
    dt_text_free(&text);
    lines->n += dt_status_ok(&status);
    return status;
}

DtStatus dt_generatelines_close(DtLines *lines)
{
    const DtStatus status = lines->writer.fd >= 0 ? dt_file_writer_commit(&lines->writer) : DT_OK;
    lines->writer.fd = -1;
    return status;
}
