/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/internal.h"

#include "tokenizer/bytechars.h"

#include <stdlib.h>

struct DtDecoding {
    const DtTokenizer *t;
    DtNormRun *runs[DT_MAX_DECODERS];
    DtNormText token, room; /* the token in work, and what a step makes of it */
    bool begun;             /* a token was met */
    bool whole;             /* joined text is not stripped */
    bool spaced;            /* the last token had the suffix: the next one gets a space in front */
    uint32_t stripped;      /* at the beginning of joined text; start: no more is */
    DtNormText held;        /* the end of joined text that may be stripped */
};

DtDecoding *dt_decode_begin(const DtTokenizer *tokenizer)
{
    DtDecoding *d = calloc(1, sizeof *d);
    if (!d)
        dt_arena_exhausted(sizeof *d);
    d->t = tokenizer;
    for (uint32_t i = 0; i < tokenizer->decoders.n; i++)
        if (tokenizer->decoders.at[i].norms)
            d->runs[i] = dt_norm_begin(tokenizer->decoders.at[i].norms);
    return d;
}

void dt_decode_free(DtDecoding *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->t->decoders.n; i++)
        dt_norm_end(d->runs[i]);
    free(d->token.at);
    free(d->room.at);
    free(d->held.at);
    free(d);
}

/* ---- steps of tokens ---- */

static bool begins(const uint8_t *text, size_t len, const DtTokenBytes *with)
{
    return len >= with->len && memcmp(text, with->at, with->len) == 0;
}

/* How often a text stands at the beginning, or at the end, at most so often. */
static uint32_t count_ends(const uint8_t *text, size_t len, const DtTokenBytes *with, uint32_t most,
                           bool at_end)
{
    uint32_t n = 0;
    while (n < most && (n + 1) * (size_t)with->len <= len &&
           memcmp(at_end ? text + len - (n + 1) * (size_t)with->len : text + n * (size_t)with->len,
                  with->at, with->len) == 0)
        n++;
    return n;
}

static void decode_wordpiece(DtDecoding *d, const DtDecoder *step, DtNormRun *run)
{
    const DtNormText *token = &d->token;
    DtNormText spaced = {0};
    const bool goes_on = d->begun && begins(token->at, token->n, &step->text);
    const size_t first = goes_on ? step->text.len : 0;
    if (d->begun && !goes_on)
        dt_normtext_add(&spaced, (const uint8_t *)" ", 1);
    dt_normtext_add(&spaced, token->at + first, token->n - first);
    dt_norm_push(run, spaced.at, spaced.n, true, &d->room);
    free(spaced.at);
}

static void decode_metaspace(DtDecoding *d, const DtDecoder *step)
{
    const DtNormText *token = &d->token;
    for (size_t at = 0, n; at < token->n; at += n) {
        const bool is_mark = begins(token->at + at, token->n - at, &step->text);
        n = is_mark ? step->text.len : dt_utf8_step(token->at[at]);
        if (!is_mark)
            dt_normtext_add(&d->room, token->at + at, n);
        else if (d->begun || !step->drops_first)
            dt_normtext_add(&d->room, (const uint8_t *)" ", 1);
    }
}

static void decode_strip(DtDecoding *d, const DtDecoder *step)
{
    const uint8_t *text = d->token.at;
    size_t len = d->token.n, first;
    first = count_ends(text, len, &step->text, step->start, false) * (size_t)step->text.len;
    len -= first;
    len -= count_ends(text + first, len, &step->text, step->stop, true) * (size_t)step->text.len;
    dt_normtext_add(&d->room, text + first, len);
}

static void decode_suffix(DtDecoding *d, const DtDecoder *step)
{
    const DtNormText *token = &d->token;
    const size_t n = count_ends(token->at, token->n, &step->text, 1, true) * (size_t)step->text.len;
    if (d->spaced)
        dt_normtext_add(&d->room, (const uint8_t *)" ", 1);
    d->spaced = n > 0;
    dt_normtext_add(&d->room, token->at, token->n - n);
}

static void change_token(DtDecoding *d)
{
    const DtDecoders *all = &d->t->decoders;
    for (uint32_t i = 0; i < all->n; i++) {
        const DtDecoder *step = &all->at[i];
        d->room.n = 0;
        if (step->kind == DT_DECODE_WORDPIECE)
            decode_wordpiece(d, step, d->runs[i]);
        else if (step->kind == DT_DECODE_METASPACE)
            decode_metaspace(d, step);
        else if (step->kind == DT_DECODE_STRIP)
            decode_strip(d, step);
        else if (step->kind == DT_DECODE_SUFFIX)
            decode_suffix(d, step);
        else
            dt_norm_push(d->runs[i], d->token.at, d->token.n, true, &d->room);
        const DtNormText made = d->room;
        d->room = d->token;
        d->token = made;
    }
}

/* ---- joined text ---- */

static void drop_held(DtDecoding *d, size_t n)
{
    memmove(d->held.at, d->held.at + n, d->held.n - n);
    d->held.n -= n;
}

static void add_bytes(DtText *to, const uint8_t *bytes, size_t n)
{
    if (n > 0)
        dt_text_add_n(to, (const char *)bytes, n);
}

/* Adds joined text, but for what may be stripped from its end. */
static void add_joined(DtDecoding *d, const uint8_t *text, size_t len, DtText *to)
{
    const DtDecoder *strip = &d->t->decoders.strip;
    if (!d->t->decoders.strips || d->whole) {
        add_bytes(to, text, len);
        return;
    }
    dt_normtext_add(&d->held, text, len);
    while (d->stripped < strip->start && d->held.n >= strip->text.len) {
        const bool goes = begins(d->held.at, d->held.n, &strip->text);
        d->stripped = goes ? d->stripped + 1 : strip->start;
        drop_held(d, goes ? strip->text.len : 0);
    }
    if (d->stripped < strip->start)
        return;
    const size_t kept = count_ends(d->held.at, d->held.n, &strip->text, strip->stop, true) *
                        (size_t)strip->text.len;
    /* With less than the text itself at the end, it may be the beginning of it. */
    const size_t least = strip->stop > 0 ? kept + strip->text.len - 1 : 0;
    if (d->held.n <= least)
        return;
    const size_t n = d->held.n - least;
    add_bytes(to, d->held.at, n);
    drop_held(d, n);
}

/* The byte that a token of the form <0xHH> stands for, or -1. */
static int byte_of(const DtNormText *token)
{
    char digits[3] = {0}, *end;
    if (token->n != 6 || memcmp(token->at, "<0x", 3) != 0 || token->at[5] != '>')
        return -1;
    memcpy(digits, token->at + 3, 2);
    if (!strchr("0123456789abcdefABCDEF", digits[0]))
        return -1;
    const long value = strtol(digits, &end, 16);
    return *end ? -1 : (int)value;
}

bool dt_decode_add(DtDecoding *d, uint32_t id, DtText *to)
{
    const DtTokenizer *t = d->t;
    const DtDecoders *all = &t->decoders;
    DtTokenBytes bytes;
    if (id >= t->n_ids || !t->written[id].at)
        return false;
    d->token.n = 0;
    dt_normtext_add(&d->token, t->written[id].at, t->written[id].len);
    change_token(d);
    const bool over_bytes = all->over_bytes || (t->over_bytes && !all->joins && all->n == 0);
    if (!over_bytes && !all->joins && all->n == 0 && d->begun)
        dt_text_add(to, " ");
    d->begun = true;
    const int byte = all->falls_back ? byte_of(&d->token) : -1;
    const uint8_t one = (uint8_t)byte;
    if (byte >= 0) {
        add_joined(d, &one, 1, to);
        return true;
    }
    dt_normtext_add(&d->token, (const uint8_t *)"", 1); /* a NUL */
    DtArena *memory = over_bytes ? dt_arena_new() : NULL;
    if (over_bytes && dt_bytechars_read(memory, (const char *)d->token.at, &bytes))
        add_joined(d, bytes.at, bytes.len, to);
    else
        add_joined(d, d->token.at, d->token.n - 1, to);
    if (memory)
        dt_arena_free(memory);
    return true;
}

void dt_decode_end(DtDecoding *d, DtText *to)
{
    const DtDecoder *strip = &d->t->decoders.strip;
    const size_t n = count_ends(d->held.at, d->held.n, &strip->text,
                                d->t->decoders.strips ? strip->stop : 0, true) *
                     (size_t)strip->text.len;
    add_bytes(to, d->held.at, d->held.n - n);
    d->held.n = 0;
}

/* ---- all tokens ---- */

void dt_decode_all(DtTokenizer *t)
{
    DtText text = {0};
    DtDecoding *d = dt_decode_begin(t);
    d->whole = true;
    for (uint32_t id = 0; id < t->n_ids; id++) {
        text.len = 0;
        d->begun = true; /* the text of a token is that after others */
        d->spaced = false;
        if (t->decoders.n == 0 && !t->decoders.joins)
            d->begun = false;
        if (dt_decode_add(d, id, &text))
            t->tokens[id] = (DtTokenBytes){
                (const uint8_t *)dt_arena_strndup(t->memory, text.at ? text.at : "", text.len),
                (uint32_t)text.len};
    }
    dt_text_free(&text);
    dt_decode_free(d);
}
