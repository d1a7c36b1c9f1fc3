/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `model` of tokenizer.json: {"type": "BPE", "vocab": {"a": 0, ...}, "merges": ["a b", ...]}.
 * Newer files write a merge as ["a", "b"]. The vocabulary's tokens are written as bytechars.h
 * says. */
#include "tokenizer/internal.h"

#include "tokenizer/bytechars.h"
#include "tokenizer/utf8.h"

#include <string.h>

enum { MAX_TOKEN_BYTES = 1 << 16 };

uint32_t dt_jsonmodel_find(const json_t *model, const char *written)
{
    const json_t *id = json_object_get(json_object_get(model, "vocab"), written);
    return json_is_integer(id) ? (uint32_t)json_integer_value(id) : DT_NO_TOKEN;
}

/* ---- kinds of models ---- */

typedef struct Kind {
    const char *type, *what; /* what: why it is refused; NULL: it can be read */
} Kind;

static const Kind kinds[] = {
    {"BPE", NULL},
    {"Unigram", "a unigram model (SentencePiece)"},
    {"WordPiece", "a WordPiece model (BERT)"},
    {"WordLevel", "a vocabulary of whole words"},
};

static DtStatus check_kind(const DtTokenizer *t, const json_t *model)
{
    const char *type = json_object_get(model, "type")     ? dt_json_type(model)
                       : json_object_get(model, "merges") ? "BPE" /* files before 2020 */
                                                          : "?";
    for (size_t i = 0; i < DT_COUNT(kinds); i++) {
        if (strcmp(kinds[i].type, type) != 0)
            continue;
        if (!kinds[i].what)
            return DT_OK;
        return dt_json_fail(t,
                            "it is %s, which cannot be read yet: byte-level BPE can (GPT-2, "
                            "Llama 3, Qwen)",
                            kinds[i].what);
    }
    return dt_json_fail(t, "its model has type `%.60s`, which is not known", type);
}

/* Refuses settings that change what a piece becomes. */
static DtStatus check_settings(const DtTokenizer *t, const json_t *model)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *dropout = json_object_get(model, "dropout");
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        const char *value = json_string_value(json_object_get(model, texts[i]));
        if (value && *value)
            return dt_json_fail(t, "its model has a %s, which is not supported", texts[i]);
    }
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return dt_json_fail(t, "it is BPE over characters with byte_fallback (Llama 2, Gemma), "
                               "which cannot be read yet: byte-level BPE can");
    if (json_is_number(dropout) && json_number_value(dropout) != 0)
        return dt_json_fail(t, "its model has a dropout: texts would have other tokens each time");
    return DT_OK;
}

bool dt_jsonmodel_looks_up(const json_t *model)
{
    return json_is_true(json_object_get(model, "ignore_merges"));
}

/* ---- vocabulary ---- */

static DtStatus read_vocab(DtTokenizer *t, json_t *vocab)
{
    const char *written;
    json_t *value;
    json_object_foreach(vocab, written, value)
    {
        const uint32_t id = (uint32_t)json_integer_value(value);
        if (t->written[id])
            return dt_json_fail(t, "tokens `%.60s` and `%.60s` have one id, %u", t->written[id],
                                written, id);
        if (strlen(written) > MAX_TOKEN_BYTES || !*written)
            return dt_json_fail(t, "token %u has no text of 1 to %d bytes", id, MAX_TOKEN_BYTES);
        t->written[id] = dt_arena_strndup(t->memory, written, strlen(written));
        if (!dt_bytechars_read(t->memory, written, &t->tokens[id]))
            t->tokens[id].at = NULL; /* no piece is that token */
    }
    return DT_OK;
}

/* Tokens that no text becomes are shown as they are written. */
static void show_others(DtTokenizer *t)
{
    for (uint32_t id = 0; id < t->n_ids; id++)
        if (t->written[id] && !t->tokens[id].at)
            t->tokens[id] =
                (DtTokenBytes){(const uint8_t *)t->written[id], (uint32_t)strlen(t->written[id])};
}

static DtStatus read_bytes(DtTokenizer *t, const json_t *model)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint8_t written[DT_UTF8_MOST + 1] = {0};
        const bool is_utf8 = b != 0xc0 && b != 0xc1 && b < 0xf5;
        dt_utf8_write(dt_bytechars_of((uint8_t)b), written);
        t->bpe.of_byte[b] = dt_jsonmodel_find(model, (const char *)written);
        if (t->bpe.of_byte[b] == DT_NO_TOKEN && is_utf8)
            return dt_json_fail(t,
                                "its vocabulary lacks the byte 0x%02x (`%s`): only BPE over all "
                                "bytes can be read",
                                b, (const char *)written);
    }
    return DT_OK;
}

/* ---- merges ---- */

/* The two tokens of a merge, in memory that is overwritten by the next call. */
static bool take_pair(const json_t *merge, char room[2 * MAX_TOKEN_BYTES + 2],
                      const char **ret_left, const char **ret_right)
{
    const char *text = json_string_value(merge);
    if (json_array_size(merge) == 2) {
        *ret_left = json_string_value(json_array_get(merge, 0));
        *ret_right = json_string_value(json_array_get(merge, 1));
        return *ret_left && *ret_right && strlen(*ret_left) <= MAX_TOKEN_BYTES &&
               strlen(*ret_right) <= MAX_TOKEN_BYTES;
    }
    const char *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ') || strlen(text) > 2 * MAX_TOKEN_BYTES)
        return false;
    memcpy(room, text, strlen(text) + 1);
    room[space - text] = 0;
    *ret_left = room;
    *ret_right = room + (space - text) + 1;
    return true;
}

static DtStatus read_merge(DtTokenizer *t, const json_t *model, size_t i, char *room, char *whole)
{
    const char *left, *right;
    const json_t *merge = json_array_get(json_object_get(model, "merges"), i);
    if (!take_pair(merge, room, &left, &right))
        return dt_json_fail(t, "merge number %zu is no pair of tokens", i);
    memcpy(whole, left, strlen(left));
    memcpy(whole + strlen(left), right, strlen(right) + 1);
    const char *const names[] = {left, right, whole};
    uint32_t ids[3];
    for (int k = 0; k < 3; k++) {
        ids[k] = dt_jsonmodel_find(model, names[k]);
        if (ids[k] == DT_NO_TOKEN)
            return dt_json_fail(t, "merge number %zu names `%.60s`, which the vocabulary lacks", i,
                                names[k]);
    }
    dt_bpe_add(&t->bpe, ids[0], ids[1], (uint32_t)i, ids[2]);
    return DT_OK;
}

static DtStatus read_merges(DtTokenizer *t, const json_t *model)
{
    const json_t *merges = json_object_get(model, "merges");
    char *room = dt_arena_alloc(t->memory, 2 * MAX_TOKEN_BYTES + 2);
    char *whole = dt_arena_alloc(t->memory, 2 * MAX_TOKEN_BYTES + 2);
    DtStatus status = DT_OK;
    if (!json_is_array(merges) || json_array_size(merges) >= DT_MAX_TOKENS)
        return dt_json_fail(t, "its model has no merges, or too many");
    dt_bpe_begin(t->memory, &t->bpe, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges) && dt_status_ok(&status); i++)
        status = read_merge(t, model, i, room, whole);
    return status;
}

DtStatus dt_jsonmodel_read(DtTokenizer *t, const json_t *model)
{
    json_t *vocab = json_object_get(model, "vocab");
    DtStatus status = check_kind(t, model);
    if (dt_status_ok(&status))
        status = check_settings(t, model);
    if (dt_status_ok(&status) && !json_is_object(vocab))
        status = dt_json_fail(t, "its model has no vocabulary");
    if (dt_status_ok(&status))
        status = read_vocab(t, vocab);
    if (dt_status_ok(&status))
        status = read_merges(t, model);
    if (dt_status_ok(&status))
        status = read_bytes(t, model);
    if (!dt_status_ok(&status))
        return status;
    if (dt_jsonmodel_looks_up(model))
        dt_bpe_look_up(t->memory, &t->bpe, t->tokens, t->n_ids);
    show_others(t);
    return DT_OK;
}
