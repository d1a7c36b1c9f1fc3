/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluation with the lowest held-out loss: `eval = every(200, data = .., patience = 3,
 * keep_best = true)`. Of several losses the first one counts. An evaluation has equal results on
 * all ranks, so every rank keeps this state by itself, and all of them end the run after the same
 * step. Checkpoints contain the state, so a resumed run counts on. */
#include "runtime/runtime.h"

#include <math.h>

bool dt_best_take(DtRank *rank, double loss, int64_t steps)
{
    DtBest *best = &rank->best;
    if (rank->meta.eval_patience == 0 && !rank->meta.keep_best)
        return false;
    const bool is_lowest = isfinite(loss) && (!best->any || loss < best->loss);
    if (is_lowest)
        *best = (DtBest){.any = true, .loss = loss, .steps = steps};
    else if (rank->meta.eval_every > 0 && steps % rank->meta.eval_every == 0)
        best->since++; /* an evaluation after the last step of --steps N may not be due */
    return is_lowest;
}

bool dt_best_is_over(const DtRank *rank)
{
    return rank->meta.eval_patience > 0 && rank->best.since >= rank->meta.eval_patience;
}
