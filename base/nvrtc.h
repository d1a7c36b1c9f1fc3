/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA C++ compiler as a library, opened when it is needed (nvrtc.c). */
#ifndef DT_BASE_NVRTC_H
#define DT_BASE_NVRTC_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct DtNvrtcKernel {
    const char *symbol;
    uint32_t registers;   /* of a thread */
    uint32_t spilled;     /* bytes of registers that are spilled to memory */
} DtNvrtcKernel;

typedef struct DtNvrtcResult {
    const char *version;  /* "NVRTC 13.0" */
    const uint8_t *cubin;
    size_t len;
    DtNvrtcKernel *kernels;
    uint32_t n_kernels;
} DtNvrtcResult;

/* "NVRTC 13.0"; NULL if it is not installed, with the folders that were searched in ret_status. */
const char *dt_nvrtc_version(DtArena *arena, DtStatus *ret_status);

/* Compiles a text for one machine ("sm_90a"), or to PTX ("compute_80"), which then replaces the
 * cubin. All of the result is in the arena. */
DtStatus dt_nvrtc_compile(DtArena *arena, const char *text, const char *machine,
                          DtNvrtcResult *ret_result);

/* Like dt_nvrtc_compile with the cache (hostcache.h), for texts that were compiled before with the
 * same version. newest: the largest major version of the library that may do it, 0: any. */
DtStatus dt_nvrtc_build(DtArena *arena, const char *text, const char *machine, int newest,
                        DtNvrtcResult *ret_result);

typedef struct DtNvrtcJob {
    const char *text, *machine;
    DtNvrtcResult result;
    uint8_t key[DT_DIGEST_BYTES]; /* in the cache */
} DtNvrtcJob;

/* Like dt_nvrtc_build, for n jobs: those that are not in the cache are compiled in a process each,
 * as many at once as there are processors. */
DtStatus dt_nvrtc_build_all(DtArena *arena, DtNvrtcJob *jobs, uint32_t n);

#endif
