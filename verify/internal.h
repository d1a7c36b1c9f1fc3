/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside verify: programs as the reader delivers them, nodes, values.
 *
 *   cert_text.c  IR text to these structs     cert_node.c  what values mean
 *   cert_step.c  one op                       cert_func.c  functions and loops
 *   cert_rule.c  placements of one op         cert_sum.c   sums, term by term
 *   cert_pack.c  buckets of several values    cert_pad.c   what padding holds
 *   cert_halo.c  windows over split axes      cert_ring.c  calls whose keys travel
 *   cert_range.c iterations                   cert_word.c  words of a line
 *   cert_fail.c  why a program is refused     cert_source.c what an entry reads
 *   cert_entry.c entries are run              cert.c       what they leave is compared */
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
    CERT_REST = CERT_PADDED, /* what a bucket has behind its members if stores have zeros there; */
    CERT_SURE,               /* the same if stores may have anything there */
    CERT_FILLS,
    CERT_STAGES = DT_STAGES_MOST,
    CERT_FUNCS = 256,
    CERT_DEPTH = 1024
};

/* ---- programs (cert_text.c); all names are interned ---- */

typedef struct CertShape CertShape;
typedef struct CertRule CertRule;
typedef struct CertCheck CertCheck; /* cert_rule.c */
typedef struct CertNode CertNode;

typedef struct CertAxis {
    const char *name;
    int64_t extent;               /* over all ranks, padding included */
    int64_t logical;              /* without its padding */
    uint8_t n, split[CERT_SPLIT]; /* mesh axes, major to minor */
    bool zigzag;
    uint8_t padded; /* 1 + the number of the padded axis that it is; 0: none */
} CertAxis;

/* Equal types of a program are one. */
typedef struct CertType {
    const char *dtype;
    uint32_t rank;
    CertAxis axes[CERT_RANK];
    uint16_t partial, split;       /* mesh axes: a reduction is pending over; split an axis */
    const char *pending;           /* "sum", "max", "min"; NULL if nothing is */
    uint16_t padded;               /* which padded axes it has */
    const CertShape *shape, *all; /* dt_certnode_shape, dt_certrange_all */
    const char *all_of, *lies;    /* lies: cert_pack.c */
    const struct CertType *lies_in;
} CertType;

typedef struct CertLoop {
    const char *label, *axis;
    int64_t count, first, carried, invariant, stacked, stacked_out;
    int64_t step; /* of first, from one stage of a class to the next */
    bool reverse;
} CertLoop;

typedef struct CertRange {
    int64_t lo, hi, step, n;
} CertRange;

typedef struct CertRelabel {
    uint32_t n_from, n_to;
    const char *from[CERT_NAMES], *to[CERT_NAMES];
    int64_t extents[CERT_NAMES]; /* of `to` */
} CertRelabel;

typedef struct CertOp {
    const char *kind, *at; /* at: in the text */
    const CertRule *rule;  /* NULL: there is none of its own */
    uint32_t n_in, n_out, first_out, n_axes, n_axes2, n_relabels;
    uint32_t *in;           /* numbers of values */
    const CertType **types; /* of the results */
    const char *axes[CERT_RANK], *axes2[CERT_RANK];
    const char *attributes; /* what of the line changes the meaning, as text */
    const char *text, *path, *reduce, *func;
    double number;
    bool shifts;     /* of a slice or pad: some range begins behind the first element, or leaves some out */
    uint32_t *means; /* of the results: numbers in the serial text, 0: none said */
    int64_t store;   /* -1: none */
    int64_t ahead;   /* iterations before its own in which a gather is done; a plan does so, the meaning is the same */
    CertLoop *loop;
    CertRelabel relabels[CERT_NAMES];
    uint32_t n_ranges;
    CertRange *ranges; /* of a slice, pad, window or fold; the first CERT_RANK */
    uint16_t mesh;
    const char *stages;
} CertOp;

typedef struct CertFunc {
    const char *name;
    const struct CertFunc *same; /* the first function with this text */
    const struct CertFunc *next; /* of those whose names go to the same place */
    uint32_t n_args, n_values, most_in;
    uint32_t first; /* number of its first value, counted over all functions of the text */
    DT_VEC(const CertType *) args;
    DT_VEC(uint32_t) means; /* of the args */
    DT_VEC(CertOp *) ops;
    DT_VEC(uint32_t) results;
} CertFunc;

/* Stores and entries are of every stage (stage -1), of one, or of a class: stages stage .. to. */
typedef struct CertStore {
    const char *kind, *path, *key; /* key: both */
    const char *pattern, *init;    /* init: as text; NULL: none is written */
    const CertType *type;
    int64_t loops, first, step, at, stage, to, of, within, bucket;
    int members;    /* of a bucket: its last member, or -1 */
    int before;     /* of a member: the one before it in the same bucket, or -1 */
    uint32_t place; /* number of the first stage's among all stores of all stages */
    bool terms;     /* its memory is that of all its runs, in which each rank's terms are added up */
    CertNode *node; /* of a source, once it was made */
    CertNode *summed, *total; /* of what is added up: what CertState.total last made another value of, and that */
} CertStore;

/* Whether what has stages stage .. to (stage -1: all of them) is of this one (-1: of all). */
static inline bool dt_cert_on(int64_t stage, int64_t to, int64_t here)
{
    return stage < 0 || (here >= stage && here <= to);
}
static inline bool dt_cert_has(const CertStore *store, int64_t stage)
{
    return dt_cert_on(store->stage, store->to, stage);
}
/* So many stages behind the first of its class. */
static inline int64_t dt_cert_behind(const CertStore *store, int64_t stage)
{
    return store->stage < 0 || stage < 0 ? 0 : stage - store->stage;
}
/* On this stage: number among all stores of all stages; first iteration; what a channel's store receives from there. */
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

/* What a stage receives from another: channel stores of stage `to`. */
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
    DtPlanName is;                /* what its name says */
    const CertFunc *func;
    int64_t stage, to;
    DT_VEC(CertResult) results;
} CertEntry;

/* An axis that is longer than the serial program's. */
typedef struct CertPadded {
    const char *name;
    int64_t logical, extent;
} CertPadded;

/* A loop's axis, and the most iterations that a loop of it has. */
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
    const char *crossing; /* the dtype in which gradients may cross ranks; NULL: their own */
    uint16_t time, pipe;  /* mesh axes: micro-batches; the pipeline's stages */
    CertPadded padded[CERT_PADDED];
    DT_VEC(CertStore) stores;
    const CertFunc *funcs[CERT_FUNCS]; /* by name */
    DT_VEC(CertEntry) entries;
    DT_VEC(CertChannel) channels;
    DT_VEC(CertLoopAxis) loop_axes;
    const struct CertProgram *whole; /* whose loops have all their iterations: the serial program */
    uint32_t n_places;               /* stores of all stages */
    uint32_t n_values;               /* of all functions, and 1 */
} CertProgram;

bool dt_certtext_read(DtArena *arena, const char *text, CertProgram *ret_program, DtText *ret_problem);
/* NULL: there is none of that name, or no name. */
const CertFunc *dt_certtext_func(const CertProgram *program, const char *name);
const CertAxis *dt_certtext_axis(const CertType *type, const char *name);

static inline bool dt_cert_is(const char *a, const char *b) { return strcmp(a, b) == 0; }
static inline bool dt_cert_is_float(const char *dtype) { return dtype[0] == 'f' || strncmp(dtype, "bf", 2) == 0; }
/* The mesh axes that split an axis; whether they split two alike; and these are as long, too. NULL: there is none. */
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
/* The quotient rounded down; by is not 0. */
static inline int64_t dt_cert_down(int64_t a, int64_t by) { return a / by - (a % by != 0 && (a < 0) != (by < 0)); }
/* Order of pointers to stores, for qsort: by key. */
int dt_cert_by_key(const void *a, const void *b);
/* Elements of the axis that a rank has. */
static inline int64_t dt_cert_local(const CertProgram *program, const CertAxis *axis)
{
    int64_t n = axis->extent;
    for (uint32_t s = 0; s < axis->n; s++)
        n /= program->size[axis->split[s]];
    return n;
}

/* ---- nodes (cert_node.c) ---- */

/* The dtype and, sorted by name, the axes of a value; equal ones are one. Along a loop's axis it has all iterations,
 * whichever of them a value covers. */
struct CertShape {
    const char *dtype;
    uint32_t rank;
    const char *axes[CERT_RANK];
    int64_t extents[CERT_RANK];
    const CertShape *next;
};

typedef enum CertAnswer { CERT_UNKNOWN, CERT_YES, CERT_NO } CertAnswer;

struct CertNode {
    const char *kind, *attributes; /* kind: interned, or one of the kinds below; attributes: interned */
    const CertShape *shape;        /* NULL: no value */
    uint32_t n_in, index;          /* index: which result */
    int64_t lo, hi;                /* of a reduction over some iterations: which. 0, 0: over no such, or over all */
    const char *over;              /* and of which axis; NULL: of a loop's own, or over no such */
    CertNode *const *in;
    uint32_t id, mark; /* set by the table */
    CertAnswer zero;   /* noted: whether it stands for zeros */
    CertNode *to;      /* the serial value that it was found to be, or NULL */
    CertNode *next;
    struct CertNote *note; /* of a serial node, below */
};
/* The last three: of sums and terms that are none of the serial program: attributes; kinds. */
extern const char dt_certkind_tuple[], dt_certkind_carried[], dt_certkind_stack[], dt_certkind_at[],
    dt_certkind_total[], dt_certkind_sum[], dt_certkind_term[], dt_certkind_lacks[];

typedef struct CertNodes CertNodes;
CertNodes *dt_certnode_table(DtArena *arena);
/* The node with these parts. */
CertNode *dt_certnode_make(CertNodes *nodes, CertNode parts);
/* The same if it is there; else NULL. How many there are: the last one has that id. */
CertNode *dt_certnode_find(const CertNodes *nodes, const CertNode *parts);
uint32_t dt_certnode_count(const CertNodes *nodes);
/* One without operands; one of one operand. */
CertNode *dt_certnode_leaf(CertNodes *nodes, const char *kind, const char *attributes, const CertShape *shape,
                           uint32_t index);
CertNode *dt_certnode_of(CertNodes *nodes, const char *kind, const char *attributes, const CertShape *shape,
                         CertNode *x);
/* The shape of a type's values. */
const CertShape *dt_certnode_shape(CertNodes *nodes, const CertType *type);
/* shape in another dtype; with an axis of this extent; 0: without it. */
const CertShape *dt_certnode_cast_shape(CertNodes *nodes, const CertShape *shape, const char *dtype);
const CertShape *dt_certnode_resized(CertNodes *nodes, const CertShape *shape, const char *axis, int64_t extent);
int64_t dt_certnode_extent(const CertShape *shape, const char *axis); /* -1: it has no such axis */
/* Whether every element of node is one number, which it is. */
bool dt_certnode_number(const CertNode *node, double *ret_number);
bool dt_certnode_is_zero(const CertNode *node);
/* Zeros of this shape, of a node that is zero. */
CertNode *dt_certnode_zeros(CertNodes *nodes, const CertShape *shape, CertNode *zero);
/* Where two expressions begin to differ, in words. */
void dt_certnode_differ(const CertNode *have, const CertNode *want, DtText *ret_text);

/* ---- values and functions (cert_func.c) ---- */

/* What each element of the padding of an axis is known to hold. */
typedef enum CertFill { CERT_ANYTHING, CERT_ZERO, CERT_LOWEST, CERT_HIGHEST, CERT_POSITIVE } CertFill;

/* A value: what it is, how it lies, and for one that is stacked along a loop which iterations it covers:
 * first .. first + extent of that axis; CERT_ANY: of any, since all are equal. Nodes of stacked values say nothing of
 * the range. */
#define CERT_ANY INT64_MIN
typedef struct CertValue {
    CertNode *node; /* NULL: not known yet */
    const CertType *type;
    const char *loop; /* its loop axis, NULL: none */
    int64_t first;
    uint8_t fill[CERT_FILLS];      /* CertFill by padded axis; of a bucket: of all its members, and behind these */
    uint8_t none[16 - CERT_FILLS]; /* 0: values are compared byte by byte (cert_func.c) */
    int64_t total;                 /* 1 + the store of which it is all or a part, moved or cast; 0: of none */
    const char *rest;              /* of a bucket: path of the stores that fill[CERT_REST] speaks of; NULL: of none */
} CertValue;

typedef struct CertValues {
    CertValue *at;
    uint32_t n;
} CertValues;

/* A sum of all that is in a bucket, which has zeros behind its members if stores of this path do. */
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
    const CertFunc *func;          /* being evaluated */
    uint32_t depth;                /* of calls and loops */
    CertValues frames[CERT_DEPTH]; /* memory of functions, by depth */
    int64_t stage;                 /* -1: of every one */
    int64_t behind;                /* so many stages behind the first of its class */
    struct CertMemo **memo;        /* functions done before, by hash */
    uint32_t n_memos, most_memos;
    /* values of `param` and `input` ops of entries */
    bool (*source)(CertState *state, const CertOp *op, CertValue *ret_value);
    /* the sum over pipeline stages; node NULL while not all of its terms are known */
    bool (*across)(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value);
    void *data;
    /* the serial node that a node of what a store adds up is, if it is */
    CertNode *(*total)(CertState *state, int64_t store, CertNode *node);
    struct CertMeant *meant;
    bool is_serial; /* what it makes is what is meant, */
    bool numbers;   /* by the numbers of its values */
    DT_VEC(CertRelied) relied;
};

/* False, after a reason with the op's place in the text; of several the first one counts. cert_fail.c */
bool dt_cert_fail(CertState *state, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Zeros that no loop has stacked are those of whatever iterations are asked for: the gradients of parameters that
 * nothing is differentiated through. */
void dt_certfunc_cover(CertState *state, const char *loop, int64_t first, CertValue *value);
/* Evaluates the function of an entry. ret_results: one per result. */
bool dt_certfunc_run(CertState *state, const CertFunc *func, CertValue *ret_results);

/* ---- what is meant ---- */

/* A loop of the serial program. */
typedef struct CertCarried {
    const char *symbols; /* where it stands, and its direction */
    int64_t first, count;
    bool reverse;
    const struct CertCarried *inside; /* NULL: none, or several */
    uint32_t n, n_in;
    CertNode *const *in;                  /* all operands */
    CertNode **from, **at, **made, **out; /* of what it carries: its start, before an iteration, after it, behind all */
} CertCarried;

/* What is known of a serial node. */
typedef struct CertNote {
    const CertCarried *loop;  /* of what a loop carries, */
    uint32_t carried;         /* number in it */
    bool gradient;            /* dt_certstep_gradient */
} CertNote;

/* Nodes with one number: a function may be called, and a body belong to a loop, several times. */
typedef struct CertMeaning {
    CertNode *node;
    struct CertMeaning *next;
} CertMeaning;

/* Names that stand before those of ops: of the calls around them; of paths, and of labels. Interned, or "". */
typedef struct CertCalled {
    const char *path, *label;
} CertCalled;

typedef struct CertMeant {
    DtArena *arena;
    uint32_t n; /* numbers */
    CertMeaning **by_number;
    uint32_t known;              /* nodes of the serial program have ids up to this; 0: it is not done */
    DT_VEC(CertCarried *) loops; /* of the serial program */
    int64_t symbols;             /* of all that loops carry */
    uint64_t ops;                /* looked at so far */
    CertCalled names;            /* of the function that is followed */
    const CertCarried *inside;   /* the serial loop whose body it means; NULL: none */
    const CertOp *news;          /* of another serial program: what this one does not make, */
    const CertFunc *news_in;     /* and where */
    struct DtBoxes *boxes;       /* NULL: none were met */
} CertMeant;

/* ---- one op (cert_step.c) ---- */

static inline bool dt_certstep_is_known(const CertState *state, const CertNode *node)
{
    return node->id <= state->meant->known;
}
/* prefix.name; either may be "" or NULL. */
const char *dt_certstep_join(const char *prefix, const char *name);
CertNote *dt_certstep_note(CertState *state, CertNode *node);
/* The serial values of this number; NULL: there are none. */
const CertMeaning *dt_certstep_numbered(const CertState *state, uint32_t number);
void dt_certstep_number(CertState *state, uint32_t number, CertNode *node);
/* Whether it stands for zeros. */
bool dt_certstep_is_zero(const CertNode *node);
/* Whether dtype a has every number of b. */
bool dt_certstep_is_wider(const char *a, const char *b);
/* Whether op is linear in operand i of the node that it makes. */
bool dt_certstep_is_linear(const CertNode *node, uint32_t i);
/* What op, which is no call, loop or source, makes; its placement is checked. */
bool dt_certstep_op(CertState *state, const CertOp *op, const char *context, const CertValue *in, CertValue *out);
/* Notes that a serial value is a gradient, with what it adds up. */
void dt_certstep_gradient(CertState *state, CertNode *gradient);
/* What a collective makes of x: what it was, or, of a gradient that was cast for it, what may be cast back. total:
 * CertValue.total of it. */
CertNode *dt_certstep_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total);
/* An op of members of buckets: the serial op of these operands, or a new node. */
CertNode *dt_certstep_member(CertState *state, const CertOp *op, const CertShape *shape, CertNode *const *in,
                             uint32_t index);

/* ---- sums (cert_sum.c) ---- */

static inline bool dt_certsum_is(const CertNode *node) { return node->attributes == dt_certkind_sum; }
/* What a loop carries at that position, between two iterations. */
CertNode *dt_certsum_carried(CertState *state, const CertCarried *loop, uint32_t carried, int64_t position);
/* Whether it only adds to it. */
bool dt_certsum_adds(const CertCarried *loop, uint32_t carried);
/* What iterations lo .. hi add. */
CertNode *dt_certsum_total(CertState *state, const CertCarried *loop, uint32_t carried, int64_t lo, int64_t hi);
/* What s, linear in operand i, makes of a term x of that operand. */
CertNode *dt_certsum_term(CertState *state, CertNode *s, uint32_t i, CertNode *x);
/* s without its operand i: what all ops are alike that differ in it. One that adds up in another dtype stays what it
 * is. */
CertNode *dt_certsum_without(CertState *state, CertNode *s, uint32_t i);
/* Whether x is among what the serial value adds up. */
bool dt_certsum_has(CertState *state, CertNode *want, const CertNode *x);
/* parts, whose operand *x may be of some iterations: so are they, and *x says which no more. */
CertNode *dt_certsum_ranged(CertState *state, CertNode parts, CertNode **x);
/* Whether have is want, term by term if it is a sum. ret_lacks: it may be what want is but for what a loop began with,
 * of that value which it carries; NULL: it may not. */
bool dt_certsum_equal(CertState *state, CertNode *have, CertNode *want, CertNode **ret_lacks);
/* s, but for what a loop began with, of what it carries as `of`. */
CertNode *dt_certsum_lacking(CertState *state, CertNode *s, CertNode *of);

/* ---- iterations (cert_range.c) ---- */

/* Of a program that was read: which loops it has. */
void dt_certrange_note(CertProgram *program);
/* How many iterations a loop of this axis has, at most; -1: there is none. */
int64_t dt_certrange_count(const CertState *state, const char *axis);
/* The shape of a type's values, which are some iterations of `loop`; NULL: of none. */
const CertShape *dt_certrange_all(CertState *state, const CertType *type, const char *loop);
/* Iterations that the result covers: those of the operands; false: these do not agree. */
bool dt_certrange_of(const CertOp *op, const CertValue *in, CertValue *ret_value);
/* value, some iterations of its node, as a node of its own. */
void dt_certrange_fix(CertState *state, CertValue *value);
/* Of a range that is all iterations of a loop, what it is a range of: both have the same part in each of them. */
CertNode *dt_certrange_whole(CertNode *node, const CertLoop *loop);
/* Which iterations of its node value covers along its loop's axis; false: all. */
bool dt_certrange_some(const CertState *state, const CertValue *value, int64_t *ret_lo, int64_t *ret_hi);
/* Whether op is a sum: of a range of iterations it is a part of that of all. */
bool dt_certrange_adds(const CertOp *op);
/* The operands as op takes them: ranges are values of their own, unless it hands them on. */
const CertValue *dt_certrange_settle(CertState *state, const CertOp *op, const CertValue *in);
/* Notes of an expansion by a loop's axis that all iterations are equal. */
void dt_certrange_repeat(const CertProgram *program, const CertOp *op, const CertValue *in, CertValue *out);
/* The shape of the node that a result of op is; where it is a range of what is made of whole values, that of all. */
const CertShape *dt_certrange_shape(CertState *state, const CertOp *op, const CertValue *in, const CertValue *value);
/* A value of all iterations is one without: as what a store holds that is stacked along no loop. */
void dt_certrange_close(const CertState *state, CertValue *value);
/* Whether op, of one result, only cuts a range of iterations out of a value or puts ranges together: then out is that
 * value, with its range. */
bool dt_certrange_cut(const CertProgram *program, const CertOp *op, const CertValue *in, CertValue *out);

/* ---- buckets (cert_pack.c) ---- */

bool dt_certpack_is(const CertNode *node);
/* A bucket store as a source: source makes the node of a member. NULL: members overlap, end behind it, or have other
 * iterations. */
CertNode *dt_certpack_store(CertState *state, int64_t bucket,
                            CertNode *(*source)(CertState *state, const CertStore *store));
/* The member that begins and lies as the store or type says; NULL: there is none. bucket: the type of the whole,
 * whose axes but @split and @bucket count iterations. */
CertNode *dt_certpack_member(CertState *state, const CertNode *node, int64_t offset, const CertType *type,
                             const CertType *bucket);
bool dt_certpack_op(CertState *state, const CertOp *op, const CertValue *in, CertValue *out);
/* An op on buckets. */
bool dt_certpack_map(CertState *state, const CertOp *op, const CertValue *in, uint32_t index, CertValue *out);
/* dt_certstep_moved, of members. */
CertNode *dt_certpack_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total);
/* The sum of what pieces or stages add, member by member of buckets; NULL: they do not fit. */
CertNode *dt_certpack_sum(CertState *state, const CertShape *shape, uint32_t n, CertNode *const *in);
CertNode *dt_certpack_each(CertState *state, CertNode *node, CertNode *(*change)(void *data, CertNode *member),
                           void *data);

/* ---- windows over split axes (cert_halo.c) ---- */

/* What a window or fold says, without what changes nothing; NULL: it is malformed. */
const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in);
/* The window or fold of a whole axis that op, a relabel of x, puts together from parts; NULL: it does not. */
CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertShape *shape, uint32_t number);

/* ---- ring calls (cert_ring.c) ---- */

bool dt_certring_is(const CertOp *op);
/* The operands as func takes them; those that do not travel as they are. */
const CertValue *dt_certring_args(CertState *state, const CertOp *op, const CertFunc *func, const CertValue *in);
/* Whether what the function makes lies, behind the call, so. */
bool dt_certring_gives(const CertState *state, const CertOp *op, const CertValue *in, const CertType *made,
                       const CertType *have);

/* ---- rules (cert_rule.c) and padding (cert_pad.c) ---- */

/* Axes that a rule speaks of: none; those of op->axes or axes2; the first of op->axes; those that relabels merge or
 * make; any. */
typedef enum CertNames { N_NONE, N_AXES, N_AXES2, N_FIRST, N_FROM, N_TO, N_ANY } CertNames;

/* What a rule says of pending reductions: none may be; they pass, of any kind or sums only; they multiply. */
typedef enum CertPending { P_NONE, P_PASS, P_SUMS, P_PRODUCT, P_OWN } CertPending;

/* What padding holds afterwards. */
typedef enum CertPads {
    F_ANY,    /* anything */
    F_SAME,   /* what operand 0 held */
    F_LOOKUP, /* zero if operand 0 held it, along an axis that the op takes from there as it is */
    F_ZERO,   /* zero if all operands held it */
    F_PRODUCT, /* the same, but other factors may lack the axis */
    F_SUM, F_QUOTIENT, F_WHERE, F_AND, F_LESS /* by a rule of its own (cert_pad.c) */
} CertPads;

struct CertRule {
    const char *kinds; /* names of ops, separated by blanks */
    uint32_t n_in, n_out;
    bool map;              /* element by element, expansion included */
    bool more;             /* operands may be more */
    bool moves;            /* communication: the result is the operand, elsewhere; no other column but own counts */
    CertNames gone, whole; /* axes of operands that the result lacks or has otherwise; that must be whole */
    CertNames made;        /* axes that are new in the result and may be split */
    bool strict;           /* `whole` also if their extent stays as it is */
    CertPending pending;
    uint32_t complete; /* operands without a pending reduction: bits */
    CertPads pads;
    bool (*own)(const CertCheck *check); /* more, or NULL */
};

const CertRule *dt_certrule_find(const char *kind); /* NULL: there is none */
/* Whether the types of op's operands and results obey the local rule of its kind; says why not. */
bool dt_certrule_check(CertState *state, const CertOp *op, const CertValue *in);
/* The axis that is split by just these mesh axes, in their order; NULL: there is none. */
const CertAxis *dt_certrule_shifted(const CertType *type, uint16_t mesh);
/* Whether the axes of a from number `skip` on, split so, and `partial` pending are all of b. */
bool dt_certrule_same(const CertType *a, uint32_t skip, uint16_t partial, const CertType *b);
const char *const *dt_certrule_names(const CertOp *op, CertNames names, const char **scratch, uint32_t *ret_n);

/* Whether op sees nothing of its operands' padding that changes what it means. */
bool dt_certpad_check(CertState *state, const CertOp *op, const CertValue *in);
/* What the padding of a result of op holds: its type and node are set. */
void dt_certpad_fill(CertState *state, const CertOp *op, const CertValue *in, CertValue *ret_value);
bool dt_certpad_is_zero(const CertState *state, const CertValue *value);
/* The operand that op is the identity of on logical values (a selection of all, a slice of all); or NULL. */
CertNode *dt_certpad_identity(const CertOp *op, const CertValue *in);
/* The operand that a `where` of nodes selects all logical elements of; NULL: it does not. rank: of the result. */
CertNode *dt_certpad_selected(const CertOp *op, CertNode *const *in, uint32_t rank);

#endif
