/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise reduction of several buffers in a fixed order (reduce.c). */
#ifndef DT_RUNTIME_REDUCE_H
#define DT_RUNTIME_REDUCE_H

#include "plan/kinds.h"

#include <stdbool.h>

/* Whether dt_reduce_block knows dtype: bool, u8, u32, i32, i64, f32 and f64. */
bool dt_reduce_knows(DtPlanDtype dtype);

/* into[i] = into[i] + from[i] (or maximum, minimum) for count elements. A NaN wins every comparison; the
 * sum of bools is `or`; integer sums wrap. The buffers are aligned for dtype and do not overlap. */
void dt_reduce_block(DtPlanDtype dtype, DtPlanReduce reduce, void *into, const void *from,
                     int64_t count);

#endif
