/* SPDX-License-Identifier: Apache-2.0 */
/* Parses one source text, for tests of the syntax phase. */
#ifndef DT_TESTS_FRONTEND_SYNTAX_FIXTURE_H
#define DT_TESTS_FRONTEND_SYNTAX_FIXTURE_H

#include "frontend/syntax.h"

typedef struct Parsed {
    DtArena *arena;
    DtDiags *diags;
    uint32_t file;
    DtAst *ast;
    DtText tree;     /* the output of dt_ast_print */
    DtText messages; /* the diagnostics as printed, without colour */
} Parsed;

Parsed parse_bytes(const char *text, size_t len);
Parsed parse_text(const char *text);
void parsed_free(Parsed *parsed);

/* The formatted text; fails the test if dt_fmt refuses. */
DtText format_bytes(const char *text, size_t len);

/* Calls a function with path, text and length of every .dsl file of examples/ and lib/. Returns the
 * number of files. */
int each_program(void (*visit)(const char *path, const char *text, size_t len));

#endif
