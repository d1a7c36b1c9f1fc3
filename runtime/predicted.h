/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan predicts for the device for which it was compiled, for a trace (predicted.c). */
#ifndef DT_RUNTIME_PREDICTED_H
#define DT_RUNTIME_PREDICTED_H

#include "base/text.h"
#include "plan/report/simulate.h"

typedef struct DtPredicted {
    DtArena *arena;
    const DtPlan *plan;
    DtCostModel model;
    DtPrices prices;       /* NULL: the plan names no device */
    double step;           /* seconds that the plan predicts; 0: none */
    DtSimulation sim;      /* set when the step is simulated */
} DtPredicted;

void dt_predicted_open(const DtPlan *plan, DtPredicted *ret_predicted);
void dt_predicted_close(DtPredicted *predicted);

/* Predicted seconds by instruction, on a rank of that stage; NULL: the plan names no device. */
const DtPrice *dt_predicted_prices(const DtPredicted *predicted, uint32_t stage);

/* Simulates a step of the first loss, with its slices. False: the simulation does not end, or gives
 * a time that is not a number. */
bool dt_predicted_simulate(DtPredicted *predicted);

/* Where the predicted tracks of a rank are shown: below the other tracks of its process, of which
 * there are `order`. track: the first number that no track of any rank has. begin: when the step
 * begins, in seconds of the trace's clock. */
typedef struct DtPredictedAt { uint32_t process, track, order; double begin; } DtPredictedAt;
void dt_predicted_rank(const DtPredicted *predicted, uint32_t rank, DtPredictedAt at,
                       DtText *ret_text);

#endif
