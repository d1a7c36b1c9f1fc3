/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `pre_tokenizer` of tokenizer.json: each kind of step is a row of a table, and becomes a
 * pattern, of which pieces are the matches, and what is between them unless it is dropped. */
#include "tokenizer/internal.h"

#include "tokenizer/utf8.h"

/* The pattern of GPT-2 (its encoder.py), which the step ByteLevel has of its own. */
static const char gpt2_pattern[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                   "|\\s+(?!\\S)|\\s+";

/* What becomes of matches (%), as a pattern around theirs. Merged ones: of several in a row only
 * that next to other text goes with it. */
static const struct {
    const char *name, *form, *inverted; /* inverted: matches are what the pattern does not match */
    bool drops_rest;
} behaviors[] = {
    {"Isolated", "%", "%", false},
    {"Contiguous", "(?:%)++", "(?:%)++", false},
    {"MergedWithPrevious", "(?:(?!%).)++(?:%)?+|%", "%(?:(?!%).)*+|(?:(?!%).)++", false},
    {"MergedWithNext", "%(?:(?!%).)*+|(?:(?!%).)++", "(?:(?!%).)++(?:%)?+|%", false},
    {"Removed", "(?:(?!%).)++", "%", true},
};

/* ---- adding steps ---- */

static DtStatus add(DtTokenizer *t, DtSplit split)
{
    DtStatus status = DT_OK;
    const DtTokenBytes space = t->model.space;
    if (t->over_bytes)
        status = dt_json_fail(t, "its pre_tokenizer has steps after ByteLevel, which is not "
                                 "supported");
    else if (t->n_splits == DT_MAX_SPLITS)
        status = dt_json_fail(t, "its pre_tokenizer has more than %d steps", DT_MAX_SPLITS);
    if (!dt_status_ok(&status))
        return status;
    if (t->n_splits == 0 &&
        split.front.at) { /* the beginning of the text is known before pieces are */
        t->front = split.front;
        split.front.at = NULL;
    }
    if (!split.pattern.written && !split.front.at)
        return DT_OK;
    if (split.pattern.written) {
        if (space.at)
            dt_pattern_same(t->memory, ' ', dt_utf8_point(space.at), &split.pattern);
        status = dt_split_compile(t->memory, &split);
        if (!dt_status_ok(&status))
            return dt_json_fail(t, "%s", status.message);
    }
    t->splits[t->n_splits++] = split;
    return DT_OK;
}

/* Adds a step by a pattern of this program. */
static DtStatus add_own(DtTokenizer *t, const char *pattern, bool drops_rest, DtTokenBytes front)
{
    DtSplit split = {.drops_rest = drops_rest, .front = front};
    DtStatus status = dt_pattern_own(t->memory, pattern, &split.pattern);
    return dt_status_ok(&status) ? add(t, split) : dt_json_fail(t, "%s", status.message);
}

static const DtTokenBytes no_front = {NULL, 0};

/* Refuses a pattern that cannot be used by itself, as one that matches without taking anything. */
static DtStatus check_alone(DtTokenizer *t, const DtPattern *pattern)
{
    DtSplit split = {.pattern = *pattern};
    DtStatus status = dt_split_compile(t->memory, &split);
    dt_regex_free(split.regex);
    return status;
}

/* Adds a step by a pattern that was read, as its `behavior` says. */
static DtStatus add_behaving(DtTokenizer *t, const json_t *step, const char *usual,
                             DtPattern *pattern)
{
    const json_t *behavior = json_object_get(step, "behavior");
    const char *name = behavior ? json_string_value(behavior) : usual;
    const bool inverts = json_is_true(json_object_get(step, "invert"));
    for (size_t i = 0; i < DT_COUNT(behaviors); i++) {
        if (!name || strcmp(behaviors[i].name, name) != 0)
            continue;
        const char *form = inverts ? behaviors[i].inverted : behaviors[i].form;
        const bool wraps = strcmp(form, "%") != 0;
        DtStatus status = wraps ? check_alone(t, pattern) : DT_OK;
        if (wraps && dt_status_ok(&status))
            status = dt_pattern_wrap(t->memory, form, pattern);
        if (!dt_status_ok(&status))
            return dt_json_fail(t, "%s", status.message);
        return add(t, (DtSplit){.pattern = *pattern, .drops_rest = behaviors[i].drops_rest});
    }
    return dt_json_fail(t, "a step %.40s has behavior %.40s, which is not supported",
                        dt_json_type(step), name ? name : "?");
}

/* ---- kinds ---- */

/* Whether the last step of normalisation leaves no such text, as those of Gemma do with spaces,
 * which a step then splits by. */
static bool is_never_there(const DtTokenizer *t, const DtTokenBytes *text)
{
    const DtNorm *last = t->norms.n > 0 ? &t->norms.at[t->norms.n - 1] : NULL;
    return last && last->kind == DT_NORM_MAP && last->from.at && text->at &&
           last->from.len == text->len && memcmp(last->from.at, text->at, text->len) == 0 &&
           !memmem(last->to.at, last->to.len, text->at, text->len);
}

static DtStatus read_split(DtTokenizer *t, const json_t *step)
{
    DtPattern pattern;
    DtTokenBytes text;
    DtStatus status = dt_json_pattern(t, step, &pattern, &text);
    if (!dt_status_ok(&status) ||
        (is_never_there(t, &text) && t->n_splits == 0 && !t->model.space.at &&
         !json_is_true(json_object_get(step, "invert"))))
        return status;
    return add_behaving(t, step, NULL, &pattern);
}

static DtStatus read_delimiter(DtTokenizer *t, const json_t *step)
{
    DtPattern pattern;
    const DtTokenBytes text = dt_json_text(t, step, "delimiter");
    if (!text.at)
        return dt_json_fail(t, "a step CharDelimiterSplit has no delimiter");
    DtStatus status = dt_pattern_literal(t->memory, (const char *)text.at, &pattern);
    return dt_status_ok(&status) ? add_behaving(t, step, "Removed", &pattern)
                                 : dt_json_fail(t, "%s", status.message);
}

static DtStatus read_digits(DtTokenizer *t, const json_t *step)
{
    const bool each = json_is_true(json_object_get(step, "individual_digits"));
    return add_own(t, each ? "\\p{Step_Number}" : "\\p{Step_Number}+", false, no_front);
}

static DtStatus read_punctuation(DtTokenizer *t, const json_t *step)
{
    DtPattern pattern;
    DtStatus status = dt_pattern_own(t->memory, "\\p{Step_Punctuation}", &pattern);
    return dt_status_ok(&status) ? add_behaving(t, step, "Isolated", &pattern)
                                 : dt_json_fail(t, "%s", status.message);
}

static DtStatus read_whitespace_split(DtTokenizer *t, const json_t *step)
{
    (void)step;
    return add_own(t, "\\S+", true, no_front);
}

static DtStatus read_whitespace(DtTokenizer *t, const json_t *step)
{
    (void)step;
    return add_own(t, "\\p{Step_Word}+|[^\\p{Step_Word}\\s]+", true, no_front);
}

static DtStatus read_bert(DtTokenizer *t, const json_t *step)
{
    (void)step;
    return add_own(t, "\\p{Step_Punctuation}|[^\\p{Step_Punctuation}\\s]+", true, no_front);
}

static DtStatus read_bytelevel(DtTokenizer *t, const json_t *step)
{
    const json_t *space = json_object_get(step, "add_prefix_space");
    const json_t *use = json_object_get(step, "use_regex");
    const bool fronts = json_is_true(space);
    if (!json_is_boolean(space))
        return dt_json_fail(t, "the step ByteLevel does not say whether add_prefix_space");
    if (t->over_bytes || t->model.space.at)
        return dt_json_fail(t, "its pre_tokenizer has ByteLevel after %s, which is not supported",
                            t->over_bytes ? "ByteLevel" : "Metaspace");
    const DtTokenBytes front = {fronts ? (const uint8_t *)" " : NULL, fronts};
    DtStatus status = !use || json_is_true(use) ? add_own(t, gpt2_pattern, false, front)
                                                : add(t, (DtSplit){.front = front});
    t->over_bytes = true;
    return status;
}

/* ---- Metaspace ---- */

/* Whether a text gets the mark in front: "always", "first", "never"; older files have a boolean. */
static DtStatus read_scheme(DtTokenizer *t, const json_t *step, bool *ret_fronts)
{
    const json_t *space = json_object_get(step, "add_prefix_space");
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    if (!scheme)
        scheme = space && !json_is_true(space) ? "never" : "always";
    *ret_fronts = strcmp(scheme, "never") != 0;
    if (strcmp(scheme, "first") == 0) {
        t->front_first = true;
        if (t->n_splits > 0 || t->norms.removes)
            return dt_json_fail(t,
                                "its Metaspace has prepend_scheme first after %s, which is not "
                                "supported",
                                t->n_splits > 0 ? "another step"
                                                : "a normalizer that removes text");
        return DT_OK;
    }
    if (*ret_fronts && strcmp(scheme, "always") != 0)
        return dt_json_fail(t, "its Metaspace has prepend_scheme %.40s, which is not known",
                            scheme);
    return DT_OK;
}

static DtStatus read_metaspace(DtTokenizer *t, const json_t *step)
{
    const DtTokenBytes mark = dt_json_text(t, step, "replacement");
    const json_t *splits = json_object_get(step, "split");
    bool fronts = false;
    if (!mark.at || mark.len == 0 || mark.len != dt_utf8_step(mark.at[0]))
        return dt_json_fail(t, "its Metaspace has no replacement of one character");
    if (t->model.space.at || t->over_bytes)
        return dt_json_fail(t, "its pre_tokenizer has Metaspace after %s, which is not supported",
                            t->over_bytes ? "ByteLevel" : "Metaspace");
    DtStatus status = read_scheme(t, step, &fronts);
    if (!dt_status_ok(&status))
        return status;
    const uint32_t point = dt_utf8_point(mark.at);
    const DtTokenBytes front = fronts ? mark : no_front;
    t->model.space = mark;
    if (json_is_false(splits))
        return add(t, (DtSplit){.front = front});
    return add_own(
        t, dt_arena_printf(t->memory, "[ \\x{%X}]?[^ \\x{%X}]+|[ \\x{%X}]", point, point, point),
        false, front);
}

/* ---- all ---- */

static const DtJsonStep steps[] = {{"Split", read_split},
                                   {"CharDelimiterSplit", read_delimiter},
                                   {"Digits", read_digits},
                                   {"Punctuation", read_punctuation},
                                   {"WhitespaceSplit", read_whitespace_split},
                                   {"Whitespace", read_whitespace},
                                   {"BertPreTokenizer", read_bert},
                                   {"Metaspace", read_metaspace},
                                   {"ByteLevel", read_bytelevel}};

DtStatus dt_jsonsplit_read(DtTokenizer *t, const json_t *file)
{
    return dt_json_steps(t, file, "pre_tokenizer", "pretokenizers", steps, DT_COUNT(steps));
}
