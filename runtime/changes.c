/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/changes.h"

#include <stdlib.h>
#include <string.h>

/* Before the bytes of a record, which are padded to a multiple of 4. n 0: of the header. */
typedef struct Record {
    uint32_t first, n;
    uint16_t at, bytes; /* multiples of 4 */
} Record;

enum { WORD = 4, GAP = 8, MOST = 1 << 15 };

/* ---- lists ---- */

void dt_changes_free(DtChanges *c)
{
    free(c->at);
    *c = (DtChanges){0};
}

static void append(DtChanges *c, const void *bytes, size_t n)
{
    if (c->len + n > c->room) {
        const size_t room = 2 * (c->room + n);
        uint8_t *at = realloc(c->at, room);
        c->is_short = c->is_short || !at;
        if (!at)
            return;
        c->at = at;
        c->room = room;
    }
    if (n > 0)
        memcpy(c->at + c->len, bytes, n);
    c->len += n;
}

void dt_changes_add(DtChanges *c, const uint8_t *list, size_t len) { append(c, list, len); }

static void add_record(DtChanges *c, Record record, const void *bytes)
{
    append(c, &record, sizeof record);
    append(c, bytes, record.bytes);
}

/* Where the next word from `at` on differs, or n. */
static size_t next_change(const char *now, const char *before, size_t at, size_t n)
{
    while (at < n && memcmp(now + at, before + at, WORD) == 0)
        at += WORD;
    return at;
}

void dt_changes_find(DtChanges *c, uint32_t rank, const char *now, char *before, size_t bytes)
{
    for (size_t at = next_change(now, before, 0, bytes); at < bytes;) {
        size_t end = at + WORD, next = next_change(now, before, end, bytes);
        while (next < bytes && next - end <= GAP && next + WORD - at <= MOST) {
            end = next + WORD;
            next = next_change(now, before, end, bytes);
        }
        const bool is_header = rank == UINT32_MAX;
        add_record(c, (Record){is_header ? 0 : rank, !is_header, (uint16_t)at,
                               (uint16_t)(end - at)},
                   now + at);
        memcpy(before + at, now + at, end - at);
        at = next;
    }
}

/* ---- reading ---- */

/* Reads the record at `at`; its bytes follow. False: there is none, or it is cut short. */
static bool read_record(const uint8_t *list, size_t len, size_t at, Record *ret_record)
{
    if (len - at < sizeof *ret_record)
        return false;
    memcpy(ret_record, list + at, sizeof *ret_record);
    return ret_record->bytes > 0 && ret_record->bytes % WORD == 0 && ret_record->at % WORD == 0 &&
           len - at - sizeof *ret_record >= ret_record->bytes;
}

bool dt_changes_apply(const DtChangedMemory *memory, const uint8_t *list, size_t len)
{
    for (size_t at = 0; at < len;) {
        Record r;
        if (!read_record(list, len, at, &r))
            return false;
        const uint8_t *bytes = list + at + sizeof r;
        const size_t room = r.n == 0 ? memory->header_bytes : memory->slot_bytes,
                     end = (size_t)r.at + r.bytes;
        if (end > room || r.first > memory->n_ranks || r.n > memory->n_ranks - r.first)
            return false;
        if (r.n == 0)
            memcpy(memory->header + r.at, bytes, r.bytes);
        for (uint32_t i = 0; i < r.n; i++)
            memcpy(memory->slot(memory->context, r.first + i) + r.at, bytes, r.bytes);
        at += sizeof r + r.bytes;
    }
    return true;
}

uint64_t dt_changes_most(const DtChangedMemory *memory)
{
    /* a record at least for each WORD + GAP bytes that differ */
    return 2 * (memory->header_bytes + (uint64_t)memory->n_ranks * memory->slot_bytes) +
           (sizeof(Record) + WORD) * (uint64_t)memory->n_ranks + sizeof(Record);
}

/* ---- joining ---- */

typedef struct Entry {
    Record record;
    const uint8_t *bytes;
} Entry;

/* Records of the same place one after the other, by rank. */
static int compare(const void *a, const void *b)
{
    const Record *x = &((const Entry *)a)->record, *y = &((const Entry *)b)->record;
    if ((x->n == 0) != (y->n == 0))
        return x->n == 0 ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static bool is_next(const Entry *a, const Entry *b)
{
    const Record *x = &a->record, *y = &b->record;
    return x->n > 0 && y->n > 0 && x->at == y->at && x->bytes == y->bytes &&
           x->first + x->n == y->first && memcmp(a->bytes, b->bytes, x->bytes) == 0;
}

static size_t count(const DtChanges *c)
{
    Record r;
    size_t n = 0;
    for (size_t at = 0; at < c->len && read_record(c->at, c->len, at, &r); n++)
        at += sizeof r + r.bytes;
    return n;
}

void dt_changes_join(DtChanges *c)
{
    const size_t n = count(c);
    Entry *entries = n > 1 ? calloc(n, sizeof *entries) : NULL;
    DtChanges joined = {0};
    if (!entries)
        return;
    for (size_t i = 0, at = 0; i < n; i++) {
        read_record(c->at, c->len, at, &entries[i].record);
        entries[i].bytes = c->at + at + sizeof(Record);
        at += sizeof(Record) + entries[i].record.bytes;
    }
    qsort(entries, n, sizeof *entries, compare);
    for (size_t i = 0; i < n; i++) {
        Entry *first = &entries[i];
        while (i + 1 < n && is_next(first, &entries[i + 1]))
            first->record.n += entries[++i].record.n;
        add_record(&joined, first->record, first->bytes);
    }
    free(entries);
    joined.is_short = joined.is_short || c->is_short;
    free(c->at);
    *c = joined;
}
