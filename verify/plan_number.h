/* SPDX-License-Identifier: Apache-2.0 */
/* Residues with which the plan certificate compares ops with a record (plan_epilogue.c,
 * plan_attend.c); they are drawn anew for each plan (residue.h). An unknown number equals
 * nothing, and whatever is computed from it is unknown. */
#ifndef DT_VERIFY_PLAN_NUMBER_H
#define DT_VERIFY_PLAN_NUMBER_H

#include "verify/plan_internal.h"
#include "verify/residue.h"

extern const DtResidue dt_plannumber_unknown;

/* Chooses the residues once per plan (walk->numbers). NULL after a message: the system gives no
 * random numbers. */
DtResidues *dt_plannumber_begin(PlanWalk *walk);
/* Returns what an op of this kind makes of x and, if it has two operands, y: for sums, products,
 * quotients, negation, exp, tanh and stop. Everything else is unknown. */
DtResidue dt_plannumber_map(const DtResidues *r, const char *kind, DtResidue x, DtResidue y);
/* Whether both numbers are known, finite and equal. */
bool dt_plannumber_same(DtResidue x, DtResidue y);
/* Whether the ops contain so few products that their results are polynomials of a degree below
 * 2^32. */
bool dt_plannumber_is_low(const CertOp *const *ops, uint32_t n);
bool dt_plannumber_is_real(const char *dtype);

#endif
