/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ZeRO share: zero.c (which parameters form a bucket, the stores), zero_move.c (a bucket
 * between its placements), zero_entry.c (entries that compute gradients or only read parameters),
 * zero_update.c (entries that apply gradients). */
#ifndef DT_PASSES_ZERO_INTERNAL_H
#define DT_PASSES_ZERO_INTERNAL_H

#include "passes/passes.h"

enum { DT_ZERO_KINDS = 16, DT_ZERO_LEVELS = 4 };

/* Parameters that share stores. The flat axis of a store is split over the first n_split[level] of the mesh
 * axes, level being that which splits stores of its kind. */
typedef struct DtBucket {
    DT_VEC(DtStore *) members;         /* parameters, in the order in which the bucket holds them */
    DtStore *stores[DT_ZERO_KINDS];    /* by DtStoreKind; NULL where members have none */
    uint8_t mesh[DT_MAX_SPLIT];        /* major to minor */
    uint32_t n_mesh, n_split[DT_ZERO_LEVELS];
    uint16_t pending;                  /* mesh axes of devices over which a micro-batch's gradients are sums */
    bool alike;                        /* in the update every rank makes the same products of it */
    bool filled;                       /* the update may store something else than zeros behind the members */
    bool plain;                        /* nothing is cut: a bucket of gradients alone */
    bool at_once;                      /* its gradients are complete where they are made, by one exchange */
    bool terms;                        /* by one exchange in the last micro-batch (DtStore.terms) */
    uint32_t leader;                   /* the member whose ops in an update stand for all */
    uint32_t n_loops, index;           /* index: in the list of buckets */
    int64_t extent, bytes;             /* of one iteration on one rank before the mesh axes split it; padded, not
                                        * padded */
    DtSpan span;
} DtBucket;

/* A loop's body in which gradients are packed: others of the same body that pack alike have it, too. */
typedef struct DtPackedBody {
    const DtFunc *from;
    DtFunc *made;
    const DtBucket *const *buckets;    /* n of them, one behind the other */
    const uint32_t *results;           /* of the old body: their members, all behind each other */
    uint32_t n;
} DtPackedBody;

typedef struct DtBuckets {
    DtModule *module;
    DtArena *arena;
    DT_VEC(DtBucket *) list;
    DtBucket **of;                     /* by index of a member store of any kind; NULL: in no bucket */
    uint32_t ahead;                    /* iterations that loops gather ahead */
    bool once;                         /* a step has one micro-batch */
    DT_VEC(DtPackedBody) packed;
} DtBuckets;

/* zero.c */
int dt_zero_level(DtStoreKind kind);   /* 1, 2 or 3: which level splits stores of this kind */

bool dt_zero_lie_alike(const DtType *a, const DtType *b); /* the same axes, split alike */

/* zero_move.c: a bucket whose flat axis the first `from` of its mesh axes split, so that the first `to` split it:
 * gathered, cut, or, where a sum is pending, reduced and cut. why: the reason that collectives give. */
enum { DT_ZERO_AT_ONCE = 2 }; /* mesh axes of one collective (DT_PLAN_COORDS) */
DtValue *dt_zero_move(DtBuilder *b, const DtBucket *bucket, DtValue *x, uint32_t from, uint32_t to, const char *why);
/* What is still pending of x over these mesh axes, summed. */
DtValue *dt_zero_complete(DtBuilder *b, DtValue *x, uint16_t mesh, const char *why);

/* zero_entry.c, zero_update.c */
void dt_zero_entry(DtBuckets *z, DtEntryPoint *entry);
void dt_zero_update(DtBuckets *z, DtEntryPoint *entry);

#endif
