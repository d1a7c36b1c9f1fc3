/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm of a library computes which product. Algorithms add in different orders, so
 * all ranks must use the same ones, and a resumed run those that it used before: checkpoints
 * store them, and ranks send them to each other. */
#ifndef DT_RUNTIME_ALGORITHMS_H
#define DT_RUNTIME_ALGORITHMS_H

#include "base/arena.h"
#include "base/digest.h"

#include <stdbool.h>
#include <stdint.h>

/* cublasLtMatmulAlgo_t, valid only for the library version that made it */
typedef struct DtAlgorithm {
    uint64_t data[8];
} DtAlgorithm;

typedef struct DtChoice {
    /* digest of the GPU, the library and the product: everything on which the choice depends */
    uint8_t key[DT_DIGEST_BYTES];
    DtAlgorithm algorithm; /* zeros: the library does not support the product's epilogue */
    uint64_t second;       /* 1: a kernel computes the epilogue (forms.h) */
} DtChoice;

typedef struct DtAlgorithms {
    DtChoice *at;
    uint32_t n;
} DtAlgorithms;

enum { DT_ALGORITHMS_MOST = 65536 };

/* Returns the stored choice for the product with this key; NULL: there is none. */
const DtChoice *dt_algorithms_find(const DtAlgorithms *choices, const uint8_t key[DT_DIGEST_BYTES]);
/* Returns a copy that lives as long as the arena. */
DtAlgorithms dt_algorithms_copy(DtArena *arena, const DtAlgorithms *choices);

typedef struct DtRank DtRank;
/* Collective over all ranks: copies the bytes of rank `from` to all others. False: the run must
 * end. */
bool dt_algorithms_tell(DtRank *rank, uint32_t from, void *bytes, size_t len);

#endif
