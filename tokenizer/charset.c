/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/charset.h"

#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Row {
    char name[3];
    uint32_t first, last;
} Row;

enum {
    SPACE,
    WORD,
    HAN,
    HIRAGANA,
    KATAKANA,
    HANGUL,
    LATIN,
    CYRILLIC,
    GREEK,
    ARABIC,
    HEBREW,
    THAI,
    DEVANAGARI,
    STEP_WORD,
    STEP_PUNCTUATION,
    STEP_NUMBER,
    STEP_MARK,
    BERT_MARK,
    BERT_CONTROL,
    BERT_CHINESE,
    NMT_CONTROL,
    NMT_SPACE,
    GRAPHEME_EXTEND,
    GRAPHEME_PREPEND,
    GRAPHEME_CONTROL,
    GRAPHEME_PICTOGRAPH,
    GRAPHEME_CONSONANT,
    GRAPHEME_LINKER
};

typedef struct Member {
    int set;
    uint32_t first, last;
} Member;

static const Row categories[] = {
#define DT_CATEGORY(name, first, last) {#name, first, last},
#define DT_MEMBER(set, first, last)
#include "tokenizer/unicode.def"
};

static const Member members[] = {
#define DT_CATEGORY(name, first, last)
#define DT_MEMBER(set, first, last) {set, first, last},
#include "tokenizer/unicode.def"
};

typedef struct Name {
    const char *name;
    int set;
} Name;

static const Name names[] = {
    {"White_Space", SPACE},     {"Word", WORD},     {"Han", HAN},       {"Hiragana", HIRAGANA},
    {"Katakana", KATAKANA},     {"Hangul", HANGUL}, {"Latin", LATIN},   {"Cyrillic", CYRILLIC},
    {"Greek", GREEK},           {"Arabic", ARABIC}, {"Hebrew", HEBREW}, {"Thai", THAI},
    {"Devanagari", DEVANAGARI},
};

static const Name own_names[] = {
    {"Step_Word", STEP_WORD},
    {"Step_Punctuation", STEP_PUNCTUATION},
    {"Step_Number", STEP_NUMBER},
    {"Step_Mark", STEP_MARK},
    {"Bert_Mark", BERT_MARK},
    {"Bert_Control", BERT_CONTROL},
    {"Bert_Chinese", BERT_CHINESE},
    {"Nmt_Control", NMT_CONTROL},
    {"Nmt_Space", NMT_SPACE},
    {"Grapheme_Extend", GRAPHEME_EXTEND},
    {"Grapheme_Prepend", GRAPHEME_PREPEND},
    {"Grapheme_Control", GRAPHEME_CONTROL},
    {"Grapheme_Pictograph", GRAPHEME_PICTOGRAPH},
    {"Grapheme_Consonant", GRAPHEME_CONSONANT},
    {"Grapheme_Linker", GRAPHEME_LINKER},
};

void dt_charset_add(DtArena *memory, DtCharset *set, uint32_t first, uint32_t last)
{
    DT_PUSH(memory, *set, ((DtCharRange){first, last}));
}

void dt_charset_join(DtArena *memory, DtCharset *set, const DtCharset *other)
{
    for (uint32_t i = 0; i < other->n; i++)
        dt_charset_add(memory, set, other->at[i].first, other->at[i].last);
}

static int by_first(const void *a, const void *b)
{
    const DtCharRange *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

void dt_charset_sort(DtCharset *set)
{
    uint32_t n = 0;
    if (set->n > 1)
        qsort(set->at, set->n, sizeof set->at[0], by_first);
    for (uint32_t i = 0; i < set->n; i++) {
        const DtCharRange range = set->at[i];
        if (n > 0 && range.first <= set->at[n - 1].last + 1)
            set->at[n - 1].last =
                range.last > set->at[n - 1].last ? range.last : set->at[n - 1].last;
        else
            set->at[n++] = range;
    }
    set->n = n;
}

DtCharset dt_charset_others(DtArena *memory, const DtCharset *set)
{
    DtCharset others = {0};
    uint32_t next = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->at[i].first > next)
            dt_charset_add(memory, &others, next, set->at[i].first - 1);
        next = set->at[i].last + 1;
    }
    if (next < DT_UTF8_POINTS)
        dt_charset_add(memory, &others, next, DT_UTF8_POINTS - 1);
    return others;
}

bool dt_charset_equal(const DtCharset *a, const DtCharset *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n * sizeof a->at[0]) == 0);
}

bool dt_charset_has(const DtCharset *set, uint32_t point)
{
    uint32_t lo = 0, hi = set->n;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (set->at[middle].last < point)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < set->n && set->at[lo].first <= point;
}

/* Whether the code points of no row, which have category Cn (or Cs), belong to the name. */
static bool has_unassigned(const char *name, size_t len)
{
    return name[0] == 'C' && (len == 1 || name[1] == 'n' || name[1] == 's');
}

static bool add_category(DtArena *memory, const char *name, size_t len, DtCharset *set)
{
    bool known = false;
    DtCharset assigned = {0};
    for (size_t i = 0; i < DT_COUNT(categories); i++) {
        const Row *row = &categories[i];
        dt_charset_add(memory, &assigned, row->first, row->last);
        if (strncmp(row->name, name, len) != 0)
            continue;
        known = true;
        dt_charset_add(memory, set, row->first, row->last);
    }
    if (has_unassigned(name, len)) {
        dt_charset_sort(&assigned);
        const DtCharset rest = dt_charset_others(memory, &assigned);
        dt_charset_join(memory, set, &rest);
        known = true;
    }
    return known;
}

/* Adds the set that the table calls so. */
static bool add_set(DtArena *memory, const Name *table, size_t n, const char *name, size_t len,
                    DtCharset *set)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(table[i].name) != len || memcmp(table[i].name, name, len) != 0)
            continue;
        for (size_t k = 0; k < DT_COUNT(members); k++)
            if (members[k].set == table[i].set)
                dt_charset_add(memory, set, members[k].first, members[k].last);
        return true;
    }
    return false;
}

bool dt_charset_named(DtArena *memory, const char *name, size_t len, DtCharset *set)
{
    if (len == 1 || len == 2)
        return !(len == 2 && name[0] == 'C' && name[1] == 's') &&
               add_category(memory, name, len, set);
    return add_set(memory, names, DT_COUNT(names), name, len, set);
}

bool dt_charset_own(DtArena *memory, const char *name, size_t len, DtCharset *set)
{
    return add_set(memory, own_names, DT_COUNT(own_names), name, len, set);
}
