/* SPDX-License-Identifier: Apache-2.0 */
/* Span corruption (Raffel et al., T5, 2020, 3.1.4), with the numbers of base/spans.h. A window is
 * cut into spans that stay and spans that are removed, in turn; the first one stays. Spans have at
 * least one token, and every such cut is equally likely: of the places between the tokens of a
 * kind, one less than there are spans are chosen (Knuth, TAOCP 2, 3.4.2, algorithm S), by word 0 of
 * the generator for removed tokens, by word 1 for those that stay.
 *
 *   window   the cat sat on the mat      source   the S0 on S1 end
 *   removed      ^^^^^^^    ^^^^^^^      labels   S0 cat sat S1 the mat end
 *                                        target   start S0 cat sat S1 the mat
 *
 * Target and labels are padded with the start token and -1; `valid` tells them apart. */
#include "runtime/data_sampler.h"

#include <stdio.h>
#include <string.h>

enum { SOURCE, TARGET, LABELS, VALID };

static bool is_token(int64_t id) { return id >= 0 && id <= INT32_MAX; }

static DtStatus open(DtData *data)
{
    const DtPlanReader *reader = data->reader;
    const int64_t source = data->inputs[SOURCE].row_elements,
                  target = data->inputs[TARGET].row_elements;
    DtSpanNumbers *n = &data->spans;
    if (data->inputs[LABELS].row_elements != target || data->inputs[VALID].row_elements != target)
        return dt_status_fail(DT_EXIT_FAILED,
                              "span_corruption fills `%.60s`, labels and valid alike",
                              dt_plan_str(data->plan, data->inputs[TARGET].name));
    if (!dt_spans_fit(source, reader->rate, reader->mean_span, n))
        return dt_status_fail(DT_EXIT_FAILED,
                              "no window of tokens leaves %lld if a part of %g is removed in spans "
                              "of %g",
                              (long long)source, reader->rate, reader->mean_span);
    if (n->target > target)
        return dt_status_fail(DT_EXIT_FAILED, "a target takes %lld tokens, and `%.60s` has %lld",
                              (long long)n->target,
                              dt_plan_str(data->plan, data->inputs[TARGET].name),
                              (long long)target);
    if (!is_token(reader->mask_id) || !is_token(reader->start_id) || !is_token(reader->end_id) ||
        reader->mask_id - n->spans + 1 < 0)
        return dt_status_fail(DT_EXIT_FAILED,
                              "span_corruption has %lld sentinels from token %lld down, the start "
                              "token %lld and the end token %lld",
                              (long long)n->spans, (long long)reader->mask_id,
                              (long long)reader->start_id, (long long)reader->end_id);
    data->row = n->tokens;
    data->marks = (DtMarks){reader->mask_id - n->spans + 1, reader->mask_id + 1};
    return DT_OK;
}

/* One kind of tokens on the way through the window. */
typedef struct Segments {
    int64_t places; /* between its tokens, that are left to be looked at */
    int64_t cuts;   /* that are still to be chosen of them */
    int64_t at;     /* number of the place */
    uint32_t word;
} Segments;

/* Whether a span ends with the present token of its kind, which is not the last one. */
static bool cuts_here(const DtData *data, int64_t sample, Segments *s)
{
    const DtPhilox r = dt_philox(data->draws, (uint64_t)s->at++, (uint32_t)sample,
                                 (uint32_t)((uint64_t)sample >> 32));
    const bool cut = dt_datasampler_below(r.word[s->word], s->places--) < s->cuts;
    s->cuts -= cut;
    return cut;
}

/* Takes the tokens of a span; returns the end of what was written. */
static int32_t *take_span(const DtData *data, int64_t sample, Segments *s, const int32_t **from,
                          int32_t *to)
{
    do
        *to++ = *(*from)++;
    while (s->places > 0 && !cuts_here(data, sample, s));
    return to;
}

static void make(const DtData *data, int64_t sample, const int32_t *window, char *const *rows)
{
    const DtPlanReader *reader = data->reader;
    const DtSpanNumbers *n = &data->spans;
    const int64_t room = data->inputs[TARGET].row_elements;
    int32_t *source = (int32_t *)(void *)rows[SOURCE], *target = (int32_t *)(void *)rows[TARGET],
            *labels = (int32_t *)(void *)rows[LABELS], *to = labels;
    Segments noise = {.places = n->noise - 1, .cuts = n->spans - 1, .word = 0},
             rest = {.places = n->tokens - n->noise - 1, .cuts = n->spans - 1, .word = 1};
    for (int64_t i = 0; i < n->spans; i++) {
        source = take_span(data, sample, &rest, &window, source);
        *source++ = *to++ = (int32_t)(reader->mask_id - i);
        to = take_span(data, sample, &noise, &window, to);
    }
    *source = *to = (int32_t)reader->end_id;
    for (int64_t i = 0; i < room; i++) {
        target[i] = i == 0 || i >= n->target ? (int32_t)reader->start_id : labels[i - 1];
        labels[i] = i < n->target ? labels[i] : -1;
        rows[VALID][i] = i < n->target;
    }
}

static bool word(const DtData *data, int32_t token, char ret_word[32])
{
    snprintf(ret_word, 32, "<sentinel %lld>", (long long)(data->marks.hi - 1 - token));
    return token >= data->marks.lo && token < data->marks.hi;
}

static void note(const DtData *data, DtText *ret_notes)
{
    const DtSpanNumbers *n = &data->spans;
    const int64_t room = data->inputs[TARGET].row_elements;
    if (room == n->target)
        return;
    dt_data_begin_note(data, ret_notes);
    dt_text_printf(ret_notes,
                   "a target takes %lld tokens; %lld of the %lld positions of `%s` are padding",
                   (long long)n->target, (long long)(room - n->target), (long long)room,
                   dt_plan_str(data->plan, data->inputs[TARGET].name));
}

const DtSampler dt_dataspans = {"span_corruption", 4, "iiib", open, make, word, note};
