/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the syntax. One pass: syntax that Oniguruma and PCRE2 share is copied, everything that
 * matches a code point becomes a set. */
#include "tokenizer/pattern.h"

#include "tokenizer/utf8.h"

#include <string.h>

enum { MAX_DEPTH = 200, MAX_PATTERN = 4096, MAX_REPEAT = 1000, NO_LETTER = 0 };

typedef struct Reader {
    DtArena *memory;
    DtPattern *pattern;
    const char *text, *at, *begin; /* begin: of what is read now, for messages */
    bool caseless[MAX_DEPTH + 1];  /* of each open group */
    uint32_t depth;
    bool repeatable; /* the last item may be repeated */
    char letter;     /* the last item, if it is an ASCII letter that was read caseless */
    bool at_begin;   /* nothing was read in this group */
    bool own;        /* sets that steps have of their own have names, too */
    DtStatus status;
} Reader;

static bool refuse(Reader *r, const char *why)
{
    const int len = (int)(r->at > r->begin ? r->at - r->begin : 1);
    if (dt_status_ok(&r->status))
        r->status =
            dt_status_fail(DT_EXIT_IO, "the pattern `%.200s` cannot be used: `%.*s` (byte %td) %s",
                           r->text, len > 40 ? 40 : len, r->begin, r->begin - r->text, why);
    return false;
}

/* ---- what is written ---- */

static void add_text(Reader *r, const char *text)
{
    DT_PUSH(r->memory, r->pattern->items, ((DtPatternItem){.text = text}));
}

static bool add_set(Reader *r, DtCharset *set)
{
    uint32_t i = 0;
    dt_charset_sort(set);
    while (i < r->pattern->sets.n && !dt_charset_equal(&r->pattern->sets.at[i], set))
        i++;
    if (i == DT_PATTERN_SETS)
        return refuse(r, "is one class too many: 256 can be told apart");
    if (i == r->pattern->sets.n)
        DT_PUSH(r->memory, r->pattern->sets, *set);
    DT_PUSH(r->memory, r->pattern->items, ((DtPatternItem){.set = i}));
    r->repeatable = true;
    r->letter = NO_LETTER;
    r->at_begin = false;
    return true;
}

/* `(?!set)`: no code point of the set follows. */
static bool add_not_before(Reader *r, DtCharset *set)
{
    add_text(r, "(?!");
    if (!add_set(r, set))
        return false;
    add_text(r, ")");
    r->repeatable = false;
    return true;
}

static DtCharset all_points(Reader *r)
{
    DtCharset all = {0};
    dt_charset_add(r->memory, &all, 0, DT_UTF8_POINTS - 1);
    return all;
}

static DtCharset not_newline(Reader *r)
{
    DtCharset newline = {0};
    dt_charset_add(r->memory, &newline, '\n', '\n');
    return dt_charset_others(r->memory, &newline);
}

/* ---- letters of both cases ---- */

static bool is_letter(uint32_t point)
{
    return (point | 0x20) >= 'a' && (point | 0x20) <= 'z' && point < 0x80;
}

/* Adds a range; where case does not count, also the other case of its letters: those of ASCII, the
 * long s and the sign of kelvin. Other letters, and pairs that one character may stand for (`ss`),
 * are refused there. */
static bool add_range(Reader *r, DtCharset *set, uint32_t first, uint32_t last)
{
    dt_charset_add(r->memory, set, first, last);
    if (!r->caseless[r->depth])
        return true;
    if (last >= 0x80)
        return refuse(r, "where case does not count (?i): only ASCII is supported there");
    for (uint32_t c = first; c <= last; c++) {
        if (!is_letter(c))
            continue;
        dt_charset_add(r->memory, set, c ^ 0x20, c ^ 0x20);
        if ((c | 0x20) == 'k')
            dt_charset_add(r->memory, set, 0x212a, 0x212a);
        if ((c | 0x20) == 's')
            dt_charset_add(r->memory, set, 0x17f, 0x17f);
    }
    return true;
}

static bool add_point(Reader *r, uint32_t point)
{
    static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st"};
    DtCharset set = {0};
    const char before = r->letter;
    if (!add_range(r, &set, point, point) || !add_set(r, &set))
        return false;
    if (!r->caseless[r->depth] || !is_letter(point))
        return true;
    r->letter = (char)(point | 0x20);
    for (size_t i = 0; i < DT_COUNT(pairs); i++)
        if (before == pairs[i][0] && r->letter == pairs[i][1])
            return refuse(r, "ends a pair of letters that one character may stand for where case "
                             "does not count (?i)");
    return true;
}

/* ---- escapes ---- */

static uint32_t take_point(Reader *r)
{
    const uint8_t *at = (const uint8_t *)r->at;
    r->at += dt_utf8_step(*at);
    return dt_utf8_point(at);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads \xHH, \x{H...} or \uHHHH after its letter. */
static bool take_number(Reader *r, char letter, uint32_t *ret_point)
{
    const bool braces = letter == 'x' && *r->at == '{';
    const int most = braces ? 6 : letter == 'x' ? 2 : 4;
    int n = 0;
    *ret_point = 0;
    r->at += braces;
    for (; n < most && digit_of(*r->at) >= 0; n++)
        *ret_point = *ret_point * 16 + (uint32_t)digit_of(*r->at++);
    const bool whole = braces ? n > 0 && *r->at == '}' : n == most;
    if (!whole || *ret_point >= DT_UTF8_POINTS || (letter == 'x' && !braces && *ret_point > 0x7f))
        return refuse(r, "is no code point");
    r->at += braces;
    return true;
}

/* Reads \p{Name}, \p{^Name}, \P{Name} after its letter. */
static bool take_property(Reader *r, bool negated, DtCharset *ret_set)
{
    const char *close = *r->at == '{' ? strchr(r->at, '}') : NULL;
    if (!close)
        return refuse(r, "is no property: write \\p{Name}");
    const char *name = r->at + 1;
    if (*name == '^') {
        negated = !negated;
        name++;
    }
    r->at = close + 1;
    const size_t len = (size_t)(close - name);
    if (!(r->own && dt_charset_own(r->memory, name, len, ret_set)) &&
        !dt_charset_named(r->memory, name, len, ret_set))
        return refuse(r, "is a property that is not supported");
    if (r->caseless[r->depth])
        return refuse(r, "is a property where case does not count (?i), which is not supported");
    dt_charset_sort(ret_set);
    if (negated)
        *ret_set = dt_charset_others(r->memory, ret_set);
    return true;
}

/* Reads an escape that stands for code points, after its backslash. *ret_set stays empty if it
 * stands for *ret_point. */
static bool take_escape(Reader *r, DtCharset *ret_set, uint32_t *ret_point)
{
    static const char letters[] = "rntfvae", points[] = "\r\n\t\f\v\a\x1b";
    static const struct {
        char letter;
        const char *name;
    } classes[] = {{'s', "White_Space"}, {'d', "Nd"}, {'w', "Word"}};
    const char c = *r->at;
    if (c == 0)
        return refuse(r, "ends the pattern");
    if ((unsigned char)c >= 0x80 || !(is_letter((unsigned char)c) || (c >= '0' && c <= '9'))) {
        *ret_point = take_point(r);
        return true;
    }
    r->at++;
    if (strchr(letters, c)) {
        *ret_point = (unsigned char)points[strchr(letters, c) - letters];
        return true;
    }
    if (c == 'x' || c == 'u')
        return take_number(r, c, ret_point);
    if (c == 'p' || c == 'P')
        return take_property(r, c == 'P', ret_set);
    for (size_t i = 0; i < DT_COUNT(classes); i++) {
        if ((c | 0x20) != classes[i].letter)
            continue;
        dt_charset_named(r->memory, classes[i].name, strlen(classes[i].name), ret_set);
        dt_charset_sort(ret_set);
        if (c < 'a')
            *ret_set = dt_charset_others(r->memory, ret_set);
        return true;
    }
    return refuse(r, "is not supported");
}

/* An escape outside of [ ]. */
static bool read_escape(Reader *r)
{
    DtCharset set = {0};
    uint32_t point = 0;
    if (*r->at == 'z') {
        r->at++;
        set = all_points(r);
        return add_not_before(r, &set);
    }
    if (!take_escape(r, &set, &point))
        return false;
    return set.n ? add_set(r, &set) : add_point(r, point);
}

/* ---- [ ] ---- */

/* Reads one code point or escape in a class. */
static bool take_member(Reader *r, DtCharset *ret_set, uint32_t *ret_point)
{
    if (*r->at == '\\') {
        r->at++;
        return take_escape(r, ret_set, ret_point);
    }
    if (*r->at == '[')
        return refuse(r, "has a class in a class, which is not supported: write \\[ for `[`");
    if (r->at[0] == '&' && r->at[1] == '&')
        return refuse(r, "has `&&` in a class, which is not supported");
    *ret_point = take_point(r);
    return true;
}

static bool read_member(Reader *r, DtCharset *set)
{
    DtCharset members = {0}, end = {0};
    uint32_t first = 0, last;
    if (!take_member(r, &members, &first))
        return false;
    if (members.n) {
        dt_charset_join(r->memory, set, &members);
        return true;
    }
    last = first;
    if (r->at[0] == '-' && r->at[1] != ']' && r->at[1] != 0) {
        r->at++;
        if (!take_member(r, &end, &last))
            return false;
        if (end.n || last < first)
            return refuse(r, "has a range that is none");
    }
    return add_range(r, set, first, last);
}

static bool read_class(Reader *r)
{
    DtCharset set = {0};
    const bool negated = *r->at == '^';
    r->at += negated;
    if (*r->at == ']')
        return refuse(r, "is an empty class: write \\] for `]`");
    while (*r->at != ']') {
        if (*r->at == 0)
            return refuse(r, "is a class without an end");
        if (!read_member(r, &set))
            return false;
    }
    r->at++;
    dt_charset_sort(&set);
    if (negated)
        set = dt_charset_others(r->memory, &set);
    return add_set(r, &set);
}

/* ---- groups and repetition ---- */

static bool open_group(Reader *r, size_t skip, const char *written, bool caseless)
{
    r->at += skip;
    if (r->depth == MAX_DEPTH)
        return refuse(r, "is nested too deeply");
    r->caseless[++r->depth] = caseless;
    add_text(r, written);
    r->repeatable = false;
    r->letter = NO_LETTER;
    r->at_begin = true;
    return true;
}

static bool read_open(Reader *r)
{
    static const char *const plain[] = {"?:", "?=", "?!", "?>"};
    static const char *const written[] = {"(?:", "(?=", "(?!", "(?>"};
    const bool caseless = r->caseless[r->depth];
    for (size_t i = 0; i < DT_COUNT(plain); i++)
        if (strncmp(r->at, plain[i], 2) == 0)
            return open_group(r, 2, written[i], caseless);
    if (strncmp(r->at, "?i:", 3) == 0)
        return open_group(r, 3, "(?:", true);
    if (strncmp(r->at, "?-i:", 4) == 0)
        return open_group(r, 4, "(?:", false);
    if (strncmp(r->at, "?i)", 3) == 0 && r->at_begin) {
        r->at += 3;
        r->caseless[r->depth] = true;
        return true;
    }
    r->at += *r->at == '?' && r->at[1] ? 2 : 0;
    if (r->begin[1] == '?')
        return refuse(r, "is not supported: there are (?:...), (?=...), (?!...), (?>...) and "
                         "(?i:...)");
    return open_group(r, 0, "(?:", caseless);
}

static bool read_close(Reader *r)
{
    if (r->depth == 0)
        return refuse(r, "closes no group");
    r->depth--;
    add_text(r, ")");
    r->repeatable = true;
    r->letter = NO_LETTER;
    r->at_begin = false;
    return true;
}

/* Adds a repetition, `?` after it if it is reluctant, or `+` if it is possessive. */
static bool repeat(Reader *r, const char *written, bool counted, bool exact)
{
    if (!r->repeatable)
        return refuse(r, "repeats nothing");
    const bool reluctant = *r->at == '?', possessive = *r->at == '+';
    r->at += reluctant || possessive;
    if ((counted && possessive) || (exact && reluctant))
        return refuse(r, "is not supported: Oniguruma means something else by it than others");
    add_text(r, dt_arena_printf(r->memory, "%s%s", written,
                                reluctant    ? "?"
                                : possessive ? "+"
                                             : ""));
    r->repeatable = false;
    r->letter = NO_LETTER;
    return true;
}

static const char *take_count(const char *at, int *ret_count)
{
    *ret_count = -1;
    for (; *at >= '0' && *at <= '9'; at++)
        if (*ret_count <= MAX_REPEAT)
            *ret_count = (*ret_count < 0 ? 0 : *ret_count) * 10 + (*at - '0');
    return at;
}

/* Reads {n}, {n,}, {,m}, {n,m}; a brace that begins none of these stands for itself. */
static bool read_brace(Reader *r)
{
    int least, most;
    const char *at = take_count(r->at, &least);
    const bool exact = *at == '}';
    most = least;
    if (*at == ',')
        at = take_count(at + 1, &most);
    if (*at != '}' || (least < 0 && most < 0))
        return add_point(r, '{');
    r->at = at + 1;
    if (least > MAX_REPEAT || most > MAX_REPEAT || (most >= 0 && least > most))
        return refuse(r, "is no repetition of 0 to 1000 times");
    const char *end = most < 0 ? "" : dt_arena_printf(r->memory, "%d", most);
    return repeat(r, dt_arena_printf(r->memory, "{%d,%s}", least < 0 ? 0 : least, end), true,
                  exact);
}

static bool read_one(Reader *r)
{
    DtCharset set;
    r->begin = r->at;
    const char c = *r->at;
    if ((unsigned char)c >= 0x80)
        return add_point(r, take_point(r));
    r->at++;
    switch (c) {
    case '\\': return read_escape(r);
    case '[': return read_class(r);
    case '(': return read_open(r);
    case ')': return read_close(r);
    case '*': return repeat(r, "*", false, false);
    case '+': return repeat(r, "+", false, false);
    case '?': return repeat(r, "?", false, false);
    case '{': return read_brace(r);
    case '^': return refuse(r, "is not supported: it depends on what is before a match");
    case '.': set = not_newline(r); return add_set(r, &set);
    case '$': set = not_newline(r); return add_not_before(r, &set);
    case '|':
        add_text(r, "|");
        r->repeatable = r->at_begin = false;
        r->letter = NO_LETTER;
        return true;
    default: return add_point(r, (unsigned char)c);
    }
}

static DtStatus read_pattern(DtArena *memory, const char *text, bool own, DtPattern *ret_pattern)
{
    *ret_pattern = (DtPattern){.written = text};
    Reader r = {.memory = memory,
                .pattern = ret_pattern,
                .text = text,
                .at = text,
                .begin = text,
                .at_begin = true,
                .own = own,
                .status = DT_OK};
    if (strlen(text) > MAX_PATTERN)
        return dt_status_fail(DT_EXIT_IO, "a pattern has %zu bytes; %d can be read", strlen(text),
                              MAX_PATTERN);
    while (*r.at && read_one(&r)) {}
    if (dt_status_ok(&r.status) && r.depth > 0)
        refuse(&r, "ends a pattern with an open group");
    return r.status;
}

DtStatus dt_pattern_read(DtArena *memory, const char *text, DtPattern *ret_pattern)
{
    return read_pattern(memory, text, false, ret_pattern);
}

DtStatus dt_pattern_own(DtArena *memory, const char *text, DtPattern *ret_pattern)
{
    return read_pattern(memory, text, true, ret_pattern);
}

DtStatus dt_pattern_literal(DtArena *memory, const char *text, DtPattern *ret_pattern)
{
    *ret_pattern = (DtPattern){.written = text};
    Reader r = {.memory = memory,
                .pattern = ret_pattern,
                .text = text,
                .at = text,
                .begin = text,
                .status = DT_OK};
    if (strlen(text) > MAX_PATTERN || !*text)
        return dt_status_fail(DT_EXIT_IO, "a text to split by has %zu bytes; 1 to %d can be read",
                              strlen(text), MAX_PATTERN);
    while (*r.at && add_point(&r, take_point(&r))) {}
    return r.status;
}

/* ---- patterns of patterns ---- */

DtStatus dt_pattern_wrap(DtArena *memory, const char *form, DtPattern *pattern)
{
    const DtPattern inner = *pattern;
    Reader r = {.memory = memory,
                .pattern = pattern,
                .text = inner.written,
                .at = inner.written,
                .begin = inner.written,
                .status = DT_OK};
    DtCharset any = all_points(&r);
    pattern->items.at = NULL;
    pattern->items.n = pattern->items.cap = 0;
    for (; *form && dt_status_ok(&r.status); form++) {
        if (*form == '.') {
            add_set(&r, &any);
        } else if (*form != '%') {
            add_text(&r, dt_arena_strndup(memory, form, 1));
        } else {
            add_text(&r, "(?>");
            for (uint32_t i = 0; i < inner.items.n; i++)
                DT_PUSH(memory, pattern->items, inner.items.at[i]);
            add_text(&r, ")");
        }
    }
    return r.status;
}

void dt_pattern_same(DtArena *memory, uint32_t point, uint32_t as, DtPattern *pattern)
{
    for (uint32_t i = 0; i < pattern->sets.n; i++) {
        DtCharset *set = &pattern->sets.at[i], one = {0};
        const bool wanted = dt_charset_has(set, as);
        if (dt_charset_has(set, point) == wanted)
            continue;
        dt_charset_add(memory, &one, point, point);
        DtCharset others = wanted ? *set : dt_charset_others(memory, set);
        dt_charset_join(memory, &one, &others);
        dt_charset_sort(&one);
        *set = wanted ? one : dt_charset_others(memory, &one);
    }
}
