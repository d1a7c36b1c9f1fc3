/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says of the device that it was priced for, for a trace (predicted.c). */
#ifndef DT_RUNTIME_PREDICTED_H
#define DT_RUNTIME_PREDICTED_H

#include "base/text.h"
#include "plan/report/simulate.h"

typedef struct DtPredicted {
    DtArena *arena;
    const DtPlan *plan;
    DtCostModel model;
    DtPrices prices;       /* NULL: the plan says nothing of a device */
    double step;           /* seconds, as the plan says; 0: it does not */
    DtSimulation sim;      /* once it is simulated */
} DtPredicted;

void dt_predicted_open(const DtPlan *plan, DtPredicted *ret_predicted);
void dt_predicted_close(DtPredicted *predicted);

/* By instruction, on a rank of that stage; NULL: the plan says nothing of a device. */
const DtPrice *dt_predicted_prices(const DtPredicted *predicted, uint32_t stage);

/* A step of the first loss, with its slices; false: it has no end, or none that is a number. */
bool dt_predicted_simulate(DtPredicted *predicted);

/* The place of a rank's predicted tracks: below the tracks of its process, of which `order` are
 * above; track: the first free number of all ranks. begin: seconds on the trace's clock. */
typedef struct DtPredictedAt { uint32_t process, track, order; double begin; } DtPredictedAt;
void dt_predicted_rank(const DtPredicted *predicted, uint32_t rank, DtPredictedAt at,
                       DtText *ret_text);

#endif
