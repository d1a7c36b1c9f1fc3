/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that decide which ops share a kernel and when it runs. */
#ifndef DT_PASSES_FUSE_INTERNAL_H
#define DT_PASSES_FUSE_INTERNAL_H

#include "passes/lower/fuse.h"

/* The index space of a group has inner axes, which row reductions sum, and outer axes, which
 * column reductions sum row by row. */
typedef struct DtFuseGroup {
    DT_VEC(uint32_t) ops;      /* positions in the function, ascending */
    /* a type with the axes of the whole space; NULL: the op cannot be fused */
    const DtType *full;
    bool rows, columns;        /* rows: has reductions along rows; columns: has sums over rows */
    /* has only column reductions and stores no value of full size: it works column by column */
    bool apart;
    const char **inner;
    uint32_t n_inner;
    const char *product;       /* the epilogue of the library call; NULL: it is no product */
    /* has a sum that is complete before any product; has ops that depend on products */
    bool sum_known, behind;
    uint32_t last;             /* largest position of its ops */
    int64_t beside;            /* bytes of other values that stay alive because their consumers
                                * depend on this group */
    /* position by which its results are needed: the group with the smallest comes first */
    uint32_t due;
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
    int64_t spare;                   /* bytes by which a shared kernel may increase temporaries */
    /* live: by position, the bytes of temporaries before merging groups that read the same values;
     * peak: their maximum */
    int64_t *live, peak;
    DtValue **equals;                /* by value id: an equal value (dt_cse_equals) */
    DtFuseGroup *groups;             /* by position of the first op; merged ones are empty */
    uint32_t *group_of;        /* by position of an op: its group */
    uint32_t *position;        /* by value id: position of the op that makes it; UINT32_MAX: an
                                * input */
    uint32_t *reader, *readers; /* value id v is read by ops readers[reader[v] .. reader[v + 1]] */
    bool *is_result;           /* by value id */
    DtFuseKnown *known;        /* by position */
    /* by position, of a union being examined: computed from sums over rows */
    bool *after_rows;
    /* value: by value id. sum: by position of a sum over stages, the previous sum over stages; else
     * NULL */
    DtValue **value, **sum;
    uint32_t *seen, n_seen;    /* by value id: number of the last traversal that saw the value */
    /* by position: the op's number in the tree of latest operands, and the number of ops below it
     * there */
    uint32_t *tree, *below;
    /* by group: links of a list in which each group comes after the groups that it reads; */
    uint32_t *next, *before;
    uint64_t *label;           /* the list's head is entry `number of ops`. Labels ascend along the
                                * list */
    uint32_t *stamp, now;      /* by group: number of the search that visited it last */
    uint32_t *found, n_found;  /* groups found by the last search */
    DtFusePlaced *placed;
    DtFuseRecompute **recomputed;       /* by value id: groups that recompute it */
} DtFusion;

/* Returns value number j that op i waits for: its operands and then, for a sum over stages, the
 * previous sum over stages, since all stages must do these sums in the same order. NULL if j is
 * past the end. */
static inline DtValue *dt_fuse_awaited(const DtFusion *f, uint32_t i, uint32_t j)
{
    const DtOp *op = f->func->ops.at[i];
    return j < op->n_in ? op->in[j] : j == op->n_in ? f->sum[i] : NULL;
}

/* ---- fuse_known.c ---- */

/* By position, how an op relates to products: it depends on one (or on a sum over stages); it is
 * known before any product; or it is such a known sum, or only serves to compute or use one.
 * Requires the index of readers. */
DtFuseKnown *dt_fuse_known(const DtFusion *f);

/* ---- fuse_cost.c ---- */

/* a group with so many times fewer elements than a kernel has points is not worth sharing the
 * kernel */
enum { DT_FUSE_LARGE = 4 };
typedef enum DtFuseAxes { DT_FUSE_ALL, DT_FUSE_OUTER, DT_FUSE_INNER } DtFuseAxes;

bool dt_fuse_listed(const char *axis, const char *const *list, uint32_t n);
/* Whether type has exactly these axes of the group's space. */
bool dt_fuse_has_axes(const DtType *type, const DtFuseGroup *g, DtFuseAxes axes);
/* Whether the op at the position is in group a or b. */
bool dt_fuse_in_union(const DtFusion *f, uint32_t position, uint32_t a, uint32_t b);
/* Whether an op outside of groups a and b reads the value, or the value is a result. */
bool dt_fuse_leaves(const DtFusion *f, const DtValue *value, uint32_t a, uint32_t b);

/* bytes of a rank's part of a value */
int64_t dt_fuse_bytes(const DtType *type, const DtMesh *mesh);
/* How many bytes less the union moves than both groups alone. */
int64_t dt_fuse_saved(DtFusion *f, uint32_t a, uint32_t b);
/* Fills f->live and f->peak. */
void dt_fuse_measure(DtFusion *f);
/* Whether temporaries grow if group a, which b does not read, runs at the place of b.
 * ret_beside: bytes that stay alive together with the results of b and would not otherwise. */
bool dt_fuse_waits(DtFusion *f, uint32_t a, uint32_t b, int64_t *ret_beside);
/* Whether both groups run along the same axis, or share so much that it does not matter; saved:
 * bytes. */
bool dt_fuse_alike(const DtFusion *f, const DtFuseGroup *joined, uint32_t a, uint32_t b,
                   int64_t saved);

/* ---- fuse_cycle.c ---- */

/* Orders all groups, one per op, so that each comes after the groups that it reads. */
void dt_fuse_begin_order(DtFusion *f);
/* Whether b, which reads a, also depends on a through another group; otherwise `found` has all
 * groups between them on which b depends. */
bool dt_fuse_makes_cycle(DtFusion *f, uint32_t a, uint32_t b);
/* Like dt_fuse_makes_cycle, for dependences that do not go through group `but`. */
bool dt_fuse_depends(DtFusion *f, uint32_t a, uint32_t b, uint32_t but);
/* Records that groups a and b, which comes after a, are one now, called `keep`; `found` is from
 * their search. */
void dt_fuse_joined(DtFusion *f, uint32_t a, uint32_t b, uint32_t keep);

/* fuse_recompute.c: finds values that groups should compute again instead of reading, and fills
 * f->recomputed. */
void dt_fuse_recompute(DtFusion *f);
/* Bytes that all kernels together read and write. */
int64_t dt_fuse_moved(DtFusion *f);

/* fuse_order.c: numbers the groups so that each comes after the groups that it reads, and
 * otherwise by `due`. ret_group[i]: number of the group of op i. Returns the number of groups. */
uint32_t dt_fuse_order(DtFusion *f, uint32_t *ret_group);

/* A product with its epilogue: positions in the function, ascending. */
enum { DT_EPILOGUE_OPS = 64 };
typedef struct DtFuseProduct {
    uint32_t ops[DT_EPILOGUE_OPS], n;
    const char *text; /* the text of the op: that of a row of ir/epilogues.def, or "sum" */
} DtFuseProduct;
/* epilogue.c: finds the products of the function with these epilogues (bits of DtEpilogue). */
uint32_t dt_epilogue_find(const DtFusion *f, uint32_t allowed, DtFuseProduct **ret_products);

#endif
