/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside verify: programs as the reader delivers them, nodes, values.
 *
 *   cert_text.c  IR text to these structs     cert_node.c  expressions of the serial program
 *   cert_step.c  one op                       cert_func.c  functions and loops
 *   cert_rule.c  placements of one op         cert_sum.c   sums, term by term
 *   cert_pack.c  buckets of several values    cert_pad.c   the contents of padding
 *   cert_halo.c  windows over split axes      cert_ring.c  ring calls
 *   cert_range.c ranges of loop iterations    cert_word.c  words of a line
 *   cert_fail.c  why a program is refused     cert_source.c parameters, inputs and stores of an
 *                entry
 *   cert_entry.c runs entries                 cert.c       compares their results */
#ifndef DT_VERIFY_INTERNAL_H
#define DT_VERIFY_INTERNAL_H

#include "base/stages.h"
#include "plan/name.h"
#include "verify/cert.h"

#include <string.h>

enum {
    CERT_RANK = 16,
    CERT_SPLIT = 4,
    CERT_MESH = 16,
    CERT_NAMES = 4,
    CERT_PADDED = 8,
    /* (with CERT_SURE) index in CertValue.fill for the bytes of a bucket after its members, if
     * stores have zeros there */
    CERT_REST = CERT_PADDED,
    CERT_SURE,               /* like CERT_REST, whatever stores have there */
    CERT_FILLS,
    CERT_STAGES = DT_STAGES_MOST,
    CERT_FUNCS = 256,
    CERT_DEPTH = 1024
};

/* ---- programs (cert_text.c); all names are interned ---- */

typedef struct CertShape CertShape;
typedef struct CertRule CertRule;
/* The operands and result of one op while its local rule is checked (cert_rule.c). */
typedef struct CertCheck CertCheck; /* a local rule (cert_rule.c) */
typedef struct CertNode CertNode;

typedef struct CertAxis {
    const char *name;
    int64_t extent;               /* extent over all ranks, padding included */
    int64_t logical;              /* extent without padding */
    uint8_t n, split[CERT_SPLIT]; /* split: n mesh axes that split it, major to minor */
    bool zigzag;
    uint8_t padded; /* 1 + number of this axis in CertProgram.padded; 0: it has no padding */
} CertAxis;

/* Equal types of a program are one object. */
typedef struct CertType {
    const char *dtype;
    uint32_t rank;
    CertAxis axes[CERT_RANK];
    /* bit sets of mesh axes: over which a reduction is pending; that split an axis */
    uint16_t partial, split;
    const char *pending;           /* which reduction is pending: "sum", "max", "min"; NULL: none */
    uint16_t padded;               /* bit set of the padded axes (CertProgram.padded) that it has */
    const CertShape *shape, *all; /* caches of dt_certnode_shape and dt_certrange_all */
    /* all_of: the loop that the cache `all` is for. lies: cache of cert_pack.c, text of a member's
     * layout in a bucket of type lies_in */
    const char *all_of, *lies;
    const struct CertType *lies_in;
} CertType;

/* Attributes of a loop op: its iterations are first .. first + count - 1, and its operands are the
 * carried values, the invariant and the stacked ones, in this order; stacked_out counts stacked
 * results. */
typedef struct CertLoop {
    const char *label, *axis;
    int64_t count, first, carried, invariant, stacked, stacked_out;
    /* in an entry for a class of stages: by how much `first` grows from one stage to the next */
    int64_t step;
    bool reverse;
} CertLoop;

/* One range of a slice, pad, window or fold, with the meaning of DtRange (ir/ir.h). */
typedef struct CertRange {
    int64_t lo, hi, step, n;
} CertRange;

/* One entry of a relabel: the axes `from` are merged, row-major, and split into the axes `to`. */
typedef struct CertRelabel {
    uint32_t n_from, n_to;
    const char *from[CERT_NAMES], *to[CERT_NAMES];
    int64_t extents[CERT_NAMES]; /* extents of `to` */
} CertRelabel;

typedef struct CertOp {
    const char *kind, *at; /* at: its line in the text, for messages */
    const CertRule *rule;  /* NULL: the kind has no local rule */
    uint32_t n_in, n_out, first_out, n_axes, n_axes2, n_relabels;
    uint32_t *in;           /* operand i is value number in[i] of the function */
    const CertType **types; /* results, by number */
    const char *axes[CERT_RANK], *axes2[CERT_RANK];
    const char *attributes; /* the attributes of the line that change the op's result, as text */
    const char *text, *path, *reduce, *func;
    double number;
    /* slice or pad: some range does not begin with the first element, or leaves elements out */
    bool shifts;
    /* by result: the recorded number of the serial value that it must equal; 0: none is recorded */
    uint32_t *means;
    int64_t store;   /* number of the store, or -1 */
    /* how many iterations before its own a plan prefetches this gather; that does not change the
     * result */
    int64_t ahead;
    CertLoop *loop;
    CertRelabel relabels[CERT_NAMES];
    uint32_t n_ranges;
    CertRange *ranges; /* of a slice, pad, window or fold: its ranges, CERT_RANK at most */
    uint16_t mesh;
    const char *stages;
} CertOp;

typedef struct CertFunc {
    const char *name;
    const struct CertFunc *same; /* the first function with this text */
    const struct CertFunc *next; /* next function in this slot of the hash table */
    uint32_t n_args, n_values, most_in;
    uint32_t first; /* number of its first value, counted over all functions of the text */
    DT_VEC(const CertType *) args;
    /* by argument: the recorded number of the serial value that it must equal; 0: none */
    DT_VEC(uint32_t) means;
    DT_VEC(CertOp *) ops;
    DT_VEC(uint32_t) results;
} CertFunc;

/* Stores and entries belong to all stages (stage -1), to one stage, or to a class: stages stage
 * .. to. */
typedef struct CertStore {
    const char *kind, *path, *key; /* key: kind and path */
    const char *pattern, *init;    /* the initial value, as text; NULL: the text has none */
    const CertType *type;
    int64_t loops, first, step, at, stage, to, of, within, bucket;
    int members; /* of a bucket: index of its last member among the stores; -1: it is no bucket */
    /* of a member: index of the member before it in the same bucket; -1: it is the first */
    int before;
    /* the store's number if stores are counted once for each stage of their class: that of its
     * first stage */
    uint32_t place;
    /* of a bucket of gradients: its memory holds the parts of all ranks, to which each rank adds
     * its terms before they are summed over ranks */
    bool terms;
    bool adapter; /* part of an adapter: a checkpoint may lack it (--weights) */
    int64_t copy; /* bytes of the path before that of the original; 0: it is no copy */
    /* of a source: the node that was made when it was first read; NULL: not read yet */
    CertNode *node;
    /* cache of CertState.total: the accumulated node that was last compared, and the serial node
     * that it equals */
    CertNode *summed, *total;
} CertStore;

/* Whether stages stage .. to (stage -1: all of them) include the stage `here` (-1: all stages). */
static inline bool dt_cert_on(int64_t stage, int64_t to, int64_t here)
{
    return stage < 0 || (here >= stage && here <= to);
}
static inline bool dt_cert_has(const CertStore *store, int64_t stage)
{
    return dt_cert_on(store->stage, store->to, stage);
}
/* Returns how many stages after the first one of the store's class the stage is; 0 for stores of
 * all stages. */
static inline int64_t dt_cert_behind(const CertStore *store, int64_t stage)
{
    return store->stage < 0 || stage < 0 ? 0 : stage - store->stage;
}
/* For one stage of the store's class: the store's number among the stores of all stages; the first
 * iteration that it holds there; for a channel's store, the index of the store that it receives. */
static inline uint32_t dt_cert_place(const CertStore *store, int64_t stage)
{
    return store->place + (uint32_t)dt_cert_behind(store, stage);
}
static inline int64_t dt_cert_first(const CertStore *store, int64_t stage)
{
    return store->first + dt_cert_behind(store, stage) * store->step;
}
static inline int64_t dt_cert_source(const CertStore *store, int64_t stage)
{
    return store->within >= 0 && dt_cert_has(store, stage) ? store->within : store->of;
}

/* The values that a stage receives from another one: channel stores of stage `to`. */
typedef struct CertChannel {
    int64_t from, to;
    DT_VEC(int64_t) stores;
} CertChannel;

/* A result of an entry: it goes to a store, or (store -1) has a name. accumulate: micro-batches add
 * up. */
typedef struct CertResult {
    int64_t store;
    const char *name;
    bool accumulate;
} CertResult;
/* An entry point of the text. */
typedef struct CertEntry {
    const char *name;
    DtPlanName is;                /* the name's parts: run, part and number */
    const CertFunc *func;
    int64_t stage, to;
    DT_VEC(CertResult) results;
} CertEntry;

/* An axis that is padded: longer than in the serial program. */
typedef struct CertPadded {
    const char *name;
    int64_t logical, extent;
} CertPadded;

/* A loop axis, and the largest number of iterations of a loop over it. */
typedef struct CertLoopAxis {
    const char *name;
    int64_t count;
} CertLoopAxis;

typedef struct CertProgram {
    DtArena *arena;
    const char *text;
    uint32_t n_mesh, n_padded;
    const char *mesh[CERT_MESH];
    int64_t size[CERT_MESH];
    const char *crossing; /* the dtype in which gradients may cross ranks; NULL: their own dtype */
    uint16_t time, pipe;  /* number of the mesh axis of micro-batches; of pipeline stages */
    CertPadded padded[CERT_PADDED];
    DT_VEC(CertStore) stores;
    const CertFunc *funcs[CERT_FUNCS]; /* by name */
    DT_VEC(CertEntry) entries;
    DT_VEC(CertChannel) channels;
    DT_VEC(CertLoopAxis) loop_axes;
    /* the serial program, in which loops run all their iterations; itself, if this is one */
    const struct CertProgram *whole;
    uint32_t n_places;               /* number of stores of all stages */
    uint32_t n_values;               /* number of values of all functions, plus 1 */
} CertProgram;

/* Reads the IR text into *ret_program. False with a problem: the text is malformed. */
bool dt_certtext_read(DtArena *arena, const char *text, CertProgram *ret_program,
                      DtText *ret_problem);
/* The function of that name; NULL: there is none, or name is NULL. */
const CertFunc *dt_certtext_func(const CertProgram *program, const char *name);
/* Returns the axis of that name; NULL: the type lacks it. */
const CertAxis *dt_certtext_axis(const CertType *type, const char *name);

static inline bool dt_cert_is(const char *a, const char *b) { return strcmp(a, b) == 0; }
static inline bool dt_cert_is_float(const char *dtype)
{
    return dtype[0] == 'f' || strncmp(dtype, "bf", 2) == 0;
}
/* dt_cert_bits: bit set of the mesh axes that split an axis (NULL: none). same_split: whether equal
 * mesh axes split two axes. same_axis: whether their extents are equal, too. */
static inline uint16_t dt_cert_bits(const CertAxis *axis)
{
    uint16_t bits = 0;
    for (uint32_t s = 0; axis && s < axis->n; s++)
        bits |= (uint16_t)(1u << axis->split[s]);
    return bits;
}
static inline bool dt_cert_same_split(const CertAxis *a, const CertAxis *b)
{
    return a->n == b->n && a->zigzag == b->zigzag && memcmp(a->split, b->split, a->n) == 0;
}
static inline bool dt_cert_same_axis(const CertAxis *a, const CertAxis *b)
{
    return a->extent == b->extent && dt_cert_same_split(a, b);
}
/* The quotient rounded down; `by` is not 0. */
static inline int64_t dt_cert_down(int64_t a, int64_t by)
{
    return a / by - (a % by != 0 && (a < 0) != (by < 0));
}
/* For qsort: orders pointers to stores by key. */
int dt_cert_by_key(const void *a, const void *b);
/* Returns the number of elements of an axis that one rank has. */
static inline int64_t dt_cert_local(const CertProgram *program, const CertAxis *axis)
{
    int64_t n = axis->extent;
    for (uint32_t s = 0; s < axis->n; s++)
        n /= program->size[axis->split[s]];
    return n;
}

/* ---- nodes (cert_node.c) ---- */

/* A shape: the dtype of a value and its axes, sorted by name. Equal shapes are one object. Along a
 * loop's axis it has all iterations, even if the value covers only some of them. */
struct CertShape {
    const char *dtype;
    uint32_t rank;
    const char *axes[CERT_RANK];
    int64_t extents[CERT_RANK];
    const CertShape *next;
};

/* What is known about a question. */
typedef enum CertAnswer { CERT_UNKNOWN, CERT_YES, CERT_NO } CertAnswer;

struct CertNode {
    /* kind: interned, or one of the kinds below; attributes: interned */
    const char *kind, *attributes;
    const CertShape *shape;        /* CERT_NONE as an id: no value */
    uint32_t n_in, index;          /* index: which result of the op */
    /* of a reduction over the iterations lo .. hi - 1 of an axis; 0, 0: the reduction is over all,
     * or the node is no reduction */
    int64_t lo, hi;
    /* the axis of the iterations lo .. hi - 1; NULL: the axis of a loop that adds them up, or lo
     * and hi are 0 */
    const char *over;
    CertNode *const *in;
    /* id: number of the node, from 1 in the order of creation; mark: for comparisons of sums, 0
     * between them */
    uint32_t id, mark;
    CertAnswer zero;   /* cache: whether all its elements are zero */
    CertNode *to;      /* the serial value that it was proved equal to, or NULL */
    CertNode *next;
    /* only nodes of the serial program: facts about it (CertNote: the loop that carries it, whether
     * it is a gradient); NULL: none */
    struct CertNote *note;
};
/* Kinds of nodes that are no ops. A final program computes sums in parts that the serial program
 * does not have: total, term and lacks are nodes for these. `sum` is an attribute of such an
 * addition. */
extern const char dt_certkind_tuple[], dt_certkind_carried[], dt_certkind_stack[], dt_certkind_at[],
    dt_certkind_total[], dt_certkind_sum[], dt_certkind_term[], dt_certkind_lacks[];

typedef struct CertNodes CertNodes;
CertNodes *dt_certnode_table(DtArena *arena);
/* The node with these parts; made if there is none yet. */
CertNode *dt_certnode_make(CertNodes *nodes, CertNode parts);
/* find: returns the node with these parts, or NULL if there is none. count: returns the number of
 * nodes, which is the id of the newest. */
CertNode *dt_certnode_find(const CertNodes *nodes, const CertNode *parts);
uint32_t dt_certnode_count(const CertNodes *nodes);
/* leaf: a node without operands. of: a node with one operand. */
CertNode *dt_certnode_leaf(CertNodes *nodes, const char *kind, const char *attributes,
                           const CertShape *shape, uint32_t index);
CertNode *dt_certnode_of(CertNodes *nodes, const char *kind, const char *attributes,
                         const CertShape *shape, CertNode *x);
/* The shape of the values of a type. */
const CertShape *dt_certnode_shape(CertNodes *nodes, const CertType *type);
/* cast_shape: returns the shape with another dtype. resized: returns it with this extent of the
 * axis; 0: without the axis. */
const CertShape *dt_certnode_cast_shape(CertNodes *nodes, const CertShape *shape,
                                        const char *dtype);
const CertShape *dt_certnode_resized(CertNodes *nodes, const CertShape *shape, const char *axis,
                                     int64_t extent);
/* Returns the extent of the axis, or -1 if the shape lacks it. */
int64_t dt_certnode_extent(const CertShape *shape, const char *axis);
/* Whether all elements of node are one known number, which *ret_number becomes. */
bool dt_certnode_number(const CertNode *node, double *ret_number);
/* Whether all elements of the node are known to be zero, since it is made of constants that are. */
bool dt_certnode_is_zero(const CertNode *node);
/* Returns a node of zeros with this shape, made from the constant in `zero`, a node that is
 * zero. */
CertNode *dt_certnode_zeros(CertNodes *nodes, const CertShape *shape, CertNode *zero);
/* Appends a description of where two expressions begin to differ. */
void dt_certnode_differ(const CertNode *have, const CertNode *want, DtText *ret_text);

/* ---- values and functions (cert_func.c) ---- */

/* What is known of every element in the padding of an axis. */
typedef enum CertFill {
    CERT_ANYTHING,
    CERT_ZERO,
    CERT_LOWEST,
    CERT_HIGHEST,
    CERT_POSITIVE
} CertFill;

/* A value of the program that is checked. If a loop stacks it, it covers the iterations first ..
 * first + extent of that axis - 1 of the node, which has all of them. first CERT_ANY: all
 * iterations are equal. */
#define CERT_ANY INT64_MIN
typedef struct CertValue {
    CertNode *node; /* its expression; NULL: not known yet */
    const CertType *type;
    const char *loop; /* the loop axis along which it covers a range; NULL: none */
    int64_t first;
    /* by padded axis, what the padding contains (CertFill); of a bucket: in all its members, and in
     * the bytes after them */
    uint8_t fill[CERT_FILLS];
    /* always 0, since values are compared byte by byte (cert_func.c) */
    uint8_t none[16 - CERT_FILLS];
    /* 1 + the index of the store of which the value is all or a part, moved or cast; 0: of none */
    int64_t total;
    /* of a bucket: the path of the stores on which fill[CERT_REST] depends; NULL: none */
    const char *rest;
} CertValue;

typedef struct CertValues {
    CertValue *at;
    uint32_t n;
} CertValues;

/* A use of a bucket, for example a sum over all its elements, that is only right if stores of this
 * path have zeros after their members. op: for messages. */
typedef struct CertRelied {
    const char *path;
    const CertOp *op;
} CertRelied;

typedef struct CertState CertState;
struct CertState {
    DtArena *arena;
    CertNodes *nodes;
    const CertProgram *program;
    DtText *problem;
    uint32_t values;
    const CertFunc *func;          /* the function being evaluated */
    uint32_t depth;                /* depth of calls and loops */
    CertValues frames[CERT_DEPTH]; /* memory of functions, by depth */
    int64_t stage;                 /* the stage for which the entry is evaluated; -1: every stage */
    int64_t behind; /* how many stages after the first one of its class that stage is */
    struct CertMemo **memo;        /* functions evaluated before, by hash */
    uint32_t n_memos, most_memos;
    /* reads a `param` or `input` op of an entry: sets *ret_value to its value; false after a
     * problem */
    bool (*source)(CertState *state, const CertOp *op, CertValue *ret_value);
    /* adds a stage's term x to a sum over pipeline stages: sets *ret_value to the sum, with node
     * NULL while some of its terms are not known; false after a problem */
    bool (*across)(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value);
    void *data;
    /* returns the serial node that the accumulated node of a store equals; the node itself if there
     * is none */
    CertNode *(*total)(CertState *state, int64_t store, CertNode *node);
    struct CertMeant *meant;
    /* the program being evaluated is a serial one: its nodes define what values must equal */
    bool is_serial;
    /* the values of its text have numbers, by which the final program refers to them */
    bool numbers;
    DT_VEC(CertRelied) relied;
};

/* cert_fail.c: reports a reason with the op's place in the text; only the first one is kept.
 * Returns false. */
bool dt_cert_fail(CertState *state, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Gives zeros that no loop has stacked the iterations from `first` on of the loop. Such zeros are
 * gradients of parameters that the loss does not depend on. Leaves other values unchanged. */
void dt_certfunc_cover(CertState *state, const char *loop, int64_t first, CertValue *value);
/* Evaluates the function of an entry and fills ret_results with its results. False after a
 * problem. */
bool dt_certfunc_run(CertState *state, const CertFunc *func, CertValue *ret_results);

/* ---- the serial program, which defines the meaning ---- */

/* A loop of the serial program, with the nodes of its operands and carried values. */
typedef struct CertCarried {
    const char *symbols; /* text that identifies the loop: its place and direction */
    int64_t first, count;
    bool reverse;
    const struct CertCarried *inside; /* the only loop directly inside; NULL: none, or several */
    uint32_t n, n_in;
    CertNode *const *in;                  /* nodes of all operands */
    /* by carried value: the node of its initial value; of the value before an iteration; after it;
     * after the loop */
    CertNode **from, **at, **made, **out;
} CertCarried;

/* Facts about a node of the serial program. */
typedef struct CertNote {
    const CertCarried *loop;  /* for a carried value: its loop; else NULL */
    uint32_t carried;         /* its number among the loop's carried values */
    bool gradient;            /* it is a gradient: see dt_certstep_gradient */
} CertNote;

/* A serial node with a certain number, which the text records at values of the final program. One
 * number may belong to several nodes, since a function may be called several times, and a body may
 * belong to several loops. */
typedef struct CertMeaning {
    CertNode *node;
    struct CertMeaning *next;
} CertMeaning;

/* The names of the calls around a function being evaluated, joined by dots, which come before the
 * names of its ops: for paths, and for labels of loops. Interned, or "". */
typedef struct CertCalled {
    const char *path, *label;
} CertCalled;

typedef struct CertMeant {
    DtArena *arena;
    uint32_t n; /* by number of a serial value: its nodes */
    CertMeaning **by_number;
    /* ids up to this one are nodes of the serial program; 0: it is still being evaluated */
    uint32_t known;
    DT_VEC(CertCarried *) loops; /* loops of the serial program */
    int64_t symbols;             /* number of values that loops carry so far */
    uint64_t ops;                /* number of ops evaluated so far */
    CertCalled names;            /* names around the function being evaluated */
    const CertCarried *inside;   /* the serial loop whose body is being matched; NULL: none */
    /* in a second serial program: the first op without an equal in the first one; NULL: none */
    const CertOp *news;
    const CertFunc *news_in;     /* and its function */
    /* state of the comparisons of functions (verify/box.h); NULL: none was needed */
    struct DtBoxes *boxes;
} CertMeant;

/* ---- one op (cert_step.c) ---- */

static inline bool dt_certstep_is_known(const CertState *state, const CertNode *node)
{
    return node->id <= state->meant->known;
}
/* Returns the text prefix.name; either may be "" or NULL. */
const char *dt_certstep_join(const char *prefix, const char *name);
/* Returns the facts about a serial node, new ones if it has none yet. */
CertNote *dt_certstep_note(CertState *state, CertNode *node);
/* Returns the serial nodes with this number; NULL: there are none. */
const CertMeaning *dt_certstep_numbered(const CertState *state, uint32_t number);
/* Records that the serial node has this number. */
void dt_certstep_number(CertState *state, uint32_t number, CertNode *node);
/* Whether the node is known to be zero, also by the ops that make it (sums, products and linear ops
 * of zeros). */
bool dt_certstep_is_zero(const CertNode *node);
/* Whether dtype a can represent every number of dtype b. */
bool dt_certstep_is_wider(const char *a, const char *b);
/* Whether the op of the node is linear in operand i. */
bool dt_certstep_is_linear(const CertNode *node, uint32_t i);
/* Evaluates an op that is no call, loop or source: sets its results in `out` and checks their
 * placement. context: text that identifies the loops around. False after a problem. */
bool dt_certstep_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                    CertValue *out);
/* Records that a serial value, and the terms that it adds up, are parts of a gradient. */
void dt_certstep_gradient(CertState *state, CertNode *gradient);
/* Returns the node of a collective's result: x itself or, if x is a gradient that was cast for the
 * exchange, a node of which the cast back is the value before the first cast. total:
 * CertValue.total of x. */
CertNode *dt_certstep_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total);
/* For an op on members of buckets: returns the serial node for the op with these operands, or a new
 * node. */
CertNode *dt_certstep_member(CertState *state, const CertOp *op, const CertShape *shape,
                             CertNode *const *in, uint32_t index);

/* ---- sums (cert_sum.c) ---- */

static inline bool dt_certsum_is(const CertNode *node)
{
    return node->attributes == dt_certkind_sum;
}
/* Returns the node of the carried value before iteration `position` of the loop. */
CertNode *dt_certsum_carried(CertState *state, const CertCarried *loop, uint32_t carried,
                             int64_t position);
/* Whether the loop does nothing but add to the carried value. */
bool dt_certsum_adds(const CertCarried *loop, uint32_t carried);
/* Returns the node of the sum of what iterations lo .. hi - 1 of the loop add to the carried
 * value. */
CertNode *dt_certsum_total(CertState *state, const CertCarried *loop, uint32_t carried, int64_t lo,
                           int64_t hi);
/* Returns the node for s with x, a term of it, in place of operand i, in which s is linear: the
 * serial node if there is one. */
CertNode *dt_certsum_term(CertState *state, CertNode *s, uint32_t i, CertNode *x);
/* Returns a key that ops share if they differ from s in operand i only. An op that accumulates in a
 * wider dtype than its terms has a key of its own. */
CertNode *dt_certsum_without(CertState *state, CertNode *s, uint32_t i);
/* Whether x is the serial value `want`, or among its terms. */
bool dt_certsum_has(CertState *state, CertNode *want, const CertNode *x);
/* Returns the node for `parts` whose operand *x may be a node of a range of iterations. Then the
 * result is a range, too, and *x becomes the node of all iterations. */
CertNode *dt_certsum_ranged(CertState *state, CertNode parts, CertNode **x);
/* Whether `have` equals `want`, term by term if `have` is a sum. If ret_lacks is given, `have` may
 * lack the initial value of a carried value of the loop, and *ret_lacks becomes that carried value
 * if it does. */
bool dt_certsum_equal(CertState *state, CertNode *have, CertNode *want, CertNode **ret_lacks);
/* Returns the node for s without the initial value of the carried value `of`. */
CertNode *dt_certsum_lacking(CertState *state, CertNode *s, CertNode *of);

/* ---- iterations (cert_range.c) ---- */

/* Lists the loops of a program that was just read (CertProgram.loop_axes). */
void dt_certrange_note(CertProgram *program);
/* Returns the largest number of iterations of a loop over this axis; -1: there is no such loop. */
int64_t dt_certrange_count(const CertState *state, const char *axis);
/* Returns the shape with all iterations for a type whose values cover some iterations of `loop`
 * (NULL: of no loop). */
const CertShape *dt_certrange_all(CertState *state, const CertType *type, const char *loop);
/* Sets loop and first of the result to the iterations that the operands cover. False: operands
 * disagree. */
bool dt_certrange_of(const CertOp *op, const CertValue *in, CertValue *ret_value);
/* Makes the iterations that value covers a node of its own, which value then covers completely. */
void dt_certrange_fix(CertState *state, CertValue *value);
/* For a node that is all iterations of `loop` as a range of a longer value: returns the node of
 * that value, which has the same slice in every iteration. Otherwise returns the node itself. */
CertNode *dt_certrange_whole(CertNode *node, const CertLoop *loop);
/* Sets *ret_lo and *ret_hi to the iterations lo .. hi - 1 of its node that the value covers. False:
 * it covers all. */
bool dt_certrange_some(const CertState *state, const CertValue *value, int64_t *ret_lo,
                       int64_t *ret_hi);
/* Whether op is a sum, so that its result over a range of iterations is a part of the whole sum. */
bool dt_certrange_adds(const CertOp *op);
/* Returns the operands as op needs them: ranges of iterations become nodes of their own, unless op
 * treats all iterations alike. NULL after a problem. */
const CertValue *dt_certrange_settle(CertState *state, const CertOp *op, const CertValue *in);
/* For an expansion along a loop's axis: records that all iterations are equal. */
void dt_certrange_repeat(const CertProgram *program, const CertOp *op, const CertValue *in,
                         CertValue *out);
/* The shape of the node for op's result; for a range of an op that treats iterations alike, the
 * shape with all iterations. */
const CertShape *dt_certrange_shape(CertState *state, const CertOp *op, const CertValue *in,
                                    const CertValue *value);
/* Removes the loop of a value that covers all iterations: it is the same as a value that no loop
 * has stacked, as in a store without loops. */
void dt_certrange_close(const CertState *state, CertValue *value);
/* Whether op, with one result, only slices a range of iterations out of a value or concatenates
 * ranges: then out is that value with its range. */
bool dt_certrange_cut(const CertProgram *program, const CertOp *op, const CertValue *in,
                      CertValue *out);

/* ---- buckets (cert_pack.c) ---- */

/* Whether the node is a bucket. */
bool dt_certpack_is(const CertNode *node);
/* Returns the node of a bucket that an entry reads from its store; `source` makes the node of each
 * member. NULL after a problem: members overlap, go past the bucket's end, or differ in
 * iterations. */
CertNode *dt_certpack_store(CertState *state, int64_t bucket,
                            CertNode *(*source)(CertState *state, const CertStore *store));
/* Returns the member of the bucket at that offset that has the layout of `type`; NULL: there is
 * none. bucket: type of the whole bucket, whose axes other than @split and @bucket count
 * iterations. */
CertNode *dt_certpack_member(CertState *state, const CertNode *node, int64_t offset,
                             const CertType *type, const CertType *bucket);
/* Evaluates `pack` and `unpack`. False after a problem. */
bool dt_certpack_op(CertState *state, const CertOp *op, const CertValue *in, CertValue *out);
/* Evaluates any other op on buckets, member by member. False after a problem. */
bool dt_certpack_map(CertState *state, const CertOp *op, const CertValue *in, uint32_t index,
                     CertValue *out);
/* Like dt_certstep_moved, for each member if x is a bucket. */
CertNode *dt_certpack_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total);
/* Returns the sum of n nodes, member by member if they are buckets of several pieces or stages.
 * NULL: their members differ. */
CertNode *dt_certpack_sum(CertState *state, const CertShape *shape, uint32_t n,
                          CertNode *const *in);
/* Returns the bucket with `change` applied to each member; for another node, what `change` returns
 * for it. */
CertNode *dt_certpack_each(CertState *state, CertNode *node,
                           CertNode *(*change)(void *data, CertNode *member), void *data);

/* ---- windows over split axes (cert_halo.c) ---- */

/* The attributes of a window or fold, without those that change nothing; NULL: the text is
 * malformed. */
const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in);
/* For op, a relabel of x that assembles parts: returns the node of the window or fold of a whole
 * axis that it equals; NULL: it equals none. number: the recorded number of that value. */
CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertShape *shape,
                            uint32_t number);

/* ---- ring calls (cert_ring.c) ---- */

/* Whether the op is a ring call: a call with an axis along which blocks travel between ranks. */
bool dt_certring_is(const CertOp *op);
/* args: returns the operands as the function takes them: those that travel are gathered, others are
 * unchanged. gives: whether the call's result has the placement (have) that follows from that of
 * the function's result (made). */
const CertValue *dt_certring_args(CertState *state, const CertOp *op, const CertFunc *func,
                                  const CertValue *in);
bool dt_certring_gives(const CertState *state, const CertOp *op, const CertValue *in,
                       const CertType *made, const CertType *have);

/* ---- rules (cert_rule.c) and padding (cert_pad.c) ---- */

/* Which axes a column of a rule names: none; op->axes; op->axes2; the first of op->axes; the `from`
 * axes of relabels; their `to` axes; any axis. */
typedef enum CertNames { N_NONE, N_AXES, N_AXES2, N_FIRST, N_FROM, N_TO, N_ANY } CertNames;

/* What a rule allows for pending reductions: none; any kind passes through; sums pass through; the
 * op multiplies, and one factor may be pending; the rule decides itself. */
typedef enum CertPending { P_NONE, P_PASS, P_SUMS, P_PRODUCT, P_OWN } CertPending;

/* What the padding of the result contains, in terms of that of the operands. */
typedef enum CertPads {
    F_ANY,    /* anything at all */
    F_SAME,   /* the same as that of operand 0 */
    /* zeros if operand 0 has zeros there, along an axis that the op leaves as it is in operand 0 */
    F_LOOKUP,
    F_ZERO,   /* zeros if all operands have zeros there */
    F_PRODUCT, /* zeros if one factor has the axis and zeros there */
    F_SUM, F_QUOTIENT, F_WHERE, F_AND, F_LESS /* decided by the rule itself (cert_pad.c) */
} CertPads;

struct CertRule {
    const char *kinds; /* names of ops, separated by blanks, that the row is for */
    uint32_t n_in, n_out;
    bool map;              /* elementwise, expansion included */
    bool more;             /* the op may have more operands */
    /* communication: the result is the operand on other ranks; only column `own` matters */
    bool moves;
    /* axes of operands that the result lacks or has with another extent; they must be whole */
    CertNames gone, whole;
    CertNames made;        /* axes that are new in the result and may be split */
    bool strict;           /* axes in `whole` must be whole even if their extent stays the same */
    CertPending pending;
    uint32_t complete; /* bit set of the operands that may have no pending reduction */
    CertPads pads;
    bool (*own)(const CertCheck *check); /* a further check, or NULL */
};

/* Returns the rule for ops of this kind; NULL: there is none. */
const CertRule *dt_certrule_find(const char *kind);
/* Whether the types of op's operands and results obey the local rule of its kind; reports why
 * not. */
bool dt_certrule_check(CertState *state, const CertOp *op, const CertValue *in);
/* Returns the axis that is split by exactly these mesh axes, in their order; NULL: there is
 * none. */
const CertAxis *dt_certrule_shifted(const CertType *type, uint16_t mesh);
/* Whether the axes of a from number `skip` on, with splits in which mesh axes `split` were added,
 * and `partial` pending, are all of b. */
bool dt_certrule_same(const CertType *a, uint32_t skip, uint16_t partial, const CertType *b);
/* Returns the names of the axes that a column of a rule means for this op, and sets *ret_n to their
 * number. scratch: room for names. */
const char *const *dt_certrule_names(const CertOp *op, CertNames names, const char **scratch,
                                     uint32_t *ret_n);

/* Whether the padding of operands cannot change the meaning of op. */
bool dt_certpad_check(CertState *state, const CertOp *op, const CertValue *in);
/* Sets ret_value->fill, what the padding of the result contains. The result's type and node are set
 * already. */
void dt_certpad_fill(CertState *state, const CertOp *op, const CertValue *in, CertValue *ret_value);
/* Whether all padding of the value is known to be zero. */
bool dt_certpad_is_zero(const CertState *state, const CertValue *value);
/* Returns the node of the operand that op returns unchanged except for padding, since it selects or
 * slices all logical elements; NULL: it does not. */
CertNode *dt_certpad_identity(const CertOp *op, const CertValue *in);
/* Returns the operand of a `where` that selects all logical elements of it; NULL: there is no such
 * `where`. rank: that of the result. */
CertNode *dt_certpad_selected(const CertOp *op, CertNode *const *in, uint32_t rank);

#endif
