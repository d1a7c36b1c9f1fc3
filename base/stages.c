/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stages.h"

#include "base/intern.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct Range {
    uint32_t first, last;
} Range;

/* Reads the next range of stages at *at and moves past it. False: there is none, or the text is no
 * range. */
static bool next_range(const char **at, Range *ret_range)
{
    char *end;
    if (!*at || **at < '0' || **at > '9')
        return false;
    ret_range->first = ret_range->last = (uint32_t)strtoul(*at, &end, 10);
    if (strncmp(end, " to ", 4) == 0 && end[4] >= '0' && end[4] <= '9')
        ret_range->last = (uint32_t)strtoul(end + 4, &end, 10);
    *at = end[0] == ',' && end[1] == ' ' ? end + 2 : end;
    return true;
}

static void add_range(DtText *text, uint32_t first, uint32_t last)
{
    const char *gap = text->len ? ", " : "";
    if (first == last)
        dt_text_printf(text, "%s%u", gap, first);
    else
        dt_text_printf(text, last - first == 1 ? "%s%u, %u" : "%s%u to %u", gap, first, last);
}

const char *dt_stages_of(const bool *has, uint32_t n)
{
    DtText text = {0};
    for (uint32_t i = 0, first; i < n; i++) {
        if (!has[i])
            continue;
        for (first = i; i + 1 < n && has[i + 1];)
            i++;
        add_range(&text, first, i);
    }
    const char *set = text.len ? dt_intern_n(text.at, text.len) : NULL;
    dt_text_free(&text);
    return set;
}

const char *dt_stages_range(uint32_t first, uint32_t more)
{
    DtText text = {0};
    add_range(&text, first, first + more);
    const char *set = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
    return set;
}

bool dt_stages_has_all(const char *set, uint32_t first, uint32_t more)
{
    Range range;
    while (next_range(&set, &range)) {
        if (first < range.first || first > range.last)
            continue;
        if (more <= range.last - first)
            return true;
        more -= range.last - first + 1; /* two members in a row are written one by one, not as a
                                         * range */
        first = range.last + 1;
    }
    return false;
}

bool dt_stages_has(const char *set, uint32_t stage) { return dt_stages_has_all(set, stage, 0); }

uint32_t dt_stages_count(const char *set)
{
    Range range;
    uint32_t n = 0;
    while (next_range(&set, &range))
        n += range.last - range.first + 1;
    return n;
}

bool dt_stages_same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

bool dt_stages_is_valid(const char *set, uint32_t n)
{
    bool has[DT_STAGES_MOST] = {false};
    const char *at = set;
    Range range;
    if (n > DT_STAGES_MOST)
        return false;
    while (next_range(&at, &range)) {
        if (range.last < range.first || range.last >= n)
            return false;
        for (uint32_t i = range.first; i <= range.last; i++)
            has[i] = true;
    }
    return dt_stages_same(set, dt_stages_of(has, n));
}
