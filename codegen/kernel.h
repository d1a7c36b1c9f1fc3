/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR: an expression DAG over an index space with row reductions. One kernel is a loop nest: outer
 * axes, then inner axes, which are the ones that its reductions sum away. A node depends on a set of
 * space axes; a reduction's value depends on outer axes only, and whoever uses it is a phase later:
 *
 *     softmax over t of z[s, t]:  phase 0  m = max_t z       phase 1  d = sum_t exp(z - m)
 *                                 phase 2  store exp(z - m) / d
 *
 * A kernel may also sum over its outer axes, row by row, beside what it does with each row (the gradients of a norm's
 * gain and shift beside that of its operand). Such a sum is known when the last row is done: it and what is made of it
 * are late, depend on inner axes only, and no row reads them.
 *
 * A reduction of many elements, in a kernel that does nothing else, sums over rows and, for some targets, sums by
 * index into few places are made in pieces, so that many threads take part, and sums lose less: lane p mod 16 combines
 * piece p with those before it, then lanes are combined by halves.
 *
 * Reading is an index map: each dimension of the buffer that is read has an index that is affine in the
 * space axes (slices, paddings, windows, splits and merges are such maps) or the value of a node
 * (gather). kernel.c builds kernels from IR ops, the target's printer prints them (print.h). */
#ifndef DT_CODEGEN_KERNEL_H
#define DT_CODEGEN_KERNEL_H

#include "ir/view.h"

/* A 64-bit integer argument of a kernel, evaluated at each run: sum of multiplier x first local index of
 * an axis (which depends on rank and micro-batch), or the step, or the loop iteration. */
typedef enum DtKIntKind { DT_KINT_BASES, DT_KINT_STEP, DT_KINT_ITERATION, DT_KINT_INDEX, DT_KINT_ELEMENT } DtKIntKind;
typedef struct DtKInt {
    DtKIntKind kind;   /* ITERATION: row-major number over all enclosing loops; INDEX: of the innermost */
    uint32_t n;
    int64_t first, per_first; /* ELEMENT: first query of a block of attention; elements of a draw for each */
    uint32_t n_loops, reg;    /* ELEMENT: loops around the block, and the register of the first */
    int64_t per_loop[4];      /* elements for each of their iterations */
    DtAxis axis[DT_MAX_RANK];
    int64_t multiplier[DT_MAX_RANK];
} DtKInt;

#define DT_KNONE UINT32_MAX
enum { DT_KPIECE_LANES = 16, /* that pieces of a reduction go to */
       DT_KROW_PIECE = 1024 }; /* of a row: so many elements at least */

/* Index into one dimension of a buffer: ((base + sum coef[a] * i_a) / div) % mod, or the value of a node. */
typedef struct DtKIndex {
    int64_t stride;                  /* elements of the buffer per step of this index */
    int64_t base;
    int64_t coef[DT_MAX_RANK];       /* per space axis */
    int64_t div, mod;                /* 0: absent */
    bool exact;                      /* outside unless div divides evenly */
    bool guard;                      /* outside unless 0 <= index < extent */
    int64_t extent;
    uint32_t node;                   /* DT_KNONE, or the i32 node that is the index */
    uint32_t bases;                  /* node index: integer argument subtracted (first local index), or DT_KNONE */
} DtKIndex;

typedef enum DtKNodeKind { DT_KNODE_CONST, DT_KNODE_IOTA, DT_KNODE_INT, DT_KNODE_RNG, DT_KNODE_LOAD, DT_KNODE_MAP,
                           DT_KNODE_REDUCE, DT_KNODE_SCORE } DtKNodeKind;
typedef struct DtKNode {
    DtKNodeKind kind;
    DtDtype dtype;
    DtOpKind map;                    /* MAP */
    uint32_t n_args, args[4];        /* MAP, REDUCE */
    double number;                   /* CONST; LOAD: what is read outside */
    uint32_t integer;                /* IOTA: first index; INT: the value; RNG: first element; or DT_KNONE */
    uint32_t step, iteration;        /* RNG: integer arguments */
    uint32_t more[4], n_more;        /* RNG: further terms of the first element */
    uint64_t key;                    /* RNG */
    uint32_t draws;                  /* RNG: elements that a call of the generator gives: 1, 4 */
    bool begins;                     /* RNG: the first element is always the first of its call */
    int64_t coef[DT_MAX_RANK];       /* per space axis: IOTA and RNG the index, LOAD the elements */
    uint32_t pointer;                /* LOAD */
    int64_t offset;                  /* LOAD: elements */
    uint32_t n_index;                /* LOAD: dimensions whose index is more than affine and in range */
    DtKIndex *index;
    DtReduce reduce;
    bool late;                       /* a sum over outer axes, or made of one */
    uint32_t axes;                   /* bits: space axes this node depends on */
    uint32_t phase;                  /* reductions on the way to it */
    const DtOp *op;                  /* for comments and diagnostics */
} DtKNode;

typedef struct DtKStore {
    uint32_t node, pointer;
    int64_t offset;
    int64_t stride[DT_MAX_RANK];     /* per space axis; axes the node lacks are skipped */
    bool accumulate;                 /* += */
} DtKStore;

/* A pointer argument: reads or writes the buffer of this value. */
typedef struct DtKPointer {
    const DtValue *value;
    const DtView *view;
    bool written;
    uint32_t align;                  /* bytes: each address that it has is a multiple of this; 0: nothing is known */
} DtKPointer;

typedef enum DtKForm {
    DT_KFORM_ROW,      /* lanes run along the last axis; reductions over it use a fixed tree */
    DT_KFORM_COLUMN,   /* lanes run along the last outer axis, reductions are loops around them */
    DT_KFORM_SCAN, DT_KFORM_TOPK, DT_KFORM_SCATTER, /* one op each */
    DT_KFORM_ATTEND    /* of queries and keys: DtKAttend */
} DtKForm;

/* Attention. The space has the axes that queries and keys share, then queries, then keys; reductions along keys are
 * those of rows. A score is a product of a row that a query has and one of a key; sums are products that take a value
 * with both: over keys a row of each query, over queries, and over shared axes that it lacks, a row of each key. A
 * `late` reduction is the sum of such a value over all axes that it lacks. */
typedef struct DtKRows {               /* of an operand or a result: for each query, or each key, `depth` elements */
    uint32_t pointer, depth;
    int64_t offset, stride[DT_MAX_RANK], along; /* per space axis; from one of its elements to the next */
} DtKRows;

typedef struct DtKScore {
    uint32_t node;                     /* SCORE */
    DtDtype dtype;                     /* of what is multiplied */
    DtKRows query, key;
} DtKScore;

typedef struct DtKSum {
    uint32_t node;                     /* what has queries and keys; rounded to dtype */
    DtDtype dtype;
    bool over_keys, accumulate;
    uint32_t away;                     /* bits: shared axes that it sums over */
    DtKRows of, to;
} DtKSum;

typedef struct DtKAttend {
    uint32_t queries, keys;            /* axes of the space */
    uint32_t mask;                     /* node: where it is false, all is as if the key were not there; or DT_KNONE */
    uint32_t dot;                      /* pointer: of each query, the result times its gradient; or DT_KNONE */
    DtKRows result;                    /* that result, for a library: the kernel does not read it; if dot is there */
    bool paired;                       /* of a row's maximum m and sum l that it stores only m + log l is read */
    DT_VEC(DtKScore) scores;
    DT_VEC(DtKSum) sums;
} DtKAttend;

/* What pieces are made of: reductions of indices of an inner axis, late sums of rows, a SCATTER of points of the axes
 * that its result lacks. */
typedef enum DtKPieces { DT_KPIECES_NONE, DT_KPIECES_AXIS, DT_KPIECES_ROWS, DT_KPIECES_POINTS } DtKPieces;

typedef struct DtKernel {
    const char *symbol, *name;       /* "k12", "layernorm.fwd" */
    DtKForm form;
    uint32_t n_axes, n_outer;
    const char *axis[DT_MAX_RANK];
    int64_t extent[DT_MAX_RANK];
    DtKPieces pieces_of;
    uint32_t piece_axis;             /* pieces of an axis: which */
    int64_t pieces, piece;           /* so many, each of so many (the last may have fewer), which are combined by 16 */
                                     /* lanes; 0: in one */
    uint32_t row_threads, row_each;  /* ROW: a row has so many threads, and each so many neighbouring elements, in */
                                     /* lanes that are combined pair by pair (DtTargetRow.order); 0: as on processors */
    DT_VEC(DtKNode) nodes;
    DT_VEC(DtKStore) stores;
    DT_VEC(DtKPointer) pointers;
    DT_VEC(DtKInt) ints;
    DtSpan span;
    const DtOp *special;             /* SCAN, TOPK, SCATTER */
    DtKIndex *target;                /* SCATTER: where stores[0] adds, one per indexed axis */
    uint32_t n_target;
    DtKAttend *attend;               /* ATTEND */
    const struct DtPlanSdpa *sdpa;   /* what it is to a library (DtTargetRow.library), or NULL */
    double flops, bytes, special_flops; /* kernel_price.c, which has the unit of `special`: what else takes time */
} DtKernel;

/* One result of the kernel: where the value is to be written. */
typedef struct DtKOutput {
    const DtValue *value;
    const DtView *view;
    bool accumulate;
} DtKOutput;

/* A draw in a block of attention: of what draw it is the block, the first query, and the loops around it. */
typedef struct DtKDraw {
    const DtOp *draw;
    const DtType *type;
    const char *queries, *const *loops;
    int64_t first;
    uint32_t n_loops, reg;
} DtKDraw;

/* That the group is attention: ops of a function, and which of its arguments are cheap values of its caller. */
typedef struct DtKAttention {
    const DtFunc *func;
    const char *queries, *keys;
    DtValue *const *inlined;           /* by argument, or NULL */
    const DtValue *mask;               /* or NULL */
    const DtValue *dot, *result;       /* what `dot` of DtKAttend is, and of which result; or NULL */
    bool paired;                       /* as in DtKAttend */
} DtKAttention;

typedef struct DtKernelInput {
    const DtModule *module;
    DtArena *arena;
    uint64_t seed;
    const char *path;                            /* instance path of the function, for rng sites; "" at the top */
    const DtView *(*view)(void *context, const DtValue *value); /* of a value from outside the group */
    bool (*is_index)(void *context, const DtValue *value);      /* the iteration number of the innermost loop */
    /* Split axis that a block's positions count in, or NULL. */
    const DtAxis *(*origin)(void *context, const DtOp *iota);
    const DtKDraw *(*draw)(void *context, const DtOp *draw); /* NULL: it is all of its draw */
    void *context;
    const DtOp *const *ops;                      /* the group, in order */
    uint32_t n_ops;
    const char *const *rows;                     /* the outer axes, of an op `fused` that says so */
    uint32_t n_rows;
    const DtKOutput *outputs;
    uint32_t n_outputs;
    const DtKAttention *attention;               /* NULL: it is none */
    void (*choose_order)(DtKernel *kernel);       /* DtTargetRow.order */
} DtKernelInput;

/* Builds the kernel of a group that passes/lower/fuse_group.c found legal (or of any single op that is not
 * structure, a communication or a source from memory), or of attention, whose parts attend_parts.c found (NULL: it has
 * a form that no kernel has). */
DtKernel *dt_kernel_build(const DtKernelInput *input);


/* The header-free prelude that every unit starts with: exp, log, tanh, erf, Philox, lane reductions. */
extern const char dt_prelude_c[];

#endif
