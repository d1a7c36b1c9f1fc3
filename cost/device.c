/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, stacks and the table of constants, as data. */
#include "cost/cost.h"

#include <math.h>
#include <string.h>

const DtCostConstant dt_cost_constants[DT_COST_CONSTANTS] = {
#define DT_COST_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) \
    [DT_COST_##id] = {#id, value, within, unit, DT_COST_##ORIGIN, source, meaning},
#include "cost/constants.def"
#undef DT_COST_CONSTANT
};

const DtStackRow dt_stack_rows[DT_STACK_FLAGS] = {
#define DT_STACK_FLAG(id, in_plan, meaning) [DT_STACK_##id] = {#id, meaning, in_plan},
#include "cost/stack.def"
#undef DT_STACK_FLAG
};

const DtStack dt_stack_ours = {.name = "ours", .description = "plans of this compiler"};

DtDevice dt_device_new(const char *name)
{
    DtDevice device = {.name = name, .is_gpu = true, .node = 1};
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        device.at[i] = (DtCostEstimate){dt_cost_constants[i].value, dt_cost_constants[i].within,
                                        NULL};
    return device;
}

const DtDevice *dt_device_find(DtDevices devices, const char *name)
{
    for (size_t i = 0; i < devices.n; i++)
        if (strcmp(devices.at[i]->name, name) == 0)
            return devices.at[i];
    return NULL;
}

DtCostModel dt_cost_on(const DtCostModel *model, uint32_t kind)
{
    DtCostModel one = *model;
    one.device = model->n_kinds ? model->kinds[kind].device : model->device;
    one.n_kinds = 0;
    return one;
}

uint32_t dt_cost_kinds_of(const DtCostModel *model, int64_t first, int64_t n)
{
    uint32_t kinds = 0;
    int64_t from = 0; /* the first rank on nodes of that kind */
    for (uint32_t k = 0; k < model->n_kinds; k++) {
        const int64_t to =
            k + 1 < model->n_kinds ? from + model->kinds[k].n * model->ranks_per_node : INT64_MAX;
        kinds |= (uint32_t)(first < to && first + n > from) << k;
        from = to;
    }
    return model->n_kinds ? kinds : 1;
}

double dt_cost_larger(const DtCostModel *model, uint32_t kinds)
{
    double largest = 0, smallest = INFINITY;
    for (uint32_t k = 0; k < model->n_kinds; k++) {
        largest = fmax(largest, model->kinds[k].device->memory_bytes);
        smallest = kinds >> k & 1 ? fmin(smallest, model->kinds[k].device->memory_bytes) : smallest;
    }
    return smallest > 0 && largest > 0 ? largest / smallest : 1;
}

bool dt_cost_has(const DtCostModel *model, DtStackFlag flag)
{
    return model->stack && model->stack->has[flag];
}

double dt_cost_constant(const DtCostModel *model, DtCostConstantId id)
{
    return model->device->at[id].value;
}

double dt_cost_dtype_bytes(DtCostDtype dtype)
{
    static const double bytes[DT_COST_DTYPES] = {
        [DT_COST_F32] = 4, [DT_COST_TF32] = 4, [DT_COST_F16] = 2, [DT_COST_F8] = 1};
    return bytes[dtype];
}
