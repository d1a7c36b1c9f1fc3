/* SPDX-License-Identifier: Apache-2.0 */
/* The losses and metrics that a step or an evaluation shows: SHOW records, evaluated on the scalars
 * that the entry computed. */
#include "runtime/runtime.h"

#include "plan/name.h"
#include "plan/show.h"

#include <math.h>
#include <string.h>

static double read_now(const void *context, const DtPlanMetric *metric)
{
    return dt_exec_scalar(context, metric);
}

typedef struct Means {
    const DtPlan *plan;
    const double *at; /* values by number of the record */
} Means;

static double read_mean(const void *context, const DtPlanMetric *metric)
{
    const Means *means = context;
    return means->at[metric - means->plan->metrics];
}

static bool is_loss(const DtPlan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        if (strcmp(dt_plan_str(plan, plan->objectives[i].loss), name) == 0)
            return true;
    return false;
}

/* Whether the step or evaluation shows results of the entry: in a step (taken is set) those of the
 * losses that it minimises. */
static bool is_shown(const DtPlan *plan, const bool *taken, const char *entry)
{
    bool shown = !taken && dt_plan_name(entry).run == DT_PLAN_EVAL;
    for (uint32_t i = 0; taken && i < plan->n_objectives; i++)
        shown =
            shown || (taken[i] && strcmp(entry, dt_plan_str(plan, plan->objectives[i].step)) == 0);
    return shown;
}

static void show(const DtRank *rank, const DtPlanShow *one, const double *means, double batches,
                 DtShown *shown)
{
    const DtPlan *plan = rank->plan;
    const Means from = {plan, means};
    DtFormulaProblem problem;
    double value = NAN;
    if (shown->n == DT_MAX_SHOWN)
        return;
    if (means)
        dt_show_value(plan, one, batches, read_mean, &from, &value, &problem);
    else
        dt_show_value(plan, one, batches, read_now, rank, &value, &problem);
    shown->name[shown->n] = dt_plan_str(plan, one->name);
    shown->value[shown->n++] = value;
}

static void show_all(const DtRank *rank, const bool *taken, const double *means, double batches,
                     DtShown *ret_shown)
{
    const DtPlan *plan = rank->plan;
    *ret_shown = (DtShown){0};
    for (int losses = 1; losses >= 0; losses--) {
        for (uint32_t i = 0; i < plan->n_shows; i++)
            if (is_shown(plan, taken, dt_plan_str(plan, plan->shows[i].entry)) &&
                is_loss(plan, dt_plan_str(plan, plan->shows[i].name)) == losses)
                show(rank, &plan->shows[i], means, batches, ret_shown);
        ret_shown->n_losses = losses ? ret_shown->n : ret_shown->n_losses;
    }
}

void dt_shown_step(const DtRank *rank, const bool *taken, DtShown *ret_shown)
{
    show_all(rank, taken, NULL, 1, ret_shown);
}

void dt_shown_over(const DtRank *rank, const double *means, double batches, DtShown *ret_shown)
{
    show_all(rank, NULL, means, batches, ret_shown);
}
