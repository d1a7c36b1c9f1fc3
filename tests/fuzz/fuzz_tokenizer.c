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
    "The quick isn't  DON'T 12345 \t\n\n x=[1];\r\n Größe e\u0301 한국 中文 \u0661 "
    "<|endoftext|> <mask>  <|im_start|>a ſ's 👩‍👩 \u00a0\u2003  ";

static DtStatus encode(const DtTokenizer *t, DtMemoryText text, DtIds *ids)
{
    DtTextSource source = dt_encode_memory(&text, 1);
    const DtTokenSink sink = dt_encode_ids(ids);
    source.block = 16;
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static DtTokenizer *known;
    static const char with_every_step[] = "tests/tokenizer/fixtures/qwen2.json";
    DtTokenizer *t = NULL;
    DtStatus status = dt_tokenizer_read((const char *)data, size, "fuzz.json", NULL, &t);
    if (dt_status_ok(&status)) {
        compare(t);
        dt_tokenizer_close(t);
    }
    if (!known)
        status = dt_tokenizer_open(with_every_step, NULL, &known);
    DtIds ids = {0};
    if (known)
        status = encode(known, (DtMemoryText){data, size, "text"}, &ids); /* any bytes as a text */
    free(ids.at);
    return 0;
}
