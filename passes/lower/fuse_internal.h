/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that say which ops share a kernel and when it runs. */
#ifndef DT_PASSES_FUSE_INTERNAL_H
#define DT_PASSES_FUSE_INTERNAL_H

#include "passes/lower/fuse.h"

/* A group's space has rows: inner axes, along which reductions of rows sum, and outer axes, over which reductions of
 * columns do, row by row. */
typedef struct DtFuseGroup {
    DT_VEC(uint32_t) ops;      /* positions in the function, ascending */
    const DtType *full;        /* a type with the axes of the whole space; NULL: cannot be fused */
    bool rows, columns;        /* has reductions of them */
    bool apart;                /* of columns only, no value of full size leaves it: one column after the other */
    const char **inner;
    uint32_t n_inner;
    const char *product;       /* what the library does with it; NULL: it is none */
    bool sum_known, behind;    /* has a sum that is known before products, what depends on these */
    uint32_t last;             /* largest position */
    int64_t beside;            /* bytes that lie in memory beside its results since others wait for it */
    uint32_t due;              /* what is due first comes first, once it can */
} DtFuseGroup;

typedef struct DtFusePlaced {
    uint64_t label;
    uint32_t group;
} DtFusePlaced;

typedef enum DtFuseKnown { DT_FUSE_BEHIND, DT_FUSE_KNOWN, DT_FUSE_SUM_KNOWN } DtFuseKnown;

typedef struct DtFusion {
    DtArena *arena;
    const DtTargetLimits *limits;
    const DtFunc *func;
    int64_t spare;                   /* bytes that temporaries may grow by for the sake of a kernel in common */
    int64_t *live, peak;             /* by position: bytes of temporaries before groups that read the same are merged */
    DtValue **equals;                /* dt_cse_equals */
    DtFuseGroup *groups;             /* by position of the first op; merged ones are empty */
    uint32_t *group_of;        /* by position */
    uint32_t *position;        /* by value id: position of the op that makes it; UINT32_MAX: an input */
    uint32_t *reader, *readers; /* value id v is read by ops readers[reader[v] .. reader[v + 1]] */
    bool *is_result;           /* by value id */
    DtFuseKnown *known;        /* by position */
    bool *late;                /* by position, of a union that is looked at: made of sums over rows */
    DtValue **value, **sum;    /* by value id; by position, of a sum over stages: the one before it, else NULL */
    uint32_t *seen, n_seen;    /* by value id: when it was counted last */
    uint32_t *tree, *below;    /* by position: number in the tree of latest operands, and how many are below */
    uint32_t *next, *before;   /* by group: a list in an order in which each comes after what it reads; its head is */
    uint64_t *label;           /* the number of ops. Ascending along the list */
    uint32_t *stamp, now;      /* by group: visited in search number */
    uint32_t *found, n_found;  /* by the last search */
    DtFusePlaced *placed;
    DtFuseAgain **again;       /* by value id: groups that compute it again */
} DtFusion;

/* What op i waits for: operands, and behind these the sum over stages before it: stages come to sums in one order.
 * NULL: nothing more. */
static inline DtValue *dt_fuse_awaited(const DtFusion *f, uint32_t i, uint32_t j)
{
    const DtOp *op = f->func->ops.at[i];
    return j < op->n_in ? op->in[j] : j == op->n_in ? f->sum[i] : NULL;
}

/* ---- fuse_known.c ---- */

/* By position: whether the op depends on products (or waits for a sum), is known before any, or is such a sum, made of
 * one or for one. Reads who reads what (index_readers). */
DtFuseKnown *dt_fuse_known(const DtFusion *f);

/* ---- fuse_cost.c ---- */

enum { DT_FUSE_LARGE = 4 }; /* times fewer elements than a kernel has points: not worth a kernel in common */
typedef enum DtFuseAxes { DT_FUSE_ALL, DT_FUSE_OUTER, DT_FUSE_INNER } DtFuseAxes;

bool dt_fuse_listed(const char *axis, const char *const *list, uint32_t n);
/* Whether type has just these axes of the group's space. */
bool dt_fuse_has_axes(const DtType *type, const DtFuseGroup *g, DtFuseAxes axes);
/* Whether the op at the position is in group a or b. */
bool dt_fuse_in_union(const DtFusion *f, uint32_t position, uint32_t a, uint32_t b);
/* Whether something outside of groups a and b reads the value, or it is a result. */
bool dt_fuse_leaves(const DtFusion *f, const DtValue *value, uint32_t a, uint32_t b);

int64_t dt_fuse_bytes(const DtType *type, const DtMesh *mesh); /* of a rank's part */
/* Bytes that the union of both moves less than the two of them. */
int64_t dt_fuse_saved(DtFusion *f, uint32_t a, uint32_t b);
/* Fills f->live and f->peak. */
void dt_fuse_measure(DtFusion *f);
/* Whether more has to lie in memory if a, which b does not read, runs where b does; ret_beside: bytes that lie beside
 * what b makes and would not otherwise. */
bool dt_fuse_waits(DtFusion *f, uint32_t a, uint32_t b, int64_t *ret_beside);
/* Whether both go along the same axis, or have so much in common that it does not matter; saved: bytes. */
bool dt_fuse_alike(const DtFusion *f, const DtFuseGroup *joined, uint32_t a, uint32_t b, int64_t saved);

/* ---- fuse_cycle.c ---- */

/* Numbers all groups, one for each op, in an order in which they may run. */
void dt_fuse_begin_order(DtFusion *f);
/* Whether a path from a, which b reads, leads to b through another group; else found has all between them that b
 * depends on. */
bool dt_fuse_makes_cycle(DtFusion *f, uint32_t a, uint32_t b);
/* The same of paths that do not lead through `but`. */
bool dt_fuse_depends(DtFusion *f, uint32_t a, uint32_t b, uint32_t but);
/* Group a, which b comes behind, and b are one now, called `keep`; found is of their search. */
void dt_fuse_joined(DtFusion *f, uint32_t a, uint32_t b, uint32_t keep);

/* fuse_again.c: fills `again`. */
void dt_fuse_again(DtFusion *f);
/* Bytes that all kernels read and write. */
int64_t dt_fuse_moved(DtFusion *f);

/* fuse_order.c: numbers the groups so that each comes after what it reads; among those that may come, the one that is
 * due first. ret_group[i]: that of op i. Returns how many there are. */
uint32_t dt_fuse_order(DtFusion *f, uint32_t *ret_group);

/* A product and what its library does besides: positions in the function, ascending. */
enum { DT_EPILOGUE_OPS = 64 };
typedef struct DtFuseProduct {
    uint32_t ops[DT_EPILOGUE_OPS], n;
    const char *text; /* what the op will say of it: that of a row of ir/epilogues.def, or "sum" */
} DtFuseProduct;
/* epilogue.c: those of the function, of these kinds (bits of DtEpilogue). */
uint32_t dt_epilogue_find(const DtFusion *f, uint32_t allowed, DtFuseProduct **ret_products);

#endif
