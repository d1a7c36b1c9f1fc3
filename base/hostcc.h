/* SPDX-License-Identifier: Apache-2.0 */
/* The C compiler of this machine, for generated kernels (hostcc.c). */
#ifndef DT_BASE_HOSTCC_H
#define DT_BASE_HOSTCC_H

#include "base/arena.h"
#include "base/hostrun.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_HOSTCC_TARGETS = 8 };

/* Targets: "cpu" is this processor, whose own name is native ("cpu-v4", "cpu-arm64"). ret_names
 * (DT_HOSTCC_TARGETS of them) get those that the compiler here makes code for; the result is how
 * many. */
const char *dt_hostcc_native(void);
uint32_t dt_hostcc_targets(const char **ret_names);
bool dt_hostcc_known(const char *target);
bool dt_hostcc_runs(const char *target); /* whether code for it runs on this processor */

/* A compilation: n C texts of kernels, and the arguments of their calls. */
typedef struct DtHostTask {
    const char *target;
    uint32_t n;
    const char *const *texts;
    uint32_t n_calls;
    const DtHostCall *calls;
} DtHostTask;

typedef struct DtHostResult {
    DtHostBytes *units;       /* shared objects */
    const char *version;      /* first line of the compiler's --version */
    /* Kernels whose machine code differed from that of an independent build, by symbol: their
     * units were rebuilt without vectorisation, which agrees with that build. */
    const char *const *wrong;
    uint32_t n_wrong;
    /* the compiler of the independent build, for messages; NULL if nothing is wrong */
    const char *other;
    /* kernels whose code could not be compared with another build, and why */
    uint32_t n_not_compared;
    const char *why_not;
    const char *no_cache;     /* why the cache is not used; NULL: it is, or there is none */
} DtHostResult;

/* Compiles the texts (at most two compilers at once), or finds them in the cache. New code is
 * compiled twice and compared, if it can run here: docs/kernels.md. The whole result is in the
 * arena. */
DtStatus dt_hostcc_compile(DtArena *arena, const DtHostTask *task, DtHostResult *ret_result);

/* Returns the comment before a kernel of the text, "gelu: model.dsl:7", or its symbol. */
const char *dt_hostcc_name(DtArena *arena, const DtHostTask *task, const char *symbol);

#endif
