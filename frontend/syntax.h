/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the syntax phase share: tokens, and the steps from source text to tree.
 *
 *   text --scan.c (lexer.l)--> raw tokens, with comments --layout.c--> brackets balanced, `;` put
 *        in --parser.y (expect.c words its errors)--> DtAst
 *
 * The whole file is tokens before parsing begins, so that newlines and brackets can be decided by
 * looking ahead, and the parser can resume at the end of a faulty statement by index. */
#ifndef DT_FRONTEND_SYNTAX_H
#define DT_FRONTEND_SYNTAX_H

#include "frontend/ast.h"

enum {
    DT_MAX_SOURCE = 4 << 20, /* the most bytes of a source file */
    DT_MAX_NAME = 255,       /* the most bytes of a name */
    DT_MAX_NUMBER = 400,     /* the most characters of a number */
    DT_MAX_NESTING = 200,    /* the most open brackets */
    DT_MAX_HEIGHT = 1000,    /* the most levels of an expression tree */
};

typedef struct DtToken {
    int kind;         /* DT_TOK_... of parser.y */
    DtSpan span;      /* its place; an inserted token has an empty span there */
    uint32_t lines;   /* newlines before it, after the token before */
    uint16_t depth;   /* braces open around it; `}` counts its own block, `{` does not */
    uint16_t nesting; /* number of `(` and `[` open around it, within the innermost brace */
    bool inserted;    /* the layout inserted it */
    bool reported;    /* an error about it was reported already */
    bool cut;         /* a string without an end, which contains the brackets after it */
    bool config;      /* within a configuration block */
    int64_t integer;
    double number;
    /* name, dtype, operator or keyword: interned text; string: its bytes; quantity: its unit */
    const char *text;
    uint32_t text_len;
} DtToken;

typedef DT_VEC(DtToken) DtTokens;

/* Splits the file into tokens, comments included, without an end token. Reports lexical errors. */
DtTokens dt_scan_tokens(DtArena *arena, DtDiags *diags, uint32_t file);

/* Returns the tokens that the grammar sees: no comments, newlines that end a statement as `;`,
 * balanced brackets (faults are reported at the opener), and DT_TOK_END last. */
DtTokens dt_layout_tokens(DtArena *arena, DtDiags *diags, uint32_t file, const DtTokens *raw);

/* Whether the kind is a keyword; whether it is a keyword that begins an item. */
bool dt_layout_is_keyword(int kind);
bool dt_layout_is_item_keyword(int kind);

/* Returns a name to use in place of a keyword, for fixes; NULL if the table has none. */
const char *dt_layout_other_name(int kind);

/* Reports the token at tokens->at[at], which the grammar cannot accept; expected[kind -
 * DT_TOK_FIRST] says which kinds it accepts. Reports nothing if the token was reported already. */
void dt_expect_report(DtDiags *diags, const DtTokens *tokens, uint32_t at, const bool *expected);

/* Returns the index where parsing resumes after an error at tokens->at[at]: the `;` after the
 * faulty statement, entry or item; the `}` of the block that contains it; or the `{` of its own
 * block, if the grammar has an error production with a block. */
uint32_t dt_expect_resume(const DtTokens *tokens, uint32_t at);

#endif
