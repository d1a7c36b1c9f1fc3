/* SPDX-License-Identifier: Apache-2.0 */
/* Records the device that a plan was priced for, as names and numbers, so that reports can be
 * made later and elsewhere. */
#include "plan/report/device.h"

#include <string.h>

/* Numbers of a device that are not constants of the cost model. */
typedef struct Number { const char *name; size_t at; } Number;
#define NUMBER(name, member) {name, offsetof(DtDevice, member)}
static const Number numbers[] = {
    NUMBER("units", units), NUMBER("peak_f32", flops[DT_COST_F32]),
    NUMBER("peak_tf32", flops[DT_COST_TF32]), NUMBER("peak_f16", flops[DT_COST_F16]),
    NUMBER("peak_f8", flops[DT_COST_F8]), NUMBER("capacity", memory_bytes),
    NUMBER("bandwidth", memory_rate), NUMBER("cache", l2_bytes),
    NUMBER("intra", link.bytes_per_second), NUMBER("intra.latency", link.seconds),
    NUMBER("inter", nic.bytes_per_second), NUMBER("inter.latency", nic.seconds),
    NUMBER("host", host_rate),
};
#undef NUMBER

static void add(DtPlanBuilder *builder, const char *name, const char *text, double value,
                double within)
{
    const DtPlanDevice record = {dt_write_str(builder, name), dt_write_str(builder, text), value,
                                 within};
    DT_PUSH(builder->arena, builder->devices, record);
}

static void write_device(const DtDevice *device, DtPlanBuilder *builder)
{
    add(builder, "device", device->name, device->is_gpu, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        add(builder, numbers[i].name, NULL, *(const double *)((const char *)device + numbers[i].at),
            0);
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        add(builder, dt_cost_constants[i].name, "constant", device->at[i].value,
            device->at[i].within);
}

/* Records nodes of several kinds: the device of each kind and the number of its nodes, in the order
 * of ranks. */
void dt_device_write(const DtCostModel *model, DtPlanBuilder *builder)
{
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++) {
        write_device(dt_cost_on(model, k).device, builder);
        if (model->n_kinds)
            add(builder, "nodes_of_kind", NULL, (double)model->kinds[k].n, 0);
    }
    add(builder, "stack", model->stack ? model->stack->name : "ours", 0, 0);
    for (int i = 0; i < DT_STACK_FLAGS; i++)
        if (dt_cost_has(model, (DtStackFlag)i))
            add(builder, dt_stack_rows[i].name, "flag", 1, 0);
    add(builder, "nodes", NULL, (double)model->nodes, 0);
    add(builder, "per_node", NULL, (double)model->ranks_per_node, 0);
    add(builder, "cluster.intra", NULL, model->link.bytes_per_second, model->link.seconds);
    add(builder, "cluster.inter", NULL, model->nic.bytes_per_second, model->nic.seconds);
}

static int64_t count_of(const DtPlanDevice *record, int64_t otherwise)
{
    return record->value >= 1 && record->value < 1e9 ? (int64_t)record->value : otherwise;
}

static void read_record(const DtPlan *plan, const DtPlanDevice *record, DtDevice *device,
                        DtStack *stack, DtCostModel *model)
{
    const char *name = dt_plan_str(plan, record->name), *text = dt_plan_str(plan, record->text);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !*text; i++)
        if (strcmp(name, numbers[i].name) == 0)
            *(double *)((char *)device + numbers[i].at) = record->value;
    for (int i = 0; i < DT_COST_CONSTANTS && strcmp(text, "constant") == 0; i++)
        if (strcmp(name, dt_cost_constants[i].name) == 0)
            device->at[i] = (DtCostEstimate){record->value, record->within, NULL};
    for (int i = 0; i < DT_STACK_FLAGS && strcmp(text, "flag") == 0; i++)
        stack->has[i] = stack->has[i] || strcmp(name, dt_stack_rows[i].name) == 0;
    if (strcmp(name, "device") == 0) {
        device->name = text;
        device->is_gpu = record->value != 0;
    } else if (strcmp(name, "stack") == 0)
        stack->name = text;
    else if (strcmp(name, "nodes_of_kind") == 0 && model->n_kinds < DT_COST_NODE_KINDS)
        model->kinds[model->n_kinds++] = (DtCostNodes){device, count_of(record, 1)};
    else if (strcmp(name, "nodes") == 0)
        model->nodes = count_of(record, 1);
    else if (strcmp(name, "per_node") == 0)
        model->ranks_per_node = count_of(record, INT64_MAX);
    else if (strcmp(name, "cluster.intra") == 0)
        model->link = (DtCostLink){record->value, record->within};
    else if (strcmp(name, "cluster.inter") == 0)
        model->nic = (DtCostLink){record->value, record->within};
}

bool dt_device_read(DtArena *arena, const DtPlan *plan, DtCostModel *ret_model)
{
    DtDevice *device = DT_NEW(arena, DtDevice);
    DtStack *stack = DT_NEW(arena, DtStack);
    *device = dt_device_new("");
    *ret_model = (DtCostModel){.device = device, .stack = stack, .nodes = 1,
                               .ranks_per_node = INT64_MAX};
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        /* the record is of another kind */
        if (*device->name && strcmp(dt_plan_str(plan, plan->devices[i].name), "device") == 0) {
            device = DT_NEW(arena, DtDevice);
            *device = dt_device_new("");
        }
        read_record(plan, &plan->devices[i], device, stack, ret_model);
    }
    if (ret_model->ranks_per_node == INT64_MAX)
        ret_model->n_kinds = 0; /* no compiler writes such records: they do not say which ranks are
                                 * on which nodes */
    return *ret_model->device->name != 0;
}
