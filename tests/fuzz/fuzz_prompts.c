/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of files of prompts: any bytes are prompts or are refused with their place. A prompt
 * that is read has tokens of the vocabulary and settings in their ranges, its text can be
 * continued, and its line is written. */
#include "runtime/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"tests/fuzz/corpus/*.jsonl", NULL};

static void found(const char *what)
{
    fprintf(stderr, "fuzz_prompts: %s\n", what);
    abort();
}

/* Continues a text by a few of its own tokens and writes its line. */
static void go_on(const DtWords *words, DtLines *lines, DtCompletion *c)
{
    uint32_t end = 1;
    const DtIds ends = {.at = &end, .n = 1};
    const size_t most = c->sampling.tokens < 6 ? (size_t)c->sampling.tokens : 6;
    for (size_t i = 0; i < most && !c->stop; i++) {
        dt_ids_room(&c->ids, 1);
        c->ids.at[c->ids.n] = c->ids.at[i % c->n_prompt];
        c->ids.n++;
        dt_generatestop_look(words, &ends, c);
        if (dt_generatestop_safe(c) > c->bytes.len)
            found("more bytes stay than there are");
    }
    const DtStatus status = dt_generatelines_write(lines, c);
    if (!dt_status_ok(&status))
        found(status.message);
}

static void check(const DtWords *words, const DtCompletion *c)
{
    const DtSampling *s = &c->sampling;
    if (c->n_prompt == 0 || c->n_prompt != c->ids.n)
        found("a prompt without tokens");
    for (size_t i = 0; i < c->ids.n; i++)
        if (c->ids.at[i] >= words->vocab)
            found("a token outside of the vocabulary");
    if (!(s->temperature >= 0) || !(s->top_p > 0 && s->top_p <= 1) ||
        !(s->min_p >= 0 && s->min_p <= 1) || !(s->repetition_penalty > 0) || s->tokens < 0 ||
        s->top_k < 0)
        found("a setting outside of its range");
    if (c->n_stops > DT_MOST_STOPS)
        found("too many stop texts");
}

static void read_all(const DtRunOptions *options, const DtWords *words)
{
    DtPrompts *prompts = NULL;
    DtLines lines;
    int64_t counted = 0, n = 0;
    DtStatus status = dt_generateprompts_open(options, words, &prompts);
    if (!dt_status_ok(&status))
        found(status.message);
    status = dt_generateprompts_count(prompts, &counted);
    if (dt_status_ok(&status))
        status = dt_generatelines_open(options, true, &lines);
    if (!dt_status_ok(&status))
        found(status.message);
    for (bool any = true; any && dt_status_ok(&status);) {
        DtCompletion c = {0};
        status = dt_generateprompts_next(prompts, &c, &any);
        if (dt_status_ok(&status) && any) {
            check(words, &c);
            go_on(words, &lines, &c);
            n++;
        } else if (!dt_status_ok(&status) && !strstr(status.message, options->prompts)) {
            found("a failure without its place");
        }
        dt_generate_free(&c);
    }
    if (n > counted || (dt_status_ok(&status) && n != counted))
        found("another number of prompts than was counted");
    dt_generatelines_close(&lines);
    dt_generateprompts_close(prompts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static DtWords kinds[] = {
        {.vocab = 300, .bytes = true}, {.vocab = 50}, {.vocab = 0}, {.vocab = 0}};
    static const char *const fixtures[] = {NULL, NULL, "gpt2", "qwen2"};
    char path[64];
    const int fd = memfd_create("prompts", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        found("no file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    DtRunOptions options = {.prompts = path, .n_out = 1};
    options.out[0] = "/dev/null";
    options.sampling =
        (DtSampling){.tokens = 6, .temperature = 1, .top_p = 1, .repetition_penalty = 1};
    for (size_t i = 0; i < DT_COUNT(kinds); i++) {
        DtWords *words = &kinds[i];
        if (fixtures[i] && !words->tokenizer) {
            char name[100];
            snprintf(name, sizeof name, "tests/tokenizer/fixtures/%s.json", fixtures[i]);
            DtStatus status = dt_tokenizer_open(name, NULL, &words->tokenizer);
            if (!dt_status_ok(&status))
                found(status.message);
            words->vocab = dt_tokenizer_ids(words->tokenizer);
            words->template = i == 3 ? dt_datachattemplate_find("chatml") : NULL;
        }
        read_all(&options, words);
    }
    close(fd);
    return 0;
}
