/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, stacks and the table of constants, as data. */
#include "cost/cost.h"

#include <string.h>

const DtCostConstant dt_cost_constants[DT_COST_CONSTANTS] = {
#define DT_COST_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) \
    [DT_COST_##id] = {#id, value, within, unit, DT_COST_##ORIGIN, source, meaning},
#include "cost/constants.def"
#undef DT_COST_CONSTANT
};

const DtStackRow dt_stack_rows[DT_STACK_FLAGS] = {
#define DT_STACK_FLAG(id, meaning) [DT_STACK_##id] = {#id, meaning},
#include "cost/stack.def"
#undef DT_STACK_FLAG
};

const DtStack dt_stack_ours = {.name = "ours", .description = "plans of this compiler"};

DtDevice dt_device_new(const char *name)
{
    DtDevice device = {.name = name, .is_gpu = true, .node = 1};
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        device.at[i] = (DtCostEstimate){dt_cost_constants[i].value, dt_cost_constants[i].within, NULL};
    return device;
}

const DtDevice *dt_device_find(DtDevices devices, const char *name)
{
    for (size_t i = 0; i < devices.n; i++)
        if (strcmp(devices.at[i]->name, name) == 0)
            return devices.at[i];
    return NULL;
}

bool dt_cost_has(const DtCostModel *model, DtStackFlag flag) { return model->stack && model->stack->has[flag]; }

double dt_cost_constant(const DtCostModel *model, DtCostConstantId id) { return model->device->at[id].value; }

double dt_cost_dtype_bytes(DtCostDtype dtype)
{
    static const double bytes[DT_COST_DTYPES] = {
        [DT_COST_F32] = 4, [DT_COST_TF32] = 4, [DT_COST_F16] = 2, [DT_COST_F8] = 1};
    return bytes[dtype];
}
