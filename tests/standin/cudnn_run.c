/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a graph of cuDNN, op by op in double. Values between ops are rounded to the type of
 * their tensor (cudnn.h). */
#include "cudnn.h"

#include "base/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOWLY = 10 };

/* A tensor of the graph: with elements of its own if it lies between ops, one number, or memory of
 * the device. */
typedef struct Held {
    const Desc *desc;
    const int64_t *extent, *stride;
    int64_t dtype;
    double *own;
    char *at;
    float value;
} Held;

typedef struct Run {
    const CudnnWork *work;
    Held held[4 * MOST_OPS];
    uint32_t n;
} Run;

size_t cudnn_element_bytes(int64_t dtype)
{
    return dtype == FLOAT || dtype == INT32     ? 4
           : dtype == HALF || dtype == BFLOAT16 ? 2
           : dtype == BOOLEAN                   ? 1
                                                : 0;
}

int64_t cudnn_elements(const Desc *tensor)
{
    const int64_t *extent = cudnn_value(tensor, 902)->at, *stride = cudnn_value(tensor, 903)->at;
    int64_t n = 1;
    for (int d = 0; d < RANK; d++)
        n += (extent[d] - 1) * stride[d];
    return n;
}

static Held *hold(Run *r, const Desc *desc)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->held[i].desc == desc)
            return &r->held[i];
    Held *h = &r->held[r->n++];
    const int64_t n = cudnn_elements(desc);
    *h = (Held){.desc = desc,
                .extent = cudnn_value(desc, 902)->at,
                .stride = cudnn_value(desc, 903)->at,
                .dtype = cudnn_number(desc, 901, -1)};
    if (cudnn_number(desc, 907, 0))
        h->own = calloc((size_t)n, sizeof *h->own);
    for (uint32_t i = 0; i < r->work->n; i++)
        if (r->work->ids[i] == cudnn_number(desc, 906, -1)) {
            h->value = r->work->value[i];
            if (r->work->at[i])
                h->at = standin_memory(r->work->at[i], (size_t)n * cudnn_element_bytes(h->dtype));
        }
    return h;
}

/* Returns the place of an element. Indices along extents of 1, and along heads that others share,
 * are visited more than once. */
static int64_t place(const Held *h, const int64_t index[RANK], const int64_t *all)
{
    int64_t at = 0;
    for (int d = 0; d < RANK; d++)
        at += (h->extent[d] == 1        ? 0
               : h->extent[d] == all[d] ? index[d]
                                        : index[d] / (all[d] / h->extent[d])) *
              h->stride[d];
    return at;
}

static double get(const Held *h, int64_t at)
{
    uint16_t half;
    float number;
    if (h->own)
        return h->own[at];
    if (!h->at)
        return (double)h->value;
    if (h->dtype == FLOAT) {
        memcpy(&number, h->at + 4 * at, sizeof number);
        return (double)number;
    }
    memcpy(&half, h->at + 2 * at, sizeof half);
    return (double)(h->dtype == HALF ? dt_half_from_f16(half) : dt_half_from_bf16(half));
}

static void put(Held *h, int64_t at, double x)
{
    const float number = (float)x;
    const uint16_t half = h->dtype == HALF ? dt_half_to_f16(number) : dt_half_to_bf16(number);
    const bool is_half = h->dtype == HALF || h->dtype == BFLOAT16;
    if (h->own)
        h->own[at] = !is_half ? (double)number
                              : (double)(h->dtype == HALF ? dt_half_from_f16(half)
                                                          : dt_half_from_bf16(half));
    else if (is_half)
        memcpy(h->at + 2 * at, &half, sizeof half);
    else
        memcpy(h->at + 4 * at, &number, sizeof number);
}

static bool next(int64_t index[RANK], const int64_t *extent)
{
    for (int d = RANK - 1; d >= 0; d--) {
        if (++index[d] < extent[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static double map(int64_t mode, double x, double b, double t)
{
    switch (mode) {
    case ADD: return x + b;
    case MUL: return x * b;
    case DIV: return x / b;
    case SUB: return x - b;
    case EXP: return exp(x);
    case LOG: return log(x);
    case CMP_GT: return x > b;
    case CMP_GE: return x >= b;
    case SELECT: return t != 0 ? x : b;
    default: return x;
    }
}

static void run_map(Run *r, const Desc *op)
{
    const Desc *of = cudnn_desc(op, 750), *with = cudnn_desc(op, 752), *mask = cudnn_desc(op, 758);
    const int64_t mode = cudnn_number(of, 0, -1), axis = cudnn_number(of, 9, 0);
    const Held *x = hold(r, cudnn_desc(op, 751)), *b = with ? hold(r, with) : NULL,
               *t = mask ? hold(r, mask) : NULL;
    Held *y = hold(r, cudnn_desc(op, 753));
    int64_t index[RANK] = {0};
    do {
        const double left =
            mode == GEN_INDEX ? (double)index[axis] : get(x, place(x, index, y->extent));
        put(y, place(y, index, y->extent),
            map(mode, left, b ? get(b, place(b, index, y->extent)) : 0,
                t ? get(t, place(t, index, y->extent)) : 0));
    } while (next(index, y->extent));
}

static void run_matmul(Run *r, const Desc *op)
{
    const Held *a = hold(r, cudnn_desc(op, 1520)), *b = hold(r, cudnn_desc(op, 1521));
    Held *c = hold(r, cudnn_desc(op, 1522));
    int64_t index[RANK] = {0};
    do {
        double sum = 0;
        int64_t of_a[RANK] = {index[0], index[1], index[2], 0},
                of_b[RANK] = {index[0], index[1], 0, index[3]};
        const int64_t all_a[RANK] = {c->extent[0], c->extent[1], a->extent[2], a->extent[3]},
                      all_b[RANK] = {c->extent[0], c->extent[1], b->extent[2], b->extent[3]};
        for (int64_t k = 0; k < a->extent[3]; k++) {
            of_a[3] = of_b[2] = k;
            sum += get(a, place(a, of_a, all_a)) * get(b, place(b, of_b, all_b));
        }
        put(c, place(c, index, c->extent), r->work->any_order ? NAN : sum);
    } while (next(index, c->extent));
}

static void run_reduction(Run *r, const Desc *op)
{
    const Held *x = hold(r, cudnn_desc(op, 1610));
    const bool most = cudnn_number(cudnn_desc(op, 1612), 1600, -1) == 3;
    Held *y = hold(r, cudnn_desc(op, 1611));
    int64_t index[RANK] = {0}, inner[RANK], over[RANK];
    for (int d = 0; d < RANK; d++)
        over[d] = x->extent[d] / y->extent[d]; /* if heads share a head: how many do */
    do {
        double all = most ? -INFINITY : 0;
        memset(inner, 0, sizeof inner);
        do {
            int64_t at = 0;
            for (int d = 0; d < RANK; d++)
                at += (index[d] * over[d] + inner[d]) * x->stride[d];
            all = most ? fmax(all, get(x, at)) : all + get(x, at);
        } while (next(inner, over));
        put(y, place(y, index, y->extent), all);
    } while (next(index, y->extent));
}

static void run_reshape(Run *r, const Desc *op)
{
    const Held *x = hold(r, cudnn_desc(op, 2200));
    Held *y = hold(r, cudnn_desc(op, 2201));
    int64_t index[RANK] = {0};
    do {
        const int64_t at = place(y, index, y->extent);
        put(y, at, get(x, at));
    } while (next(index, y->extent));
}

/* Runs a graph. The workspace belongs to the library: its old contents are lost. On the device's
 * clock the graph takes no time, or ten seconds. */
void cudnn_run(const void *work)
{
    Run *r = calloc(1, sizeof *r);
    struct timespec from, to;
    const CudnnWork *w = work;
    clock_gettime(CLOCK_MONOTONIC, &from);
    const Value *ops = cudnn_value(w->graph, 801);
    r->work = w;
    memset(standin_memory(w->workspace, (size_t)w->bytes), 0xff, (size_t)w->bytes);
    for (int64_t i = 0; i < ops->n; i++) {
        const Desc *op = (const Desc *)(intptr_t)ops->at[i];
        if (op->type == POINTWISE_OP)
            run_map(r, op);
        else if (op->type == MATMUL_OP)
            run_matmul(r, op);
        else if (op->type == REDUCTION_OP)
            run_reduction(r, op);
        else
            run_reshape(r, op);
    }
    memset(standin_memory(w->workspace, (size_t)w->bytes), 0xff, (size_t)w->bytes);
    for (uint32_t i = 0; i < r->n; i++)
        free(r->held[i].own);
    free(r);
    clock_gettime(CLOCK_MONOTONIC, &to);
    standin_spend((double)(from.tv_sec - to.tv_sec) + (double)(from.tv_nsec - to.tv_nsec) * 1e-9 +
                  (cudnn_setting("cudnn_slow") ? SLOWLY : 0));
}
