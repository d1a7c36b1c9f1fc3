/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts become tokens, and tokens become text. Without a tokenizer the tokens are bytes, if the
 * model was trained on text, or numbers. */
#include "runtime/data.h"
#include "runtime/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

DtStatus dt_generatetext_open(DtArena *memory, const DtRunOptions *options, const DtNext *next,
                              DtWords *ret_words)
{
    const DtPlan *plan = next->plan;
    const DtPlanReader *reader = &plan->readers[next->reader];
    const char *path, *end = dt_plan_str(plan, reader->end);
    *ret_words =
        (DtWords){.vocab = next->vocab,
                  .bytes = reader->source == DT_PLAN_TEXT || reader->source == DT_PLAN_SYNTHETIC};
    DtStatus status = dt_datapaths_tokenizer(memory, options, plan, next->reader, &path);
    if (dt_status_ok(&status) && path)
        status = dt_tokenizer_open(path, *end ? end : NULL, &ret_words->tokenizer);
    ret_words->path = path ? dt_tokenizer_path(memory, path) : NULL;
    if (!options->raw)
        ret_words->template = dt_datachattemplate_find(dt_plan_str(plan, reader->template));
    return status;
}

void dt_generatetext_close(DtWords *words) { dt_tokenizer_close(words->tokenizer); }

/* ---- prompts ---- */

static DtStatus push(const DtWords *words, uint32_t token, const char *word, DtIds *ret_ids)
{
    if (token >= words->vocab)
        return dt_status_fail(DT_EXIT_USAGE,
                              "%s %u of the prompt is outside the vocabulary of %lld", word, token,
                              (long long)words->vocab);
    dt_ids_room(ret_ids, 1);
    ret_ids->at[ret_ids->n++] = token;
    return DT_OK;
}

static DtStatus check_ids(const DtWords *words, const DtIds *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->at[i] >= words->vocab)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "token %u of the prompt is outside the vocabulary of %lld",
                                  ids->at[i], (long long)words->vocab);
    return DT_OK;
}

static DtStatus read_words(const DtWords *words, const char *prompt, DtIds *ret_ids)
{
    const size_t first = ret_ids->n;
    DtStatus status = dt_encode_prompt(words->tokenizer, prompt, ret_ids);
    if (dt_status_ok(&status) && ret_ids->n == first)
        status = dt_encode_prompt(words->tokenizer, "\n", ret_ids);
    if (dt_status_ok(&status) && ret_ids->n == first)
        return dt_status_fail(DT_EXIT_USAGE, "the tokenizer makes no token of the prompt, nor of a "
                                             "newline: a prompt needs other text");
    return dt_status_ok(&status) ? check_ids(words, ret_ids) : status;
}

DtStatus dt_generatetext_spans(const DtWords *words, const DtChatBatch *batch, DtIds *ret_ids)
{
    DtChatTokens tokens = {0};
    DtStatus status = dt_datachatencode_run(words->tokenizer, batch, "the prompt", 1, &tokens);
    for (size_t i = 0; i < batch->n_spans && dt_status_ok(&status); i++) {
        size_t n;
        const uint32_t *ids = dt_datachatencode_ids(words->tokenizer, batch, &tokens, i, &n);
        dt_ids_room(ret_ids, n);
        for (size_t k = 0; k < n; k++)
            ret_ids->at[ret_ids->n++] = ids[k];
    }
    dt_datachatencode_free(&tokens);
    if (dt_status_ok(&status) && ret_ids->n == 0)
        return read_words(words, "", ret_ids);
    return dt_status_ok(&status) ? check_ids(words, ret_ids) : status;
}

static DtStatus read_bytes(const DtWords *words, const char *prompt, DtIds *ret_ids)
{
    DtStatus status = DT_OK;
    for (const char *at = prompt[0] ? prompt : "\n"; *at && dt_status_ok(&status); at++)
        status = push(words, (unsigned char)*at, "byte", ret_ids);
    return status;
}

static DtStatus read_numbers(const DtWords *words, const char *prompt, DtIds *ret_ids)
{
    DtStatus status = DT_OK;
    for (const char *at = prompt; *at && dt_status_ok(&status);) {
        char *end;
        errno = 0;
        const long long token = strtoll(at, &end, 10);
        if (end == at || errno || token < 0 || token >= words->vocab)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "the model was trained on token numbers: write the prompt as "
                                  "numbers below %lld, separated by spaces",
                                  (long long)words->vocab);
        status = push(words, (uint32_t)token, "token", ret_ids);
        for (at = end; *at == ' ' || *at == ','; at++) {}
    }
    return ret_ids->n > 0 || !dt_status_ok(&status)
               ? status
               : dt_status_fail(DT_EXIT_USAGE, "the prompt is empty");
}

DtStatus dt_generatetext_read(const DtWords *words, const char *prompt, DtIds *ret_ids)
{
    return words->tokenizer ? read_words(words, prompt, ret_ids)
           : words->bytes   ? read_bytes(words, prompt, ret_ids)
                            : read_numbers(words, prompt, ret_ids);
}

/* ---- text ---- */

DtDecoding *dt_generatetext_begin(const DtWords *words, const uint32_t *prompt, size_t n)
{
    DtText text = {0};
    if (!words->tokenizer)
        return NULL;
    DtDecoding *decoding = dt_decode_begin(words->tokenizer);
    for (size_t i = 0; i < n; i++)
        dt_decode_add(decoding, prompt[i], &text);
    dt_text_free(&text);
    return decoding;
}

void dt_generatetext_add(const DtWords *words, DtDecoding *decoding, uint32_t token,
                         DtText *ret_bytes)
{
    const uint8_t byte = (uint8_t)token;
    DtTokenBytes text = {.at = words->bytes && token < 256 ? &byte : NULL, .len = 1};
    if (decoding && dt_decode_add(decoding, token, ret_bytes))
        return;
    if (words->tokenizer)
        text = dt_tokenizer_bytes(words->tokenizer, token);
    if (text.at)
        dt_text_add_n(ret_bytes, (const char *)text.at, text.len);
    else
        dt_text_printf(ret_bytes, words->bytes || words->tokenizer ? "<%u>" : "%u ", token);
}

/* The number of bytes of the UTF-8 character that begins with these n bytes (at least one); 0: no
 * character begins so. RFC 3629, table 3. */
static size_t character_length(const unsigned char *at, size_t n)
{
    const unsigned char c = at[0];
    const size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    const unsigned char least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < n && i < len; i++)
        if (at[i] < (i == 1 ? least : 0x80) || at[i] > (i == 1 ? most : 0xbf))
            return 0;
    return len;
}

size_t dt_generatetext_show(const char *bytes, size_t n, bool ends, DtText *ret_text)
{
    size_t at = 0;
    while (at < n) {
        const size_t len = character_length((const unsigned char *)bytes + at, n - at);
        const bool is_whole = len > 0 && len <= n - at;
        if (len > n - at && !ends)
            break;
        if (is_whole)
            dt_text_add_n(ret_text, bytes + at, len);
        else
            dt_text_printf(ret_text, "\\x%02x", (unsigned char)bytes[at]);
        at += is_whole ? len : 1;
    }
    return at;
}
