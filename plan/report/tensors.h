/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a rank that last from step to step, with what belongs to them, and how they are placed (tensors.c). */
#ifndef DT_REPORT_TENSORS_H
#define DT_REPORT_TENSORS_H

#include "base/text.h"
#include "plan/plan.h"

/* A parameter or state, with all stores of its pattern (h.#.w). */
typedef struct DtTensor {
    const DtPlanStore *store, *gradient, *optimizer; /* the first one; what belongs to it, if anything does */
    double own, gradients, kept;                     /* bytes on a rank: kept: by the optimizer */
    int64_t iterations;                              /* of its outermost loop that the stage has; 1 without a loop */
} DtTensor;

/* Those of a stage, largest first, in an array of the caller's. */
DtTensor *dt_tensors_of(const DtPlan *plan, uint32_t stage, uint32_t *ret_n);

/* The bucket that ranks share, each of them with a part of the store; NULL: each has all of its part. */
const DtPlanPack *dt_tensors_shared(const DtPlan *plan, const DtPlanStore *store);

/* "[vocab / tensor data, embed]": axes, and the mesh axes that split each; behind it those that split its bucket. */
void dt_tensors_placement(const DtPlan *plan, const DtPlanStore *store, DtText *text);

#endif
