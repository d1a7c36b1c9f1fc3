/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the steps around the model. Each is a row of a table; one that has none is refused by its
 * name, and so is every setting of a step that is not supported. */
#include "tokenizer/internal.h"

#include <string.h>

/* The pattern of GPT-2 (its encoder.py), which the step ByteLevel has of its own. */
static const char gpt2_pattern[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                   "|\\s+(?!\\S)|\\s+";

/* What was met while the steps of one kind were read. */
typedef struct Steps {
    DtTokenizer *t;
    bool bytes; /* ByteLevel was met among pre-tokenizers, so it was the last */
} Steps;

typedef struct Step {
    const char *type;
    DtStatus (*read)(Steps *steps, const json_t *step);
} Step;

enum { MAX_NESTED = 8 };

/* Reads a step, or each of a Sequence, whose members are called `list`. */
static DtStatus read_steps(Steps *steps, const json_t *step, const char *kind, const char *list,
                           const Step *table, size_t n, int depth)
{
    DtStatus status = DT_OK;
    if (!step || json_is_null(step))
        return DT_OK;
    if (depth > MAX_NESTED)
        return dt_json_fail(steps->t, "its %s is nested too deeply", kind);
    const char *type = dt_json_type(step);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *members = json_object_get(step, list);
        if (!json_is_array(members))
            return dt_json_fail(steps->t, "its %s is a Sequence without `%s`", kind, list);
        for (size_t i = 0; i < json_array_size(members) && dt_status_ok(&status); i++)
            status = read_steps(steps, json_array_get(members, i), kind, list, table, n, depth + 1);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].type, type) == 0)
            return table[i].read(steps, step);
    return dt_json_fail(steps->t, "its %s is %.60s, which is not supported yet", kind, type);
}

/* ---- normalizer ---- */

static DtStatus read_nfc(Steps *steps, const json_t *step)
{
    (void)step;
    steps->t->nfc = true;
    return DT_OK;
}

/* ---- pre_tokenizer ---- */

/* Adds a step that splits by the pattern that was read. */
static DtStatus add_split(DtTokenizer *t, DtSplit *split)
{
    DtText text = {0};
    DtStatus status = dt_pattern_alphabet(t->memory, &split->pattern, &split->alphabet);
    if (dt_status_ok(&status)) {
        dt_pattern_for_alphabet(&split->pattern, &split->alphabet, &text);
        status = dt_regex_compile(text.at ? text.at : "", text.len, false, split->pattern.written,
                                  &split->regex);
    }
    dt_text_free(&text);
    if (dt_status_ok(&status))
        t->n_splits++;
    return dt_status_ok(&status) ? DT_OK : dt_json_fail(t, "%s", status.message);
}

static DtStatus begin_split(Steps *steps, DtSplit **ret_split)
{
    DtTokenizer *t = steps->t;
    if (steps->bytes)
        return dt_json_fail(t, "its pre_tokenizer has steps after ByteLevel, which is not "
                               "supported");
    if (t->n_splits == DT_MAX_SPLITS)
        return dt_json_fail(t, "its pre_tokenizer has more than %d steps", DT_MAX_SPLITS);
    *ret_split = &t->splits[t->n_splits];
    return DT_OK;
}

static DtStatus split_by(Steps *steps, const char *pattern, bool is_regex, bool drops_rest)
{
    DtSplit *split = NULL;
    DtStatus status = begin_split(steps, &split);
    if (!dt_status_ok(&status))
        return status;
    split->drops_rest = drops_rest;
    const char *kept = dt_arena_strndup(steps->t->memory, pattern, strlen(pattern));
    if (is_regex)
        status = dt_pattern_read(steps->t->memory, kept, &split->pattern);
    else
        dt_pattern_literal(steps->t->memory, kept, &split->pattern);
    if (!dt_status_ok(&status))
        return dt_json_fail(steps->t, "%s", status.message);
    return add_split(steps->t, split);
}

static DtStatus read_split(Steps *steps, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    const bool invert = json_is_true(json_object_get(step, "invert"));
    const bool isolated = behavior && strcmp(behavior, "Isolated") == 0;
    const bool keeps = behavior && strcmp(behavior, "Removed") == 0 && invert;
    if (!regex && !text)
        return dt_json_fail(steps->t, "a step Split has no pattern");
    if (!isolated && !keeps)
        return dt_json_fail(steps->t,
                            "a step Split has behavior %.40s%s, which is not supported yet: "
                            "Isolated is",
                            behavior ? behavior : "?", invert ? " and invert" : "");
    return split_by(steps, regex ? regex : text, regex != NULL, keeps);
}

static DtStatus read_digits(Steps *steps, const json_t *step)
{
    const bool each = json_is_true(json_object_get(step, "individual_digits"));
    return split_by(steps, each ? "\\p{N}" : "\\p{N}+", true, false);
}

static DtStatus read_bytelevel(Steps *steps, const json_t *step)
{
    DtTokenizer *t = steps->t;
    const json_t *space = json_object_get(step, "add_prefix_space");
    const json_t *use = json_object_get(step, "use_regex");
    if (!json_is_boolean(space))
        return dt_json_fail(t, "the step ByteLevel does not say whether add_prefix_space");
    if (steps->bytes || (json_is_true(space) && t->n_splits > 0))
        return dt_json_fail(t, "its pre_tokenizer has ByteLevel twice, or after another step with "
                               "add_prefix_space, which is not supported");
    t->space_in_front = json_is_true(space);
    DtStatus status = DT_OK;
    if (!use || json_is_true(use))
        status = split_by(steps, gpt2_pattern, true, false);
    steps->bytes = true;
    return status;
}

/* ---- post_processor ---- */

/* Puts an id in front of a document and of what earlier steps put there (at: how many this step has
 * put there), or after all of it. */
static DtStatus add_around(DtTokenizer *t, bool front, uint32_t at, const json_t *id)
{
    uint32_t *ids = front ? t->front : t->back, *n = front ? &t->n_front : &t->n_back;
    const json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= t->n_ids || !t->written[value])
        return dt_json_fail(t, "its post_processor adds a token that does not exist");
    if (*n + 2 > DT_MAX_AROUND) /* `end` may add one more */
        return dt_json_fail(t, "its post_processor adds more than %d tokens", DT_MAX_AROUND - 2);
    at = front ? at : *n;
    memmove(ids + at + 1, ids + at, (*n - at) * sizeof *ids);
    ids[at] = (uint32_t)value;
    ++*n;
    return DT_OK;
}

static DtStatus add_special(DtTokenizer *t, const json_t *step, const json_t *special, bool front,
                            uint32_t *n)
{
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *known = json_object_get(step, "special_tokens");
    const json_t *ids = json_object_get(json_object_get(known, name ? name : ""), "ids");
    DtStatus status = DT_OK;
    if (!json_is_array(ids))
        return dt_json_fail(t, "its TemplateProcessing does not say what `%.60s` is",
                            name ? name : "?");
    for (size_t i = 0; i < json_array_size(ids) && dt_status_ok(&status); i++)
        status = add_around(t, front, (*n)++, json_array_get(ids, i));
    return status;
}

static DtStatus read_template(Steps *steps, const json_t *step)
{
    const json_t *single = json_object_get(step, "single");
    uint32_t n_texts = 0, n = 0;
    DtStatus status = DT_OK;
    for (size_t i = 0; i < json_array_size(single) && dt_status_ok(&status); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        const json_t *text = json_object_get(piece, "Sequence");
        const char *name = json_string_value(json_object_get(text, "id"));
        if (special)
            status = add_special(steps->t, step, special, n_texts == 0, &n);
        n_texts += name && strcmp(name, "A") == 0;
    }
    if (dt_status_ok(&status) && n_texts != 1)
        return dt_json_fail(steps->t, "its TemplateProcessing has not the text once");
    return status;
}

/* RobertaProcessing and BertProcessing: cls and sep are ["token", id]. */
static DtStatus read_pair(Steps *steps, const json_t *step)
{
    DtStatus status =
        add_around(steps->t, true, 0, json_array_get(json_object_get(step, "cls"), 1));
    return dt_status_ok(&status)
               ? add_around(steps->t, false, 0, json_array_get(json_object_get(step, "sep"), 1))
               : status;
}

/* ByteLevel among post-processors changes offsets, which are not used; as the decoder it is what
 * dt_tokenizer_bytes does. */
static DtStatus read_nothing(Steps *steps, const json_t *step)
{
    (void)steps, (void)step;
    return DT_OK;
}

/* ---- all ---- */

static const Step normalizers[] = {{"NFC", read_nfc}};
static const Step pre_tokenizers[] = {
    {"Split", read_split}, {"Digits", read_digits}, {"ByteLevel", read_bytelevel}};
static const Step post_processors[] = {{"ByteLevel", read_nothing},
                                       {"TemplateProcessing", read_template},
                                       {"RobertaProcessing", read_pair},
                                       {"BertProcessing", read_pair}};
static const Step decoders[] = {{"ByteLevel", read_nothing}};

DtStatus dt_jsonsteps_read(DtTokenizer *t, const json_t *file)
{
    Steps steps = {.t = t};
    const struct {
        const char *kind, *list;
        const Step *table;
        size_t n;
    } all[] = {
        {"normalizer", "normalizers", normalizers, DT_COUNT(normalizers)},
        {"pre_tokenizer", "pretokenizers", pre_tokenizers, DT_COUNT(pre_tokenizers)},
        {"post_processor", "processors", post_processors, DT_COUNT(post_processors)},
        {"decoder", "decoders", decoders, DT_COUNT(decoders)},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        DtStatus status = read_steps(&steps, json_object_get(file, all[i].kind), all[i].kind,
                                     all[i].list, all[i].table, all[i].n, 0);
        if (!dt_status_ok(&status))
            return status;
    }
    if (!steps.bytes)
        return dt_json_fail(t, "its pre_tokenizer has no step ByteLevel: only BPE over bytes can "
                               "be read so far");
    return DT_OK;
}
