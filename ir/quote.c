/* SPDX-License-Identifier: Apache-2.0 */
/* Names in text form. Every printer of this folder writes names through here, so that the reader
 * of IR text needs one rule: what starts with a letter or `_` is a bare name, what starts with
 * `"` is quoted. */
#include "ir/quote.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_inner(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '@' || c == '#' || c == '$';
}

static bool is_bare(const char *name)
{
    if (!is_letter(name[0]))
        return false;
    for (const char *c = name + 1; *c; c++) {
        if (!is_inner(*c))
            return false;
    }
    return true;
}

void dt_quote_add_string(DtText *text, const char *name)
{
    dt_text_add_n(text, "\"", 1);
    for (const char *c = name; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            dt_text_printf(text, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f)
            dt_text_printf(text, "\\x%02x", byte);
        else
            dt_text_add_n(text, c, 1);
    }
    dt_text_add_n(text, "\"", 1);
}

void dt_quote_add(DtText *text, const char *name)
{
    if (!name)
        dt_text_add(text, "?");
    else if (is_bare(name))
        dt_text_add(text, name);
    else
        dt_quote_add_string(text, name);
}

void dt_quote_add_part(DtText *text, const char *name)
{
    if (name && strchr(name, '.'))
        dt_quote_add_string(text, name);
    else
        dt_quote_add(text, name);
}
