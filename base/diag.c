/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping and rendering diagnostics. A source line is shown with a gutter; carets mark the primary span,
 * dashes further ones; a fix shows the line with the insertion and plus signs under it. Long lines are cut
 * around what matters. */
#include "base/diag.h"

#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEPT = 100, MAX_FILES = 4096, MAX_COLUMNS = 120 };

typedef enum Severity { ERROR, LINT } Severity;

typedef struct Row {
    const char *name, *title, *text;
    Severity severity;
} Row;

static const Row rows[] = {
#define DT_DIAG(code, class, title, text) {#code, title, text, class},
#include "base/diags.def"
#undef DT_DIAG
};

typedef struct File {
    const char *path, *text;
    size_t len;
    DT_VEC(uint32_t) starts; /* of lines */
} File;

typedef enum PartKind { LABEL, NOTE, HELP, FIX } PartKind;
typedef struct Part {
    PartKind kind;
    DtSpan span;
    const char *text, *insert;
} Part;

struct DtDiag {
    DtDiags *diags;
    DtDiagCode code;
    DtSpan span;
    const char *message, *caret;
    DT_VEC(Part) parts;
    uint32_t order;
};

struct DtDiags {
    DtArena *arena;
    DT_VEC(File) files;
    DT_VEC(DtDiag *) kept;
    uint32_t counts[2];
};

DtDiags *dt_diag_new(DtArena *arena)
{
    DtDiags *diags = DT_NEW(arena, DtDiags);
    diags->arena = arena;
    return diags;
}

uint32_t dt_diag_add_file(DtDiags *diags, const char *path, const char *text, size_t len)
{
    File file = {.path = dt_arena_strndup(diags->arena, path, strlen(path)), .text = text, .len = len};
    DT_PUSH(diags->arena, file.starts, 0);
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            DT_PUSH(diags->arena, file.starts, (uint32_t)i + 1);
    DT_PUSH(diags->arena, diags->files, file);
    return diags->files.n;
}

static const File *file_of(const DtDiags *diags, uint32_t file)
{
    return file >= 1 && file <= diags->files.n ? &diags->files.at[file - 1] : NULL;
}

const char *dt_diag_path(const DtDiags *diags, uint32_t file)
{
    const File *found = file_of(diags, file);
    return found ? found->path : "<nowhere>";
}

const char *dt_diag_source(const DtDiags *diags, uint32_t file, size_t *ret_len)
{
    const File *found = file_of(diags, file);
    *ret_len = found ? found->len : 0;
    return found ? found->text : "";
}

/* 0-based line that holds byte at. */
static uint32_t line_of(const File *file, uint32_t at)
{
    uint32_t low = 0, high = file->starts.n;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (file->starts.at[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint32_t characters(const char *text, size_t from, size_t to)
{
    uint32_t n = 0;
    for (size_t i = from; i < to; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

void dt_diag_position(const DtDiags *diags, DtSpan span, uint32_t *ret_line, uint32_t *ret_column)
{
    const File *file = file_of(diags, span.file);
    *ret_line = *ret_column = 1;
    if (!file)
        return;
    uint32_t at = span.lo < file->len ? span.lo : (uint32_t)file->len;
    uint32_t line = line_of(file, at);
    *ret_line = line + 1;
    *ret_column = 1 + characters(file->text, file->starts.at[line], at);
}

/* ---- collecting ---- */

#define FORMATTED(arena, format, ret_text)                                                                   \
    do {                                                                                                     \
        va_list args;                                                                                        \
        va_start(args, format);                                                                              \
        (ret_text) = dt_arena_vprintf((arena), (format), args);                                              \
        va_end(args);                                                                                        \
    } while (0)

DtDiag *dt_diag_report(DtDiags *diags, DtDiagCode code, DtSpan span, const char *format, ...)
{
    DtDiag *diag = DT_NEW(diags->arena, DtDiag);
    *diag = (DtDiag){.diags = diags, .code = code, .span = span, .order = diags->counts[0] + diags->counts[1]};
    FORMATTED(diags->arena, format, diag->message);
    diags->counts[rows[code].severity]++;
    if (diags->kept.n < MAX_KEPT)
        DT_PUSH(diags->arena, diags->kept, diag);
    return diag;
}

void dt_diag_caret(DtDiag *diag, const char *format, ...) { FORMATTED(diag->diags->arena, format, diag->caret); }

static void add_part(DtDiag *diag, Part part) { DT_PUSH(diag->diags->arena, diag->parts, part); }

void dt_diag_label(DtDiag *diag, DtSpan span, const char *format, ...)
{
    Part part = {.kind = LABEL, .span = span};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

void dt_diag_note(DtDiag *diag, const char *format, ...)
{
    Part part = {.kind = NOTE};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

void dt_diag_help(DtDiag *diag, const char *format, ...)
{
    Part part = {.kind = HELP};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

void dt_diag_fix(DtDiag *diag, DtSpan at, const char *insert, const char *format, ...)
{
    Part part = {.kind = FIX, .span = at, .insert = dt_arena_strndup(diag->diags->arena, insert, strlen(insert))};
    FORMATTED(diag->diags->arena, format, part.text);
    add_part(diag, part);
}

uint32_t dt_diag_errors(const DtDiags *diags) { return diags->counts[ERROR]; }
uint32_t dt_diag_lints(const DtDiags *diags) { return diags->counts[LINT]; }

/* ---- rendering ---- */

typedef struct Paint {
    FILE *out;
    bool color;
    int gutter; /* width of line numbers */
} Paint;

static const char *on(const Paint *paint, const char *code) { return paint->color ? code : ""; }

#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define BLUE "\033[1;34m"
#define GREEN "\033[1;32m"
#define BOLD "\033[1m"
#define OFF "\033[0m"

/* Copies bytes of a source line for showing: tabs and control bytes become one blank, bytes that are not
 * UTF-8 a question mark. */
static void add_visible(DtText *text, const char *from, size_t len)
{
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)from[i];
        size_t n = c < 0x80 ? 1 : c >= 0xF0 && c < 0xF8 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
        bool good = n > 0 && c < 0xF8 && i + n <= len;
        for (size_t j = 1; good && j < n; j++)
            good = ((unsigned char)from[i + j] & 0xC0) == 0x80;
        if (!good) {
            dt_text_add(text, "?");
            i++;
        } else if (c < 0x20 || c == 0x7F) {
            dt_text_add(text, " ");
            i++;
        } else {
            dt_text_add_n(text, from + i, n);
            i += n;
        }
    }
}

static uint32_t columns_of(const char *from, size_t len)
{
    DtText visible = {0};
    add_visible(&visible, from, len);
    uint32_t n = visible.len ? characters(visible.at, 0, visible.len) : 0;
    dt_text_free(&visible);
    return n;
}

static void bar(const Paint *paint, const char *number, const char *text)
{
    fprintf(paint->out, "%s%*s |%s%s\n", on(paint, BLUE), paint->gutter, number, on(paint, OFF), text);
}

static void marked_line(const Paint *paint, const char *pad, uint32_t indent, const char *color, char mark,
                        uint32_t width, const char *text)
{
    fprintf(paint->out, "%s%*s |%s %s%*s%s", on(paint, BLUE), paint->gutter, "", on(paint, OFF), pad, (int)indent, "",
            on(paint, color));
    for (uint32_t i = 0; i < width; i++)
        fputc(mark, paint->out);
    fprintf(paint->out, "%s%s%s\n", text && text[0] ? " " : "", text ? text : "", on(paint, OFF));
}

/* The part of a line that is shown: at most MAX_COLUMNS bytes that hold [lo, hi) as far as possible. */
static void window_of(size_t start, size_t end, size_t lo, size_t hi, size_t *ret_from, size_t *ret_to)
{
    *ret_from = start;
    *ret_to = end;
    if (end - start <= 2 * MAX_COLUMNS)
        return;
    size_t width = hi > lo ? hi - lo : 1;
    size_t before = width < MAX_COLUMNS ? (MAX_COLUMNS - width) / 2 : 10;
    *ret_from = lo > start + before ? lo - before : start;
    *ret_to = *ret_from + MAX_COLUMNS < end ? *ret_from + MAX_COLUMNS : end;
}

/* Byte range of the 0-based line, without its newline. */
static void line_range(const File *file, uint32_t line, size_t *ret_start, size_t *ret_end)
{
    *ret_start = file->starts.at[line];
    *ret_end = line + 1 < file->starts.n ? file->starts.at[line + 1] - 1 : file->len;
    if (*ret_end > *ret_start && file->text[*ret_end - 1] == '\r')
        (*ret_end)--;
}

static DtSpan clip(const File *file, DtSpan span)
{
    if (span.lo > file->len)
        span.lo = (uint32_t)file->len;
    if (span.hi > file->len)
        span.hi = (uint32_t)file->len;
    if (span.hi < span.lo)
        span.hi = span.lo;
    return span;
}

static void source_line(const Paint *paint, const File *file, DtSpan span, char mark, const char *color,
                        const char *text)
{
    span = clip(file, span);
    uint32_t line = line_of(file, span.lo);
    size_t start, end, from, to;
    line_range(file, line, &start, &end);
    size_t hi = span.hi < end ? span.hi : end;
    window_of(start, end, span.lo, hi, &from, &to);
    if (hi > to)
        hi = to;
    char number[16];
    snprintf(number, sizeof number, "%u", line + 1);
    DtText shown = {0};
    dt_text_add(&shown, from > start ? " ..." : " ");
    add_visible(&shown, file->text + from, to - from);
    dt_text_add(&shown, to < end ? "..." : "");
    bar(paint, number, shown.at);
    dt_text_free(&shown);
    uint32_t indent = span.lo > from ? columns_of(file->text + from, span.lo - from) : 0;
    uint32_t width = hi > span.lo ? columns_of(file->text + span.lo, hi - span.lo) : 1;
    marked_line(paint, from > start ? "   " : "", indent, color, mark, width ? width : 1, text);
}

static void fix_line(const Paint *paint, const File *file, const Part *fix)
{
    DtSpan span = clip(file, fix->span);
    uint32_t line = line_of(file, span.lo);
    size_t start, end, from, to;
    line_range(file, line, &start, &end);
    window_of(start, end, span.lo, span.hi, &from, &to);
    size_t rest = span.hi < to ? span.hi : to;
    char number[16];
    snprintf(number, sizeof number, "%u", line + 1);
    DtText shown = {0};
    dt_text_add(&shown, from > start ? " ..." : " ");
    add_visible(&shown, file->text + from, span.lo - from);
    add_visible(&shown, fix->insert, strlen(fix->insert));
    add_visible(&shown, file->text + rest, to - rest);
    dt_text_add(&shown, to < end ? "..." : "");
    bar(paint, number, shown.at);
    dt_text_free(&shown);
    marked_line(paint, from > start ? "   " : "", columns_of(file->text + from, span.lo - from), GREEN, '+',
                columns_of(fix->insert, strlen(fix->insert)), NULL);
}

/* Labels in the same file join the primary lines in order; others get their own arrow. */
static void print_places(const Paint *paint, const DtDiag *diag, const File *file)
{
    const DtDiags *diags = diag->diags;
    const char *color = rows[diag->code].severity == ERROR ? RED : YELLOW;
    DT_VEC(Part) places = {0};
    Part primary = {.kind = FIX, .span = diag->span, .text = diag->caret};
    DT_PUSH(diags->arena, places, primary);
    for (uint32_t i = 0; i < diag->parts.n; i++)
        if (diag->parts.at[i].kind == LABEL && diag->parts.at[i].span.file == diag->span.file)
            DT_PUSH(diags->arena, places, diag->parts.at[i]);
    for (uint32_t i = 1; i < places.n; i++) /* insertion sort by position, stable */
        for (uint32_t j = i; j > 0 && places.at[j].span.lo < places.at[j - 1].span.lo; j--) {
            Part swap = places.at[j];
            places.at[j] = places.at[j - 1];
            places.at[j - 1] = swap;
        }
    bar(paint, "", "");
    for (uint32_t i = 0; i < places.n; i++) {
        bool is_primary = places.at[i].kind == FIX;
        source_line(paint, file, places.at[i].span, is_primary ? '^' : '-', is_primary ? color : BLUE, places.at[i].text);
    }
    for (uint32_t i = 0; i < diag->parts.n; i++) {
        const Part *part = &diag->parts.at[i];
        const File *other = file_of(diags, part->span.file);
        if (part->kind != LABEL || part->span.file == diag->span.file || !other)
            continue;
        uint32_t row, column;
        dt_diag_position(diags, part->span, &row, &column);
        fprintf(paint->out, "%s%*s--> %s%s:%u:%u\n", on(paint, BLUE), paint->gutter, "", on(paint, OFF), other->path, row, column);
        bar(paint, "", "");
        source_line(paint, other, part->span, '-', BLUE, part->text);
    }
}

static int gutter_of(const DtDiag *diag)
{
    uint32_t most = 0, row, column;
    dt_diag_position(diag->diags, diag->span, &most, &column);
    for (uint32_t i = 0; i < diag->parts.n; i++)
        if (diag->parts.at[i].span.file) {
            dt_diag_position(diag->diags, diag->parts.at[i].span, &row, &column);
            most = row > most ? row : most;
        }
    int width = 2;
    for (uint32_t power = 100; most >= power && width < 9; power *= 10)
        width++;
    return width;
}

static void print_one(FILE *out, bool color, const DtDiag *diag)
{
    const DtDiags *diags = diag->diags;
    const Row *row = &rows[diag->code];
    Paint paint = {out, color, gutter_of(diag)};
    fprintf(out, "%s%s[%s]%s%s: %s%s\n", on(&paint, row->severity == ERROR ? RED : YELLOW),
            row->severity == ERROR ? "error" : "warning", row->name, on(&paint, OFF), on(&paint, BOLD), diag->message,
            on(&paint, OFF));
    const File *file = file_of(diags, diag->span.file);
    if (file) {
        uint32_t line, column;
        dt_diag_position(diags, diag->span, &line, &column);
        fprintf(out, "%s%*s--> %s%s:%u:%u\n", on(&paint, BLUE), paint.gutter, "", on(&paint, OFF), file->path, line, column);
        print_places(&paint, diag, file);
    }
    for (uint32_t i = 0; i < diag->parts.n; i++) {
        const Part *part = &diag->parts.at[i];
        if (part->kind == NOTE)
            fprintf(out, "%s%*s = %snote: %s\n", on(&paint, BLUE), paint.gutter, "", on(&paint, OFF), part->text);
    }
    for (uint32_t i = 0; i < diag->parts.n; i++) {
        const Part *part = &diag->parts.at[i];
        if (part->kind == HELP || part->kind == FIX)
            fprintf(out, "%shelp%s: %s\n", on(&paint, GREEN), on(&paint, OFF), part->text);
        const File *at = part->kind == FIX ? file_of(diags, part->span.file) : NULL;
        if (at)
            fix_line(&paint, at, part);
    }
    fputc('\n', out);
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
    return x->code == y->code && x->span.file == y->span.file && x->span.lo == y->span.lo && x->span.hi == y->span.hi &&
           strcmp(x->message, y->message) == 0;
}

/* The kept diagnostics sorted, equal ones once; ret_n of them. */
static DtDiag **sorted(const DtDiags *diags, uint32_t *ret_n)
{
    DtDiag **list = DT_NEW_ARRAY(diags->arena, DtDiag *, diags->kept.n + 1);
    uint32_t n = 0;
    if (diags->kept.n)
        memcpy(list, diags->kept.at, diags->kept.n * sizeof *list);
    qsort(list, diags->kept.n, sizeof *list, compare);
    for (uint32_t i = 0; i < diags->kept.n; i++)
        if (n == 0 || !equal(list[n - 1], list[i]))
            list[n++] = list[i];
    *ret_n = n;
    return list;
}

void dt_diag_print(const DtDiags *diags, FILE *out, bool color)
{
    uint32_t n, total[2] = {diags->counts[0], diags->counts[1]};
    DtDiag **list = sorted(diags, &n);
    for (uint32_t i = 0; i < n; i++)
        print_one(out, color, list[i]);
    for (uint32_t i = 0; i < diags->kept.n; i++)
        total[rows[diags->kept.at[i]->code].severity]--;
    uint32_t shown[2] = {total[0], total[1]};
    for (uint32_t i = 0; i < n; i++)
        shown[rows[list[i]->code].severity]++;
    if (total[0] + total[1])
        fprintf(out, "%u more not shown\n", total[0] + total[1]);
    if (shown[ERROR] || shown[LINT])
        fprintf(out, "%u error%s, %u warning%s\n", shown[ERROR], shown[ERROR] == 1 ? "" : "s", shown[LINT],
                shown[LINT] == 1 ? "" : "s");
}

static json_t *place(const DtDiags *diags, DtSpan span)
{
    uint32_t line, column, end_line, end_column;
    dt_diag_position(diags, span, &line, &column);
    dt_diag_position(diags, (DtSpan){span.file, span.hi, span.hi}, &end_line, &end_column);
    return json_pack("{s:s?, s:i, s:i, s:i, s:i}", "file", dt_diag_path(diags, span.file), "line", (int)line, "column",
                     (int)column, "end_line", (int)end_line, "end_column", (int)end_column);
}

void dt_diag_print_json(const DtDiags *diags, FILE *out)
{
    uint32_t n;
    DtDiag **list = sorted(diags, &n);
    for (uint32_t i = 0; i < n; i++) {
        const Row *row = &rows[list[i]->code];
        json_t *notes = json_array(), *help = json_array(), *labels = json_array();
        for (uint32_t j = 0; j < list[i]->parts.n; j++) {
            const Part *part = &list[i]->parts.at[j];
            json_t *text = json_string(part->text);
            if (part->kind == NOTE) {
                json_array_append_new(notes, text);
            } else if (part->kind == LABEL) {
                json_t *label = place(diags, part->span);
                json_object_set_new(label, "text", text);
                json_array_append_new(labels, label);
            } else {
                json_t *entry = part->kind == FIX ? place(diags, part->span) : json_object();
                json_object_set_new(entry, "text", text);
                if (part->kind == FIX)
                    json_object_set_new(entry, "insert", json_string(part->insert));
                json_array_append_new(help, entry);
            }
        }
        json_t *object = list[i]->span.file ? place(diags, list[i]->span) : json_object();
        json_object_set_new(object, "code", json_string(row->name));
        json_object_set_new(object, "severity", json_string(row->severity == ERROR ? "error" : "warning"));
        json_object_set_new(object, "message", json_string(list[i]->message));
        json_object_set_new(object, "labels", labels);
        json_object_set_new(object, "notes", notes);
        json_object_set_new(object, "help", help);
        json_dumpf(object, out, JSON_COMPACT | JSON_SORT_KEYS);
        fputc('\n', out);
        json_decref(object);
    }
}

const char *dt_diag_name(DtDiagCode code) { return rows[code].name; }
const char *dt_diag_title(DtDiagCode code) { return rows[code].title; }
const char *dt_diag_text(DtDiagCode code) { return rows[code].text; }

bool dt_diag_find(const char *name, DtDiagCode *ret_code)
{
    for (uint32_t i = 0; i < DT_COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) {
            *ret_code = (DtDiagCode)i;
            return true;
        }
    return false;
}
