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
    CERT_REST = CERT_PADDED, /* CERT_SURE: the bytes of a bucket after its members, if stores have
                              * zeros there */
    CERT_SURE,               /* CERT_REST: the same, whatever stores have there */
    CERT_FILLS,
    CERT_STAGES = DT_STAGES_MOST,
    CERT_FUNCS = 256,
    CERT_DEPTH = 1024
};

/* ---- programs (cert_text.c); all names are interned ---- */

typedef struct CertShape CertShape;
typedef struct CertRule CertRule;
typedef struct CertCheck CertCheck; /* a local rule (cert_rule.c) */
typedef struct CertNode CertNode;

typedef struct CertAxis {
    const char *name;
    int64_t extent;               /* extent over all ranks, padding included */
    int64_t logical;              /* extent without padding */
    uint8_t n, split[CERT_SPLIT]; /* split: n mesh axes that split it, major to minor */
    bool zigzag;
    uint8_t padded; /* 1 + number of the padded axis of the program that it is; 0: it has no
                     * padding */
} CertAxis;

/* Equal types of a program are one object. */
typedef struct CertType {
    const char *dtype;
    uint32_t rank;
    CertAxis axes[CERT_RANK];
    /* bits: mesh axes over which a reduction is pending; mesh axes that split an axis */
    uint16_t partial, split;
    const char *pending;           /* "sum", "max", "min"; NULL without a pending reduction */
    uint16_t padded;               /* bits: padded axes that it has */
    const CertShape *shape, *all; /* caches of dt_certnode_shape and dt_certrange_all */
    /* all_of: the loop that `all` is for; lies: cache of cert_pack.c */
    const char *all_of, *lies;
    const struct CertType *lies_in;
} CertType;

typedef struct CertLoop {
    const char *label, *axis;
    int64_t count, first, carried, invariant, stacked, stacked_out;
    int64_t step; /* by how much `first` grows from one stage of a class to the next */
    bool reverse;
} CertLoop;

typedef struct CertRange {
    int64_t lo, hi, step, n;
} CertRange;

typedef struct CertRelabel {
    uint32_t n_from, n_to;
    const char *from[CERT_NAMES], *to[CERT_NAMES];
    int64_t extents[CERT_NAMES]; /* extents of `to` */
} CertRelabel;

typedef struct CertOp {
    const char *kind, *at; /* at: its position in the text */
    const CertRule *rule;  /* NULL: the kind has no local rule */
    uint32_t n_in, n_out, first_out, n_axes, n_axes2, n_relabels;
    uint32_t *in;           /* operands, by number */
    const CertType **types; /* results, by number */
    const char *axes[CERT_RANK], *axes2[CERT_RANK];
    const char *attributes; /* those attributes of the line that change the meaning, as text */
    const char *text, *path, *reduce, *func;
    double number;
    /* slice or pad: some range does not begin with the first element, or leaves elements out */
    bool shifts;
    /* by result: the number of the serial value that it must equal; 0: none is stated */
    uint32_t *means;
    int64_t store;   /* number of the store, or -1 */
    /* how many iterations before its own a plan runs this gather; it does not change the meaning */
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
    DT_VEC(uint32_t) means; /* names of the arguments */
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
    int members;    /* of a bucket: its last member, or -1 */
    int before;     /* of a member: the member before it in the same bucket, or -1 */
    uint32_t place; /* number, among all stores of all stages, of the store on the first stage */
    /* its memory holds the runs of all ranks, in which each rank's terms accumulate */
    bool terms;
    CertNode *node; /* of a source: its node, once it was read */
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
/* The position of `stage` among the stages of the class, from 0. */
static inline int64_t dt_cert_behind(const CertStore *store, int64_t stage)
{
    return store->stage < 0 || stage < 0 ? 0 : stage - store->stage;
}
/* For one stage: the store's number among all stores of all stages; its first iteration; the store
 * that it receives, if it is a channel's. */
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

typedef struct CertResult {
    int64_t store;
    const char *name;
    bool accumulate;
} CertResult;
typedef struct CertEntry {
    const char *name;
    DtPlanName is;                /* what the name says */
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
    /* the program is a serial one, in which loops run all their iterations */
    const struct CertProgram *whole;
    uint32_t n_places;               /* number of stores of all stages */
    uint32_t n_values;               /* number of values of all functions, plus 1 */
} CertProgram;

bool dt_certtext_read(DtArena *arena, const char *text, CertProgram *ret_program,
                      DtText *ret_problem);
/* The function of that name; NULL: there is none, or name is NULL. */
const CertFunc *dt_certtext_func(const CertProgram *program, const char *name);
const CertAxis *dt_certtext_axis(const CertType *type, const char *name);

static inline bool dt_cert_is(const char *a, const char *b) { return strcmp(a, b) == 0; }
static inline bool dt_cert_is_float(const char *dtype)
{
    return dtype[0] == 'f' || strncmp(dtype, "bf", 2) == 0;
}
/* bits: the mesh axes that split an axis. same_split: whether equal mesh axes split two axes.
 * same_axis: whether their extents are equal, too. */
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
/* For qsort: compares pointers to stores by key. */
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

typedef enum CertAnswer { CERT_UNKNOWN, CERT_YES, CERT_NO } CertAnswer;

struct CertNode {
    /* kind: interned, or one of the kinds below; attributes: interned */
    const char *kind, *attributes;
    const CertShape *shape;        /* CERT_NONE as an id: no value */
    uint32_t n_in, index;          /* index: which result of the op */
    /* of a reduction over some iterations: lo .. hi - 1; 0, 0: it is over all, or no such
     * reduction */
    int64_t lo, hi;
    /* the axis of these iterations; NULL: a loop's own axis, or no such reduction */
    const char *over;
    CertNode *const *in;
    uint32_t id, mark; /* next in the slot of the table */
    CertAnswer zero;   /* cache: whether all its elements are zero */
    CertNode *to;      /* the serial value that it was proved equal to, or NULL */
    CertNode *next;
    struct CertNote *note; /* facts about a serial node; see below */
};
/* Kinds of nodes that are no ops. total, sum, term and lacks are for sums and terms that the
 * serial program does not have; `sum` is an attribute. */
extern const char dt_certkind_tuple[], dt_certkind_carried[], dt_certkind_stack[], dt_certkind_at[],
    dt_certkind_total[], dt_certkind_sum[], dt_certkind_term[], dt_certkind_lacks[];

typedef struct CertNodes CertNodes;
CertNodes *dt_certnode_table(DtArena *arena);
/* The node with these parts; made if there is none yet. */
CertNode *dt_certnode_make(CertNodes *nodes, CertNode parts);
/* find: the same node, or NULL if there is none. count: the number of nodes, which is the id of the
 * newest. */
CertNode *dt_certnode_find(const CertNodes *nodes, const CertNode *parts);
uint32_t dt_certnode_count(const CertNodes *nodes);
/* leaf: a node without operands. of: a node with one operand. */
CertNode *dt_certnode_leaf(CertNodes *nodes, const char *kind, const char *attributes,
                           const CertShape *shape, uint32_t index);
CertNode *dt_certnode_of(CertNodes *nodes, const char *kind, const char *attributes,
                         const CertShape *shape, CertNode *x);
/* The shape of the values of a type. */
const CertShape *dt_certnode_shape(CertNodes *nodes, const CertType *type);
/* cast_shape: the shape in another dtype. resized: with an axis of this extent; 0: without the
 * axis. */
const CertShape *dt_certnode_cast_shape(CertNodes *nodes, const CertShape *shape,
                                        const char *dtype);
const CertShape *dt_certnode_resized(CertNodes *nodes, const CertShape *shape, const char *axis,
                                     int64_t extent);
/* number of the axis, or -1 */
int64_t dt_certnode_extent(const CertShape *shape, const char *axis);
/* Whether all elements of node are one known number. */
bool dt_certnode_number(const CertNode *node, double *ret_number);
bool dt_certnode_is_zero(const CertNode *node);
/* A node of zeros with this shape; zero: a node that is zero. */
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

/* A value of the program that is checked: its expression (node), its placement and, if a loop
 * stacks it, the iterations that it covers: first .. first + extent of that axis. first CERT_ANY:
 * all iterations are equal. The node does not depend on that range. */
#define CERT_ANY INT64_MIN
typedef struct CertValue {
    CertNode *node; /* its expression; NULL: not known yet */
    const CertType *type;
    const char *loop; /* the loop axis along which it covers a range; NULL: none */
    int64_t first;
    /* CertFill by padded axis; of a bucket: of all its members, and of the bytes after them */
    uint8_t fill[CERT_FILLS];
    uint8_t none[16 - CERT_FILLS]; /* always 0: values are compared byte by byte (cert_func.c) */
    /* 1 + the store of which it is all or a part, moved or cast; 0: of none */
    int64_t total;
    /* of a bucket: the path of the stores on which fill[CERT_REST] depends; NULL: none */
    const char *rest;
} CertValue;

typedef struct CertValues {
    CertValue *at;
    uint32_t n;
} CertValues;

/* A sum over all elements of a bucket. It is right only if stores of this path have zeros after the
 * members. */
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
    int64_t stage;                 /* the stage being checked; -1: every stage */
    int64_t behind;                /* position of that stage among the stages of its class */
    struct CertMemo **memo;        /* functions evaluated before, by hash */
    uint32_t n_memos, most_memos;
    /* returns the value of a `param` or `input` op of an entry */
    bool (*source)(CertState *state, const CertOp *op, CertValue *ret_value);
    /* returns the sum over pipeline stages; node NULL: some of its terms are not known yet */
    bool (*across)(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value);
    void *data;
    /* returns the serial node that an accumulated node of a store equals, if there is one */
    CertNode *(*total)(CertState *state, int64_t store, CertNode *node);
    struct CertMeant *meant;
    bool is_serial; /* the program being evaluated is a serial one: it defines the meaning */
    bool numbers;   /* its values have numbers */
    DT_VEC(CertRelied) relied;
};

/* cert_fail.c: reports a reason with the op's place in the text; only the first one is kept.
 * Returns false. */
bool dt_cert_fail(CertState *state, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Lets zeros that no loop has stacked cover the requested iterations. Such zeros are gradients of
 * parameters that the loss does not depend on. */
void dt_certfunc_cover(CertState *state, const char *loop, int64_t first, CertValue *value);
/* Evaluates the function of an entry; ret_results: its results. */
bool dt_certfunc_run(CertState *state, const CertFunc *func, CertValue *ret_results);

/* ---- the serial program, which defines the meaning ---- */

/* A loop of the serial program, with the nodes of what it carries. */
typedef struct CertCarried {
    const char *symbols; /* text that identifies the loop: its place and direction */
    int64_t first, count;
    bool reverse;
    const struct CertCarried *inside; /* the only loop directly inside; NULL: none, or several */
    uint32_t n, n_in;
    CertNode *const *in;                  /* nodes of all operands */
    /* by carried value: initially, before an iteration, after it, after the loop */
    CertNode **from, **at, **made, **out;
} CertCarried;

/* Facts about a serial node. */
typedef struct CertNote {
    const CertCarried *loop;  /* for a carried value: its loop, */
    uint32_t carried;         /* and its number among the loop's carried values */
    bool gradient;            /* it is a gradient: see dt_certstep_gradient */
} CertNote;

/* A serial node with a certain number. One number may belong to several nodes, since a function may
 * be called several times, and a body may belong to several loops. */
typedef struct CertMeaning {
    CertNode *node;
    struct CertMeaning *next;
} CertMeaning;

/* The names of the calls around a function being evaluated, which precede names in it: for paths,
 * for labels. Interned, or "". */
typedef struct CertCalled {
    const char *path, *label;
} CertCalled;

typedef struct CertMeant {
    DtArena *arena;
    uint32_t n; /* by number: the nodes */
    CertMeaning **by_number;
    /* ids up to this one are nodes of the serial program; 0: it is not complete yet */
    uint32_t known;
    DT_VEC(CertCarried *) loops; /* loops of the serial program */
    int64_t symbols;             /* number of values that loops carry so far */
    uint64_t ops;                /* number of ops evaluated so far */
    CertCalled names;            /* names around the function being evaluated */
    const CertCarried *inside;   /* the serial loop whose body is being matched; NULL: none */
    /* in a second serial program: the first op without an equal in the first one, */
    const CertOp *news;
    const CertFunc *news_in;     /* and its function */
    struct DtBoxes *boxes;       /* counts of boxes; NULL: no box was met */
} CertMeant;

/* ---- one op (cert_step.c) ---- */

static inline bool dt_certstep_is_known(const CertState *state, const CertNode *node)
{
    return node->id <= state->meant->known;
}
/* The text prefix.name; either may be "" or NULL. */
const char *dt_certstep_join(const char *prefix, const char *name);
CertNote *dt_certstep_note(CertState *state, CertNode *node);
/* The serial nodes with this number; NULL: there are none. */
const CertMeaning *dt_certstep_numbered(const CertState *state, uint32_t number);
void dt_certstep_number(CertState *state, uint32_t number, CertNode *node);
/* Whether the node is known to be zero. */
bool dt_certstep_is_zero(const CertNode *node);
/* Whether dtype a can represent every number of dtype b. */
bool dt_certstep_is_wider(const char *a, const char *b);
/* Whether the op of the node is linear in operand i. */
bool dt_certstep_is_linear(const CertNode *node, uint32_t i);
/* Evaluates an op that is no call, loop or source, and checks its placement. */
bool dt_certstep_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                    CertValue *out);
/* Records that a serial value is a gradient, with the terms that it adds up. */
void dt_certstep_gradient(CertState *state, CertNode *gradient);
/* The node of a collective's result: x itself or, if x is a gradient that was cast for the
 * exchange, the wider value. total: CertValue.total of x. */
CertNode *dt_certstep_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total);
/* For an op on members of buckets: the serial node for the op with these operands, or a new
 * node. */
CertNode *dt_certstep_member(CertState *state, const CertOp *op, const CertShape *shape,
                             CertNode *const *in, uint32_t index);

/* ---- sums (cert_sum.c) ---- */

static inline bool dt_certsum_is(const CertNode *node)
{
    return node->attributes == dt_certkind_sum;
}
/* The node of the carried value before iteration `position`. */
CertNode *dt_certsum_carried(CertState *state, const CertCarried *loop, uint32_t carried,
                             int64_t position);
/* Whether the loop does nothing but add to the carried value. */
bool dt_certsum_adds(const CertCarried *loop, uint32_t carried);
/* The node of the sum of what iterations lo .. hi add. */
CertNode *dt_certsum_total(CertState *state, const CertCarried *loop, uint32_t carried, int64_t lo,
                           int64_t hi);
/* The serial node for s with a term x in place of operand i, in which s is linear. */
CertNode *dt_certsum_term(CertState *state, CertNode *s, uint32_t i, CertNode *x);
/* A key that ops share if they differ from s in operand i only. An op that accumulates in a wider
 * dtype has a key of its own. */
CertNode *dt_certsum_without(CertState *state, CertNode *s, uint32_t i);
/* Whether x is among the terms of the serial value. */
bool dt_certsum_has(CertState *state, CertNode *want, const CertNode *x);
/* The node for `parts`, whose operand *x may be a range of iterations: then the node is that range,
 * and *x becomes the node of all iterations. */
CertNode *dt_certsum_ranged(CertState *state, CertNode parts, CertNode **x);
/* Whether have equals want, term by term if want is a sum. ret_lacks: have may lack the initial
 * value of a carried value of the loop, which is returned; NULL: it may not. */
bool dt_certsum_equal(CertState *state, CertNode *have, CertNode *want, CertNode **ret_lacks);
/* The node for s without the initial value of the carried value `of`. */
CertNode *dt_certsum_lacking(CertState *state, CertNode *s, CertNode *of);

/* ---- iterations (cert_range.c) ---- */

/* After a program was read: lists its loops. */
void dt_certrange_note(CertProgram *program);
/* The largest number of iterations of a loop over this axis; -1: there is none. */
int64_t dt_certrange_count(const CertState *state, const char *axis);
/* The shape with all iterations for a type whose values cover some iterations of `loop`; NULL:
 * of no loop. */
const CertShape *dt_certrange_all(CertState *state, const CertType *type, const char *loop);
/* Gives the result the operands' range of iterations; false: operands disagree. */
bool dt_certrange_of(const CertOp *op, const CertValue *in, CertValue *ret_value);
/* Makes the iterations that value covers a node of its own. */
void dt_certrange_fix(CertState *state, CertValue *value);
/* For a node that is a range with all iterations of `loop`: the node that it is a range of,
 * which has the same part in every iteration. */
CertNode *dt_certrange_whole(CertNode *node, const CertLoop *loop);
/* Which iterations of its node the value covers along its loop's axis; false: it covers all. */
bool dt_certrange_some(const CertState *state, const CertValue *value, int64_t *ret_lo,
                       int64_t *ret_hi);
/* Whether op is a sum; then over a range of iterations it is a part of the whole sum. */
bool dt_certrange_adds(const CertOp *op);
/* The operands as op needs them: ranges become nodes of their own, unless op treats all iterations
 * alike. */
const CertValue *dt_certrange_settle(CertState *state, const CertOp *op, const CertValue *in);
/* For an expansion along a loop's axis: records that all iterations are equal. */
void dt_certrange_repeat(const CertProgram *program, const CertOp *op, const CertValue *in,
                         CertValue *out);
/* The shape of the node for op's result; for a range of an op that treats iterations alike, the
 * shape with all iterations. */
const CertShape *dt_certrange_shape(CertState *state, const CertOp *op, const CertValue *in,
                                    const CertValue *value);
/* A value that covers all iterations is the same as one that is not stacked, as in a store
 * without loops. */
void dt_certrange_close(const CertState *state, CertValue *value);
/* Whether op, with one result, only slices a range of iterations out of a value or concatenates
 * ranges: then out is that value with its range. */
bool dt_certrange_cut(const CertProgram *program, const CertOp *op, const CertValue *in,
                      CertValue *out);

/* ---- buckets (cert_pack.c) ---- */

bool dt_certpack_is(const CertNode *node);
/* The node of a bucket that an entry reads from its store; `source` makes the node of each member.
 * NULL: members overlap, go past the bucket's end, or differ in iterations. */
CertNode *dt_certpack_store(CertState *state, int64_t bucket,
                            CertNode *(*source)(CertState *state, const CertStore *store));
/* The member at that offset with the layout of the store or type; NULL: there is none. bucket:
 * type of the whole bucket, whose axes other than @split and @bucket count iterations. */
CertNode *dt_certpack_member(CertState *state, const CertNode *node, int64_t offset,
                             const CertType *type, const CertType *bucket);
bool dt_certpack_op(CertState *state, const CertOp *op, const CertValue *in, CertValue *out);
/* Evaluates an op on buckets, member by member. */
bool dt_certpack_map(CertState *state, const CertOp *op, const CertValue *in, uint32_t index,
                     CertValue *out);
/* The same as dt_certstep_moved, for each member. */
CertNode *dt_certpack_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total);
/* The sum of buckets from several pieces or stages, member by member; NULL: their members
 * differ. */
CertNode *dt_certpack_sum(CertState *state, const CertShape *shape, uint32_t n,
                          CertNode *const *in);
CertNode *dt_certpack_each(CertState *state, CertNode *node,
                           CertNode *(*change)(void *data, CertNode *member), void *data);

/* ---- windows over split axes (cert_halo.c) ---- */

/* The attributes of a window or fold, without those that change nothing; NULL: the text is
 * malformed. */
const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in);
/* The node of the window or fold of a whole axis that op, a relabel of x, assembles from parts;
 * NULL: it assembles none. */
CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertShape *shape,
                            uint32_t number);

/* ---- ring calls (cert_ring.c) ---- */

bool dt_certring_is(const CertOp *op);
/* args: the operands as func takes them; operands that do not travel are unchanged. gives: whether
 * the call's result has the placement that follows from that of the function's result. */
const CertValue *dt_certring_args(CertState *state, const CertOp *op, const CertFunc *func,
                                  const CertValue *in);
bool dt_certring_gives(const CertState *state, const CertOp *op, const CertValue *in,
                       const CertType *made, const CertType *have);

/* ---- rules (cert_rule.c) and padding (cert_pad.c) ---- */

/* The axes that a rule refers to: none; those of op->axes or axes2; the first of op->axes; those
 * that relabels merge or make; any. */
typedef enum CertNames { N_NONE, N_AXES, N_AXES2, N_FIRST, N_FROM, N_TO, N_ANY } CertNames;

/* What a rule allows for pending reductions: none; any pass through; sums pass through; they
 * multiply; decided by the rule itself. */
typedef enum CertPending { P_NONE, P_PASS, P_SUMS, P_PRODUCT, P_OWN } CertPending;

/* What the padding of the result contains. */
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

const CertRule *dt_certrule_find(const char *kind); /* The rule for ops of this kind; NULL: there is
                                                     * none. */
/* Whether the types of op's operands and results obey the local rule of its kind; reports why
 * not. */
bool dt_certrule_check(CertState *state, const CertOp *op, const CertValue *in);
/* The axis that is split by exactly these mesh axes, in their order; NULL: there is none. */
const CertAxis *dt_certrule_shifted(const CertType *type, uint16_t mesh);
/* Whether the axes of a from number `skip` on, with splits in which mesh axes `split` were added,
 * and `partial` pending, are all of b. */
bool dt_certrule_same(const CertType *a, uint32_t skip, uint16_t partial, const CertType *b);
const char *const *dt_certrule_names(const CertOp *op, CertNames names, const char **scratch,
                                     uint32_t *ret_n);

/* Whether the padding of operands cannot change the meaning of op. */
bool dt_certpad_check(CertState *state, const CertOp *op, const CertValue *in);
/* Finds out what the padding of a result of op contains; the result's type and node are set. */
void dt_certpad_fill(CertState *state, const CertOp *op, const CertValue *in, CertValue *ret_value);
bool dt_certpad_is_zero(const CertState *state, const CertValue *value);
/* The operand that op returns unchanged except for padding (it selects or slices all logical
 * elements); or NULL. */
CertNode *dt_certpad_identity(const CertOp *op, const CertValue *in);
/* The operand of a `where` that selects all logical elements of it; NULL: it is no such `where`.
 * rank: that of the result. */
CertNode *dt_certpad_selected(const CertOp *op, CertNode *const *in, uint32_t rank);

#endif
