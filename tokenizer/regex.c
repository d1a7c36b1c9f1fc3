/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that sees PCRE2. A match is given up after MATCH_LIMIT steps (a fraction of a
 * second) or HEAP_KIB of memory; neither it nor compiling recurses on the stack without bounds
 * (PCRE2 10.30 and later). Where the compiled code runs out of its own stack, the interpreter,
 * which keeps its frames on the heap, does the match again. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include "base/arena.h"

#include <pcre2.h>
#include <stdlib.h>

enum { MATCH_LIMIT = 20000000, HEAP_KIB = 256 << 10, STACK_LEAST = 32 << 10, STACK_MOST = 1 << 20 };

struct DtRegex {
    pcre2_code *code;
    bool jit;
};

struct DtRegexRun {
    const DtRegex *regex;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

DtStatus dt_regex_compile(const char *pattern, size_t len, bool utf8, const char *written,
                          DtRegex **ret_regex)
{
    int error;
    size_t at;
    uint32_t matches_empty = 0;
    const uint32_t options = utf8 ? PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK : PCRE2_NEVER_UTF;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, len, options, &error, &at, NULL);
    if (!code) {
        char message[120] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)message, sizeof message);
        return dt_status_fail(DT_EXIT_IO, "the pattern `%.250s` cannot be used: PCRE2 says: %s",
                              written, message);
    }
    pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty) {
        pcre2_code_free(code);
        return dt_status_fail(DT_EXIT_IO,
                              "the pattern `%.250s` cannot be used: it matches without taking a "
                              "character",
                              written);
    }
    *ret_regex = calloc(1, sizeof **ret_regex);
    if (!*ret_regex)
        dt_arena_exhausted(sizeof **ret_regex);
    (*ret_regex)->code = code;
    (*ret_regex)->jit =
        !utf8 && pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
    return DT_OK;
}

void dt_regex_free(DtRegex *regex)
{
    if (regex)
        pcre2_code_free(regex->code);
    free(regex);
}

DtRegexRun *dt_regex_begin(const DtRegex *regex)
{
    DtRegexRun *run = calloc(1, sizeof *run);
    if (!run)
        dt_arena_exhausted(sizeof *run);
    run->regex = regex;
    run->data = pcre2_match_data_create(1, NULL);
    run->context = pcre2_match_context_create(NULL);
    if (!run->data || !run->context)
        dt_arena_exhausted(sizeof *run);
    pcre2_set_match_limit(run->context, MATCH_LIMIT);
    pcre2_set_heap_limit(run->context, HEAP_KIB);
    run->stack = regex->jit ? pcre2_jit_stack_create(STACK_LEAST, STACK_MOST, NULL) : NULL;
    if (run->stack)
        pcre2_jit_stack_assign(run->context, NULL, run->stack);
    return run;
}

void dt_regex_end(DtRegexRun *run)
{
    if (!run)
        return;
    pcre2_jit_stack_free(run->stack);
    pcre2_match_context_free(run->context);
    pcre2_match_data_free(run->data);
    free(run);
}

DtRegexResult dt_regex_find(DtRegexRun *run, const uint8_t *subject, size_t len, size_t at,
                            bool ends, size_t *ret_first, size_t *ret_end)
{
    const uint32_t partial = ends ? 0 : PCRE2_PARTIAL_HARD;
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (run->stack)
        found =
            pcre2_jit_match(run->regex->code, subject, len, at, partial, run->data, run->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(run->regex->code, subject, len, at,
                            partial | PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, run->data, run->context);
    if (found == PCRE2_ERROR_NOMATCH)
        return DT_REGEX_NONE;
    if (found == PCRE2_ERROR_PARTIAL)
        return DT_REGEX_MORE;
    if (found < 0)
        return DT_REGEX_LIMITED;
    const size_t *ends_of = pcre2_get_ovector_pointer(run->data);
    *ret_first = ends_of[0];
    *ret_end = ends_of[1];
    return DT_REGEX_FOUND;
}
