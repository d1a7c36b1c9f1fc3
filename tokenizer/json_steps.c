/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `post_processor` and `decoder` of tokenizer.json: each kind of step is a row of a table. */
#include "tokenizer/internal.h"

#include "tokenizer/utf8.h"

/* ---- post_processor ---- */

/* Puts an id in front of a document and of what earlier steps put there (at: how many this step has
 * put there), or after all of it. */
static DtStatus add_around(DtTokenizer *t, bool front, uint32_t at, const json_t *id)
{
    uint32_t *ids = front ? t->before : t->back, *n = front ? &t->n_before : &t->n_back;
    const json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= t->n_ids || !t->written[value].at)
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

static DtStatus read_template(DtTokenizer *t, const json_t *step)
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
            status = add_special(t, step, special, n_texts == 0, &n);
        n_texts += name && strcmp(name, "A") == 0;
    }
    if (dt_status_ok(&status) && n_texts != 1)
        return dt_json_fail(t, "its TemplateProcessing has not the text once");
    return status;
}

/* RobertaProcessing and BertProcessing: cls and sep are ["token", id]. */
static DtStatus read_pair(DtTokenizer *t, const json_t *step)
{
    DtStatus status = add_around(t, true, 0, json_array_get(json_object_get(step, "cls"), 1));
    return dt_status_ok(&status)
               ? add_around(t, false, 0, json_array_get(json_object_get(step, "sep"), 1))
               : status;
}

/* ByteLevel among post-processors changes offsets, which are not used. */
static DtStatus read_nothing(DtTokenizer *t, const json_t *step)
{
    (void)t, (void)step;
    return DT_OK;
}

/* ---- decoder ---- */

static DtStatus add_decoder(DtTokenizer *t, const json_t *step, DtDecoder decoder)
{
    DtDecoders *all = &t->decoders;
    if (all->n == DT_MAX_DECODERS)
        return dt_json_fail(t, "its decoder has more than %d steps", DT_MAX_DECODERS);
    if (all->joins)
        return dt_json_fail(t,
                            "its decoder has %.40s after a step that joins tokens, which is not "
                            "supported",
                            dt_json_type(step));
    all->at[all->n++] = decoder;
    return DT_OK;
}

static DtStatus read_decode_bytes(DtTokenizer *t, const json_t *step)
{
    if (t->decoders.joins)
        return dt_json_fail(t,
                            "its decoder has %s after a step that joins tokens, which is not "
                            "supported",
                            dt_json_type(step));
    t->decoders.joins = t->decoders.over_bytes = true;
    t->decoders.fused = true;
    return DT_OK;
}

static DtStatus read_decode_fallback(DtTokenizer *t, const json_t *step)
{
    if (t->decoders.joins)
        return dt_json_fail(t,
                            "its decoder has %s after a step that joins tokens, which is not "
                            "supported",
                            dt_json_type(step));
    t->decoders.joins = t->decoders.falls_back = true;
    return DT_OK;
}

static DtStatus read_decode_fuse(DtTokenizer *t, const json_t *step)
{
    (void)step;
    t->decoders.joins = t->decoders.fused = true;
    return DT_OK;
}

static DtStatus read_decode_wordpiece(DtTokenizer *t, const json_t *step)
{
    static const char *const cleanups[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    DtDecoder decoder = {.kind = DT_DECODE_WORDPIECE, .text = dt_json_text(t, step, "prefix")};
    if (!decoder.text.at)
        return dt_json_fail(t, "its decoder WordPiece has no prefix");
    decoder.norms = DT_NEW(t->memory, DtNorms);
    for (size_t i = 0; i < DT_COUNT(cleanups) && json_is_true(json_object_get(step, "cleanup"));
         i++) {
        DtNorm *norm = &decoder.norms->at[decoder.norms->n++];
        norm->kind = DT_NORM_REPLACE_TEXT;
        norm->from =
            (DtTokenBytes){(const uint8_t *)cleanups[i][0], (uint32_t)strlen(cleanups[i][0])};
        norm->to =
            (DtTokenBytes){(const uint8_t *)cleanups[i][1], (uint32_t)strlen(cleanups[i][1])};
    }
    return add_decoder(t, step, decoder);
}

static DtStatus read_decode_metaspace(DtTokenizer *t, const json_t *step)
{
    const json_t *space = json_object_get(step, "add_prefix_space");
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    DtDecoder decoder = {.kind = DT_DECODE_METASPACE, .text = dt_json_text(t, step, "replacement")};
    if (!decoder.text.at || decoder.text.len == 0)
        return dt_json_fail(t, "its decoder Metaspace has no replacement");
    if (!scheme)
        scheme = space && !json_is_true(space) ? "never" : "always";
    decoder.drops_first = strcmp(scheme, "never") != 0;
    return add_decoder(t, step, decoder);
}

static DtStatus read_decode_replace(DtTokenizer *t, const json_t *step)
{
    DtPattern pattern;
    DtNorm norm = {.kind = DT_NORM_REPLACE_TEXT, .to = dt_json_text(t, step, "content")};
    DtStatus status = dt_json_pattern(t, step, &pattern, &norm.from);
    if (!dt_status_ok(&status))
        return status;
    if (!norm.from.at || !norm.to.at)
        return dt_json_fail(t, "its decoder Replace has %s, which is not supported",
                            norm.from.at ? "no content" : "a pattern that is a Regex");
    DtDecoder decoder = {.kind = DT_DECODE_REPLACE, .norms = DT_NEW(t->memory, DtNorms)};
    decoder.norms->at[decoder.norms->n++] = norm;
    return add_decoder(t, step, decoder);
}

static DtStatus read_count(DtTokenizer *t, const json_t *step, const char *name, uint32_t *ret_n)
{
    const json_t *value = json_object_get(step, name);
    const json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > DT_MAX_STRIP)
        return dt_json_fail(t, "its decoder Strip has no `%s` from 0 to %d", name, DT_MAX_STRIP);
    *ret_n = (uint32_t)n;
    return DT_OK;
}

static DtStatus read_decode_strip(DtTokenizer *t, const json_t *step)
{
    DtDecoder decoder = {.kind = DT_DECODE_STRIP, .text = dt_json_text(t, step, "content")};
    DtStatus status = read_count(t, step, "start", &decoder.start);
    if (dt_status_ok(&status))
        status = read_count(t, step, "stop", &decoder.stop);
    if (!dt_status_ok(&status))
        return status;
    if (!decoder.text.at || decoder.text.len == 0)
        return dt_json_fail(t, "its decoder Strip has no content");
    if (!t->decoders.joins)
        return add_decoder(t, step, decoder);
    if (!t->decoders.fused || t->decoders.strips)
        return dt_json_fail(t, "its decoder has Strip after %s, which is not supported",
                            t->decoders.strips ? "Strip" : "ByteFallback without Fuse");
    t->decoders.strips = true;
    t->decoders.strip = decoder;
    return DT_OK;
}

/* BPEDecoder: the suffix is a space, but at the end of the text nothing. A token that had the
 * suffix elsewhere would be known only with the next one. */
static DtStatus read_decode_suffix(DtTokenizer *t, const json_t *step)
{
    DtDecoder decoder = {.kind = DT_DECODE_SUFFIX, .text = dt_json_text(t, step, "suffix")};
    const DtTokenBytes *suffix = &decoder.text;
    if (!suffix->at || suffix->len == 0)
        return dt_json_fail(t, "its decoder BPEDecoder has no suffix");
    for (uint32_t i = 0; i < t->decoders.n; i++)
        if (t->decoders.at[i].kind == DT_DECODE_SUFFIX || t->decoders.at[i].norms)
            return dt_json_fail(t, "its decoder has BPEDecoder after %s, which is not supported",
                                t->decoders.at[i].norms ? "a step that replaces text"
                                                        : "BPEDecoder");
    for (uint32_t id = 0; id < t->n_ids; id++) {
        const DtTokenBytes *text = &t->written[id];
        const uint8_t *found =
            text->at ? memmem(text->at, text->len, suffix->at, suffix->len) : NULL;
        if (found && found + suffix->len != text->at + text->len)
            return dt_json_fail(t,
                                "token `%.60s` has the suffix of its BPEDecoder before its end, "
                                "which is not supported",
                                (const char *)text->at);
    }
    return add_decoder(t, step, decoder);
}

/* ---- all ---- */

static const DtJsonStep post_processors[] = {{"ByteLevel", read_nothing},
                                             {"TemplateProcessing", read_template},
                                             {"RobertaProcessing", read_pair},
                                             {"BertProcessing", read_pair}};
static const DtJsonStep decoders[] = {
    {"ByteLevel", read_decode_bytes},     {"ByteFallback", read_decode_fallback},
    {"Fuse", read_decode_fuse},           {"WordPiece", read_decode_wordpiece},
    {"Metaspace", read_decode_metaspace}, {"Replace", read_decode_replace},
    {"Strip", read_decode_strip},         {"BPEDecoder", read_decode_suffix}};

DtStatus dt_jsonsteps_read(DtTokenizer *t, const json_t *file)
{
    DtStatus status = dt_json_steps(t, file, "post_processor", "processors", post_processors,
                                    DT_COUNT(post_processors));
    return dt_status_ok(&status)
               ? dt_json_steps(t, file, "decoder", "decoders", decoders, DT_COUNT(decoders))
               : status;
}
