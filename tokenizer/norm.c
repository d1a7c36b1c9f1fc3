/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/norm.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

uint8_t *dt_normtext_room(DtNormText *text, size_t n)
{
    if (text->cap - text->n >= n)
        return text->at + text->n;
    if (n > DT_NORM_MOST - (text->n < DT_NORM_MOST ? text->n : DT_NORM_MOST)) {
        text->full = true;
        return NULL;
    }
    text->cap = text->n + n + (text->n + n) / 2 + 64;
    text->at = realloc(text->at, text->cap);
    if (!text->at)
        dt_arena_exhausted(text->cap);
    return text->at + text->n;
}

void dt_normtext_add(DtNormText *text, const uint8_t *bytes, size_t n)
{
    uint8_t *to = n > 0 ? dt_normtext_room(text, n) : NULL;
    if (!to)
        return;
    memcpy(to, bytes, n);
    text->n += n;
}

/* ---- steps ---- */

/* A step's part of a run. */
typedef struct Step {
    const DtNorm *norm;
    DtNormRun *run;
    bool *begun;
    DtRegexRun *regex;
    DtNumbers *numbers;
    DtNormText *to;
} Step;

/* Each handles a part of text[0, len), appends what it becomes, and returns how much it was. */
typedef size_t Handle(Step *step, const uint8_t *text, size_t len, bool ends);

static size_t map_points(Step *step, const uint8_t *text, size_t len, bool ends)
{
    const DtPoints *points = &step->norm->map->points;
    size_t same = 0; /* from here on nothing was changed */
    (void)ends;
    for (size_t at = 0; at < len; at += dt_utf8_step(text[at])) {
        const uint32_t found = dt_points_at(points, dt_utf8_point(text + at));
        if (!found)
            continue;
        const DtTokenBytes to = step->norm->map->texts.at[found - 1];
        dt_normtext_add(step->to, text + same, at - same);
        dt_normtext_add(step->to, to.at, to.len);
        same = at + dt_utf8_step(text[at]);
    }
    dt_normtext_add(step->to, text + same, len - same);
    return len;
}

static size_t write_form(Step *step, const uint8_t *text, size_t len, bool ends)
{
    const DtForm form = step->norm->form;
    const size_t growth = form == DT_NFC || form == DT_NFD ? DT_FORM_GROWTH : DT_FORM_GROWTH_K;
    len = ends ? len : dt_forms_cut(form, text, len);
    if (!step->run->plain && dt_forms_is(form, text, len)) {
        dt_normtext_add(step->to, text, len);
        return len;
    }
    uint8_t *to = dt_normtext_room(step->to, growth * len);
    if (to)
        step->to->n += step->run->plain ? dt_forms_plain(form, text, len, to)
                                        : dt_forms_write(form, text, len, to);
    return len;
}

static size_t replace_text(Step *step, const uint8_t *text, size_t len, bool ends)
{
    const DtTokenBytes from = step->norm->from, to = step->norm->to;
    size_t at = 0;
    for (const uint8_t *found; (found = memmem(text + at, len - at, from.at, from.len)) != NULL;) {
        dt_normtext_add(step->to, text + at, (size_t)(found - text) - at);
        dt_normtext_add(step->to, to.at, to.len);
        at = (size_t)(found - text) + from.len;
    }
    size_t end = len; /* a match may begin in the last bytes */
    if (!ends)
        end = len - at < from.len ? at : len - from.len + 1;
    while (end > at && end < len && (text[end] & 0xc0) == 0x80)
        end--;
    dt_normtext_add(step->to, text + at, end - at);
    return end;
}

static size_t replace_pattern(Step *step, const uint8_t *text, size_t len, bool ends)
{
    const DtNorm *norm = step->norm;
    DtNumbers *numbers = step->numbers;
    size_t at = 0, number = 0, from = 0, to = 0;
    dt_split_numbers(&norm->split.alphabet, text, 0, len, numbers);
    while (number < numbers->n) {
        const DtRegexResult found =
            dt_regex_find(step->regex, numbers->at, numbers->n, number, ends, &from, &to);
        step->run->limited |= found == DT_REGEX_LIMITED;
        if (found == DT_REGEX_MORE || found == DT_REGEX_LIMITED)
            return at;
        if (found == DT_REGEX_NONE)
            break;
        const size_t first = dt_split_advance(numbers, text, at, from - number);
        dt_normtext_add(step->to, text + at, first - at);
        dt_normtext_add(step->to, norm->to.at, norm->to.len);
        at = dt_split_advance(numbers, text, first, to - from);
        number = to;
    }
    dt_normtext_add(step->to, text + at, len - at);
    return len;
}

static size_t strip(Step *step, const uint8_t *text, size_t len, bool ends)
{
    const DtNorm *norm = step->norm;
    size_t at = 0, end;
    while (norm->left && !*step->begun && at < len &&
           dt_charset_has(norm->spaces, dt_utf8_point(text + at)))
        at += dt_utf8_step(text[at]);
    *step->begun |= at < len;
    for (end = len; norm->right && end > at;) {
        size_t last = end - 1;
        while (last > at && (text[last] & 0xc0) == 0x80)
            last--;
        if (!dt_charset_has(norm->spaces, dt_utf8_point(text + last)))
            break;
        end = last;
    }
    dt_normtext_add(step->to, text + at, end - at);
    return ends ? len : end;
}

static size_t prepend(Step *step, const uint8_t *text, size_t len, bool ends)
{
    (void)ends;
    if (!*step->begun && len > 0)
        dt_normtext_add(step->to, step->norm->to.at, step->norm->to.len);
    *step->begun |= len > 0;
    dt_normtext_add(step->to, text, len);
    return len;
}

static void add_mapped(Step *step, DtTokenBytes to, const uint8_t *same, size_t n)
{
    dt_normtext_add(step->to, to.at ? to.at : same, to.at ? to.len : n);
}

static size_t map_graphemes(Step *step, const uint8_t *text, size_t len, bool ends)
{
    enum { LEAST_LONG = 6 };
    const DtPrecompiled *map = step->norm->precompiled;
    for (size_t at = 0, end; at < len; at = end) {
        /* No mark, and no line feed after a return, joins it. */
        if (text[at] < 0x80 && text[at] != '\r' && at + 1 < len && text[at + 1] < 0x80) {
            end = at + 1;
            add_mapped(step, map->ascii[text[at]], text + at, 1);
            continue;
        }
        end = dt_grapheme_end(map->graphemes, text, len, at);
        if (end == len && !ends)
            return at;
        const DtTokenBytes whole = end - at < LEAST_LONG
                                       ? dt_precompiled_find(map, text + at, end - at)
                                       : (DtTokenBytes){NULL, 0};
        if (whole.at) {
            dt_normtext_add(step->to, whole.at, whole.len);
            continue;
        }
        for (size_t each = at, n; each < end; each += n) {
            n = dt_utf8_step(text[each]);
            add_mapped(step, dt_precompiled_find(map, text + each, n), text + each, n);
        }
    }
    return len;
}

static Handle *const handles[] = {
    [DT_NORM_MAP] = map_points,
    [DT_NORM_FORM] = write_form,
    [DT_NORM_REPLACE_TEXT] = replace_text,
    [DT_NORM_REPLACE] = replace_pattern,
    [DT_NORM_STRIP] = strip,
    [DT_NORM_PREPEND] = prepend,
    [DT_NORM_PRECOMPILED] = map_graphemes,
};

/* ---- runs ---- */

DtNormRun *dt_norm_begin(const DtNorms *norms)
{
    DtNormRun *run = calloc(1, sizeof *run);
    if (!run)
        dt_arena_exhausted(sizeof *run);
    run->norms = norms;
    for (uint32_t i = 0; i < norms->n; i++)
        if (norms->at[i].split.regex)
            run->steps[i].regex = dt_regex_begin(norms->at[i].split.regex);
    return run;
}

void dt_norm_end(DtNormRun *run)
{
    if (!run)
        return;
    for (uint32_t i = 0; i < run->norms->n; i++) {
        free(run->steps[i].held.at);
        free(run->steps[i].numbers.at);
        dt_regex_end(run->steps[i].regex);
    }
    free(run->rooms[0].at);
    free(run->rooms[1].at);
    free(run);
}

/* Hands text to a step; *ret_to: where it has written. */
static void run_step(DtNormRun *run, uint32_t i, const uint8_t *text, size_t len, bool ends,
                     DtNormText *to)
{
    DtNormText *held = &run->steps[i].held;
    Step step = {&run->norms->at[i],     run, &run->steps[i].begun, run->steps[i].regex,
                 &run->steps[i].numbers, to};
    const bool holds = held->n > 0;
    if (holds) {
        dt_normtext_add(held, text, len);
        text = held->at;
        len = held->n;
    }
    const size_t used = len > 0 ? handles[step.norm->kind](&step, text, len, ends) : 0;
    if (holds)
        memmove(held->at, held->at + used, len - used);
    else
        dt_normtext_add(held, text + used, len - used);
    held->n = len - used;
    if (ends) {
        run->steps[i].begun = false;
        held->n = 0;
    }
}

bool dt_norm_push(DtNormRun *run, const uint8_t *text, size_t len, bool ends, DtNormText *to)
{
    const uint32_t n = run->norms->n;
    for (uint32_t i = 0; i < n; i++) {
        DtNormText *room = i + 1 < n ? &run->rooms[i % 2] : to;
        if (i + 1 < n)
            room->n = 0;
        run_step(run, i, text, len, ends, room);
        if (room->full || run->steps[i].held.full || run->limited)
            return false;
        text = room->at;
        len = room->n;
    }
    if (n == 0)
        dt_normtext_add(to, text, len);
    return !to->full;
}

void dt_norm_go_on(DtNormRun *run)
{
    for (uint32_t i = 0; i < run->norms->n; i++)
        run->steps[i].begun = true;
}

size_t dt_norm_held(const DtNormRun *run)
{
    size_t n = 0;
    for (uint32_t i = 0; i < run->norms->n; i++)
        n += run->steps[i].held.n;
    return n;
}
