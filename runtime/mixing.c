/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas: the entries "mix" of a plan (passes/replicas/mix.c). In which of several ways replicas
 * exchange parameters is drawn by seed and step, so all ranks take the same one, and a resumed run
 * goes on with the draws of one that was not stopped. */
#include "runtime/mixing.h"

#include "base/pairs.h"
#include "plan/name.h"

bool dt_mixing_step(DtRank *rank)
{
    const DtPlanMeta *meta = rank->plan->meta;
    char name[DT_PLAN_MIX_NAME];
    if (meta->mix_every == 0)
        return true;
    rank->moved = true;
    if ((rank->step + 1) % meta->mix_every != 0)
        return true;
    dt_plan_name_mix(meta->mix_ways, dt_pairs_draw(meta->seed, rank->step, meta->mix_ways), name);
    return dt_exec_entry(rank, name);
}

bool dt_mixing_average(DtRank *rank)
{
    const DtRunOptions *options = rank->options;
    if (rank->plan->meta->mix_every == 0 || options->eval || dt_run_predicts(options) ||
        (!rank->moved && !options->trial))
        return true;
    rank->moved = false;
    return dt_exec_entry(rank, "mix@average");
}

bool dt_mixing_begin(DtRank *rank)
{
    return rank->plan->meta->mix_every == 0 || dt_exec_entry(rank, "mix@spread");
}
