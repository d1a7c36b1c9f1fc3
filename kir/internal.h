/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel as read.c builds it, and declarations shared by the interpreter's files. Fields mean the
 * same as fields of that name in codegen/kernel.h. */
#ifndef DT_KIR_INTERNAL_H
#define DT_KIR_INTERNAL_H

#include "kir/kir.h"

enum {
    KIR_AXES = 16,
    KIR_WIDTH = 64, /* points that are evaluated together */
    KIR_LANES = 16, /* lanes to which the pieces of a reduction are added */
    KIR_MOST_LANES = 8192,
    KIR_MOST_NODES = 4096,
    KIR_MOST_POINTERS = 256,
    KIR_MOST_SUMS = 1 << 24 /* the most elements in all sums that a kernel keeps across its loops */
};
#define KIR_NONE UINT32_MAX

typedef enum KirDtype {
    KIR_BOOL, KIR_U8, KIR_I32, KIR_F32, KIR_F16, KIR_BF16, KIR_DTYPES
} KirDtype;
typedef enum KirPattern {
    KIR_ROW,
    KIR_COLUMN,
    KIR_SCAN,
    KIR_TOPK,
    KIR_SCATTER,
    KIR_ATTEND,
    KIR_PATTERNS
} KirPattern;
typedef enum KirPieces { KIR_WHOLE, KIR_OF_AXIS, KIR_OF_ROWS, KIR_OF_POINTS, KIR_PIECES } KirPieces;
typedef enum KirReduce { KIR_SUM, KIR_MAX, KIR_MIN, KIR_REDUCES } KirReduce;
typedef enum KirNodeKind {
    KIR_CONST,
    KIR_IOTA,
    KIR_INT,
    KIR_RNG,
    KIR_LOAD,
    KIR_MAP,
    KIR_REDUCE,
    KIR_SCORE,
    KIR_NODES
} KirNodeKind;

/* a word of the text, and its number of arguments */
#define KIR_MAPS(X)                                                                           \
    X(neg, 1)                                                                                 \
    X(abs, 1)                                                                                 \
    X(floor, 1) X(exp, 1) X(log, 1) X(sqrt, 1) X(rsqrt, 1) X(sin, 1) X(cos, 1) X(tanh, 1)     \
        X(erf, 1) X(not, 1) X(stop, 1) X(cast, 1) X(add, 2) X(sub, 2) X(mul, 2) X(div, 2)     \
            X(floordiv, 2) X(mod, 2) X(pow, 2) X(max, 2) X(min, 2) X(lt, 2) X(le, 2) X(eq, 2) \
                X(ne, 2) X(and, 2) X(or, 2) X(where, 3)
typedef enum KirMap {
#define X(name, n) KIR_##name,
    KIR_MAPS(X)
#undef X
        KIR_MAP_KINDS
} KirMap;

typedef union KirCell {
    float f; /* applies to floats of any dtype */
    int32_t i;
} KirCell;

typedef struct KirIndex {
    int64_t stride, base, coef[KIR_AXES], div, mod,
        extent; /* div, mod: 0: none; extent -1: no guard */
    bool exact;
    uint32_t node, bases;
} KirIndex;

typedef struct KirNode {
    KirNodeKind kind;
    KirDtype dtype;
    KirMap map;
    KirReduce reduce;
    uint32_t n_args, args[3];
    float number;
    uint32_t integer, step, iteration, n_more, more[5], draws;
    uint64_t key;
    uint32_t pointer, n_index;
    int64_t offset, coef[KIR_AXES];
    KirIndex *index;
    bool after_rows, live;
    uint32_t axes, phase;
    KirCell *value;  /* KIR_WIDTH values, at the points being evaluated */
    KirCell *sum;    /* of a reduction: its lanes; of a sum over rows: its elements */
    KirCell *pieces; /* for each lane, or element: KIR_LANES lanes of pieces */
} KirNode;

typedef struct KirStore {
    uint32_t pointer, node;
    int64_t offset, stride[KIR_AXES];
    bool accumulate, indices; /* indices found by top-k */
    uint32_t axes, phase;
} KirStore;

typedef struct KirTarget {
    uint32_t node, bases;
    int64_t extent, stride;
} KirTarget;

typedef struct KirRows {
    uint32_t pointer, depth;
    int64_t offset, stride[KIR_AXES], along;
} KirRows;

typedef struct KirScore {
    uint32_t node;
    KirRows query, key;
} KirScore;

typedef struct KirSum {
    uint32_t node, away;
    KirDtype dtype;
    bool over_keys, accumulate;
    KirRows of, to;
    float *sums; /* the operand's elements: [shared axes that it has][keys][depth], or [depth] */
} KirSum;

typedef struct KirList {
    uint32_t n, *at;
} KirList;

struct DtKirKernel {
    char symbol[64];
    KirPattern pattern;
    uint32_t n_axes, n_outer, n_pointers, n_integers, n_nodes, n_stores, n_targets, n_scores,
        n_sums;
    int64_t extent[KIR_AXES];
    KirDtype pointer[KIR_MOST_POINTERS];
    KirPieces pieces_of;
    uint32_t piece_axis, n_lanes, last_phase;
    bool in_pairs; /* true: lanes are combined by pairs; false: by halves */
    int64_t pieces, piece,
        special; /* of a scan: it goes backwards; of top-k: how many elements */
    KirNode *nodes;
    KirStore *stores;
    KirTarget *targets;
    KirScore *scores;
    KirSum *sums;
    /* filled by prepare.c: */
    uint32_t first_inner;
    KirList *scalars,
        *points; /* by phase: nodes that depend on outer axes only; other nodes that its points
                  * need */
    KirList final;      /* nodes that are evaluated once all reductions are known */
    int64_t n_row_sums; /* number of elements of a sum over rows */
    KirCell *by_index;  /* SCATTER in pieces: [places x items] sums, each with KIR_LANES lanes */
    /* state of a run: */
    const DtKirCall *call;
    int64_t i[KIR_AXES];
    uint32_t along; /* the axis along which neighbouring points are evaluated together */
    bool strayed;   /* true after an access outside of a range, or too many points: every loop
                     * ends */
    int64_t spent;  /* points and elements processed so far */
};

/* prepare.c; false: the kernel needs more memory than allowed */
bool dt_kir_prepare(DtKirKernel *k);
/* Whether the node is a reduction along rows that is summed in this phase; whether it is a sum over
 * rows. */
bool dt_kir_reduces_at(const DtKirKernel *k, uint32_t node, uint32_t phase);
bool dt_kir_adds_at(const DtKirKernel *k, uint32_t node, uint32_t phase);    /* a sum over rows */
bool dt_kir_stores_at(const DtKirKernel *k, uint32_t store, uint32_t phase, bool points);
uint32_t
dt_kir_kept(const DtKirKernel *k); /* the axes that are not indexed in the result of a sum by
                                    * index */

/* Multiply and add indices without overflow errors: in a hostile text positions wrap around, and
 * every access is checked. */
static inline int64_t dt_kir_times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline int64_t dt_kir_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Counts n more points or elements that the kernel has processed. Marks it as strayed if a hostile
 * text makes it process too many. */
static inline void dt_kir_spend(DtKirKernel *k, int64_t n)
{
    k->spent += k->call->most ? n : 0;
    k->strayed = k->strayed || k->spent > k->call->most;
}

/* eval.c: evaluates the nodes of the list at w points from k->i on. */
void dt_kir_eval(DtKirKernel *k, const KirList *list, uint32_t w);
void dt_kir_store(DtKirKernel *k, const KirStore *store, uint32_t w);
void dt_kir_spread(KirNode *node); /* copies the first point's value to all others */
int64_t dt_kir_affine(const DtKirKernel *k, int64_t base, const int64_t *coef);
bool dt_kir_is_float(KirDtype dtype);
float dt_kir_round(KirDtype dtype, float x);
/* Reads one element of a pointer. Outside of its range, the kernel is marked as failed and 0 is
 * read. */
KirCell dt_kir_get(DtKirKernel *k, uint32_t pointer, int64_t at);
void dt_kir_put(DtKirKernel *k, uint32_t pointer, int64_t at, KirCell x, bool is_float,
                bool accumulate);

/* From top to bottom: sets cells to the identity; combines x into to; combines n lanes to one;
 * combines the lanes of pieces. */
void dt_kir_begin(const KirNode *node, KirCell *cells, int64_t n);
void dt_kir_combine(const KirNode *node, KirCell *to, KirCell x);
KirCell dt_kir_tree(const DtKirKernel *k, const KirNode *node, KirCell *lanes);
KirCell dt_kir_join(const KirNode *node, const KirCell *pieces);
bool dt_kir_before(float a, int64_t i, float b, int64_t j); /* whether a comes before b in the order
                                                             * of top-k */

/* run.c: moves the indices of axes from <= a < to to the next point, in row-major order. False
 * after the last point, when all of them are 0 again. */
bool dt_kir_next(DtKirKernel *k, uint32_t from, uint32_t to);

void dt_kir_attend(DtKirKernel *k); /* attend.c */

#endif
