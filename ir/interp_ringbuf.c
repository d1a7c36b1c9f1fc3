/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: functions that run under a condition, elements that a counter selects, and ring
 * buffers. The tensor of a ring buffer has its front slot first. A value in a slot has each element
 * at the first of that element's bytes. Places that were never written are NaN. */
#include "ir/interp_eval.h"

#include <math.h>
#include <string.h>

bool dt_interp_applies(const DtOp *op, const DtTensor *counter)
{
    const DtRange *range = op->ranges;
    return !range ||
           (counter->at[0] >= (double)range->lo && counter->at[0] < (double)(range->lo + range->n));
}

void dt_eval_when(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    if (dt_interp_applies(op, in[0]))
        dt_interp_run(interp, op->func, in, out);
    else
        memcpy(out, in + 1, op->n_out * sizeof *out);
}

void dt_eval_turn(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)op, (void)in;
    out[0]->at[0] = (double)interp->turn;
}

void dt_eval_at(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtRange *range = op->ranges;
    const int64_t element = range->lo + (op->n_in == 2 ? range->step * (int64_t)in[1]->at[0] : 0);
    const int64_t n = dt_type_elements(out[0]->type);
    if (element < 0 || element >= in[0]->type->axes[0].extent)
        dt_interp_fail(interp, op, "element %lld of %lld", (long long)element,
                       (long long)in[0]->type->axes[0].extent);
    memcpy(out[0]->at, in[0]->at + element * n, sizeof(double) * (size_t)n);
}

/* ---- ring buffers ---- */

static int64_t slots_of(const DtType *ringbuf) { return ringbuf->axes[0].extent; }
static int64_t bytes_of(const DtType *ringbuf)
{
    return dt_type_elements(ringbuf) / slots_of(ringbuf);
}

void dt_eval_ringbuf(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)interp, (void)op, (void)in;
    for (int64_t i = 0; i < dt_type_elements(out[0]->type); i++)
        out[0]->at[i] = NAN;
}

void dt_eval_ringbuf_put(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)interp;
    const int64_t size = (int64_t)dt_dtype_size(in[1]->type->dtype),
                  n = dt_type_elements(in[1]->type);
    memcpy(out[0]->at, in[0]->at, sizeof(double) * (size_t)dt_type_elements(in[0]->type));
    double *to = out[0]->at + (int64_t)op->number;
    for (int64_t i = 0; i < n * size; i++)
        to[i] = i % size ? NAN : in[1]->at[i / size];
}

void dt_eval_ringbuf_get(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)interp;
    const int64_t size = (int64_t)dt_dtype_size(out[0]->type->dtype);
    const double *from = in[0]->at + (int64_t)op->number;
    for (int64_t i = 0; i < dt_type_elements(out[0]->type); i++)
        out[0]->at[i] = from[i * size];
}

void dt_eval_ringbuf_turn(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)interp, (void)op;
    const int64_t bytes = bytes_of(in[0]->type), rest = bytes * (slots_of(in[0]->type) - 1);
    memcpy(out[0]->at, in[0]->at + bytes, sizeof(double) * (size_t)rest);
    memcpy(out[0]->at + rest, in[0]->at, sizeof(double) * (size_t)bytes);
}

/* The interpreter has no memory layout and no time, so `start`, `done` and `copy` return their
 * operand. */
void dt_eval_same(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)interp, (void)op;
    memcpy(out[0]->at, in[0]->at, sizeof(double) * (size_t)dt_type_elements(out[0]->type));
}
