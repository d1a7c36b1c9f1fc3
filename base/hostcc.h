/* SPDX-License-Identifier: Apache-2.0 */
/* The C compiler of this machine, for generated kernels (hostcc.c). */
#ifndef DT_BASE_HOSTCC_H
#define DT_BASE_HOSTCC_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_HOSTCC_TARGETS = 8 };

/* Targets: "cpu" is this processor, whose own name is native ("cpu-v4", "cpu-arm64"). ret_names
 * (DT_HOSTCC_TARGETS of them) get those that the compiler here makes code for; the result is how many. */
const char *dt_hostcc_native(void);
uint32_t dt_hostcc_targets(const char **ret_names);
bool dt_hostcc_known(const char *target);
bool dt_hostcc_runs(const char *target); /* whether code for it runs on this processor */

/* Compiles n C texts into shared objects (at most two at once), each found in the private cache if it was
 * compiled before. ret_binary[i], ret_len[i] in the arena. */
DtStatus dt_hostcc_compile(DtArena *arena, const char *target, uint32_t n, const char *const *texts,
                           uint8_t **ret_binary, size_t *ret_len, const char **ret_version);

#endif
