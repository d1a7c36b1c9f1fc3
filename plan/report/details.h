/* SPDX-License-Identifier: Apache-2.0 */
/* The details of a report as JSON (details.c). */
#ifndef DT_REPORT_DETAILS_H
#define DT_REPORT_DETAILS_H

#include "plan/report/report.h"

#include <jansson.h>

/* {"saved", "entries", "traffic", "gemms", "kernels"}; the last two are those of a step and its
 * update, the heaviest first; flops and bytes are of all runs. */
json_t *dt_details_json(const DtPlan *plan);

#endif
