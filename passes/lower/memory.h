/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `memory`: memory_over.c (results that overwrite operands),
 * memory_walk.c (the layout of all values, function by function), memory_lies.c (the layout of
 * temporaries), memory_copy.c (copies of operands), memory_product.c (products with epilogues),
 * memory_results.c (copies of results) and memory_frame.c (offsets). */
#ifndef DT_PASSES_MEMORY_H
#define DT_PASSES_MEMORY_H

#include "ir/ir.h"
#include "ir/joined.h"
#include "ir/map.h"
#include "ir/target.h"
#include "ir/view.h"

/* Marks strides that are unknown, since callers of the function have different ones. */
extern const int64_t dt_memory_unknown[];

/* The place in memory to which a value should be written: where the function's first result that is
 * this value goes, or a part of a larger value. */
typedef struct DtMemoryWish {
    bool set, accumulate; /* accumulate: the result of an entry, to which micro-batches add */
    bool adds;            /* each execution adds to the old contents */
    /* the place cannot be used: the op cannot write there, or it would add to old contents although
     * the value is another result too */
    bool drops;
    bool part, packed;    /* part: of a concat, a `pack` or a ring buffer; packed: of a `pack` */
    DtValue *old;         /* the value that occupies the place until then */
    const int64_t *strides; /* NULL: dense */
} DtMemoryWish;

/* Layouts that the callers of a function determine: strides of its inputs and of the places of its
 * results; NULL: dense. */
typedef struct DtMemoryCall {
    const DtLoop *loop;        /* the loop; NULL: the function is no loop body */
    const DtEntryPoint *entry; /* the entry; NULL: the function is none */
    bool called, *adds;        /* adds: by result, whether the function adds it to the old
                                * contents */
    bool leaves;               /* for a `when`: results stay at their places */
    /* the function has a frame inside its caller's frame, or is an entry (ir/frame.h) */
    bool framed;
    bool inside;               /* the function has no frame: its values are in its caller's frame */
    const int64_t **inputs, **results;
    /* by result of a loop's body: 1 + number of the loop's operand over whose slice it goes; 0:
     * none */
    uint32_t *slots;
} DtMemoryCall;

/* The function being processed. */
typedef struct DtMemory {
    DtFunc *func;
    const DtTargetLimits *limits;
    const DtMemoryCall *call;
    DtMap *calls;              /* by function: its DtMemoryCall */
    DtArena *arena, *kept;     /* arena: freed after this function; kept: lives for all functions */
    /* false: every value has the layout of its type, and memory of its own */
    bool fuses;
    bool changed;
    /* number of values walked through; later ones are copies of results */
    uint32_t n_walked;
    /* by value id: position of the last op that reads its memory; UINT32_MAX: the end */
    uint32_t *last;
    uint32_t *reads;           /* by value id: how many operands are this value */
    /* by value id of an asynchronous result, also in a loop's iterations: its `done` */
    DtOp **done;
    DtMemoryWish *wish;        /* by value id */
    bool *folded;              /* by value id: a `fold` reads it */
    /* by value id, for values that kernels recompute where they read them: their copy in memory,
     * or NULL */
    DtValue **settled;
    /* by value id: strides by axis of the type; NULL: dense, or not known yet */
    const int64_t **at;
    DT_VEC(DtOp *) ops;        /* the ops walked through, with the copies inserted before them */
} DtMemory;

/* memory_parts.c: finds operands that can be computed at their place in a larger value
 * (DtOp.holds), and records that place as their wish. */
void dt_memory_parts(DtMemory *m);
/* Records that the op cannot write the value to the wished place, so that the value is copied there
 * instead. */
void dt_memory_drop(DtMemory *m, const DtValue *value);
/* Whether ops of this kind belong to prefetches for later iterations, which come before all other
 * ops of an iteration. */
bool dt_memory_is_ahead(DtOpKind kind);

/* memory_over.c: whether result i is also a stacked input of the iteration, which reads it from
 * memory. Such a result is copied before all other ops. */
bool dt_memory_is_early(const DtLoop *loop, const DtValue *result, uint32_t i);
/* Lets each result of op that has no memory yet take the memory of an operand that no later op
 * reads (DtValue.over). */
void dt_memory_reuse(DtMemory *m, uint32_t position, DtOp *op);
/* Whether result `out` of the op at the position can overwrite `old`. */
bool dt_memory_replaces(const DtMemory *m, uint32_t position, const DtOp *op, uint32_t out,
                        const DtValue *old);
/* The value that the function reads from the store; NULL: it reads none. */
DtValue *dt_memory_param(const DtFunc *func, const DtStore *store);

/* Returns result `out` of op. For communication that op, or an iteration of a loop, starts, returns
 * the value after its `done`. */
DtValue *dt_memory_result(const DtMemory *m, const DtOp *op, uint32_t out);

/* memory_walk.c: determines the layout of all values of m's function once DtValue.over is known,
 * in the order of ops. Temporaries get DtValue.lies, functions that it calls their DtMemoryCall. */
void dt_memory_walk(DtMemory *m);
/* Whether the op writes the value directly to its wished place. */
bool dt_memory_is_direct(const DtMemory *m, const DtValue *value);
/* The record of a function; a new one has dense inputs and results. */
DtMemoryCall *dt_memory_call(DtMap *calls, DtArena *kept, const DtFunc *func);

/* memory_view.c: the strides that the value has now; dense if none are known. */
DtView dt_memory_view(const DtMemory *m, const DtValue *value);
/* dt_memory_strided: the view of a type with these strides. dt_memory_strides: the strides of a
 * view, NULL if it is dense. */
DtView dt_memory_strided(const DtMemory *m, const DtType *type, const int64_t *strides);
const int64_t *dt_memory_strides(const DtMemory *m, const DtType *type, const DtView *view);

/* memory_lies.c: chooses the layout value->lies of a temporary. */
void dt_memory_lies(const DtMemory *m, DtValue *value);
/* Makes value->lies the layout of a view, without its gaps. */
void dt_memory_lie_as(const DtMemory *m, DtValue *value, const DtView *view);

/* memory_copy.c: inserts copies before op of operands that it needs in another layout, or in
 * memory at all; then lays out its result. */
void dt_memory_copies(DtMemory *m, DtOp *op);
/* Inserts copies for an exchange between ranks that cannot read its operand or write its result in
 * their layouts, and lays out its result. */
void dt_memory_exchange(DtMemory *m, DtOp *op);

/* memory_product.c: whether the library can do a product with this epilogue in the layouts of
 * its operands and results. */
bool dt_memory_joins(const DtMemory *m, const DtOp *op, const DtJoinedParts *parts);
/* Splits a product with an epilogue into the ops of its function. While these are processed, op
 * number i counts as position DT_MEMORY_INSIDE + i. */
void dt_memory_part(DtMemory *m, const DtOp *op, DtOp **ret_ops);
enum { DT_MEMORY_INSIDE = INT32_MAX }; /* larger than any position in a function */

/* memory_frame.c. dt_memory_mark: provisionally sets DtValue.at to 1 for values with memory of
 * their own. dt_memory_frame: assigns offsets in the function's frame; the functions that it runs
 * must have theirs already. */
void dt_memory_mark(DtMemory *m);
void dt_memory_frame(DtFunc *func, DtArena *kept);

/* memory_results.c: inserts copies of results that are not at their place. */
void dt_memory_results(DtMemory *m);
/* Whether the op that computes the value, a result of the function, writes it directly to its final
 * place. */
bool dt_memory_lands(const DtMemory *m, const DtValue *value);
/* Returns the sum over ranks that runs once, in the last micro-batch (DtOp.late), if the result is
 * one or its `done`; else NULL. */
const DtOp *dt_memory_late(const DtValue *result);

#endif
