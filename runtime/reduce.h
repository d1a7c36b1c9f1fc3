/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise reduction of several buffers in a fixed order, and conversion of floats
 * (reduce.c). */
#ifndef DT_RUNTIME_REDUCE_H
#define DT_RUNTIME_REDUCE_H

#include "plan/kinds.h"

#include <stdbool.h>

/* Whether this file can reduce the dtype: all except u16. */
bool dt_reduce_knows(DtPlanDtype dtype);

/* to[i] = from[0][i] + from[1][i] + ... (or maximum, minimum) over n >= 1 buffers in their order,
 * for count elements. 16-bit floats are added in f32 and rounded once. The maximum or minimum with
 * a NaN is NaN; the sum of bools is `or`; integer sums wrap. The buffers are aligned for dtype;
 * `to` overlaps none of them. */
void dt_reduce_buffers(DtPlanDtype dtype, DtPlanReduce reduce, void *to, const void *const *from,
                       uint32_t n, int64_t count);

/* The same sum in parts, each computed by another rank: 16-bit floats travel between them as f32,
 * so the bits are those of dt_reduce_buffers. dt_reduce_wide is the dtype of a part;
 * dt_reduce_go_on adds n >= 1 buffers to the part `acc`, or begins it; dt_reduce_round makes the
 * result of the last part. acc may be `to`. */
DtPlanDtype dt_reduce_wide(DtPlanDtype dtype);
void dt_reduce_go_on(DtPlanDtype dtype, DtPlanReduce reduce, void *acc, bool begins,
                     const void *const *from, uint32_t n, int64_t count);
void dt_reduce_round(DtPlanDtype dtype, void *to, const void *acc, int64_t count);

/* Converts `count` 16-bit floats of dtype to f32, exactly; and back, rounding to nearest. */
void dt_reduce_widen(DtPlanDtype dtype, float *to, const uint16_t *from, int64_t count);
void dt_reduce_narrow(DtPlanDtype dtype, uint16_t *to, const float *from, int64_t count);
/* Converts n floats of any dtype into another one. */
void dt_reduce_convert(void *to, DtPlanDtype to_dtype, const void *from, DtPlanDtype from_dtype,
                       int64_t n);

#endif
