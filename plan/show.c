/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/show.h"

#include "plan/kinds.h"

#include <stdio.h>
#include <string.h>

typedef struct Names {
    const DtPlan *plan;
    const char *entry;
    double batches;
    DtShowRead *read;
    const void *context;
} Names;

static bool is_called(const char *text, const char *name, size_t len)
{
    return strlen(text) == len && memcmp(text, name, len) == 0;
}

bool dt_show_is_number(const DtPlanMetric *metric)
{
    return !metric->n_axes && (metric->dtype == DT_PLAN_F32 || metric->dtype == DT_PLAN_F64 ||
                               metric->dtype == DT_PLAN_I32);
}

const DtPlanMetric *dt_show_scalar(const DtPlan *plan, const char *entry, const char *name,
                                   size_t len)
{
    for (uint32_t i = 0; i < plan->n_metrics; i++) {
        const DtPlanMetric *metric = &plan->metrics[i];
        if (dt_show_is_number(metric) && !strcmp(dt_plan_str(plan, metric->entry), entry) &&
            is_called(dt_plan_str(plan, metric->name), name, len))
            return metric;
    }
    return NULL;
}

static bool look_up(const void *context, const char *name, size_t len, double *ret_value)
{
    const Names *names = context;
    const bool is_batches = is_called("batches", name, len);
    const DtPlanMetric *metric =
        is_batches ? NULL : dt_show_scalar(names->plan, names->entry, name, len);
    if (metric || is_batches)
        *ret_value = metric ? names->read(names->context, metric) : names->batches;
    return metric || is_batches;
}

bool dt_show_value(const DtPlan *plan, const DtPlanShow *show, double batches, DtShowRead *read,
                   const void *context, double *ret_value, DtFormulaProblem *ret_problem)
{
    const Names names = {plan, dt_plan_str(plan, show->entry), batches, read, context};
    const char *formula = dt_plan_str(plan, show->formula), *name = dt_plan_str(plan, show->name);
    if (formula[0])
        return dt_formula_value(formula, look_up, &names, ret_value, ret_problem);
    const DtPlanMetric *metric = dt_show_scalar(plan, names.entry, name, strlen(name));
    if (metric)
        *ret_value = read(context, metric);
    else
        snprintf(ret_problem->text, sizeof ret_problem->text, "there is no number `%.60s`", name);
    return metric;
}

static double one(const void *context, const DtPlanMetric *metric)
{
    (void)context, (void)metric;
    return 1;
}

bool dt_show_has_value(const DtPlan *plan, const DtPlanShow *show, DtFormulaProblem *ret_problem)
{
    double value;
    return dt_show_value(plan, show, 1, one, NULL, &value, ret_problem);
}
