/* SPDX-License-Identifier: Apache-2.0 */
/* The command line that continues a run (command.c). */
#ifndef DT_RUNTIME_COMMAND_H
#define DT_RUNTIME_COMMAND_H

#include "base/text.h"
#include "runtime/run_options.h"

/* Adds "dtrun PLAN .. --resume FOLDER" with each option of this run on which results depend, or
 * without which the run could not start. steps: the value of --steps; negative: the command has no
 * --steps. */
void dt_command_resume(const DtRunOptions *options, const char *folder, int64_t steps,
                       DtText *text);

/* Adds the options of the export that the run has not written yet. */
void dt_command_export(const DtRunOptions *options, DtText *text);

#endif
