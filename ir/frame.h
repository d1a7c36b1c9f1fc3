/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a function: the memory in which its values lie while it runs. Pass `memory` gives each value that has
 * memory of its own an offset in it (DtValue.at), and each op that runs a function, in an iteration of a loop or once,
 * the offset of that one's frame (DtOp.base). So an address is the sum of offsets on the way from the entry.
 *
 *     func grad : entry frame=6144 {                         func body : body frame=1024 {
 *       %2 = ..  at(%2=0)                                      %4 = ..  at(%4=0)
 *       %3, %4 = loop(%2) func=body .. at(%3=4096) base=5120   ..
 *
 * What is called once, and has no frame, lies in that of its caller. A range is in use from the op that begins to write
 * it to the last one that reads it: as a value, as a view or a part of something, and as what is started, until that is
 * done. */
#ifndef DT_IR_FRAME_H
#define DT_IR_FRAME_H

#include "ir/ir.h"

enum { DT_FRAME_ALIGN = 64 }; /* where ranges begin */

/* In use from position `first` to position `last`, both included. */
typedef struct DtFrameRange {
    int64_t bytes, offset;
    uint32_t first, last;
    DtValue *value; /* whose it is, or */
    DtOp *op;       /* whose function's frame; of neither: the caller knows */
} DtFrameRange;

typedef DT_VEC(DtFrameRange) DtFrameRanges;

int64_t dt_frame_aligned(int64_t bytes);
/* Of a value's own memory, a rank's part. */
int64_t dt_frame_bytes(const DtValue *value, const DtMesh *mesh);
/* Whether the op's function has its frame in that of the function that has the op: a loop, a `when` or a call that is
 * no attention, which a target may do in one kernel or in tiles. */
bool dt_frame_has(const DtOp *op);
/* The ranges of the function's frame, in the order of its ops, with the offsets that they have. */
DtFrameRanges dt_frame_ranges(const DtFunc *func, DtArena *arena);
/* Each range from number `from` on, in their order, gets the lowest offset where none that is in use at the same time
 * lies; those before have theirs. ret: bytes of all. */
int64_t dt_frame_fit(DtArena *arena, DtFrameRange *ranges, uint32_t n, uint32_t from);

#endif
