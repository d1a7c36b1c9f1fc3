/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the plan reader: `fuzz_plan [runs] [seed] [plan file]`. Each run damages a valid plan in
 * one to eight places (bits, words, whole fields, the section table, the length), mostly with
 * checksums repaired, so that the checker sees it; plans it accepts are walked on real memory.
 * Every tenth run damages the text form instead. Meant for a build with sanitizers; a finding ends
 * the program and names seed and run. */
#include "../plan/plan_fixture.h"

#include "base/file.h"
#include "base/philox.h"
#include "plan/fields.h"
#include "plan/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Random {
    uint64_t key, next;
} Random;

/* Plans that are larger are accepted without walking over their memory. */
static int64_t walk_limit = 1 << 17;

static uint64_t draw(Random *random)
{
    DtPhilox r = dt_philox(random->key, random->next++, 0, 0);
    return (uint64_t)r.word[1] << 32 | r.word[0];
}

static uint64_t below(Random *random, uint64_t n) { return n ? draw(random) % n : 0; }

static uint64_t hostile_value(Random *random)
{
    uint64_t bit = (uint64_t)1 << below(random, 64);
    switch (below(random, 6)) {
    case 0: return below(random, 16);
    case 1: return (uint64_t)0 - below(random, 16);
    case 2: return bit;
    case 3: return bit - 1;
    case 4: return draw(random);
    default: return below(random, 1 << 14);
    }
}

/* Sets a field of a record. Each section is chosen with equal probability. */
static void damage_field(Random *random, const DtPlan *plan, const uint8_t *original,
                         uint8_t *bytes)
{
    const DtPlanRecord *record;
    do /* a plan need not have records in every section */
        record = &dt_fields_records[below(random, DT_RECORDS)];
    while (dt_fields_count(plan, record) == 0);
    uint64_t index = below(random, dt_fields_count(plan, record));
    const DtPlanField *field = &record->fields[below(random, record->n_fields)];
    size_t at =
        (size_t)((const uint8_t *)dt_fields_at(plan, record) - original) + index * record->size;
    uint32_t element = (uint32_t)below(random, field->count);
    uint64_t value = hostile_value(random), old = dt_fields_get(field, bytes + at, element);
    if (below(random, 3) == 0)
        value = old + below(random, 9) - 4;
    dt_fields_set(field, bytes + at, element, value);
}

static void damage_bytes(Random *random, const DtPlan *plan, const uint8_t *original,
                         uint8_t *bytes, size_t *len)
{
    for (uint64_t n = 1 + below(random, 8); n-- > 0;) {
        uint64_t word = hostile_value(random), at = below(random, *len);
        size_t width = (size_t)1 << below(random, 4);
        switch (below(random, 10)) {
        case 0: bytes[at] ^= (uint8_t)(1u << below(random, 8)); break;
        case 1: memcpy(bytes + at, &word, *len - at < width ? *len - at : width); break;
        case 2:
            at = below(random, sizeof(DtPlanHeader) + 23 * sizeof(DtPlanSection));
            memcpy(bytes + at, &word, width);
            break;
        default: damage_field(random, plan, original, bytes);
        }
    }
    if (below(random, 50) == 0)
        *len = below(random, *len);
}

static void run_bytes(Random *random, const DtPlan *plan, const uint8_t *original, size_t len,
                      uint64_t *accepted)
{
    uint8_t *bytes = NULL;
    DtPlan damaged;
    if (posix_memalign((void **)&bytes, 64, len) != 0)
        abort();
    memcpy(bytes, original, len);
    size_t left = len;
    damage_bytes(random, plan, original, bytes, &left);
    if (below(random, 20) != 0)
        fixture_repair(bytes, left);
    DtStatus status = dt_read_bytes(bytes, left, &damaged);
    if (dt_status_ok(&status)) {
        (*accepted)++;
        fixture_walk(&damaged, walk_limit);
    }
    free(bytes);
}

static void run_text(Random *random, DtArena *arena, const DtText *original, uint64_t *accepted)
{
    static const char digits[] = "0123456789-()=\", \n#.:|\\xaz";
    char *text = malloc(original->len);
    uint8_t *bytes;
    size_t len;
    DtPlan plan;
    memcpy(text, original->at, original->len);
    for (uint64_t n = 1 + below(random, 4); n-- > 0;)
        text[below(random, original->len)] =
            below(random, 4) ? digits[below(random, sizeof digits - 1)] : (char)draw(random);
    DtStatus status = dt_plantext_read(
        arena, text, below(random, 10) ? original->len : below(random, original->len), &bytes,
        &len);
    if (dt_status_ok(&status)) {
        (*accepted)++;
        status = dt_read_bytes(bytes, len, &plan);
        if (!dt_status_ok(&status))
            abort();
        fixture_walk(&plan, walk_limit);
    }
    free(text);
    dt_arena_reset(arena);
}

int main(int argc, char **argv)
{
    uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    DtArena *arena = dt_arena_new(), *scratch = dt_arena_new();
    DtPlan plan;
    DtText text = {0};
    uint8_t *bytes;
    size_t len;
    uint64_t accepted = 0, accepted_text = 0;
    DtStatus status = DT_OK;
    if (argc > 3) {
        status = dt_file_read(arena, argv[3], (size_t)1 << 30, (char **)&bytes, &len);
        walk_limit = 1 << 27;
    } else {
        dt_write_bytes(fixture_plan(arena), &bytes, &len);
    }
    if (dt_status_ok(&status))
        status = dt_read_bytes(bytes, len, &plan);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "the plan to start from is refused: %s\n", status.message);
        return 1;
    }
    dt_plantext_dump(&plan, &text);
    for (uint64_t run = 0; run < runs; run++) {
        Random random = {seed, run << 16};
        if (run % 10 == 9)
            run_text(&random, scratch, &text, &accepted_text);
        else
            run_bytes(&random, &plan, bytes, len, &accepted);
    }
    printf("%llu runs, %llu damaged files and %llu damaged texts accepted and walked\n",
           (unsigned long long)runs, (unsigned long long)accepted,
           (unsigned long long)accepted_text);
    dt_text_free(&text);
    dt_arena_free(arena);
    dt_arena_free(scratch);
    return accepted > 0 || runs < 1000
               ? 0
               : 1; /* no damaged plan was accepted, so perhaps no damage got past the digest */
}
