/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a run reads the data of its checkpoint, and all machines the same (data_same.c). */
#ifndef DT_RUNTIME_DATA_SAME_H
#define DT_RUNTIME_DATA_SAME_H

#include "runtime/runtime.h"

/* Fails if the source differs from the one with these facts in a checkpoint; the message says in
 * which respect. Also fails if the checkpoint has no facts of such a source. */
DtStatus dt_datasame_check(const DtDataFact *saved, uint32_t n_saved, const DtDataFact *now,
                           const char *checkpoint);
/* Adds to the failure's message the option with which the run continues although the data
 * differ. */
DtStatus dt_datasame_refuse(const DtStatus *found);

/* Collective over all ranks, after readers are open: fills rank->facts on the first rank of each
 * machine, and compares them with those of the resumed checkpoint and of other machines. False:
 * another rank failed. */
bool dt_datasame_know(DtRank *rank, DtStatus *ret_status);

#endif
