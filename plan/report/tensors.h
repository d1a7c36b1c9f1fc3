/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a rank that last from step to step, with their gradients and optimizer states,
 * and their placement (tensors.c). */
#ifndef DT_REPORT_TENSORS_H
#define DT_REPORT_TENSORS_H

#include "base/text.h"
#include "plan/plan.h"

/* A parameter or state, with all stores of its pattern (h.#.w). */
typedef struct DtTensor {
    /* the first store; its gradient and optimizer state, or NULL */
    const DtPlanStore *store, *gradient, *optimizer;
    double own, gradients, kept;                     /* bytes on a rank; kept: those of the
                                                      * optimizer's state */
    /* iterations of its outermost loop on the stage; 1 without a loop */
    int64_t iterations;
} DtTensor;

/* The tensors of a stage, largest first; the caller frees the array. */
DtTensor *dt_tensors_of(const DtPlan *plan, uint32_t stage, uint32_t *ret_n);

/* The bucket in which ranks share the store; NULL: each rank keeps all of its part. */
const DtPlanPack *dt_tensors_shared(const DtPlan *plan, const DtPlanStore *store);

/* "[vocab / tensor data, embed]": axes, and the mesh axes that split each; then the mesh axes
 * that split its bucket. */
void dt_tensors_placement(const DtPlan *plan, const DtPlanStore *store, DtText *text);

#endif
