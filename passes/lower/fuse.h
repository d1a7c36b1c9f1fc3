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

/* fuse_known.c: a sum that is known before products has what it adds up made for it once more, if what is behind them
 * reads that, too: by ops behind each other, of which `first` is the position of the first one. Returns how many do. */
typedef struct DtFuseCopied {
    DtOp *sum;
    DtValue **in; /* what it read */
    uint32_t first;
} DtFuseCopied;
uint32_t dt_fuse_copy_known(DtFunc *func, DtArena *scratch, DtFuseCopied **ret_copied);
/* Whether all copies are in the groups of their sums, and what they are copies of is not written; group: by position.
 * All as it was. */
bool dt_fuse_keeps_copies(const DtFunc *func, const DtFuseCopied *copied, uint32_t n, const uint32_t *group);
void dt_fuse_drop_copies(DtFunc *func, const DtFuseCopied *copied, uint32_t n);

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
