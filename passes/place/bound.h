/* SPDX-License-Identifier: Apache-2.0 */
/* Marks that inlining leaves for placement, so that `shard` lines can name the arguments and
 * results of a call that is gone: see bound.c. */
#ifndef DT_PASSES_BOUND_H
#define DT_PASSES_BOUND_H

#include "passes/passes.h"

/* Whether arguments and results of this call are marked with `bind` ops, since lines may name them
 * in placement. */
bool dt_bound_is_wanted(const DtPassContext *context, const DtOp *call);

/* Returns the name of the call in `shard` lines: "wq:linear"; "attend" if the call has no label, ""
 * for the body of a loop. The text is interned. */
const char *dt_bound_place(const DtOp *call);

/* dt_bound_input: whether operand i is an argument of the call, or a cotangent of a result.
 * dt_bound_result: whether result i is a result of the function, or a cotangent of an argument. */
bool dt_bound_input(const DtOp *call, uint32_t i);
bool dt_bound_result(const DtOp *call, uint32_t i);

/* Appends to func a `bind` op, which marks x as an argument or result of the call; returns its
 * result. */
DtValue *dt_bound_value(DtFunc *func, const DtOp *call, DtValue *x);

#endif
