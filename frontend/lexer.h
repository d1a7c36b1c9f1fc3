/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the generated lexer and scan.c. */
#ifndef DT_FRONTEND_LEXER_H
#define DT_FRONTEND_LEXER_H

#include <stdint.h>

typedef struct DtLexer {
    uint32_t lo, hi; /* the word found last: its first byte, and the byte after it */
    uint32_t lines;  /* newlines found since scan.c last set it to 0 */
} DtLexer;

/* Kinds of words that the language does not have; their numbers are below those of the grammar's
 * tokens. */
enum {
    DT_LEX_BAD_NUMBER = 1,
    DT_LEX_OPEN_STRING,
    DT_LEX_QUOTED,  /* a string in single quotes */
    DT_LEX_FOREIGN, /* an operator of other languages */
    DT_LEX_BAD_CHARACTER,
    DT_LEX_INDEX, /* .3: a number in a path, if a name is before it */
};

#endif
