/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics: many per run, each with code, span, reason and, where there is one, a fix.
 *
 *   DtDiag *d = dt_diag_report(diags, E0301, span, "`attend` needs axis `kseq` on `k`");
 *   dt_diag_label(d, other_span, "`k` gets its axes here");
 *   dt_diag_fix(d, insert_at, "[seq -> kseq]", "rename the axis");
 *
 * Codes are rows of diags.def: E01 syntax, E02 names, E03 axes, E04 dtypes, values and training
 * configuration, E05 placement, E06 pipeline and schedule, E07 memory, E08 data, E09 plan files;
 * a row whose class is LINT prints as `warning`. `dtc explain E0301` prints the row's long text. */
#ifndef DT_BASE_DIAG_H
#define DT_BASE_DIAG_H

#include "arena.h"

#include <stdbool.h>
#include <stdio.h>

/* A range of bytes of a source file. file is a number from dt_diag_add_file, 0 means nowhere. */
typedef struct DtSpan {
    uint32_t file, lo, hi;
} DtSpan;

typedef enum DtDiagCode {
#define DT_DIAG(code, class, title, text) code,
#include "diags.def"
#undef DT_DIAG
    DT_DIAG_COUNT
} DtDiagCode;

typedef struct DtDiags DtDiags;
typedef struct DtDiag DtDiag;

DtDiags *dt_diag_new(DtArena *arena);

/* Registers a source text (kept by reference, NUL-terminated after len) for spans to point into. */
uint32_t dt_diag_add_file(DtDiags *diags, const char *path, const char *text, size_t len);
uint32_t dt_diag_files(const DtDiags *diags); /* the number of files, which are numbered from 1 */
const char *dt_diag_path(const DtDiags *diags, uint32_t file);
/* NULL if there is no such file. */
const char *dt_diag_source(const DtDiags *diags, uint32_t file, size_t *ret_len);

/* 1-based line and column (in characters) of span.lo. */
void dt_diag_position(const DtDiags *diags, DtSpan span, uint32_t *ret_line, uint32_t *ret_column);

DtDiag *dt_diag_report(DtDiags *diags, DtDiagCode code, DtSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* caret: sets the text at the primary span. label: adds a second place. */
void dt_diag_caret(DtDiag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dt_diag_label(DtDiag *diag, DtSpan span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void dt_diag_note(DtDiag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dt_diag_help(DtDiag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A help that shows the source line with `insert` put in before byte at.lo (replacing at if at.hi >
 * at.lo). */
void dt_diag_fix(DtDiag *diag, DtSpan at, const char *insert, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fixes of all kept diagnostics, numbered from 0 in the order of reporting. */
typedef struct DtDiagFix {
    DtDiagCode code;
    DtSpan at; /* the replaced range; if empty, the text is inserted before it */
    const char *insert, *says;
    uint32_t diag; /* the diagnostic that it belongs to */
} DtDiagFix;
bool dt_diag_fix_at(const DtDiags *diags, uint32_t number,
                    DtDiagFix *ret_fix); /* Fills ret_fix with the fix of that number; false: there
                                          * is none. */
/* dt_diag_fix_drop: the fix is not printed. dt_diag_fix_demote: its words are printed, without the
 * changed line. */
void dt_diag_fix_drop(DtDiags *diags, uint32_t number);
void dt_diag_fix_demote(DtDiags *diags, uint32_t number);
/* The source text with the fix; NULL if the place is in no file. */
char *dt_diag_fix_text(const DtDiags *diags, DtArena *arena, const DtDiagFix *fix, size_t *ret_len);
/* The effect of a fix. It makes another error if there is a new error on the lines that it changes.
 * If it mends the only error, and that is no syntax error, new errors anywhere count. */
typedef enum DtDiagMends { DT_FIX_LEAVES, DT_FIX_MAKES_ANOTHER, DT_FIX_MENDS } DtDiagMends;
/* after: the diagnostics of the text with the fix. */
DtDiagMends dt_diag_fix_mends(const DtDiags *before, const DtDiagFix *fix, const DtDiags *after);

/* How many errors, and lints, were reported; after 100 errors further ones are not kept. */
uint32_t dt_diag_errors(const DtDiags *diags);
uint32_t dt_diag_lints(const DtDiags *diags);

/* For a trial: a new set with the same files and no diagnostics, which prints nothing. */
DtDiags *dt_diag_aside(const DtDiags *diags);
/* Returns a new set with the errors of a at places where b has one with the same code. */
DtDiags *dt_diag_common(const DtDiags *a, const DtDiags *b);
/* Adds the errors with that code from another set, with a note (or NULL), except at places that
 * have one; returns how many there were. */
uint32_t dt_diag_take(DtDiags *diags, const DtDiags *from, DtDiagCode code, const char *note);
/* Hides lints with that code, which do not matter for the present command. */
void dt_diag_drop(DtDiags *diags, DtDiagCode code);
/* has: whether an error has that code. only: whether all errors have it. */
bool dt_diag_has(const DtDiags *diags, DtDiagCode code);
/* Whether there is an error with that code at exactly this place. */
bool dt_diag_has_at(const DtDiags *diags, DtDiagCode code, DtSpan span);
bool dt_diag_only(const DtDiags *diags, DtDiagCode code);
/* The error that was reported first. At least one must have been reported. */
typedef struct DtDiagFirst {
    DtSpan span;
    const char *message;
} DtDiagFirst;
DtDiagFirst dt_diag_first(const DtDiags *diags);

/* Reports (L0204) comments of the first file that allow something that is no lint. complete: the
 * whole program was checked, so comments that silenced nothing are reported too. */
void dt_diag_check_allowed(DtDiags *diags, bool complete);

/* All kept diagnostics in order of file and position (equal ones once), then a line of counts. */
void dt_diag_print(const DtDiags *diags, FILE *out, bool color);
/* One JSON object a line: code, severity, message, file, line, column, end_line, end_column, notes,
 * help. */
void dt_diag_print_json(const DtDiags *diags, FILE *out);

const char *dt_diag_name(DtDiagCode code);  /* "E0301" */
const char *dt_diag_title(DtDiagCode code);
const char *dt_diag_text(DtDiagCode code);  /* the text of `dtc explain` */
bool dt_diag_find(const char *name, DtDiagCode *ret_code);

#endif
