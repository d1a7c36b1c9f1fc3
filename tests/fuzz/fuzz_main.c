/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a fuzz target without libFuzzer:  fuzz_X [RUNS [SEED [FILE...]]]
 * Each run mutates one of the files (flips, cuts, copies, splices, words of the files put
 * elsewhere) and hands it to LLVMFuzzerTestOneInput, which aborts on a finding. Without files the
 * target's own corpus is used, from the root of the tree. The input of the run is kept in
 * fuzz-SEED.input in the folder DT_FUZZ_KEEP (default: none) while it runs, so that it is there
 * after a crash; RUNS 0 takes each file once as it is, to reproduce a finding. */
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* These are the target's own; a list of patterns ends with NULL. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];

enum { MAX_INPUT = 1 << 16 };

typedef struct Input {
    char *text;
    size_t len;
} Input;

static uint64_t state;

static uint64_t roll(uint64_t n)
{
    state += 0x9E3779B97F4A7C15u; /* the generator splitmix64 */
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return n ? (z ^ (z >> 31)) % n : 0;
}

/* Replaces text[at, at + cut) by the piece. */
static size_t replace(char *text, size_t len, size_t at, size_t cut, const char *piece, size_t n)
{
    if (len - cut + n > MAX_INPUT)
        return len;
    memmove(text + at + n, text + at + cut, len - at - cut);
    memcpy(text + at, piece, n);
    return len - cut + n;
}

static size_t mutate(char *text, size_t len, const Input *inputs, int n_inputs)
{
    const Input *other = &inputs[roll((uint64_t)n_inputs)];
    size_t at = roll(len + 1), from = roll(other->len), n = roll(roll(4) ? 12 : 300);
    n = from + n > other->len ? other->len - from : n;
    size_t cut = roll(roll(4) ? 12 : 300);
    cut = at + cut > len ? len - at : cut;
    static const char characters[] = "(){}[],;:=@.+-*/%<>|\"\n #_aZ09e\\'";
    char piece[301], byte;
    switch (roll(7)) {
    case 0: /* one byte */
        byte = (char)roll(256);
        return at < len ? replace(text, len, at, 1, &byte, 1) : len;
    case 1: /* one character that occurs in the language */
        byte = characters[roll(sizeof characters - 1)];
        return replace(text, len, at, 0, &byte, 1);
    case 2: return replace(text, len, at, cut, "", 0);
    case 3: return replace(text, len, at, cut, other->text + from, n);
    case 4: return replace(text, len, at, 0, other->text + from, n);
    case 5: /* a part of the input itself, repeated */
        memcpy(piece, text + at, cut);
        for (uint64_t k = roll(30); k > 0; k--)
            len = replace(text, len, at, 0, piece, cut);
        return len;
    default: /* one bit */
        if (at < len)
            text[at] = (char)(text[at] ^ (1 << roll(8)));
        return len;
    }
}

static void keep(const char *path, const char *text, size_t len)
{
    FILE *out = fopen(path, "wb");
    if (out) {
        fwrite(text, 1, len, out);
        fclose(out);
    }
}

/* Finds the files named on the command line, or those of the corpus. */
static void find_inputs(glob_t *found, int argc, char **argv)
{
    found->gl_pathc = 0;
    int flags = GLOB_NOCHECK;
    for (int i = 3; i < argc; i++, flags |= GLOB_APPEND)
        glob(argv[i], flags, NULL, found);
    for (int i = 0; argc <= 3 && fuzz_corpus[i]; i++, flags |= GLOB_APPEND)
        glob(fuzz_corpus[i], flags, NULL, found);
}

typedef DT_VEC(Input) Inputs;

/* Adds the inputs in a file of the corpus that contains several programs (tests/golden/errors.py):
 * a line `# ---- NAME` begins each. */
static void add_inputs(DtArena *arena, Inputs *inputs, Input file)
{
    static const char mark[] = "\n# ---- ";
    const char *next;
    while ((next = memmem(file.text, file.len, mark, sizeof mark - 1))) {
        const size_t n = (size_t)(next + 1 - file.text);
        DT_PUSH(arena, *inputs, ((Input){file.text, n}));
        file = (Input){file.text + n, file.len - n};
    }
    DT_PUSH(arena, *inputs, file);
}

int main(int argc, char **argv)
{
    long runs = argc > 1 ? atol(argv[1]) : 10000;
    const char *seed = argc > 2 ? argv[2] : "1";
    glob_t found;
    find_inputs(&found, argc, argv);
    DtArena *arena = dt_arena_new();
    Inputs all = {0};
    for (size_t i = 0; i < found.gl_pathc; i++) {
        Input file;
        DtStatus status = dt_file_read(arena, found.gl_pathv[i], MAX_INPUT, &file.text, &file.len);
        if (!dt_status_ok(&status)) {
            fprintf(stderr, "%s: %s\n", argv[0], status.message);
            return status.code;
        }
        if (argc > 3)
            DT_PUSH(arena, all, file);
        else
            add_inputs(arena, &all, file);
    }
    const Input *inputs = all.at;
    const int n = (int)all.n;
    for (int i = 0; runs == 0 && i < n; i++)
        LLVMFuzzerTestOneInput((const uint8_t *)inputs[i].text, inputs[i].len);
    state = strtoull(seed, NULL, 10);
    const char *folder = getenv("DT_FUZZ_KEEP");
    char path[4096], *text = malloc(MAX_INPUT + 1);
    snprintf(path, sizeof path, "%s/fuzz-%.20s.input", folder ? folder : "", seed);
    for (long run = 0; run < runs; run++) {
        const Input *input = &inputs[roll((uint64_t)n)];
        size_t len = input->len;
        memcpy(text, input->text, len);
        for (uint64_t k = 1 + roll(1 + roll(8)); k > 0; k--)
            len = mutate(text, len, inputs, n);
        if (folder)
            keep(path, text, len);
        LLVMFuzzerTestOneInput((const uint8_t *)text, len);
    }
    if (folder)
        unlink(path);
    free(text);
    globfree(&found);
    dt_arena_free(arena);
    printf("%ld runs over %d inputs without a finding\n", runs, n);
    return 0;
}
