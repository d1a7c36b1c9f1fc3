/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece (as in BERT): the longest token that a word begins with, then the longest that the rest
 * begins with, among those with a prefix (##), to the end of the word; if there is none, the whole
 * word is unknown. And the model of whole words, each of which is a token or unknown. */
#include "tokenizer/model.h"

#include <stdlib.h>
#include <string.h>

static bool is_too_long(const DtModel *model, const uint8_t *piece, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += (piece[i] & 0xc0) != 0x80;
    return n > model->most_points;
}

static void encode(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                   DtIds *ids)
{
    const size_t before = ids->n;
    bool is_bad = is_too_long(model, piece, len);
    (void)work;
    for (size_t at = 0, next; at < len && !is_bad; at = next) {
        uint32_t node = at > 0 ? model->inside : 0, found = DT_NO_TOKEN;
        const bool none = at > 0 && !model->inside && !model->no_prefix;
        next = at;
        for (size_t end = at; end < len && !none;) {
            node = dt_trie_step(&model->trie, node, piece[end++]);
            if (!node)
                break;
            if (model->trie.token[node] == DT_NO_TOKEN)
                continue;
            found = model->trie.token[node];
            next = end;
        }
        is_bad = found == DT_NO_TOKEN;
        dt_ids_add(ids, found);
    }
    if (is_bad) {
        ids->n = before;
        dt_ids_add(ids, model->unknown);
    }
}

/* Looks each part up in the table instead, longest first. */
static void plain(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids)
{
    const size_t before = ids->n, prefix = model->prefix.len;
    bool is_bad = is_too_long(model, piece, len);
    uint8_t *word = malloc(prefix + len + 1);
    if (!word)
        dt_arena_exhausted(prefix + len + 1);
    if (prefix)
        memcpy(word, model->prefix.at, prefix);
    for (size_t at = 0, end; at < len && !is_bad; at = end) {
        uint32_t found = DT_NO_TOKEN;
        const size_t front = at > 0 ? prefix : 0;
        memcpy(word + prefix, piece + at, len - at);
        for (end = len; end > at; end--) {
            found = dt_vocab_find(model->vocab, word + prefix - front, front + end - at);
            if (found != DT_NO_TOKEN)
                break;
        }
        is_bad = found == DT_NO_TOKEN;
        dt_ids_add(ids, found);
    }
    free(word);
    if (is_bad) {
        ids->n = before;
        dt_ids_add(ids, model->unknown);
    }
}

const DtModelForm dt_model_wordpiece = {encode, plain};

/* ---- whole words ---- */

static void plain_word(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids)
{
    const uint32_t found = dt_vocab_find(model->vocab, piece, len);
    dt_ids_add(ids, found != DT_NO_TOKEN ? found : model->unknown);
}

static void encode_word(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                        DtIds *ids)
{
    (void)work;
    plain_word(model, piece, len, ids);
}

const DtModelForm dt_model_wordlevel = {encode_word, plain_word};
