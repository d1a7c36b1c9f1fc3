/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tokenizer.json: the file as a whole, and its added tokens. */
#include "tokenizer/internal.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 1 << 21, MAX_ADDED_BYTES = 1 << 12 };

/* ---- the text ---- */

/* Refuses text whose arrays and objects would take memory without bounds. */
static DtStatus parse(const DtTokenizer *t, const char *text, size_t len, json_t **ret_file)
{
    json_error_t error = {.line = 0};
    uint32_t brackets = 0;
    for (size_t i = 0; i < len; i++)
        brackets += text[i] == '{' || text[i] == '[';
    if (brackets > MAX_BRACKETS)
        return dt_json_fail(t, "it has more than %d arrays and objects", MAX_BRACKETS);
    *ret_file = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*ret_file))
        return DT_OK;
    if (*ret_file)
        return dt_json_fail(t, "it is no JSON object");
    return dt_json_fail(t, "it is damaged: line %d: %.120s", error.line, error.text);
}

/* ---- ids ---- */

/* Sets n_ids to more than the id; fails if there can be no token of that id. */
static DtStatus know_id(DtTokenizer *t, const json_t *id, const char *written)
{
    const json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= DT_MAX_TOKENS)
        return dt_json_fail(t, "the id of token `%.60s` is no integer from 0 to %d", written,
                            DT_MAX_TOKENS - 1);
    t->n_ids = value >= t->n_ids ? (uint32_t)value + 1 : t->n_ids;
    return DT_OK;
}

/* A vocabulary is an object of ids, or a list in their order. */
static DtStatus know_ids(DtTokenizer *t, json_t *vocab, const json_t *added)
{
    const char *written;
    json_t *value;
    DtStatus status = DT_OK;
    if (json_array_size(vocab) > DT_MAX_TOKENS)
        return dt_json_fail(t, "its vocabulary has more than %d tokens", DT_MAX_TOKENS);
    t->n_ids = (uint32_t)json_array_size(vocab);
    json_object_foreach(vocab, written, value)
    {
        status = know_id(t, value, written);
        if (!dt_status_ok(&status))
            return status;
    }
    for (size_t i = 0; i < json_array_size(added) && dt_status_ok(&status); i++) {
        const json_t *entry = json_array_get(added, i);
        written = json_string_value(json_object_get(entry, "content"));
        if (!written || !*written || strlen(written) > MAX_ADDED_BYTES)
            return dt_json_fail(t, "added token number %zu has no text of 1 to %d bytes", i,
                                MAX_ADDED_BYTES);
        status = know_id(t, json_object_get(entry, "id"), written);
    }
    t->tokens = DT_NEW_ARRAY(t->memory, DtTokenBytes, t->n_ids + 1);
    t->written = DT_NEW_ARRAY(t->memory, DtTokenBytes, t->n_ids + 1);
    t->pieces = DT_NEW_ARRAY(t->memory, DtTokenBytes, t->n_ids + 1);
    return status;
}

/* ---- added tokens ---- */

static bool is_written(const DtTokenBytes *token, const char *text)
{
    return token->at && token->len == strlen(text) && memcmp(token->at, text, token->len) == 0;
}

/* What is looked for: a token that is found after normalisation is normalised itself. */
static DtTokenBytes sought(DtTokenizer *t, const DtTokenBytes *written)
{
    DtNormText made = {0};
    DtNormRun *run = dt_norm_begin(&t->norms);
    DtTokenBytes text = {NULL, 0};
    if (dt_norm_push(run, written->at, written->len, true, &made) && made.n > 0 &&
        made.n <= MAX_ADDED_BYTES)
        text = (DtTokenBytes){
            (const uint8_t *)dt_arena_strndup(t->memory, (const char *)made.at, made.n),
            (uint32_t)made.n};
    dt_norm_end(run);
    free(made.at);
    return text;
}

static DtStatus add_token(DtTokenizer *t, const json_t *entry)
{
    const char *written = json_string_value(json_object_get(entry, "content"));
    const uint32_t id = (uint32_t)json_integer_value(json_object_get(entry, "id"));
    const uint32_t known = dt_vocab_find(&t->vocab, written, strlen(written));
    if (known != DT_NO_TOKEN && known != id)
        return dt_json_fail(t, "added token `%.60s` has id %u, and the vocabulary gives it %u",
                            written, id, known);
    if (t->written[id].at && !is_written(&t->written[id], written))
        return dt_json_fail(t, "tokens `%.60s` and `%.60s` have one id, %u",
                            (const char *)t->written[id].at, written, id);
    if (json_is_true(json_object_get(entry, "single_word")))
        return dt_json_fail(t, "added token `%.60s` has single_word, which is not supported yet",
                            written);
    if (!t->written[id].at)
        t->written[id] = dt_json_text(t, entry, "content");
    const bool normalized = json_is_true(json_object_get(entry, "normalized"));
    const DtAddedToken token = {.text = normalized ? sought(t, &t->written[id]) : t->written[id],
                                .id = id,
                                .lstrip = json_is_true(json_object_get(entry, "lstrip")),
                                .rstrip = json_is_true(json_object_get(entry, "rstrip")),
                                .special = json_is_true(json_object_get(entry, "special"))};
    if (!token.text.at)
        return dt_json_fail(t, "the normalizer makes added token `%.60s` nothing, or too long",
                            written);
    if (!dt_added_add(t->memory, normalized ? &t->normalized : &t->verbatim, &token))
        return dt_json_fail(t, "added token `%.60s` is there twice", written);
    return DT_OK;
}

static DtStatus read_added(DtTokenizer *t, const json_t *added)
{
    DtStatus status = DT_OK;
    dt_added_begin(t->memory, &t->verbatim);
    dt_added_begin(t->memory, &t->normalized);
    if (added && !json_is_array(added) && !json_is_null(added))
        return dt_json_fail(t, "its added_tokens are no array");
    for (size_t i = 0; i < json_array_size(added) && dt_status_ok(&status); i++)
        status = add_token(t, json_array_get(added, i));
    return status;
}

/* ---- the file ---- */

/* Adds the token that the program wants after each document, unless the post-processor puts it
 * there already. */
static DtStatus set_end(DtTokenizer *t, const char *end)
{
    for (uint32_t id = 0; id < t->n_ids; id++) {
        if (!is_written(&t->written[id], end))
            continue;
        if (t->n_back == 0 || t->back[t->n_back - 1] != id)
            t->back[t->n_back++] = id;
        return DT_OK;
    }
    return dt_json_fail(t, "it has no token `%.100s`, which `end` names", end);
}

/* Truncation and padding change texts, which a stream of tokens must not do silently. */
static DtStatus check_rest(const DtTokenizer *t, const json_t *file)
{
    static const char *const names[] = {"truncation", "padding"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        const json_t *value = json_object_get(file, names[i]);
        if (value && !json_is_null(value))
            return dt_json_fail(t,
                                "it has %s, which is not supported: documents are neither cut nor "
                                "filled; write `\"%s\": null` there",
                                names[i], names[i]);
    }
    return DT_OK;
}

static DtStatus read_file(DtTokenizer *t, const json_t *file, const char *end)
{
    json_t *model = json_object_get(file, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *added = json_object_get(file, "added_tokens");
    DtStatus status = check_rest(t, file);
    if (dt_status_ok(&status))
        status = know_ids(t, vocab, added);
    if (dt_status_ok(&status))
        status = dt_jsonnorm_read(t, file);
    if (dt_status_ok(&status))
        status = dt_jsonsplit_read(t, file);
    if (dt_status_ok(&status))
        status = dt_jsonmodel_read(t, model);
    if (dt_status_ok(&status))
        status = read_added(t, added);
    if (dt_status_ok(&status))
        status = dt_jsonsteps_read(t, file);
    if (dt_status_ok(&status) && end)
        status = set_end(t, end);
    if (dt_status_ok(&status))
        dt_decode_all(t);
    return status;
}

DtStatus dt_tokenizer_read(const char *text, size_t len, const char *name, const char *end,
                           DtTokenizer **ret_tokenizer)
{
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = DT_NEW(memory, DtTokenizer);
    json_t *file = NULL;
    *ret_tokenizer = NULL;
    t->memory = memory;
    t->name = dt_arena_strndup(memory, name, strlen(name));
    DtStatus status = parse(t, text, len, &file);
    if (dt_status_ok(&status))
        status = read_file(t, file, end);
    json_decref(file);
    if (dt_status_ok(&status))
        *ret_tokenizer = t;
    else
        dt_tokenizer_close(t);
    return status;
}

const char *dt_tokenizer_path(DtArena *memory, const char *path)
{
    const size_t len = strlen(path);
    if (len > 5 && strcmp(path + len - 5, ".json") == 0)
        return path;
    return dt_arena_printf(memory, "%s%stokenizer.json", path,
                           len > 0 && path[len - 1] == '/' ? "" : "/");
}

DtStatus dt_tokenizer_look(const char *path)
{
    char *text;
    size_t len;
    json_t *file = NULL;
    DtArena *memory = dt_arena_new();
    const DtTokenizer named = {.name = dt_tokenizer_path(memory, path)};
    DtStatus status = dt_file_read(memory, named.name, DT_TOKENIZER_MOST, &text, &len);
    if (dt_status_ok(&status))
        status = parse(&named, text, len, &file);
    json_decref(file);
    dt_arena_free(memory);
    return status;
}

DtStatus dt_tokenizer_open(const char *path, const char *end, DtTokenizer **ret_tokenizer)
{
    char *text;
    size_t len;
    DtArena *memory = dt_arena_new();
    const char *name = dt_tokenizer_path(memory, path);
    *ret_tokenizer = NULL;
    DtStatus status = dt_file_read(memory, name, DT_TOKENIZER_MOST, &text, &len);
    if (dt_status_ok(&status))
        status = dt_tokenizer_read(text, len, name, end, ret_tokenizer);
    dt_arena_free(memory);
    return status;
}

void dt_tokenizer_close(DtTokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (uint32_t i = 0; i < tokenizer->n_splits; i++)
        dt_regex_free(tokenizer->splits[i].regex);
    for (uint32_t i = 0; i < tokenizer->norms.n; i++)
        dt_regex_free(tokenizer->norms.at[i].split.regex);
    dt_arena_free(tokenizer->memory);
}

uint32_t dt_tokenizer_ids(const DtTokenizer *tokenizer) { return tokenizer->n_ids; }

bool dt_tokenizer_is_special(const DtTokenizer *tokenizer, uint32_t id)
{
    const DtAdded *const kinds[] = {&tokenizer->verbatim, &tokenizer->normalized};
    for (size_t k = 0; k < DT_COUNT(kinds); k++)
        for (uint32_t i = 0; i < kinds[k]->tokens.n; i++)
            if (kinds[k]->tokens.at[i].id == id && kinds[k]->tokens.at[i].special)
                return true;
    return false;
}

DtTokenBytes dt_tokenizer_bytes(const DtTokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->n_ids ? tokenizer->tokens[id] : (DtTokenBytes){NULL, 0};
}

const uint32_t *dt_tokenizer_front(const DtTokenizer *tokenizer, uint32_t *ret_n)
{
    *ret_n = tokenizer->n_before;
    return tokenizer->before;
}

const uint32_t *dt_tokenizer_back(const DtTokenizer *tokenizer, uint32_t *ret_n)
{
    *ret_n = tokenizer->n_back;
    return tokenizer->back;
}
