/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a loop in place: one more operand, one more stacked result, none that nobody uses. The body must
 * belong to this loop alone (dt_loops_own). Values that exist keep their ids; new ones get new ids. */
#ifndef DT_PASSES_LOOPS_H
#define DT_PASSES_LOOPS_H

#include "ir/ir.h"

/* A copy of func, and of the bodies of its loops. */
DtFunc *dt_loops_copy_func(DtFunc *func);

/* From now on no two loops of the module share a body. */
void dt_loops_own(DtModule *module);

/* The type outside of what is type inside: the loop axis comes first. The other way round. */
const DtType *dt_loops_stacked(const DtLoop *loop, const DtType *type);
const DtType *dt_loops_slice(const DtType *stacked);

/* The input of the body by which it gets `outside` (of the function where the loop stands) whole, or one
 * slice per iteration: the one that there is, or a new one. */
DtValue *dt_loops_take(DtOp *loop, DtValue *outside, bool is_stacked, const char *name);

/* The stacked result of the loop, which stands in func, that hands over `inside` of the body: the one that
 * there is, or a new one. The value must not have an axis called like the loop's. */
DtValue *dt_loops_hand_out(DtFunc *func, DtOp *loop, DtValue *inside);

/* Removes dead ops, stacked results that nobody uses, and operands that the body does not use, in func and
 * the bodies of its loops. Renumbers. */
void dt_loops_prune(DtFunc *func);

#endif
