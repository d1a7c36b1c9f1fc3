/* SPDX-License-Identifier: Apache-2.0 */
/* Builds plan files. The bytes are a function of what the records say, not of the order in which
 * the compiler happened to intern strings and store blobs: before writing, both are laid out anew
 * in the order in which records (by section, then index) refer to them, and those that no record
 * refers to are dropped. So the text form, which shows strings and blobs where they are used, reads
 * back to the same bytes. */
#include "plan/write.h"

#include "base/file.h"
#include "base/hash.h"
#include "plan/fields.h"

#include <assert.h>
#include <string.h>

/* The builder with its table of strings: open addressing; the size is a power of two. 0: empty (the
 * empty string is never looked up); else the offset of the text. */
typedef struct Writer {
    DtPlanBuilder builder;
    uint32_t *slots, n_slots, n_used;
} Writer;

/* Doubles *ret_cap, and returns a copy of n bytes with that much room. */
static void *grow(DtArena *arena, const void *bytes, uint32_t n, uint32_t *ret_cap)
{
    *ret_cap = *ret_cap < 32 ? 64 : *ret_cap * 2;
    void *copy = dt_arena_alloc(arena, *ret_cap);
    if (n)
        memcpy(copy, bytes, n);
    return copy;
}

/* Makes room for more bytes at the end of a vector; the amount is checked against its 32-bit count.
 */
#define RESERVE(arena, vec, more)                                                         \
    do {                                                                                  \
        assert((uint64_t)(vec).n + (more) <= UINT32_MAX / 2);                             \
        if ((vec).cap - (vec).n < (more)) {                                               \
            (vec).cap = (vec).cap > (more) ? (vec).cap : (uint32_t)(more);                \
            (vec).at = grow((arena), (vec).at, (vec).n, &(vec).cap);                      \
        }                                                                                 \
    } while (0)

DtPlanBuilder *dt_write_new(DtArena *arena)
{
    Writer *writer = DT_NEW(arena, Writer);
    writer->builder.arena = arena;
    writer->n_slots = 256;
    writer->slots = DT_NEW_ARRAY(arena, uint32_t, writer->n_slots);
    DT_PUSH(arena, writer->builder.strings, '\0');
    return &writer->builder;
}

static void table_put(Writer *writer, uint32_t offset)
{
    const char *text = writer->builder.strings.at + offset;
    uint32_t at = (uint32_t)dt_hash_text(text, 0) & (writer->n_slots - 1);
    while (writer->slots[at] != 0)
        at = (at + 1) & (writer->n_slots - 1);
    writer->slots[at] = offset;
}

static void table_grow(Writer *writer)
{
    uint32_t n_old = writer->n_slots, *old = writer->slots;
    writer->n_slots *= 2;
    writer->slots = DT_NEW_ARRAY(writer->builder.arena, uint32_t, writer->n_slots);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i] != 0)
            table_put(writer, old[i]);
}

DtPlanStr dt_write_str(DtPlanBuilder *builder, const char *text)
{
    Writer *writer = (Writer *)builder;
    if (text == NULL || text[0] == '\0')
        return 0;
    uint32_t at = (uint32_t)dt_hash_text(text, 0) & (writer->n_slots - 1);
    for (; writer->slots[at] != 0; at = (at + 1) & (writer->n_slots - 1))
        if (strcmp(builder->strings.at + writer->slots[at], text) == 0)
            return writer->slots[at];
    size_t len = strlen(text) + 1;
    RESERVE(builder->arena, builder->strings, len);
    uint32_t offset = builder->strings.n;
    memcpy(builder->strings.at + offset, text, len);
    builder->strings.n += (uint32_t)len;
    writer->slots[at] = offset;
    if (++writer->n_used * 2 > writer->n_slots)
        table_grow(writer);
    return offset;
}

static uint64_t align_up(uint64_t offset)
{
    return (offset + DT_PLAN_ALIGN - 1) & ~(uint64_t)(DT_PLAN_ALIGN - 1);
}

uint64_t dt_write_blob(DtPlanBuilder *builder, const void *bytes, uint64_t len)
{
    if (len == 0)
        return 0;
    uint64_t offset = align_up(builder->blob.n), more = offset - builder->blob.n + len;
    RESERVE(builder->arena, builder->blob, more);
    memset(builder->blob.at + builder->blob.n, 0, offset - builder->blob.n);
    memcpy(builder->blob.at + offset, bytes, len);
    builder->blob.n += (uint32_t)more;
    return offset;
}

/* The builder's vector for section number index: all vectors have the layout of DT_VEC. */
static void section_of(const DtPlanBuilder *builder, int index, const void **ret_at,
                       uint32_t *ret_n)
{
    switch (index) {
#define DT_PLAN_FIELD(tag, field, type) \
    case DT_RECORD_##field:             \
        *ret_at = builder->field.at;    \
        *ret_n = builder->field.n;      \
        return;
        DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
    default: *ret_at = NULL; *ret_n = 0;
    }
}

/* Copies the string or blob that one field of one record refers to from the old builder to the new
 * one. */
static void renumber_field(const DtPlanBuilder *old, DtPlanBuilder *renewed,
                           const DtPlanField *field, uint8_t *record)
{
    uint64_t value = field->kind == DT_FIELD_STR || field->kind == DT_FIELD_BLOB
                         ? dt_fields_get(field, record, 0)
                         : 0;
    if (field->kind == DT_FIELD_STR) {
        assert(value < old->strings.n);
        dt_fields_set(field, record, 0, dt_write_str(renewed, old->strings.at + value));
    }
    if (field->kind == DT_FIELD_BLOB) {
        uint64_t len = dt_fields_get(field + 1, record, 0);
        assert(value <= old->blob.n && len <= old->blob.n - value);
        dt_fields_set(field, record, 0, dt_write_blob(renewed, old->blob.at + value, len));
    }
}

/* Copies the records of all sections, with strings and blobs laid out in the order of reference. */
static DtPlanBuilder *renumber(const DtPlanBuilder *old, uint8_t *ret_sections[DT_RECORDS])
{
    DtPlanBuilder *renewed = dt_write_new(old->arena);
    for (int s = 0; s < DT_RECORDS; s++) {
        const DtPlanRecord *record = &dt_fields_records[s];
        const void *at;
        uint32_t n;
        section_of(old, s, &at, &n);
        ret_sections[s] = DT_NEW_ARRAY(old->arena, uint8_t, (size_t)n * record->size);
        if (n > 0)
            memcpy(ret_sections[s], at, (size_t)n * record->size);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t f = 0; f < record->n_fields; f++)
                renumber_field(old, renewed, &record->fields[f],
                               ret_sections[s] + (size_t)i * record->size);
    }
    return renewed;
}

/* One section while it is written to the file. */
typedef struct Part {
    const char *tag;
    const void *bytes;
    uint32_t record_size, count;
} Part;

static uint32_t list_parts(const DtPlanBuilder *builder, DtPlanBuilder *renewed,
                           uint8_t *sections[DT_RECORDS], Part ret_parts[DT_RECORDS + 2])
{
    uint32_t n_parts = 0;
    for (int s = 0; s < DT_RECORDS; s++) {
        const void *at;
        uint32_t n;
        section_of(builder, s, &at, &n);
        if (n > 0)
            ret_parts[n_parts++] =
                (Part){dt_fields_records[s].tag, sections[s], dt_fields_records[s].size, n};
    }
    ret_parts[n_parts++] = (Part){"STRS", renewed->strings.at, 1, renewed->strings.n};
    if (renewed->blob.n > 0)
        ret_parts[n_parts++] = (Part){"BLOB", renewed->blob.at, 1, renewed->blob.n};
    return n_parts;
}

/* Whether a reader must know the section. It may skip those for the certificate, for reports and
 * for imports. */
static bool is_critical(const char *tag)
{
    static const char *const skipped[] = {"LOGI", "NOTE", "SAVE", "PEAK", "ATTN", "DEVC", "PRED",
                                          "NAMS", "FTEN", "HOLE", "PART", "RULE", "ADPT", "ORIG"};
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
        if (memcmp(tag, skipped[i], 4) == 0)
            return false;
    return true;
}

void dt_write_bytes(DtPlanBuilder *builder, uint8_t **ret_bytes, size_t *ret_len)
{
    uint8_t *sections[DT_RECORDS];
    Part parts[DT_RECORDS + 2];
    DtPlanBuilder *renewed = renumber(builder, sections);
    uint32_t n_parts = list_parts(builder, renewed, sections, parts);

    DtPlanSection table[DT_RECORDS + 2];
    uint64_t offset = align_up(sizeof(DtPlanHeader) + n_parts * sizeof(DtPlanSection));
    for (uint32_t p = 0; p < n_parts; p++) {
        uint64_t len = (uint64_t)parts[p].record_size * parts[p].count;
        table[p] = (DtPlanSection){.version = 1,
                                   .critical = is_critical(parts[p].tag),
                                   .record_size = parts[p].record_size,
                                   .count = parts[p].count,
                                   .offset = offset,
                                   .length = len,
                                   .checksum = dt_hash_bytes(parts[p].bytes, len, 0)};
        memcpy(table[p].tag, parts[p].tag, 4);
        offset = align_up(offset + len);
    }

    uint8_t *bytes = dt_arena_alloc(builder->arena, offset);
    memcpy(bytes + sizeof(DtPlanHeader), table, n_parts * sizeof(DtPlanSection));
    for (uint32_t p = 0; p < n_parts; p++)
        memcpy(bytes + table[p].offset, parts[p].bytes, table[p].length);
    DtPlanHeader header = {.magic = DT_PLAN_MAGIC,
                           .version = DT_PLAN_VERSION,
                           .n_sections = n_parts,
                           .length = offset};
    header.digest = dt_hash_bytes(bytes + sizeof header, offset - sizeof header, 0);
    memcpy(bytes, &header, sizeof header);
    *ret_bytes = bytes;
    *ret_len = offset;
}

DtStatus dt_write_file(DtPlanBuilder *builder, const char *path)
{
    uint8_t *bytes;
    size_t len;
    dt_write_bytes(builder, &bytes, &len);
    return dt_file_write(path, bytes, len);
}
