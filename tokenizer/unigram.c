/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram model (Kudo, 2018): each token has a score, the logarithm of its probability, and a piece
 * becomes the tokens with the largest sum. A code point that is no token itself may be unknown, for
 * a score below all others; several of them in a row are one text, which is looked up as a whole,
 * is written as byte tokens, or becomes the unknown token.
 *
 * The path to each byte is kept with its score (Viterbi, 1967). A trie finds the tokens that begin
 * at a byte, shortest first; of equal scores the path that was found first stays. */
#include "tokenizer/model.h"

#include <stdlib.h>

static void reach(DtModelPath *paths, size_t first, size_t end, uint32_t token, double score)
{
    DtModelPath *path = &paths[end];
    const double sum = score + paths[first].score;
    if (path->first == SIZE_MAX || sum > path->score)
        *path = (DtModelPath){sum, first, token};
}

/* Turns the paths round: paths[first].first is then where the token ends that begins there. */
static void turn(DtModelPath *paths, size_t len)
{
    size_t end = len, next = len;
    uint32_t token = 0;
    while (end > 0) {
        const DtModelPath path = paths[end];
        paths[end].first = next; /* of the token after this one */
        paths[end].token = token;
        next = end;
        token = path.token;
        end = path.first;
    }
    paths[0].first = next;
    paths[0].token = token;
}

/* Appends the tokens of text that is unknown. */
static void add_unknown(const DtModel *model, const uint8_t *text, size_t len, DtIds *ids)
{
    const uint32_t whole = dt_vocab_find(model->vocab, text, len);
    const size_t before = ids->n;
    if (whole != DT_NO_TOKEN) {
        dt_ids_add(ids, whole);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        const uint32_t token = model->of_byte[text[i]];
        if (token == DT_NO_TOKEN) {
            ids->n = before;
            dt_ids_add(ids, model->unknown);
            return;
        }
        dt_ids_add(ids, token);
    }
}

/* Appends the tokens of the path that ends at len. */
static void add_path(const DtModel *model, DtModelPath *paths, const uint8_t *piece, size_t len,
                     DtIds *ids)
{
    turn(paths, len);
    for (size_t at = 0, end; at < len; at = end) {
        end = paths[at].first;
        if (paths[at].token != model->unknown) {
            dt_ids_add(ids, paths[at].token);
            continue;
        }
        while (end < len && paths[end].token == model->unknown)
            end = paths[end].first;
        add_unknown(model, piece + at, end - at, ids);
    }
}

static void begin_paths(DtModelPath *paths, size_t len)
{
    for (size_t i = 0; i <= len; i++)
        paths[i] = (DtModelPath){0, SIZE_MAX, 0};
}

static void encode(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                   DtIds *ids)
{
    if (len + 1 > work->cap_paths) {
        work->cap_paths = len + len / 2 + 64;
        work->paths = realloc(work->paths, work->cap_paths * sizeof *work->paths);
        if (!work->paths)
            dt_arena_exhausted(work->cap_paths * sizeof *work->paths);
    }
    begin_paths(work->paths, len);
    for (size_t at = 0, step; at < len; at += step) {
        bool single = false;
        uint32_t node = 0;
        step = dt_utf8_step(piece[at]);
        for (size_t end = at; end < len;) {
            node = dt_trie_step(&model->trie, node, piece[end++]);
            if (!node)
                break;
            const uint32_t token = model->trie.token[node];
            if (token == DT_NO_TOKEN)
                continue;
            reach(work->paths, at, end, token, model->scores[token]);
            single |= end - at == step;
        }
        if (!single)
            reach(work->paths, at, at + step, model->unknown, model->unknown_score);
    }
    add_path(model, work->paths, piece, len, ids);
}

/* Looks all parts up in the table instead, for each end all beginnings. */
static void plain(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids)
{
    const uint32_t most = model->vocab->longest,
                   longest = most > DT_UTF8_MOST ? most : DT_UTF8_MOST;
    DtModelPath *paths = malloc((len + 1) * sizeof *paths);
    if (!paths)
        dt_arena_exhausted((len + 1) * sizeof *paths);
    begin_paths(paths, len);
    for (size_t end = 1; end <= len; end++) {
        if (end < len && (piece[end] & 0xc0) == 0x80)
            continue;
        size_t at = end < longest ? 0 : end - longest;
        while ((piece[at] & 0xc0) == 0x80)
            at++;
        for (size_t step; at < end; at += step) {
            step = dt_utf8_step(piece[at]);
            const uint32_t token = dt_vocab_find(model->vocab, piece + at, end - at);
            if (token != DT_NO_TOKEN)
                reach(paths, at, end, token, model->scores[token]);
            else if (at + step == end)
                reach(paths, at, end, model->unknown, model->unknown_score);
        }
    }
    add_path(model, paths, piece, len, ids);
    free(paths);
}

const DtModelForm dt_model_unigram = {encode, plain};
