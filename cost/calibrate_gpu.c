/* SPDX-License-Identifier: Apache-2.0 */
/* Fits a GPU's constants. Times there are no sums: memory traffic overlaps with operations, and
 * products come in waves of tiles. So the model's own functions are fitted, one constant after
 * the other: each is searched by golden section on its logarithm for the least mean square of
 * log(model / measured), the others fixed, until a round changes nothing.
 *
 * Events around an operation measure its run time and a part of its start, but not the gap to
 * the next one, which `launch` stands for. So `launch` is what events see while the others are
 * fitted, and then what one more operation adds to a step without events. */
#include "cost/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 8, ROUNDS = 60, SECTIONS = 48 };
/* a relative change of the error that counts as none */
static const double GOLDEN = 0.61803398874989484820, NOTHING = 1e-3;

/* An unknown: a number of the device, and the range to search. */
typedef struct Unknown {
    double *value, lo, hi;
    DtCostEstimate *constant; /* NULL: it is a peak */
    bool changed;
} Unknown;

static Unknown constant(DtDevice *device, DtCostConstantId id, double lo, double hi)
{
    return (Unknown){.value = &device->at[id].value, .lo = lo, .hi = hi,
                     .constant = &device->at[id]};
}

/* The timings to which an unknown is fitted. */
typedef struct Sample {
    const DtGpuTiming *at;
    size_t n;
    bool (*has)(const DtCostOp *op);
} Sample;

static bool is_kernel(const DtCostOp *op) { return op->kind == DT_COST_OP_KERNEL; }
static bool is_product(const DtCostOp *op) { return op->kind == DT_COST_OP_PRODUCT; }
static bool is_half(const DtCostOp *op)
{
    return is_product(op) && op->product.dtype == DT_COST_F16;
}
static bool is_single(const DtCostOp *op)
{
    return is_product(op) && op->product.dtype == DT_COST_F32;
}
static bool is_attention(const DtCostOp *op)
{
    return op->kind == DT_COST_OP_ATTENTION && op->attention.dtype == DT_COST_F16;
}
static bool is_forward(const DtCostOp *op) { return is_attention(op) && !op->attention.backward; }
static bool is_backward(const DtCostOp *op) { return is_attention(op) && op->attention.backward; }

static bool is_of(const Sample *sample, size_t i)
{
    return sample->at[i].seconds > 0 && sample->has(&sample->at[i].op);
}

static size_t count(const Sample *sample)
{
    size_t n = 0;
    for (size_t i = 0; i < sample->n; i++)
        n += is_of(sample, i);
    return n;
}

/* Returns the mean square of log(model / measured) over the timings. */
static double error_of(const DtDevice *device, const Sample *sample)
{
    const DtCostModel model = {.device = device};
    double sum = 0;
    for (size_t i = 0; i < sample->n; i++)
        if (is_of(sample, i)) {
            const double off = log(dt_cost_op(&model, &sample->at[i].op) / sample->at[i].seconds);
            sum += off * off;
        }
    return sum / (double)count(sample);
}

static double error_at(const DtDevice *device, const Sample *sample, const Unknown *unknown,
                       double logarithm)
{
    *unknown->value = exp(logarithm);
    return error_of(device, sample);
}

/* Sets the unknown to the number where the error is least. False: leaves it unchanged, since
 * nothing is better. */
static bool improve(const DtDevice *device, const Sample *sample, const Unknown *unknown)
{
    const double before = *unknown->value, error = error_of(device, sample);
    double lo = log(unknown->lo), hi = log(unknown->hi);
    double a = hi - GOLDEN * (hi - lo), b = lo + GOLDEN * (hi - lo);
    double at_a = error_at(device, sample, unknown, a), at_b = error_at(device, sample, unknown, b);
    for (int i = 0; i < SECTIONS; i++)
        if (at_a <= at_b) {
            hi = b, b = a, at_b = at_a;
            a = hi - GOLDEN * (hi - lo);
            at_a = error_at(device, sample, unknown, a);
        } else {
            lo = a, a = b, at_a = at_b;
            b = lo + GOLDEN * (hi - lo);
            at_b = error_at(device, sample, unknown, b);
        }
    if (error_at(device, sample, unknown, (lo + hi) / 2) < error * (1 - NOTHING))
        return true;
    *unknown->value = before;
    return false;
}

/* Returns the value with four digits: measurements are not more precise. */
static double rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    return strtod(text, NULL);
}

static void fit(const DtDevice *device, const Sample *sample, Unknown *unknowns, size_t n)
{
    for (int round = 0, more = 1; round < ROUNDS && more; round++) {
        more = 0;
        for (size_t i = 0; i < n; i++)
            if (improve(device, sample, &unknowns[i]))
                more = unknowns[i].changed = true;
    }
    for (size_t i = 0; i < n; i++)
        *unknowns[i].value = unknowns[i].changed ? rounded(*unknowns[i].value) : *unknowns[i].value;
    const double off = sqrt(error_of(device, sample)), timings = (double)count(sample),
                 free = timings - (double)n;
    for (size_t i = 0; i < n; i++)
        if (unknowns[i].changed && unknowns[i].constant) {
            if (free > 0) /* too few timings to estimate the error */
                unknowns[i].constant->within = fmax(off * sqrt(timings / free), 0.01);
            unknowns[i].constant->source = "measured on this machine";
        }
}

static void fit_kernels(DtDevice *device, const Sample *kernels)
{
    Unknown unknowns[] = {constant(device, DT_COST_launch, 1e-8, 1),
                          constant(device, DT_COST_memory, 1e-4, 10),
                          constant(device, DT_COST_arithmetic, 1e-4, 1),
                          constant(device, DT_COST_special, 1, 200)};
    fit(device, kernels, unknowns, sizeof unknowns / sizeof *unknowns);
    const double reached = device->at[DT_COST_memory].value;
    if (reached > 1) { /* a peak is at least what was measured */
        device->memory_rate = rounded(device->memory_rate * reached);
        device->at[DT_COST_memory].value = 1;
    }
}

/* Sets a peak that no data sheet gives to the highest rate that a product reaches. */
static void find_peak(double *peak, const Sample *sample)
{
    const bool known = *peak > 0;
    for (size_t i = 0; i < sample->n && !known; i++)
        if (is_of(sample, i)) {
            const DtCostProduct *op = &sample->at[i].op.product;
            const double batch = (double)(op->batch > 0 ? op->batch : 1);
            const double work = 2 * (double)op->m * (double)op->n * (double)op->k * batch;
            *peak = fmax(*peak, rounded(work / sample->at[i].seconds));
        }
}

/* Fits one constant for products of all dtypes, from those of 16 bits. An f32 peak that no data
 * sheet gives follows from it. */
static void fit_products(DtDevice *device, const Sample *half, const Sample *single,
                         bool knows_single)
{
    const bool has_half = count(half) >= LEAST;
    const DtCostDtype dtype = has_half ? DT_COST_F16 : DT_COST_F32;
    Unknown unknowns[] = {constant(device, DT_COST_product, 1e-3, 4),
                          constant(device, DT_COST_wave, 1e-8, 1e-1)};
    fit(device, has_half ? half : single, unknowns, sizeof unknowns / sizeof *unknowns);
    const double reached = device->at[DT_COST_product].value;
    if (reached > 1) {
        device->flops[dtype] = rounded(device->flops[dtype] * reached);
        device->at[DT_COST_product].value = 1;
    }
    Unknown peak = {.value = &device->flops[DT_COST_F32], .lo = device->flops[DT_COST_F32],
                    .hi = 4 * device->flops[DT_COST_F32]};
    if (has_half && !knows_single && count(single) >= LEAST)
        fit(device, single, &peak, 1);
}

static bool has_lengths(const Sample *sample)
{
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = 0; i < sample->n; i++)
        if (is_of(sample, i)) {
            const int64_t keys = sample->at[i].op.attention.keys;
            least = keys < least ? keys : least;
            most = keys > most ? keys : most;
        }
    return most > least;
}

/* Fits the constants of attention. One constant, how rates grow with the number of keys, serves
 * both directions. */
static void fit_attention(DtDevice *device, const Sample *forward, const Sample *backward)
{
    Unknown unknowns[] = {constant(device, DT_COST_attention_forward, 1e-4, 1),
                          constant(device, DT_COST_attention_half, 1, 1e5)};
    Unknown back = constant(device, DT_COST_attention_backward, 1e-4, 1);
    if (count(forward))
        fit(device, forward, unknowns, has_lengths(forward) ? 2 : 1);
    if (count(backward))
        fit(device, backward, &back, 1);
}

/* Sets `launch` to the time that one more operation adds to a step, and the fixed time of a step
 * without operations. */
static void set_launch(DtDevice *device, const DtGpuStep steps[2])
{
    static const char source[] = "measured on this machine, one rank, small steps";
    const double more = steps[1].operations - steps[0].operations;
    const double launch = more > 0 ? (steps[1].seconds - steps[0].seconds) / more : 0;
    const double rest = steps[0].seconds - launch * steps[0].operations;
    if (launch > 0)
        device->at[DT_COST_launch] = (DtCostEstimate){rounded(launch), 0.2, source};
    if (launch > 0 && rest > 0)
        device->at[DT_COST_step] = (DtCostEstimate){rounded(rest), 0.5, source};
}

bool dt_calibrate_gpu(DtDevice *device, const DtGpuTiming *timings, size_t n,
                      const DtGpuStep steps[2], DtGpuCalibration *ret_calibration)
{
    const Sample of[DT_COST_OPS] = {[DT_COST_OP_PRODUCT] = {timings, n, is_product},
                                    [DT_COST_OP_KERNEL] = {timings, n, is_kernel},
                                    [DT_COST_OP_ATTENTION] = {timings, n, is_attention}};
    const Sample half = {timings, n, is_half}, single = {timings, n, is_single};
    const Sample forward = {timings, n, is_forward}, backward = {timings, n, is_backward};
    const bool knows_single = device->flops[DT_COST_F32] > 0;
    DtGpuCalibration *c = ret_calibration;
    *c = (DtGpuCalibration){0};
    for (int k = 0; k < DT_COST_OPS; k++)
        c->n[k] = count(&of[k]);
    if (c->n[DT_COST_OP_KERNEL] < LEAST || (count(&half) < LEAST && count(&single) < LEAST))
        return false;
    find_peak(&device->flops[DT_COST_F32], &single);
    find_peak(&device->flops[DT_COST_F16], &half);
    if (device->flops[DT_COST_F32] <= 0) /* no product of f32 was measured; below, the rate of
                                          * kernels is used */
        device->flops[DT_COST_F32] = device->flops[DT_COST_F16];
    fit_kernels(device, &of[DT_COST_OP_KERNEL]);
    fit_products(device, &half, &single, knows_single);
    fit_attention(device, &forward, &backward);
    for (int k = 0; k < DT_COST_OPS; k++)
        c->off[k] = c->n[k] ? sqrt(error_of(device, &of[k])) : 0;
    c->start = device->at[DT_COST_launch].value;
    set_launch(device, steps);
    return true;
}
