/* SPDX-License-Identifier: Apache-2.0 */
/* Whole tokenizers: against ids that the Python package `tokenizers` gave (record.py), against the
 * plain reference, on one thread and on several, and files that are refused. */
#include "base/file.h"
#include "tokenizer/internal.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURES "tests/tokenizer/fixtures/"

static const char *const names[] = {"gpt2",     "llama3",    "qwen2",  "roberta",  "o200k",
                                    "deepseek", "starcoder", "llama2", "mistral",  "gemma",
                                    "unk",      "t5",        "albert", "fallback", "bert",
                                    "cased",    "words",     "clip",   "gpt1",     "affixes"};

static size_t block; /* bytes that are read at a time, or 0 */

static DtStatus encode(const DtTokenizer *t, DtMemoryText *texts, uint32_t n, uint32_t threads,
                       DtIds *ids)
{
    DtTextSource source = dt_encode_memory(texts, n);
    const DtTokenSink sink = dt_encode_ids(ids);
    source.block = block;
    return dt_encode_documents(t, &source, threads, &sink);
}

static DtTokenizer *open_fixture(DtArena *memory, const char *name, const char *after)
{
    DtTokenizer *t = NULL;
    DtStatus status =
        dt_tokenizer_open(dt_arena_printf(memory, FIXTURES "%s.json", name), after, &t);
    cr_assert(dt_status_ok(&status), "%s: %s", name, status.message);
    return t;
}

static void expect_equal(const char *name, const DtIds *got, const DtIds *wanted)
{
    for (size_t i = 0; i < got->n && i < wanted->n; i++)
        if (got->at[i] != wanted->at[i])
            cr_assert_fail("%s: token %zu is %u, not %u", name, i, got->at[i], wanted->at[i]);
    cr_assert_eq(got->n, wanted->n, "%s: %zu tokens, not %zu", name, got->n, wanted->n);
}

/* ---- what `tokenizers` gave ---- */

static DtIds read_ids(DtArena *memory, const char *name)
{
    DtIds ids = {0};
    char *text, *at;
    size_t len;
    DtStatus status = dt_file_read(memory, dt_arena_printf(memory, FIXTURES "%s.ids", name),
                                   1 << 20, &text, &len);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (at = text;;) {
        char *next;
        const unsigned long id = strtoul(at, &next, 10);
        if (next == at)
            return ids;
        dt_ids_room(&ids, 1);
        ids.at[ids.n++] = (uint32_t)id;
        at = next;
    }
}

Test(tokenizer, ids_are_those_of_the_package)
{
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        DtArena *memory = dt_arena_new();
        DtTokenizer *t = open_fixture(memory, names[i], NULL);
        DtIds wanted = read_ids(memory, names[i]), got = {0}, plain = {0};
        char *text;
        size_t len;
        DtStatus status = dt_file_read(memory, FIXTURES "text", 1 << 20, &text, &len);
        DtMemoryText document = {(const uint8_t *)text, len, "the text"};
        if (dt_status_ok(&status))
            status = encode(t, &document, 1, 2, &got);
        if (dt_status_ok(&status))
            status = dt_plain_encode(t, document.at, len, &plain);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        cr_assert_gt(wanted.n, 150);
        expect_equal(names[i], &got, &wanted);
        expect_equal(names[i], &plain, &wanted);
        free(wanted.at);
        free(got.at);
        free(plain.at);
        dt_tokenizer_close(t);
        dt_arena_free(memory);
    }
}

/* ---- the plain reference ---- */

static uint64_t state;

static uint32_t roll(uint32_t n)
{
    state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) % n);
}

/* Appends something that patterns and tokens of the fixtures care for. */
static size_t add_random(uint8_t *to)
{
    static const char *const words[] = {"<|endoftext|>",
                                        "<|im_start|>",
                                        "<mask>",
                                        "the",
                                        "'LL",
                                        "'ſ",
                                        "<|endof",
                                        "  ",
                                        "\r\n",
                                        "\n\n",
                                        "\t",
                                        "12345",
                                        "!!\n",
                                        "//",
                                        "e\u0301",
                                        "\u0301",
                                        "한",
                                        "語",
                                        "कि",
                                        "\u0338",
                                        "\u2581",
                                        "``",
                                        "''",
                                        " ",
                                        "\u2581\u2581 ",
                                        "<0x0A>",
                                        "\u00a9\u200d",
                                        "\u0600",
                                        "\u00df",
                                        "##",
                                        "<unk>",
                                        "\u200b",
                                        "\r",
                                        "É",
                                        "a b c "};
    if (roll(3)) {
        const char *word = words[roll(DT_COUNT(words))];
        memcpy(to, word, strlen(word));
        return strlen(word);
    }
    static const uint32_t ends[] = {0x80, 0x80, 0x500, 0x3100, 0xd800, 0x20000};
    uint32_t point = roll(ends[roll(DT_COUNT(ends))]);
    return dt_utf8_write(point >= 0xd800 && point < 0xe000 ? ' ' : point, to);
}

static uint8_t *random_text(size_t len, uint64_t seed, size_t *ret_len)
{
    enum { LONGEST = 16 };
    uint8_t *text = malloc(len + 2 * LONGEST);
    size_t at = 0;
    cr_assert(text);
    state = seed;
    while (at < len) {
        if (roll(2000) == 0) { /* a long run */
            const uint8_t c = (uint8_t) " -a\n0"[roll(5)];
            for (uint32_t n = roll(9000); n > 0 && at < len; n--)
                text[at++] = c;
        }
        at += add_random(text + at);
    }
    *ret_len = at;
    return text;
}

static void compare_with(const DtTokenizer *t, const char *name, size_t len, uint64_t seed,
                         uint32_t threads)
{
    DtMemoryText text = {.name = "the text"};
    DtIds got = {0}, plain = {0};
    uint8_t *bytes = random_text(len, seed, &text.len);
    text.at = bytes;
    DtStatus status = encode(t, &text, 1, threads, &got);
    if (dt_status_ok(&status))
        status = dt_plain_encode(t, text.at, text.len, &plain);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    expect_equal(name, &got, &plain);
    free(got.at);
    free(plain.at);
    free(bytes);
}

static void compare(const char *name, size_t len, uint64_t seed, uint32_t threads)
{
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = open_fixture(memory, name, NULL);
    compare_with(t, name, len, seed, threads);
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

Test(tokenizer, short_texts_are_those_of_the_plain_reference)
{
    DtArena *memory = dt_arena_new();
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        DtTokenizer *t = open_fixture(memory, names[i], NULL);
        for (uint64_t seed = 1; seed <= 12; seed++)
            compare_with(t, names[i], 1 + 2 * seed * seed, seed, 1 + seed % 2);
        dt_tokenizer_close(t);
    }
    dt_arena_free(memory);
}

/* Small blocks and units begin and end everywhere: in pieces, added tokens, code points. */
Test(tokenizer, texts_in_small_blocks_are_those_of_the_plain_reference)
{
    DtArena *memory = dt_arena_new();
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        DtTokenizer *t = open_fixture(memory, names[i], NULL);
        for (uint64_t seed = 1; seed <= 10; seed++) {
            block = (size_t)(seed * seed * seed + 1);
            compare_with(t, names[i], 1500, 1000 * i + seed, 1 + seed % 3);
        }
        dt_tokenizer_close(t);
    }
    dt_arena_free(memory);
}

Test(tokenizer, long_texts_are_those_of_the_plain_reference)
{
    compare("llama3", 250000, 7, 3);
    compare("roberta", 1100000, 9, 1);
    compare("t5", 40000, 3, 2);
    compare("bert", 40000, 4, 2);
}

/* Units of a long run begin in the middle of pieces, and never meet those of the unit before. */
Test(tokenizer, units_that_do_not_meet_are_encoded_anew)
{
    enum { LEN = 2000 };
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = open_fixture(memory, "llama3", NULL);
    char *digits = dt_arena_alloc(memory, LEN + 1);
    for (int i = 0; i < LEN; i++)
        digits[i] = (char)('0' + i % 7);
    for (block = 60; block < 70; block++) {
        DtMemoryText text = {(const uint8_t *)digits, LEN, "the text"};
        DtIds got = {0}, plain = {0};
        DtStatus status = encode(t, &text, 1, 2, &got);
        if (dt_status_ok(&status))
            status = dt_plain_encode(t, text.at, LEN, &plain);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        expect_equal("digits", &got, &plain);
        free(got.at);
        free(plain.at);
    }
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

/* ---- documents ---- */

Test(tokenizer, documents_have_tokens_around_them)
{
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = open_fixture(memory, "llama3", "<|endoftext|>");
    DtMemoryText texts[] = {{(const uint8_t *)"a", 1, "a"},
                            {(const uint8_t *)"", 0, "empty"},
                            {(const uint8_t *)"b", 1, "b"}};
    DtIds ids = {0}, prompt = {0}, empty = {0};
    DtStatus status = encode(t, texts, 3, 1, &ids);
    if (dt_status_ok(&status))
        status = dt_encode_prompt(t, "a", &prompt);
    if (dt_status_ok(&status))
        status = dt_encode_prompt(t, "", &empty);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(ids.n, 6); /* <|begin_of_text|> a <|endoftext|>, nothing, the same for b */
    cr_assert_eq(ids.at[0], 0);
    cr_assert_eq(ids.at[2], 1);
    cr_assert_eq(ids.at[3], 0);
    cr_assert_eq(ids.at[5], 1);
    cr_assert_eq(prompt.n, 2);
    cr_assert_eq(prompt.at[1], ids.at[1]);
    cr_assert_eq(empty.n, 1);
    cr_assert_eq(empty.at[0], 0);
    free(ids.at);
    free(prompt.at);
    free(empty.at);
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

static DtTextPlace goes_on(void *context, uint32_t document)
{
    (void)context;
    return document ? DT_TEXT_GOES_ON : DT_TEXT_BEGINS;
}

/* Parts that follow each other have the tokens that the package gives the whole text, where a part
 * ends with a token: a space in front only where that has one. */
Test(tokenizer, parts_that_go_on_are_those_of_the_package)
{
    static const char *const parts[][4] = {
        {"### Response:\n", "Four, I say.", "\n\nand", "  more"},
        {"<s>Question?", "<s>", "It is so.", "</s>"}};
    static const struct {
        const char *name;
        int of;
        uint32_t ids[32];
        size_t n;
    } cases[] = {
        {"llama2", 0, {471, 267, 267, 267, 471, 310, 574, 338, 564, 658, 289, 261, 300, 337, 595,
                       275, 471, 303, 596, 323, 347, 277, 261, 261, 561, 326, 471, 627, 555, 327},
         30},
        {"llama2", 1, {1, 471, 84, 659, 557, 617, 294, 1, 471, 303, 342, 645, 596, 337, 277, 2},
         16},
        {"mistral", 0, {471, 267, 267, 267, 471, 310, 574, 338, 564, 658, 289, 261, 300, 337, 595,
                        275, 471, 303, 596, 323, 347, 277, 261, 261, 561, 326, 471, 627, 555, 327},
         30},
        {"mistral", 1, {1, 84, 659, 557, 617, 294, 1, 303, 342, 645, 596, 337, 277, 2}, 14},
        {"albert", 0, {3, 117, 117, 117, 3,  37, 4,  23, 7,  10, 4, 6,  52, 3, 28, 7,
                       19, 12, 9, 3, 13, 3, 4, 8, 43, 22, 87, 3, 18, 7, 37},
         31},
        {"roberta", 0, {222, 4, 4, 4, 222, 51, 265, 81, 274, 332, 27, 200, 39, 80, 319,
                        13, 373, 277, 403, 15, 200, 200, 276, 69, 222, 294, 80, 267},
         28},
        {"roberta", 1, {0, 222, 50, 86, 265, 327, 32, 0, 373, 85, 338, 428, 15, 1}, 14}};
    DtArena *memory = dt_arena_new();
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtTokenizer *t = open_fixture(memory, cases[i].name, NULL);
        DtMemoryText texts[4];
        DtIds got = {0};
        for (size_t k = 0; k < DT_COUNT(texts); k++)
            texts[k] = (DtMemoryText){(const uint8_t *)parts[cases[i].of][k],
                                      strlen(parts[cases[i].of][k]), "a part"};
        DtTextSource source = dt_encode_memory(texts, DT_COUNT(texts));
        const DtTokenSink sink = dt_encode_ids(&got);
        source.place = goes_on;
        DtStatus status = dt_encode_bare(t, &source, 1, &sink);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        const DtIds wanted = {.at = (uint32_t *)(uintptr_t)cases[i].ids, .n = cases[i].n};
        expect_equal(cases[i].name, &got, &wanted);
        free(got.at);
        dt_tokenizer_close(t);
    }
    dt_arena_free(memory);
}

Test(tokenizer, bytes_of_the_tokens_are_the_text)
{
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = open_fixture(memory, "gpt2", NULL);
    DtMemoryText text = {.name = "the text"};
    DtIds ids = {0};
    uint8_t *bytes = random_text(20000, 3, &text.len);
    size_t at = 0;
    text.at = bytes;
    DtStatus status = encode(t, &text, 1, 1, &ids);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (size_t i = 0; i < ids.n; i++) {
        const DtTokenBytes token = dt_tokenizer_bytes(t, ids.at[i]);
        cr_assert(token.at && token.len <= text.len - at);
        cr_assert_eq(memcmp(token.at, bytes + at, token.len), 0, "token %zu", i);
        at += token.len;
    }
    cr_assert_eq(at, text.len);
    cr_assert_null(dt_tokenizer_bytes(t, dt_tokenizer_ids(t)).at);
    free(ids.at);
    free(bytes);
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

static void expect_failure(DtStatus status, const char *what)
{
    cr_assert_not(dt_status_ok(&status), "accepted; wanted: %s", what);
    cr_assert(strstr(status.message, what), "it said: %s; wanted: %s", status.message, what);
}

Test(tokenizer, text_that_is_not_utf8_is_an_error_with_its_place)
{
    static const struct {
        const char *text;
        size_t len;
        const char *said;
    } bad[] = {{"ab\xff", 3, "not UTF-8: byte 2 is 0xff"}, {"\xc3", 1, "byte 0 is 0xc3"},
               {"a\xed\xa0\x80", 4, "byte 1 is 0xed"},     {"\xc0\xaf", 2, "byte 0 is 0xc0"},
               {"\xf4\x90\x80\x80", 4, "byte 0 is 0xf4"},  {"a\xe2\x82", 3, "byte 1 is 0xe2"}};
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = open_fixture(memory, "gpt2", NULL);
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        DtMemoryText text = {(const uint8_t *)bad[i].text, bad[i].len, "the text"};
        DtIds ids = {0};
        expect_failure(encode(t, &text, 1, 1, &ids), bad[i].said);
        free(ids.at);
    }
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

/* ---- files that are refused ---- */

typedef struct Edit {
    const char *from, *to, *said; /* from NULL: the whole text */
} Edit;

static char *replaced(DtArena *memory, const char *text, const Edit *edit)
{
    const char *at = edit->from ? strstr(text, edit->from) : NULL;
    if (!edit->from)
        return dt_arena_printf(memory, "%s", edit->to);
    cr_assert(at, "the fixture has no %s", edit->from);
    return dt_arena_printf(memory, "%.*s%s%s", (int)(at - text), text, edit->to,
                           at + strlen(edit->from));
}

static const Edit edits[] = {
    {NULL, "", "it is damaged"},
    {NULL, "[1]", "it is no JSON object"},
    {NULL, "{}", "has type `?`, which is not known"},
    {NULL, "{\"model\": 1, \"added_tokens\": 2}", "which is not known"},
    {"\"BPE\"", "\"Unigram\"", "is Unigram, and its pre_tokenizer ByteLevel"},
    {"\"BPE\"", "\"WordPiece\"", "is WordPiece, and its pre_tokenizer ByteLevel"},
    {"\"BPE\"", "\"Nonsense\"", "type `Nonsense`, which is not known"},
    {"\"truncation\":null", "\"truncation\":{}", "it has truncation"},
    {"\"dropout\":null", "\"dropout\":0.1", "dropout"},
    {"\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", ""},
    {"\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"0123456789012345678901234567890123\"",
     "end_of_word_suffix of more than 32 bytes"},
    {"\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false",
     "\"end_of_word_suffix\":\"</w>\",\"byte_fallback\":true",
     "byte_fallback and end_of_word_suffix"},
    {"\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"##\"",
     "does not begin with the model's continuing_subword_prefix"},
    {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"BPEDecoder\"",
     "has no suffix"},
    {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"suffix\":\"a\",\"type\":\"BPEDecoder\"",
     "before its end"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"ByteLevel\"}", "normalizer is ByteLevel"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", ""},
    {"\"single_word\":false", "\"single_word\":true", "single_word"},
    {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"CTC\"", "decoder is CTC"},
    {"\"type\":\"ByteLevel\"", "\"type\":\"UnicodeScripts\"", "pre_tokenizer is UnicodeScripts"},
    {"\"behavior\":\"Isolated\"", "\"behavior\":\"MergedWithAll\"", "behavior MergedWithAll"},
    {"\\\\s+(?!\\\\S)", "\\\\b", "`\\b` (byte"},
    {"\\\\s+(?!\\\\S)", "(?<!a)b", "(byte"},
    {"\\\\s+(?!\\\\S)", "a*", "matches without taking a character"},
    {"\"!\":3", "\"!\":4", "have one id, 4"},
    {"\"!\":3", "\"!\":-1", "is no integer from 0"},
    {"\"!\":3", "\"!\":99999999", "is no integer from 0"},
    {"\"!\":3", "\"!\":\"a\"", "is no integer from 0"},
    {"\"!\":3,", "", "lacks the byte 0x21"},
    {"\"merges\":[", "\"merges\":[\"qqq zzz\",", "merge number 0 names `qqq`"},
    {"\"merges\":[", "\"merges\":[\"abc\",", "merge number 0 is no pair"},
    {"\"merges\":[", "\"merges\":[\"a b c\",", "merge number 0 is no pair"},
    {"\"merges\":[", "\"merges\":[[\"a\",1],", "merge number 0 is no pair"},
    {"\"ids\":[0]", "\"ids\":[4000000]", "a token that does not exist"},
    {"\"ids\":[0]", "\"ids\":0", "does not say what"},
    {"{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}", "{}", "has not the text once"},
    {"\"id\":1,\"content\":\"<|endoftext|>\"", "\"id\":2,\"content\":\"<|endoftext|>\"",
     "the vocabulary gives it"},
    {"\"content\":\"<|im_start|>\"", "\"content\":\"\"", "has no text"},
    {"\"added_tokens\":[", "\"added_tokens\":[3,", "has no text"},
};

/* The same of other kinds of tokenizers. */
static const Edit fallback_edits[] = {
    {"<0x41>", "<0X41>", "some of the tokens of bytes, but not <0x41>"},
    {"\"unk_token\":\"<unk>\"", "\"unk_token\":\"<none>\"", "names `<none>` as unk_token"},
    {"\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"", "prepend_scheme last"},
    {"\"replacement\":\"\u2581\"", "\"replacement\":\"ab\"", "no replacement of one character"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"StripAccents\"}",
     "first after a normalizer that removes text"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Prepend\"}", "a step Prepend has no text"},
    {"\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"a\"}",
     "a text to split by has 0 bytes"},
    {"\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a*\"},\"content\":\"a\"}",
     "matches without taking a character"},
    {"\"normalizer\":null",
     "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\",\"String\":\"\"},"
     "\"content\":\"b\"}",
     "two patterns, a Regex and a String"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}",
     "a step Replace has no content"},
    {"\"type\":\"Fuse\"", "\"type\":\"Metaspace\",\"replacement\":\"a\"",
     "decoder has Metaspace after a step that joins tokens"},
    {"\"type\":\"Fuse\"", "\"type\":\"ByteLevel\"", "decoder has ByteLevel after a step"},
    {"{\"type\":\"Fuse\"},", "", "Strip after ByteFallback without Fuse"},
    {"\"start\":1", "\"start\":-1", "no `start` from 0"},
    {"\"stop\":0", "\"stop\":99999", "no `stop` from 0"},
    {"\"content\":\" \",\"start\"", "\"content\":\"\",\"start\"", "Strip has no content"},
};
static const Edit unigram_edits[] = {
    {"\"unk_id\":2", "\"unk_id\":null", "no unk_id in the vocabulary"},
    {"\"unk_id\":2", "\"unk_id\":-1", "no unk_id in the vocabulary"},
    {"\"unk_id\":2", "\"unk_id\":70000", "no unk_id in the vocabulary"},
    {"[\"<pad>\",0.0]", "[\"<pad>\",\"a\"]", "token number 0 has no score"},
    {"[\"<pad>\",0.0]", "[]", "token number 0 has no text"},
    {"[\"<pad>\",0.0]", "7", "token number 0 has no text"},
    {"\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"=", "is not base64"},
    {"\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"////", "is cut short"},
    {"\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":null,\"x\":\"", "is no text"},
    {"\"type\":\"Unigram\"", "\"type\":\"WordPiece\"", "has no unk_token"},
};
static const Edit wordpiece_edits[] = {
    {"\"unk_token\":\"[UNK]\"", "\"unk_token\":null", "has no unk_token"},
    {"\"max_input_chars_per_word\":100", "\"max_input_chars_per_word\":-1",
     "no max_input_chars_per_word from 0"},
    {"\"continuing_subword_prefix\":\"##\"", "\"continuing_subword_prefix\":null",
     "no continuing_subword_prefix"},
    {"\"type\":\"WordPiece\",\"unk", "\"type\":\"Unigram\",\"unk", "no list of texts and scores"},
    {"\"prefix\":\"##\"", "\"prefix\":1", "decoder WordPiece has no prefix"},
    {"\"type\":\"BertPreTokenizer\"", "\"type\":\"Sequence\"", "without `pretokenizers`"},
};

static void expect_edits(const char *fixture, const Edit *edit, size_t n)
{
    DtArena *memory = dt_arena_new();
    char *text;
    size_t len;
    DtStatus status = dt_file_read(memory, dt_arena_printf(memory, FIXTURES "%s.json", fixture),
                                   1 << 20, &text, &len);
    cr_assert(dt_status_ok(&status));
    for (size_t i = 0; i < n; i++) {
        DtTokenizer *t = NULL;
        const char *edited = replaced(memory, text, &edit[i]);
        status = dt_tokenizer_read(edited, strlen(edited), "x.json", NULL, &t);
        if (*edit[i].said)
            expect_failure(status, edit[i].said);
        else
            cr_assert(dt_status_ok(&status), "%s", status.message);
        if (dt_status_ok(&status))
            dt_tokenizer_close(t);
    }
    DtTokenizer *t = NULL;
    expect_failure(dt_tokenizer_read(text, len, "x.json", "<eos>", &t), "it has no token `<eos>`");
    dt_arena_free(memory);
}

Test(tokenizer, files_that_cannot_be_read_are_refused_with_the_reason)
{
    expect_edits("llama3", edits, DT_COUNT(edits));
    expect_edits("mistral", fallback_edits, DT_COUNT(fallback_edits));
    expect_edits("t5", unigram_edits, DT_COUNT(unigram_edits));
    expect_edits("bert", wordpiece_edits, DT_COUNT(wordpiece_edits));
}

/* A file of n times one text between two others. */
static DtStatus read_many(const char *before, const char *each, size_t n, const char *after)
{
    DtText text = {0};
    DtTokenizer *t = NULL;
    dt_text_add(&text, before);
    for (size_t i = 0; i < n; i++)
        dt_text_add(&text, each);
    dt_text_add(&text, after);
    DtStatus status = dt_tokenizer_read(text.at, text.len, "x.json", NULL, &t);
    dt_text_free(&text);
    return status;
}

Test(tokenizer, hostile_files_end_with_an_error)
{
    expect_failure(read_many("", "[", 100000, ""), "it is damaged");
    expect_failure(read_many("[", "[],", 3 << 20, "0]"), "more than 2097152 arrays and objects");
    expect_failure(read_many("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},"
                             "\"normalizer\":",
                             "{\"type\":\"Sequence\",\"normalizers\":[", 300, ""),
                   "it is damaged");
    expect_failure(read_many("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},"
                             "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
                             "{\"type\":\"NFC\"},", 40, "{\"type\":\"NFC\"}]}}"),
                   "more than 32 steps");
}

/* The pattern of the fixture is replaced by one that takes exponential time. */
Test(tokenizer, a_pattern_stops_at_its_limits)
{
    static const Edit hostile = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?:a|a|aa)+b", ""};
    DtArena *memory = dt_arena_new();
    DtTokenizer *t = NULL;
    DtIds ids = {0};
    char *text;
    size_t len;
    DtStatus status = dt_file_read(memory, FIXTURES "llama3.json", 1 << 20, &text, &len);
    const char *edited = replaced(memory, text, &hostile);
    if (dt_status_ok(&status))
        status = dt_tokenizer_read(edited, strlen(edited), "x.json", NULL, &t);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    char *many = dt_arena_alloc(memory, 3001);
    memset(many, 'a', 3000);
    DtMemoryText document = {(const uint8_t *)many, 3000, "the text"};
    expect_failure(encode(t, &document, 1, 1, &ids), "take more steps or memory than they may");
    free(ids.at);
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

/* Each step makes 200 times as much of a text. */
Test(tokenizer, a_normalizer_stops_at_its_limits)
{
    DtArena *memory = dt_arena_new();
    DtText file = {0};
    DtTokenizer *t = NULL;
    DtIds ids = {0};
    dt_text_add(&file, "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"normalizer\":{"
                       "\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 8; i++) {
        dt_text_add(&file, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"");
        for (int k = 0; k < 200; k++)
            dt_text_add(&file, "a");
        dt_text_add(&file, i < 7 ? "\"}," : "\"}]}}");
    }
    DtStatus status = dt_tokenizer_read(file.at, file.len, "x.json", NULL, &t);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    DtMemoryText document = {(const uint8_t *)"aaaa", 4, "the text"};
    expect_failure(encode(t, &document, 1, 1, &ids), "makes more than 128 MiB of a block");
    free(ids.at);
    dt_text_free(&file);
    dt_tokenizer_close(t);
    dt_arena_free(memory);
}

/* ---- text of tokens ---- */

/* The text of tokens, each of which is written in the list, with | between what each adds. */
static const char *text_of(DtArena *memory, const DtTokenizer *t, const char *const *tokens)
{
    DtText text = {0};
    DtDecoding *decoding = dt_decode_begin(t);
    dt_text_add(&text, "");
    for (; *tokens; tokens++) {
        uint32_t id = 0;
        while (id < t->n_ids && !(t->written[id].at && t->written[id].len == strlen(*tokens) &&
                                  memcmp(t->written[id].at, *tokens, t->written[id].len) == 0))
            id++;
        cr_assert(dt_decode_add(decoding, id, &text), "there is no token %s", *tokens);
        dt_text_add(&text, "|");
    }
    dt_decode_end(decoding, &text);
    cr_assert_not(dt_decode_add(decoding, t->n_ids, &text));
    const char *kept = dt_arena_printf(memory, "%s", text.at);
    dt_decode_free(decoding);
    dt_text_free(&text);
    return kept;
}

Test(tokenizer, text_of_a_token_depends_on_its_place)
{
    static const struct {
        const char *fixture, *tokens[8], *wanted;
    } cases[] = {
        {"mistral",
         {"\u2581the", "\u2581", "e", "<0xE2>", "<0x82>", "<0xAC>"},
         "the| |e|\xe2|\x82|\xac|"},
        {"mistral", {"e", "\u2581the"}, "e| the|"},
        {"gemma", {"\u2581", "e"}, " |e|"},
        {"t5", {"\u2581", "e", "\u2581the"}, "|e| the|"},
        {"bert", {"the", "##s", ".", "the"}, "the|s|.| the|"},
        {"cased", {"##s", "e", "."}, "##s| e| .|"},
        {"words", {"the", "the"}, "the| the|"},
    };
    DtArena *memory = dt_arena_new();
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtTokenizer *t = open_fixture(memory, cases[i].fixture, NULL);
        cr_expect_str_eq(text_of(memory, t, cases[i].tokens), cases[i].wanted, "%s: %s",
                         cases[i].fixture, text_of(memory, t, cases[i].tokens));
        dt_tokenizer_close(t);
    }
    dt_arena_free(memory);
}

/* ---- models ---- */

static const char *small(DtArena *memory, const char *vocab, const char *merges, const char *more)
{
    DtText text = {0};
    dt_text_add(&text, "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                       "\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (uint32_t b = 0; b < 256; b++) {
        uint8_t c[DT_UTF8_MOST + 1] = {0};
        uint32_t point = b == 0xad ? 0x143 : b;
        if (b < '!' || (b > '~' && b < 0xa1))
            point = 0x100 + (b < '!' ? b : b - 0x7f + 33);
        dt_utf8_write(point, c);
        dt_text_printf(&text, "\"%s%s\":%u,", c[0] == '"' || c[0] == '\\' ? "\\" : "",
                       (const char *)c, b);
    }
    dt_text_printf(&text, "%s},\"merges\":[%s]%s}}", vocab, merges, more);
    const char *kept = dt_arena_printf(memory, "%s", text.at);
    dt_text_free(&text);
    return kept;
}

static void expect_ids(const char *json, const char *text, const char *wanted)
{
    DtTokenizer *t = NULL;
    DtIds ids = {0};
    DtText said = {0};
    DtMemoryText document = {(const uint8_t *)text, strlen(text), "the text"};
    DtStatus status = dt_tokenizer_read(json, strlen(json), "x.json", NULL, &t);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = encode(t, &document, 1, 1, &ids);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (size_t i = 0; i < ids.n; i++)
        dt_text_printf(&said, "%s%u", i ? " " : "", ids.at[i]);
    cr_assert_str_eq(said.at, wanted);
    dt_text_free(&said);
    free(ids.at);
    dt_tokenizer_close(t);
}

Test(tokenizer, pieces_are_looked_up_before_merges_if_the_file_says_so)
{
    DtArena *memory = dt_arena_new();
    const char *vocab = "\"ab\":300,\"bc\":301,\"abc\":302", *merges = "\"b c\",\"a b\"";
    expect_ids(small(memory, vocab, merges, ""), "abc", "97 301");
    expect_ids(small(memory, vocab, merges, ",\"ignore_merges\":true"), "abc abcd",
               "302 32 97 301 100");
    /* of two merges of one pair the later one counts */
    expect_ids(small(memory, vocab, "\"a b\",\"b c\",\"a b\"", ""), "abc", "97 301");
    dt_arena_free(memory);
}
