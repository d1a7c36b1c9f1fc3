/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the definitions of the numbers in a report. */
#include "plan/report/summary.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct Term { const char *name, *unit, *text; } terms[] = {
#define DT_TERM(name, unit, text) {name, unit, text},
#include "plan/report/terms.def"
#undef DT_TERM
#define DT_TIME(id, name, meaning) {name, "seconds", "A part of a step's time: " meaning "."},
#include "plan/report/times.def"
#undef DT_TIME
#define DT_OVERHEAD(id, mib, within, name, source) \
    {name, "bytes",                                \
     "Memory of a GPU beside a plan's: " source ". Counted as " #mib \
     " MiB, known within " #within " of that."},
#include "plan/report/overheads.def"
#undef DT_OVERHEAD
};

/* Keys of JSON have _ between words. */
static int letter(char c) { return c == '_' || c == '-' ? ' ' : tolower((unsigned char)c); }

/* Whether the text is the word, or its plural. */
static bool is(const char *term, const char *word)
{
    while (*term && letter(*term) == letter(*word)) {
        term++;
        word++;
    }
    return !*term && (!*word || !strcasecmp(word, "s") || !strcasecmp(word, "es"));
}

bool dt_summary_explain(const char *name, DtText *ret_text)
{
    bool found = false;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        const bool is_word = strcmp(terms[i].unit, "word") == 0;
        if (name && !is(terms[i].name, name))
            continue;
        dt_text_printf(ret_text, "%s%s (a %s of reports%s%s)\n%s\n", found ? "\n" : "",
                       terms[i].name, is_word ? "word" : "number",
                       *terms[i].unit && !is_word ? ", in " : "", is_word ? "" : terms[i].unit,
                       terms[i].text);
        found = true;
    }
    return found;
}
