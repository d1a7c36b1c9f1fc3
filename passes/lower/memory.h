/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `memory`: memory_over.c (what is written over what), memory_walk.c (where values lie,
 * function by function), memory_lies.c (the order of axes of temporaries), memory_copy.c (copies of operands),
 * memory_product.c (what a library of products does besides), memory_results.c (copies of results) and memory_frame.c
 * (offsets). */
#ifndef DT_PASSES_MEMORY_H
#define DT_PASSES_MEMORY_H

#include "ir/ir.h"
#include "ir/joined.h"
#include "ir/map.h"
#include "ir/target.h"
#include "ir/view.h"

/* Strides that are not known: callers disagree. */
extern const int64_t dt_memory_unknown[];

/* Where a value goes: of the first result of the function that it is, or of what it is a part of. */
typedef struct DtMemoryWish {
    bool set, accumulate; /* of an entry: it is added up over micro-batches */
    bool adds;            /* to what lies there */
    bool drops;           /* the place is of no use: what makes the value cannot write there; or what is made is added
                           * to what lies there, and the value is another result, too */
    bool part, packed;    /* of what a concat, a `pack` or a ring buffer holds; of a `pack` */
    DtValue *old;         /* what lies there until then */
    const int64_t *strides; /* NULL: dense */
} DtMemoryWish;

/* What callers say of a function: strides of its inputs and of where its results go, NULL where they are dense. */
typedef struct DtMemoryCall {
    const DtLoop *loop;        /* NULL: it is no body */
    const DtEntryPoint *entry; /* NULL: it is none */
    bool called, *adds;        /* by result: to what lies there */
    bool leaves;               /* a `when` does: results stay where they are */
    bool framed;               /* its frame lies in that of what runs it, or it is an entry (ir/frame.h) */
    bool inside;               /* it has none, but lies in its caller's */
    const int64_t **inputs, **results;
} DtMemoryCall;

/* A function. */
typedef struct DtMemory {
    DtFunc *func;
    const DtTargetLimits *limits;
    const DtMemoryCall *call;
    DtMap *calls;              /* by function */
    DtArena *arena, *kept;     /* for this function; for all */
    bool fuses;                /* else each value lies as its type says, and in memory of its own */
    bool changed;
    uint32_t n_walked;         /* values up to here were walked through; those behind are copies of results */
    uint32_t *last;            /* by value id: position of the last op that reads its memory; at the end: UINT32_MAX */
    uint32_t *reads;           /* by value id: how many operands it is */
    DtOp **done;               /* by value id of what is started, also by a loop's iterations: its `done` */
    DtMemoryWish *wish;        /* by value id */
    bool *folded;              /* by value id: a `fold` reads it */
    DtValue **settled;         /* by value id of what is computed wherever it is read: its copy, or NULL */
    const int64_t **at;        /* by value id: strides, by axis of the type; NULL: dense, or nowhere yet */
    DT_VEC(DtOp *) ops;        /* those that are walked through, and copies in front of what needs them */
} DtMemory;

/* memory_parts.c: what lies in what: DtOp.holds, and the wishes of what is held. */
void dt_memory_parts(DtMemory *m);
/* What makes the value cannot write it where it goes: it is copied there. */
void dt_memory_drop(DtMemory *m, const DtValue *value);
/* Ops of what is gathered ahead, which come before all else that an iteration does. */
bool dt_memory_is_ahead(DtOpKind kind);

/* memory_over.c: whether the result is an input of an iteration that is stacked, too: it is copied ahead of all ops. */
bool dt_memory_is_early(const DtLoop *loop, const DtValue *result, uint32_t i);
/* Results of the op that have no place yet are written over operands that die there. */
void dt_memory_reuse(DtMemory *m, uint32_t position, DtOp *op);
/* Whether result `out` of the op at the position can be written over old, whose place it takes. */
bool dt_memory_replaces(const DtMemory *m, uint32_t position, const DtOp *op, uint32_t out, const DtValue *old);
/* The store's value when the function begins; NULL: it is not read. */
DtValue *dt_memory_param(const DtFunc *func, const DtStore *store);

/* What the op makes; of communication that is started, by it or by iterations, what there is when it is done. */
DtValue *dt_memory_result(const DtMemory *m, const DtOp *op, uint32_t out);

/* memory_walk.c: where the values of m's function lie once DtValue.over is known, in the order of its ops: temporaries
 * get DtValue.lies, the functions that it calls their DtMemoryCall. */
void dt_memory_walk(DtMemory *m);
/* Whether what makes the value writes it where it goes. */
bool dt_memory_is_direct(const DtMemory *m, const DtValue *value);
/* All that is not said of a function yet: dense. */
DtMemoryCall *dt_memory_call(DtMap *calls, DtArena *kept, const DtFunc *func);

/* memory_view.c: the value's strides by now; dense, if they are not known. */
DtView dt_memory_view(const DtMemory *m, const DtValue *value);
/* A value of that type with those strides; and the strides of such a view, NULL if it is dense. */
DtView dt_memory_strided(const DtMemory *m, const DtType *type, const int64_t *strides);
const int64_t *dt_memory_strides(const DtMemory *m, const DtType *type, const DtView *view);

/* memory_lies.c: chooses value->lies, for a temporary. */
void dt_memory_lies(const DtMemory *m, DtValue *value);
/* As a view does that has no gaps. */
void dt_memory_lie_as(const DtMemory *m, DtValue *value, const DtView *view);

/* memory_copy.c: what an op needs to lie otherwise than it does, or to lie anywhere, is copied in front of it; its
 * result is placed. */
void dt_memory_copies(DtMemory *m, DtOp *op);
/* The same of an exchange between ranks, and places its result. */
void dt_memory_exchange(DtMemory *m, DtOp *op);

/* memory_product.c: whether a library does a product that does more as its operands and results lie. */
bool dt_memory_joins(const DtMemory *m, const DtOp *op, const DtJoinedParts *parts);
/* Its ops, one by one: as many as its function has; op number i stands at position DT_MEMORY_INSIDE + i. */
void dt_memory_part(DtMemory *m, const DtOp *op, DtOp **ret_ops);
enum { DT_MEMORY_INSIDE = INT32_MAX }; /* no function is as long */

/* memory_frame.c: DtValue.at of what has memory of its own, for now 1; and where it lies in the frame of the function,
 * whose callees have theirs. */
void dt_memory_mark(DtMemory *m);
void dt_memory_frame(DtFunc *func, DtArena *kept);

/* memory_results.c: results that do not lie where they belong are copied there. */
void dt_memory_results(DtMemory *m);
/* Whether what makes the value writes it where it belongs. */
bool dt_memory_lands(const DtMemory *m, const DtValue *value);
/* The sum of what micro-batches add up, if the result is one, or is its `done`; else NULL. */
const DtOp *dt_memory_late(const DtValue *result);

#endif
