/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `model` of tokenizer.json. BPE: {"type": "BPE", "vocab": {"a": 0, ...}, "merges": ["a b",
 * ...]}; newer files write a merge as ["a", "b"]. Over bytes the vocabulary's tokens are written
 * as bytechars.h says. With a continuing_subword_prefix or an end_of_word_suffix ("</w>") tokens
 * are written with these: a merge ["a", "b</w>"] makes "ab</w>", one ["a", "##b"] makes "ab".
 * Unigram: its vocabulary is [["a", score], ...]. */
#include "tokenizer/internal.h"

#include "tokenizer/bytechars.h"
#include "tokenizer/utf8.h"

enum { MAX_TOKEN_BYTES = 1 << 16, MAX_WORD = 1 << 20, MAX_AFFIX = 32 };

/* The id of a token as the file writes it, or DT_NO_TOKEN. */
static uint32_t find(const DtTokenizer *t, const char *written)
{
    return dt_vocab_find(&t->vocab, written, strlen(written));
}

/* ---- vocabulary ---- */

static DtStatus take_token(DtTokenizer *t, uint32_t id, const char *written)
{
    const size_t len = strlen(written);
    if (t->written[id].at)
        return dt_json_fail(t, "tokens `%.60s` and `%.60s` have one id, %u",
                            (const char *)t->written[id].at, written, id);
    if (len > MAX_TOKEN_BYTES || len == 0)
        return dt_json_fail(t, "token %u has no text of 1 to %d bytes", id, MAX_TOKEN_BYTES);
    t->written[id] =
        (DtTokenBytes){(const uint8_t *)dt_arena_strndup(t->memory, written, len), (uint32_t)len};
    if (!t->over_bytes)
        t->pieces[id] = t->written[id];
    else if (!dt_bytechars_read(t->memory, written, &t->pieces[id]))
        t->pieces[id].at = NULL; /* no piece is that token */
    return DT_OK;
}

static DtStatus read_vocab(DtTokenizer *t, json_t *vocab)
{
    const char *written;
    json_t *value;
    DtStatus status = DT_OK;
    json_object_foreach(vocab, written, value)
    {
        status = take_token(t, (uint32_t)json_integer_value(value), written);
        if (!dt_status_ok(&status))
            return status;
    }
    for (size_t i = 0; i < json_array_size(vocab) && dt_status_ok(&status); i++) {
        written = json_string_value(json_array_get(json_array_get(vocab, i), 0));
        status = written ? take_token(t, (uint32_t)i, written)
                         : dt_json_fail(t, "token number %zu has no text", i);
    }
    dt_vocab_begin(t->memory, t->written, t->n_ids, &t->vocab);
    t->model.vocab = &t->vocab;
    return status;
}

/* Sets *ret_id to the token that the model names for text without one, or DT_NO_TOKEN. */
static DtStatus read_unknown(DtTokenizer *t, const json_t *model, bool is_needed)
{
    const char *name = json_string_value(json_object_get(model, "unk_token"));
    t->model.unknown = name ? find(t, name) : DT_NO_TOKEN;
    if (name && t->model.unknown == DT_NO_TOKEN)
        return dt_json_fail(t, "its model names `%.60s` as unk_token, which the vocabulary lacks",
                            name);
    if (!name && is_needed)
        return dt_json_fail(t, "its model has no unk_token");
    return DT_OK;
}

/* Finds the tokens of bytes, <0x00> to <0xFF>: of all that UTF-8 has, or of none. */
static DtStatus read_fallback(DtTokenizer *t, const json_t *model, uint32_t of_byte[256])
{
    const bool wanted = json_is_true(json_object_get(model, "byte_fallback"));
    char name[8];
    uint32_t n = 0, lacking = 0;
    for (uint32_t b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", b);
        of_byte[b] = wanted ? find(t, name) : DT_NO_TOKEN;
        n += of_byte[b] != DT_NO_TOKEN;
        if (of_byte[b] == DT_NO_TOKEN && b != 0xc0 && b != 0xc1 && b < 0xf5)
            lacking = b + 1;
    }
    if (n > 0 && lacking > 0)
        return dt_json_fail(t,
                            "its model has byte_fallback, and its vocabulary some of the tokens of "
                            "bytes, but not <0x%02X>",
                            lacking - 1);
    return DT_OK;
}

/* ---- merges ---- */

/* The two tokens of a merge, in memory that is overwritten by the next call. */
static bool take_pair(const json_t *merge, char room[2 * MAX_TOKEN_BYTES + 2],
                      const char **ret_left, const char **ret_right)
{
    const char *text = json_string_value(merge);
    if (json_array_size(merge) == 2) {
        *ret_left = json_string_value(json_array_get(merge, 0));
        *ret_right = json_string_value(json_array_get(merge, 1));
        return *ret_left && *ret_right && strlen(*ret_left) <= MAX_TOKEN_BYTES &&
               strlen(*ret_right) <= MAX_TOKEN_BYTES;
    }
    const char *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ') || strlen(text) > 2 * MAX_TOKEN_BYTES)
        return false;
    memcpy(room, text, strlen(text) + 1);
    room[space - text] = 0;
    *ret_left = room;
    *ret_right = room + (space - text) + 1;
    return true;
}

static DtStatus read_merge(DtTokenizer *t, const json_t *model, size_t i, char *room, char *whole)
{
    const char *left, *right;
    const json_t *merge = json_array_get(json_object_get(model, "merges"), i);
    const DtTokenBytes *prefix = &t->model.prefix;
    if (!take_pair(merge, room, &left, &right))
        return dt_json_fail(t, "merge number %zu is no pair of tokens", i);
    if (prefix->len > 0 && strncmp(right, (const char *)prefix->at, prefix->len) != 0)
        return dt_json_fail(t,
                            "the second token of merge number %zu does not begin with the model's "
                            "continuing_subword_prefix",
                            i);
    memcpy(whole, left, strlen(left));
    memcpy(whole + strlen(left), right + prefix->len, strlen(right + prefix->len) + 1);
    const char *const names[] = {left, right, whole};
    uint32_t ids[3];
    for (int k = 0; k < 3; k++) {
        ids[k] = find(t, names[k]);
        if (ids[k] == DT_NO_TOKEN)
            return dt_json_fail(t, "merge number %zu names `%.60s`, which the vocabulary lacks", i,
                                names[k]);
    }
    dt_bpe_add(&t->model.bpe, ids[0], ids[1], (uint32_t)i, ids[2]);
    return DT_OK;
}

static DtStatus read_merges(DtTokenizer *t, const json_t *model)
{
    const json_t *merges = json_object_get(model, "merges");
    char *room = dt_arena_alloc(t->memory, 2 * MAX_TOKEN_BYTES + 2);
    char *whole = dt_arena_alloc(t->memory, 2 * MAX_TOKEN_BYTES + 2);
    DtStatus status = DT_OK;
    if (!json_is_array(merges) || json_array_size(merges) >= DT_MAX_TOKENS)
        return dt_json_fail(t, "its model has no merges, or too many");
    dt_bpe_begin(t->memory, &t->model.bpe, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges) && dt_status_ok(&status); i++)
        status = read_merge(t, model, i, room, whole);
    return status;
}

/* ---- places in a piece ---- */

/* Reads the prefix and the suffix of tokens. */
static DtStatus read_affixes(DtTokenizer *t, const json_t *model)
{
    t->model.prefix = dt_json_text(t, model, "continuing_subword_prefix");
    t->model.suffix = dt_json_text(t, model, "end_of_word_suffix");
    const bool any = t->model.prefix.len > 0 || t->model.suffix.len > 0;
    if (t->model.prefix.len > MAX_AFFIX || t->model.suffix.len > MAX_AFFIX)
        return dt_json_fail(t, "its model has a %s of more than %d bytes",
                            t->model.prefix.len > MAX_AFFIX ? "continuing_subword_prefix"
                                                            : "end_of_word_suffix",
                            MAX_AFFIX);
    if (any && json_is_true(json_object_get(model, "byte_fallback")))
        return dt_json_fail(t, "its model has byte_fallback and %s, which is not supported",
                            t->model.prefix.len > 0 ? "continuing_subword_prefix"
                                                    : "end_of_word_suffix");
    for (uint32_t i = 0; any && i < DT_BPE_PLACES; i++)
        t->model.bpe.places[i] = DT_NEW(t->memory, DtPoints);
    return DT_OK;
}

/* The token of a code point at a place, or DT_NO_TOKEN. */
static uint32_t token_at(const DtTokenizer *t, uint32_t point, uint32_t place)
{
    uint8_t text[2 * MAX_AFFIX + DT_UTF8_MOST + 1] = {0};
    size_t n = 0;
    if (place & DT_BPE_INSIDE && t->model.prefix.len > 0) {
        memcpy(text, t->model.prefix.at, t->model.prefix.len);
        n = t->model.prefix.len;
    }
    n += dt_utf8_write(point, text + n);
    if (place & DT_BPE_LAST && t->model.suffix.len > 0) {
        memcpy(text + n, t->model.suffix.at, t->model.suffix.len);
        n += t->model.suffix.len;
    }
    return dt_vocab_find(&t->vocab, text, n);
}

/* Notes the tokens of a byte, or of a code point, by place. */
static void add_places(DtTokenizer *t, uint32_t number, uint32_t point)
{
    for (uint32_t place = 0; place < DT_BPE_PLACES; place++) {
        const uint32_t token = token_at(t, point, place);
        if (token != DT_NO_TOKEN)
            dt_points_set(t->memory, t->model.bpe.places[place], number, token + 1);
    }
}

/* Fills the tables of places. Each token's characters are looked up: one of them is the one that
 * it is of, the others are those of the prefix and the suffix. */
static void read_places(DtTokenizer *t)
{
    for (uint32_t b = 0; t->over_bytes && b < 256; b++)
        add_places(t, b, dt_bytechars_of((uint8_t)b));
    for (uint32_t id = 0; !t->over_bytes && id < t->n_ids; id++) {
        const DtTokenBytes *text = &t->written[id];
        if (!text->at || text->len > 2 * MAX_AFFIX + DT_UTF8_MOST)
            continue;
        for (uint32_t at = 0; at < text->len; at += dt_utf8_step(text->at[at])) {
            const uint32_t point = dt_utf8_point(text->at + at);
            add_places(t, point, point);
        }
    }
}

/* ---- byte-pair encoding ---- */

static DtStatus read_bytes(DtTokenizer *t)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint8_t written[DT_UTF8_MOST + 1] = {0};
        const bool is_utf8 = b != 0xc0 && b != 0xc1 && b < 0xf5;
        dt_utf8_write(dt_bytechars_of((uint8_t)b), written);
        t->model.bpe.of_byte[b] = find(t, (const char *)written);
        if (t->model.bpe.of_byte[b] == DT_NO_TOKEN && is_utf8 && !t->model.bpe.places[0])
            return dt_json_fail(t,
                                "its vocabulary lacks the byte 0x%02x (`%s`), which BPE over bytes "
                                "(ByteLevel) needs",
                                b, (const char *)written);
    }
    return DT_OK;
}

/* Whether the token is one that a piece may begin with besides those of its code points. */
static bool is_other(const DtBpe *bpe, uint32_t id)
{
    bool is = id == bpe->unknown;
    for (uint32_t b = 0; b < 256; b++)
        is |= id == bpe->of_byte[b];
    return is;
}

static uint32_t last_point(const DtTokenBytes *text)
{
    uint32_t at = text->len - 1;
    while (at > 0 && (text->at[at] & 0xc0) == 0x80)
        at--;
    return dt_utf8_point(text->at + at);
}

/* Notes which code points follow each other in a token, and makes pieces end between others. Where
 * a token stands for bytes, its text does not say what it joins. */
static DtStatus add_cuts(DtTokenizer *t)
{
    DtBpe *bpe = &t->model.bpe;
    const size_t n = (size_t)1 << bpe->bits;
    bpe->space = t->model.space.at ? dt_utf8_point(t->model.space.at) : ' ';
    dt_bpe_begin_joins(t->memory, bpe, n / 2);
    for (size_t i = 0; i < n; i++) {
        const DtMerge *merge = &bpe->merges[i];
        const uint32_t left = (uint32_t)(merge->pair >> 32), right = (uint32_t)merge->pair;
        if (merge->pair == UINT64_MAX)
            continue;
        if (is_other(bpe, left) || is_other(bpe, right))
            return DT_OK;
        dt_bpe_add_join(bpe, last_point(&t->written[left]), dt_utf8_point(t->written[right].at));
    }
    if (t->n_splits == DT_MAX_SPLITS)
        return dt_json_fail(t, "its pre_tokenizer has more than %d steps", DT_MAX_SPLITS - 1);
    t->splits[t->n_splits++] = (DtSplit){.cuts = true};
    return DT_OK;
}

static DtStatus read_points(DtTokenizer *t, const json_t *model)
{
    DtBpe *bpe = &t->model.bpe;
    bpe->over_points = true;
    bpe->of_point = DT_NEW(t->memory, DtPoints);
    for (uint32_t id = 0; id < t->n_ids; id++) {
        const DtTokenBytes *text = &t->written[id];
        if (text->at && text->len == dt_utf8_step(text->at[0]))
            dt_points_set(t->memory, bpe->of_point, dt_utf8_point(text->at), id + 1);
    }
    DtStatus status = read_fallback(t, model, bpe->of_byte);
    const bool cuts = !bpe->whole && !bpe->places[0]; /* where a piece ends makes no difference */
    return dt_status_ok(&status) && cuts ? add_cuts(t) : status;
}

static DtStatus read_bpe(DtTokenizer *t, const json_t *model)
{
    const json_t *dropout = json_object_get(model, "dropout");
    DtStatus status = read_affixes(t, model);
    const bool places = t->model.bpe.places[0] != NULL;
    if (json_is_number(dropout) && json_number_value(dropout) != 0)
        return dt_json_fail(t, "its model has a dropout: texts would have other tokens each time");
    if (dt_status_ok(&status) && (!t->over_bytes || places))
        status = read_unknown(t, model, false);
    t->model.bpe.unknown = t->model.unknown;
    t->model.bpe.fuses_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    if (dt_status_ok(&status))
        status = read_merges(t, model);
    if (!dt_status_ok(&status))
        return status;
    if (json_is_true(json_object_get(model, "ignore_merges"))) {
        DtVocab *whole = DT_NEW(t->memory, DtVocab);
        dt_vocab_begin(t->memory, t->pieces, t->n_ids, whole);
        t->model.bpe.whole = whole;
    }
    if (places)
        read_places(t);
    t->model.form = dt_model_bpe;
    return t->over_bytes ? read_bytes(t) : read_points(t, model);
}

/* ---- other kinds ---- */

static DtStatus make_trie(DtTokenizer *t)
{
    if (!dt_trie_make(t->memory, &t->vocab, t->n_ids, &t->model.trie))
        return dt_json_fail(t, "its vocabulary has more than %d MiB", DT_TRIE_BYTES >> 20);
    return DT_OK;
}

static DtStatus read_unigram(DtTokenizer *t, const json_t *model)
{
    enum { UNKNOWN_PENALTY = 10 };
    const json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    const json_int_t id = json_integer_value(unk);
    double *scores = DT_NEW_ARRAY(t->memory, double, t->n_ids + 1), least = 0;
    if (!json_is_array(vocab))
        return dt_json_fail(t, "its model is Unigram, and its vocabulary no list of texts and "
                               "scores");
    if (!json_is_integer(unk) || id < 0 || (size_t)id >= json_array_size(vocab))
        return dt_json_fail(t, "its model has no unk_id in the vocabulary");
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *score = json_array_get(json_array_get(vocab, i), 1);
        if (!json_is_number(score))
            return dt_json_fail(t, "token number %zu has no score", i);
        scores[i] = json_number_value(score);
        least = i == 0 || scores[i] < least ? scores[i] : least;
    }
    t->model.form = dt_model_unigram;
    t->model.scores = scores;
    t->model.unknown = (uint32_t)id;
    t->model.unknown_score = least - UNKNOWN_PENALTY;
    DtStatus status = read_fallback(t, model, t->model.of_byte);
    return dt_status_ok(&status) ? make_trie(t) : status;
}

static DtStatus read_wordpiece(DtTokenizer *t, const json_t *model)
{
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    DtStatus status = read_unknown(t, model, true);
    if (!dt_status_ok(&status))
        return status;
    if (!json_is_integer(most) || json_integer_value(most) < 0 ||
        json_integer_value(most) > MAX_WORD)
        return dt_json_fail(t, "its model has no max_input_chars_per_word from 0 to %d", MAX_WORD);
    t->model.form = dt_model_wordpiece;
    t->model.most_points = (uint32_t)json_integer_value(most);
    t->model.prefix = dt_json_text(t, model, "continuing_subword_prefix");
    if (!t->model.prefix.at)
        return dt_json_fail(t, "its model has no continuing_subword_prefix");
    status = make_trie(t);
    t->model.no_prefix = t->model.prefix.len == 0;
    for (uint32_t i = 0; i < t->model.prefix.len && dt_status_ok(&status); i++) {
        if (i > 0 && t->model.inside == 0)
            break;
        t->model.inside = dt_trie_step(&t->model.trie, t->model.inside, t->model.prefix.at[i]);
    }
    return status;
}

static DtStatus read_wordlevel(DtTokenizer *t, const json_t *model)
{
    t->model.form = dt_model_wordlevel;
    return read_unknown(t, model, true);
}

/* ---- all ---- */

static const DtJsonStep kinds[] = {{"BPE", read_bpe},
                                   {"Unigram", read_unigram},
                                   {"WordPiece", read_wordpiece},
                                   {"WordLevel", read_wordlevel}};

DtStatus dt_jsonmodel_read(DtTokenizer *t, const json_t *model)
{
    json_t *vocab = json_object_get(model, "vocab");
    const char *type = json_object_get(model, "type")     ? dt_json_type(model)
                       : json_object_get(model, "merges") ? "BPE" /* files before 2020 */
                                                          : "?";
    const DtJsonStep *kind = NULL;
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (strcmp(kinds[i].type, type) == 0)
            kind = &kinds[i];
    if (!kind)
        return dt_json_fail(t, "its model has type `%.60s`, which is not known", type);
    if (!json_is_object(vocab) && !json_is_array(vocab))
        return dt_json_fail(t, "its %s model has no vocabulary", type);
    if (t->over_bytes && kind->read != read_bpe)
        return dt_json_fail(t,
                            "its model is %s, and its pre_tokenizer ByteLevel, which is not "
                            "supported",
                            type);
    DtStatus status = read_vocab(t, vocab);
    return dt_status_ok(&status) ? kind->read(t, model) : status;
}
