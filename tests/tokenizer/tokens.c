/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a file, for the scripts of this folder and of bench/:
 *
 *   tokens TOKENIZER FILE [THREADS]   its ids, as 32-bit integers, to the standard output
 *   tokens TOKENIZER FILE plain       the same by the plain reference
 *   tokens TOKENIZER FILE time        the best of 3 times in seconds, on one thread
 *   tokens TOKENIZER FILE parts       the ids of parts that go on, with a byte 0 between them
 *   tokens TOKENIZER FILE decode      the text of the 32-bit ids in the file */
#include "base/file.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fail(const DtStatus *status)
{
    fprintf(stderr, "tokens: %s\n", status->message);
    return status->code;
}

static DtStatus encode(const DtTokenizer *tokenizer, DtFileView *view, const char *how, DtIds *ids)
{
    DtMemoryText text = {view->at, view->len, "the file"};
    const DtTextSource source = dt_encode_memory(&text, 1);
    const DtTokenSink sink = dt_encode_ids(ids);
    if (strcmp(how, "plain") == 0)
        return dt_plain_encode(tokenizer, view->at, view->len, ids);
    return dt_encode_documents(tokenizer, &source, (uint32_t)atoi(how), &sink);
}

static DtTextPlace place_of(void *context, uint32_t document)
{
    (void)context;
    return document ? DT_TEXT_GOES_ON : DT_TEXT_BEGINS;
}

static DtStatus encode_parts(const DtTokenizer *tokenizer, const DtFileView *view, DtIds *ids)
{
    DtMemoryText *parts = calloc(view->len + 1, sizeof *parts);
    uint32_t n = 0;
    for (size_t at = 0; parts && at < view->len; n++) {
        const uint8_t *end = memchr(view->at + at, 0, view->len - at);
        const size_t len = end ? (size_t)(end - view->at) - at : view->len - at;
        parts[n] = (DtMemoryText){view->at + at, len, "a part"};
        at += len + 1;
    }
    DtTextSource source = dt_encode_memory(parts, n);
    const DtTokenSink sink = dt_encode_ids(ids);
    source.place = place_of;
    const DtStatus status = dt_encode_bare(tokenizer, &source, 1, &sink);
    free(parts);
    return status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static DtStatus measure(const DtTokenizer *tokenizer, DtFileView *view)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        DtIds ids = {0};
        const double begin = now();
        DtStatus status = encode(tokenizer, view, "1", &ids);
        free(ids.at);
        if (!dt_status_ok(&status))
            return status;
        best = now() - begin < best ? now() - begin : best;
    }
    printf("%.6f\n", best);
    return DT_OK;
}

static void decode(const DtTokenizer *tokenizer, const DtFileView *view)
{
    DtDecoding *decoding = dt_decode_begin(tokenizer);
    DtText text = {0};
    for (size_t at = 0; at + 4 <= view->len; at += 4) {
        uint32_t id;
        memcpy(&id, view->at + at, sizeof id);
        dt_decode_add(decoding, id, &text);
    }
    dt_decode_end(decoding, &text);
    fwrite(text.at, 1, text.len, stdout);
    dt_decode_free(decoding);
    dt_text_free(&text);
}

int main(int argc, char **argv)
{
    DtTokenizer *tokenizer = NULL;
    DtFileView view = {0};
    DtIds ids = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: tokens TOKENIZER FILE [THREADS | plain | time | parts | decode]\n");
        return DT_EXIT_USAGE;
    }
    const char *how = argc > 3 ? argv[3] : "1";
    DtStatus status = dt_tokenizer_open(argv[1], getenv("TOKENS_END"), &tokenizer);
    if (dt_status_ok(&status))
        status = dt_file_map(argv[2], &view);
    if (!dt_status_ok(&status))
        return fail(&status);
    if (strcmp(how, "decode") == 0)
        decode(tokenizer, &view);
    else if (strcmp(how, "parts") == 0)
        status = encode_parts(tokenizer, &view, &ids);
    else if (strcmp(how, "time") == 0)
        status = measure(tokenizer, &view);
    else
        status = encode(tokenizer, &view, how, &ids);
    if (!dt_status_ok(&status))
        return fail(&status);
    fwrite(ids.at, sizeof *ids.at, ids.n, stdout);
    free(ids.at);
    dt_file_unmap(&view);
    dt_tokenizer_close(tokenizer);
    return fflush(stdout) == 0 ? 0 : DT_EXIT_IO;
}
