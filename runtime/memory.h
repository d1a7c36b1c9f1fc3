/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may use (memory.c). */
#ifndef DT_RUNTIME_MEMORY_H
#define DT_RUNTIME_MEMORY_H

#include "runtime/runtime.h"

#include <stdbool.h>
#include <stdint.h>

/* The number of bytes: of the machine, or, if the container may use less, of the container (its
 * control group, of either version, or a group around that); then ret_contained is set. root: "",
 * or in tests a folder that replaces "/". */
uint64_t dt_memory_limit(const char *root, bool *ret_contained);

/* The bytes of all arenas of a rank of the stage. */
uint64_t dt_memory_arenas(const DtRunOptions *options, const DtPlan *plan, uint32_t stage);

#endif
