/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens that are found before normalisation go first, over the whole document; then those
 * that are found after it, in what is left. Both are looked for only where all of them would fit
 * into what has been read: the last bytes of a block wait for the next one. */
#include "tokenizer/fill.h"

#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ITEMS = 1 << 18, MOST_RAW = 64 << 20 };

static void make_room(uint8_t **bytes, size_t *cap, size_t wanted)
{
    if (wanted <= *cap)
        return;
    *cap = wanted + wanted / 2;
    *bytes = realloc(*bytes, *cap);
    if (!*bytes)
        dt_arena_exhausted(*cap);
}

void dt_fill_begin(DtFill *fill, const DtTokenizer *tokenizer, const DtTextSource *source,
                   DtFillAround around)
{
    *fill = (DtFill){.tokenizer = tokenizer, .source = source, .around = around};
    fill->norm = tokenizer->norms.n > 0 ? dt_norm_begin(&tokenizer->norms) : NULL;
}

void dt_fill_end(DtFill *fill)
{
    dt_norm_end(fill->norm);
    free(fill->made.at);
    free(fill->raw);
    free(fill->text);
    free(fill->items);
}

bool dt_fill_done(const DtFill *fill) { return !fill->inside && fill->document == fill->source->n; }

/* ---- items ---- */

static DtFillItem *add_item(DtFill *fill, DtFillKind kind)
{
    if (fill->n_items == fill->cap_items) {
        fill->cap_items = 2 * fill->cap_items + 64;
        fill->items = realloc(fill->items, fill->cap_items * sizeof *fill->items);
        if (!fill->items)
            dt_arena_exhausted(fill->cap_items * sizeof *fill->items);
    }
    DtFillItem *item = &fill->items[fill->n_items++];
    *item = (DtFillItem){.kind = kind, .document = fill->document};
    return item;
}

static void add_token(DtFill *fill, uint32_t token)
{
    add_item(fill, DT_FILL_TOKEN)->token = token;
    fill->fresh = fill->joined = fill->in_text = false;
}

/* Begins a text item, with what the tokenizer puts in front of it. */
static void begin_text(DtFill *fill, const uint8_t *text, size_t len)
{
    const DtTokenizer *t = fill->tokenizer;
    DtFillItem *item = add_item(fill, DT_FILL_TEXT);
    item->first = item->end = fill->n_text;
    item->from = fill->raw_at;
    if (!t->front.at || (t->front_first && !fill->fresh) || fill->joined ||
        dt_tokenizer_fronted(t, text, len))
        return;
    make_room(&fill->text, &fill->cap_text, fill->n_text + t->front.len);
    memcpy(fill->text + fill->n_text, t->front.at, t->front.len);
    fill->n_text += t->front.len;
}

/* Appends normalised text to the open one, or begins one. closes: it ends there. */
static void add_text(DtFill *fill, const uint8_t *text, size_t len, bool closes)
{
    if (len > 0) {
        if (!fill->open)
            begin_text(fill, text, len);
        make_room(&fill->text, &fill->cap_text, fill->n_text + len);
        memcpy(fill->text + fill->n_text, text, len);
        fill->n_text += len;
        fill->items[fill->n_items - 1].end = fill->n_text;
        fill->open = fill->in_text = true;
        fill->fresh = fill->joined = false;
    }
    if (closes && fill->open) {
        fill->items[fill->n_items - 1].closed = true;
        fill->open = false;
    }
}

/* ---- added tokens ---- */

/* The end of the places in text[first, end) where all added tokens, if one begins there, are seen
 * as a whole. closed: the text ends there. */
static size_t sure_end(const DtAdded *added, const uint8_t *text, size_t first, size_t end,
                       bool closed)
{
    if (closed || added->longest == 0)
        return end;
    size_t to = end - first + 1 > added->longest ? end + 1 - added->longest : first;
    while (to > first && to < end && (text[to] & 0xc0) == 0x80)
        to--;
    return to;
}

/* Finds a token that begins in text[first, to), which is known up to `end`, with the white space
 * that it takes. *ret_waits: only more text would tell how much it takes. */
static bool find_token(const DtAdded *added, const uint8_t *text, size_t first, size_t to,
                       size_t end, bool closed, DtAddedMatch *ret_match, bool *ret_waits)
{
    DtAddedMatch *match = ret_match;
    *ret_waits = false;
    if (!dt_added_find(added, text, end, first, to, match))
        return false;
    if (match->token->rstrip) {
        match->end = dt_added_space_after(added, text, match->end, end);
        *ret_waits = match->end == end && !closed;
    }
    if (match->token->lstrip)
        match->first = dt_added_space_before(added, text, first, match->first);
    return true;
}

/* Adds normalised text, in which tokens are looked for that are found after normalisation. Returns
 * how far it came; all of it, if it is closed. */
static size_t add_normalized(DtFill *fill, const uint8_t *text, size_t len, bool closed)
{
    const DtAdded *added = &fill->tokenizer->normalized;
    size_t first = 0;
    for (;;) {
        DtAddedMatch match;
        bool waits;
        size_t to = sure_end(added, text, first, len, closed);
        const bool found = find_token(added, text, first, to, len, closed, &match, &waits);
        if (!found || waits) {
            to = closed ? len : found ? match.first : to;
            if (!closed && added->lstrips) /* a later token may take the white space before it */
                to = dt_added_space_before(added, text, first, to);
            add_text(fill, text + first, to - first, closed);
            return to;
        }
        add_text(fill, text + first, match.first - first, true);
        add_token(fill, match.token->id);
        first = match.end;
    }
}

/* Adds raw[first, end), in which no token is that is found before normalisation. Returns how far it
 * came; all of it, if it is closed. */
static size_t add_between(DtFill *fill, size_t first, size_t end, bool closed)
{
    const DtAdded *verbatim = &fill->tokenizer->verbatim;
    if (!closed && verbatim->lstrips)
        end = dt_added_space_before(verbatim, fill->raw, first, end);
    if (!fill->norm)
        return first + add_normalized(fill, fill->raw + first, end - first, closed);
    fill->limited |= !dt_norm_push(fill->norm, fill->raw + first, end - first, closed, &fill->made);
    const size_t used = add_normalized(fill, fill->made.at, fill->made.n, closed);
    if (used > 0)
        memmove(fill->made.at, fill->made.at + used, fill->made.n - used);
    fill->made.n -= used;
    return end;
}

/* Turns what has been read into items, as far as it is decided. ends: the document does. */
static size_t add_raw(DtFill *fill, size_t end, bool ends)
{
    const DtAdded *added = &fill->tokenizer->verbatim;
    size_t first = 0;
    for (;;) {
        DtAddedMatch match;
        bool waits;
        const size_t to = sure_end(added, fill->raw, first, end, ends);
        const bool found = find_token(added, fill->raw, first, to, end, ends, &match, &waits);
        if (!found || waits)
            return add_between(fill, first, found ? match.first : to, ends);
        add_between(fill, first, match.first, true);
        add_token(fill, match.token->id);
        first = match.end;
    }
}

/* ---- documents ---- */

static DtStatus refuse_bytes(const DtFill *fill, size_t at)
{
    const char *name = fill->source->name(fill->source->context, fill->document);
    if (fill->around == DT_FILL_FRONT)
        return dt_status_fail(DT_EXIT_USAGE, "%s is not UTF-8: byte %zu is 0x%02x", name, at,
                              fill->raw[at]);
    return dt_status_fail(DT_EXIT_IO,
                          "%.120s is not UTF-8: byte %llu is 0x%02x. `iconv -f LATIN1 -t UTF-8 "
                          "%.100s` converts it if it is Latin-1, `iconv -f UTF-8 -t UTF-8 -c` "
                          "drops what is damaged",
                          name, (unsigned long long)(fill->raw_at + at), fill->raw[at], name);
}

static void end_document(DtFill *fill)
{
    for (uint32_t i = 0; i < fill->tokenizer->n_back && fill->around == DT_FILL_BOTH; i++)
        add_token(fill, fill->tokenizer->back[i]);
    add_item(fill, DT_FILL_END);
    fill->inside = false;
    fill->document++;
}

/* Begins the next document. An empty one ends at once and has no tokens, but for a prompt's. */
static void begin_document(DtFill *fill)
{
    fill->size = fill->source->bytes(fill->source->context, fill->document);
    fill->at = fill->raw_at = 0;
    fill->n_raw = 0;
    const bool has_front = fill->around == DT_FILL_FRONT ||
                           (fill->around == DT_FILL_BOTH && fill->size > 0);
    for (uint32_t i = 0; i < fill->tokenizer->n_before && has_front; i++)
        add_token(fill, fill->tokenizer->before[i]);
    fill->inside = fill->size > 0;
    const DtTextPlace place = fill->source->place
                                  ? fill->source->place(fill->source->context, fill->document)
                                  : DT_TEXT_BEGINS;
    fill->fresh = place == DT_TEXT_BEGINS;
    fill->joined = place == DT_TEXT_GOES_ON && fill->in_text;
    if (fill->joined && fill->norm)
        dt_norm_go_on(fill->norm);
    if (fill->inside)
        return;
    add_item(fill, DT_FILL_END);
    fill->document++;
}

static DtStatus read_block(DtFill *fill)
{
    const uint64_t left = fill->size - fill->at;
    const size_t block = dt_fill_block(fill->source), n = left < block ? (size_t)left : block;
    bool cut;
    make_room(&fill->raw, &fill->cap_raw, fill->n_raw + n + 1);
    DtStatus status = fill->source->read(fill->source->context, fill->document, fill->at, n,
                                         fill->raw + fill->n_raw);
    if (!dt_status_ok(&status))
        return status;
    fill->at += n;
    fill->n_read += n;
    fill->n_raw += n;
    const bool ends = fill->at == fill->size;
    const size_t valid = dt_utf8_valid(fill->raw, fill->n_raw, &cut);
    if (valid < fill->n_raw && (ends || !cut))
        return refuse_bytes(fill, valid);
    const size_t used = add_raw(fill, valid, ends);
    memmove(fill->raw, fill->raw + used, fill->n_raw - used);
    fill->n_raw -= used;
    fill->raw_at += used;
    if (fill->limited)
        return dt_status_fail(DT_EXIT_IO,
                              "%.150s: near byte %llu the normalizer of %.150s makes more than %d "
                              "MiB of a block, or its patterns take more steps than they may",
                              fill->source->name(fill->source->context, fill->document),
                              (unsigned long long)fill->raw_at, fill->tokenizer->name,
                              DT_NORM_MOST >> 20);
    if (ends)
        end_document(fill);
    else if (fill->n_raw > MOST_RAW || (fill->norm && dt_norm_held(fill->norm) > MOST_RAW))
        return dt_status_fail(
            DT_EXIT_IO, "%.200s: more than %d MiB of white space or marks in a row",
            fill->source->name(fill->source->context, fill->document), MOST_RAW >> 20);
    return DT_OK;
}

DtStatus dt_fill_more(DtFill *fill, size_t wanted)
{
    DtStatus status = DT_OK;
    bool read = false;
    while (dt_status_ok(&status) && !dt_fill_done(fill) &&
           (!read || (fill->n_text < wanted && fill->n_items < MOST_ITEMS))) {
        if (!fill->inside) {
            begin_document(fill);
            continue;
        }
        status = read_block(fill);
        read = true;
    }
    return status;
}

void dt_fill_keep(DtFill *fill, size_t at)
{
    if (!fill->open) {
        fill->n_text = fill->n_items = 0;
        return;
    }
    DtFillItem item = fill->items[fill->n_items - 1];
    item.from += at - item.first;
    item.first = 0;
    item.end = fill->n_text - at;
    memmove(fill->text, fill->text + at, item.end);
    fill->n_text = item.end;
    fill->items[0] = item;
    fill->n_items = 1;
}
