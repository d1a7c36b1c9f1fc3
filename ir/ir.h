/* SPDX-License-Identifier: Apache-2.0 */
/* The intermediate representation: a module of functions; a function is a list of ops in order; a
 * value is defined once. One sitting, data before code.
 *
 *  - Values are tensors over named axes. Axis order is memory order (row-major). A scalar has no
 *    axes.
 *  - A function's inputs are its arguments, then its parameters (tensors that instances own). A
 *    call passes both, so parameters flow downwards as ordinary values, and only the entry
 *    functions hold `param` ops, which name stores.
 *  - `repeat` is one loop op over a body function: carried values, invariant operands, and operands
 *    and results that are stacked along the loop axis (parameters, saved values). Work grows with
 *    the size of the body, not with the number of layers.
 *  - After placement an axis also names the mesh axes that split it, and a type the mesh axes over
 *    which its sum is pending. Extents stay logical (global); dt_type_local_extent gives a rank's
 *    part.
 *  - Every op keeps its source span and layer path to the end. */
#ifndef DT_IR_IR_H
#define DT_IR_IR_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/stages.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtType DtType;
typedef struct DtValue DtValue;
typedef struct DtOp DtOp;
typedef struct DtFunc DtFunc;
typedef struct DtModule DtModule;
typedef struct DtStore DtStore;
typedef struct DtPipelineSchedule DtPipelineSchedule;

/* ---- types (types.c) ---- */

typedef enum DtDtype {
    DT_BOOL, DT_U8, DT_U16, DT_U32, DT_I32, DT_I64, DT_F16, DT_BF16, DT_F32, DT_F64, DT_DTYPE_COUNT
} DtDtype; /* values of programs are bool, i32, f16, bf16, f32; the others occur in data files and
            * checkpoints */

enum { DT_MAX_RANK = 16, DT_MAX_SPLIT = 4, DT_MAX_MESH = 16 };

typedef struct DtAxis {
    const char *name;            /* interned */
    int64_t extent;              /* logical, over all ranks; >= 1 */
    uint8_t n_split;             /* mesh axes that split it, major to minor */
    uint8_t split[DT_MAX_SPLIT]; /* numbers into DtModule.mesh */
    uint8_t zigzag;              /* the blocks of the split are in zigzag order */
} DtAxis;

typedef enum DtReduce { DT_REDUCE_SUM, DT_REDUCE_MAX, DT_REDUCE_MIN } DtReduce;

/* Interned: equal types have equal pointers. */
struct DtType {
    DtDtype dtype;
    uint8_t rank;
    uint8_t pending;      /* DtReduce, meaningful if partial != 0 */
    uint16_t partial;     /* mesh axes (bits) over which the reduction is pending: each rank has a
                           * term */
    DtAxis axes[];        /* names differ */
};

/* A mesh axis. Time (micro-batches) is mesh axis 0 when is_time: nothing communicates over it but
 * one final sum. */
typedef struct DtMeshAxis {
    const char *name;
    int64_t size;
    bool is_time;
} DtMeshAxis;

typedef struct DtMesh {
    uint32_t n;
    DtMeshAxis axes[DT_MAX_MESH]; /* slowest link first */
} DtMesh;

/* Why the type is not valid, or NULL. The functions that make types abort if it is not. */
const char *dt_type_check(DtDtype dtype, uint32_t rank, const DtAxis *axes, uint16_t partial,
                          DtReduce pending);
const DtType *dt_type_make(DtDtype dtype, uint32_t rank, const DtAxis *axes, uint16_t partial,
                           DtReduce pending);
/* a type without a pending reduction */
const DtType *dt_type_plain(DtDtype dtype, uint32_t rank, const DtAxis *axes);
const DtType *dt_type_scalar(DtDtype dtype);
const DtType *dt_type_with_dtype(const DtType *type, DtDtype dtype);
int dt_type_find(const DtType *type, const char *axis);        /* index of the axis, or -1 */
int dt_mesh_find(const DtMesh *mesh, const char *axis);        /* number of the mesh axis, or -1 */
int64_t dt_type_extent(const DtType *type, const char *axis);  /* logical extent, or -1 */
/* product of logical extents; checked: -1 on overflow */
int64_t dt_type_elements(const DtType *type);
/* whether name, extent and split are equal */
bool dt_type_same_axis(const DtAxis *a, const DtAxis *b);
/* whether both have the same set of axes, with equal extents and splits, in any order */
bool dt_type_same_axes(const DtType *a, const DtType *b);
int64_t dt_type_local_extent(const DtType *type, uint32_t axis, const DtMesh *mesh);
int64_t dt_type_local_elements(const DtType *type, const DtMesh *mesh);
/* Appends the type as text, with its extents: bf16[batch=8/data, embed=4]; mesh axes by name, or by
 * number where mesh is NULL or has no such axis. */
void dt_type_print_extents(const DtType *type, const DtMesh *mesh, DtText *text);
size_t dt_dtype_size(DtDtype dtype);
const char *dt_dtype_name(DtDtype dtype);
bool dt_dtype_parse(const char *name, DtDtype *ret_dtype);
bool dt_dtype_is_float(DtDtype dtype);

/* ---- ops ---- */

typedef enum DtOpKind {
#define DT_OP(NAME, ...) DT_OP_##NAME,
#include "ops.def"
#undef DT_OP
    DT_OP_COUNT
} DtOpKind;

typedef enum DtOpClass {
    DT_CLASS_SOURCE,
    DT_CLASS_MAP,
    DT_CLASS_AXIS,
    DT_CLASS_CONTRACT,
    DT_CLASS_INDEX,
    DT_CLASS_STRUCT,
    DT_CLASS_COMM
} DtOpClass;

typedef enum DtOpData { DT_DATA_VIEW, DT_DATA_MOVE, DT_DATA_MAKE } DtOpData;

typedef enum DtOpTraits { DT_TRAIT_CHEAP = 1, DT_TRAIT_ZERO = 2, DT_TRAIT_OWN = 4,
                          DT_TRAIT_DEAR = 8, DT_TRAIT_LOWERED = 16 } DtOpTraits;

/* A row of ops.def, where the columns are explained. */
typedef struct DtOpInfo {
    const char *text;
    int inputs;
    DtOpClass op_class;
    uint8_t linear; /* operands in which the op is linear: a bit each, the last one for all later
                     * operands; but see dt_op_is_linear */
    uint8_t data;   /* DtOpData */
    uint8_t traits; /* DtOpTraits */
} DtOpInfo;
extern const DtOpInfo dt_op_info[DT_OP_COUNT];

/* Whether each element of the result depends only on the operands' elements of equal index, on
 * the axes that an operand has. */
static inline bool dt_op_is_pointwise(DtOpKind kind)
{
    return dt_op_info[kind].op_class == DT_CLASS_MAP || kind == DT_OP_EXPAND;
}

/* Whether recomputing such an op is better than keeping its result. */
static inline bool dt_op_is_cheap(DtOpKind kind)
{
    return dt_op_info[kind].traits & DT_TRAIT_CHEAP;
}

/* Whether recomputing such a map costs more than keeping its result in a register. */
static inline bool dt_op_is_dear(DtOpKind kind) { return dt_op_info[kind].traits & DT_TRAIT_DEAR; }

/* Whether op reads this operand from memory at other indices than it writes: a gather or slice
 * does. */
bool dt_op_reads_elsewhere(const DtOp *op, uint32_t operand);

/* Whether op is linear in this operand when the others are fixed. */
bool dt_op_is_linear(const DtOp *op, uint32_t operand);

/* Whether op is linear in several operands together, of which this is one: it adds them, selects
 * between them, or concatenates them. A product is linear in each operand alone, not jointly. */
bool dt_op_is_joint(const DtOp *op, uint32_t operand);

/* Whether op gives zero wherever its operands are zero (for where: its branches). */
bool dt_op_keeps_zero(const DtOp *op);

/* Whether a scatter_add gives each element of its operand a place of its own, so that nothing is
 * added: where(iota == index, x, 0). */
bool dt_op_is_one_hot(const DtOp *op);
/* Whether `axis` is one of op->axes: the axes that a reduction or contraction sums. */
bool dt_op_has_axis(const DtOp *op, const char *axis);

/* Whether kernels compute the value anew wherever they use it, instead of reading it from
 * memory: it is made only of constants, iotas and maps of them (a mask, a position), or is a
 * random draw that pass `fuse` chose to draw where it is read. */
bool dt_op_is_inline(const DtValue *value);
/* dt_op_is_product: a matrix product, possibly with an epilogue (bias, activation): an op `fused`
 * whose function contains a contraction. dt_op_adds: whether this product adds the operand to its
 * result, element by element. */
bool dt_op_is_product(const DtOp *op);
bool dt_op_adds(const DtOp *product, uint32_t operand);

/* Whether an asynchronous collective that makes the value is still running: the value is the
 * result of communication with `starts`, or a result of a loop whose body starts such
 * communication in each iteration. */
bool dt_op_is_started(const DtValue *value);
/* The op that makes the value, or its slices in a loop's body, if it is `late`; else NULL. */
const DtOp *dt_op_late(const DtValue *value);

/* The value that this one is a copy of, through copies of copies; the value itself if it is no
 * copy. */
const DtValue *dt_op_copied(const DtValue *value);

/* The value as an op made it: if the op is `fused`, the value inside the kernel's function;
 * otherwise the value itself. */
const DtValue *dt_op_made(const DtValue *value);

/* The value whose memory this one may share: itself, or the value that it is a view of. */
const DtValue *dt_op_viewed(const DtValue *value);

/* Of a loop whose stacked result `out` takes the memory of a stacked operand (DtValue.over), so
 * that each iteration writes over its own slice: the number of the body's input that is this slice;
 * 0: it does not. */
uint32_t dt_op_slot(const DtOp *loop, uint32_t out);

/* The memory layout of a value with memory of its own, where it is not row-major in the order of
 * its type (pass `memory`). */
typedef struct DtLies {
    uint8_t order[DT_MAX_RANK]; /* axes of the type, outermost first */
    uint8_t first;              /* axes from this place of the order on form a contiguous row */
    int64_t row;                /* elements from one row to the next; 0: rows are contiguous */
} DtLies;

struct DtValue {
    const DtType *type;
    DtOp *op;         /* NULL for an input of a function */
    uint32_t index;   /* number among op's results, or among the function's inputs */
    /* number of the value in an earlier program that this one must equal (means.c); 0: not
     * recorded */
    uint32_t means;
    /* index (from 1) of this value in the reference program, the text that plans are proved
     * against (pass `fuse`); 0: the same index as in this program */
    uint32_t final;
    /* the operand or input whose memory this value takes, since no later op reads it (pass
     * `memory`; not on copies of an op); NULL: it takes none */
    DtValue *over;
    const DtLies *lies; /* its memory layout; NULL: row-major in the order of its type */
    /* 1 + byte offset of its memory in the frame of its function (frame.h); 0: it has no memory
     * in the frame, since it shares another value's, is in a store, or is placed by code
     * generation */
    int64_t at;
    const char *name; /* from the source, or chosen by a pass; NULL prints as a number. Not
                       * unique */
    uint32_t id;      /* unique in its function; renumbered by dt_graph_renumber */
    /* cached answer of dt_op_is_inline: 0 not computed yet, 1 no, 2 yes; for a random draw set
     * by `fuse` */
    uint8_t made_anew;
};

/* A range of an op; slice, pad, window and at have one for each of op->axes. */
typedef struct DtRange {
    int64_t lo, hi, step, n; /* slice: lo, step, n. pad: lo, hi, step. window, fold: lo, hi, step
                              * (stride), n (k). at: lo, step. when: lo, n */
} DtRange;

/* relabel: from names are merged (row-major) and split into to names. Axes of the operand that no
 * entry names pass through. No from names: a new axis of extent 1; no to names: an axis of extent 1
 * is dropped. */
typedef struct DtRelabel {
    uint32_t n_from, n_to;
    const char *from[4];
    const char *to[4];
    int64_t to_extent[4];
} DtRelabel;

/* Suffix of the name of an axis that counts the blocks of another axis (lower_scan.c): function
 * `scan` hands a part from each block to the next. Names in programs have no dot. */
#define DT_BLOCKS ".blocks"

/* loop. Operands: carried initial values, invariants, stacked (whole, with the loop axis first).
 * Body inputs: iteration number (i32 scalar), carried, invariants, stacked (one iteration's slice).
 * Body results: carried, stacked (one iteration's slice). Results: carried, stacked (with the loop
 * axis first). With reverse, iterations run from count - 1 down to 0; slices keep their
 * positions. */
typedef struct DtLoop {
    const char *label; /* as in paths */
    const char *axis;  /* name of the stacking axis */
    int64_t count;
    /* number of the first iteration, in a range of a loop that pipeline stages share; slices
     * still count from 0 */
    int64_t first;
    /* in an entry for a class of stages (pipeline.h): by how much `first` grows from each stage to
     * the next */
    int64_t first_step;
    bool reverse;
    uint32_t n_carried, n_invariant, n_stacked, n_stacked_out;
} DtLoop;

/* A prefetch: a `when` whose function gathers the parameters of a later loop iteration. It is
 * recorded so that the proof of the plan can match it with the gather inside the loop of the
 * reference program, in which nothing is prefetched yet. */
typedef struct DtAheadOf {
    /* DtValue.final of the loop's first result, in the function that has the loop; 0: the loop
     * around this op */
    uint32_t loop;
    /* how many iterations after the first one; for the loop around: after the present one */
    int64_t turn;
    /* where the loop belongs to another piece of the pipeline: 1 + the number of that piece
     * among the stage's pieces with an entry of this kind; 0: the loop is in the same entry */
    uint32_t piece;
    uint32_t kind;  /* DtActionKind of the entry that has the loop */
} DtAheadOf;

/* The calls through which inlining brought an op here, innermost first; NULL: none. One object
 * stands for one call, so ops of the same call share it. A library call that is not inlined is
 * inside its own caller. */
typedef struct DtCaller {
    const struct DtCaller *outer;
    const char *label;  /* label of the layer instance; NULL: the callee is a fn */
    const char *func;   /* name of the callee as the source has it */
    DtSpan span;        /* of the call */
} DtCaller;

/* A further name of an op's result: from a call that was inlined around it, or from an equal op
 * that was merged into this one. name NULL: the merged op had no name, but its caller is worth
 * reporting. */
typedef struct DtAlias {
    const struct DtAlias *next;
    const DtCaller *caller; /* the call in which the result has this name */
    const char *name;
    uint32_t out;
} DtAlias;

struct DtOp {
    DtOpKind kind;
    DtSpan span;
    const char *path;       /* layer path within its function ("attention.wq"), NULL at the top */
    /* this and `aliases` are for reports only: they are not printed (passes/inline.c) */
    const DtCaller *caller;
    const DtAlias *aliases;
    DtValue **in;
    DtValue **out;
    uint32_t n_in, n_out;
    const char **axes;      /* axes that the op works on; ops.def says which ones per op */
    uint32_t n_axes;
    const char **axes2;
    uint32_t n_axes2;
    DtRange *ranges;        /* one for each of the n_axes axes; window, fold and when have one */
    DtRelabel *relabels;
    uint32_t n_relabels;
    /* const: the value; pad, window: the fill; ringbuf_put, ringbuf_get: the first byte */
    double number;
    /* rng: how many elements one call of the generator gives, 1 or 4 (language.md) */
    uint32_t draws;
    DtReduce reduce;
    bool reverse;           /* scan: backwards; shift: gets the next rank's value */
    /* all_reduce, reduce_scatter: it sums gradients over ranks (passes/place/reduce.c). sqrt:
     * the root of the squares' sum, their norm (passes/grad/optimizer.c) */
    bool gradients;
    const char *text;       /* param: path; input: name; rng: site; call: label of the instance */
    DtStore *store;         /* param */
    DtFunc *func;           /* call, fused, loop, when */
    DtLoop *loop;
    uint16_t mesh;          /* communication: bit set of the mesh axes over which it runs */
    /* all_reduce over the pipeline's mesh axis: the stages that take part (base/stages.h), else
     * NULL */
    const char *stages;
    /* asynchronous communication: it runs while later ops compute, until the `done` of its
     * result */
    bool starts;
    /* reduces an accumulated gradient over ranks, once, in the last micro-batch (order_late.c) */
    bool late;
    /* all_gather in the body of a loop: how many iterations before its own pass `order`
     * prefetches it (order.c) */
    uint32_t ahead;
    /* when: the gathers that its function prefetches; NULL: it is no prefetch */
    DtAheadOf *of;
    /* the op copies, although its kind is a view: the layout of its result cannot be described
     * by strides. For `dot` and exchanges: operands are copied first where the op cannot read
     * their layout (pass `memory`) */
    bool copies;
    /* by operand: the operand is computed directly at its place in the result, so that nothing
     * is moved (pass `memory`; pack, concat, ringbuf_put, relabel); NULL: none is */
    bool *holds;
    /* offset of func's frame in the frame of the function that has this op (frame.h) */
    int64_t base;
    /* bit per result: without a `remat` line the forward part would hand it over, but pass `remat`
     * recomputes it here; not printed */
    uint32_t recomputed;
};

/* ---- functions and modules ---- */

typedef enum DtInitKind { DT_INIT_CONST, DT_INIT_NORMAL, DT_INIT_UNIFORM } DtInitKind;
typedef struct DtInit {
    DtInitKind kind;
    double a, b; /* const: a; normal: std = a; uniform: a..b */
} DtInit;

/* A parameter or state of a function, in the order of its parameter inputs. */
typedef struct DtFormalParam {
    const char *path;    /* relative, loop labels without number: "h.attention.wq.w" */
    const char *pattern; /* the same with one '#' per loop for the number: "h.#.attention.wq.w" */
    DtInit init;
    bool is_state;
    uint8_t n_loops;     /* number of leading axes of the type that stack loop iterations */
    uint8_t written_rank; /* number of axes as written in the declaration */
    /* bit i: axis i after the loop axes begins a group that the declaration has in parentheses; set
     * during lowering only */
    uint16_t begins;
    DtSpan span;
} DtFormalParam;

/* A value that the forward function saves for the backward function: an input of the function
 * (used in place), or a result of its fwd. */
typedef struct DtSaved {
    bool is_input;
    uint32_t index;
} DtSaved;

typedef enum DtFuncKind {
    DT_FUNC_FN,
    DT_FUNC_LAYER,
    DT_FUNC_MODEL,
    DT_FUNC_BODY,
    DT_FUNC_ENTRY,
    DT_FUNC_KERNEL /* the function of an op `fused` */,
    DT_FUNC_BRANCH /* the function of an op `when` */
} DtFuncKind;

/* A gradient written in the program (`gradient`, `surrogate`), used instead of the derivative of
 * the function's ops. func takes the cotangents of the function's float results, in their order,
 * then the captured values; it returns the cotangents of its float inputs, type for type.
 * Removed once entry "grad" exists. */
typedef struct DtCustomGradient {
    DtFunc *func;
    DT_VEC(DtValue *) captured; /* values of the function that func takes in addition */
    bool is_surrogate;          /* a surrogate: differs from the derivative on purpose */
} DtCustomGradient;

/* How the results of a streaming function are computed block by block along an axis of its
 * inputs (frontend/lower_stream.c). The functions here take whole inputs and unplaced types,
 * whatever the placement of the function that has this. */
typedef struct DtStream {
    const char *axis;
    /* merge takes a part and the part that follows it, so blocks may not change places */
    bool is_ordered;
    /* 1 + the number of the input that must be a product for the function to stream: pass `absorb`
     * moves the product into the function, or removes the stream; 0: the function streams */
    uint32_t product;
    /* function from the inputs to the parts of one block; NULL: results without the axis are sums
     * over blocks */
    DtFunc *part;
    DtFunc *merge;            /* function from two parts to one, element by element */
    /* function from the parts, and inputs number given[], to results, element by element; NULL: the
     * parts are the results */
    DtFunc *finish;
    DT_VEC(uint32_t) given;
    /* by result of the function: the number of a result of `finish`, or -1 - the number of a
     * part */
    DT_VEC(int32_t) takes;
} DtStream;

struct DtFunc {
    DtModule *module;
    const char *name;      /* unique in the module */
    DtFuncKind kind;
    const char *library;   /* name in the standard library, "attend", if it is defined there, else
                            * NULL */
    DtSpan span;
    DT_VEC(DtValue *) inputs;  /* n_args arguments, then one per params */
    uint32_t n_args;
    DT_VEC(DtFormalParam) params;
    DT_VEC(DtOp *) ops;
    /* n_returns returned values, then one new value per entry of writes */
    DT_VEC(DtValue *) results;
    uint32_t n_returns;
    DT_VEC(uint32_t) writes;   /* numbers of the parameters (states) that receive the results after
                                * the returned ones */
    uint32_t n_values;         /* number of value ids in use */
    /* differentiate: NULL until made. fwd: inputs -> results, saved. bwd: saved, cotangents of
     * float returns -> cotangents of float arguments, of parameters. bwd_x and bwd_w are bwd in two
     * parts: bwd_x: saved, cotangents -> argument cotangents, saved_w ; bwd_w: saved_w -> parameter
     * cotangents */
    DtFunc *fwd, *bwd, *bwd_x, *bwd_w;
    /* of a fwd, bwd, bwd_x or bwd_w: the function it was made from. Of a bwd also what its inputs
     * and results are: first saved values, then the cotangents of results seeds[] of primal; result
     * i is the cotangent of input wanted[i] of primal. */
    DtFunc *primal;
    DT_VEC(DtSaved) saved;
    DT_VEC(uint32_t) seeds, wanted;
    /* the gradient that the program states; NULL: derived from the ops */
    const DtCustomGradient *gradient;
    const DtStream *stream; /* NULL: the function does not stream */
    /* for a function that computes something in another way (blocks of a scan): the function that
     * defines it; removed once entry "grad" exists; else NULL */
    DtFunc *meant;
    /* the same function with its ops fused into kernels, for calls of attention that no tiled
     * kernel takes (fuse.c); NULL: itself */
    DtFunc *fused;
    int64_t frame; /* bytes of the frame: the memory that its values need while it runs (frame.h) */
};

/* Storage that outlives a step. */
typedef enum DtStoreKind {
    DT_STORE_PARAM,
    DT_STORE_STATE,
    DT_STORE_GRAD,
    DT_STORE_MOMENT1,
    DT_STORE_MOMENT2,
    DT_STORE_MOMENT3,
    DT_STORE_MOMENT4,
    DT_STORE_SAVED,
    DT_STORE_CHANNEL, /* pipeline.h */
    DT_STORE_MASTER,  /* the wide copy of a parameter, which the optimizer
                                             * works on */
    DT_STORE_AVERAGE, /* the average of a parameter over updates, which evaluation reads */
    DT_STORE_NEXT,    /* the value of a state after the step's update */
    DT_STORE_CACHE,   /* what generated text keeps of earlier positions (passes/decode) */
    /* codes of a parameter and the scales of their groups, which inference reads (passes/codes) */
    DT_STORE_CODES,
    DT_STORE_SCALES,
    /* the ring buffer for gathers ahead, from micro-batch to micro-batch */
    DT_STORE_RINGBUF
} DtStoreKind;
struct DtStore {
    DtStoreKind kind;
    const char *path;     /* h.attention.wq.w */
    const char *pattern;  /* h.#.attention.wq.w */
    const DtType *type;   /* loop axes first */
    uint8_t n_loops;
    uint8_t written_rank;
    uint16_t begins;      /* as in DtFormalParam */
    bool frozen;          /* a parameter without gradient and moments, which no step changes */
    bool in_adapter;      /* the parameter, or state, of an adapter: a model that was trained
                           * without it does not have it, and it begins with its initial value */
    /* of a parameter or state of `copy(model)`: length of the label and dot with which path and
     * pattern begin. After them is the path of the original, with whose value it begins. 0: no
     * copy */
    uint32_t copy;
    DtInit init;
    DtStore *of;          /* of a gradient or moment: its parameter (of a bucket of gradients: its
                           * first parameter); of a CHANNEL store: the store that it receives */
    int32_t stage;        /* the pipeline stage that has it; -1: all stages; no meaning without
                           * DtModule.pipeline */
    uint32_t more;        /* this many stages after it have such a store, too: a class of stages
                           * (pipeline.h) */
    int64_t depth;        /* SAVED, CHANNEL: number of slots, each of this type; else 0 */
    const int64_t *depths;/* of a class: number of slots on each of its stages, where the first
                           * one's is depth; NULL: depth on all */
    int64_t first, whole; /* iterations first .. of `whole` of the leading loop axis; whole 0: all
                           * of them */
    int64_t first_step;   /* of a class: by how much `first` grows from each stage to the next */
    DtStore *within;      /* CHANNEL of a class: the store of the same class that it receives (`of`
                           * is one on a stage of another class) */
    DtStore *bucket;      /* the store that contains this one's elements, NULL: none. A store in a
                           * bucket is named by no op */
    int64_t bucket_offset;/* number of its first local element in the bucket, before mesh axes split
                           * the bucket */
    /* for a bucket of gradients that mesh axes split: it has memory for all elements. In each
     * micro-batch a rank adds its terms there; in the last one they are summed over ranks, and
     * the rank's own run of that sum is the store's value (order_late.c) */
    bool terms;
    DtSpan span;
    uint32_t index;       /* index in DtModule.stores */
};

/* An entry point: a function without parameters of its own; `param` and `input` ops are its
 * sources. Result i goes to a store (overwritten or added to), or is a named metric or output. */
typedef struct DtEntryResult {
    DtStore *store;       /* or */
    const char *name;     /* "loss", "grad_norm", "logits.0" */
    bool accumulate;      /* micro-batches add their terms */
} DtEntryResult;
typedef enum DtEntryKind {
    DT_ENTRY_LOSS, /* exists until it is differentiated */
    DT_ENTRY_GRAD, /* one micro-batch: loss, gradients, states */
    DT_ENTRY_UPDATE,
    DT_ENTRY_EVAL,
    DT_ENTRY_PREDICT,
    DT_ENTRY_PREFILL, /* "predict" at new positions of a text (passes/decode) */
    DT_ENTRY_DECODE,  /* .. at one new position */
    DT_ENTRY_QUANTIZE, /* parameters become codes and scales */
    DT_ENTRY_MIX, /* replicas exchange parameters (passes/replicas/mix.c) */
    DT_ENTRY_KINDS
} DtEntryKind;
typedef enum DtEntryPart {
    DT_PART_WHOLE,
    /* the prologue: sums that depend on the data alone, before all micro-batches */
    DT_PART_PROLOGUE,
    DT_PART_F,
    DT_PART_B,
    DT_PART_W
} /* parts of a piece (pipeline.h), numbered as DtActionKind */ DtEntryPart;
/* In place of an objective: the entry "eval" that reads codes (passes/codes). */
#define DT_ENTRY_CODES "codes"
/* In place of an objective: the entry "mix" that writes the average of replicas, and the one that
 * begins replicas with it. */
#define DT_ENTRY_AVERAGE "average"
#define DT_ENTRY_SPREAD "spread"
typedef struct DtEntryPoint {
    DtEntryKind kind;
    DtEntryPart part;
    const char *objective; /* name of the loss that the entry is for; NULL: `loss`, or no loss */
    int32_t number;       /* number of the piece; else of the stage whose part it is; -1: it is no
                           * part */
    uint32_t twin;        /* of a piece: number among the entries that differ in their gathers ahead
                           * only */
    const char *name;     /* the name, made of kind, part and number (entry.c) */
    DtFunc *func;
    DT_VEC(DtEntryResult) results;
    int32_t stage;        /* the pipeline stage that runs it; -1: all; no meaning without
                           * DtModule.pipeline */
    uint32_t more;        /* this many stages after it run the entry, too: a class (pipeline.h) */
} DtEntryPoint;

/* An axis that is longer than the program says, so that ranks divide it: values with the axis of
 * that name and physical extent mean its first `logical` elements. */
typedef struct DtPadded {
    const char *name;
    int64_t logical, physical;
} DtPadded;

/* The source range of a function, layer or model of the program. */
typedef struct DtDefined {
    const char *name;
    DtSpan span;
} DtDefined;

struct DtModule {
    DtArena *arena;
    DtDiags *diags;       /* for located messages; may be NULL in tests */
    DT_VEC(DtDefined) defined;
    DtMesh mesh;
    DT_VEC(DtFunc *) funcs;
    DT_VEC(DtStore *) stores;
    DT_VEC(DtEntryPoint) entries;
    DtPipelineSchedule *pipeline; /* pipeline.h; NULL: every rank runs every entry */
    DT_VEC(DtPadded) padded;      /* see passes/place/pad.c */
    DtDtype crossing;             /* dtype of gradients while ranks sum them, if it is a float:
                                   * passes/place/reduce.c */
    /* axes along which pass `absorb` moved products into functions; before it: along which it moves
     * them whatever their size. Not printed. */
    DT_VEC(const char *) streamed;
};

/* The extent of a type's axis as the program has it, and the type with such extents. */
int64_t dt_module_logical(const DtModule *module, const DtAxis *axis);
const DtType *dt_module_logical_type(const DtModule *module, const DtType *type);

/* A ring buffer has type u8[@ringbuf = number of slots, @slot = bytes of a slot], with an axis in
 * between for each mesh axis on which ranks have different contents; that mesh axis splits it. */
enum { DT_RING_ALIGN = 64 }; /* bytes of a slot; of a value in a slot */
bool dt_type_is_ringbuf(const DtType *type);

/* ---- building (graph.c). Operands must satisfy the shape rule (ir/shape.h tells why not); a
 * broken rule aborts with the op and its span. `wish` is the wanted result type order, NULL =
 * default order. ---- */

DtModule *dt_graph_module(DtArena *arena, DtDiags *diags);
/* Adds an empty function to the module; makes its name unique by a number. */
DtFunc *dt_graph_func(DtModule *module, const char *name, DtFuncKind kind);
/* name of the definition that contains the span; "": there is none */
const char *dt_graph_defined(const DtModule *module, DtSpan span);
/* Adds an argument to a function that has no parameters yet. */
DtValue *dt_graph_arg(DtFunc *func, const DtType *type, const char *name);
/* Adds an argument with the name and the number (DtValue.means) of `input`. */
DtValue *dt_graph_arg_like(DtFunc *func, const DtType *type, const DtValue *input);
DtValue *dt_graph_param(DtFunc *func, const DtType *type, DtFormalParam param);
/* Adds a returned value to a function that has no writes yet. */
void dt_graph_return(DtFunc *func, DtValue *value);
/* Sets the new value of the state that is parameter number `param`. */
void dt_graph_write(DtFunc *func, uint32_t param, DtValue *value);

/* The function to which new ops are added, and the span and path that they get. */
typedef struct DtBuilder {
    DtFunc *func;
    DtSpan span;
    const char *path;
} DtBuilder;

DtValue *dt_graph_constant(DtBuilder *b, DtDtype dtype, double number);
DtValue *dt_graph_iota(DtBuilder *b, DtAxis axis);
DtValue *dt_graph_rng(DtBuilder *b, const DtType *type, const char *site);
DtValue *dt_graph_source(DtBuilder *b, DtOpKind kind, const DtType *type, const char *text,
                         DtStore *store);
DtValue *dt_graph_map(DtBuilder *b, DtOpKind kind, uint32_t n, DtValue *const *in,
                      const DtType *wish);
DtValue *dt_graph_unary(DtBuilder *b, DtOpKind kind, DtValue *x);
DtValue *dt_graph_binary(DtBuilder *b, DtOpKind kind, DtValue *x, DtValue *y);
DtValue *dt_graph_where(DtBuilder *b, DtValue *c, DtValue *x, DtValue *y);
DtValue *dt_graph_cast(DtBuilder *b, DtValue *x, DtDtype dtype);
DtValue *dt_graph_relabel(DtBuilder *b, DtValue *x, uint32_t n, const DtRelabel *entries,
                          const DtType *wish);
/* x with axis `from` renamed to `to`; x itself if it has no such axis. */
DtValue *dt_graph_rename(DtBuilder *b, DtValue *x, const char *from, const char *to,
                         const DtType *wish);
/* Returns x with its axes in the order of `order`; x itself if they are already. */
DtValue *dt_graph_reorder(DtBuilder *b, DtValue *x, const DtType *order);
DtValue *dt_graph_slice(DtBuilder *b, DtValue *x, const char *axis, int64_t lo, int64_t step,
                        int64_t n);
DtValue *dt_graph_pad(DtBuilder *b, DtValue *x, const char *axis, int64_t lo, int64_t hi,
                      int64_t step, double fill);
DtValue *dt_graph_concat(DtBuilder *b, const char *axis, uint32_t n, DtValue *const *in);
/* Repeats x along the axes of type that it lacks; returns x itself if there is none. */
DtValue *dt_graph_expand(DtBuilder *b, DtValue *x, const DtType *type);
/* The terms of x along a new axis, in the order of type (op `terms`). */
DtValue *dt_graph_terms(DtBuilder *b, DtValue *x, const char *axis, const DtType *type);
/* x with exactly the axes (in order) and the dtype of type: sums over further axes, expands, casts,
 * reorders. */
DtValue *dt_graph_fit(DtBuilder *b, DtValue *x, const DtType *type);
DtValue *dt_graph_window(DtBuilder *b, DtValue *x, const char *axis, const char *w, DtRange range,
                         double fill);
DtValue *dt_graph_fold(DtBuilder *b, DtValue *x, const char *axis, const char *w, DtRange range,
                       int64_t extent);
DtValue *dt_graph_dot(DtBuilder *b, DtValue *x, DtValue *y, uint32_t n_axes,
                      const char *const *axes, DtDtype result, const DtType *wish);
DtValue *dt_graph_reduce(DtBuilder *b, DtReduce kind, DtValue *x, uint32_t n_axes,
                         const char *const *axes);
DtValue *dt_graph_scan(DtBuilder *b, DtValue *x, uint32_t n_axes, const char *const *axes,
                       bool reverse);
void dt_graph_topk(DtBuilder *b, DtValue *x, const char *axis, DtAxis c, DtValue **ret_values,
                   DtValue **ret_indices);
DtValue *dt_graph_gather(DtBuilder *b, DtValue *x, uint32_t n, const char *const *axes,
                         DtValue *const *index);
DtValue *dt_graph_scatter_add(DtBuilder *b, DtValue *x, uint32_t n, const DtAxis *axes,
                              DtValue *const *index, uint32_t n_summed, const char *const *summed,
                              const DtType *wish);
/* flops.c: operations of all contractions that a call of the function executes, over logical
 * extents, loops included. */
double dt_func_flops(const DtFunc *func);

DtOp *dt_graph_call(DtBuilder *b, DtFunc *func, const char *label, DtValue *const *in);
DtOp *dt_graph_fused(DtBuilder *b, DtFunc *kernel, DtValue *const *in);
DtOp *dt_graph_loop(DtBuilder *b, DtFunc *body, DtLoop loop, DtValue *const *in);
/* range NULL: the condition always holds. of: what the op prefetches, which is copied; or NULL. */
DtOp *dt_graph_when(DtBuilder *b, DtFunc *branch, const DtRange *range, const DtAheadOf *of,
                    DtValue *const *in);
/* Ring buffers (ops.def). dt_graph_ringbuf: a new one of that type or, given `ringbuf`, an empty
 * one in its memory. The others put and get a value at a byte of the front slot. */
DtValue *dt_graph_ringbuf(DtBuilder *b, const DtType *type, DtValue *ringbuf);
DtValue *dt_graph_ringbuf_put(DtBuilder *b, DtValue *ringbuf, DtValue *value, int64_t byte);
DtValue *dt_graph_ringbuf_get(DtBuilder *b, DtValue *ringbuf, int64_t byte, const DtType *type);
DtValue *dt_graph_ringbuf_turn(DtBuilder *b, DtValue *ringbuf);
DtValue *dt_graph_turn(DtBuilder *b);
DtValue *dt_graph_done(DtBuilder *b, DtValue *started); /* a copy with the value's name and
                                                         * numbers */
DtValue *dt_graph_copied(DtBuilder *b, DtValue *x);     /* the same, after a `done` */
/* Element lo + step x index of the leading axis; index NULL: element lo. */
DtValue *dt_graph_at(DtBuilder *b, DtValue *x, DtValue *index, int64_t lo, int64_t step);
/* kept: leading axes that stay; extent: of the bucket, at least the sum of the local elements per
 * place of the kept axes. unpack: the tensor of this type at element `offset`; its pending sums are
 * those of x, not of the type. */
DtValue *dt_graph_pack(DtBuilder *b, uint32_t n_kept, const char *const *kept, uint32_t n,
                       DtValue *const *in, int64_t extent);
DtValue *dt_graph_unpack(DtBuilder *b, uint32_t n_kept, DtValue *x, int64_t offset,
                         const DtType *type);
/* Elements of partners along an axis, which mesh splits (op `partner`). */
DtValue *dt_graph_partner(DtBuilder *b, DtValue *x, const char *axis, bool reverse,
                          int64_t number, uint16_t mesh);
DtValue *dt_graph_comm(DtBuilder *b, DtOpKind kind, DtValue *x, uint16_t mesh,
                       const DtType *result);
/* A copy of op with other operands: same kind and attributes, and result types that are derived
 * again (or kept, where an op declares them). For passes that rebuild a function. */
DtOp *dt_graph_copy(DtBuilder *b, const DtOp *op, DtValue *const *in);
/* Copies op unchanged, outside of any function. map: by value id, the new operands; it receives the
 * results, which keep their ids. */
DtOp *dt_graph_clone(DtArena *arena, const DtOp *op, DtValue **map);

/* Removes ops whose results are not read, except sums over stages; returns how many. */
uint32_t dt_graph_sweep(DtFunc *func);
void dt_graph_renumber(DtFunc *func);
DtFunc *dt_graph_find(const DtModule *module, const char *name);
/* Returns the index of func in module->funcs, which must contain it. */
uint32_t dt_graph_number(const DtModule *module, const DtFunc *func);
/* how many times the function reads the value, counting results */
uint32_t dt_graph_reads(const DtFunc *func, const DtValue *value);
/* Makes the function's ops and results read `value` instead of `old`. */
void dt_graph_replace(DtFunc *func, const DtValue *old, DtValue *value);
/* the op that puts the value into a ring buffer; NULL: none does */
const DtOp *dt_graph_put(const DtFunc *func, const DtValue *value);
/* Whether the value, a result of a body, goes into a slot of a ring buffer while its reduction is
 * in flight, and is added to its place when the slot is used again. */
bool dt_graph_is_slotted(const DtFunc *func, const DtValue *result);
bool dt_graph_is_slotted_in(const DtValue *value); /* also for the result of a loop, which its body
                                                    * decides */

/* ---- entry points (entry.c) ---- */

/* dt_entry_set: sets kind and part, and the name that follows from them (the objective is kept).
 * dt_entry_new: a new entry of this kind. dt_entry_read: from its name; false: the name has no kind
 * and part. */
void dt_entry_set(DtEntryPoint *entry, DtEntryKind kind, DtEntryPart part, int32_t number);
DtEntryPoint dt_entry_new(DtEntryKind kind, const char *objective, DtEntryPart part,
                          int32_t number);
bool dt_entry_read(const char *name, DtEntryPoint *ret_entry);
const char *dt_entry_kind_name(DtEntryKind kind);
/* Of an input that entries of this kind alone have, "predict:tokens": the name of the program's
 * input, "tokens". NULL: it is none. */
const char *dt_entry_input(DtEntryKind kind, const char *name);
/* Whether entries of the kind compute results for what the runtime writes into their inputs. */
static inline bool dt_entry_predicts(DtEntryKind kind)
{
    return kind == DT_ENTRY_PREDICT || kind == DT_ENTRY_PREFILL || kind == DT_ENTRY_DECODE;
}
/* Whether entries of the kind write stores that later steps read, after all reads of the step. */
static inline bool dt_entry_updates(DtEntryKind kind)
{
    return kind == DT_ENTRY_UPDATE || kind == DT_ENTRY_QUANTIZE || kind == DT_ENTRY_MIX;
}
/* the name in plans of all entries of this kind and objective */
const char *dt_entry_run(const DtEntryPoint *entry);
/* NULL: there is none. An entry is whole if it is no part, and not cut by stages. */
DtEntryPoint *dt_entry_find(const DtModule *module, DtEntryKind kind, const char *objective,
                            DtEntryPart part, int32_t number);
DtEntryPoint *dt_entry_whole(const DtModule *module, DtEntryKind kind, const char *objective);
/* The first whole entry of a kind, for any objective; the next one after it. */
DtEntryPoint *dt_entry_next(const DtModule *module, DtEntryKind kind, const DtEntryPoint *before);
/* Returns the path with which the sites of all random numbers of the entry begin. */
const char *dt_entry_draws(const DtEntryPoint *entry);
DtEntryPoint *dt_entry_named(const DtModule *module, const char *name);
/* The function's name in the source: "attention" of "attention.2.fwd"; for a library function its
 * own name. */
const char *dt_graph_source_name(const DtFunc *func);
/* The type of a store's memory: its own type, or all runs of it (terms). */
const DtType *dt_store_memory_type(const DtStore *store);

/* ---- meaning (means.c) ---- */

/* Numbers all results of ops, and carried values of loops, in the order of the text over all
 * functions, from 1. From now on these numbers name the serial values: copies of an op
 * (dt_graph_copy) keep the number, as a hint for the proof. Sources, loops and other inputs need
 * none, since their operands identify them. */
void dt_means_begin(DtModule *module);

/* ---- text, verifier ---- */

/* Deterministic; reads back to an equal module (print(read(print(m))) == print(m)). */
void dt_irtext_print(const DtModule *module, DtText *ret_text);
void dt_irtext_print_func(const DtFunc *func, DtText *ret_text);
/* Reads a module from IR text; NULL after diagnostics. */
DtModule *dt_irtext_read(DtArena *arena, DtDiags *diags, const char *text, size_t len);

/* Checks every rule of ops.def and of the structs above. Appends one line per violation, with
 * function, op and span; true if there is none. */
bool dt_verify_module(const DtModule *module, DtText *ret_problems);
/* Aborts with the violations if there are any. after: what made the module, such as the name of a
 * pass. */
void dt_verify_require(const DtModule *module, const char *after);

#endif
