/* SPDX-License-Identifier: Apache-2.0 */
/* Who started this process, and how many others of the same run: srun, mpirun, torchrun and their
 * like leave that in the environment (launch.c). Such a process is a task. A run has a task for
 * each rank of its plan, or one for each host. The first task of a host starts the ranks there, as
 * `dtrun --nodes` does; the others wait for it (tasks.c). */
#ifndef DT_RUNTIME_LAUNCH_H
#define DT_RUNTIME_LAUNCH_H

#include "base/status.h"
#include "runtime/run_options.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtLaunch {
    const char *by;         /* whose variables count: "Slurm"; NULL: this process is the run */
    const char *rank_name;  /* variable that differs between the tasks: "SLURM_PROCID" */
    int64_t task, tasks;    /* number of this one, and how many there are */
    int64_t here, on_host;  /* the same on this host */
    int64_t host, hosts;
    char meet[300];         /* address of the first host, "node1:23456"; "": not known */
} DtLaunch;

/* Reads the environment. The innermost launcher counts: RANK and WORLD_SIZE (torchrun, or set by
 * hand), then MPI's (Open MPI, PMI of MPICH and others), then Slurm's for a step, since the script
 * of a batch job has some of them, too. wish: "local", "env", "mpi", "slurm", or NULL. Fails with
 * DT_EXIT_USAGE, and quotes the variables, if they contradict each other. */
DtStatus dt_launch_find(const char *wish, DtLaunch *ret_launch);

/* Whether the tasks fit a plan of n_ranks ranks. Sets nodes, node and meet of the options if there
 * are several hosts. */
DtStatus dt_launch_apply(const DtLaunch *launch, int64_t n_ranks, DtRunOptions *options);

#endif
