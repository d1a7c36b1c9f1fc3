/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of documents -> tokens. A text is encoded apart from the one in front of it, if one of them
 * is trained and the other one is not, as a model reads a prompt before it writes. */
#include "runtime/data_chat.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 1 << 12 /* that are encoded at a time: each takes some KiB there */ };

/* Texts of a batch, from number `first` on. */
typedef struct Texts {
    const DtChatBatch *batch;
    const char *name;
    DtChatTokens *tokens;
    size_t first;
} Texts;

static const DtChatSpan *text_at(const Texts *texts, size_t text)
{
    return &texts->batch->spans[texts->tokens->texts[texts->first + text]];
}

static uint64_t text_bytes(void *context, uint32_t text) { return text_at(context, text)->len; }

static DtStatus read_text(void *context, uint32_t text, uint64_t at, size_t n, uint8_t *to)
{
    const Texts *texts = context;
    memcpy(to, texts->batch->text.at + text_at(texts, text)->first + at, n);
    return DT_OK;
}

static const char *text_name(void *context, uint32_t text)
{
    (void)text;
    return ((const Texts *)context)->name;
}

static DtTextPlace text_place(void *context, uint32_t text)
{
    return text_at(context, text)->place;
}

static DtStatus take_ids(void *context, const uint32_t *ids, size_t n)
{
    DtIds *to = &((Texts *)context)->tokens->ids;
    dt_ids_room(to, n);
    if (n > 0)
        memcpy(to->at + to->n, ids, n * sizeof *ids);
    to->n += n;
    return DT_OK;
}

static DtStatus end_text(void *context, uint32_t text)
{
    Texts *texts = context;
    const DtChatSpan *span = text_at(texts, text);
    texts->tokens->ends[span - texts->batch->spans] = texts->tokens->ids.n;
    return DT_OK;
}

static void *room(void *at, size_t bytes)
{
    void *more = realloc(at, bytes ? bytes : 1);
    if (!more)
        dt_arena_exhausted(bytes);
    return more;
}

DtStatus dt_datachatencode_run(const DtTokenizer *tokenizer, const DtChatBatch *batch,
                               const char *name, uint32_t threads, DtChatTokens *tokens)
{
    Texts texts = {batch, name, tokens, 0};
    size_t n = 0;
    DtStatus status = DT_OK;
    tokens->ends = room(tokens->ends, batch->n_spans * sizeof *tokens->ends);
    tokens->texts = room(tokens->texts, batch->n_spans * sizeof *tokens->texts);
    for (size_t i = 0; i < batch->n_spans; i++)
        if (batch->spans[i].kind == DT_CHAT_TEXT)
            tokens->texts[n++] = i;
    tokens->ids.n = 0;
    for (size_t end; texts.first < n && dt_status_ok(&status); texts.first = end) {
        /* a text that goes on is encoded together with the one before it */
        for (end = texts.first + 1; end < n; end++)
            if (end - texts.first >= MOST_TEXTS &&
                batch->spans[tokens->texts[end]].place != DT_TEXT_GOES_ON)
                break;
        const DtTextSource from = {&texts,    (uint32_t)(end - texts.first), text_bytes,
                                   read_text, text_name, text_place, 0};
        const DtTokenSink to = {&texts, take_ids, end_text, NULL};
        status = dt_encode_bare(tokenizer, &from, threads, &to);
    }
    for (size_t i = 0, at = 0; i < batch->n_spans && dt_status_ok(&status); i++) {
        if (batch->spans[i].kind == DT_CHAT_TEXT)
            at = tokens->ends[i];
        tokens->ends[i] = at;
    }
    return status;
}

const uint32_t *dt_datachatencode_ids(const DtTokenizer *tokenizer, const DtChatBatch *batch,
                                      const DtChatTokens *tokens, size_t span, size_t *ret_n)
{
    uint32_t n;
    const uint32_t *ids;
    switch (batch->spans[span].kind) {
    case DT_CHAT_TEXT: {
        const size_t first = span > 0 ? tokens->ends[span - 1] : 0;
        *ret_n = tokens->ends[span] - first;
        return tokens->ids.at + first;
    }
    case DT_CHAT_FRONT: ids = dt_tokenizer_front(tokenizer, &n); break;
    case DT_CHAT_BACK:
    case DT_CHAT_BETWEEN:
    default: ids = dt_tokenizer_back(tokenizer, &n); break;
    }
    *ret_n = n;
    return ids;
}

void dt_datachatencode_free(DtChatTokens *tokens)
{
    free(tokens->ids.at);
    free(tokens->ends);
    free(tokens->texts);
    *tokens = (DtChatTokens){0};
}
