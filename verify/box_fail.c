/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: messages for boxes that are refused. */
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

/* The length of the next word of the attributes' text, which ends at a blank outside of quotes and
 * parentheses; 0: no word follows, but axes. */
static size_t next_word(const char **at, const char **ret_word)
{
    bool quoted = false;
    const char *end = *at += **at == ' ';
    *ret_word = end;
    if (*end == '[' || *end == ';')
        return 0;
    for (int depth = 0; *end && (*end != ' ' || quoted || depth > 0); end++) {
        quoted = quoted != (*end == '"');
        end += quoted && end[0] == '\\' && end[1];
        depth += quoted ? 0 : (*end == '(') - (*end == ')');
    }
    *at = end;
    return (size_t)(end - *ret_word);
}

bool dt_box_has_flag(const CertOp *op, const char *flag)
{
    const char *at = op->attributes, *word;
    for (size_t n; (n = next_word(&at, &word)) > 0;)
        if (n == strlen(flag) && memcmp(word, flag, n) == 0)
            return true;
    return false;
}

/* An attribute: a word, or the beginning of one up to `=` or `(`; and the op that may have it,
 * NULL: any op. */
typedef struct Known {
    const char *begin, *kind;
} Known;

static bool is_known(const Known *known, const CertOp *op, const char *word, size_t n)
{
    const size_t len = strlen(known->begin);
    const bool valued = strchr("=(", known->begin[len - 1]) != NULL;
    return (valued ? n > len : n == len) && memcmp(word, known->begin, len) == 0 &&
           (!known->kind || dt_cert_is(known->kind, op->kind));
}

bool dt_box_knows_attributes(const CertOp *op)
{
    static const Known known[] = {{"number=", NULL}, {"ranges=(", NULL}, {"relabel(", NULL},
                                  {"reduce=", "reduce"}, {"reduce=", "all_reduce"},
                                  {"reduce=", "reduce_scatter"}, {"reverse", "shift"},
                                  {"reverse", "scan"}, {"draws=", "rng"}};
    const char *at = op->attributes, *word;
    for (size_t n; (n = next_word(&at, &word)) > 0;) {
        size_t i = 0;
        while (i < DT_COUNT(known) && !is_known(&known[i], op, word, n))
            i++;
        if (i == DT_COUNT(known))
            return false;
    }
    return true;
}
