/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR: an expression DAG over an index space with row reductions. One kernel is a loop nest:
 * outer axes, then inner axes, which are the ones that its reductions sum away. A node depends on a
 * set of space axes; a reduction's value depends on outer axes only, and whoever uses it is a phase
 * later:
 *
 *     softmax over t of z[s, t]:  phase 0  m = max_t z       phase 1  d = sum_t exp(z - m)
 *                                 phase 2  store exp(z - m) / d
 *
 * A kernel may also sum over its outer axes, row by row, in addition to what it does with each row:
 * a layer norm's backward makes the gradients of gain and shift together with that of its operand.
 * Such a sum is complete after the last row. It and the nodes made of it are `after_rows`: they
 * depend on inner axes only, and no row reads them.
 *
 * To use many threads, and to lose less precision, these are computed in pieces: a long reduction
 * that is alone in its kernel, sums over rows and, for some targets, sums by index into few places.
 * Lane p mod 16 adds piece p to the pieces before it, then lanes are combined by halves.
 *
 * Reading is an index map: each dimension of the buffer that is read has an index that is affine in
 * the space axes (slices, paddings, windows, splits and merges are such maps) or the value of a
 * node (gather). kernel.c builds kernels from IR ops, the target's printer prints them
 * (print.h). */
#ifndef DT_CODEGEN_KERNEL_H
#define DT_CODEGEN_KERNEL_H

#include "ir/view.h"

/* A 64-bit integer argument of a kernel, evaluated at each run. It is a sum of terms multiplier x
 * first local index of an axis (which depends on rank and micro-batch); or the number of the step;
 * or that of a loop's iteration. */
typedef enum DtKIntKind {
    DT_KINT_BASES,
    DT_KINT_STEP,
    DT_KINT_ITERATION,
    DT_KINT_INDEX,
    DT_KINT_ELEMENT
} DtKIntKind;
typedef struct DtKInt {
    /* ITERATION: row-major number over all enclosing loops; INDEX: iteration of the innermost
     * loop */
    DtKIntKind kind;
    uint32_t n;
    /* ELEMENT: first query of a block of attention; elements of a draw for each query */
    int64_t first, per_first;
    /* ELEMENT: loops around the block, and the register of the first one */
    uint32_t n_loops, reg;
    int64_t per_loop[4];      /* elements for each of their iterations */
    DtAxis axis[DT_MAX_RANK];
    int64_t multiplier[DT_MAX_RANK];
} DtKInt;

#define DT_KNONE UINT32_MAX
enum { DT_KPIECE_LANES = 16, /* lanes to which the pieces of a reduction are assigned */
       DT_KROW_PIECE = 1024 }; /* least number of elements in a piece of a row */

/* Index into one dimension of a buffer: ((base + sum coef[a] * i_a) / div) % mod, or the value of a
 * node. */
typedef struct DtKIndex {
    int64_t stride;                  /* distance in the buffer, in elements, for one step of this
                                      * index */
    int64_t base;
    int64_t coef[DT_MAX_RANK];       /* factor of the index of each axis of the space */
    int64_t div, mod;                /* 0: no division, no remainder */
    bool exact;                      /* the index is valid only if div divides evenly */
    bool guard;                      /* the index is valid only if 0 <= index < extent */
    int64_t extent;
    uint32_t node;                   /* DT_KNONE, or the i32 node that is the index */
    /* node index: the integer argument (first local index) that is subtracted, or DT_KNONE */
    uint32_t bases;
} DtKIndex;

typedef enum DtKNodeKind {
    DT_KNODE_CONST,
    DT_KNODE_IOTA,
    DT_KNODE_INT,
    DT_KNODE_RNG,
    DT_KNODE_LOAD,
    DT_KNODE_MAP,
    DT_KNODE_REDUCE,
    DT_KNODE_SCORE
} DtKNodeKind;
typedef struct DtKNode {
    DtKNodeKind kind;
    DtDtype dtype;
    DtOpKind map;                    /* MAP */
    uint32_t n_args, args[4];        /* MAP, REDUCE */
    /* CONST: the number; LOAD: the value where an index is invalid */
    double number;
    uint32_t integer;                /* integer argument, or DT_KNONE. IOTA: first index; INT: the
                                      * value; RNG: number of the first element */
    uint32_t step, iteration;        /* RNG: integer arguments */
    uint32_t more[4], n_more;        /* RNG: further integer arguments, added to the number of the
                                      * first element */
    uint64_t key;                    /* RNG: the key of the generator */
    uint32_t draws;                  /* RNG: elements that one call of the generator gives: 1, 4 */
    /* RNG: the first element is always the first one of a call */
    bool begins;
    int64_t coef[DT_MAX_RANK];       /* factor of each axis of the space: in the index (IOTA, RNG)
                                      * or in elements (LOAD) */
    uint32_t pointer;                /* LOAD */
    int64_t offset;                  /* LOAD: elements */
    /* LOAD: dimensions that need more than an affine index within range */
    uint32_t n_index;
    DtKIndex *index;
    DtReduce reduce;
    bool after_rows;                       /* a sum over outer axes, or computed from such a sum */
    uint32_t axes;                   /* bit set of the space axes on which this node depends */
    uint32_t phase;                  /* how many reductions the longest path to it contains */
    const DtOp *op;                  /* for comments and diagnostics */
} DtKNode;

typedef struct DtKStore {
    uint32_t node, pointer;
    int64_t offset;
    int64_t stride[DT_MAX_RANK];     /* strides per space axis; 0 for axes that the node lacks */
    bool accumulate;                 /* adds to the contents */
    /* where this node is false the place has the value already, so nothing needs to be written; or
     * DT_KNONE (launch.c) */
    uint32_t only;
} DtKStore;

/* A pointer argument: reads or writes the buffer of this value. */
typedef struct DtKPointer {
    const DtValue *value;
    const DtView *view;
    bool written;
    /* every address that the argument may have is a multiple of this many bytes; 0: not known */
    uint32_t align;
} DtKPointer;

typedef enum DtKPattern {
    DT_KPATTERN_ROW,      /* lanes run along the last axis; reductions over it use a fixed tree */
    DT_KPATTERN_COLUMN,   /* lanes run along the last outer axis, reductions are loops around
                           * them */
    DT_KPATTERN_SCAN, DT_KPATTERN_TOPK, DT_KPATTERN_SCATTER, /* one op each */
    DT_KPATTERN_ATTEND    /* of queries and keys: DtKAttend */
} DtKPattern;

/* Attention. The space has the axes that queries and keys share, then queries, then keys; row
 * reductions run along keys. A score is the product of a row of a query and a row of a key. A
 * sum is a product with a value that has both axes: summed over keys it gives a row per query;
 * summed over queries, and over shared axes that it lacks, a row per key. An `after_rows` reduction
 * adds up such a value over all axes that it lacks. */
/* the rows of an operand or result: `depth` elements for each query, or each key */
typedef struct DtKRows {
    uint32_t pointer, depth;
    /* strides per space axis; `along`: from one element of the row to the next */
    int64_t offset, stride[DT_MAX_RANK], along;
} DtKRows;

typedef struct DtKScore {
    uint32_t node;                     /* SCORE: the two operands */
    DtDtype dtype;                     /* dtype of the factors */
    DtKRows query, key;
} DtKScore;

typedef struct DtKSum {
    /* the value with queries and keys, rounded to dtype before the product */
    uint32_t node;
    DtDtype dtype;
    bool over_keys, accumulate;
    uint32_t away;                     /* bit set of the shared axes that it sums over */
    DtKRows of, to;
} DtKSum;

typedef struct DtKAttend {
    uint32_t queries, keys;            /* numbers of these axes of the space */
    /* number of the node that is false for hidden keys, or DT_KNONE */
    uint32_t mask;
    /* pointer: for each query the dot product of the result with its gradient; or DT_KNONE */
    uint32_t dot;
    /* that result, read by a library only; valid if there is `dot` */
    DtKRows result;
    /* readers of a row's stored maximum m and sum l use m + log l only */
    bool paired;
    DT_VEC(DtKScore) scores;
    DT_VEC(DtKSum) sums;
} DtKAttend;

/* What the kernel computes in pieces: a reduction over an inner axis (AXIS), sums over rows (ROWS),
 * or a SCATTER over the points of the axes that its result lacks (POINTS). */
typedef enum DtKPieces {
    DT_KPIECES_NONE,
    DT_KPIECES_AXIS,
    DT_KPIECES_ROWS,
    DT_KPIECES_POINTS
} DtKPieces;

typedef struct DtKernel {
    const char *symbol, *name;       /* "k12", "layernorm.fwd" */
    DtKPattern pattern;
    uint32_t n_axes, n_outer;
    const char *axis[DT_MAX_RANK];
    int64_t extent[DT_MAX_RANK];
    DtKPieces pieces_of;
    uint32_t piece_axis;             /* AXIS: the axis */
    /* number of pieces and elements in each (the last may have fewer), combined by 16 lanes; 0: no
     * pieces */
    int64_t pieces, piece;
    /* ROW: threads of a row, and neighbouring elements of each thread, in lanes that are
     * combined pair by pair (DtTargetRow.order); 0: as on processors */
    uint32_t row_threads, row_each;
    DT_VEC(DtKNode) nodes;
    DT_VEC(DtKStore) stores;
    DT_VEC(DtKPointer) pointers;
    DT_VEC(DtKInt) ints;
    DtSpan span;
    const DtOp *special;             /* SCAN, TOPK, SCATTER */
    /* SCATTER: the indices at which stores[0] adds, one per indexed axis */
    DtKIndex *target;
    uint32_t n_target;
    DtKAttend *attend;               /* ATTEND */
    const struct DtPlanSdpa *sdpa;   /* the attention as a library's call (DtTargetRow.library), or
                                      * NULL */
    /* work of the kernel (kernel_price.c, which has the unit of special_flops: exponentials and
     * the like) */
    double flops, bytes, special_flops;
} DtKernel;

/* One result of the kernel, and where it is to be written. */
typedef struct DtKOutput {
    const DtValue *value;
    const DtView *view;
    bool accumulate;
} DtKOutput;

/* A draw in a block of attention: the whole draw that it is part of, the block's first query,
 * and the loops around it. */
typedef struct DtKDraw {
    const DtOp *draw;
    const DtType *type;
    const char *queries, *const *loops;
    int64_t first;
    uint32_t n_loops, reg;
} DtKDraw;

/* Describes a group that is attention: the streaming function, its axes, and the arguments that are
 * cheap values of the caller, to be computed again. */
typedef struct DtKAttention {
    const DtFunc *func;
    const char *queries, *keys;
    DtValue *const *inlined;           /* by argument: the caller's value to compute again, or
                                        * NULL */
    const DtValue *mask;               /* the mask, or NULL */
    /* the product that `dot` of DtKAttend stands for, and the result that it is of; or NULL */
    const DtValue *dot, *result;
    bool paired;                       /* as in DtKAttend */
} DtKAttention;

typedef struct DtKernelInput {
    const DtModule *module;
    DtArena *arena;
    uint64_t seed;
    /* instance path of the function, for rng sites; "" at the top */
    const char *path;
    /* returns the view of a value from outside the group */
    const DtView *(*view)(void *context, const DtValue *value);
    /* returns whether the value is the iteration number of the innermost loop */
    bool (*is_index)(void *context, const DtValue *value);
    /* returns the split axis within which an iota's positions count, or NULL */
    const DtAxis *(*origin)(void *context, const DtOp *iota);
    /* returns the block of a draw; NULL: the draw is not cut into blocks */
    const DtKDraw *(*draw)(void *context, const DtOp *draw);
    void *context;
    const DtOp *const *ops;                      /* the group, in order */
    uint32_t n_ops;
    const char *const *rows;                     /* the outer axes, if an op `fused` states them;
                                                  * else NULL */
    uint32_t n_rows;
    const DtKOutput *outputs;
    uint32_t n_outputs;
    const DtKAttention *attention;               /* NULL: the group is not attention */
    void (*choose_order)(DtKernel *kernel);       /* DtTargetRow.order */
} DtKernelInput;

/* Builds the kernel of a group that passes/lower/fuse_group.c found legal (or of any single op that
 * is not structure, a communication or a source from memory), or of attention, whose parts
 * attend_parts.c found (NULL: it has a function that no kernel supports). */
DtKernel *dt_kernel_build(const DtKernelInput *input);

/* Lanes of a reduction along a row: as many as a GPU has; else 64 for rows of 128 elements or more,
 * or of 64 if the kernel reads bytes, 64 of which fill a register; 32 for 32 bytes; else 16. Rows
 * that share lanes have theirs together. */
uint32_t dt_kernel_row_lanes(const DtKernel *k);
/* How many neighbouring rows, along the last axis, share the lanes of a reduction: 64 neighbouring
 * bytes, codes in groups of 16, are four rows. 1: none do. */
uint32_t dt_kernel_row_turns(const DtKernel *k);

/* The header-free prelude that every unit starts with: exp, log, tanh, erf, Philox, lane
 * reductions. */
extern const char dt_prelude_c[];

#endif
