/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic loss scale (Micikevicius et al., Mixed Precision Training, 2018). The plan multiplies
 * the loss by it before it differentiates, divides the gradients again in "update", and there skips
 * a step whose gradient norm is not finite. Here it is halved after such a step and doubled after
 * 2000 good ones, so that gradients use the upper end of the range of 16 bits. It is a power of
 * two: scaling rounds nothing that does not overflow or vanish. Norms are equal on all ranks, hence
 * so is the scale. */
#include "runtime/runtime.h"

#include <math.h>
#include <string.h>

static const double first_factor = 65536, least_factor = 1, largest_factor = 0x1p60;
enum { PATIENCE = 2000 }; /* number of good updates before the scale grows */

void dt_scale_begin(const DtPlan *plan, DtScale *ret_scale)
{
    *ret_scale = (DtScale){.factor = first_factor};
    for (uint32_t i = 0; i < plan->n_scalars; i++)
        if (strcmp(dt_plan_str(plan, plan->scalars[i].name), "@loss_scale") == 0)
            ret_scale->is_dynamic = true;
}

bool dt_scale_step(DtScale *scale, double grad_norm)
{
    scale->was_skipped = !isfinite(grad_norm);
    if (!scale->was_skipped) {
        if (scale->is_dynamic && ++scale->good == PATIENCE) {
            scale->good = 0;
            if (scale->factor < largest_factor)
                scale->factor *= 2;
        }
        return true;
    }
    if (!scale->is_dynamic || scale->factor <= least_factor)
        return false;
    scale->factor /= 2;
    scale->good = 0;
    scale->skipped++;
    return true;
}

void dt_scale_resume(DtScale *scale, const DtScale *saved)
{
    if (!scale->is_dynamic || !saved->is_dynamic)
        return;
    scale->factor = saved->factor;
    scale->good = saved->good;
    scale->skipped = saved->skipped;
}

bool dt_scale_is_valid(const DtScale *scale)
{
    int exponent;
    return scale->factor >= least_factor && scale->factor <= largest_factor &&
           frexp(scale->factor, &exponent) == 0.5 && scale->good >= 0 && scale->good < PATIENCE &&
           scale->skipped >= 0;
}
