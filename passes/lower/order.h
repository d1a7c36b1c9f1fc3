/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `order`, which decides when communication runs: order_chain.c
 * finds loops that prefetch, order_fetch.c rewrites them, order_pieces.c handles prefetches
 * between pieces of a pipeline, order_live.c computes live ranges, order_start.c makes
 * communication asynchronous, order_fill.c moves products to where it runs, order_carry.c lets
 * it run on in the next iteration, order_late.c sums accumulated gradients in the last
 * micro-batch, order_messages.c starts messages between stages; order.c is the pass. */
#ifndef DT_PASSES_ORDER_H
#define DT_PASSES_ORDER_H

#include "ir/pipeline.h"
#include "passes/passes.h"

/* A loop that prefetches, and what it was before the pass rewrites it. */
typedef struct DtOrderLoop {
    DtOp *op;             /* the op, which becomes the loop that reads the ring buffer */
    DtLoop loop;
    const DtFunc *body;
    DtValue *const *in;   /* the op's operands */
    uint32_t final;       /* DtValue.final of its first result */
} DtOrderLoop;

/* Loops of one function that prefetch equally far ahead and follow each other. */
typedef struct DtOrderChain {
    DT_VEC(DtOrderLoop) loops; /* in the order in which they run */
    int64_t ahead, bytes;      /* ahead: iterations; bytes: of a slot */
    uint16_t splits;           /* mesh axes on which ranks have different slot contents */
    struct DtOrderChain *next; /* the chain before this one in the function */
} DtOrderChain;

/* The ring buffer of prefetched values that earlier micro-batches, or earlier pieces of the
 * pipeline stage, pass to a chain, and what the chain prefetches for the next one. */
typedef struct DtOrderHanded {
    /* the store of the ring buffer; NULL: the chain has a ring buffer of its own */
    DtStore *store;
    /* > 0: only the first micro-batch runs the first gathers; in each micro-batch the last loop
     * prefetches for the first loop of the next one */
    int64_t n_micro;
    bool goes_on;              /* otherwise: the loop that the next piece on the stage begins with;
                                * NULL: none */
    /* otherwise: the first loop of the next piece on the stage, NULL: none */
    const DtOrderLoop *next;
    uint32_t piece, kind;      /* the piece and phase of that loop, as in DtAheadOf */
} DtOrderHanded;

/* ---- order_chain.c ---- */

bool dt_order_is_ahead(const DtOp *op);
/* Whether the function, or a function that it runs, has gathers for later iterations. */
bool dt_order_uses(const DtFunc *func);
/* The chains of a function, the last one first. ret_whole: there is one chain, of gathers of
 * parameters as stored, and no other prefetch in the function: then the ring buffer can be
 * passed on. */
DtOrderChain *dt_order_chains(DtArena *arena, const DtFunc *func, bool *ret_whole);
/* Whether an op other than a further gather reads the gathered value, which then needs a place in
 * the ring buffer. */
bool dt_order_is_kept(const DtFunc *body, const DtValue *value);
/* Whether a prefetched gather reads input number `input` of the body. */
bool dt_order_is_gathered(const DtFunc *body, uint32_t input);
/* The type of a ring buffer of `slots` slots. */
const DtType *dt_order_ring(const DtModule *module, int64_t slots, int64_t bytes, uint16_t splits);
/* Bytes of a value of the type in a slot. */
int64_t dt_order_slot_bytes(const DtModule *module, const DtType *type);

/* ---- order_fetch.c ---- */

/* Rewrites the loops of the chains to read prefetched values from ring buffers. handed: the ring
 * buffer that is passed to a single chain; NULL for none. */
void dt_order_write(DtFunc *func, DtOrderChain *chains, const DtOrderHanded *handed);
/* Copies an op into function `to` and returns the copy. map: by value id, the new values of
 * operands; set for the op's results. */
DtOp *dt_order_copy_op(DtFunc *to, const DtOp *op, DtValue **map);

/* ---- order_pieces.c ---- */

/* Rewrites the prefetching entries of pipeline pieces, each in as many versions (twins) as the
 * actions of its stage need. done: by entry, set where nothing is left to do. */
void dt_order_pieces(DtModule *module, bool *done);

/* ---- order_live.c ---- */

/* Live ranges in a function, in the order of its ops. */
typedef struct DtOrderLive {
    /* by value id: number of the last op that reads it, or a view of it; the number of ops for
     * results */
    uint32_t *last;
    int64_t *bytes;   /* by value id: bytes of its memory; 0: it has none of the function's own */
    int64_t *at, peak; /* by op: live bytes while it runs; peak: the largest of them */
} DtOrderLive;

DtOrderLive dt_order_live(DtArena *arena, const DtFunc *func);
/* dt_order_has_room: whether live bytes may grow by `bytes` from op number `from` up to `to`
 * without raising the peak. dt_order_take_room records that they do. */
bool dt_order_has_room(const DtOrderLive *live, uint32_t from, uint32_t to, int64_t bytes);
void dt_order_take_room(DtOrderLive *live, uint32_t from, uint32_t to, int64_t bytes);

/* ---- order_carry.c ---- */

/* Lets reductions of gradient buckets at the end of an iteration run on in the next iteration. */
void dt_order_carry(DtModule *module);
/* Whether results of entries may accumulate over several runs in the same step: over micro-batches
 * or actions of a pipeline. */
bool dt_order_adds(const DtModule *module);

/* Whether no op of the module but one runs the body, so that it may be changed for that loop. */
bool dt_order_is_alone(const DtModule *module, const DtFunc *body);

/* ---- order_late.c ---- */

/* Sums accumulated gradients of the entry over ranks once, in the last micro-batch: adds or marks
 * each all_reduce or reduce_scatter (DtOp.late) just after the op that completes the rank's
 * terms. */
void dt_order_late(DtEntryPoint *entry);
bool dt_order_has_late(const DtModule *module); /* whether an op has `late` set */

/* ---- order_fill.c ---- */

/* Moves products to where the function waits for communication; not for communication over this
 * mesh axis. */
void dt_order_fill(DtFunc *func, uint16_t pipe);

/* ---- order_start.c ---- */

bool dt_order_exchanges(const DtOp *op);
/* Whether the op is a view, which on an asynchronous value waits for a reader. */
bool dt_order_is_view(const DtOp *op);
/* Whether a device can work on the op during the exchange, without waiting for it. */
bool dt_order_is_beside(const DtOp *op, const DtOp *exchange);
/* By value id: number of the op that makes it. */
uint32_t *dt_order_numbers(DtArena *arena, const DtFunc *func);

/* Makes exchanges asynchronous in all functions: started once their operands are there, done
 * when their results are read. */
void dt_order_starts(DtModule *module);

/* ---- order_messages.c ---- */

/* Makes messages of pipelines asynchronous: started as early as their slots allow, done as late
 * as possible. */
void dt_order_messages(DtModule *module);

/* order.c: records DtValue.final for each value; a value that has one keeps it. */
void dt_order_finals(DtFunc *func);

#endif
