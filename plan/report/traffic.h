/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a report about traffic between ranks (traffic.c). */
#ifndef DT_REPORT_TRAFFIC_H
#define DT_REPORT_TRAFFIC_H

#include "plan/report/report.h"

#include <jansson.h>

void dt_traffic_print(const DtPlan *plan, DtText *text);

/* {"groups": [...], "channels": [...], "collectives": [...]}; bytes of groups and channels are
 * those of all ranks. */
json_t *dt_traffic_json(const DtPlan *plan);

#endif
