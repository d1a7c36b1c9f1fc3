/* SPDX-License-Identifier: Apache-2.0 */
/* A line of JSON as a document. What it holds follows from the names of its fields:
 *
 *   {"text": T}                                      a text, trained as a whole
 *   {"prompt": P, "completion": C}                   C follows P
 *   {"instruction": I, "input": X, "output": C}      the same; X may be absent or empty
 *   {"messages": [{"role": R, "content": T}, ..]}    a conversation
 *   {"conversations": [{"from": R, "value": T}, ..]} the same
 *
 * Other fields are left alone. */
#include "runtime/data_chat.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *at, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return at;
    *cap = *cap ? 2 * *cap : 64;
    void *more = realloc(at, *cap * size);
    if (!more)
        dt_arena_exhausted(*cap * size);
    return more;
}

void dt_datachatline_free(DtChatBatch *batch)
{
    dt_text_free(&batch->text);
    free(batch->spans);
    free(batch->documents);
    *batch = (DtChatBatch){0};
}

static void add_span(DtChatBatch *batch, const DtChatSpan *span)
{
    batch->spans = grown(batch->spans, batch->n_spans, &batch->cap_spans, sizeof *batch->spans);
    batch->spans[batch->n_spans++] = *span;
}

void dt_datachatline_text(DtChatBatch *batch, const char *text, size_t len, bool trained)
{
    const size_t begin = batch->n_documents ? batch->documents[batch->n_documents - 1].end : 0;
    DtChatSpan *last = batch->n_spans > begin ? &batch->spans[batch->n_spans - 1] : NULL;
    if (len == 0)
        return;
    if (last && last->kind == DT_CHAT_TEXT && last->trained == trained)
        last->len += len;
    else
        add_span(batch, &(DtChatSpan){DT_CHAT_TEXT, trained, batch->text.len, len});
    dt_text_add_n(&batch->text, text, len);
}

void dt_datachatline_around(DtChatBatch *batch, DtChatSpanKind kind)
{
    add_span(batch, &(DtChatSpan){kind, kind == DT_CHAT_BACK, batch->text.len, 0});
}

/* ---- fields ---- */

/* Finds the text of a field. */
static DtStatus read_field(const json_t *object, const char *name, const char **ret_text,
                           size_t *ret_len)
{
    const json_t *field = json_object_get(object, name);
    *ret_text = "";
    *ret_len = 0;
    if (!json_is_string(field))
        return dt_status_fail(DT_EXIT_IO, field ? "\"%s\" is no text" : "there is no \"%s\"", name);
    *ret_text = json_string_value(field);
    *ret_len = json_string_length(field);
    return DT_OK;
}

static DtStatus read_role(const char *name, DtChatRole *ret_role)
{
    static const struct { const char *name; DtChatRole role; } roles[] = {
        {"system", DT_CHAT_SYSTEM}, {"user", DT_CHAT_USER},   {"human", DT_CHAT_USER},
        {"gpt", DT_CHAT_ASSISTANT}, {"model", DT_CHAT_ASSISTANT}, {"assistant", DT_CHAT_ASSISTANT},
    };
    for (size_t i = 0; i < DT_COUNT(roles); i++)
        if (strcmp(roles[i].name, name) == 0) {
            *ret_role = roles[i].role;
            return DT_OK;
        }
    return dt_status_fail(DT_EXIT_IO,
                          "`%.60s` is no role that can be read: system, user (human), assistant "
                          "(gpt, model)",
                          name);
}

static DtStatus read_turn(const json_t *message, const char *role, const char *content,
                          DtChatTurn *ret_turn)
{
    const char *name;
    size_t len;
    if (!json_is_object(message))
        return dt_status_fail(DT_EXIT_IO, "it is no object");
    DtStatus status = read_field(message, role, &name, &len);
    if (dt_status_ok(&status))
        status = read_role(name, &ret_turn->role);
    if (dt_status_ok(&status))
        status = read_field(message, content, &ret_turn->text, &ret_turn->len);
    return status;
}

/* ---- documents ---- */

static DtStatus add_conversation(DtChatBatch *batch, const DtChatTemplate *template,
                                 const json_t *messages, bool shared)
{
    const size_t n = json_array_size(messages);
    if (!json_is_array(messages) || n == 0)
        return dt_status_fail(DT_EXIT_IO, "\"%s\" is no list of turns",
                              shared ? "conversations" : "messages");
    if (!template)
        return dt_status_fail(DT_EXIT_IO,
                              "a conversation needs a template: say `template = chatml`, or "
                              "another one, in the call of `chat`");
    DtChatTurn *turns = calloc(n, sizeof *turns);
    if (!turns)
        dt_arena_exhausted(n * sizeof *turns);
    DtStatus status = DT_OK;
    for (size_t i = 0; i < n && dt_status_ok(&status); i++) {
        status = read_turn(json_array_get(messages, i), shared ? "from" : "role",
                           shared ? "value" : "content", &turns[i]);
        if (!dt_status_ok(&status))
            status = dt_status_fail(DT_EXIT_IO, "turn %zu: %.300s", i + 1, status.message);
    }
    if (dt_status_ok(&status))
        status = dt_datachattemplate_write(batch, template, turns, n);
    free(turns);
    return status;
}

/* Adds a prompt and its completion, or an instruction and its output. */
static DtStatus add_pair(DtChatBatch *batch, const DtChatTemplate *template, const json_t *object,
                         bool instructs)
{
    DtChatTurn turns[2] = {{.role = DT_CHAT_USER}, {.role = DT_CHAT_ASSISTANT}};
    const json_t *input = json_object_get(object, "input");
    DtStatus status = read_field(object, instructs ? "instruction" : "prompt", &turns[0].text,
                                 &turns[0].len);
    if (dt_status_ok(&status))
        status = read_field(object, instructs ? "output" : "completion", &turns[1].text,
                            &turns[1].len);
    if (dt_status_ok(&status) && instructs && input && !json_is_null(input))
        status = read_field(object, "input", &turns[0].input, &turns[0].input_len);
    if (!dt_status_ok(&status))
        return status;
    if (template)
        return dt_datachattemplate_write(batch, template, turns, 2);
    dt_datachatline_around(batch, DT_CHAT_FRONT);
    dt_datachatline_text(batch, turns[0].text, turns[0].len, false);
    if (turns[0].input_len > 0) {
        dt_datachatline_text(batch, "\n", 1, false);
        dt_datachatline_text(batch, turns[0].input, turns[0].input_len, false);
    }
    dt_datachatline_text(batch, turns[1].text, turns[1].len, true);
    dt_datachatline_around(batch, DT_CHAT_BACK);
    return DT_OK;
}

static DtStatus add_text(DtChatBatch *batch, const json_t *object)
{
    const char *text;
    size_t len;
    DtStatus status = read_field(object, "text", &text, &len);
    if (!dt_status_ok(&status))
        return status;
    dt_datachatline_around(batch, DT_CHAT_FRONT);
    dt_datachatline_text(batch, text, len, true);
    dt_datachatline_around(batch, DT_CHAT_BACK);
    return DT_OK;
}

static DtStatus add_document(DtChatBatch *batch, const DtChatForm *form, const json_t *object)
{
    const DtChatTemplate *template =
        form->template ? dt_datachattemplate_find(form->template) : NULL;
    if (!json_is_object(object))
        return dt_status_fail(DT_EXIT_IO, json_is_array(object)
                                              ? "it is a list: write one object a line (jq -c "
                                                "'.[]' FILE)"
                                              : "it is no object");
    const json_t *messages = json_object_get(object, "messages"),
                 *shared = json_object_get(object, "conversations");
    if (messages || shared)
        return add_conversation(batch, template, messages ? messages : shared, !messages);
    if (json_object_get(object, "prompt") || json_object_get(object, "completion"))
        return add_pair(batch, template, object, false);
    if (json_object_get(object, "instruction"))
        return add_pair(batch, template, object, true);
    if (json_object_get(object, "text"))
        return add_text(batch, object);
    return dt_status_fail(DT_EXIT_IO,
                          "it has none of the fields \"text\", \"prompt\" and \"completion\", "
                          "\"instruction\" and \"output\", \"messages\", \"conversations\"");
}

DtStatus dt_datachatline_read(DtChatBatch *batch, const DtChatForm *form, const char *text,
                              size_t len, uint32_t file, uint64_t line)
{
    json_error_t error;
    json_t *object = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return dt_status_fail(DT_EXIT_IO, "no JSON at column %d: %.160s", error.column, error.text);
    DtStatus status = add_document(batch, form, object);
    json_decref(object);
    batch->documents = grown(batch->documents, batch->n_documents, &batch->cap_documents,
                             sizeof *batch->documents);
    batch->documents[batch->n_documents++] = (DtChatDocument){batch->n_spans, file, line};
    return status;
}
