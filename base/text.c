/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void reserve(DtText *text, size_t more)
{
    if (text->cap - text->len > more)
        return;
    size_t cap = text->cap ? text->cap : 256;
    while (cap - text->len <= more)
        cap *= 2;
    text->at = realloc(text->at, cap);
    if (!text->at)
        dt_arena_exhausted(cap);
    text->cap = cap;
}

void dt_text_add_n(DtText *text, const char *piece, size_t len)
{
    reserve(text, len);
    if (len)
        memcpy(text->at + text->len, piece, len);
    text->len += len;
    text->at[text->len] = 0;
}

void dt_text_add(DtText *text, const char *piece) { dt_text_add_n(text, piece, strlen(piece)); }

void dt_text_integer(DtText *text, int64_t value)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--at = '-';
    dt_text_add_n(text, at, (size_t)(digits + sizeof digits - at));
}

/* Returns the length of the directive at a '%' if it is %s, %u, %d, %lld or %%, as nearly all are;
 * else 0. */
static size_t directive(const char *at)
{
    if (at[1] == 's' || at[1] == 'u' || at[1] == 'd' || at[1] == '%')
        return 2;
    return strncmp(at, "%lld", 4) == 0 ? 4 : 0;
}

static bool is_plain(const char *format)
{
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        size_t len = directive(at);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

/* Does the same as vsnprintf for plain formats, in a fraction of its time. */
static void add_plain(DtText *text, const char *format, va_list args)
{
    for (const char *at = strchrnul(format, '%'); *format; at = strchrnul(format, '%')) {
        dt_text_add_n(text, format, (size_t)(at - format));
        if (!*at)
            break;
        const char *string;
        switch (at[1]) {
        case 's':
            string = va_arg(args, const char *), dt_text_add(text, string ? string : "(null)");
            break;
        case 'u': dt_text_integer(text, va_arg(args, unsigned)); break;
        case 'd': dt_text_integer(text, va_arg(args, int)); break;
        case 'l': dt_text_integer(text, va_arg(args, long long)); break;
        default: dt_text_add_n(text, "%", 1);
        }
        format = at + directive(at);
    }
}

void dt_text_vprintf(DtText *text, const char *format, va_list args)
{
    va_list second;
    if (is_plain(format)) {
        dt_text_add_n(text, "", 0); /* terminated also when nothing follows */
        add_plain(text, format, args);
        return;
    }
    va_copy(second, args);
    reserve(text, 100); /* most pieces fit: then they are formatted once */
    size_t room = text->cap - text->len;
    int len = vsnprintf(text->at + text->len, room, format, args);
    if (len >= 0 && (size_t)len >= room) {
        reserve(text, (size_t)len);
        vsnprintf(text->at + text->len, (size_t)len + 1, format, second);
    }
    text->len += len > 0 ? (size_t)len : 0;
    va_end(second);
}

void dt_text_printf(DtText *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dt_text_vprintf(text, format, args);
    va_end(args);
}

/* Returns the number of bytes of the well-formed UTF-8 character at `from`, or 0; *ret_point
 * becomes its code point. */
static size_t character(const unsigned char *from, size_t len, uint32_t *ret_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = from[0] < 0x80   ? 1
               : from[0] < 0xC2 ? 0
               : from[0] < 0xE0 ? 2
               : from[0] < 0xF0 ? 3
                                : 4;
    if (n == 0 || n > len || from[0] > 0xF4)
        return 0;
    uint32_t point = n == 1 ? from[0] : from[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((from[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (from[i] & 0x3Fu);
    }
    *ret_point = point;
    return point >= least[n] && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF) ? n : 0;
}

static bool shows(uint32_t point)
{
    bool control = point < 0x20 || (point >= 0x7F && point < 0xA0);
    bool direction = (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
                     (point >= 0x2066 && point <= 0x2069) || point == 0xFEFF;
    return !control && !direction;
}

void dt_text_add_visible(DtText *text, const char *from, size_t len)
{
    dt_text_add_n(text, "", 0); /* terminated also when nothing follows */
    reserve(text, len);
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        uint32_t point = 0;
        n = character((const unsigned char *)from + i, len - i, &point);
        if (n == 0)
            dt_text_add_n(text, "?", 1);
        else if (!shows(point))
            dt_text_add_n(text, " ", 1);
        else
            dt_text_add_n(text, from + i, n);
    }
}

void dt_text_add_escaped(DtText *text, const char *from, size_t len, bool lines)
{
    uint32_t point = 0;
    dt_text_add(text, "");
    for (size_t at = 0, n; at < len; at += n) {
        n = character((const unsigned char *)from + at, len - at, &point);
        bool plain = n > 0 && (shows(point) || (lines && point == '\n'));
        n = n > 0 ? n : 1;
        if (plain)
            dt_text_add_n(text, from + at, n);
        for (size_t i = 0; !plain && i < n; i++)
            dt_text_printf(text, "\\x%02x", (unsigned char)from[at + i]);
    }
}

void dt_text_add_word(DtText *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./:,@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        dt_text_add(text, word);
        return;
    }
    dt_text_add(text, "'");
    for (; *word; word++) {
        if (*word == '\'')
            dt_text_add(text, "'\\''");
        else
            dt_text_add_n(text, word, 1);
    }
    dt_text_add(text, "'");
}

void dt_text_say(FILE *to, const char *message)
{
    DtText text = {0};
    dt_text_add_escaped(&text, message, strlen(message), true);
    dt_text_add(&text, "\n");
    fwrite(text.at, 1, text.len, to);
    dt_text_free(&text);
}

void dt_text_free(DtText *text)
{
    free(text->at);
    memset(text, 0, sizeof *text);
}

void dt_text_double(DtText *text, double value)
{
    char buf[40];
    int digits = 1, significant = 1;
    if (isnan(value)) {
        dt_text_add(text, "nan");
        return;
    }
    if (value >= 0 && value < 10 && !signbit(value) && value == floor(value)) {
        dt_text_integer(text, (int64_t)value);
        return;
    }
    /* 15 digits are exact, so zeros at their end carry no information */
    if (fabs(value) > 1e-300) {
        snprintf(buf, sizeof buf, "%.14e", value);
        for (const char *c = buf; *c && *c != 'e'; c++) /* the point counts as the first digit */
            significant = *c >= '1' && *c <= '9' ? (int)(c - buf) - (value < 0) : significant;
        digits = strtod(buf, NULL) != value ? 16 : significant > 1 ? significant : 1;
    }
    for (; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
    dt_text_add(text, buf);
}

const char *dt_text_bytes(char buf[32], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buf, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

enum { NEAREST_MAX = 63 };

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool equal(char a, char b, bool folded) { return folded ? lower(a) == lower(b) : a == b; }

/* Returns the edit distance of two words, in which two letters that are swapped are one edit.
 * folded: letters that differ in case only count as equal. */
static size_t distance(const char *a, size_t n, const char *b, size_t m, bool folded)
{
    size_t rows[3][NEAREST_MAX + 1]; /* of the last three beginnings of a */
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t *before = rows[(i + 1) % 3], *last = rows[(i + 2) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = last[j - 1] + !equal(a[i - 1], b[j - 1], folded);
            if (last[j] + 1 < row[j])
                row[j] = last[j] + 1;
            if (row[j - 1] + 1 < row[j])
                row[j] = row[j - 1] + 1;
            if (i > 1 && j > 1 && equal(a[i - 1], b[j - 2], folded) &&
                equal(a[i - 2], b[j - 1], folded) && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
    }
    return rows[n % 3][m];
}

const char *dt_text_nearest(const char *name, const char *const *candidates, size_t n)
{
    const size_t len = strlen(name);
    const char *nearest = NULL;
    size_t least = SIZE_MAX; /* edits between the name and `nearest`; ties are broken by edits that
                              * count case, too */
    if (len > NEAREST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const size_t other = strlen(candidates[i]), most = len > other ? len : other;
        if (other > NEAREST_MAX)
            continue;
        const size_t edits = distance(name, len, candidates[i], other, true);
        if (5 * (most - edits) < 3 * most)
            continue;
        const size_t cost =
            edits * (NEAREST_MAX + 1) + distance(name, len, candidates[i], other, false);
        if (cost < least) {
            least = cost;
            nearest = candidates[i];
        }
    }
    return nearest;
}
