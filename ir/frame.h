/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a function: the memory of its values while it runs. Pass `memory` gives each
 * value with memory of its own an offset in the frame (DtValue.at), and each op that runs a
 * function, in iterations of a loop or once, the offset of that function's frame (DtOp.base). An
 * address is thus the sum of offsets on the way from the entry.
 *
 *     func grad : entry frame=6144 {                         func body : body frame=1024 {
 *       %2 = ..  at(%2=0)                                      %4 = ..  at(%4=0)
 *       %3, %4 = loop(%2) func=body .. at(%3=4096) base=5120   ..
 *
 * A function that is called once and has no frame uses its caller's. A range is live from the op
 * that begins to write it to the last op that reads it: as the value, as a view or part of it,
 * or as an asynchronous result until its `done`. */
#ifndef DT_IR_FRAME_H
#define DT_IR_FRAME_H

#include "ir/ir.h"

enum { DT_FRAME_ALIGN = 64 }; /* alignment of ranges */

/* A range of bytes, live from position `first` to position `last`, both included. */
typedef struct DtFrameRange {
    int64_t bytes, offset;
    uint32_t first, last;
    DtValue *value; /* the value that it belongs to, or */
    DtOp *op;       /* or the op whose function's frame it is; NULL in both: a range that only the
                     * caller knows */
} DtFrameRange;

typedef DT_VEC(DtFrameRange) DtFrameRanges;

int64_t dt_frame_aligned(int64_t bytes);
/* Bytes of a rank's part of a value with memory of its own. */
int64_t dt_frame_bytes(const DtValue *value, const DtMesh *mesh);
/* Whether the op's function has its frame inside the frame of the function with the op: a loop,
 * a `when`, or a call that is not attention, which a target may do in one kernel or in tiles. */
bool dt_frame_has(const DtOp *op);
/* The ranges of the function's frame, in the order of its ops, with their offsets. */
DtFrameRanges dt_frame_ranges(const DtFunc *func, DtArena *arena);
/* Assigns offsets to the ranges from number `from` on, in order: the lowest offset that overlaps
 * no range that is live at the same time. Earlier ranges keep theirs. Returns the bytes of all. */
int64_t dt_frame_fit(DtArena *arena, DtFrameRange *ranges, uint32_t n, uint32_t from);

#endif
