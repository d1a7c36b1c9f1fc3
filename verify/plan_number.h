/* SPDX-License-Identifier: Apache-2.0 */
/* Residues with which the plan certificate compares ops with a record (plan_epilogue.c,
 * plan_attend.c); they are drawn anew for each plan (residue.h). An unknown number equals
 * nothing, and whatever is computed from it is unknown. */
#ifndef DT_VERIFY_PLAN_NUMBER_H
#define DT_VERIFY_PLAN_NUMBER_H

#include "verify/plan_internal.h"
#include "verify/residue.h"

extern const DtResidue dt_plannumber_unknown;

/* Chooses the residues; NULL after a message: the system gives no random numbers. */
DtResidues *dt_plannumber_begin(PlanWalk *walk);
/* Sums, products, quotients, negation, exp, tanh, stop; everything else is unknown. y: the
 * second operand, if there are two. */
DtResidue dt_plannumber_map(const DtResidues *r, const char *kind, DtResidue x, DtResidue y);
/* Whether both are known and finite, and equal. */
bool dt_plannumber_same(DtResidue x, DtResidue y);
/* Whether the ops contain so few products that results have a degree below 2^32. */
bool dt_plannumber_is_low(const CertOp *const *ops, uint32_t n);
bool dt_plannumber_is_real(const char *dtype);

#endif
