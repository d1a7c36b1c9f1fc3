/* SPDX-License-Identifier: Apache-2.0 */
/* The command line that continues a run (command.c). */
#ifndef DT_RUNTIME_COMMAND_H
#define DT_RUNTIME_COMMAND_H

#include "runtime/runtime.h"

/* Adds "dtrun PLAN .. --resume FOLDER" with each option of this run that decides the numbers or
 * whether the run can start. steps: the value of --steps; negative: without --steps. */
void dt_command_resume(const DtRunOptions *options, const char *folder, int64_t steps,
                       DtText *text);

#endif
