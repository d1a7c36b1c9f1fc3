/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a run writes (outputs.c). */
#ifndef DT_RUNTIME_OUTPUTS_H
#define DT_RUNTIME_OUTPUTS_H

#include "base/status.h"
#include "runtime/run_options.h"

enum { DT_OUTPUT_FOLDER, DT_OUTPUT_LOG, DT_OUTPUT_EXPORT, DT_OUTPUTS };

/* The folder of --export, and where it is while it is being written: in a folder beside it, whose
 * lock a run holds from its start to its end. */
typedef struct DtOutputsExport {
    char folder[4096], hold[4096], unfinished[4096];
} DtOutputsExport;

typedef struct DtOutputs {
    int fds[DT_OUTPUTS]; /* descriptors that hold the locks, or -1 */
    bool made_log, made_export;
    DtOutputsExport export;
} DtOutputs;

/* Folder to which checkpoints are written; NULL: none are written. */
const char *dt_outputs_folder(const DtRunOptions *options);

/* Whether the run continues in the folder from which it is resumed. */
bool dt_outputs_continues(const DtRunOptions *options);

/* The paths of an export. Fails if the folder is not empty, or cannot be replaced by another. */
DtStatus dt_outputs_export(const char *folder, DtOutputsExport *ret_export);

/* Creates and locks folder and log, and the folder next to that of an export. Errors: another run
 * has locked them; or they have contents of another run and neither --resume nor --overwrite is
 * given (DT_EXIT_USAGE). Removes nothing. */
DtStatus dt_outputs_hold(const DtRunOptions *options, DtOutputs *ret_outputs);
/* Removes the checkpoints that --overwrite allows to remove. Called by rank 0 when everything else
 * that the run needs has been opened. */
DtStatus dt_outputs_overwrite(const DtRunOptions *options);
/* Also removes an export that was not finished. */
void dt_outputs_release(DtOutputs *outputs);

#endif
