/* SPDX-License-Identifier: Apache-2.0 */
/* What diag.c collects and diag_print.c, diag_json.c show. Private to these three files. */
#ifndef DT_BASE_DIAG_INTERNAL_H
#define DT_BASE_DIAG_INTERNAL_H

#include "base/diag.h"

/* After so many errors (and so many lints) further ones are only counted. */
enum { DT_DIAG_KEPT = 100 };

typedef enum DtSeverity { DT_SEVERITY_ERROR, DT_SEVERITY_LINT, DT_SEVERITY_COUNT } DtSeverity;

typedef struct DtDiagRow {
    const char *name, *title, *text;
    DtSeverity severity;
} DtDiagRow;

extern const DtDiagRow dt_diag_rows[DT_DIAG_COUNT];

typedef struct DtDiagFile {
    const char *path, *text;
    size_t len;
    DT_VEC(uint32_t) starts; /* byte at which each line starts */
} DtDiagFile;

typedef enum DtDiagPartKind {
    DT_PART_LABEL,
    DT_PART_NOTE,
    DT_PART_HELP,
    DT_PART_FIX
} DtDiagPartKind;

typedef struct DtDiagPart {
    DtDiagPartKind kind;
    DtSpan span;               /* of a label or fix; file 0 otherwise */
    const char *text, *insert; /* insert: of a fix */
} DtDiagPart;

struct DtDiag {
    DtDiags *diags;
    DtDiagCode code;
    DtSpan span;
    const char *message;
    const char *caret; /* or NULL */
    DT_VEC(DtDiagPart) parts;
    uint32_t order; /* position in the order of reporting */
};

/* A comment `# lint: allow L0301`: where it stands, the line (from 0) for which it counts. */
typedef struct DtDiagAllow {
    DtSpan span; /* of the code */
    const char *code;
    uint32_t line;
    bool used;
} DtDiagAllow;

struct DtDiags {
    DtArena *arena;
    DT_VEC(DtDiagAllow) allowed;
    DT_VEC(DtDiagFile) files;
    DT_VEC(DtDiag *) kept;
    uint32_t counts[DT_SEVERITY_COUNT]; /* by severity: how many were reported */
    uint32_t held[DT_SEVERITY_COUNT];   /* by severity: how many of those are in kept */
};

/* Returns the file with that number; NULL for 0 or an unknown number. */
const DtDiagFile *dt_diag_file(const DtDiags *diags, uint32_t file);

/* 0-based line that holds byte at, which may be the end of the text. */
uint32_t dt_diag_line(const DtDiagFile *file, uint32_t at);

/* diag_allow.c. read: finds such comments in a file that is added. is_allowed: whether one of them
 * silences the lint, which marks it as used. */
void dt_diag_read_allowed(DtDiags *diags, uint32_t file);
bool dt_diag_is_allowed(DtDiags *diags, DtDiagCode code, DtSpan span);

/* The kept diagnostics by file and position, equal ones once; ret_n of them. */
DtDiag **dt_diag_sorted(const DtDiags *diags, uint32_t *ret_n);

#endif
