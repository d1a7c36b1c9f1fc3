/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that an exchange between ranks moves, given the layouts of operand and result. Pass
 * `memory` asks which operands have to be copied first; code generation asks where blocks are. */
#ifndef DT_IR_BLOCKS_H
#define DT_IR_BLOCKS_H

#include "ir/view.h"

enum { DT_BLOCK_DIMS = 6, DT_BLOCK_COORDS = 5 };

/* Elements of a block, outermost first; and how many elements one step of a rank's coordinate on a
 * mesh axis of devices moves the block, in the result and in the operand. */
typedef struct DtBlocks {
    uint32_t n_dims;
    int64_t extent[DT_BLOCK_DIMS], to[DT_BLOCK_DIMS], from[DT_BLOCK_DIMS];
    uint8_t coord_axis[DT_BLOCK_COORDS];
    int64_t to_coord[DT_BLOCK_COORDS], from_coord[DT_BLOCK_COORDS];
} DtBlocks;

/* The blocks that op moves, if operand and result have these layouts. False: they have too many
 * dimensions or mesh axes; or, with adjacent, no elements of a block are adjacent in both. */
bool dt_blocks_find(const DtOp *op, const DtMesh *mesh, const DtView *from, const DtView *to,
                    bool adjacent, DtBlocks *ret_blocks);

#endif
