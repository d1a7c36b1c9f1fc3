/* SPDX-License-Identifier: Apache-2.0 */
/* Values of losses and metrics that a run shows: SHOW records. */
#ifndef DT_PLAN_SHOW_H
#define DT_PLAN_SHOW_H

#include "base/formula.h"
#include "plan/plan.h"

/* Whether the record is one number that can be shown: f32, f64 or i32 without axes. */
bool dt_show_is_number(const DtPlanMetric *metric);

/* The METR record for the entry's scalar of that name (`len` bytes), if it can be shown; NULL:
 * there is none. */
const DtPlanMetric *dt_show_scalar(const DtPlan *plan, const char *entry, const char *name,
                                   size_t len);

/* The scalars of an entry: their sums over batches, and the number of batches. */
typedef double DtShowRead(const void *context, const DtPlanMetric *metric);

/* The value of a SHOW record. False: its formula has none, and ret_problem says why. */
bool dt_show_value(const DtPlan *plan, const DtPlanShow *show, double batches, DtShowRead *read,
                   const void *context, double *ret_value, DtFormulaProblem *ret_problem);

/* Whether the record has a value for any scalars. The record may be of a hostile plan, but its
 * strings are valid. */
bool dt_show_has_value(const DtPlan *plan, const DtPlanShow *show, DtFormulaProblem *ret_problem);

#endif
