/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ZeRO share: zero.c (which parameters form a bucket, the stores), zero_move.c
 * (changes the placement of a bucket), zero_entry.c (entries that compute gradients or only read
 * parameters), zero_update.c (entries that apply gradients), zero_lint.c (lints on `zero`
 * lines). */
#ifndef DT_PASSES_ZERO_INTERNAL_H
#define DT_PASSES_ZERO_INTERNAL_H

#include "passes/passes.h"

enum { DT_ZERO_KINDS = 16, DT_ZERO_LEVELS = 4 };

/* A bucket: parameters that share stores. The flat axis of a store is split over the first
 * n_split[level] of the mesh axes, where level is the ZeRO level that splits stores of its kind. */
typedef struct DtBucket {
    DT_VEC(DtStore *) members;         /* parameters, in the order in which the bucket holds them */
    DtStore *stores[DT_ZERO_KINDS];    /* by DtStoreKind: the bucket's store; NULL: members have no
                                        * such store */
    uint8_t mesh[DT_MAX_SPLIT];        /* mesh axes that split the bucket, major to minor */
    uint32_t n_mesh, n_split[DT_ZERO_LEVELS];
    /* mesh axes of devices over which the gradients of a micro-batch are pending sums */
    uint16_t pending;
    bool alike;                        /* every rank does the bucket's whole update, on gathered
                                        * values */
    /* the update may leave values other than zero after the members */
    bool filled;
    /* nothing is split; the bucket only serves to sum its gradients by one collective */
    bool plain;
    /* one collective completes its gradients where they are computed */
    bool at_once;
    /* one collective completes its gradients in the last micro-batch (DtStore.terms) */
    bool terms;
    /* the member whose ops in an update represent those of all members */
    uint32_t leader;
    uint32_t n_loops, index;           /* index: in the list of buckets */
    /* elements of one iteration on one rank, before mesh axes split the bucket: with padding,
     * without */
    int64_t extent, bytes;
    DtSpan span;
} DtBucket;

/* A loop body in which gradients are packed; loops with the same old body and equal buckets
 * share it. */
typedef struct DtPackedBody {
    const DtFunc *from;
    DtFunc *made;
    const DtBucket *const *buckets;    /* the n buckets, in the order of their results */
    /* by member of all buckets, one bucket after the other: number of its result in the old body */
    const uint32_t *results;
    uint32_t n;
} DtPackedBody;

typedef struct DtBuckets {
    DtModule *module;
    DtArena *arena;
    DT_VEC(DtBucket *) list;
    /* by index of a member store of any kind; NULL: it is in no bucket */
    DtBucket **of;
    uint32_t ahead;                    /* how many iterations ahead loops gather */
    bool once;                         /* a step has one micro-batch */
    DT_VEC(DtPackedBody) packed;
} DtBuckets;

/* zero.c */
int dt_zero_level(DtStoreKind kind);   /* the level (1, 2 or 3) from which on stores of this kind
                                        * are split */

/* whether two types have the same axes with the same splits */
bool dt_zero_lie_alike(const DtType *a, const DtType *b);

/* zero_move.c: changes the placement of a bucket whose flat axis the first `from` of its mesh axes
 * split: afterwards the first `to` split it. It is gathered or sliced, or reduce-scattered if a sum
 * is pending. why: the reason that reports give for the collectives. */
enum { DT_ZERO_AT_ONCE = 2 }; /* mesh axes of one collective (DT_PLAN_COORDS) */
DtValue *dt_zero_move(DtBuilder *b, const DtBucket *bucket, DtValue *x, uint32_t from, uint32_t to,
                      const char *why);
/* Completes the sum of x over those of the mesh axes over which it is pending, and returns the
 * result. why: the reason that reports give for the collective. */
DtValue *dt_zero_complete(DtBuilder *b, DtValue *x, uint16_t mesh, const char *why);

/* zero_entry.c, zero_update.c */
void dt_zero_entry(DtBuckets *z, DtEntryPoint *entry);
void dt_zero_update(DtBuckets *z, DtEntryPoint *entry);

/* zero_lint.c: each reports lines of one kind. */
/* A line's request to keep optimizer state in the host's memory, which has no effect: on a CPU it
 * is there, and plans for GPUs cannot. */
void dt_zero_lint_offload(const DtBuckets *z, const DtParallelConfig *config, bool for_cpu);
/* Lines whose `prefetch` has no effect, or saves no time. any: some loop gathers ahead; nested: a
 * loop does not, since one in it does. */
void dt_zero_lint_ahead(const DtBuckets *z, const DtParallelConfig *config, bool for_cpu, bool any,
                        bool nested);
/* A line without effect: its mesh axes already split all parameters, or there is no optimizer
 * state. */
void dt_zero_lint_cuts(const DtBuckets *z, const DtParallelConfig *config);
/* Products of matrices in an update (`muon`) that every rank computes for itself. */
void dt_zero_lint_alike(const DtBuckets *z, const DtParallelConfig *config);

#endif
