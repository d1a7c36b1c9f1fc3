/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `normalizer` of tokenizer.json: each kind of step is a row of a table, and becomes one or
 * some steps of norm.h. */
#include "tokenizer/internal.h"

#include "tokenizer/utf8.h"

/* Adds a step; fails if there are too many. */
static DtStatus add(DtTokenizer *t, DtNorm norm)
{
    if (t->norms.n == DT_MAX_NORMS)
        return dt_json_fail(t, "its normalizer has more than %d steps", DT_MAX_NORMS);
    t->norms.at[t->norms.n++] = norm;
    return DT_OK;
}

/* Adds a map in which the members of a set become a text; and those of another one another text. */
static DtStatus add_sets(DtTokenizer *t, const char *set, const char *to, const char *other,
                         const char *other_to)
{
    DtCharmap *map = DT_NEW(t->memory, DtCharmap);
    const char *const names[] = {other, set}, *const texts[] = {other_to, to};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        DtCharset members = {0};
        if (!names[i])
            continue;
        if (!dt_charset_own(t->memory, names[i], strlen(names[i]), &members))
            dt_charset_named(t->memory, names[i], strlen(names[i]), &members);
        dt_points_fill(t->memory, &map->points, &members,
                       dt_charmap_text(t->memory, map, texts[i], strlen(texts[i])));
    }
    t->norms.removes |= !*to;
    return add(t, (DtNorm){.kind = DT_NORM_MAP, .map = map});
}

static DtStatus read_form(DtTokenizer *t, const json_t *step)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    DtForm form = DT_NFC;
    while (form < DT_NFKD && strcmp(names[form], dt_json_type(step)) != 0)
        form++;
    return add(t, (DtNorm){.kind = DT_NORM_FORM, .form = form});
}

static DtStatus read_lowercase(DtTokenizer *t, const json_t *step)
{
    DtCharmap *map = DT_NEW(t->memory, DtCharmap);
    (void)step;
    dt_charmap_lower(t->memory, map);
    return add(t, (DtNorm){.kind = DT_NORM_MAP, .map = map});
}

static DtStatus read_accents(DtTokenizer *t, const json_t *step)
{
    (void)step;
    return add_sets(t, "Step_Mark", "", NULL, NULL);
}

static DtStatus read_nmt(DtTokenizer *t, const json_t *step)
{
    (void)step;
    return add_sets(t, "Nmt_Control", "", "Nmt_Space", " ");
}

static DtStatus read_strip(DtTokenizer *t, const json_t *step)
{
    DtCharset *spaces = DT_NEW(t->memory, DtCharset);
    const bool left = json_is_true(json_object_get(step, "strip_left"));
    const bool right = json_is_true(json_object_get(step, "strip_right"));
    dt_charset_named(t->memory, "White_Space", strlen("White_Space"), spaces);
    dt_charset_sort(spaces);
    t->norms.removes |= left;
    return add(t, (DtNorm){.kind = DT_NORM_STRIP, .left = left, .right = right, .spaces = spaces});
}

static DtStatus read_prepend(DtTokenizer *t, const json_t *step)
{
    const DtTokenBytes text = dt_json_text(t, step, "prepend");
    if (!text.at)
        return dt_json_fail(t, "a step Prepend has no text");
    return add(t, (DtNorm){.kind = DT_NORM_PREPEND, .to = text});
}

static DtStatus read_replace(DtTokenizer *t, const json_t *step)
{
    DtNorm norm = {.kind = DT_NORM_REPLACE, .to = dt_json_text(t, step, "content")};
    DtStatus status = dt_json_pattern(t, step, &norm.split.pattern, &norm.from);
    if (!dt_status_ok(&status))
        return status;
    if (!norm.to.at)
        return dt_json_fail(t, "a step Replace has no content");
    t->norms.removes |= norm.to.len == 0;
    if (!norm.from.at) {
        status = dt_split_compile(t->memory, &norm.split);
        if (!dt_status_ok(&status))
            return dt_json_fail(t, "%s", status.message);
    } else if (norm.from.len == dt_utf8_step(norm.from.at[0])) {
        norm.kind = DT_NORM_MAP;
        norm.map = DT_NEW(t->memory, DtCharmap);
        dt_points_set(t->memory, &norm.map->points, dt_utf8_point(norm.from.at),
                      dt_charmap_text(t->memory, norm.map, norm.to.at, norm.to.len));
    } else {
        norm.kind = DT_NORM_REPLACE_TEXT;
    }
    status = add(t, norm);
    if (!dt_status_ok(&status))
        dt_regex_free(norm.split.regex);
    return status;
}

/* Spaces around each code point that Chinese, or another script without spaces, is written in. */
static DtStatus add_chinese(DtTokenizer *t)
{
    DtCharmap *map = DT_NEW(t->memory, DtCharmap);
    DtCharset set = {0};
    dt_charset_own(t->memory, "Bert_Chinese", strlen("Bert_Chinese"), &set);
    for (uint32_t i = 0; i < set.n; i++)
        for (uint32_t c = set.at[i].first; c <= set.at[i].last; c++) {
            uint8_t text[DT_UTF8_MOST + 2] = {' '};
            const size_t len = dt_utf8_write(c, text + 1);
            text[len + 1] = ' ';
            dt_points_set(t->memory, &map->points, c,
                          dt_charmap_text(t->memory, map, text, len + 2));
        }
    return add(t, (DtNorm){.kind = DT_NORM_MAP, .map = map});
}

static DtStatus read_bert(DtTokenizer *t, const json_t *step)
{
    const bool lower = json_is_true(json_object_get(step, "lowercase"));
    const json_t *accents = json_object_get(step, "strip_accents");
    const bool strips = json_is_boolean(accents) ? json_is_true(accents) : lower;
    DtStatus status = DT_OK;
    if (json_is_true(json_object_get(step, "clean_text")))
        status = add_sets(t, "Bert_Control", "", "White_Space", " ");
    if (dt_status_ok(&status) && json_is_true(json_object_get(step, "handle_chinese_chars")))
        status = add_chinese(t);
    if (dt_status_ok(&status) && strips)
        status = add(t, (DtNorm){.kind = DT_NORM_FORM, .form = DT_NFD});
    if (dt_status_ok(&status) && strips)
        status = add_sets(t, "Bert_Mark", "", NULL, NULL);
    return dt_status_ok(&status) && lower ? read_lowercase(t, step) : status;
}

static DtStatus read_precompiled(DtTokenizer *t, const json_t *step)
{
    const char *text = json_string_value(json_object_get(step, "precompiled_charsmap"));
    DtPrecompiled *map = DT_NEW(t->memory, DtPrecompiled);
    const char *wrong = text ? dt_precompiled_read(t->memory, text, map) : "is no text";
    if (wrong)
        return dt_json_fail(t, "its precompiled_charsmap %s", wrong);
    return add(t, (DtNorm){.kind = DT_NORM_PRECOMPILED, .precompiled = map});
}

static const DtJsonStep steps[] = {{"NFC", read_form},
                                   {"NFD", read_form},
                                   {"NFKC", read_form},
                                   {"NFKD", read_form},
                                   {"Lowercase", read_lowercase},
                                   {"StripAccents", read_accents},
                                   {"Strip", read_strip},
                                   {"Replace", read_replace},
                                   {"Prepend", read_prepend},
                                   {"Nmt", read_nmt},
                                   {"BertNormalizer", read_bert},
                                   {"Precompiled", read_precompiled}};

DtStatus dt_jsonnorm_read(DtTokenizer *t, const json_t *file)
{
    return dt_json_steps(t, file, "normalizer", "normalizers", steps, DT_COUNT(steps));
}
