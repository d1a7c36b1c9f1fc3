/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `fuse`. */
#ifndef DT_PASSES_FUSE_H
#define DT_PASSES_FUSE_H

#include "ir/ir.h"
#include "ir/target.h"

/* The axes over which a kernel adds up row by row, 0: it does not. */
typedef struct DtFuseRows {
    const char **axes;
    uint32_t n;
    const char *product; /* what its library does with it (epilogue.c); NULL: it is a kernel */
} DtFuseRows;

/* A group that does not read a value which another one makes, but computes it itself. */
typedef struct DtFuseAgain {
    uint32_t group;
    struct DtFuseAgain *next;
} DtFuseAgain;

static inline bool dt_fuse_computes(const DtFuseAgain *again, uint32_t group)
{
    while (again && again->group != group)
        again = again->next;
    return again;
}

/* ret_group[i] = number of the group of func->ops.at[i], in the order in which groups run; ops without a kernel have
 * groups of their own. spare: bytes of temporaries that a kernel in common may cost. ret_rows: by group; ret_again: by
 * value id. Returns the number of groups. */
uint32_t dt_fuse_group(const DtFunc *func, const DtTargetLimits *limits, uint32_t epilogues, int64_t spare,
                       DtArena *scratch, uint32_t *ret_group, DtFuseRows *ret_rows, DtFuseAgain **ret_again);

/* fuse_check.c: what the function's ops read, before kernels are made of them; that those do the same, or it aborts. */
typedef struct DtFuseRecord DtFuseRecord;
DtFuseRecord *dt_fuse_record(const DtFunc *func, DtArena *arena);
void dt_fuse_check(const DtFuseRecord *record, const DtFunc *func);

#endif
