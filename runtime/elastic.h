/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for other numbers of ranks, for a run that goes on without hosts or ranks that were lost
 * (`--elastic`): made by the dtc next to this program, `dtc recompile`, from the program in the
 * plan. The plan for 6 ranks is PLAN.6. */
#ifndef DT_RUNTIME_ELASTIC_H
#define DT_RUNTIME_ELASTIC_H

#include "base/status.h"

#include <signal.h>
#include <stdint.h>

typedef struct DtElasticSizes {
    int64_t multiple, most; /* numbers of ranks that the program's layout can have */
} DtElasticSizes;

/* Asks dtc which sizes there are, and waits for the answer. */
DtStatus dt_elastic_sizes(const char *plan, DtElasticSizes *ret_sizes);

/* The plans that this process has had made. One dtc runs at a time, and nobody waits for it. */
typedef struct DtElastic DtElastic;
typedef enum DtElasticState { DT_ELASTIC_BUSY, DT_ELASTIC_READY, DT_ELASTIC_FAILED } DtElasticState;

/* plan: the path of the one for `most` ranks, the most that any has. NULL: no memory. */
DtElastic *dt_elastic_open(const char *plan, uint32_t most);
/* Ends dtc, if it runs. */
void dt_elastic_close(DtElastic *elastic);
void dt_elastic_path(const DtElastic *elastic, uint32_t ranks, char ret_path[4096]);
/* Whether this process has the plan for so many ranks; if not, begins to make it, or goes on. Call
 * it again while it is BUSY. is_ahead: nobody needs the plan now, so dtc has the lowest priority
 * (nice 19), and does not take the place of one that makes another plan. ret_why: after FAILED. */
DtElasticState dt_elastic_get(DtElastic *elastic, uint32_t ranks, bool is_ahead,
                              DtStatus *ret_why);
/* The digest of a plan that is READY. */
uint64_t dt_elastic_digest(const DtElastic *elastic, uint32_t ranks);
/* The file is another one now, or gone: it is made again. */
void dt_elastic_forget(DtElastic *elastic, uint32_t ranks);

#endif
