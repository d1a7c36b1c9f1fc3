/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text buffer, and the few text helpers that every layer needs. */
#ifndef DT_BASE_TEXT_H
#define DT_BASE_TEXT_H

#include "arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct DtText {
    char *at;   /* always NUL-terminated once something was added; malloc'ed */
    size_t len; /* without the NUL */
    size_t cap;
} DtText;

void dt_text_add(DtText *text, const char *piece);
void dt_text_add_n(DtText *text, const char *piece, size_t len);
void dt_text_integer(DtText *text, int64_t value);
void dt_text_printf(DtText *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dt_text_vprintf(DtText *text, const char *format, va_list args);
void dt_text_free(DtText *text);

/* Shortest decimal text that reads back as the same double ("0.1", "1e-05", "inf", "-inf",
 * "nan"). */
void dt_text_double(DtText *text, double value);

/* Adds bytes that may be anything as text that any terminal may show, one column a character:
 * control characters (tabs, escapes, also C1) and bidirectional controls become blanks, bytes that
 * are not UTF-8 question marks. */
void dt_text_add_visible(DtText *text, const char *from, size_t len);

/* Adds text with unprintable bytes as \\xNN, so that none is lost. lines: newlines stay. */
void dt_text_add_escaped(DtText *text, const char *from, size_t len, bool lines);

/* Adds a word, in quotes if a shell would not read it as one word without them. */
void dt_text_add_word(DtText *text, const char *word);

/* Writes an escaped message and a newline at once; it may hold names out of files of strangers. */
void dt_text_say(FILE *to, const char *message);

/* Writes "1.5 GiB" or "320 B" into buf, which it returns. */
const char *dt_text_bytes(char buf[32], double bytes);

/* The candidate nearest to name by edit distance, ignoring case; NULL: no candidate shares 60 % of
 * the letters of the longer of the two texts. */
const char *dt_text_nearest(const char *name, const char *const *candidates, size_t n);

#endif
