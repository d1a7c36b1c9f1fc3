/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics as text. Lines of the source are in order, after a column of line numbers. Carets
 * mark the primary span, dashes further ones. A fix shows the line after the change, with plus
 * signs under new text. A long line is cut around the span. User text is escaped (no control
 * bytes reach a terminal), and one source character is one column, so marks are exactly under
 * the marked text. */
#include "base/diag_internal.h"
#include "base/text.h"

#include <string.h>

/* A line longer than LONG bytes is shown as at most CUT bytes around the span. */
enum { LONG = 200, CUT = 160 };

#define RED    "\033[1;31m"
#define YELLOW "\033[1;33m"
#define BLUE   "\033[1;34m"
#define GREEN  "\033[1;32m"
#define BOLD   "\033[1m"
#define OFF    "\033[0m"

typedef struct Paint {
    FILE *out;
    bool color;
    int gutter; /* width of line numbers */
} Paint;

/* The part of a source line that is printed: bytes [from, to) of the file. */
typedef struct Cut {
    uint32_t line; /* 0-based */
    size_t from, to;
    bool before, after; /* text of the line is left out before, after the part */
} Cut;

static const char *on(const Paint *paint, const char *code) { return paint->color ? code : ""; }

/* Returns how many columns a piece takes as shown: after dt_text_add_visible every character takes
 * one. */
static uint32_t columns(const char *from, size_t len)
{
    DtText visible = {0};
    uint32_t n = 0;
    dt_text_add_visible(&visible, from, len);
    for (size_t i = 0; i < visible.len; i++)
        n += ((unsigned char)visible.at[i] & 0xC0) != 0x80;
    dt_text_free(&visible);
    return n;
}

static void say(const Paint *paint, const char *text)
{
    DtText visible = {0};
    dt_text_add_visible(&visible, text, strlen(text));
    if (visible.len)
        fwrite(visible.at, 1, visible.len, paint->out);
    dt_text_free(&visible);
}

static bool continues(const DtDiagFile *file, size_t at)
{
    return at < file->len && ((unsigned char)file->text[at] & 0xC0) == 0x80;
}

static DtSpan clip(const DtDiagFile *file, DtSpan span)
{
    span.lo = span.lo < file->len ? span.lo : (uint32_t)file->len;
    span.hi = span.hi < file->len ? span.hi : (uint32_t)file->len;
    span.hi = span.hi > span.lo ? span.hi : span.lo;
    return span;
}

/* Returns the line of span.lo, cut around the span if it is long. */
static Cut cut_of(const DtDiagFile *file, DtSpan span)
{
    uint32_t line = dt_diag_line(file, span.lo);
    size_t start = file->starts.at[line];
    size_t end = line + 1 < file->starts.n ? file->starts.at[line + 1] - 1 : file->len;
    if (end > start && file->text[end - 1] == '\r')
        end--;
    Cut cut = {line, start, end, false, false};
    if (end - start <= LONG)
        return cut;
    size_t width = (span.hi < end ? span.hi : end) - (span.lo < end ? span.lo : end);
    size_t lead = width < CUT - 40 ? (CUT - width) / 2 : 20;
    cut.from = span.lo > start + lead ? span.lo - lead : start;
    if (cut.from + CUT < end) {
        cut.to = cut.from + CUT;
    } else {
        size_t room = end - CUT;
        cut.from = cut.from < room ? cut.from : room;
    }
    while (cut.from < span.lo && continues(file, cut.from))
        cut.from++;
    while (cut.to < end && cut.to > cut.from && continues(file, cut.to))
        cut.to--;
    cut.before = cut.from > start;
    cut.after = cut.to < end;
    return cut;
}

static void empty_line(const Paint *paint)
{
    fprintf(paint->out, "%s%*s |%s\n", on(paint, BLUE), paint->gutter, "", on(paint, OFF));
}

static void text_line(const Paint *paint, uint32_t line, const Cut *cut, const DtText *text)
{
    fprintf(paint->out, "%s%*u |%s%s%s%s\n", on(paint, BLUE), paint->gutter, line + 1,
            on(paint, OFF),
            cut->before ? " ..."
            : text->len ? " "
                        : "",
            text->at ? text->at : "", cut->after ? "..." : "");
}

static void mark_line(const Paint *paint, const Cut *cut, uint32_t indent, uint32_t width,
                      const char *color, char mark, const char *text)
{
    fprintf(paint->out, "%s%*s |%s %s%*s%s", on(paint, BLUE), paint->gutter, "", on(paint, OFF),
            cut->before ? "   " : "", (int)indent, "", on(paint, color));
    for (uint32_t i = 0; i < width; i++)
        fputc(mark, paint->out);
    if (text && text[0]) {
        fputc(' ', paint->out);
        say(paint, text);
    }
    fprintf(paint->out, "%s\n", on(paint, OFF));
}

/* Prints the source line of span, unless previous has just shown it, and the marks under it.
 * Returns its cut. */
static Cut marked_source(const Paint *paint, const DtDiagFile *file, DtSpan span,
                         const Cut *previous, const char *color, char mark, const char *text)
{
    span = clip(file, span);
    Cut cut = cut_of(file, span);
    bool same = previous && cut.line == previous->line && cut.from == previous->from &&
                cut.to == previous->to;
    if (!same) {
        DtText shown = {0};
        dt_text_add_visible(&shown, file->text + cut.from, cut.to - cut.from);
        text_line(paint, cut.line, &cut, &shown);
        dt_text_free(&shown);
    }
    size_t lo = span.lo < cut.to ? span.lo : cut.to, hi = span.hi < cut.to ? span.hi : cut.to;
    uint32_t width = columns(file->text + lo, hi - lo);
    mark_line(paint, &cut, columns(file->text + cut.from, lo - cut.from), width ? width : 1, color,
              mark, text);
    return cut;
}

/* Prints the result of a fix. If it inserts whole lines (its text ends in a newline), shows these,
 * numbered as they will be; otherwise shows the changed line. */
static void fixed_source(const Paint *paint, const DtDiagFile *file, const DtDiagPart *fix)
{
    DtSpan span = clip(file, fix->span);
    Cut cut = cut_of(file, span);
    DtText shown = {0};
    size_t len = strlen(fix->insert);
    bool lines = len > 0 && fix->insert[len - 1] == '\n';
    if (lines) {
        Cut all = {.line = cut.line};
        const char *at = fix->insert;
        for (uint32_t i = 0; *at; i++) {
            size_t n = strcspn(at, "\n");
            size_t blank = strspn(at, " ");
            shown.len = 0;
            dt_text_add_visible(&shown, at, n);
            text_line(paint, all.line + i, &all, &shown);
            if (n > blank)
                mark_line(paint, &all, (uint32_t)blank, columns(at + blank, n - blank), GREEN, '+',
                          NULL);
            at += n + (at[n] == '\n');
        }
    } else {
        size_t rest = span.hi < cut.to ? span.hi : cut.to;
        dt_text_add_visible(&shown, file->text + cut.from, span.lo - cut.from);
        dt_text_add_visible(&shown, fix->insert, len);
        dt_text_add_visible(&shown, file->text + rest, cut.to - rest);
        text_line(paint, cut.line, &cut, &shown);
        if (len > 0)
            mark_line(paint, &cut, columns(file->text + cut.from, span.lo - cut.from),
                      columns(fix->insert, len), GREEN, '+', NULL);
    }
    dt_text_free(&shown);
}

static void arrow(const Paint *paint, const DtDiags *diags, DtSpan span)
{
    uint32_t line, column;
    dt_diag_position(diags, span, &line, &column);
    fprintf(paint->out, "%s%*s--> %s", on(paint, BLUE), paint->gutter, "", on(paint, OFF));
    say(paint, dt_diag_path(diags, span.file));
    fprintf(paint->out, ":%u:%u\n", line, column);
}

/* Prints the primary span and the labels of one file, in source order. At equal positions the
 * primary span comes last, next to the text after it. */
static void places_in(const Paint *paint, const DtDiag *diag, uint32_t number)
{
    const DtDiagFile *file = dt_diag_file(diag->diags, number);
    const char *color = dt_diag_rows[diag->code].severity == DT_SEVERITY_ERROR ? RED : YELLOW;
    DT_VEC(DtDiagPart) places = {0};
    for (uint32_t i = 0; i < diag->parts.n; i++)
        if (diag->parts.at[i].kind == DT_PART_LABEL && diag->parts.at[i].span.file == number)
            DT_PUSH(diag->diags->arena, places, diag->parts.at[i]);
    DtDiagPart primary = {.kind = DT_PART_NOTE, .span = diag->span, .text = diag->caret};
    if (number == diag->span.file)
        DT_PUSH(diag->diags->arena, places, primary);
    for (uint32_t i = 1; i < places.n; i++) /* insertion sort, stable */
        for (uint32_t j = i; j > 0 && places.at[j].span.lo < places.at[j - 1].span.lo; j--) {
            DtDiagPart swap = places.at[j];
            places.at[j] = places.at[j - 1];
            places.at[j - 1] = swap;
        }
    Cut last;
    empty_line(paint);
    for (uint32_t i = 0; i < places.n; i++) {
        bool main = places.at[i].kind == DT_PART_NOTE;
        last = marked_source(paint, file, places.at[i].span, i ? &last : NULL, main ? color : BLUE,
                             main ? '^' : '-', places.at[i].text);
    }
}

/* Prints the places of the primary file first, then those of each other file that has labels, in
 * the order of the first label there. */
static void print_places(const Paint *paint, const DtDiag *diag)
{
    arrow(paint, diag->diags, diag->span);
    places_in(paint, diag, diag->span.file);
    for (uint32_t i = 0; i < diag->parts.n; i++) {
        const DtDiagPart *part = &diag->parts.at[i];
        if (part->kind != DT_PART_LABEL || part->span.file == diag->span.file ||
            !dt_diag_file(diag->diags, part->span.file))
            continue;
        bool seen = false;
        for (uint32_t j = 0; j < i; j++)
            seen |= diag->parts.at[j].kind == DT_PART_LABEL &&
                    diag->parts.at[j].span.file == part->span.file;
        if (seen)
            continue;
        arrow(paint, diag->diags, part->span);
        places_in(paint, diag, part->span.file);
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
    for (uint64_t power = 100; most >= power; power *= 10)
        width++;
    return width;
}

static void print_one(FILE *out, bool color, const DtDiag *diag)
{
    const DtDiagRow *row = &dt_diag_rows[diag->code];
    bool error = row->severity == DT_SEVERITY_ERROR;
    Paint paint = {out, color, gutter_of(diag)};
    fprintf(out, "%s%s[%s]%s%s: ", on(&paint, error ? RED : YELLOW), error ? "error" : "warning",
            row->name, on(&paint, OFF), on(&paint, BOLD));
    say(&paint, diag->message);
    fprintf(out, "%s\n", on(&paint, OFF));
    if (dt_diag_file(diag->diags, diag->span.file))
        print_places(&paint, diag);
    for (uint32_t i = 0; i < diag->parts.n; i++)
        if (diag->parts.at[i].kind == DT_PART_NOTE) {
            fprintf(out, "%s%*s =%s note: ", on(&paint, BLUE), paint.gutter, "", on(&paint, OFF));
            say(&paint, diag->parts.at[i].text);
            fputc('\n', out);
        }
    for (uint32_t i = 0; i < diag->parts.n; i++) {
        const DtDiagPart *part = &diag->parts.at[i];
        if (part->kind != DT_PART_HELP && part->kind != DT_PART_FIX)
            continue;
        fprintf(out, "%shelp%s: ", on(&paint, GREEN), on(&paint, OFF));
        say(&paint, part->text);
        fputc('\n', out);
        const DtDiagFile *file = dt_diag_file(diag->diags, part->span.file);
        if (part->kind == DT_PART_FIX && file)
            fixed_source(&paint, file, part);
    }
    fputc('\n', out);
}

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

void dt_diag_print(const DtDiags *diags, FILE *out, bool color)
{
    uint32_t n, shown[DT_SEVERITY_COUNT] = {0}, more[DT_SEVERITY_COUNT];
    DtDiag **list = dt_diag_sorted(diags, &n);
    for (uint32_t i = 0; i < n; i++) {
        print_one(out, color, list[i]);
        shown[dt_diag_rows[list[i]->code].severity]++;
    }
    for (uint32_t i = 0; i < DT_SEVERITY_COUNT; i++)
        more[i] = diags->counts[i] - diags->held[i];
    uint32_t errors = shown[DT_SEVERITY_ERROR] + more[DT_SEVERITY_ERROR];
    uint32_t lints = shown[DT_SEVERITY_LINT] + more[DT_SEVERITY_LINT];
    if (errors)
        fprintf(out, "%u error%s%s", errors, plural(errors), lints ? ", " : "");
    if (lints)
        fprintf(out, "%u warning%s", lints, plural(lints));
    if (more[0] + more[1])
        fprintf(out, " (%u not shown)", more[0] + more[1]);
    if (errors + lints)
        fputc('\n', out);
}
