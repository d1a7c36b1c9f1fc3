/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines from a table of options: reading, hints for misspelt ones, `--help`, manual page.
 * Both programs use it, so their help cannot drift from what they accept. */
#ifndef DT_BASE_OPTIONS_H
#define DT_BASE_OPTIONS_H

#include "text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtOptionRow {
    const char *name;  /* "emit": written --emit; NULL: letter only */
    char letter;       /* 'o': written -o; 0: none */
    const char *value; /* "FILE": takes one; "[FORMAT]": may have one, after `=` only; NULL: none */
    const char *group; /* heading in the help; NULL: the help leaves the option out */
    const char *help;
} DtOptionRow;

typedef struct DtOptionTable {
    const char *program;  /* "dtc" */
    const char *version;  /* "0.1.0" */
    const char *purpose;  /* "compiles a model description to a parallel execution plan" */
    const char *synopsis; /* lines, each one form of the command line, without the program's name */
    /* text after the options: paragraphs; lines of examples begin with two spaces */
    const char *epilogue;
    const DtOptionRow *rows;
    uint32_t n_rows;
} DtOptionTable;

enum { DT_OPTIONS_WORD = -1, DT_OPTIONS_END = -2, DT_OPTIONS_WRONG = -3 };

typedef struct DtOptions {
    const DtOptionTable *table;
    char *const *argv;
    int argc, next;
    bool only_words;     /* after `--` */
    const char *letters; /* rest of a cluster of letters */
    const char *value;   /* of the option or word just read; NULL: none */
    char message[400];   /* after WRONG: the error, with a hint */
} DtOptions;

void dt_options_open(DtOptions *options, const DtOptionTable *table, int argc, char *const *argv,
                     int first);

/* The index of the next option's row, WORD for an argument that is none, END, or WRONG (ends the
 * reading). Values may follow as `--name=value`, `--name value`, `-nvalue`, `-n value`. */
int dt_options_next(DtOptions *options);

/* Appends the text of --help: each option with its argument and what it does, by group. */
void dt_options_help(const DtOptionTable *table, DtText *ret_text);

/* Appends the same text as a manual page (roff, man macros), section 1. */
void dt_options_man(const DtOptionTable *table, DtText *ret_text);

#endif
