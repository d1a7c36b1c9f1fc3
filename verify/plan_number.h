/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by which the plan certificate compares what ops compute with what a record says (plan_epilogue.c,
 * plan_attend.c). NAN: nothing is known; it is near to no number, and what is made of it is not known either. */
#ifndef DT_VERIFY_PLAN_NUMBER_H
#define DT_VERIFY_PLAN_NUMBER_H

#include <math.h>
#include <stdbool.h>

/* The larger one. fmax would leave NAN out. */
static inline double dt_plannumber_most(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

/* size: beside which a difference counts. */
static inline bool dt_plannumber_near(double got, double want, double size)
{
    return fabs(got - want) <= 1e-6 * size;
}

#endif
