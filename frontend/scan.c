/* SPDX-License-Identifier: Apache-2.0 */
/* Source text to raw tokens: drives the generated lexer, gives words their values, and reports
 * texts that are no words of the language. A faulty word stays in the stream as the token that was
 * probably meant, or as DT_TOK_BAD with `reported` set, so that the parser does not report the same
 * place again. */
#include "frontend/syntax.h"

#include "base/intern.h"
#include "dsl_parser.h"
#include "frontend/lexer.h"

#include "dsl_lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Scan {
    DtArena *arena;
    DtDiags *diags;
    uint32_t file;
    const char *source;
    size_t len;
    DtTokens tokens;
} Scan;

static DtSpan span_of(const Scan *s, size_t lo, size_t hi)
{
    return (DtSpan){s->file, (uint32_t)lo, (uint32_t)hi};
}

/* Returns the number of bytes of the UTF-8 character at text; 0 if it is not valid (overlong,
 * surrogate, cut off). */
static size_t utf8_length(const unsigned char *text, size_t left)
{
    unsigned char c = text[0];
    if (c < 0x80)
        return 1;
    size_t n = c >= 0xC2 && c <= 0xDF ? 2 : (c & 0xF0) == 0xE0 ? 3 : c >= 0xF0 && c <= 0xF4 ? 4 : 0;
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    unsigned char next = text[1];
    if ((c == 0xE0 && next < 0xA0) || (c == 0xED && next > 0x9F) || (c == 0xF0 && next < 0x90) ||
        (c == 0xF4 && next > 0x8F))
        return 0;
    return n;
}

/* Reports the first NUL byte and the first invalid UTF-8 character of the file, in comments, too.
 * False if there are NUL bytes, since what follows one is rarely text. */
static bool check_bytes(const Scan *s)
{
    const unsigned char *text = (const unsigned char *)s->source;
    size_t n_nul = 0, n_bad = 0, first_nul = 0, first_bad = 0, end_bad = 0;
    for (size_t i = 0; i < s->len;) {
        size_t n = utf8_length(text + i, s->len - i);
        if (text[i] == 0 && n_nul++ == 0)
            first_nul = i;
        if (n == 0 && n_bad++ == 0)
            first_bad = i;
        if (n == 0 && i == first_bad + n_bad - 1)
            end_bad = i + 1;
        i += n ? n : 1;
    }
    if (n_nul) {
        DtDiag *d = dt_diag_report(s->diags, E0102, span_of(s, first_nul, first_nul + 1),
                                   "NUL byte in the source");
        if (n_nul > 1)
            dt_diag_note(d, "the file has %zu of them; nothing else was checked", n_nul);
        dt_diag_help(d, "a program is UTF-8 text; was the file damaged, or is it UTF-16?");
    } else if (n_bad) {
        DtDiag *d = dt_diag_report(s->diags, E0103, span_of(s, first_bad, end_bad),
                                   "these bytes are not valid UTF-8 (the first is 0x%02X)",
                                   text[first_bad]);
        if (n_bad > end_bad - first_bad)
            dt_diag_note(d, "%zu more such bytes follow", n_bad - (end_bad - first_bad));
        dt_diag_help(d, "save the file as UTF-8");
    }
    return n_nul == 0;
}

/* Copies the characters of a number, without `_`, to buf and returns it; NULL after a report if
 * there are too many. */
static const char *digits_of(const Scan *s, DtSpan span, char buf[DT_MAX_NUMBER + 1])
{
    size_t n = 0;
    if (span.hi - span.lo > DT_MAX_NUMBER) {
        DtDiag *d = dt_diag_report(s->diags, E0116, span, "this number has %u characters",
                                   span.hi - span.lo);
        dt_diag_note(d, "a number has at most %d", DT_MAX_NUMBER);
        return NULL;
    }
    for (uint32_t i = span.lo; i < span.hi; i++)
        if (s->source[i] != '_')
            buf[n++] = s->source[i];
    buf[n] = 0;
    return buf;
}

static int64_t read_integer(const Scan *s, DtSpan span)
{
    char buf[DT_MAX_NUMBER + 1];
    const char *digits = digits_of(s, span, buf);
    if (!digits)
        return INT64_MAX;
    errno = 0;
    long long value = strtoll(digits, NULL, 10);
    if (errno == ERANGE) {
        DtDiag *d = dt_diag_report(s->diags, E0104, span, "this integer does not fit in 64 bits");
        dt_diag_note(d, "the largest is 9_223_372_036_854_775_807");
        dt_diag_help(d, "write it as a float, such as 1e30, if a float is meant");
    }
    return value;
}

static double read_float(const Scan *s, DtSpan span)
{
    char buf[DT_MAX_NUMBER + 1];
    const char *digits = digits_of(s, span, buf);
    if (!digits)
        return 0;
    double value = strtod(digits, NULL);
    if (value > 1.7976931348623157e308) {
        DtDiag *d =
            dt_diag_report(s->diags, E0104, span, "this number is larger than any 64-bit float");
        dt_diag_help(d, "write `inf` if infinity is meant");
    }
    return value;
}

/* clang-format off */
static const char *const units[] = {
    "B",    "KB",   "MB",   "GB",   "TB",     "KiB",     "MiB",     "GiB",     "TiB",    "B/s",
    "KB/s", "MB/s", "GB/s", "TB/s", "KiB/s",  "MiB/s",   "GiB/s",   "TiB/s",   "s",      "ms",
    "us",   "ns",   "W",    "kW",   "FLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "FLOP",   "GFLOP",
    "TFLOP", "PFLOP"};
/* clang-format on */

static const char *find_unit(const char *text, size_t len)
{
    for (size_t i = 0; i < DT_COUNT(units); i++)
        if (strlen(units[i]) == len && !memcmp(units[i], text, len))
            return dt_intern(units[i]);
    return NULL;
}

/* Returns the place in a quantity, as `3GB`, at which the number ends and the unit begins. */
static uint32_t unit_start(const Scan *s, DtSpan span)
{
    uint32_t i = span.lo;
    while (i < span.hi && strchr("0123456789_.", s->source[i]))
        i++;
    if (i + 1 < span.hi && (s->source[i] | 32) == 'e') { /* an exponent only if digits follow */
        uint32_t j = i + 1;
        j += s->source[j] == '+' || s->source[j] == '-';
        if (j < span.hi && s->source[j] >= '0' && s->source[j] <= '9') {
            while (j < span.hi && strchr("0123456789_", s->source[j]))
                j++;
            return j;
        }
    }
    return i;
}

static void report_unit(const Scan *s, DtSpan number, DtSpan unit)
{
    const char *text = s->source + unit.lo;
    int len = unit.hi - unit.lo > 40 ? 40 : (int)(unit.hi - unit.lo);
    if (number.hi - number.lo == 1 && s->source[number.lo] == '0' && len &&
        strchr("xXbBoO", text[0])) {
        DtSpan both = span_of(s, number.lo, unit.hi);
        DtDiag *d = dt_diag_report(s->diags, E0104, both, "integers are written in decimal only");
        dt_diag_help(d, "write the decimal value");
    } else if (len == 1 && (text[0] | 32) == 'e') {
        DtDiag *d = dt_diag_report(s->diags, E0104, span_of(s, number.lo, unit.hi),
                                   "an exponent needs digits");
        dt_diag_help(d, "as in `1e-5`");
    } else {
        char *name = dt_arena_strndup(s->arena, text, (size_t)len);
        DtDiag *d = dt_diag_report(s->diags, E0105, unit, "`%s` is not a unit", name);
        const char *near = len > 1 ? dt_text_nearest(name, units, DT_COUNT(units)) : NULL;
        if (near)
            dt_diag_fix(d, unit, near, "did you mean `%s`?", near);
        dt_diag_note(
            d, "units are B KB MB GB TB KiB MiB GiB TiB (also per second: GB/s), s ms us ns, W kW, "
               "FLOP GFLOP TFLOP PFLOP (also per second)");
        if (!near)
            dt_diag_note(d, "a name cannot begin with a digit");
    }
}

/* Reads a quantity such as `3GB` into the token's number and unit; the unit is checked later, since
 * `/s` may follow. */
static void read_quantity(const Scan *s, DtToken *token)
{
    uint32_t split = unit_start(s, token->span);
    token->number = read_float(s, span_of(s, token->span.lo, split));
    token->text = dt_intern_n(s->source + split, token->span.hi - split);
    token->text_len = token->span.hi - split;
}

/* Merges `450GB` `/` `s`, written without spaces, into one quantity as soon as the last of these
 * tokens is known. */
static void finish_quantity(Scan *s)
{
    uint32_t n = s->tokens.n;
    DtToken *t = s->tokens.at;
    if (n >= 3 && t[n - 3].kind == DT_TOK_QUANTITY && t[n - 2].kind == DT_TOK_SLASH &&
        t[n - 1].kind == DT_TOK_ID && !strcmp(t[n - 1].text, "s") &&
        t[n - 3].span.hi == t[n - 2].span.lo && t[n - 2].span.hi == t[n - 1].span.lo) {
        t[n - 3].span.hi = t[n - 1].span.hi;
        t[n - 3].text = dt_intern_printf("%s/s", t[n - 3].text);
        t[n - 3].text_len += 2;
        s->tokens.n = n - 2;
    }
}

/* Checks the units of all quantities, and reports those that do not exist. */
static void check_units(const Scan *s)
{
    for (uint32_t i = 0; i < s->tokens.n; i++) {
        DtToken *t = &s->tokens.at[i];
        if (t->kind != DT_TOK_QUANTITY)
            continue;
        uint32_t split = t->span.hi - t->text_len;
        const char *unit = find_unit(t->text, t->text_len);
        if (!unit) {
            report_unit(s, span_of(s, t->span.lo, split), span_of(s, split, t->span.hi));
            t->reported = true;
        }
    }
}

/* Sets the token's text to the bytes of a string, with escapes replaced; reports unknown
 * escapes. */
static void read_string(const Scan *s, DtToken *token, uint32_t lo, uint32_t hi)
{
    char *bytes = dt_arena_alloc(s->arena, hi - lo + 1);
    uint32_t n = 0;
    for (uint32_t i = lo; i < hi; i++) {
        char c = s->source[i];
        if (c == '\\' && i + 1 < hi) {
            char escaped = s->source[++i];
            const char *at = strchr("n\nt\t\"\"\\\\", escaped);
            if (escaped == 'n' || escaped == 't' || escaped == '"' || escaped == '\\') {
                c = at[1];
            } else {
                DtSpan span = span_of(s, i - 1, i + 1);
                while (span.hi < hi && (s->source[span.hi] & 0xC0) == 0x80)
                    span.hi++;
                DtDiag *d = dt_diag_report(s->diags, E0107, span, "unknown escape in a string");
                dt_diag_note(d, "the escapes are \\n \\t \\\" \\\\");
                dt_diag_fix(d, span_of(s, i - 1, i - 1), "\\",
                            "a backslash itself is written twice");
                bytes[n++] = '\\';
                c = escaped;
            }
        }
        bytes[n++] = c;
    }
    token->text = dt_intern_n(bytes, n);
    token->text_len = n;
}

static void report_bad_number(const Scan *s, DtSpan span)
{
    if (s->source[span.lo] == '.') {
        DtDiag *d = dt_diag_report(s->diags, E0104, span, "a float begins with a digit");
        dt_diag_fix(d, span_of(s, span.lo, span.lo), "0", "put the zero");
    } else {
        DtDiag *d =
            dt_diag_report(s->diags, E0104, span, "in a number, `_` stands between two digits");
        dt_diag_help(d, "as in `1_000_000`");
    }
}

/* Reports an operator of another language; returns the token of this language that means the same,
 * if there is one. */
static int report_foreign(const Scan *s, DtSpan span)
{
    static const struct {
        const char *text;
        int kind;
        const char *ours;
    } rows[] = {{"&&", DT_TOK_AND, "and"},  {"&", DT_TOK_AND, "and"},  {"||", DT_TOK_OR, "or"},
                {"|", DT_TOK_OR, "or"},     {"!", DT_TOK_NOT, "not "}, {"^", DT_TOK_POW, "**"},
                {":=", DT_TOK_ASSIGN, "="}, {"=>", DT_TOK_ARROW, "->"}};
    int len = (int)(span.hi - span.lo);
    const char *text = s->source + span.lo;
    DtDiag *d = dt_diag_report(s->diags, E0115, span, "`%.*s` is not an operator of this language",
                               len, text);
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        if (strlen(rows[i].text) == (size_t)len && !memcmp(rows[i].text, text, (size_t)len)) {
            dt_diag_fix(d, span, rows[i].ours, "write `%s`", rows[i].ours);
            return rows[i].kind;
        }
    if (text[len - 1] == '=')
        dt_diag_help(d, "write `x = x %.*s ...`", len - 1, text);
    else
        dt_diag_help(d, "tensors and tuples are joined by `concat[axis](x, y)`");
    return DT_TOK_BAD;
}

/* Reports a character that begins no word; returns the token that it means, 0 for a kind of space,
 * or DT_TOK_BAD. */
static int report_character(const Scan *s, DtSpan span)
{
    static const struct {
        const char *text;
        int kind;
        const char *ours;
    } rows[] = {{"\u2212", DT_TOK_MINUS, "-"},
                {"\u2013", DT_TOK_MINUS, "-"},
                {"\u00d7", DT_TOK_STAR, "*"},
                {"\u00b7", DT_TOK_STAR, "*"},
                {"\u00f7", DT_TOK_SLASH, "/"},
                {"\u2192", DT_TOK_ARROW, "->"},
                {"\u2264", DT_TOK_CMP, "<="},
                {"\u2265", DT_TOK_CMP, ">="},
                {"\u2260", DT_TOK_CMP, "!="},
                {"\u2026", DT_TOK_ELLIPSIS, "..."},
                {"\u00a0", 0, " "},
                {"\ufeff", 0, ""},
                {"\u201c", DT_TOK_BAD, "\""},
                {"\u201d", DT_TOK_BAD, "\""},
                {"\u2018", DT_TOK_BAD, "\""},
                {"\u2019", DT_TOK_BAD, "\""}};
    const unsigned char *text = (const unsigned char *)s->source + span.lo;
    size_t len = utf8_length(text, span.hi - span.lo);
    if (len != span.hi - span.lo)
        return DT_TOK_BAD; /* check_bytes reported it */
    if (text[0] < 0x20 || text[0] == 0x7F) {
        dt_diag_report(s->diags, E0101, span, "unexpected control character 0x%02X", text[0]);
        return DT_TOK_BAD;
    }
    DtDiag *d = dt_diag_report(s->diags, E0101, span, "unexpected character `%.*s`", (int)len,
                               (const char *)text);
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        if (strlen(rows[i].text) == len && !memcmp(rows[i].text, text, len)) {
            dt_diag_fix(d, span, rows[i].ours, rows[i].kind ? "write `%s`" : "replace or delete it",
                        rows[i].ours);
            return rows[i].kind;
        }
    if (text[0] >= 0x80)
        dt_diag_note(d, "outside comments and strings a program is ASCII");
    return DT_TOK_BAD;
}

static void read_name(const Scan *s, DtToken *token)
{
    uint32_t len = token->span.hi - token->span.lo;
    if (len > DT_MAX_NAME) {
        DtDiag *d =
            dt_diag_report(s->diags, E0116, token->span, "this name has %u characters", len);
        dt_diag_note(d, "a name has at most %d", DT_MAX_NAME);
        len = DT_MAX_NAME;
    }
    token->text = dt_intern_n(s->source + token->span.lo, len);
    token->text_len = len;
}

/* Whether `.3` continues a path: it is written directly after a name or another such number. */
static bool follows_name(const Scan *s, DtSpan span)
{
    const DtToken *before = s->tokens.n ? &s->tokens.at[s->tokens.n - 1] : NULL;
    return before && before->span.hi == span.lo &&
           (before->kind == DT_TOK_ID || before->kind == DT_TOK_INDEX);
}

/* Sets kind and value of the token for the word; false: the word is no token. */
static bool read_word(const Scan *s, int word, DtToken *token)
{
    DtSpan span = token->span;
    token->kind = word;
    switch (word) {
    case DT_TOK_COMMENT: return true;
    case DT_TOK_INT: token->integer = read_integer(s, span); return true;
    case DT_TOK_FLOAT: token->number = read_float(s, span); return true;
    case DT_TOK_QUANTITY: read_quantity(s, token); return true;
    case DT_TOK_STRING: read_string(s, token, span.lo + 1, span.hi - 1); return true;
    case DT_LEX_OPEN_STRING: {
        while (span.hi > span.lo + 1 && s->source[span.hi - 1] == '\r')
            span.hi--;
        DtDiag *d = dt_diag_report(s->diags, E0106, span, "this string has no closing `\"`");
        dt_diag_note(d, "a string ends on the line on which it begins");
        read_string(s, token, span.lo + 1, span.hi);
        token->kind = DT_TOK_STRING;
        token->reported = token->cut = true;
        return true;
    }
    case DT_LEX_QUOTED: {
        DtDiag *d = dt_diag_report(s->diags, E0101, span, "strings are written in double quotes");
        dt_diag_help(d, "replace both `'` by `\"`");
        read_string(s, token, span.lo + 1, span.hi - 1);
        token->kind = DT_TOK_STRING;
        token->reported = true;
        return true;
    }
    case DT_LEX_INDEX:
        if (follows_name(s, span)) {
            token->kind = DT_TOK_INDEX;
            token->text = dt_intern_n(s->source + span.lo + 1, span.hi - span.lo - 1);
            token->text_len = span.hi - span.lo - 1;
            return true;
        } /* fallthrough */
    case DT_LEX_BAD_NUMBER:
        report_bad_number(s, span);
        token->kind = DT_TOK_INT;
        token->reported = true;
        return true;
    case DT_LEX_FOREIGN:
    case DT_LEX_BAD_CHARACTER:
        token->kind = word == DT_LEX_FOREIGN ? report_foreign(s, span) : report_character(s, span);
        token->reported = true;
        if (token->kind == DT_TOK_CMP)
            token->text = dt_intern((unsigned char)s->source[span.hi - 1] == 0xA4   ? "<="
                                    : (unsigned char)s->source[span.hi - 1] == 0xA5 ? ">="
                                                                                    : "!=");
        else if (token->kind == DT_TOK_ELLIPSIS)
            token->text = dt_intern("...");
        return token->kind != 0;
    default: read_name(s, token); return true; /* names, keywords, dtypes, operators */
    }
}

static void scan_words(Scan *s, uint32_t start)
{
    DtLexer lexer = {.lo = start, .hi = start};
    yyscan_t scanner;
    if (dt_lexer_lex_init_extra(&lexer, &scanner))
        dt_arena_exhausted(sizeof lexer);
    dt_lexer__scan_bytes(s->source + start, (int)(s->len - start), scanner);
    for (int word; (word = dt_lexer_lex(scanner)) != 0;) {
        DtToken token = {.span = span_of(s, lexer.lo, lexer.hi), .lines = lexer.lines};
        if (!read_word(s, word, &token))
            continue;
        lexer.lines = 0;
        DT_PUSH(s->arena, s->tokens, token);
        if (token.kind == DT_TOK_ID)
            finish_quantity(s);
    }
    dt_lexer_lex_destroy(scanner);
}

DtTokens dt_scan_tokens(DtArena *arena, DtDiags *diags, uint32_t file)
{
    Scan s = {.arena = arena, .diags = diags, .file = file};
    s.source = dt_diag_source(diags, file, &s.len);
    if (s.len > DT_MAX_SOURCE) {
        DtDiag *d =
            dt_diag_report(diags, E0116, (DtSpan){file, 0, 0}, "this file has %zu bytes", s.len);
        dt_diag_note(d, "a source file has at most %d", DT_MAX_SOURCE);
        return s.tokens;
    }
    if (check_bytes(&s))
        scan_words(&s, s.len >= 3 && !memcmp(s.source, "\xEF\xBB\xBF", 3) ? 3 : 0);
    check_units(&s);
    return s.tokens;
}
