/* SPDX-License-Identifier: Apache-2.0 */
/* The lexer of IR text: names (bare or quoted), values (%name.7), numbers, `->`, and single
 * characters. A `#` that begins a token begins a comment. */
#include "ir/irtext_lex.h"

#include "base/intern.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_inner(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == '@' || c == '#' || c == '$';
}

static char at(const DtIrLex *lex, size_t i) { return i < lex->len ? lex->text[i] : '\0'; }

bool dt_irlex_fail(DtIrLex *lex, const char *format, ...)
{
    if (lex->failed)
        return false;
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (lex->diags) {
        size_t hi = lex->pos > lex->lo ? lex->pos : lex->lo + 1;
        DtSpan span = {lex->file, (uint32_t)lex->lo, (uint32_t)(hi < lex->len ? hi : lex->len)};
        dt_diag_report(lex->diags, E0950, span, "%s", message);
    }
    lex->failed = true;
    lex->token = DT_IR_END;
    lex->lo = lex->pos = lex->len;
    return false;
}

/* ---- tokens ---- */

static int hex(char c)
{
    if (is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads one character of a quoted name, with its escapes, from pos on; false after a failure. */
static bool lex_quoted_char(DtIrLex *lex, char *ret_char)
{
    unsigned char c = (unsigned char)at(lex, lex->pos++);
    if (lex->pos > lex->len || c < 0x20 || c == 0x7f)
        return dt_irlex_fail(lex, "a quoted name does not end, or holds a control character");
    *ret_char = (char)c;
    if (c != '\\')
        return true;
    char escape = at(lex, lex->pos++);
    if (escape == '"' || escape == '\\') {
        *ret_char = escape;
        return true;
    }
    int high = hex(at(lex, lex->pos)), low = hex(at(lex, lex->pos + 1));
    if (escape != 'x' || high < 0 || low < 0 || high + low == 0)
        return dt_irlex_fail(lex, "unknown escape in a quoted name");
    lex->pos += 2;
    *ret_char = (char)(high * 16 + low);
    return true;
}

/* Reads a quoted name and returns it interned; pos is after the opening quote. */
static const char *lex_quoted(DtIrLex *lex)
{
    DtText text = {0};
    dt_text_add(&text, "");
    const char *name = NULL;
    for (;;) {
        char c;
        if (at(lex, lex->pos) == '"') {
            lex->pos++;
            name = dt_intern_n(text.at, text.len);
            break;
        }
        if (!lex_quoted_char(lex, &c))
            break;
        dt_text_add_n(&text, &c, 1);
    }
    dt_text_free(&text);
    return name;
}

static const char *lex_bare(DtIrLex *lex)
{
    size_t from = lex->pos;
    while (lex->pos < lex->len && is_inner(lex->text[lex->pos]))
        lex->pos++;
    return dt_intern_n(lex->text + from, lex->pos - from);
}

/* Reads %name.7, %"a b".7, %7, %name: the last dot and number are not part of the name. */
static void lex_value(DtIrLex *lex)
{
    lex->token = DT_IR_VALUE;
    lex->pos++;
    lex->name = NULL;
    size_t from = lex->pos;
    if (at(lex, lex->pos) == '"') {
        lex->pos++;
        lex->name = lex_quoted(lex);
        if (at(lex, lex->pos) == '.') {
            for (lex->pos++; is_digit(at(lex, lex->pos));)
                lex->pos++;
        }
        return;
    }
    while (lex->pos < lex->len && is_inner(lex->text[lex->pos]))
        lex->pos++;
    size_t end = lex->pos;
    while (end > from && is_digit(lex->text[end - 1]))
        end--;
    if (lex->pos == from)
        dt_irlex_fail(lex, "a value needs a name or a number");
    else if (end == from) /* digits only */
        return;
    else if (end < lex->pos && lex->text[end - 1] == '.' && end - 1 > from)
        lex->name = dt_intern_n(lex->text + from, end - 1 - from);
    else
        lex->name = dt_intern_n(lex->text + from, lex->pos - from);
}

static void lex_number(DtIrLex *lex)
{
    lex->token = DT_IR_NUMBER;
    lex->pos++;
    for (; lex->pos < lex->len; lex->pos++) {
        char c = lex->text[lex->pos], before = lex->text[lex->pos - 1];
        bool sign = (c == '-' || c == '+') && (before == 'e' || before == 'E');
        if (!is_digit(c) && !is_letter(c) && c != '.' && !sign)
            return;
    }
}

static void skip_space(DtIrLex *lex)
{
    for (; lex->pos < lex->len; lex->pos++) {
        char c = lex->text[lex->pos];
        if (c == '#') {
            while (lex->pos < lex->len && lex->text[lex->pos] != '\n')
                lex->pos++;
            lex->pos--;
        } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
    }
}

void dt_irlex_next(DtIrLex *lex)
{
    if (lex->failed)
        return;
    skip_space(lex);
    lex->lo = lex->pos;
    char c = at(lex, lex->pos);
    if (lex->pos >= lex->len) {
        lex->token = DT_IR_END;
    } else if (is_letter(c)) {
        lex->name = lex_bare(lex);
        lex->quoted = false;
        lex->token = DT_IR_NAME;
    } else if (c == '"') {
        lex->pos++;
        lex->token = DT_IR_NAME;
        lex->quoted = true;
        lex->name = lex_quoted(lex);
    } else if (c == '%') {
        lex_value(lex);
    } else if (c == '-' && at(lex, lex->pos + 1) == '>') {
        lex->token = DT_IR_ARROW;
        lex->pos += 2;
    } else if (is_digit(c) || c == '-') {
        lex_number(lex);
    } else {
        lex->token = DT_IR_MARK;
        lex->mark = c;
        lex->pos++;
    }
    if (lex->failed)
        lex->token = DT_IR_END;
}

void dt_irlex_start(DtIrLex *lex, DtDiags *diags, const char *text, size_t len)
{
    *lex = (DtIrLex){.diags = diags, .text = text, .len = len};
    if (diags)
        lex->file = dt_diag_add_file(diags, "IR text", text, len);
    dt_irlex_next(lex);
}

/* ---- taking tokens ---- */

bool dt_irlex_is(const DtIrLex *lex, char mark)
{
    return lex->token == DT_IR_MARK && lex->mark == mark;
}

bool dt_irlex_is_word(const DtIrLex *lex, const char *word)
{
    return lex->token == DT_IR_NAME && !lex->quoted && strcmp(lex->name, word) == 0;
}

bool dt_irlex_take(DtIrLex *lex, char mark)
{
    if (!dt_irlex_is(lex, mark))
        return false;
    dt_irlex_next(lex);
    return true;
}

bool dt_irlex_take_word(DtIrLex *lex, const char *word)
{
    if (!dt_irlex_is_word(lex, word))
        return false;
    dt_irlex_next(lex);
    return true;
}

bool dt_irlex_expect(DtIrLex *lex, char mark)
{
    return dt_irlex_take(lex, mark) || dt_irlex_fail(lex, "expected `%c`", mark);
}

const char *dt_irlex_name(DtIrLex *lex)
{
    if (lex->token != DT_IR_NAME) {
        dt_irlex_fail(lex, "expected a name");
        return NULL;
    }
    const char *name = lex->name;
    dt_irlex_next(lex);
    return name;
}

/* Copies the number token into buf as a C string; false after a failure: it is too long. */
static bool number_text(DtIrLex *lex, char buf[64])
{
    size_t n = lex->pos - lex->lo;
    if (lex->token == DT_IR_NAME && !lex->quoted &&
        (strcmp(lex->name, "inf") == 0 || strcmp(lex->name, "nan") == 0))
        n = 3;
    else if (lex->token != DT_IR_NUMBER)
        return dt_irlex_fail(lex, "expected a number");
    if (n >= 64)
        return dt_irlex_fail(lex, "a number of more than 63 characters");
    memcpy(buf, lex->text + lex->lo, n);
    buf[n] = '\0';
    return true;
}

bool dt_irlex_integer(DtIrLex *lex, int64_t lo, int64_t hi, int64_t *ret_number)
{
    char buf[64], *end;
    *ret_number = lo;
    if (!number_text(lex, buf))
        return false;
    errno = 0;
    long long number = strtoll(buf, &end, 10);
    if (*end || end == buf || errno || number < lo || number > hi)
        return dt_irlex_fail(lex, "expected an integer from %lld to %lld", (long long)lo,
                             (long long)hi);
    *ret_number = number;
    dt_irlex_next(lex);
    return true;
}

bool dt_irlex_u32(DtIrLex *lex, uint32_t *ret_number)
{
    int64_t number;
    bool ok = dt_irlex_integer(lex, 0, UINT32_MAX, &number);
    *ret_number = (uint32_t)number;
    return ok;
}

bool dt_irlex_double(DtIrLex *lex, double *ret_number)
{
    char buf[64], *end;
    *ret_number = 0;
    if (!number_text(lex, buf))
        return false;
    double number = strtod(buf, &end);
    if (*end || end == buf)
        return dt_irlex_fail(lex, "expected a number");
    *ret_number = number;
    dt_irlex_next(lex);
    return true;
}

bool dt_irlex_key(DtIrLex *lex, const char *key)
{
    return dt_irlex_take_word(lex, key) && dt_irlex_expect(lex, '=');
}

bool dt_irlex_name_key(DtIrLex *lex, const char *key, const char **ret_name)
{
    if (!dt_irlex_key(lex, key))
        return false;
    *ret_name = dt_irlex_name(lex);
    return true;
}

bool dt_irlex_choice(DtIrLex *lex, const char *what, const char *const *words, unsigned n,
                     unsigned *ret_choice)
{
    *ret_choice = 0;
    for (unsigned i = 0; lex->token == DT_IR_NAME && i < n; i++) {
        if (dt_irlex_is_word(lex, words[i])) {
            *ret_choice = i;
            dt_irlex_next(lex);
            return true;
        }
    }
    return dt_irlex_fail(lex, "expected %s", what);
}
