/* SPDX-License-Identifier: Apache-2.0 */
/* Fits constants of a processor, and of a GPU, to times that were computed from known constants.
 * The fit must return these constants, and predict times that it was not given. */
#include "cost/calibrate.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>

static uint64_t state = 88172645463325252u;

static double chance(void) /* a pseudo-random number in 0..1, the same in every run */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static DtTiming product(int64_t m, int64_t n, int64_t k, DtCostDtype dtype)
{
    return (DtTiming){.is_product = true, .product = {.m = m, .n = n, .k = k, .dtype = dtype}};
}

static DtTiming kernel(double elements, double flops, double special)
{
    return (DtTiming){.kernel = {.bytes = 12 * elements, .flops = flops * elements,
                                 .special = special * elements}};
}

static double predicted(const DtDevice *device, const DtTiming *t)
{
    const DtCostModel model = {.device = device};
    return t->is_product ? dt_cost_product(&model, t->product) : dt_cost_kernel(&model, t->kernel);
}

/* Fills in the times that a machine with known constants would measure, with a relative error of up
 * to `noise`; returns how many. */
static size_t times(const DtDevice *device, DtTiming ret_timings[64], double noise)
{
    size_t n = 0;
    for (int64_t size = 16; size <= 1024; size *= 2) {
        ret_timings[n++] = product(size, size, size, DT_COST_F32);
        ret_timings[n++] = product(8 * size, size, 64, DT_COST_F32);
        ret_timings[n++] = product(size, size, 2 * size, DT_COST_F16);
        ret_timings[n++] = kernel((double)(size * size), 2, 0);
        ret_timings[n++] = kernel((double)(size * size), 30, 0);
        ret_timings[n++] = kernel((double)(size * size), 12, 1);
    }
    for (size_t i = 0; i < n; i++)
        ret_timings[i].seconds =
            predicted(device, &ret_timings[i]) * (1 + noise * (2 * chance() - 1));
    return n;
}

static DtDevice machine(void)
{
    DtDevice device = dt_device_new("machine");
    device.is_gpu = false;
    device.units = 1;
    device.flops[DT_COST_F32] = 110e9;
    device.flops[DT_COST_F16] = 210e9;
    device.memory_rate = 30e9;
    device.at[DT_COST_product].value = 0.9;
    device.at[DT_COST_product_memory].value = 0.7;
    device.at[DT_COST_product_launch].value = 3e-6;
    device.at[DT_COST_memory].value = 0.5;
    device.at[DT_COST_arithmetic].value = 0.3;
    device.at[DT_COST_special].value = 25;
    device.at[DT_COST_launch].value = 1e-6;
    return device;
}

static double worst_error(const DtDevice *made_by, const DtDevice *fitted)
{
    const DtTiming other[] = {product(768, 3072, 512, DT_COST_F32),
                              product(50, 700, 300, DT_COST_F16),
                              product(4096, 64, 64, DT_COST_F32), kernel(1e6, 9, 0.5),
                              kernel(5e3, 4, 2)};
    double worst = 0;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        worst = fmax(worst, fabs(predicted(fitted, &other[i]) / predicted(made_by, &other[i]) - 1));
    return worst;
}

Test(calibrate, constants_come_back)
{
    const DtDevice made_by = machine();
    DtDevice device = dt_device_new("fitted");
    DtTiming timings[64];
    DtCalibration c;
    device.is_gpu = false;
    cr_assert(dt_calibrate(&device, timings, times(&made_by, timings, 0), 2e-5, &c));
    cr_expect(c.products == 21 && c.kernels == 21);
    cr_expect(c.product_off < 1e-6 && c.kernel_off < 1e-6, "%g %g", c.product_off, c.kernel_off);
    cr_expect(worst_error(&made_by, &device) < 1e-6, "%g", worst_error(&made_by, &device));
    cr_expect_float_eq(device.at[DT_COST_special].value, 25, 1e-3);
    cr_expect_float_eq(device.at[DT_COST_launch].value, 1e-6, 1e-10);
    cr_expect_eq(device.at[DT_COST_step].value, 2e-5);
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        cr_expect(strncmp(dt_cost_constants[i].unit, "of ", 3) || device.at[i].value <= 1 + 1e-9,
                  "%s", dt_cost_constants[i].name);
}

Test(calibrate, noise_is_averaged_and_shown)
{
    const DtDevice made_by = machine();
    DtDevice device = dt_device_new("fitted");
    DtTiming timings[64];
    DtCalibration c;
    device.is_gpu = false;
    cr_assert(dt_calibrate(&device, timings, times(&made_by, timings, 0.1), 2e-5, &c));
    cr_expect(c.product_off > 0.02 && c.product_off < 0.1);
    cr_expect(worst_error(&made_by, &device) < 0.08, "%g", worst_error(&made_by, &device));
    cr_expect_float_eq(device.at[DT_COST_memory].within, c.kernel_off, 1e-12);
}

/* Half of the times are twice as long, the other half are half as long, so the constants stay the
 * same. Timings with weight 0 do not count. */
Test(calibrate, errors_are_those_of_logarithms)
{
    const DtDevice made_by = machine();
    DtDevice device = dt_device_new("fitted");
    DtTiming timings[192];
    DtCalibration c;
    device.is_gpu = false;
    const size_t n = times(&made_by, timings, 0);
    for (size_t i = 0; i < n; i++) {
        timings[n + i] = timings[2 * n + i] = timings[i];
        timings[i].seconds *= 2;
        timings[n + i].seconds /= 2;
        timings[2 * n + i].seconds *= 100;
        timings[2 * n + i].weight = 1e-12;
    }
    cr_assert(dt_calibrate(&device, timings, 3 * n, 2e-5, &c));
    cr_expect(worst_error(&made_by, &device) < 1e-6, "%g", worst_error(&made_by, &device));
    cr_expect_float_eq(c.product_off, log(2), 1e-3);
}

Test(calibrate, too_few_change_nothing)
{
    DtDevice device = dt_device_new("fitted");
    const DtTiming one[] = {product(64, 64, 64, DT_COST_F32), kernel(1000, 1, 0)};
    DtCalibration c;
    cr_expect_not(dt_calibrate(&device, one, 2, 1e-3, &c));
    cr_expect_eq(device.at[DT_COST_step].value, dt_cost_constants[DT_COST_step].value);
    cr_expect_eq(device.at[DT_COST_product].value, dt_cost_constants[DT_COST_product].value);
}

/* ---- a GPU ---- */

static DtGpuTiming gpu_product(int64_t m, int64_t n, int64_t k, DtCostDtype dtype)
{
    return (DtGpuTiming){.op = {.kind = DT_COST_OP_PRODUCT,
                                .product = {.m = m, .n = n, .k = k, .dtype = dtype,
                                            .result_bytes = 2}}};
}

static DtGpuTiming gpu_kernel(double elements, double flops, double special)
{
    return (DtGpuTiming){.op = {.kind = DT_COST_OP_KERNEL,
                                .kernel = {.bytes = 12 * elements, .flops = flops * elements,
                                           .special = special * elements}}};
}

static DtGpuTiming gpu_attention(int64_t heads, int64_t length, bool backward)
{
    return (DtGpuTiming){.op = {.kind = DT_COST_OP_ATTENTION,
                                .attention = {.batch = 1, .heads = heads, .kv_heads = heads,
                                              .head = 128, .queries = length, .keys = length,
                                              .visible = 0.5, .dtype = DT_COST_F16,
                                              .backward = backward}}};
}

/* The times that events on a GPU would measure: there the start of an operation takes 2 us. */
static size_t gpu_times(DtDevice device, DtGpuTiming ret_timings[96], double noise)
{
    size_t n = 0;
    device.at[DT_COST_launch].value = 2e-6;
    const DtCostModel model = {.device = &device};
    for (int64_t size = 128; size <= 8192; size *= 2) {
        ret_timings[n++] = gpu_product(size, size, size, DT_COST_F16);
        ret_timings[n++] = gpu_product(4096, 4 * size, size, DT_COST_F16);
        ret_timings[n++] = gpu_product(8192, size, 4 * size, DT_COST_F16);
        ret_timings[n++] = gpu_product(4 * size, size, size, DT_COST_F32);
        ret_timings[n++] = gpu_product(2048, size, size, DT_COST_F32);
        ret_timings[n++] = gpu_kernel((double)(size * size), 2, 0);
        ret_timings[n++] = gpu_kernel((double)(size * size), 300, 0);
        ret_timings[n++] = gpu_kernel((double)(size * size), 200, 20);
        ret_timings[n++] = gpu_attention(32, size, false);
        ret_timings[n++] = gpu_attention(32, size, true);
    }
    for (size_t i = 0; i < n; i++)
        ret_timings[i].seconds =
            dt_cost_op(&model, &ret_timings[i].op) * (1 + noise * (2 * chance() - 1));
    return n;
}

static DtDevice gpu(void)
{
    DtDevice device = dt_device_new("gpu");
    device.units = 132;
    device.flops[DT_COST_F32] = 67e12;
    device.flops[DT_COST_F16] = 989e12;
    device.memory_rate = 3350e9;
    return device;
}

static DtDevice other_gpu(void)
{
    DtDevice device = gpu();
    device.at[DT_COST_product].value = 0.68;
    device.at[DT_COST_wave].value = 2e-6;
    device.at[DT_COST_memory].value = 0.9;
    device.at[DT_COST_arithmetic].value = 0.31;
    device.at[DT_COST_special].value = 20;
    device.at[DT_COST_attention_forward].value = 0.72;
    device.at[DT_COST_attention_backward].value = 0.55;
    device.at[DT_COST_attention_half].value = 900;
    device.at[DT_COST_launch].value = 5e-6;
    return device;
}

/* 5 us for each operation, and 1 ms more. */
static const DtGpuStep small_steps[2] = {{1.3e-3, 60}, {1.8e-3, 160}};

static double gpu_worst(const DtDevice *made_by, const DtDevice *fitted)
{
    const DtGpuTiming other[] = {gpu_product(3072, 768, 1536, DT_COST_F16),
                                 gpu_product(16384, 5120, 1280, DT_COST_F16),
                                 gpu_product(1000, 3000, 2048, DT_COST_F32), gpu_kernel(5e7, 30, 1),
                                 gpu_kernel(3e6, 500, 9), gpu_kernel(100, 2, 0),
                                 gpu_attention(12, 3000, false), gpu_attention(48, 1500, true)};
    const DtCostModel is = {.device = fitted}, should = {.device = made_by};
    double worst = 0;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        worst = fmax(worst,
                     fabs(dt_cost_op(&is, &other[i].op) / dt_cost_op(&should, &other[i].op) - 1));
    return worst;
}

Test(calibrate_gpu, constants_come_back)
{
    const DtDevice made_by = other_gpu();
    DtDevice device = gpu();
    DtGpuTiming timings[96];
    DtGpuCalibration c;
    cr_assert(dt_calibrate_gpu(&device, timings, gpu_times(made_by, timings, 0), small_steps, &c));
    cr_expect(c.n[DT_COST_OP_PRODUCT] == 35 && c.n[DT_COST_OP_KERNEL] == 21 &&
              c.n[DT_COST_OP_ATTENTION] == 14);
    for (int k = 0; k < DT_COST_OPS; k++)
        cr_expect(c.off[k] < 2e-3, "%d: %g", k, c.off[k]);
    cr_expect_float_eq(c.start, 2e-6, 2e-9, "%g", c.start);
    cr_expect(gpu_worst(&made_by, &device) < 0.005, "%g", gpu_worst(&made_by, &device));
    cr_expect_float_eq(device.at[DT_COST_launch].value, 5e-6, 1e-12);
    cr_expect_float_eq(device.at[DT_COST_step].value, 1e-3, 1e-9);
    /* fitted constants are near the true ones, others unchanged */
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        cr_expect(fabs(device.at[i].value / made_by.at[i].value - 1) < 0.02 || i == DT_COST_step,
                  "%s: %g, not %g", dt_cost_constants[i].name, device.at[i].value,
                  made_by.at[i].value);
}

Test(calibrate_gpu, noise_is_averaged_and_shown)
{
    const DtDevice made_by = other_gpu();
    DtDevice device = gpu();
    DtGpuTiming timings[96];
    DtGpuCalibration c;
    cr_assert(
        dt_calibrate_gpu(&device, timings, gpu_times(made_by, timings, 0.1), small_steps, &c));
    for (int k = 0; k < DT_COST_OPS; k++)
        cr_expect(c.off[k] > 0.02 && c.off[k] < 0.1, "%d: %g", k, c.off[k]);
    cr_expect(gpu_worst(&made_by, &device) < 0.08, "%g", gpu_worst(&made_by, &device));
    cr_expect(device.at[DT_COST_product].within > 0.02);
    cr_expect_eq(device.at[DT_COST_link].within, dt_cost_constants[DT_COST_link].within);
}

/* Without a data sheet peaks are the highest measured rates; predicted times are the same. */
Test(calibrate_gpu, peaks_may_be_unknown)
{
    const DtDevice made_by = other_gpu();
    DtDevice device = gpu();
    DtGpuTiming timings[96];
    DtGpuCalibration c;
    device.flops[DT_COST_F16] = device.flops[DT_COST_F32] = 0;
    device.memory_rate = 1e12;
    cr_assert(dt_calibrate_gpu(&device, timings, gpu_times(made_by, timings, 0), small_steps, &c));
    const double peak = device.flops[DT_COST_F16];
    cr_expect(peak > 500e12 && peak < 989e12, "%g", peak);
    cr_expect(device.memory_rate > 2.9e12 && device.at[DT_COST_memory].value <= 1);
    cr_expect(gpu_worst(&made_by, &device) < 0.05, "%g", gpu_worst(&made_by, &device));
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        cr_expect(strncmp(dt_cost_constants[i].unit, "of ", 3) || device.at[i].value <= 1 + 1e-9,
                  "%s", dt_cost_constants[i].name);
}

Test(calibrate_gpu, too_few_change_nothing)
{
    DtDevice device = gpu();
    DtGpuTiming timings[96];
    DtGpuCalibration c;
    gpu_times(other_gpu(), timings, 0);
    cr_expect_not(dt_calibrate_gpu(&device, timings, 9, small_steps, &c));
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        cr_expect_eq(device.at[i].value, dt_cost_constants[i].value);
}
