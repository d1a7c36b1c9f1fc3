/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun --prune PATTERN=WHAT: sets the smallest elements of parameters to zero while a checkpoint
 * is loaded (prune.c). `keep_zeros` of a train block keeps these zeros in training. */
#ifndef DT_RUNTIME_PRUNE_H
#define DT_RUNTIME_PRUNE_H

#include "runtime/checkpoint.h"
#include "runtime/rank.h"

/* Which elements of a tensor become zero. */
typedef struct DtPrune {
    int64_t kept, of;      /* of each `of` neighbours along an axis the `kept` largest stay; of 0:
                            * `least` decides */
    int64_t extent, stride; /* of that axis, in elements of the logical tensor */
    double share;          /* of 0: part of the elements that become zero */
    uint32_t least;        /* bits of the smallest magnitude that stays, as f32; 0: not known yet */
} DtPrune;

/* Checks the form of the text of an option, without a plan. */
DtStatus dt_prune_check(const char *option);

/* Finds for each wanted tensor what --prune says of it; NULL: nothing. Fails if a pattern matches
 * none, or an axis does not fit. Rank 0 notes which copies of parameters are pruned. originals:
 * copies take the tensors, and so the names, of their originals. ret_prunes: one for each of the
 * tensors. */
DtStatus dt_prune_list(DtArena *memory, const DtRunOptions *options, const DtWanted *wanted,
                       bool originals, DtPrune ***ret_prunes);

/* Sets prune->least, which takes one look at all elements. */
void dt_prune_measure(DtPrune *prune, const DtTensor *tensor);

/* Sets to zero those of the tensor's elements number piece.first .. that become zero; values: the
 * same elements, in a float dtype. Elements that are equal to the smallest one that stays by share
 * stay too; of neighbours of equal magnitude those that come first. Needs dt_prune_measure. */
void dt_prune_piece(const DtPrune *prune, const DtTensor *tensor, DtPiece piece, void *values,
                    DtPlanDtype dtype);

#endif
