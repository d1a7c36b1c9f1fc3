/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the interpreter share. Private to ir/interp*.c.
 *
 * A handler reads in[0 .. op->n_in) and fills out[0 .. op->n_out), tensors of zeros of the result
 * types (param, input and call replace them by tensors that exist already). */
#ifndef DT_IR_INTERP_EVAL_H
#define DT_IR_INTERP_EVAL_H

#include "ir/interp.h"
#include "ir/walk.h"

typedef void DtEval(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out);

/* interp.c */
DtEval dt_eval_param, dt_eval_input, dt_eval_constant, dt_eval_iota, dt_eval_rng;
/* interp_map.c */
DtEval dt_eval_map;
/* interp_axis.c */
DtEval dt_eval_relabel, dt_eval_slice, dt_eval_pad, dt_eval_concat, dt_eval_expand, dt_eval_terms,
    dt_eval_window, dt_eval_fold;
/* interp_contract.c */
DtEval dt_eval_dot, dt_eval_reduce, dt_eval_scan, dt_eval_topk;
/* interp_index.c */
DtEval dt_eval_gather, dt_eval_scatter_add;
/* interp_ringbuf.c */
DtEval dt_eval_when, dt_eval_turn, dt_eval_at, dt_eval_ringbuf, dt_eval_ringbuf_put,
    dt_eval_ringbuf_get, dt_eval_ringbuf_turn, dt_eval_same;
/* interp_pack.c */
DtEval dt_eval_pack, dt_eval_unpack;
/* interp_struct.c */
DtEval dt_eval_call, dt_eval_loop, dt_eval_update, dt_eval_comm, dt_eval_partner;

/* Runs one op by its handler: fills out[0 .. n_out), rounded if the interpreter rounds. */
DtEval dt_interp_op;

/* The key of an `rng` op's random numbers at the current position. */
uint64_t dt_interp_key(DtInterp *interp, const DtOp *op);

/* The instance path with a label appended; NULL and "" add nothing. */
const char *dt_interp_push(const DtInterp *interp, const char *label);

/* One iteration's slice of a stacked value, in the same memory, with type slice. */
DtTensor *dt_interp_slice(DtInterp *interp, const DtOp *loop, const DtTensor *whole,
                          const DtType *slice, int64_t iteration);

/* Whether a `when` runs its function for this value of its first operand. */
bool dt_interp_applies(const DtOp *op, const DtTensor *counter);

/* One element of a map with two operands of this dtype (interp_map.c). */
double dt_interp_binary(DtOpKind kind, DtDtype dtype, double x, double y);
/* The map by which a reduction combines two elements; by DtReduce. */
extern const DtOpKind dt_interp_combining[3];

/* A partial sum, rounded to f32 if noise is on, as generated code accumulates. */
static inline double dt_interp_partial(const DtInterp *interp, DtDtype dtype, double sum)
{
    return interp->noise && dt_dtype_is_float(dtype) ? (double)(float)sum : sum;
}

/* From here on: interp_walk.c. Aborts with the message, the op, its types and its span. Only for
 * broken invariants: a verified serial module never leads here. */
_Noreturn void dt_interp_fail(const DtInterp *interp, const DtOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The walk over the axes of type, then of more (NULL: none); aborts where extents differ. */
DtWalk dt_interp_walk(const DtInterp *interp, const DtOp *op, const DtType *type,
                      const DtType *more);

/* Strides of type along the walk. Every axis of type must be in the walk with its extent, except
 * those in `except`, which get stride 0. */
void dt_interp_strides(const DtInterp *interp, const DtOp *op, const DtWalk *walk,
                       const DtType *type, uint32_t n_except, const char *const *except,
                       int64_t ret_strides[DT_WALK_AXES]);

/* Fills tensor `to` with the elements of `from`, which has the same axes in any order, or lacks
 * some. */
void dt_interp_spread(const DtInterp *interp, const DtOp *op, const DtTensor *from, DtTensor *to);

/* Index of axis in type; aborts if it has no such axis. */
uint32_t dt_interp_axis(const DtInterp *interp, const DtOp *op, const DtType *type,
                        const char *axis);

#endif
