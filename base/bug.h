/* SPDX-License-Identifier: Apache-2.0 */
/* Internal errors: states that no program, plan or file written by a user may cause. Reaching one
 * means a mistake in dtc or dtrun. */
#ifndef DT_BASE_BUG_H
#define DT_BASE_BUG_H

/* Prints the program's name, the message (printf's format) and the place in the source, then
 * aborts. Everything needed to understand the mistake (a function's text, operands) belongs in
 * the message, after its first line. */
#define DT_BUG(...) dt_bug(__FILE__, __LINE__, __VA_ARGS__)

_Noreturn void dt_bug(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
