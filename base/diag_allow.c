/* SPDX-License-Identifier: Apache-2.0 */
/* Lints that a program silences at one place:
 *
 *     y = x * w   # lint: allow L0301 - the outer product is meant
 *     # lint: allow L0301, L0411
 *     z = x * w
 *
 * A comment behind code counts for what begins on its line, one that stands alone for the next line
 * with code. */
#include "base/diag_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Returns where the comment of the line begins, or the line's end; *ret_alone: nothing is before
 * the comment. */
static const char *comment_of(const char *at, const char *end, bool *ret_alone)
{
    bool quoted = false;
    *ret_alone = true;
    for (; at < end && (quoted || *at != '#'); at++) {
        quoted = *at == '"' ? !quoted : quoted;
        *ret_alone = *ret_alone && isspace((unsigned char)*at);
        at += *at == '\\' && quoted && at + 1 < end;
    }
    return at;
}

static const char *skip(const char *at, const char *end, const char *set)
{
    while (at < end && strchr(set, *at))
        at++;
    return at;
}

/* Returns the position after `word` if it comes next; or NULL. */
static const char *take(const char *at, const char *end, const char *word)
{
    const size_t n = strlen(word);
    at = skip(at, end, " \t");
    return (size_t)(end - at) >= n && strncmp(at, word, n) == 0 ? at + n : NULL;
}

static void read_codes(DtDiags *diags, uint32_t file, const char *text, const char *at,
                       const char *end, uint32_t line)
{
    while ((at = skip(at, end, " \t,")) < end && *at != '-') {
        const char *first = at;
        while (at < end && !strchr(" \t,\r", *at))
            at++;
        DtDiagAllow allow = {.span = {.file = file, .lo = (uint32_t)(first - text),
                                      .hi = (uint32_t)(at - text)},
                             .code = dt_arena_strndup(diags->arena, first, (size_t)(at - first)),
                             .line = line};
        if (at > first)
            DT_PUSH(diags->arena, diags->allowed, allow);
        else
            at++;
    }
}

/* Returns the first line from `line` on that has more than a comment. */
static uint32_t line_with_code(const DtDiagFile *file, uint32_t line)
{
    for (; line < file->starts.n; line++) {
        bool alone;
        const char *end =
            file->text + (line + 1 < file->starts.n ? file->starts.at[line + 1] : file->len);
        (void)comment_of(file->text + file->starts.at[line], end, &alone);
        if (!alone)
            break;
    }
    return line;
}

void dt_diag_read_allowed(DtDiags *diags, uint32_t number)
{
    const DtDiagFile *file = dt_diag_file(diags, number);
    for (uint32_t line = 0; line < file->starts.n; line++) {
        bool alone;
        const char *end =
            file->text + (line + 1 < file->starts.n ? file->starts.at[line + 1] : file->len);
        const char *at = comment_of(file->text + file->starts.at[line], end, &alone);
        at = at < end ? take(at + 1, end, "lint:") : NULL;
        at = at ? take(at, end, "allow") : NULL;
        end -= end > file->text && end[-1] == '\n';
        if (at && at < end)
            read_codes(diags, number, file->text, at, end,
                       alone ? line_with_code(file, line + 1) : line);
    }
}

bool dt_diag_is_allowed(DtDiags *diags, DtDiagCode code, DtSpan span)
{
    const DtDiagFile *file = dt_diag_file(diags, span.file);
    bool allowed = false;
    if (!file || !diags->allowed.n)
        return false;
    const uint32_t line = dt_diag_line(file, span.lo);
    for (uint32_t i = 0; i < diags->allowed.n; i++) {
        DtDiagAllow *allow = &diags->allowed.at[i];
        if (allow->span.file == span.file && allow->line == line &&
            strcmp(allow->code, dt_diag_name(code)) == 0)
            allow->used = allowed = true;
    }
    return allowed;
}

void dt_diag_check_allowed(DtDiags *diags, bool complete)
{
    for (uint32_t i = 0; i < diags->allowed.n; i++) {
        const DtDiagAllow *allow = &diags->allowed.at[i];
        DtDiagCode code;
        const bool known =
            dt_diag_find(allow->code, &code) && dt_diag_rows[code].severity == DT_SEVERITY_LINT;
        const bool by_layout = known && atoi(allow->code + 1) >= 500;
        if (allow->span.file != 1 || (known && (allow->used || by_layout || !complete)))
            continue;
        DtDiag *d =
            dt_diag_report(diags, L0204, allow->span,
                           known ? "nothing here draws %s" : "there is no lint `%s`", allow->code);
        dt_diag_help(
            d, known
                   ? "remove it; a comment behind code counts for its line, one alone for the next"
                   : "`dtc explain` lists them: a lint has an L before its number; errors stay");
    }
}
