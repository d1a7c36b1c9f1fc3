/* SPDX-License-Identifier: Apache-2.0 */
/* Interned strings: equal texts have equal pointers for the life of the thread. Names of axes,
 * values, instances and paths are interned, so they are compared with ==.
 * Each thread has a table of its own: pointers of one are not those of another. */
#ifndef DT_BASE_INTERN_H
#define DT_BASE_INTERN_H

#include <stddef.h>

const char *dt_intern(const char *text);
const char *dt_intern_n(const char *text, size_t len);
/* Frees the thread's strings. Those of the thread that ends the process go at exit. */
void dt_intern_forget(void);
const char *dt_intern_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
