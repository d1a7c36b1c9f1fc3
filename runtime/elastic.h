/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for fewer ranks, for a run that goes on without one that was lost (`--elastic`): made by
 * the dtc next to this program, `dtc recompile`, from the program in the plan. */
#ifndef DT_RUNTIME_ELASTIC_H
#define DT_RUNTIME_ELASTIC_H

#include "base/status.h"

#include <signal.h>
#include <stdint.h>

typedef struct DtElasticSizes {
    int64_t multiple, most; /* numbers of ranks that the program's layout can have */
} DtElasticSizes;

/* Asks dtc which sizes there are. signals: blocked signals that end the wait for dtc (then the
 * status has DT_EXIT_INTERRUPTED); NULL: none do. */
DtStatus dt_elastic_sizes(const char *plan, const sigset_t *signals, DtElasticSizes *ret_sizes);

/* Compiles the plan for as many ranks as possible, at least `least` and at most `most`. The new
 * plan is next to the old one: PLAN.6 for 6 ranks. */
DtStatus dt_elastic_compile(const char *plan, int64_t least, int64_t most, const sigset_t *signals,
                            char ret_path[4096], int64_t *ret_ranks);

#endif
