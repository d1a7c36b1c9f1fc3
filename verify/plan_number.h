/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by which the plan certificate compares what ops compute with what a record says (plan_epilogue.c,
 * plan_attend.c): residues that are drawn anew for each plan (residue.h). What is unknown is equal to nothing, and what
 * is made of it is not known either. */
#ifndef DT_VERIFY_PLAN_NUMBER_H
#define DT_VERIFY_PLAN_NUMBER_H

#include "verify/plan_internal.h"
#include "verify/residue.h"

extern const DtResidue dt_plannumber_unknown;

/* Those of the plan; NULL after a message: the system gives no random numbers. */
DtResidues *dt_plannumber_begin(PlanWalk *walk);
/* Sums, products, quotients, negation, exp, tanh, stop; anything else is unknown. y: of two operands the second. */
DtResidue dt_plannumber_map(const DtResidues *r, const char *kind, DtResidue x, DtResidue y);
/* Neither is unknown or infinite, and they are equal. */
bool dt_plannumber_same(DtResidue x, DtResidue y);
/* Whether products among the ops are so few that what they make is of a degree below 2^32. */
bool dt_plannumber_is_low(const CertOp *const *ops, uint32_t n);
bool dt_plannumber_is_real(const char *dtype);

#endif
