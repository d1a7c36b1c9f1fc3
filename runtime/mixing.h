/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that train parameters of their own (mixing.c). */
#ifndef DT_RUNTIME_MIXING_H
#define DT_RUNTIME_MIXING_H

#include "runtime/rank.h"

/* Called after each step, the present one being number rank->step: replicas exchange parameters, if
 * the step's number is a multiple of the plan's. */
bool dt_mixing_step(DtRank *rank);
/* Sets averages, which evaluations, checkpoints and exports read, to those of the replicas, if a
 * step has changed these since. Nothing in runs that do not train. */
bool dt_mixing_average(DtRank *rank);
/* A run that begins: all replicas begin with what the averages begin with. */
bool dt_mixing_begin(DtRank *rank);

#endif
