/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler of CUDA C++, as a library that is opened when it is needed (nvrtc.c). */
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
    uint32_t spilled;     /* bytes of them that go to memory and back */
} DtNvrtcKernel;

typedef struct DtNvrtcResult {
    const char *version;  /* "NVRTC 13.0" */
    const uint8_t *cubin;
    size_t len;
    DtNvrtcKernel *kernels;
    uint32_t n_kernels;
} DtNvrtcResult;

/* "NVRTC 13.0"; NULL, and in ret_status what was looked for and where, if there is none. */
const char *dt_nvrtc_version(DtArena *arena, DtStatus *ret_status);

/* Compiles a text for one machine ("sm_90a"). All of the result lies in the arena. */
DtStatus dt_nvrtc_compile(DtArena *arena, const char *text, const char *machine, DtNvrtcResult *ret_result);

/* The same, but what was compiled once with the same version is taken from the cache (hostcache.h), and kept there. */
DtStatus dt_nvrtc_build(DtArena *arena, const char *text, const char *machine, DtNvrtcResult *ret_result);

typedef struct DtNvrtcJob {
    const char *text, *machine;
    DtNvrtcResult result;
    uint8_t key[DT_DIGEST_BYTES]; /* in the cache */
} DtNvrtcJob;

/* The same for n jobs: those that are not in the cache are compiled in a process for each, as many at once as there are
 * processors. */
DtStatus dt_nvrtc_build_all(DtArena *arena, DtNvrtcJob *jobs, uint32_t n);

#endif
