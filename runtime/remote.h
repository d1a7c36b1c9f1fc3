/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun --hosts FILE [--shell CMD]: one command starts an agent on each host of a file, by ssh or
 * another command that runs a text in a shell of a host. */
#ifndef DT_RUNTIME_REMOTE_H
#define DT_RUNTIME_REMOTE_H

#include "runtime/run_options.h"

/* Starts the agents, hands on signals and lines, and returns the exit code of the run. argc, argv:
 * the command line, which the agents get without --hosts and --shell. */
int dt_remote_run(const DtRunOptions *options, int64_t n_ranks, int argc, char *const *argv);

/* In an agent that was started like that (--leash), without waiting: the number of a signal that
 * the starting program hands on; -1: that program has ended, or the connection to its host; 0:
 * nothing has come. */
int dt_remote_hear(void);
/* Whether the next dt_remote_hear will say something. */
bool dt_remote_has(void);

#endif
