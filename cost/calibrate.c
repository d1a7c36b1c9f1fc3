/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares of a processor's constants. A processor's times are sums, so the unknowns are
 * seconds for each operation, byte, special function and call. None may be negative: every subset
 * of the four is tried with the others fixed at 0. The fit minimises squares of log(predicted /
 * measured), for which twice as long is as wrong as half as long; squares of plain relative errors
 * would favour predictions that are too short. Linear least squares are solved again and again,
 * each time with the error divided by a scale from the last solution that makes its derivatives
 * those of the logarithm, until the solution no longer changes. */
#include "cost/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWNS = 4, LEAST_TIMINGS = 8, ROUNDS = 40 };
static const double FREE = 1e6; /* a bandwidth so many times the usual one: bytes that cost
                                 * nothing */

/* One equation t = sum of x[i] of[i], with x[i] >= 0. scale: what its error is divided by; weight:
 * of the square of that */
typedef struct Equation { double of[UNKNOWNS], t, scale, weight; } Equation;
typedef struct Solution { double x[UNKNOWNS], off; } Solution;

/* Solves n equations by Gaussian elimination; the solution replaces the last column. False: the
 * equations are not independent. */
static bool eliminate(double a[UNKNOWNS][UNKNOWNS + 1], int n)
{
    for (int c = 0; c < n; c++) {
        int best = c;
        for (int r = c + 1; r < n; r++)
            if (fabs(a[r][c]) > fabs(a[best][c]))
                best = r;
        if (fabs(a[best][c]) < 1e-12)
            return false;
        for (int j = 0; j <= n; j++) {
            const double kept = a[c][j];
            a[c][j] = a[best][j];
            a[best][j] = kept;
        }
        for (int r = 0; r < n; r++)
            for (int j = n; r != c && j >= c; j--)
                a[r][j] -= a[r][c] / a[c][c] * a[c][j];
    }
    for (int c = 0; c < n; c++)
        a[c][n] /= a[c][c];
    return true;
}

static double predicted(const Equation *e, const double x[UNKNOWNS])
{
    double t = 0;
    for (int k = 0; k < UNKNOWNS; k++)
        t += x[k] * e->of[k];
    return t;
}

static double error_of(const Equation *e, size_t n, const double x[UNKNOWNS])
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double off = (predicted(&e[i], x) - e[i].t) / e[i].scale;
        sum += e[i].weight * off * off;
    }
    return sum;
}

/* Returns the root mean square of the logarithms of predicted to measured times, with the
 * equations' weights. */
static double spread_of(const Equation *e, size_t n, const double x[UNKNOWNS])
{
    double sum = 0, weights = 0;
    for (size_t i = 0; i < n; i++) {
        const double off = log(fmax(predicted(&e[i], x) / e[i].t, 1e-3));
        sum += e[i].weight * off * off;
        weights += e[i].weight;
    }
    return sqrt(sum / weights);
}

/* Solves for the unknowns in the bit set `free` by least squares, with the others 0. False: there
 * are none, or one would be negative. */
static bool solve_some(const Equation *e, size_t n, const double scale[UNKNOWNS], unsigned free,
                       double ret_x[UNKNOWNS])
{
    double a[UNKNOWNS][UNKNOWNS + 1];
    int of[UNKNOWNS], m = 0;
    memset(ret_x, 0, UNKNOWNS * sizeof *ret_x);
    memset(a, 0, sizeof a);
    for (int k = 0; k < UNKNOWNS; k++)
        if (free >> k & 1)
            of[m++] = k;
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < m; r++) {
            const double left =
                e[i].weight * e[i].of[of[r]] * scale[of[r]] / (e[i].scale * e[i].scale);
            for (int c = 0; c < m; c++)
                a[r][c] += left * e[i].of[of[c]] * scale[of[c]];
            a[r][m] += left * e[i].t;
        }
    if (!eliminate(a, m))
        return false;
    for (int r = 0; r < m; r++) {
        if (a[r][m] < 0)
            return false;
        ret_x[of[r]] = a[r][m] * scale[of[r]];
    }
    return true;
}

static Solution solve_once(const Equation *e, size_t n, const double scale[UNKNOWNS])
{
    Solution best = {.off = HUGE_VAL};
    double x[UNKNOWNS];
    for (unsigned free = 1; free < 1u << UNKNOWNS; free++) {
        if (!solve_some(e, n, scale, free, x))
            continue;
        const double off = error_of(e, n, x);
        if (off < best.off) {
            memcpy(best.x, x, sizeof x);
            best.off = off;
        }
    }
    return best;
}

static double logarithmic_mean(double a, double b)
{
    return fabs(a / b - 1) < 1e-6 ? a : (a - b) / log(a / b);
}

static Solution solve(Equation *e, size_t n)
{
    Solution best = {.off = HUGE_VAL};
    double scale[UNKNOWNS];
    for (int k = 0; k < UNKNOWNS; k++) { /* scales the unknowns to about 1 */
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += e[i].of[k] / e[i].t;
        scale[k] = sum > 0 ? (double)n / sum : 0;
    }
    for (size_t i = 0; i < n; i++)
        e[i].scale = e[i].t;
    for (int round = 0; round < ROUNDS; round++) {
        best = solve_once(e, n, scale);
        for (size_t i = 0; i < n; i++) {
            const double p = fmax(predicted(&e[i], best.x), e[i].t / 100);
            e[i].scale = sqrt(p * logarithmic_mean(p, e[i].t));
        }
    }
    best.off = spread_of(e, n, best.x);
    return best;
}

static double weight_of(const DtTiming *timing) { return timing->weight > 0 ? timing->weight : 1; }

/* ---- products ---- */

static double operations(const DtCostProduct *op)
{
    return 2.0 * (double)op->m * (double)op->n * (double)op->k *
           (double)(op->batch > 0 ? op->batch : 1);
}

static int dtype_of(const DtCostProduct *op) { return op->dtype == DT_COST_F16 ? 1 : 0; }

static double at_least(double value, double least) { return value > least ? value : least; }

static void set(DtDevice *device, DtCostConstantId id, double value, double within)
{
    device->at[id] = (DtCostEstimate){value, at_least(within, 0.01), "measured on this machine"};
}

/* Fits the constants of products. Unknowns: seconds for each f32 operation, 16-bit operation, byte,
 * call. False: the timings do not determine them. */
static bool fit_products(DtDevice *device, const DtTiming *timings, size_t n, DtCalibration *c)
{
    Equation *e = calloc(n, sizeof *e);
    double best[2] = {0};
    for (size_t i = 0; i < n; i++) {
        const DtTiming *t = &timings[i];
        if (!t->is_product || t->seconds <= 0 || operations(&t->product) <= 0)
            continue;
        Equation *row = &e[c->products++];
        *row = (Equation){.t = t->seconds, .weight = weight_of(t),
                          .of = {[2] = dt_cost_product_copies(t->product), [3] = 1}};
        row->of[dtype_of(&t->product)] = operations(&t->product);
        best[dtype_of(&t->product)] =
            fmax(best[dtype_of(&t->product)], operations(&t->product) / t->seconds);
    }
    const bool enough = c->products >= LEAST_TIMINGS;
    const Solution s = enough ? solve(e, c->products) : (Solution){0};
    free(e);
    if (!enough)
        return false;
    static const DtCostDtype dtypes[2] = {DT_COST_F32, DT_COST_F16};
    double reached = 0;
    /* calls of both dtypes share one constant, from which the second peak follows */
    for (int k = 0; k < 2; k++) {
        const double rate = s.x[k] > 0 ? fmin(1 / s.x[k], 4 * best[k]) : best[k];
        if (best[k] <= 0)
            continue;
        device->flops[dtypes[k]] = reached > 0 ? rate / reached : fmax(rate, best[k]);
        reached = reached > 0 ? reached : rate / device->flops[dtypes[k]];
    }
    set(device, DT_COST_product, reached, s.off);
    set(device, DT_COST_product_memory, fmin(1 / (s.x[2] * device->memory_rate), FREE), s.off);
    set(device, DT_COST_product_launch, s.x[3], s.off);
    c->product_off = s.off;
    return true;
}

/* ---- kernels ---- */

/* Fits the constants of kernels. Unknowns: seconds for each byte, operation, special function,
 * call. False: the timings do not determine them. */
static bool fit_kernels(DtDevice *device, const DtTiming *timings, size_t n, DtCalibration *c)
{
    Equation *e = calloc(n, sizeof *e);
    const double peak = device->flops[DT_COST_F32];
    for (size_t i = 0; i < n; i++) {
        const DtCostKernel *op = &timings[i].kernel;
        if (timings[i].is_product || timings[i].seconds <= 0)
            continue;
        e[c->kernels++] = (Equation){.t = timings[i].seconds, .weight = weight_of(&timings[i]),
                                     .of = {dt_cost_kernel_bytes(device, op->bytes), op->flops,
                                            op->special, 1}};
    }
    const bool enough = c->kernels >= LEAST_TIMINGS;
    const Solution s = enough ? solve(e, c->kernels) : (Solution){0};
    free(e);
    if (!enough)
        return false;
    const double before = device->memory_rate;
    /* the fitted peak is raised to the highest measured rate */
    device->memory_rate = at_least(fmin(1 / s.x[0], FREE * before), before);
    device->at[DT_COST_product_memory].value *= before / device->memory_rate;
    set(device, DT_COST_memory, fmin(1 / (s.x[0] * device->memory_rate), 1), s.off);
    const double operation = at_least(s.x[1], 1 / peak);
    set(device, DT_COST_arithmetic, 1 / (operation * peak), s.off);
    set(device, DT_COST_special, s.x[2] / operation, s.off);
    set(device, DT_COST_launch, s.x[3], s.off);
    c->kernel_off = s.off;
    return true;
}

bool dt_calibrate(DtDevice *device, const DtTiming *timings, size_t n, double beside,
                  DtCalibration *ret_calibration)
{
    *ret_calibration = (DtCalibration){0};
    /* the fitted bandwidth is raised to the highest measured one */
    device->memory_rate = at_least(device->memory_rate, 1e9);
    const bool products = fit_products(device, timings, n, ret_calibration);
    const bool good = fit_kernels(device, timings, n, ret_calibration) || products;
    if (good)
        set(device, DT_COST_step, at_least(beside, 1e-7), 0.5);
    return good;
}

/* ---- as text ---- */

/* Appends the number with as many digits as are needed to read the same number back. */
static void print_number(DtText *text, const char *name, double number, const char *unit)
{
    if (number <= 0)
        return;
    dt_text_printf(text, "  %s = ", name);
    dt_text_double(text, number);
    dt_text_printf(text, "%s\n", unit);
}

static void print_string(DtText *text, const char *name, const char *string)
{
    if (!string)
        return;
    dt_text_printf(text, "  %s = \"", name);
    for (; *string; string++)
        dt_text_printf(text, "%s%c", *string == '"' || *string == '\\' ? "\\" : "", *string);
    dt_text_add(text, "\"\n");
}

static void print_link(DtText *text, const char *name, DtCostLink link)
{
    if (link.bytes_per_second <= 0)
        return;
    dt_text_printf(text, "  %s = link(", name);
    dt_text_double(text, link.bytes_per_second / 1e9);
    dt_text_add(text, "GB/s, ");
    dt_text_double(text, link.seconds * 1e6);
    dt_text_add(text, "us)\n");
}

static void print_constant(DtText *text, DtCostConstantId id, DtCostEstimate estimate)
{
    const DtCostConstant *row = &dt_cost_constants[id];
    const bool time = !strcmp(row->unit, "s");
    if (estimate.value == row->value && !estimate.source)
        return;
    dt_text_printf(text, "  %s = about(", row->name);
    dt_text_double(text, time ? estimate.value * 1e6 : estimate.value);
    dt_text_printf(text, "%s, within = %.2g", time ? "us" : "", fmin(estimate.within, 1));
    if (estimate.source)
        dt_text_printf(text, ", source = \"%s\"", estimate.source);
    dt_text_add(text, ")\n");
}

void dt_device_print(const DtDevice *device, DtText *ret_text)
{
    dt_text_printf(ret_text, "device \"%s\" {\n", device->name);
    print_string(ret_text, "description", device->description);
    print_string(ret_text, "source", device->source);
    dt_text_printf(ret_text, "  gpu = %s\n  units = %.0f\n", device->is_gpu ? "true" : "false",
                   device->units);
    print_number(ret_text, "peak_f32", device->flops[DT_COST_F32] / 1e9, "GFLOP/s");
    print_number(ret_text, "peak_tf32", device->flops[DT_COST_TF32] / 1e9, "GFLOP/s");
    print_number(ret_text, "peak_f16", device->flops[DT_COST_F16] / 1e9, "GFLOP/s");
    print_number(ret_text, "peak_f8", device->flops[DT_COST_F8] / 1e9, "GFLOP/s");
    print_number(ret_text, "capacity", device->memory_bytes, "B");
    print_number(ret_text, "bandwidth", device->memory_rate / 1e9, "GB/s");
    print_number(ret_text, "cache", device->l2_bytes, "B");
    print_link(ret_text, "intra", device->link);
    print_link(ret_text, "inter", device->nic);
    print_number(ret_text, "host", device->host_rate / 1e9, "GB/s");
    dt_text_printf(ret_text, "  node = %lld\n", (long long)device->node);
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        print_constant(ret_text, (DtCostConstantId)i, device->at[i]);
    dt_text_add(ret_text, "}\n");
}
