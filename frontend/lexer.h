/* SPDX-License-Identifier: Apache-2.0 */
/* Between the generated lexer and scan.c. */
#ifndef DT_FRONTEND_LEXER_H
#define DT_FRONTEND_LEXER_H

#include <stdint.h>

typedef struct DtLexer {
    uint32_t lo, hi; /* bytes of the word found last */
    uint32_t lines;  /* newlines since scan.c set it to 0 */
} DtLexer;

/* Words that the language does not have; below the token kinds of the grammar. */
enum {
    DT_LEX_BAD_NUMBER = 1,
    DT_LEX_OPEN_STRING,
    DT_LEX_QUOTED,  /* 'text' */
    DT_LEX_FOREIGN, /* an operator of other languages */
    DT_LEX_BAD_CHARACTER,
};

#endif
