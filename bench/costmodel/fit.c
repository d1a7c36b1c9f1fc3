/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares fit of the constants. It minimises the squared logarithms of predicted over
 * measured time, where the weight of each source follows from its spread, and for each constant the
 * distance from its previously known value, weighted by its uncertainty. Gauss-Newton with damping;
 * derivatives by differences. */
#include "bench/costmodel/costmodel.h"

#include <math.h>
#include <string.h>

/* The values known before any of these rows are used: from data sheets, measurements of single
 * products, published charts of attention, NCCL tests on such machines. */
#define BOTH(id, also) DT_COST_##id, DT_COST_##also
#define ONE(id) DT_COST_##id, DT_COST_##id
const Fitted fitted[] = {
    {NULL, ONE(product), 0.84, 0.05},
    {NULL, ONE(wave), 2e-6, 0.5},
    {NULL, ONE(small), 0.75, 0.2},
    {NULL, ONE(memory), 0.80, 0.08},
    {NULL, ONE(launch), 3e-6, 0.5},
    {NULL, BOTH(fa2_forward, attention_forward), 0.60, 0.15}, /* an A100 has no better kernel */
    {NULL, BOTH(fa2_backward, attention_backward), 0.50, 0.2},
    {NULL, ONE(link), 0.78, 0.1},
    {NULL, ONE(link_start), 20e-6, 0.5},
    {NULL, ONE(net), 0.80, 0.15},
    {NULL, ONE(net_start), 30e-6, 0.5},
    {NULL, ONE(hop), 2e-6, 0.5},
    {NULL, ONE(message), 0.75, 0.3},
    {NULL, ONE(message_start), 50e-6, 0.5},
    {NULL, ONE(share), 0.15, 0.5},
    {NULL, ONE(stack_step), 50e-3, 0.5},
    {NULL, ONE(jitter), 1e-3, 1.0},
    /* the 700 W version reaches 0.70, 0.36 and 0.33 of its peak; power grows with the square of the
     * clock, or faster */
    {"h100-500w", ONE(product), 0.60, 0.2},
    {"h100-500w", ONE(fa2_forward), 0.31, 0.15},
    {"h100-500w", ONE(fa2_backward), 0.28, 0.2},
};
const size_t n_fitted = DT_COUNT(fitted);

enum { MOST_ROWS = 160, STEPS_OF_FIT = 8 };

/* The relative error of a row of each source that no constants can explain: it was measured once,
 * with one software. */
static const double spread[SOURCES] = {[SC21] = 0.03, [RECOMPUTE] = 0.03, [LAYER] = 0.015,
                                       [ZERO_BUBBLE] = 0.045, [TITAN_A100] = 0.05,
                                       [TITAN_H100] = 0.05};

/* ---- devices ---- */

static bool overrides(const DtDevice *device, DtCostConstantId id)
{
    for (size_t i = 0; i < n_fitted; i++)
        if (fitted[i].id == id && fitted[i].device && !strcmp(fitted[i].device, device->name))
            return true;
    return device->at[id].source != NULL;
}

static void set(Known *known, const Fitted *f, double value, double within)
{
    for (size_t i = 0; i < known->n_devices; i++) {
        DtDevice *device = &known->devices[i];
        if (f->device ? strcmp(f->device, device->name) : overrides(device, f->id))
            continue;
        for (int both = 0; both < 2; both++) {
            DtCostEstimate *estimate = &device->at[both ? f->also : f->id];
            if (both && f->also != f->id && estimate->source)
                continue;
            estimate->value = value;
            if (within > 0)
                estimate->within = within;
        }
    }
}

DtCostEstimate fitted_value(const Known *known, const Fitted *f)
{
    for (size_t i = 0; i < known->n_devices; i++)
        if (!strcmp(known->devices[i].name, f->device ? f->device : "a100-80g"))
            return known->devices[i].at[f->id];
    return (DtCostEstimate){0};
}

Setting setting_of(const Known *known, const Row *row, Without without)
{
    Setting s = {.row = row, .without = without};
    for (size_t i = 0; i < known->n_devices; i++)
        if (!strcmp(known->devices[i].name, row->device))
            s.model.device = &known->devices[i];
    for (size_t i = 0; i < known->n_stacks; i++)
        if (!strcmp(known->stacks[i]->name, row->stack))
            s.model.stack = known->stacks[i];
    s.model.ranks_per_node = 8;
    s.model.nodes = (row->gpus + 7) / 8;
    return s;
}

/* ---- the system ---- */

typedef struct System {
    Known *known;
    const Row *row[MOST_ROWS];
    uint32_t n;
    Without without;
    size_t n_unknown;
} System;

static void residuals(const System *y, const double *logs, double *ret_r)
{
    for (size_t k = 0; k < n_fitted; k++)
        set(y->known, &fitted[k], exp(logs[k]), 0);
    for (uint32_t i = 0; i < y->n; i++) {
        const Setting s = setting_of(y->known, y->row[i], y->without);
        const Time t = step_of(&s);
        ret_r[i] = log(time_total(t) / y->row[i]->measured) / spread[y->row[i]->source];
    }
    for (size_t k = 0; k < n_fitted; k++)
        ret_r[y->n + k] = (logs[k] - log(fitted[k].prior)) / fitted[k].within;
}

static double square(const double *r, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += r[i] * r[i];
    return sum;
}

/* Inverts a symmetric positive matrix of n rows in place (Gauss-Jordan). */
static void invert(double *a, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        const double pivot = a[c * n + c];
        a[c * n + c] = 1;
        for (size_t j = 0; j < n; j++)
            a[c * n + j] /= pivot;
        for (size_t i = 0; i < n; i++) {
            const double factor = a[i * n + c];
            if (i == c)
                continue;
            a[i * n + c] = 0;
            for (size_t j = 0; j < n; j++)
                a[i * n + j] -= factor * a[c * n + j];
        }
    }
}

void fit_constants(Known *known, Rows rows, Source left_out, Without without)
{
    enum { N = DT_COUNT(fitted), M = MOST_ROWS + N };
    static double jacobian[M][N];
    System y = {.known = known, .without = without};
    double x[N], r[M], near[M], next[N], covariance[N * N];
    for (uint32_t i = 0; i < rows.n && y.n < MOST_ROWS; i++)
        if (rows.at[i].source != left_out && (int)rows.at[i].source < FITTED_SOURCES)
            y.row[y.n++] = &rows.at[i];
    const size_t m = y.n + N;
    for (size_t k = 0; k < N; k++)
        x[k] = log(fitted[k].prior);
    residuals(&y, x, r);
    for (int step = 0; step < STEPS_OF_FIT; step++) {
        double gradient[N] = {0};
        for (size_t k = 0; k < N; k++) {
            const double h = 1e-3, kept = x[k];
            x[k] = kept + h;
            residuals(&y, x, near);
            x[k] = kept;
            for (size_t i = 0; i < m; i++)
                jacobian[i][k] = (near[i] - r[i]) / h;
        }
        for (size_t a = 0; a < N; a++)
            for (size_t b = 0; b < N; b++) {
                double sum = 0;
                for (size_t i = 0; i < m; i++)
                    sum += jacobian[i][a] * jacobian[i][b];
                covariance[a * N + b] = sum;
            }
        invert(covariance, N);
        for (size_t a = 0; a < N; a++)
            for (size_t i = 0; i < m; i++)
                gradient[a] += jacobian[i][a] * r[i];
        const double before = square(r, m);
        for (double length = 1; length > 0.05; length /= 2) {
            for (size_t a = 0; a < N; a++) {
                double move = 0;
                for (size_t b = 0; b < N; b++)
                    move += covariance[a * N + b] * gradient[b];
                next[a] = x[a] - length * move;
            }
            residuals(&y, next, near);
            if (square(near, m) < before)
                break;
        }
        if (!(square(near, m) < before))
            break;
        memcpy(x, next, sizeof x);
        memcpy(r, near, sizeof r);
        if (before - square(r, m) < 1e-3 * before)
            break;
    }
    for (size_t k = 0; k < N; k++)
        set(known, &fitted[k], exp(x[k]), sqrt(covariance[k * N + k]));
}
