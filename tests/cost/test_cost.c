/* SPDX-License-Identifier: Apache-2.0 */
/* Times that follow from shapes: compared with measured single operations, and with properties that
 * hold for any device. */
#include "cost/cost.h"

#include <criterion/criterion.h>
#include <math.h>

static DtDevice a100(void)
{
    DtDevice device = dt_device_new("a100-80g");
    device.units = 108;
    device.flops[DT_COST_F32] = 19.5e12;
    device.flops[DT_COST_TF32] = 156e12;
    device.flops[DT_COST_F16] = 312e12;
    device.memory_bytes = 80e9;
    device.memory_rate = 2.039e12;
    device.link = (DtCostLink){300e9, 0};
    device.nic = (DtCostLink){25e9, 0};
    device.node = 8;
    return device;
}

static DtCostProduct product(int64_t m, int64_t n, int64_t k)
{
    return (DtCostProduct){.m = m, .n = n, .k = k, .dtype = DT_COST_F16};
}

/* Weight gradients of a stage, as the zero bubble paper's authors timed them (Tables 5 and 6,
 * milliseconds): products alone, with nothing fitted except the rates of an A100's fastest
 * tiles. */
Test(cost, weight_gradients_of_four_models)
{
    static const struct { int64_t hidden, tokens, layers; double ms; } rows[] = {
        {2304, 6144, 3, 9.33}, {4096, 3072, 4, 19.53}, {5120, 1024, 3, 8.11},
        {6144, 1024, 2, 7.70}};
    DtDevice device = a100();
    device.at[DT_COST_product].value = 0.84;
    device.at[DT_COST_wave].value = 2e-6;
    const DtCostModel model = {.device = &device};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t h = rows[i].hidden, t = rows[i].tokens;
        double seconds = dt_cost_product(&model, product(h, 3 * h, t)) +
                         dt_cost_product(&model, product(h, h, t)) +
                         2 * dt_cost_product(&model, product(h, 4 * h, t));
        seconds *= (double)rows[i].layers;
        const double error = seconds * 1e3 / rows[i].ms - 1;
        cr_log_info("%g ms, measured %g, %+.1f %%", seconds * 1e3, rows[i].ms, 100 * error);
        cr_expect(fabs(error) < 0.03, "hidden %d: %g ms, measured %g", (int)h, seconds * 1e3,
                  rows[i].ms);
    }
}

Test(cost, products_follow_waves_and_alignment)
{
    const DtDevice device = a100();
    const DtCostModel model = {.device = &device};
    const double one = dt_cost_product(&model, product(128 * 108, 256, 4096));
    cr_expect(dt_cost_product(&model, product(128 * 109, 256, 4096)) > 1.2 * one,
              "a tile more is a wave more");
    cr_expect(dt_cost_product(&model, product(128 * 107, 256, 4096)) > 0.95 * one,
              "a tile less saves nothing");
    DtCostProduct odd = product(4096, 4096, 4096);
    const double even = dt_cost_product(&model, odd);
    odd.k = 4098;
    cr_expect(dt_cost_product(&model, odd) > 1.3 * even);
    odd.k = 4096;
    odd.dtype = DT_COST_TF32;
    cr_expect_float_eq(dt_cost_product(&model, odd) / even, 2, 0.1);
    const double skinny = dt_cost_product(&model, product(1, 8192, 8192));
    cr_expect(skinny > 2.0 * 8192 * 8192 / device.memory_rate,
              "not below its bytes over the bandwidth");
    const double unit =
        device.flops[DT_COST_F16] * dt_cost_constant(&model, DT_COST_product) / device.units;
    cr_expect(dt_cost_product(&model, product(256, 128, 65536)) <
                  0.2 * (2.0 * 256 * 128 * 65536 / unit),
              "k is split where tiles are few");
}

Test(cost, kernels_by_bytes_and_attention_by_what_it_sees)
{
    const DtDevice device = a100();
    DtCostModel model = {.device = &device};
    const double kernel = dt_cost_kernel(&model, (DtCostKernel){.bytes = 1e9});
    cr_expect(kernel > 1e9 / device.memory_rate && kernel < 1.6e9 / device.memory_rate);
    DtCostAttention op = {.batch = 2, .heads = 32, .kv_heads = 8, .head = 128, .queries = 4096,
                          .keys = 4096, .visible = 1, .dtype = DT_COST_F16};
    const double all = dt_cost_attention(&model, op);
    op.visible = 0.5;
    const double causal = dt_cost_attention(&model, op);
    cr_expect_float_eq(all / causal, 2, 0.05);
    op.backward = true;
    cr_expect(dt_cost_attention(&model, op) > 2.5 * causal);
    DtStack stack = dt_stack_ours;
    stack.has[DT_STACK_scores] = true;
    model.stack = &stack;
    cr_expect(dt_cost_attention(&model, op) > 6 * causal,
              "scores that are written cost their traffic");
}

Test(cost, collectives_by_link_and_rails)
{
    const DtDevice device = a100();
    const DtCostModel model = {.device = &device, .nodes = 16, .ranks_per_node = 8};
    const DtCostCollective inside = {DT_COST_ALL_REDUCE, 1e9, 8, 8, 1};
    const double expected = 2.0 * 7 / 8 * 1e9 / (dt_cost_constant(&model, DT_COST_link) * 300e9);
    cr_expect_float_eq(dt_cost_collective(&model, inside) / expected, 1, 0.02);
    DtCostCollective one_rail = {DT_COST_ALL_REDUCE, 1e9, 16, 1, 16},
                     rails = {DT_COST_ALL_REDUCE, 1e9, 128, 8, 16};
    cr_expect(dt_cost_collective(&model, one_rail) > 6 * dt_cost_collective(&model, rails),
              "eight ranks of a node share eight cards");
    one_rail.ranks = 1;
    cr_expect_eq(dt_cost_collective(&model, one_rail), 0);
    const DtCostCollective gather = {DT_COST_ALL_GATHER, 1e9, 8, 8, 1};
    const DtCostCollective scatter = {DT_COST_REDUCE_SCATTER, 1e9, 8, 8, 1};
    const double both = dt_cost_collective(&model, gather) + dt_cost_collective(&model, scatter);
    cr_expect_float_eq(both / expected, 1, 0.03);
    cr_expect(dt_cost_message(&model, 1e7, true) > dt_cost_message(&model, 1e7, false));
    cr_expect(dt_cost_beside(&model, 1, 0.5) > 1 && dt_cost_beside(&model, 0.5, 1) == 1);
}

Test(cost, bands_grow_with_what_is_not_known)
{
    const DtDevice device = a100();
    const DtCostModel model = {.device = &device};
    const double products[DT_COST_KINDS] = {[DT_COST_KIND_PRODUCT] = 1};
    const double network[DT_COST_KINDS] = {[DT_COST_KIND_NETWORK] = 1};
    cr_expect(dt_cost_band(&model, products) > 0.03);
    cr_expect(dt_cost_band(&model, network) > dt_cost_band(&model, products));
}

/* A product that sums few terms takes as long as clearing its result and adding to it; a product
 * with few rows takes as long as copying the matrix. */
Test(cost, narrow_products_of_a_processor)
{
    DtDevice device = dt_device_new("core");
    device.is_gpu = false;
    device.units = 1;
    device.flops[DT_COST_F32] = 100e9;
    device.memory_rate = 10e9;
    device.at[DT_COST_product].value = 1;
    device.at[DT_COST_product_memory].value = 1;
    device.at[DT_COST_product_launch].value = 0;
    const DtCostModel model = {.device = &device};
    const DtCostProduct sums = {.m = 1000, .n = 1000, .k = 10, .dtype = DT_COST_F32};
    DtCostProduct rows = {.m = 10, .n = 1000, .k = 1000, .dtype = DT_COST_F32};
    cr_expect_float_eq(dt_cost_product(&model, sums), 2e7 / 100e9 + (1e6 * 12 + 2e4 * 8) / 10e9,
                       1e-12);
    cr_expect_float_eq(dt_cost_product(&model, rows), 2e7 / 100e9 + (1e4 * 12 + 1.01e6 * 8) / 10e9,
                       1e-12);
    rows.dtype = DT_COST_F16; /* bytes of an element: read as 2, written and read as 4, and copied
                               * again */
    cr_expect_float_eq(dt_cost_product_copies(rows), 1.01e6 * 14 + 1e4 * 18, 1);
    rows.accumulates = true;
    cr_expect_float_eq(dt_cost_product_copies(rows), 1.01e6 * 14 + 1e4 * 20, 1);
}

/* The time of the host of a Python program is not part of the step of a plan, on one device or on
 * many. */
Test(cost, fixed_time_is_that_of_the_software)
{
    const DtDevice device = a100();
    const DtStack others = {.name = "others", .has = {[DT_STACK_host_steps] = true}};
    const DtCostModel own = {.device = &device}, model = {.device = &device, .stack = &others};
    cr_expect_eq(dt_cost_step_fixed(&own, 1, 1), dt_cost_constant(&own, DT_COST_step));
    cr_expect_eq(dt_cost_step_fixed(&model, 1, 1), dt_cost_constant(&own, DT_COST_stack_step));
    cr_expect_float_eq(dt_cost_step_fixed(&own, 8, 1) - dt_cost_step_fixed(&own, 1, 1),
                       3 * dt_cost_constant(&own, DT_COST_jitter), 1e-12);
    cr_expect_eq(dt_cost_within(&model, DT_COST_KIND_FIXED), device.at[DT_COST_stack_step].within);
}

Test(cost, what_a_core_has_in_its_cache)
{
    DtDevice device = dt_device_new("core");
    device.is_gpu = false;
    device.flops[DT_COST_F32] = 100e9;
    device.memory_rate = 10e9;
    device.l2_bytes = 1e6;
    device.at[DT_COST_memory].value = device.at[DT_COST_arithmetic].value = 1;
    device.at[DT_COST_launch].value = 0;
    const DtCostModel model = {.device = &device};
    cr_expect_float_eq(dt_cost_kernel(&model, (DtCostKernel){.bytes = 1e6, .flops = 1e6}), 1e-5,
                       1e-12);
    cr_expect_float_eq(dt_cost_kernel(&model, (DtCostKernel){.bytes = 3e6, .flops = 1e6}),
                       1e-5 + 2e-4, 1e-12);
    device.is_gpu = true;
    cr_expect_float_eq(dt_cost_kernel(&model, (DtCostKernel){.bytes = 1e6, .flops = 1e6}), 1e-4,
                       1e-12);
}
