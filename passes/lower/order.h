/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `order`: order_chain.c finds loops that gather ahead, order_fetch.c writes what they
 * do, order_pieces.c what the pieces of a pipeline do for each other, order_live.c knows what is alive when,
 * order_start.c writes what goes on beside other work, order_fill.c moves such work there, order_carry.c lets it go on
 * in the next iteration, order_late.c sums what micro-batches add up in the last one, order_messages.c starts what
 * stages of a pipeline send each other; order.c is the pass. */
#ifndef DT_PASSES_ORDER_H
#define DT_PASSES_ORDER_H

#include "ir/pipeline.h"
#include "passes/passes.h"

/* A loop as it was before the pass. */
typedef struct DtOrderLoop {
    DtOp *op;             /* becomes the loop that reads the ring buffer */
    DtLoop loop;
    const DtFunc *body;
    DtValue *const *in;   /* its operands */
    uint32_t final;       /* DtValue.final of its first result */
} DtOrderLoop;

/* Loops of one function that gather equally far ahead and run one behind the other. */
typedef struct DtOrderChain {
    DT_VEC(DtOrderLoop) loops; /* in the order in which they run */
    int64_t ahead, bytes;      /* iterations; bytes of a slot */
    uint16_t splits;           /* mesh axes on which slots hold different things */
    struct DtOrderChain *next; /* that comes before it in the function */
} DtOrderChain;

/* What a chain finds in the ring buffer that it is handed, and what it leaves there. */
typedef struct DtOrderHanded {
    DtStore *store;            /* of the ring buffer; NULL: the chain has one of its own */
    int64_t n_micro;           /* > 0: first gathers in the first micro-batch alone; its last loop goes on with the
                                * first one of the next micro-batch */
    bool goes_on;              /* the first gathers are there */
    const DtOrderLoop *next;   /* else: the first loop of the piece that comes next on the stage, NULL: none */
    uint32_t piece, kind;      /* of that, as in DtAheadOf */
} DtOrderHanded;

/* ---- order_chain.c ---- */

bool dt_order_is_ahead(const DtOp *op);
/* Whether the function gathers ahead, or anything in it, be it written out already or not. */
bool dt_order_uses(const DtFunc *func);
/* The chains of a function, the last one first. ret_whole: there is only one, of parameters as stored, and nothing else
 * in the function gathers ahead: then the ring buffer can be handed on. */
DtOrderChain *dt_order_chains(DtArena *arena, const DtFunc *func, bool *ret_whole);
/* Whether what is gathered into the value is read, and not only gathered again: then it lies in the ring buffer. */
bool dt_order_is_kept(const DtFunc *body, const DtValue *value);
/* Whether a gather ahead reads input number `input` of the body. */
bool dt_order_is_gathered(const DtFunc *body, uint32_t input);
/* The ring buffer of `slots` slots. */
const DtType *dt_order_ring(const DtModule *module, int64_t slots, int64_t bytes, uint16_t splits);
/* Bytes that a value of the type takes in a slot. */
int64_t dt_order_slot_bytes(const DtModule *module, const DtType *type);

/* ---- order_fetch.c ---- */

/* Writes the chains of the function out; handed: of the only one, NULL for nothing. */
void dt_order_write(DtFunc *func, DtOrderChain *chains, const DtOrderHanded *handed);
/* A copy of a function's ops in another one; map: by value id, what inputs have become. */
DtOp *dt_order_copy_op(DtFunc *to, const DtOp *op, DtValue **map);

/* ---- order_pieces.c ---- */

/* The entries of pieces, in as many forms as the actions of their stages need. done: by entry, that nothing is left to
 * be done. */
void dt_order_pieces(DtModule *module, bool *done);

/* ---- order_live.c ---- */

/* What is alive in a function, in the order of its ops. */
typedef struct DtOrderLive {
    uint32_t *last;   /* by value id: number of the last op that reads it, or a view of it; of ops: a result is */
    int64_t *bytes;   /* by value id: of its memory; 0: it has none of the function's own */
    int64_t *at, peak; /* by op: bytes while it runs; the most of them */
} DtOrderLive;

DtOrderLive dt_order_live(DtArena *arena, const DtFunc *func);
/* Whether that many bytes more from op number `from` up to `to` make the most no more; then they are. */
bool dt_order_has_room(const DtOrderLive *live, uint32_t from, uint32_t to, int64_t bytes);
void dt_order_take_room(DtOrderLive *live, uint32_t from, uint32_t to, int64_t bytes);

/* ---- order_carry.c ---- */

/* Buckets of gradients that loops of entries reduce last in an iteration are on their way in the next. */
void dt_order_carry(DtModule *module);
/* Whether what an entry returns may be added to what it returned before, in the same step. */
bool dt_order_adds(const DtModule *module);

/* Whether no other op has the body. */
bool dt_order_is_alone(const DtModule *module, const DtFunc *body);

/* ---- order_late.c ---- */

/* What micro-batches of the entry add up is summed over ranks in the last one, as its terms come. */
void dt_order_late(DtEntryPoint *entry);
bool dt_order_has_late(const DtModule *module); /* whether there is such a thing */

/* ---- order_fill.c ---- */

/* Products are moved to where the function exchanges and does nothing else; not over this mesh axis. */
void dt_order_fill(DtFunc *func, uint16_t pipe);

/* ---- order_start.c ---- */

bool dt_order_exchanges(const DtOp *op);
/* Whether the op only says where its operand lies: such a one of what is not done waits for a reader. */
bool dt_order_is_view(const DtOp *op);
/* Whether a device does something for the op that does not wait for the exchange in the same queue. */
bool dt_order_is_beside(const DtOp *op, const DtOp *exchange);
/* By value id: the number of the op that makes it. */
uint32_t *dt_order_numbers(DtArena *arena, const DtFunc *func);

/* Exchanges of all functions are started where their operands are made and done where their results are read. */
void dt_order_starts(DtModule *module);

/* ---- order_messages.c ---- */

/* Messages of a pipeline's runs are started where their slots allow it, and done where they have to be. */
void dt_order_messages(DtModule *module);

/* order.c: each value says which number it has; one that says so already keeps it. */
void dt_order_finals(DtFunc *func);

#endif
