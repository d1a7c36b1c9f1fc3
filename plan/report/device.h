/* SPDX-License-Identifier: Apache-2.0 */
/* The device that a plan was made for, as records of the plan (device.c). */
#ifndef DT_REPORT_DEVICE_H
#define DT_REPORT_DEVICE_H

#include "cost/cost.h"
#include "plan/write.h"

/* Adds section DEVC: all numbers of the device, of its cluster and the flags of the stack. */
void dt_device_write(const DtCostModel *model, DtPlanBuilder *builder);

/* Reads the device from the plan, into the arena; false: the plan has none. Fields with unknown
 * names are skipped. */
bool dt_device_read(DtArena *arena, const DtPlan *plan, DtCostModel *ret_model);

#endif
