/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a run reads the data of its checkpoint, and all machines the same (data_same.c). */
#ifndef DT_RUNTIME_DATA_SAME_H
#define DT_RUNTIME_DATA_SAME_H

#include "runtime/runtime.h"

/* Fails if the source is another one than a checkpoint with these facts knows; the message says in
 * which respect. A source that it does not know is none. */
DtStatus dt_datasame_check(const DtDataFact *saved, uint32_t n_saved, const DtDataFact *now,
                           const char *checkpoint);
/* Adds to the failure the option with which the run continues in spite of it. */
DtStatus dt_datasame_refuse(const DtStatus *found);

/* Collective over all ranks, after readers are open: fills rank->facts on the first rank of each
 * machine, and compares them with those of the resumed checkpoint and of other machines. False:
 * another rank failed. */
bool dt_datasame_know(DtRank *rank, DtStatus *ret_status);

#endif
