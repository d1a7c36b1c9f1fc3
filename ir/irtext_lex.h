/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of IR text, one ahead. After the first error every token is the end, so that all loops
 * of the reader stop by themselves. */
#ifndef DT_IR_IRTEXT_LEX_H
#define DT_IR_IRTEXT_LEX_H

#include "base/diag.h"

#include <stdbool.h>

typedef enum DtIrToken {
    DT_IR_END,
    DT_IR_NAME,
    DT_IR_VALUE,
    DT_IR_NUMBER,
    DT_IR_ARROW,
    DT_IR_MARK
} DtIrToken;

typedef struct DtIrLex {
    DtDiags *diags; /* may be NULL */
    uint32_t file;  /* number of the text in diags */
    const char *text;
    size_t len;
    size_t lo, pos; /* the token is text[lo..pos) */
    DtIrToken token;
    const char *name; /* NAME: interned. VALUE: its name, interned, or NULL */
    bool quoted;      /* the number of a value's name */
    char mark;        /* MARK: the character */
    bool failed;
} DtIrLex;

void dt_irlex_start(DtIrLex *lex, DtDiags *diags, const char *text, size_t len);
void dt_irlex_next(DtIrLex *lex);
/* Reports a problem at the token (only the first one is reported); returns false. */
bool dt_irlex_fail(DtIrLex *lex, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool dt_irlex_is(const DtIrLex *lex, char mark);
bool dt_irlex_is_word(const DtIrLex *lex, const char *word);
/* Moves past the token if it is this mark. */
bool dt_irlex_take(DtIrLex *lex, char mark);
bool dt_irlex_take_word(DtIrLex *lex, const char *word);
/* Moves past the token, which must be this mark. */
bool dt_irlex_expect(DtIrLex *lex, char mark);
const char *dt_irlex_name(DtIrLex *lex); /* NULL after failure */
bool dt_irlex_integer(DtIrLex *lex, int64_t lo, int64_t hi, int64_t *ret_number);
bool dt_irlex_u32(DtIrLex *lex, uint32_t *ret_number);
bool dt_irlex_double(DtIrLex *lex, double *ret_number);
/* Moves past `key=`, or `key=name`, if the key comes next. */
bool dt_irlex_key(DtIrLex *lex, const char *key);
bool dt_irlex_name_key(DtIrLex *lex, const char *key, const char **ret_name);
/* Index of a word among words; fails with `what` if it is none of them. */
bool dt_irlex_choice(DtIrLex *lex, const char *what, const char *const *words, unsigned n,
                     unsigned *ret_choice);

#endif
