/* SPDX-License-Identifier: Apache-2.0 */
/* The table of targets: all that code generation does differently by target. A row of ir/targets.def names the target's
 * folder here, which defines dt_target_FOLDER; nothing outside of that folder knows more of it than is said here. */
#ifndef DT_CODEGEN_TARGET_H
#define DT_CODEGEN_TARGET_H

#include "base/status.h"
#include "codegen/kernel.h"
#include "ir/target.h"
#include "plan/plan.h"

struct DtEmit;
enum { DT_TARGET_NAMES = 8 };

typedef struct DtTargetRow {
    DtTargetKind kind;

    /* machines */
    bool (*has)(const char *name);     /* whether "cpu-v4", "sm_90a" is one of its own */
    uint32_t (*names)(const char **ret_names); /* of those for which code can be made here, DT_TARGET_NAMES at most */
    const char *(*machine)(const char *name); /* the one that it means: "cpu" is the machine that compiles */

    /* kernels */
    /* Appends the text of a kernel, or reports that it has none; returns where what follows the symbol begins: equal
     * texts from there on are equal kernels. */
    size_t (*print)(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);
    DtPlanLaunch (*launch)(const DtKernel *kernel); /* how it is started; NULL: as a function is */
    /* What results depend on, too: chooses row_threads and row_each of a kernel of form ROW, and may cut a SCATTER into
     * pieces of points; NULL: neither. */
    void (*order)(DtKernel *kernel);
    bool says_lines;                   /* if lines is set, the text says from which lines its parts come */
    /* From the texts of all kernels to machine code in the plan, section CODE; says what is not as it should be. */
    DtStatus (*build)(struct DtEmit *e);

    /* attention in one kernel: NULL, or why there is none of this form; NULL itself where there are no such kernels */
    const char *(*attends)(const DtKernel *kernel);
    /* What it is to a library that the target may have, number of the kernel apart; NULL: it is nothing that such a
     * library does. NULL itself: there is no library. */
    const DtPlanSdpa *(*library)(const DtKernel *kernel, DtArena *arena);

    /* attention otherwise: a loop over blocks of queries, each with all keys that it may see */
    uint32_t blocks_most;              /* of one call */
    int64_t (*block_rows)(int64_t n);  /* queries of a block, of n in all; no more than blocks_most blocks come of it */
} DtTargetRow;

#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) extern const DtTargetRow dt_target_##FOLDER;
#include "ir/targets.def"
#undef DT_TARGET

/* The target that has a machine of that name, or NULL. */
const DtTargetRow *dt_target_find(const char *name);

#endif
