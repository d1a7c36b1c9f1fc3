/* SPDX-License-Identifier: Apache-2.0 */
/* Words, numbers and types of the certificate's IR text. A type with the text of an earlier one
 * is not read again. */
#include "verify/cert_word.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdarg.h>
#include <stdlib.h>

#define MOST_ELEMENTS (INT64_C(1) << 59) /* so that the bytes of all elements can be counted */

bool dt_certword_fail(CertReader *r, const char *what)
{
    uint32_t line = 1;
    for (const char *c = r->program->text; c < r->at; c++)
        line += *c == '\n';
    if (!r->failed)
        dt_text_printf(r->problem, "line %u of the program: expected %s at `%.*s`", line, what,
                       (int)strcspn(r->at, "\n"), r->at);
    r->failed = true;
    return false;
}

/* ---- words ---- */

static void skip(CertReader *r)
{
    while (*r->at == ' ')
        r->at++;
}

/* Moves past `piece` and returns true if it comes next (after blanks); otherwise stays. */
bool dt_certword_take(CertReader *r, const char *piece)
{
    size_t n = 0;
    skip(r);
    for (; piece[n]; n++)
        if (r->at[n] != piece[n])
            return false;
    r->at += n;
    return true;
}

bool dt_certword_expect(CertReader *r, const char *piece)
{
    return dt_certword_take(r, piece) || dt_certword_fail(r, piece);
}

bool dt_certword_at_end(CertReader *r)
{
    skip(r);
    return r->failed || !*r->at || *r->at == '\n';
}

void dt_certword_end_of_line(CertReader *r)
{
    const char *end = strchr(r->at, '\n');
    r->at = end ? end + 1 : r->at + strlen(r->at);
}

bool dt_certword_is_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '@' || c == '#' || c == '$' || c == '.';
}

/* Returns the position after the quoted text that begins at c; NULL: it does not end on this
 * line. */
static const char *behind_quote(const char *c)
{
    for (c++; *c && *c != '"' && *c != '\n'; c++)
        if (*c == '\\' && c[1])
            c++;
    return *c == '"' ? c + 1 : NULL;
}

/* Reads a name, bare or quoted, and returns it interned. Escapes stay as written, since equal names
 * are written alike. part: the name ends at a dot. */
static const char *name_or_part(CertReader *r, bool part)
{
    skip(r);
    const char *begin = r->at;
    if (*begin == '"') {
        const char *end = behind_quote(begin);
        if (end) {
            r->at = end;
            return dt_intern_n(begin + 1, (size_t)(end - begin - 2));
        }
        dt_certword_fail(r, "the end of a quoted name");
        return dt_intern("");
    }
    while (dt_certword_is_part(*r->at) && !(part && *r->at == '.'))
        r->at++;
    if (r->at == begin)
        dt_certword_fail(r, "a name");
    return dt_intern_n(begin, (size_t)(r->at - begin));
}

const char *dt_certword_name_of(CertReader *r) { return name_or_part(r, false); }

int64_t dt_certword_integer(CertReader *r)
{
    char *end;
    skip(r);
    long long value = strtoll(r->at, &end, 10);
    if (end == r->at)
        dt_certword_fail(r, "a number");
    r->at = end;
    return value;
}

/* Reads a number in 0 .. most. */
uint32_t dt_certword_number_of(CertReader *r, uint32_t most)
{
    const int64_t number = dt_certword_integer(r);
    if (number >= 0 && number <= most)
        return (uint32_t)number;
    dt_certword_fail(r, "a smaller number");
    return 0;
}

/* Reads the number of %name.7, %"a name".7 or %7. */
uint32_t dt_certword_value_of(CertReader *r)
{
    uint64_t number = 0;
    if (!dt_certword_expect(r, "%"))
        return 0;
    if (*r->at == '"' && behind_quote(r->at))
        r->at = behind_quote(r->at);
    for (; dt_certword_is_part(*r->at); r->at++)
        number = *r->at >= '0' && *r->at <= '9' && number < UINT32_MAX
                     ? number * 10 + (uint64_t)(*r->at - '0')
                     : 0;
    if (r->at[-1] < '0' || r->at[-1] > '9')
        dt_certword_fail(r, "the number of a value");
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* Skips a value of which at most the text matters: a word, a quoted text, or one in brackets. */
void dt_certword_pass_over(CertReader *r)
{
    int depth = 0;
    for (; *r->at && *r->at != '\n'; r->at++) {
        if (*r->at == '"' && behind_quote(r->at))
            r->at = behind_quote(r->at) - 1;
        else if (*r->at == '(' || *r->at == '{')
            depth++;
        else if ((*r->at == ')' || *r->at == '}') && --depth <= 0) {
            r->at += depth == 0;
            return;
        } else if (*r->at == ' ' && depth == 0)
            return;
    }
}

/* Returns the cache entry for this text of a type, a kind or a function, empty at first. The text
 * must live as long as r. */
const void **dt_certword_known(CertReader *r, const char *text, size_t len)
{
    uint64_t hash = dt_hash_bytes(text, len, 0);
    CertKnown **slot = &r->known[hash % CERT_TEXTS];
    for (CertKnown *k = *slot; k; k = k->next)
        if (k->hash == hash && k->len == len && memcmp(k->text, text, len) == 0)
            return &k->made;
    CertKnown *k = DT_NEW(r->program->arena, CertKnown);
    *k = (CertKnown){.text = text, .len = len, .hash = hash, .next = *slot};
    *slot = k;
    return &k->made;
}

/* Reads the input by a pattern: %n a name, %i an integer, %t a type; other characters stand for
 * themselves, with optional blanks before them. */
bool dt_certword_scan(CertReader *r, const char *pattern, ...)
{
    va_list to;
    va_start(to, pattern);
    for (const char *c = pattern; *c && !r->failed; c++) {
        if (c[0] == '%' && c[1] == 'n')
            *va_arg(to, const char **) = dt_certword_name_of(r);
        else if (c[0] == '%' && c[1] == 'i')
            *va_arg(to, int64_t *) = dt_certword_integer(r);
        else if (c[0] == '%' && c[1] == 't')
            *va_arg(to, const CertType **) = dt_certword_type_of(r);
        else if (*c != ' ')
            dt_certword_expect(r, (char[]){*c, 0});
        c += *c == '%';
    }
    va_end(to);
    return !r->failed;
}

/* ---- types ---- */

uint8_t dt_certword_mesh_axis(CertReader *r)
{
    const char *name = name_or_part(r, true);
    for (uint32_t i = 0; i < r->program->n_mesh; i++)
        if (r->program->mesh[i] == name)
            return (uint8_t)i;
    dt_certword_fail(r, "a mesh axis");
    return 0;
}

uint16_t dt_certword_mesh_set(CertReader *r)
{
    uint16_t bits = 0;
    while (!r->failed && !dt_certword_take(r, "}"))
        bits |= (uint16_t)(1u << dt_certword_mesh_axis(r));
    return bits;
}

/* Reads the next axis of a type, and checks its splits: a mesh axis occurs once, divides the axis,
 * and has no pending reduction. */
static void axis_of(CertReader *r, CertType *type)
{
    CertAxis *axis = &type->axes[type->rank++];
    dt_certword_scan(r, "%n=%i", &axis->name, &axis->extent);
    int64_t rest = axis->logical = axis->extent;
    if (rest < 1)
        dt_certword_fail(r, "an extent of 1 or more");
    for (uint32_t i = 0; i < r->program->n_padded; i++)
        if (r->program->padded[i].name == axis->name && r->program->padded[i].extent == rest) {
            axis->logical = r->program->padded[i].logical;
            axis->padded = (uint8_t)(i + 1);
            type->padded |= (uint16_t)(1u << i);
        }
    while (!r->failed && *r->at == (axis->n ? '.' : '/')) {
        r->at++;
        uint8_t mesh = dt_certword_mesh_axis(r);
        if (r->failed || axis->n == CERT_SPLIT || (type->split >> mesh & 1) ||
            rest % r->program->size[mesh]) {
            dt_certword_fail(r, "a mesh axis that is used once and divides");
            return;
        }
        type->split |= (uint16_t)(1u << mesh);
        rest /= r->program->size[mesh];
        axis->split[axis->n++] = mesh;
    }
    if (*r->at == '~') {
        r->at++;
        axis->zigzag = true;
    }
}

const CertType *dt_certword_type_of(CertReader *r)
{
    skip(r);
    const char *begin = r->at, *end = begin;
    for (; *end && *end != '\n' && *end != ']'; end++)
        if (*end == '"' && behind_quote(end))
            end = behind_quote(end) - 1;
    if (end[0] == ']' && end[1] == '{')
        while (*end && *end != '\n' && *end != '}')
            end++;
    const void **made = dt_certword_known(r, begin, (size_t)(end + 1 - begin));
    if (*made) {
        r->at = end + 1;
        return *made;
    }
    CertType *type = DT_NEW(r->program->arena, CertType);
    int64_t elements = 1;
    type->dtype = dt_certword_name_of(r);
    dt_certword_expect(r, "[");
    while (!r->failed && !dt_certword_take(r, "]")) {
        if (type->rank == CERT_RANK) {
            dt_certword_fail(r, "fewer axes");
            break;
        }
        axis_of(r, type);
        if (__builtin_mul_overflow(elements, type->axes[type->rank - 1].extent, &elements) ||
            elements > MOST_ELEMENTS)
            dt_certword_fail(r, "a type of fewer elements");
        dt_certword_take(r, ",");
    }
    if (*r->at == '{') {
        r->at++;
        type->pending = dt_certword_name_of(r);
        type->partial = dt_certword_mesh_set(r);
        if (type->partial & type->split)
            dt_certword_fail(r, "a reduction pending over mesh axes that split nothing");
    }
    return r->failed ? type : (*made = type);
}
