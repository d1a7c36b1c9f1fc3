/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a loop in place: adds an operand or a stacked result, or removes unused ones. The body
 * must belong to this loop alone (dt_loops_own). Existing values keep their ids; new ones get
 * new ids. */
#ifndef DT_PASSES_LOOPS_H
#define DT_PASSES_LOOPS_H

#include "ir/ir.h"

/* A copy of func, and of the bodies of its loops. */
DtFunc *dt_loops_copy_func(DtFunc *func);

/* Gives every loop of the module a body of its own. */
void dt_loops_own(DtModule *module);

/* stacked: the type outside of a loop for a type inside: with the loop axis first. slice: the
 * inverse. */
const DtType *dt_loops_stacked(const DtLoop *loop, const DtType *type);
const DtType *dt_loops_slice(const DtType *stacked);

/* The body's input for `outside`, a value of the function with the loop: whole, or one slice per
 * iteration. An existing input, or a new one. */
DtValue *dt_loops_take(DtOp *loop, DtValue *outside, bool is_stacked, const char *name);

/* The stacked result of the loop in func that carries `inside`, a value of the body, out of it:
 * an existing one, or a new one. The value must not have an axis with the name of the loop's. */
DtValue *dt_loops_hand_out(DtFunc *func, DtOp *loop, DtValue *inside);

/* Removes dead ops, unused stacked results, and operands that the body does not use, in func and
 * the bodies of its loops. Renumbers. */
void dt_loops_prune(DtFunc *func);

#endif
