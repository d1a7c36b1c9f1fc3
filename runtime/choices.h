/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm of a library does which product. Algorithms add up in different orders, so ranks have to use the same
 * ones, and a run that goes on those that it used before: checkpoints have them, and ranks tell them to each other. */
#ifndef DT_RUNTIME_CHOICES_H
#define DT_RUNTIME_CHOICES_H

#include "base/arena.h"
#include "base/digest.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtAlgorithm { /* cublasLtMatmulAlgo_t, for nobody but the library that made it, of the same version */
    uint64_t data[8];
} DtAlgorithm;

typedef struct DtChoice {
    uint8_t key[DT_DIGEST_BYTES]; /* of the GPU, the library and the product: all that decides what suits */
    DtAlgorithm algorithm;        /* zeros: the library does not do the product's epilogue */
    uint64_t second;              /* 1: a kernel does the epilogue (forms.h) */
} DtChoice;

typedef struct DtChoices {
    DtChoice *at;
    uint32_t n;
} DtChoices;

enum { DT_CHOICES_MOST = 65536 };

/* NULL: there is none. */
const DtChoice *dt_choices_find(const DtChoices *choices, const uint8_t key[DT_DIGEST_BYTES]);
/* In memory that lasts as long as the arena. */
DtChoices dt_choices_copy(DtArena *arena, const DtChoices *choices);

typedef struct DtRank DtRank;
/* Collective over all ranks: what rank `from` has in these bytes, all have then. False: the run ends. */
bool dt_choices_tell(DtRank *rank, uint32_t from, void *bytes, size_t len);

#endif
