/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes documents in batches. A batch is filled block by block: each block of bytes is checked to
 * be UTF-8, added tokens are cut out of it, and what is left is normalised and appended to the text
 * of the batch (fill.c). The text is encoded in units by several threads (units.c), whose results
 * are joined here. What the end of a batch leaves undecided begins the next one. */
#include "tokenizer/fill.h"
#include "tokenizer/units.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS_OF_BLOCK = 8, MOST_PIECE = 64 << 20, LOOK = 4096 };

typedef struct Encoder {
    const DtTokenizer *tokenizer;
    const DtTextSource *source;
    const DtTokenSink *sink;
    DtFill fill;
    DtCrew *crew;
    DtUnit *units;
    size_t n_units, cap_units;
} Encoder;

/* ---- units ---- */

/* A place near `at` where a unit of text[..end) had better begin: after the end of a line, else
 * before a space, else at any code point. */
static size_t good_cut(const uint8_t *text, size_t at, size_t end, size_t look)
{
    const size_t most = end - at < look ? end : at + look;
    for (size_t i = at; i < most; i++)
        if (text[i - 1] == '\n' && text[i] > ' ')
            return i;
    for (size_t i = at; i < most; i++)
        if (text[i] == ' ' && text[i - 1] > ' ')
            return i;
    while (at < end && (text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static DtUnit *add_unit(Encoder *e)
{
    if (e->n_units == e->cap_units) {
        const size_t cap = 2 * e->cap_units + 16;
        DtUnit *units = realloc(e->units, cap * sizeof *units);
        if (!units)
            dt_arena_exhausted(cap * sizeof *units);
        memset(units + e->cap_units, 0, (cap - e->cap_units) * sizeof *units);
        e->units = units;
        e->cap_units = cap;
    }
    DtUnit *unit = &e->units[e->n_units++];
    if (!unit->marks)
        unit->marks = calloc(DT_UNIT_MARKS, sizeof *unit->marks);
    if (!unit->marks)
        dt_arena_exhausted(DT_UNIT_MARKS * sizeof *unit->marks);
    return unit;
}

static void add_units(Encoder *e, size_t number)
{
    const DtFillItem *item = &e->fill.items[number];
    const size_t of_block = dt_fill_block(e->source) / UNITS_OF_BLOCK + 1;
    const size_t unit_bytes = e->tokenizer->n_splits ? of_block : SIZE_MAX / 2; /* one piece */
    const size_t look = unit_bytes < LOOK ? unit_bytes : LOOK;
    for (size_t first = item->first, limit; first < item->end; first = limit) {
        limit = item->end - first > unit_bytes + unit_bytes / 2
                    ? good_cut(e->fill.text, first + unit_bytes, item->end, look)
                    : item->end;
        DtUnit *unit = add_unit(e);
        unit->first = first;
        unit->limit = limit;
        unit->visible = item->end;
        unit->closed = item->closed;
        unit->item = number;
    }
}

/* ---- joining ---- */

static DtStatus refuse_limited(const Encoder *e, const DtFillItem *item, size_t at)
{
    return dt_status_fail(DT_EXIT_IO,
                          "%.150s: near byte %llu the patterns of %.150s take more steps or memory "
                          "than they may",
                          e->source->name(e->source->context, item->document),
                          (unsigned long long)(item->from + (at - item->first)),
                          e->tokenizer->name);
}

/* The number of tokens at the beginning of a unit that are not those of the whole text, in which a
 * piece begins at `at`. Encodes the unit anew from there if none of its pieces began there. */
static size_t wrong_tokens(Encoder *e, DtUnit *unit, size_t at)
{
    uint32_t lo = 0, hi = unit->n_marks;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (unit->marks[middle].at < at)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo < unit->n_marks && unit->marks[lo].at == at)
        return unit->marks[lo].ids;
    unit->first = at;
    dt_units_run(e->crew, e->fill.text, unit, 1);
    return 0;
}

/* Hands on the tokens of an item, of which *next is the next unit. *ret_at: where the piece begins
 * that is not decided yet, or the item's end. */
static DtStatus take_item(Encoder *e, size_t number, size_t *next, size_t *ret_at)
{
    const DtFillItem *item = &e->fill.items[number];
    size_t at = item->first;
    bool undecided = false;
    for (; *next < e->n_units && e->units[*next].item == number; ++*next) {
        DtUnit *unit = &e->units[*next];
        if (undecided || at >= unit->limit)
            continue; /* a piece covers all of it */
        const size_t wrong = unit->first == at ? 0 : wrong_tokens(e, unit, at);
        if (unit->limited)
            return refuse_limited(e, item, unit->reached);
        DtStatus status =
            e->sink->take(e->sink->context, unit->ids.at + wrong, unit->ids.n - wrong);
        if (!dt_status_ok(&status))
            return status;
        at = unit->reached;
        undecided = unit->undecided;
    }
    *ret_at = at;
    return DT_OK;
}

static DtStatus take_batch(Encoder *e, size_t *ret_at)
{
    size_t next = 0;
    DtStatus status = DT_OK;
    *ret_at = e->fill.n_text;
    for (size_t i = 0; i < e->fill.n_items && dt_status_ok(&status); i++) {
        const DtFillItem *item = &e->fill.items[i];
        if (item->kind == DT_FILL_TOKEN)
            status = e->sink->take(e->sink->context, &item->token, 1);
        else if (item->kind == DT_FILL_END)
            status = e->sink->end(e->sink->context, item->document);
        else
            status = take_item(e, i, &next, ret_at);
    }
    return status;
}

/* ---- batches ---- */

static DtStatus encode_batch(Encoder *e, size_t wanted)
{
    size_t at;
    DtStatus status = dt_fill_more(&e->fill, wanted);
    if (!dt_status_ok(&status))
        return status;
    e->n_units = 0;
    for (size_t i = 0; i < e->fill.n_items; i++)
        if (e->fill.items[i].kind == DT_FILL_TEXT)
            add_units(e, i);
    dt_units_run(e->crew, e->fill.text, e->units, e->n_units);
    status = take_batch(e, &at);
    if (dt_status_ok(&status) && e->sink->progress)
        status = e->sink->progress(e->sink->context, e->fill.n_read);
    if (!dt_status_ok(&status))
        return status;
    if (e->fill.n_text - at > MOST_PIECE)
        return dt_status_fail(DT_EXIT_IO,
                              "%.200s: the patterns of %.150s leave more than %d MiB in one piece",
                              e->source->name(e->source->context, e->fill.document),
                              e->tokenizer->name, MOST_PIECE >> 20);
    dt_fill_keep(&e->fill, at);
    return DT_OK;
}

static DtStatus encode(const DtTokenizer *tokenizer, const DtTextSource *source, uint32_t threads,
                       DtFillAround around, const DtTokenSink *sink)
{
    Encoder e = {.tokenizer = tokenizer, .source = source, .sink = sink};
    DtStatus status = DT_OK;
    threads = threads > 0 ? threads : 1;
    dt_fill_begin(&e.fill, tokenizer, source, around);
    e.crew = dt_units_crew(tokenizer, threads);
    while (dt_status_ok(&status) && !dt_fill_done(&e.fill))
        status = encode_batch(&e, threads * dt_fill_block(source));
    dt_units_dismiss(e.crew);
    for (size_t i = 0; i < e.cap_units; i++) {
        free(e.units[i].ids.at);
        free(e.units[i].marks);
    }
    free(e.units);
    dt_fill_end(&e.fill);
    return status;
}

DtStatus dt_encode_documents(const DtTokenizer *tokenizer, const DtTextSource *source,
                             uint32_t threads, const DtTokenSink *sink)
{
    return encode(tokenizer, source, threads, DT_FILL_BOTH, sink);
}

DtStatus dt_encode_bare(const DtTokenizer *tokenizer, const DtTextSource *source, uint32_t threads,
                        const DtTokenSink *sink)
{
    return encode(tokenizer, source, threads, DT_FILL_BARE, sink);
}

/* ---- texts in memory ---- */

static uint64_t memory_bytes(void *context, uint32_t document)
{
    return ((const DtMemoryText *)context)[document].len;
}

static DtStatus memory_read(void *context, uint32_t document, uint64_t at, size_t n, uint8_t *to)
{
    memcpy(to, ((const DtMemoryText *)context)[document].at + at, n);
    return DT_OK;
}

static const char *memory_name(void *context, uint32_t document)
{
    return ((const DtMemoryText *)context)[document].name;
}

static DtStatus add_ids(void *context, const uint32_t *ids, size_t n)
{
    DtIds *to = context;
    dt_ids_room(to, n);
    if (n > 0)
        memcpy(to->at + to->n, ids, n * sizeof *ids);
    to->n += n;
    return DT_OK;
}

static DtStatus end_ids(void *context, uint32_t document)
{
    (void)context, (void)document;
    return DT_OK;
}

DtTextSource dt_encode_memory(DtMemoryText *texts, uint32_t n)
{
    return (DtTextSource){texts, n, memory_bytes, memory_read, memory_name, NULL, 0};
}

DtTokenSink dt_encode_ids(DtIds *ids) { return (DtTokenSink){ids, add_ids, end_ids, NULL}; }

DtStatus dt_encode_prompt(const DtTokenizer *tokenizer, const char *text, DtIds *ret_ids)
{
    DtMemoryText prompt = {(const uint8_t *)text, strlen(text), "the prompt"};
    const DtTextSource source = dt_encode_memory(&prompt, 1);
    const DtTokenSink sink = dt_encode_ids(ret_ids);
    return encode(tokenizer, &source, 1, DT_FILL_FRONT, &sink);
}
