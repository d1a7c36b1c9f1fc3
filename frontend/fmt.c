/* SPDX-License-Identifier: Apache-2.0 */
/* `dtc fmt`: prints a program in the standard layout. It works on tokens: it keeps line breaks and
 * comments and replaces all blanks between tokens.
 *
 *   indent      two spaces for each open brace; within `(` or `[` the column of the token after
 *               the bracket, or four spaces more than the bracket's line if the bracket ends it. A
 *               line that continues a statement keeps its distance from the statement's first
 *               column, or its column if an operator is above it (`|>`); if it has no indent, it
 *               gets four spaces more
 *   spaces      one around operators and after `,` and `;`; none inside `(` and `[`, around `.` and
 *               `:`, after `@` and the minus sign; one before the options of a directive, as in
 *               `on pipe (chunks = 2)`
 *   blank lines at most one in a row, none at the beginning and the end
 *   comments    comments after code keep their columns if the code leaves room and if comments on
 *               consecutive lines have one column, or two spaces in front of each; otherwise they
 *               are aligned, two spaces after the longest line
 *
 * Line breaks are kept and tokens stay separate, so the tree does not change. A program that
 * follows these rules, aligned by hand, is not changed. */
#include "frontend/syntax.h"

#include "dsl_parser.h"

#include <string.h>

/* One line of the output. */
typedef struct Line {
    uint32_t lo, hi; /* bytes of Fmt.code; indent included */
    DtSpan comment;  /* comment after the code; empty: none */
    bool blank_before;
    bool only_comment;
} Line;

typedef struct Bracket {
    int kind;
    uint32_t column; /* the column of the token after the bracket, in characters */
    uint32_t indent; /* indent of the line with the bracket */
    bool last;       /* the bracket is the last token of its line */
    bool group;      /* the bracket is that of `@(a, b)` */
} Bracket;

typedef struct Fmt {
    DtArena *arena;
    const char *source;
    DtTokens raw; /* raw tokens, with comments */
    bool *starts; /* by raw token: begins a statement, entry or item */
    bool *config; /* by raw token: is in a configuration block */
    uint32_t *columns; /* by raw token: its column in the output, in characters */
    DtText code;
    DT_VEC(Line) lines;
    DT_VEC(Bracket) open;
    uint32_t depth;      /* open braces */
    uint32_t indent;     /* indent of the present line */
    uint32_t line_start; /* where the present line begins in `code` */
    bool directive;      /* the present token is in a directive of a configuration block */
    bool after_group;    /* the last token ended the axes of a contraction */
    bool after_sign;     /* the last token was a minus sign */
    int last;            /* kind of the last token that is not a comment, or DT_TOK_END */
} Fmt;

static bool ends_value(int kind)
{
    return kind == DT_TOK_ID || kind == DT_TOK_INT || kind == DT_TOK_FLOAT ||
           kind == DT_TOK_QUANTITY || kind == DT_TOK_STRING || kind == DT_TOK_DTYPE ||
           kind == DT_TOK_TRUE || kind == DT_TOK_FALSE || kind == DT_TOK_RPAREN ||
           kind == DT_TOK_RBRACKET || kind == DT_TOK_INDEX;
}

static bool in_parens(const Fmt *f)
{
    return f->open.n && f->open.at[f->open.n - 1].kind != DT_TOK_LBRACE;
}

static bool space_before(const Fmt *f, int kind)
{
    int last = f->last;
    if (last == DT_TOK_LPAREN || last == DT_TOK_LBRACKET || last == DT_TOK_DOT ||
        last == DT_TOK_COLON || last == DT_TOK_AT || f->after_sign ||
        (last == DT_TOK_LBRACE && kind == DT_TOK_RBRACE))
        return false;
    if (kind == DT_TOK_COMMA || kind == DT_TOK_SEMI || kind == DT_TOK_RPAREN ||
        kind == DT_TOK_RBRACKET || kind == DT_TOK_DOT || kind == DT_TOK_INDEX ||
        kind == DT_TOK_COLON)
        return false;
    if (kind == DT_TOK_LPAREN && ends_value(last))
        return f->after_group || (f->directive && !in_parens(f));
    if (kind == DT_TOK_LBRACKET && ends_value(last))
        return f->after_group;
    return true;
}

/* Returns the index of the next token from i on that is no comment; n if there is none. */
static uint32_t next_code(const Fmt *f, uint32_t i)
{
    while (i < f->raw.n && f->raw.at[i].kind == DT_TOK_COMMENT)
        i++;
    return i;
}

/* Returns the column of a byte of the source, in characters. */
static uint32_t source_column(const Fmt *f, uint32_t at)
{
    uint32_t column = 0;
    while (at > 0 && f->source[at - 1] != '\n')
        column += (f->source[--at] & 0xC0) != 0x80;
    return column;
}

/* Returns the indent of a line that continues a statement; `code` is the line's first token. */
static uint32_t continued_indent(const Fmt *f, uint32_t code)
{
    const DtToken *t = &f->raw.at[code];
    const uint32_t own = source_column(f, t->span.lo);
    uint32_t start = code;
    while (start > 0 && !f->starts[start]) {
        const DtToken *before = &f->raw.at[--start];
        if (before->kind == t->kind && source_column(f, before->span.lo) == own)
            return f->columns[start];
    }
    const uint32_t begin = source_column(f, f->raw.at[start].span.lo);
    return own >= begin + 2 ? f->columns[start] + own - begin : 2 * f->depth + 4;
}

/* Returns the indent of a line that begins with token i. */
static uint32_t indent_of(const Fmt *f, uint32_t i)
{
    uint32_t code = next_code(f, i);
    int kind = code < f->raw.n ? f->raw.at[code].kind : DT_TOK_END;
    bool comment = i != code;
    if (in_parens(f)) {
        const Bracket *open = &f->open.at[f->open.n - 1];
        bool closes = !comment && (kind == DT_TOK_RPAREN || kind == DT_TOK_RBRACKET);
        return !open->last ? open->column : closes ? open->indent : open->indent + 4;
    }
    if (kind == DT_TOK_END)
        return 2 * f->depth;
    if (kind == DT_TOK_RBRACE)
        return 2 * (f->depth - (comment ? 0 : 1));
    bool block = kind == DT_TOK_LBRACE || (kind == DT_TOK_ELSE && f->last == DT_TOK_RBRACE);
    return f->starts[code] || block ? 2 * f->depth : continued_indent(f, code);
}

static uint32_t column_of(const Fmt *f)
{
    uint32_t column = 0;
    for (size_t i = f->line_start; i < f->code.len; i++)
        column += (f->code.at[i] & 0xC0) != 0x80;
    return column;
}

static void end_line(Fmt *f)
{
    if (f->lines.n)
        f->lines.at[f->lines.n - 1].hi = (uint32_t)f->code.len;
}

static void begin_line(Fmt *f, uint32_t i)
{
    end_line(f);
    const DtToken *t = &f->raw.at[i];
    f->indent = indent_of(f, i);
    f->line_start = (uint32_t)f->code.len;
    Line line = {.lo = f->line_start,
                 .blank_before = f->lines.n && t->lines > 1,
                 .only_comment = t->kind == DT_TOK_COMMENT};
    DT_PUSH(f->arena, f->lines, line);
    for (uint32_t k = 0; k < f->indent; k++)
        dt_text_add(&f->code, " ");
}

/* Updates the open brackets, and what space_before and indent_of read of the last tokens, for token
 * i. */
static void note_token(Fmt *f, uint32_t i)
{
    const DtToken *t = &f->raw.at[i];
    bool sign = t->kind == DT_TOK_MINUS && (!ends_value(f->last) || f->after_group);
    bool group = f->last == DT_TOK_AT && t->kind == DT_TOK_ID;
    if (t->kind == DT_TOK_LPAREN || t->kind == DT_TOK_LBRACKET || t->kind == DT_TOK_LBRACE) {
        Bracket open = {.kind = t->kind,
                        .column = column_of(f),
                        .indent = f->indent,
                        .group = f->last == DT_TOK_AT};
        open.last =
            i + 1 < f->raw.n && (f->raw.at[i + 1].lines || f->raw.at[i + 1].kind == DT_TOK_COMMENT);
        DT_PUSH(f->arena, f->open, open);
        f->depth += t->kind == DT_TOK_LBRACE;
    } else if (t->kind == DT_TOK_RPAREN || t->kind == DT_TOK_RBRACKET || t->kind == DT_TOK_RBRACE) {
        group = f->open.at[--f->open.n].group;
        f->depth -= t->kind == DT_TOK_RBRACE;
    }
    f->after_sign = sign;
    f->after_group = group;
    f->last = t->kind;
}

static void lay_token(Fmt *f, uint32_t i)
{
    const DtToken *t = &f->raw.at[i];
    bool fresh = t->lines || i == 0;
    if (fresh)
        begin_line(f, i);
    if (t->kind == DT_TOK_COMMENT) {
        DtSpan comment = t->span;
        while (comment.hi > comment.lo && strchr(" \t\r", f->source[comment.hi - 1]) &&
               f->source[comment.hi - 1])
            comment.hi--;
        f->lines.at[f->lines.n - 1].comment = comment;
        return;
    }
    if (f->starts[i]) {
        uint32_t next = next_code(f, i + 1);
        int kind = next < f->raw.n ? f->raw.at[next].kind : DT_TOK_END;
        f->directive = f->config[i] && t->kind == DT_TOK_ID && kind != DT_TOK_ASSIGN &&
                       kind != DT_TOK_COMMA && kind != DT_TOK_LBRACKET && kind != DT_TOK_STRING;
    }
    if (!fresh && space_before(f, t->kind))
        dt_text_add(&f->code, " ");
    f->columns[i] = column_of(f);
    dt_text_add_n(&f->code, f->source + t->span.lo, t->span.hi - t->span.lo);
    note_token(f, i);
}

/* Marks in f->starts the raw tokens that begin a statement, and in f->config those in configuration
 * blocks, as the parser's rules of layout see them. */
static void find_starts(Fmt *f, DtDiags *diags, uint32_t file)
{
    DtTokens laid = dt_layout_tokens(f->arena, diags, file, &f->raw);
    f->starts = DT_NEW_ARRAY(f->arena, bool, f->raw.n + 1);
    f->config = DT_NEW_ARRAY(f->arena, bool, f->raw.n + 1);
    f->columns = DT_NEW_ARRAY(f->arena, uint32_t, f->raw.n + 1);
    uint32_t k = 0;
    for (uint32_t i = 0; i < f->raw.n; i++) {
        if (f->raw.at[i].kind == DT_TOK_COMMENT)
            continue;
        while (laid.at[k].inserted)
            k++;
        int before = k ? laid.at[k - 1].kind : DT_TOK_SEMI;
        f->starts[i] = before == DT_TOK_SEMI || before == DT_TOK_LBRACE;
        f->config[i] = laid.at[k].config && laid.at[k].depth > 0;
        k++;
    }
}

static uint32_t width_of(const Fmt *f, const Line *line)
{
    uint32_t width = 0;
    for (uint32_t i = line->lo; i < line->hi; i++)
        width += (f->code.at[i] & 0xC0) != 0x80;
    return width;
}

static bool has_trailing(const Line *line)
{
    return line->comment.hi > line->comment.lo && !line->only_comment;
}

/* Whether the comments of lines [first, end) may stay in their columns. */
static bool keeps_columns(const Fmt *f, uint32_t first, uint32_t end)
{
    const uint32_t column = source_column(f, f->lines.at[first].comment.lo);
    bool one = true, apart = true, room = true;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t own = source_column(f, f->lines.at[i].comment.lo);
        const uint32_t width = width_of(f, &f->lines.at[i]);
        one = one && own == column;
        apart = apart && own >= width + 2;
        room = room && own > width;
    }
    return room && (one || apart);
}

/* Finds the run of lines from `first` on that have comments after code: returns the line after it,
 * and the column of its comments, or 0 if they keep theirs. */
static uint32_t comments_from(const Fmt *f, uint32_t first, uint32_t *ret_column)
{
    uint32_t end = first;
    *ret_column = 0;
    while (end < f->lines.n && has_trailing(&f->lines.at[end]) &&
           (end == first || !f->lines.at[end].blank_before)) {
        const uint32_t width = width_of(f, &f->lines.at[end++]);
        *ret_column = width + 2 > *ret_column ? width + 2 : *ret_column;
    }
    if (keeps_columns(f, first, end))
        *ret_column = 0;
    return end;
}

/* Writes the lines and aligns the comments after code that do not keep their columns. */
static void write_lines(const Fmt *f, DtText *ret_text)
{
    uint32_t end = 0, column = 0; /* data of the run of comment lines that contains line i */
    for (uint32_t i = 0; i < f->lines.n; i++) {
        const Line *line = &f->lines.at[i];
        if (i >= end && has_trailing(line))
            end = comments_from(f, i, &column);
        if (line->blank_before)
            dt_text_add(ret_text, "\n");
        dt_text_add_n(ret_text, f->code.at + line->lo, line->hi - line->lo);
        const uint32_t to = column ? column : source_column(f, line->comment.lo);
        for (uint32_t k = width_of(f, line); has_trailing(line) && k < to; k++)
            dt_text_add(ret_text, " ");
        dt_text_add_n(ret_text, f->source + line->comment.lo, line->comment.hi - line->comment.lo);
        dt_text_add(ret_text, "\n");
    }
}

bool dt_fmt(DtDiags *diags, uint32_t file, DtText *ret_text)
{
    DtArena *arena = dt_arena_new();
    uint32_t errors = dt_diag_errors(diags);
    dt_parse(arena, diags, file);
    bool ok = dt_diag_errors(diags) == errors;
    if (ok) {
        size_t len;
        Fmt f = {.arena = arena, .source = dt_diag_source(diags, file, &len), .last = DT_TOK_END};
        f.raw = dt_scan_tokens(arena, diags, file);
        find_starts(&f, diags, file);
        for (uint32_t i = 0; i < f.raw.n; i++)
            lay_token(&f, i);
        end_line(&f);
        write_lines(&f, ret_text);
        dt_text_free(&f.code);
    }
    dt_arena_free(arena);
    return ok;
}
