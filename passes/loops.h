/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a loop in place: adds an operand or a stacked result, or removes unused ones. The body
 * must belong to this loop alone (dt_loops_own). Existing values keep their ids; new ones get
 * new ids. */
#ifndef DT_PASSES_LOOPS_H
#define DT_PASSES_LOOPS_H

#include "ir/ir.h"

/* Returns a copy of func, in which loops have copies of their bodies. */
DtFunc *dt_loops_copy_func(DtFunc *func);

/* Gives every loop of the module a body of its own. */
void dt_loops_own(DtModule *module);

/* dt_loops_stacked: the type of a value of the body as it is outside of the loop, with the loop's
 * axis in front. dt_loops_slice: the inverse. */
const DtType *dt_loops_stacked(const DtLoop *loop, const DtType *type);
const DtType *dt_loops_slice(const DtType *stacked);

/* The input of the body for `outside`, a value of the function that contains the loop; stacked: the
 * body gets one slice per iteration. Reuses an existing input if there is one. */
DtValue *dt_loops_take(DtOp *loop, DtValue *outside, bool is_stacked, const char *name);

/* The stacked result of the loop in func that carries `inside`, a value of the body, out of it:
 * an existing one, or a new one. The value must not have an axis with the name of the loop's. */
DtValue *dt_loops_hand_out(DtFunc *func, DtOp *loop, DtValue *inside);

/* Removes dead ops, unused stacked results, and operands that the body does not use, in func and
 * the bodies of its loops. Renumbers. */
void dt_loops_prune(DtFunc *func);

#endif
