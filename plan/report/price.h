/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of each instruction of a plan on a device (price.c). */
#ifndef DT_REPORT_PRICE_H
#define DT_REPORT_PRICE_H

#include "base/arena.h"
#include "cost/cost.h"
#include "plan/plan.h"

/* The purposes on which a rank spends time. */
typedef enum DtTime {
#define DT_TIME(id, name, meaning) DT_TIME_##id,
#include "plan/report/times.def"
#undef DT_TIME
    DT_TIMES
} DtTime;
typedef struct DtTimeRow { const char *name, *meaning; } DtTimeRow;
extern const DtTimeRow dt_price_times[DT_TIMES];

typedef struct DtPrice {
    double seconds;
    uint8_t time;  /* DtTime */
    uint8_t cost;  /* by DtTime: the DtCostKind whose uncertainty it has */
} DtPrice;

/* How the ranks of a group are placed: their number, how many are on one node, and on how many
 * nodes they are. */
typedef struct DtSpread { int64_t ranks, per_node, nodes; } DtSpread;
DtSpread dt_price_spread(const DtPlan *plan, uint32_t mask, int64_t node);

/* Whether a message from one stage to the other goes to another node. */
bool dt_price_crosses(const DtPlan *plan, const DtPlanChannel *channel, int64_t node);

/* The bytes that a READ copies. */
int64_t dt_price_read_bytes(const DtPlan *plan, const DtPlanInst *inst);

/* The operation that an instruction computes; false: it only moves data between ranks, reads or
 * waits. */
bool dt_price_op(const DtPlan *plan, const DtPlanInst *inst, DtCostOp *ret_op);

/* By stage, then by instruction, in the arena: for the device of the stage, or the slowest one if
 * its ranks have several kinds. Equal stages share an array. A WAIT has no price of its own, nor
 * does a READ on a GPU. */
typedef const DtPrice *const *DtPrices;
DtPrices dt_price_plan(DtArena *arena, const DtPlan *plan, const DtCostModel *model);

/* Peak of products of that dtype in FLOP/s per device, the mean over ranks; 0: the device has
 * none. */
double dt_price_peak(const DtPlan *plan, const DtCostModel *model, uint32_t dtype);
/* The name for products of that dtype: "bf16"; "tf32" if f32 is rounded to it. */
const char *dt_price_product(const DtPlan *plan, uint32_t dtype);
/* The dtype of the products with most operations in a step. */
uint32_t dt_price_dtype(const DtPlan *plan);

#endif
