/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `fuse`. */
#ifndef DT_PASSES_FUSE_H
#define DT_PASSES_FUSE_H

#include "ir/ir.h"

/* Of a rank's part. */
static inline int64_t dt_fuse_bytes(const DtType *type, const DtMesh *mesh)
{
    return dt_type_local_elements(type, mesh) * (int64_t)dt_dtype_size(type->dtype);
}

/* Whether op reads that operand from memory, at other indices than it writes. */
static inline bool dt_fuse_is_read(const DtOp *op, uint32_t operand)
{
    return (dt_op_info[op->kind].op_class == DT_CLASS_AXIS && op->kind != DT_OP_EXPAND) ||
           (op->kind == DT_OP_GATHER && operand == 0);
}

/* The axes over which a kernel adds up row by row, 0: it does not. */
typedef struct DtFuseRows {
    const char **axes;
    uint32_t n;
} DtFuseRows;

/* ret_group[i] = number of the group of func->ops.at[i], in the order in which groups run; ops without a kernel have
 * groups of their own. ret_rows: by group. Returns the number of groups. */
uint32_t dt_fuse_group(const DtFunc *func, DtArena *scratch, uint32_t *ret_group, DtFuseRows *ret_rows);

#endif
