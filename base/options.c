/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines from a table of options: see options.h. */
#include "options.h"

#include <ctype.h>
#include <string.h>

/* ---- reading ---- */

void dt_options_open(DtOptions *options, const DtOptionTable *table, int argc, char *const *argv,
                     int first)
{
    *options = (DtOptions){.table = table, .argv = argv, .argc = argc, .next = first};
}

static int index_of(const DtOptions *o, const DtOptionRow *row)
{
    return (int)(row - o->table->rows);
}

static bool is_optional(const DtOptionRow *row) { return row->value && row->value[0] == '['; }

static int unknown(DtOptions *o, const char *name, size_t len)
{
    const char *names[256];
    char copy[100];
    size_t n = 0;
    for (uint32_t i = 0; i < o->table->n_rows && n < 256; i++)
        if (o->table->rows[i].name)
            names[n++] = o->table->rows[i].name;
    snprintf(copy, sizeof copy, "%.*s", (int)(len < 99 ? len : 99), name);
    const char *nearest = dt_text_nearest(copy, names, n);
    if (nearest)
        snprintf(o->message, sizeof o->message, "unknown option --%s; did you mean --%s?", copy,
                 nearest);
    else
        snprintf(o->message, sizeof o->message, "unknown option --%s; %s --help lists them all",
                 copy, o->table->program);
    return DT_OPTIONS_WRONG;
}

/* Takes the next argument as the option's value; returns WRONG after a message if there is none. */
static int take_value(DtOptions *o, const DtOptionRow *row, const char *written)
{
    if (o->next == o->argc) {
        snprintf(o->message, sizeof o->message, "%s needs a value: %s", written, row->value);
        return DT_OPTIONS_WRONG;
    }
    o->value = o->argv[o->next++];
    return index_of(o, row);
}

static int read_long(DtOptions *o, const char *argument)
{
    const char *name = argument + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    for (uint32_t i = 0; i < o->table->n_rows; i++) {
        const DtOptionRow *row = &o->table->rows[i];
        if (!row->name || strlen(row->name) != len || memcmp(row->name, name, len))
            continue;
        if (equals && !row->value) {
            snprintf(o->message, sizeof o->message, "--%s takes no value", row->name);
            return DT_OPTIONS_WRONG;
        }
        o->value = equals ? equals + 1 : NULL;
        if (equals || !row->value || is_optional(row))
            return index_of(o, row);
        return take_value(o, row, argument);
    }
    return unknown(o, name, len);
}

static int read_letter(DtOptions *o)
{
    char letter = *o->letters++;
    for (uint32_t i = 0; i < o->table->n_rows; i++) {
        const DtOptionRow *row = &o->table->rows[i];
        if (!row->letter || row->letter != letter)
            continue;
        char written[3] = {'-', letter, 0};
        o->value = NULL;
        if (!row->value || is_optional(row)) {
            if (!*o->letters)
                o->letters = NULL;
            return index_of(o, row);
        }
        const char *rest = *o->letters ? o->letters : NULL;
        o->letters = NULL;
        if (!rest)
            return take_value(o, row, written);
        o->value = rest;
        return index_of(o, row);
    }
    o->letters = NULL;
    snprintf(o->message, sizeof o->message, "unknown option -%c; %s --help lists them all",
             isprint((unsigned char)letter) ? letter : '?', o->table->program);
    return DT_OPTIONS_WRONG;
}

int dt_options_next(DtOptions *options)
{
    options->value = NULL;
    if (options->letters)
        return read_letter(options);
    if (options->next == options->argc)
        return DT_OPTIONS_END;
    const char *argument = options->argv[options->next++];
    if (!options->only_words && !strcmp(argument, "--")) {
        options->only_words = true;
        return dt_options_next(options);
    }
    if (options->only_words || argument[0] != '-' || !argument[1]) {
        options->value = argument;
        return DT_OPTIONS_WORD;
    }
    if (argument[1] == '-')
        return read_long(options, argument);
    options->letters = argument + 1;
    return read_letter(options);
}

/* ---- help ---- */

/* Appends the option's name as in "-o, --output=FILE". */
static void print_name(const DtOptionRow *row, DtText *text)
{
    if (row->letter)
        dt_text_printf(text, "-%c", row->letter);
    if (row->letter && row->name)
        dt_text_add(text, ", ");
    if (row->name)
        dt_text_printf(text, "--%s", row->name);
    if (!row->value)
        return;
    if (is_optional(row))
        dt_text_printf(text, "[=%.*s]", (int)strlen(row->value) - 2, row->value + 1);
    else
        dt_text_printf(text, "%s%s", row->name ? "=" : " ", row->value);
}

/* Wraps words at 96 columns, continuing at column 28. */
static void print_wrapped(const char *words, DtText *text)
{
    enum { INDENT = 28, WIDTH = 96 };
    size_t column = INDENT;
    while (*words) {
        size_t len = strcspn(words, " ");
        if (column > INDENT && column + 1 + len > WIDTH) {
            dt_text_printf(text, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            dt_text_add(text, " ");
            column++;
        }
        dt_text_add_n(text, words, len);
        column += len;
        words += len + strspn(words + len, " ");
    }
    dt_text_add(text, "\n");
}

static void print_row(const DtOptionRow *row, DtText *text)
{
    DtText name = {0};
    dt_text_add(&name, row->letter ? "  " : "      ");
    print_name(row, &name);
    if (name.len > 26)
        dt_text_printf(text, "%s\n%28s", name.at, "");
    else
        dt_text_printf(text, "%-28s", name.at);
    dt_text_free(&name);
    print_wrapped(row->help, text);
}

void dt_options_help(const DtOptionTable *table, DtText *ret_text)
{
    dt_text_printf(ret_text, "%s %s: %s\n\n", table->program, table->version, table->purpose);
    for (const char *line = table->synopsis; *line;) {
        size_t len = strcspn(line, "\n");
        dt_text_printf(ret_text, "%s%s %.*s\n", line == table->synopsis ? "usage: " : "       ",
                       table->program, (int)len, line);
        line += len + (line[len] == '\n');
    }
    const char *group = NULL;
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const DtOptionRow *row = &table->rows[i];
        if (!row->group)
            continue;
        if (!group || strcmp(group, row->group))
            dt_text_printf(ret_text, "\n%s:\n", row->group);
        group = row->group;
        print_row(row, ret_text);
    }
    dt_text_printf(ret_text, "\n%s", table->epilogue);
}

/* ---- manual page ---- */

static void print_roff(const char *words, DtText *text)
{
    for (const char *at = words; *at; at++) {
        if (*at == '-')
            dt_text_add(text, "\\-");
        else if (*at == '\\')
            dt_text_add(text, "\\e");
        else if ((*at == '.' || *at == '\'') && (at == words || at[-1] == '\n'))
            dt_text_printf(text, "\\&%c", *at);
        else
            dt_text_add_n(text, at, 1);
    }
}

static void print_epilogue(const char *lines, DtText *text)
{
    bool example = false;
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        DtText line = {0};
        dt_text_add_n(&line, lines, len);
        bool indented = len > 1 && lines[0] == ' ' && lines[1] == ' ';
        if (indented != example)
            dt_text_add(text, indented ? ".PP\n.nf\n" : ".fi\n");
        example = indented;
        if (!len)
            dt_text_add(text, ".PP\n");
        else {
            print_roff(line.at, text);
            dt_text_add(text, "\n");
        }
        dt_text_free(&line);
        lines += len + (lines[len] == '\n');
    }
    if (example)
        dt_text_add(text, ".fi\n");
}

void dt_options_man(const DtOptionTable *table, DtText *ret_text)
{
    dt_text_printf(ret_text, ".TH %s 1 \"\" \"%s %s\" \"User Commands\"\n.SH NAME\n%s \\- ",
                   table->program, table->program, table->version, table->program);
    print_roff(table->purpose, ret_text);
    dt_text_add(ret_text, "\n.SH SYNOPSIS\n.nf\n");
    for (const char *line = table->synopsis; *line;) {
        size_t len = strcspn(line, "\n");
        DtText copy = {0};
        dt_text_printf(&copy, "%s %.*s", table->program, (int)len, line);
        print_roff(copy.at, ret_text);
        dt_text_add(ret_text, "\n");
        dt_text_free(&copy);
        line += len + (line[len] == '\n');
    }
    dt_text_add(ret_text, ".fi\n.SH OPTIONS\n");
    const char *group = NULL;
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const DtOptionRow *row = &table->rows[i];
        DtText name = {0};
        if (!row->group)
            continue;
        if (!group || strcmp(group, row->group))
            dt_text_printf(ret_text, ".SS %s\n", row->group);
        group = row->group;
        print_name(row, &name);
        dt_text_add(ret_text, ".TP\n.B ");
        print_roff(name.at, ret_text);
        dt_text_add(ret_text, "\n");
        print_roff(row->help, ret_text);
        dt_text_add(ret_text, "\n");
        dt_text_free(&name);
    }
    dt_text_add(ret_text, ".SH NOTES\n");
    print_epilogue(table->epilogue, ret_text);
}
