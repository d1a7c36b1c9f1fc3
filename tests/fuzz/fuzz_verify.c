/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_verify RUNS SEED PLAN...: runs the certificate of plan files on plans with damaged texts and
 * notes. Each run changes a few words, numbers, lines or bytes in the logical section of a plan,
 * and asks the certificate for a verdict. Either verdict is allowed, but there must be one, without
 * a crash. */
#include "base/file.h"
#include "plan/read.h"
#include "verify/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 1 << 26, PLANS = 8 };

static uint64_t state;

static uint32_t below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state >> 33) % n) : 0;
}

typedef struct Line {
    const char *at;
    size_t len;
} Line;

static Line any_line(const char *text)
{
    size_t len = strlen(text), at = below(len);
    while (at > 0 && text[at - 1] != '\n')
        at--;
    return (Line){text + at, strcspn(text + at, "\n") + (text[at] != 0)};
}

static char *splice(DtArena *arena, const char *text, const char *at, size_t len, const char *with,
                    size_t with_len)
{
    size_t before = (size_t)(at - text), behind = strlen(at + len);
    char *made = dt_arena_alloc(arena, before + with_len + behind + 1);
    memcpy(made, text, before);
    memcpy(made + before, with, with_len);
    memcpy(made + before + with_len, at + len, behind + 1);
    return made;
}

/* Replaces a word by another word of the same text, or a number by another number. */
static char *change_word(DtArena *arena, const char *text)
{
    static const char *const numbers[] = {"0", "1", "-1", "2", "3", "7", "64", "2147483648",
                                          "4294967295", "17", "1000000007", "65536", "16",
                                          "9223372036854775807"};
    static const char parts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    const size_t len = strlen(text);
    size_t at = below(len), from = below(len);
    at += strcspn(text + at, parts);
    from += strcspn(text + from, parts);
    const size_t n = strspn(text + at, parts), m = strspn(text + from, parts);
    if (n && text[at] >= '0' && text[at] <= '9' && below(2)) {
        const char *number = numbers[below(DT_COUNT(numbers))];
        return splice(arena, text, text + at, n, number, strlen(number));
    }
    return splice(arena, text, text + at, n, text + from, m);
}

static const char *damage(DtArena *arena, const char *text)
{
    const Line line = any_line(text), other = any_line(text);
    switch (below(8)) {
    case 0: return splice(arena, text, line.at, line.len, "", 0);
    case 1: return splice(arena, text, line.at, 0, other.at, other.len);
    case 2: return splice(arena, text, line.at, line.len, other.at, other.len);
    case 3: {
        char byte = (char)(1 + below(255));
        size_t at = below(strlen(text));
        return splice(arena, text, text + at, text[at] != 0, &byte, 1);
    }
    default: return change_word(arena, text);
    }
}

static void damage_notes(const DtPlan *plan, uint8_t *notes)
{
    for (uint32_t i = below(3); i > 0 && plan->logical->notes_len; i--)
        notes[below(plan->logical->notes_len)] = (uint8_t)below(256);
}

/* Whether the verdict was that the certificate holds. */
static bool run(DtArena *arena, const DtPlan *plan, uint8_t *notes, const DtLogicalTexts *good)
{
    DtLogicalTexts texts = *good;
    const char **const all[] = {&texts.serial, &texts.placed, &texts.final, &texts.facts};
    DtCertCounts counts;
    DtText problem = {0};
    const uint32_t kind = below(5);
    memcpy(notes, plan->blob + plan->logical->notes, plan->logical->notes_len);
    DtPlan other = *plan;
    DtPlanLogical logical = *plan->logical;
    for (uint32_t i = 1 + below(3); kind < 4 && i > 0 && **all[kind]; i--)
        *all[kind] = damage(arena, *all[kind]);
    uint8_t *blob = NULL;
    if (kind == 4) {
        blob = malloc(plan->n_blob + 1);
        if (!blob)
            abort();
        damage_notes(plan, notes);
        memcpy(blob, plan->blob, plan->n_blob);
        memcpy(blob + logical.notes, notes, logical.notes_len);
        other.blob = blob;
    }
    DtText differs = {0};
    if (kind == 0)
        dt_cert_same(arena, good->serial, texts.serial, &differs);
    dt_text_free(&differs);
    bool holds = kind > 2 || dt_certfile_programs(arena, &texts, &counts, &problem);
    holds = holds && dt_certfile_plan(arena, &other, &texts, &problem);
    free(blob);
    dt_text_free(&problem);
    return holds;
}

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    DtPlan plans[PLANS];
    DtLogicalTexts texts[PLANS];
    uint8_t *notes[PLANS];
    uint32_t n = 0, held = 0;
    DtText problem = {0};
    if (argc < 4 || argc > 3 + PLANS)
        return 2;
    for (; n + 3 < (uint32_t)argc; n++) {
        char *file;
        size_t len;
        DtStatus status = dt_file_read(arena, argv[n + 3], MAX, &file, &len);
        if (dt_status_ok(&status))
            status = dt_read_bytes((const uint8_t *)file, len, &plans[n]);
        if (!dt_status_ok(&status) || !dt_certfile_open(arena, &plans[n], &texts[n], &problem)) {
            fprintf(stderr, "fuzz_verify: %s: %s\n", argv[n + 3], status.message);
            return 1;
        }
        notes[n] = dt_arena_alloc(arena, plans[n].logical->notes_len + 1);
    }
    const uint64_t runs = strtoull(argv[1], NULL, 10), seed = strtoull(argv[2], NULL, 10);
    for (uint64_t i = 0; i < runs; i++) {
        DtArena *scratch = dt_arena_new();
        state = (seed << 32) + i * 2654435761u;
        uint32_t p = below(n);
        if (getenv("DT_FUZZ_SHOW"))
            fprintf(stderr, "run %llu\n", (unsigned long long)i);
        held += run(scratch, &plans[p], notes[p], &texts[p]);
        dt_arena_free(scratch);
    }
    printf("%llu runs, %u hold\n", (unsigned long long)runs, held);
    dt_arena_free(arena);
    return held > 0 ? 0 : 1; /* except spans: their text may differ */
}
