/* SPDX-License-Identifier: Apache-2.0 */
/* Notes: which ops of the program the instructions of an entry compute. For the certificate only
 * (verify/plan.c); the runtime skips them.
 *
 * A sequence of words (LEB128, low bits first; signed ones are folded: 0, -1, 1, -2 ...), read
 * along with the entry's schedule: one note for each LOOP and each instruction except READ and
 * ZERO. Values are numbers in the current function, as the text of the final program counts
 * them; an op is named by its first result, entries and stores by their number in that text.
 *
 *   ENTRY   1 + entry (0: that of the piece, or of the stage, after which the plan entry is
 *           named; it may belong to a class of stages). Then the places of what the plan itself
 *           writes: for each `param` of a slot and each such `input`, in order, then for each
 *           result that is one of these or the next value of a state: arena, offset, step; if
 *           the step is not 0: its register
 *   CALL    op: the notes up to RETURN belong to the function that the op calls
 *   CARRY   loop op, number: the next instruction makes the initial value of that carried value
 *   LOOP    op: the LOOP item runs its body; MICRO: it runs the micro-batches
 *   AHEAD   1 + loop op, j: the notes up to RETURN are the prefetched gathers of iteration j of
 *           that loop. In another loop (or the same, for the next micro-batch), j = 0: the
 *           gathers of its first iterations, one in each of the last iterations of this loop.
 *           j > 0: the loop is in the entry of another piece of the stage: number (j - 1) / 3
 *           of these, forward, backward or weight gradients by (j - 1) % 3.
 *           0, j: the gathers of the iteration of this loop that comes j later
 *   BEHIND  0, j: the notes up to RETURN belong to the iteration of this loop that came j
 *           before: copies of its results. 1 + loop op, j: the same for iteration j of a loop
 *           that has ended
 *   TILES   n loops: (value, axis) each; queries (value, axis); keys (value, axis); 1 + the mask
 *           by which blocks may leave out keys, or 0; n outputs: as written arguments in DO
 *           (ZEROED: in the end it is all of the value). Loops over these axes follow; they
 *           contain blocks, which read and write blocks of values
 *   BLOCK   first query, queries, keys; 0 queries: no more blocks
 *   DO      n ops, their numbers; for a kernel, its number; then per argument. An address:
 *           value x DT_NOTE_FLAGS + flags, then the words that the flags require. An integer:
 *           its kind, then the words that the kind requires. Without ops: a copy of the value
 *   SUM     n, then 1 + store (0: a named result) each: the sum over ranks of their contents
 *   PART    value: the sum over ranks, in the last micro-batch, of what all micro-batches have
 *           added to the result of which this value's memory is a part
 *   SHARE   the sum of a named scalar over stages
 *   MOVE    store: the value that the channel carries, by its store on the receiving stage
 *   FORMS   m, n: bytes of the note that follows, of a product with a second form, and of the
 *           notes after it, one for each instruction of that form */
#ifndef DT_PLAN_NOTES_H
#define DT_PLAN_NOTES_H

typedef enum DtNoteKind {
    DT_NOTE_ENTRY, DT_NOTE_CALL, DT_NOTE_RETURN, DT_NOTE_CARRY, DT_NOTE_LOOP, DT_NOTE_MICRO,
    DT_NOTE_TILES, DT_NOTE_BLOCK, DT_NOTE_DO, DT_NOTE_SUM, DT_NOTE_SHARE, DT_NOTE_MOVE,
    DT_NOTE_AHEAD, DT_NOTE_PART, DT_NOTE_BEHIND, DT_NOTE_FORMS, DT_NOTE_KINDS
} DtNoteKind;

enum {
    DT_NOTE_ADDS = 1,      /* written: the instruction adds to earlier contents */
    /* written: the instruction adds to memory that was zeroed before, so the result is all of the
     * value */
    DT_NOTE_ZEROED = 2,
    /* written: may overwrite the value that follows, which is read at the same index */
    DT_NOTE_IN_PLACE = 4,
    /* a stride in elements per axis of the value's type follows; without it the value is dense,
     * or a block */
    DT_NOTE_STRIDES = 8,
    DT_NOTE_DTYPE = 16,    /* written: the dtype that follows is stored, not the value's own */
    /* read: no op reads it, only a library that runs instead of the kernel (plan.h, SDPA) */
    DT_NOTE_SPARE = 1,
    DT_NOTE_FLAGS = 32
};
enum { DT_NOTE_PHASES = 3 }; /* phases of a piece: forward, backward, weight gradients */

/* Integers. BASES: n, then per term: multiplier (signed), extent, number of mesh axes, these (time
 * included). ELEMENT, in a block of attention: multiplier (signed) of the first query, then of each
 * loop around blocks. */
typedef enum DtNoteInteger {
    DT_NOTE_BASES, DT_NOTE_STEP, DT_NOTE_ITERATION, DT_NOTE_INDEX, DT_NOTE_ELEMENT
} DtNoteInteger;

#endif
