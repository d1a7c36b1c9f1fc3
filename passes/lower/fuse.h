/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `fuse`. */
#ifndef DT_PASSES_FUSE_H
#define DT_PASSES_FUSE_H

#include "ir/ir.h"
#include "ir/target.h"

/* The axes over which a kernel sums row by row, 0: none. */
typedef struct DtFuseRows {
    const char **axes;
    uint32_t n;
    const char *product; /* the epilogue of the library call (epilogue.c); NULL: it is a kernel */
} DtFuseRows;

/* An entry of the list of groups that recompute a value of another group instead of reading it. */
typedef struct DtFuseRecompute {
    uint32_t group;
    struct DtFuseRecompute *next;
} DtFuseRecompute;

static inline bool dt_fuse_computes(const DtFuseRecompute *recomputed, uint32_t group)
{
    while (recomputed && recomputed->group != group)
        recomputed = recomputed->next;
    return recomputed;
}

/* fuse_known.c. A sum that is complete before any product may be read by ops after products, in
 * a kernel of its own. If these ops also read the sum's operand, copy_known makes copies of the
 * ops that compute that operand, so that the sum's kernel need not store it. `first` is the
 * position of the first copy. Returns how many sums have copies. */
typedef struct DtFuseCopied {
    DtOp *sum;
    DtValue **in; /* operands of the sum before fusion */
    uint32_t first;
} DtFuseCopied;
uint32_t dt_fuse_copy_known(DtFunc *func, DtArena *scratch, DtFuseCopied **ret_copied);
/* dt_fuse_keeps_copies: whether every copy is in its sum's group and no original is stored; group:
 * by position. dt_fuse_drop_copies undoes dt_fuse_copy_known. */
bool dt_fuse_keeps_copies(const DtFunc *func, const DtFuseCopied *copied, uint32_t n,
                          const uint32_t *group);
void dt_fuse_drop_copies(DtFunc *func, const DtFuseCopied *copied, uint32_t n);

/* Groups the ops of func into kernels. ret_group[i]: number of the group of func->ops.at[i], in
 * the order in which groups run; ops without a kernel have groups of their own. spare: bytes by
 * which a shared kernel may increase temporaries. ret_rows: by group; ret_again: by value id.
 * Returns the number of groups. */
uint32_t dt_fuse_group(const DtFunc *func, const DtTargetLimits *limits, uint32_t epilogues,
                       int64_t spare, DtArena *scratch, uint32_t *ret_group, DtFuseRows *ret_rows,
                       DtFuseRecompute **ret_recomputed);

/* fuse_check.c: records the operands of each op before kernels are made; dt_fuse_check aborts if
 * the kernels read other values. */
typedef struct DtFuseRecord DtFuseRecord;
DtFuseRecord *dt_fuse_record(const DtFunc *func, DtArena *arena);
void dt_fuse_check(const DtFuseRecord *record, const DtFunc *func);

#endif
