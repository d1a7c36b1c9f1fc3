/* SPDX-License-Identifier: Apache-2.0 */
/* Values of losses and metrics that are shown: SHOW records. */
#ifndef DT_PLAN_SHOW_H
#define DT_PLAN_SHOW_H

#include "base/formula.h"
#include "plan/plan.h"

/* Whether it is one number that can be shown: f32, f64 or i32 without axes. */
bool dt_show_is_number(const DtPlanMetric *metric);

/* The METR record of the entry's scalar of that name (`len` bytes) that can be shown; NULL: there
 * is none. */
const DtPlanMetric *dt_show_scalar(const DtPlan *plan, const char *entry, const char *name,
                                   size_t len);

/* What a scalar of the entry is: its sum over batches, divided by how many these are. */
typedef double DtShowRead(const void *context, const DtPlanMetric *metric);

/* The value of a SHOW record. False: its formula has none, and ret_problem says why. */
bool dt_show_value(const DtPlan *plan, const DtPlanShow *show, double batches, DtShowRead *read,
                   const void *context, double *ret_value, DtFormulaProblem *ret_problem);

/* Whether it has one, whatever the scalars are. The record may be of a hostile plan; its strings
 * are strings. */
bool dt_show_has_value(const DtPlan *plan, const DtPlanShow *show, DtFormulaProblem *ret_problem);

#endif
