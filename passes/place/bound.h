/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of bound values, set by inlining for placement: see bound.c. */
#ifndef DT_PASSES_BOUND_H
#define DT_PASSES_BOUND_H

#include "passes/passes.h"

/* Whether placement must know of this call's arguments and results. */
bool dt_bound_is_wanted(const DtPassContext *context, const DtOp *call);

/* "wq:linear"; "attend" if the call has no label, "" for the body of a loop. Interned. */
const char *dt_bound_place(const DtOp *call);

/* Whether operand i is an argument (or a cotangent of a result), and result i a result (or a
 * cotangent of an argument). */
bool dt_bound_input(const DtOp *call, uint32_t i);
bool dt_bound_result(const DtOp *call, uint32_t i);

/* x with the mark of the call, as a new op at the end of func. */
DtValue *dt_bound_value(DtFunc *func, const DtOp *call, DtValue *x);

#endif
