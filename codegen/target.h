/* SPDX-License-Identifier: Apache-2.0 */
/* The table of targets: everything that code generation does differently by target. A row of
 * ir/targets.def names the target's folder here, which defines dt_target_FOLDER; code outside
 * that folder uses nothing but this table. */
#ifndef DT_CODEGEN_TARGET_H
#define DT_CODEGEN_TARGET_H

#include "base/status.h"
#include "codegen/kernel.h"
#include "ir/target.h"
#include "plan/plan.h"

struct DtEmit;
enum { DT_TARGET_NAMES = 8 };

/* More keys than this, such as a vocabulary, fill no cache: a block of queries then has more rows,
 * since each block reads all keys and adds to their gradient. */
enum { DT_TARGET_MANY_KEYS = 1 << 14 };

typedef struct DtTargetRow {
    DtTargetKind kind;
    bool is_interpreted;               /* its code is kernel IR (codegen/interpreted/) */

    /* machines */
    /* whether "cpu-v4" or "sm_90a" names a machine of this target */
    bool (*has)(const char *name);
    /* the machines for which code can be made here, at most DT_TARGET_NAMES */
    uint32_t (*names)(const char **ret_names);
    /* the machine that a name stands for: "cpu" is the machine that compiles */
    const char *(*machine)(const char *name);

    /* kernels */
    /* Appends the text of a kernel, or reports that there is none; returns the offset of the
     * text after the symbol: kernels whose texts are equal from there on are equal. */
    size_t (*print)(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);
    /* how it is started; NULL: called as a function */
    DtPlanLaunch (*launch)(const DtKernel *kernel);
    /* Chooses row_threads and row_each of a ROW kernel, on which results depend, and may
     * cut a SCATTER into pieces of points; NULL: the target does neither. */
    void (*order)(DtKernel *kernel);
    /* if the argument `lines` is set, comments in the text name the source lines */
    bool says_lines;
    /* Compiles the texts of all kernels to machine code in section CODE of the plan; its status
     * names the failure. */
    DtStatus (*build)(struct DtEmit *e);

    /* attention in one kernel: NULL, or why it is not supported; the pointer itself is
     * NULL where the target has no such kernels */
    const char *(*attends)(const DtKernel *kernel);
    /* The kernel as a call of a library (without the kernel's number); NULL: no such library
     * computes it. The pointer itself is NULL: there is no library. */
    const DtPlanSdpa *(*library)(const DtKernel *kernel, DtArena *arena);

    /* attention otherwise: a loop over blocks of queries, each with all keys that are visible to
     * it */
    uint32_t blocks_most;              /* most blocks of one call */
    /* queries of a block, of n in all with this many keys each, so that there are at most
     * blocks_most blocks */
    int64_t (*block_rows)(int64_t n, int64_t n_keys);
} DtTargetRow;

#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) extern const DtTargetRow dt_target_##FOLDER;
#include "ir/targets.def"
#undef DT_TARGET
/* The same, with kernel IR as code: "interpreted", "sm_90a-interpreted". */
extern const DtTargetRow dt_target_cpu_interpreted, dt_target_cuda_interpreted;

/* The target that has a machine of that name, or NULL. */
const DtTargetRow *dt_target_find(const char *name);
bool dt_target_is_cpu(const char *name); /* whether the runtime runs it on processors */

#endif
