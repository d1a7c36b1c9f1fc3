/* SPDX-License-Identifier: Apache-2.0 */
/* Fixes as edits of a source text. cli/fixes.c compiles each fix before it is shown; this file
 * judges whether a fix mends its diagnostic. */
#include "base/diag_internal.h"

#include <string.h>

/* Finds fix number `number` among all kept diagnostics: part *ret_part of diagnostic *ret_diag.
 * False: there are not so many. */
static bool find(const DtDiags *diags, uint32_t number, uint32_t *ret_diag, uint32_t *ret_part)
{
    for (uint32_t i = 0; i < diags->kept.n; i++)
        for (uint32_t k = 0; k < diags->kept.at[i]->parts.n; k++)
            if (diags->kept.at[i]->parts.at[k].kind == DT_PART_FIX && number-- == 0) {
                *ret_diag = i;
                *ret_part = k;
                return true;
            }
    return false;
}

bool dt_diag_fix_at(const DtDiags *diags, uint32_t number, DtDiagFix *ret_fix)
{
    uint32_t i, k;
    if (!find(diags, number, &i, &k))
        return false;
    const DtDiag *diag = diags->kept.at[i];
    *ret_fix = (DtDiagFix){diag->code, diag->parts.at[k].span, diag->parts.at[k].insert,
                           diag->parts.at[k].text, i};
    return true;
}

void dt_diag_fix_drop(DtDiags *diags, uint32_t number)
{
    uint32_t i, k;
    if (!find(diags, number, &i, &k))
        return;
    DtDiag *diag = diags->kept.at[i];
    for (diag->parts.n--; k < diag->parts.n; k++)
        diag->parts.at[k] = diag->parts.at[k + 1];
}

void dt_diag_fix_demote(DtDiags *diags, uint32_t number)
{
    uint32_t i, k;
    if (!find(diags, number, &i, &k))
        return;
    diags->kept.at[i]->parts.at[k].kind = DT_PART_HELP;
    diags->kept.at[i]->parts.at[k].span = (DtSpan){0};
}

char *dt_diag_fix_text(const DtDiags *diags, DtArena *arena, const DtDiagFix *fix, size_t *ret_len)
{
    const DtDiagFile *file = dt_diag_file(diags, fix->at.file);
    if (!file || fix->at.lo > fix->at.hi || fix->at.hi > file->len)
        return NULL;
    const size_t insert = strlen(fix->insert), behind = file->len - fix->at.hi;
    *ret_len = fix->at.lo + insert + behind;
    char *text = DT_NEW_ARRAY(arena, char, *ret_len + 1);
    memcpy(text, file->text, fix->at.lo);
    memcpy(text + fix->at.lo, fix->insert, insert);
    memcpy(text + fix->at.lo + insert, file->text + fix->at.hi, behind);
    return text;
}

/* ---- the judgement ---- */

static bool is_error(const DtDiag *diag)
{
    return dt_diag_rows[diag->code].severity == DT_SEVERITY_ERROR;
}

static bool alike(const DtDiag *a, const DtDiag *b)
{
    return a->code == b->code && !strcmp(a->message, b->message) &&
           !strcmp(dt_diag_path(a->diags, a->span.file), dt_diag_path(b->diags, b->span.file));
}

static uint32_t count(const DtDiags *diags, const DtDiag *wanted)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < diags->kept.n; i++)
        n += alike(diags->kept.at[i], wanted);
    return n;
}

/* Whether a diagnostic of the changed text begins on a line that the fix has written. */
static bool is_there(const DtDiags *before, const DtDiagFix *fix, const DtDiag *diag)
{
    const DtDiagFile *file = dt_diag_file(diag->diags, diag->span.file);
    if (!file || strcmp(file->path, dt_diag_path(before, fix->at.file)) != 0)
        return false;
    const uint32_t line = dt_diag_line(file, diag->span.lo);
    const uint32_t end = fix->at.lo + (uint32_t)strlen(fix->insert);
    return line >= dt_diag_line(file, fix->at.lo) && line <= dt_diag_line(file, end);
}

DtDiagMends dt_diag_fix_mends(const DtDiags *before, const DtDiagFix *fix, const DtDiags *after)
{
    const DtDiag *mended = before->kept.at[fix->diag];
    bool alone = is_error(mended);
    for (uint32_t i = 0; i < before->kept.n; i++)
        alone = alone && (!is_error(before->kept.at[i]) || alike(before->kept.at[i], mended));
    const bool syntax =
        dt_diag_name(mended->code)[1] == '0' && dt_diag_name(mended->code)[2] == '1';
    if (count(after, mended) >= count(before, mended))
        return DT_FIX_LEAVES;
    for (uint32_t i = 0; i < after->kept.n; i++) {
        const DtDiag *diag = after->kept.at[i];
        if (!is_error(diag) || count(before, diag) >= count(after, diag))
            continue;
        if (is_there(before, fix, diag) || (alone && !syntax))
            return DT_FIX_MAKES_ANOTHER;
    }
    return DT_FIX_MENDS;
}
