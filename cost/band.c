/* SPDX-License-Identifier: Apache-2.0 */
/* The uncertainty of predictions. Times of one kind have correlated errors, kinds independent
 * ones; and the same program is a few percent faster or slower with another release of the same
 * software, which no model of shapes can know. */
#include "cost/cost.h"

#include <math.h>

/* four of five values of a normal distribution are within so many standard deviations */
static const double FOUR_OF_FIVE = 1.2816;

double dt_cost_within(const DtCostModel *model, DtCostKind kind)
{
    static const DtCostConstantId constants[DT_COST_KINDS] = {
        [DT_COST_KIND_PRODUCT] = DT_COST_product,       [DT_COST_KIND_KERNEL] = DT_COST_memory,
        [DT_COST_KIND_ATTENTION] = DT_COST_attention_forward, [DT_COST_KIND_LINK] = DT_COST_link,
        [DT_COST_KIND_NETWORK] = DT_COST_net,           [DT_COST_KIND_MESSAGE] = DT_COST_message,
    };
    const DtCostConstantId id =
        kind == DT_COST_KIND_FIXED ? dt_cost_step_constant(model) : constants[kind];
    return model->device->at[id].within;
}

double dt_cost_band(const DtCostModel *model, const double exposed[DT_COST_KINDS])
{
    double step = 0, square = 0;
    for (int i = 0; i < DT_COST_KINDS; i++)
        step += exposed[i];
    if (step <= 0)
        return 0;
    for (int i = 0; i < DT_COST_KINDS; i++) {
        const double part = exposed[i] / step * dt_cost_within(model, (DtCostKind)i);
        square += part * part;
    }
    const double release = dt_cost_constant(model, DT_COST_release);
    return FOUR_OF_FIVE * sqrt(square + release * release);
}
