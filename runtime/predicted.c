/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted times, for the progress line and for traces. The plan contains the constants of the
 * device for which it was compiled. Prices of instructions and the simulated step are computed from
 * these, as in a report of dtc (plan/report/), so both agree. The run may use another device. */
#include "runtime/predicted.h"

#include "plan/report/device.h"
#include "plan/report/nodes.h"
#include "plan/report/trace.h"
#include "runtime/rank.h"

#include <math.h>

void dt_predicted_open(const DtPlan *plan, DtPredicted *ret_predicted)
{
    DtPredicted *p = ret_predicted;
    *p = (DtPredicted){.arena = dt_arena_new(), .plan = plan};
    if (!dt_device_read(p->arena, plan, &p->model))
        return;
    p->prices = dt_price_plan(p->arena, plan, &p->model);
    const double step = plan->n_predictions ? plan->predictions->step : 0;
    p->step = isfinite(step) && step > 1e-9 ? step : 0; /* no real machine is faster than this */
}

const DtPrice *dt_predicted_prices(const DtPredicted *predicted, uint32_t stage)
{
    return predicted->prices ? predicted->prices[stage] : NULL;
}

void dt_predicted_close(DtPredicted *predicted) { dt_arena_free(predicted->arena); }

bool dt_predicted_simulate(DtPredicted *predicted)
{
    DtPredicted *p = predicted;
    const DtSimulateOptions options = {.slices = true, .insts = true};
    if (!p->prices || p->plan->n_objectives == 0)
        return false;
    dt_simulate(p->arena, p->plan, &p->model, p->prices, &options, &p->sim);
    return !p->sim.stuck && isfinite(p->sim.seconds);
}

void dt_predicted_rank(const DtPredicted *predicted, uint32_t rank, DtPredictedAt at,
                       DtText *ret_text)
{
    const uint32_t stage = dt_rank_stage(predicted->plan, rank);
    char prefix[80];
    snprintf(prefix, sizeof prefix, "predicted for %.60s: ",
             dt_nodes_say_stage(predicted->arena, predicted->plan, &predicted->model, stage));
    dt_trace_stage(&(DtTraceStage){.plan = predicted->plan,
                                   .prices = dt_predicted_prices(predicted, stage),
                                   .sim = &predicted->sim, .stage = stage, .process = at.process,
                                   .track = at.track + rank * dt_trace_tracks(predicted->plan),
                                   .order = at.order, .begin = at.begin, .prefix = prefix},
                   ret_text);
}
