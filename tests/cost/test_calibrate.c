/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of a processor from times: those that made the times come back, and times that were not among them. */
#include "cost/calibrate.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>

static uint64_t state = 88172645463325252u;

static double chance(void) /* 0..1, the same in every run */
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
    return (DtTiming){.kernel = {.bytes = 12 * elements, .flops = flops * elements, .special = special * elements}};
}

static double predicted(const DtDevice *device, const DtTiming *t)
{
    const DtCostModel model = {.device = device};
    return t->is_product ? dt_cost_product(&model, t->product) : dt_cost_kernel(&model, t->kernel);
}

/* What a machine with known constants would have measured, off by up to `noise`. */
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
        ret_timings[i].seconds = predicted(device, &ret_timings[i]) * (1 + noise * (2 * chance() - 1));
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
    const DtTiming other[] = {product(768, 3072, 512, DT_COST_F32), product(50, 700, 300, DT_COST_F16),
                              product(4096, 64, 64, DT_COST_F32),   kernel(1e6, 9, 0.5), kernel(5e3, 4, 2)};
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
        cr_expect(strncmp(dt_cost_constants[i].unit, "of ", 3) || device.at[i].value <= 1 + 1e-9, "%s",
                  dt_cost_constants[i].name);
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

Test(calibrate, too_few_change_nothing)
{
    DtDevice device = dt_device_new("fitted");
    const DtTiming one[] = {product(64, 64, 64, DT_COST_F32), kernel(1000, 1, 0)};
    DtCalibration c;
    cr_expect_not(dt_calibrate(&device, one, 2, 1e-3, &c));
    cr_expect_eq(device.at[DT_COST_step].value, dt_cost_constants[DT_COST_step].value);
    cr_expect_eq(device.at[DT_COST_product].value, dt_cost_constants[DT_COST_product].value);
}
