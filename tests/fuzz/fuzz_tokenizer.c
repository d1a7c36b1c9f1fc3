/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of tokenizers: any tokenizer.json is read or refused; one that is read gives a text
 * the tokens that the plain reference gives it, and bytes that end with an error or are text. */
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"tests/tokenizer/fixtures/*.json", NULL};

static const char sample[] =
    "The\u2581quick ``x'' the<0x0A> e\u0323\u0301 \u00a9\u200d \u0600a \ufb01É \r\n\u0301"
    "The quick isn't  DON'T 12345 \t\n\n x=[1];\r\n Größe e\u0301 한국 中文 \u0661 "
    "<|endoftext|> <mask>  <|im_start|>a ſ's 👩‍👩 \u00a0\u2003  ";

static DtStatus encode(const DtTokenizer *t, DtMemoryText text, DtIds *ids)
{
    enum { BLOCKS = 32 };
    DtTextSource source = dt_encode_memory(&text, 1);
    const DtTokenSink sink = dt_encode_ids(ids);
    source.block = 16 + text.len / BLOCKS;
    return dt_encode_documents(t, &source, 1, &sink);
}

static void compare(const DtTokenizer *t)
{
    const DtMemoryText text = {(const uint8_t *)sample, sizeof sample - 1, "text"};
    DtIds fast = {0}, plain = {0};
    const DtStatus a = encode(t, text, &fast), b = dt_plain_encode(t, text.at, text.len, &plain);
    const bool both = dt_status_ok(&a) && dt_status_ok(&b); /* else a pattern reached its limits */
    if (both && (fast.n != plain.n || memcmp(fast.at, plain.at, fast.n * sizeof *fast.at) != 0)) {
        fprintf(stderr, "fuzz_tokenizer: other tokens than the plain reference's\n");
        abort();
    }
    for (size_t i = 0; i < fast.n; i++)
        if (fast.at[i] >= dt_tokenizer_ids(t) || !dt_tokenizer_bytes(t, fast.at[i]).at) {
            fprintf(stderr, "fuzz_tokenizer: token %u does not exist\n", fast.at[i]);
            abort();
        }
    free(fast.at);
    free(plain.at);
}

/* The text of tokens of any file, and what each stands for. */
static void decode(const DtTokenizer *t)
{
    DtDecoding *decoding = dt_decode_begin(t);
    DtText text = {0};
    const uint32_t n = dt_tokenizer_ids(t), step = n / 256 + 1;
    for (uint32_t id = 0; id < n + 1 && text.len < 1 << 20; id += step)
        if (dt_decode_add(decoding, id, &text) != (dt_tokenizer_bytes(t, id).at != NULL)) {
            fprintf(stderr, "fuzz_tokenizer: token %u has a text, or it has none\n", id);
            abort();
        }
    dt_decode_end(decoding, &text);
    dt_decode_free(decoding);
    dt_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"qwen2", "mistral", "unk", "albert", "fallback", "bert"};
    static DtTokenizer *known[sizeof names / sizeof names[0]];
    static uint32_t turn;
    DtTokenizer *t = NULL, **one = &known[turn++ % (sizeof names / sizeof names[0])];
    DtStatus status = dt_tokenizer_read((const char *)data, size, "fuzz.json", NULL, &t);
    if (dt_status_ok(&status)) {
        compare(t);
        decode(t);
        dt_tokenizer_close(t);
    }
    if (!*one) {
        char path[100];
        snprintf(path, sizeof path, "tests/tokenizer/fixtures/%s.json", names[one - known]);
        status = dt_tokenizer_open(path, NULL, one);
    }
    DtIds ids = {0};
    if (*one)
        status = encode(*one, (DtMemoryText){data, size, "text"}, &ids); /* any bytes as a text */
    free(ids.at);
    return 0;
}
