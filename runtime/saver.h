/* SPDX-License-Identifier: Apache-2.0 */
/* Saves a checkpoint while training goes on (saver.c). */
#ifndef DT_RUNTIME_SAVER_H
#define DT_RUNTIME_SAVER_H

#include "runtime/runtime.h"

/* Collective over all ranks, before a run that saves: prepares the memory for a copy of the state,
 * which all ranks share. rank->saver stays NULL if there is too little of it, or if ranks are on
 * several nodes: then rank 0 saves in the plain way (save.c). False after a failure. */
bool dt_saver_open(DtRank *rank);
/* Ends a save that is not finished; its checkpoint does not appear. */
void dt_saver_close(DtRank *rank);

/* Collective, after dt_saver_finish of the save before: copies the state, and begins to write it.
 * False: the run ends. */
bool dt_saver_begin(DtRank *rank, const char *folder, int64_t steps);
/* Whether the save has ended. ret_status: as dt_checkpoint_finish returns it. */
bool dt_saver_is_over(DtRank *rank, DtStatus *ret_status);
/* Waits until it has. False: the run ends. */
bool dt_saver_finish(DtRank *rank, DtStatus *ret_status);

#endif
