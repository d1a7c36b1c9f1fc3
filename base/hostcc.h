/* SPDX-License-Identifier: Apache-2.0 */
/* The C compiler of this machine, for generated kernels (hostcc.c). */
#ifndef DT_BASE_HOSTCC_H
#define DT_BASE_HOSTCC_H

#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* "cpu-v4" for this processor; the level of a target name (cpu-v1 to cpu-v4), 0 if unknown. */
const char *dt_hostcc_native(void);
int dt_hostcc_level(const char *target);

/* Compiles n C texts into shared objects (at most two at once), each found in the private cache if it was
 * compiled before. ret_binary[i], ret_len[i] in the arena. */
DtStatus dt_hostcc_compile(DtArena *arena, const char *target, uint32_t n, const char *const *texts,
                           uint8_t **ret_binary, size_t *ret_len, const char **ret_version);

#endif
