/* SPDX-License-Identifier: Apache-2.0 */
/* PCRE2: patterns that pattern_write.c has written, matched within limits. */
#ifndef DT_TOKENIZER_REGEX_H
#define DT_TOKENIZER_REGEX_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct DtRegex DtRegex;       /* compiled; threads share it */
typedef struct DtRegexRun DtRegexRun; /* what one thread needs to match it */

typedef enum DtRegexResult {
    DT_REGEX_FOUND,
    DT_REGEX_NONE,
    DT_REGEX_MORE,   /* what follows the subject decides */
    DT_REGEX_LIMITED /* the limits on work and memory were reached, which ends any match */
} DtRegexResult;

/* Compiles a pattern: over bytes that PCRE2's compiler for this processor turns into machine code,
 * if the library has one, or over UTF-8 for its interpreter (the plain reference). written: the
 * pattern as messages show it. Fails for patterns that match without taking anything. */
DtStatus dt_regex_compile(const char *pattern, size_t len, bool utf8, const char *written,
                          DtRegex **ret_regex);
void dt_regex_free(DtRegex *regex);

DtRegexRun *dt_regex_begin(const DtRegex *regex);
void dt_regex_end(DtRegexRun *run);

/* Finds the first match at or after `at`. ends: the text ends where the subject does. */
DtRegexResult dt_regex_find(DtRegexRun *run, const uint8_t *subject, size_t len, size_t at,
                            bool ends, size_t *ret_first, size_t *ret_end);

#endif
