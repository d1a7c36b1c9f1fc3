/* SPDX-License-Identifier: Apache-2.0 */
/* planmutants PLAN known LAYOUT FILE: the faults that FILE names for this layout, each drawn again
 * and given to the certificate. planmutants PLAN draw LAYOUT COUNT KINDS [FOLDER]: up to COUNT
 * faults of each of these kinds ("offset,reuse") that the reader takes, as lines of such a file;
 * with FOLDER their plans are written there, to be run.
 *
 * A fault is named by its kind and a checksum of what it changes. Most kinds count wherever they
 * are put: of each record that is other than before, which fields are, and what it belongs to (the
 * kind of the instruction, the kernel's name, which argument, strings), so it is found again as
 * long as the plan has such a thing. Of some kinds there are faults that do not count: there all
 * fields go in, those of the records beside it, strings as text, and the new values. What is drawn
 * for a layout and a kind depends on nothing else, and CANDIDATES are looked at. */
#include "planmutants.h"

#include "base/file.h"
#include "base/hash.h"
#include "plan/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 400, MAX = 1 << 22 };

/* ---- checksums ---- */

/* Returns the path without the folder: test programs may be in any folder. */
static const char *without_folder(const char *text)
{
    const char *slash = text[0] == '/' ? strrchr(text, '/') : NULL;
    return slash ? slash + 1 : text;
}

static uint64_t of_field(const DtPlanField *field, const uint8_t *at, uint64_t seed)
{
    for (uint32_t i = 0; i < field->count; i++) {
        const uint64_t value = dt_fields_get(field, at, i);
        DtPlanStr string = {0};
        if (field->kind == DT_FIELD_BLOB)
            continue; /* the offset of the record does not belong to its name */
        if (field->kind == DT_FIELD_STR) {
            memcpy(&string, at + field->offset + i * sizeof string, sizeof string);
            seed = dt_hash_text(without_folder(dt_plan_str(&plan, string)), seed);
        } else {
            seed = dt_hash_bytes(&value, sizeof value, seed);
        }
    }
    return seed;
}

static uint64_t of_record(const DtPlanRecord *record, const uint8_t *at, uint64_t seed)
{
    for (uint32_t f = 0; f < record->n_fields; f++)
        seed = of_field(&record->fields[f], at, seed);
    return seed;
}

/* Checksum of a record before the change, with its neighbours, and of the changed record. */
static uint64_t of_change(const DtPlanRecord *record, uint32_t i, const uint8_t *was,
                          const uint8_t *is)
{
    uint64_t sum = of_record(record, was, dt_hash_text(record->tag, 0));
    if (i > 0)
        sum = of_record(record, was - record->size, sum);
    if (i + 1 < dt_fields_count(&plan, record))
        sum = of_record(record, was + record->size, sum);
    for (uint32_t f = 0; f < record->n_fields; f++) {
        const DtPlanField *field = &record->fields[f];
        for (uint32_t k = 0; k < field->count && field->kind != DT_FIELD_BLOB; k++) {
            const uint64_t value = dt_fields_get(field, is, k);
            if (value != dt_fields_get(field, was, k))
                sum = dt_hash_bytes(&value, sizeof value, dt_hash_bytes(&f, sizeof f, sum));
        }
    }
    return sum;
}

/* Kinds of faults that do not always count. */
static const char *const loose[] = {"results", "drop", "entry", "stride", "coordinate", "slot",
                                    "swap", "actions", "channel", "ring", "event", "text",
                                    "message", "moved"};

static bool is_loose(const char *kind)
{
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++)
        if (strcmp(loose[i], kind) == 0)
            return true;
    return false;
}

static uint64_t of_inst(const DtPlanInst *inst, uint64_t seed)
{
    const uint64_t kind = inst->kind;
    seed = dt_hash_bytes(&kind, sizeof kind, seed);
    return inst->kind == DT_INST_KERNEL
               ? dt_hash_text(dt_plan_str(&plan, plan.kernels[inst->ref].name), seed)
               : seed;
}

/* Returns a checksum of what a record belongs to, and of which of its fields are changed. */
static uint64_t of_place(const DtPlanRecord *record, const uint8_t *was, const uint8_t *is)
{
    uint64_t sum = dt_hash_text(record->tag, 0);
    if (strcmp(record->tag, "INST") == 0)
        sum = of_inst((const DtPlanInst *)was, sum);
    for (uint32_t i = 0; strcmp(record->tag, "ARGS") == 0 && i < plan.n_insts; i++) {
        const uint64_t at =
            (uint64_t)((const DtPlanArg *)was - plan.args) - plan.insts[i].first_arg;
        if ((const DtPlanArg *)was < plan.args + plan.insts[i].first_arg ||
            at >= plan.insts[i].n_args)
            continue;
        sum = dt_hash_bytes(&at, sizeof at, of_inst(&plan.insts[i], sum));
        break;
    }
    for (uint32_t f = 0; f < record->n_fields; f++) {
        const DtPlanField *field = &record->fields[f];
        bool other = false;
        for (uint32_t k = 0; k < field->count && field->kind != DT_FIELD_BLOB; k++)
            other = other || dt_fields_get(field, is, k) != dt_fields_get(field, was, k);
        if (field->kind == DT_FIELD_STR)
            sum = of_field(field, was, sum);
        sum = other ? dt_hash_bytes(&f, sizeof f, sum) : sum;
    }
    return sum;
}

/* Returns the checksum of bytes that belong to no record, with the bytes around them. */
static uint64_t of_bytes(void)
{
    enum { AROUND = 8 };
    const size_t first = (size_t)(plan.blob - bytes);
    uint64_t sum = 0;
    for (size_t i = first; i < file_len; i++)
        if (bytes[i] != copy[i]) {
            const size_t from = i < first + AROUND ? first : i - AROUND,
                         to = i + AROUND < file_len ? i + AROUND : file_len;
            sum += dt_hash_bytes(bytes + from, to - from, copy[i]);
        }
    return sum;
}

static uint32_t checksum(const char *kind)
{
    const bool exact = is_loose(kind);
    uint64_t sum = exact ? of_bytes() : 0;
    for (uint32_t k = 0; k < DT_RECORDS; k++) {
        const DtPlanRecord *record = &dt_fields_records[k];
        const uint8_t *at = dt_fields_at(&plan, record);
        for (uint32_t i = 0; i < dt_fields_count(&plan, record); i++) {
            const uint8_t *was = at + (size_t)i * record->size, *is = copy + (was - bytes);
            if (memcmp(was, is, record->size) != 0) /* in any order */
                sum += exact ? of_change(record, i, was, is) : of_place(record, was, is);
        }
    }
    return (uint32_t)(sum ^ sum >> 32);
}

/* Makes candidate number i of the kind in the copy; false: there is none. */
static bool draw(const char *layout, size_t kind, uint32_t i, uint32_t *ret_checksum)
{
    begin_copy();
    state = dt_hash_text(kinds[kind].name, dt_hash_text(layout, i));
    if (!kinds[kind].make() || memcmp(copy, bytes, file_len) == 0)
        return false;
    *ret_checksum = checksum(kinds[kind].name);
    return true;
}

/* ---- rows ---- */

typedef struct Known {
    uint32_t *at, n;
} Known;

/* Returns the rows of the layout and the kind. */
static Known read_rows(DtArena *arena, const char *text, const char *layout, const char *kind)
{
    const char *prefix = dt_arena_printf(arena, "%s, %s, ", layout, kind);
    const size_t n = strlen(prefix);
    Known known = {.at = DT_NEW_ARRAY(arena, uint32_t, strlen(text) / 8 + 1)};
    for (const char *line = text; *line;
         line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != 0))
        if (strncmp(line, prefix, n) == 0)
            known.at[known.n++] = (uint32_t)strtoul(line + n, NULL, 16);
    return known;
}

/* Removes the fault from the rows. */
static bool take(Known *known, uint32_t sum)
{
    for (uint32_t i = 0; i < known->n; i++)
        if (known->at[i] == sum) {
            known->at[i] = known->at[--known->n];
            return true;
        }
    return false;
}

static int try_known(DtArena *arena, const char *layout, const char *path)
{
    char *text;
    size_t len;
    const DtStatus status = dt_file_read(arena, path, MAX, &text, &len);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "planmutants: %s\n", status.message);
        return 1;
    }
    for (size_t k = 0; k < n_kinds; k++) {
        Known known = read_rows(arena, text, layout, kinds[k].name);
        uint32_t sum, rejected = 0, accepted = 0;
        bool read;
        for (uint32_t i = 0; known.n && i < CANDIDATES; i++) {
            if (!draw(layout, k, i, &sum) || !take(&known, sum))
                continue;
            const bool bad = rejects(&read);
            rejected += bad || !read; /* the plan's reader now refuses it */
            accepted += read && !bad;
            if (read && !bad)
                printf("accepted: %s, %s, %08" PRIx32 "\n", layout, kinds[k].name, sum);
        }
        for (uint32_t i = 0; i < known.n; i++)
            printf("gone: %s, %s, %08" PRIx32 "\n", layout, kinds[k].name, known.at[i]);
        printf("%s rejected %u accepted %u gone %u\n", kinds[k].name, rejected, accepted, known.n);
    }
    return 0;
}

static bool is_wanted(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

static int list_drawn(const char *layout, uint32_t count, const char *wanted, const char *folder)
{
    for (size_t k = 0; k < n_kinds; k++)
        for (uint32_t i = 0, n = 0; is_wanted(wanted, kinds[k].name) && i < CANDIDATES && n < count;
             i++) {
            uint32_t sum;
            bool read;
            char path[4096];
            if (!draw(layout, k, i, &sum))
                continue;
            const bool bad = rejects(&read); /* also repairs what a reader checks first */
            if (!read)
                continue;
            printf("%s, %s, %08" PRIx32 "%s\n", layout, kinds[k].name, sum, bad ? "" : " accepted");
            n++;
            snprintf(path, sizeof path, "%s/%s-%08" PRIx32 ".plan", folder ? folder : "",
                     kinds[k].name, sum);
            if (folder)
                (void)dt_file_write(path, copy, copy_len);
        }
    return 0;
}

int mutants_known(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    const bool draws = argc > 5 && strcmp(argv[2], "draw") == 0;
    const int code = draws ? list_drawn(argv[3], (uint32_t)strtoul(argv[4], NULL, 10), argv[5],
                                        argc > 6 ? argv[6] : NULL)
                           : try_known(arena, argv[3], argv[4]);
    dt_arena_free(arena);
    return code;
}
