/* SPDX-License-Identifier: Apache-2.0 */
/* A line of JSON as a document. What it holds follows from the names of its fields:
 *
 *   {"text": T}                                      a text, trained as a whole
 *   {"prompt": P, "completion": C}                   C follows P
 *   {"instruction": I, "input": X, "output": C}      the same; X may be absent or empty
 *   {"messages": [{"role": R, "content": T}, ..]}    a conversation
 *   {"conversations": [{"from": R, "value": T}, ..]} the same
 *
 * A preference is two documents, the first one chosen, the second one rejected:
 *
 *   {"prompt": P, "chosen": C, "rejected": D}        P is a text, C and D follow it
 *   {"prompt": [T, ..], "chosen": [..], "rejected": [..]}   the same of turns, as in `messages`
 *   {"chosen": [T, ..], "rejected": [T, ..]}         two conversations that begin alike
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
        add_span(batch, &(DtChatSpan){DT_CHAT_TEXT, trained,
                                      !last || last->kind == DT_CHAT_FRONT ? DT_TEXT_BEGINS
                                      : last->kind == DT_CHAT_TEXT         ? DT_TEXT_GOES_ON
                                                                           : DT_TEXT_AFTER_TOKEN,
                                      batch->text.len, len});
    dt_text_add_n(&batch->text, text, len);
}

void dt_datachatline_around(DtChatBatch *batch, DtChatSpanKind kind)
{
    add_span(batch, &(DtChatSpan){.kind = kind, .trained = kind == DT_CHAT_BACK,
                                  .first = batch->text.len});
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

/* Turns of a conversation, which begin with those of a prompt. Free `at`. */
typedef struct Turns {
    DtChatTurn *at;
    size_t n;
} Turns;

/* Adds the turns of a list. what: its field. */
static DtStatus add_turns(Turns *turns, const json_t *list, const char *what, bool shared)
{
    const size_t n = json_array_size(list);
    DtStatus status = DT_OK;
    if (!json_is_array(list) || n == 0)
        return dt_status_fail(DT_EXIT_IO, "\"%s\" is no list of turns", what);
    DtChatTurn *more = realloc(turns->at, (turns->n + n) * sizeof *more);
    if (!more)
        dt_arena_exhausted((turns->n + n) * sizeof *more);
    memset(more + turns->n, 0, n * sizeof *more);
    turns->at = more;
    for (size_t i = 0; i < n && dt_status_ok(&status); i++) {
        status = read_turn(json_array_get(list, i), shared ? "from" : "role",
                           shared ? "value" : "content", &turns->at[turns->n++]);
        if (!dt_status_ok(&status))
            status = dt_status_fail(DT_EXIT_IO, "turn %zu: %.300s", i + 1, status.message);
    }
    return status;
}

static DtStatus check_template(const DtChatTemplate *template)
{
    return template ? DT_OK
                    : dt_status_fail(DT_EXIT_IO,
                                     "a conversation needs a template: say `template = chatml`, or "
                                     "another one, in the call of `chat`");
}

/* Adds the turns of a list as a document, or as what the assistant is to answer. what: its
 * field. */
static DtStatus add_conversation(DtChatBatch *batch, const DtChatTemplate *template,
                                 const json_t *messages, const char *what, bool asks)
{
    Turns turns = {NULL, 0};
    DtStatus status =
        add_turns(&turns, messages, what, strcmp(what, "conversations") == 0);
    if (dt_status_ok(&status))
        status = check_template(template);
    if (dt_status_ok(&status))
        status = asks ? dt_datachattemplate_ask(batch, template, turns.at, turns.n)
                      : dt_datachattemplate_write(batch, template, turns.at, turns.n, 0);
    free(turns.at);
    return status;
}

/* Reads a prompt, or an instruction and what it is about, as a turn of the user. */
static DtStatus read_ask(const json_t *object, bool instructs, DtChatTurn *ret_turn)
{
    const json_t *input = json_object_get(object, "input");
    *ret_turn = (DtChatTurn){.role = DT_CHAT_USER};
    DtStatus status = read_field(object, instructs ? "instruction" : "prompt", &ret_turn->text,
                                 &ret_turn->len);
    if (dt_status_ok(&status) && instructs && input && !json_is_null(input))
        status = read_field(object, "input", &ret_turn->input, &ret_turn->input_len);
    return status;
}

/* Adds a prompt without a template. */
static void add_ask(DtChatBatch *batch, const DtChatTurn *turn)
{
    dt_datachatline_around(batch, DT_CHAT_FRONT);
    dt_datachatline_text(batch, turn->text, turn->len, false);
    if (turn->input_len == 0)
        return;
    dt_datachatline_text(batch, "\n", 1, false);
    dt_datachatline_text(batch, turn->input, turn->input_len, false);
}

/* Adds a prompt and what follows it, both of one turn. */
static DtStatus add_answer(DtChatBatch *batch, const DtChatTemplate *template,
                           const DtChatTurn turns[2])
{
    if (template)
        return dt_datachattemplate_write(batch, template, turns, 2, 0);
    add_ask(batch, &turns[0]);
    dt_datachatline_text(batch, turns[1].text, turns[1].len, true);
    dt_datachatline_around(batch, DT_CHAT_BACK);
    return DT_OK;
}

/* Adds a prompt and its completion, or an instruction and its output. */
static DtStatus add_pair(DtChatBatch *batch, const DtChatTemplate *template, const json_t *object,
                         bool instructs)
{
    DtChatTurn turns[2] = {{.role = DT_CHAT_USER}, {.role = DT_CHAT_ASSISTANT}};
    DtStatus status = read_ask(object, instructs, &turns[0]);
    if (dt_status_ok(&status))
        status = read_field(object, instructs ? "output" : "completion", &turns[1].text,
                            &turns[1].len);
    return dt_status_ok(&status) ? add_answer(batch, template, turns) : status;
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

/* Ends the document whose spans were added last. */
static void end_document(DtChatBatch *batch, uint32_t file, uint64_t line)
{
    batch->documents = grown(batch->documents, batch->n_documents, &batch->cap_documents,
                             sizeof *batch->documents);
    batch->documents[batch->n_documents++] = (DtChatDocument){batch->n_spans, file, line};
}

/* ---- preferences ---- */

/* Returns how many turns two conversations have in common at their beginning. */
static size_t alike(const json_t *x, const json_t *y)
{
    size_t n = 0;
    while (n < json_array_size(x) && n < json_array_size(y) &&
           json_equal(json_array_get(x, n), json_array_get(y, n)))
        n++;
    return n;
}

/* Adds one of the two conversations of a preference; what follows the prompt is trained. */
static DtStatus add_side(DtChatBatch *batch, const DtChatTemplate *template, const json_t *object,
                         const char *side)
{
    const json_t *prompt = json_object_get(object, "prompt"), *of = json_object_get(object, side);
    Turns turns = {NULL, 0};
    DtStatus status = check_template(template);
    size_t trained =
        alike(json_object_get(object, "chosen"), json_object_get(object, "rejected"));
    if (dt_status_ok(&status) && prompt) {
        status = add_turns(&turns, prompt, "prompt", false);
        trained = turns.n;
    }
    if (dt_status_ok(&status))
        status = add_turns(&turns, of, side, false);
    if (dt_status_ok(&status))
        status = dt_datachattemplate_write(batch, template, turns.at, turns.n, trained);
    free(turns.at);
    return status;
}

/* Adds one of the two texts that may follow a prompt. */
static DtStatus add_text_side(DtChatBatch *batch, const DtChatTemplate *template,
                              const json_t *object, const char *side)
{
    DtChatTurn turns[2] = {{.role = DT_CHAT_USER}, {.role = DT_CHAT_ASSISTANT}};
    DtStatus status = read_field(object, "prompt", &turns[0].text, &turns[0].len);
    if (dt_status_ok(&status))
        status = read_field(object, side, &turns[1].text, &turns[1].len);
    return dt_status_ok(&status) ? add_answer(batch, template, turns) : status;
}

/* Adds the two documents of a preference; the caller ends the second one. */
static DtStatus add_preference(DtChatBatch *batch, const DtChatForm *form, const json_t *object,
                               uint32_t file, uint64_t line)
{
    const DtChatTemplate *template =
        form->template ? dt_datachattemplate_find(form->template) : NULL;
    if (!json_is_object(object) || !json_object_get(object, "chosen") ||
        !json_object_get(object, "rejected"))
        return dt_status_fail(DT_EXIT_IO, "it is no preference: an object with \"prompt\", "
                                          "\"chosen\" and \"rejected\"");
    const bool turns = json_is_array(json_object_get(object, "chosen"));
    DtStatus status = turns ? add_side(batch, template, object, "chosen")
                            : add_text_side(batch, template, object, "chosen");
    end_document(batch, file, line);
    if (dt_status_ok(&status))
        status = turns ? add_side(batch, template, object, "rejected")
                       : add_text_side(batch, template, object, "rejected");
    return status;
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
    if (json_object_get(object, "chosen") && json_object_get(object, "rejected"))
        return dt_status_fail(DT_EXIT_IO, "it is a preference, whose two documents need inputs "
                                          "[batch, pair, seq] with `dim pair = 2`");
    const json_t *messages = json_object_get(object, "messages"),
                 *shared = json_object_get(object, "conversations");
    if (messages || shared)
        return add_conversation(batch, template, messages ? messages : shared,
                                messages ? "messages" : "conversations", false);
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
    DtStatus status = dt_chat_has_pairs(form) ? add_preference(batch, form, object, file, line)
                                              : add_document(batch, form, object);
    json_decref(object);
    end_document(batch, file, line);
    return status;
}

/* ---- prompts ---- */

static DtStatus ask(DtChatBatch *batch, const DtChatTemplate *template, const DtChatTurn *turn)
{
    if (template)
        return dt_datachattemplate_ask(batch, template, turn, 1);
    add_ask(batch, turn);
    return DT_OK;
}

DtStatus dt_datachatline_ask_text(DtChatBatch *batch, const DtChatTemplate *template,
                                  const char *text, size_t len)
{
    return ask(batch, template, &(DtChatTurn){.role = DT_CHAT_USER, .text = text, .len = len});
}

DtStatus dt_datachatline_ask(DtChatBatch *batch, const DtChatTemplate *template,
                             const json_t *object)
{
    static const char *const lists[] = {"messages", "conversations", "prompt"};
    DtChatTurn turn;
    for (size_t i = 0; i < DT_COUNT(lists); i++) {
        const json_t *list = json_object_get(object, lists[i]);
        if (list && (i < 2 || json_is_array(list)))
            return add_conversation(batch, template, list, lists[i], true);
    }
    const bool instructs = !json_object_get(object, "prompt");
    if (instructs && !json_object_get(object, "instruction"))
        return dt_status_fail(DT_EXIT_IO, "it has none of the fields \"prompt\", \"instruction\", "
                                          "\"messages\", \"conversations\"");
    DtStatus status = read_ask(object, instructs, &turn);
    return dt_status_ok(&status) ? ask(batch, template, &turn) : status;
}
