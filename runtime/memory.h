/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is for this process and those like it (memory.c). */
#ifndef DT_RUNTIME_MEMORY_H
#define DT_RUNTIME_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes: of the machine, or of the container (control group, of either version, or one around it)
 * if that may use less: then ret_contained is set. root: "", or a folder that stands for "/" in
 * tests. */
uint64_t dt_memory_limit(const char *root, bool *ret_contained);

#endif
