/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: why one is refused, and what an op says. */
#include "verify/box_internal.h"

#include <stdarg.h>

static void say(Box *b, const CertOp *op, const char *before, const char *format, va_list args)
{
    dt_text_add(b->problem, before);
    dt_text_vprintf(b->problem, format, args);
    if (op)
        dt_text_printf(b->problem, ": `%.*s`", (int)strcspn(op->at, "\n"), op->at);
}

bool dt_box_fail(Box *b, const CertOp *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!b->problem->len)
        say(b, op, "", format, args);
    va_end(args);
    return false;
}

bool dt_box_large(Box *b, const CertOp *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!b->problem->len) {
        say(b, op, "it is too large to be checked: ", format, args);
        b->large = true;
    }
    va_end(args);
    return false;
}

/* Of the attributes' text, of which axes are the end: words outside of quotes and parentheses. */
bool dt_box_has_flag(const CertOp *op, const char *flag)
{
    const char *at = op->attributes;
    while (*at && *at != '[' && *at != ';') {
        const char *begin = at;
        bool quoted = false;
        for (int depth = 0; *at && (*at != ' ' || quoted || depth > 0); at++) {
            quoted = quoted != (*at == '"');
            depth += quoted ? 0 : (*at == '(') - (*at == ')');
        }
        if ((size_t)(at - begin) == strlen(flag) && memcmp(begin, flag, strlen(flag)) == 0)
            return true;
        at += *at == ' ';
    }
    return false;
}
