/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tokenizers: patterns, merges, normalisation, sets of code points. */
#include "tokenizer/internal.h"
#include "tokenizer/utf8.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- patterns ---- */

static DtRegex *compile(DtArena *memory, const DtPattern *pattern, const DtAlphabet *alphabet)
{
    DtText text = {0};
    DtRegex *regex = NULL;
    (void)memory;
    if (alphabet)
        dt_pattern_for_alphabet(pattern, alphabet, &text);
    else
        dt_pattern_for_utf8(pattern, &text);
    DtStatus status =
        dt_regex_compile(text.at, text.len, alphabet == NULL, pattern->written, &regex);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    dt_text_free(&text);
    return regex;
}

/* The matches of a pattern in a text, in [ ], by either way of writing the pattern. */
static const char *matches(DtArena *memory, const char *written, const char *subject, bool utf8)
{
    DtPattern pattern;
    DtAlphabet alphabet;
    DtStatus status = dt_pattern_read(memory, written, &pattern);
    if (dt_status_ok(&status))
        status = dt_pattern_alphabet(memory, &pattern, &alphabet);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    DtRegex *regex = compile(memory, &pattern, utf8 ? NULL : &alphabet);
    DtRegexRun *run = dt_regex_begin(regex);
    const size_t len = strlen(subject);
    uint8_t *text = dt_arena_alloc(memory, len + 1);
    size_t *starts = DT_NEW_ARRAY(memory, size_t, len + 2), n = 0, first, end;
    for (size_t i = 0; i < len; i += utf8 ? 1 : dt_utf8_step((uint8_t)subject[i])) {
        starts[n] = i;
        text[n++] =
            utf8 ? (uint8_t)subject[i] : alphabet.of[dt_utf8_point((const uint8_t *)subject + i)];
    }
    starts[n] = len;
    const char *said = "";
    size_t at = 0;
    for (; dt_regex_find(run, text, n, at, true, &first, &end) == DT_REGEX_FOUND; at = end)
        said = dt_arena_printf(memory, "%s[%.*s]", said, (int)(starts[end] - starts[first]),
                               subject + starts[first]);
    dt_regex_end(run);
    dt_regex_free(regex);
    return said;
}

Test(patterns, match_the_same_in_either_form)
{
    static const struct {
        const char *pattern, *text, *wanted;
    } cases[] = {
        {"\\p{L}+|\\s", "aé 中文1", "[aé][ ][中文]"},
        {"(?i:'s|'ll)", "'S'ſ'lL'k", "['S]['ſ]['lL]"},
        {"(?i)k", "kKK", "[k][K][K]"},
        {"\\s+(?!\\S)|\\s+", "a   b  ", "[  ][ ][  ]"},
        {"[^\\s\\p{L}]", "a1 é!", "[1][!]"},
        {"\\p{N}{1,3}", "12345x6", "[123][45][6]"},
        {"a{,2}b|c{2}|d{2,}", "aab ccc dddd b", "[aab][cc][dddd][b]"},
        {"x{y", "x{y", "[x{y]"},
        {"[\\x41-\\u0043\\x{1F600}]", "ABCD😀", "[A][B][C][😀]"},
        {".$", "ab\ncd", "[b][d]"},
        {"b\\z", "b\nb", "[b]"},
        {"a++a|a+?", "aaa", "[a][a][a]"},
        {"(?>a|ab)c|b", "abc", "[b]"},
        {"[\\-\\]]|[a-]", "-]a", "[-][]][a]"},
        {"\\P{L}|\\p{^N}", "1a", "[1][a]"},
        {"\\w\\W\\d\\D\\S", "a 1bc", "[a 1bc]"},
        {"[一-龥]+", "快a狐", "[快][狐]"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtArena *memory = dt_arena_new();
        for (int utf8 = 0; utf8 < 2; utf8++)
            cr_expect_str_eq(matches(memory, cases[i].pattern, cases[i].text, utf8),
                             cases[i].wanted, "%s: %s", cases[i].pattern,
                             matches(memory, cases[i].pattern, cases[i].text, utf8));
        dt_arena_free(memory);
    }
}

Test(patterns, that_mean_something_else_are_refused_by_name)
{
    static const struct {
        const char *pattern, *said;
    } cases[] = {
        {"a\\bc", "`\\b` (byte 1) is not supported"},
        {"^a", "depends on what is before a match"},
        {"(?<=a)b", "is not supported: there are"},
        {"(?<n>a)", "is not supported: there are"},
        {"(?x)a", "is not supported: there are"},
        {"a(?i)b", "is not supported"},
        {"(a)\\1", "`\\1` (byte 3) is not supported"},
        {"\\h", "is not supported"},
        {"[[:alpha:]]", "a class in a class"},
        {"[a&&b]", "`&&` in a class"},
        {"[]a]", "an empty class"},
        {"[a", "a class without an end"},
        {"[z-a]", "a range that is none"},
        {"\\p{Klingon}", "a property that is not supported"},
        {"\\p", "is no property"},
        {"(?i:é)", "only ASCII is supported there"},
        {"(?i:st)", "a pair of letters"},
        {"(?i:\\p{Lu})", "a property where case does not count"},
        {"a{2}?", "Oniguruma means something else"},
        {"a{1,2}+", "Oniguruma means something else"},
        {"a**", "repeats nothing"},
        {"*a", "repeats nothing"},
        {"a{1001}", "is no repetition of 0 to 1000"},
        {"a)", "closes no group"},
        {"(a", "an open group"},
        {"\\", "ends the pattern"},
        {"\\x{110000}", "is no code point"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtArena *memory = dt_arena_new();
        DtPattern pattern;
        const DtStatus status = dt_pattern_read(memory, cases[i].pattern, &pattern);
        cr_expect(!dt_status_ok(&status) && strstr(status.message, cases[i].said), "%s: %s",
                  cases[i].pattern, status.message);
        dt_arena_free(memory);
    }
}

Test(patterns, that_tell_too_many_characters_apart_are_refused)
{
    DtArena *memory = dt_arena_new();
    DtPattern pattern;
    DtAlphabet alphabet;
    DtText text = {0};
    for (uint32_t c = 0x4e00; c < 0x4e00 + 256; c++) {
        uint8_t bytes[DT_UTF8_MOST + 1] = {0};
        dt_utf8_write(c, bytes);
        dt_text_add(&text, (const char *)bytes);
    }
    DtStatus status = dt_pattern_read(memory, text.at, &pattern);
    cr_assert(dt_status_ok(&status));
    status = dt_pattern_alphabet(memory, &pattern, &alphabet);
    cr_assert(!dt_status_ok(&status) && strstr(status.message, "more than 256 kinds"));
    dt_text_free(&text);
    dt_arena_free(memory);
}

/* ---- merges ---- */

Test(bpe, long_and_short_pieces_are_merged_as_plainly)
{
    enum { TOKENS = 60, LONGEST = 700 };
    DtArena *memory = dt_arena_new();
    DtBpe bpe = {0};
    DtBpeWork *work = dt_bpe_work_new();
    dt_bpe_begin(memory, &bpe, TOKENS);
    for (uint32_t b = 0; b < 256; b++)
        bpe.of_byte[b] = b;
    srand(5);
    for (uint32_t i = 0; i < TOKENS; i++) { /* a merge of earlier tokens over a, b, c */
        uint32_t pair[2];
        for (int k = 0; k < 2; k++)
            pair[k] = i < 6 || rand() % 2 ? 'a' + (uint32_t)rand() % 3 : 300 + (uint32_t)rand() % i;
        if (!dt_bpe_find(&bpe, pair[0], pair[1]))
            dt_bpe_add(&bpe, pair[0], pair[1], (uint32_t)rand() % 3 * 100 + i, 300 + i);
    }
    for (int run = 0; run < 600; run++) {
        uint8_t piece[LONGEST];
        const size_t len = 1 + (size_t)rand() % (run % 2 ? 20 : LONGEST);
        DtIds fast = {0}, plain = {0};
        for (size_t i = 0; i < len; i++)
            piece[i] = (uint8_t)('a' + rand() % 3);
        dt_bpe_encode(&bpe, work, piece, len, &fast);
        dt_bpe_plain(&bpe, piece, len, &plain);
        cr_assert_eq(fast.n, plain.n);
        cr_assert_eq(memcmp(fast.at, plain.at, plain.n * 4), 0);
        free(fast.at);
        free(plain.at);
    }
    dt_bpe_work_free(work);
    dt_arena_free(memory);
}

/* ---- normalisation ---- */

Test(forms, composes_and_orders)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"e\u0301", "é"},
        {"e\u0323\u0302", "ệ"},
        {"e\u0302\u0323", "ệ"},
        {"\u1112\u1161\u11ab", "한"},
        {"하\u11ab", "한"},
        {"\u2126", "Ω"},
        {"\u0958", "\u0915\u093c"},
        {"a\u0301\u0327", "á\u0327"},
        {"\u0301a", "\u0301a"},
        {"Å", "Å"},
        {"plain", "plain"},
        {"\u0344", "\u0308\u0301"},
        {"\u1100\u1100\u1161", "\u1100가"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        uint8_t said[100];
        const size_t len = strlen(cases[i].text);
        const size_t n = dt_forms_write(DT_NFC, (const uint8_t *)cases[i].text, len, said);
        said[n] = 0;
        cr_expect_str_eq((const char *)said, cases[i].wanted);
        const bool same = strcmp(cases[i].text, cases[i].wanted) == 0;
        cr_expect(same || !dt_forms_is(DT_NFC, (const uint8_t *)cases[i].text, len), "%s",
                  cases[i].text);
    }
}

/* Text that is said to be in that form does not change, and it may be cut where it is said to. */
Test(forms, parts_make_the_whole)
{
    static const uint32_t points[] = {'a',    'e',    0x301,  0x323,  0x327, 0x1112, 0x1161, 0x11ab,
                                      0xac00, 0x915,  0x93c,  0xe9,   0xe40, 0xe49,  0x4e00, 0x1100,
                                      0xfb01, 0xff9e, 0xfdfa, 0x30ab, 0xa0,  0x1e9b};
    srand(9);
    for (int run = 0; run < 40000; run++) {
        const DtForm form = (DtForm)(run % DT_FORMS);
        uint8_t text[64], whole[800], parts[800];
        size_t len = 0;
        for (int i = rand() % 12; i >= 0; i--)
            len += dt_utf8_write(points[(size_t)rand() % DT_COUNT(points)], text + len);
        const size_t n = dt_forms_plain(form, text, len, whole);
        const size_t cut = dt_forms_cut(form, text, len);
        size_t m = dt_forms_write(form, text, cut, parts);
        m += dt_forms_write(form, text + cut, len - cut, parts + m);
        cr_assert(n == m && memcmp(whole, parts, n) == 0);
        cr_assert(!dt_forms_is(form, text, len) || (n == len && memcmp(whole, text, n) == 0));
    }
}

Test(forms, long_texts_are_those_of_the_plain_reference)
{
    enum { LEN = 3000 };
    static uint8_t text[LEN + 8], plain[11 * LEN + 99], parts[11 * LEN + 99];
    srand(11);
    for (int run = 0; run < 200; run++) {
        const DtForm form = (DtForm)(run % DT_FORMS);
        size_t len = 0;
        while (len < LEN) { /* runs of letters and of marks */
            const int marks = rand() % 4 == 0;
            for (int i = rand() % (marks ? 300 : 60); i >= 0 && len < LEN; i--)
                len += dt_utf8_write(
                    marks ? 0x300 + (uint32_t)rand() % 0x30 : 'a' + (uint32_t)i % 20, text + len);
        }
        const size_t n = dt_forms_plain(form, text, len, plain);
        cr_assert_eq(dt_forms_write(form, text, len, parts), n);
        cr_assert_eq(memcmp(plain, parts, n), 0);
    }
}

Test(forms, are_those_of_the_standard)
{
    static const struct {
        DtForm form;
        const char *text, *wanted;
    } cases[] = {
        {DT_NFD, "ệ한", "e\u0323\u0302\u1112\u1161\u11ab"},
        {DT_NFKC, "\ufb01\u00bd\uff76\uff9e", "fi1\u20442\u30ac"},
        {DT_NFKD, "\u1e9b\u0323", "s\u0323\u0307"},
        {DT_NFKC, "\u1e9b\u0323", "\u1e69"},
        {DT_NFC, "\ufb01\u1e9b\u0323", "\ufb01\u1e9b\u0323"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        uint8_t said[300];
        const size_t n = dt_forms_write(cases[i].form, (const uint8_t *)cases[i].text,
                                        strlen(cases[i].text), said);
        said[n] = 0;
        cr_expect_str_eq((const char *)said, cases[i].wanted, "case %zu", i);
    }
}

/* ---- maps of SentencePiece ---- */

static const char alphabet64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* A map of these units and texts in base64. size: what it says of the units' bytes. */
static const char *map_of(DtArena *memory, uint32_t size, const uint32_t *units, size_t n_units,
                          const char *texts, size_t n_texts)
{
    const size_t n = 4 + 4 * n_units + n_texts;
    uint8_t *bytes = dt_arena_alloc(memory, n + 3);
    for (size_t i = 0; i <= n_units; i++)
        for (int k = 0; k < 4; k++)
            bytes[4 * i + (size_t)k] = (uint8_t)((i ? units[i - 1] : size) >> 8 * k);
    memcpy(bytes + 4 + 4 * n_units, texts, n_texts);
    char *text = dt_arena_alloc(memory, (n + 2) / 3 * 4 + 1);
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t bits = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (size_t k = 0; k < 4; k++)
            text[i / 3 * 4 + k] = i + k > n ? '=' : alphabet64[bits >> (18 - 6 * k) & 63];
    }
    return text;
}

Test(precompiled, finds_the_shortest_text)
{
    DtArena *memory = dt_arena_new();
    uint32_t units[400] = {256 << 10}; /* a -> "x", ab -> "yz" */
    DtPrecompiled map;
    units[256 + 'a'] = (380 ^ (256 + 'a')) << 10 | 'a';
    units[380 ^ 'b'] = (200u ^ 380u ^ 'b') << 10 | 0x100 | 'b';
    units[200] = 2u | 1u << 31;
    const char *text = map_of(memory, sizeof units, units, 400, "x\0yz\0", 5);
    cr_assert_null(dt_precompiled_read(memory, text, &map));
    const DtTokenBytes found = dt_precompiled_find(&map, (const uint8_t *)"abc", 3);
    cr_assert(found.len == 2 && memcmp(found.at, "yz", 2) == 0);
    cr_assert_null(dt_precompiled_find(&map, (const uint8_t *)"ac", 2).at);
    cr_assert_null(dt_precompiled_find(&map, (const uint8_t *)"", 0).at);
    dt_arena_free(memory);
}

Test(precompiled, maps_that_are_damaged_are_refused_or_find_nothing)
{
    DtArena *memory = dt_arena_new();
    DtPrecompiled map;
    uint32_t units[2] = {1 << 10, 0};
    char *many = dt_arena_alloc(memory, 2000);
    memset(many, 'x', 2000);
    const struct {
        const char *text, *said;
    } bad[] = {
        {"A", "is not base64"},
        {"AA!A", "is not base64"},
        {"AAAA", "is cut short"},
        {"", "is cut short"},
        {map_of(memory, 4000, units, 2, "", 0), "is cut short"},
        {map_of(memory, 6, units, 2, "", 0), "is cut short"},
        {map_of(memory, 0xfffffff8, units, 2, "", 0), "is cut short"},
        {map_of(memory, 8, units, 2, "\xff", 1), "texts that are not UTF-8"},
        {map_of(memory, 8, units, 2, many, 2000), "more than 1024 bytes"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        const char *wrong = dt_precompiled_read(memory, bad[i].text, &map);
        cr_expect(wrong && strstr(wrong, bad[i].said), "%zu: %s", i, wrong ? wrong : "read");
    }
    srand(3);
    /* places outside, circles, texts outside and inside of letters */
    for (int run = 0; run < 60; run++) {
        uint32_t random[64];
        for (size_t i = 0; i < 64; i++)
            random[i] = (uint32_t)rand() << 8 ^ (uint32_t)rand() % 3 << 9 ^ (uint32_t)rand() % 512;
        cr_assert_null(dt_precompiled_read(
            memory, map_of(memory, sizeof random, random, 64, "é\0ab", 5), &map));
        for (int k = 0; k < 500; k++) {
            uint8_t text[8];
            for (size_t i = 0; i < 8; i++)
                text[i] = (uint8_t)rand();
            const DtTokenBytes found = dt_precompiled_find(&map, text, 8);
            cr_assert(!found.at ||
                      (found.at >= map.texts && found.at + found.len <= map.texts + 5));
        }
    }
    dt_arena_free(memory);
}

/* ---- vocabularies ---- */

Test(vocab, the_trie_has_what_the_table_has)
{
    enum { TOKENS = 4000 };
    DtArena *memory = dt_arena_new();
    DtTokenBytes *tokens = DT_NEW_ARRAY(memory, DtTokenBytes, TOKENS);
    DtVocab vocab;
    DtTrie trie;
    srand(4);
    for (int i = 0; i < TOKENS; i++) {
        const uint32_t len = 1 + (uint32_t)rand() % 6;
        uint8_t *text = dt_arena_alloc(memory, len);
        for (uint32_t k = 0; k < len; k++)
            text[k] = (uint8_t)(rand() % (k ? 4 : 250));
        if (rand() % 9)
            tokens[i] = (DtTokenBytes){text, len};
    }
    dt_vocab_begin(memory, tokens, TOKENS, &vocab);
    cr_assert(dt_trie_make(memory, &vocab, TOKENS, &trie));
    for (int i = 0; i < 100000; i++) {
        uint8_t text[6];
        uint32_t node = 0, len = 1 + (uint32_t)rand() % 6;
        for (uint32_t k = 0; k < len; k++)
            text[k] = (uint8_t)(rand() % (k ? 4 : 256));
        for (uint32_t k = 0; k < len && (node || !k); k++)
            node = dt_trie_step(&trie, node, text[k]);
        cr_assert_eq(node ? trie.token[node] : DT_NO_TOKEN, dt_vocab_find(&vocab, text, len));
    }
    dt_arena_free(memory);
}

/* ---- sets ---- */

Test(charset, has_the_code_points_of_its_names)
{
    static const struct {
        const char *name;
        uint32_t point;
        bool has;
    } cases[] = {{"L", 'a', true},
                 {"L", '1', false},
                 {"Lu", 'A', true},
                 {"Lu", 'a', false},
                 {"L", 0x4e2d, true},
                 {"N", 0x663, true},
                 {"Nl", 0x2167, true},
                 {"Cn", 0x378, true},
                 {"C", 0x378, true},
                 {"C", 0, true},
                 {"Han", 0x4e00, true},
                 {"Han", 'a', false},
                 {"Word", '_', true},
                 {"Word", '-', false},
                 {"White_Space", 0x85, true},
                 {"White_Space", 0x200b, false},
                 {"White_Space", 0x180e, false},
                 {"L", 0x323af, true}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtArena *memory = dt_arena_new();
        DtCharset set = {0};
        cr_assert(dt_charset_named(memory, cases[i].name, strlen(cases[i].name), &set));
        dt_charset_sort(&set);
        const DtCharset others = dt_charset_others(memory, &set);
        cr_expect_eq(dt_charset_has(&set, cases[i].point), cases[i].has, "%s %x", cases[i].name,
                     cases[i].point);
        cr_expect_neq(dt_charset_has(&others, cases[i].point), cases[i].has);
        dt_arena_free(memory);
    }
}
