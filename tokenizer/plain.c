/* SPDX-License-Identifier: Apache-2.0 */
/* The plain reference: one document in memory, on one thread. Patterns are matched by PCRE2's
 * interpreter in UTF-8, models have no tables of pieces and look everything up, and nothing is
 * cut. */
#include "tokenizer/internal.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Plain {
    const DtTokenizer *t;
    DtRegex *regexes[DT_MAX_SPLITS];
    DtRegexRun *runs[DT_MAX_SPLITS];
    DtIds *ids;
    bool fresh; /* no text was encoded, and no added token met */
    DtStatus status;
} Plain;

static void add(Plain *p, const uint32_t *ids, size_t n)
{
    dt_ids_room(p->ids, n);
    if (n > 0)
        memcpy(p->ids->at + p->ids->n, ids, n * sizeof *ids);
    p->ids->n += n;
}

static void encode_piece(Plain *p, uint32_t step, const uint8_t *text, size_t len);

static void split_piece(Plain *p, uint32_t step, const uint8_t *text, size_t len)
{
    size_t at = 0, first, end;
    while (at < len && dt_status_ok(&p->status)) {
        const DtRegexResult found = dt_regex_find(p->runs[step], text, len, at, true, &first, &end);
        if (found == DT_REGEX_LIMITED)
            p->status = dt_status_fail(DT_EXIT_IO, "the patterns take more steps or memory than "
                                                   "they may");
        if (found != DT_REGEX_FOUND)
            break;
        if (!p->t->splits[step].drops_rest)
            encode_piece(p, step + 1, text + at, first - at);
        encode_piece(p, step + 1, text + first, end - first);
        at = end;
    }
    if (dt_status_ok(&p->status) && !p->t->splits[step].drops_rest)
        encode_piece(p, step + 1, text + at, len - at);
}

static void do_step(Plain *p, uint32_t step, const uint8_t *text, size_t len)
{
    if (p->runs[step])
        split_piece(p, step, text, len);
    else
        encode_piece(p, step + 1, text, len); /* also where the fast path cuts */
}

/* A copy of a piece with text in front of it. */
static DtNormText fronted(DtTokenBytes front, const uint8_t *text, size_t len)
{
    DtNormText copy = {0};
    dt_normtext_add(&copy, front.at, front.len);
    dt_normtext_add(&copy, text, len);
    return copy;
}

static void encode_piece(Plain *p, uint32_t step, const uint8_t *text, size_t len)
{
    if (len == 0)
        return;
    if (step == p->t->n_splits) {
        dt_model_plain(&p->t->model, text, len, p->ids);
        return;
    }
    const DtTokenBytes front = p->t->splits[step].front;
    if (!front.at || dt_tokenizer_fronted(p->t, text, len)) {
        do_step(p, step, text, len);
        return;
    }
    DtNormText copy = fronted(front, text, len);
    do_step(p, step, copy.at, copy.n);
    free(copy.at);
}

/* Encodes normalised text without added tokens. */
static void encode_text(Plain *p, const uint8_t *text, size_t len)
{
    const bool fronts = p->t->front.at && (!p->t->front_first || p->fresh) &&
                        !dt_tokenizer_fronted(p->t, text, len);
    if (len == 0)
        return;
    p->fresh = false;
    DtNormText copy = fronted(p->t->front, text, fronts ? len : 0);
    if (fronts)
        encode_piece(p, 0, copy.at, copy.n);
    else
        encode_piece(p, 0, text, len);
    free(copy.at);
}

static void encode_between(Plain *p, const DtAdded *added, const uint8_t *text, size_t len);

static void encode_raw(Plain *p, const uint8_t *text, size_t len)
{
    DtNormText made = {0};
    DtNormRun *run = dt_norm_begin(&p->t->norms);
    run->plain = true;
    if (!dt_norm_push(run, text, len, true, &made))
        p->status = dt_status_fail(DT_EXIT_IO, "the normalizer reaches its limits");
    else
        encode_between(p, &p->t->normalized, made.at, made.n);
    dt_norm_end(run);
    free(made.at);
}

static void encode_part(Plain *p, const DtAdded *added, const uint8_t *text, size_t len)
{
    if (added == &p->t->verbatim)
        encode_raw(p, text, len);
    else
        encode_text(p, text, len);
}

/* Cuts the added tokens out of a text and encodes what is between them: first those that are found
 * before normalisation. */
static void encode_between(Plain *p, const DtAdded *added, const uint8_t *text, size_t len)
{
    size_t at = 0;
    DtAddedMatch match;
    while (dt_status_ok(&p->status) && dt_added_find(added, text, len, at, len, &match)) {
        if (match.token->lstrip)
            match.first = dt_added_space_before(added, text, at, match.first);
        if (match.token->rstrip)
            match.end = dt_added_space_after(added, text, match.end, len);
        encode_part(p, added, text + at, match.first - at);
        add(p, &match.token->id, 1);
        p->fresh = false;
        at = match.end;
    }
    if (at < len)
        encode_part(p, added, text + at, len - at);
}

static void compile(Plain *p)
{
    for (uint32_t i = 0; i < p->t->n_splits && dt_status_ok(&p->status); i++) {
        DtText text = {0};
        if (!p->t->splits[i].regex)
            continue;
        dt_pattern_for_utf8(&p->t->splits[i].pattern, &text);
        p->status = dt_regex_compile(text.at, text.len, true, p->t->splits[i].pattern.written,
                                     &p->regexes[i]);
        dt_text_free(&text);
        if (dt_status_ok(&p->status))
            p->runs[i] = dt_regex_begin(p->regexes[i]);
    }
}

DtStatus dt_plain_encode(const DtTokenizer *tokenizer, const uint8_t *text, size_t len,
                         DtIds *ret_ids)
{
    Plain p = {.t = tokenizer, .ids = ret_ids, .fresh = true, .status = DT_OK};
    bool cut;
    if (len == 0)
        return DT_OK;
    if (dt_utf8_valid(text, len, &cut) != len)
        return dt_status_fail(DT_EXIT_IO, "the text is not UTF-8");
    compile(&p);
    if (dt_status_ok(&p.status)) {
        add(&p, tokenizer->before, tokenizer->n_before);
        encode_between(&p, &tokenizer->verbatim, text, len);
        add(&p, tokenizer->back, tokenizer->n_back);
    }
    for (uint32_t i = 0; i < tokenizer->n_splits; i++) {
        dt_regex_end(p.runs[i]);
        dt_regex_free(p.regexes[i]);
    }
    return p.status;
}
