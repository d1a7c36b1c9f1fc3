/* SPDX-License-Identifier: Apache-2.0 */
/* Interned strings: equal texts have equal pointers for the life of the process. Names of axes,
 * values, instances and paths are interned, so they are compared with ==.
 * The table is process-wide and not thread-safe: the compiler is one thread. */
#ifndef DT_BASE_INTERN_H
#define DT_BASE_INTERN_H

#include <stddef.h>

const char *dt_intern(const char *text);
const char *dt_intern_n(const char *text, size_t len);
const char *dt_intern_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
