/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the hosts of a run share the folder of its checkpoints (same_folder.c). */
#ifndef DT_RUNTIME_SAME_FOLDER_H
#define DT_RUNTIME_SAME_FOLDER_H

#include "runtime/runtime.h"

/* Collective: whether every host sees the folder of the first host and can write there. If not,
 * rank 0 prints which one does not, and what that means. False after a failure. */
bool dt_samefolder_look(DtRank *rank, const char *folder, bool *ret_is_shared);

#endif
