/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a run writes (outputs.c). */
#ifndef DT_RUNTIME_OUTPUTS_H
#define DT_RUNTIME_OUTPUTS_H

#include "base/status.h"
#include "runtime/run_options.h"

enum { DT_OUTPUT_FOLDER, DT_OUTPUT_LOG, DT_OUTPUTS };

typedef struct DtOutputs {
    int fds[DT_OUTPUTS]; /* descriptors that hold the locks, or -1 */
    bool made_log;
} DtOutputs;

/* Folder to which checkpoints are written; NULL: none are written. */
const char *dt_outputs_folder(const DtRunOptions *options);

/* Creates and locks folder and log. Errors: another run has locked them; or they have contents of
 * another run and neither --resume nor --overwrite is given (DT_EXIT_USAGE). Removes nothing. */
DtStatus dt_outputs_hold(const DtRunOptions *options, DtOutputs *ret_outputs);
/* Removes the checkpoints that --overwrite allows to remove. Called by rank 0 when everything else
 * that the run needs has been opened. */
DtStatus dt_outputs_overwrite(const DtRunOptions *options);
void dt_outputs_release(DtOutputs *outputs);

#endif
