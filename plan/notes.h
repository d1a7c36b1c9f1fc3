/* SPDX-License-Identifier: Apache-2.0 */
/* What the instructions of an entry stand for: for the certificate only (verify/plan.c); the runtime skips it.
 *
 * A sequence of words (LEB128, low bits first; signed ones are folded: 0, -1, 1, -2 ...) that is read along
 * with the entry's schedule, one note for each LOOP and each instruction but READ and ZERO. Values are
 * numbers in the function that is worked on, as the text of the final program counts them; an op is named
 * by its first result, entries and stores by their number in that text.
 *
 *   ENTRY   1 + entry (0: that of the piece, or of the stage, that the plan entry is named after; it may be one of a
 *           class of stages); then where it says of the text's function: for
 *           each `param` of a slot and `input` that the plan itself writes, in order, then each result that is
 *           one of these or the next value of a state: arena, offset, step; if that is not 0: its register
 *   CALL    op: what follows, up to RETURN, is the function that it calls
 *   CARRY   loop op, number: the next instruction makes the first value of that carried one
 *   LOOP    op: the LOOP item runs its body; MICRO: the micro-batches
 *   AHEAD   1 + loop op, j: what follows, up to RETURN, is what iteration j of that loop gathers; in another loop (or
 *           the same, for the next micro-batch), j = 0: what its first iterations do, one in each of the last of
 *           this one; j > 0: the loop is in the entry of another piece of the stage, of number (j - 1) / 3 of these,
 *           forward, backward or for gradients of parameters. 0, j: what the iteration of this loop does that comes j
 *           later
 *   BEHIND  0, j: what follows, up to RETURN, is of the iteration of this loop that came j before: copies of what it
 *           made. 1 + loop op, j: the same of iteration j of a loop that has ended
 *   TILES   n loops: (value, axis) each; queries (value, axis); keys (value, axis); 1 + the mask by which blocks may
 *           leave out keys, or 0; n outputs: as written arguments in DO (ZEROED: it is all of the value in the
 *           end). Loops over these axes follow; inside are blocks, and what they read and write are the blocks
 *           of values
 *   BLOCK   first query, queries, keys; 0 queries: there are no more
 *   DO      n ops, their numbers; of a kernel, its number; then per argument. An address: value x DT_NOTE_FLAGS
 *           + flags, then what they announce. An integer: its kind, then what that announces. Without ops: a
 *           copy of the value
 *   SUM     n, then 1 + store (0: a named result) each: the sum over ranks of what they hold
 *   PART    value: the sum over ranks, in the last micro-batch, of what all have added to a result where this lies
 *   SHARE   the sum of a named scalar over stages
 *   MOVE    store: what the channel carries, as the receiving stage calls it
 *   FORMS   m, n: bytes of the note that follows, of a product that has a second form, and of the notes behind it, one
 *           for each instruction of that form */
#ifndef DT_PLAN_NOTES_H
#define DT_PLAN_NOTES_H

typedef enum DtNoteKind {
    DT_NOTE_ENTRY, DT_NOTE_CALL, DT_NOTE_RETURN, DT_NOTE_CARRY, DT_NOTE_LOOP, DT_NOTE_MICRO, DT_NOTE_TILES,
    DT_NOTE_BLOCK, DT_NOTE_DO, DT_NOTE_SUM, DT_NOTE_SHARE, DT_NOTE_MOVE, DT_NOTE_AHEAD, DT_NOTE_PART,
    DT_NOTE_BEHIND, DT_NOTE_FORMS,
    DT_NOTE_KINDS
} DtNoteKind;

enum {
    DT_NOTE_ADDS = 1,      /* written: added to what is there */
    DT_NOTE_ZEROED = 2,    /* written: added up in memory that was zeroed for it: all of the value then */
    DT_NOTE_IN_PLACE = 4,  /* written: may be memory of the value that follows, which is read at the same index */
    DT_NOTE_STRIDES = 8,   /* a stride in elements per axis of the value's type follows; else it is dense, or a block */
    DT_NOTE_DTYPE = 16,    /* written: lies in the dtype that follows, not its own */
    DT_NOTE_SPARE = 1,     /* read: by no op, but by a library that runs instead of the kernel (plan.h, SDPA) */
    DT_NOTE_FLAGS = 32
};
enum { DT_NOTE_PHASES = 3 }; /* forward, backward, gradients of parameters */

/* Integers. BASES: n, then per term: multiplier (signed), extent, number of mesh axes, these (time included). ELEMENT,
 * in a block of attention: multiplier (signed) of the first query, then of each loop around blocks. */
typedef enum DtNoteInteger {
    DT_NOTE_BASES, DT_NOTE_STEP, DT_NOTE_ITERATION, DT_NOTE_INDEX, DT_NOTE_ELEMENT
} DtNoteInteger;

#endif
