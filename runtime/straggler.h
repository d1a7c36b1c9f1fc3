/* SPDX-License-Identifier: Apache-2.0 */
/* Finds ranks that compute more slowly than others do (straggler.c). */
#ifndef DT_RUNTIME_STRAGGLER_H
#define DT_RUNTIME_STRAGGLER_H

#include "runtime/runtime.h"

typedef struct DtStragglers DtStragglers;

/* Called when training begins. NULL: nothing is measured, since there is one rank, or instructions
 * of the device end later than their functions return. */
DtStragglers *dt_straggler_new(DtRank *rank);
/* Collective; after each step, which took so many seconds. Appends a line to ret_said for each rank
 * that has become slow. False after a failure. */
bool dt_straggler_step(DtStragglers *stragglers, double seconds, DtText *ret_said);

/* Nanoseconds in which the rank's main thread could have run but had no processor. 0 before
 * dt_straggler_new, and where the kernel does not count them. */
uint64_t dt_straggler_delay(const DtRank *rank);
/* The rank's wait for others, which its slot shows, is over after a sleep; before: the delay before
 * that sleep. */
void dt_straggler_woken(const DtRank *rank, DtSlot *slot, uint64_t before);
/* The rank begins to compute, and ends, since it exchanges or reads then: adds to rank->delayed_ns
 * the delay in between. */
void dt_straggler_begin(DtRank *rank);
void dt_straggler_end(DtRank *rank);

/* The rule, for tests: windows of `n_ranks` ranks in turn. own: seconds that each rank computed in
 * the window; team: ranks with equal numbers do the same work; steps and seconds of the window.
 * Sets ret_named for the ranks that this window makes slow. least_s: seconds of the run in which a
 * rank must have been slow. */
typedef struct DtStragglerRule DtStragglerRule;
DtStragglerRule *dt_straggler_rule(DtArena *memory, uint32_t n_ranks, const uint32_t *team,
                                   double least_s);
/* dt_straggler_closes: whether that is long enough for a window. */
bool dt_straggler_closes(DtStragglerRule *rule, const double *own);
void dt_straggler_window(DtStragglerRule *rule, const double *own, int64_t steps, double seconds,
                         bool *ret_named);
/* Seconds that the run has lost to that rank in the windows since it is slow, of how many, and how
 * many times as long as wanted it has computed in them. */
double dt_straggler_lost(const DtStragglerRule *rule, uint32_t rank, double *ret_of,
                         double *ret_factor);

#endif
