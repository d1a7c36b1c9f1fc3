/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are bound by memory, attention as one kernel or op by op, the optimizer, the
 * fixed time of a step. */
#include "cost/cost.h"

#include <math.h>

static double memory_rate(const DtCostModel *model)
{
    return dt_cost_constant(model, DT_COST_memory) * fmax(model->device->memory_rate, 1);
}

double dt_cost_kernel_bytes(const DtDevice *device, double bytes)
{
    return device->is_gpu ? bytes : fmax(bytes - device->l2_bytes, 0);
}

double dt_cost_kernel(const DtCostModel *model, DtCostKernel op)
{
    double kernels = op.kernels > 0 ? op.kernels : 1;
    if (dt_cost_has(model, DT_STACK_eager) && op.ops > 1) {
        kernels = fmax(kernels, op.ops);
        op.bytes = op.eager_bytes > 0 ? op.eager_bytes : 2 * op.bytes;
    }
    const double bytes = dt_cost_kernel_bytes(model->device, op.bytes) / memory_rate(model);
    const double work = op.flops + op.special * dt_cost_constant(model, DT_COST_special);
    const double rate =
        fmax(model->device->flops[DT_COST_F32], 1) * dt_cost_constant(model, DT_COST_arithmetic);
    const double launch = kernels * dt_cost_constant(model, DT_COST_launch);
    /* A GPU hides the latency of memory behind other warps; a loop on a core waits for memory. */
    return (model->device->is_gpu ? fmax(bytes, work / rate) : bytes + work / rate) + launch;
}

/* Returns how many times an eager stack passes over the scores besides the two products: for masked
 * softmax and dropout, forward and backward. */
static double scores_kernels(const DtCostModel *model, const DtCostAttention *op)
{
    const double scores = (double)(op->batch * op->heads) * (double)op->queries * (double)op->keys;
    const double element = dt_cost_dtype_bytes(op->dtype);
    const bool masks = op->dropout && dt_cost_has(model, DT_STACK_dropout_masks);
    const double softmax = op->backward ? 3 : 2, dropout = op->dropout ? 2 : 0;
    const double bytes = scores * ((softmax + dropout) * element + (masks ? 1 : 0));
    return dt_cost_kernel(model, (DtCostKernel){.bytes = bytes, .kernels = op->dropout ? 2 : 1});
}

/* Returns the seconds of attention that keeps the scores in memory: a product, a softmax, a
 * product; backward four products. */
static double written_out(const DtCostModel *model, const DtCostAttention *op)
{
    const int64_t batch = op->batch * op->heads, q = op->queries, k = op->keys, d = op->head;
    const DtCostProduct scores = {.m = q, .n = k, .k = d, .batch = batch, .dtype = op->dtype};
    const DtCostProduct values = {.m = q, .n = d, .k = k, .batch = batch, .dtype = op->dtype};
    const DtCostProduct keys = {.m = k, .n = d, .k = q, .batch = batch, .dtype = op->dtype};
    double seconds = dt_cost_product(model, scores) + dt_cost_product(model, values);
    if (op->backward)
        seconds += 2 * dt_cost_product(model, keys);
    return seconds + scores_kernels(model, op);
}

/* Returns the rate of attention relative to that of products. It grows with the visible keys of a
 * row and with the size of the head: either constant is the length at which half the rate is
 * reached. The rate is 1 for long rows and heads of 128; larger heads gain little more. */
static double saturation(const DtCostModel *model, const DtCostAttention *op)
{
    const bool fa2 = dt_cost_has(model, DT_STACK_fa2);
    const double seen = (double)op->keys;
    const double half = dt_cost_constant(model, fa2 ? DT_COST_fa2_half : DT_COST_attention_half);
    const double head = (double)op->head;
    const double head_half =
        dt_cost_constant(model, fa2 ? DT_COST_fa2_head : DT_COST_attention_head);
    const double by_head = head / (head + head_half) * (128 + head_half) / 128;
    return seen / (seen + half) * fmin(by_head, dt_cost_constant(model, DT_COST_attention_wide));
}

static double in_one_kernel(const DtCostModel *model, const DtCostAttention *op)
{
    const bool fa2 = dt_cost_has(model, DT_STACK_fa2);
    const double visible = dt_cost_has(model, DT_STACK_masked_tiles) ? 1 : op->visible;
    const double scores =
        (double)(op->batch * op->heads) * (double)op->queries * (double)op->keys * visible;
    const double flops = scores * (double)op->head * (op->backward ? 10 : 4);
    const DtCostConstantId id = op->backward
                                    ? (fa2 ? DT_COST_fa2_backward : DT_COST_attention_backward)
                                    : (fa2 ? DT_COST_fa2_forward : DT_COST_attention_forward);
    const DtDevice *device = model->device;
    const double peak = device->flops[op->dtype] > 0 ? device->flops[op->dtype]
                                                     : fmax(device->flops[DT_COST_F32], 1);
    const double rows = (double)(op->batch * op->heads) * (double)op->queries;
    const double columns = (double)(op->batch * op->kv_heads) * (double)op->keys;
    const double bytes =
        (2 * rows + 2 * columns) * (double)op->head * dt_cost_dtype_bytes(op->dtype);
    const double compute = flops / (peak * dt_cost_constant(model, id) * saturation(model, op));
    return fmax(compute, bytes * (op->backward ? 2 : 1) / memory_rate(model)) +
           dt_cost_constant(model, DT_COST_launch);
}

double dt_cost_attention(const DtCostModel *model, DtCostAttention op)
{
    if (op.queries <= 0 || op.keys <= 0)
        return 0;
    return dt_cost_has(model, DT_STACK_scores) ? written_out(model, &op)
                                               : in_one_kernel(model, &op);
}

double dt_cost_op(const DtCostModel *model, const DtCostOp *op)
{
    switch (op->kind) {
    case DT_COST_OP_PRODUCT: return dt_cost_product(model, op->product);
    case DT_COST_OP_ATTENTION: return dt_cost_attention(model, op->attention);
    default: return dt_cost_kernel(model, op->kernel);
    }
}

double dt_cost_optimizer(const DtCostModel *model, double parameters, double bytes)
{
    return parameters * (bytes > 0 ? bytes : dt_cost_constant(model, DT_COST_optimizer)) /
           memory_rate(model);
}

DtCostConstantId dt_cost_step_constant(const DtCostModel *model)
{
    return dt_cost_has(model, DT_STACK_host_steps) ? DT_COST_stack_step : DT_COST_step;
}

double dt_cost_step_fixed(const DtCostModel *model, int64_t ranks, double step)
{
    const double doublings = ranks > 1 ? log2((double)ranks) : 0;
    double most = 0;
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++) {
        const DtCostModel one = dt_cost_on(model, k);
        const double jitter = step * doublings * dt_cost_constant(&one, DT_COST_jitter);
        most = fmax(most, dt_cost_constant(&one, dt_cost_step_constant(&one)) + jitter);
    }
    return most;
}
