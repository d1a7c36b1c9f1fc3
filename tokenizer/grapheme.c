/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/grapheme.h"

#include <stdbool.h>
#include <string.h>

typedef enum Class {
    OTHER,
    CONTROL,
    EXTEND,
    JOINER, /* U+200D */
    PREPEND,
    PICTOGRAPH,
    CONSONANT, /* of scripts that join them */
    LINKER,
    HANGUL_L,
    HANGUL_V,
    HANGUL_T,
    HANGUL_LV,
    HANGUL_LVT
} Class;

struct DtGraphemes {
    DtPoints classes;
};

static const struct {
    const char *set;
    Class class;
} sets[] = {
    {"Grapheme_Extend", EXTEND},       {"Grapheme_Prepend", PREPEND},
    {"Grapheme_Control", CONTROL},     {"Grapheme_Pictograph", PICTOGRAPH},
    {"Grapheme_Consonant", CONSONANT}, {"Grapheme_Linker", LINKER},
};

/* Letters of Hangul, and its syllables, of which each 28th has no third letter. */
static const struct {
    uint32_t first, last;
    Class class;
} hangul[] = {
    {0x1100, 0x115f, HANGUL_L},   {0xa960, 0xa97c, HANGUL_L}, {0x1160, 0x11a7, HANGUL_V},
    {0xd7b0, 0xd7c6, HANGUL_V},   {0x11a8, 0x11ff, HANGUL_T}, {0xd7cb, 0xd7fb, HANGUL_T},
    {0xac00, 0xd7a3, HANGUL_LVT},
};

DtGraphemes *dt_grapheme_classes(DtArena *memory)
{
    DtGraphemes *graphemes = DT_NEW(memory, DtGraphemes);
    for (size_t i = 0; i < DT_COUNT(sets); i++) {
        DtCharset set = {0};
        dt_charset_own(memory, sets[i].set, strlen(sets[i].set), &set);
        dt_points_fill(memory, &graphemes->classes, &set, sets[i].class);
    }
    for (size_t i = 0; i < DT_COUNT(hangul); i++)
        for (uint32_t c = hangul[i].first; c <= hangul[i].last; c++)
            dt_points_set(memory, &graphemes->classes, c, hangul[i].class);
    for (uint32_t c = 0xac00; c <= 0xd7a3; c += 28)
        dt_points_set(memory, &graphemes->classes, c, HANGUL_LV);
    dt_points_set(memory, &graphemes->classes, 0x200d, JOINER);
    return graphemes;
}

/* What of a grapheme decides how it goes on. */
typedef struct State {
    Class last;
    bool pictograph; /* a pictograph, and since then marks alone */
    bool consonant;  /* the same of a consonant */
    bool linked;     /* one of these marks is a linker */
} State;

static void step(State *s, Class class)
{
    const bool is_mark = class == EXTEND || class == JOINER || class == LINKER;
    s->last = class;
    s->pictograph = class == PICTOGRAPH || (s->pictograph && is_mark);
    s->linked = (s->linked && is_mark) || class == LINKER;
    s->consonant = class == CONSONANT || (s->consonant && is_mark);
    s->linked &= s->consonant;
}

/* Rules GB5 to GB11: whether a code point of the class belongs to the grapheme. */
static bool goes_on(const State *s, Class class)
{
    if (s->last == CONTROL || class == CONTROL)
        return false;
    if (class == EXTEND || class == JOINER || class == LINKER || s->last == PREPEND)
        return true;
    switch (class) {
    case HANGUL_L:
    case HANGUL_LV:
    case HANGUL_LVT: return s->last == HANGUL_L;
    case HANGUL_V: return s->last == HANGUL_L || s->last == HANGUL_V || s->last == HANGUL_LV;
    case HANGUL_T:
        return s->last == HANGUL_V || s->last == HANGUL_T || s->last == HANGUL_LV ||
               s->last == HANGUL_LVT;
    case PICTOGRAPH: return s->pictograph && s->last == JOINER;
    case CONSONANT: return s->consonant && s->linked;
    default: return false;
    }
}

size_t dt_grapheme_end(const DtGraphemes *graphemes, const uint8_t *text, size_t len, size_t at)
{
    State state = {OTHER, false, false, false};
    if (text[at] == '\r') /* GB3 */
        return at + 1 < len && text[at + 1] == '\n' ? at + 2 : at + 1;
    step(&state, (Class)dt_points_at(&graphemes->classes, dt_utf8_point(text + at)));
    for (at += dt_utf8_step(text[at]); at < len; at += dt_utf8_step(text[at])) {
        const Class class = (Class)dt_points_at(&graphemes->classes, dt_utf8_point(text + at));
        if (!goes_on(&state, class))
            break;
        step(&state, class);
    }
    return at;
}
