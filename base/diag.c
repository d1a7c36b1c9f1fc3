/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting diagnostics: source files with their line starts, and per diagnostic its parts in the
 * order given. Nothing is shown here: diag_print.c renders text, diag_json.c renders JSON. */
#include "base/diag_internal.h"

#include <stdlib.h>
#include <string.h>

const DtDiagRow dt_diag_rows[DT_DIAG_COUNT] = {
#define DT_DIAG(code, class, title, text) {#code, title, text, DT_SEVERITY_##class},
#include "base/diags.def"
#undef DT_DIAG
};

DtDiags *dt_diag_new(DtArena *arena)
{
    DtDiags *diags = DT_NEW(arena, DtDiags);
    diags->arena = arena;
    return diags;
}

uint32_t dt_diag_add_file(DtDiags *diags, const char *path, const char *text, size_t len)
{
    DtDiagFile file = {
        .path = dt_arena_strndup(diags->arena, path, strlen(path)), .text = text, .len = len};
    DT_PUSH(diags->arena, file.starts, 0);
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            DT_PUSH(diags->arena, file.starts, (uint32_t)i + 1);
    DT_PUSH(diags->arena, diags->files, file);
    dt_diag_read_allowed(diags, diags->files.n);
    return diags->files.n;
}

const DtDiagFile *dt_diag_file(const DtDiags *diags, uint32_t file)
{
    return file >= 1 && file <= diags->files.n ? &diags->files.at[file - 1] : NULL;
}

uint32_t dt_diag_files(const DtDiags *diags) { return diags->files.n; }

const char *dt_diag_path(const DtDiags *diags, uint32_t file)
{
    const DtDiagFile *found = dt_diag_file(diags, file);
    return found ? found->path : "<nowhere>";
}

const char *dt_diag_source(const DtDiags *diags, uint32_t file, size_t *ret_len)
{
    const DtDiagFile *found = dt_diag_file(diags, file);
    *ret_len = found ? found->len : 0;
    return found ? found->text : NULL;
}

uint32_t dt_diag_line(const DtDiagFile *file, uint32_t at)
{
    uint32_t low = 0, high = file->starts.n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (file->starts.at[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void dt_diag_position(const DtDiags *diags, DtSpan span, uint32_t *ret_line, uint32_t *ret_column)
{
    const DtDiagFile *file = dt_diag_file(diags, span.file);
    *ret_line = *ret_column = 1;
    if (!file)
        return;
    uint32_t at = span.lo < file->len ? span.lo : (uint32_t)file->len;
    uint32_t line = dt_diag_line(file, at);
    *ret_line = line + 1;
    for (uint32_t i = file->starts.at[line]; i < at; i++) /* continuation bytes do not count */
        *ret_column += ((unsigned char)file->text[i] & 0xC0) != 0x80;
}

#define FORMATTED(arena, format, ret_text)                      \
    do {                                                        \
        va_list args;                                           \
        va_start(args, format);                                 \
        (ret_text) = dt_arena_vprintf((arena), (format), args); \
        va_end(args);                                           \
    } while (0)

DtDiag *dt_diag_report(DtDiags *diags, DtDiagCode code, DtSpan span, const char *format, ...)
{
    DtDiag *diag = DT_NEW(diags->arena, DtDiag);
    DtSeverity severity = dt_diag_rows[code].severity;
    *diag = (DtDiag){.diags = diags, .code = code, .span = span};
    diag->order = diags->counts[DT_SEVERITY_ERROR] + diags->counts[DT_SEVERITY_LINT];
    FORMATTED(diags->arena, format, diag->message);
    if (severity == DT_SEVERITY_LINT && dt_diag_is_allowed(diags, code, span))
        return diag; /* a `lint: allow` comment silences it */
    diags->counts[severity]++;
    if (diags->held[severity] < DT_DIAG_KEPT) {
        DT_PUSH(diags->arena, diags->kept, diag);
        diags->held[severity]++;
    }
    return diag;
}

void dt_diag_caret(DtDiag *diag, const char *format, ...)
{
    FORMATTED(diag->diags->arena, format, diag->caret);
}

static void add_part(DtDiag *diag, DtDiagPart part)
{
    DT_PUSH(diag->diags->arena, diag->parts, part);
}

void dt_diag_label(DtDiag *diag, DtSpan span, const char *format, ...)
{
    DtDiagPart part = {.kind = DT_PART_LABEL, .span = span};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

void dt_diag_note(DtDiag *diag, const char *format, ...)
{
    DtDiagPart part = {.kind = DT_PART_NOTE};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

void dt_diag_help(DtDiag *diag, const char *format, ...)
{
    DtDiagPart part = {.kind = DT_PART_HELP};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

void dt_diag_fix(DtDiag *diag, DtSpan at, const char *insert, const char *format, ...)
{
    DtDiagPart part = {.kind = DT_PART_FIX, .span = at};
    part.insert = dt_arena_strndup(diag->diags->arena, insert, strlen(insert));
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

uint32_t dt_diag_errors(const DtDiags *diags) { return diags->counts[DT_SEVERITY_ERROR]; }
uint32_t dt_diag_lints(const DtDiags *diags) { return diags->counts[DT_SEVERITY_LINT]; }

/* ---- trials ---- */

DtDiags *dt_diag_aside(const DtDiags *diags)
{
    DtDiags *aside = dt_diag_new(diags->arena);
    aside->files = diags->files; /* shared: code that tries a fix adds no files */
    return aside;
}

static bool has_place(const DtDiags *diags, const DtDiag *diag)
{
    for (uint32_t i = 0; i < diags->kept.n; i++) {
        const DtDiag *other = diags->kept.at[i];
        if (other->code == diag->code && other->span.file == diag->span.file &&
            other->span.lo == diag->span.lo && other->span.hi == diag->span.hi)
            return true;
    }
    return false;
}

static DtDiag *keep(DtDiags *diags, const DtDiag *diag)
{
    DtDiag *copy = DT_NEW(diags->arena, DtDiag);
    *copy = *diag;
    copy->diags = diags;
    copy->order = diags->counts[DT_SEVERITY_ERROR] + diags->counts[DT_SEVERITY_LINT];
    DtSeverity severity = dt_diag_rows[diag->code].severity;
    diags->counts[severity]++;
    if (diags->held[severity] < DT_DIAG_KEPT) {
        DT_PUSH(diags->arena, diags->kept, copy);
        diags->held[severity]++;
    }
    return copy;
}

DtDiags *dt_diag_common(const DtDiags *a, const DtDiags *b)
{
    DtDiags *common = dt_diag_aside(a);
    for (uint32_t i = 0; i < a->kept.n; i++)
        if (dt_diag_rows[a->kept.at[i]->code].severity == DT_SEVERITY_ERROR &&
            has_place(b, a->kept.at[i]))
            keep(common, a->kept.at[i]);
    return common;
}

uint32_t dt_diag_take(DtDiags *diags, const DtDiags *from, DtDiagCode code, const char *note)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < from->kept.n; i++) {
        if (from->kept.at[i]->code != code || dt_diag_rows[code].severity != DT_SEVERITY_ERROR)
            continue;
        n++;
        if (has_place(diags, from->kept.at[i]))
            continue;
        DtDiag *diag = keep(diags, from->kept.at[i]);
        if (note)
            dt_diag_note(diag, "%s", note);
    }
    return n;
}

void dt_diag_drop(DtDiags *diags, DtDiagCode code)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < diags->kept.n; i++) {
        DtDiag *diag = diags->kept.at[i];
        if (diag->code != code || dt_diag_rows[code].severity != DT_SEVERITY_LINT) {
            diags->kept.at[n++] = diag;
            continue;
        }
        diags->counts[DT_SEVERITY_LINT]--;
        diags->held[DT_SEVERITY_LINT]--;
    }
    diags->kept.n = n;
}

bool dt_diag_has(const DtDiags *diags, DtDiagCode code)
{
    for (uint32_t i = 0; i < diags->kept.n; i++)
        if (diags->kept.at[i]->code == code)
            return true;
    return false;
}

bool dt_diag_has_at(const DtDiags *diags, DtDiagCode code, DtSpan span)
{
    return has_place(diags, &(DtDiag){.code = code, .span = span});
}

bool dt_diag_only(const DtDiags *diags, DtDiagCode code)
{
    for (uint32_t i = 0; i < diags->kept.n; i++)
        if (diags->kept.at[i]->code != code &&
            dt_diag_rows[diags->kept.at[i]->code].severity == DT_SEVERITY_ERROR)
            return false;
    return true;
}

DtDiagFirst dt_diag_first(const DtDiags *diags)
{
    uint32_t i = 0;
    while (dt_diag_rows[diags->kept.at[i]->code].severity != DT_SEVERITY_ERROR)
        i++;
    return (DtDiagFirst){.span = diags->kept.at[i]->span, .message = diags->kept.at[i]->message};
}

static int compare(const void *a, const void *b)
{
    const DtDiag *x = *(DtDiag *const *)a, *y = *(DtDiag *const *)b;
    if (x->span.file != y->span.file)
        return x->span.file < y->span.file ? -1 : 1;
    if (x->span.lo != y->span.lo)
        return x->span.lo < y->span.lo ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool equal(const DtDiag *x, const DtDiag *y)
{
    return x->code == y->code && x->span.file == y->span.file && x->span.lo == y->span.lo &&
           x->span.hi == y->span.hi && strcmp(x->message, y->message) == 0;
}

DtDiag **dt_diag_sorted(const DtDiags *diags, uint32_t *ret_n)
{
    DtDiag **list = DT_NEW_ARRAY(diags->arena, DtDiag *, diags->kept.n + 1);
    uint32_t n = 0;
    if (diags->kept.n) {
        memcpy(list, diags->kept.at, diags->kept.n * sizeof(DtDiag *));
        qsort(list, diags->kept.n, sizeof(DtDiag *), compare);
    }
    for (uint32_t i = 0; i < diags->kept.n; i++) {
        uint32_t j = n; /* equal ones start at the same byte, so only these need a look */
        while (j > 0 && list[j - 1]->span.lo == list[i]->span.lo && !equal(list[j - 1], list[i]))
            j--;
        if (j == 0 || !equal(list[j - 1], list[i]))
            list[n++] = list[i];
    }
    *ret_n = n;
    return list;
}

const char *dt_diag_name(DtDiagCode code) { return dt_diag_rows[code].name; }
const char *dt_diag_title(DtDiagCode code) { return dt_diag_rows[code].title; }
const char *dt_diag_text(DtDiagCode code) { return dt_diag_rows[code].text; }

bool dt_diag_find(const char *name, DtDiagCode *ret_code)
{
    for (uint32_t i = 0; i < DT_DIAG_COUNT; i++)
        if (strcmp(dt_diag_rows[i].name, name) == 0) {
            *ret_code = (DtDiagCode)i;
            return true;
        }
    return false;
}
